//! The house rules that a compiler does not check: floors, pairs, orphans, sizes, fresh generated tables.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Floors from the lowest up, as `docs/design.md` lists them.
const FLOORS: [&str; 12] = [
    "bits", "digest", "trace", "artifact", "scenario", "engine", "launch", "compare", "detect", "verify", "report",
    "cli",
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
    let mut wanted: BTreeMap<PathBuf, String> = BTreeMap::new();
    for (name, path) in &cases {
        let case = samebits::scenario::case::Case::load(path, &[]).unwrap_or_else(|e| panic!("{e}"));
        if case.golden && case.mutant.is_none() {
            wanted.insert(samebits::verify::golden::path(&case), name.clone());
        }
    }
    let mut found = Vec::new();
    files(&root().join("snapshots"), ".snap", &mut found);
    for path in &found {
        assert!(wanted.remove(path).is_some(), "{}: no case produces this golden", path.display());
    }
    assert!(wanted.is_empty(), "no golden: {:?}", wanted.values().collect::<Vec<_>>());
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

/// Would fail if a generated table no longer said what the program says.
#[test]
fn generated_parts_are_fresh() {
    generated("README.md", "samebits mutants", &samebits::cli::mutants::matrix().unwrap());
    generated("docs/detectors.md", "samebits mutants --detectors", &samebits::cli::mutants::detectors());
    generated("docs/trace.md", "example trace", &samebits::trace::example::text());
    generated("README.md", "samebits help", &samebits::cli::help_table());
}
