//! The vectors' engine on a GPU: the kernels that training launches, and for single rules `kernels/rules.cu`.

use std::path::Path;
use std::rc::Rc;

use super::CaseFault;
use super::engine::{
    AdamSettings, Computed, Drawn, Engine, Last, Moments, Product, Seen, Start, Table, Updated, Updates,
};
use crate::bits::philox::Key;
use crate::digest::fingerprint::Fingerprint;
use crate::engine::cpu::Q_VALUES;
use crate::engine::cpu::rules::{Huber, Operation};
use crate::engine::cuda::adam::{Constants, Schedule};
use crate::engine::cuda::bias_gradient::Columns;
use crate::engine::cuda::buffer::Buffer;
use crate::engine::cuda::device::Device;
use crate::engine::cuda::environment::{Accounts, Collected, Rule, Trail};
use crate::engine::cuda::error::CudaError;
use crate::engine::cuda::fingerprint::{Prints, Tensor};
use crate::engine::cuda::finite::Search;
use crate::engine::cuda::gemm::{self, Epilogue, Operand};
use crate::engine::cuda::kernels::Kernels;
use crate::engine::cuda::learner::Learner;
use crate::engine::cuda::market::Bars;
use crate::engine::cuda::reduce::{Reduction, Total};
use crate::engine::cuda::ring::Ring;
use crate::engine::cuda::sample::{Draw, Renewed, Tree};
use crate::engine::cuda::state::{Counters, Words};
use crate::engine::network::BRANCHES;

/// A GPU with its kernels loaded.
#[derive(Debug)]
pub struct Cuda {
    device: Rc<Device>,
    kernels: Rc<Kernels>,
    counters: Counters,
}

impl From<CudaError> for CaseFault {
    fn from(e: CudaError) -> Self {
        CaseFault::Engine { reason: e.to_string() }
    }
}

impl Cuda {
    /// On an open device; compiled kernels are kept below `kept`.
    pub fn new(device: &Rc<Device>, kept: Option<&Path>) -> Result<Self, CudaError> {
        let kernels = Rc::new(Kernels::load(device, kept)?);
        Ok(Cuda { device: device.clone(), kernels, counters: Counters::new(device, Words::start())? })
    }

    /// The device.
    pub fn device(&self) -> &Rc<Device> {
        &self.device
    }

    /// `m·n` chains of length k over dense operands, `[m, k]` or `[k, m]` times `[n, k]` or `[k, n]`.
    pub fn product(
        &self,
        size: (usize, usize, usize),
        (a, a_k_inner): (&[f32], bool),
        (b, b_k_inner): (&[f32], bool),
    ) -> Result<Vec<f32>, CudaError> {
        self.chains(size, (a, a_k_inner), (b, b_k_inner), Last::Store)
    }

    fn chains(
        &self,
        (m, n, k): (usize, usize, usize),
        (a, a_k_inner): (&[f32], bool),
        (b, b_k_inner): (&[f32], bool),
        last: Last<'_>,
    ) -> Result<Vec<f32>, CudaError> {
        let (a, b, mut c) = (self.of(a)?, self.of(b)?, self.room(m * n)?);
        let bias = match last {
            Last::Store => self.of(&[])?,
            Last::Bias(bias) | Last::BiasRelu(bias) => self.of(bias)?,
        };
        let epilogue = match last {
            Last::Store => Epilogue::Store,
            Last::Bias(_) => Epilogue::Bias(bias.all()),
            Last::BiasRelu(_) => Epilogue::BiasRelu(bias.all()),
        };
        let stride = |inner: bool, outer: usize| if inner { k } else { outer };
        let product = gemm::Product {
            size: (m, n, k),
            a: Operand { data: a.all(), stride: stride(a_k_inner, m), k_inner: a_k_inner },
            b: Operand { data: b.all(), stride: stride(b_k_inner, n), k_inner: b_k_inner },
            c: c.all_mut(),
            c_stride: n,
            epilogue,
        };
        self.kernels.gemm.run(product, self.counters.stop())?;
        c.read()
    }

    fn of<T: bytemuck::Pod>(&self, values: &[T]) -> Result<Buffer<T>, CudaError> {
        Buffer::of(&self.device, values)
    }

