//! What a case file may say beyond its types: names, ranges, arms that can be, scopes that hold something.

use super::case::{Arms, Expect, Mutant, ResumeArm, Scope};
use super::document::{CaseError, Document, suggestion};
use super::mutant;
use super::settings::{FoldStart, Settings};
use crate::trace::record::Level;

/// Most processes and repeats of one arm.
const RUNS_MAX: usize = 1000;
/// Most entries of a list of arms.
const LIST_MAX: usize = 64;
/// Most threads of a run.
pub const THREADS_MAX: usize = 1024;
/// Most rows of an evaluation batch.
const ROWS_MAX: usize = 1 << 20;
/// Kinds of records.
const KINDS: [&str; 4] = ["step", "eval", "fold", "close"];

/// A file name tells what runs.
pub fn name(document: &Document, name: &str, settings: &Settings) -> Result<(), CaseError> {
    let file = settings.market.file.as_deref().map(|f| f.rsplit('/').next().unwrap_or(f));
    let stem = file.map(|f| f.split('.').next().unwrap_or(f));
    if name.contains("tiny") || stem.is_some_and(|s| !s.is_empty() && name.contains(s)) {
        return Ok(());
    }
    let wanted = stem.map_or_else(|| "\"tiny\"".to_owned(), |s| format!("{s:?} or \"tiny\""));
    Err(document.refuse("about", format!("the file name must contain {wanted}, so that a list tells what runs")))
}

/// Arms that can be, each once.
pub fn arms(document: &Document, arms: &Arms, settings: &Settings) -> Result<(), CaseError> {
    let refuse = |key: &str, detail: String| Err(document.refuse(key, detail));
    if settings.folds.start == FoldStart::Carry && !arms.folds.is_empty() {
        let detail =
            "with folds.start = \"carry\" a fold alone is another computation; remove the arm or use \"fresh\"";
        return refuse("arms.folds", detail.into());
    }
    for (key, n) in [("arms.processes", arms.processes), ("arms.repeat", arms.repeat)] {
        if n > RUNS_MAX {
            return refuse(key, format!("{n}; at most {RUNS_MAX}"));
        }
    }
    if arms.repeat == 1 {
        return refuse("arms.repeat", "1 repeats nothing; from 2 on".into());
    }
    ranges(document, "arms.threads", &arms.threads, THREADS_MAX)?;
    ranges(document, "arms.batch_rows", &arms.batch_rows, ROWS_MAX)?;
    once(document, "arms.folds", &arms.folds)?;
    once(document, "arms.resume", &arms.resume)?;
    once(document, "arms.evaluation", &arms.evaluation)?;
    once(document, "arms.trace", &arms.trace)?;
    if arms.other_seed == Some(settings.engine.seed) {
        return refuse("arms.other_seed", "this is the case's own seed".into());
    }
    resumes(document, arms, settings)
}

fn ranges(document: &Document, key: &str, list: &[usize], most: usize) -> Result<(), CaseError> {
    if let Some(n) = list.iter().find(|n| !(1..=most).contains(*n)) {
        return Err(document.refuse(key, format!("{n} is not in 1 to at most {most}")));
    }
    once(document, key, list)
}

/// Two arms of one name would write the same trace.
pub fn once<T: PartialEq + std::fmt::Debug>(document: &Document, key: &str, list: &[T]) -> Result<(), CaseError> {
    if list.len() > LIST_MAX {
        return Err(document.refuse(key, format!("{} entries; at most {LIST_MAX}", list.len())));
    }
    match list.iter().enumerate().find(|(i, x)| list[..*i].contains(x)) {
        Some((_, x)) => Err(document.refuse(key, format!("{x:?} stands twice"))),
        None => Ok(()),
    }
}

fn resumes(document: &Document, arms: &Arms, settings: &Settings) -> Result<(), CaseError> {
    let t = &settings.training;
    if arms.resume.contains(&ResumeArm::MidFold) && t.cycles < 2 {
        return Err(document.refuse("arms.resume", "mid-fold needs at least 2 cycles"));
    }
    let fits = t.target_period.is_some_and(|p| p >= 2 && (p - 1) % t.updates_per_cycle == 0 && p <= t.updates());
    if arms.resume.contains(&ResumeArm::BeforeTargetUpdate) && !fits {
        let detail = "before-target-update needs a target_period from 2 to the fold's updates, whose update before ends \
                      a cycle";
        return Err(document.refuse("arms.resume", detail));
    }
    Ok(())
}

/// A scope names kinds that there are.
pub fn kinds(document: &Document, scope: &Scope) -> Result<(), CaseError> {
    match scope.kinds.iter().find(|k| !KINDS.contains(&k.as_str())) {
        Some(kind) => {
            let near = suggestion(kind, &KINDS);
            Err(document.refuse("compare.kinds", format!("unknown kind {kind:?}{near}")))
        }
        None => Ok(()),
    }
}

/// A scope names kinds that there are and leaves each arm something to compare.
pub fn scope(document: &Document, scope: &Scope, arms: &Arms) -> Result<(), CaseError> {
    kinds(document, scope)?;
    let holds = |kinds: &[&str]| scope.kinds.is_empty() || kinds.iter().any(|k| scope.kinds.iter().any(|s| s == k));
    let folds = !arms.folds.is_empty() && !holds(&["step", "eval", "fold"]);
    let evaluations = !arms.evaluation.is_empty() && !holds(&["step", "fold", "close"]);
    let off = arms.trace.contains(&Level::Off) && !holds(&["close"]);
    let named = |yes: bool, arm: &'static str| yes.then_some(arm);
    let empty = named(folds, "arms.folds").or(named(evaluations, "arms.evaluation")).or(named(off, "arms.trace"));
    match empty {
        Some(arm) => Err(document.refuse("compare.kinds", format!("these kinds leave {arm} nothing to compare"))),
        None => Ok(()),
    }
}

/// An expectation has a verdict, a reason and a last day.
pub fn expect(document: &Document, expect: &Expect) -> Result<(), CaseError> {
    if expect.verdict != "different" {
        let detail = format!("{:?}: only \"different\" can be expected", expect.verdict);
        return Err(document.refuse("expect.verdict", detail));
    }
    if expect.reason.trim().is_empty() {
        return Err(document.refuse("expect.reason", "say why"));
    }
    let is_date = expect.until.len() == 10 && expect.until.parse::<jiff::civil::Date>().is_ok();
    if !is_date {
        return Err(document.refuse("expect.until", format!("{:?} is not a date YYYY-MM-DD", expect.until)));
    }
    Ok(())
}

/// A mutant has a known name; a flipped bit says which.
pub fn mutant(document: &Document, mutant: &Mutant) -> Result<(), CaseError> {
    if (mutant.name == mutant::FLIP_BIT) != mutant.flip.is_some() {
        let detail = format!("the mutant {:?} and the table [mutant.flip] go together", mutant::FLIP_BIT);
        return Err(document.refuse("mutant.flip", detail));
    }
    if mutant::NAMES.contains(&mutant.name.as_str()) || mutant.flip.is_some() {
        return Ok(());
    }
    let detail = format!("unknown mutant {:?}{}", mutant.name, suggestion(&mutant.name, &mutant::NAMES));
    Err(document.refuse("mutant.name", detail))
}
