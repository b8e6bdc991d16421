//! What a comparison found, and what it rests on.

use serde::{Deserialize, Serialize};

use super::lines::Lines;
use crate::trace::record::Place;

/// Why a case that ran has no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// the engine ended with an error
    EngineFailed,
    /// it ran past its limit
    TimedOut,
    /// there is no accepted snapshot
    NoGolden,
    /// a trace lacks its closing record
    CutTrace,
    /// a record is not what was written
    AlteredTrace,
    /// nothing to compare
    NoEvidence,
    /// the evidence does not fit together
    NotComparable,
}

impl Reason {
    /// The public word.
    pub fn word(self) -> &'static str {
        match self {
            Reason::EngineFailed => "engine-failed",
            Reason::TimedOut => "timed-out",
            Reason::NoGolden => "no-golden",
            Reason::CutTrace => "cut-trace",
            Reason::AlteredTrace => "altered-trace",
            Reason::NoEvidence => "no-evidence",
            Reason::NotComparable => "not-comparable",
        }
    }

    /// The reason behind a trace that could not be read.
    pub fn of_read_error(e: &crate::trace::reader::ReadError) -> Self {
        match e.reason() {
            "cut-trace" => Reason::CutTrace,
            "altered-trace" => Reason::AlteredTrace,
            "not-comparable" => Reason::NotComparable,
            _ => Reason::NoEvidence,
        }
    }
}

/// The verdict of a case, an arm or a diff.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// everything in scope was compared and is equal
    Same,
    /// something demanded does not hold
    Different,
    /// it could not be told
    Unverified {
        /// why
        reason: Reason,
        /// in words
        detail: String,
    },
    /// this machine lacks what it needs
    NotRun {
        /// what is missing
        detail: String,
    },
}

impl Verdict {
    /// An `unverified` verdict.
    pub fn unverified(reason: Reason, detail: impl Into<String>) -> Self {
        Verdict::Unverified { reason, detail: detail.into() }
    }

    /// The public word.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Same => "same",
            Verdict::Different => "different",
            Verdict::Unverified { .. } => "unverified",
            Verdict::NotRun { .. } => "not run",
        }
    }

    /// The worse of two: different, then unverified, then not run, then same.
    pub fn worse(self, other: Verdict) -> Verdict {
        if rank(&other) > rank(&self) { other } else { self }
    }
}

fn rank(v: &Verdict) -> u8 {
    match v {
        Verdict::Same => 0,
        Verdict::NotRun { .. } => 1,
        Verdict::Unverified { .. } => 2,
        Verdict::Different => 3,
    }
}

/// Public exit codes.
pub mod exit {
    /// all that ran are same
    pub const SAME: u8 = 0;
    /// any different
    pub const DIFFERENT: u8 = 1;
    /// none different, any unverified
    pub const UNVERIFIED: u8 = 2;
    /// nothing ran
    pub const NOTHING_RAN: u8 = 3;
    /// a refused flag or case
    pub const USAGE: u8 = 64;
    /// a bug of this program
    pub const PANIC: u8 = 101;
}

/// How elements of one tensor differ. Only where values exist.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct Elements {
    /// elements that differ in a bit
    pub differing: u64,
    /// elements in all
    pub total: u64,
    /// flat index of the first
    pub first: u64,
    /// its bits on both sides
    pub bits: [String; 2],
    /// its values, where the type has any
    pub values: Option<[String; 2]>,
    /// largest distance in units of the last place; None when no pair has one
    pub max_ulp: Option<u64>,
    /// pairs by distance: `1`, `2..3`, `4..7`, ...
    pub histogram: Vec<(String, u64)>,
    /// pairs of +0 and −0
    pub zero_signs: u64,
    /// pairs with a NaN on either side
    pub nans: u64,
}

/// The first place where two runs part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Divergence {
    /// record
    pub kind: String,
    /// where
    #[serde(flatten)]
    pub place: Place,
    /// tensor or metric
    pub name: String,
    /// what was compared: `sha256`, `fp`, `metric`, `bytes`, `absent`, `declared`
    pub evidence: &'static str,
    /// both values
    pub values: [String; 2],
    /// how the elements differ
    pub elements: Option<Elements>,
    /// the tensor that `elements` is about, when it is another one that differs at this place and has values
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elements_of: Option<String>,
    /// the lines in which it differs, where it is text on both sides
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<Lines>,
    /// first operation whose output differs, and what its inputs say, in words
    pub operation: Option<String>,
}

/// Result of one comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// verdict
    #[serde(flatten)]
    pub verdict: Verdict,
    /// first divergence
    pub first: Option<Divergence>,
    /// tensors that differ at that place
    pub differing: Vec<String>,
    /// digests compared, by kind of evidence
    pub compared: Compared,
    /// what was not compared
    pub left_out: Vec<String>,
    /// differences of identity that are only noted
    pub noted: Vec<String>,
    /// engine of the traces
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// the command that tells more
    pub next: Option<String>,
}

/// How much was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Compared {
    /// records
    pub records: u64,
    /// SHA-256 pairs
    pub sha256: u64,
    /// fingerprint pairs
    pub fingerprints: u64,
    /// metric pairs
    pub metrics: u64,
    /// tensors compared byte by byte
    pub tensors: u64,
}

impl Compared {
    /// Comparisons in all.
    pub fn total(&self) -> u64 {
        self.sha256 + self.fingerprints + self.metrics + self.tensors
    }

    /// `12 records: 340 SHA-256, 1200 fingerprints`
    pub fn words(&self) -> String {
        let parts = [
            (self.tensors, "tensors byte by byte"),
            (self.sha256, "SHA-256"),
            (self.fingerprints, "fingerprints"),
            (self.metrics, "metrics"),
        ];
        let one = |n: u64, what: &str| match (n, what.split_once("s ")) {
            (1, Some((noun, rest))) => format!("1 {noun} {rest}"),
            (1, None) if what != "SHA-256" => format!("1 {}", what.trim_end_matches('s')),
            _ => format!("{n} {what}"),
        };
        let parts: Vec<String> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| one(*n, what)).collect();
        let what = if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") };
        if self.records > 0 { format!("{what} in {} records", self.records) } else { what }
    }

    /// Adds another count.
    pub fn add(&mut self, other: Compared) {
        self.records += other.records;
        self.sha256 += other.sha256;
        self.fingerprints += other.fingerprints;
        self.metrics += other.metrics;
        self.tensors += other.tensors;
    }
}

impl Comparison {
    /// A comparison that could not be made.
    pub fn unverified(reason: Reason, detail: impl Into<String>) -> Self {
        Comparison { verdict: Verdict::unverified(reason, detail), ..Comparison::empty() }
    }

    /// Nothing compared yet.
    pub fn empty() -> Self {
        Comparison {
            verdict: Verdict::unverified(Reason::NoEvidence, "nothing was compared"),
            first: None,
            differing: Vec::new(),
            compared: Compared::default(),
            left_out: Vec::new(),
            noted: Vec::new(),
            engine: None,
            next: None,
        }
    }
}
