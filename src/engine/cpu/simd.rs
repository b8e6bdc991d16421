//! Kernels of each instruction set, and the one table by which they are called. All unsafe code of the CPU engine.
//!
//! A tile of C is kept in registers, so that independent chains hide the latency of the fused multiply-add; each
//! chain ascends over k on its own, and no lane ever meets another. The tile's source is one generic function,
//! compiled for AVX-512, AVX2+FMA, NEON and the software fallback; the elementwise rules are `rules.rs`, compiled
//! likewise.
//!
//! Verified: bit equality of every path of an x86-64 machine with a plain loop (property tests). Not verified here:
//! NEON, which needs an Arm machine to run the same tests.
#![allow(unsafe_code)]

use super::gemm::{Epilogue, Gemm, PANEL};
use super::rules::{self, Fma, Operation};
use super::tiles::{self, Tile};
use super::{SimdPath, gemm};
use crate::bits::fma::fma_soft;
use crate::bits::rounding::AdamConstants;

/// Functions of one path; safe to call because [`table`] hands a path out only on a CPU that has it.
pub(super) struct Kernels {
    /// one product
    pub gemm: fn(&mut Gemm),
    /// single operations of rule 1
    pub elementwise: fn(Operation, [&[f32]; 3], &mut [f32]),
    /// z → y
    pub relu: fn(&[f32], &mut [f32]),
    /// y, dy → dz
    pub relu_backward: fn(&[f32], &[f32], &mut [f32]),
    /// dz, stride, rows → db
    pub bias_gradient: fn(&[f32], usize, usize, &mut [f32]),
    /// elements, whether squared → one result a block
    pub reduce_blocks: fn(&[f32], bool, &mut [f32]),
    /// Adam with clipping
    pub adam: Adam,
    /// τ, target, w
    pub polyak: fn(f32, &mut [f32], &[f32]),
    /// the planted fault: one rounding instead of two
    pub polyak_contracted: fn(f32, &mut [f32], &[f32]),
    /// whether any element is not finite
    pub any_not_finite: fn(&[f32]) -> bool,
    /// up to 16 rows of a weight → the columns of a panel
    pub pack_transposed: fn(&[f32], &mut [f32]),
    /// rounds → floating-point operations done
    pub probe: fn(usize) -> u64,
}

/// Constants, k, w, m, v, g.
type Adam = fn(&AdamConstants, f32, &mut [f32], &mut [f32], &mut [f32], &[f32]);

/// The functions of a path, if this CPU has its instructions.
pub(super) fn table(path: SimdPath) -> Option<&'static Kernels> {
    match path {
        SimdPath::Scalar => Some(&scalar::KERNELS),
        #[cfg(target_arch = "x86_64")]
        SimdPath::Avx2 => {
            (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(&avx2::KERNELS)
        }
        #[cfg(target_arch = "x86_64")]
        SimdPath::Avx512 => {
            (is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("fma")).then_some(&avx512::KERNELS)
        }
        #[cfg(target_arch = "aarch64")]
        SimdPath::Neon => std::arch::is_aarch64_feature_detected!("neon").then_some(&neon::KERNELS),
        _ => None,
    }
}

/// The planted fault `flush_to_zero`: this thread flushes subnormal results and reads subnormal operands as zero.
pub(super) fn flush_to_zero() {
    #[cfg(target_arch = "x86_64")]
    {
        let mut mxcsr = 0u32;
        // SAFETY: reads and writes this thread's MXCSR through a live, aligned u32. Code generated for the default
        // floating-point environment then gives flushed results, which is what the fault is for.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack));
            mxcsr |= 1 << 15 | 1 << 6;
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const mxcsr, options(nostack));
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let mut fpcr: u64;
        // SAFETY: reads and writes this thread's FPCR; see above.
        unsafe {
            std::arch::asm!("mrs {}, fpcr", out(reg) fpcr, options(nomem, nostack));
            fpcr |= 1 << 24;
            std::arch::asm!("msr fpcr, {}", in(reg) fpcr, options(nomem, nostack));
        }
    }
}

