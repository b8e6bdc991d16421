//! A case resolved into arms: which runs, and what each must have in common with the base run.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::case::{Case, Embedded, EvaluationArm, FoldArm, ResumeArm, Scope};
use super::mutant::Fault;
use super::request::{Checkpoints, Cut, RunRequest};
use super::settings::Size;
use crate::trace::record::Level;

/// What resolving needs to know about the machine and the market.
#[derive(Clone, Debug)]
pub struct Facts {
    /// folds that the bars allow
    pub folds: u32,
    /// SIMD paths of this machine
    pub simd: Vec<String>,
}

/// What an arm varies; detectors read this.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum ArmKind {
    /// the run that the others are compared with
    Base,
    /// one of several runs in one process
    Repeat,
    /// a fresh process
    Process,
    /// another thread count
    Threads {
        /// threads
        threads: usize,
        /// which of the runs with that count
        run: usize,
    },
    /// another SIMD path
    Simd {
        /// path
        path: String,
    },
    /// one fold alone
    FoldAlone {
        /// fold
        fold: u32,
    },
    /// folds in descending order
    FoldsPermuted,
    /// from a checkpoint of the base run
    Resume {
        /// where it was cut
        cut: Cut,
        /// why there
        place: ResumeArm,
    },
    /// evaluations at other times
    Evaluation {
        /// when
        when: EvaluationArm,
    },
    /// another size of evaluation batches
    BatchRows {
        /// rows
        rows: usize,
    },
    /// another trace level
    Trace {
        /// level
        level: Level,
    },
    /// another seed
    OtherSeed,
}

/// What an arm's trace must have in common with the base's.
#[derive(Clone, Debug, PartialEq)]
pub enum Relation {
    /// nothing: it is the base
    Base,
    /// every record in scope
    Same(Scope),
    /// at least one record in scope differs, by generator
    Differs,
}

/// One run of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// `base`, `threads-2`, `resume-mid-fold`, ...
    pub name: String,
    /// what it varies
    pub kind: ArmKind,
    /// what must be the same
    pub relation: Relation,
    /// the run; its trace is set by who runs it
    pub request: RunRequest,
}

/// All arms of a case, the base first.
#[derive(Clone, Debug)]
pub struct Plan {
    /// base, then the arms in order
    pub arms: Vec<Arm>,
    /// folds of a whole run
    pub folds: u32,
}

/// Resolves a case of the embedded engine. Checkpoints of the base go to `work`, from where the resume arms take them.
pub fn resolve(case: &Case, engine: &Embedded, fault: Option<&Fault>, facts: &Facts, work: &Path) -> Plan {
    let mut base = RunRequest::new(engine.settings.clone(), engine.market.clone());
    base.threads = (engine.settings.engine.size == Size::Tiny).then_some(1);
    (base.level, base.values) = (case.level, case.values);
    base.fault = fault.cloned();
    let mut plan = Builder { case, engine, facts, work, base, arms: Vec::new() };
    plan.add_base();
    plan.add_processes();
    plan.add_resumes();
    // A fault of checkpoints is planted for each field in turn; only these arms can show it.
    if !matches!(fault, Some(Fault::CheckpointOmits { .. })) {
        plan.add_paths();
        plan.add_folds();
        plan.add_evaluations();
        plan.add_traces();
    }
    Plan { arms: plan.arms, folds: facts.folds }
}

