//! The times of a whole file: one form for all rows, months and days never guessed.
//!
//! Verified: a row that changes form, `03/04/2020` with and without a row that decides, contradicting rows, explicit
//! formats. Not verified here: that times ascend (see [`super::market::Bars::check`]).

use jiff::fmt::strtime;

use super::market_error::{At, MarketError, Place, quoted};
use super::market_time_forms::{Cell, DateForm, Form, SECOND, epoch, nanoseconds, parse};

const EXPECTED: &str = "a time like 2020-01-03, 2020-01-03T17:05:00Z, 03.01.2020 17:05, 20200103 or 1578009600";

/// A row and its text, for messages.
type Seen = (Place, String);

/// Times of a file, row by row.
pub(super) struct Times<'a> {
    format: Option<&'a str>,
    form: Option<(Form, Place)>,
    times: Vec<i64>,
    /// the other reading, of [`DateForm::Either`] only
    month_first: Vec<i64>,
    proves_day_first: Option<Seen>,
    proves_month_first: Option<Seen>,
    undecided: Option<Seen>,
    first: Option<Seen>,
    only_hour_digits: bool,
}

impl<'a> Times<'a> {
    /// No rows yet; `format` as in [`super::market::ReadOptions`].
    pub fn new(format: Option<&'a str>) -> Self {
        Times {
            format,
            form: None,
            times: Vec::new(),
            month_first: Vec::new(),
            proves_day_first: None,
            proves_month_first: None,
            undecided: None,
            first: None,
            only_hour_digits: true,
        }
    }

    /// Rows so far.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Reads the next row's time.
    pub fn push(&mut self, text: &str, at: At<'_>) -> Result<(), MarketError> {
        if let Some(format) = self.format {
            let refuse = |reason: String| {
                at.refuse(
                    format!("{} ({reason})", quoted(text)),
                    format!("a time like {format:?}"),
                    "mend the case's time_format or the file",
                )
            };
            self.times.push(explicit(format, text).map_err(refuse)?);
            return Ok(());
        }
        let advice = "or name the form in the case: time_format = \"%Y-%m-%d %H:%M:%S\"";
        let cell = parse(text).map_err(|reason| at.refuse(format!("{} ({reason})", quoted(text)), EXPECTED, advice))?;
        let (form, since) = *self.form.get_or_insert((cell.form, at.place));
        if form != cell.form {
            let found = format!("{} ({})", quoted(text), cell.form);
            return Err(at.refuse(found, format!("{form}, as on {since}"), "write all times of the file in one form"));
        }
        self.keep(cell, || (at.place, text.to_owned()));
        Ok(())
    }

    fn keep(&mut self, cell: Cell, seen: impl Fn() -> Seen) {
        self.first.get_or_insert_with(&seen);
        self.only_hour_digits &= cell.hour_digits;
        match (cell.time, cell.month_first) {
            (Some(day), Some(month)) if day != month => _ = self.undecided.get_or_insert_with(seen),
            (Some(_), None) => _ = self.proves_day_first.get_or_insert_with(seen),
            (None, Some(_)) => _ = self.proves_month_first.get_or_insert_with(seen),
            _ => {}
        }
        // A cell has one reading at least; a missing one is never used, since the file is then decided or refused.
        let either = cell.time.or(cell.month_first).unwrap_or(0);
        self.times.push(cell.time.unwrap_or(either));
        if matches!(cell.form, Form::Civil(DateForm::Either(_), ..)) {
            self.month_first.push(cell.month_first.unwrap_or(either));
        }
    }

    /// All times in nanoseconds since 1970-01-01T00:00Z, and how they were read. `at` is the file and the column.
    pub fn finish(self, at: At<'_>) -> Result<(Vec<i64>, String), MarketError> {
        if let Some(format) = self.format {
            return Ok((self.times, format!("times read as {format:?}, in UTC unless they have an offset")));
        }
        let Some((form, _)) = self.form else { return Ok((self.times, "no times".to_owned())) };
        if let (Form::Epoch(_), true, Some((place, text))) = (form, self.only_hour_digits, &self.first) {
            let found = format!("{}, in every row either seconds since 1970 or yyyymmddHH", quoted(text));
            let advice = "name it in the case: time_format = \"epoch-s\" or time_format = \"%Y%m%d%H\"";
            return Err(at.place(*place).refuse(found, "a form with one reading", advice));
        }
        match form {
            Form::Civil(DateForm::Either(part), ..) => self.decide(part, at),
            Form::Civil(_, _, true) => Ok((self.times, format!("times read as {form}"))),
            _ => Ok((self.times, format!("times read as {form}, in UTC"))),
        }
    }

