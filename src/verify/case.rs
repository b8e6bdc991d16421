//! One case from plan to verdict.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::golden::Golden;
use super::report::{ArmReport, Base, CaseReport, Options, conclude, extra, judge_golden, seed_ignored};
use super::runs::{ArmRun, Runner, needs_base};
use crate::compare::traces;
use crate::compare::verdict::{Comparison, Reason, Verdict};
use crate::detect::evidence::{ArmEvidence, Evidence, Finding};
use crate::detect::seed_ignored::{first_step, unmoved};
use crate::detect::{self, DETECTORS};
use crate::engine::cuda::compile::Compiler;
use crate::engine::cuda::device::devices;
use crate::engine::session::fold_facts;
use crate::scenario::case::{Case, Engine, Need, Scope};
use crate::scenario::mutant::Fault;
use crate::scenario::plan::{Arm, Plan, Relation, resolve};
use crate::scenario::settings::FoldStart;
use crate::trace::reader::Trace;

/// What this machine lacks for a case.
pub fn missing(case: &Case) -> Option<String> {
    let gpus = || devices().map_or(0, |all| all.len());
    case.needs.iter().find_map(|need| match need {
        Need::Gpu => (gpus() < 1).then(|| "no CUDA device".to_owned()),
        Need::TwoGpus => (gpus() < 2).then(|| "no two CUDA devices".to_owned()),
        Need::Nvrtc => Compiler::open(None).err().map(|e| e.to_string()),
    })
}

/// The plan of a case with a planted fault or without.
pub fn plan(case: &Case, fault: Option<&Fault>, work: &Path) -> Result<Plan, String> {
    let engine = case.embedded().ok_or("its engine is a command, which has no folds")?;
    let facts = fold_facts(&engine.settings, engine.market.as_deref()).map_err(|e| e.to_string())?;
    Ok(resolve(case, engine, fault, &facts, work))
}

/// Verifies one case.
pub fn verify(case: &Case, options: &Options<'_>) -> CaseReport {
    let start = Instant::now();
    let mut report = match missing(case) {
        Some(detail) => CaseReport::not_run(case, &detail),
        None if let Engine::Command(engine) = &case.engine => super::command::verify(case, engine, options),
        None if case.mutant.is_some() => mutant(case, options),
        None => clean(case, options),
    };
    report.seconds = start.elapsed().as_secs_f64();
    report
}

fn runner<'a>(case: &Case, options: &Options<'a>, part: &str) -> Runner<'a> {
    let work = options.work.join(format!("{}{part}", case.name.replace('/', "--")));
    Runner {
        program: options.program.clone(),
        slots: options.slots,
        work,
        timeout: Duration::from_secs(case.timeout_s),
    }
}

/// Runs the plan: the base, then everything else.
fn carry_out(plan: &Plan, runner: &Runner<'_>) -> Vec<ArmRun> {
    let (late, early): (Vec<Arm>, Vec<Arm>) = plan.arms.iter().cloned().partition(needs_base);
    let mut runs = Vec::new();
    // Arms that resume wait for the base, the others need not.
    if late.is_empty() {
        runs = runner.run_all(&early);
    } else {
        let (first, rest) = early.split_at(1);
        runs.extend(runner.run_all(first));
        if runs.iter().all(|r| r.traces.is_ok()) {
            let together: Vec<Arm> = rest.iter().chain(&late).cloned().collect();
            runs.extend(runner.run_all(&together));
        }
    }
    runs
}

fn clean(case: &Case, options: &Options<'_>) -> CaseReport {
    let runner = runner(case, options, "");
    let plan = match plan(case, None, &runner.work) {
        Ok(plan) => plan,
        Err(e) => return CaseReport::new(case, Verdict::unverified(Reason::EngineFailed, e)),
    };
    let plan = match &options.device {
        Some((device, kernels)) => plan.on_device(device, kernels),
        None => plan,
    };
    let runs = carry_out(&plan, &runner);
    let mut report = CaseReport::new(case, Verdict::Same);
    report.arms = judge(case, &runs);
    if is_complete(&plan, &report.arms) {
        report.findings = detect::look(&evidence(&runs, &report.arms));
    }
    if let Some(Ok(base)) = runs.first().map(|r| r.traces.as_ref().map(|t| &t[0])) {
        let base = TracedBase { case, runner: &runner, arm: &plan.arms[0], trace: base };
        judge_golden(case, options, &base, &mut report);
    }
    conclude(case, options, &runner.work, &mut report);
    report
}

/// True when every arm of the plan was run to its verdict; detectors judge nothing less.
fn is_complete(plan: &Plan, arms: &[ArmReport]) -> bool {
    plan.arms.len() == arms.len() && arms.iter().all(|a| !matches!(a.verdict, Verdict::NotRun { .. }))
}

