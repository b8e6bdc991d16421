//! One fold in training on a GPU: collector, replay, updates and evaluation on the device, the state fetched when a report
//! needs it.
//!
//! The host keeps a mirror of the state, which is what is loaded, saved and shown; on the device it lives in the layouts of
//! the kernels. Between two fetches the mirror is old, and only fingerprints are shown.
//! Not built yet: graphs (each kernel is launched by itself, and the host waits after each step to learn of rule 11).

use std::path::Path;
use std::rc::Rc;

use super::adam::{Constants, Schedule};
use super::buffer::{Buffer, Slice};
use super::device::Device;
use super::environment::{Accounts, Collected, Rule};
use super::error::CudaError;
use super::evaluate::Rollout;
use super::fingerprint::{Prints, Tensor};
use super::finite::Search;
use super::gather::Gathered;
use super::kernels::Kernels;
use super::learner::{Activations, Learner, forward};
use super::market::Bars;
use super::ring::Ring;
use super::sample::{Draw, Renewed, Tree};
use super::state::{Counters, Words};
use crate::bits::philox::threshold_of;
use crate::bits::rounding::power;
use crate::digest::fingerprint::Fingerprint;
use crate::engine::cpu::Q_VALUES;
use crate::engine::error::NotFinite;
use crate::engine::evaluator::{Evaluation, LIVE_ROWS, Metrics};
use crate::engine::folds::Fold;
use crate::engine::market_features::Market;
use crate::engine::network::BRANCHES;
use crate::engine::state::State;
use crate::engine::trainer::{COLLECTOR_RESULTS, OBSERVATION, result_tensors, shape, starting};
use crate::engine::training::{Stop, Training, Wanted};
use crate::scenario::settings::{ReplayKind, Settings};
use crate::trace::observer::{OpView, TensorView};

/// A GPU ready for training: kernels loaded, the market's tables on it.
#[derive(Debug)]
pub struct Gpu {
    device: Rc<Device>,
    kernels: Rc<Kernels>,
    bars: Bars,
}

