//! Synthetic bars with or without a pattern that can be learned, and the same bars shuffled.
//!
//! Of options (σ = volatility): u(stream, t) are two uniforms of 53 bits from the block of element t, draw 0, step 0 of
//! the Philox stream (rule 7, fold 0): u1 = (((w1·2^32 + w0) >> 11) + 1)·2^-53, u2 = ((w3·2^32 + w2) >> 11)·2^-53. The
//! normal of (stream, t) is Box and Muller's sqrt(−2·log u1)·cos(2π·u2), the other one of the pair takes the sine.
//! With z from `market.return`, the log return of bar t is
//!
//! - `None`: d = σ·z
//! - `Cycle`: d = σ·(((strength·√2)·sin(2π·((t mod period)/period))) + (√(1 − strength²)·z))
//! - `Momentum`: d = (strength·d of bar t−1) + (σ·(√(1 − strength²)·z)), d = σ·z at bar 0
//!
//! so that its variance is σ² throughout. `shuffle` permutes the log returns: for t from bars − 1 down to 1, swap t with
//! the index below t + 1 of `market.shuffle`. Then l = clamp(l + d, ±600) from log 100, close = exp(l), open = the close
//! before (100 at bar 0), high = larger of both · exp(σ/2·|z1|), low = smaller of both · exp(−(σ/2·|z2|)), with z1, z2
//! the pair of `market.range`; volume = exp(log 10^6 + z/2), z of `market.volume`. All in binary64 by `libm`.
//!
//! Verified: that bars are legal, that a planted pattern is visible in the features and gone once shuffled. Not
//! attempted: resemblance to any real market beyond that.

use libm::{cos, exp, log, sin};

use super::market::{BARS_MAX, Bars};
use super::market_error::{At, MarketError};
use super::market_window::clamp;
use crate::bits::philox::{Key, block, index_below, stream_key};

/// What can be learned from the bars.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Pattern {
    /// a random walk: nothing
    #[default]
    None,
    /// returns rise and fall with a period of bars
    Cycle {
        /// bars, at least 2
        period: u32,
        /// part of the standard deviation that the cycle has, 0 to 1
        strength: f64,
    },
    /// a return continues the one before
    Momentum {
        /// correlation of neighbouring returns, above −1 and below 1
        strength: f64,
    },
}

/// What to make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SyntheticOptions {
    /// seed of the streams
    pub seed: u64,
    /// bars, 1 to [`BARS_MAX`]
    pub bars: usize,
    /// standard deviation of a bar's log return, 0 to 1
    pub volatility: f64,
    /// what can be learned
    pub pattern: Pattern,
    /// permute the returns, which leaves nothing to learn
    pub shuffle: bool,
    /// seconds from bar to bar, at least 1
    pub bar_seconds: u32,
    /// time of the first bar, nanoseconds since 1970-01-01T00:00Z
    pub start: i64,
}

impl Default for SyntheticOptions {
    /// 4096 hourly bars from 2020-01-01, 1 % each, without a pattern.
    fn default() -> Self {
        SyntheticOptions {
            seed: 0,
            bars: 4096,
            volatility: 0.01,
            pattern: Pattern::None,
            shuffle: false,
            bar_seconds: 3600,
            start: 1_577_836_800_000_000_000,
        }
    }
}

impl std::fmt::Display for SyntheticOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pattern = match self.pattern {
            Pattern::None => "a random walk".to_owned(),
            Pattern::Cycle { period, strength } => format!("a cycle of {period} bars, strength {strength}"),
            Pattern::Momentum { strength } => format!("momentum of strength {strength}"),
        };
        let shuffled = if self.shuffle { ", returns shuffled" } else { "" };
        write!(f, "{} bars of {pattern}{shuffled}, volatility {}, seed {}", self.bars, self.volatility, self.seed)
    }
}

/// Largest magnitude of a price's logarithm, far below that of binary64.
const LOG_MAX: f64 = 600.0;

