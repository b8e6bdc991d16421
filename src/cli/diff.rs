//! `samebits diff A B`.

use std::path::PathBuf;

use super::Failure;
use crate::compare::evidence;
use crate::compare::verdict::{Comparison, Verdict, exit};
use crate::report::names::Names;
use crate::scenario::case::Scope;
use crate::{say, tell};

/// Arguments of `samebits diff`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A trace, a folder with a trace a rank, an export, a checkpoint, any file (npy, npz, PyTorch and safetensors by
    /// tensor, others by byte) or a folder of files
    pub a: PathBuf,
    /// The other
    pub b: PathBuf,
    /// Compare these record kinds only: step, eval, fold, close
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = ["step", "eval", "fold", "close"])]
    pub kinds: Vec<String>,
    /// Compare these folds only
    #[arg(long, value_name = "FOLDS", value_delimiter = ',')]
    pub folds: Vec<u32>,
    /// Compare these tensors only; a name ending in * is a prefix
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub tensors: Vec<String>,
    /// List every name that differs, one a line [default: grouped by their beginnings]
    #[arg(long, conflicts_with = "top")]
    pub all: bool,
    /// List the first N names that differ, one a line
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub top: Option<u32>,
    /// Print one JSON object, which always has all names
    #[arg(long)]
    pub json: bool,
}

/// Exit code of a verdict.
pub fn code(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Same => exit::SAME,
        Verdict::Different => exit::DIFFERENT,
        Verdict::Unverified { .. } => exit::UNVERIFIED,
        Verdict::NotRun { .. } => exit::NOTHING_RAN,
    }
}

/// Runs it.
pub fn main(args: Args) -> Result<u8, Failure> {
    let scope = Scope { kinds: args.kinds, folds: args.folds, tensors: args.tensors };
    let mut result = evidence::compare(&args.a, &args.b, &scope);
    result.next = next(&result);
    if args.json {
        let value = serde_json::json!({ "schema": "samebits-diff/1", "comparison": result });
        say!("{value}");
    } else {
        let names = match (args.all, args.top) {
            (true, _) => Names::All,
            (false, Some(n)) => Names::Top(n as usize),
            (false, None) => Names::Grouped,
        };
        tell!("{}", crate::report::text::comparison_with(&result, names));
    }
    Ok(code(&result.verdict))
}

/// The command that gets what this evidence lacks.
fn next(result: &Comparison) -> Option<String> {
    let first = result.first.as_ref()?;
    if result.engine.as_ref().is_some_and(|e| !e.starts_with(crate::engine::run::NAME)) {
        let place = first.place.to_string();
        let lacks = first.elements.is_none() && !place.is_empty();
        return lacks.then(|| {
            format!(
                "save {} at {place} on both sides (npy, safetensors, torch.save), then diff the files: elements",
                first.name
            )
        });
    }
    match (first.kind.as_str(), &first.elements, &first.operation) {
        ("step" | "fold" | "eval", None, None) => {
            let fold = first.place.fold.map_or_else(String::new, |f| format!(" --folds {f}"));
            Some(format!(
                "samebits run CASE{fold} --level op --values --trace FILE   (both sides, then diff again: operation and elements)"
            ))
        }
        ("close", None, None) => {
            Some("samebits run CASE --export DIR   (both sides, then diff the folders: elements)".into())
        }
        _ => None,
    }
}
