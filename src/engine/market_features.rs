//! The market table of rule 9: sixty columns a bar, per-bar returns, volatility and costs.
//!
//! Everything is computed in binary64 with the pinned `libm`, each window from scratch, and rounded to binary32 once;
//! the formulas stand in `docs/contract.md`. Verified: the digests of whole tables of real bars, that a row depends on
//! no later bar, that every value of legal bars is finite and in ±8, flat markets, missing volume. Not verified: that
//! the columns are good predictors.

use libm::{cos, log, sin};
use rayon::prelude::*;

use super::market::Bars;
use super::market_error::{At, MarketError};
use super::market_window::{clamp, contrast, deviation, div, highest, last, lowest, mean, mean_and_deviation, sign};

/// Columns of the market table.
pub const MARKET_COLUMNS: usize = 60;
/// Bars before the first whose windows are complete; their columns are +0. Folds start at or after it.
pub const WARM_UP: usize = 128;
/// Bars of the volatility window.
pub const VOLATILITY_BARS: usize = 64;

/// Largest magnitude of a column.
const COLUMN_MAX: f64 = 8.0;
/// Largest per-bar return.
const RETURN_MAX: f64 = 1_048_576.0;

/// Names of the columns in order.
#[rustfmt::skip]
pub static COLUMNS: [&str; MARKET_COLUMNS] = [
    "return_1", "return_2", "return_4", "return_8", "return_16", "return_32", "return_64", "return_128",
    "return_lag_1", "return_lag_2", "return_lag_3", "return_lag_4",
    "average_4", "average_8", "average_16", "average_32", "average_64", "average_128",
    "cross_4_16", "cross_8_32", "cross_16_64", "cross_32_128",
    "volatility_8", "volatility_16", "volatility_32", "volatility_128", "skew_64", "autocorrelation_64",
    "body", "upper_wick", "lower_wick", "gap", "body_8", "body_32", "range_1", "range_4", "range_16",
    "position_8", "position_16", "position_32", "position_64", "position_128",
    "strength_8", "strength_16", "strength_32", "up_16", "up_64", "below_high_64", "above_low_64",
    "volume_z_16", "volume_z_64", "volume_z_128", "volume_4_64", "volume_flow_16",
    "hour_sin", "hour_cos", "weekday_sin", "weekday_cos", "year_sin", "year_cos",
];

/// Costs of changing the position, each a fraction of the traded value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// half of the difference between ask and bid
    pub half_spread: f64,
    /// commission
    pub commission: f64,
}

/// The table that the environment trades on; row t belongs to bar t.
#[derive(Clone, Debug, PartialEq)]
pub struct Market {
    /// nanoseconds since 1970-01-01T00:00Z, strictly ascending
    pub times: Vec<i64>,
    /// names of the columns
    pub columns: &'static [&'static str; MARKET_COLUMNS],
    /// `[bars, 60]`, row-major; +0 before [`WARM_UP`]
    pub features: Vec<f32>,
    /// close_t / close_{t−1} − 1; +0 at bar 0
    pub ret: Vec<f32>,
    /// population standard deviation of the last 64 returns; +0 before bar 64
    pub vol: Vec<f32>,
    /// half spread and commission, as a fraction
    pub cost: Vec<f32>,
    /// whether the source had a volume; if not, the volume columns are +0
    pub has_volume: bool,
    /// bars
    pub bars: usize,
    /// how the source was read
    pub notes: Vec<String>,
}

impl Market {
    /// The table of legal bars.
    ///
    /// # Errors
    /// What [`Bars::check`] refuses; costs that are not in [0, 1).
    pub fn new(bars: &Bars, costs: &Costs) -> Result<Market, MarketError> {
        bars.check()?;
        for (cost, name) in [(costs.half_spread, "half_spread"), (costs.commission, "commission")] {
            if !(0.0..1.0).contains(&cost) {
                let at = At::file("costs").column(name);
                return Err(at.refuse(
                    format!("{cost}"),
                    "a fraction of at least 0 and below 1",
                    "0.0001 is one basis point",
                ));
            }
        }
        let series = Series::new(bars);
        let mut features = vec![0.0; bars.len() * MARKET_COLUMNS];
        features.par_chunks_exact_mut(MARKET_COLUMNS).enumerate().skip(WARM_UP).for_each(|(t, row)| series.row(t, row));
        let returns = returns(&bars.close);
        let vol =
            |t: usize| if t < VOLATILITY_BARS { 0.0 } else { deviation(last(&returns, t, VOLATILITY_BARS)) as f32 };
        Ok(Market {
            times: bars.times.clone(),
            columns: &COLUMNS,
            features,
            vol: (0..bars.len()).map(vol).collect(),
            ret: returns.iter().map(|r| *r as f32).collect(),
            cost: vec![(costs.half_spread + costs.commission) as f32; bars.len()],
            has_volume: bars.volume.is_some(),
            bars: bars.len(),
            notes: bars.notes.clone(),
        })
    }

