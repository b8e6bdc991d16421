//! An operation that reads the same operands in another order in each run: iteration over a hash table or by address.

use super::Detector;
use super::evidence::{Evidence, Finding, first_difference};

/// See the module.
pub const DETECTOR: Detector = Detector {
    slug: "hash-order",
    catches: "an operation whose operands are the same set in another order, without any other thread",
    misses: "an order inside one operand, and operations whose trace does not keep the order of reading",
    costs: "a fresh process; level op",
    mutants: &["hash-order"],
    look,
};

fn look(evidence: &Evidence<'_>) -> Option<Finding> {
    let arm = evidence.unstable()?;
    let (body, _, culprit) = first_difference(evidence.base()?, arm.traces.last()?)?;
    let culprit = culprit.filter(|c| c.reordered)?;
    let what = format!("{} at {} read the same operands in another order", culprit.operation, body.place);
    Finding::new(vec![culprit.operation], what, vec![arm.name.to_owned()])
}
