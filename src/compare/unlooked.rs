//! What of a run no comparison looks at, as far as that depends on the run: it stands beside its verdict.
//!
//! Said here: files that a run wrote and nobody declared, standard output where it was masked, what a trace left out
//! (steps, tensors, generators, as far as steps are numbered from 0 or from the first one recorded and the recorder says
//! what it was told), parts of files that belong to no tensor, and what lies outside a case's scope. What a format never
//! has compared stands in `docs/files.md` and `docs/trace.md`; what a run wrote outside its folder is not known.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::left::Left;
use crate::artifact::printable;
use crate::launch::folder::made;
use crate::launch::job::{Job, Ran, STDOUT};
use crate::launch::project::is_bytecode;
use crate::scenario::case::Scope;
use crate::trace::reader::Trace;
use crate::trace::record::Level;

/// Most names in a line.
const NAMES: usize = 3;
/// Event by which a recorder says what it did not record.
const LEFT_OUT: &str = "left-out";

/// One line a kind.
pub fn of(job: &Job, ran: &Ran, left: &Left) -> Vec<String> {
    let mut all: Vec<String> = undeclared(job, ran).into_iter().collect();
    if ran.masked && left.outputs.list.iter().any(|t| t.name == STDOUT) {
        all.push("parts of standard output that were masked: secrets, home, user and host names".to_owned());
    }
    all.extend(left.outputs.unlooked.iter().cloned());
    all.extend(of_ranks(&left.traces));
    all.extend(outside(&job.scope));
    let mask = job.mask();
    all.into_iter().map(|line| mask.apply(&line)).collect()
}

/// `a, b, c, ... (7 in all)`
fn some(names: &[&str]) -> String {
    let text = printable(&names[..if names.len() < NAMES { names.len() } else { NAMES }].join(", "));
    if names.len() > NAMES { format!("{text}, ... ({} in all)", names.len()) } else { text }
}

