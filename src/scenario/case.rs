//! A case file: engine, market, folds, arms, needs, what must be the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::check;
use super::command::{self, CommandEngine};
use super::document::{self, CaseError, Document};
use super::mutant::{self, Fault, Flip};
use super::settings::{EngineSettings, EvaluationSettings, FoldSettings, MarketSettings, Settings, TrainingSettings};
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
    /// what runs, and with what it is compared
    pub engine: Engine,
    /// level promised
    pub guarantee: Guarantee,
    /// what the machine must have
    pub needs: Vec<Need>,
    /// whether an accepted snapshot is compared
    pub golden: bool,
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

/// What a case runs.
#[derive(Clone, Debug)]
pub enum Engine {
    /// the engine of this program
    Embedded(Box<Embedded>),
    /// any command
    Command(Box<CommandEngine>),
}

/// The engine of this program: what decides its bits, and the runs compared.
#[derive(Clone, Debug)]
pub struct Embedded {
    /// what decides the bits
    pub settings: Settings,
    /// the market file, resolved
    pub market: Option<PathBuf>,
    /// the runs that are compared
    pub arms: Arms,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// one line for people
    about: String,
    engine: Option<EngineSettings>,
    market: Option<MarketSettings>,
    folds: Option<FoldSettings>,
    #[serde(default)]
    training: TrainingSettings,
    #[serde(default)]
    evaluation: EvaluationSettings,
    /// level promised: `in_process`, `process_to_process`, `device_to_device`, `gpu_to_gpu`, `cpu_to_gpu`
    #[serde(default)]
    guarantee: Guarantee,
    /// what the machine must have: `gpu`, `two-gpus`, `nvrtc`
    #[serde(default)]
    needs: Vec<Need>,
    /// whether an accepted snapshot is compared
    #[serde(default = "yes")]
    golden: bool,
    #[serde(default)]
    arms: Arms,
    #[serde(default)]
    compare: Scope,
    expect: Option<Expect>,
    mutant: Option<Mutant>,
    /// seconds for one arm
    #[serde(default = "timeout")]
    timeout_s: u64,
    /// trace level of every arm that does not set its own: `off`, `step`, `tensor`, `op`
    #[serde(default)]
    level: Level,
    /// small tensors are kept with their values
    #[serde(default)]
    values: bool,
}

/// A mutant's file: everything else comes from its clean twin.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TwinFile {
    about: String,
    twin: String,
    mutant: Mutant,
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

impl std::fmt::Display for Guarantee {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Guarantee::InProcess => "in_process",
            Guarantee::ProcessToProcess => "process_to_process",
            Guarantee::DeviceToDevice => "device_to_device",
            Guarantee::GpuToGpu => "gpu_to_gpu",
            Guarantee::CpuToGpu => "cpu_to_gpu",
        })
    }
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

impl Case {
    /// Reads `cases/<suite>/<name>.toml`, with `--set` assignments on top.
    pub fn load(path: &Path, assignments: &[String]) -> Result<Case, CaseError> {
        Case::parse(&Document::read(path)?, assignments)
    }

    /// The same from a text in memory; its path says where a market file or a twin is looked for.
    pub fn parse(document: &Document, assignments: &[String]) -> Result<Case, CaseError> {
        let table: toml::Table = document.parse()?;
        if table.contains_key("twin") {
            return from_twin(document, document.parse()?, assignments);
        }
        if table.get("engine").and_then(|e| e.get("command")).is_some() {
            return command::load(document, table, assignments);
        }
        load_clean(document, assignments).map_err(|e| of_a_command(e, &table))
    }

