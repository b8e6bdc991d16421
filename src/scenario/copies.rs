//! Paths of a project that each run gets a copy of, where the rest is links: what a command changes in place.

use std::path::{Component, Path, PathBuf};

use super::outputs::Outputs;

/// Files and folders, relative to the project.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    paths: Vec<PathBuf>,
}

impl Copies {
    /// Checks the paths. One that is an output, or lies in one, is refused: an output is made anew by each run, and a
    /// copy would pass for it.
    pub fn new(texts: &[String], outputs: &Outputs) -> Result<Self, String> {
        let parse = |text: &String| {
            let path: PathBuf = Path::new(text).components().filter(|c| *c != Component::CurDir).collect();
            let plain = path.components().all(|c| matches!(c, Component::Normal(_)));
            if path.as_os_str().is_empty() || !plain {
                return Err(format!("copy {text:?}: a path below the project is expected, without `..` and patterns"));
            }
            if path.ancestors().any(|a| outputs.is_output(a)) {
                return Err(format!(
                    "copy {text:?}: it is a declared output, which each run makes anew; give one or the other"
                ));
            }
            Ok(path)
        };
        Ok(Copies { paths: texts.iter().map(parse).collect::<Result<_, _>>()? })
    }

    /// The paths as text.
    pub fn texts(&self) -> Vec<String> {
        self.paths.iter().map(|p| p.to_string_lossy().into_owned()).collect()
    }

    /// True for a path that is copied, by itself or with the folder that it lies in.
    pub fn is_copied(&self, path: &Path) -> bool {
        path.ancestors().any(|a| self.paths.iter().any(|p| p == a))
    }

    /// True for a folder in which a copied path lies.
    pub fn may_hold(&self, path: &Path) -> bool {
        self.paths.iter().any(|p| p.starts_with(path) && p != path)
    }

    /// The first path that is not there, or that is nothing which can be copied.
    pub fn missing(&self, project: &Path) -> Option<String> {
        let is_there = |p: &&PathBuf| project.join(p).metadata().is_ok_and(|m| m.is_file() || m.is_dir());
        let missing = self.paths.iter().find(|p| !is_there(p))?;
        let found = if project.join(missing).exists() { "a pipe or a device" } else { "not there" };
        let (path, project) = (missing.display().to_string(), project.display());
        Some(format!("copy {path:?}: {found} in {project}; a file or folder that each run gets a copy of is expected"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would fail if a copy could come from outside, or pass for an output that a run wrote.
    #[test]
    fn copies_stay_below_and_are_no_outputs() {
        let outputs = Outputs::new(&["out".into(), "logs/*.txt".into()]).unwrap();
        let new = |text: &str| Copies::new(&[text.to_owned()], &outputs);
        for bad in ["", ".", "..", "/etc", "a/../b", "out", "out/x", "logs/a.txt"] {
            assert!(new(bad).is_err(), "{bad}");
        }
        let copies = new("./data/cache").unwrap();
        assert!(copies.is_copied(Path::new("data/cache/x")) && !copies.is_copied(Path::new("data/cached")));
        let told = |text: &str| new(text).unwrap().missing(Path::new("/dev")).unwrap_or_default();
        assert!(told("null").contains("a device in /dev") && told("none").contains("not there in /dev"));
        assert!(copies.may_hold(Path::new("data")) && !copies.may_hold(Path::new("dat")));
    }
}
