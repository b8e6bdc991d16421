//! A case whose engine is any command: `[engine] command = [...]`, its outputs, knobs and arms.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::case::{Case, Engine, Expect, Guarantee, Need, Scope, case_name};
use super::check;
use super::copies::Copies;
use super::document::{self, CaseError, Document, suggestion};
use super::factor::NAMES;
use super::outputs::Outputs;
use crate::trace::record::Level;

/// Most runs of one kind of arm.
const RUNS_MAX: usize = 1000;
/// Most values of a knob, and most knobs.
const LIST_MAX: usize = 64;

/// A command as an engine.
#[derive(Clone, Debug)]
pub struct CommandEngine {
    /// program, outputs, surroundings
    pub run: CommandSettings,
    /// settings of the command that may affect its bits
    pub knobs: BTreeMap<String, Knob>,
    /// the runs that are compared
    pub arms: CommandArms,
    /// folder whose files the command sees
    pub folder: PathBuf,
}

/// How the command is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandSettings {
    /// program and arguments; `{dir}` `{trace}` `{level}` `{seed}` `{knob.NAME}` are filled in
    pub command: Vec<String>,
    /// what it writes, relative to its working directory; without any: its trace, else its standard output
    #[serde(default)]
    pub outputs: Vec<String>,
    /// files and folders of the project that each run gets a copy of, where the others are links
    #[serde(default)]
    pub copy: Vec<String>,
    /// variables set for it, with the same placeholders
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// seed handed to it as `{seed}` and SAMEBITS_SEED
    #[serde(default)]
    pub seed: Option<u64>,
    /// folder whose files it sees, relative to the project
    #[serde(default = "here")]
    pub folder: PathBuf,
}

fn here() -> PathBuf {
    PathBuf::from(".")
}

/// A setting of a command that may affect its bits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knob {
    /// values, the usual one first
    pub values: Vec<String>,
    /// whether all values must give the same bits
    #[serde(default)]
    pub must_not_matter: bool,
}

/// The runs compared with the base run.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CommandArms {
    /// further fresh processes
    pub processes: usize,
    /// factors under whose other settings the bits must be the same, as `samebits audit --factors` lists them
    pub vary: Vec<String>,
    /// other trace levels of a recorder
    pub trace: Vec<Level>,
    /// a seed that must change the digests
    pub other_seed: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// one line for people
    about: String,
    engine: CommandSettings,
    #[serde(default)]
    knobs: BTreeMap<String, Knob>,
    /// level promised: `in_process`, `process_to_process`, `device_to_device`, `gpu_to_gpu`, `cpu_to_gpu`
    #[serde(default = "between_processes")]
    guarantee: Guarantee,
    /// what the machine must have: `gpu`, `two-gpus`, `nvrtc`
    #[serde(default)]
    needs: Vec<Need>,
    /// whether an accepted snapshot is compared
    #[serde(default = "yes")]
    golden: bool,
    #[serde(default)]
    arms: CommandArms,
    #[serde(default)]
    compare: Scope,
    expect: Option<Expect>,
    /// seconds for one run
    #[serde(default = "timeout")]
    timeout_s: u64,
    /// trace level asked of a recorder: `off`, `step`, `tensor`, `op`
    #[serde(default)]
    level: Level,
}

fn between_processes() -> Guarantee {
    Guarantee::ProcessToProcess
}
fn yes() -> bool {
    true
}
fn timeout() -> u64 {
    3600
}

/// Reads a case whose engine is a command.
pub fn load(document: &Document, mut table: toml::Table, assignments: &[String]) -> Result<Case, CaseError> {
    if assignments.is_empty() {
        return from_file(document, document.parse()?);
    }
    assignments.iter().try_for_each(|a| document::set(&mut table, a))?;
    let file = document::from_table(table, assignments)?;
    let source = format!("--set {}", assignments.join(" --set "));
    from_file(document, file).map_err(|e| CaseError { source, line: None, ..e })
}

fn from_file(document: &Document, file: File) -> Result<Case, CaseError> {
    check_command(document, &file)?;
    check_knobs(document, &file)?;
    check_arms(document, &file)?;
    check::kinds(document, &file.compare)?;
    if let Some(expect) = &file.expect {
        check::expect(document, expect)?;
    }
    check_folder(document, &file.engine.folder)?;
    let folder = root(document).join(&file.engine.folder);
    if !folder.is_dir() {
        return Err(document.refuse("engine.folder", format!("{}: not a folder", folder.display())));
    }
    check_copies(document, &file.engine, &folder)?;
    let engine = CommandEngine { run: file.engine, knobs: file.knobs, arms: file.arms, folder };
    Ok(Case {
        name: case_name(&document.path),
        path: document.path.clone(),
        about: file.about,
        engine: Engine::Command(Box::new(engine)),
        guarantee: file.guarantee,
        needs: file.needs,
        golden: file.golden,
        compare: file.compare,
        expect: file.expect,
        mutant: None,
        timeout_s: file.timeout_s,
        level: file.level,
        values: false,
    })
}

