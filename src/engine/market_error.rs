//! Why a market file, its options or its bars were refused: file, line, column, what was found, expected, and what to do.
//!
//! Verified: each refusal's place and reason, in `tests/market.rs` and beside the code that refuses. Not verified: the
//! wording of messages that come from the operating system or from a decoder.

use std::fmt;

/// Where in a file something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// the file as a whole, or options that have no file
    Whole,
    /// line of a text file, from 1, the header included
    Line(u64),
    /// row of a Parquet file or of bars in memory, from 1
    Row(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Whole => f.write_str("the file"),
            Place::Line(line) => write!(f, "line {line}"),
            Place::Row(row) => write!(f, "row {row}"),
        }
    }
}

/// A refused market file. As text: `data/x.csv:12: column High: found "abc"; expected a number; what to do`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarketError {
    /// the file as the caller named it, or what stands for it
    pub file: Box<str>,
    /// where in it
    pub place: Place,
    /// the column's name as the file has it, if one column is at fault
    pub column: Option<Box<str>>,
    /// what was found
    pub found: Box<str>,
    /// what was expected
    pub expected: Box<str>,
    /// what to do; may be empty
    pub advice: Box<str>,
}

impl fmt::Display for MarketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match self.place {
            Place::Whole => f.write_str(": ")?,
            Place::Line(line) => write!(f, ":{line}: ")?,
            Place::Row(row) => write!(f, ": row {row}: ")?,
        }
        if let Some(column) = &self.column {
            write!(f, "column {column}: ")?;
        }
        write!(f, "found {}; expected {}", self.found, self.expected)?;
        if self.advice.is_empty() { Ok(()) } else { write!(f, "; {}", self.advice) }
    }
}

impl std::error::Error for MarketError {}

/// A place that can refuse what it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    /// the file's name
    pub file: &'a str,
    /// where in it
    pub place: Place,
    /// the column's name in the file
    pub column: Option<&'a str>,
}

impl<'a> At<'a> {
    /// The whole file.
    pub fn file(file: &'a str) -> Self {
        At { file, place: Place::Whole, column: None }
    }

    /// The same file and column, elsewhere.
    pub fn place(self, place: Place) -> Self {
        At { place, ..self }
    }

    /// The same place, one of its columns.
    pub fn column(self, column: &'a str) -> Self {
        At { column: Some(column), ..self }
    }

    /// The refusal.
    pub fn refuse(
        self,
        found: impl Into<String>,
        expected: impl Into<String>,
        advice: impl Into<String>,
    ) -> MarketError {
        MarketError {
            file: self.file.into(),
            place: self.place,
            column: self.column.map(Into::into),
            found: found.into().into(),
            expected: expected.into().into(),
            advice: advice.into().into(),
        }
    }
}

/// A cell's text in quotes, control characters escaped, shortened to 60 characters.
pub(super) fn quoted(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would fail if a message lost its place or its column, or left a dangling separator.
    #[test]
    fn messages() {
        let at = At::file("a.csv").place(Place::Line(12)).column("High");
        let error = at.refuse(quoted("abc"), "a number", "mend the file");
        assert_eq!(error.to_string(), "a.csv:12: column High: found \"abc\"; expected a number; mend the file");
        let error = At::file("a.csv").refuse("nothing", "bars", "");
        assert_eq!(error.to_string(), "a.csv: found nothing; expected bars");
        assert_eq!(quoted(&"é\u{1b}".repeat(40)).chars().filter(|c| *c == 'é').count(), 30);
    }
}
