//! Bars from CSV text, plain or gzip.
//!
//! Verified: delimiters, header names, row lengths, numbers, times, limits and every rule of
//! [`super::market::Bars::check`], each refused with its line; no input panics (fuzz target `market`). Not supported,
//! and refused: decimal commas, thousands separators, quoted fields over several lines, files without a header.

use std::io::Read;

use super::market::{BARS_MAX, Bars, ReadOptions};
use super::market_error::{At, MarketError, Place, quoted};
use super::market_header::{Columns, TimeColumns, columns};
use super::market_lines::{Fields, Lines};
use super::market_time::Times;

const DELIMITERS: [u8; 3] = [b',', b';', b'\t'];

/// Reads bars from CSV text or gzip of it, told apart by the first two bytes. `name` stands for the file in messages.
///
/// Fields are parted by comma, semicolon or tab. The first line that is not blank is the header; names match in any
/// case. Limits: [`super::market_lines::BYTES_MAX`] after decompression, [`super::market_lines::LINES_MAX`],
/// [`super::market_lines::LINE_BYTES_MAX`] a line, [`BARS_MAX`] rows.
///
/// # Errors
/// Anything that cannot be read in exactly one way, with line and column.
pub fn read_csv(data: impl Read, name: &str, options: &ReadOptions) -> Result<Bars, MarketError> {
    let mut lines = Lines::new(data, name)?;
    let (mut fields, columns) = match lines.next()? {
        Some((line, text)) => header(text, At::file(name).place(Place::Line(line)))?,
        None => return Err(At::file(name).refuse("an empty file", "a header and bars", "")),
    };
    let mut rows = Rows::new(&columns, name, options);
    while let Some((line, text)) = lines.next()? {
        rows.push(line, text, &mut fields)?;
    }
    rows.finish()
}

/// The delimiter that parts the header into known names, and the columns.
fn header(text: &str, at: At<'_>) -> Result<(Fields, Columns), MarketError> {
    let mut most: Option<(usize, super::market_header::Refusal)> = None;
    for delimiter in DELIMITERS {
        let mut fields = Fields::new(delimiter);
        if fields.split(text).is_none() {
            return Err(at.refuse("a quote that is not closed", "each field on one line", ""));
        }
        match columns(&fields.all()) {
            Ok(columns) => return Ok((fields, columns)),
            Err(refusal) if most.as_ref().is_none_or(|(len, _)| fields.len() > *len) => {
                most = Some((fields.len(), refusal))
            }
            Err(_) => {}
        }
    }
    let unknown = || at.refuse("no delimiter", "fields parted by comma, semicolon or tab", "");
    Err(most.map_or_else(unknown, |(_, r)| at.refuse(r.found, r.expected, r.advice)))
}

/// Rows read so far.
struct Rows<'a> {
    columns: &'a Columns,
    at: At<'a>,
    times: Times<'a>,
    prices: [Vec<f64>; 4],
    volume: Vec<f64>,
    lines: Vec<u64>,
    joined: String,
}

impl<'a> Rows<'a> {
    fn new(columns: &'a Columns, name: &'a str, options: &'a ReadOptions) -> Self {
        Rows {
            columns,
            at: At::file(name),
            times: Times::new(options.time_format.as_deref()),
            prices: Default::default(),
            volume: Vec::new(),
            lines: Vec::new(),
            joined: String::new(),
        }
    }

    fn push(&mut self, line: u64, text: &str, fields: &mut Fields) -> Result<(), MarketError> {
        let (at, names) = (self.at.place(Place::Line(line)), &self.columns.names);
        if fields.split(text).is_none() {
            return Err(at.refuse("a quote that is not closed", "each field on one line", ""));
        }
        if fields.len() != names.len() {
            let (found, expected) = (format!("{} fields", fields.len()), format!("{}, as in the header", names.len()));
            return Err(at.refuse(found, expected, "a cut or damaged row: mend it or fetch the file again"));
        }
        if self.times.len() == BARS_MAX {
            return Err(at.refuse("more rows", format!("at most {BARS_MAX}"), "split the file"));
        }
        match self.columns.time {
            TimeColumns::One(i) => self.times.push(fields.get(i), at.column(&names[i]))?,
            TimeColumns::DateAndClock(date, clock) => {
                self.joined.clear();
                self.joined.extend([fields.get(date), " ", fields.get(clock)]);
                self.times.push(&self.joined, at.column(&names[date]))?;
            }
        }
        for (price, &i) in self.prices.iter_mut().zip(&self.columns.prices) {
            price.push(number(fields.get(i), at.column(&names[i]))?);
        }
        if let Some(i) = self.columns.volume {
            self.volume.push(number(fields.get(i), at.column(&names[i]))?);
        }
        self.lines.push(line);
        Ok(())
    }

    fn finish(self) -> Result<Bars, MarketError> {
        let Columns { time, prices, volume, names, notes } = self.columns;
        let (TimeColumns::One(first) | TimeColumns::DateAndClock(first, _)) = *time;
        if self.lines.is_empty() {
            return Err(self.at.refuse("a header without rows", "bars below it", ""));
        }
        let (times, form) = self.times.finish(self.at.column(&names[first]))?;
        let [open, high, low, close] = self.prices;
        let notes = notes.iter().cloned().chain([form]).collect();
        let bars = Bars {
            times,
            open,
            high,
            low,
            close,
            volume: volume.map(|_| self.volume),
            source: self.at.file.to_owned(),
            notes,
        };
        let name = |i: usize| names[i].as_str();
        let [o, h, l, c] = prices.map(name);
        let shown = [name(first), o, h, l, c, volume.map_or("volume", name)];
        bars.check_at(&shown, |row| Place::Line(self.lines.get(row).copied().unwrap_or(0)))?;
        Ok(bars)
    }
}

/// A plain or scientific decimal number; −0 is read as +0.
pub(super) fn number(text: &str, at: At<'_>) -> Result<f64, MarketError> {
    let plain = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E'));
    if let (true, Ok(number)) = (plain, text.parse::<f64>()) {
        return Ok(number + 0.0);
    }
    let (found, advice) = if text.is_empty() {
        ("an empty field".to_owned(), "mend or remove the row")
    } else if text.contains(',') {
        (quoted(text), "write a point for a decimal comma, and no thousands separators")
    } else if text.contains(['_', '\'', ' ', '\u{a0}', '\u{202f}']) {
        (quoted(text), "write no thousands separators")
    } else {
        (quoted(text), "mend or remove the row")
    };
    Err(at.refuse(found, "a number like 1.0525 or 1.05e3", advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would fail if a number were read that people write in another way, or if `NaN` and `inf` passed as numbers.
    #[test]
    fn numbers() {
        let read = |text| number(text, At::file("x")).map(f64::to_bits);
        assert_eq!(read("1.5e3"), Ok(1500f64.to_bits()));
        assert_eq!(read("-0.0"), Ok(0));
        assert_eq!(read("+.5"), Ok(0.5f64.to_bits()));
        for text in [
            "",
            "nan",
            "NaN",
            "inf",
            "-Infinity",
            "1,5",
            "1,234.5",
            "1 234.5",
            "1_000",
            "$1",
            "0x10",
            "1e",
            "e",
            ".",
            "١",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read("1,5").unwrap_err().to_string().contains("decimal comma"));
        assert!(read("1'000").unwrap_err().to_string().contains("thousands"));
    }
}