impl Plan {
    /// The same plan on a GPU, with arms for graphs of other lengths. What varies the CPU stays there, so that both engines are compared; so does level `op`. A
    /// resume is made on both, from the GPU's checkpoint.
    pub fn on_device(mut self, device: &str, kernels: &Path) -> Self {
        let mut arms = Vec::new();
        for arm in self.arms {
            let of_cpu = matches!(arm.kind, ArmKind::Threads { .. } | ArmKind::Simd { .. });
            if of_cpu || arm.request.level == Level::Op {
                arms.push(arm);
                continue;
            }
            let mut on_gpu = arm.clone();
            (on_gpu.request.device, on_gpu.request.kernels) = (Some(device.to_owned()), Some(kernels.to_owned()));
            if arm.kind == ArmKind::Base {
                arms.push(on_gpu.clone());
                arms.extend(graph_arms(&on_gpu));
                continue;
            }
            arms.push(on_gpu);
            if matches!(arm.kind, ArmKind::Resume { .. }) {
                arms.push(Arm { name: format!("{}-on-cpu", arm.name), ..arm });
            }
        }
        self.arms = arms;
        self
    }
}

/// The base run without graphs, with one cycle a launch, and with as many as fit below 65.
fn graph_arms(base: &Arm) -> Vec<Arm> {
    let of = |k: u64| RunRequest { graph: Some(k), checkpoints: None, ..base.request.clone() };
    let fits = |k: &u64| of(*k).graph_cycles().is_ok();
    let most = (1..=64).rev().find(fits).unwrap_or(1);
    let mut cycles = vec![0, 1, most];
    cycles.dedup();
    let arm = |k: u64| {
        let name = if k == 0 { "graph-off".to_owned() } else { format!("graph-{k}") };
        Arm { name, kind: ArmKind::Process, relation: Relation::Same(Scope::default()), request: of(k) }
    };
    cycles.into_iter().map(arm).collect()
}

struct Builder<'a> {
    case: &'a Case,
    engine: &'a Embedded,
    facts: &'a Facts,
    work: &'a Path,
    base: RunRequest,
    arms: Vec<Arm>,
}

