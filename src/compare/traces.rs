//! Trace against trace: the first place where two runs part, and what the answer rests on.
//!
//! Records are aligned by fold, kind, phase, step and evaluation; inside a fold their order and number must agree.
//! Folds may come in another order. Inside the scope absence is `unverified`; outside it is listed.

use std::collections::BTreeMap;

use super::tensors::elements;
use super::verdict::{Comparison, Divergence, Reason, Verdict};
use crate::scenario::case::Scope;
use crate::trace::reader::Trace;
use crate::trace::record::{Body, Dtype, Level, NOT_FINITE, Op, Place};

type Key<'a> = (Option<u32>, &'static str, &'a Option<String>, Option<u64>, Option<u64>);

fn key<'a>(kind: &'static str, place: &'a Place) -> Key<'a> {
    (place.fold, kind, &place.phase, place.step, place.eval)
}

/// Compares two traces of one rank.
pub fn compare(a: &Trace, b: &Trace, scope: &Scope) -> Comparison {
    let mut work = Work { a, b, scope, result: Comparison::empty(), absent: Vec::new() };
    work.identities();
    if a.open.engine != b.open.engine {
        let detail = format!("engines {:?} and {:?}", a.open.engine, b.open.engine);
        return Comparison { noted: work.result.noted, ..Comparison::unverified(Reason::NotComparable, detail) };
    }
    work.bodies();
    work.close();
    work.finish()
}

struct Work<'a> {
    a: &'a Trace,
    b: &'a Trace,
    scope: &'a Scope,
    result: Comparison,
    absent: Vec<String>,
}

impl<'a> Work<'a> {
    fn identities(&mut self) {
        let (a, b) = (&self.a.open.identity, &self.b.open.identity);
        for (what, x, y) in [("keyed", &a.keyed, &b.keyed), ("noted", &a.noted, &b.noted)] {
            let names: std::collections::BTreeSet<&String> = x.keys().chain(y.keys()).collect();
            for name in names {
                let text = |m: &BTreeMap<String, String>| m.get(name).cloned().unwrap_or_else(|| "absent".into());
                if x.get(name) != y.get(name) {
                    self.result.noted.push(format!("{name} ({what}): {} | {}", text(x), text(y)));
                }
            }
        }
    }

    fn wants_kind(&self, kind: &str) -> bool {
        self.scope.kinds.is_empty() || self.scope.kinds.iter().any(|k| k == kind)
    }

    fn wants(&self, kind: &str, place: &Place) -> bool {
        let fold = self.scope.folds.is_empty() || place.fold.is_some_and(|f| self.scope.folds.contains(&f));
        fold && self.wants_kind(kind)
    }

    /// Records in scope by fold, in order.
    fn by_fold(&self, trace: &'a Trace) -> BTreeMap<Option<u32>, Vec<(&'static str, &'a Body)>> {
        let mut folds: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (kind, body) in trace.bodies.iter().filter(|(kind, body)| self.wants(kind, &body.place)) {
            folds.entry(body.place.fold).or_default().push((*kind, body));
        }
        folds
    }

    fn bodies(&mut self) {
        let levels = [self.a.open.level, self.b.open.level];
        if self.scope.kinds.is_empty() && levels.contains(&Level::Off) {
            self.result.left_out.push("steps, evaluations and folds: a trace of level off has none".into());
            return;
        }
        let out = self.a.bodies.iter().filter(|(kind, body)| !self.wants(kind, &body.place)).count();
        if out > 0 {
            self.result.left_out.push(format!("{out} records outside the scope"));
        }
        let (of_a, of_b) = (self.by_fold(self.a), self.by_fold(self.b));
        let mut pairs = Vec::new();
        let folds: std::collections::BTreeSet<_> = of_a.keys().chain(of_b.keys()).copied().collect();
        for fold in folds {
            let none = Vec::new();
            let (x, y) = (of_a.get(&fold).unwrap_or(&none), of_b.get(&fold).unwrap_or(&none));
            pairs.extend(self.align(fold, x, y));
        }
        for (kind, x, y) in pairs {
            self.body(kind, x, y);
        }
    }

