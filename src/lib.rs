//! Determinism and reproducibility test harness for GPU training: are the bits the same?
//!
//! The folders are floors: each uses only those named above it in `docs/design.md` (checked by `tests/tidy.rs`).

pub mod bits;
pub mod compare;
pub mod digest;
pub mod engine;
pub mod launch;
pub mod scenario;
pub mod trace;
