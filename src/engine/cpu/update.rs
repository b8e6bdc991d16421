//! One update in four parallel phases: runs of batch rows through all forwards, loss and backward; rows of the weight
//! gradients; blocks of the sums of squares; and rows of the parameters through clip, Adam, target network and packing.

use std::sync::PoisonError;

use super::gemm::PANEL;
use super::network::{Network, Parts};
use super::rules::{self, REDUCE_BLOCK};
use super::workspace::{TENSORS, Workspace};
use super::{Cpu, faults, passes, sum, threads, weights};
use crate::bits::rounding::AdamConstants;

/// Rows of s′ that pass through a task's scratch at a time.
const SCRATCH_ROWS: usize = 192;
/// Blocks of rule 4 that one task reduces.
const TASK_BLOCKS: usize = 16;
/// Shares of the weight gradients for each thread, so that threads finish together.
const SHARES: usize = 2;

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

impl TargetRule {
    /// Of update `t`, 1 at the first: Polyak when there is a τ, else a copy after each multiple of the period.
    pub fn of(tau: Option<f64>, period: Option<u64>, t: u64) -> Self {
        match (tau, period) {
            (Some(tau), _) => TargetRule::Polyak { tau: tau as f32 },
            (None, Some(period)) if t.is_multiple_of(period) => TargetRule::Copy,
            _ => TargetRule::Keep,
        }
    }
}

/// Rows of one weight, or one bias, on their way through Adam.
struct Job<'a> {
    w: &'a mut [f32],
    target: &'a mut [f32],
    m: &'a mut [f32],
    v: &'a mut [f32],
    g: &'a [f32],
    /// the packed copies of these rows in both networks
    panels: Option<[&'a mut [f32]; 2]>,
}

/// The learner's flat buffers from some element on.
struct Rest<'a> {
    mutable: [&'a mut [f32]; 4],
    g: &'a [f32],
}

impl<'a> Rest<'a> {
    /// Takes the first `n` elements off.
    fn take(&mut self, n: usize, panels: Option<[&'a mut [f32]; 2]>) -> Job<'a> {
        let (g, rest) = self.g.split_at(n);
        self.g = rest;
        let [w, target, m, v] = self.mutable.each_mut().map(|buffer| {
            let (head, tail) = std::mem::take(buffer).split_at_mut(n);
            *buffer = tail;
            head
        });
        Job { w, target, m, v, g, panels }
    }
}

/// All parameters as jobs, in list order: a panel's rows of a weight each, then the layer's bias.
fn jobs<'a>(online: Parts<'a>, target: Parts<'a>, [m, v]: [&'a mut [f32]; 2], g: &'a [f32]) -> Vec<Job<'a>> {
    let mut rest = Rest { mutable: [online.parameters, target.parameters, m, v], g };
    let mut jobs = Vec::new();
    for ((layer, online), target) in online.layers.iter().zip(online.panels).zip(target.panels) {
        let mut left = layer.weight.len();
        for (online, target) in online.panels_mut().zip(target.panels_mut()) {
            let n = left.min(PANEL * layer.inputs);
            jobs.push(rest.take(n, Some([online, target])));
            left -= n;
        }
        jobs.push(rest.take(layer.bias.len(), None));
    }
    jobs
}

impl Cpu {
    /// Gradients of one batch into `ws`, with everything on the way, the loss and the norm. Networks are only read.
    pub fn gradients(&self, online: &Network, target: &Network, batch: &Batch, ws: &mut Workspace) {
        let (shape, rows) = (online.shape(), batch.rows());
        assert_eq!(shape, target.shape(), "online and target network");
        batch.check(shape.d);
        ws.prepare(online, rows, self.threads(), SCRATCH_ROWS.min(rows));
        self.session(|| {
            let (layers, of_rows, scratches) = ws.views(shape);
            let runs = threads::runs(rows, self.threads());
            self.share(layers.split(runs).into_iter().zip(of_rows.split(runs)), |((first, layers), (_, of_rows))| {
                let lock = || scratches.lock().unwrap_or_else(PoisonError::into_inner);
                let mut scratch = lock().pop().expect("one for each thread");
                passes::rows(self.kernels, [online, target], batch, first, (layers, of_rows), &mut scratch);
                lock().push(scratch);
            });
            let shares = weights::shares(online, &mut ws.gradients, SHARES * self.threads());
            let (y, dz) = (&ws.online, &ws.dz);
            self.share(shares, |share| share.run(self.kernels, shape.h, batch.obs, y, dz));
            let loss = sum::reduce(self.kernels, &ws.loss_terms, false, &mut ws.partial);
            ws.loss = loss * rules::loss_scale(rows);
            self.norm(online, ws);
        });
    }

    /// Sums of squares by rule 4, or as a planted fault has them, and the norm.
    fn norm(&self, net: &Network, ws: &mut Workspace) {
        let tensors = || net.layers().iter().flat_map(|l| [&l.weight, &l.bias]).map(|t| &ws.gradients[t.clone()]);
        let (mut tasks, mut rest) = (Vec::new(), &mut ws.partial[..]);
        for task in tensors().flat_map(|g| g.chunks(TASK_BLOCKS * REDUCE_BLOCK)) {
            let (results, tail) = rest.split_at_mut(task.len().div_ceil(REDUCE_BLOCK));
            tasks.push((task, results));
            rest = tail;
        }
        self.share(tasks, |(g, results)| (self.kernels.reduce_blocks)(g, true, results));
        let mut rest = &mut ws.partial[..];
        for (squares, g) in ws.tensor_squares.iter_mut().zip(tensors()) {
            let (results, tail) = rest.split_at_mut(g.len().div_ceil(REDUCE_BLOCK));
            rest = tail;
            *squares = if self.faults.unordered_sum {
                faults::unordered_squares(&self.pool, g)
            } else if self.faults.thread_chunked_sum {
                faults::chunked_squares(self.kernels, self.threads(), g)
            } else {
                sum::finish(self.kernels, results)
            };
        }
        ws.sum_squares = sum::reduce(self.kernels, &ws.tensor_squares, false, &mut [0.0; TENSORS]);
        ws.norm = ws.sum_squares.sqrt();
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
        self.session(|| {
            self.share(jobs(online.parts(), target.parts(), [m, v], &ws.gradients), |job| {
                (self.kernels.adam)(c, k, job.w, job.m, job.v, job.g);
                match rule {
                    TargetRule::Polyak { tau } => self.polyak(tau, job.target, job.w),
                    TargetRule::Copy => job.target.copy_from_slice(job.w),
                    TargetRule::Keep => {}
                }
                if let Some([online, target]) = job.panels {
                    (self.kernels.pack_transposed)(job.w, online);
                    (self.kernels.pack_transposed)(job.target, target);
                }
            });
        });
    }
}
