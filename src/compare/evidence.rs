//! What lies behind a path: a trace, a folder with a trace a rank, an export, a checkpoint, files of tensors.

use std::fs;
use std::path::{Path, PathBuf};

use super::artifacts::{self, holds_trace, is_trace_name};
pub use super::artifacts::{artifacts, read_file};
use super::files;
use super::tensors::{self, Tensor};
use super::traces;
use super::verdict::{Comparison, Reason, Verdict};
use crate::engine::checkpoint::{MANIFEST, TENSORS};
use crate::engine::export;
use crate::scenario::case::Scope;
use crate::trace::reader::{self, ReadError, Trace};

/// Largest file of tensors that is read, in bytes.
pub const FILE_LIMIT: u64 = 16 << 30;

/// Evidence of one run.
#[derive(Debug)]
pub enum Evidence {
    /// one trace a rank, by rank
    Traces(Vec<Trace>),
    /// named tensors
    Tensors(Tensors),
}

/// Tensors of an export, a checkpoint or files.
#[derive(Debug, Default)]
pub struct Tensors {
    /// in the order of the file
    pub list: Vec<Tensor>,
    /// where the files contradict each other: with any of these nothing is `same`
    pub notes: Vec<String>,
    /// how files were read, which is told and decides nothing
    pub remarks: Vec<String>,
    /// what of the files is compared with nothing
    pub unlooked: Vec<String>,
    /// one tensor of one file, named by that file
    pub unnamed: bool,
}

/// Evidence that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Unusable {
    /// reason of the verdict
    pub reason: Reason,
    /// where, what was found, what was expected
    pub detail: String,
}

pub(super) fn unusable(reason: Reason, detail: impl Into<String>) -> Unusable {
    Unusable { reason, detail: detail.into() }
}

impl From<ReadError> for Unusable {
    fn from(e: ReadError) -> Self {
        Unusable { reason: Reason::of_read_error(&e), detail: e.to_string() }
    }
}

/// Reads what lies behind a path.
pub fn read(path: &Path) -> Result<Evidence, Unusable> {
    let name = path.display();
    let kind = fs::metadata(path).map_err(|e| {
        let part = crate::trace::writer::part_name(path);
        let hint = if part.exists() { "; its run did not finish (there is only the unfinished .part)" } else { "" };
        unusable(if part.exists() { Reason::CutTrace } else { Reason::NoEvidence }, format!("{name}: {e}{hint}"))
    })?;
    if kind.is_dir() {
        return read_folder(path);
    }
    read_file(path)
}

fn read_folder(path: &Path) -> Result<Evidence, Unusable> {
    let name = path.display();
    let entries = fs::read_dir(path).map_err(|e| unusable(Reason::NoEvidence, format!("{name}: {e}")))?;
    let mut inside: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    inside.sort();
    let is_export = path.join(export::INDEX).exists();
    let is_checkpoint = path.join(MANIFEST).exists() || (!is_export && path.join(TENSORS).exists());
    // A log in JSON Lines beside other files is no trace; alone, it is one that cannot be read.
    let (named, other): (Vec<&PathBuf>, Vec<&PathBuf>) = inside.iter().partition(|p| is_trace_name(p));
    let unfinished = other.iter().any(|p| ends(p, ".part"));
    let has_traces = unfinished || (!named.is_empty() && other.is_empty()) || named.iter().any(|p| holds_trace(p));
    if [is_export, is_checkpoint, has_traces].iter().filter(|x| **x).count() > 1 {
        let detail = format!("{name}: more than one of an export, a checkpoint and traces lies here; name one of them");
        return Err(unusable(Reason::NotComparable, detail));
    }
    match (is_export, is_checkpoint) {
        (true, _) => files::export(path).map(Evidence::Tensors),
        (_, true) => files::checkpoint(path).map(Evidence::Tensors),
        _ if has_traces => ranks(path, &inside).map(Evidence::Traces),
        _ => artifacts::folder(path).map(Evidence::Tensors),
    }
}

fn ends(path: &Path, end: &str) -> bool {
    path.to_string_lossy().ends_with(end)
}

/// A folder with a trace a rank.
fn ranks(path: &Path, inside: &[PathBuf]) -> Result<Vec<Trace>, Unusable> {
    let name = path.display();
    if let Some(part) = inside.iter().find(|p| ends(p, ".part")) {
        return Err(unusable(Reason::CutTrace, format!("{}: this rank did not finish", part.display())));
    }
    let found = inside.iter().filter(|p| is_trace_name(p));
    let mut traces = found.map(|p| Ok(reader::read(p)?)).collect::<Result<Vec<Trace>, Unusable>>()?;
    traces.sort_by_key(|t| t.open.rank);
    let Some(first) = traces.first() else {
        let detail = format!("{name}: no trace (*.jsonl, *.jsonl.zst), export (tensors.json) or checkpoint here");
        return Err(unusable(Reason::NoEvidence, detail));
    };
    let world = first.open.world_size;
    if let Some(other) = traces.iter().find(|t| t.open.world_size != world) {
        let detail = format!("{}: a world of {}, others say {world}", other.path.display(), other.open.world_size);
        return Err(unusable(Reason::NotComparable, detail));
    }
    for rank in 0..world {
        match traces.iter().filter(|t| t.open.rank == rank).count() {
            1 => {}
            0 => return Err(unusable(Reason::NoEvidence, format!("{name}: rank {rank} of {world} has no trace"))),
            n => return Err(unusable(Reason::NotComparable, format!("{name}: rank {rank} has {n} traces"))),
        }
    }
    Ok(traces)
}

