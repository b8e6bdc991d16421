//! Market files: no bytes make the reader panic, hang or fill the memory, and whatever it reads is a legal, finite market.
//!
//! The bytes are read as they are (which may be gzip), compressed, and as a `time_format` on the first line and a file below.

#![no_main]

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;
use samebits::engine::market::{Bars, ReadOptions};
use samebits::engine::market_csv::read_csv;
use samebits::engine::market_error::MarketError;
use samebits::engine::market_features::{Costs, Market};

fn read(data: &[u8], format: Option<&str>) -> Result<Bars, MarketError> {
    read_csv(data, "fuzz.csv", &ReadOptions { time_format: format.map(str::to_owned) })
}

/// What was read must be legal, and its table finite; what was refused must say where.
fn check(result: &Result<Bars, MarketError>) {
    match result {
        Ok(bars) => {
            bars.check().expect("legal bars");
            let market = Market::new(bars, &Costs::default()).expect("a market of legal bars");
            let table = [&market.features, &market.ret, &market.vol, &market.cost];
            assert!(table.into_iter().flatten().all(|x| x.is_finite()));
        }
        Err(error) => assert!(error.to_string().starts_with("fuzz.csv:")),
    }
}

fuzz_target!(|data: &[u8]| {
    let plain = read(data, None);
    check(&plain);
    if !data.starts_with(&[0x1f, 0x8b]) {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(data).expect("memory");
        let packed = read(&encoder.finish().expect("memory"), None);
        assert_eq!(packed, plain);
    }
    let line = data.iter().position(|b| *b == b'\n').unwrap_or(data.len());
    if let (Ok(format), Some(rest)) = (std::str::from_utf8(&data[..line]), data.get(line + 1..)) {
        check(&read(rest, Some(format)));
    }
});