    /// Month first or day first, if some row proves one and none the other.
    fn decide(self, part: char, at: At<'_>) -> Result<(Vec<i64>, String), MarketError> {
        let clock =
            self.undecided.as_ref().or(self.first.as_ref()).map_or(String::new(), |(_, text)| clock_format(text));
        let (month, day) = (format!("%m{part}%d{part}%Y{clock}"), format!("%d{part}%m{part}%Y{clock}"));
        let advice = format!("name the form in the case: time_format = {month:?} or time_format = {day:?}");
        match (self.proves_month_first, self.proves_day_first, self.undecided) {
            (Some((a, first)), Some((b, second)), _) => {
                let (late, text, other, early) =
                    if line(a) > line(b) { (a, first, second, b) } else { (b, second, first, a) };
                let found = format!("{}, which contradicts {} on {early}", quoted(&text), quoted(&other));
                Err(at.place(late).refuse(
                    found,
                    "months and days in one order",
                    "write all times of the file in one form",
                ))
            }
            (Some((place, _)), None, _) => {
                Ok((self.month_first, format!("times read as {month:?}, proved by {place}")))
            }
            (None, Some((place, _)), _) => Ok((self.times, format!("times read as {day:?}, proved by {place}"))),
            (None, None, Some((place, text))) => {
                let found = format!("{}, month first or day first, and no row decides", quoted(&text));
                Err(at.place(place).refuse(found, "a file with one reading", advice))
            }
            // Every day equals its month: both readings are the same.
            (None, None, None) => Ok((self.times, format!("times read as {month:?}"))),
        }
    }
}

fn line(place: Place) -> u64 {
    match place {
        Place::Whole => 0,
        Place::Line(n) | Place::Row(n) => n,
    }
}

/// The format of what follows the date.
fn clock_format(text: &str) -> String {
    let Some((at, separator)) = text.char_indices().find(|(_, c)| matches!(c, ' ' | 'T')) else { return String::new() };
    let rest = text[at + 1..].trim_start();
    let (clock, offset) =
        rest.split_at(rest.find(|c: char| !(c.is_ascii_digit() || ":.".contains(c))).unwrap_or(rest.len()));
    let seconds = if clock.matches(':').count() > 1 { ":%S" } else { "" };
    let fraction = if clock.contains('.') { "%.f" } else { "" };
    let offset = match offset.find(['+', '-']) {
        Some(sign) if offset[sign..].contains(':') => format!("{}%:z", &offset[..sign]),
        Some(sign) => format!("{}%z", &offset[..sign]),
        None => offset.to_owned(),
    };
    format!("{separator}%H:%M{seconds}{fraction}{offset}")
}

