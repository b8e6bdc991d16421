//! Checkpoints: all named tensors as safetensors, and a manifest that says what they are. A folder appears under its
//! name only when complete.
//!
//! Verified at load: schema, contract, settings and market (a different one is refused with the key), every tensor's
//! name, type, shape and SHA-256, the root, and that no tensor is missing or extra.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use safetensors::{SafeTensors, tensor::TensorView as SafeView};
use serde::{Deserialize, Serialize};

use super::evaluator::Metrics;
use crate::digest::root::root;
use crate::digest::sha::{Digest, sha256};
use crate::scenario::mutant::Fault;
use crate::scenario::request::Cut;
use crate::scenario::settings::Settings;
use crate::trace::observer::TensorView;
use crate::trace::record::Dtype;
use crate::trace::writer::{folder_of, sync_folder};

/// Format of the manifest.
pub const SCHEMA: &str = "samebits-checkpoint/1";
/// The tensors.
pub const TENSORS: &str = "state.safetensors";
/// The manifest.
pub const MANIFEST: &str = "manifest.json";
/// Largest manifest that is read, in bytes.
const MANIFEST_LIMIT: u64 = 4 << 20;

/// A checkpoint that cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {detail}")]
pub struct CheckpointError {
    /// file or folder
    pub path: String,
    /// what was found, what was expected, what to do
    pub detail: String,
}

fn fail(path: &Path, detail: impl Into<String>) -> CheckpointError {
    CheckpointError { path: path.display().to_string(), detail: detail.into() }
}

/// What a fold gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoldResult {
    /// fold
    pub fold: u32,
    /// updates
    pub updates: u64,
    /// final evaluation, when there was one
    pub metrics: Option<Metrics>,
}

/// Says what the tensors are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`SCHEMA`]
    pub schema: String,
    /// arithmetic contract
    pub contract: String,
    /// what decides the bits
    pub settings: Settings,
    /// digest of the market's tables
    pub market: Digest,
    /// where the run was
    pub cut: Cut,
    /// updates done in the fold
    pub step: u64,
    /// folds in the order they are run
    pub order: Vec<u32>,
    /// folds that are done
    pub finished: Vec<FoldResult>,
    /// the tensors in list order
    pub tensors: Vec<Entry>,
    /// root of the tensors
    pub root: Digest,
    /// digest of everything above: SHA-256 of this manifest's compact JSON with the digest of nothing in this place
    pub seal: Digest,
}

impl Manifest {
    /// What `seal` must be.
    pub fn expected_seal(&self) -> Digest {
        let open = Manifest { seal: sha256(b""), ..self.clone() };
        sha256(&serde_json::to_vec(&open).unwrap_or_default())
    }
}

/// One tensor of a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// name
    pub name: String,
    /// element type
    pub dtype: Dtype,
    /// sizes
    pub shape: Vec<usize>,
    /// digest of its bytes
    pub sha256: Digest,
}

impl Entry {
    /// Of a tensor.
    pub fn of(view: &TensorView<'_>) -> Self {
        let sha256 = sha256(view.whole());
        Entry { name: view.name.clone(), dtype: view.dtype, shape: view.shape.clone(), sha256 }
    }
}

/// Root of a list of entries.
pub fn entries_root(entries: &[Entry]) -> Digest {
    root(entries.iter().map(|e| (e.name.as_str(), &e.sha256)))
}

/// The type of the same name; None for one that safetensors does not have.
fn safe_dtype(dtype: Dtype) -> Option<safetensors::Dtype> {
    Some(match dtype {
        Dtype::Bool => safetensors::Dtype::BOOL,
        Dtype::U8 => safetensors::Dtype::U8,
        Dtype::I8 => safetensors::Dtype::I8,
        Dtype::U16 => safetensors::Dtype::U16,
        Dtype::I16 => safetensors::Dtype::I16,
        Dtype::U32 => safetensors::Dtype::U32,
        Dtype::I32 => safetensors::Dtype::I32,
        Dtype::U64 => safetensors::Dtype::U64,
        Dtype::I64 => safetensors::Dtype::I64,
        Dtype::F16 => safetensors::Dtype::F16,
        Dtype::Bf16 => safetensors::Dtype::BF16,
        Dtype::F32 => safetensors::Dtype::F32,
        Dtype::F64 => safetensors::Dtype::F64,
        Dtype::C64 => safetensors::Dtype::C64,
        Dtype::C128 => return None,
    })
}

