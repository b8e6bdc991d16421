//! What an audit found, as it is printed and kept.

use serde::{Deserialize, Serialize};

use super::confirm::Cause;
use super::outcome::{Class, Ending, Outcome, classes};
use super::stats::{ruled_out, wilson};
use super::store::SCHEMA;
use crate::compare::verdict::{Reason, Verdict, exit};
use crate::launch::factors::{Factor, State};
use crate::launch::process::KILLED;
use crate::launch::project::Shared;

/// Report of an audit. Everything but `volatile` is the same however often the audit was interrupted.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`]
    pub schema: &'static str,
    /// verdict
    #[serde(flatten)]
    pub verdict: Verdict,
    /// the command, secrets masked
    pub command: String,
    /// what was compared, in words
    pub evidence: String,
    /// runs before any confirmation
    pub runs: usize,
    /// further runs that put suspected causes to the test
    pub confirming: usize,
    /// factors that were varied
    pub varied: Vec<String>,
    /// factors that were not, and why
    pub not_varied: Vec<String>,
    /// paths of the project that each run had a copy of
    pub copied: Vec<String>,
    /// what was not looked at, and so may differ
    pub not_looked_at: Vec<String>,
    /// outcome classes, the largest first, failures last
    pub classes: Vec<ClassReport>,
    /// share of runs outside the largest class, where no cause explains them
    pub rate: Option<Rate>,
    /// rate of differing runs ruled out at 95 %, when all are alike
    pub ruled_out: Option<f64>,
    /// causes, confirmed or suspected
    pub causes: Vec<Cause>,
    /// suspected factors that could not be put to the test
    pub suspected: Vec<String>,
    /// factors that fit the outcomes no better than chance might
    pub possible: Vec<String>,
    /// runs that were killed from outside, for which the search for causes waits
    pub killed: Vec<usize>,
    /// the one next step
    pub next: String,
    /// what may differ between two equal audits
    pub volatile: VolatileReport,
}

/// Runs that are alike.
#[derive(Clone, Debug, Serialize)]
pub struct ClassReport {
    /// A, B, ...
    pub name: String,
    /// runs in it
    pub runs: usize,
    /// its first run
    pub first: usize,
    /// digest of its evidence, or how it failed
    pub what: String,
    /// tensors that differ from the largest class
    pub differing: Vec<String>,
    /// tensors compared
    pub of: usize,
    /// the first difference, in words
    pub difference: Option<String>,
    /// last part of standard error of a class that failed
    pub stderr: String,
}

/// A rate and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// runs outside the largest class
    pub outside: usize,
    /// of so many
    pub of: usize,
    /// Wilson's interval
    pub low: f64,
    /// its upper end
    pub high: f64,
}

/// What may differ between two equal audits.
#[derive(Clone, Debug, Default, Serialize)]
pub struct VolatileReport {
    /// seconds in all
    pub seconds: f64,
    /// the audit's folder
    pub folder: String,
    /// folders of two runs that differ
    pub differing_runs: Option<[String; 2]>,
    /// runs that were killed from outside and run again on request
    pub killed_before: Vec<usize>,
    /// files of the project that changed while runs went on; runs that overlap are told together
    pub shared: Vec<Shared>,
}

/// A letter, then two.
pub fn class_name(i: usize) -> String {
    let letter = |i: usize| char::from(b'A' + (i % 26) as u8);
    if i < 26 { letter(i).to_string() } else { format!("{}{}", letter(i / 26 - 1), letter(i)) }
}

/// Classes of the first runs, without what they differ in.
pub fn class_reports(main: &[&Outcome]) -> Vec<ClassReport> {
    let report = |(i, (class, runs)): (usize, (Class, Vec<usize>))| {
        let first = main[runs[0]];
        let what = match class {
            Class::Left(key) => key.to_string(),
            Class::Broke(ending) => ending.words(),
        };
        ClassReport {
            name: class_name(i),
            runs: runs.len(),
            first: first.run,
            what,
            differing: Vec::new(),
            of: first.evidence.len(),
            difference: None,
            stderr: first.stderr.clone(),
        }
    };
    classes(main).into_iter().enumerate().map(report).collect()
}

