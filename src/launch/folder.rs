//! A fresh working directory for a run: the project's files as links, the declared outputs left out, so that what is
//! found there afterwards was written by this run. What is to be copied is a copy, so that a run may change it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::scenario::copies::Copies;
use crate::scenario::outputs::{Outputs, sorted};

/// How deep folders that may hold outputs nest.
const DEPTH_MAX: usize = 32;
/// Most entries of a project that are linked or copied.
const ENTRIES_MAX: usize = 100_000;

/// Fills an empty folder with links to a project's entries. Old outputs and `leave_out` are not linked; a folder that
/// may hold outputs or copies becomes a folder of its own, so that writing there does not reach the project.
pub fn fill(
    folder: &Path,
    project: &Path,
    outputs: &Outputs,
    copies: &Copies,
    leave_out: &[PathBuf],
) -> io::Result<Filled> {
    if let Some(missing) = copies.missing(project) {
        return Err(io::Error::other(missing));
    }
    let ids = leave_out.iter().filter_map(|path| fs::metadata(path).ok()).map(|m| id(&m)).collect();
    let mut work = Fill { folder, project, outputs, copies, leave_out: ids, entries: 0, filled: Filled::default() };
    work.inside(Path::new(""))?;
    Ok(work.filled)
}

/// What a run finds in its folder, beside links.
#[derive(Clone, Debug, Default)]
pub struct Filled {
    /// old outputs, which it does not see
    pub hidden: Vec<PathBuf>,
    /// copies, as they were made
    pub copied: BTreeMap<PathBuf, Made>,
}

/// Size and time of change of a file.
pub type Made = (u64, SystemTime);

/// A file as it is now.
pub fn made(path: &Path) -> io::Result<Made> {
    let found = fs::metadata(path)?;
    Ok((found.len(), found.modified()?))
}

struct Fill<'a> {
    folder: &'a Path,
    project: &'a Path,
    outputs: &'a Outputs,
    copies: &'a Copies,
    /// device and inode, since several paths may lead to one thing
    leave_out: Vec<(u64, u64)>,
    entries: usize,
    filled: Filled,
}

impl Fill<'_> {
    fn inside(&mut self, inside: &Path) -> io::Result<()> {
        let folder = self.project.join(inside);
        let unread = |e: io::Error| io::Error::other(format!("{}: it cannot be read: {e}", folder.display()));
        for entry in sorted(&folder).map_err(unread)? {
            let path = inside.join(entry.file_name());
            let (from, to) = (self.project.join(&path), self.folder.join(&path));
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                let advice = "start in a smaller folder, or name outputs more narrowly";
                return Err(io::Error::other(format!("more than {ENTRIES_MAX} entries to link; {advice}")));
            }
            // A link to a folder is one too, or outputs would be written to where it leads.
            let found = fs::metadata(&from).ok();
            let is_folder = found.as_ref().is_some_and(fs::Metadata::is_dir);
            if inside.components().count() > DEPTH_MAX {
                let what = format!("{}: folders or links nest deeper than {DEPTH_MAX}", from.display());
                return Err(io::Error::other(what));
            }
            let is_file = found.as_ref().is_some_and(fs::Metadata::is_file);
            let is_nothing = found.is_none();
            if found.is_some_and(|m| self.leave_out.contains(&id(&m))) {
                continue;
            }
            match (is_folder, self.outputs.is_output(&path)) {
                (true, true) => {
                    fs::create_dir(&to)?;
                    self.filled.hidden.push(path);
                }
                (false, true) => self.filled.hidden.push(path),
                (true, false) if self.is_own(&path) => {
                    fs::create_dir(&to)?;
                    self.inside(&path)?;
                }
                (false, false) if is_file && self.copies.is_copied(&path) => {
                    copy(&from, &to)?;
                    self.filled.copied.insert(path, made(&to)?);
                }
                (false, false) if is_nothing && self.copies.is_copied(&path) => loose(&from, &to)?,
                _ => symlink(&from, &to)?,
            }
        }
        Ok(())
    }

    /// True for a folder that each run has one of its own of.
    fn is_own(&self, path: &Path) -> bool {
        self.outputs.may_hold(path) || self.copies.may_hold(path) || self.copies.is_copied(path)
    }
}

