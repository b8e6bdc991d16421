//! Floating-point sums in order of arrival: atomics, a lock, a reduction tree that follows the scheduler.

use super::Detector;
use super::evidence::{Evidence, Finding, first_difference, same};
use super::flush_to_zero;
use crate::scenario::plan::ArmKind;

/// See the module.
pub const DETECTOR: Detector = Detector {
    slug: "unordered-accumulation",
    catches: "two runs with the same number of threads that differ, while one thread repeats",
    misses: "an order that happens to repeat in the runs made",
    costs: "two runs for each thread count; level step, better op",
    mutants: &["unordered-sum"],
    look,
};

fn look(evidence: &Evidence<'_>) -> Option<Finding> {
    if !evidence.is_stable() || flush_to_zero::seen(evidence) {
        return None;
    }
    let (arms, pair) = unrepeatable(evidence);
    let (a, b) = pair?;
    let place = first_difference(a, b);
    let operation = place.as_ref().and_then(|(.., culprit)| culprit.clone()).map(|c| c.operation);
    let at = place.map_or_else(String::new, |(body, ..)| format!(" at {}", body.place));
    let what = format!(
        "runs with the same number of threads differ{at}{}, one thread repeats",
        operation.as_ref().map_or_else(String::new, |o| format!(" in {o}"))
    );
    Finding::new(operation.into_iter().collect(), what, arms)
}

type Pair<'a> = (&'a crate::trace::reader::Trace, &'a crate::trace::reader::Trace);

/// Arms whose repeats with the same thread count differ, and the first such pair of traces.
fn unrepeatable<'a>(evidence: &Evidence<'a>) -> (Vec<String>, Option<Pair<'a>>) {
    let (mut arms, mut pair) = (Vec::new(), None);
    for first in evidence.of(|k| matches!(k, ArmKind::Threads { run: 1, .. })) {
        let ArmKind::Threads { threads, .. } = first.kind else { continue };
        let again = evidence.of(|k| *k == ArmKind::Threads { threads: *threads, run: 2 }).next();
        if let (Some(a), Some(again)) = (first.traces.first(), again)
            && let Some(b) = again.traces.first()
            && !same(a, b)
        {
            arms.extend([first.name.to_owned(), again.name.to_owned()]);
            pair = pair.or(Some((a, b)));
        }
    }
    (arms, pair)
}

/// True when some thread count does not repeat.
pub fn seen(evidence: &Evidence<'_>) -> bool {
    unrepeatable(evidence).1.is_some()
}
