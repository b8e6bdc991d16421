//! `samebits run CASE` where the case's engine is a command: one run in a fresh folder, and what it left.

use serde_json::json;

use super::run::Args;
use super::table::aligned;
use super::{Failure, workspace};
use crate::compare::left::{self, Left};
use crate::compare::unlooked;
use crate::compare::verdict::{Verdict, exit};
use crate::launch::job::{Ran, STDOUT, TRACES, trace_path};
use crate::launch::project::{Watch, shared};
use crate::say;
use crate::scenario::case::Case;
use crate::scenario::command::CommandEngine;
use crate::scenario::document::suggestion;
use crate::verify::command::{CommandArm, arms, folder_name, job, what_is_left};

/// Most outputs that are listed.
const LISTED: usize = 40;

/// Runs one arm of a case, the base by default.
pub fn main(args: &Args, case: &Case, engine: &CommandEngine) -> Result<u8, Failure> {
    refuse(args)?;
    let arm = arm(engine, args.arm.as_deref().unwrap_or("base"))?;
    let samebits = std::env::current_exe().map_err(Failure::unverified)?;
    let mut job = job(case, engine, &samebits, &workspace::files());
    if let Some(level) = args.level {
        job.level = level;
    }
    let name = format!("{}.{}", case.name.replace('/', "--"), folder_name(&arm.name));
    let folder = workspace::made_files().join("runs").join(name);
    let folder = std::path::absolute(folder).map_err(Failure::unverified)?;
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|e| Failure::unverified(format!("{}: {e}", folder.display())))?;
    }
    std::fs::create_dir_all(&folder).map_err(|e| Failure::unverified(format!("{}: {e}", folder.display())))?;
    let watch = Watch::new(&job.project, &job.leave_out);
    let ticket = watch.before();
    let ran = job.run(&folder, &arm.setting).map_err(Failure::unverified)?;
    let wrote = watch.after(ticket);
    let shared = shared(std::iter::once((arm.name.clone(), wrote.as_slice())));
    let left = what_is_left(&job, &folder, &ran, left::wanted(&folder, &job.outputs)).map_err(|verdict| {
        let detail = match verdict {
            Verdict::Unverified { reason, detail } => format!("{}: {detail}", reason.word()),
            other => other.word().to_owned(),
        };
        Failure::unverified(format!("{detail}\nits folder: {}", folder.display()))
    })?;
    let unlooked: Vec<String> = unlooked::of(&job, &ran, &left).into_iter().chain(watch.unlooked()).collect();
    if let Some(target) = &args.trace {
        copy_trace(&folder, target)?;
    }
    match args.json {
        true => {
            let mut value = json_of(case, &folder, &ran, &left);
            (value["shared"], value["not_looked_at"]) = (json!(shared), json!(unlooked));
            say!("{value}");
        }
        false => {
            print(&folder, &ran, &left);
            crate::report::shared::lines(&shared, "arm").iter().for_each(|line| say!("shared   {line}"));
            unlooked.iter().for_each(|what| say!("not looked at: {what}"));
        }
    }
    Ok(exit::SAME)
}

/// Flags that belong to the embedded engine.
fn refuse(args: &Args) -> Result<(), Failure> {
    let given = [
        ("--values", args.values),
        ("--export", args.export.is_some()),
        ("--checkpoint", args.checkpoint.is_some()),
        ("--resume", args.resume.is_some()),
        ("--threads", args.threads.is_some()),
        ("--folds", args.folds.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((flag, _)) => {
            let advice = "the command has its own; put it into [engine] command, or declare a knob";
            Err(Failure::usage(format!("{flag}: this case's engine is a command; {advice}")))
        }
        None => Ok(()),
    }
}

fn arm(engine: &CommandEngine, name: &str) -> Result<CommandArm, Failure> {
    let all = arms(engine);
    let known: Vec<&str> = all.iter().map(|a| a.name.as_str()).collect();
    let missing = || Failure::usage(format!("no arm {name:?}{}", suggestion(name, &known)));
    all.iter().find(|a| a.name == name).cloned().ok_or_else(missing)
}

fn copy_trace(folder: &std::path::Path, target: &std::path::Path) -> Result<(), Failure> {
    let from = trace_path(folder);
    let bytes =
        std::fs::read(&from).map_err(|e| Failure::unverified(format!("no trace to copy: {}: {e}", from.display())))?;
    crate::trace::writer::write_atomically(target, &bytes)
        .map_err(|e| Failure::unverified(format!("{}: {e}", target.display())))
}

fn print(folder: &std::path::Path, ran: &Ran, left: &Left) {
    say!("evidence {}", left.words());
    let digests = left.digests();
    let row = |d: &left::Digested| vec![d.name.clone(), format!("{}{:?}", d.dtype, d.shape), d.sha256.to_string()];
    let rows: Vec<Vec<String>> = digests.iter().take(LISTED).map(row).collect();
    say!("{}", aligned(&rows, 3));
    if digests.len() > LISTED {
        say!("and {} more", digests.len() - LISTED);
    }
    say!("all      {}", left.key(&Default::default()));
    say!("folder   {} ({:.1} s)", workspace::shown(folder), ran.finished.elapsed.as_secs_f64());
}

fn json_of(case: &Case, folder: &std::path::Path, ran: &Ran, left: &Left) -> serde_json::Value {
    json!({
        "schema": "samebits-run/1", "case": case.name, "evidence": left.digests(), "all": left.key(&Default::default()).to_string(),
        "folder": folder, "stdout": folder.join(STDOUT), "traces": folder.join(TRACES),
        "seconds": ran.finished.elapsed.as_secs_f64(),
    })
}
