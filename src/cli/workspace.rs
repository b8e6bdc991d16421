//! Where things are: cases, snapshots, and the folder for files that runs write.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Failure;
pub use crate::launch::folder::shown;
use crate::scenario::case::{Case, find_cases};
use crate::scenario::document::suggestion;

/// The project's folder: the nearest one upwards that holds `cases/`, else the current one.
pub fn root() -> PathBuf {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let found = here.ancestors().find(|p| p.join("cases").is_dir()).map(Path::to_owned);
    found.unwrap_or(here)
}

/// Folder of traces, checkpoints and caches: `SAMEBITS_DIR`, by default `.samebits` in the project.
pub fn files() -> PathBuf {
    let named = std::env::var_os("SAMEBITS_DIR").filter(|d| !d.is_empty()).map(PathBuf::from);
    let folder = named.unwrap_or_else(|| root().join(".samebits"));
    // Runs have other working directories, for which a relative path would be another one.
    std::path::absolute(&folder).unwrap_or(folder)
}

/// The same, made: with a `.gitignore` of its own where it is the project's, so that nothing of it is committed.
pub fn made_files() -> PathBuf {
    let folder = files();
    let ignore = folder.join(".gitignore");
    if folder.file_name().is_some_and(|n| n == ".samebits") && !ignore.exists() {
        // A folder that cannot be written is told where something is written that is needed.
        let _ = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&ignore, "*\n"));
    }
    folder
}

/// Folder of compiled kernels.
pub fn kernels() -> PathBuf {
    made_files().join("kernels")
}

/// All cases by name.
pub fn cases() -> Result<BTreeMap<String, PathBuf>, Failure> {
    let folder = root().join("cases");
    find_cases(&folder).map_err(|e| {
        Failure::usage(format!(
            "{}: {e}; run inside a project with a cases/ folder, or try `samebits demo`",
            shown(&folder)
        ))
    })
}

/// The case of a path or a name.
pub fn case(name: &str, assignments: &[String]) -> Result<Case, Failure> {
    let direct = Path::new(name);
    let path = if direct.is_file() {
        direct.to_owned()
    } else {
        let all = cases()?;
        let plain = name.strip_prefix("cases/").unwrap_or(name).trim_end_matches(".toml");
        match all.get(plain) {
            Some(path) => path.clone(),
            None => {
                let known: Vec<&str> = all.keys().map(String::as_str).collect();
                let near: Vec<&str> = known.iter().copied().filter(|k| k.contains(plain)).collect();
                let list = if near.is_empty() {
                    suggestion(plain, &known)
                } else {
                    format!("; did you mean {}?", near.join(" or "))
                };
                return Err(Failure::usage(format!("no case {name:?}{list}")));
            }
        }
    };
    Case::load(&path, assignments).map_err(Failure::usage)
}