    /// Pairs of one fold. A resumed trace may begin late; what comes before is left out and said.
    fn align(
        &mut self,
        fold: Option<u32>,
        x: &[(&'static str, &'a Body)],
        y: &[(&'static str, &'a Body)],
    ) -> Vec<(&'static str, &'a Body, &'a Body)> {
        let (skip_x, skip_y) = (self.before_resume(x, y, self.b), self.before_resume(y, x, self.a));
        let (x, y) = (&x[skip_x..], &y[skip_y..]);
        if skip_x + skip_y > 0 {
            let name = fold.map_or_else(String::new, |f| format!(" of fold {f}"));
            self.result.left_out.push(format!("{} records{name} before the resume", skip_x + skip_y));
        }
        let parted = x.iter().zip(y).position(|(p, q)| key(p.0, &p.1.place) != key(q.0, &q.1.place));
        let both = if x.len() < y.len() { x.len() } else { y.len() };
        let common = parted.unwrap_or(both);
        if common < x.len() || common < y.len() {
            let name = |list: &[(&'static str, &Body)]| match list.get(common) {
                Some((kind, body)) => format!("{kind} at {}", body.place),
                None => "nothing more".to_owned(),
            };
            self.absent.push(format!("the records part: {} | {}", name(x), name(y)));
        }
        x.iter().zip(y).take(common).map(|(p, q)| (p.0, p.1, q.1)).collect()
    }

    /// Records of `x` that a trace resumed later cannot have.
    fn before_resume(&self, x: &[(&'static str, &Body)], y: &[(&'static str, &Body)], other: &Trace) -> usize {
        let Some(resumed) = &other.open.resumed else { return 0 };
        match y.first() {
            Some((kind, body)) => {
                let first = key(kind, &body.place);
                x.iter().position(|(k, b)| key(k, &b.place) == first).unwrap_or(0)
            }
            // The whole fold was done before: at its end, or in a fold that ran earlier.
            None => {
                let done = x
                    .iter()
                    .all(|(_, b)| b.place.fold != Some(resumed.fold) || b.place.step.is_none_or(|s| s <= resumed.step));
                if done { x.len() } else { 0 }
            }
        }
    }

    fn body(&mut self, kind: &'static str, x: &Body, y: &Body) {
        self.result.compared.records += 1;
        let names: Vec<&str> = union(x, y).into_iter().filter(|n| wants_tensor(self.scope, n)).collect();
        let already = self.result.first.is_some();
        for name in names {
            let (evidence, p, q) = match (x.sha256.get(name), y.sha256.get(name), x.fp.get(name), y.fp.get(name)) {
                (Some(p), Some(q), ..) => ("sha256", p.to_string(), q.to_string()),
                (.., Some(p), Some(q)) => ("fp", p.to_string(), q.to_string()),
                _ => {
                    self.absent.push(format!("{name} in {kind} at {}: absent on one side", x.place));
                    continue;
                }
            };
            if evidence == "fp" {
                self.result.compared.fingerprints += 1;
            } else {
                self.result.compared.sha256 += 1;
            }
            if p != q && !already {
                self.differ(kind, x, y, name, evidence, [p, q]);
            }
        }
        for (name, p) in x.metrics.iter() {
            match y.metrics.get(name) {
                Some(q) => {
                    self.result.compared.metrics += 1;
                    if p.bits != q.bits && !already {
                        self.differ(kind, x, y, name, "metric", [p.bits.clone(), q.bits.clone()]);
                    }
                }
                None => self.absent.push(format!("metric {name} in {kind} at {}: absent on one side", x.place)),
            }
        }
        for (name, _) in y.metrics.iter().filter(|(name, _)| x.metrics.get(name).is_none()) {
            self.absent.push(format!("metric {name} in {kind} at {}: absent on one side", y.place));
        }
    }

    fn differ(&mut self, kind: &str, x: &Body, y: &Body, name: &str, evidence: &'static str, values: [String; 2]) {
        self.result.differing.push(name.to_owned());
        if self.result.first.is_some() {
            return;
        }
        let dtype = self.a.open.tensors.iter().find(|t| t.name == name).map(|t| t.dtype);
        let found = culprit(&x.ops, &y.ops);
        self.result.first = Some(Divergence {
            kind: kind.to_owned(),
            place: x.place.clone(),
            name: name.to_owned(),
            evidence,
            values,
            elements: values_of(x, y, name, dtype),
            operation: found.map(|c| c.operation.clone()),
        });
    }

    fn close(&mut self) {
        if !self.wants_kind("close") {
            return;
        }
        let (x, y) = (&self.a.close, &self.b.close);
        self.result.compared.records += 1;
        if x.status != y.status {
            let values = [format!("{:?}", x.status), format!("{:?}", y.status)];
            self.differ("close", &Body::default(), &Body::default(), "status", "metric", values);
        }
        let stop =
            |t: &Trace| t.events.iter().find(|e| e.name == NOT_FINITE).map(|e| format!("{}: {}", e.place, e.detail));
        if stop(self.a) != stop(self.b) {
            let values = [self.a, self.b].map(|t| stop(t).unwrap_or_else(|| "it did not stop".to_owned()));
            self.differ("close", &Body::default(), &Body::default(), NOT_FINITE, "metric", values);
        }
        let already = self.result.first.is_some();
        let mut seen = std::collections::BTreeSet::new();
        let in_order = x.sha256.iter().chain(y.sha256.iter()).map(|(n, _)| n);
        for name in in_order.filter(|n| seen.insert(*n) && wants_tensor(self.scope, n)) {
            match (x.sha256.get(name), y.sha256.get(name)) {
                (Some(p), Some(q)) => {
                    self.result.compared.sha256 += 1;
                    if p != q && !already {
                        let values = [p.to_string(), q.to_string()];
                        self.differ("close", &Body::default(), &Body::default(), name, "sha256", values);
                    }
                }
                (p, _) => {
                    let side = if p.is_some() { "second" } else { "first" };
                    self.absent.push(format!("{name} in close: absent from the {side}"));
                }
            }
        }
    }

    fn finish(mut self) -> Comparison {
        let looked = self.result.compared.total() > 0;
        self.result.verdict = match (&self.result.first, self.absent.first()) {
            (Some(_), _) => Verdict::Different,
            (None, Some(first)) => {
                let more = if self.absent.len() > 1 {
                    format!(" (and {} more)", self.absent.len() - 1)
                } else {
                    String::new()
                };
                Verdict::unverified(Reason::NotComparable, format!("{first}{more}"))
            }
            (None, None) if !looked => Verdict::unverified(Reason::NoEvidence, "the scope holds no digest"),
            (None, None) => Verdict::Same,
        };
        self.result
    }
}

/// True for a tensor in scope.
pub fn wants_tensor(scope: &Scope, name: &str) -> bool {
    let fits = |pattern: &String| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    };
    scope.tensors.is_empty() || scope.tensors.iter().any(fits)
}