/// Compares what lies behind two paths.
pub fn compare(a: &Path, b: &Path, scope: &Scope) -> Comparison {
    match (read(a), read(b)) {
        (Err(e), _) | (_, Err(e)) => Comparison::unverified(e.reason, e.detail),
        (Ok(Evidence::Traces(x)), Ok(Evidence::Traces(y))) => compare_ranks(&x, &y, scope),
        (Ok(Evidence::Tensors(x)), Ok(Evidence::Tensors(mut y))) => {
            // `a.npy` and `b.npy` are one array each, whatever the files are called.
            if let ([one], [other], true) = (x.list.as_slice(), y.list.as_mut_slice(), x.unnamed && y.unnamed) {
                other.name.clone_from(&one.name);
            }
            compare_tensors(&x, &y, scope)
        }
        _ => Comparison::unverified(Reason::NotComparable, "one is a trace, the other holds tensors"),
    }
}

/// Compares tensors by name; what contradicts itself is never `same`.
pub fn compare_tensors(a: &Tensors, b: &Tensors, scope: &Scope) -> Comparison {
    if !scope.kinds.is_empty() || !scope.folds.is_empty() {
        let detail = "kinds and folds do not apply to an export, a checkpoint or other files of tensors";
        return Comparison::unverified(Reason::NoEvidence, detail);
    }
    let keep = |list: &[Tensor]| -> Vec<Tensor> {
        list.iter().filter(|t| traces::wants_tensor(scope, &t.name)).cloned().collect()
    };
    // Without a scope nothing is copied: files may be as large as half the memory.
    let kept = (!scope.tensors.is_empty()).then(|| (keep(&a.list), keep(&b.list)));
    let (x, y) = kept.as_ref().map_or((a.list.as_slice(), b.list.as_slice()), |(x, y)| (x, y));
    let mut result = tensors::compare(x, y);
    let contradictions = [a.notes.clone(), b.notes.clone()].concat();
    let mut remarks = [a.remarks.clone(), b.remarks.clone()].concat();
    let mut seen = std::collections::BTreeSet::new();
    remarks.retain(|r| seen.insert(r.clone()));
    let matched = |p: &String| [x, y].iter().all(|list| list.iter().any(|t| traces::fits(p, &t.name)));
    if result.verdict != Verdict::Different {
        if let Some(pattern) = scope.tensors.iter().find(|p| !matched(p)) {
            let detail = format!("nothing was compared for: tensors {pattern}");
            result.verdict = Verdict::unverified(Reason::NoEvidence, detail);
        } else if let Some(note) = contradictions.first() {
            result.verdict = Verdict::unverified(Reason::AlteredTrace, note.clone());
        }
    }
    result.noted = [contradictions, remarks].concat();
    let unlooked: std::collections::BTreeSet<&String> = a.unlooked.iter().chain(&b.unlooked).collect();
    result.left_out.extend(unlooked.into_iter().cloned());
    result
}

/// A trace of one rank of several says nothing of the others.
fn lone_rank(traces: &[Trace]) -> Option<Comparison> {
    let one = traces.first().filter(|t| t.open.world_size as usize != traces.len())?;
    let (rank, world) = (one.open.rank, one.open.world_size);
    let detail = format!("{}: rank {rank} of {world} only: give the folder", one.path.display());
    Some(Comparison::unverified(Reason::NotComparable, detail))
}

/// Compares runs of several ranks; the first divergence is that of the lowest rank that has one.
pub fn compare_ranks(a: &[Trace], b: &[Trace], scope: &Scope) -> Comparison {
    if let Some(refused) = lone_rank(a).or_else(|| lone_rank(b)) {
        return refused;
    }
    if a.len() != b.len() {
        let detail = format!("a world of {} and one of {}", a.len(), b.len());
        return Comparison::unverified(Reason::NotComparable, detail);
    }
    let mut all = Comparison { verdict: Verdict::Same, ..Comparison::empty() };
    for (x, y) in a.iter().zip(b) {
        let one = traces::compare(x, y, scope);
        let same = matches!(one.verdict, Verdict::Same);
        all.verdict = all.verdict.worse(one.verdict);
        all.compared.add(one.compared);
        all.engine = one.engine;
        if all.first.is_none() {
            (all.first, all.differing) = (one.first, one.differing);
        }
        let rank = |text: String| if a.len() > 1 { format!("rank {}: {text}", x.open.rank) } else { text };
        all.left_out.extend(one.left_out.into_iter().map(rank));
        if !same || all.noted.is_empty() {
            all.noted.extend(one.noted.into_iter().map(rank));
        }
    }
    all
}
