//! TOML with places: every refusal names file, line and key.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

/// A refused case: where, what was found, what is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseError {
    /// file, or `--set`
    pub source: String,
    /// line, from 1, where known
    pub line: Option<usize>,
    /// what is wrong and what to do
    pub detail: String,
}

impl fmt::Display for CaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.source, self.detail),
            None => write!(f, "{}: {}", self.source, self.detail),
        }
    }
}

impl std::error::Error for CaseError {}

/// A TOML text and where it came from.
#[derive(Clone, Debug)]
pub struct Document {
    /// the file
    pub path: PathBuf,
    /// its text
    pub text: String,
}

/// Largest case file that is read, in bytes.
pub const CASE_LIMIT: u64 = 1 << 20;
/// Most names of a dotted key of an assignment.
const DEPTH_LIMIT: usize = 16;
/// Longest name for which nearest ones are looked for, in bytes: that costs time and memory in proportion to it.
const NAME_LIMIT: usize = 64;
/// Most names that a refusal lists.
const NAMES_LIMIT: usize = 24;

impl Document {
    /// Reads a case file.
    pub fn read(path: &Path) -> Result<Self, CaseError> {
        let fail = |detail: String| CaseError { source: path.display().to_string(), line: None, detail };
        let kind = std::fs::metadata(path).map_err(|e| fail(e.to_string()))?;
        if !kind.is_file() {
            return Err(fail("not a regular file; a case is a TOML file".to_owned()));
        }
        let size = kind.len();
        if size > CASE_LIMIT {
            return Err(fail(format!("{size} bytes; a case file has at most {CASE_LIMIT}")));
        }
        let text = std::fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
        Ok(Document { path: path.to_owned(), text })
    }

    /// An error at a dotted key.
    pub fn refuse(&self, key: &str, detail: impl Into<String>) -> CaseError {
        CaseError { source: self.path.display().to_string(), line: self.line_of(key), detail: detail.into() }
    }

    /// Parses into `T`; unknown keys are refused with the nearest names.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, CaseError> {
        toml::from_str(&self.text).map_err(|e| {
            let line = e.span().map(|span| self.text[..span.start.min(self.text.len())].matches('\n').count() + 1);
            CaseError { source: self.path.display().to_string(), line, detail: with_suggestion(e.message()) }
        })
    }

    /// The line where a dotted key, or the table that should hold it, stands.
    pub fn line_of(&self, key: &str) -> Option<usize> {
        let (table, name) = key.rsplit_once('.').unwrap_or((key, ""));
        let (mut current, mut table_line) = (String::new(), None);
        for (i, line) in self.text.lines().enumerate() {
            let line = line.trim();
            if let Some(header) = line.strip_prefix('[').and_then(|l| l.split(']').next()) {
                current = header.trim().to_owned();
                if current == table || current == key {
                    table_line = table_line.or(Some(i + 1));
                }
            } else if let Some((left, _)) = line.split_once('=') {
                let full =
                    if current.is_empty() { left.trim().to_owned() } else { format!("{current}.{}", left.trim()) };
                if full == key || (current == table && left.trim() == name) {
                    return Some(i + 1);
                }
            }
        }
        table_line
    }
}

/// Adds the nearest names to serde's "unknown field".
pub fn with_suggestion(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.split_first() {
        Some((found, known)) if message.starts_with("unknown field") || message.starts_with("unknown variant") => {
            let what = if message.starts_with("unknown field") { "key" } else { "value" };
            let more = if found.chars().count() > NAME_LIMIT { "..." } else { "" };
            let shown: String = found.chars().take(NAME_LIMIT).collect();
            format!("unknown {what} {shown:?}{more}{}", suggestion(found, known))
        }
        _ => message.to_owned(),
    }
}

/// `; did you mean "gamma"? One of: ...`, at most so many names.
pub fn suggestion(found: &str, known: &[&str]) -> String {
    let near = known
        .iter()
        .filter(|k| found.len() <= NAME_LIMIT && (strsim::damerau_levenshtein(found, k) <= 2 || k.starts_with(found)));
    let near: Vec<String> = near.take(3).map(|k| format!("{k:?}")).collect();
    let told = if known.len() > NAMES_LIMIT { NAMES_LIMIT } else { known.len() };
    let more = if told < known.len() { format!(", and {} more", known.len() - told) } else { String::new() };
    let all = format!("{}{more}", known[..told].join(", "));
    match near.len() {
        0 => format!("; one of: {all}"),
        _ => format!("; did you mean {}? One of: {all}", near.join(" or ")),
    }
}

/// Sets `a.b.c = value` in a table; the value is TOML, else a string. What is not a known key is refused later, by type.
pub fn set(table: &mut toml::Table, assignment: &str) -> Result<(), CaseError> {
    let fail =
        |detail: &str| CaseError { source: format!("--set {assignment}"), line: None, detail: detail.to_owned() };
    let (key, text) = assignment.split_once('=').ok_or_else(|| fail("expected KEY=VALUE"))?;
    let parsed: Result<toml::Table, _> = toml::from_str(&format!("value = {text}"));
    let value = match parsed.ok().and_then(|mut t| t.remove("value")) {
        Some(value) => value,
        None => toml::Value::String(text.to_owned()),
    };
    let mut names: Vec<&str> = key.trim().split('.').collect();
    if names.len() > DEPTH_LIMIT {
        return Err(fail(&format!("a key of {} names; at most {DEPTH_LIMIT}", names.len())));
    }
    let last = names.pop().filter(|n| !n.is_empty()).ok_or_else(|| fail("the key is empty"))?;
    let mut at = table;
    for name in names {
        let next = at.entry(name).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        at = next.as_table_mut().ok_or_else(|| fail(&format!("{name:?} is a value, not a table")))?;
    }
    at.insert(last.to_owned(), value);
    Ok(())
}

/// Reads a changed table as `T`; refusals name the assignment.
pub fn from_table<T: DeserializeOwned>(table: toml::Table, assignments: &[String]) -> Result<T, CaseError> {
    let source = format!("--set {}", assignments.join(" --set "));
    table.try_into().map_err(|e: toml::de::Error| CaseError {
        source,
        line: None,
        detail: with_suggestion(e.message()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would fail if a misspelt key lost its suggestion or its line.
    #[test]
    fn refusals_name_the_line_and_the_nearest_key() {
        let doc = Document { path: "x.toml".into(), text: "[engine]\nsize = \"tiny\"\n\n[folds]\ntrain = 1\n".into() };
        assert_eq!(doc.line_of("engine.size"), Some(2));
        assert_eq!(doc.line_of("folds.validation"), Some(4));
        let text = suggestion("gama", &["gamma", "lr"]);
        assert_eq!(text, "; did you mean \"gamma\"? One of: gamma, lr");
        assert_eq!(suggestion("zebra", &["gamma", "lr"]), "; one of: gamma, lr");
    }

    /// Would fail if a refusal grew with the name that is refused, or with the number of names there are.
    #[test]
    fn refusals_are_bounded() {
        let many: Vec<String> = (0..40).map(|i| format!("key{i}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let text = suggestion("zebra", &many);
        assert!(text.starts_with("; one of: key0, ") && text.ends_with("key23, and 16 more"), "{text}");
        assert!(suggestion("key39x", &many).starts_with("; did you mean"), "a near name beyond the list");
        let long = "z".repeat(1 << 20);
        let text = with_suggestion(&format!("unknown field `{long}`, expected `lr`"));
        assert_eq!(text, format!("unknown key \"{}\"...; one of: lr", "z".repeat(NAME_LIMIT)));
    }
}
