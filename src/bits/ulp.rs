//! Distance between floats in units of the last place, and what kind of number a bit pattern is.

/// Position of a binary32 on the line of all representable numbers; ±0 share one place.
fn position(bits: u32) -> i64 {
    let magnitude = i64::from(bits & 0x7fff_ffff);
    if bits >> 31 == 0 { magnitude } else { -magnitude }
}

/// Representable binary32 numbers between `a` and `b`; None when either is a NaN. ±0 are 0 apart (see [`Kind`]).
pub fn distance(a: u32, b: u32) -> Option<u64> {
    let nan = |x: u32| x & 0x7fff_ffff > 0x7f80_0000;
    (!nan(a) && !nan(b)).then(|| position(a).abs_diff(position(b)))
}

/// The same for binary64.
pub fn distance64(a: u64, b: u64) -> Option<u64> {
    let nan = |x: u64| x & !(1 << 63) > 0x7ff0_0000_0000_0000;
    let position = |x: u64| {
        let magnitude = i128::from(x & !(1 << 63));
        if x >> 63 == 0 { magnitude } else { -magnitude }
    };
    (!nan(a) && !nan(b)).then(|| position(a).abs_diff(position(b)) as u64)
}

/// The same for the 16-bit formats; `infinity` is the bit pattern of +∞: [`INFINITY_F16`] or [`INFINITY_BF16`].
pub fn distance16(a: u16, b: u16, infinity: u16) -> Option<u64> {
    let nan = |x: u16| x & 0x7fff > infinity;
    let position = |x: u16| {
        let magnitude = i32::from(x & 0x7fff);
        if x >> 15 == 0 { magnitude } else { -magnitude }
    };
    (!nan(a) && !nan(b)).then(|| u64::from(position(a).abs_diff(position(b))))
}

/// +∞ of binary16.
pub const INFINITY_F16: u16 = 0x7c00;

/// +∞ of bfloat16.
pub const INFINITY_BF16: u16 = 0x7f80;

/// The value of a binary16, exact in binary32.
pub fn f16_value(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (u32::from(bits >> 15), u32::from(bits >> 10 & 0x1f), u32::from(bits & 0x3ff));
    let magnitude = match exponent {
        // Subnormal: a multiple of 2^-24, which is this power of two.
        0 => fraction as f32 * f32::from_bits(0x3380_0000),
        31 => f32::from_bits(0x7f80_0000 | fraction << 13),
        _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
    };
    if sign == 0 { magnitude } else { -magnitude }
}

/// The value of a bfloat16, exact in binary32.
pub fn bf16_value(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// What a binary32 bit pattern stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// +0 or −0
    Zero,
    /// below 2^-126 in magnitude, not zero
    Subnormal,
    /// neither of the others
    Normal,
    /// ±∞
    Infinite,
    /// any NaN
    Nan,
}

/// Kind of a binary32 bit pattern.
pub fn kind(bits: u32) -> Kind {
    match bits & 0x7fff_ffff {
        0 => Kind::Zero,
        1..=0x007f_ffff => Kind::Subnormal,
        0x7f80_0000 => Kind::Infinite,
        m if m > 0x7f80_0000 => Kind::Nan,
        _ => Kind::Normal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would fail if the distance across zero or between NaNs were wrong.
    #[test]
    fn distances() {
        assert_eq!(distance(0, 0x8000_0000), Some(0));
        assert_eq!(distance(1, 0x8000_0001), Some(2));
        assert_eq!(distance(0x3f80_0000, 0x3f80_0001), Some(1));
        assert_eq!(distance(0x7fc0_0000, 0x7fc0_0000), None);
        assert_eq!(distance64(0x3ff0_0000_0000_0000, 0x3ff0_0000_0000_0003), Some(3));
        assert_eq!(kind(0x8000_0001), Kind::Subnormal);
        assert_eq!(distance16(0x8000, 0, INFINITY_F16), Some(0));
        assert_eq!(distance16(0x3c00, 0x3c02, INFINITY_F16), Some(2));
        assert_eq!(distance16(0x7c01, 0x3c02, INFINITY_F16), None);
        assert_eq!(distance16(0x7c01, 0x7c02, INFINITY_BF16), Some(1));
        assert_eq!(distance16(0x7f81, 0x7f80, INFINITY_BF16), None);
    }

    /// Would fail if a 16-bit number were shown as another: neighbours must lie apart in order, landmarks at their values.
    #[test]
    fn values_of_16_bits() {
        for (bits, value) in [
            (0, 0.0),
            (1, 1.0 / 16_777_216.0),
            (0x0400, 1.0 / 16_384.0),
            (0x3c00, 1.0),
            (0xc100, -2.5),
            (0x7bff, 65504.0),
        ] {
            assert_eq!(f16_value(bits), value);
        }
        assert!((0..0x7c00).all(|b| f16_value(b) < f16_value(b + 1)));
        assert_eq!((f16_value(0xfc00), f16_value(0x8000).to_bits()), (f32::NEG_INFINITY, 1 << 31));
        assert!(f16_value(0x7c01).is_nan() && bf16_value(0x7f81).is_nan());
        assert_eq!(bf16_value(0xbf80), -1.0);
    }
}
