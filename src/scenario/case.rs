//! A case file: engine, market, folds, arms, needs, what must be the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::document::{self, CaseError, Document, suggestion};
use super::mutant::{self, Fault, Flip};
use super::settings::{
    EngineSettings, EvaluationSettings, FoldSettings, FoldStart, MarketSettings, Settings, TrainingSettings,
};
use crate::trace::record::Level;

/// A case, read and checked.
#[derive(Clone, Debug)]
pub struct Case {
    /// `suite/name`
    pub name: String,
    /// the file
    pub path: PathBuf,
    /// one line for people
    pub about: String,
    /// what decides the bits
    pub settings: Settings,
    /// the market file, resolved
    pub market: Option<PathBuf>,
    /// level promised
    pub guarantee: Guarantee,
    /// what the machine must have
    pub needs: Vec<Need>,
    /// whether an accepted snapshot is compared
    pub golden: bool,
    /// the runs that are compared
    pub arms: Arms,
    /// records compared
    pub compare: Scope,
    /// a verdict other than `same` that passes
    pub expect: Option<Expect>,
    /// planted fault, and the detector that must name it
    pub mutant: Option<Mutant>,
    /// seconds for one arm
    pub timeout_s: u64,
    /// trace level of every arm that does not set its own
    pub level: Level,
    /// small tensors are kept with their values
    pub values: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: String,
    twin: Option<String>,
    engine: Option<EngineSettings>,
    market: Option<MarketSettings>,
    folds: Option<FoldSettings>,
    #[serde(default)]
    training: TrainingSettings,
    #[serde(default)]
    evaluation: EvaluationSettings,
    #[serde(default)]
    guarantee: Guarantee,
    #[serde(default)]
    needs: Vec<Need>,
    #[serde(default = "yes")]
    golden: bool,
    #[serde(default)]
    arms: Arms,
    #[serde(default)]
    compare: Scope,
    expect: Option<Expect>,
    mutant: Option<Mutant>,
    #[serde(default = "timeout")]
    timeout_s: u64,
    #[serde(default)]
    level: Level,
    #[serde(default)]
    values: bool,
}

fn yes() -> bool {
    true
}
fn timeout() -> u64 {
    300
}

/// The level of reproducibility promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guarantee {
    /// NVIDIA's run-to-run
    InProcess,
    /// between processes
    ProcessToProcess,
    /// another unit of the model
    DeviceToDevice,
    /// another model
    GpuToGpu,
    /// CPU and any GPU
    #[default]
    CpuToGpu,
}

/// What a machine must have for a case to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// a CUDA device
    Gpu,
    /// two of them
    TwoGpus,
    /// the run-time compiler
    Nvrtc,
}

/// The runs compared with the base run. Empty: base and golden only.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Arms {
    /// runs in one process
    pub repeat: usize,
    /// further fresh processes
    pub processes: usize,
    /// thread counts
    pub threads: Vec<usize>,
    /// every SIMD path of the machine
    pub simd: bool,
    /// `alone` (each fold in a process of its own), `permuted`
    pub folds: Vec<FoldArm>,
    /// places of the checkpoint
    pub resume: Vec<ResumeArm>,
    /// evaluation `off` or every so many cycles
    pub evaluation: Vec<EvaluationArm>,
    /// rows of evaluation batches
    pub batch_rows: Vec<usize>,
    /// other trace levels
    pub trace: Vec<Level>,
    /// a seed that must change the digests
    pub other_seed: Option<u64>,
}

/// How folds are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FoldArm {
    /// each in its own process
    Alone,
    /// descending order
    Permuted,
}

/// Where a run is cut and resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResumeArm {
    /// after the first cycle
    FirstStep,
    /// half-way through the last fold
    MidFold,
    /// between the first fold and the next
    FoldEnd,
    /// the update before the target network is copied
    BeforeTargetUpdate,
}

/// When evaluations happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvaluationArm {
    /// never
    Off,
    /// after every cycle
    EveryCycle,
    /// after every third
    EveryThirdCycle,
}

/// Records compared; empty lists: all.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scope {
    /// `step`, `eval`, `fold`, `close`
    pub kinds: Vec<String>,
    /// fold numbers
    pub folds: Vec<u32>,
    /// tensor names, or prefixes ending in `*`
    pub tensors: Vec<String>,
}

/// A verdict other than `same` that passes until a date.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// `different`
    pub verdict: String,
    /// largest distance allowed
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ulp: Option<u64>,
    /// why
    pub reason: String,
    /// last day, `YYYY-MM-DD`
    pub until: String,
}

/// A planted fault and what must name it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// one of [`mutant::NAMES`], or [`mutant::FLIP_BIT`]
    pub name: String,
    /// slug of the detector; empty for a flipped bit
    #[serde(default)]
    pub caught_by: String,
    /// which bit flips
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flip: Option<Flip>,
}

