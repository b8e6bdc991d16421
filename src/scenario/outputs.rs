//! Outputs that a command declares: which files of its working directory are its evidence.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

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

    /// True for a path that is itself an output.
    pub fn is_output(&self, path: &Path) -> bool {
        self.pattern_of(path).is_some()
    }

    /// The pattern that makes a path an output.
    pub fn pattern_of(&self, path: &Path) -> Option<&str> {
        self.patterns.iter().find(|(_, parts)| fits(parts, &names(path))).map(|(text, _)| text.as_str())
    }

    /// True for a folder below which an output may lie.
    pub fn may_hold(&self, path: &Path) -> bool {
        self.patterns.iter().any(|(_, parts)| may_start(parts, &names(path)))
    }

    /// Regular files in a run's folder that are no outputs: what it wrote beside them, and copies.
    pub fn others(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut all = Vec::new();
        files(folder, Path::new(""), &mut all)?;
        all.retain(|p| {
            !p.ancestors().any(|a| !a.as_os_str().is_empty() && self.is_output(a)) && is_regular(&folder.join(p))
        });
        Ok(all)
    }

    /// What a run wrote, by pattern: files, and links and other things that are no folder, for the reader to judge. A
    /// pattern that names a folder means everything in it.
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
        } else {
            found.push(path);
        }
    }
    Ok(())
}

fn is_regular(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|m| m.is_file())
}

/// Entries of a folder by name.
pub fn sorted(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would fail if an output could be looked for outside the run's folder.
    #[test]
    fn outputs_stay_below() {
        for bad in ["/tmp/x", "../x", "", "a/../b", "[a"] {
            assert!(Outputs::new(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }
}
