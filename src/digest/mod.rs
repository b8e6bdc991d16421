//! SHA-256 of tensors, fingerprints `fp/1`, roots of named tensors.

pub mod fingerprint;
pub mod root;
pub mod sha;
