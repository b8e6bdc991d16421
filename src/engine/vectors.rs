//! Runs the contract's vectors (`cases/vectors/*.json`) on a CPU path.
//!
//! Kinds are added in `vectors/kinds.rs`, in one table. A file is read as foreign bytes: whatever it holds gives a
//! report or an error that names file, case and key, never a panic. A kind that [`KINDS`] lacks is an error, and every
//! key of a case's `out` must have been computed, so that no vector passes without having been looked at. NaN compares
//! as one value (rule 11), everything else by bits. Schema: `tests/oracle/README.md`.

mod fields;
mod kinds;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::cpu::Cpu;

use fields::{Fields, short};
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
}

fn known() -> String {
    KINDS.iter().map(|(kind, _)| *kind).collect::<Vec<_>>().join(", ")
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

/// Runs every case of a file on `cpu`, in its pool's floating-point mode.
pub fn run_file(path: &Path, cpu: &Cpu) -> Result<Report, VectorError> {
    let read = |source| VectorError::Read { file: path.to_owned(), source };
    let wrong = |reason| VectorError::File { file: path.to_owned(), reason };
    let size = std::fs::metadata(path).map_err(read)?.len();
    if size > FILE_LIMIT {
        return Err(wrong(format!("{size} bytes; at most {FILE_LIMIT} are read")));
    }
    let bytes = std::fs::read(path).map_err(read)?;
    let file: File = serde_json::from_slice(&bytes).map_err(|e| wrong(format!("not a vector file: {e}")))?;
    if file.contract != "chain/1" {
        return Err(wrong(format!("expected contract \"chain/1\", found {:?}", short(&file.contract))));
    }
    if file.cases.is_empty() {
        return Err(wrong("no cases".to_owned()));
    }
    let mut report = Report::default();
    for (index, case) in file.cases.iter().enumerate() {
        let mismatch = cpu.on_pool(|| run_case(index, case, cpu)).map_err(|fault| {
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

fn run_case(index: usize, case: &CaseRecord, cpu: &Cpu) -> Result<Option<Mismatch>, CaseFault> {
    let (_, run) = KINDS.iter().find(|(kind, _)| *kind == case.kind).ok_or(CaseFault::UnknownKind)?;
    let (input, out) = (Fields::new("in", &case.input)?, Fields::new("out", &case.out)?);
    let found = run(&input, &out, cpu)?;
    if let Some(key) = out.missing(&found) {
        return Err(out.fault(key, "no runner computes it".to_owned()));
    }
    for (key, values) in &found {
        if let Some((element, expected, found)) = out.compare(key, values)? {
            let (note, key) = (short(&case.note), (*key).to_owned());
            return Ok(Some(Mismatch { case: index, note, key, element, expected, found }));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::cpu::{Faults, SimdPath};

    const FILES: [&str; 8] = [
        "01-scalar",
        "02-chain",
        "03-bias-gradient",
        "04-reduce",
        "05-loss",
        "06-update",
        "07-randomness",
        "fingerprint",
    ];

    fn vectors(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/vectors").join(name).with_extension("json")
    }

    /// Would fail if a path of this machine computed anything but the contract.
    #[test]
    fn every_path_computes_the_contract() {
        for path in SimdPath::available() {
            let cpu = Cpu::new(path, 1, Faults::default()).expect("an available path");
            for file in FILES {
                let report = run_file(&vectors(file), &cpu).unwrap_or_else(|e| panic!("{path}: {e}"));
                let first =
                    report.kinds.iter().find_map(|(kind, count)| Some((kind, count.first.as_ref()?.to_string())));
                assert_eq!(first, None, "{path}: {file}");
                assert!(report.passed() > 0, "{path}: {file} ran nothing");
            }
        }
    }

    /// Would fail if a fault in the arithmetic could pass the vectors.
    #[test]
    fn planted_faults_are_seen() {
        let flush = Faults { flush_to_zero: true, ..Faults::default() };
        let cpu = Cpu::new(SimdPath::best(), 1, flush).expect("the proof comes before the fault");
        assert!(run_file(&vectors("01-scalar"), &cpu).expect("a vector file").failed() > 0);
        if SimdPath::best() > SimdPath::Scalar {
            let contracted = Faults { contracted_polyak: true, ..Faults::default() };
            let cpu = Cpu::new(SimdPath::best(), 1, contracted).expect("an available path");
            assert!(run_file(&vectors("06-update"), &cpu).expect("a vector file").kinds["polyak"].failed > 0);
        }
    }

    fn run_text(text: &str) -> Result<Report, VectorError> {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), text).expect("written");
        run_file(file.path(), &Cpu::new(SimdPath::Scalar, 1, Faults::default()).expect("always there"))
    }

    fn one_case(case: &str) -> String {
        format!(r#"{{"contract": "chain/1", "about": "", "seed": 1, "cases": [{case}]}}"#)
    }

    /// Would fail if a hostile file could panic, pass, or be refused without saying where.
    #[test]
    fn hostile_files_are_refused_by_case_and_key() {
        for (case, says) in [
            (r#"{"kind": "magic", "note": "", "in": {}, "out": {}}"#, "unknown kind"),
            (r#"{"kind": "uniform", "note": "", "in": [], "out": {}}"#, "`in`"),
            (r#"{"kind": "uniform", "note": "", "in": {}, "out": {}}"#, "in.words"),
            (r#"{"kind": "uniform", "note": "", "in": {"words": "xyz"}, "out": {}}"#, "in.words"),
            (r#"{"kind": "uniform", "note": "", "in": {"words": "+0000001"}, "out": {}}"#, "in.words"),
            (r#"{"kind": "uniform", "note": "", "in": {"words": "00000000"}, "out": {"u": ""}}"#, "out.u"),
            (r#"{"kind": "uniform", "note": "", "in": {"words": ""}, "out": {"u": "", "v": ""}}"#, "out.v"),
            (r#"{"kind": "dot", "note": "", "in": {"k": 2, "a": "00000000", "b": ""}, "out": {"acc": ""}}"#, "in.a"),
            (r#"{"kind": "dot", "note": "", "in": {"k": 0, "a": "", "b": ""}, "out": {"acc": ""}}"#, "in.k"),
            (r#"{"kind": "dot", "note": "", "in": {"k": 1e30, "a": "", "b": ""}, "out": {"acc": ""}}"#, "in.k"),
            (r#"{"kind": "add", "note": "", "in": {"a": "00000000", "b": ""}, "out": {"r": ""}}"#, "in.b"),
            (
                r#"{"kind": "reduce_fill", "note": "", "in": {"key": "00000000 00000000", "n": 99999999999}, "out": {}}"#,
                "in.n",
            ),
            (
                r#"{"kind": "bias_gradient", "note": "", "in": {"batch": 9999999, "width": 9999999, "dz": ""}, "out": {}}"#,
                "in.dz",
            ),
            (r#"{"kind": "argmax", "note": "", "in": {"q": "00000000"}, "out": {"index": []}}"#, "in.q"),
            (
                r#"{"kind": "heads_backward", "note": "", "in": {"g": "00000000 00000000 00000000", "actions": [5, 0, 0]}, "out": {}}"#,
                "in.actions",
            ),
            (r#"{"kind": "keys", "note": "", "in": {"k": 2}, "out": {"keys": ""}}"#, "in.k"),
        ] {
            let error = run_text(&one_case(case)).expect_err(case).to_string();
            assert!(error.contains("case 0") && error.contains(says), "{case}: {error}");
        }
        assert!(run_text("{").expect_err("cut").to_string().contains("not a vector file"));
        assert!(
            run_text(r#"{"contract": "chain/1", "cases": []}"#).expect_err("empty").to_string().contains("no cases")
        );
    }

    /// Would fail if a wrong element went unnamed.
    #[test]
    fn a_mismatch_is_named() {
        let case = r#"{"kind": "add", "note": "n", "in": {"a": "3f800000 nan", "b": "3f800000 00000000"}, "out": {"r": "40000001 nan"}}"#;
        let report = run_text(&one_case(case)).expect("runs");
        let count = &report.kinds["add"];
        let first = count.first.as_ref().expect("one element is wrong").to_string();
        assert_eq!(first, "case 0 (\"n\"): r[0] expected 40000001, found 40000000");
        assert_eq!((report.passed(), report.failed()), (0, 1));
    }
}
