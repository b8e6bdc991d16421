//! One cell's time: which form it has, and which nanosecond it names.
//!
//! Forms: `yyyy-mm-dd`, `yyyy/mm/dd`, `yyyy.mm.dd`; `dd.mm.yyyy`; `a/b/yyyy` and `a-b-yyyy`, whose order one cell may
//! not decide; `yyyymmdd`, also with `HHMM[SS]` right behind. Then, but for the last, after a space or `T`,
//! `H:MM[:SS[.fraction]]` (`HHMM[SS]` too after `yyyymmdd`), then an offset: `Z`, `UTC`, `GMT`, `+01:00`, `+0100`,
//! `+01`, `GMT+0100`. Without an offset a time is UTC. Or a count since 1970-01-01T00:00Z, fractions allowed, its unit
//! told by its magnitude: seconds from 10^8, milliseconds from 10^11, microseconds from 10^14, nanoseconds from 10^17;
//! below 10^8 it is refused (a year, a row number or a spreadsheet's day would pass for seconds of 1970). Twelve digits
//! that are a date and time of 1900 to 2100 are one, not milliseconds of 1976.
//!
//! Verified: every form and its misreadings. Not attempted: two-digit years, month names, 12-hour clocks, names of time
//! zones, `24:00`, leap seconds: they are refused, and most can be read with a `time_format`.

use jiff::civil;
use jiff::tz::Offset;

/// Nanoseconds of a second.
pub(super) const SECOND: i64 = 1_000_000_000;

/// How a date is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DateForm {
    /// year, month, day, parted by the character
    YearFirst(char),
    /// dd.mm.yyyy
    DayFirst,
    /// month and day in either order, then the year
    Either(char),
    /// yyyymmdd
    Compact,
}

/// How a time is written. All of a file's times have one form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// a count of units, each of so many nanoseconds
    Epoch(i64),
    /// a civil date, with a clock time, with an offset
    Civil(DateForm, bool, bool),
}

/// What one cell says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub form: Form,
    /// nanoseconds since 1970-01-01T00:00Z; of [`DateForm::Either`], read day first, if such a date exists
    pub time: Option<i64>,
    /// of [`DateForm::Either`]: read month first, if such a date exists; else the same as `time`
    pub month_first: Option<i64>,
    /// the digits are also a valid `yyyymmddHH`
    pub hour_digits: bool,
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (date, clock, offset) = match self {
            Form::Epoch(unit) => return write!(f, "{} since 1970", unit_name(*unit)),
            Form::Civil(date, clock, offset) => (date, clock, offset),
        };
        match date {
            DateForm::YearFirst(part) => write!(f, "yyyy{part}mm{part}dd")?,
            DateForm::DayFirst => f.write_str("dd.mm.yyyy")?,
            DateForm::Either(part) => write!(f, "a{part}b{part}yyyy")?,
            DateForm::Compact => f.write_str("yyyymmdd")?,
        }
        f.write_str(if *clock { " with a time of day" } else { "" })?;
        f.write_str(if *offset { " and an offset" } else { "" })
    }
}

fn unit_name(unit: i64) -> &'static str {
    match unit {
        1 => "nanoseconds",
        1_000 => "microseconds",
        1_000_000 => "milliseconds",
        _ => "seconds",
    }
}

/// Reads a cell; the error says what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Cell, &'static str> {
    let number = text.strip_prefix('-').unwrap_or(text);
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if digits(text) && matches!(text.len(), 8 | 12 | 14) {
        let (date, clock) = text.split_at(8);
        if let Ok(cell) = compact(date, clock) {
            return Ok(cell);
        }
    }
    match number.split_once('.') {
        None if digits(number) => count(text),
        Some((whole, fraction)) if digits(whole) && digits(fraction) => count(text),
        _ => civil_time(text),
    }
}

/// yyyymmdd of 1900 to 2100, and HHMM, HHMMSS or nothing.
fn compact(date: &str, clock: &str) -> Result<Cell, &'static str> {
    let ymd = (number(&date[..4])?, number(&date[4..6])?, number(&date[6..8])?);
    if !(1900..=2100).contains(&ymd.0) {
        return Err("no year from 1900 to 2100");
    }
    let within = if clock.is_empty() { 0 } else { compact_clock(clock)? };
    let time = moment(ymd, within)?;
    let form = Form::Civil(DateForm::Compact, !clock.is_empty(), false);
    Ok(Cell { form, time: Some(time), month_first: Some(time), hour_digits: false })
}

