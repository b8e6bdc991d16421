//! What a run stands on, loaded and checked before its first record: market, folds, arithmetic, checkpoint.

use std::path::Path;

use super::checkpoint::{self, Checkpoint, CheckpointError, Manifest};
use super::cpu::{Cpu, Faults, SimdPath};
use super::cuda::held::Gpu;
use super::error::EngineError;
use super::folds::{Fold, folds};
use super::market::{self, ReadOptions};
use super::market_features::{Costs, Market, WARM_UP};
use super::market_synthetic::{self, Pattern, SyntheticOptions};
use super::ops::Ledger;
use crate::digest::root::root;
use crate::digest::sha::{Digest, sha256};
use crate::scenario::check::THREADS_MAX;
use crate::scenario::mutant::Fault;
use crate::scenario::plan::Facts;
use crate::scenario::request::{Cut, RunRequest};
use crate::scenario::settings::{PatternKind, Settings, SyntheticSettings};
use crate::trace::record::Level;

/// Name of the arithmetic contract.
pub const CONTRACT: &str = "chain/1";

/// Market, folds and arithmetic of a request, loaded once for all its repeats.
pub struct Session {
    pub(super) request: RunRequest,
    pub(super) market: Market,
    pub(super) market_digest: Digest,
    pub(super) folds: Vec<Fold>,
    pub(super) cpu: Cpu,
    pub(super) gpu: Option<Gpu>,
}

/// Reads the market of settings.
pub fn load_market(settings: &Settings, file: Option<&Path>) -> Result<Market, EngineError> {
    let m = &settings.market;
    let bars = match (&m.synthetic, file) {
        (Some(synthetic), _) => market_synthetic::synthetic(&synthetic_options(synthetic))?,
        (None, Some(file)) => market::load(file, &ReadOptions { time_format: m.time_format.clone() })?,
        (None, None) => return Err(EngineError::Request("the settings name no market".into())),
    };
    Ok(Market::new(&bars, &Costs { half_spread: m.half_spread, commission: m.commission })?)
}

/// What the market and this machine say to a plan.
pub fn fold_facts(settings: &Settings, file: Option<&Path>) -> Result<Facts, EngineError> {
    let market = load_market(settings, file)?;
    let all = folds(&settings.folds, market.bars, WARM_UP)?;
    let simd = SimdPath::available().iter().map(ToString::to_string).collect();
    Ok(Facts { folds: all.len() as u32, simd })
}

fn synthetic_options(s: &SyntheticSettings) -> SyntheticOptions {
    let pattern = match s.pattern {
        PatternKind::None => Pattern::None,
        PatternKind::Cycle => Pattern::Cycle { period: s.period, strength: s.strength },
        PatternKind::Momentum => Pattern::Momentum { strength: s.strength },
    };
    let (seed, bars, volatility, shuffle) = (s.seed, s.bars, s.volatility, s.shuffle);
    SyntheticOptions { seed, bars, volatility, pattern, shuffle, ..SyntheticOptions::default() }
}

/// Threads of a request: its own, else `RAYON_NUM_THREADS`, else the cores.
pub fn threads(asked: Option<usize>) -> Result<usize, EngineError> {
    let refuse = |what: String| EngineError::Request(format!("{what}: expected a number from 1 to {THREADS_MAX}"));
    if let Some(n) = asked {
        return if (1..=THREADS_MAX).contains(&n) { Ok(n) } else { Err(refuse(format!("{n} threads"))) };
    }
    match std::env::var_os("RAYON_NUM_THREADS") {
        Some(text) => match text.to_str().and_then(|t| t.parse().ok()) {
            Some(n) if (1..=THREADS_MAX).contains(&n) => Ok(n),
            _ => Err(refuse(format!("RAYON_NUM_THREADS={}", text.to_string_lossy()))),
        },
        None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
    }
}

impl Session {
    /// Loads and checks everything before the first record is written.
    pub fn new(request: RunRequest) -> Result<Self, EngineError> {
        let refused = |r: crate::scenario::settings::Refusal| EngineError::Request(format!("{}: {}", r.key, r.detail));
        request.settings.check().map_err(refused)?;
        let market = load_market(&request.settings, request.market.as_deref())?;
        let all = folds(&request.settings.folds, market.bars, WARM_UP)?;
        let order = request.folds.clone().unwrap_or_else(|| all.iter().map(|f| f.index).collect());
        if let Some(bad) = order.iter().find(|f| **f as usize >= all.len()) {
            return Err(EngineError::Request(format!("fold {bad} of {} folds", all.len())));
        }
        if let Some((_, twice)) = order.iter().enumerate().find(|(i, f)| order[..*i].contains(f)) {
            return Err(EngineError::Request(format!("fold {twice} is asked for twice")));
        }
        let path = match &request.simd {
            Some(name) => name.parse::<SimdPath>()?,
            None => SimdPath::from_env()?,
        };
        let cpu = Cpu::new(path, threads(request.threads)?, faults(request.fault.as_ref()))?;
        let folds = order.into_iter().map(|f| all[f as usize].clone()).collect();
        let market_digest = market_digest(&market);
        let gpu = gpu(&request, &market)?;
        Ok(Session { request, market, market_digest, folds, cpu, gpu })
    }

