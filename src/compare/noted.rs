//! Differences that decide nothing and may explain everything: identity, seed, settings, events.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::checkpoint::first_difference;
use crate::trace::reader::Trace;
use crate::trace::record::{Event, NOT_FINITE};

/// One line a difference.
pub fn differences(a: &Trace, b: &Trace) -> Vec<String> {
    let mut notes = identities(a, b);
    if a.open.seed != b.open.seed {
        let text = |t: &Trace| t.open.seed.map_or_else(|| "none".to_owned(), |s| s.to_string());
        notes.push(format!("seed: {} | {}", text(a), text(b)));
    }
    notes.extend(first_difference(&a.open.settings, &b.open.settings, "").map(|d| format!("settings: {d}")));
    notes.extend(events(a, b));
    notes
}

fn identities(a: &Trace, b: &Trace) -> Vec<String> {
    let (a, b) = (&a.open.identity, &b.open.identity);
    let mut notes = Vec::new();
    for (what, x, y) in [("keyed", &a.keyed, &b.keyed), ("noted", &a.noted, &b.noted)] {
        let names: BTreeSet<&String> = x.keys().chain(y.keys()).collect();
        for name in names.into_iter().filter(|n| x.get(*n) != y.get(*n)) {
            let text = |m: &BTreeMap<String, String>| m.get(name).cloned().unwrap_or_else(|| "absent".into());
            notes.push(format!("{name} ({what}): {} | {}", text(x), text(y)));
        }
    }
    notes
}

/// Where the events part; a stop by rule 11 is compared with the closing record.
fn events(a: &Trace, b: &Trace) -> Option<String> {
    let told = |t: &Trace| -> Vec<Event> { t.events.iter().filter(|e| e.name != NOT_FINITE).cloned().collect() };
    let (x, y) = (told(a), told(b));
    let at = (0..x.len() + y.len()).find(|i| x.get(*i) != y.get(*i))?;
    let text = |e: Option<&Event>| match e {
        Some(e) if e.tensors.is_empty() => format!("{} at {} ({})", e.name, e.place, e.detail),
        Some(e) => format!("{} at {} ({}; {} tensors declared)", e.name, e.place, e.detail, e.tensors.len()),
        None => "no more".to_owned(),
    };
    Some(format!("events: {} | {}", text(x.get(at)), text(y.get(at))))
}
