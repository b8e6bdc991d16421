//! The contract's vectors on every SIMD path of this machine, and what the runner does with files that are not what it
//! expects.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use samebits::engine::cpu::{Cpu, Faults, SimdPath};
use samebits::engine::vectors::{On, Report, VectorError, kinds, run_bytes, run_file};
use serde_json::{Value, json};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of vectors");
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "json"));
    files.sort();
    files
}

fn vectors() -> PathBuf {
    root().join("cases/vectors")
}

fn engine(path: SimdPath, threads: usize) -> Cpu {
    Cpu::new(path, threads, Faults::default()).expect("an available path")
}

/// Every file of a folder, on every path of this machine; the kinds that ran.
fn all_agree(folder: &Path) -> BTreeSet<String> {
    let (files, mut ran) = (files(folder), BTreeSet::new());
    for path in SimdPath::available() {
        for threads in [1, 2] {
            let cpu = engine(path, threads);
            for file in &files {
                let report = run_file(file, On::Cpu(&cpu)).unwrap_or_else(|e| panic!("{path}: {e}"));
                assert_eq!(first(&report), None, "{path}: {}", file.display());
                assert!(report.passed() > 0, "{path}: {} ran nothing", file.display());
                ran.extend(report.kinds.into_keys());
            }
        }
    }
    ran
}

/// The first mismatch of a report, with its kind.
fn first(report: &Report) -> Option<String> {
    report.kinds.iter().find_map(|(kind, count)| Some(format!("{kind}: {}", count.first.as_ref()?)))
}

/// Would fail if a path of this machine computed anything but the contract, or if a kind had a runner and no vector.
#[test]
fn every_path_computes_the_contract() {
    let ran = all_agree(&vectors());
    let idle: Vec<&str> = kinds().into_iter().filter(|kind| !ran.contains(*kind)).collect();
    assert!(idle.is_empty(), "no vector of the kinds {idle:?}");
}

/// Would fail if an engine had been fitted to the committed inputs: the oracle makes other ones.
#[test]
fn another_seed_agrees_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = root().join("tests/oracle/make_vectors.py");
    let made = match Command::new("python3").arg(script).arg(folder.path()).arg("2").output() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            println!("not run: python3 missing");
            return;
        }
        made => made.expect("python3 starts"),
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert_eq!(files(folder.path()).len(), files(&vectors()).len());
    all_agree(folder.path());
}

/// Would fail if a fault in the arithmetic could pass the vectors.
#[test]
fn planted_faults_are_seen() {
    let failed = |faults, file: &str| {
        let cpu = Cpu::new(SimdPath::best(), 1, faults).expect("the proof comes before the fault");
        let report = run_file(&vectors().join(file), On::Cpu(&cpu)).expect("a vector file");
        first(&report).unwrap_or_else(|| panic!("{file} passed"))
    };
    let flush = Faults { flush_to_zero: true, ..Faults::default() };
    failed(flush, "01-scalar.json");
    if SimdPath::best() > SimdPath::Scalar {
        let contracted = Faults { contracted_polyak: true, ..Faults::default() };
        assert!(failed(contracted, "06-update.json").starts_with("polyak: "));
        let seen = failed(contracted, "whole-update.json");
        assert!(seen.contains(".after.target."), "{seen}");
    }
}

/// The first case of each kind, alone in a file.
fn one_of_each_kind() -> Vec<Value> {
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    for file in files(&vectors()) {
        let text = std::fs::read(&file).expect("a vector file");
        let mut file: Value = serde_json::from_slice(&text).expect("JSON");
        for case in file["cases"].as_array_mut().expect("cases") {
            if seen.insert(case["kind"].to_string()) {
                found.push(case.take());
            }
        }
    }
    found
}

fn run_text(text: &str, cpu: &Cpu) -> Result<Report, VectorError> {
    run_bytes(Path::new("x.json"), text.as_bytes(), On::Cpu(cpu))
}

fn run_case(case: &Value, cpu: &Cpu) -> Result<Report, VectorError> {
    run_text(&json!({ "contract": "chain/1", "about": "", "seed": 1, "cases": [case] }).to_string(), cpu)
}

