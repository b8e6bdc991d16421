//! Rules 1, 3, 4 and 6 on every path.

use proptest::prelude::*;

use super::{bits, finite, hard, paths, values};
use crate::bits::fma::fma_soft;
use crate::bits::rounding::AdamConstants;
use crate::engine::cpu::rules::Operation;

/// Rule 4 as its text has it: lane l takes elements l, l + 32, … of each block.
fn reduce(xs: &[f32], squares: bool) -> f32 {
    let block = |xs: &[f32]| {
        let mut s = [0.0f32; 32];
        for (i, &x) in xs.iter().enumerate() {
            s[i % 32] = if squares { fma_soft(x, x, s[i % 32]) } else { s[i % 32] + x };
        }
        for h in [16, 8, 4, 2, 1] {
            for l in 0..h {
                s[l] += s[l + h];
            }
        }
        s[0]
    };
    let results: Vec<f32> = xs.chunks(1024).map(block).collect();
    match results.len() {
        0 => 0.0,
        1 => results[0],
        _ => reduce(&results, false),
    }
}

/// Adam of rule 6, one element.
fn adam(c: &AdamConstants, k: f32, [w, m, v, g]: [f32; 4]) -> [f32; 3] {
    let tiny = f32::from_bits(27 << 23); // 2^-100
    let g = g * k;
    let m = (c.beta1 * m) + (c.c1 * g);
    let v = (c.beta2 * v) + (c.c2 * (g * g));
    let m = if m.abs() < tiny { 0.0 } else { m };
    let v = if v < tiny { 0.0 } else { v };
    [w - ((c.a * m) / ((v.sqrt() * c.b) + c.epsilon)), m, v]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Would fail if an operation flushed, contracted or reordered on a path; fma against the software one.
    #[test]
    fn operations(xs in prop::collection::vec((hard(), hard(), hard()), 1..80)) {
        let column = |f: fn(&(f32, f32, f32)) -> f32| xs.iter().map(f).collect::<Vec<f32>>();
        let [a, b, c] = [column(|x| x.0), column(|x| x.1), column(|x| x.2)];
        let one = |operation, a: f32, b: f32, c: f32| match operation {
            Operation::Add => a + b,
            Operation::Sub => a - b,
            Operation::Mul => a * b,
            Operation::Div => a / b,
            Operation::Sqrt => a.sqrt(),
            Operation::Fma => fma_soft(a, b, c),
        };
        for cpu in paths() {
            for operation in [Operation::Add, Operation::Sub, Operation::Mul, Operation::Div, Operation::Sqrt, Operation::Fma] {
                let expected: Vec<f32> = xs.iter().map(|x| one(operation, x.0, x.1, x.2)).collect();
                let mut found = vec![0.0; xs.len()];
                cpu.elementwise(operation, [&a, &b, &c], &mut found);
                prop_assert_eq!(bits(&found), bits(&expected), "{} {:?}", cpu.path(), operation);
            }
        }
    }

    /// Would fail if the ReLU lost a NaN, let −0 through, or passed a gradient where y is not above zero.
    #[test]
    fn relu_both_ways(xs in prop::collection::vec((hard(), hard()), 1..80)) {
        let (z, dy): (Vec<f32>, Vec<f32>) = xs.iter().copied().unzip();
        let y: Vec<f32> = z.iter().map(|&z| if z > 0.0 || z.is_nan() { z } else { 0.0 }).collect();
        let dz: Vec<f32> = y.iter().zip(&dy).map(|(&y, &dy)| if y > 0.0 { dy } else { 0.0 }).collect();
        for cpu in paths() {
            let mut found = [vec![0.0; z.len()], vec![0.0; z.len()]];
            cpu.relu(&z, &mut found[0]);
            cpu.relu_backward(&y, &dy, &mut found[1]);
            prop_assert_eq!([bits(&found[0]), bits(&found[1])], [bits(&y), bits(&dz)], "{}", cpu.path());
        }
    }

    /// Would fail if lanes, blocks or levels of rule 4 were cut elsewhere on a path.
    #[test]
    fn reductions(n in prop_oneof![0usize..70, 1000usize..1100, 4000usize..9000], seed: u64, odd in hard(), at: prop::sample::Index) {
        let mut xs = values(seed, n);
        xs.iter_mut().for_each(|x| *x = if x.abs() > 4.0 { *x * 1e-20 } else { *x });
        if n > 0 {
            xs[at.index(n)] = odd;
        }
        for cpu in paths() {
            let found = [cpu.reduce(&xs), cpu.reduce_squares(&xs)];
            prop_assert_eq!(bits(&found), bits(&[reduce(&xs, false), reduce(&xs, true)]), "{}", cpu.path());
        }
    }

    /// Would fail if chunks of 256 rows were cut elsewhere, or a column met another.
    #[test]
    fn bias_gradients(rows in prop_oneof![1usize..20, 250usize..262, 510usize..520], width in 1usize..70, seed: u64) {
        let dz = values(seed, rows * width);
        let chunk = |column: usize, start: usize| (start..rows.min(start + 256)).fold(0.0, |s, n| s + dz[n * width + column]);
        let column = |column: usize| (0..rows).step_by(256).fold(0.0, |s, start| s + chunk(column, start));
        let expected: Vec<f32> = (0..width).map(column).collect();
        for cpu in paths() {
            let mut found = vec![f32::NAN; width];
            cpu.bias_gradient(&dz, rows, &mut found);
            prop_assert_eq!(bits(&found), bits(&expected), "{}", cpu.path());
        }
    }

    /// Would fail if Adam or Polyak were contracted, reordered or flushed on a path, or a moment below 2^-100 stayed.
    #[test]
    fn adam_and_polyak(xs in prop::collection::vec((hard(), finite(), finite(), hard()), 1..80), t in 1u64..2000, k in 0.0f32..=1.0, tau in 0.0f32..=1.0) {
        let power = |x| crate::bits::rounding::power(x, t);
        let c = AdamConstants::new(3e-4, 0.9, 0.999, 1e-8, power(0.9), power(0.999));
        let column = |f: fn(&(f32, f32, f32, f32)) -> f32| xs.iter().map(f).collect::<Vec<f32>>();
        let (w, m, v, g) = (column(|x| x.0), column(|x| x.1), column(|x| x.2.abs()), column(|x| x.3));
        let after: Vec<[f32; 3]> = (0..xs.len()).map(|i| adam(&c, k, [w[i], m[i], v[i], g[i]])).collect();
        let expected = [0, 1, 2].map(|j| bits(&after.iter().map(|a| a[j]).collect::<Vec<_>>()));
        let averaged: Vec<f32> = g.iter().zip(&w).map(|(&target, &w)| target + (tau * (w - target))).collect();
        for cpu in paths() {
            let (mut w2, mut m, mut v, mut target) = (w.clone(), m.clone(), v.clone(), g.clone());
            cpu.adam(&c, k, &mut w2, &mut m, &mut v, &g);
            prop_assert_eq!([bits(&w2), bits(&m), bits(&v)], expected.clone(), "{} Adam", cpu.path());
            cpu.polyak(tau, &mut target, &w);
            prop_assert_eq!(bits(&target), bits(&averaged), "{} Polyak", cpu.path());
        }
    }

    /// Would fail if an element were missed or a later one named.
    #[test]
    fn not_finite_is_found(n in 1usize..300_000, at in prop::collection::vec(any::<prop::sample::Index>(), 0..3), bad in prop::sample::select(vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY])) {
        let mut xs = vec![f32::MAX; n];
        at.iter().for_each(|at| xs[at.index(n)] = bad);
        let expected = at.iter().map(|at| at.index(n)).min();
        for cpu in paths() {
            prop_assert_eq!(cpu.first_not_finite(&xs), expected, "{}", cpu.path());
        }
    }
}
