//! `samebits doctor`: what this machine has and lacks, for the embedded engine and for commands.
//!
//! A factor is told to be varied after a process started under it has seen it, as `samebits audit` does.

use std::path::{Path, PathBuf};

use super::interpreter::{self, Interpreter};
use super::table::{aligned, bytes};
use super::{Failure, workspace};
use crate::compare::verdict::exit;
use crate::engine::cpu::{Cpu, Faults, SimdPath};
use crate::engine::session::threads;
use crate::launch::factors::{self, Factor, State};
use crate::trace::identity::cpu_model;
use crate::{say, tell};

/// Arguments of `samebits doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Runs it.
pub fn main(args: Args) -> Result<u8, Failure> {
    let (facts, python, factors) = (facts(), python(), factors());
    if args.json {
        let map: serde_json::Map<String, serde_json::Value> =
            facts.into_iter().map(|(k, v)| (k.to_owned(), v.into())).collect();
        let python =
            python.as_ref().map_or_else(|reason| serde_json::json!({ "reason": reason }), |p| serde_json::json!(p));
        let factors: Vec<serde_json::Value> = factors.iter().map(factor_value).collect();
        say!(
            "{}",
            serde_json::json!({ "schema": "samebits-doctor/1", "facts": map, "python": python, "factors": factors })
        );
        return Ok(exit::SAME);
    }
    let (facts, next): (Vec<_>, Vec<_>) = facts.into_iter().partition(|(name, _)| *name != "next");
    let mut rows: Vec<Vec<String>> = facts.into_iter().map(|(k, v)| vec![k.to_owned(), v]).collect();
    rows.extend(python_rows(python));
    rows.extend(factors.iter().map(|f| vec![format!("factor {}", f.name), state_words(&f.state)]));
    rows.extend(next.into_iter().map(|(k, v)| vec![k.to_owned(), v]));
    tell!("{}", aligned(&rows, 2));
    Ok(exit::SAME)
}

/// The Python that a command would get, or why there is none.
fn python() -> Result<Interpreter, String> {
    let here = std::env::current_dir().map_err(|e| e.to_string())?;
    let python = interpreter::path(&here).ok_or("none along PATH")?;
    let samebits = std::env::current_exe().map_err(|e| e.to_string())?;
    let place = tempfile::tempdir().map_err(|e| e.to_string())?;
    Ok(interpreter::look(&samebits, &python, place.path(), interpreter::LIMIT))
}

fn python_rows(python: Result<Interpreter, String>) -> Vec<Vec<String>> {
    let python = match python {
        Ok(python) => python,
        Err(reason) => return vec![vec!["python".to_owned(), reason]],
    };
    let row = |(i, answer): (usize, &interpreter::Answer)| {
        let at = if i == 0 { format!(" ({})", python.path.display()) } else { String::new() };
        let text = match (&answer.version, &answer.reason) {
            (Some(version), _) => format!("{version}{at}"),
            (None, reason) => {
                let how = if i == 0 { "does not work" } else { "does not import" };
                format!("{how}{at}: {}", reason.as_deref().unwrap_or("unknown"))
            }
        };
        vec![answer.name.to_owned(), text]
    };
    python.answers.iter().enumerate().map(row).collect()
}

/// What an audit can vary here, each tried on a process.
fn factors() -> Vec<Factor> {
    let mut all = factors::table(crate::launch::slots::cores(), |_| true);
    let proved = std::env::current_exe().and_then(|own| Ok((own, tempfile::tempdir()?))).map_err(|e| e.to_string());
    let proved = proved.and_then(|(own, place)| factors::prove(&mut all, &own, place.path()));
    if let Err(e) = proved {
        let reason = format!("could not be tried: {e}");
        all.iter_mut().for_each(|f| f.state = State::NotApplied { reason: reason.clone() });
    }
    all
}

fn state_words(state: &State) -> String {
    match state {
        State::Varied => "can be varied".to_owned(),
        State::NotApplied { reason } => format!("cannot be varied: {reason}"),
        State::NoEffect { reason } => format!("no effect here: {reason}"),
    }
}

fn factor_value(factor: &Factor) -> serde_json::Value {
    let reason = match &factor.state {
        State::Varied => None,
        State::NotApplied { reason } | State::NoEffect { reason } => Some(reason),
    };
    serde_json::json!({ "name": factor.name, "varied": factor.state == State::Varied, "reason": reason })
}

fn facts() -> Vec<(&'static str, String)> {
    let cores = crate::launch::slots::cores();
    let paths: Vec<String> = SimdPath::available().iter().map(ToString::to_string).collect();
    let chosen = match SimdPath::from_env() {
        Ok(path) => format!("{path} (of {}; SAMEBITS_SIMD forces one)", paths.join(", ")),
        Err(e) => format!("refused: {e}"),
    };
    let cases = workspace::cases().map(|c| c.len());
    let next = match &cases {
        Ok(n) if *n > 0 => "samebits test",
        _ => "samebits demo",
    };
    vec![
        ("cpu", format!("{}, {cores} cores", cpu_model())),
        ("simd path", chosen),
        ("threads", threads(None).map_or_else(|e| format!("refused: {e}"), |n| n.to_string())),
        ("subnormals", subnormals()),
        ("memory", memory()),
        ("cuda", cuda()),
        ("files", writable(&workspace::files())),
        (
            "cases",
            cases.map_or_else(
                |_| "none here".to_owned(),
                |n| format!("{n} below {}", workspace::shown(&workspace::root().join("cases"))),
            ),
        ),
        ("next", next.to_owned()),
    ]
}

fn subnormals() -> String {
    match Cpu::new(SimdPath::best(), 1, Faults::default()) {
        Ok(_) => "kept (2^-126 / 2 is not zero)".to_owned(),
        Err(e) => e.to_string(),
    }
}

fn memory() -> String {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = |name: &str| -> Option<u64> {
        text.lines().find_map(|l| l.strip_prefix(name)?.trim().strip_suffix(" kB")?.trim().parse().ok())
    };
    match (kib("MemTotal:"), kib("MemAvailable:")) {
        (Some(all), Some(free)) => format!("{} available of {}", bytes(free * 1024), bytes(all * 1024)),
        _ => "unavailable".to_owned(),
    }
}

/// Looks for the driver's library where the loader does; this version uses no GPU.
fn cuda() -> String {
    let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&named).collect();
    folders.extend(
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/wsl/lib"]
            .map(PathBuf::from),
    );
    let found = folders.iter().map(|f| f.join("libcuda.so.1")).find(|p| p.exists());
    let device = Path::new("/dev/nvidiactl").exists();
    match (found, device) {
        (Some(library), true) => {
            format!("driver found ({}); this version runs its cases on the CPU only", library.display())
        }
        (Some(library), false) => {
            format!("{} without /dev/nvidiactl; in a container, start it with --gpus all", library.display())
        }
        (None, true) => {
            "a device without libcuda.so.1; install the NVIDIA driver's libraries or set LD_LIBRARY_PATH".to_owned()
        }
        (None, false) => "no CUDA device: GPU cases are not run, the CPU goldens are the GPU's too".to_owned(),
    }
}

fn writable(folder: &Path) -> String {
    let shown = workspace::shown(folder);
    match std::fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder)) {
        Ok(_) => format!("{shown} (SAMEBITS_DIR moves it)"),
        Err(e) => format!("{shown}: {e}; set SAMEBITS_DIR to a folder that can be written"),
    }
}
