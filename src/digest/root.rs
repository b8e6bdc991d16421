//! One digest for a list of named values.

use super::fingerprint::Fingerprint;
use super::sha::{Digest, Hasher};

/// Root of named digests in list order: SHA-256 over, for each, the name's length (u64 LE), the name, the digest.
pub fn root<'a>(named: impl IntoIterator<Item = (&'a str, &'a Digest)>) -> Digest {
    over(named.into_iter().map(|(name, digest)| (name, &digest.0[..])))
}

/// The same over fingerprints (as their 16 bytes, lane 0 first, each little-endian).
pub fn fingerprint_root<'a>(named: impl IntoIterator<Item = (&'a str, &'a Fingerprint)>) -> Digest {
    let mut hasher = Hasher::default();
    for (name, fp) in named {
        add(&mut hasher, name, bytemuck::cast_slice(&fp.0.map(u64::to_le)));
    }
    hasher.finish()
}

fn over<'a>(named: impl Iterator<Item = (&'a str, &'a [u8])>) -> Digest {
    let mut hasher = Hasher::default();
    named.for_each(|(name, bytes)| add(&mut hasher, name, bytes));
    hasher.finish()
}

fn add(hasher: &mut Hasher, name: &str, bytes: &[u8]) {
    hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes()).update(bytes);
}
