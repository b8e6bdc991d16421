//! A command as it is run again and again: each time in a fresh folder that holds its working directory, the traces it
//! writes and its standard output.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::command;
use super::factors::{Setting, padded};
use super::folder::{Made, fill};
use super::load::Load;
use super::process::{End, Finished};
use super::surroundings::Launch;
use crate::scenario::case::Scope;
use crate::scenario::copies::Copies;
use crate::scenario::outputs::Outputs;
use crate::trace::privacy::Mask;
use crate::trace::record::Level;

/// Folder of the traces in a run's folder.
pub const TRACES: &str = "trace";
/// Standard output in a run's folder, and its name as evidence.
pub const STDOUT: &str = "stdout";
/// Variable that holds a run's working directory; by it a process is known as one of that run.
pub const RUN: &str = "SAMEBITS_RUN_DIR";

/// A command and what it needs.
#[derive(Clone, Debug)]
pub struct Job {
    /// the `samebits` program
    pub samebits: PathBuf,
    /// program and arguments, with `{dir}`, `{trace}`, `{seed}` and `{knob.NAME}`
    pub argv: Vec<String>,
    /// variables set for every run, with the same placeholders
    pub env: BTreeMap<String, String>,
    /// knobs as they are
    pub knobs: BTreeMap<String, String>,
    /// folder whose files the command sees
    pub project: PathBuf,
    /// entries of the project that it does not see
    pub leave_out: Vec<PathBuf>,
    /// declared outputs
    pub outputs: Outputs,
    /// what each run gets a copy of
    pub copies: Copies,
    /// limit of one run
    pub limit: Duration,
    /// trace level asked for
    pub level: Level,
    /// seed asked for
    pub seed: Option<u64>,
    /// what is compared
    pub scope: Scope,
}

/// A run that ended.
#[derive(Debug)]
pub struct Ran {
    /// its working directory
    pub work: PathBuf,
    /// how it ended
    pub finished: Finished,
    /// what it wrote to standard output, secrets masked
    pub stdout: Vec<u8>,
    /// whether there was anything to mask in it
    pub masked: bool,
    /// copies of the project's files, as they were before it ran
    pub copied: BTreeMap<PathBuf, Made>,
}

/// The trace of rank 0 in a run's folder.
pub fn trace_path(run: &Path) -> PathBuf {
    run.join(TRACES).join("rank-0.jsonl")
}

impl Job {
    /// What must not be written down of this command.
    pub fn mask(&self) -> Mask {
        Mask::from_environment().and_arguments(&self.argv)
    }

    /// Runs it in an empty folder. Standard output is kept there with secrets masked.
    pub fn run(&self, folder: &Path, setting: &Setting) -> io::Result<Ran> {
        let work = padded(folder, setting.folder_padding);
        fs::create_dir_all(&work)?;
        fs::create_dir_all(folder.join(TRACES))?;
        let filled = fill(&work, &self.project, &self.outputs, &self.copies, &self.leave_out)?;
        let launch = self.launch(folder, &work, setting);
        let load = Load::start(setting.load);
        let result = command::run(&self.samebits, &launch, self.limit);
        load.stop();
        // A daemon of this run would go on writing beside the runs after it.
        end_strays(folder);
        let (mut finished, stdout) = result?;
        let mask = self.mask();
        finished.stderr = mask.apply(&finished.stderr);
        if let End::Failed(_) = finished.end {
            finished.stderr.extend(missed(&finished.stderr, &filled.hidden, &self.outputs));
        }
        // What is kept and what is compared are the same bytes.
        let kept = masked(&mask, &stdout);
        fs::write(folder.join(STDOUT), &kept)?;
        Ok(Ran { work, finished, masked: kept != stdout, stdout: kept, copied: filled.copied })
    }

    fn launch(&self, folder: &Path, work: &Path, setting: &Setting) -> Launch {
        let mut knobs = self.knobs.clone();
        knobs.extend(setting.knobs.iter().cloned());
        let trace = trace_path(folder).display().to_string();
        let level = setting.level.unwrap_or(self.level);
        let seed = setting.seed.or(self.seed).map(|s| s.to_string());
        let dir = work.display().to_string();
        let places = Placeholders { dir: &dir, trace: &trace, level: &level.to_string(), seed: seed.as_deref(), knobs };
        let mut env: BTreeMap<String, String> =
            self.env.iter().map(|(name, value)| (name.clone(), places.fill(value))).collect();
        env.insert(RUN.to_owned(), dir.clone());
        env.insert("SAMEBITS_TRACE".to_owned(), trace.clone());
        env.insert("SAMEBITS_LEVEL".to_owned(), level.to_string());
        env.extend(seed.clone().map(|s| ("SAMEBITS_SEED".to_owned(), s)));
        Launch {
            argv: self.argv.iter().map(|a| places.fill(a)).collect(),
            folder: work.to_owned(),
            env,
            surroundings: setting.surroundings.clone(),
            parent: 0,
        }
    }
}

