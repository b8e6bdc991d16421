//! What a valid trace does not hold, and what each lack costs whoever compares it.

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
}

/// Everything that a trace lacks, the costliest first.
pub fn lacks(trace: &Trace) -> Vec<Lack> {
    let mut found = records(trace);
    found.extend(context(trace));
    found.extend(detail(trace));
    found
}

fn lack(slug: &'static str, what: impl Into<String>, costs: &'static str) -> Lack {
    Lack { slug, what: what.into(), costs }
}

/// Records and digests that are not there.
fn records(trace: &Trace) -> Vec<Lack> {
    let none = |kind: &str| !trace.bodies.iter().any(|(k, _)| *k == kind);
    let mut found = Vec::new();
    if trace.close.sha256.is_empty() {
        found.push(lack(
            "no-final-digests",
            "close has no SHA-256",
            "nothing says that two runs end in the same state",
        ));
    }
    if none("step") {
        found.push(lack(
            "no-steps",
            "no step records",
            "a difference has no step: the first is known only by its evaluation, fold or end",
        ));
    }
    if none("eval") {
        found.push(lack(
            "no-evaluations",
            "no eval records",
            "whether evaluation repeats, or disturbs training, cannot be told",
        ));
    }
    if none("fold") {
        found.push(lack(
            "no-folds",
            "no fold records",
            "leaks between folds, and folds run alone or in another order, cannot be checked",
        ));
    }
    if !trace.bodies.is_empty() && trace.bodies.iter().all(|(_, body)| body.sha256.is_empty()) {
        found.push(lack(
            "no-sha256",
            "no SHA-256 but at close",
            "before the end, equal rests on 128-bit fingerprints alone",
        ));
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
    (!never.is_empty()).then(|| lack("unrecorded-tensors", what, "they are never compared"))
}

/// What the run was, as far as it says so.
fn context(trace: &Trace) -> Vec<Lack> {
    let mut found = Vec::new();
    if !trace.declared().any(|t| t.name.starts_with("rng.")) {
        found.push(lack(
            "no-generators",
            "no tensors rng.*",
            "other-seed checks, and why a resume differs, cannot be told",
        ));
    }
    if trace.open.seed.is_none() {
        found.push(lack("no-seed", "no seed", "two runs of other seeds look like one run that does not repeat"));
    }
    if trace.open.identity.keyed.is_empty() {
        found.push(lack(
            "no-keyed-identity",
            "identity.keyed is empty",
            "goldens of other machines and library versions cannot be told apart",
        ));
    }
    if trace.open.identity.noted.is_empty() {
        found.push(lack(
            "no-noted-identity",
            "identity.noted is empty",
            "what changed around a run that differs is not known",
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
            "no culprit: a difference has a tensor, not an operation",
        ));
    }
    if trace.bodies.iter().all(|(_, body)| body.metrics.is_empty()) {
        found.push(lack("no-metrics", "no metrics", "what a difference does to loss or return is not shown"));
    }
    if trace.bodies.iter().all(|(_, body)| body.values.is_empty()) {
        found.push(lack(
            "no-values",
            "no values",
            "no element, no value and no ULP distance: only that a tensor differs",
        ));
    }
    found
}
