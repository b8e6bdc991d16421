//! Goldens: the text that an accepted snapshot holds, and a trace against it.
//!
//! A golden holds fingerprints after updates 1, 2, 4, 8, ... of each fold, one a group of tensors, and every tensor's
//! SHA-256 at fold ends and evaluations, so that a mismatch brackets the first divergent update without the old binary.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::left::Left;
use super::verdict::{Compared, Comparison, Divergence, Reason, Verdict};
use crate::digest::fingerprint::Fingerprint;
use crate::digest::root::fingerprint_root;
use crate::digest::sha::sha256;
use crate::trace::reader::Trace;
use crate::trace::record::{Body, NOT_FINITE, Place};

/// First line of a golden.
pub const SCHEMA: &str = "samebits-golden/1";

/// Lines of a trace's last step, one a tensor.
const LAST_STEP: &str = "last-step";
/// Lines of a trace's close, one a tensor.
const FINAL: &str = "final";
/// The digest of everything, which differs when anything does.
const ROOT: &str = "close root";
/// What stands for the value of a metric that is not finite.
const NO_NUMBER: &str = "not finite";

/// Group of a tensor: `adam.m`, else the first part of its name.
fn group(name: &str) -> &str {
    let parts = if name.starts_with("adam.") { 2 } else { 1 };
    name.match_indices('.').nth(parts - 1).map_or(name, |(at, _)| &name[..at])
}

fn groups(body: &Body) -> Vec<(String, String)> {
    let mut found: Vec<(&str, Vec<(&str, &Fingerprint)>)> = Vec::new();
    let mut index = BTreeMap::new();
    for (name, fp) in body.fp.iter() {
        let at = *index.entry(group(name)).or_insert(found.len());
        if at == found.len() {
            found.push((group(name), Vec::new()));
        }
        found[at].1.push((name, fp));
    }
    let text = |list: Vec<(&str, &Fingerprint)>| fingerprint_root(list).to_string()[..32].to_owned();
    found.into_iter().map(|(g, list)| (g.to_owned(), text(list))).collect()
}

fn is_kept(step: u64) -> bool {
    (step + 1).is_power_of_two()
}

/// The golden of a trace.
pub fn render(trace: &Trace) -> String {
    let lines = lines(trace, None).join("\n");
    format!("{SCHEMA}\n{lines}\n{ROOT} {}\n", trace.close.root)
}

/// What a golden says of a trace, without the digest of everything. `named` is the record of a step whose tensors are
/// named one by one.
fn lines(trace: &Trace, named: Option<&Body>) -> Vec<String> {
    let mut lines = vec![format!("engine {}", trace.open.engine)];
    lines.extend(trace.open.identity.keyed.iter().map(|(name, value)| format!("key {name} {value}")));
    lines.extend(trace.open.settings["market"]["sha256"].as_str().map(|market| format!("market {market}")));
    for (kind, body) in &trace.bodies {
        lines.extend(lines_of(kind, body));
        if named.is_some_and(|n| std::ptr::eq(n, body)) {
            let place = place_text(&body.place);
            lines.extend(body.fp.iter().map(|(name, fp)| format!("{LAST_STEP} {place} {name} {fp}")));
        }
    }
    let events = trace.events.iter().filter(|e| e.name == NOT_FINITE);
    lines.extend(events.map(|e| format!("event {} {NOT_FINITE} {}", place_text(&e.place), e.detail)));
    lines.push(format!("close status {:?}", trace.close.status));
    lines
}

fn lines_of(kind: &str, body: &Body) -> Vec<String> {
    let place = place_text(&body.place);
    match kind {
        "step" if body.place.step.is_some_and(is_kept) => {
            groups(body).into_iter().map(|(group, root)| format!("step {place} {group} {root}")).collect()
        }
        "eval" => {
            let metrics = body.metrics.iter().map(|(name, number)| {
                let value = number.value.map_or_else(|| NO_NUMBER.to_owned(), |v| format!("{v}"));
                format!("eval {place} {name} {} # {value}", number.bits)
            });
            let digests = body.sha256.iter().filter(|(n, _)| n.starts_with("eval."));
            metrics.chain(digests.map(|(name, digest)| format!("eval {place} {name} {digest}"))).collect()
        }
        "fold" => body.sha256.iter().map(|(name, digest)| format!("fold {place} {name} {digest}")).collect(),
        _ => Vec::new(),
    }
}