fn count(text: &str) -> Result<Cell, &'static str> {
    let whole = text.split_once('.').map_or(text, |(whole, _)| whole);
    let size = whole.parse::<i64>().map_err(|_| "a number too large for a time")?.unsigned_abs();
    let unit = match size {
        0..100_000_000 => return Err("a number too small for seconds since 1970 to be told from something else"),
        100_000_000..100_000_000_000 => SECOND,
        100_000_000_000..100_000_000_000_000 => 1_000_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000,
        _ => 1,
    };
    let time = Some(epoch(text, unit)?);
    let hour_digits = text.len() == 10
        && compact(&text[..8], "").is_ok()
        && number(&text[8..]).is_ok_and(|hour: i16| (0..24).contains(&hour));
    Ok(Cell { form: Form::Epoch(unit), time, month_first: time, hour_digits })
}

/// A count of units of so many nanoseconds, as text, fractions of a unit allowed down to the nanosecond.
pub(super) fn epoch(text: &str, unit: i64) -> Result<i64, &'static str> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let negative = whole.starts_with('-');
    let number: i64 = whole.parse().map_err(|_| "no whole number")?;
    let (mut part, mut place) = (0, unit);
    for byte in fraction.bytes() {
        let digit = i64::from(byte.wrapping_sub(b'0'));
        if !(0..10).contains(&digit) || (place % 10 != 0 && digit != 0) {
            return Err("a fraction finer than a nanosecond");
        }
        place /= 10;
        part += digit * place;
    }
    let signed = if negative { -part } else { part };
    number.checked_mul(unit).and_then(|t| t.checked_add(signed)).ok_or("a time outside the years 1678 to 2261")
}

fn civil_time(text: &str) -> Result<Cell, &'static str> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || "-/.".contains(c))).unwrap_or(text.len());
    let (date, rest) = text.split_at(end);
    let clock = match rest.strip_prefix(['T', ' ']) {
        Some(clock) => Some(clock.trim_start()),
        None if rest.is_empty() => None,
        None => return Err("no time"),
    };
    if date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit()) {
        return match clock.unwrap_or("") {
            "" => Err("no time of day after the date"),
            clock if clock.contains(':') => joined(date, clock),
            clock => compact(date, clock),
        };
    }
    let part = date.chars().find(|c| !c.is_ascii_digit()).ok_or("no time")?;
    let parts: Vec<&str> = date.split(part).collect();
    let &[first, second, third] = &parts[..] else { return Err("no date") };
    let (year, a, b, form) = match (first.len(), second.len(), third.len(), part) {
        (4, 1 | 2, 1 | 2, _) => (first, second, third, DateForm::YearFirst(part)),
        (1 | 2, 1 | 2, 4, '.') => (third, second, first, DateForm::DayFirst),
        (1 | 2, 1 | 2, 4, _) => (third, second, first, DateForm::Either(part)),
        _ => return Err("no date with a year of four digits"),
    };
    let (within, offset) = clock.map_or(Ok((0, false)), clock_time)?;
    let (year, a, b) = (number(year)?, number(a)?, number(b)?);
    let time = moment((year, a, b), within);
    let month_first = if matches!(form, DateForm::Either(_)) { moment((year, b, a), within) } else { time };
    if time.is_err() && month_first.is_err() {
        return Err("a date that does not exist, or outside the years 1678 to 2261");
    }
    let form = Form::Civil(form, clock.is_some(), offset);
    Ok(Cell { form, time: time.ok(), month_first: month_first.ok(), hour_digits: false })
}

/// yyyymmdd and a clock time with colons.
fn joined(date: &str, clock: &str) -> Result<Cell, &'static str> {
    let (within, offset) = clock_time(clock)?;
    let day = compact(date, "")?.time.ok_or("no date")?;
    let time = Some(day.checked_add(within).ok_or("a time outside the years 1678 to 2261")?);
    Ok(Cell { form: Form::Civil(DateForm::Compact, true, offset), time, month_first: time, hour_digits: false })
}

