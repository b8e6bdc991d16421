//! A fold that depends on the folds run before it in the same process.

use super::Detector;
use super::evidence::{Evidence, Finding};
use crate::scenario::plan::ArmKind;

/// See the module.
pub const DETECTOR: Detector = Detector {
    slug: "fold-leakage",
    catches: "a fold alone, or in another order, that differs from the fold in sequence",
    misses: "a leak that all orders tried have alike",
    costs: "a run for each fold and order; level step",
    mutants: &["fold-leak"],
    look,
};

fn look(evidence: &Evidence<'_>) -> Option<Finding> {
    if !evidence.is_stable() {
        return None;
    }
    let kinds = |k: &ArmKind| matches!(k, ArmKind::FoldAlone { .. } | ArmKind::FoldsPermuted);
    let arms: Vec<_> = evidence.of(kinds).filter(|a| a.differs()).collect();
    let first = arms.first()?;
    let name = first.comparison.and_then(|c| c.first.as_ref()).map(|d| d.name.clone());
    let what = format!("a fold depends on the folds before it, first {}", first.first());
    Finding::new(name.into_iter().collect(), what, arms.iter().map(|a| a.name.to_owned()).collect())
}