/// Most runs of `repeat` and `processes`.
const RUNS_LIMIT: usize = 1000;
/// Most entries of a list of arms.
const LIST_LIMIT: usize = 64;
/// Most threads of a run.
const THREADS_LIMIT: usize = 1024;

impl Case {
    /// Reads `cases/<suite>/<name>.toml`, with `--set` assignments on top.
    pub fn load(path: &Path, assignments: &[String]) -> Result<Case, CaseError> {
        Case::parse(&Document::read(path)?, assignments)
    }

    /// The same from a text in memory; its path says where a market file or a twin is looked for.
    pub fn parse(document: &Document, assignments: &[String]) -> Result<Case, CaseError> {
        let mut file: File = document.parse()?;
        if !assignments.is_empty() {
            let mut table: toml::Table = document.parse()?;
            assignments.iter().try_for_each(|a| document::set(&mut table, a))?;
            file = document::from_table(table, assignments)?;
        }
        let name = case_name(&document.path);
        match file.twin.take() {
            Some(twin) => from_twin(document, name, &twin, file),
            None => from_file(document, name, file),
        }
    }

    /// Suite: the folder.
    pub fn suite(&self) -> &str {
        self.name.split_once('/').map_or("", |(suite, _)| suite)
    }

    /// Faults to plant, each with the field it concerns: none for a clean case.
    pub fn faults(&self) -> Vec<(Option<&'static str>, Fault)> {
        let Some(mutant) = &self.mutant else { return Vec::new() };
        if let Some(flip) = &mutant.flip {
            return vec![(None, Fault::FlipBit(flip.clone()))];
        }
        let fields: Vec<Option<&'static str>> = match mutant.name.as_str() {
            "checkpoint-omits" => mutant::STATE_FIELDS.iter().map(|f| Some(*f)).collect(),
            _ => vec![None],
        };
        fields.into_iter().filter_map(|f| Some((f, Fault::named(&mutant.name, f)?))).collect()
    }
}

/// `suite/name` of a case's path.
pub fn case_name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match path.parent().and_then(Path::file_name) {
        Some(suite) => format!("{}/{stem}", suite.to_string_lossy()),
        None => stem.into_owned(),
    }
}

/// A mutant inherits everything from its clean twin.
fn from_twin(document: &Document, name: String, twin: &str, file: File) -> Result<Case, CaseError> {
    let Some(mutant) = file.mutant else {
        return Err(document.refuse("twin", "a case with a twin plants a mutant; add a [mutant] table"));
    };
    if file.engine.is_some() || file.market.is_some() || file.folds.is_some() || file.arms != Arms::default() {
        return Err(document.refuse("twin", "a mutant takes engine, market, folds and arms from its twin; remove them"));
    }
    check_mutant(document, &mutant)?;
    let cases = document.path.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    let path = cases.join(format!("{twin}.toml"));
    if !path.is_file() {
        return Err(document.refuse("twin", format!("no case {twin:?} ({} does not exist)", path.display())));
    }
    let clean = Document::read(&path)?;
    let parsed: File = clean.parse()?;
    if parsed.mutant.is_some() || parsed.twin.is_some() {
        return Err(document.refuse("twin", format!("{twin:?} is a mutant itself")));
    }
    let clean = from_file(&clean, case_name(&path), parsed)?;
    let path = document.path.clone();
    Ok(Case { name, path, about: file.about, golden: false, mutant: Some(mutant), ..clean })
}

fn check_mutant(document: &Document, mutant: &Mutant) -> Result<(), CaseError> {
    if (mutant.name == mutant::FLIP_BIT) != mutant.flip.is_some() {
        let detail = format!("the mutant {:?} and the table [mutant.flip] go together", mutant::FLIP_BIT);
        return Err(document.refuse("mutant.flip", detail));
    }
    if mutant::NAMES.contains(&mutant.name.as_str()) || mutant.flip.is_some() {
        return Ok(());
    }
    let detail = format!("unknown mutant {:?}{}", mutant.name, suggestion(&mutant.name, &mutant::NAMES));
    Err(document.refuse("mutant.name", detail))
}

fn from_file(document: &Document, name: String, file: File) -> Result<Case, CaseError> {
    let missing = |key: &str| document.refuse(key, format!("the table [{key}] is missing"));
    let settings = Settings {
        engine: file.engine.ok_or_else(|| missing("engine"))?,
        market: file.market.ok_or_else(|| missing("market"))?,
        folds: file.folds.ok_or_else(|| missing("folds"))?,
        training: file.training,
        evaluation: file.evaluation,
    };
    settings.check().map_err(|r| document.refuse(r.key, format!("{}: {}", r.key, r.detail)))?;
    let market = settings.market.file.as_deref().map(|f| find_market(document, f)).transpose()?;
    check_name(document, &name, &settings)?;
    check_arms(document, &file.arms, &settings)?;
    if let Some(expect) = &file.expect {
        check_expect(document, expect)?;
    }
    if let Some(mutant) = &file.mutant {
        check_mutant(document, mutant)?;
    }
    let kinds = ["step", "eval", "fold", "close"];
    if let Some(kind) = file.compare.kinds.iter().find(|k| !kinds.contains(&k.as_str())) {
        let detail = format!("unknown kind {kind:?}{}", suggestion(kind, &kinds));
        return Err(document.refuse("compare.kinds", detail));
    }
    Ok(Case {
        name,
        path: document.path.clone(),
        about: file.about,
        settings,
        market,
        guarantee: file.guarantee,
        needs: file.needs,
        golden: file.golden,
        arms: file.arms,
        compare: file.compare,
        expect: file.expect,
        mutant: file.mutant,
        timeout_s: file.timeout_s,
        level: file.level,
        values: file.values,
    })
}

