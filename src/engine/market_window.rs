//! Statistics of one window, each from scratch, oldest value first: the vocabulary of rule 9's columns.
//!
//! Verified: against the definitions on small windows, and through the pinned digests of whole tables. Not attempted:
//! running updates, which would let a value depend on where the series starts.

use crate::bits::rounding::sum;

/// 2^-40: what divides must exceed this, so that a flat window gives +0 and not amplified rounding.
const FLOOR: f64 = 9.094_947_017_729_282e-13;

/// The `n` values up to and with bar `t`; none if there are fewer.
pub(super) fn last(xs: &[f64], t: usize, n: usize) -> &[f64] {
    (t + 1).checked_sub(n).and_then(|from| xs.get(from..=t)).unwrap_or(&[])
}

/// `b > 2^-40 ? a/b : +0`.
pub(super) fn div(a: f64, b: f64) -> f64 {
    if b > FLOOR { a / b } else { 0.0 }
}

/// `(a − b) / (a + b)` by [`div`]: −1 to 1 for non-negative values.
pub(super) fn contrast(a: f64, b: f64) -> f64 {
    div(a - b, a + b)
}

/// −1, 0 or 1.
pub(super) fn sign(x: f64) -> f64 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        0.0
    }
}

/// Sum divided by count.
pub(super) fn mean(xs: &[f64]) -> f64 {
    sum(xs.iter().copied()) / xs.len() as f64
}

/// Mean and population standard deviation: `sqrt(mean((x − mean)·(x − mean)))`.
pub(super) fn mean_and_deviation(xs: &[f64]) -> (f64, f64) {
    let m = mean(xs);
    let squares = sum(xs.iter().map(|x| (x - m) * (x - m)));
    (m, (squares / xs.len() as f64).sqrt())
}

/// Population standard deviation.
pub(super) fn deviation(xs: &[f64]) -> f64 {
    mean_and_deviation(xs).1
}

/// Largest value, scanning with `>`.
pub(super) fn highest(xs: &[f64]) -> f64 {
    xs.iter().copied().fold(f64::NEG_INFINITY, |best, x| if x > best { x } else { best })
}

/// Smallest value, scanning with `<`.
pub(super) fn lowest(xs: &[f64]) -> f64 {
    xs.iter().copied().fold(f64::INFINITY, |best, x| if x < best { x } else { best })
}

/// `x > limit ? limit : (x < −limit ? −limit : x)`.
pub(super) fn clamp(x: f64, limit: f64) -> f64 {
    if x > limit {
        limit
    } else if x < -limit {
        -limit
    } else {
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would fail if a statistic were another one, or a flat window were not +0.
    #[test]
    fn definitions() {
        let xs = [1.0, 2.0, 3.0, 6.0];
        assert_eq!(last(&xs, 2, 2), [2.0, 3.0]);
        assert_eq!(last(&xs, 0, 2), [0.0; 0]);
        assert_eq!(mean_and_deviation(&xs), (3.0, 3.5f64.sqrt()));
        assert_eq!((highest(&xs), lowest(&xs)), (6.0, 1.0));
        assert_eq!(contrast(1.0, 3.0), -0.5);
        assert_eq!([div(1.0, 0.0), div(1.0, FLOOR), div(1.0, -1.0)].map(f64::to_bits), [0; 3]);
        assert_eq!([clamp(9.0, 8.0), clamp(-9.0, 8.0), clamp(7.0, 8.0)], [8.0, -8.0, 7.0]);
        assert_eq!([sign(0.1), sign(-0.1), sign(-0.0)], [1.0, -1.0, 0.0]);
    }
}