/// Writes tensors as one safetensors file, synced.
pub fn write_safetensors(path: &Path, tensors: &[TensorView<'_>]) -> Result<(), CheckpointError> {
    let mut views = Vec::with_capacity(tensors.len());
    for t in tensors {
        let dtype = safe_dtype(t.dtype);
        let dtype = dtype.ok_or_else(|| fail(path, format!("{}: safetensors has no {}", t.name, t.dtype.word())))?;
        let view = SafeView::new(dtype, t.shape.clone(), t.whole());
        views.push((t.name.clone(), view.map_err(|e| fail(path, format!("{}: {e}", t.name)))?));
    }
    safetensors::serialize_to_file(views, None, path).map_err(|e| fail(path, e.to_string()))?;
    fs::File::open(path).and_then(|f| f.sync_all()).map_err(|e| fail(path, e.to_string()))
}

/// Makes a folder appear under its name only when `fill` has written all of it.
pub fn write_folder(
    folder: &Path,
    fill: impl FnOnce(&Path) -> Result<(), CheckpointError>,
) -> Result<(), CheckpointError> {
    let io = |e: io::Error| fail(folder, e.to_string());
    let parent = folder_of(folder);
    fs::create_dir_all(parent).map_err(io)?;
    let temporary = tempfile::Builder::new().prefix(LEFTOVER).tempdir_in(parent).map_err(io)?;
    fill(temporary.path())?;
    fs::File::open(temporary.path()).and_then(|f| f.sync_all()).map_err(io)?;
    if folder.exists() {
        check_replaceable(folder)?;
        discard(folder)?;
    }
    fs::rename(temporary.keep(), folder).map_err(io)?;
    sync_folder(folder).map_err(io)
}

/// Refuses to replace what no run of this program wrote.
pub fn check_replaceable(folder: &Path) -> Result<(), CheckpointError> {
    let ours = |e: io::Result<fs::DirEntry>| {
        e.is_ok_and(|e| [super::export::INDEX, MANIFEST].iter().any(|n| e.file_name() == *n))
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(fail(folder, format!("{e}; give a folder that does not exist yet"))),
    };
    let mut entries = entries.peekable();
    if entries.peek().is_none() || entries.any(ours) {
        return Ok(());
    }
    Err(fail(folder, "holds other files, which would be lost; give a folder that does not exist yet"))
}

/// Beginning of the names of folders that are not under their final name yet, or no more.
const LEFTOVER: &str = ".samebits-unfinished-";

/// Deletes a folder so that it is never seen half deleted under its name.
pub fn discard(folder: &Path) -> Result<(), CheckpointError> {
    let io = |e: io::Error| fail(folder, e.to_string());
    let parent = folder_of(folder);
    let grave = tempfile::Builder::new().prefix(LEFTOVER).tempdir_in(parent).map_err(io)?;
    fs::rename(folder, grave.path().join("old")).map_err(io)?;
    grave.close().map_err(io)
}

/// True for a folder with a checkpoint's name and a manifest; nothing else in a folder of checkpoints is touched.
pub fn is_checkpoint(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let digits = |t: &str, n: usize| t.len() >= n && t.bytes().all(|c| c.is_ascii_digit());
    let named = name.strip_prefix("fold-").and_then(|rest| rest.split_once("-cycle-"));
    named.is_some_and(|(fold, cycle)| digits(fold, 3) && digits(cycle, 6)) && path.join(MANIFEST).is_file()
}

/// Deletes what a killed run left unfinished in a folder of checkpoints. One run at a time writes there.
pub fn clear_leftovers(folder: &Path) -> Result<(), CheckpointError> {
    let io = |e: io::Error| fail(folder, e.to_string());
    if !folder.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.is_dir() && path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(LEFTOVER)) {
            fs::remove_dir_all(&path).map_err(io)?;
        }
    }
    Ok(())
}

