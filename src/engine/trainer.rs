//! One fold in training: collector and learner, cycle by cycle.

use super::cpu::{Activations, Batch, Cpu, Network, TargetRule, Workspace};
use super::environment::{self, Environments, STATE_COLUMNS};
use super::error::NotFinite;
use super::evaluator::{Evaluation, evaluate, greedy, observe};
use super::folds::Fold;
use super::market_features::{MARKET_COLUMNS, Market};
use super::network::{ACTIONS, BRANCHES, NetworkShape};
use super::ops::Ledger;
use super::replay::{Replay, Transition, priority};
use super::state::{State, Streams, initial_parameters};
use super::training::{Stop, Training, Wanted};
use crate::bits::philox::{self, Key};
use crate::bits::rounding::{AdamConstants, power};
use crate::scenario::mutant::{Fault, Flip};
use crate::scenario::settings::{Dimensions, ReplayKind, Settings};
use crate::trace::observer::{OpView, TensorView};
use crate::trace::record::Dtype;

/// Market columns and position state.
pub const OBSERVATION: usize = MARKET_COLUMNS + STATE_COLUMNS;
/// Width of the bottleneck.
pub const BOTTLENECK: usize = 32;

/// Buffers of a cycle; what of them belongs to a step is reported with it.
#[derive(Debug, Default)]
struct Scratch {
    observation: Vec<f32>,
    activations: Activations,
    explores: Vec<u8>,
    actions: Vec<u8>,
    rewards: Vec<f32>,
    transitions: Vec<Transition>,
    rows: Vec<u32>,
    weights: Vec<f32>,
    obs: Vec<f32>,
    next_obs: Vec<f32>,
    batch_actions: Vec<[u8; 3]>,
    returns: Vec<f32>,
    done: Vec<bool>,
    ws: Workspace,
    collected: bool,
}

/// What all folds of a run stand on.
#[derive(Clone)]
pub struct Ground<'a> {
    /// what decides the bits
    pub settings: &'a Settings,
    /// the table traded on
    pub market: &'a Market,
    /// arithmetic
    pub cpu: &'a Cpu,
    /// planted fault
    pub fault: Option<Fault>,
    /// the replay keeps its fingerprints up to date
    pub keep: bool,
}

/// A fold in training.
pub struct Trainer<'a> {
    settings: &'a Settings,
    market: &'a Market,
    cpu: &'a Cpu,
    /// bars of the fold
    pub fold: Fold,
    /// everything that is saved
    pub state: State,
    /// operations since the last report, when they are wanted
    pub ledger: Ledger,
    fault: Option<Fault>,
    scratch: Scratch,
    /// planted: draws of the exploration generator made by evaluations
    planted_draws: u32,
    /// planted: draws that the sampler made too much
    planted_redraws: u64,
}

/// The network's shape for a size.
pub fn shape(dimensions: &Dimensions) -> NetworkShape {
    NetworkShape { d: OBSERVATION, bottleneck: BOTTLENECK, h: dimensions.h }
}

impl<'a> Trainer<'a> {
    /// A fold at its start. `carried` holds what continues under `folds.start = carry`.
    pub fn start(ground: Ground<'a>, fold: Fold, carried: Option<State>, mut ledger: Ledger) -> Self {
        let Ground { settings, market, cpu, fault, keep } = ground;
        let state = starting(settings, &fold, fault.as_ref(), keep, carried);
        ledger.start(&state);
        let scratch = Scratch::default();
        Trainer { settings, market, cpu, fold, state, ledger, fault, scratch, planted_draws: 0, planted_redraws: 0 }
    }

    /// One environment step of all environments: ε-greedy actions, transitions into the ring.
    fn step_environments(&mut self) -> Result<(), NotFinite> {
        self.observe_all();
        let rows = self.state.env.len();
        let Scratch { observation, activations, .. } = &mut self.scratch;
        self.cpu.forward(&self.state.online, observation, rows, activations);
        self.finite("collector.observation", &self.scratch.observation)?;
        self.finite("collector.q", &self.scratch.activations.q)?;
        self.ledger.forward("collector", &self.state.online, &self.scratch.observation, &self.scratch.activations);
        self.choose();
        self.step_all();
        self.scratch.collected = true;
        Ok(())
    }

