//! Tier `chain` on an NVIDIA GPU: the same bits as `engine::cpu`.
//!
//! One file launches one file of `kernels/`; a safe function asserts shapes and makes one launch. Everything runs on one
//! stream, in memory that cuMemAlloc gave at construction, under raw addresses.
//! Verified: see `ci/evidence`. Not verified: any GPU that the evidence does not name.

pub mod adam;
pub mod bias_gradient;
pub mod buffer;
pub mod compile;
pub mod device;
mod driver;
pub mod environment;
pub mod error;
pub mod evaluate;
pub mod fingerprint;
pub mod finite;
pub mod gather;
pub mod gemm;
pub mod graph;
pub mod heads;
pub mod held;
pub mod init;
pub mod kernels;
mod launch;
mod launches;
pub mod learner;
pub mod log;
pub mod loss;
pub mod market;
pub mod network;
pub mod pinned;
pub mod ptx;
pub mod reduce;
pub mod ring;
pub mod rules;
pub mod sample;
pub mod state;
mod steps;
pub mod trainer;