    /// The columns of bar `t`, which must be below `bars`.
    pub fn row(&self, t: usize) -> &[f32] {
        &self.features[t * MARKET_COLUMNS..(t + 1) * MARKET_COLUMNS]
    }
}

/// Simple returns of the closes, +0 first.
fn returns(close: &[f64]) -> Vec<f64> {
    let later = close.windows(2).map(|pair| {
        let r = pair[1] / pair[0] - 1.0;
        if r > RETURN_MAX { RETURN_MAX } else { r }
    });
    std::iter::once(0.0).chain(later).take(close.len()).collect()
}

/// What the windows run over: one value a bar.
struct Series<'a> {
    times: &'a [i64],
    open: Vec<f64>,
    high: Vec<f64>,
    low: Vec<f64>,
    close: Vec<f64>,
    /// change of the logarithm of the close, +0 first
    change: Vec<f64>,
    /// log high − log low
    range: Vec<f64>,
    /// (close − open) / range of the logarithms
    body: Vec<f64>,
    /// log(1 + volume)
    volume: Option<Vec<f64>>,
}

impl<'a> Series<'a> {
    fn new(bars: &'a Bars) -> Self {
        let logs = |xs: &[f64]| -> Vec<f64> { xs.iter().map(|x| log(*x)).collect() };
        let (open, high, low, close) = (logs(&bars.open), logs(&bars.high), logs(&bars.low), logs(&bars.close));
        let range: Vec<f64> = high.iter().zip(&low).map(|(h, l)| h - l).collect();
        Series {
            times: &bars.times,
            change: (0..close.len()).map(|t| if t == 0 { 0.0 } else { close[t] - close[t - 1] }).collect(),
            body: (0..close.len()).map(|t| div(close[t] - open[t], range[t])).collect(),
            volume: bars.volume.as_ref().map(|volume| volume.iter().map(|v| log(1.0 + v)).collect()),
            range,
            open,
            high,
            low,
            close,
        }
    }

    /// The columns of bar t ≥ [`WARM_UP`].
    fn row(&self, t: usize, row: &mut [f32]) {
        let scale = deviation(last(&self.change, t, VOLATILITY_BARS));
        let groups: [&[f64]; 7] = [
            &self.trend(t, scale),
            &self.averages(t, scale),
            &self.spread(t, scale),
            &self.candles(t, scale),
            &self.place(t, scale),
            &self.volume.as_ref().map_or([0.0; 5], |volume| self.volumes(volume, t)),
            &calendar(self.times[t]),
        ];
        let columns = groups.iter().flat_map(|group| group.iter());
        for (cell, column) in row.iter_mut().zip(columns) {
            *cell = clamp(*column, COLUMN_MAX) as f32;
        }
    }

    /// return_n, return_lag_k.
    fn trend(&self, t: usize, scale: f64) -> [f64; 12] {
        let over = |n: usize| div(self.close[t] - self.close[t - n], scale * (n as f64).sqrt());
        let lag = |k: usize| div(self.change[t - k], scale);
        let [a, b, c, d, e, f, g, h] = [1, 2, 4, 8, 16, 32, 64, 128].map(over);
        let [i, j, k, l] = [1, 2, 3, 4].map(lag);
        [a, b, c, d, e, f, g, h, i, j, k, l]
    }

    /// average_n, cross_m_n.
    fn averages(&self, t: usize, scale: f64) -> [f64; 10] {
        let average = |n: usize| mean(last(&self.close, t, n));
        let [a4, a8, a16, a32, a64, a128] = [4, 8, 16, 32, 64, 128].map(average);
        let apart = |x: f64, y: f64, n: usize| div(x - y, scale * (n as f64).sqrt());
        let now = self.close[t];
        [
            apart(now, a4, 4),
            apart(now, a8, 8),
            apart(now, a16, 16),
            apart(now, a32, 32),
            apart(now, a64, 64),
            apart(now, a128, 128),
            apart(a4, a16, 16),
            apart(a8, a32, 32),
            apart(a16, a64, 64),
            apart(a32, a128, 128),
        ]
    }

