//! A fresh working directory for a run: the project's files as links, the declared outputs left out, so that what is
//! found there afterwards was written by this run.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

/// Most entries of a project that are linked.
const ENTRIES_MAX: usize = 100_000;

/// Outputs that a command declares: paths relative to its working directory, with `*`, `?`, `[...]` and `**`.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    patterns: Vec<(String, Vec<glob::Pattern>)>,
}

const OPTIONS: glob::MatchOptions =
    glob::MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

impl Outputs {
    /// Checks the patterns.
    pub fn new(texts: &[String]) -> Result<Self, String> {
        let parse = |text: &String| {
            let text = text.strip_prefix("./").unwrap_or(text);
            let plain = Path::new(text).components().all(|c| matches!(c, Component::Normal(_)));
            if text.is_empty() || !plain {
                let why = "a path below the working directory is expected, without `..`; {dir} in the command stands for \
                           that directory";
                return Err(format!("output {text:?}: {why}"));
            }
            let part = |p: &str| glob::Pattern::new(p).map_err(|e| format!("output {text:?}: {e}"));
            let parts: Result<Vec<_>, String> = text.split('/').filter(|p| !p.is_empty()).map(part).collect();
            Ok((text.trim_end_matches('/').to_owned(), parts?))
        };
        Ok(Outputs { patterns: texts.iter().map(parse).collect::<Result<_, _>>()? })
    }

    /// True when none is declared.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The patterns as given.
    pub fn texts(&self) -> Vec<String> {
        self.patterns.iter().map(|(text, _)| text.clone()).collect()
    }

    fn is_output(&self, path: &Path) -> bool {
        self.patterns.iter().any(|(_, parts)| fits(parts, &names(path)))
    }

    /// True for a folder below which an output may lie.
    fn may_hold(&self, path: &Path) -> bool {
        self.patterns.iter().any(|(_, parts)| may_start(parts, &names(path)))
    }

    /// Files that a run wrote, by pattern; links are not followed. A pattern that names a folder means all files in it.
    pub fn found(&self, folder: &Path) -> io::Result<Vec<(String, Vec<PathBuf>)>> {
        let mut all = Vec::new();
        files(folder, Path::new(""), &mut all)?;
        let of = |parts: &Vec<glob::Pattern>| {
            let fits = |p: &&PathBuf| p.ancestors().any(|a| !a.as_os_str().is_empty() && fits(parts, &names(a)));
            all.iter().filter(fits).cloned().collect()
        };
        Ok(self.patterns.iter().map(|(text, parts)| (text.clone(), of(parts))).collect())
    }
}

fn names(path: &Path) -> Vec<String> {
    path.iter().map(|n| n.to_string_lossy().into_owned()).collect()
}

/// Whether a path's names fit a pattern's parts; `**` means any number of folders.
fn fits(parts: &[glob::Pattern], names: &[String]) -> bool {
    match (parts.split_first(), names.split_first()) {
        (None, None) => true,
        (Some((part, rest)), _) if part.as_str() == "**" => {
            fits(rest, names) || names.split_first().is_some_and(|(_, more)| fits(parts, more))
        }
        (Some((part, rest)), Some((name, more))) => part.matches_with(name, OPTIONS) && fits(rest, more),
        _ => false,
    }
}

/// Whether a path below these names may fit.
fn may_start(parts: &[glob::Pattern], names: &[String]) -> bool {
    match (parts.split_first(), names.split_first()) {
        (Some((part, _)), _) if part.as_str() == "**" => true,
        (Some(_), None) => true,
        (Some((part, rest)), Some((name, more))) => part.matches_with(name, OPTIONS) && may_start(rest, more),
        (None, _) => false,
    }
}

fn files(root: &Path, inside: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in sorted(&root.join(inside))? {
        let path = inside.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            files(root, &path, found)?;
        } else if kind.is_file() {
            found.push(path);
        }
    }
    Ok(())
}

fn sorted(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    Ok(entries)
}

/// Fills an empty folder with links to a project's entries. Old outputs and `leave_out` are not linked; a folder that
/// may hold outputs becomes a folder of its own, so that writing there does not reach the project.
pub fn fill(folder: &Path, project: &Path, outputs: &Outputs, leave_out: &[PathBuf]) -> io::Result<()> {
    let mut work = Fill { folder, project, outputs, leave_out, entries: 0 };
    work.inside(Path::new(""))
}

struct Fill<'a> {
    folder: &'a Path,
    project: &'a Path,
    outputs: &'a Outputs,
    leave_out: &'a [PathBuf],
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
            let is_folder = entry.file_type()?.is_dir();
            if self.leave_out.contains(&from) {
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

    /// Would fail if an output could be looked for outside the run's folder.
    #[test]
    fn outputs_stay_below() {
        for bad in ["/tmp/x", "../x", "", "a/../b", "[a"] {
            assert!(Outputs::new(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }
}
