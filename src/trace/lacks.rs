//! What a valid trace does not hold, what each lack costs whoever compares it, and how it is mended.
//!
//! Each lack names the member of `docs/trace.md` that a writer of its own has to write, and the argument or call of the
//! recorder for Python. That a trace lacks nothing does not say that all of the engine's state is in it.

use std::collections::BTreeSet;

use serde::Serialize;

use super::reader::Trace;
use super::record::Level;

/// Something that a trace could hold and does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lack {
    /// readable slug
    pub slug: &'static str,
    /// what is not there
    pub what: String,
    /// what cannot be answered without it
    pub costs: &'static str,
    /// what to write, or to call, so that it is there
    pub mend: &'static str,
}

/// Everything that a trace lacks, the costliest first.
pub fn lacks(trace: &Trace) -> Vec<Lack> {
    let mut found = records(trace);
    found.extend(context(trace));
    found.extend(detail(trace));
    found
}

fn lack(slug: &'static str, what: impl Into<String>, costs: &'static str, mend: &'static str) -> Lack {
    Lack { slug, what: what.into(), costs, mend }
}

/// Records and digests that are not there.
fn records(trace: &Trace) -> Vec<Lack> {
    let none = |kind: &str| !trace.bodies.iter().any(|(k, _)| *k == kind);
    let mut found = Vec::new();
    if trace.close.sha256.is_empty() {
        found.push(lack(
            "no-final-digests",
            "close has no SHA-256",
            "nothing says that two runs end in the same state", "close the trace with `sha256` of every tensor; in Python let the `with samebits.record()` block end, after a step(model=..., optimizer=...)"));
    }
    if none("step") {
        found.push(lack(
            "no-steps",
            "no step records",
            "a difference has no step: the first is known only by its evaluation, fold or end", "a `step` record with `fp` after each update, at level step; in Python r.step(model=..., optimizer=...), and not level=\"off\""));
    }
    if none("eval") {
        found.push(lack(
            "no-evaluations",
            "no eval records",
            "whether evaluation repeats, or disturbs training, cannot be told",
            "an `eval` record after each evaluation; in Python r.eval(metrics={...})",
        ));
    }
    if none("fold") {
        found.push(lack(
            "no-folds",
            "no fold records",
            "leaks between folds, and folds run alone or in another order, cannot be checked", "a `fold` record with `sha256` at the end of each fold; the Python recorder writes none, so record a trace a fold"));
    }
    if !trace.bodies.is_empty() && trace.bodies.iter().all(|(_, body)| body.sha256.is_empty()) {
        found.push(lack(
            "no-sha256",
            "no SHA-256 but at close",
            "before the end, equal rests on 128-bit fingerprints alone", "`sha256` in `eval` and `fold` records, or level tensor; in Python r.eval(), record(level=\"tensor\") or r.step(..., sha256=True)"));
    }
    found.extend(unrecorded(trace));
    found
}

/// Declared tensors that no record names.
fn unrecorded(trace: &Trace) -> Option<Lack> {
    let mut named: BTreeSet<&str> = trace.close.sha256.iter().map(|(name, _)| name).collect();
    for (_, body) in &trace.bodies {
        named.extend(body.fp.iter().map(|(name, _)| name));
        named.extend(body.sha256.iter().map(|(name, _)| name));
    }
    let never: Vec<&str> = trace.declared().map(|t| t.name.as_str()).filter(|n| !named.contains(n)).collect();
    let some: Vec<&str> = never.iter().take(4).copied().collect();
    let more = if never.len() > some.len() { ", ..." } else { "" };
    let what = format!("{} declared tensors in no record ({}{more})", never.len(), some.join(", "));
    (!never.is_empty()).then(|| lack("unrecorded-tensors", what, "they are never compared", "name them in `fp` of the `step` records, or declare them no more; in Python give them in tensors={...} of every step"))
}

/// What the run was, as far as it says so.
fn context(trace: &Trace) -> Vec<Lack> {
    let mut found = Vec::new();
    if !trace.declared().any(|t| t.name.starts_with("rng.")) {
        found.push(lack(
            "no-generators",
            "no tensors rng.*",
            "other-seed checks, and why a resume differs, cannot be told", "declare each generator's state as a tensor rng.NAME; in Python record(rng=True), and those of your own as tensors={\"NAME\": generator}"));
    }
    if trace.open.seed.is_none() {
        found.push(lack(
            "no-seed",
            "no seed",
            "two runs of other seeds look like one run that does not repeat",
            "`seed` in open; in Python record(seed=...)",
        ));
    }
    if trace.open.identity.keyed.is_empty() {
        found.push(lack(
            "no-keyed-identity",
            "identity.keyed is empty",
            "goldens of other machines and library versions cannot be told apart", "`identity.keyed` in open: versions of the libraries that compute, the GPU's name; the Python recorder writes it"));
    }
    if trace.open.identity.noted.is_empty() {
        found.push(lack(
            "no-noted-identity",
            "identity.noted is empty",
            "what changed around a run that differs is not known",
            "`identity.noted` in open: commit, CPU, driver, environment; the Python recorder writes it",
        ));
    }
    found
}

/// How closely a difference can be looked at.
fn detail(trace: &Trace) -> Vec<Lack> {
    let mut found = Vec::new();
    if trace.open.level < Level::Op {
        found.push(lack(
            "no-operations",
            "a level below op",
            "no culprit: a difference has a tensor, not an operation", "level op with `ops` in step records: name, `in` and `out` of each; the Python recorder does not see single operations, so record what lies between as tensors={...}"));
    }
    if trace.bodies.iter().all(|(_, body)| body.metrics.is_empty()) {
        found.push(lack(
            "no-metrics",
            "no metrics",
            "what a difference does to loss or return is not shown",
            "`metrics` in step or eval records; in Python step(metrics={\"loss\": loss})",
        ));
    }
    if trace.bodies.iter().all(|(_, body)| body.values.is_empty()) {
        found.push(lack(
            "no-values",
            "no values",
            "no element, no value and no ULP distance: only that a tensor differs", "`values` (hex) of small tensors; the Python recorder writes none, so save the tensor at that step on both sides and diff the files; samebits run: --values"));
    }
    found
}