    fn room<T: bytemuck::Pod>(&self, n: usize) -> Result<Buffer<T>, CudaError> {
        Buffer::zeroed(&self.device, n)
    }

    /// A ring of one environment whose rows have these priorities, its tree, and an owner a row.
    fn ring(&self, q: &[u32]) -> Result<(Ring, Tree, Buffer<u32>), CudaError> {
        let mut ring = Ring::new(&self.device, q.len(), 1, 1)?;
        ring.priority.write(0, q)?;
        let mut tree = Tree::new(&self.device, q.len())?;
        self.kernels.sample.rebuild(&ring, &mut tree, q.len() as u64)?;
        Ok((ring, tree, self.room(q.len())?))
    }

    fn tree(&self, q: &[u32]) -> Result<Tree, CudaError> {
        let mut tree = Tree::new(&self.device, q.len())?;
        self.kernels.sample.fill(&mut tree, self.of(q)?.all())?;
        Ok(tree)
    }

    fn counters(&self, words: Words) -> Result<Counters, CudaError> {
        Counters::new(&self.device, words)
    }

    /// The rows that draws of `positions` batch positions pick, and the draws.
    fn draws(&self, total: u64, key: Key, step: u64, positions: usize) -> Result<Vec<u64>, CudaError> {
        let counter = |element: usize| [element as u32, 0, step as u32, (step >> 32) as u32];
        let counters: Vec<[u32; 4]> = (0..positions).map(counter).collect();
        let words = self.kernels.rules.philox(&counters, key)?;
        let words: Vec<[u32; 2]> = words.iter().map(|w| [w[0], w[1]]).collect();
        self.kernels.rules.index_below(total, &words)
    }
}

fn bytes(bools: &[bool]) -> Vec<u8> {
    bools.iter().map(|b| u8::from(*b)).collect()
}

fn constants(s: &AdamSettings) -> Constants {
    Constants { lr: s.lr, beta1: s.beta1, beta2: s.beta2, epsilon: s.epsilon, tau: None, period: None }
}

impl Engine for Cuda {
    fn elementwise(&self, operation: Operation, operands: [&[f32]; 3]) -> Computed<Vec<f32>> {
        Ok(self.kernels.rules.elementwise(operation, operands)?)
    }

    fn product(&self, p: &Product<'_>) -> Computed<Vec<f32>> {
        Ok(self.chains(p.size, (p.a, p.a_k_inner), (p.b, p.b_k_inner), p.last)?)
    }

    fn relu(&self, z: &[f32]) -> Computed<Vec<f32>> {
        Ok(self.kernels.rules.relu(z)?)
    }

    fn relu_backward(&self, y: &[f32], dy: &[f32]) -> Computed<Vec<f32>> {
        Ok(self.kernels.rules.relu_backward(y, dy)?)
    }

    fn bias_gradient(&self, dz: &[f32], batch: usize, width: usize) -> Computed<Vec<f32>> {
        let (dz, mut db) = (self.of(dz)?, self.room(width)?);
        let mut columns = [Columns { dz: dz.all(), db: db.all_mut() }];
        self.kernels.bias_gradient.run(batch, &mut columns, self.counters.stop())?;
        Ok(db.read()?)
    }

