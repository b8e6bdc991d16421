//! Bars from Parquet (cargo feature `parquet`).
//!
//! Columns are found by the names that CSV has. Times: timestamps of any unit, dates, 96-bit timestamps, or integers
//! and text in the forms of CSV; timestamps without a zone are UTC. Prices and volumes: floats, integers, text.
//! Compression: none, snappy, gzip, lz4, zstd. Verified: equality with the same bars as CSV, nulls, types, cut files.
//! Not supported, and refused: nested columns, decimals, encryption, other compressions. The decoder is foreign code:
//! a panic of it is a refusal here, but its use of memory on a hostile file is not bounded.

use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use super::market::{BARS_MAX, Bars, ReadOptions};
use super::market_csv::number;
use super::market_error::{At, MarketError, Place};
use super::market_header::{TimeColumns, columns};
use super::market_time::Times;

const DAY: i64 = 86_400_000_000_000;
/// Rows decoded at once.
const BATCH: usize = 8192;

/// Reads bars from Parquet. `name` stands for the file in messages, whose rows count from 1.
///
/// # Errors
/// What CSV refuses, nulls, nested columns, other types, and files that the decoder cannot read.
pub fn read_parquet(data: impl ChunkReader + 'static, name: &str, options: &ReadOptions) -> Result<Bars, MarketError> {
    catch_unwind(AssertUnwindSafe(|| read(data, name, options)))
        .unwrap_or_else(|_| Err(damaged(At::file(name), "the decoder panicked")))
}

fn damaged(at: At<'_>, reason: impl std::fmt::Display) -> MarketError {
    at.refuse(
        format!("Parquet data that cannot be read ({reason})"),
        "a whole Parquet file",
        "fetch or write the file again",
    )
}

fn read(data: impl ChunkReader + 'static, name: &str, options: &ReadOptions) -> Result<Bars, MarketError> {
    let at = At::file(name);
    let file = SerializedFileReader::new(data).map_err(|e| damaged(at, e))?;
    let schema = file.metadata().file_metadata().schema_descr_ptr();
    let names: Vec<String> = schema.columns().iter().map(|c| c.path().string()).collect();
    let found = columns(&names).map_err(|r| at.refuse(r.found, r.expected, r.advice))?;
    let column = |i: usize| Cells::read(&file, schema.column(i).as_ref(), i, at.column(&names[i]));
    let (TimeColumns::One(first) | TimeColumns::DateAndClock(first, _)) = found.time;
    let (times, form) = match found.time {
        TimeColumns::One(i) => column(i)?.times(options, at.column(&names[i]))?,
        TimeColumns::DateAndClock(date, clock) => {
            joined(column(date)?, column(clock)?, at.column(&names[date]), options)?
        }
    };
    let numbers = |i: usize| column(i)?.numbers(at.column(&names[i]));
    let [open, high, low, close] = found.prices;
    let bars = Bars {
        times,
        open: numbers(open)?,
        high: numbers(high)?,
        low: numbers(low)?,
        close: numbers(close)?,
        volume: found.volume.map(numbers).transpose()?,
        source: name.to_owned(),
        notes: found.notes.iter().cloned().chain([form]).collect(),
    };
    let name = |i: usize| names[i].as_str();
    let shown = [name(first), name(open), name(high), name(low), name(close), found.volume.map_or("volume", name)];
    bars.check_at(&shown, row)?;
    Ok(bars)
}

fn row(i: usize) -> Place {
    Place::Row(i as u64 + 1)
}

/// Date and time of day, both text.
fn joined(dates: Cells, clocks: Cells, at: At<'_>, options: &ReadOptions) -> Result<(Vec<i64>, String), MarketError> {
    let (Cells::Texts(dates), Cells::Texts(clocks)) = (dates, clocks) else {
        return Err(at.refuse("date and time columns that are not both text", "text, or one column of timestamps", ""));
    };
    let texts = dates.iter().zip(&clocks).map(|(date, clock)| format!("{} {}", date.trim(), clock.trim()));
    Cells::Texts(texts.collect()).times(options, at)
}

