//! A run from market to closing record: fold by fold, with evaluations, checkpoints, resume and export.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::checkpoint::{self, Checkpoint, CheckpointError, FoldResult, Manifest};
use super::cuda::held::Gpu;
use super::cuda::trainer::{CudaTrainer, Reports};
use super::error::{EngineError, NotFinite};
use super::evaluator::Evaluation;
use super::folds::Fold;
use super::market_features::Market;
use super::network::{ACTIONS, BRANCHES};
use super::session::{CONTRACT, Session};
use super::state::State;
use super::trainer::{Ground, Trainer, result_tensors};
use super::training::{Stop, Training, Wanted};
use crate::digest::root::root;
use crate::digest::sha::{Digest, sha256};
use crate::scenario::mutant::Fault;
use crate::scenario::request::Cut;
use crate::scenario::settings::FoldStart;
use crate::trace::identity;
use crate::trace::observer::{Moment, Observer, Report, TensorView};
use crate::trace::record::{
    Coverage, Dtype, Event, Level, NOT_FINITE, Open, Ordered, Place, Resumed, SCHEMA, Status, TensorDecl,
};

/// Name of the embedded engine in a trace, before its contract.
pub const NAME: &str = "samebits-dqn";

/// What a run tells while it runs.
#[derive(Clone, Debug)]
pub enum Progress {
    /// a fold begins
    Fold {
        /// fold
        fold: u32,
        /// cycles of it
        cycles: u64,
    },
    /// cycles done in the fold
    Cycle(u64),
    /// a fold is done
    Done {
        /// what it gave
        result: FoldResult,
        /// updates per second, evaluations included
        steps_per_second: f64,
    },
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// per fold
    pub folds: Vec<FoldResult>,
    /// root of all final tensors, as the closing record has it
    pub root: Digest,
    /// root of the online network's final weights
    pub weights: Digest,
    /// set when rule 11 stopped it
    pub not_finite: Option<NotFinite>,
}

impl Session {
    /// Runs all folds, or goes on from the request's checkpoint.
    pub fn run(&self, observer: &mut dyn Observer, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, EngineError> {
        if let Some(checkpoints) = &self.request.checkpoints {
            checkpoint::clear_leftovers(&checkpoints.folder)?;
        }
        let from = self.request.resume.as_deref().map(|p| self.checkpoint(p)).transpose()?;
        let mut run = Running { session: self, observer, progress, finished: Vec::new() };
        let start = from.as_ref().map_or(0, |c| self.position(c.manifest.cut.fold));
        let first = run.trainer(&self.folds[start], None)?;
        self.check_flip(first.as_ref())?;
        run.open(first.as_ref(), from.as_ref())?;
        run.all(start, first, from)
    }
}

impl Session {
    /// A planted bit that cannot flip is refused, since a run that it did not strike would pass for one that it did.
    fn check_flip(&self, first: &dyn Training) -> Result<(), EngineError> {
        let Some(Fault::FlipBit(flip)) = &self.request.fault else { return Ok(()) };
        let tensors = first.tensors();
        let tensor = tensors.iter().find(|t| t.name == flip.tensor);
        let inside = tensor.is_some_and(|t| {
            let elements = t.whole().len() / t.dtype.size();
            flip.element < elements && (flip.bit as usize) < 8 * t.dtype.size()
        });
        let reached = self.folds.iter().any(|f| f.index == flip.fold) && flip.step < self.settings().training.updates();
        if inside && reached {
            return Ok(());
        }
        Err(EngineError::Request(format!("{flip:?}: no such tensor, element, bit, fold or step in this run")))
    }
}

struct Running<'a> {
    session: &'a Session,
    observer: &'a mut dyn Observer,
    progress: &'a mut dyn FnMut(Progress),
    finished: Vec<FoldResult>,
}

