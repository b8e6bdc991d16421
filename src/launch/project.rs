//! The project beside its runs: which of its files changed while they went on, since what one run changes there the
//! next one reads.
//!
//! Verified: files that appear, vanish, or have another size, time of change or inode than before, also behind links and
//! in folders that runs see as links. Not looked at: the folders of version control and of installed packages
//! ([`SKIPPED`], virtual environments, Cargo's `target`), Python's bytecode (`__pycache__/*.pyc`, which holds what its
//! source says), folders without files, and what lies outside the project; and, which is said, a project of more than
//! [`FILES_MAX`] files and folders that cannot be read or lie too deep. Not seen: a file that comes and goes while one
//! run goes on, and one that was given its old size and time again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

/// Most files of a project that are looked at.
pub const FILES_MAX: usize = 20_000;
/// How deep folders nest that are looked at.
const DEPTH_MAX: usize = 32;
/// Folders that are not looked at.
pub const SKIPPED: [&str; 4] = [".git", ".hg", ".svn", "node_modules"];

/// A file of the project that changed while a run went on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// relative to the project
    pub path: String,
    /// how
    pub how: How,
}

/// How a file changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// it was there before
    Written,
    /// it was not
    Created,
    /// it is no more
    Removed,
}

impl How {
    /// `written`
    pub fn word(self) -> &'static str {
        match self {
            How::Written => "written",
            How::Created => "created",
            How::Removed => "removed",
        }
    }
}

/// Size, time of change in seconds and nanoseconds, device and inode.
type Seen = (u64, i64, i64, u64, u64);
type Files = BTreeMap<PathBuf, Seen>;

/// What one look found.
#[derive(Debug, Default)]
struct Found {
    files: Files,
    /// folders that could not be looked into: unreadable, or too deep
    closed: BTreeSet<PathBuf>,
}

/// A project that is watched from before its first run. Runs may overlap: what changed is told of every run that went on
/// at that time.
#[derive(Debug)]
pub struct Watch {
    project: PathBuf,
    leave_out: LeaveOut,
    state: Mutex<Option<State>>,
}

#[derive(Debug)]
struct State {
    files: Files,
    /// folders that were not looked into at some time
    closed: BTreeSet<PathBuf>,
    next: u64,
    going_on: BTreeMap<u64, BTreeSet<Change>>,
}

/// A run that goes on.
#[derive(Debug)]
pub struct Ticket(u64);

impl Watch {
    /// Looks at the project for the first time. `leave_out` is what samebits itself writes.
    pub fn new(project: &Path, leave_out: &[PathBuf]) -> Self {
        let leave_out = LeaveOut::new(leave_out);
        let found = look(project, &leave_out);
        let state = found.map(|f| State { files: f.files, closed: f.closed, next: 0, going_on: BTreeMap::new() });
        Watch { project: project.to_owned(), leave_out, state: Mutex::new(state) }
    }

    /// Before a run.
    pub fn before(&self) -> Ticket {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        let Some(state) = state.as_mut() else { return Ticket(0) };
        state.next += 1;
        state.going_on.insert(state.next, BTreeSet::new());
        Ticket(state.next)
    }

    /// After a run: what changed while it went on.
    pub fn after(&self, ticket: Ticket) -> Vec<Change> {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        let Some(now) = state.as_ref().and_then(|_| look(&self.project, &self.leave_out)) else {
            // It grew past the limit: nothing is known any more.
            *state = None;
            return Vec::new();
        };
        let Some(state) = state.as_mut() else { return Vec::new() };
        let found = changes(&state.files, &now.files);
        state.files = now.files;
        state.closed.extend(now.closed);
        state.going_on.values_mut().for_each(|run| run.extend(found.iter().cloned()));
        state.going_on.remove(&ticket.0).unwrap_or_default().into_iter().collect()
    }

    /// Why nothing is known of changes, where that is so.
    pub fn unlooked(&self) -> Option<String> {
        let state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        let Some(state) = state.as_ref() else {
            return Some(format!(
                "whether runs write into the project: it has more than {FILES_MAX} files; start in a smaller folder"
            ));
        };
        let first = crate::artifact::printable(&state.closed.first()?.to_string_lossy());
        let more = state.closed.len() - 1;
        let more = if more > 0 { format!(" and {more} more folders") } else { String::new() };
        Some(format!("whether runs write into {first}{more}: unreadable, or more than {DEPTH_MAX} folders deep"))
    }
}

/// What samebits writes: by path, and by device and inode, since several paths may lead to one thing.
#[derive(Debug)]
struct LeaveOut {
    paths: Vec<PathBuf>,
    ids: Vec<(u64, u64)>,
}