/// Computes a tile of an instruction set.
#[inline(always)]
pub(super) fn run_tile<I: Isa>(t: &mut Tile) {
    let Tile { rows, columns, vectors, k, .. } = *t;
    let full = columns.div_ceil(I::LANES);
    assert!(rows > 0 && columns > 0 && full <= vectors && columns <= t.c_row, "an empty or too narrow tile");
    let end = |rows: usize, next: usize, rest: usize| (rows - 1).saturating_mul(next).saturating_add(rest);
    assert!(end(rows, t.c_row, columns) <= t.c.len(), "C of a tile");
    if k > 0 {
        assert!(end(rows, t.a.next, end(k, t.a.k, 1)) <= t.a.data.len(), "A of a tile");
        assert!(t.b.next >= I::LANES || full == 1, "vectors of B overlap");
        let last = columns - (full - 1) * I::LANES;
        assert!(end(full, t.b.next, end(k, t.b.k, last)) <= t.b.data.len(), "B of a tile");
    }
    match t.epilogue {
        Epilogue::Store => {}
        Epilogue::Bias(bias) | Epilogue::BiasRelu(bias) => assert!(columns <= bias.len(), "bias of a tile"),
        Epilogue::ReluBackward { y, stride } => assert!(end(rows, stride, columns) <= y.len(), "y of a tile"),
    }
    // SAFETY: the lines above are what `tile` asks for. `I` cannot be named outside this file, and the table gives its
    // functions only to a CPU that has its features.
    unsafe { I::tile(rows, vectors, columns < vectors * I::LANES, t) }
}