    fn observe_all(&mut self) {
        let (env, n) = (&self.state.env, self.state.env.len());
        self.scratch.observation.resize(n * OBSERVATION, 0.0);
        for (e, row) in self.scratch.observation.chunks_exact_mut(OBSERVATION).enumerate() {
            observe(self.market, env.time[e] as usize, env.account(e).state(), row);
        }
        self.ledger.observe(&self.state, &self.scratch.observation);
    }

    fn choose(&mut self) {
        let t = &self.settings.training;
        let (start, end) = (philox::threshold_of(t.epsilon_start), philox::threshold_of(t.epsilon_end));
        let steps = u32::try_from(t.epsilon_steps).unwrap_or(u32::MAX);
        let threshold = philox::explore_threshold(start, end, self.state.env_steps, steps);
        let n = self.state.env.len();
        let Scratch { activations, explores, actions, .. } = &mut self.scratch;
        explores.clear();
        actions.clear();
        let mut drawn = Vec::new();
        for e in 0..n {
            let words = philox::block(self.state.streams.explore, e as u32, self.planted_draws, self.state.env_steps);
            let explore = u64::from(words[0]) < threshold;
            let q = &activations.q[e * BRANCHES * ACTIONS..(e + 1) * BRANCHES * ACTIONS];
            explores.push(u8::from(explore));
            actions.extend(if explore { philox::random_actions(words) } else { greedy(q) });
            drawn.extend(words);
        }
        let Scratch { activations, explores, actions, .. } = &self.scratch;
        self.ledger.explore(&self.state, threshold, &drawn, explores);
        self.ledger.act(&activations.q, explores, actions);
    }

    fn step_all(&mut self) {
        let (state, market) = (&mut self.state, self.market);
        let before: Vec<[f32; 4]> = (0..state.env.len()).map(|e| state.env.account(e).state()).collect();
        self.ledger.env_inputs(state, bytemuck::cast_slice(&before), &self.scratch.actions);
        self.scratch.transitions.clear();
        self.scratch.rewards.clear();
        let mut restarts = Vec::new();
        for (e, before) in before.iter().enumerate() {
            let t = state.env.time[e] as usize;
            let actions: [u8; 3] = std::array::from_fn(|b| self.scratch.actions[3 * e + b]);
            let bar = [market.cost[t], market.vol[t], market.ret[t + 1]];
            let limit = self.settings.training.episode_bars;
            let (stepped, done) = state.env.step(e, actions, bar, self.fold.train.end, limit);
            let after = state.env.account(e).state();
            let before = if self.fault == Some(Fault::AliasedReplay) { after } else { *before };
            let (time, reward) = (t as u32, stepped.reward);
            self.scratch.transitions.push(Transition { asset: 0, time, before, after, actions, done, reward });
            self.scratch.rewards.push(reward);
            if done {
                restarts.push(e);
            }
        }
        for &e in &restarts {
            let t = environment::reset_time(state.streams.reset, e as u32, state.env_steps + 1, &self.fold.train);
            state.env.restart(e, t);
        }
        state.replay.write(state.env_steps, &self.scratch.transitions);
        state.env_steps += 1;
        self.ledger.env_outputs(state, &self.scratch.transitions, &restarts);
    }

    /// One update: sample, gradients, Adam, target, priorities. Stops before Adam when something is not finite.
    fn learn(&mut self) -> Result<(), NotFinite> {
        self.sample();
        self.gather();
        let t = &self.settings.training;
        let Scratch { obs, next_obs, batch_actions, returns, done, weights, ws, .. } = &mut self.scratch;
        let gamma_n = power(t.gamma, t.n_step as u64) as f32;
        let batch = Batch { obs, next_obs, actions: batch_actions, returns, done, weights, gamma_n };
        self.cpu.gradients(&self.state.online, &self.state.target, &batch, ws);
        let mut order: Vec<usize> = (0..self.scratch.ws.tensor_squares.len()).collect();
        if self.fault == Some(Fault::HashOrder) {
            self.reduce_in_hash_order(&mut order);
        }
        self.ledger.gradients(&self.state, &batch_views(&self.scratch), &self.scratch.ws, &order);
        self.check_gradients()?;
        self.apply();
        self.write_priorities();
        self.state.t += 1;
        self.state.fold_updates += 1;
        self.flip_bit();
        self.check_weights()
    }

