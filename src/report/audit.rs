//! An audit's report as text.

use std::fmt::Write as _;

use crate::audit::confirm::Cause;
use crate::audit::report::{ClassReport, Report};
use crate::compare::verdict::Verdict;

/// Most names of tensors of one class that are printed.
const NAMES: usize = 4;
/// Most lines of a failed run's standard error that are printed.
const LINES: usize = 6;

/// Most characters of such a line.
const WIDTH: usize = 200;

/// The report, the verdict's line first.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", headline(report));
    let _ = writeln!(text, "  command   {}", report.command);
    let _ = writeln!(text, "  evidence  {}", report.evidence);
    if !report.varied.is_empty() {
        let _ = writeln!(text, "  varied    {}", report.varied.join(", "));
    }
    report.not_varied.iter().for_each(|n| text.push_str(&format!("  as it is  {n}\n")));
    if !report.copied.is_empty() {
        let _ = writeln!(text, "  copied    {}: each run has its own", report.copied.join(", "));
    }
    if report.classes.len() > 1 || !matches!(report.verdict, Verdict::Same) {
        report.classes.iter().for_each(|c| class(&mut text, c, report.runs));
    }
    if let Some(bound) = report.ruled_out {
        let of = if report.verdict == Verdict::Same { "runs" } else { "the runs that leave evidence" };
        let _ = writeln!(text, "  bound     at 95 % confidence fewer than {} of {of} differ", percent(bound));
    }
    if let Some(rate) = report.rate {
        let held = if report.causes.iter().any(|c| c.alone) { " with the causes below held still" } else { "" };
        let _ = writeln!(
            text,
            "  rate      {} of {} runs{held} outside the largest class: {} (95 % interval {} to {})",
            rate.outside,
            rate.of,
            percent(rate.outside as f64 / rate.of as f64),
            percent(rate.low),
            percent(rate.high)
        );
    }
    causes(&mut text, report);
    super::shared::lines(&report.volatile.shared, "run")
        .iter()
        .for_each(|l| text.push_str(&format!("  shared    {l}\n")));
    report.not_looked_at.iter().for_each(|what| text.push_str(&format!("  not looked at: {what}\n")));
    let _ = writeln!(text, "  files     {}", report.volatile.folder);
    let _ = writeln!(text, "  next      {}", report.next);
    text
}

fn headline(report: &Report) -> String {
    let runs = match report.confirming {
        0 => format!("{} runs", report.runs),
        n => format!("{} runs and {n} to confirm", report.runs),
    };
    match &report.verdict {
        Verdict::Same => format!("same: {runs}, one outcome"),
        Verdict::Different => format!("different: {runs}, {} outcomes", report.classes.len()),
        Verdict::Unverified { reason, detail } => format!("unverified ({}): {runs}; {detail}", reason.word()),
        Verdict::NotRun { detail } => format!("not run: {detail}"),
    }
}

fn class(text: &mut String, class: &ClassReport, runs: usize) {
    let share = percent(class.runs as f64 / runs as f64);
    let what = if class.what.len() == 64 { &class.what[..16] } else { class.what.as_str() };
    let _ = writeln!(text, "  {:<9} {} of {runs} ({share}), first run {}: {what}", class.name, class.runs, class.first);
    if !class.differing.is_empty() {
        let names: Vec<&str> = class.differing.iter().take(NAMES).map(String::as_str).collect();
        let more = if class.differing.len() > NAMES { ", ..." } else { "" };
        let _ = writeln!(
            text,
            "            differs from A in {} of {}: {}{more}",
            class.differing.len(),
            class.of,
            names.join(", ")
        );
    }
    if let Some(difference) = &class.difference {
        let _ = writeln!(text, "            {difference}");
    }
    let lines: Vec<&str> = class.stderr.trim().lines().collect();
    for line in lines.iter().skip(lines.len().saturating_sub(LINES)) {
        let more = if line.chars().count() > WIDTH { "..." } else { "" };
        let _ = writeln!(text, "            | {}{more}", line.chars().take(WIDTH).collect::<String>());
    }
}

fn causes(text: &mut String, report: &Report) {
    for cause in report.causes.iter().filter(|c| c.same_as.is_none()) {
        let word = match (cause.alone, cause.without) {
            (true, true) => "cause",
            (true, false) => "part",
            _ => "not it",
        };
        let how = if cause.is_confirmed() { " (confirmed both ways)" } else { "" };
        let _ = writeln!(text, "  {word:<9} {}{how}", together(cause, report));
    }
    for factor in &report.suspected {
        let _ = writeln!(
            text,
            "  suspected {factor}: it would take too many runs to confirm; audit it alone with more runs"
        );
    }
    let unexplained = report.classes.len() > 1 && !report.causes.iter().any(|c| c.alone) && report.killed.is_empty();
    if !report.possible.is_empty() {
        let names = report.possible.join(", ");
        let _ = writeln!(text, "  possible  {names}: the outcomes fit, but after so few runs that may be chance");
    }
    if let (true, Some(first)) = (unexplained, report.volatile.shared.first()) {
        let path = crate::artifact::printable(&first.path);
        let _ = writeln!(text, "  cause     not confirmed; the first suspect is {path}, which runs share (below)");
    } else if unexplained && report.possible.is_empty() && report.suspected.is_empty() && !report.varied.is_empty() {
        let distinct = report.classes.iter().all(|c| c.runs == 1);
        let few = report.runs < 8;
        if distinct || few {
            let why = if distinct { "every run differs from every other" } else { "the runs are too few" };
            let _ = writeln!(
                text,
                "  cause     could not be told: {why}; often a generator without a seed, the clock, or the run's own path"
            );
            return;
        }
        let _ = writeln!(
            text,
            "  cause     none of the factors varied explains it: it comes from inside the program, or from what no factor varies: a generator without a seed, the clock, a race, files it shares with other runs, its folder's path"
        );
    }
}

/// Of causes that alone give one and the same other outcome: one line for all of them.
fn together(cause: &Cause, report: &Report) -> String {
    let same = report.causes.iter().filter(|c| c.same_as.as_deref() == Some(cause.name()));
    let others: Vec<String> = same.map(Cause::label).collect();
    match others.as_slice() {
        [] => cause.words.clone(),
        others => format!(
            "{}; {} alone gives the same other outcome: what they do is one thing",
            cause.words,
            others.join(" or ")
        ),
    }
}

/// `5.3 %`
fn percent(x: f64) -> String {
    match 100.0 * x {
        p if p >= 10.0 || p == 0.0 => format!("{p:.0} %"),
        p if p >= 1.0 => format!("{p:.1} %"),
        p => format!("{p:.2} %"),
    }
}
