//! A product cut into tiles: blocks of k, rows and columns, copies of operands that lie too far apart.
//!
//! The cuts decide speed only: a chain that is cut over k goes on from C, and whole tiles come from `simd.rs`.

use std::cell::RefCell;
use std::ops::Range;

use super::aligned::Aligned;
use super::gemm::{self, B, Epilogue, Gemm, PANEL};
use super::simd::{Isa, run_tile};

/// Steps of k after which a chain goes through C, so that the operands in use stay in the second-level cache.
const K_BLOCK: usize = 1024;
/// Rows of C that share the panels in use.
const M_BLOCK: usize = 192;
/// A row-major B that spans this many elements is packed on the way, if there are rows enough to repay it: its rows are
/// then too far apart for the caches and the address translation.
const PACK_SPAN: usize = 1 << 18;
/// Rows of C that repay packing.
const PACK_ROWS: usize = 24;
/// Steps of k at a time of a far-apart B that is not packed: as many rows as the address translation holds.
const SPARSE_K_BLOCK: usize = 64;

/// How a tile walks an operand: from its first element on, elements from row to row (A) or vector to vector (B), and
/// from k to k.
#[derive(Clone, Copy)]
pub(super) struct Walk<'a> {
    pub data: &'a [f32],
    pub next: usize,
    pub k: usize,
}

/// One register tile of C: `rows × columns` chains over `k` steps.
pub(super) struct Tile<'a> {
    pub rows: usize,
    pub columns: usize,
    /// vectors that cover the columns
    pub vectors: usize,
    pub k: usize,
    pub a: Walk<'a>,
    pub b: Walk<'a>,
    /// C from the tile's first element on
    pub c: &'a mut [f32],
    pub c_row: usize,
    /// chains go on from C instead of +0
    pub carry: bool,
    /// slices from the tile's first element on
    pub epilogue: Epilogue<'a>,
}

/// A run of columns that one tile covers.
#[derive(Clone, Copy)]
struct Group {
    first: usize,
    columns: usize,
    vectors: usize,
    /// most rows of its tiles
    rows: usize,
}

/// The group that starts at column `first` of `n`.
#[inline(always)]
fn group<I: Isa>(first: usize, n: usize) -> Group {
    let left = n - first;
    let narrowest = I::WIDTHS[I::WIDTHS.len() - 1];
    let (vectors, rows) = I::WIDTHS.iter().copied().find(|w| w.0 * I::LANES <= left).unwrap_or(narrowest);
    Group { first, columns: left.min(vectors * I::LANES), vectors, rows }
}

/// Cuts a product into tiles.
#[inline(always)]
pub(super) fn gemm<I: Isa>(g: &mut Gemm) {
    g.check();
    // Rows of B that lie together: a chain is carried from part to part of a stack.
    let (part, stride) = match g.b {
        B::Panels(_) => (g.k, 0),
        B::Rows { stride, .. } => (g.k, stride),
        B::Stack(parts) => (g.k / parts.len(), g.n),
    };
    let far = part * stride >= PACK_SPAN;
    let pack = far && g.m >= PACK_ROWS;
    let most = if far && !pack { SPARSE_K_BLOCK } else { K_BLOCK };
    let mut k0 = 0;
    loop {
        let k = (g.k - k0).min(part - if part > 0 { k0 % part } else { 0 }).min(most);
        let rows = match g.b {
            B::Panels(_) => [].as_slice(),
            B::Rows { data, .. } => from(data, k0 * stride),
            B::Stack(parts) if k > 0 => from(parts[k0 / part], k0 % part * stride),
            B::Stack(_) => &[],
        };
        if pack {
            packed_block::<I>(g, (rows, stride), k0, k)
        } else {
            block::<I>(g, (rows, stride), k0, k)
        }
        k0 += k;
        if k0 == g.k {
            return;
        }
    }
}

