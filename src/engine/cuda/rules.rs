//! Launches `kernels/rules.cu`: the contract's scalar rules over arrays, read back at once. For the vectors.

use std::rc::Rc;

use super::buffer::Buffer;
use super::compile::{Compiler, source};
use super::device::Device;
use super::error::CudaError;
use super::launch::{Function, Module};
use super::sample::halves;
use crate::bits::philox::Key;
use crate::engine::cpu::Q_VALUES;
use crate::engine::cpu::rules::{Huber, Operation};
use crate::engine::network::{ACTIONS, BRANCHES, HEAD_OUTPUTS};

type TdTarget = (u64, u64, f32, u64, u64, u64, u64, u64);
type HuberRows = (u64, u64, u64, f32, u64, u64, u64, u64, u64);

/// The kernels of this file.
#[derive(Debug)]
pub struct Kernels {
    device: Rc<Device>,
    elementwise: Function<(u32, u64, u64, u64, u64, u64)>,
    relu: Function<(u64, u64, u64)>,
    relu_backward: Function<(u64, u64, u64, u64)>,
    dueling: Function<(u64, u64, u64, u64)>,
    argmax: Function<(u64, u64, u64)>,
    td_target: Function<TdTarget>,
    huber: Function<HuberRows>,
    heads_gradient: Function<(u64, u64, u64, u64)>,
    philox: Function<(u64, u64, u64, u64)>,
    uniform: Function<(u64, u64, u64)>,
    index_below: Function<(u64, u64, u64, u64)>,
    explore_threshold: Function<(u64, u64, u64, u64, u64, u64)>,
    explore: Function<(u64, u64, u64, u64, u64, u64)>,
    mix64: Function<(u64, u64, u64)>,
    fingerprint_keys: Function<(u32, u64)>,
    priority: Function<(u64, f32, u32, u64, u64)>,
    target_network: Function<(f32, u64, u64, u64)>,
}

type Done<T> = Result<T, CudaError>;

impl Kernels {
    pub(super) fn load(device: &Rc<Device>, compiler: &Compiler) -> Done<Self> {
        let module = Module::load(device, compiler, &source!("rules"))?;
        Ok(Kernels {
            device: device.clone(),
            elementwise: Function::of(&module, "elementwise")?,
            relu: Function::of(&module, "relu_rows")?,
            relu_backward: Function::of(&module, "relu_backward_rows")?,
            dueling: Function::of(&module, "dueling_rows")?,
            argmax: Function::of(&module, "argmax_rows")?,
            td_target: Function::of(&module, "td_target_rows")?,
            huber: Function::of(&module, "huber_rows")?,
            heads_gradient: Function::of(&module, "heads_gradient_rows")?,
            philox: Function::of(&module, "philox_rows")?,
            uniform: Function::of(&module, "uniform_rows")?,
            index_below: Function::of(&module, "index_below_rows")?,
            explore_threshold: Function::of(&module, "explore_threshold_rows")?,
            explore: Function::of(&module, "explore_rows")?,
            mix64: Function::of(&module, "mix64_rows")?,
            fingerprint_keys: Function::of(&module, "fingerprint_keys")?,
            priority: Function::of(&module, "priority_rows")?,
            target_network: Function::of(&module, "target_network_rows")?,
        })
    }

    fn of<T: bytemuck::Pod>(&self, values: &[T]) -> Done<Buffer<T>> {
        Buffer::of(&self.device, values)
    }

    fn room<T: bytemuck::Pod>(&self, n: usize) -> Done<Buffer<T>> {
        Buffer::zeroed(&self.device, n)
    }

    /// One operation of rule 1, element by element.
    pub fn elementwise(&self, operation: Operation, [a, b, c]: [&[f32]; 3]) -> Done<Vec<f32>> {
        let code = match operation {
            Operation::Add => 0,
            Operation::Sub => 1,
            Operation::Mul => 2,
            Operation::Div => 3,
            Operation::Sqrt => 4,
            Operation::Fma => 5,
        };
        assert!(b.len() == a.len() && c.len() == a.len(), "{} elements each", a.len());
        let (n, out) = (a.len() as u64, self.room(a.len())?);
        let [a, b, c] = [self.of(a)?, self.of(b)?, self.of(c)?];
        // SAFETY: four buffers of n elements each.
        unsafe { self.elementwise.over(n, (code, a.address(), b.address(), c.address(), out.address(), n))? };
        out.read()
    }

