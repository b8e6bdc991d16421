//! Case files and assignments as foreign text: what a file claims is bounded before anything is made of it, and settings
//! reach another process with the same bits.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use samebits::scenario::case::Case;
use samebits::scenario::document::{CaseError, Document, set};
use samebits::scenario::plan::{Facts, resolve};
use samebits::scenario::request::{Checkpoints, Cut, RunRequest};
use samebits::scenario::settings::Settings;

const TINY: &str = "about = \"x\"\n[engine]\nsize = \"tiny\"\n[market.synthetic]\nbars = 99\n[folds]\ntrain = 9\n\
                    validation = 9\n[training]\ntau = 0.1\n";

fn parse(text: &str, assignments: &[String]) -> Result<Case, CaseError> {
    Case::parse(&Document { path: "case/tiny.toml".into(), text: text.to_owned() }, assignments)
}

/// Would fail if a case that names itself, or a mutant, as its clean twin were followed without end.
#[test]
fn a_twin_is_not_a_mutant() {
    let folder = tempfile::tempdir().expect("a folder");
    let mutant = |twin: &str| {
        format!("about = \"x\"\ntwin = \"a/{twin}\"\n[mutant]\nname = \"hash-order\"\ncaught_by = \"x\"\n")
    };
    fs::create_dir(folder.path().join("a")).expect("a suite");
    let path = |name: &str| folder.path().join("a").join(name).with_extension("toml");
    for (name, twin) in [("tiny-own", "tiny-own"), ("tiny-one", "tiny-other"), ("tiny-other", "tiny-one")] {
        fs::write(path(name), mutant(twin)).expect("a case");
    }
    for name in ["tiny-own", "tiny-one"] {
        let error = Case::load(&path(name), &[]).expect_err("no clean twin").to_string();
        assert!(error.contains("has a twin itself"), "{error}");
    }
    fs::write(path("tiny"), TINY).expect("a case");
    fs::write(path("tiny-good"), mutant("tiny")).expect("a case");
    assert_eq!(Case::load(&path("tiny-good"), &[]).expect("a clean twin").embedded().unwrap().settings.folds.train, 9);
}

/// Would fail if a few digits of a case could ask for more runs, threads or arms than a machine has memory for.
#[test]
fn counts_of_arms_are_bounded() {
    assert!(parse(TINY, &[]).is_ok());
    for (key, value) in [
        ("repeat", "4611686018427387904"),
        ("processes", "4611686018427387904"),
        ("threads", "[4611686018427387904]"),
        ("threads", &format!("[{}]", "1, ".repeat(65))),
        ("resume", &format!("[{}]", "\"mid-fold\", ".repeat(65))),
        ("batch_rows", &format!("[{}]", "1, ".repeat(65))),
    ] {
        let error = parse(&format!("{TINY}[arms]\n{key} = {value}\n"), &[]).expect_err(key).to_string();
        assert!(error.starts_with("case/tiny.toml:12: ") && error.contains("at most"), "{error}");
    }
}

/// Would fail if a dotted key could nest tables until the stack ends.
#[test]
fn assignments_do_not_nest_without_end() {
    let deep = vec!["a"; 100_000].join(".") + "=1";
    let error = set(&mut toml::Table::new(), &deep).expect_err("too deep").to_string();
    assert!(error.contains("100000 names; at most"), "{}", &error[error.len() - 80..]);
}

proptest! {
    /// Would fail if a run in another process, or from a checkpoint, got settings that differ in their last bits.
    #[test]
    fn settings_keep_their_bits_as_json(bits in any::<u64>(), lr in 0.0f64..1.0) {
        let number = f64::from_bits(bits);
        prop_assume!(number.is_finite());
        let mut settings = parse(TINY, &[]).expect("a case").embedded().unwrap().settings.clone();
        (settings.training.lr, settings.training.clip) = (lr, number);
        let json = serde_json::to_string(&settings).expect("JSON");
        let read: Settings = serde_json::from_str(&json).expect("what was written");
        prop_assert_eq!(read.training.lr.to_bits(), lr.to_bits());
        prop_assert_eq!(read.training.clip.to_bits(), bits);
    }
}

