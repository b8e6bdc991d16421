//! Market files as people have them: read rightly, or refused with file, line, column and reason.

use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use samebits::digest::sha::sha256;
use samebits::engine::market::{Bars, ReadOptions, load};
use samebits::engine::market_csv::read_csv;
use samebits::engine::market_error::Place;
use samebits::engine::market_features::{Costs, MARKET_COLUMNS, Market, WARM_UP};
use samebits::engine::market_synthetic::{Pattern, SyntheticOptions, synthetic};

const SECOND: i64 = 1_000_000_000;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/data").join(name)
}

fn read(text: &str) -> Result<Bars, String> {
    read_csv(text.as_bytes(), "m.csv", &ReadOptions::default()).map_err(|e| e.to_string())
}

/// Bars of a text, which must be read.
fn bars(text: &str) -> Bars {
    read(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Asserts that a text is refused with a message that starts with `start`.
fn refused(text: &str, start: &str) {
    let error = read(text).expect_err(text);
    assert!(error.starts_with(start), "found    {error}\nexpected {start}…");
}

/// A file of three daily rows, of which `row` is the second (line 3).
fn with_row(row: &str) -> String {
    format!("time,open,high,low,close,volume\n2020-01-01,2,3,1,2,10\n{row}\n2020-01-03,2,3,1,2,10\n")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn features_digest(bars: &Bars) -> String {
    let market = Market::new(bars, &Costs::default()).unwrap();
    sha256(bytemuck::cast_slice(&market.features)).to_string()
}

/// Would fail if a real file were misread. A changed digest is a change of the contract (rule 9): it raises `chain/1`.
#[test]
fn eurusd() {
    let bars = load(&data("eurusd-1h-2017.csv"), &ReadOptions::default()).unwrap();
    assert_eq!((bars.len(), bars.times[0], bars.times[6224]), (6225, 1_483_308_000 * SECOND, 1_514_581_200 * SECOND));
    let first = (bars.open[0], bars.high[0], bars.low[0], bars.close[0]);
    assert_eq!(first, (1.05236, 1.05253, 1.05221, 1.05227));
    let last = (bars.open[6224], bars.high[6224], bars.low[6224], bars.close[6224]);
    assert_eq!(last, (1.19984, 1.2013, 1.19931, 1.20075));
    let volume = bars.volume.as_ref().unwrap();
    assert_eq!((volume[0], volume[6224]), (143_539_993.3, 4_885_529_785.0));
    assert_eq!(bars.notes, ["times read as dd.mm.yyyy with a time of day, in UTC"]);
    assert_eq!(features_digest(&bars), "4c5c70337715a09a5930d52939122e248cca86b59b7530e5cb0c002e5ec3d388");
}

/// As [`eurusd`].
#[test]
fn googl() {
    let bars = load(&data("googl-1d.csv"), &ReadOptions::default()).unwrap();
    assert_eq!((bars.len(), bars.times[0], bars.times[2334]), (2335, 1_242_950_400 * SECOND, 1_535_500_800 * SECOND));
    let first = (bars.open[0], bars.high[0], bars.low[0], bars.close[0]);
    assert_eq!(first, (198.528534, 199.524521, 196.196198, 196.946945));
    assert_eq!((bars.close[2334], bars.volume.as_ref().unwrap()[2334]), (1_264.650024, 1_846_300.0));
    assert!(bars.notes[0].starts_with("column \"Adj Close\" ignored"));
    assert_eq!(features_digest(&bars), "510f1e8473db78866bb79f317f911b61b11f56b8f0e1c20a17b0512a218a0bcf");
}

/// Would fail if synthetic bars changed, and with them every golden of a case that trades on them.
#[test]
fn synthetic_bars_are_pinned() {
    let digest = |pattern, shuffle| {
        let options = SyntheticOptions { seed: 7, bars: 512, pattern, shuffle, ..SyntheticOptions::default() };
        let bars = synthetic(&options).unwrap();
        let columns = [&bars.open, &bars.high, &bars.low, &bars.close, bars.volume.as_ref().unwrap()];
        let bytes: Vec<u8> = columns.into_iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
        sha256(&bytes).to_string()
    };
    assert_eq!(digest(Pattern::None, false), "63c7fe10a99db97920116f4abb53368608fb3ee865661dd685ca578313148e9c");
    assert_eq!(
        digest(Pattern::Cycle { period: 16, strength: 0.8 }, false),
        "f60ce571033f3bc1978d53c3903ae9408fceba01be618f33653870d95cc23d99"
    );
    assert_eq!(
        digest(Pattern::Momentum { strength: 0.5 }, true),
        "bad832e81364dc563017e147c7c70a8ea54c374f7984221b117b0d3a87e4c4d2"
    );
}

/// Would fail if one way of writing the same three bars were read as other bars.
#[test]
fn the_same_bars_in_many_hands() {
    let expected = bars(&with_row("2020-01-02,2,3,1,2,10"));
    let same = |text: &str| {
        let found = bars(text);
        assert_eq!(
            (found.times, found.open, found.high),
            (expected.times.clone(), expected.open.clone(), expected.high.clone()),
            "{text}"
        );
        assert_eq!((found.low, found.close), (expected.low.clone(), expected.close.clone()), "{text}");
        assert_eq!(found.volume.is_some(), text.to_lowercase().contains("vol"), "{text}");
    };
    let write = |header: &str, form: [&str; 3], rest: &str| {
        same(&format!("{header}\n{}\n", form.map(|time| format!("{time}{rest}")).join("\n")));
    };
    let iso = ["2020-01-01", "2020-01-02", "2020-01-03"];
    write("\u{feff}TIME,Open,HIGH,low,Close,Vol", iso, ",2,3,1,2,10");
    write("Date;Open;High;Low;Close;Volume", iso, ";2.0;3e0;1;2;0");
    write("date\topen\thigh\tlow\tclose", iso, "\t2\t3\t1\t2");
    write(" date , open , high , low , close ", iso, ", 2, 3, 1, 2 ");
    write(
        "\"date\",\"open\",\"high\",\"low\",\"close\"",
        ["\"2020-01-01\"", "\"2020-01-02\"", "\"2020-01-03\""],
        ",2,\"3\",1,2",
    );
    write(",date,open,high,low,close", ["0,2020-01-01", "1,2020-01-02", "2,2020-01-03"], ",2,3,1,2");
    write("timestamp,symbol,close,low,high,open", ["1577836800,A", "1577923200,A", "1578009600,A"], ",2,1,3,2");
    write("unix,o,h,l,c", ["1577836800000", "1577923200000", "1578009600000"], ",2,3,1,2");
    write("ts,o,h,l,c", ["1577836800000000", "1577923200000000", "1578009600000000"], ",2,3,1,2");
    write("ts,o,h,l,c", ["1577836800000000000", "1577923200000000000", "1578009600000000000"], ",2,3,1,2");
    write(
        "Gmt time,o,h,l,c",
        ["01.01.2020 00:00:00.000", "02.01.2020 00:00:00.000", "03.01.2020 00:00:00.000"],
        ",2,3,1,2",
    );
    write(
        "time,o,h,l,c",
        ["2020-01-01T01:00:00+01:00", "2020-01-02T01:00:00+01:00", "2020-01-02T23:00:00-01:00"],
        ",2,3,1,2",
    );
    write(
        "<DATE>,<TIME>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<VOL>",
        ["2020.01.01,00:00", "2020.01.02,00:00", "2020.01.03,00:00"],
        ",2,3,1,2,10",
    );
    write("date,time,o,h,l,c", ["20200101,000000", "20200102,000000", "20200103,000000"], ",2,3,1,2");
    same("date,o,h,l,c\r\n2020-01-01,2,3,1,2\r\n\r\n2020-01-02,2,3,1,2\r\n2020-01-03,2,3,1,2");
}

/// Would fail if dates with slashes were guessed, or a proof within the file were not used.
#[test]
fn slash_dates() {
    let file = |days: [&str; 2]| format!("date,o,h,l,c\n{},2,3,1,2\n{},2,3,1,2\n", days[0], days[1]);
    assert_eq!(bars(&file(["01/02/2020", "01/13/2020"])).times, [1_577_923_200 * SECOND, 1_578_873_600 * SECOND]);
    assert_eq!(bars(&file(["01/02/2020", "13/02/2020"])).times, [1_580_515_200 * SECOND, 1_581_552_000 * SECOND]);
    assert_eq!(
        bars(&file(["12/31/2019 9:30", "1/2/2020 16:00"])).times,
        [1_577_784_600 * SECOND, 1_577_980_800 * SECOND]
    );
    refused(
        &file(["03/04/2020", "03/05/2020"]),
        "m.csv:2: column date: found \"03/04/2020\", month first or day first, and no row \
        decides; expected a file with one reading; name the form in the case: time_format = \"%m/%d/%Y\" or \
        time_format = \"%d/%m/%Y\"",
    );
    refused(
        &file(["13/01/2020", "01/14/2020"]),
        "m.csv:3: column date: found \"01/14/2020\", which contradicts \"13/01/2020\" on line 2",
    );
    for (format, first) in [("%m/%d/%Y", 1_583_280_000), ("%d/%m/%Y", 1_585_872_000)] {
        let options = ReadOptions { time_format: Some(format.to_owned()) };
        let bars = read_csv(file(["03/04/2020", "04/04/2020"]).as_bytes(), "m.csv", &options).unwrap();
        assert_eq!(bars.times[0], first * SECOND);
    }
    let options = ReadOptions { time_format: Some("%Y-%m-%d".to_owned()) };
    let error = read_csv(file(["03/04/2020", "04/04/2020"]).as_bytes(), "m.csv", &options).unwrap_err();
    assert_eq!((error.place, error.column.as_deref()), (Place::Line(2), Some("date")));
}

/// Would fail if a damaged row were read, or the message named another place.
#[test]
fn damaged_rows() {
    let row = |row: &str, start: &str| refused(&with_row(row), &format!("m.csv:3: {start}"));
    row("2020-01-02,2,3,1", "found 4 fields; expected 6, as in the header");
    row("2020-01-02,2,3,1,2,10,7", "found 7 fields; expected 6");
    row("2020-01-02,2,3,1,,10", "column close: found an empty field; expected a number");
    row("2020-01-02,2,x,1,2,10", "column high: found \"x\"; expected a number");
    row("2020-01-02,2,nan,1,2,10", "column high: found \"nan\"; expected a number");
    row("2020-01-02,2,1e999,1,2,10", "column high: found inf; expected a finite price above 0");
    row("2020-01-02,2,3,0,2,10", "column low: found 0; expected a finite price above 0");
    row("2020-01-02,2,3,-1,2,10", "column low: found -1; expected a finite price above 0");
    row("2020-01-02,2,3,1e-999,2,10", "column low: found 0; expected a finite price above 0");
    row("2020-01-02,2,1,3,2,10", "column high: found 1, below the low 3");
    row("2020-01-02,4,3,1,2,10", "column open: found 4, outside the bar's low 1 and high 3");
    row("2020-01-02,2,3,1,0.5,10", "column close: found 0.5, outside the bar's low 1 and high 3");
    row("2020-01-02,2,3,1,2,-1", "column volume: found -1; expected a finite volume");
    row("2020-01-02,2,3,1,2,inf", "column volume: found \"inf\"; expected a number");
    row("2020-01-01,2,3,1,2,10", "column time: found the same time as line 2 (2020-01-01T00:00:00Z)");
    row("2019-12-31,2,3,1,2,10", "column time: found a time before that of line 2 (2019-12-31T00:00:00Z)");
    row(
        "2020-01-02 00:00,2,3,1,2,10",
        "column time: found \"2020-01-02 00:00\" (yyyy-mm-dd with a time of day); expected yyyy-mm-dd",
    );
    row("2020-02-30,2,3,1,2,10", "column time: found \"2020-02-30\" (a date that does not exist");
    row(",2,3,1,2,10", "column time: found \"\" (no time); expected a time like");
    row(
        "2020-01-02,\"1,234.5\",3,1,2,10",
        "column open: found \"1,234.5\"; expected a number like 1.0525 or 1.05e3; write a point",
    );
    row("2020-01-02,\"2,3,1,2,10", "found a quote that is not closed");
    row("2020-01-02,2,3,1,2,10\r2020", "found a carriage return inside the line");
    refused("date;o;h;l;c\n2020-01-01;1,5;3;1;2\n", "m.csv:2: column o: found \"1,5\"; expected a number");
    assert_eq!(bars(&with_row("2020-01-02,2,3,1,2,0")).volume.unwrap()[1], 0.0);
}

/// Would fail if a file that holds no bars were read, or a header were guessed.
#[test]
fn files_without_bars() {
    refused("", "m.csv: found an empty file");
    refused("\n \n", "m.csv: found an empty file");
    refused("time,open,high,low,close\n", "m.csv: found a header without rows");
    refused("2020-01-01,2,3,1,2,10\n", "m.csv:1: found no header but \"2020-01-01\"");
    refused("\ntime,open,high,low\n", "m.csv:2: found no column close among \"time\"");
    refused("time|open|high|low|close\n", "m.csv:1: found no column open among \"time|open|high|low|close\"");
    refused("time,open,high,low,close,CLOSE\n", "m.csv:1: found two columns for one: \"close\" and \"CLOSE\"");
    refused("<html>\n", "m.csv:1: found no column open");
    refused("PAR1\u{1}\u{2}\n", "m.csv:1: found no column open");
    refused("time,open,high,low,close\n0,2,3,1,2\n", "m.csv:2: column time: found \"0\" (a number too small");
    let utf16: Vec<u8> = "time,open".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let error = read_csv(&[&[0xff, 0xfe], &utf16[..]].concat()[..], "m.csv", &ReadOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("m.csv:1: found UTF-16; expected UTF-8; convert it"));
}

/// Would fail if gzip were read another way than plain text, or if damaged gzip were read at all.
#[test]
fn gzip_files() {
    let plain = std::fs::read(data("googl-1d.csv")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let expected = load(&data("googl-1d.csv"), &ReadOptions::default()).unwrap();
    for name in ["a.csv.gz", "a.csv", "A.CSV.GZ"] {
        let path = folder.path().join(name);
        std::fs::write(&path, gzip(&plain)).unwrap();
        let found = load(&path, &ReadOptions::default()).unwrap();
        assert_eq!(found, Bars { source: path.display().to_string(), ..expected.clone() });
    }
    let message = |bytes: &[u8]| read_csv(bytes, "m.csv.gz", &ReadOptions::default()).unwrap_err().to_string();
    let packed = gzip(&plain);
    let cut = message(&packed[..packed.len() / 2]);
    assert!(cut.starts_with("m.csv.gz:") && cut.contains("found gzip data that ends too early"), "{cut}");
    assert!(message(&packed[..packed.len() - 4]).contains("found gzip data that ends too early"));
    let mut bad = packed.clone();
    bad[packed.len() - 6] ^= 1; // the checksum
    assert!(message(&bad).contains("found corrupt gzip data"));
    bad = packed.clone();
    bad.push(7);
    assert!(message(&bad).contains("gzip data"), "{}", message(&bad));
    let two = [gzip(&plain[..1000]), gzip(&plain[1000..])].concat();
    assert_eq!(read_csv(&two[..], "m", &ReadOptions::default()).unwrap().times, expected.times);
}

/// Would fail if a small file could fill the memory.
#[test]
fn decompression_bombs() {
    let message = |bytes: &[u8]| read_csv(bytes, "m.csv.gz", &ReadOptions::default()).unwrap_err().to_string();
    let line = message(&gzip(&vec![b'a'; 1 << 24]));
    assert!(line.starts_with("m.csv.gz:1: found a longer line; expected at most 65536 bytes"), "{line}");
    // Lines beyond the limit, from a few kilobytes.
    let member = gzip(&vec![b'\n'; 1 << 20]);
    let error = message(&member.repeat(33));
    assert!(error.starts_with("m.csv.gz:33554433: found more lines; expected at most 33554432"), "{error}");
}

#[cfg(feature = "parquet")]
mod parquet_files {
    use std::sync::Arc;

    use parquet::basic::Compression;
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, FloatType, Int32Type, Int64Type, Int96, Int96Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use samebits::engine::market_parquet::read_parquet;

    use super::*;

    /// One column's values, in the physical type of the schema.
    #[derive(Clone)]
    enum Values {
        I32(Vec<i32>),
        I64(Vec<i64>),
        I96(Vec<Int96>),
        F32(Vec<f32>),
        F64(Vec<f64>),
        Text(Vec<String>),
        /// the second of three rows is null
        NullSecond([f64; 2]),
    }

    fn write(schema: &str, compression: Compression, groups: &[Vec<Values>]) -> Vec<u8> {
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
        let mut bytes = Vec::new();
        let mut file = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
        for columns in groups {
            let mut group = file.next_row_group().unwrap();
            for values in columns {
                let mut column = group.next_column().unwrap().unwrap();
                let texts = |texts: &[String]| texts.iter().map(|t| ByteArray::from(t.as_str())).collect::<Vec<_>>();
                match values {
                    Values::I32(x) => column.typed::<Int32Type>().write_batch(x, None, None),
                    Values::I64(x) => column.typed::<Int64Type>().write_batch(x, None, None),
                    Values::I96(x) => column.typed::<Int96Type>().write_batch(x, None, None),
                    Values::F32(x) => column.typed::<FloatType>().write_batch(x, None, None),
                    Values::F64(x) => column.typed::<DoubleType>().write_batch(x, None, None),
                    Values::Text(x) => column.typed::<ByteArrayType>().write_batch(&texts(x), None, None),
                    Values::NullSecond(x) => column.typed::<DoubleType>().write_batch(x, Some(&[1, 0, 1]), None),
                }
                .unwrap();
                column.close().unwrap();
            }
            group.close().unwrap();
        }
        file.close().unwrap();
        bytes
    }

    fn read(bytes: Vec<u8>) -> Result<Bars, String> {
        read_parquet(bytes::Bytes::from(bytes), "m.parquet", &ReadOptions::default()).map_err(|e| e.to_string())
    }

    const PRICES: &str = "required double Open; required double High; required double Low; required double Close;";

    fn prices() -> Vec<Values> {
        [2.0, 3.0, 1.0, 2.0].map(|x| Values::F64(vec![x; 3])).to_vec()
    }

    /// A file of three bars with the given column of times in front.
    fn three(kind: &str, times: Values) -> Vec<u8> {
        let columns = [vec![times], prices()].concat();
        write(&format!("message m {{ required {kind}; {PRICES} }}"), Compression::UNCOMPRESSED, &[columns])
    }

    /// Would fail if the same bars came back otherwise from Parquet than from CSV, under any compression.
    #[test]
    fn equal_to_csv() {
        let expected = load(&data("eurusd-1h-2017.csv"), &ReadOptions::default()).unwrap();
        let schema =
            format!("message m {{ required int64 time (TIMESTAMP(MILLIS, true)); {PRICES} required double Volume; }}");
        let part = |from: usize, to: usize| {
            let reals = |xs: &[f64]| Values::F64(xs[from..to].to_vec());
            let times = expected.times[from..to].iter().map(|t| t / 1_000_000).collect();
            let volume = expected.volume.as_ref().unwrap();
            let [open, high, low, close] =
                [&expected.open, &expected.high, &expected.low, &expected.close].map(|x| reals(x));
            vec![Values::I64(times), open, high, low, close, reals(volume)]
        };
        let folder = tempfile::tempdir().unwrap();
        for compression in [
            Compression::UNCOMPRESSED,
            Compression::SNAPPY,
            Compression::LZ4_RAW,
            Compression::ZSTD(Default::default()),
            Compression::GZIP(Default::default()),
        ] {
            let path = folder.path().join("m.parquet");
            std::fs::write(&path, write(&schema, compression, &[part(0, 4000), part(4000, 6225)])).unwrap();
            let found = load(&path, &ReadOptions::default()).unwrap();
            assert_eq!(found.notes, ["times read as timestamps, in UTC"]);
            assert_eq!(
                found,
                Bars { source: path.display().to_string(), notes: found.notes.clone(), ..expected.clone() }
            );
        }
    }

    /// Would fail if a type of time were taken for another.
    #[test]
    fn kinds_of_times() {
        let days = [18_262i32, 18_263, 18_264];
        let expected: Vec<i64> = days.iter().map(|d| i64::from(*d) * 86_400 * SECOND).collect();
        let scaled = |unit: i64| Values::I64(expected.iter().map(|t| t / unit).collect());
        let texts = |texts: [&str; 3]| Values::Text(texts.map(str::to_owned).to_vec());
        let int96 = |d: &i32| {
            let mut x = Int96::new();
            x.set_data(0, 0, (*d + 2_440_588) as u32);
            x
        };
        let files = [
            three("int64 time (TIMESTAMP(NANOS, false))", scaled(1)),
            three("int64 time (TIMESTAMP(MICROS, true))", scaled(1_000)),
            three("int64 time (TIMESTAMP_MILLIS)", scaled(1_000_000)),
            three("int64 time", scaled(SECOND)),
            three("int64 time", scaled(1_000_000)),
            three("int64 __index_level_0__ (TIMESTAMP(MICROS, false))", scaled(1_000)),
            three("int32 Date (DATE)", Values::I32(days.to_vec())),
            three("int96 time", Values::I96(days.iter().map(int96).collect())),
            three("binary time (UTF8)", texts(["2020-01-01", "2020-01-02", "2020-01-03"])),
            three("binary time (STRING)", texts(["01.01.2020 00:00", "02.01.2020 00:00", "03.01.2020 00:00"])),
        ];
        for (i, file) in files.into_iter().enumerate() {
            assert_eq!(read(file).unwrap_or_else(|e| panic!("{i}: {e}")).times, expected, "{i}");
        }
        let schema = format!("message m {{ required binary date (UTF8); required binary time (UTF8); {PRICES} }}");
        let columns =
            [vec![texts(["20200101", "20200102", "20200103"]), texts(["000000", "000000", "000000"])], prices()]
                .concat();
        assert_eq!(read(write(&schema, Compression::UNCOMPRESSED, &[columns])).unwrap().times, expected);
    }

    /// Would fail if prices of other types were misread.
    #[test]
    fn kinds_of_numbers() {
        let schema = "message m { required int64 time (TIMESTAMP(NANOS, true)); required float open; required int32 high; \
            required binary low (UTF8); required double close; required int32 volume (UINT_32); }";
        let columns = vec![
            Values::I64(vec![0, 1]),
            Values::F32(vec![1.1; 2]),
            Values::I32(vec![3; 2]),
            Values::Text(vec!["1e0".to_owned(); 2]),
            Values::F64(vec![2.5; 2]),
            Values::I32(vec![-1; 2]),
        ];
        let bars = read(write(schema, Compression::UNCOMPRESSED, &[columns])).unwrap();
        assert_eq!((bars.open[1], bars.high[1], bars.low[1], bars.close[1]), (f64::from(1.1f32), 3.0, 1.0, 2.5));
        assert_eq!(bars.volume.unwrap()[1], 4_294_967_295.0);
    }

    /// Would fail if a file that holds no legal bars were read, or the message named another place.
    #[test]
    fn refused_files() {
        let text = |bytes: Vec<u8>| read(bytes).unwrap_err();
        let starts = |bytes: Vec<u8>, start: &str| assert!(text(bytes.clone()).starts_with(start), "{}", text(bytes));
        let time = "int64 time (TIMESTAMP(NANOS, true))";
        starts(
            three(time, Values::I64(vec![0, 2, 1])),
            "m.parquet: row 3: column time: found a time before that of row 2",
        );
        starts(
            three("int64 time", Values::I64(vec![0, 1, 2])),
            "m.parquet: row 1: column time: found \"0\" (a number too small",
        );
        starts(
            three("int64 time (TIMESTAMP(MILLIS, true))", Values::I64(vec![0, 1, i64::MAX])),
            "m.parquet: row 3: column time: found 9223372036854775807; expected a value within range",
        );
        starts(
            three("int64 when (TIMESTAMP(NANOS, true))", Values::I64(vec![0, 1, 2])),
            "m.parquet: found no column time among \"when\", \"Open\"",
        );
        starts(three("double time", Values::F64(vec![0.0; 3])), "m.parquet: column time: found times as floats");
        starts(Vec::new(), "m.parquet: found Parquet data that cannot be read");
        starts(
            three(
                "binary time (UTF8)",
                Values::Text(["03/04/2020", "03/05/2020", "03/06/2020"].map(str::to_owned).to_vec()),
            ),
            "m.parquet: row 1: column time: found \"03/04/2020\", month first or day first",
        );
        let schema = format!(
            "message m {{ required {time}; {} }}",
            PRICES.replace("required double Low", "optional double Low")
        );
        let mut columns = [vec![Values::I64(vec![0, 1, 2])], prices()].concat();
        columns[3] = Values::NullSecond([1.0, 1.0]);
        starts(
            write(&schema, Compression::UNCOMPRESSED, &[columns.clone()]),
            "m.parquet: row 2: column Low: found null",
        );
        columns[3] = Values::F64(vec![1.0, f64::NAN, 1.0]);
        let schema = format!("message m {{ required {time}; {PRICES} }}");
        starts(
            write(&schema, Compression::UNCOMPRESSED, &[columns.clone()]),
            "m.parquet: row 2: column Low: found NaN",
        );
        let schema = schema.replace("required double Low", "required int64 Low (DECIMAL(18, 2))");
        columns[3] = Values::I64(vec![1; 3]);
        starts(
            write(&schema, Compression::UNCOMPRESSED, &[columns.clone()]),
            "m.parquet: column Low: found values of type INT64 DECIMAL",
        );
        starts(b"time,open".to_vec(), "m.parquet: found Parquet data that cannot be read");
    }

    /// Would fail if damage anywhere in a file made the reader panic or hang; what is still read must be legal bars.
    #[test]
    fn damaged_files() {
        let whole = three("int64 time (TIMESTAMP(NANOS, true))", Values::I64(vec![0, 1, 2]));
        for cut in 0..whole.len() {
            assert!(read(whole[..cut].to_vec()).is_err(), "{cut}");
        }
        for at in 0..whole.len() {
            for change in [1, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= change;
                if let Ok(bars) = read(bytes) {
                    bars.check().unwrap();
                }
            }
        }
    }
}

fn synthetic_bars(seed: u64, bars: usize) -> Bars {
    synthetic(&SyntheticOptions { seed, bars, ..SyntheticOptions::default() }).unwrap()
}

/// A legal bar from four numbers in (0, 1] and a magnitude of prices.
fn set_bar(bars: &mut Bars, t: usize, shape: [f64; 4], magnitude: i32, volume: f64) {
    let scale: f64 = format!("1e{magnitude}").parse().unwrap();
    let mut prices = shape.map(|x| x * scale);
    prices.sort_by(f64::total_cmp);
    let [low, a, b, high] = prices;
    (bars.low[t], bars.high[t]) = (low, high);
    (bars.open[t], bars.close[t]) = if shape[0] > shape[1] { (a, b) } else { (b, a) };
    bars.volume.as_mut().unwrap()[t] = volume;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Would fail if a row depended on a later bar: the table up to bar t must not change with what follows.
    #[test]
    fn rows_are_trailing_only(
        seed in 0u64..1000,
        t in 0usize..299,
        shape in prop::array::uniform4(0.01f64..1.0),
        magnitude in -3i32..5,
    ) {
        let before = synthetic_bars(seed, 300);
        let mut after = before.clone();
        for later in t + 1..300 {
            set_bar(&mut after, later, shape, magnitude, 1.0 + later as f64);
            after.times[later] += 5 * SECOND;
        }
        let (a, b) = (Market::new(&before, &Costs::default()).unwrap(), Market::new(&after, &Costs::default()).unwrap());
        let bits = |xs: &[f32]| xs.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&a.features[..(t + 1) * MARKET_COLUMNS]), bits(&b.features[..(t + 1) * MARKET_COLUMNS]));
        prop_assert_eq!((bits(&a.ret[..=t]), bits(&a.vol[..=t])), (bits(&b.ret[..=t]), bits(&b.vol[..=t])));
        if t + 1 >= WARM_UP {
            prop_assert_ne!(bits(a.row(t + 1)), bits(b.row(t + 1)));
        }
    }

    /// Would fail if legal bars, however extreme, gave a value that is not finite or not of order one.
    #[test]
    fn everything_is_finite(
        seed in 0u64..1000,
        changes in prop::collection::vec((
            0usize..300,
            prop::array::uniform4(1e-9f64..1.0),
            -305i32..308,
            prop_oneof![Just(0.0), Just(f64::MAX), 0.0..1e12],
        ), 0..300),
    ) {
        let mut bars = synthetic_bars(seed, 300);
        for (t, shape, magnitude, volume) in changes {
            set_bar(&mut bars, t, shape, magnitude, volume);
        }
        let market = Market::new(&bars, &Costs::default()).unwrap();
        prop_assert!(market.features.iter().all(|x| x.abs() <= 8.0));
        prop_assert!(market.ret.iter().chain(&market.vol).all(|x| x.abs() <= 1_048_576.0));
    }

    /// Would fail if some input made the reader panic.
    #[test]
    fn no_text_panics(text in "[-0-9a-zA-Z,;.:/\"\n\t éλ+]{0,200}", header in any::<bool>()) {
        let head = if header { "date,o,h,l,c\n" } else { "" };
        let _ = read(&format!("{head}{text}"));
    }

    /// Would fail if a written number or time came back as another.
    #[test]
    fn what_is_written_is_read(
        seed in 0u64..1000,
        unit in prop::sample::select(vec![SECOND, 1_000_000, 1_000, 1]),
        part in prop::sample::select(vec![',', ';', '\t']),
    ) {
        let expected = synthetic_bars(seed, 20);
        let mut text = ["time", "open", "high", "low", "close", "volume\n"].join(&part.to_string());
        for t in 0..20 {
            let volume = expected.volume.as_ref().unwrap();
            let row = [expected.open[t], expected.high[t], expected.low[t], expected.close[t], volume[t]];
            text += &(expected.times[t] / unit).to_string();
            row.iter().for_each(|x| text += &format!("{part}{x:?}"));
            text.push('\n');
        }
        let found = bars(&text);
        prop_assert_eq!((found.times, found.open, found.high), (expected.times, expected.open, expected.high));
        prop_assert_eq!((found.low, found.close, found.volume), (expected.low, expected.close, expected.volume));
    }
}
