//! `samebits vectors [DIR]`: the contract's vectors on every SIMD path.

use std::path::PathBuf;

use super::table::aligned;
use super::{Failure, workspace};
use crate::compare::verdict::exit;
use crate::engine::cpu::{Cpu, Faults, SimdPath};
use crate::engine::vectors::run_file;
use crate::{say, tell};

/// Arguments of `samebits vectors`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder of vector files [default: cases/vectors]
    pub folder: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// All paths of the contract, also those this machine lacks.
const PATHS: [SimdPath; 4] = [SimdPath::Scalar, SimdPath::Neon, SimdPath::Avx2, SimdPath::Avx512];

/// Runs them.
pub fn main(args: Args) -> Result<u8, Failure> {
    let folder = args.folder.unwrap_or_else(|| workspace::root().join("cases/vectors"));
    let entries = std::fs::read_dir(&folder)
        .map_err(|e| Failure::usage(format!("{}: {e}; give a folder of vector files", folder.display())))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "json"));
    files.sort();
    if files.is_empty() {
        return Err(Failure {
            code: exit::NOTHING_RAN,
            message: format!("{}: no vector files (*.json)", folder.display()),
        });
    }
    let available = SimdPath::available();
    let mut rows = vec![["path", "file", "passed", "failed"].map(str::to_owned).to_vec()];
    let (mut failures, mut passed) = (Vec::new(), 0);
    for path in &available {
        let cpu = Cpu::new(*path, 1, Faults::default()).map_err(Failure::unverified)?;
        for file in &files {
            let report = run_file(file, &cpu).map_err(Failure::unverified)?;
            passed += report.passed();
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            rows.push(vec![path.to_string(), name, report.passed().to_string(), report.failed().to_string()]);
            let mismatches = report.kinds.iter().filter_map(|(kind, count)| Some((kind, count.first.as_ref()?)));
            failures.extend(mismatches.map(|(kind, m)| format!("{path}, {}: {kind}: {m}", file.display())));
        }
    }
    let missing: Vec<String> = PATHS.iter().filter(|p| !available.contains(p)).map(ToString::to_string).collect();
    if args.json {
        let value = serde_json::json!({ "schema": "samebits-vectors/1", "rows": rows, "failures": failures, "not_run": missing });
        say!("{value}");
    } else {
        tell!("{}", aligned(&rows, 2));
        failures.iter().for_each(|f| say!("{f}"));
        say!("{passed} same · {} different · {} not run{}", failures.len(), missing.len(), list(&missing));
    }
    Ok(if failures.is_empty() { exit::SAME } else { exit::DIFFERENT })
}

fn list(missing: &[String]) -> String {
    if missing.is_empty() { String::new() } else { format!(" (this CPU lacks {})", missing.join(", ")) }
}
