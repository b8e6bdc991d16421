//! `samebits show CASE` and `samebits list`: what a case resolves to.

use std::path::Path;

use super::table::{aligned, bytes};
use super::{Failure, workspace};
use crate::compare::verdict::exit;
use crate::scenario::case::Case;
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
    let plan = plan(&case, Path::new("WORK"))?;
    let updates = case.settings.training.updates() * u64::from(plan.folds);
    let size = trace_bytes(case.level, updates);
    let golden = crate::verify::golden::path(&case);
    if args.json {
        let arms: Vec<&str> = plan.arms.iter().map(|a| a.name.as_str()).collect();
        let value = serde_json::json!({
            "schema": "samebits-show/1", "case": case.name, "about": case.about, "settings": case.settings,
            "folds": plan.folds, "updates": updates, "arms": arms, "guarantee": case.guarantee, "needs": case.needs,
            "golden": case.golden.then_some(golden), "trace_bytes": size,
        });
        say!("{value}");
        return Ok(exit::SAME);
    }
    say!("{}: {}", case.name, case.about);
    say!("file       {}", workspace::shown(&case.path));
    say!("guarantee  {}, folds {}, updates {updates}", case.guarantee, plan.folds);
    let state = if !case.golden {
        "none wanted"
    } else if golden.exists() {
        "accepted"
    } else {
        "missing"
    };
    say!("golden     {} ({state})", workspace::shown(&golden));
    say!("trace      level {}, about {} an arm before compression", case.level, bytes(size));
    say!("\n{}", arm_table(&plan));
    say!("settings\n{}", toml::to_string(&case.settings).unwrap_or_default());
    Ok(exit::SAME)
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