/// Pointers to everything below `value` that is neither an object nor a list of objects.
fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| leaves(value, &format!("{at}/{key}"), found)),
        Value::Array(list) if list.iter().any(Value::is_object) => {
            list.iter().enumerate().for_each(|(i, value)| leaves(value, &format!("{at}/{i}"), found));
        }
        _ => found.push(at.to_owned()),
    }
}

/// Another value of the same form: one digit, one number or one letter is not what it was.
fn falsify(value: &mut Value) {
    match value {
        Value::String(text) if text.is_empty() => text.push_str("00000000"),
        Value::String(text) if text.ends_with("nan") => text.replace_range(text.len() - 3.., "00000000"),
        Value::String(text) => {
            let last = if text.pop() == Some('0') { '1' } else { '0' };
            text.push(last);
        }
        Value::Array(list) => falsify(list.last_mut().expect("a list that holds something")),
        Value::Number(n) => *value = json!(n.as_u64().expect("whole") ^ 1),
        other => *other = json!({ "step": 0, "tensor": 0, "element": 0 }),
    }
}

/// Would fail if an expected value were not compared, whatever its kind and key, or if the mismatch went unnamed.
#[test]
fn every_falsified_value_is_named() {
    let cpu = engine(SimdPath::Scalar, 1);
    for case in one_of_each_kind() {
        let mut keys = Vec::new();
        leaves(&case["out"], "", &mut keys);
        for key in keys {
            let mut wrong = case.clone();
            falsify(wrong["out"].pointer_mut(&key).expect("a leaf"));
            let report = run_case(&wrong, &cpu).unwrap_or_else(|e| panic!("{key}: {e}"));
            let named = first(&report).unwrap_or_else(|| panic!("{} passed with a false {key}", case["kind"]));
            let path = key.trim_start_matches('/').replace('/', ".");
            assert!(named.contains(&path) && named.contains("expected"), "{key}: {named}");
        }
    }
}

/// Would fail if a wrong element were named by another place or value than its own.
#[test]
fn a_mismatch_says_case_key_element_and_values() {
    let case = json!({"kind": "add", "note": "n", "in": {"a": "3f800000 nan", "b": "3f800000 00000000"},
        "out": {"r": "40000001 nan"}});
    let report = run_case(&case, &engine(SimdPath::Scalar, 1)).expect("runs");
    assert_eq!(first(&report).expect("wrong"), "add: case 0 (\"n\"): r[0] expected 40000001, found 40000000");
    assert_eq!((report.passed(), report.failed()), (0, 1));
}

/// Would fail if a value that nobody computes, or one that is left out, could pass.
#[test]
fn unknown_and_absent_results_are_refused() {
    let cpu = engine(SimdPath::Scalar, 1);
    for case in one_of_each_kind() {
        let Value::Object(out) = &case["out"] else { continue };
        let mut more = case.clone();
        more["out"]["zzz"] = json!("00000000");
        let error = run_case(&more, &cpu).expect_err("a key too many").to_string();
        assert!(error.contains("out.zzz"), "{error}");
        for key in out.keys() {
            let mut less = case.clone();
            less["out"].as_object_mut().expect("an object").remove(key);
            let error = run_case(&less, &cpu).expect_err("a key too few").to_string();
            assert!(error.contains("out."), "{error}");
        }
    }
}

