//! A case whose engine is a command: its arms in fresh folders, each against the base, the base against the golden.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::case::unmoved_generators;
use super::golden::Golden;
use super::report::{ArmReport, Base, CaseReport, Options, conclude, judge_golden, seed_ignored};
use crate::compare::left::{self, Left, Wanted};
use crate::compare::unlooked;
use crate::compare::verdict::{Comparison, Reason, Verdict};
use crate::launch::factors::{self, Factor, Setting, State, padded};
use crate::launch::job::{Job, Ran, STDOUT, TRACES};
use crate::launch::process::End;
use crate::launch::project::{Change, Watch, shared};
use crate::launch::slots::{Slots, cores};
use crate::scenario::case::{Case, Scope};
use crate::scenario::command::CommandEngine;
use crate::scenario::copies::Copies;
use crate::scenario::outputs::Outputs;

/// One run of a plan, and whether it must be the same as the base.
#[derive(Clone, Debug)]
pub struct CommandArm {
    /// `base`, `process-1`, `knob-threads-2`, `vary-locale`, ...
    pub name: String,
    /// what it changes
    pub setting: Setting,
    /// false for another seed
    pub must_be_same: bool,
    /// why this machine cannot run it
    pub not_applied: Option<String>,
}

/// The command of a case as a job. `files` is not shown to it.
pub fn job(case: &Case, engine: &CommandEngine, samebits: &Path, files: &Path) -> Job {
    let first = |knob: &crate::scenario::command::Knob| knob.values.first().cloned().unwrap_or_default();
    let folder = fs::canonicalize(&engine.folder).unwrap_or_else(|_| engine.folder.clone());
    let files = fs::canonicalize(files).unwrap_or_else(|_| files.to_owned());
    let outputs = Outputs::new(&engine.run.outputs).unwrap_or_default();
    Job {
        samebits: samebits.to_owned(),
        argv: engine.run.command.clone(),
        env: engine.run.env.clone(),
        knobs: engine.knobs.iter().map(|(name, knob)| (name.clone(), first(knob))).collect(),
        leave_out: vec![files, folder.join(".samebits")],
        project: folder,
        // Both were checked when the case was read.
        copies: Copies::new(&engine.run.copy, &outputs).unwrap_or_default(),
        outputs,
        limit: Duration::from_secs(case.timeout_s),
        level: case.level,
        seed: engine.run.seed,
        scope: case.compare.clone(),
    }
}

/// A name for an arm's folder: values of knobs may hold anything.
pub fn folder_name(arm: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    match arm.chars().all(plain) && arm.len() < 100 {
        true => arm.to_owned(),
        false => {
            let slug: String = arm.chars().take(40).map(|c| if plain(c) { c } else { '-' }).collect();
            format!("{slug}.{}", &crate::digest::sha::sha256(arm.as_bytes()).to_string()[..12])
        }
    }
}

/// All arms of a case, the base first, without a look at what this machine can vary.
pub fn arms(engine: &CommandEngine) -> Vec<CommandArm> {
    arms_under(engine, &varied(engine))
}

/// The arms under factors in the state that they were found in.
fn arms_under(engine: &CommandEngine, factors: &[Factor]) -> Vec<CommandArm> {
    let arm = |name: String, setting: Setting| CommandArm { name, setting, must_be_same: true, not_applied: None };
    let mut all = vec![arm("base".to_owned(), Setting::default())];
    all.extend((1..=engine.arms.processes).map(|i| arm(format!("process-{i}"), Setting::default())));
    for (name, knob) in engine.knobs.iter().filter(|(_, k)| k.must_not_matter) {
        let others = &knob.values[1..];
        let settings = factors::knob(name, others).settings.into_iter().skip(1);
        all.extend(others.iter().zip(settings).map(|(value, s)| arm(format!("knob-{name}-{value}"), s)));
    }
    for factor in factors {
        let many = factor.settings.len() > 2;
        let not_applied = match &factor.state {
            State::Varied => None,
            State::NotApplied { reason } | State::NoEffect { reason } => Some(reason.clone()),
        };
        for (i, setting) in factor.settings.iter().enumerate().skip(1) {
            let name = if many { format!("vary-{}-{i}", factor.name) } else { format!("vary-{}", factor.name) };
            all.push(CommandArm { not_applied: not_applied.clone(), ..arm(name, setting.clone()) });
        }
    }
    for level in &engine.arms.trace {
        all.push(arm(format!("trace-{level}"), Setting { level: Some(*level), ..Setting::default() }));
    }
    if let Some(seed) = engine.arms.other_seed {
        let setting = Setting { seed: Some(seed), ..Setting::default() };
        all.push(CommandArm { must_be_same: false, ..arm("other-seed".to_owned(), setting) });
    }
    all
}

fn varied(engine: &CommandEngine) -> Vec<Factor> {
    factors::table(cores(), |name| engine.arms.vary.iter().any(|v| v == name))
}

