//! NumPy's npz format: a zip file of npy files, one an array.

use super::zip::Entry;
use super::{Found, npy};

/// The arrays, by their names without `.npy`.
pub fn parse(entries: &[Entry<'_>]) -> Result<Found, String> {
    let mut found = Found::default();
    for entry in entries {
        let name = entry.name.strip_suffix(".npy");
        let name =
            name.ok_or_else(|| format!("{:?} in it is no .npy file, which is all that an npz holds", entry.name))?;
        let of_entry = |e: String| format!("{name}: {e}");
        let (tensor, remarks) = npy::parse(name, &entry.read()?).map_err(of_entry)?;
        found.tensors.push(tensor);
        found.remarks.extend(remarks);
    }
    Ok(found)
}