fn union<'b>(x: &'b Body, y: &'b Body) -> Vec<&'b str> {
    let mut seen = std::collections::BTreeSet::new();
    let names = |b: &'b Body| b.fp.iter().map(|(n, _)| n).chain(b.sha256.iter().map(|(n, _)| n));
    names(x).chain(names(y)).filter(|n| seen.insert(*n)).collect()
}

fn values_of(x: &Body, y: &Body, name: &str, dtype: Option<Dtype>) -> Option<super::verdict::Elements> {
    let bytes = |b: &Body| b.values.get(name).and_then(|hex| unhex(hex));
    elements(dtype, &bytes(x)?, &bytes(y)?)
}

/// Bytes of a hex string.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.bytes().map(|c| (c as char).to_digit(16).map(|d| d as u8)).collect();
    let digits = digits.filter(|d| d.len().is_multiple_of(2))?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// The first operation whose inputs agree and whose output differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Culprit {
    /// operation
    pub operation: String,
    /// outputs that differ
    pub outputs: Vec<String>,
    /// the inputs are the same set, read in another order
    pub reordered: bool,
}

/// Culprit rule of DESIGN.md section 4, over two lists of operations of one step.
pub fn culprit(a: &[Op], b: &[Op]) -> Option<Culprit> {
    let pair = a.iter().zip(b).find(|(x, y)| x.op != y.op || x.outputs != y.outputs)?;
    let (x, y) = pair;
    if x.op != y.op {
        return Some(Culprit { operation: format!("{} | {}", x.op, y.op), outputs: Vec::new(), reordered: false });
    }
    let sorted = |op: &Op| {
        let mut inputs = op.inputs.0.clone();
        inputs.sort();
        inputs
    };
    if sorted(x) != sorted(y) {
        return None;
    }
    let outputs = x.outputs.iter().filter(|(n, v)| y.outputs.get(n) != Some(*v)).map(|(n, _)| n.to_owned()).collect();
    Some(Culprit { operation: x.op.clone(), outputs, reordered: x.inputs != y.inputs })
}