impl LeaveOut {
    fn new(paths: &[PathBuf]) -> Self {
        let mut ids: Vec<(u64, u64)> = paths.iter().filter_map(|p| fs::metadata(p).ok()).map(|m| id(&m)).collect();
        // `samebits audit ... > report.txt` writes a file of the project too.
        let own = [rustix::fs::fstat(rustix::stdio::stdout()), rustix::fs::fstat(rustix::stdio::stderr())];
        ids.extend(own.into_iter().flatten().map(|s| (s.st_dev, s.st_ino)));
        LeaveOut { paths: paths.iter().map(|p| real(p)).collect(), ids }
    }

    fn has(&self, path: &Path, found: &fs::Metadata) -> bool {
        self.ids.contains(&id(found)) || self.paths.iter().any(|p| p == path)
    }
}

/// A path without links on the way to it, also of what is not there yet.
fn real(path: &Path) -> PathBuf {
    let found = fs::canonicalize(path).ok();
    let beside = || Some(fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?));
    found.or_else(beside).unwrap_or_else(|| path.to_owned())
}

fn id(of: &fs::Metadata) -> (u64, u64) {
    (of.dev(), of.ino())
}

/// All files of a project; None when they are more than are looked at.
fn look(project: &Path, leave_out: &LeaveOut) -> Option<Found> {
    let mut work = Look { project, leave_out, folders: BTreeSet::new(), found: Found::default() };
    work.inside(Path::new(""), 0).then_some(work.found)
}

struct Look<'a> {
    project: &'a Path,
    leave_out: &'a LeaveOut,
    /// folders that were entered, since links may lead in circles
    folders: BTreeSet<(u64, u64)>,
    found: Found,
}

impl Look<'_> {
    /// Looks into a folder; false when there is too much. What is not there any more is as if it had not been there.
    fn inside(&mut self, inside: &Path, depth: usize) -> bool {
        let entries = match fs::read_dir(self.project.join(inside)) {
            Ok(entries) if depth <= DEPTH_MAX => entries,
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return true,
            _ => return self.closed(inside),
        };
        for entry in entries.flatten() {
            let path = inside.join(entry.file_name());
            let full = self.project.join(&path);
            let found = match fs::metadata(&full) {
                Ok(found) if !self.leave_out.has(&full, &found) => found,
                Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                    self.closed(inside);
                    continue;
                }
                _ => continue,
            };
            if found.is_dir() {
                let enter = !is_skipped(&full) && self.folders.insert(id(&found));
                if enter && !self.inside(&path, depth + 1) {
                    return false;
                }
            } else if found.is_file() && !is_bytecode(&path) {
                let seen = (found.size(), found.mtime(), found.mtime_nsec(), found.dev(), found.ino());
                self.found.files.insert(path, seen);
            }
            if self.found.files.len() > FILES_MAX {
                return false;
            }
        }
        true
    }

    /// Remembers a folder that was not looked into.
    fn closed(&mut self, folder: &Path) -> bool {
        self.found.closed.insert(folder.to_owned());
        true
    }
}

/// Version control, installed packages, and what Cargo builds.
fn is_skipped(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default();
    let built = name == "target" && folder.join("CACHEDIR.TAG").is_file();
    SKIPPED.iter().any(|s| name == *s) || built || folder.join("pyvenv.cfg").is_file()
}

/// `__pycache__/x.cpython-311.pyc`, and the name under which Python writes it first.
pub fn is_bytecode(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let in_cache = path.parent().and_then(Path::file_name).is_some_and(|n| n == "__pycache__");
    in_cache && (name.ends_with(".pyc") || name.contains(".pyc."))
}

fn changes(old: &Files, new: &Files) -> Vec<Change> {
    let change = |path: &Path, how| Change { path: path.to_string_lossy().into_owned(), how };
    let gone = old.keys().filter(|p| !new.contains_key(*p)).map(|p| change(p, How::Removed));
    let other = new.iter().filter_map(|(path, seen)| match old.get(path) {
        None => Some(change(path, How::Created)),
        Some(before) => (before != seen).then(|| change(path, How::Written)),
    });
    gone.chain(other).collect()
}

/// A file of the project that changed, and the runs during which it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shared {
    /// relative to the project
    pub path: String,
    /// how it changed first
    pub how: How,
    /// numbers or names of runs
    pub runs: Vec<String>,
}

/// Changes by file, in the order of their paths.
pub fn shared<'a>(runs: impl Iterator<Item = (String, &'a [Change])>) -> Vec<Shared> {
    let mut found: BTreeMap<&str, Shared> = BTreeMap::new();
    for (run, changes) in runs {
        for change in changes {
            let new = || Shared { path: change.path.clone(), how: change.how, runs: Vec::new() };
            let entry = found.entry(change.path.as_str()).or_insert_with(new);
            if entry.runs.last() != Some(&run) {
                entry.runs.push(run.clone());
            }
        }
    }
    found.into_values().collect()
}

