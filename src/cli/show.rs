//! `samebits show CASE` and `samebits list`: what a case resolves to.

use std::path::Path;

use super::table::{aligned, bytes};
use super::{Failure, workspace};
use crate::compare::verdict::exit;
use crate::scenario::case::{Case, Embedded, Engine};
use crate::scenario::command::CommandEngine;
use crate::scenario::plan::{Arm, Plan, Relation};
use crate::trace::record::Level;
use crate::{say, tell};

/// Arguments of `samebits show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A case: `suite/name` or the path of its file
    pub case: String,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Bytes of a trace before compression: what records of the embedded engine take.
pub fn trace_bytes(level: Level, updates: u64) -> u64 {
    match level {
        Level::Off => 20_000,
        Level::Step => 30_000 + 8_500 * updates,
        Level::Tensor => 30_000 + 20_000 * updates,
        Level::Op => 30_000 + 75_000 * updates,
    }
}

/// The plan of a case; its files go below `work`.
pub fn plan(case: &Case, work: &Path) -> Result<Plan, Failure> {
    let fault = case.faults().into_iter().next().map(|(_, fault)| fault);
    crate::verify::case::plan(case, fault.as_ref(), work).map_err(Failure::unverified)
}

/// One arm by name.
pub fn arm(case: &Case, name: &str) -> Result<Arm, Failure> {
    let work = workspace::files().join("work").join(case.name.replace('/', "--"));
    let plan = plan(case, &work)?;
    let names: Vec<String> = plan.arms.iter().map(|a| a.name.clone()).collect();
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let missing = || Failure::usage(format!("no arm {name:?}{}", crate::scenario::document::suggestion(name, &known)));
    plan.arms.iter().find(|a| a.name == name).cloned().ok_or_else(missing)
}

/// Shows a case.
pub fn main(args: Args) -> Result<u8, Failure> {
    let case = workspace::case(&args.case, &[])?;
    match &case.engine {
        Engine::Embedded(engine) => embedded(&args, &case, engine),
        Engine::Command(engine) => command(&args, &case, engine),
    }
}

fn embedded(args: &Args, case: &Case, engine: &Embedded) -> Result<u8, Failure> {
    let plan = plan(case, Path::new("WORK"))?;
    let updates = engine.settings.training.updates() * u64::from(plan.folds);
    let size = trace_bytes(case.level, updates);
    if args.json {
        let arms: Vec<&str> = plan.arms.iter().map(|a| a.name.as_str()).collect();
        let mut value = common_json(case, &arms);
        value["settings"] = serde_json::json!(engine.settings);
        value["folds"] = plan.folds.into();
        value["updates"] = updates.into();
        value["trace_bytes"] = size.into();
        say!("{value}");
        return Ok(exit::SAME);
    }
    common(case);
    say!("folds      {}, updates {updates}", plan.folds);
    say!("trace      level {}, about {} an arm before compression", case.level, bytes(size));
    say!("\n{}", arm_table(&plan));
    say!("settings\n{}", toml::to_string(&engine.settings).unwrap_or_default());
    Ok(exit::SAME)
}

fn command(args: &Args, case: &Case, engine: &CommandEngine) -> Result<u8, Failure> {
    let arms = crate::verify::command::arms(engine);
    if args.json {
        let names: Vec<&str> = arms.iter().map(|a| a.name.as_str()).collect();
        let mut value = common_json(case, &names);
        value["engine"] = serde_json::json!(engine.run);
        value["knobs"] = serde_json::json!(engine.knobs);
        say!("{value}");
        return Ok(exit::SAME);
    }
    common(case);
    say!("trace      level {} is asked of a recorder", case.level);
    let mut rows = vec![["arm", "must", "changed"].map(str::to_owned).to_vec()];
    for arm in &arms {
        let must = match (arm.name.as_str(), arm.must_be_same) {
            ("base", _) => "",
            (_, true) => "be the same",
            (_, false) => "differ",
        };
        rows.push(vec![arm.name.clone(), must.to_owned(), arm.setting.word.clone()]);
    }
    say!("\n{}", aligned(&rows, 3));
    say!("engine\n{}", toml::to_string(&engine.run).unwrap_or_default());
    if !engine.knobs.is_empty() {
        say!("knobs\n{}", toml::to_string(&engine.knobs).unwrap_or_default());
    }
    Ok(exit::SAME)
}

fn common_json(case: &Case, arms: &[&str]) -> serde_json::Value {
    let golden = case.golden.then(|| crate::verify::golden::path(case));
    serde_json::json!({
        "schema": "samebits-show/1", "case": case.name, "about": case.about, "arms": arms,
        "guarantee": case.guarantee, "needs": case.needs, "golden": golden,
    })
}

fn common(case: &Case) {
    let golden = crate::verify::golden::path(case);
    say!("{}: {}", case.name, case.about);
    say!("file       {}", workspace::shown(&case.path));
    say!("guarantee  {}", case.guarantee);
    let state = match (case.golden, golden.exists()) {
        (false, _) => "none wanted",
        (true, true) => "accepted",
        (true, false) => "missing",
    };
    say!("golden     {} ({state})", workspace::shown(&golden));
}

fn arm_table(plan: &Plan) -> String {
    let mut rows = vec![["arm", "must", "compared"].map(str::to_owned).to_vec()];
    for arm in &plan.arms {
        let (must, compared) = match &arm.relation {
            Relation::Base => ("", "with the golden".to_owned()),
            Relation::Differs => ("differ", "every generator's draws".to_owned()),
            Relation::Same(scope) => {
                let kinds = if scope.kinds.is_empty() { "all records".to_owned() } else { scope.kinds.join(", ") };
                let folds = if scope.folds.is_empty() { String::new() } else { format!(" of folds {:?}", scope.folds) };
                ("be the same", format!("{kinds}{folds}"))
            }
        };
        rows.push(vec![arm.name.clone(), must.to_owned(), compared]);
    }
    aligned(&rows, 3)
}

/// Arguments of `samebits list`.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Lists all cases, one a line.
pub fn list(args: ListArgs) -> Result<u8, Failure> {
    let mut rows = Vec::new();
    for (name, path) in workspace::cases()? {
        let about = match Case::load(&path, &[]) {
            Ok(case) => case.about,
            Err(e) => format!("refused: {e}"),
        };
        rows.push(vec![name, about]);
    }
    if args.json {
        let object = |r: &Vec<String>| serde_json::json!({ "case": r[0], "about": r[1] });
        let cases: Vec<_> = rows.iter().map(object).collect();
        say!("{}", serde_json::json!({ "schema": "samebits-list/1", "cases": cases }));
    } else {
        tell!("{}", aligned(&rows, 2));
    }
    Ok(exit::SAME)
}
