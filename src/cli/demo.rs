//! `samebits demo`: two verdicts on a generated market, without a checkout.

use std::path::Path;

use super::Failure;
use super::diff::code;
use crate::compare::traces;
use crate::compare::verdict::exit;
use crate::report::text;
use crate::say;
use crate::scenario::case::{Case, Scope};
use crate::scenario::mutant::{Fault, Flip};
use crate::scenario::request::RunRequest;
use crate::trace::reader::{self, Trace};

const CASE: &str = include_str!("demo.toml");

/// Runs it.
pub fn main() -> Result<u8, Failure> {
    let folder = tempfile::tempdir().map_err(Failure::unverified)?;
    let file = folder.path().join("demo/tiny-demo.toml");
    std::fs::create_dir_all(folder.path().join("demo"))
        .and_then(|()| std::fs::write(&file, CASE))
        .map_err(Failure::unverified)?;
    let case = Case::load(&file, &[]).map_err(Failure::usage)?;
    say!("A small double DQN learns to trade a generated market. Every weight, Q-value, replay row and generator is");
    say!("digested at every update, then runs are compared bit by bit.\n");
    say!("1. The same run on 1 thread and on 2:");
    let one = run(&case, folder.path(), "one", 1, None)?;
    let green = traces::compare(&one, &run(&case, folder.path(), "two", 2, None)?, &Scope::default());
    say!("{}", text::comparison(&green));
    say!("2. The same again, but one bit of one weight flips after update 20:");
    let flip = Flip { tensor: "q.branch0.out.weight".into(), element: 123, bit: 0, fold: 0, step: 20 };
    let red =
        traces::compare(&one, &run(&case, folder.path(), "flipped", 1, Some(Fault::FlipBit(flip)))?, &Scope::default());
    say!("{}", text::comparison(&red));
    say!(
        "In a project: `samebits test` verifies its cases, `samebits run CASE` makes a trace, `samebits diff A B` compares two."
    );
    if code(&green.verdict) == exit::SAME && code(&red.verdict) == exit::DIFFERENT {
        return Ok(exit::SAME);
    }
    Err(Failure { code: exit::DIFFERENT, message: "the demo expected one green and one red verdict".into() })
}

fn run(case: &Case, folder: &Path, name: &str, threads: usize, fault: Option<Fault>) -> Result<Trace, Failure> {
    let settings = case.embedded().map(|e| e.settings.clone());
    let settings = settings.ok_or_else(|| Failure::usage("the demo's case runs the embedded engine"))?;
    let mut request = RunRequest::new(settings, None);
    let trace = folder.join(format!("{name}.jsonl"));
    (request.trace, request.threads, request.fault) = (Some(trace.clone()), Some(threads), fault);
    (request.level, request.values) = (case.level, case.values);
    super::arm::execute(&request, &mut |_| {})?;
    reader::read(&trace).map_err(Failure::unverified)
}
