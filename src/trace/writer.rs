//! Writes a trace: one chained record a line, flushed, under its final name only when closed.
//!
//! A line is the record's JSON object with a last member `"chain"`: the SHA-256 of the chain before it (for the first
//! record: the SHA-256 of the schema's name) followed by the line's text up to the comma before `"chain"`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::record::{Record, SCHEMA};
use crate::digest::sha::{Digest, Hasher, sha256};

/// What stands before the chain's digits in a line.
pub(super) const CHAIN_MEMBER: &str = ",\"chain\":\"";

/// The chain before the first record.
pub fn chain_start() -> Digest {
    sha256(SCHEMA.as_bytes())
}

/// The chain after a record whose line, up to the comma before `"chain"`, is `body`.
pub fn chain_next(chain: Digest, body: &str) -> Digest {
    let mut hasher = Hasher::default();
    hasher.update(&chain.0).update(body.as_bytes());
    hasher.finish()
}

/// The line of a record after a chain, and the chain after it.
pub fn line(chain: Digest, record: &Record) -> serde_json::Result<(Digest, String)> {
    let mut text = serde_json::to_string(record)?;
    text.pop(); // the closing brace comes after the chain
    let next = chain_next(chain, &text);
    text.push_str(&format!("{CHAIN_MEMBER}{next}\"}}\n"));
    Ok((next, text))
}

/// The file name under which an unfinished trace is written.
pub fn part_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

/// A trace being written at `PATH.part`; [`Writer::finish`] gives it its name.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: File,
    chain: Digest,
    records: u64,
    bytes: u64,
}

impl Writer {
    /// Starts a trace that will be `path`; a name ending in `.zst` is compressed at the end. An old file under that
    /// name stays until the new one is complete.
    pub fn create(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let part = part_name(path);
        // Opened without cutting it, so that the part of a run that still writes is not lost.
        let file = File::options().write(true).create(true).truncate(false).open(&part)?;
        if rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            let busy = format!("another run is writing {}; give each its own --trace", part.display());
            return Err(io::Error::other(busy));
        }
        file.set_len(0)?;
        Ok(Writer { path: path.to_owned(), file, chain: chain_start(), records: 0, bytes: 0 })
    }

    /// The final name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records written so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Bytes written so far, before compression.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes one record and hands it to the system, so that a killed run leaves a readable prefix.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        let (chain, line) = line(self.chain, record)?;
        self.chain = chain;
        self.file.write_all(line.as_bytes())?;
        self.records += 1;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Syncs, compresses if the name asks for it, and renames.
    pub fn finish(self) -> io::Result<PathBuf> {
        self.file.sync_all()?;
        drop(self.file);
        let part = part_name(&self.path);
        if self.path.extension().is_some_and(|e| e == "zst") {
            compress(&part, &self.path)?;
            fs::remove_file(&part)?;
        } else {
            fs::rename(&part, &self.path)?;
        }
        sync_folder(&self.path)?;
        Ok(self.path)
    }
}

fn compress(from: &Path, to: &Path) -> io::Result<()> {
    let folder = folder_of(to);
    let mut out = tempfile::NamedTempFile::new_in(folder)?;
    zstd::stream::copy_encode(File::open(from)?, &mut out, 3)?;
    out.as_file().sync_all()?;
    out.persist(to)?;
    Ok(())
}

/// The folder that a path lies in; `.` for a bare name.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes a rename in a file's folder last.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = folder_of(path);
    File::open(folder)?.sync_all()
}

/// Writes a whole file under its name only when complete: temporary name, sync, rename.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = folder_of(path);
    fs::create_dir_all(folder)?;
    // As readable as any new file: what the umask leaves.
    let readable = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666);
    let mut file = tempfile::Builder::new().prefix(".samebits-").permissions(readable).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    sync_folder(path)
}