/// A column's values.
enum Cells {
    /// nanoseconds since 1970
    Moments(Vec<i64>),
    Integers(Vec<i64>),
    Reals(Vec<f64>),
    Texts(Vec<String>),
}

impl Cells {
    fn read(file: &dyn FileReader, about: &ColumnDescriptor, i: usize, at: At<'_>) -> Result<Cells, MarketError> {
        if about.max_rep_level() > 0 || about.max_def_level() > 1 {
            return Err(at.refuse("a nested column", "a plain column", ""));
        }
        let kind = kind(about).ok_or_else(|| {
            let found = format!("values of type {} {:?}", about.physical_type(), about.converted_type());
            at.refuse(found, "timestamps, dates, floats, integers or text", "convert the column")
        })?;
        let mut cells = match kind {
            Kind::Moment(_) => Cells::Moments(Vec::new()),
            Kind::Integer | Kind::Unsigned => Cells::Integers(Vec::new()),
            Kind::Real => Cells::Reals(Vec::new()),
            Kind::Text => Cells::Texts(Vec::new()),
        };
        for group in 0..file.num_row_groups() {
            let reader = file.get_row_group(group).and_then(|g| g.get_column_reader(i)).map_err(|e| damaged(at, e))?;
            cells.extend(reader, kind, at)?;
        }
        Ok(cells)
    }

    /// Adds the values of one row group.
    fn extend(&mut self, reader: ColumnReader, kind: Kind, at: At<'_>) -> Result<(), MarketError> {
        let unsigned = matches!(kind, Kind::Unsigned);
        let unit = if let Kind::Moment(unit) = kind { unit } else { 1 };
        match (self, reader) {
            (Cells::Moments(out), ColumnReader::Int32ColumnReader(r)) => {
                drain(r, out, at, |x| i64::from(*x).checked_mul(unit))
            }
            (Cells::Moments(out), ColumnReader::Int64ColumnReader(r)) => drain(r, out, at, |x| x.checked_mul(unit)),
            (Cells::Moments(out), ColumnReader::Int96ColumnReader(r)) => drain(r, out, at, |x| {
                let [low, high, day] = *x.data() else { return None };
                let within = i64::try_from(u64::from(high) << 32 | u64::from(low)).ok()?;
                (i64::from(day) - 2_440_588).checked_mul(DAY)?.checked_add(within) // Julian day of 1970-01-01
            }),
            (Cells::Integers(out), ColumnReader::Int32ColumnReader(r)) => {
                drain(r, out, at, |x| Some(if unsigned { i64::from(x.cast_unsigned()) } else { i64::from(*x) }))
            }
            (Cells::Integers(out), ColumnReader::Int64ColumnReader(r)) => {
                drain(r, out, at, |x| (!unsigned || *x >= 0).then_some(*x))
            }
            (Cells::Reals(out), ColumnReader::FloatColumnReader(r)) => drain(r, out, at, |x| Some(f64::from(*x))),
            (Cells::Reals(out), ColumnReader::DoubleColumnReader(r)) => drain(r, out, at, |x| Some(*x)),
            (Cells::Texts(out), ColumnReader::ByteArrayColumnReader(r)) => {
                drain(r, out, at, |x: &ByteArray| x.as_utf8().ok().map(str::to_owned))
            }
            _ => Err(damaged(at, "a row group of another type")),
        }
    }

