//! A resumed run whose state is all there, and which goes on differently: a generator drew once more, or state is hidden.

use super::Detector;
use super::evidence::{Evidence, Finding, first_difference};
use super::resume_incomplete_state::lost;
use super::unseeded_generator::is_generator;
use crate::scenario::plan::ArmKind;

/// See the module.
pub const DETECTOR: Detector = Detector {
    slug: "resume-draws-again",
    catches: "a resumed run with every tensor restored whose first difference is what a generator drew",
    misses: "state that is hidden elsewhere than in a generator",
    costs: "a checkpoint and a resumed run; level op",
    mutants: &["sampler-redraws"],
    look,
};

fn look(evidence: &Evidence<'_>) -> Option<Finding> {
    if !evidence.is_stable() {
        return None;
    }
    let (mut names, mut arms) = (Vec::new(), Vec::new());
    for arm in evidence.of(|k| matches!(k, ArmKind::Resume { .. })).filter(|a| a.differs()) {
        let base = evidence.base()?;
        let difference = first_difference(base, arm.traces.first()?).and_then(|(.., culprit)| culprit);
        if let Some(culprit) = difference.filter(|c| lost(base, arm).is_empty() && is_generator(&c.operation)) {
            names.push(culprit.operation);
            arms.push(arm.name.to_owned());
        }
    }
    names.dedup();
    let first = names.first()?.clone();
    Finding::new(names, format!("after a resume {first} drew other numbers, though every tensor was restored"), arms)
}