impl Ending {
    /// In words.
    pub fn words(&self) -> String {
        match self {
            Ending::Ran => "ran".to_owned(),
            Ending::Failed { what } => format!("failed: {what}"),
            Ending::Killed => format!("{KILLED}, which samebits did not send"),
            Ending::TimedOut { seconds } => format!("timed out after {seconds} s"),
            Ending::NoEvidence { detail, .. } => format!("no evidence: {detail}"),
        }
    }

    fn reason(&self) -> Reason {
        match self {
            Ending::Ran => Reason::NoEvidence,
            Ending::Failed { .. } | Ending::Killed => Reason::EngineFailed,
            Ending::TimedOut { .. } => Reason::TimedOut,
            Ending::NoEvidence { reason, .. } => *reason,
        }
    }
}

/// Two kinds of bits are `different`; one, with runs that told nothing, is `unverified`.
pub fn verdict(main: &[&Outcome]) -> Verdict {
    let left = classes(main).iter().filter(|(c, _)| matches!(c, Class::Left(_))).count();
    let broke: Vec<&&Outcome> = main.iter().filter(|o| matches!(o.class(), Class::Broke(_))).collect();
    if main.len() < 2 {
        return Verdict::unverified(Reason::NoEvidence, "fewer than two runs: nothing was compared");
    }
    match (left, broke.first()) {
        (0 | 1, Some(first)) => {
            let detail = format!("{} of {} runs: {}", broke.len(), main.len(), first.end.words());
            Verdict::unverified(first.end.reason(), detail)
        }
        (0, None) => Verdict::unverified(Reason::NoEvidence, "nothing ran"),
        (1, None) => Verdict::Same,
        _ => Verdict::Different,
    }
}

/// Rate and bound over the runs that left evidence.
pub fn numbers(main: &[&Outcome]) -> (Option<Rate>, Option<f64>) {
    let left: Vec<&Outcome> = main.iter().copied().filter(|o| matches!(o.class(), Class::Left(_))).collect();
    match classes(&left).as_slice() {
        [] => (None, None),
        [_] => (None, Some(ruled_out(left.len()))),
        [(_, largest), ..] => {
            let (outside, of) = (left.len() - largest.len(), left.len());
            let (low, high) = wilson(outside, of);
            (Some(Rate { outside, of, low, high }), None)
        }
    }
}

/// Varied factors by name, others with their reason.
pub fn factor_lists(factors: &[Factor]) -> (Vec<String>, Vec<String>) {
    let mut lists = (Vec::new(), Vec::new());
    for factor in factors {
        match &factor.state {
            State::Varied => lists.0.push(factor.name.clone()),
            State::NotApplied { reason } => lists.1.push(format!("{} (not applied: {reason})", factor.name)),
            State::NoEffect { reason } => lists.1.push(format!("{} (no effect here: {reason})", factor.name)),
        }
    }
    lists
}

impl Report {
    /// The public exit code.
    pub fn code(&self) -> u8 {
        match self.verdict {
            Verdict::Same => exit::SAME,
            Verdict::Different => exit::DIFFERENT,
            Verdict::Unverified { .. } => exit::UNVERIFIED,
            Verdict::NotRun { .. } => exit::NOTHING_RAN,
        }
    }

    /// An empty report of a schema's version.
    pub fn new(command: &str, main: &[&Outcome], factors: &[Factor]) -> Self {
        let (varied, not_varied) = factor_lists(factors);
        let (rate, ruled_out) = numbers(main);
        let ran = main.iter().find(|o| o.end == Ending::Ran);
        let evidence = ran.map_or("none", |o| o.words.as_str()).to_owned();
        Report {
            schema: SCHEMA,
            verdict: verdict(main),
            command: command.to_owned(),
            evidence,
            runs: main.len(),
            confirming: 0,
            varied,
            not_varied,
            copied: Vec::new(),
            not_looked_at: ran.map(|o| o.not_looked_at.clone()).unwrap_or_default(),
            classes: class_reports(main),
            rate,
            ruled_out,
            causes: Vec::new(),
            suspected: Vec::new(),
            possible: Vec::new(),
            killed: Vec::new(),
            next: String::new(),
            volatile: VolatileReport::default(),
        }
    }
}
