//! One update: gradients of a batch, then clip, Adam, target network and packing. Four kinds of parallel phase.
//!
//! Rows of the batch through all forwards, loss and backward; then rows of the weight gradients; then sums of squares;
//! then elements of the parameters, and panels of the packed copies.

use rayon::prelude::*;

use super::network::Network;
use super::rules::{self, REDUCE_BLOCK};
use super::workspace::{TENSORS, Workspace};
use super::{Cpu, faults, passes, sum, weights};
use crate::bits::rounding::AdamConstants;

/// Rows of s′ that pass through a thread's scratch at a time.
const SCRATCH_ROWS: usize = 256;
/// Parameters from which the sums of squares are worth several threads.
const PARALLEL_SQUARES: usize = 1 << 20;
/// Elementwise work is cut at multiples of this.
const ELEMENTS: usize = 64;

/// Sampled transitions, B rows.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// `[B, D]`: s
    pub obs: &'a [f32],
    /// `[B, D]`: s′, n steps later
    pub next_obs: &'a [f32],
    /// `[B]`: action of each branch, below 5
    pub actions: &'a [[u8; 3]],
    /// `[B]`: R of rule 5
    pub returns: &'a [f32],
    /// `[B]`: whether the return was cut by the end of an episode
    pub done: &'a [bool],
    /// `[B]`: importance weights, 1 when uniform
    pub weights: &'a [f32],
    /// G = f32(γ^n)
    pub gamma_n: f32,
}

impl Batch<'_> {
    /// B.
    pub fn rows(&self) -> usize {
        self.returns.len()
    }

    fn check(&self, d: usize) {
        let b = self.rows();
        assert!(b > 0, "an empty batch");
        assert!(self.obs.len() == b * d && self.next_obs.len() == b * d, "observations are [{b}, {d}]");
        assert!(self.actions.len() == b && self.done.len() == b && self.weights.len() == b, "{b} rows everywhere");
        assert!(self.actions.iter().flatten().all(|&a| a < 5), "actions are below 5");
    }
}

/// What becomes of the target network after Adam.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TargetRule {
    /// `target + (τ·(w − target))`
    Polyak {
        /// τ
        tau: f32,
    },
    /// a copy
    Copy,
    /// nothing
    Keep,
}

impl Cpu {
    /// Gradients of one batch into `ws`, with everything on the way, the loss and the norm. Networks are only read.
    pub fn gradients(&self, online: &Network, target: &Network, batch: &Batch, ws: &mut Workspace) {
        let shape = online.shape();
        assert_eq!(shape, target.shape(), "online and target network");
        batch.check(shape.d);
        ws.prepare(online, batch.rows(), self.threads(), SCRATCH_ROWS.min(batch.rows()));
        self.pool.install(|| {
            let (layers, of_rows, scratch) = ws.views(shape);
            let layers = layers.split(self.threads()).into_iter();
            let tasks = layers.zip(of_rows.split(self.threads())).zip(scratch).collect();
            self.share(tasks, |(((first, layers), (_, of_rows)), scratch)| {
                passes::rows(self.kernels, [online, target], batch, first, (layers, of_rows), scratch);
            });
            let shares = weights::shares(online, &mut ws.gradients, self.threads());
            let (y, dz) = (&ws.online, &ws.dz);
            self.share(shares, |share| share.run(self.kernels, shape.h, batch.obs, y, dz));
            let loss = sum::reduce(self.kernels, &ws.loss_terms, false, &mut ws.partial);
            ws.loss = loss * rules::loss_scale(batch.rows());
            self.norm(online, ws);
        });
    }

    /// Sums of squares by rule 4, or as a planted fault has them, and the norm.
    fn norm(&self, net: &Network, ws: &mut Workspace) {
        let Workspace { gradients, tensor_squares, partial, .. } = ws;
        let tensors = net.layers().iter().flat_map(|l| [l.weight.clone(), l.bias.clone()]);
        for (squares, range) in tensor_squares.iter_mut().zip(tensors) {
            let g = &gradients[range];
            *squares = if self.faults.unordered_sum {
                faults::unordered_squares(&self.pool, g)
            } else if self.faults.thread_chunked_sum {
                faults::chunked_squares(self.kernels, self.threads(), g)
            } else if g.len() < PARALLEL_SQUARES {
                sum::reduce(self.kernels, g, true, partial)
            } else {
                self.parallel_squares(g, partial)
            };
        }
        ws.sum_squares = sum::reduce(self.kernels, &ws.tensor_squares, false, &mut [0.0; TENSORS]);
        ws.norm = ws.sum_squares.sqrt();
    }

    fn parallel_squares(&self, g: &[f32], partial: &mut [f32]) -> f32 {
        let blocks = g.len().div_ceil(REDUCE_BLOCK);
        let each = blocks.div_ceil(self.threads());
        let results = &mut partial[..blocks];
        let chunks = g.par_chunks(each * REDUCE_BLOCK).zip(results.par_chunks_mut(each));
        chunks.for_each(|(g, out)| (self.kernels.reduce_blocks)(g, true, out));
        sum::finish(self.kernels, results)
    }

    /// Applies the gradients in `ws`, which stay unclipped: clip factor into `ws.k`, Adam on `online`, `m` and `v`,
    /// then the target network; packs what changed.
    #[expect(clippy::too_many_arguments, reason = "the state of a learner, each part owned by another")]
    pub fn apply(
        &self,
        c: &AdamConstants,
        clip: f32,
        rule: TargetRule,
        online: &mut Network,
        target: &mut Network,
        m: &mut [f32],
        v: &mut [f32],
        ws: &mut Workspace,
    ) {
        let n = online.parameters().len();
        assert_eq!(online.shape(), target.shape(), "online and target network");
        assert!(m.len() == n && v.len() == n && ws.gradients.len() == n, "moments and gradients of {n} parameters");
        let (_, k) = rules::clip(ws.sum_squares, clip);
        ws.k = k;
        let each = n.div_ceil(self.threads()).next_multiple_of(ELEMENTS);
        self.pool.install(|| {
            let w = online.parameters_mut().par_chunks_mut(each).zip(target.parameters_mut().par_chunks_mut(each));
            let moments = m.par_chunks_mut(each).zip(v.par_chunks_mut(each));
            let all = w.zip(moments).zip(ws.gradients.par_chunks(each));
            all.for_each(|(((w, target), (m, v)), g)| {
                (self.kernels.adam)(c, k, w, m, v, g);
                match rule {
                    TargetRule::Polyak { tau } => self.polyak(tau, target, w),
                    TargetRule::Copy => target.copy_from_slice(w),
                    TargetRule::Keep => {}
                }
            });
            let mut jobs = online.pack_jobs();
            if rule != TargetRule::Keep {
                jobs.extend(target.pack_jobs());
            }
            jobs.into_par_iter().for_each(|job| job.run(self.kernels));
        });
    }
}