    /// Rule 2's ReLU.
    pub fn relu(&self, z: &[f32]) -> Done<Vec<f32>> {
        let (n, z, y) = (z.len() as u64, self.of(z)?, self.room(z.len())?);
        // SAFETY: two buffers of n elements each.
        unsafe { self.relu.over(n, (z.address(), y.address(), n))? };
        y.read()
    }

    /// Its gradient.
    pub fn relu_backward(&self, y: &[f32], dy: &[f32]) -> Done<Vec<f32>> {
        assert_eq!(y.len(), dy.len());
        let (n, dz) = (y.len() as u64, self.room(y.len())?);
        let (y, dy) = (self.of(y)?, self.of(dy)?);
        // SAFETY: three buffers of n elements each.
        unsafe { self.relu_backward.over(n, (y.address(), dy.address(), dz.address(), n))? };
        dz.read()
    }

    /// Q-values `[n, 5]` of values `[n]` and advantages `[n, 5]`.
    pub fn dueling(&self, v: &[f32], a: &[f32]) -> Done<Vec<f32>> {
        assert_eq!(a.len(), v.len() * ACTIONS);
        let (n, q) = (v.len() as u64, self.room(a.len())?);
        let (v, a) = (self.of(v)?, self.of(a)?);
        // SAFETY: buffers of n rows each.
        unsafe { self.dueling.over(n, (v.address(), a.address(), q.address(), n))? };
        q.read()
    }

    /// Index of the first largest of each five.
    pub fn argmax(&self, q: &[f32]) -> Done<Vec<u32>> {
        let rows = q.len() / ACTIONS;
        let (n, q, index) = (rows as u64, self.of(q)?, self.room(rows)?);
        // SAFETY: buffers of n rows each.
        unsafe { self.argmax.over(n, (q.address(), index.address(), n))? };
        index.read()
    }

    /// The online network's picks `[n, 3]`, and Y.
    pub fn td_target(
        &self,
        r: &[f32],
        done: &[u8],
        gamma_n: f32,
        online: &[f32],
        target: &[f32],
    ) -> Done<(Vec<u32>, Vec<f32>)> {
        let rows = r.len();
        assert!(done.len() == rows && online.len() == rows * Q_VALUES && target.len() == rows * Q_VALUES);
        let (n, picks, y) = (rows as u64, self.room(BRANCHES * rows)?, self.room(rows)?);
        let (r, done, online, target) = (self.of(r)?, self.of(done)?, self.of(online)?, self.of(target)?);
        let (online, target) = (online.address(), target.address());
        let args = (r.address(), done.address(), gamma_n, online, target, picks.address(), y.address(), n);
        // SAFETY: buffers of n rows each.
        unsafe { self.td_target.over(n, args)? };
        Ok((picks.read()?, y.read()?))
    }

    /// Rule 5's loss of each element.
    pub fn huber(&self, q: &[f32], y: &[f32], w: &[f32], c: f32) -> Done<Vec<Huber>> {
        let rows = q.len();
        assert!(y.len() == rows && w.len() == rows);
        let out = [self.room(rows)?, self.room(rows)?, self.room(rows)?, self.room(rows)?];
        let (n, q, y, w) = (rows as u64, self.of(q)?, self.of(y)?, self.of(w)?);
        let [d, e, l, g] = out.each_ref().map(Buffer::address);
        // SAFETY: buffers of n elements each.
        unsafe { self.huber.over(n, (q.address(), y.address(), w.address(), c, d, e, l, g, n))? };
        let [d, e, l, g]: [Vec<f32>; 4] = [out[0].read()?, out[1].read()?, out[2].read()?, out[3].read()?];
        Ok((0..rows).map(|i| Huber { delta: d[i], e: e[i], loss: l[i], g: g[i] }).collect())
    }

    /// dv and da, `[n, 16]`.
    pub fn heads_gradient(&self, g: &[f32], actions: &[u8]) -> Done<Vec<f32>> {
        let rows = g.len() / BRANCHES;
        assert!(actions.len() == g.len() && actions.iter().all(|a| usize::from(*a) < ACTIONS));
        let (n, g, actions, out) = (rows as u64, self.of(g)?, self.of(actions)?, self.room(rows * HEAD_OUTPUTS)?);
        // SAFETY: buffers of n rows each.
        unsafe { self.heads_gradient.over(n, (g.address(), actions.address(), out.address(), n))? };
        out.read()
    }

