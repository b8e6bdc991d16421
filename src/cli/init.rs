//! `samebits init`: a first case for the repository at hand, a `.gitignore` entry and a workflow that gates it.
//!
//! Nothing that is there is changed, except that lines are added to `.gitignore`.

use std::fs;
use std::path::{Path, PathBuf};

use super::Failure;
use crate::compare::verdict::exit;
use crate::launch::surroundings::find;
use crate::say;
use crate::scenario::case::Case;
use crate::scenario::outputs::Outputs;
use crate::trace::privacy::Mask;
use crate::trace::writer::write_atomically;

/// Arguments of `samebits init`.
#[derive(Debug, clap::Args)]
#[command(after_help = "  samebits init --output 'out/*.npz' -- python3 train.py --seed 1 --steps 50")]
pub struct Args {
    /// What the command writes, relative to this folder (repeatable) [default: what is found, else standard output]
    #[arg(long, value_name = "PATH")]
    pub output: Vec<String>,
    /// Name of the case [default: that of the script]
    #[arg(long, value_name = "NAME", value_parser = plain_name)]
    pub name: Option<String>,
    /// Say what would be written, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The command that trains, short enough for CI [default: the program found here]
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Programs that are looked for, in this order.
const PROGRAMS: [&str; 7] =
    ["train.py", "main.py", "run.py", "src/train.py", "src/main.py", "scripts/train.py", "train.sh"];
/// Folders in which outputs are looked for.
const FOLDERS: [&str; 8] = ["out", "output", "outputs", "checkpoints", "ckpt", "results", "artifacts", "runs"];
/// Ends of files that hold tensors.
const ENDS: [&str; 5] = ["safetensors", "npz", "npy", "pt", "pth"];
/// Lines that `.gitignore` should have.
const IGNORED: [&str; 2] = [".samebits/", "*.snap.new"];

fn plain_name(text: &str) -> Result<String, String> {
    let plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if plain { Ok(text.to_owned()) } else { Err("letters, digits, `-` and `_` are expected".to_owned()) }
}

/// An argument that names a script.
fn is_script(argument: &str) -> bool {
    [".py", ".sh", ".jl", ".R"].iter().any(|end| argument.ends_with(end)) && !argument.starts_with(['-', '{'])
}

/// A file to be written, and why it is not.
struct Planned {
    path: PathBuf,
    text: String,
    exists: bool,
}

/// Runs it.
pub fn main(args: Args) -> Result<u8, Failure> {
    let here = std::env::current_dir().map_err(Failure::unverified)?;
    let command = if args.command.is_empty() { guess(&here)? } else { args.command.clone() };
    if find(&command[0], &here).is_none() {
        return Err(Failure::usage(format!("{:?}: no such program; samebits init -- COMMAND ARGUMENTS", command[0])));
    }
    Outputs::new(&args.output).map_err(|e| Failure::usage(format!("--{e}")))?;
    let outputs = if args.output.is_empty() { found_outputs(&here) } else { args.output.clone() };
    if Mask::from_environment().and_arguments(&command).hides(&command.join(" ")) {
        let advice = "a case is committed; hand it to the command through the environment";
        return Err(Failure::usage(format!("the command holds what looks like a secret: {advice}")));
    }
    let name = args.name.clone().unwrap_or_else(|| case_name(&command));
    if let Some(missing) = command[1..].iter().find(|a| is_script(a) && !here.join(a).exists()) {
        return Err(Failure::usage(format!("{missing}: no such file here; the command is run in this folder")));
    }
    let case = here.join(format!("cases/first/{name}.toml"));
    if case.exists() {
        let advice = "edit it, or give another name with --name";
        return Err(Failure::usage(format!("cases/first/{name}.toml is there already; {advice}")));
    }
    let plan = [
        planned(&here, &format!("cases/first/{name}.toml"), case_text(&command, &outputs)),
        planned(&here, ".github/workflows/samebits.yml", workflow(&here)),
    ];
    for file in &plan {
        write(file, &here, args.dry_run)?;
    }
    ignore(&here, args.dry_run)?;
    if !args.dry_run {
        Case::load(&plan[0].path, &[]).map_err(Failure::usage)?;
    }
    say!("\ncommand  {}", command.join(" "));
    say!(
        "outputs  {}",
        if outputs.is_empty() { "none: standard output is compared".to_owned() } else { outputs.join(", ") }
    );
    if command.iter().any(|a| a.starts_with('/')) {
        say!("note     an absolute path in the command is another one on another machine");
    }
    say!(
        "next     samebits test, then samebits accept --reason \"first bits\", then commit cases/ snapshots/ .github/ .gitignore"
    );
    Ok(exit::SAME)
}

fn planned(here: &Path, name: &str, text: String) -> Planned {
    let path = here.join(name);
    Planned { exists: path.exists(), path, text }
}

fn write(file: &Planned, here: &Path, dry: bool) -> Result<(), Failure> {
    let name = file.path.strip_prefix(here).unwrap_or(&file.path).display();
    match (file.exists, dry) {
        (true, _) => say!("left     {name} (it is there already)"),
        (false, true) => say!("would write {name}:\n{}", file.text),
        (false, false) => {
            write_atomically(&file.path, file.text.as_bytes())
                .map_err(|e| Failure::unverified(format!("{name}: {e}")))?;
            say!("wrote    {name}");
        }
    }
    Ok(())
}

/// The program to run, from what lies here.
fn guess(here: &Path) -> Result<Vec<String>, Failure> {
    let words = |list: &[&str]| list.iter().map(|w| (*w).to_owned()).collect();
    if let Some(program) = PROGRAMS.iter().find(|p| here.join(p).is_file()) {
        let python = if find("python3", here).is_some() { "python3" } else { "python" };
        return Ok(if program.ends_with(".py") { words(&[python, program]) } else { words(&["bash", program]) });
    }
    if here.join("Cargo.toml").is_file() && here.join("src/main.rs").is_file() {
        return Ok(words(&["cargo", "run", "--release"]));
    }
    let looked = PROGRAMS.join(", ");
    Err(Failure::usage(format!(
        "no program recognised here ({looked}); name it: samebits init -- python3 my_training.py"
    )))
}

/// Patterns of files with tensors in folders that usually hold outputs.
fn found_outputs(here: &Path) -> Vec<String> {
    let holds = |folder: &str, end: &str| {
        let entries = fs::read_dir(here.join(folder)).into_iter().flatten().flatten();
        entries.map(|e| e.path()).any(|p| p.extension().is_some_and(|e| e == end))
    };
    let patterns = FOLDERS.iter().flat_map(|folder| ENDS.iter().map(move |end| (*folder, *end)));
    patterns.filter(|(folder, end)| holds(folder, end)).map(|(folder, end)| format!("{folder}/*.{end}")).collect()
}

/// The stem of the script, else of the program.
fn case_name(command: &[String]) -> String {
    let script = command.iter().skip(1).find(|a| Path::new(a).extension().is_some() && !a.starts_with('-'));
    let path = Path::new(script.unwrap_or(&command[0]));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let plain: String =
        stem.chars().map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' }).collect();
    if plain.is_empty() { "training".to_owned() } else { plain }
}

fn case_text(command: &[String], outputs: &[String]) -> String {
    let list = |words: &[String]| toml::Value::from(words.to_vec()).to_string();
    let outputs = match outputs {
        [] => "# outputs = [\"out/*.safetensors\"]   # what it writes; without any, standard output is compared"
            .to_owned(),
        some => format!("outputs = {}", list(some)),
    };
    format!(
        "about = \"The same bits, run after run\"\ntimeout_s = 1800\n\n[engine]\ncommand = {}\n{outputs}\n\n\
         [arms]\nprocesses = 2                     # further fresh processes\n\
         vary = [\"hash-seed\", \"env-size\", \"folder-length\", \"threads\", \"cpus\", \"locale\", \"time-zone\"]   # must not matter; all: samebits audit --factors\n",
        list(command)
    )
}

fn workflow(here: &Path) -> String {
    let requirements = here.join("requirements.txt").is_file();
    let project = here.join("pyproject.toml").is_file() || here.join("setup.py").is_file();
    let install = match (requirements, project) {
        (true, _) => "      - run: pip install -r requirements.txt\n",
        (false, true) => "      - run: pip install .\n",
        (false, false) => "",
    };
    let python = match requirements || project || has_python(here) {
        true => {
            format!("      - uses: actions/setup-python@v5\n        with: {{ python-version: \"3.11\" }}\n{install}")
        }
        false => String::new(),
    };
    format!(
        "# Fails when two runs of the same code differ, or differ from the accepted snapshot. Needs no GPU.\n\
         name: samebits\non: [push, pull_request]\njobs:\n  same-bits:\n    runs-on: ubuntu-latest\n    steps:\n\
         \x20     - uses: actions/checkout@v4\n{python}\
         \x20     - run: cargo install --locked --git {}\n\
         \x20     - run: samebits test --junit samebits.xml --pending pending | tee -a \"$GITHUB_STEP_SUMMARY\"\n\
         \x20       shell: bash # with pipefail, so that a red verdict fails the job\n\
         \x20     - uses: actions/upload-artifact@v4\n        if: failure()\n        with:\n          name: samebits\n\
         \x20         path: |\n            samebits.xml\n            pending\n",
        env!("CARGO_PKG_REPOSITORY")
    )
}

fn has_python(here: &Path) -> bool {
    PROGRAMS.iter().any(|p| p.ends_with(".py") && here.join(p).is_file())
}

/// Adds what is missing to `.gitignore`.
fn ignore(here: &Path, dry: bool) -> Result<(), Failure> {
    let path = here.join(".gitignore");
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(Failure::unverified(format!(".gitignore: {e}"))),
    };
    let has = |line: &str| text.lines().any(|l| l.trim() == line || l.trim() == line.trim_end_matches('/'));
    let missing: Vec<&str> = IGNORED.into_iter().filter(|line| !has(line)).collect();
    match (missing.is_empty(), dry) {
        (true, _) => say!("left     .gitignore (it has the lines already)"),
        (false, true) => say!("would add to .gitignore: {}", missing.join(" ")),
        (false, false) => {
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            let more = format!("{text}{end}{}\n", missing.join("\n"));
            write_atomically(&path, more.as_bytes()).map_err(|e| Failure::unverified(format!(".gitignore: {e}")))?;
            say!("wrote    .gitignore ({})", missing.join(" "));
        }
    }
    Ok(())
}
