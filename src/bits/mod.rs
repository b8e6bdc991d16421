//! Float bit patterns, ULP distance, single-rounded arithmetic helpers and counter-based randomness.
//!
//! Verified: every function against the contract's vectors (`samebits vectors`); [`fma::fma_soft`] also against the
//! hardware's fused multiply-add on hard and random values.

pub mod fma;
pub mod philox;
pub mod rounding;
pub mod ulp;
