//! Rule 2: products in all layouts and epilogues over ragged shapes.

use proptest::prelude::*;

use super::{bits, paths, values};
use crate::bits::fma::fma_soft;
use crate::engine::cpu::gemm::{B, Epilogue, Gemm, Panels};

/// The chains of C, element by element.
fn chains(m: usize, n: usize, k: usize, a: impl Fn(usize, usize) -> f32, b: impl Fn(usize, usize) -> f32) -> Vec<f32> {
    let chain = |i: usize| (0..k).fold(0.0, |acc, k| fma_soft(a(i / n, k), b(k, i % n), acc));
    (0..m * n).map(chain).collect()
}

fn relu(z: f32) -> f32 {
    if z > 0.0 || z.is_nan() { z } else { 0.0 }
}

/// Sizes around the tiles' edges.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![1usize..=70, prop::sample::select(vec![1, 5, 6, 7, 12, 13, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65])]
}

/// All three layouts of one layer on every path: x `[rows, inputs]`, weight `[outputs, inputs]`.
fn layer_agrees(rows: usize, inputs: usize, outputs: usize, seed: u64) -> Result<(), TestCaseError> {
    let [x, weight, dz, y] = [(0, rows * inputs), (1, outputs * inputs), (2, rows * outputs), (3, rows * inputs)]
        .map(|(stream, n)| values(seed ^ stream << 40, n));
    let bias = values(seed ^ 4 << 40, outputs);
    let acc = chains(rows, outputs, inputs, |r, k| x[r * inputs + k], |k, o| weight[o * inputs + k]);
    let z: Vec<f32> = acc.iter().enumerate().map(|(i, acc)| acc + bias[i % outputs]).collect();
    let active: Vec<f32> = z.iter().map(|&z| relu(z)).collect();
    let dx = chains(rows, inputs, outputs, |r, k| dz[r * outputs + k], |k, i| weight[k * inputs + i]);
    let masked: Vec<f32> = dx.iter().zip(&y).map(|(&dx, &y)| if y > 0.0 { dx } else { 0.0 }).collect();
    let dw = chains(outputs, inputs, rows, |o, k| dz[k * outputs + o], |k, i| x[k * inputs + i]);
    for cpu in paths() {
        let mut found = vec![f32::NAN; rows * outputs];
        for (epilogue, expected) in
            [(Epilogue::Store, &acc), (Epilogue::Bias(&bias), &z), (Epilogue::BiasRelu(&bias), &active)]
        {
            cpu.layer(&x, rows, &weight, epilogue, &mut found);
            prop_assert_eq!(bits(&found), bits(expected), "{} {:?}", cpu.path(), epilogue);
        }
        let mut found = vec![f32::NAN; rows * inputs];
        cpu.input_gradient(&dz, rows, &weight, Epilogue::Store, &mut found);
        prop_assert_eq!(bits(&found), bits(&dx), "{} dx", cpu.path());
        cpu.input_gradient(&dz, rows, &weight, Epilogue::ReluBackward { y: &y, stride: inputs }, &mut found);
        prop_assert_eq!(bits(&found), bits(&masked), "{} dx through the ReLU", cpu.path());
        let mut found = vec![f32::NAN; outputs * inputs];
        cpu.weight_gradient(&dz, &x, rows, &mut found);
        prop_assert_eq!(bits(&found), bits(&dw), "{} dw", cpu.path());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Would fail if a tile's edge, a padding or an epilogue changed a bit on any path.
    #[test]
    fn every_layout_is_one_chain(rows in size(), inputs in size(), outputs in size(), seed: u64) {
        layer_agrees(rows, inputs, outputs, seed)?;
    }

    /// Would fail if a chain were cut at a block of k: each of the three sizes is the chains' length in one layout.
    #[test]
    fn long_chains_are_carried(long in 1000usize..=1100, a in 1usize..=7, b in 1usize..=18, turn in 0usize..3, seed: u64) {
        let mut sizes = [long, a, b];
        sizes.rotate_right(turn);
        layer_agrees(sizes[0], sizes[1], sizes[2], seed)?;
    }
}

/// Would fail if packing on the way changed a bit: B spans far more than the caches, A is read by columns or by rows,
/// few rows or many, in one part or stacked. The two fastest paths: the scalar one is slow and runs the same cuts.
#[test]
fn far_apart_operands_are_packed() {
    let (m, n, k) = (29, 70, 1300);
    let wide = 256;
    let (a, b) = (values(1, k * m), values(2, k * wide));
    let stacked = values(3, 4 * 300 * 900);
    for cpu in paths().into_iter().rev().take(2) {
        for (m, a_row, a_k) in [(m, 1, m), (m, k, 1), (5, 1, m)] {
            let mut c = vec![f32::NAN; m * n];
            let operand = B::Rows { data: &b[1..], stride: wide };
            cpu.gemm(Gemm { m, n, k, a: &a, a_row, a_k, b: operand, c: &mut c, c_row: n, epilogue: Epilogue::Store });
            let expected = chains(m, n, k, |r, k| a[r * a_row + k * a_k], |k, j| b[1 + k * wide + j]);
            assert_eq!(bits(&c), bits(&expected), "{} {m} rows, {a_row} apart", cpu.path());
        }
        let parts: Vec<&[f32]> = stacked.chunks(300 * 900).collect();
        let (m, k, mut c) = (25, 1200, vec![f32::NAN; 25 * 900]);
        let (b, epilogue) = (B::Stack(&parts), Epilogue::Store);
        cpu.gemm(Gemm { m, n: 900, k, a: &a, a_row: k, a_k: 1, b, c: &mut c, c_row: 900, epilogue });
        for row in [0, 11, 24] {
            let expected = chains(1, 900, k, |_, i| a[row * k + i], |i, j| stacked[i * 900 + j]);
            assert_eq!(bits(&c[row * 900..][..900]), bits(&expected), "{} stacked, row {row}", cpu.path());
        }
    }
}

/// Would fail if a product wrote beyond its columns or rows of a wider matrix, or read beyond its operands' edges.
#[test]
fn neighbours_stay_untouched() {
    let (m, n, k, stride) = (13, 21, 9, 40);
    let (a, b) = (values(1, m * stride), values(2, k * stride));
    for cpu in paths() {
        let mut c = vec![7.0; m * stride];
        let operand = B::Rows { data: &b[3..], stride };
        let epilogue = Epilogue::Store;
        cpu.gemm(Gemm {
            m,
            n,
            k,
            a: &a[5..],
            a_row: stride,
            a_k: 1,
            b: operand,
            c: &mut c[2..],
            c_row: stride,
            epilogue,
        });
        let expected = chains(m, n, k, |r, k| a[5 + r * stride + k], |k, j| b[3 + k * stride + j]);
        for (i, row) in c.chunks(stride).enumerate() {
            assert_eq!(bits(&row[2..2 + n]), bits(&expected[i * n..(i + 1) * n]), "{} row {i}", cpu.path());
            assert!(row[..2].iter().chain(&row[2 + n..]).all(|&x| x == 7.0), "{} wrote beside row {i}", cpu.path());
        }
    }
}

/// Would fail if an operand that is too short reached the unsafe tiles.
#[test]
fn short_operands_are_refused() {
    let refuses = |a: usize, b: usize, c: usize, bias: usize| {
        let [a, b, mut c, bias] = [a, b, c, bias].map(|n| vec![0.0; n]);
        let panels = B::Panels(&Panels::transposed(&[0.0; 6], 2, 3));
        let operand = if b.is_empty() { panels } else { B::Rows { data: &b, stride: 3 } };
        let epilogue = Epilogue::Bias(&bias);
        let gemm = Gemm { m: 4, n: 3, k: 2, a: &a, a_row: 2, a_k: 1, b: operand, c: &mut c, c_row: 3, epilogue };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| gemm.check())).is_err()
    };
    assert!(!refuses(8, 6, 12, 3) && !refuses(8, 0, 12, 3));
    assert!(refuses(7, 6, 12, 3) && refuses(8, 5, 12, 3) && refuses(8, 6, 11, 3) && refuses(8, 6, 12, 2));
}
