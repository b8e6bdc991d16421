//! Trace against trace: the first place where two runs part, and what the answer rests on.
//!
//! Records are aligned by fold, kind, phase, step and evaluation; inside a fold their order and number must agree.
//! Folds may come in another order. Inside the scope absence is `unverified`; outside it is listed.

use std::collections::{BTreeMap, BTreeSet};

use super::resumed;
use super::tensors::elements;
use super::verdict::{Comparison, Divergence, Reason, Verdict};
use crate::digest::sha::from_hex;
use crate::scenario::case::Scope;
use crate::trace::reader::Trace;
use crate::trace::record::{Body, Dtype, Level, NOT_FINITE, Op, Ordered, Place};

type Key<'a> = (Option<u32>, &'static str, &'a Option<String>, Option<u64>, Option<u64>);

fn key<'a>(kind: &'static str, place: &'a Place) -> Key<'a> {
    (place.fold, kind, &place.phase, place.step, place.eval)
}

/// A record of digests and its kind.
type Item<'a> = (&'static str, &'a Body);

/// Compares two traces of one rank.
pub fn compare(a: &Trace, b: &Trace, scope: &Scope) -> Comparison {
    let engine = Some(a.open.engine.clone());
    let result = Comparison { noted: super::noted::differences(a, b), engine, ..Comparison::empty() };
    let mut work = Work { a, b, scope, result, absent: Vec::new(), altered: Vec::new(), matched: Matched::default() };
    let pairs = [
        ("engines", format!("{:?}", a.open.engine), format!("{:?}", b.open.engine)),
        ("ranks", a.open.rank.to_string(), b.open.rank.to_string()),
        ("worlds of", a.open.world_size.to_string(), b.open.world_size.to_string()),
    ];
    if let Some((what, x, y)) = pairs.iter().find(|(_, x, y)| x != y) {
        let detail = format!("{what} {x} and {y}");
        return Comparison { noted: work.result.noted, ..Comparison::unverified(Reason::NotComparable, detail) };
    }
    work.declared();
    work.bodies();
    work.close();
    work.finish()
}

/// What of the scope was compared on both sides.
#[derive(Default)]
struct Matched {
    kinds: BTreeSet<&'static str>,
    folds: BTreeSet<u32>,
    names: BTreeSet<String>,
}

struct Work<'a> {
    a: &'a Trace,
    b: &'a Trace,
    scope: &'a Scope,
    result: Comparison,
    absent: Vec<String>,
    altered: Vec<String>,
    matched: Matched,
}