    fn sample(&mut self) {
        let dimensions = self.settings.engine.size.dimensions();
        let t = &self.settings.training;
        let beta = (t.replay == ReplayKind::Prioritized).then_some(t.beta);
        let s = &mut self.scratch;
        s.rows.resize(dimensions.batch, 0);
        let ahead = u64::from(self.fault == Some(Fault::SamplePastHead));
        if ahead == 1 {
            self.state.replay.plant_unwritten(self.state.env_steps);
        }
        let updates = self.state.t + self.planted_redraws;
        let (key, steps) = (self.state.streams.sample, self.state.env_steps + ahead);
        self.state.replay.sample(key, updates, steps, beta, &mut s.rows, &mut s.weights);
        self.ledger.sample(&self.state, &s.rows, &s.weights);
    }

    fn gather(&mut self) {
        let (s, replay) = (&mut self.scratch, &self.state.replay);
        let gamma = self.settings.training.gamma as f32;
        s.obs.resize(s.rows.len() * OBSERVATION, 0.0);
        s.next_obs.resize(s.rows.len() * OBSERVATION, 0.0);
        s.batch_actions.clear();
        s.returns.clear();
        s.done.clear();
        for (i, &row) in s.rows.iter().enumerate() {
            let row = row as usize;
            let (r, done, last) = replay.n_step_return(row, gamma);
            let of = |flat: &[f32], row: usize| -> [f32; 4] { std::array::from_fn(|c| flat[4 * row + c]) };
            let range = i * OBSERVATION..(i + 1) * OBSERVATION;
            observe(self.market, replay.time[row] as usize, of(&replay.before, row), &mut s.obs[range.clone()]);
            let next = replay.time[last] as usize + 1;
            observe(self.market, next, of(&replay.after, last), &mut s.next_obs[range]);
            s.batch_actions.push(std::array::from_fn(|b| replay.actions[3 * row + b]));
            s.returns.push(r);
            s.done.push(done);
        }
        self.ledger.gather(&self.state, &batch_views(&self.scratch));
    }

    fn apply(&mut self) {
        let t = &self.settings.training;
        let number = self.state.t + 1;
        let (p1, p2) = (power(t.beta1, number), power(t.beta2, number));
        let constants = AdamConstants::new(t.lr, t.beta1, t.beta2, t.epsilon, p1, p2);
        let rule = TargetRule::of(t.tau, t.target_period, number);
        self.ledger.before_apply(&self.state);
        let State { online, target, m, v, .. } = &mut self.state;
        self.cpu.apply(&constants, t.clip as f32, rule, online, target, m, v, &mut self.scratch.ws);
        self.ledger.after_apply(&self.state, &self.scratch.ws, &constants, t.tau.unwrap_or(0.0) as f32);
    }

    fn write_priorities(&mut self) {
        let t = &self.settings.training;
        if t.replay != ReplayKind::Prioritized {
            return;
        }
        let (s, epsilon) = (&self.scratch, t.epsilon_priority as f32);
        let deltas = s.ws.delta.chunks_exact(BRANCHES);
        let new: Vec<u32> = deltas.map(|d| priority([d[0], d[1], d[2]], epsilon, t.alpha)).collect();
        self.state.replay.write_priorities(&s.rows, &new);
        self.ledger.priorities(&self.state, &s.rows, &s.ws.delta);
    }

    fn finite(&self, tensor: &str, xs: &[f32]) -> Result<(), NotFinite> {
        match self.cpu.first_not_finite(xs) {
            None => Ok(()),
            Some(element) => Err(NotFinite {
                fold: self.fold.index,
                step: self.state.fold_updates,
                tensor: tensor.to_owned(),
                element,
                bits: xs[element].to_bits(),
            }),
        }
    }

    fn check_gradients(&self) -> Result<(), NotFinite> {
        let (s, ws) = (&self.scratch, &self.scratch.ws);
        self.finite("batch.observation", &s.obs)?;
        self.finite("online.q", &ws.online.q)?;
        self.finite("online.q_next", &ws.q_next_online)?;
        self.finite("target.q_next", &ws.q_next_target)?;
        self.finite("loss", &[ws.loss])?;
        for (name, _, range) in self.state.online.shape().tensors() {
            self.finite(&format!("gradient.{name}"), &ws.gradients[range])?;
        }
        self.finite("norm", &[ws.norm])
    }

