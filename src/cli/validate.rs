//! `samebits validate TRACE...`: is each a whole, valid trace, what does it lack, and how is that mended?

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Failure;
use crate::compare::evidence::{self, Evidence};
use crate::compare::verdict::{Reason, exit};
use crate::say;
use crate::trace::lacks::lacks;
use crate::trace::reader::Trace;
use crate::trace::record::SCHEMA;

/// Arguments of `samebits validate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Traces, or folders with a trace a rank
    #[arg(required = true)]
    pub traces: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Why a path holds no valid trace.
struct Refused {
    reason: Reason,
    detail: String,
}

fn read(path: &Path) -> Result<Vec<Trace>, Refused> {
    match evidence::read(path) {
        Ok(Evidence::Traces(traces)) => Ok(traces),
        Ok(Evidence::Tensors(_)) => {
            let detail = format!("{}: not a trace: it does not begin as {SCHEMA} does", path.display());
            Err(Refused { reason: Reason::NotComparable, detail })
        }
        Err(e) => Err(Refused { reason: e.reason, detail: e.detail }),
    }
}

/// Runs it.
pub fn main(args: Args) -> Result<u8, Failure> {
    let (mut code, mut list) = (exit::SAME, Vec::new());
    for path in &args.traces {
        match read(path) {
            Ok(traces) if args.json => list.extend(traces.iter().map(value)),
            Ok(traces) => traces.iter().for_each(tell_trace),
            Err(refused) => {
                code = exit::UNVERIFIED;
                if args.json {
                    let path = path.display().to_string();
                    list.push(
                        json!({ "path": path, "valid": false, "reason": refused.reason, "detail": refused.detail }),
                    );
                } else {
                    say!("not valid ({}): {}", refused.reason.word(), refused.detail);
                }
            }
        }
    }
    if args.json {
        say!("{}", json!({ "schema": "samebits-validate/1", "traces": list }));
    }
    Ok(code)
}

fn value(trace: &Trace) -> Value {
    let open = &trace.open;
    json!({
        "path": trace.path.display().to_string(), "valid": true, "engine": open.engine, "rank": open.rank,
        "world_size": open.world_size, "level": open.level, "records": trace.close.records + 1,
        "status": trace.close.status, "root": trace.close.root, "lacks": lacks(trace),
    })
}

fn tell_trace(trace: &Trace) {
    let (open, path) = (&trace.open, trace.path.display());
    // The words of the format itself.
    let [level, status] = [json!(open.level), json!(trace.close.status)].map(|v| v.as_str().unwrap_or("").to_owned());
    let (records, world) = (trace.close.records + 1, open.world_size);
    say!(
        "valid {SCHEMA}: {path}: {}, rank {} of {world}, level {level}, {records} records, {status}",
        open.engine,
        open.rank
    );
    let lacks = lacks(trace);
    if lacks.is_empty() {
        say!("  lacks nothing");
    }
    for lack in lacks {
        say!("  lacks {} ({}): {}", lack.slug, lack.what, lack.costs);
        say!("    mend: {}", lack.mend);
    }
}
