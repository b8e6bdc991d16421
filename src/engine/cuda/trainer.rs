//! One fold in training on a GPU: collector, replay, updates and evaluation on the device, the state fetched when a report
//! needs it.
//!
//! The host keeps a mirror of the state, which is what is loaded, saved and shown; on the device it lives in the layouts of
//! the kernels. Between two fetches the mirror is old, and only fingerprints are shown.
//! With graphs, K whole cycles are one launch; their steps are then reported from its log, while the device is K cycles
//! ahead, so bytes are fetched between launches only. Without, each kernel is launched by itself, and the host waits after
//! each step to learn of rule 11.

use std::collections::VecDeque;

use super::buffer::{Buffer, Slice};
use super::environment::Rule;
use super::error::CudaError;
use super::evaluate::Rollout;
use super::held::{
    COLLECTOR_TENSORS, GRADIENT_TENSORS, Gpu, Held, collector_floats, float_name, gradient_floats, weight_floats,
};
use super::launches::{Launches, Logged};
use super::learner::{Activations, forward};
use super::state::{Counters, Words};
use super::steps::Ground;
use crate::bits::philox::threshold_of;
use crate::digest::fingerprint::Fingerprint;
use crate::engine::cpu::Q_VALUES;
use crate::engine::error::NotFinite;
use crate::engine::evaluator::{Evaluation, LIVE_ROWS, Metrics};
use crate::engine::folds::Fold;
use crate::engine::state::State;
use crate::engine::trainer::{COLLECTOR_RESULTS, OBSERVATION, result_tensors, starting};
use crate::engine::training::{Stop, Training, Wanted};
use crate::scenario::request::common_divisor;
use crate::scenario::settings::Settings;
use crate::trace::observer::{OpView, TensorView};

/// What of each step is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reports {
    /// nothing
    None,
    /// a fingerprint of each tensor
    Fingerprints,
    /// every byte
    Bytes,
}

/// Results of a step on the host, in list order.
#[derive(Debug, Default)]
struct Results {
    bytes: Vec<Vec<u8>>,
}

/// A fold in training on a GPU.
#[derive(Debug)]
pub struct CudaTrainer<'a> {
    ground: Ground<'a>,
    fold: Fold,
    mirror: State,
    /// before `held`, whose addresses its graph has: dropped first
    launches: Option<Launches>,
    held: Held,
    /// cycles of a graph launch; None: each kernel is launched by itself
    graph_cycles: Option<u64>,
    with_prints: bool,
    /// steps of the last launch that were not reported yet
    logged: VecDeque<Logged>,
    /// where the last launch stopped
    halt: Option<NotFinite>,
    /// fingerprints of state and results, as of the last fetch
    prints: Vec<Fingerprint>,
    results: Results,
    /// what the mirror shows is what the device holds
    current: bool,
    collected: bool,
    loss_and_norm: (f32, f32),
}

impl<'a> CudaTrainer<'a> {
    /// A fold at its start. `carried` holds what continues under `folds.start = carry`.
    pub fn start(
        gpu: &'a Gpu,
        settings: &'a Settings,
        fold: Fold,
        carried: Option<State>,
        reports: Reports,
    ) -> Result<Self, CudaError> {
        let mirror = starting(settings, &fold, None, reports != Reports::None, carried);
        // Reports of bytes at each step need a state that stands still there.
        let graph_cycles = gpu.graph_cycles.filter(|_| reports != Reports::Bytes);
        let held = Held::new(gpu, settings, &mirror, slots(settings, graph_cycles))?;
        let ground = ground(gpu, settings, &fold, &mirror);
        let mut trainer = CudaTrainer {
            ground,
            fold,
            mirror,
            launches: None,
            held,
            graph_cycles,
            with_prints: reports == Reports::Fingerprints,
            logged: VecDeque::new(),
            halt: None,
            prints: Vec::new(),
            results: Results::default(),
            current: false,
            collected: false,
            loss_and_norm: (0.0, 0.0),
        };
        trainer.fetch_bytes()?;
        Ok(trainer)
    }

    /// The cycles of the next launch, and how it went.
    fn launch(&mut self, cycles: u64) -> Result<(), Stop> {
        let launches = match &mut self.launches {
            Some(launches) => launches,
            none => none.insert(Launches::capture(&self.ground, &mut self.held, cycles, self.with_prints)?),
        };
        self.logged = launches.run(&self.ground, &self.held)?.into();
        self.current = false;
        if self.logged.iter().any(|l| l.entry.stop != 0) {
            self.halt = self.not_finite()?;
        }
        Ok(())
    }

    /// The next step of the launch under way.
    fn next_logged(&mut self) -> Result<(), Stop> {
        let Logged { entry, prints } = self.logged.pop_front().expect("collecting began a launch");
        if let Some(halt) = self.halt.take_if(|h| h.step == self.mirror.fold_updates) {
            self.logged.clear();
            return Err(Stop::NotFinite(halt));
        }
        self.loss_and_norm = (entry.loss, entry.norm);
        self.prints = prints;
        self.mirror.fold_updates += 1;
        Ok(())
    }

    /// What rule 11 found, if it did.
    fn check(&mut self) -> Result<(), Stop> {
        self.mirror.fold_updates = self.held.counters.read()?.fold_updates;
        self.not_finite()?.map_or(Ok(()), |found| Err(Stop::NotFinite(found)))
    }