impl<'a> Running<'a> {
    fn open(&mut self, first: &dyn Training, from: Option<&Checkpoint>) -> Result<(), EngineError> {
        let s = self.session;
        let mut identity = identity::cpu(CONTRACT, &s.cpu.path().to_string(), s.cpu.threads());
        identity.noted.extend(s.gpu.iter().flat_map(Gpu::noted));
        let mut settings = serde_json::to_value(s.settings()).unwrap_or_default();
        settings["market"]["sha256"] = s.market_digest.to_string().into();
        let resumed = from.map(|c| Resumed { fold: c.manifest.cut.fold, step: c.manifest.step, root: c.manifest.root });
        let open = Open {
            schema: SCHEMA.to_owned(),
            rank: 0,
            world_size: 1,
            engine: format!("{NAME} {CONTRACT}"),
            level: self.observer.level(),
            seed: Some(s.settings().engine.seed),
            identity,
            settings,
            tensors: self.declared(first),
            resumed,
        };
        Ok(self.observer.open(open)?)
    }

    fn trainer(&self, fold: &Fold, carried: Option<State>) -> Result<Box<dyn Training + 'a>, EngineError> {
        let s = self.session;
        let level = self.observer.level();
        let (fault, keep) = (s.request.fault.clone(), level != Level::Off);
        if let Some(gpu) = &s.gpu {
            let reports = match level {
                Level::Off => Reports::None,
                Level::Step if !self.observer.values() => Reports::Fingerprints,
                _ => Reports::Bytes,
            };
            return Ok(Box::new(CudaTrainer::start(gpu, s.settings(), fold.clone(), carried, reports)?));
        }
        let ground = Ground { settings: s.settings(), market: &s.market, cpu: &s.cpu, fault, keep };
        Ok(Box::new(Trainer::start(ground, fold.clone(), carried, s.ledger(level))))
    }

    fn declared(&self, first: &dyn Training) -> Vec<TensorDecl> {
        let s = self.session;
        let declare = |name: String, dtype, shape: &[usize], coverage| TensorDecl {
            name,
            dtype,
            shape: shape.iter().map(|d| *d as u64).collect(),
            coverage,
        };
        let mut list: Vec<TensorDecl> =
            first.tensors().into_iter().map(|t| declare(t.name.clone(), t.dtype, &t.shape, t.coverage())).collect();
        let results = result_tensors(&s.settings().engine.size.dimensions());
        list.extend(results.into_iter().map(|(name, dtype, shape)| declare(name, dtype, &shape, Coverage::Full)));
        let bars = s.settings().folds.validation - 1;
        list.extend(
            evaluation_tensors(&Evaluation::default(), bars)
                .iter()
                .map(|t| declare(t.name.clone(), t.dtype, &t.shape, Coverage::Full)),
        );
        list
    }

    fn all(
        &mut self,
        start: usize,
        first: Box<dyn Training + 'a>,
        mut from: Option<Checkpoint>,
    ) -> Result<Outcome, EngineError> {
        let carry = self.session.settings().folds.start == FoldStart::Carry;
        let (mut first, mut last) = (Some(first), None::<State>);
        for (i, fold) in self.session.folds.iter().enumerate().skip(start) {
            let before = last.take();
            let leaked =
                before.as_ref().filter(|_| self.session.request.fault == Some(Fault::FoldLeak)).map(|s| s.m.clone());
            let mut trainer = match first.take() {
                Some(first) => first,
                None => self.trainer(fold, before.filter(|_| carry))?,
            };
            if let Some(m) = leaked {
                trainer.state_mut().m = m;
            }
            match self.fold(i, trainer.as_mut(), from.take()).and_then(|()| trainer.fetch(Wanted::Bytes)) {
                Ok(()) => last = Some(trainer.into_state().map_err(engine_error)?),
                Err(Stop::Engine(e)) => return Err(e),
                Err(Stop::NotFinite(found)) => return self.stop(trainer.as_mut(), found),
            }
        }
        let tensors = last.as_ref().map(State::tensors).unwrap_or_default();
        self.close(Status::Complete, &tensors, None)
    }

    fn fold(&mut self, i: usize, trainer: &mut dyn Training, from: Option<Checkpoint>) -> Result<(), Stop> {
        let t = &self.session.settings().training;
        (self.progress)(Progress::Fold { fold: trainer.fold().index, cycles: t.cycles });
        let (start, updates) = (Instant::now(), trainer.fold_updates());
        let mut cycle = 0;
        match from {
            Some(checkpoint) => cycle = self.resume(trainer, checkpoint)?,
            None => trainer.warm_up()?,
        }
        let resumed_at_end = cycle == t.cycles;
        while cycle < t.cycles {
            self.cycle(trainer)?;
            cycle += 1;
            (self.progress)(Progress::Cycle(cycle));
            let every = self.session.settings().evaluation.every;
            if cycle < t.cycles {
                if every > 0 && cycle.is_multiple_of(every) {
                    self.evaluate(trainer, cycle)?;
                }
                self.save(trainer, cycle)?;
            }
        }
        if !resumed_at_end {
            self.fold_end(i, trainer)?;
            let done = (trainer.fold_updates() - updates) as f64;
            let steps_per_second = done / start.elapsed().as_secs_f64();
            let result = self.finished[self.finished.len() - 1].clone();
            (self.progress)(Progress::Done { result, steps_per_second });
        }
        Ok(())
    }

    fn cycle(&mut self, trainer: &mut dyn Training) -> Result<(), Stop> {
        let s = self.session;
        let t = &s.settings().training;
        for _ in 0..t.env_steps_per_cycle {
            trainer.collect()?;
        }
        for _ in 0..t.updates_per_cycle {
            trainer.update()?;
            if s.request.fault == Some(Fault::TraceDisturbs) && self.observer.level() == Level::Off {
                trainer.state_mut().online.update(|w| w[0] += f32::EPSILON);
            }
            let step = trainer.fold_updates() - 1;
            self.report_step(trainer, step)?;
            trainer.reported();
        }
        Ok(())
    }

    fn report_step(&mut self, trainer: &mut dyn Training, step: u64) -> Result<(), Stop> {
        let wanted = match self.observer.level() {
            Level::Off => return Ok(()),
            Level::Step if !self.observer.values() => Wanted::Fingerprints,
            _ => Wanted::Bytes,
        };
        trainer.fetch(wanted)?;
        let (loss, norm) = trainer.loss_and_norm();
        let mut tensors = trainer.tensors();
        tensors.extend(trainer.results());
        let report = Report {
            place: place(trainer, step),
            tensors,
            metrics: vec![("loss", f64::from(loss)), ("norm", f64::from(norm))],
            ops: trainer.ops(),
        };
        Ok(self.observer.report(Moment::Step, &report)?)
    }

    fn evaluate(&mut self, trainer: &mut dyn Training, cycle: u64) -> Result<Option<Evaluation>, Stop> {
        let s = self.session;
        let settings = s.settings();
        if !settings.evaluation.enabled {
            return Ok(None);
        }
        let rows = settings.evaluation.rows.unwrap_or(settings.engine.size.dimensions().batch);
        let result = trainer.evaluate(rows)?;
        trainer.fetch(Wanted::Bytes)?;
        let bars = trainer.fold().validation.len() - 1;
        let mut place = place(trainer, trainer.fold_updates());
        place.eval = Some(cycle);
        let mut tensors = evaluation_tensors(&result, bars);
        tensors.extend(trainer.tensors());
        let report = Report { place, tensors, metrics: result.metrics.named(), ops: Vec::new() };
        self.observer.report(Moment::Evaluation, &report)?;
        trainer.evaluated();
        Ok(Some(result))
    }

    fn fold_end(&mut self, i: usize, trainer: &mut dyn Training) -> Result<(), Stop> {
        let cycles = self.session.settings().training.cycles;
        let evaluation = self.evaluate(trainer, cycles)?;
        trainer.fetch(Wanted::Bytes)?;
        let updates = trainer.fold_updates();
        let metrics = evaluation.map(|e| e.metrics);
        self.finished.push(FoldResult { fold: self.session.folds[i].index, updates, metrics });
        let report = Report { place: place(trainer, updates), tensors: trainer.tensors(), ..Report::default() };
        self.observer.report(Moment::FoldEnd, &report)?;
        self.float_mode(trainer)?;
        self.save(trainer, cycles)
    }

    /// Rule 1 again: says which threads lost gradual underflow since the start.
    fn float_mode(&mut self, trainer: &dyn Training) -> Result<(), Stop> {
        let flushing = self.session.cpu.flushing_threads();
        if flushing.is_empty() {
            return Ok(());
        }
        let detail = format!("threads {flushing:?} flush subnormals to zero");
        let place = place(trainer, trainer.fold_updates());
        Ok(self.observer.event(Event { place, name: "float-mode".into(), detail, ..Event::default() })?)
    }

    fn save(&mut self, trainer: &mut dyn Training, cycle: u64) -> Result<(), Stop> {
        let Some(wanted) = &self.session.request.checkpoints else { return Ok(()) };
        let cut = Cut { fold: trainer.fold().index, cycle };
        let named = wanted.cuts.contains(&cut);
        if !named && !wanted.every.is_some_and(|n| cycle.is_multiple_of(n)) {
            return Ok(());
        }
        trainer.fetch(Wanted::Bytes)?;
        let s = self.session;
        let manifest = Manifest {
            schema: checkpoint::SCHEMA.into(),
            contract: CONTRACT.into(),
            settings: s.settings().clone(),
            market: s.market_digest,
            cut,
            step: trainer.fold_updates(),
            order: s.folds.iter().map(|f| f.index).collect(),
            finished: self.finished.clone(),
            tensors: Vec::new(),
            root: sha256(b""),
            seal: sha256(b""),
        };
        let (folder, tensors) = (wanted.folder.join(cut.name()), trainer.tensors());
        checkpoint::write(&folder, manifest, &tensors, s.request.fault.as_ref())?;
        if !named {
            remove_older(&wanted.folder, &folder, &wanted.cuts)?;
        }
        self.state_event(trainer, "checkpoint", cut)
    }

    /// Says which tensors are in the state just saved or just loaded; `detail` names the checkpoint.
    fn state_event(&mut self, trainer: &dyn Training, name: &str, cut: Cut) -> Result<(), Stop> {
        let fault = self.session.request.fault.as_ref();
        let tensors = trainer.tensors().into_iter();
        let written = tensors.filter(|t| name != "checkpoint" || !checkpoint::omitted(&t.name, fault));
        let fp = Ordered(written.map(|t| (t.name.clone(), t.step_fingerprint())).collect());
        let place = place(trainer, trainer.fold_updates());
        Ok(self.observer.event(Event { place, name: name.into(), detail: cut.name(), fp, ..Event::default() })?)
    }

    /// Loads a checkpoint; returns the cycles done.
    fn resume(&mut self, trainer: &mut dyn Training, checkpoint: Checkpoint) -> Result<u64, Stop> {
        let fault = self.session.request.fault.as_ref();
        let refuse = |detail: String| CheckpointError { path: checkpoint.folder.display().to_string(), detail };
        let wanted: Vec<(String, Dtype, Vec<usize>)> =
            trainer.tensors().into_iter().map(|t| (t.name, t.dtype, t.shape)).collect();
        let found = checkpoint.tensors()?;
        for (name, dtype, shape) in wanted {
            let Some((entry, bytes)) = found.iter().find(|(e, _)| e.name == name) else {
                if checkpoint::omitted(&name, fault) {
                    continue;
                }
                return Err(refuse(format!("the tensor {name} is missing")).into());
            };
            if entry.dtype != dtype || entry.shape != shape {
                let detail = format!("{name} is {:?}{:?}, expected {dtype:?}{shape:?}", entry.dtype, entry.shape);
                return Err(refuse(detail).into());
            }
            trainer.state_mut().load(&name, bytes);
        }
        self.finished = checkpoint.manifest.finished.clone();
        let (cut, every) = (checkpoint.manifest.cut, self.session.settings().evaluation.every);
        trainer.resumed(cut.cycle.checked_div(every).unwrap_or(0))?;
        self.state_event(trainer, "resume", cut)?;
        check_loaded(trainer, &self.session.market).map_err(refuse)?;
        let updates = trainer.fold_updates();
        if updates != checkpoint.manifest.step && fault.is_none() {
            return Err(
                refuse(format!("fold.updates is {updates}, the manifest says {}", checkpoint.manifest.step)).into()
            );
        }
        Ok(cut.cycle)
    }

    fn stop(&mut self, trainer: &mut dyn Training, found: NotFinite) -> Result<Outcome, EngineError> {
        trainer.fetch(Wanted::Bytes).map_err(engine_error)?;
        let report = Report { place: place(trainer, found.step), tensors: trainer.tensors(), ..Report::default() };
        self.observer.report(Moment::Step, &report)?;
        let place = place(trainer, found.step);
        let event = Event { place, name: NOT_FINITE.into(), detail: found.element_name(), ..Event::default() };
        self.observer.event(event)?;
        self.close(Status::NotFinite, &trainer.tensors(), Some(found))
    }

    fn close(
        &mut self,
        status: Status,
        tensors: &[TensorView<'_>],
        not_finite: Option<NotFinite>,
    ) -> Result<Outcome, EngineError> {
        self.observer.close(status, tensors)?;
        if let Some(folder) = &self.session.request.export {
            super::export::export(folder, tensors)?;
        }
        let digests: Vec<(String, Digest)> = tensors.iter().map(|t| (t.name.clone(), sha256(t.whole()))).collect();
        let all = || digests.iter().map(|(n, d)| (n.as_str(), d));
        let weights = root(all().filter(|(n, _)| n.starts_with("q.")));
        Ok(Outcome { folds: std::mem::take(&mut self.finished), root: root(all()), weights, not_finite })
    }
}