/// Steps k0 .. k0+k of every chain, operands where they are; `rows` is a row-major B from step k0 on.
#[inline(always)]
fn block<I: Isa>(g: &mut Gemm, (rows, stride): (&[f32], usize), k0: usize, k: usize) {
    for m0 in (0..g.m).step_by(M_BLOCK) {
        let m = (g.m - m0).min(M_BLOCK);
        let mut n0 = 0;
        while n0 < g.n {
            let group = group::<I>(n0, g.n);
            let b = match g.b {
                B::Panels(p) => {
                    let at = (n0 / PANEL) * p.k * PANEL + n0 % PANEL + k0 * PANEL;
                    let next = if I::LANES == PANEL { p.k * PANEL } else { I::LANES };
                    Walk { data: from(&p.data, at), next, k: PANEL }
                }
                _ => Walk { data: from(rows, n0), next: I::LANES, k: stride },
            };
            row_tiles::<I>(g, group, m0..m0 + m, k0, k, b);
            n0 += group.columns;
        }
    }
}

/// The tiles of some rows, as even as can be, A where it is.
#[inline(always)]
fn row_tiles<I: Isa>(g: &mut Gemm, group: Group, rows: Range<usize>, k0: usize, k: usize, b: Walk<'_>) {
    let tiles = rows.len().div_ceil(group.rows);
    for i in 0..tiles {
        let (start, end) = (rows.start + rows.len() * i / tiles, rows.start + rows.len() * (i + 1) / tiles);
        let a = Walk { data: from(g.a, start * g.a_row + k0 * g.a_k), next: g.a_row, k: g.a_k };
        one_tile::<I>(g, group, start..end, k0, k, [a, b]);
    }
}

/// [`block`] with B copied to where the tiles walk straight on, and A too when it is read down its columns.
#[inline(always)]
fn packed_block<I: Isa>(g: &mut Gemm, (rows, stride): (&[f32], usize), k0: usize, k: usize) {
    thread_local!(static COPIES: RefCell<[Aligned; 2]> = RefCell::default());
    COPIES.with_borrow_mut(|[a, b]| {
        let height = group::<I>(0, g.n).rows;
        if g.a_row == 1 {
            a.resize(g.m.next_multiple_of(height) * k);
            gemm::pack_columns(&g.a[k0 * g.a_k..], g.a_k, g.m, k, height, a);
        }
        let mut n0 = 0;
        while n0 < g.n {
            let group = group::<I>(n0, g.n);
            let width = group.vectors * I::LANES;
            b.resize(width * k);
            gemm::pack_rows(&rows[n0..], stride, group.columns, width, b);
            let b = Walk { data: b, next: I::LANES, k: width };
            if g.a_row == 1 {
                for start in (0..g.m).step_by(height) {
                    let a = Walk { data: from(a, start * k), next: 1, k: height };
                    one_tile::<I>(g, group, start..g.m.min(start + height), k0, k, [a, b]);
                }
            } else {
                row_tiles::<I>(g, group, 0..g.m, k0, k, b);
            }
            n0 += group.columns;
        }
    });
}

/// One tile of one block.
#[inline(always)]
fn one_tile<I: Isa>(g: &mut Gemm, group: Group, rows: Range<usize>, k0: usize, k: usize, [a, b]: [Walk<'_>; 2]) {
    let first = group.first;
    let epilogue = match g.epilogue {
        _ if k0 + k < g.k => Epilogue::Store,
        Epilogue::Store => Epilogue::Store,
        Epilogue::Bias(bias) => Epilogue::Bias(&bias[first..]),
        Epilogue::BiasRelu(bias) => Epilogue::BiasRelu(&bias[first..]),
        Epilogue::ReluBackward { y, stride } => Epilogue::ReluBackward { y: &y[rows.start * stride + first..], stride },
    };
    let (c, c_row) = (&mut g.c[rows.start * g.c_row + first..], g.c_row);
    let Group { columns, vectors, .. } = group;
    run_tile::<I>(&mut Tile { rows: rows.len(), columns, vectors, k, a, b, c, c_row, carry: k0 > 0, epilogue });
}

/// The rest of a slice; nothing beyond its end.
fn from(xs: &[f32], at: usize) -> &[f32] {
    xs.get(at..).unwrap_or_default()
}
