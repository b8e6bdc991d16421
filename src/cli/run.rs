//! `samebits run CASE`: trains and evaluates fold by fold.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::arm::run_session;
use super::table::{aligned, bytes};
use super::{Failure, workspace};
use crate::compare::verdict::exit;
use crate::engine::checkpoint::{FoldResult, check_replaceable, is_checkpoint};
use crate::engine::run::{Outcome, Progress};
use crate::engine::session::Session;
use crate::say;
use crate::scenario::case::{Case, Embedded, Engine};
use crate::scenario::request::{Checkpoints, RunRequest, TRACE_LIMIT};
use crate::trace::record::Level;

/// Arguments of `samebits run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A case: `suite/name` or the path of its file
    pub case: String,
    /// Change a setting: `training.lr=0.001` (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Where the trace goes; compressed when the name ends in .zst [default: below SAMEBITS_DIR]
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// How much the trace holds: off, step, tensor, op [default: the case's]
    #[arg(long)]
    pub level: Option<Level>,
    /// Keep the values of small tensors in the trace
    #[arg(long)]
    pub values: bool,
    /// Give the trace up at so many bytes before compression
    #[arg(long, value_name = "BYTES", default_value_t = TRACE_LIMIT)]
    pub trace_limit: u64,
    /// Export final tensors: safetensors and raw files with SHA256SUMS
    #[arg(long, value_name = "DIR")]
    pub export: Option<PathBuf>,
    /// Write checkpoints into this folder
    #[arg(long, value_name = "DIR")]
    pub checkpoint: Option<PathBuf>,
    /// Cycles between checkpoints; the newest is kept
    #[arg(long, value_name = "CYCLES", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..))]
    pub checkpoint_every: u64,
    /// Go on from a checkpoint, or from the newest in a folder
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,
    /// Worker threads [default: RAYON_NUM_THREADS, else the cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub threads: Option<u64>,
    /// Train on this GPU instead of the CPU: an index, a UUID, or the beginning of one
    #[arg(long)]
    pub device: Option<String>,
    /// On the GPU: cycles of one graph launch; 0 for no graphs [default: as many as fit, up to 8]
    #[arg(long, value_name = "CYCLES", requires = "device")]
    pub graph: Option<u64>,
    /// Run these folds only, in this order: `2` or `1,0`
    #[arg(long, value_name = "FOLDS", value_delimiter = ',')]
    pub folds: Option<Vec<u32>>,
    /// Repeat one arm of the case, as `samebits show CASE` names it
    #[arg(long, value_name = "NAME")]
    pub arm: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Runs it.
pub fn main(args: Args) -> Result<u8, Failure> {
    let case = workspace::case(&args.case, &args.set)?;
    if let Engine::Command(engine) = &case.engine {
        return super::command::main(&args, &case, engine);
    }
    let request = request(&args, &case)?;
    check_targets(&request)?;
    prepare(&case, &request, args.arm.as_deref())?;
    let session = Session::new(request.clone()).map_err(Failure::unverified)?;
    let progress = Bar::new(!args.json && std::io::stderr().is_terminal());
    if !args.json {
        head(&case, &session, &request);
    }
    let mut rates = Vec::new();
    let outcome = run_session(&session, &request, &mut |p| {
        if let Progress::Done { steps_per_second, .. } = &p {
            rates.push(*steps_per_second);
        }
        progress.show(&p);
    })?;
    if args.json {
        print_json(&case, &request, &outcome, &rates);
    } else {
        print_table(&request, &outcome, &rates);
    }
    match &outcome.not_finite {
        None => Ok(exit::SAME),
        Some(found) => Err(Failure::unverified(format!("{found}: the run stopped there (rule 11)"))),
    }
}

