//! Tensors behind a path: exports, checkpoints, safetensors files; what they say twice must agree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::Path;

use safetensors::SafeTensors;

use super::evidence::{FILE_LIMIT, Tensors, Unusable, unusable};
use super::tensors::Tensor;
use super::verdict::Reason;
use crate::digest::sha::sha256;
use crate::engine::checkpoint::{self, Checkpoint, Entry, MANIFEST, TENSORS};
use crate::engine::export::INDEX;
use crate::trace::files;
use crate::trace::record::Dtype;

fn different(path: &Path, detail: impl std::fmt::Display) -> Unusable {
    unusable(Reason::NotComparable, format!("{}: {detail}", path.display()))
}

fn read_limited(path: &Path) -> Result<Vec<u8>, Unusable> {
    files::read(path, FILE_LIMIT).map_err(|e| {
        let long = e.kind() == std::io::ErrorKind::FileTooLarge;
        let reason = if long { Reason::NotComparable } else { Reason::NoEvidence };
        unusable(reason, format!("{}: {e}", path.display()))
    })
}

/// Name of a type, as exports and traces write it.
fn word(dtype: Dtype) -> String {
    format!("{dtype:?}")
}

/// An export: raw files are compared; index, raw files and safetensors file must say the same.
pub fn export(path: &Path) -> Result<Tensors, Unusable> {
    let index = path.join(INDEX);
    let entries: Vec<Entry> = serde_json::from_slice(&read_limited(&index)?).map_err(|e| different(&index, e))?;
    check_index(path, &index, &entries)?;
    let (mut list, mut notes) = (Vec::new(), Vec::new());
    for entry in &entries {
        let file = path.join(format!("{}.bin", entry.name));
        let bytes = read_limited(&file)?;
        if checkpoint::claimed_bytes(entry) != Some(bytes.len() as u64) {
            let detail = format!("{} bytes; its index says {:?}{:?}", bytes.len(), entry.dtype, entry.shape);
            return Err(different(&file, detail));
        }
        if sha256(&bytes) != entry.sha256 {
            notes.push(format!("{}: its bytes are not those of its index", file.display()));
        }
        let (name, shape) = (entry.name.clone(), entry.shape.clone());
        list.push(Tensor { name, dtype: Some(entry.dtype), word: word(entry.dtype), shape, bytes });
    }
    let file = path.join(TENSORS);
    notes.extend(disagreements(&file, &list, &safetensors_file(&file)?));
    Ok(Tensors { list, notes })
}

/// Names must be plain and given once, and every raw file must be listed.
fn check_index(path: &Path, index: &Path, entries: &[Entry]) -> Result<(), Unusable> {
    let mut names = BTreeSet::new();
    for entry in entries {
        if entry.name.contains(['/', '\\', '\0']) || entry.name.starts_with('.') || entry.name.is_empty() {
            return Err(different(index, format!("the name {:?} leaves the folder", entry.name)));
        }
        if !names.insert(format!("{}.bin", entry.name)) {
            return Err(different(index, format!("{:?} is listed twice", entry.name)));
        }
    }
    let inside = fs::read_dir(path).map_err(|e| different(path, e))?;
    let raw = inside.filter_map(|e| Some(e.ok()?.file_name().to_string_lossy().into_owned()));
    match raw.filter(|n| n.ends_with(".bin")).find(|n| !names.contains(n)) {
        Some(extra) => Err(different(index, format!("{extra} is in the folder and not listed"))),
        None => Ok(()),
    }
}

/// Where a safetensors file does not hold what the raw files hold.
fn disagreements(file: &Path, raw: &[Tensor], safe: &[Tensor]) -> Vec<String> {
    let of_raw: BTreeMap<&str, &Tensor> = raw.iter().map(|t| (t.name.as_str(), t)).collect();
    let names: BTreeSet<&str> = safe.iter().map(|t| t.name.as_str()).collect();
    let differ = safe.iter().filter(|t| of_raw.get(t.name.as_str()) != Some(t));
    let mut notes: Vec<String> =
        differ.map(|t| format!("{}: {} is not what its raw file holds", file.display(), t.name)).collect();
    let absent = raw.iter().filter(|t| !names.contains(t.name.as_str()));
    notes.extend(absent.map(|t| format!("{}: {} is missing", file.display(), t.name)));
    notes
}

/// A checkpoint whose manifest and tensors agree.
pub fn checkpoint(path: &Path) -> Result<Tensors, Unusable> {
    for name in [MANIFEST, TENSORS] {
        let file = path.join(name);
        let size = files::open(&file).and_then(|f| f.metadata());
        let size = size.map_err(|e| unusable(Reason::NoEvidence, format!("{}: {e}", file.display())))?.len();
        if size > FILE_LIMIT {
            return Err(different(&file, format!("{size} bytes; at most {FILE_LIMIT} are read")));
        }
    }
    let refuse = |e: checkpoint::CheckpointError| {
        let text = e.to_string();
        let altered = text.ends_with("altered");
        unusable(if altered { Reason::AlteredTrace } else { Reason::NotComparable }, text)
    };
    let read = Checkpoint::read(path).map_err(refuse)?;
    let tensor = |(entry, bytes): (&Entry, Vec<u8>)| Tensor {
        name: entry.name.clone(),
        dtype: Some(entry.dtype),
        word: word(entry.dtype),
        shape: entry.shape.clone(),
        bytes,
    };
    let list = read.tensors().map_err(refuse)?.into_iter().map(tensor).collect();
    Ok(Tensors { list, notes: Vec::new() })
}

/// Tensors of a safetensors file, whose header must fit the file before all of it is read.
pub fn safetensors_file(path: &Path) -> Result<Vec<Tensor>, Unusable> {
    let no_evidence = |e: std::io::Error| unusable(Reason::NoEvidence, format!("{}: {e}", path.display()));
    let mut file = files::open(path).map_err(no_evidence)?;
    let size = file.metadata().map_err(no_evidence)?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(|_| different(path, "not a whole safetensors file: no header"))?;
    let header = u64::from_le_bytes(length);
    if header > size.saturating_sub(8) {
        let detail = format!("not a whole safetensors file: a header of {header} bytes in a file of {size}");
        return Err(different(path, detail));
    }
    parse_safetensors(&read_limited(path)?).map_err(|e| different(path, e))
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
        word: format!("{:?}", view.dtype()),
        shape: view.shape().to_vec(),
        bytes: view.data().to_vec(),
    };
    Ok(views.into_iter().map(tensor).collect())
}
