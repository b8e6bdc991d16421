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
    }
}
