//! The chain GEMM of rule 2 as a description: operands, layouts, what happens to a finished element.
//!
//! `C[m][n] = fma(A[m][k], B[k][n], …)`, k ascending from +0: one chain per element. The three products of a layer are
//! the three ways to describe operands: forward (A row-major, B packed from Wᵀ), input gradient (A row-major, B packed
//! from W), weight gradient (A read down its columns, B row-major). [`Gemm::check`] is what the unsafe tiles rely on.

use super::aligned::Aligned;

/// Columns of one packed panel; all paths share the format, so a packed copy has the same bytes on each of them.
pub const PANEL: usize = 16;

/// A matrix `[k, n]` packed for the B side: panels of [`PANEL`] columns, each `[k][16]`, the last padded with +0.
#[derive(Clone, Debug, Default)]
pub struct Panels {
    /// rows k of the packed matrix: the length of the chains
    pub k: usize,
    /// columns n, without padding
    pub n: usize,
    /// `ceil(n / 16)` panels of `k · 16` elements
    pub data: Aligned,
}

impl Panels {
    /// A zeroed packing of a `[k, n]` matrix.
    pub fn new(k: usize, n: usize) -> Self {
        Panels { k, n, data: Aligned::zeros(n.div_ceil(PANEL) * PANEL * k) }
    }

    /// Packs Wᵀ of a row-major weight `[n, k]`: the B side of a forward pass.
    pub fn transposed(weight: &[f32], k: usize, n: usize) -> Self {
        let mut panels = Panels::new(k, n);
        for p in 0..n.div_ceil(PANEL) {
            let rows: Vec<&[f32]> = (p * PANEL..n.min((p + 1) * PANEL)).map(|o| &weight[o * k..(o + 1) * k]).collect();
            pack_transposed(&rows, panels.panel(p));
        }
        panels
    }

    /// Packs a row-major matrix `[k, n]` as it is: the B side of an input gradient.
    pub fn straight(matrix: &[f32], k: usize, n: usize) -> Self {
        let mut panels = Panels::new(k, n);
        for p in 0..n.div_ceil(PANEL) {
            pack_straight((0..k).map(|i| &matrix[i * n..(i + 1) * n]), p, panels.panel(p));
        }
        panels
    }

    fn panel(&mut self, p: usize) -> &mut [f32] {
        let size = self.k * PANEL;
        &mut self.data[p * size..(p + 1) * size]
    }
}

/// Packs up to 16 rows of equal length k as the columns of one panel `[k][16]`; columns without a row stay as they are.
#[inline(always)]
pub(super) fn pack_transposed(rows: &[&[f32]], panel: &mut [f32]) {
    let (lines, _) = panel.as_chunks_mut::<PANEL>();
    if let Ok(rows) = <&[&[f32]; PANEL]>::try_from(rows) {
        let rows = rows.map(|row| &row[..lines.len()]);
        for (i, line) in lines.iter_mut().enumerate() {
            for (out, row) in line.iter_mut().zip(&rows) {
                *out = row[i];
            }
        }
        return;
    }
    for (j, row) in rows.iter().enumerate() {
        for (line, x) in lines.iter_mut().zip(*row) {
            line[j] = *x;
        }
    }
}

/// Copies columns `16p ..` of the rows into panel `p`, one line a row.
pub(super) fn pack_straight<'a>(rows: impl Iterator<Item = &'a [f32]>, p: usize, panel: &mut [f32]) {
    let (lines, _) = panel.as_chunks_mut::<PANEL>();
    for (line, row) in lines.iter_mut().zip(rows) {
        let part = &row[p * PANEL..];
        match part.first_chunk::<PANEL>() {
            Some(full) => *line = *full,
            None => line[..part.len()].copy_from_slice(part),
        }
    }
}

/// Columns that [`pack_columns`] copies before it goes on to the next row.
const STRIP: usize = 192;

