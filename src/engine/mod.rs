//! The embedded engine: a branching, dueling double DQN that trades a market, walk-forward fold by fold.
//!
//! Tier `chain`: every bit is fixed by `docs/contract.md`. Verified: the contract's vectors on every SIMD path
//! (`samebits vectors`), whole updates among them; equal digests over threads, paths, folds, resumes and evaluation
//! schedules (the cases). Not verified: that the policy is any good beyond a planted pattern.

pub mod checkpoint;
pub mod cpu;
#[allow(unsafe_code)]
pub mod cuda;
pub mod environment;
pub mod error;
pub mod evaluator;
pub mod export;
pub mod folds;
pub mod market;
pub mod market_csv;
pub mod market_error;
pub mod market_features;
mod market_header;
pub mod market_lines;
#[cfg(feature = "parquet")]
pub mod market_parquet;
pub mod market_synthetic;
mod market_time;
mod market_time_forms;
mod market_window;
pub mod network;
pub mod ops;
pub mod replay;
pub mod run;
pub mod session;
pub mod state;
pub mod trainer;
pub mod training;
pub mod vectors;
