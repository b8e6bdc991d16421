//! Every path of this machine against plain loops written from the contract, on hard values; faults must be seen.

mod chain;
mod elementwise;
mod engine;
mod update;

use proptest::prelude::*;

use super::{Cpu, Faults, SimdPath};

/// One engine a path of this machine.
fn paths() -> Vec<Cpu> {
    let cpu = |path| Cpu::new(path, 1, Faults::default()).expect("an available path");
    SimdPath::available().into_iter().map(cpu).collect()
}

/// Bits with every NaN as one value.
fn bits(xs: &[f32]) -> Vec<u32> {
    xs.iter().map(|x| if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() }).collect()
}

/// Finite values of every kind: ±0, subnormals, 2^-100, near overflow, ordinary numbers.
fn finite() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => -2.0f32..2.0,
        1 => prop::sample::select(vec![0.0, -0.0, 1.0, -1.0, f32::MIN_POSITIVE, -f32::MIN_POSITIVE, f32::MAX, f32::MIN]),
        1 => (1u32..0x0080_0000).prop_map(f32::from_bits),
        1 => (1u32..0x0080_0000).prop_map(|b| -f32::from_bits(b)),
        1 => (0x0d00_0000u32..0x0e00_0000).prop_map(f32::from_bits),
        1 => (0x5e80_0000u32..0x6000_0000).prop_map(f32::from_bits),
    ]
}

/// Any value: mostly [`finite`], a few infinities and NaNs.
fn hard() -> impl Strategy<Value = f32> {
    prop_oneof![60 => finite(), 1 => prop::sample::select(vec![f32::INFINITY, f32::NEG_INFINITY, f32::NAN])]
}

/// `n` values from a seed: cheap to make and to shrink, one in eight a corner.
fn values(seed: u64, n: usize) -> Vec<f32> {
    const CORNERS: [u32; 8] = [0, 0x8000_0000, 1, 0x8000_0003, 0x0080_0000, 0x7f00_0000, 0xff7f_ffff, 0x1f80_0000];
    let value = |i: usize| {
        let [word, pick, ..] = crate::bits::philox::block([seed as u32, (seed >> 32) as u32], i as u32, 0, 0);
        if pick.is_multiple_of(8) {
            f32::from_bits(CORNERS[(pick >> 8) as usize % 8])
        } else {
            (word >> 8) as f32 / 8_388_608.0 - 1.0
        }
    };
    (0..n).map(value).collect()
}
