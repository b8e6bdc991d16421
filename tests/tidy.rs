//! The house rules that a compiler does not check: floors, pairs, orphans, sizes, fresh generated tables.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Floors from the lowest up, as `docs/design.md` lists them.
const FLOORS: [&str; 13] = [
    "bits", "digest", "trace", "artifact", "scenario", "engine", "launch", "compare", "detect", "verify", "audit",
    "report", "cli",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
}

fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(&root().join("src"), ".rs", &mut found);
    found
        .into_iter()
        .map(|p| (p.strip_prefix(root().join("src")).unwrap().to_owned(), fs::read_to_string(&p).unwrap()))
        .collect()
}

/// Would fail if a floor used one above it.
#[test]
fn folders_use_only_folders_below() {
    let floor = |name: &str| FLOORS.iter().position(|f| *f == name);
    for (path, text) in sources() {
        let Some(own) = path.iter().next().and_then(|f| floor(&f.to_string_lossy())) else { continue };
        for (i, line) in text.lines().enumerate() {
            for part in line.split("crate::").skip(1) {
                let name: String = part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let Some(used) = floor(&name) else { continue };
                assert!(
                    used <= own,
                    "src/{}:{}: {} uses {name}, which is above it",
                    path.display(),
                    i + 1,
                    FLOORS[own]
                );
            }
        }
    }
}