    /// volatility_n, skew_64, autocorrelation_64.
    fn spread(&self, t: usize, scale: f64) -> [f64; 6] {
        let against = |n: usize| contrast(deviation(last(&self.change, t, n)), scale);
        let window = last(&self.change, t, VOLATILITY_BARS);
        let m = mean(window);
        let (mut skew, mut product, mut before) = (0.0, 0.0, 0.0);
        for x in window {
            let z = div(x - m, scale);
            skew += z * z * z;
            product += before * z;
            before = z;
        }
        let n = VOLATILITY_BARS as f64;
        let [a, b, c, d] = [8, 16, 32, 128].map(against);
        [a, b, c, d, skew / n, product / n]
    }

    /// body, wicks, gap, body_n, range_n.
    fn candles(&self, t: usize, scale: f64) -> [f64; 9] {
        let (open, close) = (self.open[t], self.close[t]);
        let (top, bottom) = if close > open { (close, open) } else { (open, close) };
        let usual = mean(last(&self.range, t, 64));
        let range = |n: usize| contrast(mean(last(&self.range, t, n)), usual);
        [
            self.body[t],
            div(self.high[t] - top, self.range[t]),
            div(bottom - self.low[t], self.range[t]),
            div(open - self.close[t - 1], scale),
            mean(last(&self.body, t, 8)),
            mean(last(&self.body, t, 32)),
            range(1),
            range(4),
            range(16),
        ]
    }

    /// position_n, strength_n, up_n, below_high_64, above_low_64.
    fn place(&self, t: usize, scale: f64) -> [f64; 12] {
        let now = self.close[t];
        let extremes = |n: usize| (highest(last(&self.high, t, n)), lowest(last(&self.low, t, n)));
        let position = |n: usize| {
            let (top, bottom) = extremes(n);
            div((now - bottom) - (top - now), top - bottom)
        };
        let strength = |n: usize| {
            let window = last(&self.change, t, n);
            let (mut net, mut path) = (0.0, 0.0);
            for x in window {
                net += x;
                path += x.abs();
            }
            div(net, path)
        };
        let up = |n: usize| {
            let mut count = 0.0;
            for x in last(&self.change, t, n) {
                count += sign(*x);
            }
            count / n as f64
        };
        let [a, b, c, d, e] = [8, 16, 32, 64, 128].map(position);
        let [f, g, h] = [8, 16, 32].map(strength);
        let (top, bottom) = extremes(64);
        let far = scale * 8.0;
        [a, b, c, d, e, f, g, h, up(16), up(64), div(now - top, far), div(now - bottom, far)]
    }

    /// volume_z_n, volume_4_64, volume_flow_16.
    fn volumes(&self, volume: &[f64], t: usize) -> [f64; 5] {
        let z = |n: usize| {
            let (m, s) = mean_and_deviation(last(volume, t, n));
            div(volume[t] - m, s)
        };
        let (usual, spread) = mean_and_deviation(last(volume, t, 64));
        let (mut flow, mut total) = (0.0, 0.0);
        for (x, v) in last(&self.change, t, 16).iter().zip(last(volume, t, 16)) {
            flow += sign(*x) * v;
            total += v;
        }
        [z(16), z(64), z(128), div(mean(last(volume, t, 4)) - usual, spread), div(flow, total)]
    }
}

/// Sine and cosine of the time of day, the weekday and the time of year, in UTC.
fn calendar(time: i64) -> [f64; 6] {
    const DAY: i64 = 86_400_000_000_000;
    let (day, within) = (time.div_euclid(DAY), time.rem_euclid(DAY));
    let hour = std::f64::consts::TAU * (within as f64 / DAY as f64);
    let weekday = std::f64::consts::TAU * ((day + 3).rem_euclid(7) as f64 / 7.0);
    let years = day as f64 / 365.2425;
    let year = std::f64::consts::TAU * (years - years.floor());
    [sin(hour), cos(hour), sin(weekday), cos(weekday), sin(year), cos(year)]
}

#[cfg(test)]
mod tests {
    use super::super::market_synthetic::{SyntheticOptions, synthetic};
    use super::*;

