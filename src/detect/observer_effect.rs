//! Tracing that moves what it traces.

use super::Detector;
use super::evidence::{Evidence, Finding};
use crate::scenario::plan::ArmKind;

/// See the module.
pub const DETECTOR: Detector = Detector {
    slug: "observer-effect",
    catches: "final weights that differ between trace levels",
    misses: "an effect that every level tried has alike",
    costs: "a run for each level",
    mutants: &["trace-disturbs"],
    look,
};

fn look(evidence: &Evidence<'_>) -> Option<Finding> {
    if !evidence.is_stable() {
        return None;
    }
    let arms: Vec<_> = evidence.of(|k| matches!(k, ArmKind::Trace { .. })).filter(|a| a.differs()).collect();
    let first = arms.first()?;
    let name = first.comparison.and_then(|c| c.first.as_ref()).map(|d| d.name.clone());
    Finding::new(
        name.into_iter().collect(),
        format!("the trace level moves {}", first.first()),
        arms.iter().map(|a| a.name.to_owned()).collect(),
    )
}
