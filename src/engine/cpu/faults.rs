//! Planted faults: what the harness's detectors must find. Each computes a wrong order or a wrong mode on purpose.

use std::sync::{Barrier, Mutex};

use rayon::ThreadPool;

use super::simd::Kernels;
use super::{rules, sum};

/// Faults of an engine, none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// sums of squares gather in the order in which threads arrive: repeats differ with two threads or more
    pub unordered_sum: bool,
    /// sums of squares take one contiguous chunk a thread: stable, but another value for another thread count
    pub thread_chunked_sum: bool,
    /// Polyak with a fused multiply-add, on every path but the scalar one
    pub contracted_polyak: bool,
    /// the last worker flushes subnormals after the start-up proof
    pub flush_to_zero: bool,
}

/// Elements that one arrival adds: small, so that even a small tensor sees many.
const ARRIVAL: usize = 16;

/// Sum of squares of a tensor, accumulated in the order in which the pool's threads arrive.
pub(super) fn unordered_squares(pool: &ThreadPool, xs: &[f32]) -> f32 {
    let (total, threads) = (Mutex::new(0.0f32), pool.current_num_threads());
    let together = Barrier::new(threads);
    pool.broadcast(|worker| {
        together.wait();
        for xs in xs.chunks(ARRIVAL).skip(worker.index()).step_by(threads) {
            let part = xs.iter().fold(0.0, |s, x| s + x * x);
            *total.lock().expect("no holder panics") += part;
            // A tensor of tests is summed faster than a thread wakes up; without this one thread would do all.
            std::thread::yield_now();
        }
    });
    total.into_inner().expect("no holder panics")
}

/// Sum of squares of a tensor in one contiguous chunk a thread, the chunks ascending.
pub(super) fn chunked_squares(kernels: &Kernels, threads: usize, xs: &[f32]) -> f32 {
    let chunks = xs.chunks(if xs.is_empty() { 1 } else { xs.len().div_ceil(threads) });
    chunks.fold(0.0, |s, chunk| {
        s + sum::reduce(kernels, chunk, true, &mut vec![0.0; chunk.len().div_ceil(rules::REDUCE_BLOCK)])
    })
}
