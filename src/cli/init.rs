//! `samebits init`: a first case for the repository at hand, a `.gitignore` entry and a workflow that gates it.
//!
//! Nothing that is there is changed, except that lines are added to `.gitignore`. All that will be written is checked
//! before anything is: what lies there, whether the folders can be written, whether the case is one. Not checked: that
//! the command runs.

use std::fs;
use std::path::Path;

use super::{Failure, workflow};
use crate::compare::verdict::exit;
use crate::launch::surroundings::find;
use crate::say;
use crate::scenario::case::Case;
use crate::scenario::document::Document;
use crate::scenario::outputs::Outputs;
use crate::trace::privacy::Mask;
use crate::trace::writer::{folder_of, write_atomically};

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
    /// Write no workflow, and leave one that is there as it is
    #[arg(long)]
    pub no_workflow: bool,
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
/// The workflow.
const WORKFLOW: &str = ".github/workflows/samebits.yml";
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

/// A file to be written.
struct Planned {
    /// relative to the repository
    name: String,
    text: String,
    /// it is there already, and stays
    there: bool,
    /// what is told of it beside its name
    note: String,
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
    let plan = plan(&here, &args, &name, &case_text(&command, &outputs))?;
    for file in plan.iter().filter(|f| !f.there) {
        stays_here(&here, &file.name)
            .and_then(|()| writable(&here.join(&file.name)))
            .map_err(|e| Failure::usage(format!("{}: {e}; nothing was written", file.name)))?;
    }
    if args.dry_run {
        show(&plan)
    } else {
        write(&plan, &here)?
    }
    say!("\ncommand  {}", command.join(" "));
    say!(
        "outputs  {}",
        if outputs.is_empty() {
            "none: traces are compared if it writes any, else standard output".to_owned()
        } else {
            outputs.join(", ")
        }
    );
    if command.iter().any(|a| a.starts_with('/')) {
        say!("note     an absolute path in the command is another one on another machine");
    }
    say!(
        "next     samebits test, then samebits accept --reason \"first bits\", then commit cases/ snapshots/ .github/ .gitignore"
    );
    Ok(exit::SAME)
}

/// Everything that will be written, `.gitignore` last; what is there and in the way is an error.
fn plan(here: &Path, args: &Args, name: &str, case: &str) -> Result<Vec<Planned>, Failure> {
    let refuse = |e: String| Failure::usage(format!("{e}; nothing was written"));
    let file = format!("cases/first/{name}.toml");
    if fs::symlink_metadata(here.join(&file)).is_ok() {
        let advice = "edit it, or give another name with --name";
        return Err(refuse(format!("{file} is there already; {advice}")));
    }
    Case::parse(&Document { path: here.join(&file), text: case.to_owned() }, &[]).map_err(Failure::usage)?;
    let mut plan = vec![Planned { name: file, text: case.to_owned(), there: false, note: String::new() }];
    if !args.no_workflow {
        let is_python = PROGRAMS.iter().any(|p| p.ends_with(".py") && here.join(p).is_file());
        let text = workflow::text_for(here, is_python).map_err(refuse)?;
        plan.push(planned_workflow(here, text).map_err(refuse)?);
    }
    plan.push(planned_ignore(here).map_err(refuse)?);
    Ok(plan)
}

fn planned_workflow(here: &Path, text: String) -> Result<Planned, String> {
    let (there, note) = match existing(here, WORKFLOW)? {
        Some(old) if old == text => (true, " (it is there already)".to_owned()),
        Some(_) => {
            let advice = "move it away, or leave it as it is with --no-workflow";
            return Err(format!("{WORKFLOW} is there already with other contents; {advice}"));
        }
        None => (false, String::new()),
    };
    Ok(Planned { name: WORKFLOW.to_owned(), text, there, note })
}

