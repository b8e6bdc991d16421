//! Rows sampled from the replay that are not written yet, or whose return is not complete.

use super::Detector;
use super::evidence::{Evidence, Finding, u32_values, u64_value};
use crate::trace::reader::Trace;

/// See the module.
pub const DETECTOR: Detector = Detector {
    slug: "sample-out-of-range",
    catches: "a sampled row at or past the write head, or nearer to it than the return is long",
    misses: "rows of a ring that is full, where every slot is written",
    costs: "values of the sampled rows; one run",
    mutants: &["sample-past-head"],
    look,
};

fn look(evidence: &Evidence<'_>) -> Option<Finding> {
    let trace = evidence.base()?;
    let size = |name: &str| trace.declared().find(|t| t.name == name).and_then(|t| t.shape.first().copied());
    let (environments, rows) = (size("env.time")?, size("replay.time")?);
    let n_step = trace.open.settings["training"]["n_step"].as_u64()?;
    let (place, row) = first_bad(trace, environments, rows, n_step)?;
    let what = format!("row {row} was sampled at {place} before it and its {} successors were written", n_step - 1);
    Finding::new(vec!["replay.sample".to_owned(), format!("row {row}")], what, vec![evidence.arms[0].name.to_owned()])
}

fn first_bad(trace: &Trace, environments: u64, rows: u64, n_step: u64) -> Option<(String, u64)> {
    for (_, body) in trace.bodies.iter().filter(|(kind, _)| *kind == "step") {
        let (Some(sampled), Some(steps)) = (u32_values(body, "sample.rows"), u64_value(body, "env.steps")) else {
            continue;
        };
        if steps > rows / environments {
            continue; // every slot is written
        }
        let complete = (steps + 1).saturating_sub(n_step) * environments;
        if let Some(row) = sampled.iter().find(|r| u64::from(**r) >= complete) {
            return Some((body.place.to_string(), u64::from(*row)));
        }
    }
    None
}