/// A cell read by the case's format.
fn explicit(format: &str, text: &str) -> Result<i64, String> {
    let unit = match format {
        "epoch-s" => Some(SECOND),
        "epoch-ms" => Some(1_000_000),
        "epoch-us" => Some(1_000),
        "epoch-ns" => Some(1),
        _ => None,
    };
    if let Some(unit) = unit {
        return epoch(text, unit).map_err(str::to_owned);
    }
    let parsed = strtime::parse(format, text).map_err(|e| e.to_string())?;
    let absolute = parsed.offset().is_some() || parsed.timestamp().is_some() || parsed.iana_time_zone().is_some();
    if absolute {
        let time = parsed.to_timestamp().map_err(|e| e.to_string())?;
        return i64::try_from(time.as_nanosecond()).map_err(|_| "outside the years 1678 to 2261".to_owned());
    }
    let time = parsed.to_datetime().map_err(|e| e.to_string())?;
    nanoseconds(time).map_err(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: Option<&str>, cells: &[&str]) -> Result<(Vec<i64>, String), String> {
        let at = At::file("x").column("Date");
        let mut times = Times::new(format);
        for (i, cell) in cells.iter().enumerate() {
            times.push(cell, at.place(Place::Line(i as u64 + 2))).map_err(|e| e.to_string())?;
        }
        times.finish(at).map_err(|e| e.to_string())
    }

    fn days(format: Option<&str>, cells: &[&str]) -> Vec<i64> {
        let times = read(format, cells).unwrap().0;
        times.into_iter().map(|t| t.div_euclid(86_400 * SECOND) - 18_262).collect() // from 2020-01-01
    }

    /// Would fail if a slash date were read in an order that no row proves.
    #[test]
    fn months_and_days_are_proved_or_refused() {
        assert_eq!(days(None, &["01/02/2020", "01/31/2020"]), [1, 30]);
        assert_eq!(days(None, &["01/02/2020", "13/02/2020"]), [31, 43]);
        assert_eq!(days(None, &["01/01/2020", "02/02/2020"]), [0, 32]);
        let error = read(None, &["01/01/2020", "03/04/2020", "03/05/2020"]).unwrap_err();
        assert_eq!(
            error,
            "x:3: column Date: found \"03/04/2020\", month first or day first, and no row decides; expected a file with \
            one reading; name the form in the case: time_format = \"%m/%d/%Y\" or time_format = \"%d/%m/%Y\""
        );
        let error = read(None, &["01/13/2020", "02/13/2020", "13/02/2020"]).unwrap_err();
        assert!(
            error.starts_with("x:4: column Date: found \"13/02/2020\", which contradicts \"01/13/2020\" on line 2"),
            "{error}"
        );
        assert_eq!(days(Some("%m/%d/%Y"), &["03/04/2020"]), [63]);
        assert_eq!(days(Some("%d/%m/%Y"), &["03/04/2020"]), [93]);
    }

    /// Would fail if the two lines that a refusal proposes did not read the file.
    #[test]
    fn the_proposed_formats_work() {
        for (text, clock) in [
            ("03-04-2020 5:00:00", " %H:%M:%S"),
            ("03-04-2020 05:00", " %H:%M"),
            ("03-04-2020", ""),
            ("03-04-2020T05:00:00.250", "T%H:%M:%S%.f"),
            ("03-04-2020 05:00+01:00", " %H:%M%:z"),
            ("03-04-2020 05:00:00 GMT+0100", " %H:%M:%S GMT%z"),
            ("03-04-2020 05:00Z", " %H:%MZ"),
        ] {
            let error = read(None, &[text]).unwrap_err();
            let (day, month) = (format!("%d-%m-%Y{clock}"), format!("%m-%d-%Y{clock}"));
            assert!(error.contains(&format!("time_format = {month:?} or time_format = {day:?}")), "{error}");
            assert!(read(Some(&day), &[text]).is_ok() && read(Some(&month), &[text]).is_ok(), "{text}");
        }
    }

    /// Would fail if a file could change its form half-way.
    #[test]
    fn one_form_a_file() {
        let error = read(None, &["2020-01-01", "2020-01-02 00:00"]).unwrap_err();
        let expected = "x:3: column Date: found \"2020-01-02 00:00\" (yyyy-mm-dd with a time of day); expected \
            yyyy-mm-dd, as on line 2";
        assert!(error.starts_with(expected), "{error}");
        assert!(read(None, &["1578009600", "1578009600000"]).unwrap_err().starts_with("x:3:"));
        assert!(read(None, &["01/13/2020", "01-14-2020"]).unwrap_err().starts_with("x:3:"));
        assert!(read(None, &["2020010100", "2020010101"]).unwrap_err().contains("time_format = \"epoch-s\""));
        assert_eq!(read(None, &["2020010323", "2020010324"]).unwrap().0[1], 2_020_010_324 * SECOND);
    }

    /// Would fail if an explicit format were ignored or lost an offset.
    #[test]
    fn explicit_formats() {
        let at = |format, cell| read(Some(format), &[cell]).map(|(times, _)| times[0]);
        assert_eq!(at("%d-%b-%Y %I:%M %p", "03-Jan-2020 05:15 PM"), Ok((1_578_009_600 + 62_100) * SECOND));
        assert_eq!(
            at("%Y-%m-%d %H:%M:%S%.f%z", "2020-01-03 01:00:00.5+0100"),
            Ok(1_578_009_600 * SECOND + 500_000_000)
        );
        assert_eq!(at("%s", "1578009600"), Ok(1_578_009_600 * SECOND));
        assert_eq!(at("epoch-ms", "12"), Ok(12_000_000));
        assert_eq!(at("%Y%m%d%H", "2020010305"), Ok((1_578_009_600 + 18_000) * SECOND));
        for (format, cell) in
            [("%Y-%m-%d", "2020-01-03x"), ("%d", "03"), ("%", "x"), ("%Y-%m-%d %Q", "2020-01-03 Mars/Base")]
        {
            assert!(at(format, cell).unwrap_err().starts_with("x:2: column Date: found"), "{format}");
        }
    }
}