impl Gpu {
    /// Opens a device; compiled kernels are kept below `kept`.
    pub fn open(wanted: &str, kept: Option<&Path>, market: &Market) -> Result<Self, CudaError> {
        let device = Device::open(wanted)?;
        let kernels = Rc::new(Kernels::load(&device, kept)?);
        let bars = Bars::new(&device, &market.features, [&market.ret, &market.cost, &market.vol])?;
        Ok(Gpu { device, kernels, bars })
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
struct Collector {
    observation: Buffer<f32>,
    activations: Activations,
    explores: Buffer<u8>,
    actions: Buffer<u8>,
    rewards: Buffer<f32>,
}

/// What of a fold lives on the device.
#[derive(Debug)]
struct Held {
    learner: Learner,
    ring: Ring,
    tree: Tree,
    owner: Buffer<u32>,
    accounts: Accounts,
    collector: Collector,
    rows: Buffer<u32>,
    largest: Buffer<u32>,
    counters: Counters,
    schedule: Schedule,
    streams: Buffer<u32>,
    prints: Prints,
    searches: [Search; 3],
}

/// Results of a step on the host, in list order.
#[derive(Debug, Default)]
struct Results {
    bytes: Vec<Vec<u8>>,
}

/// A fold in training on a GPU.
#[derive(Debug)]
pub struct CudaTrainer<'a> {
    gpu: &'a Gpu,
    settings: &'a Settings,
    fold: Fold,
    rule: Rule,
    mirror: State,
    held: Held,
    /// fingerprints of state and results, as of the last fetch
    prints: Vec<Fingerprint>,
    results: Results,
    /// what the mirror shows is what the device holds
    current: bool,
    collected: bool,
    loss_and_norm: (f32, f32),
}

/// Places in rule 11's order: the collector's two tensors, then the batch's and the learner's.
const COLLECTOR_TENSORS: u64 = 2;

impl Held {
    fn new(gpu: &Gpu, settings: &Settings, state: &State) -> Result<Self, CudaError> {
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
        let prints =
            Prints::new(device, &listed(&learner, &ring, &accounts, &counters, &streams, &collector, &rows, b))?;
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
    fn download(&self, state: &mut State) -> Result<(), CudaError> {
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

fn collector_floats(c: &Collector) -> [Slice<'_, f32>; 2] {
    [c.observation.all(), c.activations.q.all()]
}

/// Batch, Q-values, loss, gradients, norm.
fn gradient_floats(learner: &Learner, b: usize) -> Vec<Slice<'_, f32>> {
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
const GRADIENT_TENSORS: u64 = 5 + 22 + 1;

fn weight_floats(learner: &Learner) -> Vec<Slice<'_, f32>> {
    [&learner.online.flat, &learner.m, &learner.v].into_iter().flat_map(|flat| learner.tensors(flat)).collect()
}

/// Name of a tensor of rule 11's order.
fn float_name(order: u64, names: &[String]) -> String {
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
fn listed<'a>(
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

impl<'a> CudaTrainer<'a> {
    /// A fold at its start. `carried` holds what continues under `folds.start = carry`; `keep` shows the replay's
    /// fingerprints as kept.
    pub fn start(
        gpu: &'a Gpu,
        settings: &'a Settings,
        fold: Fold,
        carried: Option<State>,
        keep: bool,
    ) -> Result<Self, CudaError> {
        let mirror = starting(settings, &fold, None, keep, carried);
        let held = Held::new(gpu, settings, &mirror)?;
        let rule = rule(settings, &fold, &mirror);
        let mut trainer = CudaTrainer {
            gpu,
            settings,
            fold,
            rule,
            mirror,
            held,
            prints: Vec::new(),
            results: Results::default(),
            current: false,
            collected: false,
            loss_and_norm: (0.0, 0.0),
        };
        trainer.fetch_bytes()?;
        Ok(trainer)
    }

    fn kernels(&self) -> &'a Kernels {
        &self.gpu.kernels
    }

    fn step_environments(&mut self) -> Result<(), CudaError> {
        let (k, bars) = (self.kernels(), &self.gpu.bars);
        let Held { learner, ring, tree, accounts, collector, counters, searches, .. } = &mut self.held;
        k.environment.observe(accounts, bars, collector.observation.all_mut(), counters.stop())?;
        let (x, n) = (collector.observation.all(), accounts.len());
        forward(k, &learner.online, x, n, &mut collector.activations, counters.stop())?;
        k.finite.run(&searches[0], &collector_floats(collector), counters)?;
        let Collector { activations, explores, actions, rewards, .. } = collector;
        let out = Collected { explores: explores.all_mut(), actions: actions.all_mut(), rewards: rewards.all_mut() };
        k.environment.collect((accounts, ring), bars, &self.rule, activations.q.all(), out, counters)?;
        k.environment.count_env_step(counters)?;
        k.sample.open(ring, tree, counters)?;
        (self.current, self.collected) = (false, true);
        Ok(())
    }

    fn sample(&mut self) -> Result<(), CudaError> {
        let (k, t) = (self.kernels(), &self.settings.training);
        let Held { learner, ring, tree, rows, largest, counters, .. } = &mut self.held;
        let draw = Draw {
            key: self.mirror.streams.sample,
            beta: (t.replay == ReplayKind::Prioritized).then_some(t.beta),
            rows: rows.all_mut(),
            weights: learner.sampled.weights.all_mut(),
            largest,
            drawn: None,
        };
        k.sample.draw(ring, tree, draw, counters)?;
        let (b, s) = (rows.len(), &mut learner.sampled);
        let mut both = s.obs.parts_mut(&[0..b * OBSERVATION, b * OBSERVATION..2 * b * OBSERVATION]).into_iter();
        let (Some(obs), Some(next_obs)) = (both.next(), both.next()) else { return Ok(()) };
        let (actions, returns, done) = (s.actions.all_mut(), s.returns.all_mut(), s.done.all_mut());
        let out = Gathered { obs, next_obs, actions, returns, done };
        k.gather.run(ring, self.gpu.bars.columns(), rows.all(), t.gamma as f32, out, counters.stop())
    }

    fn learn(&mut self) -> Result<(), CudaError> {
        self.sample()?;
        let (k, t, b) = (self.kernels(), &self.settings.training, self.held.rows.len());
        let Held { learner, ring, tree, owner, rows, counters, schedule, searches, .. } = &mut self.held;
        learner.gradients(power(t.gamma, t.n_step as u64) as f32, counters.stop())?;
        k.finite.run(&searches[1], &gradient_floats(learner, b), counters)?;
        learner.apply(schedule, counters)?;
        if t.replay == ReplayKind::Prioritized {
            let new = Renewed::Deltas(learner.ws.delta.all(), t.epsilon_priority as f32, t.alpha);
            k.sample.renew((ring, tree), rows.all(), new, owner, counters.stop())?;
        }
        k.environment.count_update(counters)?;
        k.finite.run(&searches[2], &weight_floats(learner), counters)?;
        self.current = false;
        Ok(())
    }

    /// What rule 11 found, if it did.
    fn check(&mut self) -> Result<(), Stop> {
        let words = self.held.counters.read()?;
        self.mirror.fold_updates = words.fold_updates;
        let Some((order, element)) = words.not_finite() else { return Ok(()) };
        let names: Vec<String> = self.mirror.online.shape().tensors().into_iter().map(|(name, ..)| name).collect();
        let learner = &self.held.learner;
        let mut floats: Vec<Slice<'_, f32>> = collector_floats(&self.held.collector).to_vec();
        floats.extend(gradient_floats(learner, self.held.rows.len()));
        floats.extend(weight_floats(learner));
        let in_weights = order >= COLLECTOR_TENSORS + GRADIENT_TENSORS;
        Err(Stop::NotFinite(NotFinite {
            fold: self.fold.index,
            step: words.fold_updates - u64::from(in_weights),
            tensor: float_name(order, &names),
            element,
            bits: floats[order as usize].read_one(&self.gpu.device, element)?.to_bits(),
        }))
    }

    fn take_prints(&mut self) -> Result<(), CudaError> {
        let b = self.held.rows.len();
        let Held { learner, ring, accounts, counters, streams, collector, rows, prints, .. } = &mut self.held;
        let list = listed(learner, ring, accounts, counters, streams, collector, rows, b);
        self.gpu.kernels.fingerprint.run(prints, &list)?;
        self.prints = prints.read()?;
        self.loss_and_norm = (learner.loss_value()?, learner.norm()?.norm);
        Ok(())
    }

    fn fetch_bytes(&mut self) -> Result<(), CudaError> {
        self.take_prints()?;
        self.held.download(&mut self.mirror)?;
        let (c, l, b) = (&self.held.collector, &self.held.learner, self.held.rows.len());
        let q = b * Q_VALUES;
        self.results.bytes = vec![
            bytes(&c.observation.read()?),
            bytes(&c.activations.q.read()?),
            c.actions.read()?,
            bytes(&c.rewards.read()?),
            bytes(&self.held.rows.read()?),
            bytes(&l.sampled.weights.read()?),
            bytes(&l.ws.online.q.read_range(0..q)?),
            bytes(&l.ws.online.q.read_range(q..2 * q)?),
            bytes(&l.ws.target.q.read()?),
            bytes(&l.ws.delta.read()?),
            bytes(&[self.loss_and_norm.0]),
            bytes(&[self.loss_and_norm.1]),
        ];
        self.current = true;
        Ok(())
    }

    /// A view as the last fetch left it: whole, or its fingerprint only.
    fn shown<'b>(&self, view: TensorView<'b>, print: Fingerprint) -> TensorView<'b> {
        let kept = view.kept.map(|_| print);
        match self.current {
            true => TensorView { kept, ..view },
            false => TensorView { kept, fp: Some(print), bytes: &[], ..view },
        }
    }

