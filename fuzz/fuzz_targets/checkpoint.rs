//! Checkpoints: no bytes make the readers of manifests and safetensors panic, a claimed size allocates nothing, and what
//! is read as a checkpoint is what was written.
//!
//! The bytes are read as a manifest, as safetensors, and as a manifest, a zero byte and safetensors: a checkpoint folder,
//! as it is and with the digests set right.

#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use samebits::artifact::safe;
use samebits::compare::tensors::{Tensor, compare};
use samebits::compare::verdict::Verdict;
use samebits::digest::sha::sha256;
use samebits::engine::checkpoint::{
    Checkpoint, Entry, MANIFEST, Manifest, TENSORS, claimed_bytes, entries_root, parse_manifest,
};

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a temporary folder"));

fn manifest(bytes: &[u8]) -> Option<Manifest> {
    let manifest = parse_manifest(bytes).inspect_err(|error| assert!(!error.is_empty())).ok()?;
    let text = serde_json::to_vec(&manifest).expect("a manifest has a JSON form");
    assert_eq!(parse_manifest(&text).expect("what was written"), manifest);
    let _ = manifest.tensors.iter().map(claimed_bytes).collect::<Vec<_>>();
    let _ = entries_root(&manifest.tensors);
    Some(manifest)
}

fn tensors(bytes: &[u8]) -> Option<Vec<Tensor>> {
    let list = safe::parse(bytes).ok()?;
    let held = list.iter().fold(0, |n, t| n + t.bytes.len());
    assert!(held <= bytes.len(), "{held} bytes of tensors from {}", bytes.len());
    assert!(!matches!(compare(&list, &list).verdict, Verdict::Different), "tensors differ from themselves");
    Some(list)
}

fn folder(manifest: &Manifest, tensors: &[u8]) -> Result<Checkpoint, String> {
    let folder: &Path = FOLDER.path();
    std::fs::write(folder.join(MANIFEST), serde_json::to_vec(manifest).expect("JSON")).expect("the temporary folder");
    std::fs::write(folder.join(TENSORS), tensors).expect("the temporary folder");
    Checkpoint::read(folder).map_err(|e| e.to_string())
}

fn set_right(manifest: &mut Manifest, list: &[Tensor]) {
    let entry = |t: &Tensor| {
        let sha256 = sha256(&t.bytes);
        Some(Entry { name: t.name.clone(), dtype: t.dtype?, shape: t.shape.clone(), sha256 })
    };
    manifest.tensors = list.iter().filter_map(entry).collect();
    manifest.root = entries_root(&manifest.tensors);
}

fuzz_target!(|data: &[u8]| {
    manifest(data);
    tensors(data);
    let Some(at) = data.iter().position(|b| *b == 0) else { return };
    let (Some(mut manifest), bytes) = (manifest(&data[..at]), &data[at + 1..]) else { return };
    let list = tensors(bytes);
    let as_it_is = folder(&manifest, bytes);
    if list.is_none() {
        as_it_is.expect_err("not a safetensors file");
        return;
    }
    let list = list.unwrap_or_default();
    set_right(&mut manifest, &list);
    if let Ok(checkpoint) = folder(&manifest, bytes) {
        let read = checkpoint.tensors().expect("verified");
        assert!(read.iter().zip(&list).all(|((entry, bytes), t)| entry.name == t.name && *bytes == t.bytes));
        assert_eq!(read.len(), list.len());
        // One changed byte of a tensor is seen.
        if let Some(last) = list.iter().rev().find_map(|t| Some(t.bytes.len()).filter(|n| *n > 0)) {
            let mut altered = bytes.to_vec();
            *altered.last_mut().expect("at least that tensor") ^= 1;
            assert!(folder(&manifest, &altered).is_err(), "{last} bytes, the last one changed");
        }
    }
});
