//! A generator keyed by something that is not the seed: the clock, entropy, an address.

use super::Detector;
use super::evidence::{Evidence, Finding, first_difference};

/// See the module.
pub const DETECTOR: Detector = Detector {
    slug: "unseeded-generator",
    catches: "a generator whose state (`rng.*`) differs between two runs with one seed",
    misses: "a generator that is not among the named tensors, unless its draws are an operation of the trace",
    costs: "a fresh process; level step, better op",
    mutants: &["time-seeded"],
    look,
};

fn look(evidence: &Evidence<'_>) -> Option<Finding> {
    let arm = evidence.unstable()?;
    let (x, y, culprit) = first_difference(evidence.base()?, arm.traces.last()?)?;
    let states = x.fp.iter().filter(|(name, fp)| name.starts_with("rng.") && y.fp.get(name) != Some(*fp));
    let mut names: Vec<String> = states.map(|(name, _)| name.to_owned()).collect();
    if names.is_empty() {
        names.extend(culprit.filter(|c| is_generator(&c.operation) && !c.reordered).map(|c| c.operation));
    }
    if names.is_empty() {
        return None;
    }
    let what = format!("{} is not the same in two runs with one seed", names.join(", "));
    Finding::new(names, what, vec![arm.name.to_owned()])
}

/// Operations that draw random numbers.
pub fn is_generator(operation: &str) -> bool {
    ["init", "env.reset", "env.explore", "replay.sample"].contains(&operation)
}
