//! One fold in training on a GPU: collector, replay, updates and evaluation on the device, the state fetched when a report
//! needs it.
//!
//! The host keeps a mirror of the state, which is what is loaded, saved and shown; on the device it lives in the layouts of
//! the kernels. Between two fetches the mirror is old, and only fingerprints are shown.
//! Not built yet: graphs (each kernel is launched by itself, and the host waits after each step to learn of rule 11).

use super::buffer::{Buffer, Slice};
use super::environment::{Collected, Rule};
use super::error::CudaError;
use super::evaluate::Rollout;
use super::gather::Gathered;
use super::held::{
    COLLECTOR_TENSORS, Collector, GRADIENT_TENSORS, Gpu, Held, collector_floats, float_name, gradient_floats, listed,
    weight_floats,
};
use super::kernels::Kernels;
use super::learner::{Activations, forward};
use super::sample::{Draw, Renewed};
use super::state::{Counters, Words};
use crate::bits::philox::threshold_of;
use crate::bits::rounding::power;
use crate::digest::fingerprint::Fingerprint;
use crate::engine::cpu::Q_VALUES;
use crate::engine::error::NotFinite;
use crate::engine::evaluator::{Evaluation, LIVE_ROWS, Metrics};
use crate::engine::folds::Fold;
use crate::engine::state::State;
use crate::engine::trainer::{COLLECTOR_RESULTS, OBSERVATION, result_tensors, starting};
use crate::engine::training::{Stop, Training, Wanted};
use crate::scenario::settings::{ReplayKind, Settings};
use crate::trace::observer::{OpView, TensorView};

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
