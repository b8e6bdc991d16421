//! Zip files of NumPy and PyTorch: no bytes make a reader panic or unpack without end, and a file is what it is again.
//!
//! The bytes are read as they are, and as entries that are zipped here: parts between lines `===`, each a name, a newline
//! and its bytes. A name that begins with `!` is deflated.

#![no_main]

#[path = "../zipped.rs"]
mod zipped;

use libfuzzer_sys::fuzz_target;
use samebits::artifact::{self, Found, zip};

fn check(name: &str, file: &[u8]) -> Option<Found> {
    let found = artifact::parse(name, file.to_vec()).map_err(|e| assert!(!e.is_empty())).ok()?;
    let bytes = found.tensors.iter().fold(0, |n, t| n + t.bytes.len());
    assert!(bytes <= (64 << 20) + 1100 * file.len(), "{bytes} bytes from {}", file.len());
    assert_eq!(artifact::parse(name, file.to_vec()).as_ref(), Ok(&found));
    Some(found)
}

fn entries(data: &[u8]) -> Vec<(&str, &[u8], bool)> {
    let mut parts = vec![0];
    parts.extend(data.windows(5).enumerate().filter(|(_, w)| *w == b"\n===\n").map(|(i, _)| i + 5));
    let ends = parts.iter().skip(1).map(|p| p - 5).chain([data.len()]);
    let part = |(begin, end): (&usize, usize)| {
        let part = data.get(*begin..end)?;
        let at = part.iter().position(|b| *b == b'\n')?;
        let name = std::str::from_utf8(&part[..at]).ok().filter(|n| n.len() < 1000)?;
        // A last name that looks like the locator of zip64 is one to every reader, and then there is nothing at its end.
        let name = Some(name).filter(|n| !n.contains("PK\u{6}\u{7}"))?;
        let plain = name.strip_prefix('!');
        Some((plain.unwrap_or(name), &part[at + 1..], plain.is_some()))
    };
    parts.iter().zip(ends).filter_map(part).take(64).collect()
}

fuzz_target!(|data: &[u8]| {
    if data.len() > 1 << 20 {
        return;
    }
    if let Ok(entries) = zip::entries(data) {
        for entry in &entries {
            assert!(!entry.name.contains("..") || !entry.name.split('/').any(|p| p == ".."));
            let _ = entry.read().map(|bytes| assert_eq!(bytes.len() as u64, entry.size()));
        }
    }
    for name in ["x.npz", "x.pt", "x"] {
        check(name, data);
    }
    let parts = entries(data);
    let whole = zipped::zipped(&parts);
    match zip::entries(&whole) {
        Ok(read) => assert_eq!(read.len(), parts.iter().filter(|(n, ..)| !n.ends_with('/')).count()),
        Err(e) => assert!(e.contains("twice") || e.contains("leaves"), "{e}"),
    }
    for name in ["x.npz", "x.pt"] {
        check(name, &whole);
    }
});
