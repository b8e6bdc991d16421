//! What a command left in its run's folder: traces, declared outputs, standard output.
//!
//! A run's folder holds `work` (its working directory), `trace` (one trace a rank, if the command wrote any) and
//! `stdout`. Evidence that is not whole, or a declared output that was not written, is an error and never empty evidence.

use std::path::{Path, PathBuf};

use super::evidence::{self, Evidence, Tensors, Unusable, unusable};
use super::tensors::{Tensor, content};
use super::traces::wants_tensor;
use super::verdict::{Comparison, Reason, Verdict};
use crate::digest::sha::{Digest, Hasher, sha256};
use crate::launch::job::{STDOUT, TRACES};
use crate::scenario::case::Scope;
use crate::scenario::outputs::Outputs;
use crate::trace::reader::Trace;

/// Evidence of one run of a command.
#[derive(Debug, Default)]
pub struct Left {
    /// traces by rank
    pub traces: Vec<Trace>,
    /// declared outputs, or standard output
    pub outputs: Tensors,
}

/// What counts as evidence of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wanted {
    /// declared outputs, and traces if there are any
    Outputs,
    /// traces
    Traces,
    /// standard output, because nothing else is there
    Stdout,
}

/// True when a run wrote anything where traces go.
pub fn has_traces(run: &Path) -> bool {
    run.join(TRACES).read_dir().is_ok_and(|mut d| d.next().is_some())
}

/// What a run's evidence can be: declared outputs first, then a trace, then standard output.
pub fn wanted(run: &Path, outputs: &Outputs) -> Wanted {
    match (outputs.is_empty(), has_traces(run)) {
        (false, _) => Wanted::Outputs,
        (true, true) => Wanted::Traces,
        (true, false) => Wanted::Stdout,
    }
}

/// Reads what a run left. `stdout` is what it wrote to standard output, `work` its working directory.
pub fn read(run: &Path, work: &Path, outputs: &Outputs, stdout: &[u8], wanted: Wanted) -> Result<Left, Unusable> {
    let mut left = Left::default();
    let folder = run.join(TRACES);
    if has_traces(run) {
        left.traces = match evidence::read(&folder)? {
            Evidence::Traces(traces) => traces,
            Evidence::Tensors(_) => {
                let detail = format!("{}: files that are no traces", folder.display());
                return Err(unusable(Reason::NotComparable, detail));
            }
        };
    }
    match wanted {
        Wanted::Outputs => left.outputs = declared(work, outputs)?,
        Wanted::Traces if left.traces.is_empty() => {
            return Err(unusable(Reason::NoEvidence, "no trace was written, though another run wrote one"));
        }
        Wanted::Traces => {}
        Wanted::Stdout if !left.traces.is_empty() => {
            return Err(unusable(Reason::NoEvidence, "a trace was written, though another run wrote none"));
        }
        Wanted::Stdout => left.outputs.list.push(text(stdout)),
    }
    let nothing = left.outputs.list.iter().all(|t| content(t) == 0)
        && left.traces.iter().all(|t| t.bodies.is_empty() && t.close.sha256.is_empty());
    match (nothing, wanted) {
        (false, _) => Ok(left),
        (true, Wanted::Stdout) => Err(unusable(Reason::NoEvidence, "standard output is empty: declare what it writes")),
        (true, _) => Err(unusable(Reason::NoEvidence, "everything that it left is empty: nothing to compare")),
    }
}

fn text(stdout: &[u8]) -> Tensor {
    let (name, word) = (STDOUT.to_owned(), "bytes".to_owned());
    Tensor { name, dtype: None, word, shape: vec![stdout.len()], bytes: stdout.to_vec() }
}