/// Vector operations of an instruction set. Callers hold its features.
pub(super) trait Isa: Fma {
    type V: Copy;
    const LANES: usize;
    /// Tile widths in vectors, widest first, each with the most rows that registers allow.
    const WIDTHS: &'static [(usize, usize)];
    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(p: *const f32) -> Self::V;
    unsafe fn store(p: *mut f32, x: Self::V);
    /// The first `n` lanes; the others are +0 and not read.
    unsafe fn load_part(p: *const f32, n: usize) -> Self::V;
    /// The first `n` lanes.
    unsafe fn store_part(p: *mut f32, n: usize, x: Self::V);
    unsafe fn fma_lanes(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn relu(z: Self::V) -> Self::V;
    unsafe fn relu_backward(y: Self::V, dy: Self::V) -> Self::V;
    /// [`tile`] compiled for the instruction set, for one of [`Isa::WIDTHS`] and at most its rows.
    unsafe fn tile(rows: usize, vectors: usize, partial: bool, t: &mut Tile);
}

/// The same pointer, of which the compiler knows nothing. Rows are addressed as one pointer for each three and a
/// stride; the compiler would otherwise walk from row to row, one dependent addition each, and that chain of additions
/// is longer than the tile's arithmetic.
#[inline(always)]
#[expect(clippy::pointers_in_nomem_asm_block, reason = "nothing is read or written through it")]
fn opaque(mut p: *const f32) -> *const f32 {
    // SAFETY: no instruction; the value stays as it is.
    unsafe { std::arch::asm!("/* {} */", inout(reg) p, options(pure, nomem, nostack, preserves_flags)) };
    p
}

/// # Safety
/// The CPU has the features of `I`; `t` passes [`run_tile`]'s checks, has ROWS rows, and unless PARTIAL, VECTORS full
/// vectors of columns.
#[inline(always)]
unsafe fn tile<I: Isa, const ROWS: usize, const VECTORS: usize, const PARTIAL: bool>(t: &mut Tile) {
    // SAFETY: all accesses lie within the tile's rows, columns and k, as the caller promises; with PARTIAL a vector
    // touches only the lanes below `columns`.
    unsafe {
        let columns = t.columns;
        let part = |v: usize| columns.saturating_sub(v * I::LANES).min(I::LANES);
        let load = |p: *const f32, v: usize| if PARTIAL { I::load_part(p, part(v)) } else { I::load(p) };
        let c = t.c.as_mut_ptr();
        let mut acc = [[I::splat(0.0); VECTORS]; ROWS];
        if t.carry {
            for (r, row) in acc.iter_mut().enumerate() {
                for (v, x) in row.iter_mut().enumerate() {
                    *x = load(c.wrapping_add(r * t.c_row + v * I::LANES), v);
                }
            }
        }
        let first = t.a.data.as_ptr();
        let mut a: [*const f32; 4] = std::array::from_fn(|j| opaque(first.wrapping_add(3 * j * t.a.next)));
        let mut b = t.b.data.as_ptr();
        for _ in 0..t.k {
            let mut line = [I::splat(0.0); VECTORS];
            for (v, x) in line.iter_mut().enumerate() {
                *x = load(b.wrapping_add(v * t.b.next), v);
            }
            for (r, row) in acc.iter_mut().enumerate() {
                let x = I::splat(*a[r / 3].wrapping_add(r % 3 * t.a.next));
                for (chain, y) in row.iter_mut().zip(line) {
                    *chain = I::fma_lanes(x, y, *chain);
                }
            }
            a = a.map(|a| a.wrapping_add(t.a.k));
            b = b.wrapping_add(t.b.k);
        }
        for (r, row) in acc.iter().enumerate() {
            for (v, &x) in row.iter().enumerate() {
                let from = |xs: &[f32], at: usize| load(xs.as_ptr().wrapping_add(at + v * I::LANES), v);
                let x = match t.epilogue {
                    Epilogue::Store => x,
                    Epilogue::Bias(bias) => I::add(x, from(bias, 0)),
                    Epilogue::BiasRelu(bias) => I::relu(I::add(x, from(bias, 0))),
                    Epilogue::ReluBackward { y, stride } => I::relu_backward(from(y, r * stride), x),
                };
                let c = c.wrapping_add(r * t.c_row + v * I::LANES);
                if PARTIAL { I::store_part(c, part(v), x) } else { I::store(c, x) }
            }
        }
    }
}

/// Chains of the probe: more than two units of five cycles keep busy.
const PROBE: usize = 12;

/// Nothing but fused multiply-adds on registers: the ceiling that a product's speed is compared with.
#[inline(always)]
fn probe<I: Isa>(rounds: usize) -> u64 {
    // SAFETY: `splat` and `fma_lanes` touch no memory; `lanes` holds one vector. Features are those of the table.
    unsafe {
        let mut chains = [I::splat(1.0); PROBE];
        let (a, b) = (I::splat(std::hint::black_box(0.5)), I::splat(std::hint::black_box(0.25)));
        for _ in 0..rounds {
            for chain in &mut chains {
                *chain = I::fma_lanes(*chain, a, b);
            }
        }
        let mut lanes = [0.0f32; PANEL];
        for chain in chains {
            I::store(lanes.as_mut_ptr(), chain);
            std::hint::black_box(&lanes);
        }
    }
    (2 * rounds * PROBE * I::LANES) as u64
}

/// Functions of [`Isa`] compiled with features.
macro_rules! lanes {
    ($features:literal; $(fn $name:ident($($x:ident: $t:ty),+) $(-> $r:ty)? $body:block)+) => {
        $(#[inline]
        #[target_feature(enable = $features)]
        unsafe fn $name($($x: $t),+) $(-> $r)? $body)+
    };
}

/// Picks the compiled tile by its rows and vectors.
macro_rules! pick_tile {
    ($rows:expr, $vectors:expr, $partial:expr, $t:expr; $($v:literal: $($r:literal)+;)+) => {
        match ($vectors, $rows, $partial) {
            $($(($v, $r, false) => one::<$r, $v, false>($t), ($v, $r, true) => one::<$r, $v, true>($t),)+)+
            _ => unreachable!("no tile of {} rows and {} vectors", $rows, $vectors),
        }
    };
}

/// The table of one instruction set: each function compiled with its features.
macro_rules! kernels {
    ($isa:ty, $pack:path $(, #[$features:meta])?) => {
        pub(super) static KERNELS: Kernels = Kernels {
            gemm: |g| kernels!(@call $($features,)? (g: &mut Gemm) tiles::gemm::<$isa>),
            elementwise: |o, x, out| kernels!(@call $($features,)? (o: Operation, x: [&[f32]; 3], out: &mut [f32]) rules::elementwise::<$isa>),
            relu: |z, y| kernels!(@call $($features,)? (z: &[f32], y: &mut [f32]) rules::relu),
            relu_backward: |y, dy, dz| kernels!(@call $($features,)? (y: &[f32], dy: &[f32], dz: &mut [f32]) rules::relu_backward),
            bias_gradient: |dz, stride, rows, db| kernels!(@call $($features,)? (dz: &[f32], stride: usize, rows: usize, db: &mut [f32]) rules::bias_gradient),
            reduce_blocks: |x, squares, out| kernels!(@call $($features,)? (x: &[f32], squares: bool, out: &mut [f32]) rules::reduce_blocks::<$isa>),
            adam: |c, k, w, m, v, g| kernels!(@call $($features,)? (c: &AdamConstants, k: f32, w: &mut [f32], m: &mut [f32], v: &mut [f32], g: &[f32]) rules::adam),
            polyak: |tau, target, w| kernels!(@call $($features,)? (tau: f32, target: &mut [f32], w: &[f32]) rules::polyak),
            polyak_contracted: |tau, target, w| kernels!(@call $($features,)? (tau: f32, target: &mut [f32], w: &[f32]) rules::polyak_contracted::<$isa>),
            any_not_finite: |x| kernels!(@call $($features,)? (x: &[f32]) -> bool, rules::any_not_finite),
            probe: |rounds| kernels!(@call $($features,)? (rounds: usize) -> u64, probe::<$isa>),
            pack_transposed: |rows, panel| kernels!(@call $($features,)? (rows: &[f32], panel: &mut [f32]) $pack),
        };
    };
    (@call $($features:meta,)? ($($x:ident: $t:ty),+) $body:path) => {
        kernels!(@call $($features,)? ($($x: $t),+) -> (), $body)
    };
    (@call ($($x:ident: $t:ty),+) -> $r:ty, $body:path) => {
        $body($($x),+)
    };
    (@call $features:meta, ($($x:ident: $t:ty),+) -> $r:ty, $body:path) => {{
        #[$features]
        fn compiled($($x: $t),+) -> $r {
            $body($($x),+)
        }
        // SAFETY: this function is reached only through `table`, which gives this path to CPUs that have its features.
        unsafe { compiled($($x),+) }
    }};
}

mod scalar {
    use super::*;

    /// Four elements side by side, in software.
    pub(super) struct Soft;

    impl Fma for Soft {
        #[inline(always)]
        fn fma(a: f32, b: f32, c: f32) -> f32 {
            fma_soft(a, b, c)
        }
    }

    // SAFETY of the blocks below: pointers are valid for the lanes named, as `Isa`'s callers promise.
    impl Isa for Soft {
        type V = [f32; 4];
        const LANES: usize = 4;
        const WIDTHS: &'static [(usize, usize)] = &[(4, 1), (1, 1)];
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self::V {
            [x; 4]
        }
        #[inline(always)]
        unsafe fn load(p: *const f32) -> Self::V {
            unsafe { p.cast::<Self::V>().read_unaligned() }
        }
        #[inline(always)]
        unsafe fn store(p: *mut f32, x: Self::V) {
            unsafe { p.cast::<Self::V>().write_unaligned(x) }
        }
        #[inline(always)]
        unsafe fn load_part(p: *const f32, n: usize) -> Self::V {
            std::array::from_fn(|i| if i < n { unsafe { *p.add(i) } } else { 0.0 })
        }
        #[inline(always)]
        unsafe fn store_part(p: *mut f32, n: usize, x: Self::V) {
            (0..n).for_each(|i| unsafe { *p.add(i) = x[i] });
        }
        #[inline(always)]
        unsafe fn fma_lanes(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
            std::array::from_fn(|i| fma_soft(a[i], b[i], c[i]))
        }
        #[inline(always)]
        unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
            std::array::from_fn(|i| a[i] + b[i])
        }
        #[inline(always)]
        unsafe fn relu(z: Self::V) -> Self::V {
            z.map(|z| if z > 0.0 || z.is_nan() { z } else { 0.0 })
        }
        #[inline(always)]
        unsafe fn relu_backward(y: Self::V, dy: Self::V) -> Self::V {
            std::array::from_fn(|i| if y[i] > 0.0 { dy[i] } else { 0.0 })
        }
        unsafe fn tile(rows: usize, vectors: usize, partial: bool, t: &mut Tile) {
            unsafe fn one<const R: usize, const V: usize, const P: bool>(t: &mut Tile) {
                unsafe { tile::<Soft, R, V, P>(t) }
            }
            unsafe { pick_tile!(rows, vectors, partial, t; 4: 1; 1: 1;) }
        }
    }

    kernels!(Soft, gemm::pack_transposed);
}

/// The hardware's fused multiply-add on one element.
macro_rules! hardware_fma {
    ($isa:ty) => {
        impl Fma for $isa {
            #[inline(always)]
            #[expect(clippy::disallowed_methods, reason = "compiled with FMA: one instruction, no libm")]
            fn fma(a: f32, b: f32, c: f32) -> f32 {
                a.mul_add(b, c)
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::*;
    use std::arch::x86_64::*;

    /// 16 lanes, 32 registers.
    pub(super) struct Avx512;
    hardware_fma!(Avx512);

    #[inline(always)]
    fn mask(n: usize) -> __mmask16 {
        ((1u32 << n) - 1) as __mmask16
    }

    // SAFETY of the blocks below: pointers are valid for the lanes named, as `Isa`'s callers promise.
    impl Isa for Avx512 {
        type V = __m512;
        const LANES: usize = 16;
        const WIDTHS: &'static [(usize, usize)] = &[(4, 6), (2, 12), (1, 12)];
        lanes! { "avx512f,fma";
            fn splat(x: f32) -> Self::V {
                _mm512_set1_ps(x)
            }
            fn load(p: *const f32) -> Self::V {
                unsafe { _mm512_loadu_ps(p) }
            }
            fn store(p: *mut f32, x: Self::V) {
                unsafe { _mm512_storeu_ps(p, x) }
            }
            fn load_part(p: *const f32, n: usize) -> Self::V {
                unsafe { _mm512_maskz_loadu_ps(mask(n), p) }
            }
            fn store_part(p: *mut f32, n: usize, x: Self::V) {
                unsafe { _mm512_mask_storeu_ps(p, mask(n), x) }
            }
            fn fma_lanes(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
                _mm512_fmadd_ps(a, b, c)
            }
            fn add(a: Self::V, b: Self::V) -> Self::V {
                _mm512_add_ps(a, b)
            }
            fn relu(z: Self::V) -> Self::V {
                // "not less or equal" is true for a NaN.
                _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_NLE_UQ>(z, _mm512_setzero_ps()), z)
            }
            fn relu_backward(y: Self::V, dy: Self::V) -> Self::V {
                _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(y, _mm512_setzero_ps()), dy)
            }
        }
        unsafe fn tile(rows: usize, vectors: usize, partial: bool, t: &mut Tile) {
            #[target_feature(enable = "avx512f")]
            unsafe fn one<const R: usize, const V: usize, const P: bool>(t: &mut Tile) {
                unsafe { tile::<Avx512, R, V, P>(t) }
            }
            unsafe {
                pick_tile!(rows, vectors, partial, t;
                    4: 1 2 3 4 5 6;
                    2: 1 2 3 4 5 6 7 8 9 10 11 12;
                    1: 1 2 3 4 5 6 7 8 9 10 11 12;)
            }
        }
    }

    /// [`gemm::pack_transposed`], 16 rows by 16 columns at a time in registers. Loops, not iterators: a closure with
    /// these features is not inlined into an iterator's code, which has none.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn pack_transposed(rows: &[f32], panel: &mut [f32]) {
        let (k, mut done) = (panel.len() / PANEL, 0);
        while rows.len() == PANEL * k && done + PANEL <= k {
            let mut lines = [_mm512_setzero_ps(); PANEL];
            for i in 0..PANEL {
                // SAFETY: the slice has 16 elements.
                lines[i] = unsafe { _mm512_loadu_ps(rows[i * k + done..][..PANEL].as_ptr()) };
            }
            lines = transpose(lines);
            for i in 0..PANEL {
                let line = &mut panel[(done + i) * PANEL..][..PANEL];
                // SAFETY: the slice has 16 elements.
                unsafe { _mm512_storeu_ps(line.as_mut_ptr(), lines[i]) };
            }
            done += PANEL;
        }
        gemm::pack_transposed_from(rows, done, panel);
    }

    /// Transposes 16 by 16: in four rounds, rows s apart exchange the elements whose index has bit s.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn transpose(mut rows: [__m512; PANEL]) -> [__m512; PANEL] {
        let index = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        for s in [8, 4, 2, 1] {
            let bit = _mm512_test_epi32_mask(index, _mm512_set1_epi32(s));
            // Index 16 + j is element j of the second operand.
            let low = _mm512_mask_add_epi32(index, bit, index, _mm512_set1_epi32(16 - s));
            let high =
                _mm512_mask_add_epi32(_mm512_add_epi32(index, _mm512_set1_epi32(s)), bit, index, _mm512_set1_epi32(16));
            let s = s as usize;
            for i in 0..PANEL {
                if i & s == 0 {
                    let (a, b) = (rows[i], rows[i + s]);
                    rows[i] = _mm512_permutex2var_ps(a, low, b);
                    rows[i + s] = _mm512_permutex2var_ps(a, high, b);
                }
            }
        }
        rows
    }