    fn evaluation(&mut self, rows: usize) -> Result<Evaluation, CudaError> {
        let (k, bars, window) = (self.kernels(), &self.gpu.bars, self.fold.validation.clone());
        let count = window.len() - 1;
        let (device, layout) = (&self.gpu.device, self.held.learner.layout());
        let net = &self.held.learner.online;
        // A counter of its own: an evaluation is not stopped by what training found, nor stops it.
        let counters = Counters::new(device, Words::start())?;
        let mut batch = Buffer::zeroed(device, rows.min(count) * OBSERVATION)?;
        let mut out = Activations::new(device, layout, rows.min(count))?;
        let mut q_table = Vec::with_capacity(count * Q_VALUES);
        for first in (0..count).step_by(rows) {
            let here = rows.min(count - first);
            k.evaluate.observe_bars(bars, (window.start + first, here), batch.all_mut())?;
            forward(k, net, batch.all(), here, &mut out, counters.stop())?;
            q_table.extend(out.q.read_range(0..here * Q_VALUES)?);
        }
        let live = rows.min(LIVE_ROWS);
        let (mut rollout, mut out) =
            (Rollout::new(device, window.start, count, live)?, Activations::new(device, layout, live)?);
        k.evaluate.start(&mut rollout, bars)?;
        for _ in 0..count {
            k.evaluate.observe(&mut rollout, bars)?;
            forward(k, net, rollout.row.all(), live, &mut out, counters.stop())?;
            k.evaluate.step(&mut rollout, bars, out.q.all())?;
        }
        let (rewards, turnover) = (rollout.rewards.read()?, rollout.turnover.read()?);
        let metrics = Metrics::new(&rewards, &turnover, self.settings.market.bars_per_year);
        let (q_live, positions) = (rollout.q_live.read()?, rollout.positions.read()?);
        Ok(Evaluation { q_table, q_live, rewards, positions, turnover, metrics })
    }
}

fn bytes<T: bytemuck::NoUninit>(values: &[T]) -> Vec<u8> {
    bytemuck::cast_slice(values).to_vec()
}

fn rule(settings: &Settings, fold: &Fold, state: &State) -> Rule {
    let t = &settings.training;
    let decay = u64::from(u32::try_from(t.epsilon_steps).unwrap_or(u32::MAX));
    Rule {
        explore: state.streams.explore,
        reset: Some(state.streams.reset),
        epsilon: (threshold_of(t.epsilon_start), threshold_of(t.epsilon_end), decay),
        window: fold.train.clone(),
        episode_bars: t.episode_bars,
    }
}

impl Training for CudaTrainer<'_> {
    fn fold(&self) -> &Fold {
        &self.fold
    }