/// `.gitignore` with the lines that are missing in it.
fn planned_ignore(here: &Path) -> Result<Planned, String> {
    let name = ".gitignore";
    let old = existing(here, name)?.unwrap_or_default();
    let has = |line: &str| old.lines().any(|l| l.trim() == line || l.trim() == line.trim_end_matches('/'));
    let missing: Vec<&str> = IGNORED.into_iter().filter(|line| !has(line)).collect();
    if missing.is_empty() {
        let note = " (it has the lines already)".to_owned();
        return Ok(Planned { name: name.to_owned(), text: old, there: true, note });
    }
    if fs::symlink_metadata(here.join(name)).is_ok_and(|m| m.is_symlink()) {
        return Err(format!("{name} is a symbolic link; add {} to the file that it leads to", missing.join(" and ")));
    }
    let end = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
    let text = format!("{old}{end}{}\n", missing.join("\n"));
    Ok(Planned { name: name.to_owned(), text, there: false, note: format!(" ({})", missing.join(" ")) })
}

/// The text of a file; None when nothing is there.
fn existing(here: &Path, name: &str) -> Result<Option<String>, String> {
    let path = here.join(name);
    let unreadable = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::InvalidData => format!("{name}: not UTF-8; save it as UTF-8"),
        _ => format!("{name}: cannot be read: {e}"),
    };
    match fs::metadata(&path) {
        // A file where a folder is wanted is found by whoever looks whether the folder can be written.
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => Ok(None),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && fs::symlink_metadata(&path).is_err() => Ok(None),
        Err(e) => Err(unreadable(e)),
        Ok(kind) if kind.is_file() => fs::read_to_string(&path).map(Some).map_err(unreadable),
        Ok(kind) if kind.is_dir() => Err(format!("{name}: a folder; a file is expected: move it away")),
        Ok(_) => Err(format!("{name}: neither a file nor a folder; a file is expected: move it away")),
    }
}

/// A folder on the way that is a link would have the file written elsewhere, where git does not see it.
fn stays_here(here: &Path, name: &str) -> Result<(), String> {
    let is_link = |folder: &&Path| fs::symlink_metadata(here.join(folder)).is_ok_and(|m| m.is_symlink());
    let link = Path::new(name).ancestors().skip(1).find(is_link);
    link.map_or(Ok(()), |folder| {
        Err(format!("{} is a symbolic link; a folder of its own is expected", folder.display()))
    })
}

/// Whether a file can be made at a path, whose folders may be missing.
fn writable(path: &Path) -> Result<(), String> {
    let there = path.ancestors().skip(1).find(|folder| fs::symlink_metadata(folder).is_ok());
    let folder = there.unwrap_or_else(|| folder_of(path));
    if !folder.is_dir() {
        return Err(format!("{} is no folder; move it away", folder.display()));
    }
    tempfile::tempfile_in(folder).map(drop).map_err(|e| format!("{} cannot be written: {e}", folder.display()))
}

fn show(plan: &[Planned]) {
    for file in plan {
        match file.there {
            true => say!("left     {}{}", file.name, file.note),
            false => say!("would write {}{}:\n{}", file.name, file.note, file.text),
        }
    }
}

/// Writes all. What was made is removed when a later file cannot be written; `.gitignore`, the last, is replaced whole.
fn write(plan: &[Planned], here: &Path) -> Result<(), Failure> {
    for (i, file) in plan.iter().enumerate().filter(|(_, f)| !f.there) {
        if let Err(e) = write_atomically(&here.join(&file.name), file.text.as_bytes()) {
            plan[..i].iter().filter(|f| !f.there).for_each(|f| drop(fs::remove_file(here.join(&f.name))));
            return Err(Failure::unverified(format!("{}: {e}; nothing was written", file.name)));
        }
    }
    for file in plan {
        say!("{}    {}{}", if file.there { "left " } else { "wrote" }, file.name, file.note);
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
        [] => "# outputs = [\"out/*.safetensors\"]   # what it writes; without any, traces are compared, else standard output"
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