fn judge(case: &Case, runs: &[ArmRun]) -> Vec<ArmReport> {
    let base = runs.first().and_then(|r| r.traces.as_ref().ok()).and_then(|t| t.first());
    let judge = |run: &ArmRun| {
        let (verdict, comparison) = match (&run.traces, base) {
            (Err(verdict), _) => (verdict.clone(), None),
            (Ok(_), None) => (Verdict::unverified(Reason::NoEvidence, "the base run failed"), None),
            (Ok(traces), Some(base)) => judge_arm(&run.arm, base, traces),
        };
        let comparison = comparison.map(|c| Comparison { next: next(case, &run.arm, &c), ..c });
        let command = format!("samebits run {} --arm {}", case.name, run.arm.name);
        ArmReport { name: run.arm.name.clone(), verdict, comparison, seconds: run.elapsed.as_secs_f64(), command }
    };
    runs.iter().map(judge).collect()
}

/// The commands that tell more of an arm that differs.
fn next(case: &Case, arm: &Arm, comparison: &Comparison) -> Option<String> {
    let first = comparison.first.as_ref().filter(|f| f.operation.is_none() && f.kind != "close")?;
    let fresh = arm.request.settings.folds.start == FoldStart::Fresh && arm.request.folds.is_none();
    let place = first.place.fold.filter(|_| fresh);
    let fold = place.map_or_else(String::new, |f| format!(" --folds {f}"));
    let run = |arm: &str, file: &str| {
        format!("samebits run {} --arm {arm}{fold} --level op --values --trace {file}", case.name)
    };
    Some(format!("{} && {} && samebits diff a.jsonl b.jsonl", run("base", "a.jsonl"), run(&arm.name, "b.jsonl")))
}

fn judge_arm(arm: &Arm, base: &Trace, traces: &[Trace]) -> (Verdict, Option<Comparison>) {
    match &arm.relation {
        Relation::Base => (Verdict::Same, None),
        Relation::Same(scope) => {
            let all = traces.iter().map(|t| traces::compare(base, t, scope));
            let worst = all.reduce(|a, b| if a.verdict.clone().worse(b.verdict.clone()) == a.verdict { a } else { b });
            match worst {
                Some(comparison) => (comparison.verdict.clone(), Some(comparison)),
                None => (Verdict::unverified(Reason::NoEvidence, "no trace"), None),
            }
        }
        Relation::Differs => must_differ(base, traces.first()),
    }
}

/// Generators that another seed did not move; None when the traces tell of none.
pub fn unmoved_generators(base: &Trace, other: &Trace) -> Option<Vec<String>> {
    first_step(base).zip(first_step(other)).and_then(|(a, b)| unmoved(a, b))
}

/// Another seed must move every generator and the weights.
fn must_differ(base: &Trace, other: Option<&Trace>) -> (Verdict, Option<Comparison>) {
    match other.and_then(|other| unmoved_generators(base, other)) {
        None => {
            let detail = "no step record with generators; use level step";
            (Verdict::unverified(Reason::NoEvidence, detail), None)
        }
        Some(names) if names.is_empty() => (Verdict::Same, None),
        Some(names) => seed_ignored(&format!("the generators {}", names.join(", "))),
    }
}

fn evidence<'a>(runs: &'a [ArmRun], reports: &'a [ArmReport]) -> Evidence<'a> {
    let arm = |(run, report): (&'a ArmRun, &'a ArmReport)| ArmEvidence {
        name: &run.arm.name,
        kind: &run.arm.kind,
        traces: run.traces.as_deref().unwrap_or_default(),
        events: &run.events,
        comparison: report.comparison.as_ref().filter(|_| matches!(run.arm.relation, Relation::Same(_))),
    };
    Evidence { arms: runs.iter().zip(reports).map(arm).collect() }
}

/// The base run of the embedded engine: one trace.
struct TracedBase<'a> {
    case: &'a Case,
    runner: &'a Runner<'a>,
    arm: &'a Arm,
    trace: &'a Trace,
}

impl Base for TracedBase<'_> {
    fn golden(&self) -> Golden {
        Golden::of_trace(self.trace)
    }

    fn saved(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.jsonl.zst", self.case.name))
    }

    fn against(&self, saved: &Path) -> Comparison {
        match crate::trace::reader::read(saved) {
            Ok(old) => traces::compare(&old, self.trace, &self.case.compare),
            Err(e) => Comparison::unverified(Reason::of_read_error(&e), e.to_string()),
        }
    }

    fn save(&self, to: &Path) -> std::io::Result<()> {
        let packed = zstd::encode_all(std::fs::File::open(&self.trace.path)?, 3)?;
        crate::trace::writer::write_atomically(to, &packed)
    }

    fn again(&self) -> Option<Verdict> {
        let again = self.runner.run_as(self.arm, "base-again").traces.ok()?;
        Some(traces::compare(self.trace, &again[0], &Scope::default()).verdict)
    }
}

