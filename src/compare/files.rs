//! Tensors behind a path: exports, checkpoints, safetensors files; what they say twice must agree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::Path;

use super::evidence::{FILE_LIMIT, Tensors, Unusable, unusable};
use super::tensors::Tensor;
use super::verdict::Reason;
use crate::artifact::safe;
use crate::digest::sha::sha256;
use crate::engine::checkpoint::{self, Checkpoint, Entry, MANIFEST, TENSORS};
use crate::engine::export::{self, INDEX, SUMS};
use crate::trace::files;

pub(super) fn different(path: &Path, detail: impl std::fmt::Display) -> Unusable {
    unusable(Reason::NotComparable, format!("{}: {detail}", path.display()))
}

pub(super) fn read_limited(path: &Path) -> Result<Vec<u8>, Unusable> {
    files::read(path, FILE_LIMIT).map_err(|e| {
        let long = e.kind() == std::io::ErrorKind::FileTooLarge;
        let reason = if long { Reason::NotComparable } else { Reason::NoEvidence };
        unusable(reason, format!("{}: {e}", path.display()))
    })
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
            let detail = format!("{} bytes; its index says {}{:?}", bytes.len(), entry.dtype.word(), entry.shape);
            return Err(different(&file, detail));
        }
        if sha256(&bytes) != entry.sha256 {
            notes.push(format!("{}: its bytes are not those of its index", file.display()));
        }
        let (name, shape) = (entry.name.clone(), entry.shape.clone());
        list.push(Tensor { name, dtype: Some(entry.dtype), word: entry.dtype.word().to_owned(), shape, bytes });
    }
    let file = path.join(TENSORS);
    notes.extend(disagreements(&file, &list, &safetensors_file(&file)?));
    // What `sha256sum -c` would be told must be what is there.
    let sums = path.join(SUMS);
    if read_limited(&sums)? != export::sums(&entries).into_bytes() {
        notes.push(format!("{}: its digests are not those of the index", sums.display()));
    }
    Ok(Tensors { list, notes, ..Tensors::default() })
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
        word: entry.dtype.word().to_owned(),
        shape: entry.shape.clone(),
        bytes,
    };
    let list = read.tensors().map_err(refuse)?.into_iter().map(tensor).collect();
    Ok(Tensors { list, ..Tensors::default() })
}

/// Tensors of a safetensors file.
fn safetensors_file(path: &Path) -> Result<Vec<Tensor>, Unusable> {
    safe::parse(&safetensors_bytes(path)?).map_err(|e| different(path, e))
}

/// A safetensors file, whose header must fit the file before all of it is read.
pub fn safetensors_bytes(path: &Path) -> Result<Vec<u8>, Unusable> {
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
    read_limited(path)
}