/// The arms, those that this machine cannot vary marked with the reason.
fn provable(engine: &CommandEngine, options: &Options<'_>) -> Result<Vec<CommandArm>, String> {
    let mut factors = varied(engine);
    let place = tempfile::tempdir().map_err(|e| e.to_string())?;
    factors::prove(&mut factors, &options.program, place.path())?;
    Ok(arms_under(engine, &factors))
}

/// One run that ended.
struct Run {
    left: Result<Left, Verdict>,
    seconds: f64,
    /// what changed in the project while it went on
    wrote: Vec<Change>,
    /// what of it nothing is compared with
    unlooked: Vec<String>,
}

impl Run {
    fn without(verdict: Verdict) -> Self {
        Run { left: Err(verdict), seconds: 0.0, wrote: Vec::new(), unlooked: Vec::new() }
    }
}

struct Work<'a> {
    case: &'a Case,
    job: Job,
    slots: &'a Slots,
    folder: PathBuf,
    wanted: Option<Wanted>,
    watch: Watch,
}

impl Work<'_> {
    fn run(&self, name: &str, setting: &Setting) -> Run {
        let _taken = self.slots.take(if setting.alone { usize::MAX } else { 1 });
        let folder = self.folder.join(folder_name(name));
        let failed = |e: String| Run::without(Verdict::unverified(Reason::EngineFailed, e));
        if let Err(e) = fs::create_dir_all(&folder) {
            return failed(format!("{}: {e}", folder.display()));
        }
        let ticket = self.watch.before();
        let ran = self.job.run(&folder, setting);
        let wrote = self.watch.after(ticket);
        match ran {
            Err(e) => failed(format!("{}: {e}", folder.display())),
            Ok(ran) => {
                let wanted = self.wanted.unwrap_or_else(|| left::wanted(&folder, &self.job.outputs));
                let seconds = ran.finished.elapsed.as_secs_f64();
                let left = what_is_left(&self.job, &folder, &ran, wanted);
                let unlooked = left.as_ref().map(|l| unlooked::of(&self.job, &ran, l)).unwrap_or_default();
                Run { left, seconds, wrote, unlooked }
            }
        }
    }

    fn run_all(&self, arms: &[CommandArm]) -> Vec<Run> {
        std::thread::scope(|scope| {
            let start = |arm: &CommandArm| {
                let arm = arm.clone();
                scope.spawn(move || match &arm.not_applied {
                    None => self.run(&arm.name, &arm.setting),
                    Some(reason) => Run::without(Verdict::NotRun { detail: format!("not applied: {reason}") }),
                })
            };
            let started: Vec<_> = arms.iter().map(start).collect();
            let panicked =
                || Run::without(Verdict::unverified(Reason::EngineFailed, "the thread that ran it panicked"));
            started.into_iter().map(|t| t.join().unwrap_or_else(|_| panicked())).collect()
        })
    }
}

/// The evidence of a run that ended, or why there is none.
pub fn what_is_left(job: &Job, folder: &Path, ran: &Ran, wanted: Wanted) -> Result<Left, Verdict> {
    let stderr = ran.finished.stderr.trim();
    let told = if stderr.is_empty() { "nothing on stderr" } else { stderr };
    match &ran.finished.end {
        End::Ok => left::read(folder, &ran.work, &job.outputs, &ran.stdout, wanted)
            .map_err(|e| Verdict::unverified(e.reason, e.detail)),
        End::Failed(how) => Err(Verdict::unverified(Reason::EngineFailed, format!("{how}: {told}"))),
        End::TimedOut(limit) => Err(Verdict::unverified(Reason::TimedOut, format!("after {limit} s; stderr: {told}"))),
        End::Interrupted => Err(Verdict::NotRun { detail: "interrupted".into() }),
    }
}

/// Verifies a case whose engine is a command.
pub fn verify(case: &Case, engine: &CommandEngine, options: &Options<'_>) -> CaseReport {
    let folder = options.work.join(case.name.replace('/', "--"));
    let files = options.work.parent().and_then(Path::parent).unwrap_or(&options.work);
    let job = job(case, engine, &options.program, files);
    let watch = Watch::new(&job.project, &[job.leave_out.clone(), written(case, options)].concat());
    let mut work = Work { case, job, slots: options.slots, folder: folder.clone(), wanted: None, watch };
    let mut report = CaseReport::new(case, Verdict::Same);
    let arms = match provable(engine, options) {
        Ok(arms) => arms,
        Err(e) => return CaseReport::new(case, Verdict::unverified(Reason::EngineFailed, e)),
    };
    let base = work.run("base", &Setting::default());
    work.wanted = Some(left::wanted(&folder.join("base"), &work.job.outputs));
    let others = if base.left.is_ok() { work.run_all(&arms[1..]) } else { Vec::new() };
    let of_base = base.left.as_ref().ok();
    let runs = || arms.iter().zip(std::iter::once(&base).chain(&others));
    report.shared = shared(runs().map(|(arm, run)| (arm.name.clone(), run.wrote.as_slice())));
    report.not_looked_at = base.unlooked.iter().cloned().chain(work.watch.unlooked()).collect();
    report.arms = runs().map(|(arm, run)| judge(case, arm, of_base, run)).collect();
    if let Ok(left) = &base.left {
        judge_golden(case, options, &LeftBase { work: &work, left }, &mut report);
    }
    conclude(case, options, &folder, &mut report);
    report
}