/// The golden of what a command left: its traces' goldens with what they end with tensor by tensor, every output's
/// SHA-256, the digest of all.
pub fn render_left(left: &Left) -> String {
    let mut text = format!("{SCHEMA}\n");
    for trace in &left.traces {
        let last = trace.bodies.iter().rev().find(|(kind, _)| *kind == "step").map(|(_, body)| body);
        let digests = trace.close.sha256.iter().map(|(name, digest)| format!("{FINAL} {name} {digest}"));
        for line in lines(trace, last).into_iter().chain(digests) {
            let _ = writeln!(text, "rank {} {line}", trace.open.rank);
        }
    }
    for d in left.outputs.list.iter() {
        let sizes: Vec<String> = d.shape.iter().map(usize::to_string).collect();
        let _ = writeln!(text, "output {} {}[{}]:{}", d.name, d.word, sizes.join(","), sha256(&d.bytes));
    }
    let _ = writeln!(text, "{ROOT} {}", left.key(&Default::default()));
    text
}

fn place_text(place: &Place) -> String {
    let part = |name: &str, x: Option<u64>| x.map_or_else(|| format!("{name}=-"), |x| format!("{name}={x}"));
    let fold = part("fold", place.fold.map(u64::from));
    match place.eval {
        Some(eval) => format!("{fold} {} eval={eval}", part("step", place.step)),
        None => format!("{fold} {}", part("step", place.step)),
    }
}

type Lines = (Vec<String>, BTreeMap<String, String>);

/// One line: everything before the last value is its key. Only evaluations have a readable number behind it.
fn parse(text: &str) -> Result<Lines, String> {
    let (mut order, mut map) = (Vec::new(), BTreeMap::new());
    let mut lines = text.lines().zip(1u64..);
    match lines.next() {
        Some((SCHEMA, _)) => {}
        other => return Err(format!("line 1: {:?}, expected {SCHEMA:?}", other.map_or("", |(line, _)| line))),
    }
    for (line, at) in lines {
        let pair =
            without_number(line).rsplit_once(' ').filter(|(key, value)| !key.trim().is_empty() && !value.is_empty());
        let (key, value) = pair.ok_or_else(|| format!("line {at}: {line:?} has no key and value"))?;
        order.push(key.to_owned());
        if map.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(format!("line {at}: {key:?} stands twice"));
        }
    }
    Ok((order, map))
}

/// A line without the readable number that only evaluations have; a name may hold the sign before it.
fn without_number(line: &str) -> &str {
    let is_number = |text: &str| text == NO_NUMBER || text.parse::<f64>().is_ok();
    let of_eval = of_rank(line).1.starts_with("eval ");
    line.rsplit_once(" # ").filter(|(_, last)| of_eval && is_number(last)).map_or(line, |(told, _)| told)
}

/// A run's golden text against the accepted one.
pub fn compare(accepted: &str, found: &str) -> Comparison {
    let named = |which: &str, e: String| Comparison::unverified(Reason::NotComparable, format!("{which}, {e}"));
    let (order, golden) = match parse(accepted) {
        Ok(lines) => lines,
        Err(e) => return named("the golden", e),
    };
    let (new_order, new) = match parse(found) {
        Ok(lines) => lines,
        Err(e) => return named("the run's text", e),
    };
    if order.len() < 2 {
        return Comparison::unverified(Reason::NotComparable, "the golden holds no digest");
    }
    // A golden of a version that did not name the tensors of a trace's end: the digest of everything holds them.
    let is_end = |key: &String| matches!(of_rank(key).1.split(' ').next(), Some(LAST_STEP | FINAL));
    let is_older = new.contains_key(ROOT) && golden.contains_key(ROOT) && !order.iter().any(is_end);
    let added = new_order.iter().filter(|k| !(golden.contains_key(*k) || is_older && is_end(k)));
    let (root, other): (Vec<&String>, Vec<&String>) = order.iter().chain(added).partition(|k| *k == ROOT);
    let mut work = Work { result: Comparison::empty(), last_equal: None, elsewhere: 0 };
    let value = |lines: &BTreeMap<String, String>, key| lines.get(key).map_or("absent", String::as_str).to_owned();
    for key in other.into_iter().chain(root) {
        work.line(key, &value(&golden, key), &value(&new, key));
    }
    if is_older && new_order.iter().any(is_end) {
        let text =
            "an older golden: it names no tensor of a trace's last step and end, which only its last digest holds";
        work.result.noted.push(text.to_owned());
    }
    work.finish()
}

struct Work {
    result: Comparison,
    /// last place of a step whose lines are equal so far, before the first difference
    last_equal: Option<Place>,
    /// lines that differ at other places than the first
    elsewhere: usize,
}

