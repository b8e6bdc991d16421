//! Where a resumed run claims to begin, and whether the other run has that place.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::trace::reader::Trace;
use crate::trace::record::{Place, Resumed};

/// Place of each fold in the order in which a trace has them.
pub fn fold_order(trace: &Trace) -> BTreeMap<u32, usize> {
    let mut order = BTreeMap::new();
    for fold in trace.bodies.iter().filter_map(|(_, body)| body.place.fold) {
        let next = order.len();
        order.entry(fold).or_insert(next);
    }
    order
}

/// True for a record that was done before a run resumed: a fold earlier in `order`, or an earlier place of its fold.
/// Step records count from 0; evaluations and fold ends stand at the number of updates done.
pub fn is_before(kind: &str, place: &Place, from: &Resumed, order: &BTreeMap<u32, usize>) -> bool {
    let earlier = match place.fold {
        None => Ordering::Equal,
        Some(fold) if fold == from.fold => Ordering::Equal,
        Some(fold) => match (order.get(&fold), order.get(&from.fold)) {
            (Some(this), Some(start)) => this.cmp(start),
            _ => Ordering::Greater,
        },
    };
    match (earlier, place.step) {
        (Ordering::Less, _) => true,
        (Ordering::Equal, Some(step)) if kind == "step" => step < from.step,
        (Ordering::Equal, Some(step)) => step <= from.step,
        _ => false,
    }
}

/// What is wrong with the places where two traces claim to resume.
pub fn false_claims(a: &Trace, b: &Trace) -> Vec<String> {
    [(a, b, "first"), (b, a, "second")].into_iter().filter_map(|(t, other, side)| false_claim(t, other, side)).collect()
}

fn false_claim(trace: &Trace, other: &Trace, side: &str) -> Option<String> {
    let from = trace.open.resumed.as_ref()?;
    let claim = format!("the {side} claims to resume at fold {}, step {}", from.fold, from.step);
    let order = fold_order(other);
    let early = trace.bodies.iter().find(|(kind, body)| is_before(kind, &body.place, from, &order));
    if let Some((kind, body)) = early {
        return Some(format!("{claim}, and holds {kind} at {}", body.place));
    }
    let also = other.open.resumed.as_ref().is_some_and(|o| (o.fold, o.step) == (from.fold, from.step));
    // A run that itself resumed later holds nothing of that place; its own claim is checked.
    let later = other.open.resumed.as_ref().is_some_and(|o| o.fold != from.fold || o.step > from.step);
    let has = other.bodies.iter().any(|(kind, body)| {
        let fold = body.place.fold.is_none_or(|f| f == from.fold);
        let at = |s: u64| s == from.step || (*kind == "step" && s.checked_add(1) == Some(from.step));
        fold && body.place.step.is_some_and(at)
    });
    (!also && !later && !has).then(|| format!("{claim}; the other trace has no such place"))
}
