//! Files that any engine leaves: npy, npz, PyTorch state, safetensors, and whatever else as bytes.
//!
//! Foreign bytes are judged, never trusted: a claimed size is checked against what is there before anything is
//! allocated, nothing in a pickle is executed, and what cannot be read whole is refused with its reason. A file of
//! unknown form is compared as it lies on the disk.

mod globals;
mod layout;
mod literal;
pub mod npy;
pub mod npz;
mod objects;
pub mod pickle;
pub mod safe;
pub mod torch;
pub mod zip;

use crate::trace::record::Dtype;

/// A named tensor in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// name
    pub name: String,
    /// element type; None for bytes of unknown meaning
    pub dtype: Option<Dtype>,
    /// name of the element type, also of one that traces do not know
    pub word: String,
    /// sizes
    pub shape: Vec<usize>,
    /// raw little-endian bytes
    pub bytes: Vec<u8>,
}

/// What one file holds.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Found {
    /// in the order of the file
    pub tensors: Vec<Tensor>,
    /// what a reader should know of how it was read; nothing here makes the answer less sure
    pub remarks: Vec<String>,
    /// what of it is compared with nothing
    pub unlooked: Vec<String>,
    /// true when the file holds one tensor that bears the file's own name
    pub unnamed: bool,
}

/// Bytes that may still be built from one file: a small file that unpacks without end is refused.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    left: u64,
    limit: u64,
}

impl Budget {
    /// For a file of so many bytes.
    pub fn of_file(bytes: usize) -> Self {
        let limit = (64 << 20) + 8 * bytes as u64;
        Budget { left: limit, limit }
    }

    /// Takes bytes from it before they are allocated.
    pub fn take(&mut self, bytes: u64) -> Result<(), String> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(format!("it unpacks to more than {} bytes, far more than its size explains", self.limit)),
        }
    }
}

/// Ends of names whose files must be what they say.
fn ends(name: &str, end: &str) -> bool {
    name.to_ascii_lowercase().ends_with(end)
}

/// Text for a terminal: control characters, which foreign names may hold, are written out.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    out
}

/// Names made printable, after which each must still be the name of one tensor.
pub fn settle(mut found: Found) -> Result<Found, String> {
    let mut names = std::collections::BTreeSet::new();
    for tensor in &mut found.tensors {
        tensor.name = printable(&tensor.name);
        if !names.insert(tensor.name.clone()) {
            return Err(format!("two entries have the name {}", tensor.name));
        }
    }
    found.remarks.iter_mut().chain(&mut found.unlooked).for_each(|r| *r = printable(r));
    Ok(found)
}

/// Reads one file by its first bytes, then by its name. `name` is the file's own, without folders.
pub fn parse(name: &str, bytes: Vec<u8>) -> Result<Found, String> {
    dispatch(name, bytes).and_then(settle).map_err(|e| printable(&e))
}

fn dispatch(name: &str, bytes: Vec<u8>) -> Result<Found, String> {
    if ends(name, ".safetensors") {
        return safe::file(&bytes);
    }
    if bytes.starts_with(npy::MAGIC) || ends(name, ".npy") {
        let (tensor, remarks) = npy::parse(name, &bytes)?;
        return Ok(Found { tensors: vec![tensor], remarks, unnamed: true, ..Found::default() });
    }
    if zip::is_zip(&bytes) || ends(name, ".npz") {
        return archive(name, bytes);
    }
    if torch::is_legacy(name, &bytes) {
        return Err("PyTorch's format from before 1.6; load it and torch.save it again with a newer PyTorch".into());
    }
    let claims = [".pt", ".pth"].iter().any(|e| ends(name, e));
    let remark = claims.then(|| format!("{name}: not a PyTorch zip file, so compared as bytes"));
    Ok(plain(name, bytes, remark))
}

/// A zip file: arrays of NumPy, state of PyTorch, or bytes.
fn archive(name: &str, bytes: Vec<u8>) -> Result<Found, String> {
    let must = [".npz", ".pt", ".pth"].iter().any(|e| ends(name, e));
    let entries = match zip::entries(&bytes) {
        Ok(entries) => entries,
        Err(e) if must || ends(name, ".bin") => return Err(e),
        Err(_) => return Ok(plain(name, bytes, None)),
    };
    if torch::is_state(&entries) {
        return torch::parse(&entries, Budget::of_file(bytes.len()));
    }
    let arrays = entries.iter().all(|e| e.name.ends_with(".npy"));
    if ends(name, ".npz") || (arrays && !entries.is_empty()) {
        return npz::parse(&entries);
    }
    if must {
        return Err("a zip file without data.pkl: neither PyTorch's state nor NumPy's arrays".into());
    }
    Ok(plain(name, bytes, None))
}

/// Bytes of unknown meaning, under the file's name.
fn plain(name: &str, bytes: Vec<u8>, remark: Option<String>) -> Found {
    let dtype = Dtype::U8;
    let tensor = Tensor {
        name: name.to_owned(),
        dtype: Some(dtype),
        word: dtype.word().to_owned(),
        shape: vec![bytes.len()],
        bytes,
    };
    Found { tensors: vec![tensor], remarks: remark.into_iter().collect(), unnamed: true, ..Found::default() }
}
