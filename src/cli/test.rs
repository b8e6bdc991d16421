//! `samebits test [FILTER]`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};

use indicatif::{ProgressBar, ProgressStyle};

use super::waiting::{self, Running};
use super::{Failure, workspace};
use crate::compare::verdict::{Verdict, exit};
use crate::engine::cuda::device::devices;
use crate::launch::process::INTERRUPTED;
use crate::launch::slots::{Slots, cores};
use crate::report::junit::{self, Planned};
use crate::report::summary::Counts;
use crate::report::text;
use crate::scenario::case::{Case, Need};
use crate::trace::writer::write_atomically;
use crate::verify::case::{arm_names, verify};
use crate::verify::golden;
use crate::verify::report::{CaseReport, Options};
use crate::{say, tell};

/// Arguments of `samebits test`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Cases whose `suite/name` contains one of these [default: all]
    pub filter: Vec<String>,
    /// Add the cases of suite `slow`
    #[arg(long)]
    pub slow: bool,
    /// Run the embedded engine on this GPU: an index, a UUID, or the beginning of one. Planted faults and cases of
    /// commands are left out
    #[arg(long)]
    pub device: Option<String>,
    /// Fail when cases that need this did not run: gpu, all
    #[arg(long, value_name = "WHAT", value_parser = ["gpu", "all"])]
    pub require: Option<String>,
    /// Take every n-th case only, from the i-th: `1/4`
    #[arg(long, value_name = "i/n", value_parser = parse_shard)]
    pub shard: Option<Shard>,
    /// Compare with base traces that an earlier run saved, instead of the goldens
    #[arg(long, value_name = "DIR")]
    pub against: Option<PathBuf>,
    /// Save base traces for a later `--against`
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
    /// Write pending goldens below this folder instead of beside the accepted ones
    #[arg(long, value_name = "DIR")]
    pub pending: Option<PathBuf>,
    /// Write a JUnit report
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Keep the traces of green cases
    #[arg(long)]
    pub keep: bool,
    /// Deal planted faults out under other mutants' names
    #[arg(long, value_name = "SEED", hide = true)]
    pub shuffle_mutants: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Exit codes for `git bisect run`: 0 same, 1 different, 125 cannot tell, 128 usage
    #[arg(long)]
    pub git_bisect: bool,
}

/// Part i of n.
#[derive(Clone, Copy, Debug)]
pub struct Shard {
    i: usize,
    n: usize,
}

fn parse_shard(text: &str) -> Result<Shard, String> {
    let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match parts {
        Some((i, n)) if i >= 1 && i <= n => Ok(Shard { i, n }),
        _ => Err("expected i/n with 1 <= i <= n, such as 2/4".to_owned()),
    }
}

/// Runs it.
pub fn main(args: Args) -> Result<u8, Failure> {
    check_targets(&args)?;
    let (cases, left_out) = chosen(&args)?;
    super::interruptible();
    let planned: Vec<Planned> = match &args.junit {
        Some(_) => cases.iter().map(|c| (c.name.clone(), arm_names(c, args.against.is_some()))).collect(),
        None => Vec::new(),
    };
    let reports = verify_all(&args, &cases)?;
    let written = args.junit.as_ref().map_or(Ok(()), |path| write_junit(path, &planned, &reports));
    let counts = Counts::of(&reports, left_out);
    let require = match args.require.as_deref() {
        Some("gpu") => reports.iter().zip(&cases).any(|(r, c)| needs_gpu(c) && r.verdict.word() == "not run"),
        Some(_) => counts.not_run > 0 || counts.code(true) != counts.code(false),
        None => false,
    };
    let interrupted = INTERRUPTED.load(Ordering::Relaxed);
    let orphans =
        if args.filter.is_empty() { golden::orphans(&workspace::root(), &workspace::cases()?) } else { Vec::new() };
    let failed = interrupted || written.is_err() || !orphans.is_empty();
    let code = match counts.code(require) {
        exit::SAME | exit::NOTHING_RAN if failed => exit::UNVERIFIED,
        code => code,
    };
    if args.json {
        say!(
            "{}",
            serde_json::json!({
                "schema": "samebits-test/1", "cases": reports, "counts": counts, "orphans": orphans, "exit": code
            })
        );
    } else {
        say!("{}", counts.line());
    }
    for orphan in &orphans {
        let orphan = workspace::shown(orphan);
        super::output::complain(&format!("{orphan}: no case produces this golden; remove it, or bring its case back"));
    }
    if interrupted {
        super::output::remark("interrupted: the cases left are counted as not run");
    }
    if let Err(e) = written {
        super::output::complain(&e);
    }
    Ok(code)
}

