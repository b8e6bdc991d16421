//! Verdicts as text that reads well without colour.

use std::fmt::Write as _;

use super::names::{Names, grouped};
use crate::compare::lines::Lines;
use crate::compare::verdict::{Comparison, Divergence, Elements, Verdict};
use crate::verify::report::CaseReport;

/// A comparison, as `samebits diff` prints it.
pub fn comparison(c: &Comparison) -> String {
    comparison_with(c, Names::Grouped)
}

/// The same with so many of the names that differ.
pub fn comparison_with(c: &Comparison, names: Names) -> String {
    let mut text = String::new();
    match &c.verdict {
        Verdict::Same => {
            let _ = writeln!(text, "same: {}", c.compared.words());
        }
        Verdict::Different => {
            let _ = writeln!(text, "different");
        }
        Verdict::Unverified { reason, detail } => {
            let _ = writeln!(text, "unverified ({}): {detail}", reason.word());
        }
        Verdict::NotRun { detail } => {
            let _ = writeln!(text, "not run: {detail}");
        }
    }
    if let Some(first) = &c.first {
        divergence(&mut text, first);
        differing(&mut text, &c.differing, names);
        let _ = writeln!(text, "  compared: {}", c.compared.words());
    }
    for (word, list, short) in [("noted", &c.noted, 6), ("left out", &c.left_out, 5)] {
        let told = names.of(list.len(), short);
        list[..told].iter().for_each(|n| text.push_str(&format!("  {word}: {n}\n")));
        if list.len() > told {
            let _ = writeln!(text, "  {word}: {} more (samebits diff --all)", list.len() - told);
        }
    }
    if let Some(next) = &c.next {
        let _ = writeln!(text, "  next: {next}");
    }
    text
}

/// The names that differ beside the first.
fn differing(text: &mut String, list: &[String], names: Names) {
    if list.len() < 2 {
        return;
    }
    let told = match names {
        Names::Grouped => {
            let _ = writeln!(text, "  differing there: {} ({})", list.len(), grouped(list));
            return;
        }
        _ => names.of(list.len(), 0),
    };
    let _ = writeln!(text, "  differing there: {}", list.len());
    list[..told].iter().for_each(|name| text.push_str(&format!("    {name}\n")));
    if list.len() > told {
        let _ = writeln!(text, "    {} more (--all)", list.len() - told);
    }
}

fn divergence(text: &mut String, d: &Divergence) {
    let place = d.place.to_string();
    let at = if place.is_empty() { d.kind.clone() } else { format!("{} at {place}", d.kind) };
    let _ = writeln!(text, "  first: {} in {at} (by {})", d.name, d.evidence);
    let _ = writeln!(text, "         {} | {}", d.values[0], d.values[1]);
    if let Some(operation) = &d.operation {
        let _ = writeln!(text, "  operation: {operation}");
    }
    if let Some(e) = &d.elements {
        elements(text, d.elements_of.as_deref(), e);
    }
    if let Some(l) = &d.lines {
        lines(text, l);
    }
}

fn lines(text: &mut String, l: &Lines) {
    let side = |line: &Option<String>| line.as_ref().map_or_else(|| "nothing more".to_owned(), |l| format!("\"{l}\""));
    let [a, b] = l.values.each_ref().map(side);
    let total =
        if l.total[0] == l.total[1] { l.total[0].to_string() } else { format!("{} | {}", l.total[0], l.total[1]) };
    let _ = writeln!(text, "  lines: {} of {total} differ, the first is line {}: {a} | {b}", l.differing, l.first);
}

fn elements(text: &mut String, of: Option<&str>, e: &Elements) {
    let of = of.map_or_else(String::new, |name| format!(" of {name}"));
    let _ = writeln!(
        text,
        "  elements{of}: {} of {} differ, the first is [{}]: {} | {}",
        e.differing, e.total, e.first, e.bits[0], e.bits[1]
    );
    if let Some([a, b]) = &e.values {
        let _ = writeln!(text, "            {a} | {b}");
    }
    if let Some(max) = e.max_ulp {
        let buckets: Vec<String> = e.histogram.iter().map(|(name, n)| format!("{name}: {n}")).collect();
        let _ = writeln!(text, "  distance: at most {max} ULP ({})", buckets.join(", "));
    }
    if e.zero_signs + e.nans > 0 {
        let _ = writeln!(text, "  zeros of other sign: {}, NaN pairs: {}", e.zero_signs, e.nans);
    }
}

/// One line for a case: verdict, name, what it rests on.
pub fn line(report: &CaseReport) -> String {
    let word = match (&report.verdict, &report.expected, report.mutants) {
        (_, Some(_), _) => "expected",
        (Verdict::Same, _, Some(_)) => "caught",
        (verdict, ..) => verdict.word(),
    };
    let detail = match (&report.verdict, report.mutants) {
        (Verdict::NotRun { detail }, _) => detail.clone(),
        (_, Some((caught, planted))) => format!("{caught} of {planted} mutants caught by {}", detectors(report)),
        _ => format!("{} arms", report.arms.len()),
    };
    format!("{word:<10}  {:<44} {detail}, {:.1} s", report.case, report.seconds)
}

fn detectors(report: &CaseReport) -> String {
    let mut names: Vec<&str> = report.findings.iter().map(|f| f.detector).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() { "no detector".to_owned() } else { names.join(", ") }
}

/// What a case says below its line whatever its verdict: what its runs share, and what was not looked at.
pub fn notes(report: &CaseReport) -> String {
    let mut lines = super::shared::lines(&report.shared, "arm");
    if let (Some(first), Verdict::Different) = (report.shared.first(), &report.verdict) {
        let copy = format!("copy = [{:?}] in [engine] gives each run its own", first.path);
        lines.push(format!("{} is the first suspect: {copy}", first.path));
    }
    let shared = lines.iter().map(|l| format!("  shared: {l}\n"));
    shared.chain(report.not_looked_at.iter().map(|what| format!("  not looked at: {what}\n"))).collect()
}

/// What a red case says below its line.
pub fn details(report: &CaseReport) -> String {
    let mut text = String::new();
    let red = report.arms.iter().filter(|a| a.verdict != Verdict::Same);
    for arm in red {
        let _ = writeln!(text, "  arm {}: {}", arm.name, arm.verdict.word());
        if let Verdict::Unverified { reason, detail } = &arm.verdict {
            let _ = writeln!(text, "    {}: {detail}", reason.word());
        }
        if let Some(c) = &arm.comparison {
            comparison(c).lines().skip(1).for_each(|l| text.push_str(&format!("  {l}\n")));
        }
        let _ = writeln!(text, "    repeat: {}", arm.command);
    }
    if report.mutants.is_none() || report.verdict != Verdict::Same {
        for finding in &report.findings {
            let _ = writeln!(text, "  {}: {} (arms {})", finding.detector, finding.what, finding.arms.join(", "));
        }
    }
    if let Verdict::Unverified { reason, detail } = &report.verdict
        && report.arms.is_empty()
    {
        let _ = writeln!(text, "  {}: {detail}", reason.word());
    }
    report.expected.iter().for_each(|r| text.push_str(&format!("  expected: {r}\n")));
    report.stability.iter().for_each(|s| text.push_str(&format!("  {s}\n")));
    if let Some(traces) = &report.traces {
        let _ = writeln!(text, "  traces: {}", traces.display());
    }
    if let Some(pending) = &report.pending {
        let accept = report.accept.as_deref().unwrap_or("samebits accept --reason TEXT");
        let _ = writeln!(text, "  pending golden: {}; if these bits are right: {accept}", pending.display());
    }
    text
}
