//! A row whose result depends on how many rows stand beside it, or on its place among them.

use super::Detector;
use super::evidence::{Evidence, Finding};
use crate::scenario::plan::ArmKind;

/// See the module.
pub const DETECTOR: Detector = Detector {
    slug: "batch-dependence",
    catches: "Q-values of one state that change with the size of the batch they are computed in",
    misses: "sizes that were not tried",
    costs: "a run for each batch size; level step",
    mutants: &["row-neighbours"],
    look,
};

fn look(evidence: &Evidence<'_>) -> Option<Finding> {
    if !evidence.is_stable() {
        return None;
    }
    let arms: Vec<_> = evidence.of(|k| matches!(k, ArmKind::BatchRows { .. })).filter(|a| a.differs()).collect();
    let first = arms.first()?;
    let name = first.comparison.and_then(|c| c.first.as_ref()).map(|d| d.name.clone());
    let what = format!("the size of an evaluation batch moves {}", first.first());
    Finding::new(name.into_iter().collect(), what, arms.iter().map(|a| a.name.to_owned()).collect())
}