    fn column(name: &str) -> usize {
        COLUMNS.iter().position(|c| *c == name).unwrap()
    }

    /// Would fail if a column stood under another's name: each group against a direct computation at one bar.
    #[test]
    fn columns_stand_under_their_names() {
        let bars = synthetic(&SyntheticOptions { bars: 200, ..SyntheticOptions::default() }).unwrap();
        let (market, t) = (Market::new(&bars, &Costs::default()).unwrap(), 190);
        let value = |name: &str| f64::from(market.row(t)[column(name)]);
        let change = |t: usize| log(bars.close[t] / bars.close[t - 1]);
        let window: Vec<f64> = (t - 63..=t).map(change).collect();
        let scale = deviation(&window);
        let near = |name: &str, expected: f64| {
            assert!((value(name) - expected).abs() < 1e-5, "{name}: {} {expected}", value(name))
        };
        near("return_1", change(t) / scale);
        near("return_16", log(bars.close[t] / bars.close[t - 16]) / (scale * 4.0));
        near("return_lag_4", change(t - 4) / scale);
        let mean_log = |n: usize| mean(&bars.close[t + 1 - n..=t].iter().map(|c| log(*c)).collect::<Vec<_>>());
        near("average_64", (log(bars.close[t]) - mean_log(64)) / (scale * 8.0));
        near("cross_4_16", (mean_log(4) - mean_log(16)) / (scale * 4.0));
        let short = deviation(&window[48..]);
        near("volatility_16", (short - scale) / (short + scale));
        let body = |t: usize| log(bars.close[t] / bars.open[t]) / log(bars.high[t] / bars.low[t]);
        near("body", body(t));
        near("body_8", mean(&(t - 7..=t).map(body).collect::<Vec<_>>()));
        near("gap", log(bars.open[t] / bars.close[t - 1]) / scale);
        near("upper_wick", 1.0 - value("lower_wick") - value("body").abs());
        let (top, bottom) = (highest(&bars.high[t - 7..=t]), lowest(&bars.low[t - 7..=t]));
        near(
            "position_8",
            2.0 * log(bars.close[t] / bars.low[t - 7..=t].iter().copied().fold(top, |a, b| if b < a { b } else { a }))
                / log(top / bottom)
                - 1.0,
        );
        near("below_high_64", log(bars.close[t] / highest(&bars.high[t - 63..=t])) / (8.0 * scale));
        near("up_64", mean(&window.iter().map(|x| sign(*x)).collect::<Vec<_>>()));
        near("hour_sin", sin(std::f64::consts::TAU * (t % 24) as f64 / 24.0));
        assert_eq!(market.vol[t], deviation(&returns(&bars.close)[t - 63..=t]) as f32);
        assert_eq!(market.ret[t], (bars.close[t] / bars.close[t - 1] - 1.0) as f32);
    }

    /// Would fail if a flat market, a market without volume or a warm-up row were not +0.
    #[test]
    fn nothing_is_plus_zero() {
        let mut bars =
            synthetic(&SyntheticOptions { bars: 200, volatility: 0.0, ..SyntheticOptions::default() }).unwrap();
        bars.volume = None;
        let market = Market::new(&bars, &Costs::default()).unwrap();
        assert!(market.features[..column("hour_sin") + WARM_UP * MARKET_COLUMNS].iter().all(|x| x.to_bits() == 0));
        let flat = |row: &[f32]| row[..column("hour_sin")].iter().all(|x| x.to_bits() == 0);
        assert!((0..200).all(|t| flat(market.row(t))));
        assert!(market.ret.iter().chain(&market.vol).all(|x| x.to_bits() == 0));
        assert!(!market.has_volume);
    }

    /// Would fail if costs that no broker asks went through, or were not summed.
    #[test]
    fn costs() {
        let bars = synthetic(&SyntheticOptions { bars: 3, ..SyntheticOptions::default() }).unwrap();
        let market = Market::new(&bars, &Costs { half_spread: 0.25, commission: 0.5 }).unwrap();
        assert_eq!(market.cost, [0.75; 3]);
        for bad in [-0.1, 1.0, f64::NAN] {
            let error = Market::new(&bars, &Costs { half_spread: 0.0, commission: bad }).unwrap_err();
            assert!(error.to_string().starts_with("costs: column commission: found"));
        }
    }
}