/// Makes bars.
///
/// # Errors
/// Options outside the ranges that [`SyntheticOptions`] and [`Pattern`] state; times beyond the year 2261.
pub fn synthetic(options: &SyntheticOptions) -> Result<Bars, MarketError> {
    check(options)?;
    let key = |stream: &str| stream_key(options.seed, 0, stream);
    let (range, volume) = (key("market.range"), key("market.volume"));
    let mut level = log(100.0);
    let mut last = 100.0;
    let mut bars = Bars { source: "synthetic".to_owned(), notes: vec![options.to_string()], ..Bars::default() };
    let mut volumes = Vec::with_capacity(options.bars);
    for (t, change) in changes(options, key("market.return"), key("market.shuffle")).into_iter().enumerate() {
        level = clamp(level + change, LOG_MAX);
        let (open, close) = (last, exp(level));
        let (top, bottom) = if close > open { (close, open) } else { (open, close) };
        let [up, down] = normals(range, t).map(|z| (options.volatility / 2.0) * z.abs());
        bars.times.push(options.start + t as i64 * (i64::from(options.bar_seconds) * 1_000_000_000));
        bars.open.push(open);
        bars.high.push(top * exp(up));
        bars.low.push(bottom * exp(-down));
        bars.close.push(close);
        volumes.push(exp(log(1e6) + normals(volume, t)[0] / 2.0));
        last = close;
    }
    bars.volume = Some(volumes);
    Ok(bars)
}

fn check(options: &SyntheticOptions) -> Result<(), MarketError> {
    let refuse =
        |name: &str, found: String, expected: &str| Err(At::file("synthetic").column(name).refuse(found, expected, ""));
    if !(1..=BARS_MAX).contains(&options.bars) {
        return refuse("bars", options.bars.to_string(), &format!("1 to {BARS_MAX}"));
    }
    if !(0.0..=1.0).contains(&options.volatility) {
        return refuse("volatility", options.volatility.to_string(), "0 to 1");
    }
    match options.pattern {
        Pattern::Cycle { period, .. } if period < 2 => return refuse("period", period.to_string(), "at least 2"),
        Pattern::Cycle { strength, .. } if !(0.0..=1.0).contains(&strength) => {
            return refuse("strength", strength.to_string(), "0 to 1");
        }
        Pattern::Momentum { strength } if !(strength > -1.0 && strength < 1.0) => {
            return refuse("strength", strength.to_string(), "above -1 and below 1");
        }
        _ => {}
    }
    let length = options.bars as i64 * i64::from(options.bar_seconds);
    let end = length.checked_mul(1_000_000_000).and_then(|n| n.checked_add(options.start));
    match (options.bar_seconds, end) {
        (0, _) => refuse("bar_seconds", "0".to_owned(), "at least 1"),
        (_, None) => {
            refuse("start", "times beyond the year 2261".to_owned(), "fewer or shorter bars, or an earlier start")
        }
        _ => Ok(()),
    }
}

/// Log returns, shuffled if asked.
fn changes(options: &SyntheticOptions, returns: Key, shuffle: Key) -> Vec<f64> {
    let mut before = None;
    let mut next = |t: usize| {
        let z = normals(returns, t)[0];
        let noise = |strength: f64| (1.0 - strength * strength).sqrt() * z;
        let change = match (options.pattern, before) {
            (Pattern::Cycle { period, strength }, _) => {
                let turn = (t % period as usize) as f64 / f64::from(period);
                let wave = strength * std::f64::consts::SQRT_2 * sin(std::f64::consts::TAU * turn);
                options.volatility * (wave + noise(strength))
            }
            (Pattern::Momentum { strength }, Some(before)) => strength * before + options.volatility * noise(strength),
            _ => options.volatility * z,
        };
        before = Some(change);
        change
    };
    let mut changes: Vec<f64> = (0..options.bars).map(&mut next).collect();
    if options.shuffle {
        for t in (1..changes.len()).rev() {
            let words = block(shuffle, t as u32, 0, 0);
            changes.swap(t, index_below(t as u64 + 1, [words[0], words[1]]) as usize);
        }
    }
    changes
}

