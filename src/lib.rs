//! Determinism and reproducibility test harness for GPU training: are the bits the same?
//!
//! The folders are floors: each uses only those above it in the list of `docs/design.md` (checked by `tests/tidy.rs`).

pub mod artifact;
pub mod audit;
pub mod bits;
pub mod cli;
pub mod compare;
pub mod detect;
pub mod digest;
pub mod engine;
pub mod launch;
pub mod report;
pub mod scenario;
pub mod trace;
pub mod verify;