    kernels!(Avx512, pack_transposed, #[target_feature(enable = "avx512f,fma")]);
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::*;
    use std::arch::x86_64::*;

    /// 8 lanes, 16 registers.
    pub(super) struct Avx2;
    hardware_fma!(Avx2);

    #[inline]
    #[target_feature(enable = "avx2")]
    fn mask(n: usize) -> __m256i {
        _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
    }

    // SAFETY of the blocks below: pointers are valid for the lanes named, as `Isa`'s callers promise.
    impl Isa for Avx2 {
        type V = __m256;
        const LANES: usize = 8;
        const WIDTHS: &'static [(usize, usize)] = &[(2, 6), (1, 12)];
        lanes! { "avx2,fma";
            fn splat(x: f32) -> Self::V {
                _mm256_set1_ps(x)
            }
            fn load(p: *const f32) -> Self::V {
                unsafe { _mm256_loadu_ps(p) }
            }
            fn store(p: *mut f32, x: Self::V) {
                unsafe { _mm256_storeu_ps(p, x) }
            }
            fn load_part(p: *const f32, n: usize) -> Self::V {
                unsafe { _mm256_maskload_ps(p, mask(n)) }
            }
            fn store_part(p: *mut f32, n: usize, x: Self::V) {
                unsafe { _mm256_maskstore_ps(p, mask(n), x) }
            }
            fn fma_lanes(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
                _mm256_fmadd_ps(a, b, c)
            }
            fn add(a: Self::V, b: Self::V) -> Self::V {
                _mm256_add_ps(a, b)
            }
            fn relu(z: Self::V) -> Self::V {
                // "not less or equal" is true for a NaN.
                _mm256_and_ps(_mm256_cmp_ps::<_CMP_NLE_UQ>(z, _mm256_setzero_ps()), z)
            }
            fn relu_backward(y: Self::V, dy: Self::V) -> Self::V {
                _mm256_and_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(y, _mm256_setzero_ps()), dy)
            }
        }
        unsafe fn tile(rows: usize, vectors: usize, partial: bool, t: &mut Tile) {
            #[target_feature(enable = "avx2,fma")]
            unsafe fn one<const R: usize, const V: usize, const P: bool>(t: &mut Tile) {
                unsafe { tile::<Avx2, R, V, P>(t) }
            }
            unsafe { pick_tile!(rows, vectors, partial, t; 2: 1 2 3 4 5 6; 1: 1 2 3 4 5 6 7 8 9 10 11 12;) }
        }
    }

