//! Stamps the binary with content hashes of what decides its bits, in the form of `verify::golden::tree_digest`.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

fn main() {
    for (name, variable) in [("src", "SRC"), ("kernels", "KERNELS"), ("Cargo.lock", "LOCK")] {
        // Cargo takes a missing path for a changed one and would build everything again at each call.
        if Path::new(name).exists() {
            println!("cargo:rerun-if-changed={name}");
        }
        let digest = tree(Path::new(name)).map(|d| d.iter().map(|b| format!("{b:02x}")).collect::<String>());
        println!("cargo:rustc-env=SAMEBITS_HASH_{variable}={}", digest.unwrap_or_default());
    }
}

fn tree(path: &Path) -> Option<[u8; 32]> {
    if path.is_file() {
        return fs::read(path).ok().map(|bytes| Sha256::digest(bytes).into());
    }
    let mut names: Vec<PathBuf> = fs::read_dir(path).ok()?.filter_map(|e| Some(e.ok()?.path())).collect();
    names.sort();
    let mut hasher = Sha256::new();
    for name in names {
        let part = tree(&name)?;
        hasher.update(name.file_name()?.as_encoded_bytes());
        hasher.update(b"\0");
        hasher.update(part);
    }
    Some(hasher.finalize().into())
}
