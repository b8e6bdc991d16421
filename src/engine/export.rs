//! Exports final tensors: one safetensors file, one raw little-endian file a tensor, and `SHA256SUMS`, which
//! `sha256sum -c` checks and whose digests stand in the trace.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use super::checkpoint::{CheckpointError, Entry, TENSORS, write_folder, write_safetensors};
use crate::trace::observer::TensorView;

/// List of tensors in an export: name, type, shape, digest.
pub const INDEX: &str = "tensors.json";
/// Digests in the form of `sha256sum`.
pub const SUMS: &str = "SHA256SUMS";

/// Writes all tensors below `folder`, which appears only when complete.
pub fn export(folder: &Path, tensors: &[TensorView<'_>]) -> Result<(), CheckpointError> {
    write_folder(folder, |inside| {
        let entries: Vec<Entry> = tensors.iter().map(Entry::of).collect();
        for tensor in tensors {
            write_synced(&inside.join(format!("{}.bin", tensor.name)), tensor.whole())?;
        }
        write_synced(&inside.join(SUMS), sums(&entries).as_bytes())?;
        let index = serde_json::to_vec_pretty(&entries)
            .map_err(|e| CheckpointError { path: folder.display().to_string(), detail: e.to_string() })?;
        write_synced(&inside.join(INDEX), &index)?;
        write_safetensors(&inside.join(TENSORS), tensors)
    })
}

/// The text of [`SUMS`].
pub fn sums(entries: &[Entry]) -> String {
    let mut text = String::new();
    for entry in entries {
        let _ = writeln!(text, "{}  {}.bin", entry.sha256, entry.name);
    }
    text
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    let write = || -> std::io::Result<()> {
        let mut file = fs::File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|e| CheckpointError { path: path.display().to_string(), detail: e.to_string() })
}
