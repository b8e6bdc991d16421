//! What of a fold in training lives on a GPU, how it gets there and back, and the lists that fingerprints and rule 11 walk.

use std::path::Path;
use std::rc::Rc;

use super::adam::{Constants, Schedule};
use super::buffer::{Buffer, Slice};
use super::device::Device;
use super::environment::Accounts;
use super::error::CudaError;
use super::fingerprint::{Prints, Tensor};
use super::finite::Search;
use super::kernels::Kernels;
use super::learner::{Activations, Learner};
use super::market::Bars;
use super::ring::Ring;
use super::sample::Tree;
use super::state::{Counters, Words};
use crate::engine::cpu::Q_VALUES;
use crate::engine::market_features::Market;
use crate::engine::network::BRANCHES;
use crate::engine::state::State;
use crate::engine::trainer::{OBSERVATION, shape};
use crate::scenario::settings::Settings;

/// A GPU ready for training: kernels loaded, the market's tables on it.
#[derive(Debug)]
pub struct Gpu {
    pub(super) device: Rc<Device>,
    pub(super) kernels: Rc<Kernels>,
    pub(super) bars: Bars,
    /// cycles of a graph launch; None: no graphs
    pub(super) graph_cycles: Option<u64>,
}

impl Gpu {
    /// Opens a device; compiled kernels are kept below `kept`. `graph_cycles` cycles are one launch; None: no graphs.
    pub fn open(
        wanted: &str,
        kept: Option<&Path>,
        market: &Market,
        graph_cycles: Option<u64>,
    ) -> Result<Self, CudaError> {
        let device = Device::open(wanted)?;
        let kernels = Rc::new(Kernels::load(&device, kept)?);
        let bars = Bars::new(&device, &market.features, [&market.ret, &market.cost, &market.vol])?;
        Ok(Gpu { device, kernels, bars, graph_cycles })
    }