    fn fold_updates(&self) -> u64 {
        self.mirror.fold_updates
    }

    fn warm_up(&mut self) -> Result<(), Stop> {
        (0..self.settings.training.learning_starts).try_for_each(|_| self.collect())
    }

    fn collect(&mut self) -> Result<(), Stop> {
        self.step_environments()?;
        self.check()
    }

    fn update(&mut self) -> Result<(), Stop> {
        self.learn()?;
        self.check()
    }

    fn fetch(&mut self, wanted: Wanted) -> Result<(), Stop> {
        match wanted {
            _ if self.current => Ok(()),
            Wanted::Fingerprints => Ok(self.take_prints()?),
            Wanted::Bytes => Ok(self.fetch_bytes()?),
        }
    }

    fn tensors(&self) -> Vec<TensorView<'_>> {
        let views = self.mirror.tensors().into_iter();
        views.zip(&self.prints).map(|(view, print)| self.shown(view, *print)).collect()
    }

    fn results(&self) -> Vec<TensorView<'_>> {
        let state = self.prints.len() - self.results.bytes.len();
        let named = result_tensors(&self.settings.engine.size.dimensions()).into_iter();
        let views =
            named.zip(&self.results.bytes).zip(&self.prints[state..]).map(|(((name, dtype, shape), bytes), print)| {
                self.shown(TensorView { name, dtype, shape, bytes, kept: None, fp: None }, *print)
            });
        views.skip(if self.collected { 0 } else { COLLECTOR_RESULTS }).collect()
    }

    fn loss_and_norm(&self) -> (f32, f32) {
        self.loss_and_norm
    }

    fn ops(&self) -> Vec<OpView> {
        Vec::new()
    }

    fn reported(&mut self) {
        self.collected = false;
    }

    fn evaluate(&mut self, rows: usize) -> Result<Evaluation, Stop> {
        Ok(self.evaluation(rows)?)
    }

    fn evaluated(&mut self) {}

    fn state(&self) -> &State {
        &self.mirror
    }

    fn state_mut(&mut self) -> &mut State {
        &mut self.mirror
    }

    fn resumed(&mut self, _: u64) -> Result<(), Stop> {
        self.mirror.rebuild();
        self.rule = rule(self.settings, &self.fold, &self.mirror);
        self.held = Held::new(self.gpu, self.settings, &self.mirror)?;
        Ok(self.fetch_bytes()?)
    }

    fn into_state(self: Box<Self>) -> Result<State, Stop> {
        Ok(self.mirror)
    }
}
