//! A fresh working directory for a run: the project's files as links, the declared outputs left out, so that what is
//! found there afterwards was written by this run.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::scenario::outputs::{Outputs, sorted};

/// How deep folders that may hold outputs nest.
const DEPTH_MAX: usize = 32;
/// Most entries of a project that are linked.
const ENTRIES_MAX: usize = 100_000;

/// Fills an empty folder with links to a project's entries. Old outputs and `leave_out` are not linked; a folder that
/// may hold outputs becomes a folder of its own, so that writing there does not reach the project.
pub fn fill(folder: &Path, project: &Path, outputs: &Outputs, leave_out: &[PathBuf]) -> io::Result<()> {
    let ids = leave_out.iter().filter_map(|path| fs::metadata(path).ok()).map(|m| id(&m)).collect();
    let mut work = Fill { folder, project, outputs, leave_out: ids, entries: 0 };
    work.inside(Path::new(""))
}

struct Fill<'a> {
    folder: &'a Path,
    project: &'a Path,
    outputs: &'a Outputs,
    /// device and inode, since several paths may lead to one thing
    leave_out: Vec<(u64, u64)>,
    entries: usize,
}

impl Fill<'_> {
    fn inside(&mut self, inside: &Path) -> io::Result<()> {
        for entry in sorted(&self.project.join(inside))? {
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
            if found.is_some_and(|m| self.leave_out.contains(&id(&m))) {
                continue;
            }
            match (is_folder, self.outputs.is_output(&path)) {
                (true, true) => fs::create_dir(&to)?,
                (false, true) => {}
                (true, false) if self.outputs.may_hold(&path) => {
                    fs::create_dir(&to)?;
                    self.inside(&path)?;
                }
                _ => symlink(&from, &to)?,
            }
        }
        Ok(())
    }
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
        fill(&run, &project, &outputs, &[project.join("files")]).unwrap();
        assert!(run.join("train.py").is_symlink() && run.join("data").is_symlink() && run.join("out").is_dir());
        assert!(run.join("out/notes.txt").is_symlink() && !run.join("out/a.npz").exists());
        assert!(!run.join("deep/er/old.npz").exists() && !run.join("files").exists());
        let of = |found: Vec<(String, Vec<PathBuf>)>| found.into_iter().map(|(_, list)| list.len()).collect::<Vec<_>>();
        assert_eq!(of(outputs.found(&run).unwrap()), [0, 0, 0]);
        touch(&run, &["out/b.npz", "deep/er/er/c.npz", "logs/one/two.txt", "logs/three.txt"]);
        assert_eq!(of(outputs.found(&run).unwrap()), [1, 1, 2]);
        assert!(!project.join("out/b.npz").exists());
    }
}