    fn check_weights(&mut self) -> Result<(), NotFinite> {
        let step = self.state.fold_updates - 1;
        let of = |e: NotFinite| NotFinite { step, ..e };
        let s = &self.state;
        for (prefix, flat) in [("q.", s.online.parameters()), ("adam.m.q.", &s.m), ("adam.v.q.", &s.v)] {
            if self.cpu.first_not_finite(flat).is_some() {
                for (name, _, range) in s.online.shape().tensors() {
                    self.finite(&format!("{prefix}{name}"), &flat[range]).map_err(of)?;
                }
            }
        }
        Ok(())
    }

    fn reduce_in_hash_order(&mut self, order: &mut Vec<usize>) {
        #[expect(clippy::disallowed_types, reason = "the planted fault is the order of this very table")]
        let table: std::collections::HashMap<usize, f32> =
            self.scratch.ws.tensor_squares.iter().copied().enumerate().collect();
        let squares: Vec<f32>;
        (*order, squares) = table.into_iter().unzip();
        let ws = &mut self.scratch.ws;
        ws.sum_squares = self.cpu.reduce(&squares);
        ws.norm = ws.sum_squares.sqrt();
    }

    fn flip_bit(&mut self) {
        let Some(Fault::FlipBit(Flip { tensor, element, bit, fold, step })) = self.fault.clone() else { return };
        if fold != self.fold.index || step + 1 != self.state.fold_updates {
            return;
        }
        let found = self.state.tensors().into_iter().find(|t| t.name == tensor).map(|t| (t.dtype, t.bytes.to_vec()));
        let Some((dtype, mut bytes)) = found else { return };
        let at = element * dtype.size() + bit as usize / 8;
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << (bit % 8);
            self.state.load(&tensor, &bytes);
        }
    }
}

impl Training for Trainer<'_> {
    fn fold(&self) -> &Fold {
        &self.fold
    }

    fn fold_updates(&self) -> u64 {
        self.state.fold_updates
    }

    fn warm_up(&mut self) -> Result<(), Stop> {
        (0..self.settings.training.learning_starts).try_for_each(|_| self.collect())
    }

    fn collect(&mut self) -> Result<(), Stop> {
        self.step_environments().map_err(Stop::NotFinite)
    }

    fn update(&mut self) -> Result<(), Stop> {
        self.learn().map_err(Stop::NotFinite)
    }

    fn fetch(&mut self, _: Wanted) -> Result<(), Stop> {
        Ok(())
    }

    fn tensors(&self) -> Vec<TensorView<'_>> {
        self.state.tensors()
    }

    fn results(&self) -> Vec<TensorView<'_>> {
        let s = &self.scratch;
        let data: [&[u8]; 12] = [
            bytemuck::cast_slice(&s.observation),
            bytemuck::cast_slice(&s.activations.q),
            &s.actions,
            bytemuck::cast_slice(&s.rewards),
            bytemuck::cast_slice(&s.rows),
            bytemuck::cast_slice(&s.weights),
            bytemuck::cast_slice(&s.ws.online.q),
            bytemuck::cast_slice(&s.ws.q_next_online),
            bytemuck::cast_slice(&s.ws.q_next_target),
            bytemuck::cast_slice(&s.ws.delta),
            bytemuck::bytes_of(&s.ws.loss),
            bytemuck::bytes_of(&s.ws.norm),
        ];
        let views = result_tensors(&self.settings.engine.size.dimensions()).into_iter().zip(data);
        let views =
            views.map(|((name, dtype, shape), bytes)| TensorView { name, dtype, shape, bytes, kept: None, fp: None });
        views.skip(if s.collected { 0 } else { COLLECTOR_RESULTS }).collect()
    }

    fn loss_and_norm(&self) -> (f32, f32) {
        (self.scratch.ws.loss, self.scratch.ws.norm)
    }

    fn ops(&self) -> Vec<OpView> {
        self.ledger.ops().to_vec()
    }

    fn reported(&mut self) {
        self.scratch.collected = false;
        self.ledger.clear();
    }

    fn evaluate(&mut self, rows: usize) -> Result<Evaluation, Stop> {
        let (net, window, bars) = (&self.state.online, &self.fold.validation, self.settings.market.bars_per_year);
        let mut result = evaluate(self.cpu, net, self.market, window, rows, bars);
        if self.fault == Some(Fault::RowNeighbours) {
            result.q_table[0] += rows as f32 * f32::EPSILON;
        }
        Ok(result)
    }

    fn evaluated(&mut self) {
        if self.fault == Some(Fault::EvaluationDraws) {
            self.planted_draws += 1;
        }
    }

    fn state(&self) -> &State {
        &self.state
    }

    fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    fn resumed(&mut self, evaluations: u64) -> Result<(), Stop> {
        if self.fault == Some(Fault::EvaluationDraws) {
            self.planted_draws = evaluations as u32;
        }
        self.state.rebuild();
        self.ledger.clear();
        self.planted_redraws = u64::from(self.fault == Some(Fault::SamplerRedraws));
        Ok(())
    }

    fn into_state(self: Box<Self>) -> Result<State, Stop> {
        Ok(self.state)
    }
}