/// Nanoseconds from midnight UTC of `H:MM[:SS[.fraction]][offset]`, and whether there was an offset.
fn clock_time(text: &str) -> Result<(i64, bool), &'static str> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || ":.".contains(c))).unwrap_or(text.len());
    let (clock, offset) = text.split_at(end);
    let (clock, fraction) = clock.split_once('.').map_or((clock, None), |(clock, fraction)| (clock, Some(fraction)));
    let parts: Vec<&str> = clock.split(':').collect();
    let (hour, minute, second) = match parts[..] {
        [hour, minute] if fraction.is_none() => (hour, minute, "00"),
        [hour, minute, second] => (hour, minute, second),
        _ => return Err("no time of day like 17:05 or 17:05:09.250"),
    };
    if !matches!(hour.len(), 1 | 2) || minute.len() != 2 || second.len() != 2 {
        return Err("no time of day like 17:05 or 17:05:09.250");
    }
    let mut within = seconds(number(hour)?, number(minute)?, number(second)?)?;
    if let Some(fraction) = fraction {
        if !matches!(fraction.len(), 1..=9) {
            return Err("a fraction of a second without digits or with more than nine");
        }
        within += epoch(&format!("0.{fraction}"), SECOND)?;
    }
    let shift = offset_of(offset.trim())?;
    Ok((within - shift.unwrap_or(0), shift.is_some()))
}

fn compact_clock(text: &str) -> Result<i64, &'static str> {
    let (hour, minute, second) = match text.len() {
        4 if text.is_ascii() => (&text[..2], &text[2..], "00"),
        6 if text.is_ascii() => (&text[..2], &text[2..4], &text[4..]),
        _ => return Err("no time of day like 170509"),
    };
    seconds(number(hour)?, number(minute)?, number(second)?)
}

fn seconds(hour: i16, minute: i16, second: i16) -> Result<i64, &'static str> {
    match hour < 24 && minute < 60 && second < 60 {
        true => Ok((i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second)) * SECOND),
        false => Err("a time of day beyond 23:59:59"),
    }
}

/// Nanoseconds east of UTC; None without an offset.
fn offset_of(text: &str) -> Result<Option<i64>, &'static str> {
    if text.is_empty() {
        return Ok(None);
    }
    let rest = text.strip_prefix("UTC").or_else(|| text.strip_prefix("GMT")).unwrap_or(text);
    if rest.is_empty() || rest == "Z" {
        return Ok(Some(0));
    }
    let (sign, digits) = match (rest.strip_prefix('+'), rest.strip_prefix('-')) {
        (Some(digits), _) => (1, digits),
        (_, Some(digits)) => (-1, digits),
        _ => return Err("no offset like Z or +01:00 after the time of day"),
    };
    let (hour, minute) = match (digits.split_once(':'), digits.len()) {
        (Some((hour, minute)), 5) => (hour, minute),
        (None, 4) if digits.is_ascii() => digits.split_at(2),
        (None, 2) => (digits, "00"),
        _ => return Err("no offset like Z or +01:00 after the time of day"),
    };
    Ok(Some(sign * seconds(number(hour)?, number(minute)?, 0)?))
}

/// A number of up to four digits and nothing else.
fn number(text: &str) -> Result<i16, &'static str> {
    let digits = matches!(text.len(), 1..=4) && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().map_err(|_| "no number") } else { Err("no number where one belongs") }
}

/// Nanoseconds since 1970 of a (year, month, day) and nanoseconds from its midnight, in UTC.
fn moment((year, month, day): (i16, i16, i16), within: i64) -> Result<i64, &'static str> {
    let outside = "a date that does not exist, or outside the years 1678 to 2261";
    let small = |n: i16| i8::try_from(n).map_err(|_| outside);
    let date = civil::Date::new(year, small(month)?, small(day)?).map_err(|_| outside)?;
    let midnight = nanoseconds(date.to_datetime(civil::Time::midnight()))?;
    midnight.checked_add(within).ok_or(outside)
}