/// Would fail if a hostile file could panic, pass, or be refused without saying where.
#[test]
fn hostile_cases_are_refused_by_case_and_key() {
    let cpu = engine(SimdPath::Scalar, 1);
    for (kind, input, out, says) in [
        ("magic", json!({}), json!({}), "unknown kind"),
        ("uniform", json!([]), json!({}), "`in`"),
        ("uniform", json!({}), json!({}), "in.words"),
        ("uniform", json!({"words": ""}), json!(7), "`out`"),
        ("uniform", json!({"words": "xyz"}), json!({}), "in.words"),
        ("uniform", json!({"words": "+0000001"}), json!({}), "in.words"),
        ("uniform", json!({"words": "00000000"}), json!({"u": ""}), "out.u"),
        ("uniform", json!({"words": "00000000"}), json!(null), "out.u"),
        ("dot", json!({"k": 2, "a": "00000000", "b": ""}), json!({"acc": ""}), "in.a"),
        ("dot", json!({"k": 0, "a": "", "b": ""}), json!({"acc": ""}), "in.k"),
        ("dot", json!({"k": 1e30, "a": "", "b": ""}), json!({"acc": ""}), "in.k"),
        ("add", json!({"a": "00000000", "b": ""}), json!({"r": ""}), "in.b"),
        ("reduce_fill", json!({"key": "00000000 00000000", "n": 1u64 << 60}), json!({}), "in.n"),
        ("bias_gradient", json!({"batch": 9_999_999, "width": 9_999_999, "dz": ""}), json!({}), "in.dz"),
        ("argmax", json!({"q": "00000000"}), json!({"index": []}), "in.q"),
        ("heads_backward", json!({"g": "00000000 00000000 00000000", "actions": [5, 0, 0]}), json!({}), "in.actions"),
        ("keys", json!({"k": 2}), json!({"keys": ""}), "in.k"),
        ("priority", json!({"alpha": "1/3", "epsilon": "00000000", "deltas": ""}), json!({}), "in.alpha"),
        ("draw", json!({"q": "", "r": ""}), json!({}), "in.q"),
        ("draw", json!({"q": "00000000", "r": "0000000000000000"}), json!({}), "in.q"),
        ("draw", json!({"q": "00000001", "r": "0000000000000001"}), json!({}), "in.r"),
        ("write", json!({"q": "00000001", "rows": [1], "new": "00000001"}), json!({}), "in.rows"),
        ("write", json!({"q": "00000001", "rows": [0, 0], "new": "00000001"}), json!({}), "in.new"),
        ("environment", json!({"window_start": 0, "window_end": 1}), json!({}), "in.window_start"),
        ("environment", json!({"window_start": u64::MAX, "window_end": 9}), json!({}), "in.window_start"),
        ("not_finite", json!({"steps": [{"step": 1, "tensors": [7]}]}), json!(null), "in.steps.0.tensors"),
        (
            "not_finite",
            json!({"steps": [{"step": 1, "tensors": []}, {"step": 1, "tensors": []}]}),
            json!(null),
            "in.steps.1.step",
        ),
    ] {
        let case = json!({"kind": kind, "note": "", "in": input, "out": out});
        let error = run_case(&case, &cpu).expect_err(kind).to_string();
        assert!(error.contains("case 0") && error.contains(says), "{case}: {error}");
    }
    assert!(run_text("{", &cpu).expect_err("cut").to_string().contains("not a vector file"));
    let empty = r#"{"contract": "chain/1", "cases": []}"#;
    assert!(run_text(empty, &cpu).expect_err("empty").to_string().contains("no cases"));
    let other = r#"{"contract": "chain/2", "cases": []}"#;
    assert!(run_text(other, &cpu).expect_err("other").to_string().contains("chain/1"));
}

/// Would fail if any input of any kind, put out of shape or claimed to be huge, could panic, hang or fill the memory.
#[test]
fn inputs_out_of_shape_never_panic() {
    let cpu = engine(SimdPath::Scalar, 1);
    let shapes = [json!(null), json!(0), json!(1u64 << 24), json!(u64::MAX), json!(""), json!("00000000"), json!([0])];
    for case in one_of_each_kind() {
        let mut keys = Vec::new();
        leaves(&case["in"], "", &mut keys);
        // Of a network's tensors, one group stands for all.
        keys.retain(|key| !["/before/target/", "/before/m/", "/before/v/"].iter().any(|group| key.starts_with(group)));
        for key in keys {
            for shape in &shapes {
                let mut hostile = case.clone();
                *hostile["in"].pointer_mut(&key).expect("a leaf") = shape.clone();
                if let Err(error) = run_case(&hostile, &cpu) {
                    assert!(error.to_string().contains("case 0"), "{key} = {shape}: {error}");
                }
            }
        }
    }
}
