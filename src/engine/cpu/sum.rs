//! Rule 4 on one thread: blocks of 1,024, then their results the same way.

use super::rules::REDUCE_BLOCK;
use super::simd::Kernels;

/// Sum of `xs`, or of their squares. `partial` holds the first level's results: one for each block or more.
pub(super) fn reduce(kernels: &Kernels, xs: &[f32], squares: bool, partial: &mut [f32]) -> f32 {
    let blocks = xs.len().div_ceil(REDUCE_BLOCK);
    (kernels.reduce_blocks)(xs, squares, &mut partial[..blocks]);
    finish(kernels, &mut partial[..blocks])
}

/// The levels above the first, in place.
pub(super) fn finish(kernels: &Kernels, results: &mut [f32]) -> f32 {
    let mut n = results.len();
    while n > 1 {
        let next = n.div_ceil(REDUCE_BLOCK);
        for i in 0..next {
            let mut result = [0.0];
            (kernels.reduce_blocks)(&results[i * REDUCE_BLOCK..n.min((i + 1) * REDUCE_BLOCK)], false, &mut result);
            results[i] = result[0];
        }
        n = next;
    }
    if n == 0 { 0.0 } else { results[0] }
}