    /// What an identity notes of it.
    pub fn noted(&self) -> Vec<(String, String)> {
        let n = &self.device.name;
        let (major, minor) = n.capability;
        [
            ("gpu", n.model.clone()),
            ("gpu.uuid", n.uuid.clone()),
            ("gpu.capability", format!("{major}.{minor}")),
            ("gpu.multiprocessors", n.multiprocessors.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }
}

/// The collector's buffers, N rows.
#[derive(Debug)]
pub(super) struct Collector {
    pub observation: Buffer<f32>,
    pub activations: Activations,
    pub explores: Buffer<u8>,
    pub actions: Buffer<u8>,
    pub rewards: Buffer<f32>,
}

/// What of a fold lives on the device.
#[derive(Debug)]
pub(super) struct Held {
    pub learner: Learner,
    pub ring: Ring,
    pub tree: Tree,
    pub owner: Buffer<u32>,
    pub accounts: Accounts,
    pub collector: Collector,
    pub rows: Buffer<u32>,
    pub largest: Buffer<u32>,
    pub counters: Counters,
    pub schedule: Schedule,
    pub streams: Buffer<u32>,
    pub prints: Prints,
    pub searches: [Search; 3],
}

/// Places in rule 11's order: the collector's two tensors, then the batch's and the learner's.
pub(super) const COLLECTOR_TENSORS: u64 = 2;

impl Held {
    /// With room for the fingerprints of `slots` steps.
    pub fn new(gpu: &Gpu, settings: &Settings, state: &State, slots: usize) -> Result<Self, CudaError> {
        let (device, dimensions) = (&gpu.device, settings.engine.size.dimensions());
        let (t, n, b) = (&settings.training, dimensions.environments, dimensions.batch);
        let flat = [state.online.parameters(), state.target.parameters(), &state.m, &state.v];
        let learner = Learner::new(&gpu.kernels, device, shape(&dimensions), (b, t.clip as f32), flat)?;
        let constants = Constants {
            lr: t.lr,
            beta1: t.beta1,
            beta2: t.beta2,
            epsilon: t.epsilon,
            tau: t.tau,
            period: t.target_period,
        };
        let left = t.updates() - state.fold_updates.min(t.updates());
        let ring = Ring::new(device, dimensions.rows, n, t.n_step)?;
        let accounts = Accounts::new(device, n)?;
        let collector = Collector {
            observation: Buffer::zeroed(device, n * OBSERVATION)?,
            activations: Activations::new(device, learner.layout(), n)?,
            explores: Buffer::zeroed(device, n)?,
            actions: Buffer::zeroed(device, BRANCHES * n)?,
            rewards: Buffer::zeroed(device, n)?,
        };
        let (rows, counters) = (Buffer::zeroed(device, b)?, Counters::new(device, Words::start())?);
        let streams = Buffer::zeroed(device, 6)?;
        let searches = [
            Search::new(device, 0, &collector_floats(&collector))?,
            Search::new(device, COLLECTOR_TENSORS, &gradient_floats(&learner, b))?,
            Search::new(device, COLLECTOR_TENSORS + GRADIENT_TENSORS, &weight_floats(&learner))?,
        ];
        let list = listed(&learner, &ring, &accounts, &counters, &streams, &collector, &rows, b);
        let prints = Prints::new(device, &list, slots)?;
        let mut held = Held {
            tree: Tree::new(device, dimensions.rows)?,
            owner: Buffer::zeroed(device, dimensions.rows)?,
            largest: Buffer::zeroed(device, 1)?,
            schedule: Schedule::new(device, constants, state.t, left)?,
            learner,
            ring,
            accounts,
            collector,
            rows,
            counters,
            streams,
            prints,
            searches,
        };
        held.upload(gpu, state)?;
        Ok(held)
    }

    /// Everything of a state but the parameters, which the learner was made from.
    fn upload(&mut self, gpu: &Gpu, state: &State) -> Result<(), CudaError> {
        let (r, e) = (&state.replay, &state.env);
        self.ring.asset.write(0, &r.asset)?;
        self.ring.time.write(0, &r.time)?;
        self.ring.before.write(0, &r.before)?;
        self.ring.after.write(0, &r.after)?;
        self.ring.actions.write(0, &r.actions)?;
        self.ring.done.write(0, &r.done)?;
        self.ring.reward.write(0, &r.reward)?;
        self.ring.priority.write(0, &r.priority)?;
        self.ring.priority_max.write(0, &[r.priority_max])?;
        self.accounts.time.write(0, &e.time)?;
        self.accounts.position.write(0, &e.position)?;
        self.accounts.open.write(0, &e.open)?;
        self.accounts.bars.write(0, &e.bars)?;
        self.accounts.equity.write(0, &e.equity)?;
        self.accounts.peak.write(0, &e.peak)?;
        self.accounts.episode_bars.write(0, &e.episode_bars)?;
        let s = &state.streams;
        self.streams.write(0, &[s.explore, s.reset, s.sample].concat())?;
        let (updates, fold_updates, env_steps) = (state.t, state.fold_updates, state.env_steps);
        self.counters.write(Words { env_steps, updates, fold_updates, ..Words::start() })?;
        gpu.kernels.sample.rebuild(&self.ring, &mut self.tree, state.env_steps)
    }

    /// The device's state into a state on the host.
    pub fn download(&self, state: &mut State) -> Result<(), CudaError> {
        let words = self.counters.read()?;
        (state.t, state.fold_updates, state.env_steps) = (words.updates, words.fold_updates, words.env_steps);
        state.online.set_parameters(&self.learner.online.parameters()?);
        state.target.set_parameters(&self.learner.target.parameters()?);
        state.m = self.learner.listed(&self.learner.m)?;
        state.v = self.learner.listed(&self.learner.v)?;
        let (r, e) = (&mut state.replay, &mut state.env);
        r.asset = self.ring.asset.read()?;
        r.time = self.ring.time.read()?;
        r.before = self.ring.before.read()?;
        r.after = self.ring.after.read()?;
        r.actions = self.ring.actions.read()?;
        r.done = self.ring.done.read()?;
        r.reward = self.ring.reward.read()?;
        r.priority = self.ring.priority.read()?;
        r.priority_max = self.ring.priority_max.read()?[0];
        e.time = self.accounts.time.read()?;
        e.position = self.accounts.position.read()?;
        e.open = self.accounts.open.read()?;
        e.bars = self.accounts.bars.read()?;
        e.equity = self.accounts.equity.read()?;
        e.peak = self.accounts.peak.read()?;
        e.episode_bars = self.accounts.episode_bars.read()?;
        Ok(())
    }
}

pub(super) fn collector_floats(c: &Collector) -> [Slice<'_, f32>; 2] {
    [c.observation.all(), c.activations.q.all()]
}

/// Batch, Q-values, loss, gradients, norm.
pub(super) fn gradient_floats(learner: &Learner, b: usize) -> Vec<Slice<'_, f32>> {
    let (ws, d) = (&learner.ws, OBSERVATION);
    let mut list = vec![
        learner.sampled.obs.slice(0..b * d),
        ws.online.q.slice(0..b * Q_VALUES),
        ws.online.q.slice(b * Q_VALUES..2 * b * Q_VALUES),
        ws.target.q.all(),
        ws.loss.scaled(),
    ];
    list.extend(learner.tensors(&ws.gradients));
    list.push(ws.norm.norm());
    list
}

/// How many tensors [`gradient_floats`] lists.
pub(super) const GRADIENT_TENSORS: u64 = 5 + 22 + 1;

pub(super) fn weight_floats(learner: &Learner) -> Vec<Slice<'_, f32>> {
    [&learner.online.flat, &learner.m, &learner.v].into_iter().flat_map(|flat| learner.tensors(flat)).collect()
}