    fn times(self, options: &ReadOptions, at: At<'_>) -> Result<(Vec<i64>, String), MarketError> {
        let mut times = Times::new(options.time_format.as_deref());
        match self {
            Cells::Moments(moments) => return Ok((moments, "times read as timestamps, in UTC".to_owned())),
            Cells::Integers(counts) => {
                for (i, count) in counts.iter().enumerate() {
                    times.push(&count.to_string(), at.place(row(i)))?;
                }
            }
            Cells::Texts(texts) => {
                for (i, text) in texts.iter().enumerate() {
                    times.push(text.trim(), at.place(row(i)))?;
                }
            }
            Cells::Reals(_) => {
                return Err(at.refuse("times as floats", "timestamps, dates, integers or text", "convert the column"));
            }
        }
        times.finish(at)
    }

    fn numbers(self, at: At<'_>) -> Result<Vec<f64>, MarketError> {
        match self {
            Cells::Reals(reals) => Ok(reals.into_iter().map(|x| x + 0.0).collect()),
            Cells::Integers(integers) => Ok(integers.into_iter().map(|x| x as f64).collect()),
            Cells::Texts(texts) => {
                texts.iter().enumerate().map(|(i, text)| number(text.trim(), at.place(row(i)))).collect()
            }
            Cells::Moments(_) => Err(at.refuse("times", "numbers", "rename the columns")),
        }
    }
}

/// What a column's type means.
#[derive(Clone, Copy)]
enum Kind {
    /// a time, in units of so many nanoseconds
    Moment(i64),
    Integer,
    Unsigned,
    Real,
    Text,
}

fn kind(about: &ColumnDescriptor) -> Option<Kind> {
    use ConvertedType as C;
    if let Some(LogicalType::Timestamp(time)) = about.logical_type_ref() {
        return Some(Kind::Moment(match time.unit {
            TimeUnit::MILLIS => 1_000_000,
            TimeUnit::MICROS => 1_000,
            TimeUnit::NANOS => 1,
        }));
    }
    match (about.physical_type(), about.converted_type()) {
        (Type::INT32, C::DATE) => Some(Kind::Moment(DAY)),
        (Type::INT64, C::TIMESTAMP_MILLIS) => Some(Kind::Moment(1_000_000)),
        (Type::INT64, C::TIMESTAMP_MICROS) => Some(Kind::Moment(1_000)),
        (Type::INT96, _) => Some(Kind::Moment(1)),
        (Type::INT32 | Type::INT64, C::NONE | C::INT_8 | C::INT_16 | C::INT_32 | C::INT_64) => Some(Kind::Integer),
        (Type::INT32 | Type::INT64, C::UINT_8 | C::UINT_16 | C::UINT_32 | C::UINT_64) => Some(Kind::Unsigned),
        (Type::FLOAT | Type::DOUBLE, _) => Some(Kind::Real),
        (Type::BYTE_ARRAY, C::UTF8 | C::NONE) => Some(Kind::Text),
        _ => None,
    }
}

/// Adds all values of a column reader, none of which may be null or rejected by `convert`.
fn drain<T: DataType, X>(
    mut reader: ColumnReaderImpl<T>,
    out: &mut Vec<X>,
    at: At<'_>,
    convert: impl Fn(&T::T) -> Option<X>,
) -> Result<(), MarketError> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    loop {
        levels.clear();
        values.clear();
        let failed = |e: ParquetError| damaged(at, e);
        let (records, found, _) = reader.read_records(BATCH, Some(&mut levels), None, &mut values).map_err(failed)?;
        if records == 0 {
            return Ok(());
        }
        if out.len() + records > BARS_MAX {
            return Err(at.refuse("more rows", format!("at most {BARS_MAX}"), "split the file"));
        }
        if found < records {
            let i = levels.iter().position(|level| *level == 0).unwrap_or(0);
            return Err(at.place(row(out.len() + i)).refuse("null", "a value in each row", "mend or remove the row"));
        }
        for value in &values {
            let beyond = || {
                at.place(row(out.len())).refuse(format!("{value:?}"), "a value within range", "mend or remove the row")
            };
            let converted = convert(value).ok_or_else(beyond)?;
            out.push(converted);
        }
    }
}