/// Paths to be copied for each run, so that none of this is shared any more: the file, or the folder of several.
pub fn to_copy(shared: &[Shared], project: &Path) -> Vec<String> {
    let parent = |path: &str| Path::new(path).parent().map(Path::to_owned).filter(|p| !p.as_os_str().is_empty());
    let with = |folder: &Path| shared.iter().filter(|s| parent(&s.path).as_deref() == Some(folder)).count();
    let place = |s: &Shared| match parent(&s.path) {
        Some(folder) if with(&folder) > 1 || s.how != How::Written => folder,
        _ => PathBuf::from(&s.path),
    };
    // What a run creates beside all folders it creates in its own; this came by another path, and a copy is no help.
    let of_use = |s: &&Shared| s.how == How::Written || parent(&s.path).is_some();
    let all: BTreeSet<PathBuf> = shared.iter().filter(of_use).map(place).filter(|p| project.join(p).exists()).collect();
    let inner = |p: &&PathBuf| !p.ancestors().skip(1).any(|a| all.contains(a));
    all.iter().filter(inner).map(|p| p.to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        fs::write(root.join(name), text).unwrap();
    }

    fn told(changes: &[Change]) -> Vec<String> {
        changes.iter().map(|c| format!("{} {}", c.path, c.how.word())).collect()
    }

    /// Would fail if a file written, created, removed or replaced beside a run were not told, or one of samebits' own,
    /// of a package or of Python's bytecode were.
    #[test]
    fn changes_are_seen_and_noise_is_not() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("p");
        for name in ["a", "gone", "same", "lib/m.py", "venv/pyvenv.cfg", "target/CACHEDIR.TAG"] {
            write(&root, name, "1");
        }
        std::os::unix::fs::symlink("lib", root.join("also")).unwrap();
        std::os::unix::fs::symlink("..", root.join("lib/circle")).unwrap();
        let watch = Watch::new(&root, &[root.join("files"), root.join("lib/circle")]);
        let run = watch.before();
        write(&root, "a", "22");
        write(&root, "lib/new", "1");
        fs::remove_file(root.join("gone")).unwrap();
        let quiet =
            [".git/index", "venv/x", "target/x", "files/x", "lib/__pycache__/m.pyc", "lib/__pycache__/m.pyc.1234"];
        quiet.iter().for_each(|name| write(&root, name, "1"));
        write(&root, "lib/__pycache__/kernel.nbi", "1");
        let found = told(&watch.after(run));
        let new = |name: &str| {
            found.contains(&format!("lib/{name} created")) || found.contains(&format!("also/{name} created"))
        };
        assert!(new("new") && new("__pycache__/kernel.nbi"), "{found:?}");
        assert!(found.contains(&"a written".to_owned()) && found.contains(&"gone removed".to_owned()), "{found:?}");
        assert_eq!(found.len(), 4, "{found:?}");
        assert_eq!(watch.after(watch.before()), Vec::new());
    }

    /// Would fail if a folder that was not looked into were not told.
    #[test]
    fn what_lies_too_deep_is_told() {
        let place = tempfile::tempdir().unwrap();
        let deep = vec!["d"; DEPTH_MAX].join("/");
        write(place.path(), &format!("{deep}/a"), "1");
        let watch = Watch::new(place.path(), &[]);
        let run = watch.before();
        assert_eq!(watch.unlooked(), None);
        write(place.path(), &format!("{deep}/a"), "22");
        write(place.path(), &format!("{deep}/e/b"), "1");
        assert_eq!(told(&watch.after(run)), [format!("{deep}/a written")]);
        assert!(watch.unlooked().is_some_and(|what| what.contains(&format!("into {deep}/e: "))));
    }

    /// Would fail if a change were blamed on one of two runs that overlap, or on one that was over before.
    #[test]
    fn overlapping_runs_are_told_together() {
        let place = tempfile::tempdir().unwrap();
        write(place.path(), "a", "1");
        let watch = Watch::new(place.path(), &[]);
        let first = watch.before();
        assert_eq!(watch.after(first), Vec::new());
        let (second, third) = (watch.before(), watch.before());
        write(place.path(), "a", "22");
        assert_eq!(told(&watch.after(second)), ["a written"]);
        assert_eq!(told(&watch.after(third)), ["a written"]);
        assert_eq!(watch.after(watch.before()), Vec::new());
    }

    /// Would fail if the path to copy missed a file, or named one folder twice.
    #[test]
    fn what_to_copy() {
        let place = tempfile::tempdir().unwrap();
        ["state", "c/one", "d/x", "d/y", "d/e/z", "n/new", "beside"]
            .iter()
            .for_each(|name| write(place.path(), name, "1"));
        let of = |path: &str, how| Shared { path: path.to_owned(), how, runs: vec!["0".to_owned()] };
        let written = ["state", "c/one", "d/x", "d/y", "d/e/z"].map(|p| of(p, How::Written));
        let other = [of("n/new", How::Created), of("no/more", How::Removed), of("beside", How::Created)];
        let all = [&written[..], &other].concat();
        assert_eq!(to_copy(&all, place.path()), ["c/one", "d", "n", "state"]);
    }
}