impl Builder<'_> {
    fn same(&mut self, name: impl Into<String>, kind: ArmKind, kinds: &[&str], change: impl FnOnce(&mut RunRequest)) {
        let scope = self.scope(kinds, &[]);
        self.push(name.into(), kind, Relation::Same(scope), change);
    }

    fn push(&mut self, name: String, kind: ArmKind, relation: Relation, change: impl FnOnce(&mut RunRequest)) {
        let mut request = self.base.clone();
        change(&mut request);
        self.arms.push(Arm { name, kind, relation, request });
    }

    /// The case's scope, narrowed to what the arm has in common with the base.
    fn scope(&self, kinds: &[&str], folds: &[u32]) -> Scope {
        let mut scope = self.case.compare.clone();
        if !kinds.is_empty() {
            let wanted = |k: &&&str| scope.kinds.is_empty() || scope.kinds.iter().any(|s| s == **k);
            scope.kinds = kinds.iter().filter(wanted).map(|k| (*k).to_owned()).collect();
        }
        if !folds.is_empty() {
            scope.folds = folds.to_vec();
        }
        scope
    }

    fn cuts(&self) -> Vec<(ResumeArm, Cut)> {
        let t = &self.engine.settings.training;
        let last = self.facts.folds - 1;
        let cut = |place: &ResumeArm| {
            let cut = match place {
                ResumeArm::FirstStep => Cut { fold: 0, cycle: 1 },
                ResumeArm::MidFold => Cut { fold: last, cycle: t.cycles / 2 },
                ResumeArm::FoldEnd => Cut { fold: 0, cycle: t.cycles },
                ResumeArm::BeforeTargetUpdate => {
                    Cut { fold: 0, cycle: (t.target_period.unwrap_or(1) - 1) / t.updates_per_cycle }
                }
            };
            (*place, cut)
        };
        self.engine.arms.resume.iter().map(cut).collect()
    }

    fn add_base(&mut self) {
        let cuts: Vec<Cut> = self.cuts().into_iter().map(|(_, cut)| cut).collect();
        let folder = self.work.join("checkpoints");
        let checkpoints = (!cuts.is_empty()).then_some(Checkpoints { folder, cuts, every: None });
        self.push("base".into(), ArmKind::Base, Relation::Base, |r| r.checkpoints = checkpoints);
    }

    fn add_processes(&mut self) {
        let arms = self.engine.arms.clone();
        if arms.repeat > 1 {
            self.same("repeat", ArmKind::Repeat, &[], |r| r.repeat = arms.repeat);
        }
        for i in 1..=arms.processes {
            self.same(format!("process-{i}"), ArmKind::Process, &[], |_| {});
        }
    }

    fn add_paths(&mut self) {
        let arms = self.engine.arms.clone();
        for &threads in &arms.threads {
            // Twice, so that a sum that follows arrival order can be told from one that follows the thread count.
            for run in 1..=if threads > 1 { 2 } else { 1 } {
                let name = if run == 1 { format!("threads-{threads}") } else { format!("threads-{threads}-again") };
                self.same(name, ArmKind::Threads { threads, run }, &[], |r| r.threads = Some(threads));
            }
        }
        if arms.simd {
            for path in self.facts.simd.clone() {
                self.same(format!("simd-{path}"), ArmKind::Simd { path: path.clone() }, &[], |r| r.simd = Some(path));
            }
        }
    }

    fn add_folds(&mut self) {
        let arms = self.engine.arms.folds.clone();
        if arms.contains(&FoldArm::Alone) {
            let wanted = self.case.compare.folds.clone();
            for fold in (0..self.facts.folds).filter(|f| wanted.is_empty() || wanted.contains(f)) {
                let scope = self.scope(&["step", "eval", "fold"], &[fold]);
                let kind = ArmKind::FoldAlone { fold };
                self.push(format!("fold-{fold}-alone"), kind, Relation::Same(scope), |r| r.folds = Some(vec![fold]));
            }
        }
        if arms.contains(&FoldArm::Permuted) && self.facts.folds > 1 {
            let order = (0..self.facts.folds).rev().collect();
            let kinds = ["step", "eval", "fold"];
            self.same("folds-permuted", ArmKind::FoldsPermuted, &kinds, |r| r.folds = Some(order));
        }
    }

    fn add_resumes(&mut self) {
        let folder: PathBuf = self.work.join("checkpoints");
        for (place, cut) in self.cuts() {
            let name = match place {
                ResumeArm::FirstStep => "resume-first-step",
                ResumeArm::MidFold => "resume-mid-fold",
                ResumeArm::FoldEnd => "resume-fold-end",
                ResumeArm::BeforeTargetUpdate => "resume-before-target-update",
            };
            let from = folder.join(cut.name());
            self.same(name, ArmKind::Resume { cut, place }, &[], |r| r.resume = Some(from));
        }
    }

    fn add_evaluations(&mut self) {
        let kinds = ["step", "fold", "close"];
        for when in self.engine.arms.evaluation.clone() {
            let (name, enabled, every) = match when {
                EvaluationArm::Off => ("evaluation-off", false, 0),
                EvaluationArm::EveryCycle => ("evaluation-every-cycle", true, 1),
                EvaluationArm::EveryThirdCycle => ("evaluation-every-third-cycle", true, 3),
            };
            self.same(name, ArmKind::Evaluation { when }, &kinds, |r| {
                (r.settings.evaluation.enabled, r.settings.evaluation.every) = (enabled, every);
            });
        }
        for rows in self.engine.arms.batch_rows.clone() {
            let kind = ArmKind::BatchRows { rows };
            self.same(format!("batch-rows-{rows}"), kind, &[], |r| r.settings.evaluation.rows = Some(rows));
        }
    }

    fn add_traces(&mut self) {
        for level in self.engine.arms.trace.clone() {
            let kinds: &[&str] = if level == Level::Off { &["close"] } else { &[] };
            self.same(format!("trace-{level}"), ArmKind::Trace { level }, kinds, |r| r.level = level);
        }
        if let Some(seed) = self.engine.arms.other_seed {
            self.push("other-seed".into(), ArmKind::OtherSeed, Relation::Differs, |r| r.settings.engine.seed = seed);
        }
    }
}
