//! The report of a case, and what all cases have in common in coming to it: the golden, the expectation, the files kept.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::golden::{self, Golden};
use crate::compare::verdict::{Comparison, Reason, Verdict};
use crate::detect::evidence::Finding;
use crate::launch::project::Shared;
use crate::launch::slots::Slots;
use crate::scenario::case::{Case, Expect};

/// How cases are verified.
#[derive(Debug)]
pub struct Options<'a> {
    /// the `samebits` program
    pub program: PathBuf,
    /// slots shared by all cases
    pub slots: &'a Slots,
    /// folder for traces and checkpoints
    pub work: PathBuf,
    /// GPU on which the embedded engine's runs are made, and the folder of its compiled kernels
    pub device: Option<(String, PathBuf)>,
    /// green arms keep their traces
    pub keep: bool,
    /// pending goldens go here instead of beside the accepted ones
    pub pending: Option<PathBuf>,
    /// base traces saved by an earlier run take the place of the goldens
    pub against: Option<PathBuf>,
    /// base traces are saved here
    pub save: Option<PathBuf>,
    /// planted faults are dealt out under this seed instead of by name
    pub shuffle: Option<u64>,
}

/// One arm's part of a verdict.
#[derive(Clone, Debug, Serialize)]
pub struct ArmReport {
    /// name in the plan; for mutants with the field before it
    pub name: String,
    /// verdict
    #[serde(flatten)]
    pub verdict: Verdict,
    /// the comparison behind it
    pub comparison: Option<Comparison>,
    /// seconds it took
    pub seconds: f64,
    /// repeats it
    pub command: String,
}

/// A case's verdict and what it rests on.
#[derive(Clone, Debug, Serialize)]
pub struct CaseReport {
    /// `suite/name`
    pub case: String,
    /// verdict
    #[serde(flatten)]
    pub verdict: Verdict,
    /// why it passes although bits differ: a met expectation
    pub expected: Option<String>,
    /// planted faults caught and named, and planted in all
    pub mutants: Option<(usize, usize)>,
    /// arms, the base first, then `golden`
    pub arms: Vec<ArmReport>,
    /// what the detectors found
    pub findings: Vec<Finding>,
    /// on a golden mismatch: `stable (...)` or `unstable (...)`
    pub stability: Option<String>,
    /// pending golden written
    pub pending: Option<PathBuf>,
    /// the command that accepts it
    pub accept: Option<String>,
    /// where the traces are that were kept
    pub traces: Option<PathBuf>,
    /// files of the project that changed while arms ran, and those arms; arms that overlap are told together
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<Shared>,
    /// what was not looked at, and so may differ
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_looked_at: Vec<String>,
    /// seconds it took
    pub seconds: f64,
}

impl CaseReport {
    /// A report to be filled in.
    pub fn new(case: &Case, verdict: Verdict) -> Self {
        CaseReport {
            case: case.name.clone(),
            verdict,
            expected: None,
            mutants: None,
            arms: Vec::new(),
            findings: Vec::new(),
            stability: None,
            pending: None,
            accept: None,
            traces: None,
            shared: Vec::new(),
            not_looked_at: Vec::new(),
            seconds: 0.0,
        }
    }

    /// A case that did not run.
    pub fn not_run(case: &Case, detail: &str) -> Self {
        CaseReport::new(case, Verdict::NotRun { detail: detail.to_owned() })
    }
}

/// A part of a verdict that is no run: `golden`, `against`, `save`, ...
pub fn extra(name: &str, verdict: Verdict, comparison: Option<Comparison>, case: &Case) -> ArmReport {
    let command = format!("samebits test {}", case.name);
    ArmReport { name: name.to_owned(), verdict, comparison, seconds: 0.0, command }
}

/// The base run of a case, as far as the golden and earlier runs are concerned.
pub trait Base {
    /// What it would have as its golden.
    fn golden(&self) -> Golden;
    /// Where it lies in a folder of saved runs.
    fn saved(&self, folder: &Path) -> PathBuf;
    /// Compares it with one that an earlier job saved there.
    fn against(&self, saved: &Path) -> Comparison;
    /// Saves it there; it appears only when complete.
    fn save(&self, to: &Path) -> std::io::Result<()>;
    /// Makes it once more and compares; None when it could not be made.
    fn again(&self) -> Option<Verdict>;
}

/// Holds the base run against the golden or an earlier run, and saves it where that is asked for.
pub fn judge_golden(case: &Case, options: &Options<'_>, base: &dyn Base, report: &mut CaseReport) {
    let found = base.golden();
    let judged = match &options.against {
        Some(folder) => Some(("against", against(base, &base.saved(folder)))),
        None if case.golden => Some(("golden", golden::compare(case, &found))),
        None => None,
    };
    // Saved only now, so that a run is never compared with itself.
    if let Some(target) = options.save.as_ref().map(|folder| base.saved(folder))
        && let Err(e) = base.save(&target)
    {
        let verdict = Verdict::unverified(Reason::NoEvidence, format!("{}: {e}", target.display()));
        report.arms.push(extra("save", verdict, None, case));
    }
    let Some((name, comparison)) = judged else { return };
    if comparison.verdict == Verdict::Different {
        report.stability = Some(stability_words(case, options, base.again().as_ref()));
    }
    compare_golden(case, options, name, comparison, &found, report);
}

fn against(base: &dyn Base, saved: &Path) -> Comparison {
    if saved.exists() {
        return base.against(saved);
    }
    let detail = format!("{} does not exist; the earlier run did not save this case", saved.display());
    Comparison::unverified(Reason::NoGolden, detail)
}

