//! Evaluations that move training: a shared generator, a buffer written over, parameters not restored.

use super::Detector;
use super::evidence::{Evidence, Finding, first_difference};
use crate::scenario::plan::ArmKind;

/// See the module.
pub const DETECTOR: Detector = Detector {
    slug: "evaluation-disturbs-training",
    catches: "training records that differ when evaluations are off or come at other times",
    misses: "a disturbance that every schedule tried has alike",
    costs: "a run for each schedule; level step, better op",
    mutants: &["evaluation-draws"],
    look,
};

fn look(evidence: &Evidence<'_>) -> Option<Finding> {
    if !evidence.is_stable() {
        return None;
    }
    let arms: Vec<_> = evidence.of(|k| matches!(k, ArmKind::Evaluation { .. })).filter(|a| a.differs()).collect();
    let first = arms.first()?;
    let culprit = first_difference(evidence.base()?, first.traces.first()?).and_then(|(.., culprit)| culprit);
    let names: Vec<String> = culprit.map(|c| c.operation).into_iter().collect();
    let what = format!(
        "training differs when evaluations come at other times, first {}{}",
        first.first(),
        names.first().map_or_else(String::new, |n| format!(" in {n}"))
    );
    Finding::new(names, what, arms.iter().map(|a| a.name.to_owned()).collect())
}