/// The project of a case: the folder that holds `cases/`.
fn root(document: &Document) -> PathBuf {
    let path = std::path::absolute(&document.path).unwrap_or_else(|_| document.path.clone());
    path.ancestors().nth(3).map_or_else(here, PathBuf::from)
}

fn check_command(document: &Document, file: &File) -> Result<(), CaseError> {
    let engine = &file.engine;
    if engine.command.first().is_none_or(String::is_empty) {
        return Err(document.refuse("engine.command", "empty; a program and its arguments are expected"));
    }
    Outputs::new(&engine.outputs).map_err(|e| document.refuse("engine.outputs", e))?;
    if let Some(name) = engine.env.keys().find(|n| crate::trace::privacy::is_secret(n)) {
        let detail = format!("{name}: a name like that of a secret; leave it in the environment of samebits");
        return Err(document.refuse("engine.env", detail));
    }
    let texts = engine.command.iter().chain(engine.env.values());
    for text in texts {
        for name in text.split("{knob.").skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name) {
            if !file.knobs.contains_key(name) {
                let known: Vec<&str> = file.knobs.keys().map(String::as_str).collect();
                let detail = format!("{{knob.{name}}}: no table [knobs.{name}]{}", suggestion(name, &known));
                return Err(document.refuse("engine.command", detail));
            }
        }
        if text.contains("{seed}") && engine.seed.is_none() {
            return Err(document.refuse("engine.seed", "the command holds {seed}; give a seed"));
        }
    }
    Ok(())
}

/// The folder is one of the project: a path that leads out of it is another one on another machine.
fn check_folder(document: &Document, folder: &Path) -> Result<(), CaseError> {
    let inside = folder.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    if inside && !folder.as_os_str().is_empty() {
        return Ok(());
    }
    let expected = "a folder of the project, relative to the one that holds cases/ and without `..`, is expected";
    Err(document.refuse("engine.folder", format!("folder {:?}: {expected}", folder.display().to_string())))
}

fn check_copies(document: &Document, engine: &CommandSettings, folder: &Path) -> Result<(), CaseError> {
    let refuse = |e: String| document.refuse("engine.copy", e);
    let outputs = Outputs::new(&engine.outputs).map_err(refuse)?;
    let copies = Copies::new(&engine.copy, &outputs).map_err(refuse)?;
    copies.missing(folder).map_or(Ok(()), |e| Err(refuse(e)))
}

fn check_knobs(document: &Document, file: &File) -> Result<(), CaseError> {
    if file.knobs.len() > LIST_MAX {
        return Err(document.refuse("knobs", format!("{} knobs; at most {LIST_MAX}", file.knobs.len())));
    }
    for (name, knob) in &file.knobs {
        let key = format!("knobs.{name}.values");
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if !plain || name.is_empty() {
            return Err(document.refuse("knobs", format!("{name:?}: letters, digits, `-`, `_` and `.` are expected")));
        }
        if knob.values.len() < 2 || knob.values.len() > LIST_MAX {
            return Err(document.refuse(&key, format!("{} values; 2 to {LIST_MAX} are expected", knob.values.len())));
        }
        if let Some((_, twice)) = knob.values.iter().enumerate().find(|(i, v)| knob.values[..*i].contains(v)) {
            return Err(document.refuse(&key, format!("{twice:?} stands twice")));
        }
        // Two knobs must not give arms of one name.
        let prefix = |other: &&String| other.starts_with(&format!("{name}-")) || name.starts_with(&format!("{other}-"));
        if let Some(other) = file.knobs.keys().find(prefix) {
            let detail = format!("{name:?} and {other:?}: one name begins with the other and `-`; rename one");
            return Err(document.refuse("knobs", detail));
        }
        let used = format!("{{knob.{name}}}");
        let uses = file.engine.command.iter().chain(file.engine.env.values()).any(|t| t.contains(&used));
        if !uses {
            return Err(document.refuse(&key, format!("{used} stands neither in the command nor in [engine.env]")));
        }
    }
    Ok(())
}

fn check_arms(document: &Document, file: &File) -> Result<(), CaseError> {
    let arms = &file.arms;
    if arms.processes > RUNS_MAX {
        return Err(document.refuse("arms.processes", format!("{}; at most {RUNS_MAX}", arms.processes)));
    }
    check::once(document, "arms.vary", &arms.vary)?;
    check::once(document, "arms.trace", &arms.trace)?;
    let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
    if let Some(bad) = arms.vary.iter().find(|v| !known.contains(&v.as_str())) {
        return Err(document.refuse("arms.vary", format!("no factor {bad:?}{}", suggestion(bad, &known))));
    }
    if arms.other_seed.is_some() && (file.engine.seed.is_none() || arms.other_seed == file.engine.seed) {
        return Err(document.refuse("arms.other_seed", "another seed than engine.seed is expected, and that one given"));
    }
    let knobs = file.knobs.values().any(|k| k.must_not_matter);
    if !file.golden && *arms == CommandArms::default() && !knobs {
        let detail = "no arms and golden = false: nothing would be compared; add an arm or a golden";
        return Err(document.refuse("golden", detail));
    }
    Ok(())
}