/// Takes a comparison with the golden, or with an earlier run, into the report; writes the pending golden.
fn compare_golden(
    case: &Case,
    options: &Options<'_>,
    name: &str,
    comparison: Comparison,
    found: &Golden,
    report: &mut CaseReport,
) {
    let arms_agree = report.arms.iter().all(|a| a.verdict == Verdict::Same);
    if name == "golden" && (comparison.verdict == Verdict::Same || !arms_agree) {
        // What an earlier test found is not what the case gives now, or not what all its arms give.
        golden::drop_pending(case, options.pending.as_deref());
    } else if name == "golden" {
        match golden::write_pending(case, found, options.pending.as_deref()) {
            Ok(path) => {
                let from = options.pending.as_ref().map_or_else(String::new, |p| format!(" --from {}", p.display()));
                report.accept = Some(format!("samebits accept {}{from} --reason TEXT", case.name));
                report.pending = Some(path);
            }
            Err(e) => {
                let verdict = Verdict::unverified(Reason::NoEvidence, format!("the pending golden is lost: {e}"));
                report.arms.push(extra("pending", verdict, None, case));
            }
        }
    }
    let mut arm = extra(name, comparison.verdict.clone(), Some(comparison), case);
    if let Some(folder) = options.against.as_ref().filter(|_| name == "against") {
        arm.command.push_str(&format!(" --against {}", folder.display()));
    }
    report.arms.push(arm);
}

/// The verdict on a seed that changes nothing where it must.
pub fn seed_ignored(what: &str) -> (Verdict, Option<Comparison>) {
    let noted = vec![format!("another seed must change the bits, and it does not: {what} under both seeds are equal")];
    (Verdict::Different, Some(Comparison { verdict: Verdict::Different, noted, ..Comparison::empty() }))
}

/// What one more run of the base says; the verdict stays.
fn stability_words(case: &Case, options: &Options<'_>, again: Option<&Verdict>) -> String {
    let command = format!("samebits run {} --arm base", case.name);
    // Of an earlier job's run nothing is known but what it left.
    let changed = if options.against.is_none() { golden::changed_since(case) } else { Vec::new() };
    let cause = match changed.is_empty() {
        true => "code, library or hardware changed".to_owned(),
        false => format!("since the golden was accepted these changed: {}", changed.join(", ")),
    };
    match again {
        Some(Verdict::Same) => format!("different, stable ({cause}); repeat with: {command}"),
        Some(Verdict::Different) => format!("different, unstable (nondeterminism); repeat with: {command}"),
        _ => format!("different; it could not be run once more; repeat with: {command}"),
    }
}

/// The case's verdict from those of its parts, its expectation, and what is kept.
pub fn conclude(case: &Case, options: &Options<'_>, work: &Path, report: &mut CaseReport) {
    report.verdict = report.arms.iter().map(|a| a.verdict.clone()).fold(Verdict::Same, Verdict::worse);
    if !report.findings.is_empty() {
        report.verdict = Verdict::Different;
    }
    if report.verdict == Verdict::Same && report.arms.iter().all(|a| a.name == "base") {
        report.verdict = Verdict::unverified(Reason::NoEvidence, "nothing was compared");
    }
    if let Some(expect) = &case.expect {
        meet(expect, report);
    }
    tidy(options, work, report);
}

/// An expected difference passes until its date, and only while it is there.
fn meet(expect: &Expect, report: &mut CaseReport) {
    let today = jiff::tz::Offset::UTC.to_datetime(jiff::Timestamp::now()).date();
    let until: Option<jiff::civil::Date> = expect.until.parse().ok();
    let fail = |detail: String| Verdict::unverified(Reason::NotComparable, detail);
    // What could not be told is not what was expected.
    let untold = report.arms.iter().find(|a| !matches!(a.verdict, Verdict::Same | Verdict::Different));
    if let Some(arm) = untold {
        report.verdict = arm.verdict.clone();
    }
    match report.verdict {
        Verdict::Different if until.is_none_or(|u| today > u) => {
            report.stability = Some(format!("the expectation ended on {}: {}", expect.until, expect.reason));
        }
        Verdict::Different => match (expect.max_ulp, largest_ulp(report)) {
            (None, _) => report.expected = Some(expect.reason.clone()),
            (Some(limit), Some(found)) if found <= limit => report.expected = Some(expect.reason.clone()),
            (Some(limit), found) => {
                let found = found.map_or_else(|| "not known (no values)".to_owned(), |f| f.to_string());
                report.stability = Some(format!("expected at most {limit} ULP, found {found}"));
            }
        },
        Verdict::Same => {
            report.verdict = Verdict::Different;
            report.stability = Some(format!("it is the same now, remove [expect]: {}", expect.reason));
        }
        Verdict::Unverified { .. } | Verdict::NotRun { .. } => {
            report.verdict = report.verdict.clone().worse(fail("expected \"different\", could not tell".into()));
        }
    }
}

fn largest_ulp(report: &CaseReport) -> Option<u64> {
    let of = |a: &ArmReport| a.comparison.as_ref()?.first.as_ref()?.elements.as_ref()?.max_ulp;
    report
        .arms
        .iter()
        .filter(|a| a.verdict == Verdict::Different)
        .map(of)
        .collect::<Option<Vec<u64>>>()?
        .into_iter()
        .max()
}

/// Traces of green cases go, unless they are kept.
fn tidy(options: &Options<'_>, work: &Path, report: &mut CaseReport) {
    if !options.keep && report.verdict == Verdict::Same {
        let _ = std::fs::remove_dir_all(work);
    } else if work.is_dir() {
        report.traces = Some(work.to_owned());
    }
}
