//! Arms made in fresh processes, and the traces they left.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::compare::verdict::{Reason, Verdict};
use crate::launch::process::{self, End};
use crate::launch::slots::Slots;
use crate::scenario::plan::{Arm, ArmKind};
use crate::scenario::request::repeat_name;
use crate::scenario::settings::Size;
use crate::trace::reader::{self, Trace};
use crate::trace::record::Event;
use crate::trace::writer::part_name;

/// How runs are made.
#[derive(Debug)]
pub struct Runner<'a> {
    /// the `samebits` program
    pub program: PathBuf,
    /// slots shared with other cases
    pub slots: &'a Slots,
    /// folder for traces and checkpoints of this case
    pub work: PathBuf,
    /// seconds for one arm
    pub timeout: Duration,
}

/// One arm that was run.
#[derive(Debug)]
pub struct ArmRun {
    /// the arm
    pub arm: Arm,
    /// its traces (several for `repeat`), or why there are none
    pub traces: Result<Vec<Trace>, Verdict>,
    /// events of the first trace, also of one that was not closed
    pub events: Vec<Event>,
    /// how long it took
    pub elapsed: Duration,
}

impl Runner<'_> {
    /// Makes one arm.
    pub fn run(&self, arm: &Arm) -> ArmRun {
        self.run_as(arm, &arm.name)
    }

    /// Makes one arm with its trace under another name.
    pub fn run_as(&self, arm: &Arm, name: &str) -> ArmRun {
        let mut request = arm.request.clone();
        let trace = self.work.join(format!("{name}.jsonl"));
        request.trace = Some(trace.clone());
        let weight = match (arm.request.settings.engine.size, arm.request.threads) {
            (Size::Tiny, Some(threads)) => threads,
            _ => usize::MAX,
        };
        let taken = self.slots.take(weight);
        let finished = process::run(&self.program, &request, self.timeout);
        drop(taken);
        let (traces, elapsed) = match finished {
            Err(e) => {
                let detail = format!("{}: cannot be started: {e}", self.program.display());
                (Err(Verdict::unverified(Reason::EngineFailed, detail)), Duration::ZERO)
            }
            Ok(finished) => (collect(&finished, &trace, request.repeat), finished.elapsed),
        };
        let events = match &traces {
            Ok(traces) => traces.first().map(|t| t.events.clone()).unwrap_or_default(),
            Err(_) => reader::prefix_events(&part_name(&trace)),
        };
        ArmRun { arm: arm.clone(), traces, events, elapsed }
    }

    /// Makes several arms, as many at a time as the slots allow.
    pub fn run_all(&self, arms: &[Arm]) -> Vec<ArmRun> {
        std::thread::scope(|scope| {
            let started: Vec<_> = arms.iter().map(|arm| scope.spawn(move || self.run(arm))).collect();
            let failed = |arm: &Arm| ArmRun {
                arm: arm.clone(),
                traces: Err(Verdict::unverified(Reason::EngineFailed, "the thread that ran it panicked")),
                events: Vec::new(),
                elapsed: Duration::ZERO,
            };
            started.into_iter().zip(arms).map(|(t, arm)| t.join().unwrap_or_else(|_| failed(arm))).collect()
        })
    }
}

fn collect(finished: &process::Finished, trace: &Path, repeat: usize) -> Result<Vec<Trace>, Verdict> {
    let stderr = finished.stderr.trim();
    match &finished.end {
        End::Ok => {}
        End::Failed(how) => {
            let detail = format!("{how}: {}", if stderr.is_empty() { "nothing on stderr" } else { stderr });
            return Err(Verdict::unverified(Reason::EngineFailed, detail));
        }
        End::TimedOut(limit) => {
            let detail = format!("after {limit} s; last record: {}; stderr: {stderr}", last_record(trace));
            return Err(Verdict::unverified(Reason::TimedOut, detail));
        }
        End::Interrupted => return Err(Verdict::NotRun { detail: "interrupted".into() }),
    }
    let read = |i: usize| reader::read(&repeat_name(trace, i));
    let traces: Result<Vec<Trace>, _> = (0..if repeat > 0 { repeat } else { 1 }).map(read).collect();
    traces.map_err(|e| Verdict::unverified(Reason::of_read_error(&e), e.to_string()))
}

/// Kind and place of the last whole record of an unfinished trace.
fn last_record(trace: &Path) -> String {
    let text = fs::read_to_string(part_name(trace)).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let line = whole.lines().last().unwrap_or_default();
    let value: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
    match value["kind"].as_str() {
        Some(kind) => format!("{kind} (fold {}, step {})", value["fold"], value["step"]),
        None => "none".to_owned(),
    }
}

/// True for arms that need the base's checkpoints.
pub fn needs_base(arm: &Arm) -> bool {
    matches!(arm.kind, ArmKind::Resume { .. })
}
