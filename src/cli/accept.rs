//! `samebits accept --reason TEXT`: pending goldens become accepted ones.

use std::path::{Path, PathBuf};

use super::{Failure, workspace};
use crate::compare::verdict::exit;
use crate::say;
use crate::scenario::case::Case;
use crate::verify::golden;

/// Arguments of `samebits accept`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Cases whose `suite/name` contains one of these [default: all pending]
    pub filter: Vec<String>,
    /// Why the new bits are right; kept in the snapshot
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Folder of pending goldens, as `samebits test --pending DIR` wrote it
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
}

/// Runs it.
pub fn main(args: Args) -> Result<u8, Failure> {
    if args.reason.trim().is_empty() {
        return Err(Failure::usage("--reason is empty: say why the new bits are right"));
    }
    let root = workspace::root();
    let folder = args.from.clone().unwrap_or_else(|| root.join("snapshots"));
    let mut accepted = 0;
    let mut refused = Vec::new();
    for (name, path) in workspace::cases()? {
        if !args.filter.is_empty() && !args.filter.iter().any(|f| name.contains(f.as_str())) {
            continue;
        }
        let case = match Case::load(&path, &[]) {
            Ok(case) => case,
            Err(e) => {
                refused.extend(has_pending(&folder, &name).then(|| e.to_string()));
                continue;
            }
        };
        let Some(pending) = pending(&folder, &case) else { continue };
        match golden::accept(&pending, &root, &case, &args.reason) {
            Ok(target) => {
                accepted += 1;
                say!("accepted  {name} ({})", workspace::shown(&target));
            }
            Err(e) => refused.push(e),
        }
    }
    say!("{accepted} accepted · {} refused", refused.len());
    if !refused.is_empty() {
        return Err(Failure::usage(refused.join("\nerror: ")));
    }
    if accepted == 0 {
        let message = format!("no pending golden (*.snap.new) below {}", workspace::shown(&folder));
        return Err(Failure { code: exit::NOTHING_RAN, message });
    }
    Ok(exit::SAME)
}

/// Whether a pending golden of a case lies here, whatever its key.
fn has_pending(folder: &Path, name: &str) -> bool {
    let (suite, stem) = name.split_once('/').unwrap_or(("", name));
    let inside = std::fs::read_dir(folder.join(suite)).into_iter().flatten().flatten();
    let mut names = inside.map(|e| e.file_name().to_string_lossy().into_owned());
    names.any(|n| n.strip_prefix(stem).is_some_and(|r| r.starts_with(['.', '@']) && r.ends_with(".snap.new")))
}

fn pending(folder: &Path, case: &Case) -> Option<PathBuf> {
    let file = golden::path(case).file_name()?.to_string_lossy().into_owned();
    let path = folder.join(case.suite()).join(format!("{file}.new"));
    path.is_file().then_some(path)
}