fn write_junit(path: &Path, planned: &[Planned], reports: &[CaseReport]) -> Result<(), String> {
    let xml = junit::render(planned, reports)?;
    write_atomically(path, xml.as_bytes()).map_err(|e| format!("{}: {e}", path.display()))
}

/// Everything that will be written can be: found out before hours of work, not after.
fn check_targets(args: &Args) -> Result<(), Failure> {
    let folder_of = |file: &PathBuf| file.parent().map_or_else(PathBuf::new, Path::to_owned);
    let mut folders: Vec<PathBuf> = args.junit.iter().map(folder_of).collect();
    folders.extend(args.save.clone());
    folders.extend(args.pending.clone());
    for folder in folders {
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        std::fs::create_dir_all(&folder)
            .and_then(|()| tempfile::tempfile_in(&folder))
            .map_err(|e| Failure::usage(format!("{}: cannot be written: {e}", folder.display())))?;
    }
    if let Some(file) = args.junit.as_ref().filter(|f| f.exists() && !f.is_file()) {
        return Err(Failure::usage(format!("{}: not a regular file", file.display())));
    }
    if let Some(folder) = args.against.as_ref().filter(|f| !f.is_dir()) {
        let how = "an earlier `samebits test --save DIR` makes one";
        return Err(Failure::usage(format!("--against {}: not a folder; {how}", folder.display())));
    }
    let real = |p: &Option<PathBuf>| p.as_ref().and_then(|p| p.canonicalize().ok());
    if real(&args.save).is_some() && real(&args.save) == real(&args.against) {
        return Err(Failure::usage("--save and --against name the same folder: the base would be overwritten"));
    }
    Ok(())
}

fn needs_gpu(case: &Case) -> bool {
    case.needs.iter().any(|n| matches!(n, Need::Gpu | Need::TwoGpus))
}

/// Cases of the filter, and how many slow ones were left out.
fn chosen(args: &Args) -> Result<(Vec<Case>, usize), Failure> {
    let all = workspace::cases()?;
    let fits = |name: &str| args.filter.is_empty() || args.filter.iter().any(|f| name.contains(f.as_str()));
    let names: Vec<&String> = all.keys().filter(|n| fits(n)).collect();
    if names.is_empty() {
        let message = match args.filter.is_empty() {
            true => "no cases below cases/".to_owned(),
            false => format!("no case matches {:?}; `samebits list` shows all", args.filter.join(" ")),
        };
        return Err(Failure { code: exit::NOTHING_RAN, message });
    }
    let wanted = |n: &&&String| args.slow || !n.starts_with("slow/") || args.filter.iter().any(|f| f == n.as_str());
    let (run, out): (Vec<&String>, Vec<&String>) = names.iter().partition(wanted);
    let shard = args.shard.unwrap_or(Shard { i: 1, n: 1 });
    let mine = run.into_iter().enumerate().filter(|(k, _)| k % shard.n == shard.i - 1);
    let cases = mine.map(|(_, name)| Case::load(&all[name], &[]).map_err(Failure::usage));
    let mut cases = cases.collect::<Result<Vec<Case>, Failure>>()?;
    if args.device.is_some() {
        cases.retain(|c| c.mutant.is_none() && c.embedded().is_some());
    }
    Ok((cases, out.len()))
}

