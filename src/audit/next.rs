//! The one next step after an audit.

use super::confirm::Cause;
use super::report::Report;
use super::store::Store;
use crate::compare::left::Wanted;
use crate::compare::verdict::Verdict;
use crate::launch::folder::shown;
use crate::launch::job::Job;
use crate::launch::project::to_copy;

/// Most paths that are suggested to be copied.
const COPIES: usize = 3;

/// What to do now.
pub fn next_step(report: &Report, job: &Job, store: &Store, wanted: Option<Wanted>) -> String {
    if !report.killed.is_empty() {
        return "the same command with --continue runs what was killed again".to_owned();
    }
    if report.classes.len() > 1
        && !report.causes.iter().any(|c| c.is_confirmed())
        && let Some(step) = copy(report, job)
    {
        return step;
    }
    if let Some(cause) = report.causes.iter().find(|c| c.alone) {
        let same = report.causes.iter().filter(|c| c.same_as.as_deref() == Some(cause.name())).map(Cause::name);
        let names = std::iter::once(cause.name()).chain(same).collect::<Vec<&str>>().join(" and ");
        return match (cause.how.as_str(), &cause.variable) {
            ("pins", Some(_)) => {
                format!("run it with {}, or make it independent of {}", cause.setting, cause.name())
            }
            _ => format!("make it independent of {names}, or keep {names} fixed wherever it runs; then audit again"),
        };
    }
    if !report.possible.is_empty() {
        return format!("run more (-n {}), so that a factor can be told from chance", 4 * report.runs);
    }
    match (&report.verdict, wanted) {
        (Verdict::Same, _) => gate(job),
        (Verdict::Unverified { .. }, _) => {
            let run = report.classes.iter().find(|c| !c.stderr.is_empty() || c.what.contains("no evidence"));
            run.map_or_else(
                || "raise --timeout or repair the command, then audit again".to_owned(),
                |c| format!("look at {}", shown(&store.run(c.first))),
            )
        }
        (_, Some(Wanted::Stdout)) => {
            "declare what it writes (--output FILE), so that the tensor and the element that differ are named"
                .to_owned()
        }
        _ => report.volatile.differing_runs.as_ref().map_or_else(
            || "run more (-n), so that a factor can be told from chance".to_owned(),
            |[a, b]| format!("samebits diff {a} {b}"),
        ),
    }
}

/// The case that gates what was found to be the same.
fn gate(job: &Job) -> String {
    let outputs: Vec<String> = job.outputs.texts().iter().map(|o| format!("--output '{o}' ")).collect();
    let copies: Vec<String> = job.copies.texts().iter().map(|c| format!("{c:?}")).collect();
    let copies = match copies.as_slice() {
        [] => String::new(),
        some => format!("; add copy = [{}] below its [engine]", some.join(", ")),
    };
    format!(
        "samebits init {}-- COMMAND, with this command, writes a case that gates it in CI{copies}",
        outputs.concat()
    )
}

/// The audit that tells whether a file that runs share is the cause: with a copy of it for each run.
fn copy(report: &Report, job: &Job) -> Option<String> {
    let shared = &report.volatile.shared;
    let first = shared.first()?;
    let paths = to_copy(shared, &job.project);
    let new: Vec<&String> = paths.iter().filter(|p| !job.copies.is_copied(p.as_ref())).collect();
    let flags: Vec<String> = new.iter().take(COPIES).map(|p| format!("--copy '{p}'")).collect();
    Some(match flags.as_slice() {
        [] => format!(
            "{} is written where the project lies, not in the run's folder: make the program write below its working directory, then audit again",
            first.path
        ),
        flags => format!(
            "the same command with {}: each run then has a copy of its own, and if all are alike, {} is the cause (or declare it with --output, and it is hidden from runs)",
            flags.join(" "),
            first.path
        ),
    })
}
