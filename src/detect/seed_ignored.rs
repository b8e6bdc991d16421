//! A generator that does not see the seed: every repeat passes, and so does every other seed.

use super::Detector;
use super::evidence::{Evidence, Finding};
use crate::scenario::plan::ArmKind;
use crate::trace::record::Body;

/// See the module.
pub const DETECTOR: Detector = Detector {
    slug: "seed-ignored",
    catches: "a generator (`rng.*`, initial weights, sampled rows) that is the same under another seed",
    misses: "a generator that leaves no named tensor",
    costs: "one run with another seed; level step",
    mutants: &["seed-ignored"],
    look,
};

/// Tensors that any seed must move at the first step, beside every `rng.*`.
const MOVED: [&str; 2] = ["q.bottleneck.weight", "sample.rows"];

/// Names that are the same under another seed, though it must move them; None when there is nothing to compare.
pub fn unmoved(base: &Body, other: &Body) -> Option<Vec<String>> {
    let moved = |name: &str| name.starts_with("rng.") || MOVED.contains(&name);
    let mut looked = false;
    let mut same = Vec::new();
    for (name, fp) in base.fp.iter().filter(|(n, _)| moved(n)) {
        let other = other.fp.get(name)?;
        looked = true;
        if fp == other {
            same.push(name.to_owned());
        }
    }
    looked.then_some(same)
}

fn look(evidence: &Evidence<'_>) -> Option<Finding> {
    let arm = evidence.of(|k| *k == ArmKind::OtherSeed).next()?;
    let names = unmoved(first_step(evidence.base()?)?, first_step(arm.traces.first()?)?)?;
    if names.is_empty() {
        return None;
    }
    let what = format!("{} does not change with the seed", names.join(", "));
    Finding::new(names, what, vec![arm.name.to_owned()])
}

/// The first step record of a trace.
pub fn first_step(trace: &crate::trace::reader::Trace) -> Option<&Body> {
    trace.bodies.iter().find(|(kind, _)| *kind == "step").map(|(_, body)| body)
}
