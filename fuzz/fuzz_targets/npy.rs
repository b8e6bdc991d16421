//! npy files: no bytes make the reader panic or hold more than the file does, and a shape is that of the bytes.
//!
//! The bytes are read as they are, and as header text and data behind a right beginning: the text ends at the first newline.

#![no_main]

use libfuzzer_sys::fuzz_target;
use samebits::artifact::{Tensor, npy};

fn check(file: &[u8]) -> Option<Tensor> {
    let (tensor, _) = npy::parse("x", file).map_err(|e| assert!(!e.is_empty())).ok()?;
    assert!(tensor.bytes.len() <= file.len());
    let count = tensor.shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    match (tensor.dtype, count) {
        (Some(dtype), Some(count)) => assert_eq!(count * dtype.size(), tensor.bytes.len(), "{}", tensor.word),
        // Elements of no bytes may be any number.
        _ => assert!(tensor.dtype.is_none() || tensor.bytes.is_empty()),
    }
    if !tensor.bytes.is_empty() {
        assert!(npy::parse("x", &file[..file.len() - 1]).is_err(), "cut");
    }
    Some(tensor)
}

fuzz_target!(|data: &[u8]| {
    check(data);
    let end = data.iter().position(|b| *b == b'\n').map_or(data.len(), |at| at + 1);
    let Ok(length) = u16::try_from(end) else { return };
    let short = [npy::MAGIC, &[1, 0], &length.to_le_bytes(), data].concat();
    let long = [npy::MAGIC, &[2, 0], &u32::from(length).to_le_bytes(), data].concat();
    assert_eq!(check(&short), check(&long), "the version decides");
});