    /// The engine of this program, if the case runs it.
    pub fn embedded(&self) -> Option<&Embedded> {
        match &self.engine {
            Engine::Embedded(embedded) => Some(embedded),
            Engine::Command(_) => None,
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

/// A mutant inherits everything from its clean twin; `--set` changes the twin.
fn from_twin(document: &Document, file: TwinFile, assignments: &[String]) -> Result<Case, CaseError> {
    check::mutant(document, &file.mutant)?;
    let cases = document.path.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    let path = cases.join(format!("{}.toml", file.twin));
    if !path.is_file() {
        return Err(document.refuse("twin", format!("no case {:?} ({} does not exist)", file.twin, path.display())));
    }
    let twin = Document::read(&path)?;
    if twin.parse::<toml::Table>()?.contains_key("twin") {
        return Err(document.refuse("twin", format!("{:?} has a twin itself; a twin is a clean case", file.twin)));
    }
    let clean = load_clean(&twin, assignments)?;
    if clean.mutant.is_some() || clean.expect.is_some() {
        return Err(document.refuse("twin", format!("{:?} plants a mutant or expects a difference itself", file.twin)));
    }
    let (name, path) = (case_name(&document.path), document.path.clone());
    Ok(Case { name, path, about: file.about, golden: false, mutant: Some(file.mutant), ..clean })
}

/// The refusal of a key, where the case may be meant for a command: `[engine]` names neither a size nor a command.
fn of_a_command(e: CaseError, table: &toml::Table) -> CaseError {
    let engine = table.get("engine").and_then(toml::Value::as_table);
    let bare = engine.is_some_and(|engine| !engine.contains_key("size"));
    if !bare || !e.detail.starts_with("unknown key") {
        return e;
    }
    let hint = "; for a program of your own, [engine] has the key command";
    CaseError { detail: format!("{}{hint}", e.detail), ..e }
}

fn load_clean(document: &Document, assignments: &[String]) -> Result<Case, CaseError> {
    let name = case_name(&document.path);
    if assignments.is_empty() {
        return from_file(document, name, document.parse()?);
    }
    let mut table: toml::Table = document.parse()?;
    assignments.iter().try_for_each(|a| document::set(&mut table, a))?;
    let file = document::from_table(table, assignments)?;
    // A refused value stands in the assignment, not in the file.
    let source = format!("--set {}", assignments.join(" --set "));
    from_file(document, name, file).map_err(|e| CaseError { source, line: None, ..e })
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
    check::name(document, &name, &settings)?;
    check::arms(document, &file.arms, &settings)?;
    check::scope(document, &file.compare, &file.arms)?;
    if let Some(expect) = &file.expect {
        check::expect(document, expect)?;
    }
    if let Some(mutant) = &file.mutant {
        check::mutant(document, mutant)?;
    }
    if file.mutant.is_none() && !file.golden && file.arms == Arms::default() {
        let detail = "no arms and golden = false: nothing would be compared; add an arm or a golden";
        return Err(document.refuse("golden", detail));
    }
    Ok(Case {
        name,
        path: document.path.clone(),
        about: file.about,
        engine: Engine::Embedded(Box::new(Embedded { settings, market, arms: file.arms })),
        guarantee: file.guarantee,
        needs: file.needs,
        golden: file.golden,
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

/// All case files below `cases/`, by name; `data` and `vectors` hold none. A case file that would not be looked at is
/// an error, not passed over.
pub fn find_cases(root: &Path) -> std::io::Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    for suite in entries(root)? {
        if is_case(&suite) && suite.is_file() {
            return Err(misplaced(&suite, "a case belongs into a suite: cases/<suite>/<name>.toml"));
        }
        if !suite.is_dir() {
            continue;
        }
        for file in entries(&suite)? {
            if file.is_dir() && entries(&file)?.iter().any(|f| is_case(f)) {
                return Err(misplaced(&file, "suites have no folders inside: cases/<suite>/<name>.toml"));
            }
            if !is_case(&file) {
                continue;
            }
            if !file.is_file() || file.to_str().is_none() {
                return Err(misplaced(&file, "not a regular file with a UTF-8 name"));
            }
            found.insert(case_name(&file), file);
        }
    }
    Ok(found)
}

fn entries(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    std::fs::read_dir(folder)?.map(|e| Ok(e?.path())).collect()
}

fn is_case(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("toml"))
}

fn misplaced(path: &Path, why: &str) -> std::io::Error {
    std::io::Error::other(format!("{}: {why}", path.display()))
}