/// Two independent normal numbers of bar t.
fn normals(key: Key, t: usize) -> [f64; 2] {
    // t is below BARS_MAX, 2^24.
    let words = block(key, t as u32, 0, 0);
    let wide = |low: u32, high: u32| (u64::from(high) << 32 | u64::from(low)) >> 11;
    let unit = 1.0 / 9_007_199_254_740_992.0; // 2^-53
    let first = (wide(words[0], words[1]) + 1) as f64 * unit;
    let second = wide(words[2], words[3]) as f64 * unit;
    let (radius, angle) = ((-2.0 * log(first)).sqrt(), std::f64::consts::TAU * second);
    [radius * cos(angle), radius * sin(angle)]
}

#[cfg(test)]
mod tests {
    use super::super::market_features::{COLUMNS, Costs, Market, WARM_UP};
    use super::*;

    /// How often the sign of `column` at bar t, times `side`, is the sign of the next return.
    fn hits(options: &SyntheticOptions, column: &str, side: f32) -> f64 {
        let market = Market::new(&synthetic(options).unwrap(), &Costs::default()).unwrap();
        let column = COLUMNS.iter().position(|c| *c == column).unwrap();
        let bars = WARM_UP..market.bars - 1;
        let hit = |t: &usize| side * market.row(*t)[column] * market.ret[t + 1] > 0.0;
        bars.clone().filter(hit).count() as f64 / bars.len() as f64
    }

    /// Would fail if a planted pattern could not be learned from the features, or if a shuffle left it in.
    #[test]
    fn patterns_are_learnable_until_shuffled() {
        let cycle = Pattern::Cycle { period: 16, strength: 0.8 };
        let momentum = Pattern::Momentum { strength: 0.6 };
        for (pattern, column, side, least) in [(cycle, "return_4", 1.0, 0.65), (momentum, "return_1", 1.0, 0.65)] {
            let planted = SyntheticOptions { pattern, ..SyntheticOptions::default() };
            let found = hits(&planted, column, side);
            assert!(found > least, "{pattern:?}: {found}");
            let shuffled = hits(&SyntheticOptions { shuffle: true, ..planted }, column, side);
            assert!((shuffled - 0.5).abs() < 0.04, "{pattern:?} shuffled: {shuffled}");
        }
        let walk = hits(&SyntheticOptions::default(), "return_1", 1.0);
        assert!((walk - 0.5).abs() < 0.04, "random walk: {walk}");
    }

    /// Would fail if a shuffle changed the returns themselves, or if the seed did nothing.
    #[test]
    fn a_shuffle_is_a_permutation() {
        let options =
            SyntheticOptions { bars: 500, pattern: Pattern::Cycle { period: 8, strength: 0.5 }, ..Default::default() };
        let sorted = |shuffle| {
            let mut all = changes(&SyntheticOptions { shuffle, ..options }, [1, 2], [3, 4]);
            all.sort_by(f64::total_cmp);
            all
        };
        assert_eq!(sorted(false), sorted(true));
        let closes = |seed| synthetic(&SyntheticOptions { seed, ..options }).unwrap().close;
        assert_eq!(closes(1), closes(1));
        assert_ne!(closes(1), closes(2));
    }

    /// Would fail if extreme options made illegal bars, or ranges were not enforced.
    #[test]
    fn legal_at_the_edges() {
        let most = SyntheticOptions {
            volatility: 1.0,
            bars: 20_000,
            pattern: Pattern::Momentum { strength: 0.99 },
            ..Default::default()
        };
        for volatility in [0.0, 1e-300, 1.0] {
            let bars = synthetic(&SyntheticOptions { volatility, ..most }).unwrap();
            bars.check().unwrap();
            Market::new(&bars, &Costs::default()).unwrap();
        }
        let refused = |change: fn(&mut SyntheticOptions)| {
            let mut options = SyntheticOptions::default();
            change(&mut options);
            assert!(synthetic(&options).unwrap_err().to_string().starts_with("synthetic: column"));
        };
        refused(|o| o.bars = 0);
        refused(|o| o.bars = BARS_MAX + 1);
        refused(|o| o.volatility = f64::NAN);
        refused(|o| o.bar_seconds = 0);
        refused(|o| o.start = i64::MAX);
        refused(|o| o.pattern = Pattern::Cycle { period: 1, strength: 0.5 });
        refused(|o| o.pattern = Pattern::Cycle { period: 4, strength: 1.5 });
        refused(|o| o.pattern = Pattern::Momentum { strength: 1.0 });
    }
}
