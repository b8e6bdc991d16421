//! Files of the project that changed beside the runs, and what was not looked at, as lines.

use crate::launch::project::Shared;

/// Most files that are named.
const FILES: usize = 5;
/// Most runs of one file that are named.
const RUNS: usize = 8;

/// One line a file: how it changed, and during which runs. `run` is the word for one of them.
pub fn lines(shared: &[Shared], run: &str) -> Vec<String> {
    let line = |s: &Shared| {
        let plural = if s.runs.len() == 1 { "" } else { "s" };
        let some: Vec<&str> = s.runs.iter().take(RUNS).map(String::as_str).collect();
        let more = if s.runs.len() > RUNS { format!(", ... ({} in all)", s.runs.len()) } else { String::new() };
        let (path, word) = (crate::artifact::printable(&s.path), s.how.word());
        format!(
            "{path} was {word} in the project during {run}{plural} {}{more}: runs can see each other through it",
            some.join(", ")
        )
    };
    let mut all: Vec<String> = shared.iter().take(FILES).map(line).collect();
    if shared.len() > FILES {
        all.push(format!("{} more files changed in the project (--json names all)", shared.len() - FILES));
    }
    all
}
