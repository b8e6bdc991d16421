//! An operation that reads the same operands in another order in each run: iteration over a hash table or by address.

use super::Detector;
use super::evidence::{Evidence, Finding, operations};
use crate::trace::reader::Trace;
use crate::trace::record::Op;

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
    let (place, operation) = reordered(evidence.base()?, arm.traces.last()?)?;
    let what = format!("{operation} at {place} read the same operands in another order");
    Finding::new(vec![operation], what, vec![arm.name.to_owned()])
}

/// The first operation whose operands are the same set in another order, whether or not its output shows it. It must
/// come before any operation that read something else.
fn reordered(a: &Trace, b: &Trace) -> Option<(String, String)> {
    for ((body, x), (_, y)) in operations(a).zip(operations(b)) {
        let sorted = |op: &Op| {
            let mut inputs = op.inputs.0.clone();
            inputs.sort();
            inputs
        };
        if x.op != y.op || sorted(x) != sorted(y) {
            return None;
        }
        if x.inputs != y.inputs {
            return Some((body.place.to_string(), x.op.clone()));
        }
    }
    None
}