    /// What the market's reader noted.
    pub fn market_notes(&self) -> &[String] {
        &self.market.notes
    }

    /// Path and threads of the arithmetic.
    pub fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    /// Folds in the order they are run.
    pub fn folds(&self) -> &[Fold] {
        &self.folds
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.request.settings
    }

    /// Where a fold stands in this run's order.
    pub(super) fn position(&self, fold: u32) -> usize {
        self.folds.iter().position(|f| f.index == fold).unwrap_or(0)
    }

    pub(super) fn checkpoint(&self, path: &Path) -> Result<Checkpoint, EngineError> {
        let checkpoint = Checkpoint::read(path)?;
        let manifest = &checkpoint.manifest;
        let refuse = |detail: String| {
            let path = checkpoint.folder.display().to_string();
            EngineError::Checkpoint(CheckpointError { path, detail })
        };
        let json = |s: &Settings| serde_json::to_value(s).unwrap_or_default();
        if let Some(key) = checkpoint::first_difference(&json(&manifest.settings), &json(self.settings()), "") {
            return Err(refuse(format!(
                "it was made by another configuration (checkpoint | this run): {key}; --set gives this run the same"
            )));
        }
        if manifest.contract != CONTRACT {
            return Err(refuse(format!("it was made under {}, this is {CONTRACT}", manifest.contract)));
        }
        if manifest.market != self.market_digest {
            return Err(refuse("it was made on other bars: the digests of the market tables differ".into()));
        }
        let order: Vec<u32> = self.folds.iter().map(|f| f.index).collect();
        if manifest.order != order || !order.contains(&manifest.cut.fold) {
            return Err(refuse(format!("it runs folds {:?}, this run {order:?}", manifest.order)));
        }
        self.check_place(manifest).map_err(refuse)?;
        Ok(checkpoint)
    }

    /// Place, updates and finished folds of a manifest fit each other and this run.
    fn check_place(&self, manifest: &Manifest) -> Result<(), String> {
        let t = &self.settings().training;
        let Cut { fold, cycle } = manifest.cut;
        if cycle > t.cycles || manifest.step != cycle * t.updates_per_cycle {
            return Err(format!("cycle {cycle} of {} with {} updates", t.cycles, manifest.step));
        }
        let before = self.position(fold) + usize::from(cycle == t.cycles);
        let done = manifest.finished.iter().map(|f| f.fold);
        if !done.eq(self.folds[..before].iter().map(|f| f.index)) {
            return Err(format!("finished folds {:?} do not fit fold {fold}, cycle {cycle}", manifest.finished));
        }
        Ok(())
    }

    pub(super) fn ledger(&self, level: Level) -> Ledger {
        let m = &self.market;
        let tables: [(&str, &[u8]); 4] = [
            ("market.features", bytemuck::cast_slice(&m.features)),
            ("market.ret", bytemuck::cast_slice(&m.ret)),
            ("market.vol", bytemuck::cast_slice(&m.vol)),
            ("market.cost", bytemuck::cast_slice(&m.cost)),
        ];
        Ledger::new(level == Level::Op, &tables)
    }
}

/// The GPU of a request, with its kernels and the market's tables.
fn gpu(request: &RunRequest, market: &Market) -> Result<Option<Gpu>, EngineError> {
    let Some(device) = &request.device else { return Ok(None) };
    if request.fault.is_some() {
        return Err(EngineError::Request("planted faults are the CPU's; leave out --device".into()));
    }
    if request.level == Level::Op {
        return Err(EngineError::Request(
            "level op is the CPU's so far; leave out --device, or take level tensor".into(),
        ));
    }
    let cycles = request.graph_cycles().map_err(EngineError::Request)?;
    Ok(Some(Gpu::open(device, request.kernels.as_deref(), market, cycles)?))
}

fn market_digest(m: &Market) -> Digest {
    let tables: [(&str, &[f32]); 4] = [("features", &m.features), ("ret", &m.ret), ("vol", &m.vol), ("cost", &m.cost)];
    let digests = tables.map(|(name, data)| (name, sha256(bytemuck::cast_slice(data))));
    root(digests.iter().map(|(name, digest)| (*name, digest)))
}

fn faults(fault: Option<&Fault>) -> Faults {
    Faults {
        unordered_sum: fault == Some(&Fault::UnorderedSum),
        thread_chunked_sum: fault == Some(&Fault::ThreadChunkedSum),
        contracted_polyak: fault == Some(&Fault::ContractedPolyak),
        flush_to_zero: fault == Some(&Fault::FlushToZero),
    }
}
