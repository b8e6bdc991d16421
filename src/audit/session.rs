//! An audit carried out: the designed runs, then runs that put suspected causes to the test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::attribution::{Candidate, Kind, candidates, level};
use super::confirm::{self, Cause, single_variable};
use super::design::{Levels, design};
use super::difference::{differing, equal_but_for_folder, first_words, local};
use super::next::next_step;
use super::outcome::{Class, Ending, Outcome, Volatile};
use super::report::Report;
use super::store::Store;
use crate::compare::left::{self, Digested, Left, Wanted};
use crate::compare::unlooked;
use crate::compare::verdict::Verdict;
use crate::launch::factors::{Factor, Setting, State, padded, together, variable};
use crate::launch::folder::shown;
use crate::launch::job::{Job, Ran, STDOUT, TRACES};
use crate::launch::process::{End, INTERRUPTED, KILLED};
use crate::launch::project::{self, Change, Shared, Watch};
use crate::launch::slots::Slots;
use crate::trace::privacy::Mask;

/// Suspected causes that are put to the test at most.
pub const CANDIDATES: usize = 4;
/// A factor whose agreement with the outcomes is likelier than this by chance is not suspected.
const P_MAX: f64 = 0.2;
/// One likelier than that, but no likelier than this, is named as possible.
const P_POSSIBLE: f64 = 0.5;
/// Runs of a class whose files are kept.
const KEPT: usize = 2;

/// Why an audit stopped before its report.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// a signal
    #[error("interrupted; what is done is kept")]
    Interrupted,
    /// runs were killed from outside while a cause was put to the test
    #[error(
        "runs {0:?}: killed by signal 9, which samebits did not send (out of memory?); the same command with --continue runs them again"
    )]
    Killed(Vec<usize>),
    /// its folder cannot be read or written
    #[error("{0}")]
    Store(String),
}

/// How an audit is carried out.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// runs that go on at a time
    pub jobs: usize,
    /// all runs keep their files
    pub keep: bool,
    /// runs that were killed from outside are made again
    pub again: bool,
}

/// One run to make.
#[derive(Clone, Debug)]
pub struct Planned {
    /// number
    pub run: usize,
    /// part of the audit
    pub stage: String,
    /// settings
    pub levels: Levels,
}

/// An audit under way.
pub struct Session<'a> {
    job: &'a Job,
    store: &'a Store,
    options: Options,
    factors: Vec<Factor>,
    slots: Slots,
    running: AtomicUsize,
    wanted: Option<Wanted>,
    kept: Mutex<BTreeMap<Class, Vec<usize>>>,
    next: usize,
    /// runs with everything as it is, made to put causes to the test
    plain: Vec<Outcome>,
    watch: Watch,
    /// by run
    wrote: Mutex<BTreeMap<usize, Vec<Change>>>,
    tell: &'a (dyn Fn(Event<'_>) + Sync),
}

