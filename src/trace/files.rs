//! Opens files that others wrote: regular files only, and never more of one than is wanted.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Opens a regular file; a pipe, a device or a folder is refused before it can block or never end.
pub fn open(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        let kind = io::ErrorKind::InvalidInput;
        return Err(io::Error::new(
            kind,
            "not a regular file (a pipe, a device or a folder); write it to a file first",
        ));
    }
    File::open(path)
}

/// All of a regular file of at most `limit` bytes.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let too_long =
        |size: u64| io::Error::new(io::ErrorKind::FileTooLarge, format!("{size} bytes; at most {limit} are read"));
    let file = open(path)?;
    let size = file.metadata()?.len();
    if size > limit {
        return Err(too_long(size));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(too_long(bytes.len() as u64)) } else { Ok(bytes) }
}