    kernels!(Avx2, gemm::pack_transposed, #[target_feature(enable = "avx2,fma")]);
}

#[cfg(target_arch = "aarch64")]
mod neon {
    use super::*;
    use std::arch::aarch64::*;

    /// 4 lanes, 32 registers.
    pub(super) struct Neon;
    hardware_fma!(Neon);

    // SAFETY of the blocks below: pointers are valid for the lanes named, as `Isa`'s callers promise.
    impl Isa for Neon {
        type V = float32x4_t;
        const LANES: usize = 4;
        const WIDTHS: &'static [(usize, usize)] = &[(4, 6), (1, 12)];
        lanes! { "neon";
            fn splat(x: f32) -> Self::V {
                vdupq_n_f32(x)
            }
            fn load(p: *const f32) -> Self::V {
                unsafe { vld1q_f32(p) }
            }
            fn store(p: *mut f32, x: Self::V) {
                unsafe { vst1q_f32(p, x) }
            }
            fn load_part(p: *const f32, n: usize) -> Self::V {
                let mut lanes = [0.0f32; 4];
                unsafe {
                    p.copy_to_nonoverlapping(lanes.as_mut_ptr(), n);
                    vld1q_f32(lanes.as_ptr())
                }
            }
            fn store_part(p: *mut f32, n: usize, x: Self::V) {
                let mut lanes = [0.0f32; 4];
                unsafe {
                    vst1q_f32(lanes.as_mut_ptr(), x);
                    p.copy_from_nonoverlapping(lanes.as_ptr(), n);
                }
            }
            fn fma_lanes(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
                vfmaq_f32(c, a, b)
            }
            fn add(a: Self::V, b: Self::V) -> Self::V {
                vaddq_f32(a, b)
            }
            fn relu(z: Self::V) -> Self::V {
                // "less or equal" is false for a NaN.
                let off = vcleq_f32(z, vdupq_n_f32(0.0));
                vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(z), off))
            }
            fn relu_backward(y: Self::V, dy: Self::V) -> Self::V {
                let on = vcgtq_f32(y, vdupq_n_f32(0.0));
                vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(dy), on))
            }
        }
        unsafe fn tile(rows: usize, vectors: usize, partial: bool, t: &mut Tile) {
            #[target_feature(enable = "neon")]
            unsafe fn one<const R: usize, const V: usize, const P: bool>(t: &mut Tile) {
                unsafe { tile::<Neon, R, V, P>(t) }
            }
            unsafe { pick_tile!(rows, vectors, partial, t; 4: 1 2 3 4 5 6; 1: 1 2 3 4 5 6 7 8 9 10 11 12;) }
        }
    }

    kernels!(Neon, gemm::pack_transposed, #[target_feature(enable = "neon")]);
}