impl<'a> Work<'a> {
    /// Types and shapes that both sides declare must agree, and neither may declare more.
    fn declared(&mut self) {
        let map = |t: &'a Trace| -> BTreeMap<&'a str, _> { t.declared().map(|t| (t.name.as_str(), t)).collect() };
        let (of_a, of_b) = (map(self.a), map(self.b));
        let in_order = self.a.declared().chain(self.b.declared()).map(|t| t.name.as_str());
        let mut seen = BTreeSet::new();
        for name in in_order.filter(|n| seen.insert(*n) && wants_tensor(self.scope, n)) {
            match (of_a.get(name), of_b.get(name)) {
                (Some(x), Some(y)) => {
                    if x.dtype != y.dtype || x.shape != y.shape {
                        let text = [x, y].map(|t| format!("{}{:?}", t.dtype.word(), t.shape));
                        let same_record = self.result.first.as_ref().is_none_or(|f| f.kind == "open");
                        if same_record {
                            self.differ("open", &Body::default(), &Body::default(), name, "declared", text);
                        }
                    } else if x.coverage != y.coverage {
                        let text = format!("coverage of {name}: {:?} | {:?}", x.coverage, y.coverage);
                        self.result.noted.push(text);
                    }
                }
                (x, _) => {
                    let side = if x.is_some() { "first" } else { "second" };
                    self.absent.push(format!("{name} is declared in the {side} only"));
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

    /// Records in scope by fold, in order; those before the other's resume are left out and said.
    fn by_fold(&mut self, trace: &'a Trace, other: &'a Trace) -> BTreeMap<Option<u32>, Vec<Item<'a>>> {
        let (mut folds, mut skipped) = (BTreeMap::<_, Vec<_>>::new(), 0);
        let order = resumed::fold_order(trace);
        for (kind, body) in trace.bodies.iter().filter(|(kind, body)| self.wants(kind, &body.place)) {
            match &other.open.resumed {
                Some(from) if resumed::is_before(kind, &body.place, from, &order) => skipped += 1,
                _ => folds.entry(body.place.fold).or_default().push((*kind, body)),
            }
        }
        if skipped > 0 {
            self.result.left_out.push(format!("{skipped} records before the resume"));
        }
        folds
    }

    fn bodies(&mut self) {
        let levels = [self.a.open.level, self.b.open.level];
        if self.scope.kinds.is_empty() && levels.contains(&Level::Off) {
            self.result.left_out.push("steps, evaluations and folds: a trace of level off has none".into());
            return;
        }
        if !levels.contains(&Level::Off) {
            self.absent.extend(resumed::false_claims(self.a, self.b));
        }
        let out = self.a.bodies.iter().filter(|(kind, body)| !self.wants(kind, &body.place)).count();
        if out > 0 {
            self.result.left_out.push(format!("{out} records outside the scope"));
        }
        let (of_a, of_b) = (self.by_fold(self.a, self.b), self.by_fold(self.b, self.a));
        let folds: BTreeSet<_> = of_a.keys().chain(of_b.keys()).copied().collect();
        let none = Vec::new();
        for fold in folds {
            let (x, y) = (of_a.get(&fold).unwrap_or(&none), of_b.get(&fold).unwrap_or(&none));
            for ((kind, x), (_, y)) in x.iter().zip(y).take(self.common(x, y)) {
                self.body(kind, x, y);
            }
        }
    }

    /// How many records of one fold stand at the same places; says where they part.
    fn common(&mut self, x: &[Item<'a>], y: &[Item<'a>]) -> usize {
        let parted = x.iter().zip(y).position(|(p, q)| key(p.0, &p.1.place) != key(q.0, &q.1.place));
        let both = if x.len() < y.len() { x.len() } else { y.len() };
        let common = parted.unwrap_or(both);
        if common < x.len() || common < y.len() {
            let name = |list: &[Item<'a>]| match list.get(common) {
                Some((kind, body)) => format!("{kind} at {}", body.place),
                None => "nothing more".to_owned(),
            };
            self.absent.push(format!("the records part: {} | {}", name(x), name(y)));
        }
        common
    }

    fn body(&mut self, kind: &'static str, x: &'a Body, y: &'a Body) {
        let before = self.result.compared.total();
        self.result.compared.records += 1;
        // All differing names of the first record that differs are told, none of later ones.
        let already = self.result.first.is_some();
        self.digests(kind, x, y, already);
        if self.scope.tensors.is_empty() {
            self.metrics(kind, x, y, already);
        }
        if self.result.compared.total() > before {
            self.matched.kinds.insert(kind);
            self.matched.folds.extend(x.place.fold);
        }
    }

    fn digests(&mut self, kind: &'static str, x: &'a Body, y: &'a Body, already: bool) {
        let (xs, ys) = (map(&x.sha256), map(&y.sha256));
        let (xf, yf) = (map(&x.fp), map(&y.fp));
        for name in names(x, y).into_iter().filter(|n| wants_tensor(self.scope, n)) {
            let sha = xs.get(name).zip(ys.get(name)).map(|(p, q)| (p.to_string(), q.to_string()));
            let fp = xf.get(name).zip(yf.get(name)).map(|(p, q)| (p.to_string(), q.to_string()));
            let (evidence, (p, q)) = match (&sha, &fp) {
                (Some(pair), _) => ("sha256", pair),
                (None, Some(pair)) => ("fp", pair),
                (None, None) => {
                    self.absent.push(format!("{name} in {kind} at {}: absent on one side", x.place));
                    continue;
                }
            };
            self.matched.names.insert(name.to_owned());
            self.result.compared.sha256 += u64::from(evidence == "sha256");
            self.result.compared.fingerprints += u64::from(evidence == "fp");
            if p != q {
                if !already {
                    self.differ(kind, x, y, name, evidence, [p.clone(), q.clone()]);
                }
                continue;
            }
            // Kept values need no such look: the reader holds them against their own digests.
            if fp.as_ref().is_some_and(|(p, q)| p != q) {
                self.altered.push(format!("{name} in {kind} at {}: equal {evidence}, unequal fp", x.place));
            }
        }
    }

    fn metrics(&mut self, kind: &'static str, x: &'a Body, y: &'a Body, already: bool) {
        let (of_x, of_y) = (map(&x.metrics), map(&y.metrics));
        let mut seen = BTreeSet::new();
        let in_order = x.metrics.iter().chain(y.metrics.iter()).map(|(n, _)| n);
        for name in in_order.filter(|n| seen.insert(*n)) {
            let Some((p, q)) = of_x.get(name).zip(of_y.get(name)) else {
                self.absent.push(format!("metric {name} in {kind} at {}: absent on one side", x.place));
                continue;
            };
            self.result.compared.metrics += 1;
            if p.bits != q.bits && !already {
                self.differ(kind, x, y, name, "metric", [p.bits.clone(), q.bits.clone()]);
            }
        }
    }

    fn differ(&mut self, kind: &str, x: &Body, y: &Body, name: &str, evidence: &'static str, values: [String; 2]) {
        self.result.differing.push(name.to_owned());
        let dtype = self.a.declared().find(|t| t.name == name).map(|t| t.dtype);
        if let Some(first) = &mut self.result.first {
            // A tensor too large for its values to be kept gives way to the next one that has them.
            if first.elements.is_none() {
                first.elements = values_of(x, y, name, dtype);
                first.elements_of = first.elements.as_ref().map(|_| name.to_owned());
            }
            return;
        }
        self.result.first = Some(Divergence {
            kind: kind.to_owned(),
            place: x.place.clone(),
            name: name.to_owned(),
            evidence,
            values,
            elements: values_of(x, y, name, dtype),
            elements_of: None,
            lines: None,
            operation: first_operation(&x.ops, &y.ops),
        });
    }

    fn close(&mut self) {
        if !self.wants_kind("close") {
            return;
        }
        if !self.scope.folds.is_empty() {
            self.result.left_out.push("close: it is of the whole run, and folds are given".into());
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
        self.final_digests();
    }

    fn final_digests(&mut self) {
        let already = self.result.first.is_some();
        let (x, y) = (&self.a.close.sha256, &self.b.close.sha256);
        let (of_x, of_y) = (map(x), map(y));
        let mut seen = BTreeSet::new();
        let in_order = x.iter().chain(y.iter()).map(|(n, _)| n);
        for name in in_order.filter(|n| seen.insert(*n) && wants_tensor(self.scope, n)) {
            match (of_x.get(name), of_y.get(name)) {
                (Some(p), Some(q)) => {
                    self.result.compared.sha256 += 1;
                    self.matched.kinds.insert("close");
                    self.matched.names.insert(name.to_owned());
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

    /// Elements of the scope for which nothing was compared on both sides.
    fn unmatched(&mut self) -> Vec<String> {
        let mut lacking = Vec::new();
        for kind in &self.scope.kinds {
            let known = ["step", "eval", "fold", "close"].contains(&kind.as_str());
            let none = [self.a, self.b].iter().all(|t| t.bodies.iter().all(|(k, _)| k != kind));
            // The record `close` is there in any trace; folds rule it out.
            let ruled_out = if kind == "close" { !self.scope.folds.is_empty() } else { none };
            if self.matched.kinds.contains(kind.as_str()) {
                continue;
            } else if known && ruled_out && !self.matched.kinds.is_empty() {
                self.result.left_out.push(format!("kind {kind}: neither has such a record in scope"));
            } else {
                lacking.push(format!("kind {kind}"));
            }
        }
        let folds = self.scope.folds.iter().filter(|f| !self.matched.folds.contains(f));
        lacking.extend(folds.map(|f| format!("fold {f}")));
        let tensors = self.scope.tensors.iter().filter(|p| !self.matched.names.iter().any(|n| fits(p, n)));
        lacking.extend(tensors.map(|p| format!("tensors {p}")));
        lacking
    }

    /// Declared tensors that no compared record holds.
    fn unseen(&mut self) {
        let declared = self.a.declared().map(|t| t.name.as_str());
        let wanted = declared.filter(|n| wants_tensor(self.scope, n) && !self.matched.names.contains(*n));
        let unseen: Vec<&str> = wanted.collect();
        if let Some(some) =
            unseen.get(..if unseen.len() < 4 { unseen.len() } else { 4 }).filter(|some| !some.is_empty())
        {
            let more = if unseen.len() > some.len() { ", ..." } else { "" };
            let text = format!("{} declared tensors in no compared record ({}{more})", unseen.len(), some.join(", "));
            self.result.left_out.push(text);
        }
    }

    fn finish(mut self) -> Comparison {
        let looked = self.result.compared.total() > 0;
        let lacking = self.unmatched();
        self.unseen();
        let more = |list: &[String]| match list {
            [first] => first.clone(),
            [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
            [] => String::new(),
        };
        self.result.verdict = if self.result.first.is_some() {
            Verdict::Different
        } else if !self.altered.is_empty() {
            Verdict::unverified(Reason::AlteredTrace, more(&self.altered))
        } else if !self.absent.is_empty() {
            Verdict::unverified(Reason::NotComparable, more(&self.absent))
        } else if !lacking.is_empty() {
            let detail = format!("nothing was compared for: {}", lacking.join(", "));
            Verdict::unverified(Reason::NoEvidence, detail)
        } else if !looked {
            Verdict::unverified(Reason::NoEvidence, "the scope holds no digest")
        } else {
            Verdict::Same
        };
        self.result
    }
}

/// True for a name that a pattern of a scope means.
pub fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

/// True for a tensor in scope.
pub fn wants_tensor(scope: &Scope, name: &str) -> bool {
    scope.tensors.is_empty() || scope.tensors.iter().any(|p| fits(p, name))
}

fn map<T>(named: &Ordered<T>) -> BTreeMap<&str, &T> {
    named.iter().collect()
}

/// Names of both sides that have a digest or values, in order.
fn names<'b>(x: &'b Body, y: &'b Body) -> Vec<&'b str> {
    let mut seen = BTreeSet::new();
    let of = |b: &'b Body| {
        let digests = b.fp.iter().map(|(n, _)| n).chain(b.sha256.iter().map(|(n, _)| n));
        digests.chain(b.values.iter().map(|(n, _)| n))
    };
    of(x).chain(of(y)).filter(|n| seen.insert(*n)).collect()
}

fn values_of(x: &Body, y: &Body, name: &str, dtype: Option<Dtype>) -> Option<super::verdict::Elements> {
    let bytes = |b: &Body| b.values.get(name).and_then(|hex| from_hex(hex));
    elements(dtype, &bytes(x)?, &bytes(y)?)
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

/// The first operation whose output differs, and whether its inputs explain that, in words.
fn first_operation(a: &[Op], b: &[Op]) -> Option<String> {
    if let Some(found) = culprit(a, b) {
        let how = if found.reordered { "the same inputs in another order" } else { "its inputs agree" };
        return Some(format!("{}: {how}, its output differs", found.operation));
    }
    let (x, y) = a.iter().zip(b).find(|(x, y)| x.outputs != y.outputs)?;
    let of_y = map(&y.inputs);
    let inputs = x.inputs.iter().filter(|(name, fp)| of_y.get(name) != Some(fp)).map(|(name, _)| name);
    let inputs: Vec<&str> = inputs.take(4).collect();
    Some(format!("{}: its output differs, and so do inputs ({})", x.op, inputs.join(", ")))
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
    let of_y = map(&y.outputs);
    let outputs = x.outputs.iter().filter(|(n, v)| of_y.get(n) != Some(v)).map(|(n, _)| n.to_owned()).collect();
    Some(Culprit { operation: x.op.clone(), outputs, reordered: x.inputs != y.inputs })
}
