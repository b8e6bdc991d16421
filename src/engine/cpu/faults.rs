//! Planted faults: what the harness's detectors must find. Each computes a wrong order or a wrong mode on purpose.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// Arrivals that a tensor's sum is made of.
const ARRIVALS: usize = 64;

/// Sum of squares of a tensor, accumulated in the order in which the pool's threads arrive. All start together and give
/// way after each arrival, so that the order varies even where threads share a core. One caller at a time: each waits
/// for all threads of the pool.
pub(super) fn unordered_squares(pool: &ThreadPool, xs: &[f32]) -> f32 {
    let threads = pool.current_num_threads();
    let (started, total) = (AtomicUsize::new(0), Mutex::new(0.0f32));
    let each = xs.len() / ARRIVALS + 1;
    let clock = std::time::Instant::now();
    pool.broadcast(|worker| {
        started.fetch_add(1, Ordering::Relaxed);
        while started.load(Ordering::Relaxed) < threads {
            std::thread::yield_now();
        }
        for part in xs.chunks(each).skip(worker.index()).step_by(threads) {
            let part = part.iter().fold(0.0, |s, x| s + x * x);
            *total.lock().expect("no holder panics") += part;
            // On a quiet machine threads that yield take turns like clockwork; the clock's last digits spread them as
            // contention does on a busy device.
            for _ in 0..=clock.elapsed().subsec_nanos() % 8 {
                std::thread::yield_now();
            }
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
