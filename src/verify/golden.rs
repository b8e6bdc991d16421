//! Goldens as files: accepted snapshots, pending ones, and what accepting demands.
//!
//! Files are insta snapshots, so that `cargo insta review` works on them; reading is insta's own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::compare::golden::{render, render_left};
use crate::compare::left::Left;
use crate::compare::verdict::{Comparison, Reason};
use crate::digest::sha::{Digest, Hasher, sha256};
use crate::scenario::case::{Case, Engine, Guarantee};
use crate::trace::reader::Trace;
use crate::trace::writer::write_atomically;

/// What a run would have as its golden.
#[derive(Clone, Debug)]
pub struct Golden {
    /// the text that is compared
    pub text: String,
    /// what is told beside it
    pub noted: BTreeMap<String, String>,
}

impl Golden {
    /// Of a trace of the embedded engine.
    pub fn of_trace(trace: &Trace) -> Self {
        Golden { text: render(trace), noted: trace.open.identity.noted.clone() }
    }

    /// Of what a command left.
    pub fn of_left(left: &Left) -> Self {
        let noted = left.traces.first().map(|t| t.open.identity.noted.clone()).unwrap_or_default();
        Golden { text: render_left(left), noted }
    }
}

/// Where a case's accepted snapshot is. At `cpu_to_gpu` no keyed field remains in its key, and it has none.
pub fn path(case: &Case) -> PathBuf {
    let root = root(case);
    let key =
        if case.guarantee == Guarantee::CpuToGpu { String::new() } else { format!("@{}", std::env::consts::ARCH) };
    root.join("snapshots").join(format!("{}{key}.snap", case.name))
}

/// Accepted snapshots below `root` that no case produces; a case that cannot be read produces the one of its name.
pub fn orphans(root: &Path, cases: &BTreeMap<String, PathBuf>) -> Vec<PathBuf> {
    let wanted = |(name, file): (&String, &PathBuf)| match Case::load(file, &[]) {
        Ok(case) => (case.golden && case.mutant.is_none()).then(|| path(&case)),
        Err(_) => Some(root.join("snapshots").join(format!("{name}.snap"))),
    };
    let wanted: Vec<PathBuf> = cases.iter().filter_map(wanted).collect();
    let inside = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    let files = inside(&root.join("snapshots")).filter(|p| p.is_dir()).flat_map(|suite| inside(&suite));
    let mut orphans: Vec<PathBuf> =
        files.filter(|p| p.extension().is_some_and(|e| e == "snap") && !wanted.contains(p)).collect();
    orphans.sort();
    orphans
}

