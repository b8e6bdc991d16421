//! State that is not in the checkpoint: a resumed run starts from something else than was there.

use std::collections::BTreeSet;

use super::Detector;
use super::evidence::{ArmEvidence, Evidence, Finding};
use crate::scenario::plan::ArmKind;
use crate::trace::reader::Trace;

/// See the module.
pub const DETECTOR: Detector = Detector {
    slug: "resume-incomplete-state",
    catches: "a state tensor that the checkpoint lacks, or that is another after loading than when saved",
    misses: "state that is not among the named tensors (see resume-draws-again)",
    costs: "a checkpoint and a resumed run; level step",
    mutants: &["checkpoint-omits"],
    look,
};

fn look(evidence: &Evidence<'_>) -> Option<Finding> {
    if !evidence.is_stable() {
        return None;
    }
    let (mut names, mut arms) = (BTreeSet::new(), Vec::new());
    for arm in evidence.of(|k| matches!(k, ArmKind::Resume { .. })) {
        let lost = lost(evidence.base()?, arm);
        if !lost.is_empty() {
            names.extend(lost);
            arms.push(arm.name.to_owned());
        }
    }
    if arms.is_empty() {
        return None;
    }
    let names: Vec<String> = names.into_iter().collect();
    let shown = names.iter().take(4).cloned().collect::<Vec<_>>().join(", ");
    let more = if names.len() > 4 { format!(" and {} more", names.len() - 4) } else { String::new() };
    Finding::new(names, format!("not restored from the checkpoint: {shown}{more}"), arms)
}

/// Tensors that are not after the resume what they were at the checkpoint.
pub fn lost(base: &Trace, arm: &ArmEvidence<'_>) -> Vec<String> {
    let Some(after) = arm.events.iter().find(|e| e.name == "resume") else { return Vec::new() };
    let saved = base.events.iter().find(|e| e.name == "checkpoint" && e.detail == after.detail);
    let Some(saved) = saved else { return Vec::new() };
    let differs = |(name, fp): &(&str, &crate::digest::fingerprint::Fingerprint)| saved.fp.get(name) != Some(*fp);
    after.fp.iter().filter(differs).map(|(name, _)| name.to_owned()).collect()
}
