//! One trial per case file, so that `cargo test` and `cargo nextest run` verify the same cases as `samebits test`.
//!
//! Would fail if any case's bits moved, or a planted fault went unnamed. Cases of suite `slow` are ignored (run them
//! with `--ignored`); a case that this machine cannot run is ignored when the trials are listed, so it never counts as
//! passed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use samebits::compare::verdict::Verdict;
use samebits::launch::slots::Slots;
use samebits::report::text;
use samebits::scenario::case::{Case, find_cases};
use samebits::verify::case::{missing, verify};
use samebits::verify::report::Options;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let arguments = Arguments::from_args();
    let cases = find_cases(&root.join("cases")).expect("cases/ can be read");
    let trials = cases.into_iter().map(|(name, path)| trial(name, path)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(name: String, path: PathBuf) -> Trial {
    let case = Case::load(&path, &[]);
    let lacking = case.as_ref().ok().and_then(missing).is_some();
    let ignored = lacking || name.starts_with("slow/");
    Trial::test(name, move || run(case.map_err(|e| Failed::from(e.to_string()))?)).with_ignored_flag(ignored)
}

fn run(case: Case) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let slots = Slots::new(2);
    let options = Options {
        program: env!("CARGO_BIN_EXE_samebits").into(),
        slots: &slots,
        work: folder.path().to_owned(),
        device: None,
        keep: false,
        pending: Some(folder.path().join("pending")),
        against: None,
        save: None,
        shuffle: None,
    };
    let report = verify(&case, &options);
    match (&report.verdict, &report.expected) {
        (Verdict::Same, _) | (_, Some(_)) => Ok(()),
        _ => Err(format!("{}\n{}", text::line(&report), text::details(&report)).into()),
    }
}
