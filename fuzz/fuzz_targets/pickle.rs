//! Pickles of PyTorch's state: no program makes the reader panic, run anything or build without end.
//!
//! The bytes are read as a pickle, and as the pickle of a state file whose storages 0 to 3 hold 64 bytes each.

#![no_main]

#[path = "../zipped.rs"]
mod zipped;

use libfuzzer_sys::fuzz_target;
use samebits::artifact::{self, pickle};

fuzz_target!(|data: &[u8]| {
    if data.len() > 1 << 20 {
        return;
    }
    match pickle::read(data) {
        // Every value needs a byte of the program.
        Ok(read) => assert!(read.values.len() <= data.len() && (read.root as usize) < read.values.len()),
        Err(e) => assert!(!e.is_empty() && !e.chars().any(char::is_control), "{e:?}"),
    }
    let storage: Vec<u8> = (0..64).collect();
    let names = ["s/data/0", "s/data/1", "s/data/2", "s/data/3"];
    for order in ["little", "big"] {
        let mut entries = vec![("s/data.pkl", data, false), ("s/byteorder", order.as_bytes(), false)];
        entries.extend(names.map(|n| (n, storage.as_slice(), false)));
        let file = zipped::zipped(&entries);
        let Ok(found) = artifact::parse("x.pt", file.clone()) else { continue };
        let mut names: Vec<&str> = found.tensors.iter().map(|t| t.name.as_str()).collect();
        let mut bytes = 0;
        for tensor in &found.tensors {
            bytes += tensor.bytes.len() + tensor.name.len();
            let count = tensor.shape.iter().fold(1usize, |n, d| n.saturating_mul(*d));
            assert!(tensor.dtype.is_none_or(|d| count * d.size() == tensor.bytes.len()), "{}", tensor.name);
        }
        assert!(bytes <= (64 << 20) + 8 * file.len());
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), found.tensors.len(), "a name stands twice");
    }
});
