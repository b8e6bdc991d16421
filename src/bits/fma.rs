//! Fused multiply-add in binary32 without FMA hardware and without the platform's libm.

/// `a·b + c` with one rounding, in software.
///
/// The product of two binary32 numbers is exact in binary64. The sum is rounded to odd in binary64, which keeps enough
/// information (53 bits against 24) for the last rounding to binary32 to be the only one that counts, subnormal
/// results included (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
#[inline]
pub fn fma_soft(a: f32, b: f32, c: f32) -> f32 {
    let (product, addend) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + addend;
    if !sum.is_finite() {
        return sum as f32;
    }
    // TwoSum (Knuth): error of the addition, exact because nothing here can overflow or underflow in binary64.
    let virtual_addend = sum - product;
    let error = (product - (sum - virtual_addend)) + (addend - virtual_addend);
    let mut bits = sum.to_bits();
    if error != 0.0 && bits & 1 == 0 {
        // Towards the error: away from zero when it has the sign of the sum.
        if (error > 0.0) == (sum > 0.0) { bits += 1 } else { bits -= 1 }
    }
    f64::from_bits(bits) as f32
}

#[cfg(test)]
mod tests {
    use super::fma_soft;

    /// Would fail if the last rounding happened twice: the tie is broken by an addend far below binary64's last place.
    #[test]
    fn a_tie_is_broken_by_a_tiny_addend() {
        let (a, b) = (f32::from_bits(0x3f80_0001), f32::from_bits(0x3fc0_0000)); // 1.5 + 1.5·2^-23: half-way
        let tiny = f32::from_bits(0x0080_0000);
        assert_eq!(fma_soft(a, b, tiny).to_bits(), 0x3fc0_0002);
        assert_eq!(fma_soft(a, b, -tiny).to_bits(), 0x3fc0_0001);
    }

    /// Would fail if signed zeros were lost.
    #[test]
    fn zeros_keep_their_sign() {
        assert_eq!(fma_soft(0.0, 0.0, -0.0).to_bits(), 0);
        assert_eq!(fma_soft(-0.0, 0.0, -0.0).to_bits(), 0x8000_0000);
    }
}