/// Name of a tensor of rule 11's order.
pub(super) fn float_name(order: u64, names: &[String]) -> String {
    let fixed = [
        "collector.observation",
        "collector.q",
        "batch.observation",
        "online.q",
        "online.q_next",
        "target.q_next",
        "loss",
    ];
    let (order, parameters) = (order as usize, names.len());
    if order < fixed.len() {
        return fixed[order].to_owned();
    }
    let after = order - fixed.len();
    match (after.checked_sub(parameters), after.checked_sub(parameters + 1)) {
        (None, _) => format!("gradient.{}", names[after]),
        (Some(0), _) => "norm".to_owned(),
        (_, Some(i)) => format!("{}{}", ["q.", "adam.m.q.", "adam.v.q."][i / parameters], names[i % parameters]),
        (Some(_), None) => unreachable!("one more than it subtracts from"),
    }
}

/// State and results in list order.
#[expect(clippy::too_many_arguments, reason = "the parts of what is held, before and while it is")]
pub(super) fn listed<'a>(
    learner: &'a Learner,
    ring: &'a Ring,
    accounts: &'a Accounts,
    counters: &'a Counters,
    streams: &'a Buffer<u32>,
    collector: &'a Collector,
    rows: &'a Buffer<u32>,
    b: usize,
) -> Vec<Tensor<'a>> {
    let flats = [&learner.online.flat, &learner.target.flat, &learner.m, &learner.v];
    let mut list: Vec<Tensor<'a>> = flats.into_iter().flat_map(|f| learner.tensors(f)).map(Tensor::of).collect();
    let [env_steps, updates, fold_updates] = counters.tensors();
    list.extend([Tensor::of(updates), Tensor::of(fold_updates)]);
    list.extend([Tensor::of(ring.asset.all()), Tensor::of(ring.time.all())]);
    list.extend([Tensor::of(ring.before.all()), Tensor::of(ring.after.all())]);
    list.extend([Tensor::of(ring.actions.all()), Tensor::of(ring.done.all())]);
    list.extend([Tensor::of(ring.reward.all()), Tensor::of(ring.priority.all())]);
    list.push(Tensor::of(ring.priority_max.all()));
    list.extend([Tensor::of(accounts.time.all()), Tensor::of(accounts.position.all())]);
    list.extend([Tensor::of(accounts.open.all()), Tensor::of(accounts.bars.all())]);
    list.extend([Tensor::of(accounts.equity.all()), Tensor::of(accounts.peak.all())]);
    list.extend([Tensor::of(accounts.episode_bars.all()), Tensor::of(env_steps)]);
    list.extend((0..3).map(|i| Tensor::of(streams.slice(2 * i..2 * i + 2))));
    list.extend([Tensor::of(collector.observation.all()), Tensor::of(collector.activations.q.all())]);
    list.extend([Tensor::of(collector.actions.all()), Tensor::of(collector.rewards.all())]);
    let ws = &learner.ws;
    list.extend([Tensor::of(rows.all()), Tensor::of(learner.sampled.weights.all())]);
    list.push(Tensor::of(ws.online.q.slice(0..b * Q_VALUES)));
    list.push(Tensor::of(ws.online.q.slice(b * Q_VALUES..2 * b * Q_VALUES)));
    list.extend([Tensor::of(ws.target.q.all()), Tensor::of(ws.delta.all())]);
    list.extend([Tensor::of(ws.loss.scaled()), Tensor::of(ws.norm.norm())]);
    list
}
