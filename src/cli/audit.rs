//! `samebits audit -- COMMAND`: many fresh processes of any command, and what explains that they differ.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::{Failure, workspace};
use crate::audit::confirm::{RUNS_MAX, RUNS_MIN};
use crate::audit::outcome::{Ending, Outcome};
use crate::audit::session::{CANDIDATES, Event, Options, Session, Stop};
use crate::audit::store::{Manifest, SCHEMA, Store, place};
use crate::digest::sha::{Digest, sha256};
use crate::launch::factors::{self, Factor, State};
use crate::launch::job::Job;
use crate::launch::slots::cores;
use crate::launch::surroundings::find;
use crate::scenario::case::Engine;
use crate::scenario::copies::Copies;
use crate::scenario::factor::NAMES;
use crate::scenario::outputs::Outputs;
use crate::trace::privacy::Mask;
use crate::trace::record::Level;
use crate::{say, tell};

/// Arguments of `samebits audit`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each run gets a fresh working directory in which the files of the current one appear; the declared \
outputs are those of the run itself, and what --copy names is its own copy. In the command {dir} stands for that directory. SAMEBITS_TRACE, SAMEBITS_LEVEL and \
SAMEBITS_SEED are set for a recorder.\n\n  samebits audit -n 8 --output 'out/*.safetensors' -- python train.py --seed 1"
)]
pub struct Args {
    /// Runs
    #[arg(short, long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pub n: u32,
    /// What a run writes, relative to its working directory; *, ?, [] and ** are understood (repeatable) [default: traces
    /// if it writes any, else standard output]
    #[arg(long, value_name = "PATH")]
    pub output: Vec<String>,
    /// Give each run a copy of this file or folder of the project, where the others are links (repeatable)
    #[arg(long, value_name = "PATH")]
    pub copy: Vec<String>,
    /// Vary these factors only, or `none` (repeatable) [default: all; `samebits audit --factors` lists them]
    #[arg(long, value_name = "FACTOR")]
    pub vary: Vec<String>,
    /// Vary an environment variable as well (repeatable)
    #[arg(long, value_name = "NAME=V1[,V2...]")]
    pub env: Vec<String>,
    /// Runs at a time [default: the cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
    /// Seconds for one run; its process group is ended then [default: 3600, or the case's]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: Option<u64>,
    /// Seed of the order and of the settings of the runs
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Level asked of a recorder: off, step, tensor, op
    #[arg(long, default_value_t = Level::Step)]
    pub level: Level,
    /// Where the audit's files go [default: below SAMEBITS_DIR]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Go on with an interrupted audit of the same command and options
    #[arg(long = "continue")]
    pub go_on: bool,
    /// Keep the files of all runs, not only of the first two of each outcome
    #[arg(long)]
    pub keep: bool,
    /// List the factors and whether they can be varied here
    #[arg(long)]
    pub factors: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// A case instead of a command: `suite/name` or the path of its file; its knobs that must not matter are varied too
    #[arg(value_name = "CASE")]
    pub case: Vec<String>,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Runs it.
pub fn main(args: Args) -> Result<u8, Failure> {
    if args.factors {
        return list(&args);
    }
    let start = Instant::now();
    let job = job(&args)?;
    super::interruptible();
    let (store, manifest) = open(&args, &job)?;
    let watch = Watch::new(!args.json);
    let tell = |event: Event<'_>| watch.see(&event);
    let mut session = Session::new(
        &job,
        &store,
        manifest.factors.clone(),
        Options { jobs: jobs(&args), keep: args.keep, again: args.go_on },
        &tell,
    );
    let result = session.audit(manifest.runs, manifest.seed, &manifest.command);
    watch.end();
    let folder = workspace::shown(store.folder());
    let mut report = result.map_err(|stop| match stop {
        Stop::Interrupted => Failure::unverified(format!(
            "interrupted: what is done is kept in {folder}; the same command with --continue goes on"
        )),
        stop => Failure::unverified(stop),
    })?;
    (report.volatile.seconds, report.volatile.folder) = (start.elapsed().as_secs_f64(), folder);
    // An audit that waits for runs to be made again is not finished.
    if report.killed.is_empty() {
        store.report(&report).map_err(Failure::unverified)?;
    }
    match args.json {
        true => say!("{}", serde_json::to_string(&report).map_err(Failure::unverified)?),
        false => tell!("{}", crate::report::audit::text(&report)),
    }
    Ok(report.code())
}

fn jobs(args: &Args) -> usize {
    args.jobs.map_or_else(cores, |n| n as usize)
}

fn job(args: &Args) -> Result<Job, Failure> {
    match (args.case.as_slice(), args.command.is_empty()) {
        ([], _) => job_of_command(args),
        ([name], true) => job_of_case(args, name),
        ([_], false) => Err(Failure::usage("give a case or a command, not both")),
        (words, _) => {
            Err(Failure::usage(format!("put `--` before the command: samebits audit -- {}", words.join(" "))))
        }
    }
}

/// A case's engine; that of this program is run as `samebits run`.
fn job_of_case(args: &Args, name: &str) -> Result<Job, Failure> {
    let case = workspace::case(name, &[]).map_err(|e| match find(name, Path::new(".")) {
        Some(_) => Failure::usage(format!("{name:?} is a program, and no case: put `--` before the command")),
        None => e,
    })?;
    if !args.output.is_empty() {
        return Err(Failure::usage("--output: a case names its outputs itself, in [engine] outputs"));
    }
    let samebits = std::env::current_exe().map_err(Failure::unverified)?;
    if let Engine::Command(engine) = &case.engine {
        let job = crate::verify::command::job(&case, engine, &samebits, &workspace::files());
        let limit = args.timeout.map_or(job.limit, Duration::from_secs);
        let copies = copies(&[job.copies.texts(), args.copy.clone()].concat(), &job.outputs, &job.project)?;
        let leave_out = [job.leave_out.clone(), own_folder(args)?].concat();
        return Ok(Job { level: args.level, limit, copies, leave_out, ..job });
    }
    let scope = case.compare.clone();
    let path = std::path::absolute(&case.path).map_err(Failure::unverified)?;
    let (Some(program), Some(path)) = (samebits.to_str(), path.to_str()) else {
        return Err(Failure::usage("paths of this program and of the case must be UTF-8"));
    };
    let argv = [program, "run", path, "--trace", "{trace}", "--level", "{level}"].map(str::to_owned).to_vec();
    let root = std::path::absolute(workspace::root()).map_err(Failure::unverified)?;
    let leave_out = [vec![workspace::files(), root.join(".samebits"), root.join("target")], own_folder(args)?].concat();
    let copies = copies(&args.copy, &Outputs::default(), &root)?;
    Ok(Job {
        samebits: samebits.clone(),
        argv,
        env: Default::default(),
        knobs: Default::default(),
        project: root,
        leave_out,
        outputs: Outputs::default(),
        copies,
        limit: Duration::from_secs(args.timeout.unwrap_or(3600)),
        level: args.level,
        seed: None,
        scope,
    })
}

fn job_of_command(args: &Args) -> Result<Job, Failure> {
    let here = std::env::current_dir().map_err(Failure::unverified)?;
    let Some(program) = args.command.first() else {
        return Err(Failure::usage("what is to be audited? samebits audit -n 8 --output 'out/*' -- COMMAND ARGUMENTS"));
    };
    if find(program, &here).is_none() {
        let advice = "a path relative to this folder, or a name along PATH, is expected after `--`";
        return Err(Failure::usage(format!("{program:?}: no such program; {advice}")));
    }
    let mask = Mask::from_environment();
    if let Some(secret) = args.env.iter().chain(&args.output).chain(&args.copy).find(|text| mask.hides(text)) {
        let name = secret.split('=').next().filter(|n| n.len() < secret.len()).unwrap_or("--output or --copy");
        return Err(Failure::usage(format!("{name}: it holds what looks like a secret, and would be written down")));
    }
    if let Some(absolute) = args.output.iter().find(|o| o.starts_with('/')) {
        return Err(Failure::usage(format!(
            "--output {absolute}: all runs would write the same file; {{dir}} in the command stands for a run's own directory, and --output is relative to it"
        )));
    }
    let leave_out = [vec![workspace::files(), here.join(".samebits")], own_folder(args)?].concat();
    let outputs = Outputs::new(&args.output).map_err(|e| Failure::usage(format!("--{e}")))?;
    let copies = copies(&args.copy, &outputs, &here)?;
    Ok(Job {
        samebits: std::env::current_exe().map_err(Failure::unverified)?,
        argv: args.command.clone(),
        env: Default::default(),
        knobs: Default::default(),
        project: here,
        leave_out,
        outputs,
        copies,
        limit: Duration::from_secs(args.timeout.unwrap_or(3600)),
        level: args.level,
        seed: None,
        scope: Default::default(),
    })
}

/// The folder that the audit writes, where it is named.
fn own_folder(args: &Args) -> Result<Vec<PathBuf>, Failure> {
    args.dir.iter().map(|dir| std::path::absolute(dir).map_err(Failure::unverified)).collect()
}

/// What each run gets a copy of, which must be there.
fn copies(texts: &[String], outputs: &Outputs, project: &Path) -> Result<Copies, Failure> {
    let copies = Copies::new(texts, outputs).map_err(|e| Failure::usage(format!("--{e}")))?;
    copies.missing(project).map_or(Ok(copies), |e| Err(Failure::usage(format!("--{e}"))))
}

/// Digest of everything that decides what an audit does.
fn digest(args: &Args, job: &Job) -> Digest {
    // Runs of two versions of a script are no runs of one program.
    let scripts = crate::verify::golden::named_files(&job.argv, &job.project);
    let options = serde_json::json!({
        "command": job.argv, "folder": job.project, "n": args.n, "output": job.outputs.texts(), "copy": job.copies.texts(), "vary": args.vary,
        "env": args.env, "timeout": job.limit.as_secs(), "seed": args.seed, "level": args.level, "jobs": jobs(args) > 1,
        "set": job.env, "knobs": job.knobs, "run_seed": job.seed, "scope": job.scope, "scripts": scripts,
    });
    sha256(options.to_string().as_bytes())
}

/// The audit's folder: a new one, or that of an interrupted audit of the same command and options.
fn open(args: &Args, job: &Job) -> Result<(Store, Manifest), Failure> {
    let of = digest(args, job);
    // What is refused leaves nothing, so factors are looked at before a folder is taken.
    let factors = if args.go_on { Vec::new() } else { varied(args)? };
    let folder = match &args.dir {
        Some(folder) => std::path::absolute(folder).map_err(Failure::unverified)?,
        None => place(&workspace::made_files().join("audits"), &of, args.go_on).map_err(Failure::usage)?,
    };
    if args.go_on {
        let (store, manifest) = Store::open(&folder).map_err(Failure::usage)?;
        if manifest.of != of {
            let detail = format!(
                "{}: it is an audit of {} with other options or from another folder",
                folder.display(),
                manifest.command
            );
            return Err(Failure::usage(detail));
        }
        let plan = (manifest.runs, manifest.seed, &manifest.outputs);
        if plan != (args.n as usize, args.seed, &job.outputs.texts()) {
            return Err(Failure::usage(format!(
                "{}: its audit.json is not what was written: altered",
                folder.display()
            )));
        }
        return Ok((store, manifest));
    }
    let manifest = Manifest {
        schema: SCHEMA.to_owned(),
        of,
        command: job.mask().apply(&job.argv.join(" ")),
        runs: args.n as usize,
        seed: args.seed,
        outputs: job.outputs.texts(),
        factors,
    };
    Ok((Store::create(&folder, &manifest).map_err(Failure::usage)?, manifest))
}

/// The factors asked for, as they are found on this machine.
fn varied(args: &Args) -> Result<Vec<Factor>, Failure> {
    let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
    if let Some(bad) = args.vary.iter().find(|v| *v != "none" && !known.contains(&v.as_str())) {
        let near = crate::scenario::document::suggestion(bad, &known);
        return Err(Failure::usage(format!(
            "--vary {bad:?}: no such factor{near}; `samebits audit --factors` lists them"
        )));
    }
    let mut all = factors::table(jobs(args), |name| args.vary.is_empty() || args.vary.iter().any(|v| v == name));
    for text in &args.env {
        all.push(factors::variable(text).map_err(Failure::usage)?);
    }
    twice(&all)?;
    all.extend(knobs(args)?);
    let place = tempfile::tempdir().map_err(Failure::unverified)?;
    let program = std::env::current_exe().map_err(Failure::unverified)?;
    factors::prove(&mut all, &program, place.path()).map_err(Failure::unverified)?;
    Ok(all)
}

/// A variable has one setting in a run.
fn twice(factors: &[Factor]) -> Result<(), Failure> {
    let sets = |f: &Factor, name: &str| f.settings.iter().any(|s| s.surroundings.set.contains_key(name));
    for (i, factor) in factors.iter().enumerate() {
        let Some(name) = factor.name.strip_prefix("env.") else { continue };
        if let Some(other) = factors[..i].iter().find(|f| sets(f, name)) {
            let advice = "name the others with --vary";
            return Err(Failure::usage(format!("--env {name}: the factor {} sets it already; {advice}", other.name)));
        }
    }
    Ok(())
}

/// Knobs of the case, where one is audited.
fn knobs(args: &Args) -> Result<Vec<Factor>, Failure> {
    let Some(name) = args.case.first() else { return Ok(Vec::new()) };
    let case = workspace::case(name, &[])?;
    let Engine::Command(engine) = &case.engine else { return Ok(Vec::new()) };
    // A knob that is meant to matter is no cause to look for.
    let innocent = engine.knobs.iter().filter(|(_, knob)| knob.must_not_matter);
    Ok(innocent.map(|(name, knob)| factors::knob(name, &knob.values[1..])).collect())
}

fn list(args: &Args) -> Result<u8, Failure> {
    let all = varied(args)?;
    let about =
        |name: &str| NAMES.iter().find(|(n, _)| *n == name).map_or("a variable of the environment", |(_, a)| *a);
    if args.json {
        let object = |f: &Factor| serde_json::json!({ "name": f.name, "about": about(&f.name), "settings": f.settings.iter().map(|s| &s.word).collect::<Vec<_>>(), "state": f.state });
        let list: Vec<_> = all.iter().map(object).collect();
        say!("{}", serde_json::json!({ "schema": "samebits-factors/1", "factors": list }));
        return Ok(crate::compare::verdict::exit::SAME);
    }
    let state = |f: &Factor| match &f.state {
        State::Varied => "can be varied".to_owned(),
        State::NotApplied { reason } => format!("not applied: {reason}"),
        State::NoEffect { reason } => format!("no effect here: {reason}"),
    };
    let rows: Vec<Vec<String>> =
        all.iter().map(|f| vec![f.name.clone(), about(&f.name).to_owned(), state(f)]).collect();
    tell!("{}", super::table::aligned(&rows, 3));
    Ok(crate::compare::verdict::exit::SAME)
}

/// Progress: a bar on a terminal, a line a stage elsewhere.
struct Watch {
    bar: Option<ProgressBar>,
    lines: bool,
}

impl Watch {
    fn new(wanted: bool) -> Self {
        let style = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} runs, {elapsed} gone, {eta} left").ok();
        let bar = style.filter(|_| wanted && std::io::stderr().is_terminal());
        let bar = bar.map(|style| ProgressBar::new(0).with_style(style));
        Watch { lines: wanted && bar.is_none(), bar }
    }