/// Writes `manifest` (whose tensors and root are filled in here) and the tensors. `fault` may leave some out.
pub fn write(
    folder: &Path,
    mut manifest: Manifest,
    tensors: &[TensorView<'_>],
    fault: Option<&Fault>,
) -> Result<Manifest, CheckpointError> {
    let kept: Vec<TensorView<'_>> = tensors.iter().filter(|t| !omitted(&t.name, fault)).cloned().collect();
    manifest.tensors = kept.iter().map(Entry::of).collect();
    manifest.root = entries_root(&manifest.tensors);
    manifest.seal = manifest.expected_seal();
    write_folder(folder, |inside| {
        write_safetensors(&inside.join(TENSORS), &kept)?;
        let text = serde_json::to_string_pretty(&manifest).map_err(|e| fail(folder, e.to_string()))?;
        let path = inside.join(MANIFEST);
        fs::write(&path, text).and_then(|()| fs::File::open(&path)?.sync_all()).map_err(|e| fail(&path, e.to_string()))
    })?;
    Ok(manifest)
}

/// True for a tensor that the planted fault leaves out of checkpoints.
pub fn omitted(name: &str, fault: Option<&Fault>) -> bool {
    match fault {
        Some(Fault::CheckpointOmits { field }) => name == field || (field.ends_with('.') && name.starts_with(field)),
        _ => false,
    }
}

/// A checkpoint in memory, verified.
#[derive(Debug)]
pub struct Checkpoint {
    /// the folder
    pub folder: PathBuf,
    /// what the tensors are
    pub manifest: Manifest,
    bytes: Vec<u8>,
}

impl Checkpoint {
    /// Reads a checkpoint folder, or the newest checkpoint of a folder of them.
    pub fn read(folder: &Path) -> Result<Self, CheckpointError> {
        if !folder.join(MANIFEST).exists() {
            return Checkpoint::read(&newest(folder)?);
        }
        let manifest = read_manifest(&folder.join(MANIFEST))?;
        let path = folder.join(TENSORS);
        let expected = manifest.tensors.iter().try_fold(0u64, |sum, e| sum.checked_add(claimed_bytes(e)?));
        let size = fs::metadata(&path).map_err(|e| fail(&path, e.to_string()))?.len();
        match expected {
            Some(expected) if size >= expected && size - expected <= MANIFEST_LIMIT => {}
            _ => return Err(fail(&path, format!("{size} bytes; the manifest's tensors need {expected:?}"))),
        }
        let bytes = fs::read(&path).map_err(|e| fail(&path, e.to_string()))?;
        let checkpoint = Checkpoint { folder: folder.to_owned(), manifest, bytes };
        checkpoint.verify()?;
        Ok(checkpoint)
    }

    fn safe(&self) -> Result<SafeTensors<'_>, CheckpointError> {
        let path = self.folder.join(TENSORS);
        SafeTensors::deserialize(&self.bytes).map_err(|e| fail(&path, format!("not a whole safetensors file: {e}")))
    }

    fn verify(&self) -> Result<(), CheckpointError> {
        let (path, safe) = (self.folder.join(TENSORS), self.safe()?);
        if safe.len() != self.manifest.tensors.len() {
            let detail = format!("{} tensors; the manifest lists {}", safe.len(), self.manifest.tensors.len());
            return Err(fail(&path, detail));
        }
        for entry in &self.manifest.tensors {
            let view = safe.tensor(&entry.name).map_err(|e| fail(&path, e.to_string()))?;
            if Some(view.dtype()) != safe_dtype(entry.dtype) || view.shape() != entry.shape {
                return Err(fail(&path, format!("{}: type or shape is not the manifest's", entry.name)));
            }
            if sha256(view.data()) != entry.sha256 {
                return Err(fail(&path, format!("{}: its SHA-256 is not the manifest's: altered", entry.name)));
            }
        }
        if entries_root(&self.manifest.tensors) != self.manifest.root {
            return Err(fail(&self.folder.join(MANIFEST), "the root is not that of the tensors: altered"));
        }
        Ok(())
    }

    /// Name and bytes of every tensor.
    pub fn tensors(&self) -> Result<Vec<(&Entry, Vec<u8>)>, CheckpointError> {
        let safe = self.safe()?;
        let read = |entry| -> Result<(&Entry, Vec<u8>), CheckpointError> {
            let entry: &Entry = entry;
            let view = safe.tensor(&entry.name).map_err(|e| fail(&self.folder, e.to_string()))?;
            Ok((entry, view.data().to_vec()))
        };
        self.manifest.tensors.iter().map(read).collect()
    }
}