/// A market file stands beside the case, or in `data/` beside its suite.
fn find_market(document: &Document, file: &str) -> Result<PathBuf, CaseError> {
    let folder = document.path.parent().unwrap_or(Path::new("."));
    let places = [folder.join(file), folder.join("../data").join(file), PathBuf::from("cases/data").join(file)];
    places.iter().find(|p| p.is_file()).cloned().ok_or_else(|| {
        let tried: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
        document.refuse("market.file", format!("market file {file:?} not found; looked at {}", tried.join(", ")))
    })
}

fn check_name(document: &Document, name: &str, settings: &Settings) -> Result<(), CaseError> {
    let file = settings.market.file.as_deref().map(|f| f.split('.').next().unwrap_or(f));
    let stem = file.map(|f| f.rsplit('/').next().unwrap_or(f));
    if name.contains("tiny") || stem.is_some_and(|s| name.contains(s)) {
        return Ok(());
    }
    let wanted = stem.map_or_else(|| "\"tiny\"".to_owned(), |s| format!("{s:?} or \"tiny\""));
    Err(document.refuse("about", format!("the file name must contain {wanted}, so that a list tells what runs")))
}

fn check_arms(document: &Document, arms: &Arms, settings: &Settings) -> Result<(), CaseError> {
    let carry = settings.folds.start == FoldStart::Carry;
    if carry && !arms.folds.is_empty() {
        let detail =
            "with folds.start = \"carry\" a fold alone is another computation; remove the arm or use \"fresh\"";
        return Err(document.refuse("arms.folds", detail));
    }
    if arms.threads.contains(&0) || arms.batch_rows.contains(&0) {
        return Err(document.refuse("arms", "threads and batch_rows start at 1"));
    }
    let lists = [
        ("arms.threads", arms.threads.len()),
        ("arms.folds", arms.folds.len()),
        ("arms.resume", arms.resume.len()),
        ("arms.evaluation", arms.evaluation.len()),
        ("arms.batch_rows", arms.batch_rows.len()),
        ("arms.trace", arms.trace.len()),
    ];
    let counts = [("arms.repeat", arms.repeat), ("arms.processes", arms.processes)];
    let threads = arms.threads.iter().map(|&n| ("arms.threads", n, THREADS_LIMIT));
    let lists = lists.into_iter().map(|(key, n)| (key, n, LIST_LIMIT));
    let mut all = counts.into_iter().map(|(key, n)| (key, n, RUNS_LIMIT)).chain(lists).chain(threads);
    if let Some((key, n, limit)) = all.find(|(_, n, limit)| n > limit) {
        return Err(document.refuse(key, format!("{key}: {n}; at most {limit}")));
    }
    if arms.other_seed == Some(settings.engine.seed) {
        return Err(document.refuse("arms.other_seed", "this is the case's own seed"));
    }
    if arms.resume.contains(&ResumeArm::BeforeTargetUpdate) {
        let t = &settings.training;
        let fits = t.target_period.is_some_and(|p| p >= 2 && (p - 1) % t.updates_per_cycle == 0 && p <= t.updates());
        if !fits {
            let detail = "before-target-update needs a target_period from 2 to the fold's updates, whose update before \
                          ends a cycle";
            return Err(document.refuse("arms.resume", detail));
        }
    }
    Ok(())
}

fn check_expect(document: &Document, expect: &Expect) -> Result<(), CaseError> {
    if expect.verdict != "different" {
        let detail = format!("{:?}: only \"different\" can be expected", expect.verdict);
        return Err(document.refuse("expect.verdict", detail));
    }
    if expect.reason.trim().is_empty() {
        return Err(document.refuse("expect.reason", "say why"));
    }
    if expect.until.parse::<jiff::civil::Date>().is_err() {
        return Err(document.refuse("expect.until", format!("{:?} is not a date YYYY-MM-DD", expect.until)));
    }
    Ok(())
}

/// All case files below `cases/`, by name; `data` and `vectors` hold none.
pub fn find_cases(root: &Path) -> std::io::Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    for suite in std::fs::read_dir(root)? {
        let suite = suite?.path();
        if !suite.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(&suite)? {
            let file = file?.path();
            if file.extension().is_some_and(|e| e == "toml") {
                found.insert(case_name(&file), file);
            }
        }
    }
    Ok(found)
}