    fn reduce(&self, tensors: &[Vec<f32>], squares: bool) -> Computed<(Vec<f32>, f32)> {
        // A tensor without elements gives +0 and has no segment.
        let mut results = vec![0.0; tensors.len()];
        let (mut flat, mut ranges, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (i, tensor) in tensors.iter().enumerate().filter(|(_, t)| !t.is_empty()) {
            ranges.push(flat.len()..flat.len() + tensor.len());
            places.push(i);
            flat.extend_from_slice(tensor);
        }
        if !ranges.is_empty() {
            let (base, mut all) = (self.of(&flat)?, Reduction::new(&self.device, &ranges)?);
            self.kernels.reduce.run(&mut all, base.all(), squares, (1.0, 1.0), self.counters.stop())?;
            places.iter().zip(all.results().read()?).for_each(|(i, x)| results[*i] = x);
        }
        // The second level again over every result, empty tensors' among them.
        Ok((results.clone(), self.total(&results)?.sum))
    }

    fn dueling(&self, v: &[f32], a: &[f32]) -> Computed<Vec<f32>> {
        Ok(self.kernels.rules.dueling(v, a)?)
    }

    fn argmax(&self, q: &[f32]) -> Computed<Vec<u64>> {
        Ok(self.kernels.rules.argmax(q)?.into_iter().map(u64::from).collect())
    }

    fn n_step(&self, n: usize, gamma: f32, rewards: &[f32], dones: &[bool]) -> Computed<(Vec<f32>, Vec<bool>)> {
        // Each transition is an environment of its own, whose ring of n slots begins in its middle.
        let (rows, shift) = (rewards.len() / n, n / 2);
        let place = |row: usize, k: usize| (shift + k) % n * rows + row;
        let (mut reward, mut done) = (vec![0.0; rewards.len()], vec![0; rewards.len()]);
        for row in 0..rows {
            for k in 0..n {
                reward[place(row, k)] = rewards[row * n + k];
                done[place(row, k)] = u8::from(dones[row * n + k]);
            }
        }
        let mut ring = Ring::new(&self.device, rewards.len(), rows, n)?;
        ring.reward.write(0, &reward)?;
        ring.done.write(0, &done)?;
        let first: Vec<u32> = (0..rows).map(|row| place(row, 0) as u32).collect();
        let (first, mut r, mut cut) = (self.of(&first)?, self.room(rows)?, self.room::<u8>(rows)?);
        self.kernels.gather.returns(&ring, first.all(), gamma, (r.all_mut(), cut.all_mut()))?;
        Ok((r.read()?, cut.read()?.into_iter().map(|b| b != 0).collect()))
    }

    fn td_target(
        &self,
        r: &[f32],
        done: &[bool],
        gamma_n: f32,
        online: &[f32],
        target: &[f32],
    ) -> Computed<(Vec<u64>, Vec<f32>)> {
        let (picks, y) = self.kernels.rules.td_target(r, &bytes(done), gamma_n, online, target)?;
        Ok((picks.into_iter().map(u64::from).collect(), y))
    }

    fn huber(&self, q: &[f32], y: &[f32], w: &[f32], c: f32) -> Computed<Vec<Huber>> {
        Ok(self.kernels.rules.huber(q, y, w, c)?)
    }

    fn heads_backward(&self, g: &[f32], actions: &[[u8; 3]]) -> Computed<Vec<f32>> {
        Ok(self.kernels.rules.heads_gradient(g, actions.as_flattened())?)
    }

    fn clip(&self, sum_squares: f32, limit: f32) -> Computed<(f32, f32)> {
        let (base, mut one) = (self.of(&[sum_squares])?, Reduction::of_one(&self.device, 1)?);
        self.kernels.reduce.run(&mut one, base.all(), false, (limit, 1.0), self.counters.stop())?;
        let Total { norm, k, .. } = one.total().read()?[0];
        Ok((norm, k))
    }

    fn adam(&self, settings: &AdamSettings, t: u64, [w, m, v]: Moments, g: &[f32]) -> Computed<Moments> {
        let schedule = Schedule::new(&self.device, constants(settings), t - 1, 1)?;
        let counters = self.counters(Words { updates: t - 1, ..Words::start() })?;
        let (mut w, mut m, mut v) = (self.of(&w)?, self.of(&m)?, self.of(&v)?);
        let (mut target, g, clip) = (self.room(w.len())?, self.of(g)?, self.of(&[1.0])?);
        let state = [w.all_mut(), target.all_mut(), m.all_mut(), v.all_mut()];
        self.kernels.adam.run(&schedule, state, (g.all(), clip.all()), &counters)?;
        Ok([w.read()?, m.read()?, v.read()?])
    }

    fn polyak(&self, tau: f32, target: &[f32], w: &[f32]) -> Computed<Vec<f32>> {
        Ok(self.kernels.rules.polyak(tau, target, w)?)
    }

    fn philox(&self, counters: &[[u32; 4]], key: Key) -> Computed<Vec<[u32; 4]>> {
        Ok(self.kernels.rules.philox(counters, key)?)
    }

    fn uniform(&self, words: &[u32]) -> Computed<Vec<f32>> {
        Ok(self.kernels.rules.uniform(words)?)
    }

    fn index_below(&self, n: u64, words: &[[u32; 2]]) -> Computed<Vec<u64>> {
        Ok(self.kernels.rules.index_below(n, words)?)
    }

    fn explore_threshold(&self, decay: (u64, u64, u32), t: &[u64]) -> Computed<Vec<u64>> {
        Ok(self.kernels.rules.explore_threshold(decay, t)?)
    }

    fn explore(&self, key: Key, step: u64, threshold: u64, n: usize) -> Computed<(Vec<bool>, Vec<u8>)> {
        let (explores, actions) = self.kernels.rules.explore(key, step, threshold, n)?;
        Ok((explores.into_iter().map(|b| b != 0).collect(), actions))
    }

    fn initial_weights(&self, key: Key, scale: f32, n: usize) -> Computed<Vec<f32>> {
        let mut w = self.room(n)?;
        self.kernels.init.run(w.all_mut(), key, scale)?;
        Ok(w.read()?)
    }

    fn priority(&self, deltas: &[f32], epsilon: f32, alpha: f64) -> Computed<Vec<u32>> {
        Ok(self.kernels.rules.priority(deltas, epsilon, alpha)?)
    }

    fn find(&self, q: &[u32], r: &[u64]) -> Computed<(u64, Vec<u64>)> {
        let (tree, r, mut rows) = (self.tree(q)?, self.of(r)?, self.room::<u32>(r.len())?);
        self.kernels.sample.find(&tree, r.all(), rows.all_mut())?;
        Ok((tree.total()?, rows.read()?.into_iter().map(u64::from).collect()))
    }

    fn sample(&self, key: Key, step: u64, q: &[u32], positions: usize) -> Computed<(Vec<u64>, Vec<u64>)> {
        let (ring, tree, _) = self.ring(q)?;
        let counters = self.counters(Words { env_steps: q.len() as u64, updates: step, ..Words::start() })?;
        let (mut rows, mut weights) = (self.room::<u32>(positions)?, self.room(positions)?);
        let (mut largest, mut drawn) = (self.room(1)?, self.room(positions)?);
        let draw = Draw {
            key,
            beta: Some(0.0),
            rows: rows.all_mut(),
            weights: weights.all_mut(),
            largest: &mut largest,
            drawn: Some(drawn.all_mut()),
        };
        self.kernels.sample.draw(&ring, &tree, draw, &counters)?;
        Ok((drawn.read()?, rows.read()?.into_iter().map(u64::from).collect()))
    }

    fn renew(&self, q: &[u32], rows: &[u32], new: &[u32]) -> Computed<Vec<u32>> {
        let (mut ring, mut tree, mut owner) = self.ring(q)?;
        let (rows, new) = (self.of(rows)?, self.of(new)?);
        let (both, stop) = ((&mut ring, &mut tree), self.counters.stop());
        self.kernels.sample.renew(both, rows.all(), Renewed::Given(new.all()), &mut owner, stop)?;
        Ok(ring.priority.read()?)
    }

    fn new_row(&self, written: &[u32]) -> Computed<u32> {
        let n = written.len();
        let (mut ring, mut tree, mut owner) = self.ring(&vec![0; n + 1])?;
        let (rows, new) = (self.of(&(0..n as u32).collect::<Vec<_>>())?, self.of(written)?);
        let (both, stop) = ((&mut ring, &mut tree), self.counters.stop());
        self.kernels.sample.renew(both, rows.all(), Renewed::Given(new.all()), &mut owner, stop)?;
        // An environment step of one account writes the row after them.
        let zeros = [0.0; 3];
        let bars = Bars::new(&self.device, &[], [&zeros, &zeros, &zeros])?;
        let rule = Rule { explore: [0; 2], reset: None, epsilon: (0, 0, 1), window: 0..3, episode_bars: 9 };
        let mut accounts = Accounts::new(&self.device, 1)?;
        let (q, mut rewards) = (self.room(Q_VALUES)?, self.room(1)?);
        let (mut explores, mut actions) = (self.room(1)?, self.room(BRANCHES)?);
        let out = Collected { explores: explores.all_mut(), actions: actions.all_mut(), rewards: rewards.all_mut() };
        let counters = self.counters(Words { env_steps: n as u64, ..Words::start() })?;
        self.kernels.environment.collect((&mut accounts, &mut ring), &bars, &rule, q.all(), out, &counters)?;
        Ok(ring.priority.read()?[n])
    }

    fn importance(&self, total: u64, n: u64, q: &[u32], beta: f64) -> Computed<Vec<f32>> {
        let (q, mut w, mut largest) = (self.of(q)?, self.room(q.len())?, self.room(1)?);
        self.kernels.sample.importance((total, n), q.all(), beta, w.all_mut(), &mut largest)?;
        Ok(w.read()?)
    }

    fn play(&self, table: &Table, environments: usize, steps: usize, actions: &[[u8; 3]]) -> Computed<Vec<Seen>> {
        let bars = Bars::new(&self.device, &[], [&table.ret, &table.cost, &table.vol])?;
        let (window, episode_bars) = (table.window.clone(), table.episode_bars);
        let rule = Rule { explore: [0; 2], reset: table.reset, epsilon: (0, 0, 1), window, episode_bars };
        let mut accounts = Accounts::new(&self.device, environments)?;
        self.kernels.environment.start(&mut accounts, &bars, &rule)?;
        let (given, mut trail) = (self.of(actions.as_flattened())?, Trail::new(&self.device, actions.len())?);
        self.kernels.environment.play(&mut accounts, &bars, &rule, (given.all(), steps), &mut trail)?;
        let (time, state, reward) = (trail.time.read()?, trail.state.read()?, trail.reward.read()?);
        let (equity, peak) = (trail.equity.read()?, trail.peak.read()?);
        let (stopped, done) = (trail.stopped.read()?, trail.done.read()?);
        let seen = |i: usize| Seen {
            t: u64::from(time[i]),
            state: std::array::from_fn(|c| state[4 * i + c]),
            reward: reward[i],
            equity: equity[i],
            peak: peak[i],
            stopped: stopped[i] != 0,
            done: done[i] != 0,
        };
        Ok((0..actions.len()).map(seen).collect())
    }

    fn first_not_finite(&self, tensors: &[Vec<f32>]) -> Computed<Option<(u64, u64)>> {
        let counters = self.counters(Words::start())?;
        let held = tensors.iter().map(|t| self.of(t)).collect::<Result<Vec<_>, _>>()?;
        let slices: Vec<_> = held.iter().map(Buffer::all).collect();
        self.kernels.finite.run(&Search::new(&self.device, 0, &slices)?, &slices, &counters)?;
        Ok(counters.read()?.not_finite().map(|(tensor, element)| (tensor, element as u64)))
    }

    fn updates<'a>(&'a self, start: &Start) -> Computed<Box<dyn Updates + 'a>> {
        let [online, target, m, v] = &start.flat;
        let (batch, limit) = (start.batch, start.clip as f32);
        let learner = Learner::new(&self.kernels, &self.device, start.shape, (batch, limit), [online, target, m, v])?;
        let Start { tau, period, .. } = *start;
        let of = Constants { tau, period, ..constants(&start.adam) };
        let (ring, tree, owner) = self.ring(&start.priorities)?;
        Ok(Box::new(OnCuda {
            cuda: self,
            learner,
            schedule: Schedule::new(&self.device, of, start.t, 16)?,
            counters: self.counters(Words { updates: start.t, ..Words::start() })?,
            ring,
            tree,
            owner,
            start: start.clone(),
        }))
    }

    fn mix64(&self, z: &[u64]) -> Computed<Vec<u64>> {
        Ok(self.kernels.rules.mix64(z)?)
    }

    fn fingerprint_keys(&self, lane: u32) -> Computed<Vec<u32>> {
        Ok(self.kernels.rules.fingerprint_keys(lane)?)
    }

    fn fingerprint(&self, bytes: &[u8]) -> Computed<Fingerprint> {
        let held = self.of(bytes)?;
        let tensor = [Tensor::of(held.all())];
        let mut prints = Prints::new(&self.device, &tensor, 1)?;
        self.kernels.fingerprint.run(&mut prints, &tensor, 0)?;
        Ok(prints.read(0)?[0])
    }
}