/// Would fail if a refusal of what was set on the command line named the file instead.
#[test]
fn refusals_of_assignments_name_them() {
    let error = parse(TINY, &["training.gama=1".to_owned()]).expect_err("no such key");
    assert!(error.to_string().starts_with("--set training.gama=1: unknown key \"gama\""), "{error}");
}

/// Would fail if a key that is like no other were refused without the keys of its table, or one of a command's case
/// without saying what makes a case that of a command.
#[test]
fn unknown_keys_are_refused_with_those_of_their_table() {
    let command = "about = \"x\"\n[engine]\ncommand = [\"true\"]\n";
    for (text, words) in [
        (format!("zebra = 1\n{TINY}"), "unknown key \"zebra\"; one of: about, engine, market"),
        (format!("{TINY}zebra = 1\n"), "one of: cycles, env_steps_per_cycle"),
        (format!("{TINY}[arms]\nzebra = 1\n"), "one of: repeat"),
        (format!("{command}zebra = 1\n"), "one of: command, outputs, copy, env, seed, folder"),
        (format!("{command}[arms]\nzebra = 1\n"), "one of: processes, vary, trace, other_seed"),
        (format!("{command}[zebra]\na = 1\n"), "one of: about, engine, knobs"),
        (format!("{command}[knobs.m]\nzebra = 1\n"), "one of: values, must_not_matter"),
        ("about = \"x\"\n[engine]\nprogram = \"true\"\n".to_owned(), "[engine] has the key command"),
    ] {
        let error = parse(&text, &[]).expect_err("an unknown key").to_string();
        assert!(error.contains(words) && error.lines().count() == 1, "{error}");
    }
}

/// Would fail if a graph launch could end between two cycles whose state is looked at, or a refusal did not say what fits.
#[test]
fn graph_launches_end_where_state_is_looked_at() {
    let text = format!("{TINY}cycles = 48\n[evaluation]\nevery = 12\n");
    let case = parse(&text, &[]).expect("a case");
    let embedded = case.embedded().expect("the embedded engine");
    let mut request = RunRequest::new(embedded.settings.clone(), None);
    let cycles = |request: &RunRequest| request.graph_cycles();
    assert_eq!(cycles(&request), Ok(Some(6)), "the largest divisor of 12 up to 8");
    request.graph = Some(0);
    assert_eq!(cycles(&request), Ok(None));
    request.graph = Some(12);
    assert_eq!(cycles(&request), Ok(Some(12)));
    request.graph = Some(8);
    assert!(cycles(&request).is_err_and(|e| e.contains("divisors of 12 do")));
    (request.graph, request.settings.evaluation.every) = (Some(48), 0);
    assert_eq!(cycles(&request), Ok(Some(48)));
    let cut = Cut { fold: 0, cycle: 7 };
    request.checkpoints = Some(Checkpoints { folder: "x".into(), cuts: vec![cut], every: None });
    assert!(cycles(&request).is_err_and(|e| e.contains("divisors of 1 do")));
}

/// Would fail if a GPU's plan ran nothing on the CPU to compare with, or lost an arm, its graphs or its resumes.
#[test]
fn a_plan_on_a_gpu_keeps_the_cpu_to_compare_with() {
    let text =
        format!("{TINY}cycles = 48\n[arms]\nthreads = [1, 2]\nresume = [\"mid-fold\"]\ntrace = [\"off\", \"op\"]\n");
    let case = parse(&text, &[]).expect("a case");
    let facts = Facts { folds: 1, simd: Vec::new() };
    let engine = case.embedded().expect("the embedded engine");
    let plan = resolve(&case, engine, None, &facts, Path::new("work"));
    let on_gpu = plan.clone().on_device("GPU-1", Path::new("kernels"));
    let device = |name: &str| {
        let arm = on_gpu.arms.iter().find(|a| a.name == name).unwrap_or_else(|| panic!("no arm {name}"));
        arm.request.device.as_deref()
    };
    for arm in &plan.arms {
        device(&arm.name);
    }
    for name in ["base", "graph-off", "graph-1", "graph-48", "resume-mid-fold", "trace-off"] {
        assert_eq!(device(name), Some("GPU-1"), "{name}");
    }
    for name in ["threads-1", "threads-2", "trace-op", "resume-mid-fold-on-cpu"] {
        assert_eq!(device(name), None, "{name}");
    }
}