/// Outputs that would overwrite each other, or something else, are refused before anything runs.
fn check_targets(request: &RunRequest) -> Result<(), Failure> {
    let checkpoints = request.checkpoints.as_ref().map(|c| &c.folder);
    let named =
        [("--trace", request.trace.as_ref()), ("--export", request.export.as_ref()), ("--checkpoint", checkpoints)];
    let targets: Vec<(&str, PathBuf)> = named
        .into_iter()
        .filter_map(|(flag, path)| Some((flag, std::path::absolute(path?).unwrap_or_default())))
        .collect();
    for (i, (flag, path)) in targets.iter().enumerate() {
        for (other, second) in &targets[..i] {
            if path.starts_with(second) || second.starts_with(path) {
                return Err(Failure::usage(format!("{other} and {flag} name the same place: {}", path.display())));
            }
        }
    }
    if let Some(trace) = request.trace.as_ref().filter(|t| t.exists() && !t.is_file()) {
        return Err(Failure::usage(format!("--trace {}: not a regular file", trace.display())));
    }
    check_checkpoints(request)?;
    request.export.as_deref().map_or(Ok(()), check_replaceable).map_err(Failure::usage)
}

/// Checkpoints of an earlier run are gone on from, or stay: a new run would delete them one by one.
fn check_checkpoints(request: &RunRequest) -> Result<(), Failure> {
    let Some(folder) = request.checkpoints.as_ref().map(|c| &c.folder) else { return Ok(()) };
    let inside = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    let goes_on = request.resume.as_ref().is_some_and(|r| r.starts_with(folder));
    match inside.into_iter().find(|p| is_checkpoint(p)).filter(|_| !goes_on) {
        Some(found) => Err(Failure::usage(format!(
            "--checkpoint {0}: it holds {1} of an earlier run; go on from it with --resume {0}, or name another folder",
            folder.display(),
            found.file_name().unwrap_or_default().to_string_lossy()
        ))),
        None => Ok(()),
    }
}

/// A resume arm needs the base's checkpoints: makes them when they are not there.
fn prepare(case: &Case, request: &RunRequest, arm: Option<&str>) -> Result<(), Failure> {
    let missing = request.resume.as_ref().is_some_and(|r| !r.exists());
    if arm.is_none() || !missing {
        return Ok(());
    }
    super::output::remark("the base's checkpoints are not there yet: running the arm base first");
    let mut base = super::show::arm(case, "base")?.request;
    base.trace = Some(default_trace(case, Some("base")));
    super::arm::execute(&base, &mut |_| {}).map(|_| ())
}

fn request(args: &Args, case: &Case) -> Result<RunRequest, Failure> {
    let mut request = match &args.arm {
        Some(name) => super::show::arm(case, name)?.request,
        None => {
            let engine = embedded(case)?;
            RunRequest::new(engine.settings.clone(), engine.market.clone())
        }
    };
    if args.arm.is_none() {
        (request.level, request.values) = (case.level, case.values);
        request.fault = case.faults().into_iter().next().map(|(_, fault)| fault);
    }
    if let Some(level) = args.level {
        request.level = level;
    }
    request.values |= args.values;
    request.trace_limit = args.trace_limit;
    request.trace = Some(args.trace.clone().unwrap_or_else(|| default_trace(case, args.arm.as_deref())));
    request.export = args.export.clone().or(request.export);
    request.resume = args.resume.clone().or(request.resume);
    if let Some(threads) = args.threads {
        request.threads = usize::try_from(threads).ok();
    }
    if let Some(device) = &args.device {
        (request.device, request.kernels) = (Some(device.clone()), Some(workspace::kernels()));
        request.graph = args.graph;
    }
    request.folds = args.folds.clone().or(request.folds);
    if let Some(folder) = &args.checkpoint {
        let (folder, every) = (folder.clone(), Some(args.checkpoint_every));
        request.checkpoints = Some(Checkpoints { folder, cuts: Vec::new(), every });
    }
    Ok(request)
}

fn embedded(case: &Case) -> Result<&Embedded, Failure> {
    case.embedded().ok_or_else(|| Failure::usage(format!("{}: its engine is a command", case.name)))
}

