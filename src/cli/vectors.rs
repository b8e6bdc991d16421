//! `samebits vectors [DIR]`: the contract's vectors on every SIMD path, or on a GPU; there also random products.

use std::path::{Path, PathBuf};

use super::table::aligned;
use super::{Failure, workspace};
use crate::compare::verdict::exit;
use crate::engine::cpu::{Cpu, Faults, SimdPath};
use crate::engine::cuda::device::{Device, devices};
use crate::engine::vectors::{Cuda, On, products, run_file};
use crate::{say, tell};

/// Arguments of `samebits vectors`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder of vector files [default: cases/vectors]
    pub folder: Option<PathBuf>,
    /// On this GPU instead of the CPU: an index, a UUID, or the beginning of one
    #[arg(long)]
    pub device: Option<String>,
    /// On the GPU: also this many random products against the CPU's chains
    #[arg(long, default_value_t = 0, requires = "device")]
    pub products: u32,
    /// Seed of the random products
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// On the GPU: launches sized for each of these numbers of multiprocessors [default: the device's own]
    #[arg(long, value_delimiter = ',', requires = "device", value_parser = clap::value_parser!(u32).range(1..100_000))]
    pub multiprocessors: Vec<u32>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// All paths of the contract, also those this machine lacks.
const PATHS: [SimdPath; 4] = [SimdPath::Scalar, SimdPath::Neon, SimdPath::Avx2, SimdPath::Avx512];

/// What was run and found.
struct Found {
    rows: Vec<Vec<String>>,
    failures: Vec<String>,
    passed: usize,
    not_run: Vec<String>,
}

/// Runs them.
pub fn main(args: Args) -> Result<u8, Failure> {
    let folder = args.folder.clone().unwrap_or_else(|| workspace::root().join("cases/vectors"));
    let files = files(&folder)?;
    let head = vec![["path", "file", "passed", "failed"].map(str::to_owned).to_vec()];
    let mut found = Found { rows: head, failures: Vec::new(), passed: 0, not_run: Vec::new() };
    match &args.device {
        None => on_cpu(&files, &mut found)?,
        Some(wanted) => on_gpu(&args, wanted, &files, &mut found)?,
    }
    if args.json {
        let Found { rows, failures, not_run, .. } = &found;
        say!(
            "{}",
            serde_json::json!({ "schema": "samebits-vectors/1", "rows": rows, "failures": failures, "not_run": not_run })
        );
    } else {
        tell!("{}", aligned(&found.rows, 2));
        found.failures.iter().for_each(|f| say!("{f}"));
        let Found { passed, failures, not_run, .. } = &found;
        say!(
            "{passed} same · {} different · {} not run{}",
            failures.len(),
            not_run.len(),
            list(args.device.is_some(), not_run)
        );
    }
    Ok(match (found.failures.is_empty(), found.passed) {
        (false, _) => exit::DIFFERENT,
        (true, 0) => exit::NOTHING_RAN,
        (true, _) => exit::SAME,
    })
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(folder)
        .map_err(|e| Failure::usage(format!("{}: {e}; give a folder of vector files", folder.display())))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "json"));
    files.sort();
    match files.is_empty() {
        false => Ok(files),
        true => {
            let message = format!("{}: no vector files (*.json)", folder.display());
            Err(Failure { code: exit::NOTHING_RAN, message })
        }
    }
}

fn on_cpu(files: &[PathBuf], found: &mut Found) -> Result<(), Failure> {
    let available = SimdPath::available();
    for path in &available {
        let cpu = Cpu::new(*path, 1, Faults::default()).map_err(Failure::unverified)?;
        all_files(files, On::Cpu(&cpu), &path.to_string(), found)?;
    }
    let missing = PATHS.iter().filter(|p| !available.contains(p));
    found.not_run = missing.map(ToString::to_string).collect();
    Ok(())
}

fn all_files(files: &[PathBuf], on: On<'_>, path: &str, found: &mut Found) -> Result<(), Failure> {
    for file in files {
        let report = run_file(file, on).map_err(Failure::unverified)?;
        found.passed += report.passed();
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        found.rows.push(vec![path.to_owned(), name, report.passed().to_string(), report.failed().to_string()]);
        let mismatches = report.kinds.iter().filter_map(|(kind, count)| Some((kind, count.first.as_ref()?)));
        found.failures.extend(mismatches.map(|(kind, m)| format!("{path}, {}: {kind}: {m}", file.display())));
    }
    Ok(())
}

fn on_gpu(args: &Args, wanted: &str, files: &[PathBuf], found: &mut Found) -> Result<(), Failure> {
    if let Err(e) = devices() {
        found.not_run.push(e.to_string());
        return Ok(());
    }
    let own = Device::open(wanted).map_err(Failure::unverified)?.name.multiprocessors;
    let sizes = if args.multiprocessors.is_empty() { vec![own] } else { args.multiprocessors.clone() };
    let kept = workspace::kernels();
    let mut gpus = Vec::new();
    for multiprocessors in sizes {
        let device = Device::open_as(wanted, multiprocessors).map_err(Failure::unverified)?;
        gpus.push(Cuda::new(&device, Some(&kept)).map_err(Failure::unverified)?);
    }
    for gpu in &gpus {
        all_files(files, On::Cuda(gpu), &name(gpu), found)?;
    }
    random_products(args, &gpus, found)
}

fn name(gpu: &Cuda) -> String {
    format!("{} as {} multiprocessors", gpu.device().name.model, gpu.device().multiprocessors())
}

fn random_products(args: &Args, gpus: &[Cuda], found: &mut Found) -> Result<(), Failure> {
    let cpu =
        Cpu::new(SimdPath::best(), crate::launch::slots::cores(), Faults::default()).map_err(Failure::unverified)?;
    let mut failed = vec![0; gpus.len()];
    let bar = indicatif::ProgressBar::new(u64::from(args.products));
    for number in 0..args.products {
        let case = products::case(args.seed, number);
        let operands = products::operands(args.seed, &case);
        let chains = products::on_cpu(&cpu, &case, &operands);
        for (gpu, failed) in gpus.iter().zip(&mut failed) {
            if let Some(text) = products::compare(gpu, &case, &operands, &chains).map_err(Failure::unverified)? {
                *failed += 1;
                found.failures.push(format!("{}, products: {text}", name(gpu)));
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    for (gpu, failed) in gpus.iter().zip(failed) {
        let passed = args.products as usize - failed;
        found.passed += passed;
        if args.products > 0 {
            found.rows.push(vec![name(gpu), "products".to_owned(), passed.to_string(), failed.to_string()]);
        }
    }
    Ok(())
}

fn list(on_gpu: bool, missing: &[String]) -> String {
    match (on_gpu, missing) {
        (_, []) => String::new(),
        (true, _) => format!(" ({})", missing.join(", ")),
        (false, _) => format!(" (this CPU lacks {})", missing.join(", ")),
    }
}