/// Would fail if a folder of the design were missing from the list, or the list named one that is not there.
#[test]
fn the_floors_are_the_folders() {
    let mut folders: Vec<String> = fs::read_dir(root().join("src"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.is_dir())
        .map(|p| p.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    folders.sort();
    let mut floors = FLOORS.map(str::to_owned).to_vec();
    floors.sort();
    assert_eq!(folders, floors);
}

/// Would fail if a file grew past what reads well, or had no sentence of purpose.
#[test]
fn files_have_a_purpose_and_a_size() {
    for (path, text) in sources() {
        assert!(text.starts_with("//! "), "src/{}: its first line says its purpose", path.display());
        let lines = text.lines().count();
        assert!(lines <= 600, "src/{}: {lines} lines; over 600 wants a split", path.display());
    }
}

/// Would fail if unsafe code left its one file.
#[test]
fn unsafe_stays_in_simd() {
    for (path, text) in sources() {
        let name = path.display().to_string();
        let allowed = name.starts_with("engine/cuda/") || name.starts_with("engine/cpu/simd");
        let used = text.lines().any(|l| {
            let code = l.split("//").next().unwrap_or("");
            code.contains("unsafe {") || code.contains("unsafe fn") || code.contains("unsafe impl")
        });
        assert!(allowed || !used, "src/{name}: unsafe outside engine/cpu/simd");
    }
}

/// Would fail if a kernel had no launcher of its name.
#[test]
fn kernels_and_launchers_are_pairs() {
    let mut found = Vec::new();
    files(&root().join("kernels"), ".cu", &mut found);
    assert!(!found.is_empty());
    for kernel in found {
        let stem = kernel.file_stem().unwrap().to_string_lossy().into_owned();
        let launcher = root().join(format!("src/engine/cuda/{stem}.rs"));
        let text = fs::read_to_string(&launcher).unwrap_or_else(|e| panic!("{}: {e}", launcher.display()));
        assert!(text.contains(&format!("source!(\"{stem}\")")), "{stem}.rs does not launch kernels/{stem}.cu");
    }
}

/// Would fail if work were left behind under a promise.
#[test]
fn nothing_is_left_for_later() {
    let words =
        [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["todo", "!("].concat(), ["unimplemented", "!("].concat()];
    for (path, text) in sources() {
        for word in &words {
            assert!(!text.contains(word), "src/{}: {word}", path.display());
        }
    }
}

/// Would fail if a golden had no case, or a case that wants one had none.
#[test]
fn goldens_and_cases_are_pairs() {
    let cases = samebits::scenario::case::find_cases(&root().join("cases")).unwrap();
    for (name, path) in &cases {
        let case = samebits::scenario::case::Case::load(path, &[]).unwrap_or_else(|e| panic!("{e}"));
        let wants = case.golden && case.mutant.is_none();
        assert!(!wants || samebits::verify::golden::path(&case).is_file(), "{name} has no golden");
    }
    let orphans = samebits::verify::golden::orphans(root(), &cases);
    assert!(orphans.is_empty(), "no case produces {orphans:?}");
}

/// Would fail if a mutant had no case, no detector, or the wrong one.
#[test]
fn every_mutant_has_its_case_and_detector() {
    let cases = samebits::scenario::case::find_cases(&root().join("cases")).unwrap();
    let all = cases.values().map(|p| samebits::scenario::case::Case::load(p, &[]).unwrap());
    let planted: BTreeMap<String, String> = all.filter_map(|c| c.mutant).map(|m| (m.name, m.caught_by)).collect();
    for name in samebits::scenario::mutant::NAMES {
        let detector = samebits::detect::DETECTORS.iter().find(|d| d.mutants.contains(&name));
        let slug = detector.unwrap_or_else(|| panic!("no detector must report {name}")).slug;
        assert_eq!(planted.get(name).map(String::as_str), Some(slug), "the case of {name}");
    }
    for detector in &samebits::detect::DETECTORS {
        assert!(!detector.mutants.is_empty(), "{} has no mutant, so nothing shows that it works", detector.slug);
    }
}

/// Fails when the part between two markers is not `fresh`; with SAMEBITS_WRITE_DOCS set it is written instead.
fn generated(file: &str, name: &str, fresh: &str) {
    let path = root().join(file);
    let text = fs::read_to_string(&path).unwrap();
    let (start, end) = (format!("<!-- generated: {name} -->\n"), format!("<!-- end: {name} -->"));
    let from = text.find(&start).unwrap_or_else(|| panic!("{file}: no {start}")) + start.len();
    let to = from + text[from..].find(&end).unwrap_or_else(|| panic!("{file}: no {end}"));
    if std::env::var_os("SAMEBITS_WRITE_DOCS").is_some() {
        fs::write(&path, format!("{}{fresh}{}", &text[..from], &text[to..])).unwrap();
    } else {
        assert_eq!(&text[from..to], fresh, "{file}: stale; SAMEBITS_WRITE_DOCS=1 cargo test --test tidy writes it");
    }
}

/// Keys of a table of a case file, from the fields of its struct: name, type, default, meaning.
fn keys(table: &str, source: &str, name: &str, defaults: &serde_json::Value) -> String {
    let body = source.split(&format!("struct {name} {{\n")).nth(1).and_then(|rest| rest.split("\n}").next()).unwrap();
    // Structs with a default of their own; of the others each field says so.
    let whole = ["TrainingSettings", "EvaluationSettings", "Arms", "CommandArms", "Scope"].contains(&name);
    let (mut text, mut about, mut optional) = (String::new(), Vec::new(), false);
    for line in body.lines().map(str::trim) {
        if let Some(doc) = line.strip_prefix("/// ") {
            about.push(doc);
        } else if line.starts_with("#[") {
            optional |= line.contains("default");
        } else if let Some((key, kind)) = line.trim_start_matches("pub ").trim_end_matches(',').split_once(": ") {
            let path = if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
            let known = path.split('.').try_fold(defaults, |value, part| value.get(part));
            let default = match known.filter(|v| !v.is_null()) {
                Some(value) if !value.is_object() && (optional || whole) => value.to_string(),
                _ if optional || kind.starts_with("Option") || whole => String::new(),
                _ => "required".to_owned(),
            };
            let kind = kind.strip_prefix("Option<").and_then(|k| k.strip_suffix('>')).unwrap_or(kind);
            if !about.is_empty() {
                text.push_str(&format!("| `{path}` | `{kind}` | {default} | {} |\n", about.join(" ")));
            }
            (about, optional) = (Vec::new(), false);
        }
    }
    text
}

/// Examples with a page, and the case that gates each.
const EXAMPLES: [(&str, &str); 4] = [
    ("numpy-threads", "gate/train"),
    ("hash-order", "gate/train"),
    ("worker-seed", "gate/train"),
    ("resume-draw", "gate/resume"),
];

/// Would fail if an example had no page in the index, or its case could not be read.
#[test]
fn examples_are_listed_and_their_cases_are_valid() {
    let index = fs::read_to_string(root().join("examples/README.md")).unwrap();
    let folders = fs::read_dir(root().join("examples")).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir());
    let mut found: Vec<String> = folders.map(|p| p.file_name().unwrap().to_string_lossy().into_owned()).collect();
    found.sort();
    let mut listed = EXAMPLES.map(|(name, _)| name.to_owned()).to_vec();
    listed.sort();
    assert_eq!(found, listed);
    for (example, case) in EXAMPLES {
        assert!(index.contains(&format!("({example}/README.md)")), "examples/README.md does not list {example}");
        let path = root().join(format!("examples/{example}/cases/{case}.toml"));
        samebits::scenario::case::Case::load(&path, &[]).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// A file as a block of code.
fn fenced(language: &str, file: &str) -> String {
    format!("```{language}\n{}```\n", fs::read_to_string(root().join(file)).unwrap())
}

/// The reference of all keys of a case whose engine is a command.
fn command_reference() -> String {
    let read = |file: &str| fs::read_to_string(root().join("src/scenario").join(file)).unwrap();
    let (command, case) = (read("command.rs"), read("case.rs"));
    let document = samebits::scenario::document::Document {
        path: "cases/a/command.toml".into(),
        text: "about = \"\"\n[engine]\ncommand = [\"true\"]\n".to_owned(),
    };
    let parsed = samebits::scenario::case::Case::parse(&document, &[]).unwrap();
    let defaults = serde_json::json!({
        "guarantee": parsed.guarantee, "golden": parsed.golden, "timeout_s": parsed.timeout_s, "level": parsed.level,
        "engine": { "folder": "." }, "knobs": { "NAME": { "must_not_matter": false } },
    });
    let tables = [
        ("", &command, "File"),
        ("engine", &command, "CommandSettings"),
        ("knobs.NAME", &command, "Knob"),
        ("arms", &command, "CommandArms"),
        ("compare", &case, "Scope"),
        ("expect", &case, "Expect"),
    ];
    let rows: String = tables.iter().map(|(table, source, name)| keys(table, source, name, &defaults)).collect();
    format!("| key | type | default | meaning |\n|---|---|---|---|\n{rows}")
}

/// The reference of all keys of a case file.
fn case_reference() -> String {
    let read = |file: &str| fs::read_to_string(root().join("src/scenario").join(file)).unwrap();
    let (settings, case) = (read("settings.rs"), read("case.rs"));
    let small = "[engine]\nsize = \"tiny\"\n[market]\nsynthetic = { bars = 1000 }\n[folds]\ntrain = 100\nvalidation = 50\n[training]\ntarget_period = 1\n";
    let document = samebits::scenario::document::Document {
        path: "cases/a/tiny.toml".into(),
        text: format!("about = \"\"\n{small}"),
    };
    let parsed = samebits::scenario::case::Case::parse(&document, &[]).unwrap();
    let mut defaults = serde_json::to_value(&parsed.embedded().unwrap().settings).unwrap();
    defaults["training"]["target_period"] = serde_json::Value::Null; // one of two that must be given
    defaults["guarantee"] = serde_json::json!(parsed.guarantee);
    defaults["golden"] = serde_json::json!(parsed.golden);
    defaults["timeout_s"] = serde_json::json!(parsed.timeout_s);
    defaults["level"] = serde_json::json!(parsed.level);
    defaults["values"] = serde_json::json!(parsed.values);
    let tables = [
        ("", &case, "File"),
        ("engine", &settings, "EngineSettings"),
        ("market", &settings, "MarketSettings"),
        ("market.synthetic", &settings, "SyntheticSettings"),
        ("folds", &settings, "FoldSettings"),
        ("training", &settings, "TrainingSettings"),
        ("evaluation", &settings, "EvaluationSettings"),
        ("arms", &case, "Arms"),
        ("compare", &case, "Scope"),
        ("expect", &case, "Expect"),
    ];
    let rows: String = tables.iter().map(|(table, source, name)| keys(table, source, name, &defaults)).collect();
    format!("| key | type | default | meaning |\n|---|---|---|---|\n{rows}")
}

/// Would fail if a generated table no longer said what the program says.
#[test]
fn generated_parts_are_fresh() {
    generated("README.md", "samebits mutants", &samebits::cli::mutants::matrix().unwrap());
    generated("docs/detectors.md", "samebits mutants --detectors", &samebits::cli::mutants::detectors());
    generated("docs/trace.md", "example trace", &samebits::trace::example::text());
    generated("docs/case.md", "keys of a case", &case_reference());
    generated("README.md", "samebits help", &samebits::cli::help_table());
    generated("docs/case.md", "keys of a command's case", &command_reference());
    generated("docs/any-engine.md", "examples/trace_writer.py", &fenced("python", "examples/trace_writer.py"));
    for (example, case) in EXAMPLES {
        let (page, patch) = (format!("examples/{example}/README.md"), format!("examples/{example}/repair.patch"));
        generated(&page, "repair.patch", &fenced("diff", &patch));
        generated(&page, "case", &fenced("toml", &format!("examples/{example}/cases/{case}.toml")));
    }
}