/// Values that stand in for placeholders of a command.
struct Placeholders<'a> {
    dir: &'a str,
    trace: &'a str,
    level: &'a str,
    seed: Option<&'a str>,
    knobs: BTreeMap<String, String>,
}

impl Placeholders<'_> {
    /// One pass over the text, so that a value is never read as a placeholder.
    fn fill(&self, text: &str) -> String {
        let (mut out, mut rest) = (String::new(), text);
        while let Some(at) = rest.find('{') {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let name = rest.find('}').map(|end| &rest[1..end]);
            match name.and_then(|n| self.value(n)) {
                Some(value) => {
                    out.push_str(value);
                    rest = &rest[name.unwrap_or_default().len() + 2..];
                }
                None => {
                    out.push('{');
                    rest = &rest[1..];
                }
            }
        }
        out + rest
    }

    fn value(&self, name: &str) -> Option<&str> {
        match name {
            "dir" => Some(self.dir),
            "trace" => Some(self.trace),
            "level" => Some(self.level),
            "seed" => self.seed,
            _ => self.knobs.get(name.strip_prefix("knob.")?).map(String::as_str),
        }
    }
}

/// Ends processes that a run left, in whatever group or session: those whose environment names its folder.
pub fn end_strays(folder: &Path) {
    let mark = format!("{RUN}={}/", folder.display());
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let ours = environment.split(|b| *b == 0).any(|v| v.starts_with(mark.as_bytes()));
        if let (true, Some(pid)) = (ours, rustix::process::Pid::from_raw(id)) {
            // It may have ended by itself meanwhile.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

/// Where a run that failed missed a file that was hidden from it as an old output: which, and the pattern that hid it.
fn missed(stderr: &str, hidden: &[PathBuf], outputs: &Outputs) -> Option<String> {
    let is_missing = stderr.to_ascii_lowercase().contains("no such file");
    let says = |name: &str| is_missing && mentions(stderr, name);
    let module = |path: &Path| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        ["'", "\""].iter().any(|q| stderr.contains(&format!("No module named {q}{stem}{q}")))
    };
    let is_it = |path: &&PathBuf| says(&path.to_string_lossy()) || says(&name_of(path)) || module(path);
    let path = hidden.iter().find(is_it)?;
    let pattern = outputs.pattern_of(path)?;
    let advice = "name the outputs more narrowly, or keep this file elsewhere";
    Some(format!(
        "\nsamebits: {} was hidden from the run as an old output, by the pattern {pattern:?}; {advice}\n",
        path.display()
    ))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether a text names a file, and not one whose name is longer.
fn mentions(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let goes_on = |rest: &str| rest.strip_prefix('.').unwrap_or(rest).starts_with(part);
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(|c| part(c) || c == '.') && !goes_on(&text[at + name.len()..]))
}

fn masked(mask: &Mask, stdout: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(stdout) {
        Ok(text) => mask.apply(text).into_bytes(),
        Err(_) => mask.apply_bytes(stdout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would fail if a value could pass for a placeholder, or a brace of the user's own were lost.
    #[test]
    fn placeholders_are_filled_once() {
        let knobs = [("a".to_owned(), "{dir}".to_owned())].into();
        let places = Placeholders { dir: "D", trace: "T", level: "step", seed: None, knobs };
        assert_eq!(places.fill("x{dir}/{trace} {knob.a} {knob.b} {seed} {{dir} {"), "xD/T {dir} {knob.b} {seed} {D {");
    }

    /// Would fail if an input hidden by a pattern were not named when a program misses it, or another file were blamed.
    #[test]
    fn a_hidden_input_is_named_when_it_is_missed() {
        let outputs = Outputs::new(&["*.csv".into(), "*.py".into()]).unwrap();
        let hidden = ["set.csv", "tools.py"].map(PathBuf::from);
        let told = |stderr: &str| missed(stderr, &hidden, &outputs).unwrap_or_default();
        let opened = told("FileNotFoundError: [Errno 2] No such file or directory: '/run/w/set.csv'");
        assert!(opened.contains("set.csv was hidden") && opened.contains("\"*.csv\""), "{opened}");
        assert!(told("ModuleNotFoundError: No module named 'tools'").contains("tools.py"));
        for other in
            ["no such file: reset.csv", "no such file: set.csv.gz", "set.csv: wrong header", "No module named 'tool'"]
        {
            assert_eq!(told(other), "", "{other}");
        }
    }
}