impl Work {
    fn line(&mut self, key: &str, a: &str, b: &str) {
        count(&mut self.result.compared, key);
        let (kind, place, name) = parts(key);
        if a == b {
            if self.result.first.is_none() && kind == "step" {
                self.last_equal = Some(place);
            }
            return;
        }
        match &self.result.first {
            Some(first) if first.kind != kind || first.place != place => self.elsewhere += 1,
            Some(_) => self.result.differing.push(name),
            None => {
                self.between(&kind, &place);
                let evidence = match kind.as_str() {
                    "step" | LAST_STEP => "fp",
                    "eval" if !name.starts_with("eval.") => "metric",
                    _ => "sha256",
                };
                let values = [a.to_owned(), b.to_owned()];
                self.result.differing.push(name.clone());
                let (elements, elements_of, lines, operation) = (None, None, None, None);
                self.result.first =
                    Some(Divergence { kind, place, name, evidence, values, elements, elements_of, lines, operation });
            }
        }
    }

    /// Updates of the same fold that the golden holds nothing of, before the first difference.
    fn between(&mut self, kind: &str, place: &Place) {
        let last = self.last_equal.as_ref().filter(|p| p.fold == place.fold).and_then(|p| p.step);
        let next = last.map_or(0, |s| s + 1);
        if let Some(step) = place.step.filter(|s| *s > next && kind != "eval") {
            let fold = place.fold.map_or_else(String::new, |f| format!(" of fold {f}"));
            self.result
                .left_out
                .push(format!("updates {next} to {}{fold}: a golden keeps 0, 1, 3, 7, ... and the last", step - 1));
        }
    }

    fn finish(mut self) -> Comparison {
        let Some(first) = &self.result.first else {
            self.result.verdict = Verdict::Same;
            return self.result;
        };
        self.result.verdict = Verdict::Different;
        if first.kind == "step" {
            let text = format!("a golden's step holds groups: {0} stands for the tensors {0} and {0}.*", first.name);
            self.result.noted.push(text);
        }
        if self.elsewhere > 0 {
            self.result.noted.push(format!("{} more lines of the golden differ at other places", self.elsewhere));
        }
        self.result
    }
}

/// A line's key without the rank, and the rank.
fn of_rank(key: &str) -> (u32, &str) {
    let split = || {
        let (rank, rest) = key.strip_prefix("rank ")?.split_once(' ')?;
        Some((rank.parse().ok()?, rest))
    };
    split().unwrap_or((0, key))
}

fn count(compared: &mut Compared, key: &str) {
    let key = of_rank(key).1;
    match key.split(' ').next() {
        Some("step" | LAST_STEP) => compared.fingerprints += 1,
        Some("fold" | FINAL | "close" | "market" | "output") => compared.sha256 += 1,
        Some("eval") if parts(key).2.starts_with("eval.") => compared.sha256 += 1,
        _ => compared.metrics += 1,
    }
}

