//! How what two runs left differs, in words.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::artifact::Tensor;
use crate::compare::left::Left;
use crate::compare::verdict::{Comparison, Verdict};
use crate::launch::job::STDOUT;

/// The run's folder as a placeholder, so that equal failures are told alike.
pub fn local(text: &str, folder: &Path) -> String {
    text.replace(&folder.display().to_string(), "<run>")
}

/// Names of what differs, or is on one side only.
pub fn differing(a: &Left, b: &Left) -> Vec<String> {
    let (x, y) = (a.digests(), b.digests());
    let of_y: BTreeMap<&str, _> = y.iter().map(|d| (d.name.as_str(), d)).collect();
    let mut names: Vec<String> =
        x.iter().filter(|d| of_y.get(d.name.as_str()) != Some(d)).map(|d| d.name.clone()).collect();
    let of_x: BTreeSet<&str> = x.iter().map(|d| d.name.as_str()).collect();
    names.extend(y.iter().filter(|d| !of_x.contains(d.name.as_str())).map(|d| d.name.clone()));
    names
}

/// The first difference in one line: of standard output the line, else tensor, element and distance.
pub fn first_words(a: &Left, b: &Left, comparison: &Comparison) -> String {
    if let Some(words) = text_of_first(a, b, comparison) {
        return words;
    }
    match &comparison.first {
        None => match &comparison.verdict {
            Verdict::Unverified { detail, .. } => detail.clone(),
            _ => "records that are noted only".to_owned(),
        },
        Some(first) => {
            let place = first.place.to_string();
            let at = if place.is_empty() { String::new() } else { format!(" at {place}") };
            let elements = first.elements.as_ref().map_or_else(String::new, |e| {
                let ulp = e.max_ulp.map_or_else(String::new, |u| format!(", at most {u} ULP"));
                format!(": {} of {} elements, the first is [{}]{ulp}", e.differing, e.total, e.first)
            });
            format!("{}{at}{elements}", first.name)
        }
    }
}

/// Where the first output that differs is text: the first line that differs.
fn text_of_first(a: &Left, b: &Left, comparison: &Comparison) -> Option<String> {
    let name = &comparison.first.as_ref().filter(|f| f.evidence == "bytes" || f.evidence == "declared")?.name;
    let text = |left: &Left| {
        let found = left.outputs.list.iter().find(|t| t.name == *name && (t.dtype.is_none() || t.word == "u8"))?;
        String::from_utf8(found.bytes.clone()).ok().filter(|t| !t.contains('\0'))
    };
    let (x, y) = (text(a)?, text(b)?);
    let of = if name == STDOUT { String::new() } else { format!("{name}, ") };
    let most = if x.lines().count() > y.lines().count() { x.lines().count() } else { y.lines().count() };
    let lines = |text: &'_ str| -> Vec<Option<String>> {
        text.lines().map(|l| Some(l.to_owned())).chain(std::iter::repeat(None)).take(most).collect()
    };
    let (p, q) = (lines(&x), lines(&y));
    Some(match (0..most).find(|i| p[*i] != q[*i]) {
        Some(i) => format!("{of}line {}: {} | {}", i + 1, quoted(p[i].as_deref()), quoted(q[i].as_deref())),
        None => format!("{of}the ends of lines"),
    })
}

/// Whether outputs are equal once each run's own folder is replaced by a placeholder.
pub fn equal_but_for_folder(sides: [&Left; 2], folders: &[PathBuf; 2]) -> bool {
    let plain = |i: usize| -> Option<Vec<(String, String)>> {
        let text = |t: &Tensor| {
            let text = String::from_utf8(t.bytes.clone()).ok()?;
            Some((t.name.clone(), local(&text, &folders[i])))
        };
        sides[i].outputs.list.iter().map(text).collect()
    };
    let traced = sides.iter().any(|s| !s.traces.is_empty());
    !traced && plain(0).zip(plain(1)).is_some_and(|(a, b)| a == b)
}

fn quoted(line: Option<&str>) -> String {
    match line {
        Some(line) if line.chars().count() > 100 => format!("{:?}...", line.chars().take(100).collect::<String>()),
        Some(line) => format!("{line:?}"),
        None => "nothing more".to_owned(),
    }
}