fn declared(work: &Path, outputs: &Outputs) -> Result<Tensors, Unusable> {
    let found = outputs.found(work).map_err(|e| unusable(Reason::NoEvidence, format!("{}: {e}", work.display())))?;
    if let Some((pattern, _)) = found.iter().find(|(_, files)| files.is_empty()) {
        let detail = format!("the declared output {pattern:?} was not written");
        return Err(unusable(Reason::NoEvidence, detail));
    }
    let mut files: Vec<PathBuf> = found.into_iter().flat_map(|(_, files)| files).collect();
    files.sort();
    files.dedup();
    for file in &files {
        check_entry(work, file, &files)?;
    }
    evidence::artifacts(work, &files)
}

/// The file that holds the outputs of these names, or the folder that holds all their files; the first file where that
/// is the working directory itself, in which other things lie.
pub fn place_of(work: &Path, outputs: &Outputs, names: &[String]) -> PathBuf {
    let found = outputs.found(work).unwrap_or_default().into_iter().flat_map(|(_, files)| files);
    let holds = |file: &PathBuf| {
        let file = crate::artifact::printable(&file.to_string_lossy());
        names.iter().any(|n| n.strip_prefix(&file).is_some_and(|rest| rest.is_empty() || rest.starts_with(':')))
    };
    let files: std::collections::BTreeSet<PathBuf> = found.filter(holds).collect();
    let Some(first) = files.first() else { return PathBuf::new() };
    let common = first.ancestors().find(|a| files.iter().all(|f| f.starts_with(a))).unwrap_or(first);
    if common.as_os_str().is_empty() { first.clone() } else { common.to_owned() }
}

/// An output is a regular file, or a link to one that is an output itself: what lies elsewhere would not be compared.
fn check_entry(work: &Path, file: &Path, files: &[PathBuf]) -> Result<(), Unusable> {
    let path = work.join(file);
    let refuse = |what: String| Err(unusable(Reason::NoEvidence, format!("the output {}: {what}", file.display())));
    let kind = match std::fs::symlink_metadata(&path) {
        Ok(kind) => kind,
        Err(e) => return refuse(e.to_string()),
    };
    if kind.is_file() {
        return Ok(());
    }
    if !kind.is_symlink() {
        return refuse("neither a file nor a folder; its contents cannot be compared".to_owned());
    }
    let (Ok(target), Ok(root)) = (path.canonicalize(), work.canonicalize()) else {
        return refuse("a link that leads nowhere".to_owned());
    };
    match target.strip_prefix(&root) {
        Ok(inside) if files.iter().any(|f| f == inside) => Ok(()),
        _ => refuse("a link to what is not among the declared outputs; declare that, or write it here".to_owned()),
    }
}

/// Name, type, shape and SHA-256 of a tensor.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Digested {
    /// name
    pub name: String,
    /// element type
    pub dtype: String,
    /// sizes
    pub shape: Vec<usize>,
    /// of its raw little-endian bytes
    pub sha256: Digest,
}

impl Left {
    /// Every output's digest, and every trace's final ones.
    pub fn digests(&self) -> Vec<Digested> {
        let of_output = |t: &Tensor| Digested {
            name: t.name.clone(),
            dtype: t.word.clone(),
            shape: t.shape.clone(),
            sha256: sha256(&t.bytes),
        };
        let mut all: Vec<Digested> = self.outputs.list.iter().map(of_output).collect();
        for trace in &self.traces {
            let prefix = if self.traces.len() > 1 { format!("rank {}: ", trace.open.rank) } else { String::new() };
            let close = trace.close.sha256.iter();
            all.extend(close.map(|(name, digest)| {
                let declared = trace.declared().find(|t| t.name == name);
                Digested {
                    name: format!("{prefix}{name}"),
                    dtype: declared.map_or_else(String::new, |t| t.dtype.word().to_owned()),
                    shape: declared.map_or_else(Vec::new, |t| t.shape.iter().map(|n| *n as usize).collect()),
                    sha256: *digest,
                }
            }));
        }
        all
    }