/// A stop that is not rule 11's: nothing of a fetch or an end is.
fn engine_error(stop: Stop) -> EngineError {
    match stop {
        Stop::Engine(e) => e,
        Stop::NotFinite(found) => EngineError::Request(found.to_string()),
    }
}

fn place(trainer: &dyn Training, step: u64) -> Place {
    Place { fold: Some(trainer.fold().index), step: Some(step), ..Place::default() }
}

/// A loaded state must fit the market, its fold and itself, whatever a file claims.
fn check_loaded(trainer: &dyn Training, market: &Market) -> Result<(), String> {
    let (state, train) = (trainer.state(), &trainer.fold().train);
    if let Some(t) = state.env.time.iter().find(|t| !(train.start..train.end - 1).contains(&(**t as usize))) {
        return Err(format!("env.time holds bar {t}, outside the training window {train:?}"));
    }
    if let Some(t) = state.replay.time.iter().find(|t| **t as usize + 1 >= market.bars) {
        return Err(format!("replay.time holds bar {t} of {}", market.bars));
    }
    if !state.replay.can_be_sampled(state.env_steps) {
        return Err(format!(
            "env.steps is {}, and replay.priority holds no priority for the rows it makes",
            state.env_steps
        ));
    }
    if state.replay.actions.iter().any(|a| usize::from(*a) >= ACTIONS) {
        return Err("replay.actions holds an action above 4".into());
    }
    Ok(())
}

fn remove_older(folder: &Path, newest: &Path, named: &[Cut]) -> Result<(), CheckpointError> {
    let io = |e: std::io::Error| CheckpointError { path: folder.display().to_string(), detail: e.to_string() };
    let keep: Vec<PathBuf> = named.iter().map(|c| folder.join(c.name())).collect();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if checkpoint::is_checkpoint(&path) && path != newest && !keep.contains(&path) {
            checkpoint::discard(&path)?;
        }
    }
    Ok(())
}

fn evaluation_tensors(e: &Evaluation, bars: usize) -> Vec<TensorView<'_>> {
    let q = [bars, BRANCHES, ACTIONS];
    vec![
        TensorView::new("eval.q_table", Dtype::F32, &q, &e.q_table),
        TensorView::new("eval.q_live", Dtype::F32, &q, &e.q_live),
        TensorView::new("eval.reward", Dtype::F32, &[bars], &e.rewards),
        TensorView::new("eval.position", Dtype::F32, &[bars], &e.positions),
        TensorView::new("eval.turnover", Dtype::F32, &[bars], &e.turnover),
    ]
}