    fn not_finite(&self) -> Result<Option<NotFinite>, CudaError> {
        let words = self.held.counters.read()?;
        let Some((order, element)) = words.not_finite() else { return Ok(None) };
        let names: Vec<String> = self.mirror.online.shape().tensors().into_iter().map(|(name, ..)| name).collect();
        let learner = &self.held.learner;
        let mut floats: Vec<Slice<'_, f32>> = collector_floats(&self.held.collector).to_vec();
        floats.extend(gradient_floats(learner, self.held.rows.len()));
        floats.extend(weight_floats(learner));
        let in_weights = order >= COLLECTOR_TENSORS + GRADIENT_TENSORS;
        Ok(Some(NotFinite {
            fold: self.fold.index,
            step: words.fold_updates - u64::from(in_weights),
            tensor: float_name(order, &names),
            element,
            bits: floats[order as usize].read_one(&self.ground.gpu.device, element)?.to_bits(),
        }))
    }

    fn take_prints(&mut self) -> Result<(), CudaError> {
        self.held.take_prints(&self.ground, 0)?;
        self.prints = self.held.prints.read(0)?;
        self.loss_and_norm = (self.held.learner.loss_value()?, self.held.learner.norm()?.norm);
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
        let Ground { gpu, settings, .. } = self.ground;
        let (k, bars, window) = (&gpu.kernels, &gpu.bars, self.fold.validation.clone());
        let count = window.len() - 1;
        let (device, layout) = (&gpu.device, self.held.learner.layout());
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
        let metrics = Metrics::new(&rewards, &turnover, settings.market.bars_per_year);
        let (q_live, positions) = (rollout.q_live.read()?, rollout.positions.read()?);
        Ok(Evaluation { q_table, q_live, rewards, positions, turnover, metrics })
    }
}

fn bytes<T: bytemuck::NoUninit>(values: &[T]) -> Vec<u8> {
    bytemuck::cast_slice(values).to_vec()
}

fn ground<'a>(gpu: &'a Gpu, settings: &'a Settings, fold: &Fold, state: &State) -> Ground<'a> {
    let t = &settings.training;
    let decay = u64::from(u32::try_from(t.epsilon_steps).unwrap_or(u32::MAX));
    let rule = Rule {
        explore: state.streams.explore,
        reset: Some(state.streams.reset),
        epsilon: (threshold_of(t.epsilon_start), threshold_of(t.epsilon_end), decay),
        window: fold.train.clone(),
        episode_bars: t.episode_bars,
    };
    Ground { gpu, settings, rule, sample: state.streams.sample }
}

/// Steps whose fingerprints are kept on the device at a time.
fn slots(settings: &Settings, graph_cycles: Option<u64>) -> usize {
    (graph_cycles.unwrap_or(0) * settings.training.updates_per_cycle).max(1) as usize
}

impl Training for CudaTrainer<'_> {
    fn fold(&self) -> &Fold {
        &self.fold
    }

    fn fold_updates(&self) -> u64 {
        self.mirror.fold_updates
    }

    fn warm_up(&mut self) -> Result<(), Stop> {
        for _ in 0..self.ground.settings.training.learning_starts {
            self.held.collect(&self.ground)?;
            (self.current, self.collected) = (false, true);
            self.check()?;
        }
        Ok(())
    }

    fn collect(&mut self) -> Result<(), Stop> {
        self.collected = true;
        match (self.graph_cycles, self.logged.is_empty()) {
            (Some(cycles), true) => self.launch(cycles),
            (Some(_), false) => Ok(()),
            (None, _) => {
                self.held.collect(&self.ground)?;
                self.current = false;
                self.check()
            }
        }
    }

    fn update(&mut self) -> Result<(), Stop> {
        if self.graph_cycles.is_some() {
            return self.next_logged();
        }
        self.held.update(&self.ground)?;
        self.current = false;
        self.check()
    }

    fn fetch(&mut self, wanted: Wanted) -> Result<(), Stop> {
        match wanted {
            _ if self.current => Ok(()),
            // The launch's log has them.
            Wanted::Fingerprints if self.graph_cycles.is_some() => Ok(()),
            Wanted::Fingerprints => Ok(self.take_prints()?),
            Wanted::Bytes => {
                assert!(self.logged.is_empty(), "bytes are asked for between launches only");
                Ok(self.fetch_bytes()?)
            }
        }
    }

    fn tensors(&self) -> Vec<TensorView<'_>> {
        let views = self.mirror.tensors().into_iter();
        views.zip(&self.prints).map(|(view, print)| self.shown(view, *print)).collect()
    }

    fn results(&self) -> Vec<TensorView<'_>> {
        let state = self.prints.len() - self.results.bytes.len();
        let named = result_tensors(&self.ground.settings.engine.size.dimensions()).into_iter();
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
        let Ground { gpu, settings, .. } = self.ground;
        self.ground = ground(gpu, settings, &self.fold, &self.mirror);
        // Launches end where those of the straight run do.
        let done = self.mirror.fold_updates / settings.training.updates_per_cycle;
        self.graph_cycles = self.graph_cycles.map(|k| common_divisor(k, done));
        self.launches = None;
        self.held = Held::new(gpu, settings, &self.mirror, slots(settings, self.graph_cycles))?;
        Ok(self.fetch_bytes()?)
    }

    fn into_state(self: Box<Self>) -> Result<State, Stop> {
        Ok(self.mirror)
    }
}
