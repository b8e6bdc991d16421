//! What a number of runs says about the rate at which runs differ.

/// z of a two-sided 95 % interval.
const Z95: f64 = 1.959_963_984_540_054;

/// Wilson's interval at 95 % of a rate, from `k` of `n`.
///
/// Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).
pub fn wilson(k: usize, n: usize) -> (f64, f64) {
    if n == 0 {
        return (0.0, 1.0);
    }
    let (k, n, z2) = (k as f64, n as f64, Z95 * Z95);
    let middle = (k + z2 / 2.0) / (n + z2);
    let half = Z95 / (n + z2) * (k * (n - k) / n + z2 / 4.0).sqrt();
    // At the ends the formula is exact up to rounding.
    let low = if k == 0.0 { 0.0 } else { middle - half };
    let high = if k == n { 1.0 } else { middle + half };
    (low, high)
}

/// Rate that 0 of `n` rules out at 95 %: 1 − 0.05^(1/n).
pub fn ruled_out(n: usize) -> f64 {
    if n == 0 { 1.0 } else { 1.0 - libm::pow(0.05, 1.0 / n as f64) }
}

/// Runs after which something of this rate was seen with the chance `1 - miss`.
pub fn runs_to_see(rate: f64, miss: f64) -> usize {
    match rate {
        r if r >= 1.0 => 1,
        r if r <= 0.0 => usize::MAX,
        r => (libm::log(miss) / libm::log(1.0 - r)).ceil() as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::philox::{block, stream_key, uniform};

    /// Would fail if the interval missed the true rate more or less often than it says: 200 simulated audits of 400 runs
    /// of a program that differs in 5 % of them.
    #[test]
    fn the_interval_covers_the_true_rate() {
        let key = stream_key(20_261_201, 0, "test.audit");
        let covers = |audit: u32| {
            let flaky = |run: u32| uniform(block(key, audit, run, 0)[0]) < 0.05;
            let k = (0..400).filter(|run| flaky(*run)).count();
            let (low, high) = wilson(k, 400);
            (low..=high).contains(&0.05)
        };
        let covered = (0..200).filter(|audit| covers(*audit)).count();
        assert!((186..=196).contains(&covered), "{covered} of 200");
        let many = (200..20_200).filter(|audit| covers(*audit)).count();
        assert!((0.93..=0.98).contains(&(many as f64 / 20_000.0)), "{many} of 20000");
    }

    /// Would fail if a bound were not the one stated.
    #[test]
    fn bounds() {
        assert!((ruled_out(32) - 0.089_38).abs() < 1e-4 && ruled_out(0) == 1.0);
        assert_eq!((wilson(0, 10).0, wilson(10, 10).1, wilson(0, 0)), (0.0, 1.0, (0.0, 1.0)));
        let (low, high) = wilson(20, 400);
        assert!((low - 0.0326).abs() < 1e-3 && (high - 0.0759).abs() < 1e-3, "{low} {high}");
        assert_eq!((runs_to_see(0.5, 0.01), runs_to_see(1.0, 0.01), runs_to_see(0.0, 0.01)), (7, 1, usize::MAX));
    }
}