fn default_trace(case: &Case, arm: Option<&str>) -> PathBuf {
    let name = case.name.replace('/', "--");
    let arm = arm.map_or_else(String::new, |a| format!(".{a}"));
    workspace::made_files().join("runs").join(format!("{name}{arm}.jsonl.zst"))
}

fn head(case: &Case, session: &Session, request: &RunRequest) {
    let settings = &request.settings;
    let e = &settings.engine;
    say!("case    {}: {}", case.name, case.about);
    say!(
        "engine  {} {}, seed {}, {}, {} threads",
        e.kind,
        e.size,
        e.seed,
        session.cpu().path(),
        session.cpu().threads()
    );
    let market = settings.market.file.as_deref().unwrap_or("synthetic");
    say!("market  {market}: {} folds", session.folds().len());
    for note in session.market_notes() {
        say!("        {note}");
    }
    let updates = settings.training.updates() * session.folds().len() as u64;
    say!(
        "trace   level {}, about {} before compression",
        request.level,
        bytes(super::show::trace_bytes(request.level, updates))
    );
}

fn print_table(request: &RunRequest, outcome: &Outcome, rates: &[f64]) {
    say!("{}", fold_table(&outcome.folds, rates));
    if request.resume.is_some() && rates.is_empty() {
        say!("resumed after the last cycle: nothing was left to train");
    }
    say!("weights {}", outcome.weights);
    say!("state   {}", outcome.root);
    if let Some(trace) = &request.trace {
        let size = std::fs::metadata(trace).map_or(0, |m| m.len());
        say!("trace   {} ({})", workspace::shown(trace), bytes(size));
    }
    if let Some(export) = &request.export {
        say!("export  {}", workspace::shown(export));
    }
}

fn fold_table(folds: &[FoldResult], rates: &[f64]) -> String {
    let head = ["fold", "updates", "return", "Sharpe", "drawdown", "turnover", "updates/s"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let skipped = folds.len().saturating_sub(rates.len());
    for (i, fold) in folds.iter().enumerate() {
        let number = |x: Option<f64>, digits: usize| x.map_or_else(|| "-".to_owned(), |x| format!("{x:.digits$}"));
        let m = fold.metrics;
        let rate = i.checked_sub(skipped).and_then(|i| rates.get(i).copied());
        rows.push(vec![
            fold.fold.to_string(),
            fold.updates.to_string(),
            number(m.map(|m| m.total_return), 5),
            number(m.map(|m| m.sharpe), 2),
            number(m.map(|m| m.max_drawdown), 5),
            number(m.map(|m| m.turnover), 2),
            number(rate, 1),
        ]);
    }
    aligned(&rows, 0)
}

fn print_json(case: &Case, request: &RunRequest, outcome: &Outcome, rates: &[f64]) {
    let path = |p: &Option<PathBuf>| p.as_deref().map(Path::to_owned);
    let value = json!({
        "schema": "samebits-run/1",
        "case": case.name,
        "folds": outcome.folds,
        "updates_per_second": rates,
        "weights": outcome.weights.to_string(),
        "state": outcome.root.to_string(),
        "trace": path(&request.trace),
        "export": path(&request.export),
        "not_finite": outcome.not_finite.as_ref().map(ToString::to_string),
    });
    say!("{value}");
}

/// Progress on a terminal; quiet lines otherwise.
struct Bar {
    bar: Option<ProgressBar>,
}

impl Bar {
    fn new(terminal: bool) -> Self {
        let style = ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} cycles, {elapsed} gone, {eta} left");
        let bar = style.ok().filter(|_| terminal).map(|style| {
            let bar = ProgressBar::new(0).with_style(style);
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Bar { bar }
    }

    fn show(&self, progress: &Progress) {
        let Some(bar) = &self.bar else { return };
        match progress {
            Progress::Fold { fold, cycles } => {
                bar.reset();
                bar.set_length(*cycles);
                bar.set_prefix(format!("fold {fold}"));
            }
            Progress::Cycle(done) => bar.set_position(*done),
            Progress::Done { .. } => bar.finish_and_clear(),
        }
    }
}
