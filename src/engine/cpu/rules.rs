//! Rules 1 and 3 to 6 in scalar form: the one source that every path compiles for its own instruction set.
//!
//! Compilers may not contract or reorder binary32 operations, so the loops below vectorise without a change of bits.
//! The only operation that differs in code between paths is the fused multiply-add (`Fma`).
//! Verified: the contract's vectors on every path of the machine that runs them, and property tests on hard values.

use crate::bits::rounding::AdamConstants;
use crate::engine::network::{ACTIONS, BRANCHES};

/// The fused multiply-add of a path.
pub(super) trait Fma {
    /// `a·b + c`, rounded once.
    fn fma(a: f32, b: f32, c: f32) -> f32;
}

/// Elements of one block of rule 4.
pub const REDUCE_BLOCK: usize = 1024;
/// Lanes of one block of rule 4.
const LANES: usize = 32;
/// Batch rows of one chunk of rule 3.
const BIAS_CHUNK: usize = 256;
/// Moments below this in magnitude become +0 (rule 6): 2^-100.
const TINY: f32 = f32::from_bits((127 - 100) << 23);

/// Single operations of rule 1, for the vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// a + b
    Add,
    /// a − b
    Sub,
    /// a · b
    Mul,
    /// a / b
    Div,
    /// square root of a
    Sqrt,
    /// fma(a, b, c)
    Fma,
}

#[inline(always)]
pub(super) fn elementwise<F: Fma>(operation: Operation, [a, b, c]: [&[f32]; 3], out: &mut [f32]) {
    let n = out.len();
    let (a, b, c) = (&a[..n], &b[..n], &c[..n]);
    match operation {
        Operation::Add => (0..n).for_each(|i| out[i] = a[i] + b[i]),
        Operation::Sub => (0..n).for_each(|i| out[i] = a[i] - b[i]),
        Operation::Mul => (0..n).for_each(|i| out[i] = a[i] * b[i]),
        Operation::Div => (0..n).for_each(|i| out[i] = a[i] / b[i]),
        Operation::Sqrt => (0..n).for_each(|i| out[i] = a[i].sqrt()),
        Operation::Fma => (0..n).for_each(|i| out[i] = F::fma(a[i], b[i], c[i])),
    }
}

#[inline(always)]
pub(super) fn relu(z: &[f32], y: &mut [f32]) {
    for (y, &z) in y.iter_mut().zip(z) {
        *y = if z > 0.0 || z.is_nan() { z } else { 0.0 };
    }
}

#[inline(always)]
pub(super) fn relu_backward(y: &[f32], dy: &[f32], dz: &mut [f32]) {
    for ((dz, &y), &dy) in dz.iter_mut().zip(y).zip(dy) {
        *dz = if y > 0.0 { dy } else { 0.0 };
    }
}

/// Rule 3 for the columns `dz[n · stride ..][..db.len()]` of `rows` rows.
#[inline(always)]
pub(super) fn bias_gradient(dz: &[f32], stride: usize, rows: usize, db: &mut [f32]) {
    for (block, out) in db.chunks_mut(LANES).enumerate() {
        let mut total = [0.0; LANES];
        for start in (0..rows).step_by(BIAS_CHUNK) {
            let mut s = [0.0; LANES];
            for n in start..rows.min(start + BIAS_CHUNK) {
                let row = &dz[n * stride + block * LANES..];
                match row.first_chunk::<LANES>() {
                    Some(full) if out.len() == LANES => (0..LANES).for_each(|l| s[l] += full[l]),
                    _ => (0..out.len()).for_each(|l| s[l] += row[l]),
                }
            }
            (0..LANES).for_each(|l| total[l] += s[l]);
        }
        out.copy_from_slice(&total[..out.len()]);
    }
}

/// First level of rule 4: one result for each block of 1,024 elements of `xs`, or of their squares.
#[inline(always)]
pub(super) fn reduce_blocks<F: Fma>(xs: &[f32], squares: bool, out: &mut [f32]) {
    let blocks = xs.chunks(REDUCE_BLOCK).zip(out);
    if squares {
        blocks.for_each(|(block, out)| *out = reduce_block(block, |s, x| F::fma(x, x, s)));
    } else {
        blocks.for_each(|(block, out)| *out = reduce_block(block, |s, x| s + x));
    }
}

#[inline(always)]
fn reduce_block(block: &[f32], step: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (full, rest) = block.as_chunks::<LANES>();
    for xs in full {
        (0..LANES).for_each(|l| lanes[l] = step(lanes[l], xs[l]));
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = step(*lane, x);
    }
    let mut h = LANES / 2;
    while h > 0 {
        (0..h).for_each(|l| lanes[l] += lanes[l + h]);
        h /= 2;
    }
    lanes[0]
}