fn verify_all(args: &Args, cases: &[Case]) -> Result<Vec<CaseReport>, Failure> {
    let program = std::env::current_exe().map_err(Failure::unverified)?;
    let cores = cores();
    let slots = Slots::new(cores);
    let work = workspace::made_files().join("work").join(std::process::id().to_string());
    sweep(&workspace::files().join("work"));
    let options = Options {
        program,
        slots: &slots,
        work: work.clone(),
        device: args.device.clone().map(|device| (device, workspace::kernels())),
        keep: args.keep,
        pending: args.pending.clone(),
        against: args.against.clone(),
        save: args.save.clone(),
        shuffle: args.shuffle_mutants,
    };
    let no_device = args.device.as_ref().and_then(|_| devices().err()).map(|e| e.to_string());
    let printer = Printer::new(cases.len(), !args.json);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let (ended, told) = channel();
    std::thread::scope(|scope| {
        let printer = &printer;
        scope.spawn(move || printer.wait(&told));
        // One case more than there are slots, so that none stands idle while a case ends.
        for _ in 0..=cores {
            // The last of them to go ends the wait.
            let ended = ended.clone();
            let (next, options, done, no_device) = (&next, &options, &done, &no_device);
            scope.spawn(move || {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    printer.running.begin(&case.name);
                    let report = match (INTERRUPTED.load(Ordering::Relaxed), no_device) {
                        (true, _) => CaseReport::not_run(case, "interrupted"),
                        (_, Some(lacks)) => CaseReport::not_run(case, lacks),
                        _ => verify(case, options),
                    };
                    printer.case(&report);
                    let _ = ended.send(());
                    done.lock().unwrap_or_else(|e| e.into_inner()).push(report);
                }
            });
        }
        drop(ended);
    });
    let _ = std::fs::remove_dir(&work);
    let mut reports = done.into_inner().unwrap_or_else(|e| e.into_inner());
    reports.sort_by(|a, b| a.case.cmp(&b.case));
    Ok(reports)
}

/// Deletes the work folders of test runs that were killed.
fn sweep(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let id: Option<i32> = entry.file_name().to_str().and_then(|n| n.parse().ok());
        let gone =
            |id| rustix::process::Pid::from_raw(id).is_none_or(|p| rustix::process::test_kill_process(p).is_err());
        if id.is_some_and(gone) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A line a case as it ends, above a progress bar on a terminal; elsewhere a line on standard error in long silence.
struct Printer {
    bar: Option<ProgressBar>,
    lines: bool,
    running: Running,
    all: usize,
    ended: AtomicUsize,
}

impl Printer {
    fn new(cases: usize, lines: bool) -> Self {
        let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} cases, {elapsed} gone, {eta} left").ok();
        let bar = style.filter(|_| lines && std::io::stderr().is_terminal());
        let bar = bar.map(|style| ProgressBar::new(cases as u64).with_style(style));
        Printer { bar, lines, running: Running::default(), all: cases, ended: AtomicUsize::new(0) }
    }

    /// Until every case has ended.
    fn wait(&self, ended: &Receiver<()>) {
        waiting::watch(ended, waiting::QUIET, || {
            if self.bar.is_none() {
                let done = self.ended.load(Ordering::Relaxed);
                super::output::remark(&waiting::words(done, self.all, &self.running.list()));
            }
        });
    }

    fn case(&self, report: &CaseReport) {
        self.running.end(&report.case);
        self.ended.fetch_add(1, Ordering::Relaxed);
        let text = || {
            let details = match report.verdict {
                Verdict::Same | Verdict::NotRun { .. } => String::new(),
                _ => text::details(report),
            };
            format!("{}\n{}{details}", text::line(report), text::notes(report))
        };
        match &self.bar {
            Some(bar) => bar.suspend(|| tell!("{}", text())),
            None if self.lines => tell!("{}", text()),
            None => {}
        }
        self.bar.iter().for_each(|b| b.inc(1));
    }
}
