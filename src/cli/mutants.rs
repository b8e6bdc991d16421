//! `samebits mutants`: which planted fault is named by which detector. The matrix in the README comes from here.

use super::{Failure, workspace};
use crate::compare::verdict::exit;
use crate::detect::DETECTORS;
use crate::scenario::case::Case;
use crate::scenario::mutant::{NAMES, STATE_FIELDS};
use crate::tell;

/// Arguments of `samebits mutants`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print the detectors with what they catch, miss and cost
    #[arg(long)]
    pub detectors: bool,
}

/// Prints a Markdown table; `samebits test mutants/` runs what it says.
pub fn main(args: Args) -> Result<u8, Failure> {
    tell!("{}", if args.detectors { detectors() } else { matrix()? });
    Ok(exit::SAME)
}

/// Mutant, what is planted, the detector that must name it, and its case.
pub fn matrix() -> Result<String, Failure> {
    let mut text = String::from("| mutant | planted fault | named by | case |\n|---|---|---|---|\n");
    let cases = workspace::cases()?;
    let all: Vec<Case> = cases.values().filter_map(|p| Case::load(p, &[]).ok()).collect();
    for name in NAMES {
        let case = all.iter().find(|c| c.mutant.as_ref().is_some_and(|m| m.name == name));
        let missing = || Failure::usage(format!("no case plants the mutant {name:?}"));
        let case = case.ok_or_else(missing)?;
        let caught_by = case.mutant.as_ref().map_or("", |m| m.caught_by.as_str());
        let times =
            if name == "checkpoint-omits" { format!(" ({} fields)", STATE_FIELDS.len()) } else { String::new() };
        text.push_str(&format!("| `{name}`{times} | {} | `{caught_by}` | `{}` |\n", case.about, case.name));
    }
    Ok(text)
}

/// Slug, what it catches, misses and costs.
pub fn detectors() -> String {
    let mut text = String::from("| detector | catches | misses | needs |\n|---|---|---|---|\n");
    for d in &DETECTORS {
        text.push_str(&format!("| `{}` | {} | {} | {} |\n", d.slug, d.catches, d.misses, d.costs));
    }
    text
}