impl Cuda {
    /// Rule 4 over results: their sum, and what follows from it.
    fn total(&self, results: &[f32]) -> Result<Total, CudaError> {
        let (base, mut all) = (self.of(results)?, Reduction::of_one(&self.device, results.len())?);
        self.kernels.reduce.run(&mut all, base.all(), false, (1.0, 1.0), self.counters.stop())?;
        Ok(all.total().read()?[0])
    }
}

struct OnCuda<'a> {
    cuda: &'a Cuda,
    learner: Learner,
    schedule: Schedule,
    counters: Counters,
    ring: Ring,
    tree: Tree,
    owner: Buffer<u32>,
    start: Start,
}

impl Updates for OnCuda<'_> {
    fn sample(&mut self) -> Computed<(Vec<u32>, Vec<f32>)> {
        let q = self.ring.priority.read()?;
        let ones: Vec<u32> = q.iter().map(|&q| u32::from(q > 0)).collect();
        let n = ones.iter().fold(0, |n, one| n + u64::from(*one));
        let updates = self.counters.read()?.updates;
        let (cuda, batch) = (self.cuda, self.start.batch);
        let uniform = cuda.tree(&ones)?;
        let tree = if self.start.prioritized.is_some() { &self.tree } else { &uniform };
        let total = tree.total()?;
        let r = cuda.of(&cuda.draws(total, self.start.key, updates, batch)?)?;
        let mut rows = cuda.room::<u32>(batch)?;
        cuda.kernels.sample.find(tree, r.all(), rows.all_mut())?;
        let rows = rows.read()?;
        let mut w = vec![1.0; batch];
        if let Some((_, beta, _)) = self.start.prioritized {
            let sampled: Vec<u32> = rows.iter().map(|&row| q[row as usize]).collect();
            w = cuda.importance(total, n, &sampled, beta)?;
        }
        Ok((rows, w))
    }

    fn update(&mut self, rows: &[u32], weights: &[f32], batch: &Drawn) -> Computed<Updated> {
        let (cuda, learner) = (self.cuda, &mut self.learner);
        let stop = cuda.counters.stop();
        learner.sampled.obs.write(0, &[&batch.obs[..], &batch.next_obs].concat())?;
        learner.sampled.actions.write(0, batch.actions.as_flattened())?;
        learner.sampled.returns.write(0, &batch.returns)?;
        learner.sampled.done.write(0, &bytes(&batch.done))?;
        learner.sampled.weights.write(0, weights)?;
        learner.gradients(self.start.gamma_n, stop)?;
        learner.apply(&self.schedule, &self.counters)?;
        if let Some((alpha, _, epsilon)) = self.start.prioritized {
            let rows = cuda.of(rows)?;
            let new = Renewed::Deltas(learner.ws.delta.all(), epsilon, alpha);
            cuda.kernels.sample.renew((&mut self.ring, &mut self.tree), rows.all(), new, &mut self.owner, stop)?;
        }
        cuda.kernels.environment.count_update(&self.counters)?;
        self.updated()
    }
}

impl OnCuda<'_> {
    fn updated(&self) -> Computed<Updated> {
        let learner = &self.learner;
        let (ws, b) = (&learner.ws, self.start.batch);
        let Total { sum, norm, k, .. } = learner.norm()?;
        Ok(Updated {
            q: ws.online.q.read_range(0..b * Q_VALUES)?,
            y: ws.y.read()?,
            deltas: ws.delta.read()?,
            loss: learner.loss_value()?,
            gradients: learner.listed(&ws.gradients)?,
            sum_squares: sum,
            norm,
            k,
            t: self.counters.read()?.updates,
            flat: [
                learner.online.parameters()?,
                learner.target.parameters()?,
                learner.listed(&learner.m)?,
                learner.listed(&learner.v)?,
            ],
            priorities: self.ring.priority.read()?,
        })
    }
}
