//! The Python that a command would get here, and whether the packages of trainers import in it.
//!
//! Each is tried in a process of its own, in an empty folder, within a time limit: one that crashes or hangs is told and
//! hurts nothing. What a package can do once it is imported is not looked at.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use crate::artifact::printable;
use crate::launch::command;
use crate::launch::process::End;
use crate::launch::surroundings::{Launch, find};

/// Packages that are tried: as they are called, as they are imported.
pub const PACKAGES: [(&str, &str); 3] = [("numpy", "numpy"), ("pytorch", "torch"), ("jax", "jax")];

/// How long one may take, in seconds; PyTorch from a cold disk takes a while.
pub const LIMIT: Duration = Duration::from_secs(60);

/// What stands before a version: whatever else a program prints is none.
const MARK: &str = "samebits-version";

/// What was found out about one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// as it is called
    pub name: &'static str,
    /// its version, if it works
    pub version: Option<String>,
    /// why it does not
    pub reason: Option<String>,
}

/// A Python and its packages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interpreter {
    /// the program
    pub path: PathBuf,
    /// Python itself, then its packages
    pub answers: Vec<Answer>,
}

/// The first `python3`, else `python`, along `PATH`.
pub fn path(here: &Path) -> Option<PathBuf> {
    ["python3", "python"].iter().find_map(|name| find(name, here))
}

/// Starts a Python for itself and for each package, all at the same time.
pub fn look(samebits: &Path, python: &Path, place: &Path, limit: Duration) -> Interpreter {
    let own = ("python", format!("import platform; print('{MARK}', platform.python_version())"));
    let package = |(name, import): (&'static str, &str)| {
        (name, format!("import {import}; print('{MARK}', {import}.__version__)"))
    };
    let programs: Vec<(&'static str, String)> = [own].into_iter().chain(PACKAGES.map(package)).collect();
    let answers = std::thread::scope(|scope| {
        let started: Vec<_> = programs
            .iter()
            .map(|(name, program)| (*name, scope.spawn(|| ask(samebits, python, place, program, limit))))
            .collect();
        let end = |(name, thread): (&'static str, std::thread::ScopedJoinHandle<'_, Result<String, String>>)| {
            let answer = thread.join().unwrap_or_else(|_| Err("it could not be asked".to_owned()));
            let reason = answer.as_ref().err().map(|e| printable(e));
            Answer { name, version: answer.ok().map(|v| printable(&v)), reason }
        };
        started.into_iter().map(end).collect()
    });
    Interpreter { path: python.to_owned(), answers }
}

/// The version that a program of Python prints, or how it ended instead.
fn ask(samebits: &Path, python: &Path, place: &Path, program: &str, limit: Duration) -> Result<String, String> {
    let python = python.to_str().ok_or("its path is not UTF-8")?.to_owned();
    let argv = vec![python, "-c".to_owned(), program.to_owned()];
    let launch = Launch { argv, folder: place.to_owned(), ..Launch::default() };
    let (finished, stdout) = command::run(samebits, &launch, limit).map_err(|e| e.to_string())?;
    let last = |text: &str| text.lines().rev().map(str::trim).find(|l| !l.is_empty()).map(str::to_owned);
    match finished.end {
        End::Ok => version(&String::from_utf8_lossy(&stdout)),
        End::TimedOut(_) => Err(format!("it did not end within {} s", limit.as_secs_f64())),
        End::Interrupted => Err("interrupted".to_owned()),
        End::Failed(how) => Err(last(&finished.stderr).map_or(how.clone(), |line| format!("{line} ({how})"))),
    }
}

/// What stands behind the last mark.
fn version(printed: &str) -> Result<String, String> {
    let marked = printed.lines().rev().find_map(|line| line.trim().strip_prefix(MARK)?.strip_prefix(' '));
    marked
        .map(str::to_owned)
        .ok_or_else(|| "it ran, but did not do what a Python does: it printed no version".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would fail if whatever a program prints passed for a version.
    #[test]
    fn only_a_version_is_one() {
        assert_eq!(version(&format!("hello\n{MARK} 3.11.4 \nbye\n")), Ok("3.11.4".to_owned()));
        for other in ["", "3.11.4\n", "hello\n", &format!("{MARK}\n"), &format!("{MARK}3\n")] {
            assert!(version(other).is_err(), "{other:?}");
        }
    }
}