/// Packs columns of rows `stride` apart for the A side: `out` is `[columns / height][rows][height]`, rows `k`, the last
/// tile with whatever stood there.
#[inline(always)]
pub(super) fn pack_columns(data: &[f32], stride: usize, columns: usize, k: usize, height: usize, out: &mut [f32]) {
    for strip in (0..columns).step_by(STRIP / height * height) {
        let end = columns.min(strip + STRIP / height * height);
        for (i, row) in data.chunks(stride).take(k).enumerate() {
            for (j, part) in row[strip..end].chunks(height).enumerate() {
                let at = (strip + j * height) * k + i * height;
                out[at..at + part.len()].copy_from_slice(part);
            }
        }
    }
}

/// Copies `columns` of rows `stride` apart into rows of `width`; the rest of a row stays as it is.
#[inline(always)]
pub(super) fn pack_rows(data: &[f32], stride: usize, columns: usize, width: usize, out: &mut [f32]) {
    for (line, row) in out.chunks_exact_mut(width).zip(data.chunks(stride)) {
        line[..columns].copy_from_slice(&row[..columns]);
    }
}

/// The B side of a product.
#[derive(Clone, Copy, Debug)]
pub enum B<'a> {
    /// packed
    Panels(&'a Panels),
    /// row-major `[k, n]`, `stride` elements from row to row
    Rows {
        /// from element (0, 0) on
        data: &'a [f32],
        /// elements between rows
        stride: usize,
    },
}

/// What a finished chain goes through before it is stored.
#[derive(Clone, Copy, Debug)]
pub enum Epilogue<'a> {
    /// nothing
    Store,
    /// `acc + bias[n]`
    Bias(&'a [f32]),
    /// `z = acc + bias[n]; (z > 0 or z is NaN) ? z : +0`
    BiasRelu(&'a [f32]),
    /// `y[m][n] > 0 ? acc : +0`: backward of the ReLU whose output was y
    ReluBackward {
        /// from element (0, 0) on
        y: &'a [f32],
        /// elements between rows
        stride: usize,
    },
}

/// One product `C[m][n]`, chains of length k.
#[derive(Debug)]
pub struct Gemm<'a> {
    /// rows of C
    pub m: usize,
    /// columns of C
    pub n: usize,
    /// length of the chains; 0 gives +0
    pub k: usize,
    /// element (m, k) at `m · a_row + k · a_k`
    pub a: &'a [f32],
    /// elements between rows of A
    pub a_row: usize,
    /// elements between columns of A
    pub a_k: usize,
    /// B `[k, n]`
    pub b: B<'a>,
    /// C, from element (0, 0) on
    pub c: &'a mut [f32],
    /// elements between rows of C
    pub c_row: usize,
    /// the last step
    pub epilogue: Epilogue<'a>,
}

/// Whether a `[rows, columns]` matrix with this row stride lies within `len` elements.
fn fits(len: usize, rows: usize, columns: usize, stride: usize) -> bool {
    let end = || (rows - 1).checked_mul(stride)?.checked_add(columns);
    rows == 0 || columns == 0 || end().is_some_and(|end| end <= len)
}

impl Gemm<'_> {
    /// Panics unless every element that the product reads or writes lies within its slice, and rows of C are apart.
    pub fn check(&self) {
        let Gemm { m, n, k, .. } = *self;
        // A's last element, whichever way it is walked.
        let last = || (m - 1).checked_mul(self.a_row)?.checked_add((k - 1).checked_mul(self.a_k)?);
        assert!(m == 0 || k == 0 || last().is_some_and(|last| last < self.a.len()), "A is too short");
        match self.b {
            B::Panels(p) => {
                assert!(p.k == k && p.n == n, "B is packed for [{}, {}], the product needs [{k}, {n}]", p.k, p.n);
                assert!(p.data.len() >= n.div_ceil(PANEL) * PANEL * k, "packed B is too short");
            }
            B::Rows { data, stride } => assert!(fits(data.len(), k, n, stride), "B is too short"),
        }
        assert!(self.c_row >= n && fits(self.c.len(), m, n, self.c_row), "C is too short or its rows overlap");
        match self.epilogue {
            Epilogue::Store => {}
            Epilogue::Bias(bias) | Epilogue::BiasRelu(bias) => assert!(bias.len() >= n, "bias is too short"),
            Epilogue::ReluBackward { y, stride } => assert!(fits(y.len(), m, n, stride), "y is too short"),
        }
    }
}
