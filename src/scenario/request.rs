//! What one run is asked to do. A test run hands it to a fresh process on standard input.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::mutant::Fault;
use super::settings::Settings;
use crate::trace::record::Level;

/// One run of the embedded engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// what decides the bits
    pub settings: Settings,
    /// the market file, resolved
    pub market: Option<PathBuf>,
    /// worker threads; None: `RAYON_NUM_THREADS`, else the cores
    pub threads: Option<usize>,
    /// SIMD path; None: `SAMEBITS_SIMD`, else the best
    pub simd: Option<String>,
    /// GPU: an index, a UUID, or the beginning of one; None: the CPU
    pub device: Option<String>,
    /// cycles of one graph launch on the GPU; 0: no graphs; None: as many as fit, up to [`GRAPH_CYCLES`]
    pub graph: Option<u64>,
    /// folder of compiled kernels
    pub kernels: Option<PathBuf>,
    /// folds to run, in this order; None: all ascending
    pub folds: Option<Vec<u32>>,
    /// runs in this process, one after the other; run i > 0 writes `TRACE` with `.repeat-i` before its ending
    pub repeat: usize,
    /// where the trace goes
    pub trace: Option<PathBuf>,
    /// how much it holds
    pub level: Level,
    /// small tensors are kept with their values
    pub values: bool,
    /// bytes at which a trace is given up
    pub trace_limit: u64,
    /// where final tensors are exported
    pub export: Option<PathBuf>,
    /// checkpoints to write
    pub checkpoints: Option<Checkpoints>,
    /// a checkpoint to go on from
    pub resume: Option<PathBuf>,
    /// planted fault
    pub fault: Option<Fault>,
}

/// Which checkpoints are written, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoints {
    /// folder; one folder a checkpoint inside
    pub folder: PathBuf,
    /// named places
    pub cuts: Vec<Cut>,
    /// every so many cycles, keeping the last one
    pub every: Option<u64>,
}

/// A place between two cycles: so many cycles of a fold are done. All cycles done is the end of the fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// fold
    pub fold: u32,
    /// cycles done
    pub cycle: u64,
}

impl Cut {
    /// Folder name of a checkpoint.
    pub fn name(&self) -> String {
        format!("fold-{:03}-cycle-{:06}", self.fold, self.cycle)
    }
}

/// Default of `--trace-limit`: 4 GiB before compression.
pub const TRACE_LIMIT: u64 = 4 << 30;

/// Most cycles of a launch that is not asked for.
pub const GRAPH_CYCLES: u64 = 8;

/// Greatest common divisor; that with 0 is the other.
pub fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl RunRequest {
    /// Cycles of a graph launch; None for no graphs. They divide the cycles of a fold, and those between evaluations and
    /// checkpoints, since state is looked at between launches only.
    ///
    /// # Errors
    /// What does not fit, with what would.
    pub fn graph_cycles(&self) -> Result<Option<u64>, String> {
        let s = &self.settings;
        let every = self.checkpoints.iter().flat_map(|c| c.every.into_iter().chain(c.cuts.iter().map(|c| c.cycle)));
        let fits = every.chain([s.evaluation.every]).fold(s.training.cycles, common_divisor);
        match self.graph {
            Some(0) => Ok(None),
            Some(k) if fits.is_multiple_of(k) => Ok(Some(k)),
            Some(k) => Err(format!(
                "{k} cycles a graph launch do not divide the cycles of a fold, or those between evaluations or checkpoints; \
                 divisors of {fits} do"
            )),
            None => Ok((1..=GRAPH_CYCLES).rev().find(|k| fits.is_multiple_of(*k))),
        }
    }

    /// A plain run of settings.
    pub fn new(settings: Settings, market: Option<PathBuf>) -> Self {
        RunRequest {
            settings,
            market,
            threads: None,
            simd: None,
            device: None,
            graph: None,
            kernels: None,
            folds: None,
            repeat: 1,
            trace: None,
            level: Level::Step,
            values: false,
            trace_limit: TRACE_LIMIT,
            export: None,
            checkpoints: None,
            resume: None,
            fault: None,
        }
    }
}

/// The trace of repeat `i`: `x.jsonl`, `x.repeat-1.jsonl`, ...
pub fn repeat_name(path: &Path, i: usize) -> PathBuf {
    if i == 0 {
        return path.to_owned();
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, ending) = name.split_once('.').unwrap_or((&name, "jsonl"));
    path.with_file_name(format!("{stem}.repeat-{i}.{ending}"))
}