/// How many of [`result_tensors`] are the collector's.
pub const COLLECTOR_RESULTS: usize = 4;

/// Name, element type and shape of a step's results, in list order.
pub fn result_tensors(dimensions: &Dimensions) -> Vec<(String, Dtype, Vec<usize>)> {
    let (n, b) = (dimensions.environments, dimensions.batch);
    let list: [(&str, Dtype, Vec<usize>); 12] = [
        ("collector.observation", Dtype::F32, vec![n, OBSERVATION]),
        ("collector.q", Dtype::F32, vec![n, BRANCHES, ACTIONS]),
        ("collector.actions", Dtype::U8, vec![n, BRANCHES]),
        ("collector.reward", Dtype::F32, vec![n]),
        ("sample.rows", Dtype::U32, vec![b]),
        ("sample.weights", Dtype::F32, vec![b]),
        ("online.q", Dtype::F32, vec![b, BRANCHES, ACTIONS]),
        ("online.q_next", Dtype::F32, vec![b, BRANCHES, ACTIONS]),
        ("target.q_next", Dtype::F32, vec![b, BRANCHES, ACTIONS]),
        ("td.delta", Dtype::F32, vec![b, BRANCHES]),
        ("loss", Dtype::F32, vec![1]),
        ("norm", Dtype::F32, vec![1]),
    ];
    list.into_iter().map(|(name, dtype, shape)| (name.to_owned(), dtype, shape)).collect()
}

/// Views of the gathered batch, in list order.
fn batch_views(s: &Scratch) -> [(&'static str, &[u8]); 6] {
    [
        ("batch.observation", bytemuck::cast_slice(&s.obs)),
        ("batch.next_observation", bytemuck::cast_slice(&s.next_obs)),
        ("batch.actions", bytemuck::cast_slice(&s.batch_actions)),
        ("batch.returns", bytemuck::cast_slice(&s.returns)),
        ("batch.done", bytemuck::cast_slice(&s.done)),
        ("sample.weights", bytemuck::cast_slice(&s.weights)),
    ]
}

fn streams(seed: u64, fold: u32, fault: Option<&Fault>) -> Streams {
    let streams = Streams::new(seed, fold);
    match fault {
        Some(Fault::SeedIgnored) => Streams { reset: Streams::new(0, fold).reset, ..streams },
        Some(Fault::TimeSeeded) => Streams { explore: clock_key(), ..streams },
        _ => streams,
    }
}

/// Planted: a key from the clock.
fn clock_key() -> Key {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    philox::stream_key(now.as_nanos() as u64, 0, "clock")
}

/// State of a fold at its start. `carried` holds what continues under `folds.start = carry`; `keep` keeps the replay's
/// fingerprints up to date.
pub fn starting(settings: &Settings, fold: &Fold, fault: Option<&Fault>, keep: bool, carried: Option<State>) -> State {
    let dimensions = settings.engine.size.dimensions();
    let streams = streams(settings.engine.seed, fold.index, fault);
    let env = Environments::reset_all(dimensions.environments, streams.reset, &fold.train);
    let replay = Replay::new(dimensions.rows, dimensions.environments, settings.training.n_step, keep);
    match carried {
        Some(old) => State { fold_updates: 0, replay, env, env_steps: 0, streams, ..old },
        None => fresh(settings, fold, streams, replay, env),
    }
}

fn fresh(settings: &Settings, fold: &Fold, streams: Streams, replay: Replay, env: Environments) -> State {
    let shape = shape(&settings.engine.size.dimensions());
    let parameters = initial_parameters(&shape, settings.engine.seed, fold.index);
    State {
        m: vec![0.0; parameters.len()],
        v: vec![0.0; parameters.len()],
        target: Network::new(shape, &parameters),
        online: Network::new(shape, &parameters),
        t: 0,
        fold_updates: 0,
        replay,
        env,
        env_steps: 0,
        streams,
    }
}