/// Bytes that a tensor of a manifest claims; None when the claim overflows.
pub fn claimed_bytes(entry: &Entry) -> Option<u64> {
    entry.shape.iter().try_fold(entry.dtype.size() as u64, |n, d| n.checked_mul(*d as u64))
}

/// Reads a manifest.
pub fn read_manifest(path: &Path) -> Result<Manifest, CheckpointError> {
    let kind = fs::metadata(path).map_err(|e| fail(path, e.to_string()))?;
    let size = if kind.is_file() { kind.len() } else { return Err(fail(path, "not a regular file")) };
    if size > MANIFEST_LIMIT {
        return Err(fail(path, format!("{size} bytes; a manifest has at most {MANIFEST_LIMIT}")));
    }
    let text = fs::read(path).map_err(|e| fail(path, e.to_string()))?;
    parse_manifest(&text).map_err(|detail| fail(path, detail))
}

/// Parses a manifest.
pub fn parse_manifest(text: &[u8]) -> Result<Manifest, String> {
    let manifest: Manifest = serde_json::from_slice(text).map_err(|e| format!("not a {SCHEMA} manifest: {e}"))?;
    if manifest.schema != SCHEMA {
        return Err(format!("schema {:?}, expected {SCHEMA:?}", manifest.schema));
    }
    if manifest.seal != manifest.expected_seal() {
        return Err("its seal is not that of its contents: altered".to_owned());
    }
    Ok(manifest)
}

fn newest(folder: &Path) -> Result<PathBuf, CheckpointError> {
    let advice = "give a checkpoint, or a folder that `samebits run --checkpoint DIR` wrote";
    let entries = fs::read_dir(folder).map_err(|e| fail(folder, format!("{e}; {advice}")))?;
    let complete = entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| is_checkpoint(p));
    let placed = complete.map(|p| {
        // Checkpoints appear whole, so a killed run leaves none that cannot be read: an older one is not taken instead.
        let manifest = read_manifest(&p.join(MANIFEST)).map_err(|e| CheckpointError {
            detail: format!("{}; remove it to resume from an older one", e.detail),
            ..e
        })?;
        let place = manifest.order.iter().position(|f| *f == manifest.cut.fold);
        Ok(((place, manifest.cut.cycle), p))
    });
    let best = placed.collect::<Result<Vec<_>, CheckpointError>>()?.into_iter().max_by(|a, b| a.0.cmp(&b.0));
    best.map(|(_, p)| p).ok_or_else(|| fail(folder, format!("no complete checkpoint here (a folder fold-NNN-cycle-NNNNNN with {MANIFEST}); `samebits run --checkpoint DIR` writes them")))
}

/// The first key at which two settings differ, with both values.
pub fn first_difference(a: &serde_json::Value, b: &serde_json::Value, prefix: &str) -> Option<String> {
    match (a, b) {
        (serde_json::Value::Object(x), serde_json::Value::Object(y)) => {
            let keys = x.keys().chain(y.keys().filter(|k| !x.contains_key(*k)));
            let null = serde_json::Value::Null;
            keys.into_iter().find_map(|k| {
                let name = if prefix.is_empty() { k.clone() } else { format!("{prefix}.{k}") };
                first_difference(x.get(k).unwrap_or(&null), y.get(k).unwrap_or(&null), &name)
            })
        }
        _ if a == b => None,
        _ => Some(format!("{prefix}: {a} | {b}")),
    }
}