    /// Philox blocks of counters under one key.
    pub fn philox(&self, counters: &[[u32; 4]], key: Key) -> Done<Vec<[u32; 4]>> {
        let (n, out) = (counters.len() as u64, self.room(counters.len())?);
        let (counters, key) = (self.of(counters)?, self.of(&key)?);
        // SAFETY: buffers of n blocks each, a key of two words.
        unsafe { self.philox.over(n, (counters.address(), key.address(), out.address(), n))? };
        out.read()
    }

    /// Uniform numbers of words.
    pub fn uniform(&self, words: &[u32]) -> Done<Vec<f32>> {
        let (n, out, words) = (words.len() as u64, self.room(words.len())?, self.of(words)?);
        // SAFETY: two buffers of n elements each.
        unsafe { self.uniform.over(n, (words.address(), out.address(), n))? };
        out.read()
    }

    /// Indices below `below` of pairs of words.
    pub fn index_below(&self, below: u64, words: &[[u32; 2]]) -> Done<Vec<u64>> {
        let (n, out, words) = (words.len() as u64, self.room(words.len())?, self.of(words)?);
        // SAFETY: buffers of n rows each.
        unsafe { self.index_below.over(n, (below, words.address(), out.address(), n))? };
        out.read()
    }

    /// Exploration thresholds after `t` environment steps each.
    pub fn explore_threshold(&self, (start, end, steps): (u64, u64, u32), t: &[u64]) -> Done<Vec<u64>> {
        let (n, out, t) = (t.len() as u64, self.room(t.len())?, self.of(t)?);
        // SAFETY: two buffers of n elements each; the caller's `steps` is not 0.
        unsafe { self.explore_threshold.over(n, (start, end, u64::from(steps), t.address(), out.address(), n))? };
        out.read()
    }

    /// Whether each of `n` environments explores at `step`, and its random actions `[n, 3]`.
    pub fn explore(&self, key: Key, step: u64, threshold: u64, n: usize) -> Done<(Vec<u8>, Vec<u8>)> {
        let (explores, actions) = (self.room(n)?, self.room(BRANCHES * n)?);
        let (key, rows) = (self.of(&key)?, n as u64);
        let args = (key.address(), step, threshold, explores.address(), actions.address(), rows);
        // SAFETY: buffers of n rows each, a key of two words.
        unsafe { self.explore.over(rows, args)? };
        Ok((explores.read()?, actions.read()?))
    }

    /// splitmix64's finaliser.
    pub fn mix64(&self, z: &[u64]) -> Done<Vec<u64>> {
        let (n, out, z) = (z.len() as u64, self.room(z.len())?, self.of(z)?);
        // SAFETY: two buffers of n elements each.
        unsafe { self.mix64.over(n, (z.address(), out.address(), n))? };
        out.read()
    }

    /// The 256 word constants of a lane of `fp/1`.
    pub fn fingerprint_keys(&self, lane: u32) -> Done<Vec<u32>> {
        let out = self.room(256)?;
        // SAFETY: a buffer of 256 words.
        unsafe { self.fingerprint_keys.over(256, (lane, out.address()))? };
        out.read()
    }

    /// Integer priorities of TD errors `[n, 3]`.
    pub fn priority(&self, deltas: &[f32], epsilon: f32, alpha: f64) -> Done<Vec<u32>> {
        let rows = deltas.len() / BRANCHES;
        let (n, out, deltas) = (rows as u64, self.room(rows)?, self.of(deltas)?);
        // SAFETY: buffers of n rows each.
        unsafe { self.priority.over(n, (deltas.address(), epsilon, halves(alpha), out.address(), n))? };
        out.read()
    }

    /// Polyak's rule.
    pub fn polyak(&self, tau: f32, target: &[f32], w: &[f32]) -> Done<Vec<f32>> {
        assert_eq!(target.len(), w.len());
        let (n, target, w) = (w.len() as u64, self.of(target)?, self.of(w)?);
        // SAFETY: two buffers of n elements each.
        unsafe { self.target_network.over(n, (tau, target.address(), w.address(), n))? };
        target.read()
    }
}