/// The project of a case: the folder that holds `cases/`.
fn root(case: &Case) -> PathBuf {
    let cases = case.path.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    cases.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

/// The accepted text, if there is any.
pub fn accepted(case: &Case) -> Result<Option<String>, String> {
    let path = path(case);
    if !path.exists() {
        return Ok(None);
    }
    read(&path).map(Some)
}

/// Text of a snapshot file.
pub fn read(path: &Path) -> Result<String, String> {
    if !path.is_file() {
        return Err(format!("{}: not a regular file", path.display()));
    }
    let snapshot = insta::Snapshot::from_file(path).map_err(|e| format!("{}: not a snapshot: {e}", path.display()))?;
    let text = snapshot.as_text().ok_or_else(|| format!("{}: not a text snapshot", path.display()))?;
    Ok(text.to_string())
}

/// Compares what a run would have with the accepted snapshot.
pub fn compare(case: &Case, found: &Golden) -> Comparison {
    match accepted(case) {
        Ok(Some(text)) => crate::compare::golden::compare(&text, &found.text),
        Ok(None) => {
            let detail = format!("{} does not exist; review and `samebits accept --reason TEXT`", path(case).display());
            Comparison::unverified(Reason::NoGolden, detail)
        }
        Err(e) => Comparison::unverified(Reason::NotComparable, e),
    }
}

/// Content hashes of a case's own files: the case and its market file.
fn case_hashes(case: &Case) -> BTreeMap<String, String> {
    let market = case.embedded().and_then(|e| e.market.as_ref());
    let files = [("case", Some(&case.path)), ("market", market)];
    let hash = |(name, path): (&str, Option<&PathBuf>)| Some((name.to_owned(), tree_digest(path?)?.to_string()));
    let mut hashes: BTreeMap<String, String> = files.into_iter().filter_map(hash).collect();
    if let Engine::Command(engine) = &case.engine {
        hashes.extend(named_files(&engine.run.command, &engine.folder));
    }
    hashes
}

/// Content hashes of the files that a command names, such as its script.
pub fn named_files(command: &[String], folder: &Path) -> BTreeMap<String, String> {
    let named = command.iter().filter(|a| folder.join(a).is_file());
    let digest = |a: &String| Some((format!("file {a}"), tree_digest(&folder.join(a))?.to_string()));
    named.filter_map(digest).collect()
}

/// Content hashes of what decides a golden: `src`, `kernels`, `Cargo.lock`, the case, its market file. Files that do not
/// exist have none.
pub fn content_hashes(root: &Path, case: &Case) -> BTreeMap<String, String> {
    let mut hashes = case_hashes(case);
    // The engine of this program is that of the folder only where the folder is this program's own.
    let ours = fs::read_to_string(root.join("Cargo.toml")).is_ok_and(|t| t.contains("name = \"samebits\""));
    for name in ["src", "kernels", "Cargo.lock"].into_iter().filter(|_| ours || case.embedded().is_none()) {
        if let Some(digest) = tree_digest(&root.join(name)) {
            hashes.insert(name.to_owned(), digest.to_string());
        }
    }
    hashes
}

/// Digest of a file, or of a folder's files by path.
pub fn tree_digest(path: &Path) -> Option<Digest> {
    if path.is_file() {
        return fs::read(path).ok().map(|bytes| sha256(&bytes));
    }
    let mut names: Vec<PathBuf> = fs::read_dir(path).ok()?.filter_map(|e| Some(e.ok()?.path())).collect();
    names.sort();
    let mut hasher = Hasher::default();
    for name in names {
        let part = tree_digest(&name)?;
        hasher.update(name.file_name()?.as_encoded_bytes()).update(b"\0").update(&part.0);
    }
    Some(hasher.finish())
}

/// What a run made now is of: for the engine of this program what it was built from, for a command the project as it is.
fn hashes_now(case: &Case) -> BTreeMap<String, String> {
    let Some(_) = case.embedded() else { return content_hashes(&root(case), case) };
    let mut hashes = built_from();
    hashes.extend(case_hashes(case));
    hashes
}

/// Content hashes that this binary was built from, by `build.rs`.
pub fn built_from() -> BTreeMap<String, String> {
    let pairs = [
        ("src", env!("SAMEBITS_HASH_SRC")),
        ("kernels", env!("SAMEBITS_HASH_KERNELS")),
        ("Cargo.lock", env!("SAMEBITS_HASH_LOCK")),
    ];
    pairs.into_iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

fn pending_path(case: &Case, folder: Option<&Path>) -> PathBuf {
    let accepted = path(case);
    let name = format!("{}.new", accepted.file_name().unwrap_or_default().to_string_lossy());
    match folder {
        Some(folder) => folder.join(case.suite()).join(name),
        None => accepted.with_file_name(name),
    }
}

/// Removes a pending snapshot of an earlier run, so that it is not accepted by mistake.
pub fn drop_pending(case: &Case, folder: Option<&Path>) {
    // There is none as a rule.
    let _ = fs::remove_file(pending_path(case, folder));
}

/// Writes a pending snapshot beside the accepted one, or below `folder`.
pub fn write_pending(case: &Case, found: &Golden, folder: Option<&Path>) -> std::io::Result<PathBuf> {
    let target = pending_path(case, folder);
    let mut hashes = hashes_now(case);
    hashes.insert("text".to_owned(), sha256(found.text.as_bytes()).to_string());
    write_atomically(&target, snapshot(case, found, &hashes, "pending").as_bytes())?;
    Ok(target)
}

/// A snapshot file's text: metadata that is shown but not compared, then the golden.
fn snapshot(case: &Case, found: &Golden, hashes: &BTreeMap<String, String>, reason: &str) -> String {
    let mut text = format!("---\nsource: {}\ndescription: {}\ninfo:\n", yaml(&case_file(case)), yaml(reason));
    for (name, digest) in hashes {
        text.push_str(&format!("  {}: {digest}\n", if name.contains(' ') { yaml(name) } else { name.clone() }));
    }
    for (name, value) in found.noted.iter().filter(|(n, _)| !n.starts_with("env.")) {
        text.push_str(&format!("  noted.{name}: {}\n", yaml(value)));
    }
    text.push_str("---\n");
    text.push_str(&found.text);
    text
}

fn case_file(case: &Case) -> String {
    format!("cases/{}.toml", case.name)
}

/// A YAML double-quoted scalar.
fn yaml(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// The metadata lines of a pending snapshot: content hashes and noted fields.
pub fn pending_info(path: &Path) -> Result<BTreeMap<String, String>, String> {
    if !path.is_file() {
        return Err(format!("{}: not a regular file", path.display()));
    }
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let head = text.split("\n---\n").next().unwrap_or_default();
    let plain = |k: &str| serde_json::from_str(k).unwrap_or_else(|_| k.to_owned());
    let pair = |line: &str| line.strip_prefix("  ")?.rsplit_once(": ").map(|(k, v)| (plain(k), v.trim().to_owned()));
    Ok(head.lines().filter_map(pair).collect())
}

/// What changed of the files behind a case since its golden was accepted: `case`, `market`, `src`, ...
pub fn changed_since(case: &Case) -> Vec<String> {
    let Ok(info) = pending_info(&path(case)) else { return Vec::new() };
    hashes_now(case)
        .into_iter()
        .filter(|(name, digest)| info.get(name).is_some_and(|old| old != digest))
        .map(|(n, _)| n)
        .collect()
}

/// Why a pending snapshot may not be accepted.
pub fn refusal(pending: &Path, root: &Path, case: &Case) -> Result<(), String> {
    let name = pending.display();
    let info = pending_info(pending)?;
    let text = read(pending)?;
    if !text.lines().any(|l| l.starts_with("close root ")) {
        return Err(format!("{name}: it has no closing line; its run did not finish"));
    }
    // A snapshot's reader may drop the last line's end.
    let digests = [sha256(text.as_bytes()), sha256(format!("{text}\n").as_bytes())].map(|d| d.to_string());
    if !info.get("text").is_some_and(|made| digests.contains(made)) {
        return Err(format!("{name}: its text is not what the run wrote; run `samebits test {}` again", case.name));
    }
    let here = content_hashes(root, case);
    for (what, digest) in &here {
        match info.get(what) {
            Some(made) if made == digest => {}
            Some(_) => {
                return Err(format!(
                    "{name}: {what} changed since it was made; run `samebits test {}` again",
                    case.name
                ));
            }
            None => return Err(format!("{name}: it does not say which {what} it was made from")),
        }
    }
    Ok(())
}

/// Takes a pending snapshot over with a reason.
pub fn accept(pending: &Path, root: &Path, case: &Case, reason: &str) -> Result<PathBuf, String> {
    refusal(pending, root, case)?;
    let text = fs::read_to_string(pending).map_err(|e| format!("{}: {e}", pending.display()))?;
    let with_reason = text.replacen("description: \"pending\"", &format!("description: {}", yaml(reason)), 1);
    let target = path(case);
    write_atomically(&target, with_reason.as_bytes()).map_err(|e| format!("{}: {e}", target.display()))?;
    fs::remove_file(pending).map_err(|e| format!("{}: {e}", pending.display()))?;
    Ok(target)
}
