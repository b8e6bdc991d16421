//! Case files and `--set` assignments: no text makes them panic or fill the memory, refusals name file or assignment,
//! and what is accepted resolves into arms and survives being written as settings.
//!
//! Lines `--set KEY=VALUE` at the start are assignments, the rest is the case `case/tiny.toml` of a temporary folder, in
//! which the twins `battery/tiny` and, when it names one, `case/tiny` itself can be found.

#![no_main]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use samebits::scenario::case::{Case, Engine};
use samebits::scenario::document::Document;
use samebits::scenario::plan::{Facts, resolve};
use samebits::scenario::settings::Settings;

/// A folder that is there as long as the process, and the case's path in it.
static PLACE: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("case/tiny.toml");
    for (name, text) in [("case/tiny.toml", ""), ("battery/tiny.toml", include_str!("../../cases/battery/tiny.toml"))] {
        let file = folder.path().join(name);
        std::fs::create_dir(file.parent().expect("a suite")).expect("a folder");
        std::fs::write(file, text).expect("a case");
    }
    (folder, path)
});

fn check(case: &Case) {
    let engine = match &case.engine {
        Engine::Embedded(engine) => engine,
        Engine::Command(engine) => {
            let arms = samebits::verify::command::arms(engine);
            assert!(arms[0].name == "base" && arms.len() < 10_000, "{} arms", arms.len());
            return;
        }
    };
    engine.settings.check().expect("checked settings");
    let json = serde_json::to_string(&engine.settings).expect("settings have a JSON form");
    assert_eq!(serde_json::from_str::<Settings>(&json).expect("what was written"), engine.settings);
    let facts = Facts { folds: 2, simd: vec!["scalar".to_owned(), "avx2".to_owned()] };
    for (_, fault) in case.faults().into_iter().map(|(field, fault)| (field, Some(fault))).chain([(None, None)]) {
        let plan = resolve(case, engine, fault.as_ref(), &facts, Path::new("work"));
        assert_eq!(plan.arms[0].name, "base");
        assert!(plan.arms.len() < 2000, "{} arms", plan.arms.len());
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok(mut text) = std::str::from_utf8(data) else { return };
    let mut assignments = Vec::new();
    while let Some((assignment, rest)) = text.strip_prefix("--set ").and_then(|t| t.split_once('\n')) {
        assignments.push(assignment.to_owned());
        text = rest;
    }
    let path = &PLACE.1;
    if text.contains("twin") {
        std::fs::write(path, text).expect("the temporary folder");
    }
    let document = Document { path: path.clone(), text: text.to_owned() };
    match Case::parse(&document, &assignments) {
        Ok(case) => check(&case),
        Err(error) => {
            let places = [path.display().to_string(), "--set ".to_owned()];
            assert!(places.iter().any(|place| error.to_string().starts_with(place)), "{error}");
            assert!(error.line.is_none_or(|line| line <= text.matches('\n').count() + 1), "{error}");
        }
    }
});
