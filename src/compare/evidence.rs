//! What lies behind a path: a trace, a folder with a trace a rank, an export, a checkpoint, a safetensors file.

use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use serde::Deserialize;

use super::tensors::{self, Tensor};
use super::traces;
use super::verdict::{Comparison, Reason, Verdict};
use crate::digest::sha::{Digest, sha256};
use crate::scenario::case::Scope;
use crate::trace::reader::{self, ReadError, Trace};
use crate::trace::record::Dtype;

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

/// Tensors of an export, a checkpoint or a file.
#[derive(Debug)]
pub struct Tensors {
    /// in the order of the file
    pub list: Vec<Tensor>,
    /// what is odd about the files
    pub notes: Vec<String>,
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

fn unusable(reason: Reason, detail: impl Into<String>) -> Unusable {
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
    if path.extension().is_some_and(|e| e == "safetensors") {
        let list = safetensors_file(path)?;
        return Ok(Evidence::Tensors(Tensors { list, notes: Vec::new() }));
    }
    Ok(Evidence::Traces(vec![reader::read(path)?]))
}

fn read_folder(path: &Path) -> Result<Evidence, Unusable> {
    if path.join("tensors.json").exists() {
        return export(path).map(Evidence::Tensors);
    }
    if path.join("state.safetensors").exists() {
        let list = safetensors_file(&path.join("state.safetensors"))?;
        return Ok(Evidence::Tensors(Tensors { list, notes: Vec::new() }));
    }
    ranks(path).map(Evidence::Traces)
}

/// A folder with a trace a rank.
fn ranks(path: &Path) -> Result<Vec<Trace>, Unusable> {
    let name = path.display();
    let entries = fs::read_dir(path).map_err(|e| unusable(Reason::NoEvidence, format!("{name}: {e}")))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    files.sort();
    let ends = |p: &Path, end: &str| p.to_string_lossy().ends_with(end);
    if let Some(part) = files.iter().find(|p| ends(p, ".part")) {
        return Err(unusable(Reason::CutTrace, format!("{}: this rank did not finish", part.display())));
    }
    let found = files.iter().filter(|p| ends(p, ".jsonl") || ends(p, ".jsonl.zst"));
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

#[derive(Deserialize)]
struct IndexEntry {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    sha256: Digest,
}

/// An export: raw files are compared; the safetensors file must hold the same bytes.
fn export(path: &Path) -> Result<Tensors, Unusable> {
    let index = path.join("tensors.json");
    let text = read_limited(&index)?;
    let bad = |e: serde_json::Error| unusable(Reason::NotComparable, format!("{}: {e}", index.display()));
    let entries: Vec<IndexEntry> = serde_json::from_slice(&text).map_err(bad)?;
    let (mut list, mut notes) = (Vec::new(), Vec::new());
    for entry in &entries {
        if entry.name.contains(['/', '\\']) || entry.name.starts_with('.') {
            let detail = format!("{}: the name {:?} leaves the folder", index.display(), entry.name);
            return Err(unusable(Reason::NotComparable, detail));
        }
        let file = path.join(format!("{}.bin", entry.name));
        let bytes = read_limited(&file)?;
        if sha256(&bytes) != entry.sha256 {
            notes.push(format!("{}: its bytes are not those of its index", file.display()));
        }
        let shape = entry.shape.clone();
        list.push(Tensor { name: entry.name.clone(), dtype: Some(entry.dtype), shape, bytes });
    }
    let file = path.join("state.safetensors");
    for tensor in safetensors_file(&file)? {
        let raw = list.iter().find(|t| t.name == tensor.name).map(|t| &t.bytes);
        if raw != Some(&tensor.bytes) {
            let name = format!("{} (state.safetensors)", tensor.name);
            notes.push(format!("{}: {} is not what its raw file holds", file.display(), tensor.name));
            list.push(Tensor { name, ..tensor });
        }
    }
    Ok(Tensors { list, notes })
}

fn read_limited(path: &Path) -> Result<Vec<u8>, Unusable> {
    let fail = |e: std::io::Error| unusable(Reason::NoEvidence, format!("{}: {e}", path.display()));
    let size = fs::metadata(path).map_err(fail)?.len();
    if size > FILE_LIMIT {
        let detail = format!("{}: {size} bytes; at most {FILE_LIMIT} are read", path.display());
        return Err(unusable(Reason::NotComparable, detail));
    }
    fs::read(path).map_err(fail)
}

fn safetensors_file(path: &Path) -> Result<Vec<Tensor>, Unusable> {
    let bytes = read_limited(path)?;
    parse_safetensors(&bytes).map_err(|e| unusable(Reason::NotComparable, format!("{}: {e}", path.display())))
}

/// Tensors of a safetensors file, in the file's order.
pub fn parse_safetensors(bytes: &[u8]) -> Result<Vec<Tensor>, String> {
    let safe = SafeTensors::deserialize(bytes).map_err(|e| format!("not a whole safetensors file: {e}"))?;
    let dtype = |d| match d {
        safetensors::Dtype::U8 => Some(Dtype::U8),
        safetensors::Dtype::U32 => Some(Dtype::U32),
        safetensors::Dtype::U64 => Some(Dtype::U64),
        safetensors::Dtype::F32 => Some(Dtype::F32),
        safetensors::Dtype::F64 => Some(Dtype::F64),
        _ => None,
    };
    let mut views: Vec<_> = safe.tensors();
    views.sort_by_key(|(_, view)| view.data().as_ptr() as usize - bytes.as_ptr() as usize);
    let tensor = |(name, view): (String, safetensors::tensor::TensorView<'_>)| Tensor {
        name,
        dtype: dtype(view.dtype()),
        shape: view.shape().to_vec(),
        bytes: view.data().to_vec(),
    };
    Ok(views.into_iter().map(tensor).collect())
}

/// Compares what lies behind two paths.
pub fn compare(a: &Path, b: &Path, scope: &Scope) -> Comparison {
    match (read(a), read(b)) {
        (Err(e), _) | (_, Err(e)) => Comparison::unverified(e.reason, e.detail),
        (Ok(Evidence::Traces(x)), Ok(Evidence::Traces(y))) => compare_ranks(&x, &y, scope),
        (Ok(Evidence::Tensors(x)), Ok(Evidence::Tensors(y))) => {
            let wanted = |t: &Tensor| scope.tensors.is_empty() || traces::wants_tensor(scope, &t.name);
            let keep = |list: &[Tensor]| -> Vec<Tensor> { list.iter().filter(|t| wanted(t)).cloned().collect() };
            let mut result = tensors::compare(&keep(&x.list), &keep(&y.list));
            result.noted = [x.notes, y.notes].concat();
            result
        }
        _ => Comparison::unverified(Reason::NotComparable, "one is a trace, the other holds tensors"),
    }
}

/// Compares runs of several ranks; the first divergence is that of the lowest rank that has one.
pub fn compare_ranks(a: &[Trace], b: &[Trace], scope: &Scope) -> Comparison {
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
