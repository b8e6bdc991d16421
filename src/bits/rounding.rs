//! Constants and sums that the contract computes in binary64 or in a fixed order.

/// `x^n` by repeated multiplication from 1: `p_0 = 1, p_t = p_{t-1}·x`.
pub fn power(x: f64, n: u64) -> f64 {
    (0..n).fold(1.0, |p, _| p * x)
}

/// Ascending sum from +0.
pub fn sum(xs: impl IntoIterator<Item = f64>) -> f64 {
    xs.into_iter().fold(0.0, |s, x| s + x)
}

/// Constants of one Adam update (rule 6): computed in binary64, each rounded to binary32 once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamConstants {
    /// β1
    pub beta1: f32,
    /// β2
    pub beta2: f32,
    /// 1 − β1
    pub c1: f32,
    /// 1 − β2
    pub c2: f32,
    /// lr/(1 − β1^t)
    pub a: f32,
    /// 1/sqrt(1 − β2^t)
    pub b: f32,
    /// ε
    pub epsilon: f32,
}

impl AdamConstants {
    /// Constants of update `t` (1 at the first) from the powers β1^t and β2^t of [`power`].
    pub fn new(lr: f64, beta1: f64, beta2: f64, epsilon: f64, beta1_power: f64, beta2_power: f64) -> Self {
        AdamConstants {
            beta1: beta1 as f32,
            beta2: beta2 as f32,
            c1: (1.0 - beta1) as f32,
            c2: (1.0 - beta2) as f32,
            a: (lr / (1.0 - beta1_power)) as f32,
            b: (1.0 / (1.0 - beta2_power).sqrt()) as f32,
            epsilon: epsilon as f32,
        }
    }
}
