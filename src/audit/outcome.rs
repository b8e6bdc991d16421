//! How one run ended and what it left, and runs sorted into classes.

use serde::{Deserialize, Serialize};

use super::design::Levels;
use crate::compare::left::{Digested, Wanted};
use crate::compare::verdict::Reason;
use crate::digest::sha::Digest;
use crate::launch::project::Change;

/// One run, as it is kept. Everything but `volatile` is the same however often an audit is interrupted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// number of the run
    pub run: usize,
    /// part of the audit: `main`, `confirm threads: alone`, ...
    pub stage: String,
    /// setting of each factor that is not as is
    pub levels: Levels,
    /// how it ended
    pub end: Ending,
    /// the digest of all evidence; runs with equal keys left the same bits
    pub key: Option<Digest>,
    /// what counted as evidence
    pub wanted: Option<Wanted>,
    /// the evidence, tensor by tensor
    pub evidence: Vec<Digested>,
    /// what the evidence is, in words
    pub words: String,
    /// what of it nothing is compared with
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_looked_at: Vec<String>,
    /// last part of standard error of a run that failed, secrets masked
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// what may differ between two equal audits
    pub volatile: Volatile,
}

/// What may differ between two equal audits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Volatile {
    /// seconds it took
    pub seconds: f64,
    /// most runs that went on at the same time
    pub together: usize,
    /// how often it was killed from outside before, and run again on request
    pub killed_before: usize,
    /// what changed in the project while it went on
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wrote: Vec<Change>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "how")]
pub enum Ending {
    /// with exit code 0 and whole evidence
    Ran,
    /// with another exit code, or a signal
    Failed {
        /// `exit code 3`, `killed by signal 9`
        what: String,
    },
    /// by SIGKILL from outside: a person, or the kernel out of memory
    Killed,
    /// past its limit; its process group was ended
    TimedOut {
        /// the limit
        seconds: u64,
    },
    /// with exit code 0, but its evidence is missing or cannot be used
    NoEvidence {
        /// a reason of `unverified`
        reason: Reason,
        /// in words
        detail: String,
    },
}

impl Outcome {
    /// What tells this run's class: its key, or how it failed.
    pub fn class(&self) -> Class {
        match self.key {
            Some(key) if self.end == Ending::Ran => Class::Left(key),
            _ => Class::Broke(self.end.clone()),
        }
    }
}

/// Runs that are alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// all left these bits
    Left(Digest),
    /// all failed this way
    Broke(Ending),
}

/// Classes in the order of their size, then of their first run; each with its runs' positions.
pub fn classes(outcomes: &[&Outcome]) -> Vec<(Class, Vec<usize>)> {
    let mut found: Vec<(Class, Vec<usize>)> = Vec::new();
    for (i, outcome) in outcomes.iter().enumerate() {
        let class = outcome.class();
        match found.iter_mut().find(|(c, _)| *c == class) {
            Some((_, runs)) => runs.push(i),
            None => found.push((class, vec![i])),
        }
    }
    found.sort_by_key(|(class, runs)| (matches!(class, Class::Broke(_)), std::cmp::Reverse(runs.len()), runs[0]));
    found
}