    /// One digest of everything that is compared: runs with equal keys left the same bits. What lies outside the scope
    /// counts for nothing.
    pub fn key(&self, scope: &Scope) -> Digest {
        let (kind, fold) = (|k: &str| scope.kinds.is_empty() || scope.kinds.iter().any(|s| s == k), &scope.folds);
        let wants = |name: &str| wants_tensor(scope, name);
        let mut hasher = Hasher::default();
        let mut line = |text: String| {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        };
        for t in self.outputs.list.iter().filter(|t| wants(&t.name)) {
            line(format!("output {} {}{:?} {}", t.name, t.word, t.shape, sha256(&t.bytes)));
        }
        for trace in &self.traces {
            line(format!("rank {} of {} {}", trace.open.rank, trace.open.world_size, trace.open.engine));
            trace
                .declared()
                .filter(|t| wants(&t.name))
                .for_each(|t| line(format!("{} {}{:?}", t.name, t.dtype.word(), t.shape)));
            let in_fold = |f: Option<u32>| fold.is_empty() || f.is_some_and(|f| fold.contains(&f));
            for (of, body) in trace.bodies.iter().filter(|(k, b)| kind(k) && in_fold(b.place.fold)) {
                let mut body = body.clone();
                body.fp.0.retain(|(name, _)| wants(name));
                body.sha256.0.retain(|(name, _)| wants(name));
                body.values.0.retain(|(name, _)| wants(name));
                if !scope.tensors.is_empty() {
                    body.metrics.0.clear();
                }
                line(format!("{of} {}", serde_json::to_string(&body).unwrap_or_default()));
            }
            if kind("close") && fold.is_empty() {
                line(format!("close {:?}", trace.close.status));
                let finals = trace.close.sha256.iter().filter(|(name, _)| wants(name));
                finals.for_each(|(name, digest)| line(format!("{name} {digest}")));
            }
        }
        hasher.finish()
    }

    /// What the evidence is, in words.
    pub fn words(&self) -> String {
        let mut parts = Vec::new();
        if let Some(trace) = self.traces.first() {
            let ranks = if self.traces.len() > 1 { format!(" of {} ranks", self.traces.len()) } else { String::new() };
            parts.push(format!("trace{ranks} ({} records, level {})", trace.bodies.len(), trace.open.level));
        }
        match self.outputs.list.as_slice() {
            [] => {}
            [one] if one.name == STDOUT => parts.push(format!("standard output ({} bytes)", one.bytes.len())),
            list => {
                let bytes = list.iter().fold(0, |sum, t| sum + t.bytes.len());
                let plural = if list.len() == 1 { "" } else { "s" };
                parts.push(format!("{} tensor{plural} of the declared outputs ({bytes} bytes)", list.len()));
            }
        }
        parts.join(", ")
    }
}

/// Compares what two runs left: traces first, then outputs.
pub fn compare(a: &Left, b: &Left, scope: &Scope) -> Comparison {
    let traces = match (a.traces.is_empty(), b.traces.is_empty()) {
        (true, true) => None,
        (false, false) => Some(evidence::compare_ranks(&a.traces, &b.traces, scope)),
        _ => Some(Comparison::unverified(Reason::NoEvidence, "one run wrote a trace, the other none")),
    };
    let any = !a.outputs.list.is_empty() || !b.outputs.list.is_empty();
    let outputs = any.then(|| evidence::compare_tensors(&a.outputs, &b.outputs, &Scope::default()));
    match (traces, outputs) {
        (Some(traces), Some(outputs)) => both(traces, outputs),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => Comparison::unverified(Reason::NoEvidence, "neither run left anything to compare"),
    }
}

fn both(mut traces: Comparison, outputs: Comparison) -> Comparison {
    let verdict: Verdict = traces.verdict.worse(outputs.verdict);
    traces.compared.add(outputs.compared);
    if traces.first.is_none() {
        (traces.first, traces.differing) = (outputs.first, outputs.differing);
    }
    traces.noted.extend(outputs.noted);
    traces.left_out.extend(outputs.left_out);
    Comparison { verdict, ..traces }
}
