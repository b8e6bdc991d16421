//! What detectors see: the arms of one case with their traces, and how each compares with the base.

use serde::Serialize;

use crate::compare::traces::{self, Culprit, culprit};
use crate::compare::verdict::{Comparison, Verdict};
use crate::digest::sha::from_hex;
use crate::scenario::plan::ArmKind;
use crate::trace::reader::Trace;
use crate::trace::record::{Body, Event, Op};

/// One arm.
#[derive(Debug)]
pub struct ArmEvidence<'a> {
    /// name in the plan
    pub name: &'a str,
    /// what it varies
    pub kind: &'a ArmKind,
    /// its traces; several when it repeats in one process
    pub traces: &'a [Trace],
    /// events of its first trace, also of one that was not closed
    pub events: &'a [Event],
    /// against the base, in the arm's scope; None for the base and for arms that must differ
    pub comparison: Option<&'a Comparison>,
}

/// All arms of a case, the base first.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// base first
    pub arms: Vec<ArmEvidence<'a>>,
}

/// What a detector found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// slug; filled in from the table
    pub detector: &'static str,
    /// tensor, operation, generator or thread that is at fault
    pub names: Vec<String>,
    /// one sentence
    pub what: String,
    /// arms that show it
    pub arms: Vec<String>,
}

impl Finding {
    /// A finding; the table fills in the detector.
    pub fn new(names: Vec<String>, what: impl Into<String>, arms: Vec<String>) -> Option<Self> {
        Some(Finding { detector: "", names, what: what.into(), arms })
    }
}

impl<'a> ArmEvidence<'a> {
    /// True when the arm was compared and differs.
    pub fn differs(&self) -> bool {
        self.comparison.is_some_and(|c| c.verdict == Verdict::Different)
    }

    /// True when the arm was compared and is the same.
    pub fn is_same(&self) -> bool {
        self.comparison.is_some_and(|c| c.verdict == Verdict::Same)
    }

    /// First divergence as words.
    pub fn first(&self) -> String {
        match self.comparison.and_then(|c| c.first.as_ref()) {
            Some(d) => format!("{} at {}", d.name, d.place),
            None => "nothing".to_owned(),
        }
    }
}

impl<'a> Evidence<'a> {
    /// The base's trace.
    pub fn base(&self) -> Option<&'a Trace> {
        self.arms.first().and_then(|a| a.traces.first())
    }

    /// Arms whose kind satisfies a test.
    pub fn of(&self, wanted: impl Fn(&ArmKind) -> bool) -> impl Iterator<Item = &ArmEvidence<'a>> {
        self.arms.iter().filter(move |a| wanted(a.kind))
    }

    /// Plain repeats: fresh processes and repeats in one process.
    pub fn repeats(&self) -> impl Iterator<Item = &ArmEvidence<'a>> {
        self.of(|k| matches!(k, ArmKind::Process | ArmKind::Repeat))
    }

    /// True when there are plain repeats and all are the same: what else differs, differs for a cause.
    pub fn is_stable(&self) -> bool {
        let mut any = false;
        let all = self.repeats().all(|a| {
            any = true;
            a.is_same()
        });
        any && all
    }

    /// A plain repeat that differs from the base.
    pub fn unstable(&self) -> Option<&ArmEvidence<'a>> {
        self.repeats().find(|a| a.differs())
    }
}

/// The first pair of step records that differ, with the operation at fault.
pub fn first_difference<'t>(a: &'t Trace, b: &'t Trace) -> Option<(&'t Body, &'t Body, Option<Culprit>)> {
    let steps = |t: &'t Trace| t.bodies.iter().filter(|(kind, _)| *kind == "step").map(|(_, body)| body);
    for x in steps(a) {
        let Some(y) = steps(b).find(|y| y.place == x.place) else { continue };
        if x.fp != y.fp || x.ops != y.ops {
            return Some((x, y, culprit(&x.ops, &y.ops)));
        }
    }
    None
}

/// True when two traces are the same in every record.
pub fn same(a: &Trace, b: &Trace) -> bool {
    traces::compare(a, b, &Default::default()).verdict == Verdict::Same
}

/// Operations of a trace with the records they belong to.
pub fn operations(trace: &Trace) -> impl Iterator<Item = (&Body, &Op)> {
    trace.bodies.iter().flat_map(|(_, body)| body.ops.iter().map(move |op| (body, op)))
}

/// Values of a small u32 tensor in a record.
pub fn u32_values(body: &Body, name: &str) -> Option<Vec<u32>> {
    let bytes = from_hex(body.values.get(name)?)?;
    Some(bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect())
}

/// Values of a small u64 tensor in a record.
pub fn u64_value(body: &Body, name: &str) -> Option<u64> {
    let bytes: [u8; 8] = from_hex(body.values.get(name)?)?.try_into().ok()?;
    Some(u64::from_le_bytes(bytes))
}

/// Values of a small f32 tensor in a record.
pub fn f32_values(body: &Body, name: &str) -> Option<Vec<f32>> {
    u32_values(body, name).map(|words| words.into_iter().map(f32::from_bits).collect())
}
