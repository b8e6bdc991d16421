//! Market bars: what they are, what makes them legal, and the files they come from.
//!
//! Bars come from CSV ([`super::market_csv`]), Parquet (`market_parquet`, cargo feature `parquet`) or
//! [`super::market_synthetic`]; the table that the environment trades on is [`super::market_features::Market`].
//! Verified: every rule of [`Bars::check`], whatever the bars came from. Not verified, because a file cannot show it:
//! gaps (weekends, holidays, halts), time zones of times without an offset (read as UTC), splits and dividends.

use std::fs::File;
use std::path::Path;

use super::market_csv::read_csv;
use super::market_error::{At, MarketError, Place};

/// Most bars of one market: the row index of the replay is 32 bits wide, and so many bars fill 4 GiB of features.
pub const BARS_MAX: usize = 1 << 24;

/// Bars in ascending order of time; all vectors have one length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// nanoseconds since 1970-01-01T00:00Z, strictly ascending
    pub times: Vec<i64>,
    /// first price, in the quote currency
    pub open: Vec<f64>,
    /// highest price
    pub high: Vec<f64>,
    /// lowest price
    pub low: Vec<f64>,
    /// last price
    pub close: Vec<f64>,
    /// traded volume in any unit; None where the source has none
    pub volume: Option<Vec<f64>>,
    /// the file's name, or what stands for it
    pub source: String,
    /// how the source was read: columns ignored, form of the times, missing volume
    pub notes: Vec<String>,
}

/// How to read a file. The default reads every form that has one reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The form of the times, for files whose form is ambiguous or unknown: strftime-like as in jiff's `fmt::strtime`
    /// (`%d/%m/%Y %H:%M`), or `epoch-s`, `epoch-ms`, `epoch-us`, `epoch-ns`. Columns date and time are joined by a space.
    pub time_format: Option<String>,
}

/// Reads a market file: `.csv`, `.tsv`, `.txt`, each plain or gzip (`.gz` or not), or `.parquet`.
///
/// # Errors
/// What [`read_csv`] and [`Bars::check`] refuse, a file that cannot be opened, and a kind of file that this build does
/// not read. Messages name the file as `path` is written.
pub fn load(path: &Path, options: &ReadOptions) -> Result<Bars, MarketError> {
    let name = path.display().to_string();
    let at = At::file(&name);
    let lower = name.to_lowercase();
    let kind = Path::new(lower.strip_suffix(".gz").unwrap_or(&lower)).extension().and_then(|e| e.to_str());
    let open = || {
        File::open(path).map_err(|e| at.refuse(format!("{e}"), "a readable file", "check the path of the market file"))
    };
    match kind {
        Some("csv" | "tsv" | "txt") => read_csv(open()?, &name, options),
        Some("parquet") if cfg!(not(feature = "parquet")) => {
            let advice = "build with `--features parquet`, or convert the file to CSV";
            Err(at.refuse("a Parquet file", "a file that this build reads (.csv, .csv.gz)", advice))
        }
        #[cfg(feature = "parquet")]
        Some("parquet") => super::market_parquet::read_parquet(open()?, &name, options),
        _ => Err(at.refuse(
            "another kind of file",
            "a name that ends in .csv, .csv.gz or .parquet",
            "convert or rename the file",
        )),
    }
}

impl Bars {
    /// Bars.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// No bars at all.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Refuses bars that no market made; places are rows from 1.
    ///
    /// # Errors
    /// Vectors of different lengths, no bars or more than [`BARS_MAX`]; a price that is not finite and positive, a high
    /// below the low, an open or close outside of them; a volume that is negative or not finite; a time that is not
    /// after the one before.
    pub fn check(&self) -> Result<(), MarketError> {
        self.check_at(&["time", "open", "high", "low", "close", "volume"], |row| Place::Row(row as u64 + 1))
    }

    /// [`Bars::check`] with the columns' names (time, open, high, low, close, volume) and the places of the rows.
    pub(super) fn check_at(&self, names: &[&str; 6], place: impl Fn(usize) -> Place) -> Result<(), MarketError> {
        let at = At::file(&self.source);
        let bars = self.len();
        let volumes = self.volume.as_ref().map_or(bars, Vec::len);
        if [self.open.len(), self.high.len(), self.low.len(), self.close.len(), volumes] != [bars; 5] {
            return Err(at.refuse("columns of different lengths", "one value a bar in each", ""));
        }
        if !(1..=BARS_MAX).contains(&bars) {
            return Err(at.refuse(format!("{bars} bars"), format!("1 to {BARS_MAX} bars"), ""));
        }
        for t in 0..bars {
            let at = at.place(place(t));
            let prices = [self.open[t], self.high[t], self.low[t], self.close[t]];
            check_prices(prices, at, [names[1], names[2], names[3], names[4]])?;
            if let Some(volume) = &self.volume {
                check_volume(volume[t], at.column(names[5]))?;
            }
            if t > 0 && self.times[t] <= self.times[t - 1] {
                let what =
                    if self.times[t] == self.times[t - 1] { "the same time as" } else { "a time before that of" };
                let advice = "sort the rows by time and keep one of each";
                let found = format!("{what} {} ({})", place(t - 1), shown(self.times[t]));
                return Err(at.column(names[0]).refuse(found, "strictly ascending times", advice));
            }
        }
        Ok(())
    }
}

