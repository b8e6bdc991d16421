//! Replay rows that keep a reference to the live state instead of a copy: they hold the state after the step.

use super::Detector;
use super::evidence::{Evidence, Finding, operations};

/// See the module.
pub const DETECTOR: Detector = Detector {
    slug: "aliased-replay-state",
    catches: "a stored state before the step that is not the state the environment step read",
    misses: "aliasing of what the trace does not name on both sides",
    costs: "level op; one run",
    mutants: &["aliased-replay"],
    look,
};

fn look(evidence: &Evidence<'_>) -> Option<Finding> {
    let mut read = None;
    for (body, op) in operations(evidence.base()?) {
        match op.op.as_str() {
            "env.step" => read = op.inputs.get("env.state"),
            "replay.write" => {
                let written = op.inputs.get("row.before").or_else(|| op.outputs.get("row.before"));
                if let (Some(read), Some(written)) = (read, written)
                    && read != written
                {
                    let what = format!("replay.write at {} stored another state than env.step read", body.place);
                    let names = vec!["replay.before".to_owned()];
                    return Finding::new(names, what, vec![evidence.arms[0].name.to_owned()]);
                }
            }
            _ => {}
        }
    }
    None
}
