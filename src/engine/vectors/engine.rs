//! What an engine of tier `chain` computes for the vectors. Each method is one rule of the contract over arrays; a runner
//! reads a case, asks the engine, and compares.

use std::ops::Range;

use super::CaseFault;
use crate::bits::philox::Key;
use crate::digest::fingerprint::Fingerprint;
use crate::engine::cpu::rules::{Huber, Operation};
use crate::engine::network::NetworkShape;

/// What an engine answers; a device that fails is a fault of the case's run, not of its keys.
pub(crate) type Computed<T> = Result<T, CaseFault>;

/// What follows a finished chain.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Last<'a> {
    Store,
    Bias(&'a [f32]),
    BiasRelu(&'a [f32]),
}

/// One product `[m, n]` of chains of length k over dense operands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product<'a> {
    pub size: (usize, usize, usize),
    /// `[m, k]`, or `[k, m]` where k is not the inner dimension
    pub a: &'a [f32],
    pub a_k_inner: bool,
    /// `[n, k]`, or `[k, n]`
    pub b: &'a [f32],
    pub b_k_inner: bool,
    /// equal parts that B's k is made of
    pub b_parts: usize,
    pub last: Last<'a>,
}

/// Adam's constants as a case gives them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdamSettings {
    pub lr: f64,
    pub beta1: f64,
    pub beta2: f64,
    pub epsilon: f64,
}

/// w, m and v.
pub(crate) type Moments = [Vec<f32>; 3];

/// Bars, window and episodes of an environment case.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub ret: Vec<f32>,
    pub cost: Vec<f32>,
    pub vol: Vec<f32>,
    pub window: Range<usize>,
    pub episode_bars: u32,
    /// None: every episode begins with the window
    pub reset: Option<Key>,
}

/// What one step left, before any reset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub t: u64,
    pub state: [f32; 4],
    pub reward: f32,
    pub equity: f32,
    pub peak: f32,
    pub stopped: bool,
    pub done: bool,
}

/// What whole updates start from, and their settings.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub shape: NetworkShape,
    /// online, target, m, v in list order
    pub flat: [Vec<f32>; 4],
    pub priorities: Vec<u32>,
    pub t: u64,
    pub batch: usize,
    pub adam: AdamSettings,
    pub clip: f64,
    pub tau: Option<f64>,
    pub period: Option<u64>,
    /// α, β and ε of prioritized replay
    pub prioritized: Option<(f64, f64, f32)>,
    pub key: Key,
    pub gamma_n: f32,
}

/// The rows drawn, as a batch.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    pub obs: Vec<f32>,
    pub next_obs: Vec<f32>,
    pub actions: Vec<[u8; 3]>,
    pub returns: Vec<f32>,
    pub done: Vec<bool>,
}

/// What an update computed and left.
#[derive(Clone, Debug)]
pub(crate) struct Updated {
    pub q: Vec<f32>,
    pub y: Vec<f32>,
    pub deltas: Vec<f32>,
    pub loss: f32,
    pub gradients: Vec<f32>,
    pub sum_squares: f32,
    pub norm: f32,
    pub k: f32,
    /// updates done
    pub t: u64,
    pub flat: [Vec<f32>; 4],
    pub priorities: Vec<u32>,
}

/// Updates in a row.
pub(crate) trait Updates {
    /// Rows and importance weights of the next batch. Rows of priority 0 are those that cannot be sampled.
    fn sample(&mut self) -> Computed<(Vec<u32>, Vec<f32>)>;
    /// The update of those rows.
    fn update(&mut self, rows: &[u32], weights: &[f32], batch: &Drawn) -> Computed<Updated>;
}