/// A time in a message.
fn shown(time: i64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(time)).map_or_else(|_| time.to_string(), |t| t.to_string())
}

fn check_prices(prices: [f64; 4], at: At<'_>, names: [&str; 4]) -> Result<(), MarketError> {
    for (price, name) in prices.into_iter().zip(names) {
        if !(price.is_finite() && price > 0.0) {
            return Err(at.column(name).refuse(format!("{price}"), "a finite price above 0", "mend or remove the row"));
        }
    }
    let [open, high, low, close] = prices;
    if high < low {
        let found = format!("{high}, below the low {low}");
        return Err(at.column(names[1]).refuse(
            found,
            "a high at or above the low",
            "mend the row, or swap the columns' names",
        ));
    }
    for (price, name) in [(open, names[0]), (close, names[3])] {
        if price < low || price > high {
            let found = format!("{price}, outside the bar's low {low} and high {high}");
            return Err(at.column(name).refuse(found, "a price between low and high", "mend or remove the row"));
        }
    }
    Ok(())
}

fn check_volume(volume: f64, at: At<'_>) -> Result<(), MarketError> {
    match volume.is_finite() && volume >= 0.0 {
        true => Ok(()),
        false => Err(at.refuse(format!("{volume}"), "a finite volume of at least 0", "mend or remove the row")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars() -> Bars {
        let prices = vec![2.0, 3.0];
        Bars {
            times: vec![0, 1],
            open: prices.clone(),
            high: prices.clone(),
            low: prices.clone(),
            close: prices,
            volume: Some(vec![0.0, 1.0]),
            source: "x".to_owned(),
            notes: Vec::new(),
        }
    }

    /// Would fail if bars that no market made were let through, or the wrong row were named.
    #[test]
    fn illegal_bars() {
        assert_eq!(bars().check(), Ok(()));
        let text = |change: fn(&mut Bars)| {
            let mut bars = bars();
            change(&mut bars);
            bars.check().unwrap_err().to_string()
        };
        assert!(text(|b| b.open[1] = f64::NAN).starts_with("x: row 2: column open: found NaN"));
        assert!(text(|b| b.close[0] = 0.0).starts_with("x: row 1: column close: found 0"));
        assert!(text(|b| b.high[1] = f64::INFINITY).starts_with("x: row 2: column high: found inf"));
        assert!(text(|b| b.high[1] = 2.5).starts_with("x: row 2: column high: found 2.5, below the low 3"));
        assert!(text(|b| b.open[1] = 2.5).starts_with("x: row 2: column open: found 2.5, outside"));
        assert!(text(|b| b.close[1] = 3.5).starts_with("x: row 2: column close: found 3.5, outside"));
        assert!(
            text(|b| b.times[1] = 0)
                .starts_with("x: row 2: column time: found the same time as row 1 (1970-01-01T00:00:00Z)")
        );
        assert!(text(|b| b.times[1] = -1).starts_with("x: row 2: column time: found a time before that of row 1"));
        assert!(text(|b| b.volume = Some(vec![0.0, -1.0])).starts_with("x: row 2: column volume: found -1"));
        assert!(text(|b| b.volume = Some(vec![0.0])).starts_with("x: found columns of different lengths"));
        assert!(Bars::default().check().unwrap_err().to_string().contains("found 0 bars"));
    }

    /// Would fail if a kind of file were guessed.
    #[test]
    fn kinds_of_files() {
        let text = |name: &str| load(Path::new(name), &ReadOptions::default()).unwrap_err().to_string();
        assert!(text("a.xlsx").starts_with("a.xlsx: found another kind of file"));
        assert!(text("a").contains("expected a name that ends in .csv"));
        assert!(text("absent/a.csv").contains("check the path"));
        #[cfg(not(feature = "parquet"))]
        assert!(text("a.parquet").contains("build with `--features parquet`"));
    }
}