/// What `samebits test` itself writes in a project, for this case or another one beside it.
fn written(case: &Case, options: &Options<'_>) -> Vec<PathBuf> {
    let given = [&options.pending, &options.save, &options.against].into_iter().flatten();
    let mut all: Vec<PathBuf> = given.filter_map(|path| std::path::absolute(path).ok()).collect();
    let snapshots = super::golden::path(case).ancestors().nth(2).map(Path::to_owned);
    all.extend(snapshots.and_then(|path| std::path::absolute(path).ok()));
    all
}

fn judge(case: &Case, arm: &CommandArm, base: Option<&Left>, run: &Run) -> ArmReport {
    let (verdict, comparison) = match (&run.left, base) {
        (Err(verdict), _) => (verdict.clone(), None),
        (Ok(_), _) if arm.name == "base" => (Verdict::Same, None),
        (Ok(_), None) => (Verdict::unverified(Reason::NoEvidence, "the base run failed"), None),
        (Ok(left), Some(base)) if arm.must_be_same => {
            let comparison = left::compare(base, left, &case.compare);
            (comparison.verdict.clone(), Some(comparison))
        }
        (Ok(left), Some(base)) => must_differ(base, left),
    };
    let command = format!("samebits run {} --arm {}", case.name, arm.name);
    ArmReport { name: arm.name.clone(), verdict, comparison, seconds: run.seconds, command }
}

/// Another seed must move every generator that a trace tells of; without one, the evidence.
fn must_differ(base: &Left, other: &Left) -> (Verdict, Option<Comparison>) {
    let generators = base.traces.first().zip(other.traces.first()).and_then(|(a, b)| unmoved_generators(a, b));
    match generators {
        Some(unmoved) if unmoved.is_empty() => (Verdict::Same, None),
        Some(unmoved) => seed_ignored(&format!("the generators {}", unmoved.join(", "))),
        None if base.key(&Scope::default()) != other.key(&Scope::default()) => (Verdict::Same, None),
        None => seed_ignored("everything that it leaves"),
    }
}

/// The base run of a command: whatever it left.
struct LeftBase<'a> {
    work: &'a Work<'a>,
    left: &'a Left,
}

impl Base for LeftBase<'_> {
    fn golden(&self) -> Golden {
        Golden::of_left(self.left)
    }

    fn saved(&self, folder: &Path) -> PathBuf {
        folder.join(&self.work.case.name)
    }

    fn against(&self, saved: &Path) -> Comparison {
        let stdout = match crate::trace::files::read(&saved.join(STDOUT), crate::launch::command::STDOUT_LIMIT) {
            Ok(stdout) => stdout,
            Err(e) => return Comparison::unverified(Reason::NoEvidence, format!("{}: {e}", saved.display())),
        };
        let wanted = self.work.wanted.unwrap_or(Wanted::Outputs);
        match left::read(saved, &padded(saved, 0), &self.work.job.outputs, &stdout, wanted) {
            Ok(old) => left::compare(&old, self.left, &self.work.case.compare),
            Err(e) => Comparison::unverified(e.reason, e.detail),
        }
    }

    fn save(&self, to: &Path) -> std::io::Result<()> {
        save(&self.work.folder.join("base"), &self.work.job.outputs, to)
    }

    fn again(&self) -> Option<Verdict> {
        let again = self.work.run("base-again", &Setting::default()).left.ok()?;
        Some(left::compare(self.left, &again, &Scope::default()).verdict)
    }
}

/// Copies a run's evidence; it appears under its name only when complete.
fn save(from: &Path, outputs: &Outputs, to: &Path) -> std::io::Result<()> {
    let parent = to.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent)?;
    let part = tempfile::Builder::new().prefix(".samebits-").tempdir_in(parent)?;
    let copy = |source: &Path, target: &Path| -> std::io::Result<()> {
        fs::create_dir_all(target.parent().unwrap_or(Path::new(".")))?;
        fs::copy(source, target).map(|_| ())
    };
    copy(&from.join(STDOUT), &part.path().join(STDOUT))?;
    let (work, target) = (padded(from, 0), padded(part.path(), 0));
    for (_, files) in outputs.found(&work)? {
        files.iter().try_for_each(|file| copy(&work.join(file), &target.join(file)))?;
    }
    for entry in fs::read_dir(from.join(TRACES))? {
        let name = entry?.file_name();
        copy(&from.join(TRACES).join(&name), &part.path().join(TRACES).join(&name))?;
    }
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::rename(part.keep(), to)
}