/// Kind, place and name of a line; a line without a name (`market`) is named by its kind.
fn parts(key: &str) -> (String, Place, String) {
    let (rank, key) = of_rank(key);
    let kind = key.split(' ').next().unwrap_or_default().to_owned();
    let (mut place, mut name) = (Place { rank, ..Place::default() }, kind.clone());
    let mut rest = key.split_once(' ').map_or("", |(_, rest)| rest);
    // Names of outputs and tensors may hold blanks; only lines with a place have one before the name.
    while !matches!(kind.as_str(), "output" | FINAL | "close" | "key") {
        let (part, after) = rest.split_once(' ').unwrap_or((rest, ""));
        match part.split_once('=') {
            Some(("fold", x)) => place.fold = x.parse().ok(),
            Some(("step", x)) => place.step = x.parse().ok(),
            Some(("eval", x)) => place.eval = x.parse().ok(),
            _ => break,
        }
        rest = after;
    }
    if !rest.is_empty() {
        name = rest.to_owned();
    }
    (kind, place, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "samebits-golden/1\nengine x chain/1\nstep fold=0 step=0 q aa\nstep fold=0 step=1 q bb\n\
                        eval fold=0 step=2 eval=2 return 3f # 1\nclose root cc\n";

    /// Would fail if a changed, missing or added line could pass, or a readable number decide.
    #[test]
    fn every_line_counts() {
        assert_eq!(compare(TEXT, TEXT).verdict, Verdict::Same);
        assert_eq!(compare(TEXT, &TEXT.replace("# 1", "# 1.0")).verdict, Verdict::Same);
        let changed = compare(TEXT, &TEXT.replace("q bb", "q bc"));
        let first = changed.first.unwrap();
        assert_eq!((changed.verdict, first.name.as_str(), first.place.step), (Verdict::Different, "q", Some(1)));
        assert_eq!(compare(TEXT, &TEXT.replace("close root cc\n", "")).verdict, Verdict::Different);
        assert_eq!(compare(&TEXT.replace("close root cc\n", ""), TEXT).verdict, Verdict::Different);
        assert_ne!(compare("", TEXT).verdict, Verdict::Same);
    }

    /// Would fail if a golden that is not whole, or says a thing twice, could be compared as if it were.
    #[test]
    fn a_golden_is_read_strictly() {
        let refused = |text: &str, line: &str| {
            let verdict = compare(text, TEXT).verdict;
            assert!(matches!(&verdict, Verdict::Unverified { detail, .. } if detail.contains(line)), "{verdict:?}");
        };
        refused(&TEXT.replace("golden/1", "golden/2"), "line 1");
        refused(&TEXT.replace("close root cc", "rubbish"), "line 6");
        refused(&TEXT.replace("close root cc", ""), "line 6");
        refused(&format!("{TEXT}close root cc\n"), "line 7");
    }

    /// Would fail if a difference at the last step of a command's trace, or in what it ends with, named no tensor.
    #[test]
    fn what_a_trace_ends_with_is_named() {
        let text = "samebits-golden/1\nrank 1 step fold=- step=15 net aa\nrank 1 last-step fold=- step=19 net.a b bb\n\
                    rank 1 final net.a b cc\nclose root dd\n";
        let moved = compare(text, &text.replace("bb", "b0").replace("cc", "c0").replace("dd", "d0"));
        let first = moved.first.unwrap();
        assert_eq!((first.kind.as_str(), first.name.as_str(), first.evidence), ("last-step", "net.a b", "fp"));
        assert_eq!((first.place.rank, first.place.step), (1, Some(19)));
        assert_eq!(moved.left_out, ["updates 16 to 18: a golden keeps 0, 1, 3, 7, ... and the last"]);
        let first = compare(text, &text.replace("cc", "c0")).first.unwrap();
        assert_eq!((first.kind.as_str(), first.name.as_str(), first.evidence), ("final", "net.a b", "sha256"));
    }

    /// Would fail if the readable number of a command's evaluation decided, or became a part of its name.
    #[test]
    fn a_rank_s_evaluations_are_known_by_their_bits() {
        let line = |name: &str, rest: &str| format!("rank 0 eval fold=- step=20 eval=0 {name} {rest}");
        let text = |acc: &str, digest: &str| {
            let (acc, digest) = (line("my # acc", acc), line("eval.b # 1", digest));
            format!("samebits-golden/1\n{acc}\n{digest}\nclose root dd\n")
        };
        let old = text("3f # 1", "aa");
        assert_eq!(compare(&old, &text("3f # 1.0", "aa")).verdict, Verdict::Same);
        let changed = compare(&old, &text("40 # not finite", "bb"));
        assert_eq!(changed.differing, ["my # acc", "eval.b # 1"]);
        let first = changed.first.unwrap();
        assert_eq!((first.evidence, first.values), ("metric", ["3f".to_owned(), "40".to_owned()]));
        assert_eq!((changed.compared.metrics, changed.compared.sha256), (1, 2));
    }

    /// Would fail if what a run has more than the golden hid behind the digest of everything, or a golden of a version
    /// that named no tensor of the end turned red while that digest is equal.
    #[test]
    fn what_is_new_comes_before_the_digest_of_everything() {
        let old = "samebits-golden/1\nrank 0 step fold=- step=0 net aa\nclose root dd\n";
        let new = "samebits-golden/1\nrank 0 step fold=- step=0 net aa\nrank 0 step fold=- step=0 rng bb\n\
                   rank 0 last-step fold=- step=0 net cc\nrank 0 final net dd\nclose root ee\n";
        let first = compare(old, new).first.unwrap();
        assert_eq!((first.kind.as_str(), first.name.as_str()), ("step", "rng"));
        let more = new.replace("rank 0 step fold=- step=0 rng bb\n", "");
        assert_eq!(compare(old, &more.replace("ee", "dd")).verdict, Verdict::Same);
        let first = compare(old, &more).first.unwrap();
        assert_eq!((first.kind.as_str(), first.name.as_str()), ("close", "root"));
        assert_eq!(compare(&more, &old.replace("dd", "ee")).verdict, Verdict::Different);
        assert_eq!(compare(&more.replace("final net", "final other"), &more).verdict, Verdict::Different);
    }

    /// Would fail if moments were mixed into one group.
    #[test]
    fn group_names() {
        assert_eq!(["adam.m.q.trunk1.bias", "q.trunk1.bias", "loss"].map(group), ["adam.m", "q", "loss"]);
    }
}