/// Adam of rule 6 with the clip factor `k`: g·k on the way.
#[inline(always)]
pub(super) fn adam(c: &AdamConstants, k: f32, w: &mut [f32], m: &mut [f32], v: &mut [f32], g: &[f32]) {
    let n = w.len();
    let (m, v, g) = (&mut m[..n], &mut v[..n], &g[..n]);
    for i in 0..n {
        let g = g[i] * k;
        let new_m = (c.beta1 * m[i]) + (c.c1 * g);
        let new_v = (c.beta2 * v[i]) + (c.c2 * (g * g));
        m[i] = if new_m.abs() < TINY { 0.0 } else { new_m };
        v[i] = if new_v < TINY { 0.0 } else { new_v };
        w[i] -= (c.a * m[i]) / ((v[i].sqrt() * c.b) + c.epsilon);
    }
}

#[inline(always)]
pub(super) fn polyak(tau: f32, target: &mut [f32], w: &[f32]) {
    for (target, &w) in target.iter_mut().zip(w) {
        *target += tau * (w - *target);
    }
}

/// The planted fault `contracted_polyak`: multiplication and addition fused, as a compiler with contraction would.
#[inline(always)]
pub(super) fn polyak_contracted<F: Fma>(tau: f32, target: &mut [f32], w: &[f32]) {
    for (target, &w) in target.iter_mut().zip(w) {
        *target = F::fma(tau, w - *target, *target);
    }
}

/// Whether any element is a NaN or an infinity.
#[inline(always)]
pub(super) fn any_not_finite(xs: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    xs.iter().fold(0, |found, x| found | u32::from(x.to_bits() & EXPONENT == EXPONENT)) != 0
}

/// `(norm, k)` of rule 6 from the sum of squares.
pub fn clip(sum_squares: f32, limit: f32) -> (f32, f32) {
    let norm = sum_squares.sqrt();
    (norm, if norm > limit { limit / norm } else { 1.0 })
}

/// Q-values of one branch from the value and the branch's advantages.
#[inline]
pub fn dueling(v: f32, a: [f32; ACTIONS]) -> [f32; ACTIONS] {
    let mean = ((((a[0] + a[1]) + a[2]) + a[3]) + a[4]) / 5.0;
    a.map(|a| v + (a - mean))
}

/// Index of the first largest element; a NaN never wins over an earlier element and is never replaced.
#[inline]
pub fn argmax(q: &[f32]) -> usize {
    let better = |best: usize, j: usize| if q[j] > q[best] { j } else { best };
    (1..q.len()).fold(0, better)
}

/// Y of one row from both networks' Q-values `[3][5]` of the next state; the online network picks the actions.
#[inline]
pub fn td_target(r: f32, done: bool, gamma_n: f32, online: &[f32], target: &[f32]) -> f32 {
    if done {
        return r;
    }
    let pick = |b: usize| target[b * ACTIONS + argmax(&online[b * ACTIONS..(b + 1) * ACTIONS])];
    let m = ((pick(0) + pick(1)) + pick(2)) / 3.0;
    r + (gamma_n * m)
}

/// Loss of one branch of one row.
#[derive(Clone, Copy, Debug)]
pub struct Huber {
    /// δ = q − Y
    pub delta: f32,
    /// δ limited to ±1
    pub e: f32,
    /// Huber loss, without importance weight
    pub loss: f32,
    /// gradient by q, weighted: (e·w)·c
    pub g: f32,
}

/// Rule 5's loss of one branch; `q` belongs to the action taken, `c` is [`loss_scale`].
#[inline]
#[expect(clippy::manual_clamp, reason = "as the contract writes it: a NaN stays")]
pub fn huber(q: f32, y: f32, w: f32, c: f32) -> Huber {
    let delta = q - y;
    let e = if delta > 1.0 {
        1.0
    } else if delta < -1.0 {
        -1.0
    } else {
        delta
    };
    let loss = if delta.abs() <= 1.0 { 0.5 * (delta * delta) } else { delta.abs() - 0.5 };
    Huber { delta, e, loss, g: (e * w) * c }
}

/// c = f32(1/(3B)) of a batch of B rows, divided in binary64.
pub fn loss_scale(batch: usize) -> f32 {
    (1.0 / (3.0 * batch as f64)) as f32
}

/// `(dv, da[3][5])` of one row: gradients entering the heads' outputs.
#[inline]
pub fn heads_backward(g: [f32; BRANCHES], actions: [u8; BRANCHES]) -> (f32, [[f32; ACTIONS]; BRANCHES]) {
    let branch = |b: usize| {
        let u = g[b] / 5.0;
        std::array::from_fn(|j| (if j == usize::from(actions[b]) { g[b] } else { 0.0 }) - u)
    };
    ((g[0] + g[1]) + g[2], std::array::from_fn(branch))
}