/// A copy that is as old as the original: a program may look.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let named = |e: io::Error| io::Error::other(format!("{}: it cannot be copied: {e}", from.display()));
    fs::copy(from, to).map_err(named)?;
    let time = fs::metadata(from)?.modified()?;
    fs::File::open(to)?.set_modified(time)
}

/// A link of a copied folder that leads to nothing, as it is: through a link to it a run could write into the project.
/// What has vanished meanwhile is left out.
fn loose(from: &Path, to: &Path) -> io::Result<()> {
    fs::read_link(from).map_or(Ok(()), |target| symlink(target, to))
}

/// A path below the current folder, written relative to it.
pub fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here).unwrap_or(path).display().to_string()
}

fn id(of: &fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (of.dev(), of.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(root: &Path, names: &[&str]) {
        for name in names {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), name).unwrap();
        }
    }

    /// Would fail if an old output could pass for a new one, an input were missing, or writing reached the project.
    #[test]
    fn outputs_are_fresh_and_inputs_are_there() {
        let place = tempfile::tempdir().unwrap();
        let (project, run) = (place.path().join("p"), place.path().join("r"));
        fs::create_dir_all(&run).unwrap();
        touch(&project, &["train.py", "out/a.npz", "out/notes.txt", "data/x.csv", "deep/er/old.npz", "files/mine"]);
        let outputs = Outputs::new(&["out/*.npz".into(), "deep/**/*.npz".into(), "logs".into()]).unwrap();
        let hidden = fill(&run, &project, &outputs, &Copies::default(), &[project.join("files")]).unwrap().hidden;
        assert_eq!(hidden, ["deep/er/old.npz", "out/a.npz"].map(PathBuf::from));
        assert!(run.join("train.py").is_symlink() && run.join("data").is_symlink() && run.join("out").is_dir());
        assert!(run.join("out/notes.txt").is_symlink() && !run.join("out/a.npz").exists());
        assert!(!run.join("deep/er/old.npz").exists() && !run.join("files").exists());
        let of = |found: Vec<(String, Vec<PathBuf>)>| found.into_iter().map(|(_, list)| list.len()).collect::<Vec<_>>();
        assert_eq!(of(outputs.found(&run).unwrap()), [0, 0, 0]);
        touch(&run, &["out/b.npz", "deep/er/er/c.npz", "logs/one/two.txt", "logs/three.txt"]);
        assert_eq!(of(outputs.found(&run).unwrap()), [1, 1, 2]);
        assert!(!project.join("out/b.npz").exists());
    }

    /// Would fail if a copy were a link, reached the project, brought old outputs along, or were newer than the original.
    #[test]
    fn copies_are_the_runs_own() {
        let place = tempfile::tempdir().unwrap();
        let (project, run) = (place.path().join("p"), place.path().join("r"));
        fs::create_dir_all(&run).unwrap();
        touch(&project, &["data/set.csv", "data/cache/a", "data/cache/old.npz", "state"]);
        let outputs = Outputs::new(&["**/*.npz".into()]).unwrap();
        let copies = Copies::new(&["data/cache".into(), "state".into()], &outputs).unwrap();
        symlink("later", project.join("data/cache/loose")).unwrap();
        let filled = fill(&run, &project, &outputs, &copies, &[]).unwrap();
        let all: Vec<&Path> = filled.copied.keys().map(PathBuf::as_path).collect();
        assert_eq!(all, ["data/cache/a", "state"].map(Path::new));
        fs::write(run.join("data/cache/loose"), "1").unwrap();
        assert!(run.join("data/cache/later").is_file() && !project.join("data/cache/later").exists());
        assert!(run.join("data/set.csv").is_symlink() && !run.join("data/cache/old.npz").exists());
        for name in ["state", "data/cache/a"] {
            let time = |root: &Path| fs::metadata(root.join(name)).unwrap().modified().unwrap();
            assert!(!run.join(name).is_symlink() && time(&run) == time(&project), "{name}");
            fs::write(run.join(name), "changed").unwrap();
            assert_eq!(fs::read_to_string(project.join(name)).unwrap(), name);
        }
        fs::remove_file(project.join("state")).unwrap();
        let again = fill(&run, &project, &outputs, &copies, &[]).unwrap_err().to_string();
        assert!(again.contains("state") && again.contains("expected"), "{again}");
    }
}
