//! Runs the contract's vectors (`cases/vectors/*.json`) on a CPU path or a GPU.
//!
//! Kinds are added in `vectors/kinds.rs`, in one table. A file is read as foreign bytes: whatever it holds gives a report
//! or an error that names file, case and key, never a panic. A kind that the table lacks is an error, and every key of a
//! case's `out` must have been computed, so that no vector passes without having been looked at. NaN compares as one
//! value (rule 11), everything else by bits.
//! Schema: `tests/oracle/README.md`.

mod engine;
mod environment_kinds;
mod fields;
mod kinds;
mod learner_kinds;
mod network_kinds;
mod on_cpu;
mod on_cuda;
pub mod products;
mod random_kinds;
mod replay_kinds;
mod update_kinds;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::cpu::Cpu;
use engine::Engine;
pub use on_cuda::Cuda;

use fields::{Difference, Fields, short};
use kinds::KINDS;

/// Files above this are refused unread.
const FILE_LIMIT: u64 = 64 << 20;

/// Why a vector file could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum VectorError {
    /// the file cannot be read
    #[error("{}: {source}", file.display())]
    Read {
        /// the file
        file: PathBuf,
        /// why
        source: std::io::Error,
    },
    /// not a vector file
    #[error("{}: {reason}", file.display())]
    File {
        /// the file
        file: PathBuf,
        /// what is wrong with it
        reason: String,
    },
    /// a case that cannot be run
    #[error("{}: {case}", file.display())]
    Case {
        /// the file
        file: PathBuf,
        /// which case, and why
        case: Box<FaultyCase>,
    },
}

/// A case that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("case {index} (`{kind}`, {note:?}): {fault}")]
pub struct FaultyCase {
    /// index of the case, from 0
    pub index: usize,
    /// its kind
    pub kind: String,
    /// its note
    pub note: String,
    /// what is wrong with it
    pub fault: CaseFault,
}

/// What is wrong with one case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaseFault {
    /// a kind without a runner
    #[error("unknown kind; known: {}", known())]
    UnknownKind,
    /// a key that is missing, malformed or of the wrong length
    #[error("key `{key}`: {reason}")]
    Key {
        /// the key, with `in.` or `out.` before it
        key: String,
        /// expected and found
        reason: String,
    },
    /// the engine failed
    #[error("the engine failed: {reason}")]
    Engine {
        /// why
        reason: String,
    },
}

fn known() -> String {
    kinds().join(", ")
}

/// Every kind that can be run.
pub fn kinds() -> Vec<&'static str> {
    KINDS.iter().map(|(kind, _)| *kind).collect()
}

/// Result of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// cases by kind
    pub kinds: BTreeMap<String, Count>,
}

/// Cases of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// cases whose every element agrees
    pub passed: usize,
    /// cases with a mismatch
    pub failed: usize,
    /// the first mismatch of the kind
    pub first: Option<Mismatch>,
}

/// Where an engine and a vector part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// index of the case in its file, from 0
    pub case: usize,
    /// its note
    pub note: String,
    /// key of `out`
    pub key: String,
    /// index of the element
    pub element: usize,
    /// the vector's value, in the file's notation
    pub expected: String,
    /// the engine's
    pub found: String,
}

impl Report {
    /// Cases that agree.
    pub fn passed(&self) -> usize {
        self.kinds.values().fold(0, |n, k| n + k.passed)
    }

    /// Cases that do not.
    pub fn failed(&self) -> usize {
        self.kinds.values().fold(0, |n, k| n + k.failed)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { case, note, key, element, expected, found } = self;
        write!(f, "case {case} ({note:?}): {key}[{element}] expected {expected}, found {found}")
    }
}

#[derive(Deserialize)]
struct File {
    contract: String,
    cases: Vec<CaseRecord>,
}

#[derive(Deserialize)]
struct CaseRecord {
    kind: String,
    note: String,
    #[serde(rename = "in")]
    input: Value,
    out: Value,
}

/// Where vectors run.
#[derive(Clone, Copy)]
pub enum On<'a> {
    /// on a CPU path, in its pool's floating-point mode
    Cpu(&'a Cpu),
    /// on a GPU's kernels
    Cuda(&'a Cuda),
}

/// Runs every case of a file.
pub fn run_file(path: &Path, on: On<'_>) -> Result<Report, VectorError> {
    let read = |source| VectorError::Read { file: path.to_owned(), source };
    let size = std::fs::metadata(path).map_err(read)?.len();
    if size > FILE_LIMIT {
        let reason = format!("{size} bytes; at most {FILE_LIMIT} are read");
        return Err(VectorError::File { file: path.to_owned(), reason });
    }
    run_bytes(path, &std::fs::read(path).map_err(read)?, on)
}

/// Runs every case of a file's bytes; `path` is for messages.
pub fn run_bytes(path: &Path, bytes: &[u8], on: On<'_>) -> Result<Report, VectorError> {
    let wrong = |reason| VectorError::File { file: path.to_owned(), reason };
    let file: File = serde_json::from_slice(bytes).map_err(|e| wrong(format!("not a vector file: {e}")))?;
    if file.contract != "chain/1" {
        return Err(wrong(format!("expected contract \"chain/1\", found {:?}", short(&file.contract))));
    }
    if file.cases.is_empty() {
        return Err(wrong("no cases".to_owned()));
    }
    let mut report = Report::default();
    for (index, case) in file.cases.iter().enumerate() {
        let found = match on {
            On::Cpu(cpu) => cpu.on_pool(|| run_case(index, case, cpu)),
            On::Cuda(cuda) => run_case(index, case, cuda),
        };
        let mismatch = found.map_err(|fault| {
            let case = FaultyCase { index, kind: short(&case.kind), note: short(&case.note), fault };
            VectorError::Case { file: path.to_owned(), case: Box::new(case) }
        })?;
        let count = report.kinds.entry(case.kind.clone()).or_default();
        match mismatch {
            None => count.passed += 1,
            Some(mismatch) => {
                count.failed += 1;
                count.first.get_or_insert(mismatch);
            }
        }
    }
    Ok(report)
}

fn run_case(index: usize, case: &CaseRecord, engine: &dyn Engine) -> Result<Option<Mismatch>, CaseFault> {
    let (_, run) = KINDS.iter().find(|(kind, _)| *kind == case.kind).ok_or(CaseFault::UnknownKind)?;
    let (input, out) = (Fields::input(&case.input)?, Fields::output(&case.out)?);
    let difference = out.compare(&run(&input, &out, engine)?)?;
    Ok(difference.map(|Difference { key, element, expected, found }| Mismatch {
        case: index,
        note: short(&case.note),
        key,
        element,
        expected,
        found,
    }))
}