/// What happens, for a progress bar.
#[derive(Debug)]
pub enum Event<'a> {
    /// so many runs more are planned
    Planned(usize, &'a str),
    /// before the first run: so many may follow the designed ones at the very most, to confirm causes
    MayFollow(usize),
    /// a run is done
    Done(&'a Outcome),
}

impl<'a> Session<'a> {
    /// A session of a job in a folder.
    pub fn new(
        job: &'a Job,
        store: &'a Store,
        factors: Vec<Factor>,
        options: Options,
        tell: &'a (dyn Fn(Event<'_>) + Sync),
    ) -> Self {
        let wanted = (!job.outputs.is_empty()).then_some(Wanted::Outputs);
        Session {
            job,
            store,
            options,
            factors,
            slots: Slots::new(options.jobs),
            running: AtomicUsize::new(0),
            wanted,
            kept: Mutex::new(BTreeMap::new()),
            next: 0,
            plain: Vec::new(),
            watch: Watch::new(&job.project, &job.leave_out),
            wrote: Mutex::new(BTreeMap::new()),
            tell,
        }
    }

    /// The whole audit of `n` runs.
    pub fn audit(&mut self, n: usize, seed: u64, command: &str) -> Result<Report, Stop> {
        self.foretell();
        let main = self.stage("main", design(&self.factors, n, seed))?;
        let all: Vec<&Outcome> = main.iter().collect();
        let mut report = Report::new(command, &all, &self.factors);
        self.differences(&mut report);
        report.killed = killed(&main);
        report.volatile.killed_before = main.iter().filter(|o| o.volatile.killed_before > 0).map(|o| o.run).collect();
        // What was killed is not how the program ends by itself, so nothing is concluded from it.
        if report.classes.len() > 1 && report.killed.is_empty() {
            let unexplained = self.explain(&all, seed, &mut report)?;
            // What is left to vary where the causes are held still.
            report.rate = super::report::numbers(&unexplained).0;
        }
        report.confirming = self.next - n;
        report.copied = self.job.copies.texts();
        report.not_looked_at.extend(self.watch.unlooked());
        report.volatile.shared = self.shared();
        report.next = next_step(&report, self.job, self.store, self.wanted);
        Ok(report)
    }

    /// Says how many runs may follow, before hours of them do.
    fn foretell(&self) {
        let varied = self.factors.iter().filter(|f| f.state == State::Varied);
        let variables =
            |f: &Factor| f.settings.iter().map(|s| s.surroundings.set.len()).fold(0, |a, b| if b > a { b } else { a });
        let variables: Vec<usize> = varied.map(variables).collect();
        if !variables.is_empty() {
            (self.tell)(Event::MayFollow(confirm::runs_at_most(&variables, CANDIDATES)));
        }
    }

    /// Files of the project that changed while runs went on.
    fn shared(&self) -> Vec<Shared> {
        let wrote = self.wrote.lock().unwrap_or_else(|e| e.into_inner());
        project::shared(wrote.iter().map(|(run, list)| (run.to_string(), list.as_slice())))
    }

    /// Makes the runs of one stage; those already done are read.
    fn stage(&mut self, name: &str, levels: Vec<Levels>) -> Result<Vec<Outcome>, Stop> {
        let first = self.next;
        self.next += levels.len();
        let plan: Vec<Planned> = levels
            .into_iter()
            .enumerate()
            .map(|(i, levels)| Planned {
                run: first + i,
                stage: name.to_owned(),
                levels: levels.into_iter().filter(|(_, level)| *level > 0).collect(),
            })
            .collect();
        (self.tell)(Event::Planned(plan.len(), name));
        let mut done = Vec::new();
        let mut rest = plan.as_slice();
        // The first run that ends well says what evidence there is; until then one goes on at a time.
        while let (None, Some((one, more))) = (self.wanted, rest.split_first()) {
            let outcome = self.run(one)?;
            if outcome.end == Ending::Ran {
                self.wanted = outcome.wanted;
            }
            done.push(outcome);
            rest = more;
        }
        done.extend(self.at_a_time(rest)?);
        Ok(done)
    }

    fn at_a_time(&self, plan: &[Planned]) -> Result<Vec<Outcome>, Stop> {
        let next = AtomicUsize::new(0);
        let workers = plan.len().clamp(1, self.slots.all());
        let work = || -> Result<Vec<Outcome>, Stop> {
            let mut mine = Vec::new();
            while let Some(planned) = plan.get(next.fetch_add(1, Ordering::Relaxed)) {
                mine.push(self.run(planned)?);
            }
            Ok(mine)
        };
        let results: Vec<Result<Vec<Outcome>, Stop>> = std::thread::scope(|scope| {
            let started: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let panicked = || Err(Stop::Store("a thread of the audit panicked".to_owned()));
            started.into_iter().map(|t| t.join().unwrap_or_else(|_| panicked())).collect()
        });
        let mut all: Vec<Outcome> = results.into_iter().collect::<Result<Vec<_>, Stop>>()?.concat();
        all.sort_by_key(|o| o.run);
        Ok(all)
    }

    /// One run, made or read.
    fn run(&self, planned: &Planned) -> Result<Outcome, Stop> {
        if INTERRUPTED.load(Ordering::Relaxed) {
            return Err(Stop::Interrupted);
        }
        let outcome = match self.store.outcome(planned.run).map_err(Stop::Store)? {
            Some(outcome) if outcome.stage == planned.stage && outcome.levels == planned.levels => {
                match self.options.again && outcome.end == Ending::Killed {
                    true => {
                        self.store.set_aside(&outcome).map_err(Stop::Store)?;
                        self.make(planned, outcome.volatile.killed_before + 1)?
                    }
                    false => outcome,
                }
            }
            Some(_) => {
                let name = self.store.run(planned.run).display().to_string();
                return Err(Stop::Store(format!("{name}: it is a run of another plan; start anew in another folder")));
            }
            None => self.make(planned, 0)?,
        };
        self.prune(&outcome);
        if !outcome.volatile.wrote.is_empty() {
            let mut wrote = self.wrote.lock().unwrap_or_else(|e| e.into_inner());
            wrote.insert(outcome.run, outcome.volatile.wrote.clone());
        }
        (self.tell)(Event::Done(&outcome));
        Ok(outcome)
    }

    fn setting(&self, levels: &Levels) -> Setting {
        let named = |(name, level): (&String, &usize)| {
            self.factors.iter().find(|f| f.name == *name).and_then(|f| f.settings.get(*level))
        };
        together(levels.iter().filter_map(named))
    }

    fn make(&self, planned: &Planned, killed_before: usize) -> Result<Outcome, Stop> {
        let setting = self.setting(&planned.levels);
        let _slots = self.slots.take(if setting.alone { usize::MAX } else { 1 });
        let folder = self.store.begin(planned.run).map_err(Stop::Store)?;
        let together = 1 + self.running.fetch_add(1, Ordering::SeqCst);
        let ticket = self.watch.before();
        let result = self.job.run(&folder, &setting);
        let wrote = masked_paths(self.watch.after(ticket), &self.job.mask());
        self.running.fetch_sub(1, Ordering::SeqCst);
        let ran = result.map_err(|e| Stop::Store(format!("{}: {e}", folder.display())))?;
        if ran.finished.end == End::Interrupted {
            return Err(Stop::Interrupted);
        }
        let mut outcome = self.outcome(planned, &folder, &ran);
        outcome.volatile = Volatile { seconds: ran.finished.elapsed.as_secs_f64(), together, killed_before, wrote };
        self.store.done(&outcome).map_err(Stop::Store)?;
        Ok(outcome)
    }

    fn outcome(&self, planned: &Planned, folder: &Path, ran: &Ran) -> Outcome {
        let Ran { work, finished, stdout, .. } = ran;
        let wanted = self.wanted.unwrap_or_else(|| left::wanted(folder, &self.job.outputs));
        let (end, left) = match &finished.end {
            End::Ok => match left::read(folder, work, &self.job.outputs, stdout, wanted) {
                Ok(left) => (Ending::Ran, Some(left)),
                Err(e) => (
                    Ending::NoEvidence { reason: e.reason, detail: self.job.mask().apply(&local(&e.detail, folder)) },
                    None,
                ),
            },
            End::Failed(what) if what == KILLED => (Ending::Killed, None),
            End::Failed(what) => (Ending::Failed { what: what.clone() }, None),
            End::TimedOut(seconds) => (Ending::TimedOut { seconds: *seconds }, None),
            End::Interrupted => (Ending::Failed { what: "interrupted".to_owned() }, None),
        };
        let failed = end != Ending::Ran;
        Outcome {
            run: planned.run,
            stage: planned.stage.clone(),
            levels: planned.levels.clone(),
            key: left.as_ref().map(|l| l.key(&self.job.scope)),
            wanted: left.is_some().then_some(wanted),
            evidence: left.as_ref().map(|l| masked(l.digests(), &self.job.mask())).unwrap_or_default(),
            words: left.as_ref().map(Left::words).unwrap_or_default(),
            not_looked_at: left.as_ref().map(|l| unlooked::of(self.job, ran, l)).unwrap_or_default(),
            end,
            stderr: if failed { local(&finished.stderr, folder) } else { String::new() },
            volatile: Volatile::default(),
        }
    }

    /// The first runs of each class keep their files, the others their digests.
    fn prune(&self, outcome: &Outcome) {
        if self.options.keep {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(|e| e.into_inner());
        let runs = kept.entry(outcome.class()).or_default();
        runs.push(outcome.run);
        runs.sort_unstable();
        runs.dedup();
        let last = if runs.len() > KEPT { runs.pop() } else { None };
        if let Some(last) = last {
            // Files that cannot be removed stay: they are no reason to lose the audit.
            let _ = self.store.drop_files(last);
        }
    }

    /// Evidence of a run whose files were kept.
    fn left(&self, run: usize) -> Option<Left> {
        let (folder, work) = (self.store.run(run), self.work(run)?);
        let stdout = std::fs::read(folder.join(STDOUT)).ok()?;
        left::read(&folder, &work, &self.job.outputs, &stdout, self.wanted?).ok()
    }

    /// What each class differs in from the largest.
    fn differences(&self, report: &mut Report) {
        let Some((first, others)) = report.classes.split_first_mut() else { return };
        let Some(base) = self.left(first.first) else { return };
        for class in others.iter_mut().filter(|c| c.of > 0) {
            let Some(other) = self.left(class.first) else { continue };
            let comparison = left::compare(&base, &other, &self.job.scope);
            class.differing = differing(&base, &other);
            let folders = [self.store.run(first.first), self.store.run(class.first)];
            class.difference = Some(match equal_but_for_folder([&base, &other], &folders) {
                true => "only in the path of the run's own folder, which each run has another of".to_owned(),
                false => first_words(&base, &other, &comparison),
            });
            if report.volatile.differing_runs.is_none() && comparison.verdict == Verdict::Different {
                let path = |run: usize| shown(&self.evidence_path(run, &class.differing));
                report.volatile.differing_runs = Some([path(first.first), path(class.first)]);
            }
        }
    }

    /// What `samebits diff` can read of a run: its traces, its standard output, or the outputs of these names.
    fn evidence_path(&self, run: usize, names: &[String]) -> PathBuf {
        let folder = self.store.run(run);
        match self.wanted {
            Some(Wanted::Stdout) | None => folder.join(STDOUT),
            _ if left::has_traces(&folder) => folder.join(TRACES),
            _ => self.work(run).map_or(folder, |work| work.join(left::place_of(&work, &self.job.outputs, names))),
        }
    }

    /// Working directory of a run that is done.
    fn work(&self, run: usize) -> Option<PathBuf> {
        let outcome = self.store.outcome(run).ok()??;
        Some(padded(&self.store.run(run), self.setting(&outcome.levels).folder_padding))
    }

    /// Puts suspected causes to the test until the split is explained.
    fn explain<'o>(&mut self, main: &[&'o Outcome], seed: u64, report: &mut Report) -> Result<Vec<&'o Outcome>, Stop> {
        let mut unexplained: Vec<&Outcome> = main.to_vec();
        let (mut tested, mut parts, mut held) = (Vec::new(), Vec::new(), Vec::new());
        while tested.len() < CANDIDATES {
            let found = candidates(&self.factors, &unexplained, seed);
            let (near, far): (Vec<Candidate>, Vec<Candidate>) =
                found.into_iter().filter(|c| !tested.contains(&c.factor)).partition(|c| c.p <= P_MAX);
            let Some(candidate) = near.into_iter().next() else {
                let fits = far.iter().filter(|c| c.p <= P_POSSIBLE);
                report.possible = fits.map(|c| self.factors[c.factor].name.clone()).collect();
                break;
            };
            tested.push(candidate.factor);
            let Some(n) = confirm::runs_needed(&candidate) else {
                report.suspected.push(self.factors[candidate.factor].name.clone());
                continue;
            };
            let Some(cause) = self.confirm(&candidate, n, &held)? else {
                report.suspected.push(self.factors[candidate.factor].name.clone());
                continue;
            };
            // Where it is held still, is anything left to explain?
            let still = if cause.how == "pins" { candidate.level } else { 0 };
            match (cause.is_confirmed(), cause.alone) {
                (true, _) => report.causes.push(self.drill(&candidate, n, &held)?.unwrap_or(cause)),
                (false, true) => parts.push((candidate.clone(), cause)),
                (false, false) => {
                    report.causes.push(cause);
                    continue;
                }
            }
            held.push(candidate.factor);
            unexplained.retain(|o| level(o, &self.factors[candidate.factor]) == still);
            if super::outcome::classes(&unexplained).len() < 2 {
                break;
            }
        }
        for (candidate, cause) in parts {
            let cause = self.beside(candidate, &held)?.unwrap_or(cause);
            report.causes.push(cause);
        }
        report.causes.sort_by_key(|c| (!c.is_confirmed(), !c.alone, c.variable.is_none()));
        confirm::mark_same(&mut report.causes);
        Ok(unexplained)
    }

    /// A cause that was not the only one, put to the test again with the other causes held still.
    fn beside(&mut self, candidate: Candidate, causes: &[usize]) -> Result<Option<Cause>, Stop> {
        let held: Vec<usize> = causes.iter().copied().filter(|i| *i != candidate.factor).collect();
        if held.is_empty() {
            return Ok(None);
        }
        let candidate = match candidate.kind {
            // That it made runs alike was the other causes' doing.
            Kind::Pins => Candidate { kind: Kind::Switches, rate: 1.0, ..candidate },
            _ => candidate,
        };
        let Some(n) = confirm::runs_needed(&candidate) else { return Ok(None) };
        match self.confirm(&candidate, n, &held)? {
            Some(cause) if cause.is_confirmed() => Ok(Some(self.drill(&candidate, n, &held)?.unwrap_or(cause))),
            _ => Ok(None),
        }
    }

    /// Groups of `n` runs, and more as long as what they show may be chance; None when the most runs cannot tell.
    fn confirm(&mut self, candidate: &Candidate, n: usize, held: &[usize]) -> Result<Option<Cause>, Stop> {
        let name = self.factors[candidate.factor].name.clone();
        let levels = confirm::groups(&self.factors, candidate, held);
        let (mut alone, mut without, mut n) = (Vec::new(), Vec::new(), n);
        loop {
            // Runs as they are serve every candidate.
            let lacking = n.saturating_sub(self.plain.len());
            if lacking > 0 {
                let more = self.group("confirm: as is", vec![Levels::new(); lacking])?;
                self.plain.extend(more);
            }
            alone.extend(self.group(&format!("confirm {name}: alone"), vec![levels[0].clone(); n - alone.len()])?);
            let first = confirm::judge(&self.factors, candidate, held, [&self.plain, &alone, &[]]);
            if !first.alone {
                return Ok(Some(Cause { without: false, ..first }));
            }
            let stage = format!("confirm {name}: everything else");
            without.extend(self.group(&stage, vec![levels[1].clone(); n - without.len()])?);
            let cause = confirm::judge(&self.factors, candidate, held, [&self.plain, &alone, &without]);
            if !cause.is_confirmed() || !confirm::may_be_chance(&cause, [&self.plain, &alone, &without]) {
                return Ok(Some(cause));
            }
            if n >= confirm::RUNS_MAX {
                return Ok(None);
            }
            n = if 2 * n < confirm::RUNS_MAX { 2 * n } else { confirm::RUNS_MAX };
        }
    }

    /// Runs that put a cause to the test; nothing is concluded from one that was killed from outside.
    fn group(&mut self, stage: &str, levels: Vec<Levels>) -> Result<Vec<Outcome>, Stop> {
        let runs = self.stage(stage, levels)?;
        match killed(&runs) {
            list if list.is_empty() => Ok(runs),
            list => Err(Stop::Killed(list)),
        }
    }

    /// Of a factor that sets several variables: the one that suffices by itself.
    fn drill(&mut self, candidate: &Candidate, n: usize, held: &[usize]) -> Result<Option<Cause>, Stop> {
        let factor = &self.factors[candidate.factor];
        let set = factor.settings[candidate.level].surroundings.set.clone();
        if single_variable(factor, candidate.level).is_some() || set.is_empty() {
            return Ok(None);
        }
        let group = self.factors[candidate.factor].clone();
        for (name, value) in set {
            let Ok(one) = variable(&format!("{name}={value}")) else { continue };
            // While one variable is looked at, the group it is of stays as it is.
            self.factors[candidate.factor].state = State::NotApplied { reason: "its variables one by one".to_owned() };
            self.factors.push(one);
            let alone = Candidate { factor: self.factors.len() - 1, level: 1, ..candidate.clone() };
            let cause = self.confirm(&alone, n, held);
            self.factors[candidate.factor] = group.clone();
            let last = self.factors.len() - 1;
            self.factors[last].state = State::NotApplied { reason: "looked at by itself only".to_owned() };
            if let Some(cause) = cause?.filter(Cause::is_confirmed) {
                return Ok(Some(Cause { factor: group.name, ..cause }));
            }
        }
        Ok(None)
    }
}

fn killed(outcomes: &[Outcome]) -> Vec<usize> {
    outcomes.iter().filter(|o| o.end == Ending::Killed).map(|o| o.run).collect()
}

/// Names of files may hold what must not be written down.
fn masked(digests: Vec<Digested>, mask: &Mask) -> Vec<Digested> {
    digests.into_iter().map(|d| Digested { name: mask.apply(&d.name), ..d }).collect()
}

fn masked_paths(changes: Vec<Change>, mask: &Mask) -> Vec<Change> {
    changes.into_iter().map(|c| Change { path: mask.apply(&c.path), ..c }).collect()
}
