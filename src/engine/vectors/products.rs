//! Random products on a GPU against the CPU's chains: any shape, any layout, hard values.

use super::on_cuda::Cuda;
use crate::bits::philox::{self, Key};
use crate::engine::cpu::Cpu;
use crate::engine::cpu::gemm::{B, Epilogue, Gemm};
use crate::engine::cuda::error::CudaError;

/// Largest dimension.
const LONGEST: u64 = 4097;

/// A product to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// number, from 0
    pub number: u32,
    /// rows, columns, length of the chains
    pub size: (usize, usize, usize),
    /// whether k is the inner dimension of A and of B
    pub k_inner: (bool, bool),
    /// which values
    pub values: Values,
}

/// Values of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// uniform in ±1
    Uniform,
    /// half of A is +0, as behind a ReLU
    Sparse,
    /// many ±0 of either sign
    SignedZeros,
    /// products among the subnormals
    Subnormal,
    /// sums near the largest number, some of them past it
    NearOverflow,
    /// some infinities and NaN
    NotFinite,
}

const KINDS: [Values; 6] =
    [Values::Uniform, Values::Sparse, Values::SignedZeros, Values::Subnormal, Values::NearOverflow, Values::NotFinite];

/// The case of a number: dimensions spread evenly over their logarithm, every fourth odd by construction.
pub fn case(seed: u64, number: u32) -> Case {
    let key = philox::stream_key(seed, 0, "products");
    let words = philox::block(key, number, 0, 0);
    // The logarithm by bits: a power of two, then a number up to it.
    let dimension = |word: u32| {
        let bits = (u64::from(word >> 16) * 13) >> 16;
        let top = (2u64 << bits).min(LONGEST);
        (1 + ((u64::from(word & 0xffff) * top) >> 16)) as usize
    };
    let kind = words[3] as usize;
    Case {
        number,
        size: (dimension(words[0]), dimension(words[1]), dimension(words[2])),
        k_inner: (kind & 1 == 0, kind & 2 == 0),
        values: KINDS[(kind >> 2) % KINDS.len()],
    }
}

/// Element `i` of an operand.
fn element(values: Values, key: Key, operand: u32, i: usize) -> f32 {
    let [w0, w1, ..] = philox::block(key, i as u32, operand, 1);
    let x = philox::initial_weight(key, w0, 1.0);
    match values {
        Values::Uniform => x,
        Values::Sparse if operand == 0 && w1 & 1 == 0 => 0.0,
        Values::Sparse => x,
        Values::SignedZeros => match w1 & 3 {
            0 => 0.0,
            1 => -0.0,
            _ => x,
        },
        // About 2^-65 each, so that products lie around 2^-130.
        Values::Subnormal => x * f32::from_bits((127 - 65) << 23),
        Values::NearOverflow => x * f32::from_bits((127 + 62) << 23),
        Values::NotFinite => match w1 % 50_000 {
            0 => f32::NAN,
            1 => f32::INFINITY,
            2 => f32::NEG_INFINITY,
            _ => x,
        },
    }
}

/// The operands of a case: A `[m, k]` or `[k, m]`, B `[n, k]` or `[k, n]`.
pub fn operands(seed: u64, case: &Case) -> [Vec<f32>; 2] {
    let key = philox::stream_key(seed, case.number, "products.values");
    let (m, n, k) = case.size;
    [(0, m * k), (1, n * k)].map(|(operand, len)| (0..len).map(|i| element(case.values, key, operand, i)).collect())
}

/// The CPU's chains.
pub fn on_cpu(cpu: &Cpu, case: &Case, [a, b]: &[Vec<f32>; 2]) -> Vec<f32> {
    let (m, n, k) = case.size;
    let mut c = vec![0.0; m * n];
    let rows: Vec<f32> = if case.k_inner.1 { transposed(b, n, k) } else { b.clone() };
    let (a_row, a_k) = if case.k_inner.0 { (k, 1) } else { (1, m) };
    let b = B::Rows { data: &rows, stride: n };
    cpu.gemm(Gemm { m, n, k, a, a_row, a_k, b, c: &mut c, c_row: n, epilogue: Epilogue::Store });
    c
}

fn transposed(x: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|j| (0..rows).map(move |i| x[i * columns + j])).collect()
}

/// The GPU's result against the CPU's: the first element that differs. NaN is one value.
pub fn compare(cuda: &Cuda, case: &Case, [a, b]: &[Vec<f32>; 2], wanted: &[f32]) -> Result<Option<String>, CudaError> {
    let found = cuda.product(case.size, (a, case.k_inner.0), (b, case.k_inner.1))?;
    let same = |x: &f32, y: &f32| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
    let first = wanted.iter().zip(&found).position(|(x, y)| !same(x, y));
    Ok(first.map(|i| {
        let (x, y, n) = (wanted[i], found[i], case.size.1);
        format!(
            "{case:?}: element [{}, {}] is {:08x} ({x:e}) on the CPU, {:08x} ({y:e}) on the GPU",
            i / n,
            i % n,
            x.to_bits(),
            y.to_bits()
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would fail if shapes left out a layout, a kind of value, or the ends of the range.
    #[test]
    fn cases_cover_shapes_layouts_and_values() {
        let all: Vec<Case> = (0..500).map(|i| case(1, i)).collect();
        let sides = |c: &Case| [c.size.0, c.size.1, c.size.2];
        assert!(all.iter().flat_map(sides).all(|d| (1..=4097).contains(&d)));
        assert!(all.iter().any(|c| c.size.2 == 1) && all.iter().any(|c| c.size.1 == 1));
        assert!(all.iter().flat_map(sides).any(|d| d > 4000));
        for kind in KINDS {
            for layout in [(true, true), (true, false), (false, true), (false, false)] {
                assert!(all.iter().any(|c| c.values == kind && c.k_inner == layout), "{kind:?} {layout:?}");
            }
        }
        assert_eq!(case(1, 7), case(1, 7));
        assert_ne!(case(1, 7), case(2, 7));
    }

    /// Would fail if the reference read an operand the wrong way round.
    #[test]
    fn the_reference_reads_both_layouts() {
        let cpu = Cpu::new(crate::engine::cpu::SimdPath::best(), 1, Default::default()).unwrap();
        let size = (2, 3, 2);
        let (a, a_t) = (vec![1.0, 2.0, 3.0, 4.0], vec![1.0, 3.0, 2.0, 4.0]);
        let (b, b_t) = (vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], vec![1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
        let wanted = [5.0, 11.0, 17.0, 11.0, 25.0, 39.0];
        for (k_inner, a, b) in
            [((true, true), &a, &b), ((true, false), &a, &b_t), ((false, true), &a_t, &b), ((false, false), &a_t, &b_t)]
        {
            let case = Case { number: 0, size, k_inner, values: Values::Uniform };
            assert_eq!(on_cpu(&cpu, &case, &[a.clone(), b.clone()]), wanted, "{k_inner:?}");
        }
    }
}
