//! Files that an engine left, one or a folder of them, as named tensors.
//!
//! In a folder each name begins with the file's path in it: `ckpt/last.pt:model.w`; a file without names of its own is
//! one tensor with its path as the name. Symbolic links are not followed: where a link points is what is compared.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use super::evidence::{Evidence, FILE_LIMIT, Tensors, Unusable, unusable};
use super::files::{different, read_limited, safetensors_bytes};
use super::verdict::Reason;
use crate::artifact::{self, Found, Tensor, safe};
use crate::trace::files;
use crate::trace::reader;

/// Most files of a folder.
const FILES: usize = 100_000;

/// How deep folders may nest.
const DEPTH: usize = 64;

/// Bytes looked at to tell a trace.
const PEEK: u64 = 64 << 10;

/// True for a name that a trace has.
pub fn is_trace_name(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with(".jsonl") || name.ends_with(".jsonl.zst")
}

/// True for a file that begins as a trace does, also compressed.
pub fn holds_trace(path: &Path) -> bool {
    let Ok(file) = files::open(path) else { return false };
    let mut start = Vec::new();
    if file.take(PEEK).read_to_end(&mut start).is_err() {
        return false;
    }
    if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let mut plain = Vec::new();
        if let Ok(mut decoder) = zstd::Decoder::with_buffer(start.as_slice()) {
            // What was decoded before the cut is enough, and a window larger than a trace's is refused.
            let _ = decoder.window_log_max(27);
            let _ = decoder.take(PEEK).read_to_end(&mut plain);
        }
        start = plain;
    }
    let mark = br#""samebits-trace/"#;
    start.windows(mark.len()).any(|w| w == mark)
}

/// What lies in one file: a trace by its name or its beginning, tensors by its first bytes, else its bytes.
pub fn read_file(path: &Path) -> Result<Evidence, Unusable> {
    if is_trace_name(path) || holds_trace(path) {
        return Ok(Evidence::Traces(vec![reader::read(path)?]));
    }
    let found = found(path)?;
    let Found { tensors: list, remarks, unlooked, unnamed } = found;
    Ok(Evidence::Tensors(Tensors { list, remarks, unlooked, unnamed, ..Tensors::default() }))
}

fn found(path: &Path) -> Result<Found, Unusable> {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    if name.ends_with(".safetensors") {
        let found = safe::file(&safetensors_bytes(path)?).and_then(artifact::settle);
        return found.map_err(|e| different(path, e));
    }
    artifact::parse(&name, read_limited(path)?).map_err(|e| different(path, e))
}

/// Tensors of files below a folder, which are named by paths relative to it.
pub fn artifacts(base: &Path, files: &[PathBuf]) -> Result<Tensors, Unusable> {
    let (mut all, mut bytes, mut names) = (Tensors::default(), 0u64, BTreeSet::new());
    for file in files {
        let prefix = relative_name(base, file)?;
        let found = one(&base.join(file), &prefix)?;
        for mut tensor in found.tensors {
            bytes += tensor.bytes.len() as u64;
            tensor.name = if found.unnamed { prefix.clone() } else { format!("{prefix}:{}", tensor.name) };
            if !names.insert(tensor.name.clone()) {
                return Err(different(base, format!("two tensors have the name {}", tensor.name)));
            }
            all.list.push(tensor);
        }
        if bytes > FILE_LIMIT {
            return Err(different(base, format!("its files hold more than {FILE_LIMIT} bytes; name fewer of them")));
        }
        all.unlooked.extend(found.unlooked.into_iter().map(|what| format!("{prefix}: {what}")));
        all.remarks.extend(found.remarks.into_iter().map(|r| if found.unnamed { r } else { format!("{prefix}: {r}") }));
    }
    Ok(all)
}

/// The path with `/`, as a prefix of names; it must stay inside.
fn relative_name(base: &Path, file: &Path) -> Result<String, Unusable> {
    let parts: Option<Vec<&str>> = file
        .components()
        .map(|part| match part {
            Component::Normal(part) => part.to_str(),
            _ => None,
        })
        .collect();
    match parts {
        Some(parts) if !parts.is_empty() => Ok(artifact::printable(&parts.join("/"))),
        _ => Err(different(base, format!("{}: not a plain relative path in UTF-8", file.display()))),
    }
}

/// One of several files. A trace is evidence of another kind, and its noted identity would always differ as bytes.
fn one(path: &Path, name: &str) -> Result<Found, Unusable> {
    let no_evidence = |e: std::io::Error| unusable(Reason::NoEvidence, format!("{}: {e}", path.display()));
    if fs::symlink_metadata(path).map_err(no_evidence)?.is_symlink() {
        let target = fs::read_link(path).map_err(no_evidence)?.to_string_lossy().into_owned().into_bytes();
        let (word, shape) = ("link".to_owned(), vec![target.len()]);
        let link = Tensor { name: name.to_owned(), dtype: None, word, shape, bytes: target };
        let remarks = vec![format!("{name}: a symbolic link, not followed; where it points is compared")];
        return Ok(Found { tensors: vec![link], remarks, unnamed: true, ..Found::default() });
    }
    if holds_trace(path) {
        return Err(different(path, "a trace among other files; compare traces on their own"));
    }
    found(path)
}

/// Every file below a folder, sorted by path.
pub fn folder(path: &Path) -> Result<Tensors, Unusable> {
    let (mut files, mut unlooked) = (Vec::new(), Vec::new());
    list(path, Path::new(""), 0, &mut files, &mut unlooked)?;
    if files.is_empty() {
        let detail = format!(
            "{}: no trace (*.jsonl, *.jsonl.zst), export (tensors.json), checkpoint or file here",
            path.display()
        );
        return Err(unusable(Reason::NoEvidence, detail));
    }
    files.sort();
    let mut all = artifacts(path, &files)?;
    all.unlooked.extend(unlooked);
    Ok(all)
}

fn list(
    base: &Path,
    inside: &Path,
    depth: usize,
    files: &mut Vec<PathBuf>,
    unlooked: &mut Vec<String>,
) -> Result<(), Unusable> {
    let folder = base.join(inside);
    let no_evidence = |e: std::io::Error| unusable(Reason::NoEvidence, format!("{}: {e}", folder.display()));
    for entry in fs::read_dir(&folder).map_err(no_evidence)? {
        let entry = entry.map_err(no_evidence)?;
        let (kind, name) = (entry.file_type().map_err(no_evidence)?, inside.join(entry.file_name()));
        if kind.is_dir() && depth >= DEPTH {
            return Err(different(&folder, format!("folders nested more than {DEPTH} deep")));
        } else if kind.is_dir() {
            list(base, &name, depth + 1, files, unlooked)?;
        } else if kind.is_file() || kind.is_symlink() {
            files.push(name);
        } else {
            unlooked.push(format!("{}: a pipe, socket or device", name.display()));
        }
        if files.len() > FILES {
            return Err(different(base, format!("more than {FILES} files; name a smaller folder")));
        }
    }
    Ok(())
}