    fn see(&self, event: &Event<'_>) {
        match (event, &self.bar) {
            (Event::Planned(n, stage), Some(bar)) => {
                bar.inc_length(*n as u64);
                bar.set_message((*stage).to_owned());
            }
            (Event::MayFollow(most), Some(bar)) => bar.suspend(|| super::output::remark(&may_follow(*most))),
            (Event::MayFollow(most), None) if self.lines => super::output::remark(&may_follow(*most)),
            (Event::Planned(n, stage), None) if self.lines => super::output::remark(&format!("{stage}: {n} runs")),
            (Event::Done(outcome), Some(bar)) => {
                if let Some(line) = broken(outcome) {
                    bar.suspend(|| super::output::remark(&line));
                }
                bar.inc(1);
            }
            (Event::Done(outcome), None) if self.lines => {
                broken(outcome).iter().for_each(|line| super::output::remark(line));
            }
            _ => {}
        }
    }

    fn end(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

fn may_follow(most: usize) -> String {
    let (causes, least) = (CANDIDATES, 2 * RUNS_MIN);
    format!(
        "if outcomes differ, up to {causes} suspected causes are put to the test: each takes {least} to {} runs as a rule, {most} in all at the very most",
        2 * RUNS_MAX
    )
}

fn broken(outcome: &Outcome) -> Option<String> {
    (outcome.end != Ending::Ran).then(|| format!("run {}: {}", outcome.run, outcome.end.words()))
}