/// Files that it wrote into its folder, and that are no outputs.
fn undeclared(job: &Job, ran: &Ran) -> Option<String> {
    let all = job.outputs.others(&ran.work).unwrap_or_default();
    let written = all.iter().filter(|p| !is_untouched(ran, p) && !is_bytecode(p));
    let names: Vec<String> = written.map(|p| p.to_string_lossy().into_owned()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let what = if job.outputs.is_empty() { "" } else { " and that are no declared outputs" };
    (!names.is_empty()).then(|| format!("files that it wrote{what}: {}", some(&names)))
}

/// A copy that is as it was made, whatever became of the original meanwhile.
fn is_untouched(ran: &Ran, path: &Path) -> bool {
    ran.copied.get(path).is_some_and(|before| made(&ran.work.join(path)).is_ok_and(|now| now == *before))
}

/// What the traces of all ranks left out; what is not so of all names its ranks.
fn of_ranks(traces: &[Trace]) -> Vec<String> {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for trace in traces {
        for line in of_trace(trace) {
            match lines.iter_mut().find(|(l, _)| *l == line) {
                Some((_, ranks)) => ranks.push(trace.open.rank.to_string()),
                None => lines.push((line, vec![trace.open.rank.to_string()])),
            }
        }
    }
    let told = |(line, ranks): (String, Vec<String>)| match ranks.len() == traces.len() {
        true => line,
        false => format!("ranks {}: {line}", ranks.join(", ")),
    };
    lines.into_iter().map(told).collect()
}

fn of_trace(trace: &Trace) -> Vec<String> {
    let off =
        (trace.open.level == Level::Off).then(|| "steps, evaluations and folds: the trace is of level off".into());
    let mut all: Vec<String> = off.or_else(|| steps(trace)).into_iter().collect();
    let noted = |name: &str| trace.open.identity.noted.get(name).map(String::as_str);
    all.extend(
        noted("recorded.include").map(|p| format!("tensors that the recorder does not include ({})", printable(p))),
    );
    all.extend(noted("recorded.exclude").map(|p| format!("tensors that the recorder excludes ({})", printable(p))));
    if noted("recorded.rng") == Some("false") {
        all.push("generators: the recorder was told to leave them out".to_owned());
    }
    let events = trace.events.iter().filter(|e| e.name == LEFT_OUT);
    all.extend(events.map(|e| format!("what the recorder left out: {}", printable(&e.detail))));
    all.extend(unrecorded(trace));
    if trace.close.sha256.is_empty() {
        all.push("the final state: the trace closes without digests".to_owned());
    }
    all
}

/// Steps without a record, of those up to the last place that the trace knows of.
fn steps(trace: &Trace) -> Option<String> {
    let mut folds: BTreeMap<_, (BTreeSet<u64>, u64)> = BTreeMap::new();
    for (kind, body) in &trace.bodies {
        let Some(step) = body.place.step else { continue };
        let (recorded, end) = folds.entry(body.place.fold).or_default();
        let after = if *kind == "step" { step.saturating_add(1) } else { step };
        if *kind == "step" {
            recorded.insert(step);
        }
        *end = if after > *end { after } else { *end };
    }
    if folds.values().all(|(recorded, _)| recorded.is_empty()) {
        return Some("steps: the trace has no record of any".to_owned());
    }
    let resumed = trace.open.resumed.is_some();
    let total = |(recorded, end): &(BTreeSet<u64>, u64)| {
        let first = recorded.first().copied().filter(|_| resumed).unwrap_or(0);
        (end.saturating_sub(first), recorded.len() as u64)
    };
    let add = |a: (u64, u64), b: (u64, u64)| (a.0.saturating_add(b.0), a.1.saturating_add(b.1));
    let (all, recorded) = folds.values().map(total).fold((0, 0), add);
    let every = trace.open.identity.noted.get("recorded.every").filter(|n| *n != "1");
    let why = every.map_or_else(String::new, |n| format!(" (every={})", printable(n)));
    (recorded < all).then(|| format!("{} of {all} steps: they have no record{why}", all - recorded))
}

/// Declared tensors that no record names.
fn unrecorded(trace: &Trace) -> Option<String> {
    let mut named: BTreeSet<&str> = trace.close.sha256.iter().map(|(name, _)| name).collect();
    for (_, body) in &trace.bodies {
        named.extend(body.fp.iter().map(|(name, _)| name).chain(body.sha256.iter().map(|(name, _)| name)));
    }
    let never: Vec<&str> = trace.declared().map(|t| t.name.as_str()).filter(|n| !named.contains(n)).collect();
    (!never.is_empty()).then(|| format!("declared tensors that are in no record: {}", some(&never)))
}

/// What a case's scope keeps out.
fn outside(scope: &Scope) -> Option<String> {
    let folds: Vec<String> = scope.folds.iter().map(u32::to_string).collect();
    let parts = [("kinds", &scope.kinds), ("folds", &folds), ("tensors", &scope.tensors)];
    let parts =
        parts.iter().filter(|(_, list)| !list.is_empty()).map(|(name, list)| format!("{name} {}", list.join(", ")));
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| format!("what lies outside [compare]: {}", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::example;
    use crate::trace::record::TensorDecl;

    fn trace() -> Trace {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.jsonl");
        std::fs::write(&path, example::text().trim_start_matches("```json\n").trim_end_matches("```\n")).unwrap();
        crate::trace::reader::read(&path).unwrap()
    }

    /// Would fail if something that a recorder left out were passed over, or a whole trace lacked something.
    #[test]
    fn what_a_trace_left_out() {
        assert_eq!(of_trace(&trace()), Vec::<String>::new());
        let told = |change: &dyn Fn(&mut Trace)| {
            let mut changed = trace();
            change(&mut changed);
            of_trace(&changed).join("\n")
        };
        let noted = |name: &str, text: &str| {
            let (name, text) = (name.to_owned(), text.to_owned());
            told(&move |t| drop(t.open.identity.noted.insert(name.clone(), text.clone())))
        };
        assert_eq!(noted("recorded.include", "model.*"), "tensors that the recorder does not include (model.*)");
        assert_eq!(noted("recorded.exclude", "*.b"), "tensors that the recorder excludes (*.b)");
        assert_eq!(noted("recorded.rng", "false"), "generators: the recorder was told to leave them out");
        assert_eq!(noted("recorded.rng", "true") + &noted("recorded.every", "1"), "");
        let off = told(&|t| {
            t.open.level = Level::Off;
            t.open.identity.noted.insert("recorded.rng".to_owned(), "false".to_owned());
            t.close.sha256.0.clear();
        });
        assert!(["level off", "generators", "the final state"].iter().all(|what| off.contains(what)), "{off}");
        assert!(told(&|t| t.bodies.retain(|(kind, _)| *kind != "step")).starts_with("steps: the trace has no record"));
        assert!(told(&|t| t.close.sha256.0.clear()).contains("the final state"));
        let left_out = |t: &mut Trace| {
            t.events[0].name = LEFT_OUT.to_owned();
            t.events[0].detail = "no tensors or numbers: model.name".to_owned();
        };
        assert_eq!(told(&left_out), "what the recorder left out: no tensors or numbers: model.name");
        let gap = |t: &mut Trace| {
            t.open.identity.noted.insert("recorded.every".to_owned(), "10".to_owned());
            t.bodies.iter_mut().filter(|(kind, _)| *kind != "step").for_each(|(_, b)| b.place.step = Some(20));
        };
        assert_eq!(told(&gap), "19 of 20 steps: they have no record (every=10)");
        let never = |t: &mut Trace| {
            let more = TensorDecl { name: "lost".to_owned(), ..t.open.tensors[0].clone() };
            t.open.tensors.push(more);
        };
        assert_eq!(told(&never), "declared tensors that are in no record: lost");
    }

    /// Would fail if a lack of one rank were told of all, or one of all once a rank.
    #[test]
    fn ranks_are_told_together() {
        let (mut one, mut two) = (trace(), trace());
        two.open.rank = 1;
        [&mut one, &mut two].iter_mut().for_each(|t| t.open.level = Level::Off);
        assert_eq!(of_ranks(&[one, two]).len(), 1);
        let (one, mut two) = (trace(), trace());
        (two.open.rank, two.open.level) = (1, Level::Off);
        assert!(of_ranks(&[one, two])[0].starts_with("ranks 1: steps"));
    }

    /// Would fail if a scope were taken for everything, or everything for a scope.
    #[test]
    fn a_scope_is_told() {
        let scope = Scope { folds: vec![1, 2], tensors: vec!["w*".to_owned()], ..Scope::default() };
        assert_eq!(outside(&scope).as_deref(), Some("what lies outside [compare]: folds 1, 2; tensors w*"));
        assert_eq!(outside(&Scope::default()), None);
    }
}
