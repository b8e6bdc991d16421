//! Results that follow the number of threads: a reduction cut into one chunk a thread.

use super::Detector;
use super::evidence::{Evidence, Finding, first_difference};
use super::{flush_to_zero, unordered_accumulation};
use crate::scenario::plan::ArmKind;

/// See the module.
pub const DETECTOR: Detector = Detector {
    slug: "thread-count-dependence",
    catches: "results that repeat for each thread count and differ between counts",
    misses: "counts that were not tried",
    costs: "two runs for each thread count; level step, better op",
    mutants: &["thread-chunked-sum"],
    look,
};

fn look(evidence: &Evidence<'_>) -> Option<Finding> {
    if !evidence.is_stable() || flush_to_zero::seen(evidence) || unordered_accumulation::seen(evidence) {
        return None;
    }
    let arms: Vec<_> = evidence.of(|k| matches!(k, ArmKind::Threads { .. })).filter(|a| a.differs()).collect();
    let first = arms.first()?;
    let culprit = first_difference(evidence.base()?, first.traces.first()?).and_then(|(.., culprit)| culprit);
    let names: Vec<String> = culprit.map(|c| c.operation).into_iter().collect();
    let where_ = names.first().cloned().unwrap_or_else(|| first.first());
    let what = format!("each thread count repeats, but counts differ, first in {where_}");
    Finding::new(names, what, arms.iter().map(|a| a.name.to_owned()).collect())
}