/// Nanoseconds since 1970 of a date and time in UTC.
pub(super) fn nanoseconds(time: civil::DateTime) -> Result<i64, &'static str> {
    let time = Offset::UTC.to_timestamp(time).map_err(|_| "a time outside the years 1678 to 2261")?;
    i64::try_from(time.as_nanosecond()).map_err(|_| "a time outside the years 1678 to 2261")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2020-01-03T00:00Z in seconds.
    const DAY: i64 = 1_578_009_600;

    fn time(text: &str) -> i64 {
        let cell = parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(cell.time, cell.month_first, "{text}");
        cell.time.unwrap()
    }

    /// Would fail if a form were misread.
    #[test]
    fn forms() {
        for text in ["2020-01-03", "2020/01/03", "2020.01.03", "2020/1/3", "03.01.2020", "3.1.2020", "20200103"] {
            assert_eq!(time(text), DAY * SECOND, "{text}");
        }
        let quarter = (DAY + 5 * 3600 + 15 * 60) * SECOND;
        for text in [
            "2020-01-03T05:15",
            "2020-01-03 5:15:00",
            "2020-01-03 05:15:00.000Z",
            "03.01.2020 05:15:00.000",
            "2020-01-03T06:15:00+01:00",
            "2020-01-03 00:15:00-0500",
            "2020-01-03 05:15 UTC",
            "03.01.2020 06:15:00.000 GMT+0100",
            "20200103 051500",
            "20200103 05:15",
            "202001030515",
            "20200103051500",
            "2020-01-02T23:45:00-05:30",
        ] {
            assert_eq!(time(text), quarter, "{text}");
        }
        assert_eq!(time("2020-01-03T00:00:00.25"), DAY * SECOND + 250_000_000);
        assert_eq!(time("2020-01-03T00:00:00.000000001Z"), DAY * SECOND + 1);
        assert_eq!(time("1969-12-31 23:59:59.9"), -100_000_000);
    }

    /// Would fail if a count were taken in the wrong unit, or lost digits.
    #[test]
    fn counts() {
        for text in ["1578009600", "1578009600000", "1578009600000000", "1578009600000000000", "1578009600.0"] {
            assert_eq!(time(text), DAY * SECOND, "{text}");
        }
        assert_eq!(time("1578009600.123456789"), DAY * SECOND + 123_456_789);
        assert_eq!(time("1578009600123.5"), DAY * SECOND + 123_500_000);
        assert_eq!(time("-1578009600.5"), -DAY * SECOND - 500_000_000);
        assert_eq!(parse("1578009600").unwrap().form, Form::Epoch(SECOND));
        assert!(parse("2020010305").unwrap().hour_digits && !parse("1578009600").unwrap().hour_digits);
        for text in ["0", "2020", "2020.01", "43831", "99999999999999999999", "1578009600000000000.5"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    /// Would fail if an order of month and day were assumed.
    #[test]
    fn either_order() {
        let cell = parse("03/01/2020").unwrap();
        assert_eq!((cell.time, cell.month_first), (Some(DAY * SECOND), Some((DAY + 58 * 86_400) * SECOND)));
        assert_eq!(cell.form, Form::Civil(DateForm::Either('/'), false, false));
        let cell = parse("1/13/2020 16:00").unwrap();
        assert_eq!((cell.time, cell.month_first), (None, Some((DAY + 10 * 86_400 + 16 * 3600) * SECOND)));
    }

    /// Would fail if nonsense were read.
    #[test]
    fn refused() {
        for text in [
            "",
            "-",
            ".",
            "abc",
            "2020-02-30",
            "2020-13-01",
            "30/02/2020",
            "03/04/20",
            "3 Jan 2020",
            "2020-01",
            "2020-01-03X",
            "2020-01-03T",
            "2020-01-03 24:00",
            "2020-01-03 05",
            "2020-01-03 05:15:60",
            "2020-01-03 05:15 PM",
            "2020-01-03 05:15:00.",
            "2020-01-03 05:15:00.1234567890",
            "2020-01-03 05:15+1",
            "2020-01-03 05:15 CET",
            "1500-01-01",
            "2020-01-03Z",
            "20200103 0515é",
            "20200103T",
            "2020-01-03 05:15+é1",
            "00/00/2020",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
