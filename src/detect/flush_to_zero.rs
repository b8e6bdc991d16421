//! A thread that flushes subnormals to zero (rule 1).

use super::Detector;
use super::evidence::{Evidence, Finding};

/// See the module.
pub const DETECTOR: Detector = Detector {
    slug: "flush-to-zero",
    catches: "a thread whose floating-point mode loses subnormals after the start-up proof",
    misses: "a mode that is set and restored between two proofs",
    costs: "one multiplication a thread at every fold end; any trace level",
    mutants: &["flush-to-zero"],
    look,
};

fn look(evidence: &Evidence<'_>) -> Option<Finding> {
    let mut arms = Vec::new();
    let mut names = Vec::new();
    for arm in &evidence.arms {
        let event = arm.events.iter().find(|e| e.name == "float-mode");
        if let Some(event) = event {
            arms.push(arm.name.to_owned());
            names.push(event.detail.clone());
        }
    }
    names.dedup();
    names.sort();
    names.dedup();
    let what = format!("{}: results of magnitude below 2^-126 are lost there", names.first()?);
    Finding::new(names, what, arms)
}

/// True when some arm reported a changed mode, which explains differences between threads.
pub fn seen(evidence: &Evidence<'_>) -> bool {
    look(evidence).is_some()
}