/// A mutant case passes when every planted fault is named by its detector and by no other.
fn mutant(case: &Case, options: &Options<'_>) -> CaseReport {
    let mut report = CaseReport::new(case, Verdict::Same);
    let faults = case.faults();
    let planted: Vec<(ArmReport, Vec<Finding>)> = std::thread::scope(|scope| {
        let start = |(field, fault): &(Option<&'static str>, Fault)| {
            let (field, fault) = (*field, fault.clone());
            scope.spawn(move || plant(case, options, field, &fault))
        };
        let started: Vec<_> = faults.iter().map(start).collect();
        let panicked = || {
            let verdict = Verdict::unverified(Reason::EngineFailed, "the thread that verified it panicked");
            (extra("mutant", verdict, None, case), Vec::new())
        };
        started.into_iter().map(|t| t.join().unwrap_or_else(|_| panicked())).collect()
    });
    for (arm, findings) in planted {
        report.arms.push(arm);
        report.findings.extend(findings);
    }
    let caught = report.arms.iter().filter(|a| a.verdict == Verdict::Same).count();
    report.mutants = Some((caught, faults.len()));
    report.verdict = report.arms.iter().map(|a| a.verdict.clone()).fold(Verdict::Same, Verdict::worse);
    report
}

/// Plants one fault and says whether it was named.
fn plant(case: &Case, options: &Options<'_>, field: Option<&str>, fault: &Fault) -> (ArmReport, Vec<Finding>) {
    let (fault, wanted) = dealt(case, fault, options.shuffle);
    let part = field.map_or_else(String::new, |f| format!("--{f}"));
    let runner = runner(case, options, &part);
    let (verdict, findings) = match plan(case, Some(&fault), &runner.work) {
        Err(e) => (Verdict::unverified(Reason::EngineFailed, e), Vec::new()),
        Ok(plan) => {
            let runs = carry_out(&plan, &runner);
            let arms = judge(case, &runs);
            if !is_complete(&plan, &arms) {
                let first = arms.iter().map(|a| a.verdict.clone()).find(|v| *v != Verdict::Same);
                let none = || Verdict::unverified(Reason::NoEvidence, "not every arm was run");
                return (extra(field.unwrap_or("mutant"), first.unwrap_or_else(none), None, case), Vec::new());
            }
            let findings = detect::look(&evidence(&runs, &arms));
            (named(&fault, wanted, &findings, &arms), findings)
        }
    };
    let _ = std::fs::remove_dir_all(&runner.work);
    (extra(field.unwrap_or("mutant"), verdict, None, case), findings)
}

/// The fault that a mutant's name stands for in this run, and the detector that must name it.
fn dealt(case: &Case, fault: &Fault, shuffle: Option<u64>) -> (Fault, String) {
    let caught_by = case.mutant.as_ref().map(|m| m.caught_by.clone()).unwrap_or_default();
    match shuffle.and_then(|seed| fault.dealt(seed)) {
        None => (fault.clone(), caught_by),
        Some((name, other)) => {
            let detector = DETECTORS.iter().find(|d| d.mutants.contains(&name)).map_or("", |d| d.slug);
            (other, detector.to_owned())
        }
    }
}

fn named(fault: &Fault, wanted: String, findings: &[Finding], arms: &[ArmReport]) -> Verdict {
    // An arm that the engine itself refused to go on with is fine where the finding is about that arm.
    let explained = |a: &ArmReport| findings.iter().any(|f| f.arms.contains(&a.name));
    if let Some(arm) = arms.iter().find(|a| matches!(a.verdict, Verdict::Unverified { .. }) && !explained(a)) {
        return arm.verdict.clone();
    }
    let names: Vec<&str> = findings.iter().map(|f| f.detector).collect();
    if names != [wanted.as_str()] {
        return Verdict::Different;
    }
    match fault {
        Fault::CheckpointOmits { field } => {
            let fits = |n: &String| n == field || (field.ends_with('.') && n.starts_with(field.as_str()));
            if findings[0].names.iter().all(fits) { Verdict::Same } else { Verdict::Different }
        }
        _ => Verdict::Same,
    }
}

/// Names of the arms a case will report, for a list that is complete before anything ran.
pub fn arm_names(case: &Case, against: bool) -> Vec<String> {
    if case.mutant.is_some() {
        return case.faults().iter().map(|(field, _)| field.unwrap_or("mutant").to_owned()).collect();
    }
    let mut names: Vec<String> = match (&case.engine, plan(case, None, Path::new(""))) {
        (Engine::Command(engine), _) => super::command::arms(engine).into_iter().map(|a| a.name).collect(),
        (_, Ok(plan)) => plan.arms.iter().map(|a| a.name.clone()).collect(),
        (_, Err(_)) => vec!["base".to_owned()],
    };
    if against {
        names.push("against".to_owned());
    } else if case.golden {
        names.push("golden".to_owned());
    }
    names
}