/// An engine under test.
pub(crate) trait Engine {
    /// Rule 1.
    fn elementwise(&self, operation: Operation, operands: [&[f32]; 3]) -> Computed<Vec<f32>>;
    /// Rule 2.
    fn product(&self, product: &Product<'_>) -> Computed<Vec<f32>>;
    fn relu(&self, z: &[f32]) -> Computed<Vec<f32>>;
    fn relu_backward(&self, y: &[f32], dy: &[f32]) -> Computed<Vec<f32>>;
    /// Rule 3: dz `[batch, width]`.
    fn bias_gradient(&self, dz: &[f32], batch: usize, width: usize) -> Computed<Vec<f32>>;
    /// Rule 4: each tensor's sum (of squares), and that of the results.
    fn reduce(&self, tensors: &[Vec<f32>], squares: bool) -> Computed<(Vec<f32>, f32)>;
    /// Rule 5.
    fn dueling(&self, v: &[f32], a: &[f32]) -> Computed<Vec<f32>>;
    fn argmax(&self, q: &[f32]) -> Computed<Vec<u64>>;
    /// Rows of n rewards and dones: return, and whether a done cut it.
    fn n_step(&self, n: usize, gamma: f32, rewards: &[f32], dones: &[bool]) -> Computed<(Vec<f32>, Vec<bool>)>;
    /// Picks `[rows, 3]`, and Y.
    fn td_target(
        &self,
        r: &[f32],
        done: &[bool],
        gamma_n: f32,
        online: &[f32],
        target: &[f32],
    ) -> Computed<(Vec<u64>, Vec<f32>)>;
    fn huber(&self, q: &[f32], y: &[f32], w: &[f32], c: f32) -> Computed<Vec<Huber>>;
    /// `[rows, 16]`: dv, then da.
    fn heads_backward(&self, g: &[f32], actions: &[[u8; 3]]) -> Computed<Vec<f32>>;
    /// Rule 6: norm and clip factor of a sum of squares.
    fn clip(&self, sum_squares: f32, limit: f32) -> Computed<(f32, f32)>;
    /// Update number `t`, without clipping.
    fn adam(&self, settings: &AdamSettings, t: u64, state: Moments, g: &[f32]) -> Computed<Moments>;
    fn polyak(&self, tau: f32, target: &[f32], w: &[f32]) -> Computed<Vec<f32>>;
    /// Rule 7.
    fn philox(&self, counters: &[[u32; 4]], key: Key) -> Computed<Vec<[u32; 4]>>;
    fn uniform(&self, words: &[u32]) -> Computed<Vec<f32>>;
    fn index_below(&self, n: u64, words: &[[u32; 2]]) -> Computed<Vec<u64>>;
    fn explore_threshold(&self, decay: (u64, u64, u32), t: &[u64]) -> Computed<Vec<u64>>;
    /// Whether each of `n` environments explores, and its random actions.
    fn explore(&self, key: Key, step: u64, threshold: u64, n: usize) -> Computed<(Vec<bool>, Vec<u8>)>;
    fn initial_weights(&self, key: Key, scale: f32, n: usize) -> Computed<Vec<f32>>;
    /// Rule 8.
    fn priority(&self, deltas: &[f32], epsilon: f32, alpha: f64) -> Computed<Vec<u32>>;
    /// Total of the priorities, and the row of each draw.
    fn find(&self, q: &[u32], r: &[u64]) -> Computed<(u64, Vec<u64>)>;
    /// Draws and rows of `positions` batch positions.
    fn sample(&self, key: Key, step: u64, q: &[u32], positions: usize) -> Computed<(Vec<u64>, Vec<u64>)>;
    /// Priorities after rows were renewed.
    fn renew(&self, q: &[u32], rows: &[u32], new: &[u32]) -> Computed<Vec<u32>>;
    /// Priority of a row written after these were renewed.
    fn new_row(&self, written: &[u32]) -> Computed<u32>;
    fn importance(&self, total: u64, n: u64, q: &[u32], beta: f64) -> Computed<Vec<f32>>;
    /// Rule 10: actions `[environments, steps]`.
    fn play(&self, table: &Table, environments: usize, steps: usize, actions: &[[u8; 3]]) -> Computed<Vec<Seen>>;
    /// Rule 11: tensor and element of one step.
    fn first_not_finite(&self, tensors: &[Vec<f32>]) -> Computed<Option<(u64, u64)>>;
    /// Whole updates.
    fn updates<'a>(&'a self, start: &Start) -> Computed<Box<dyn Updates + 'a>>;
    /// Fingerprint.
    fn mix64(&self, z: &[u64]) -> Computed<Vec<u64>>;
    fn fingerprint_keys(&self, lane: u32) -> Computed<Vec<u32>>;
    fn fingerprint(&self, bytes: &[u8]) -> Computed<Fingerprint>;
}
