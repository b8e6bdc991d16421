//! The chain GEMM of rule 2 as a description: operands, layouts, what happens to a finished element.
//!
//! `C[m][n] = fma(A[m][k], B[k][n], …)`, k ascending from +0: one chain per element. The three products of a layer are
//! the three ways to describe operands: forward (A row-major, B packed from Wᵀ), input gradient (A row-major, B the
//! weight as it lies), weight gradient (A read down its columns, B row-major). [`Gemm::check`] refuses operands that
//! are too short.

use super::aligned::Aligned;

/// Columns of one packed panel; all paths share the format, so a packed copy has the same bytes on each of them.
pub const PANEL: usize = 16;

/// Wᵀ `[k, n]` of a weight `[n, k]`, packed for the B side: panels of [`PANEL`] columns, each `[k][16]`, the last
/// padded with +0.
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
    /// A zeroed packing.
    pub fn new(k: usize, n: usize) -> Self {
        Panels { k, n, data: Aligned::zeros(n.div_ceil(PANEL) * PANEL * k) }
    }

    /// Packs a row-major weight `[n, k]`: the B side of a forward pass.
    pub fn transposed(weight: &[f32], k: usize, n: usize) -> Self {
        let mut panels = Panels::new(k, n);
        for (rows, panel) in weight.chunks(k * PANEL).zip(panels.panels_mut()) {
            pack_transposed(rows, panel);
        }
        panels
    }

    /// The panels, each `[k][16]`.
    pub(super) fn panels_mut(&mut self) -> impl Iterator<Item = &mut [f32]> {
        self.data.chunks_exact_mut(self.k * PANEL)
    }
}

/// Packs up to 16 rows of a weight as the columns of one panel `[k][16]`; columns without a row stay as they are.
#[inline(always)]
pub(super) fn pack_transposed(rows: &[f32], panel: &mut [f32]) {
    pack_transposed_from(rows, 0, panel);
}

/// The same from column `first` of the rows on.
#[inline(always)]
pub(super) fn pack_transposed_from(rows: &[f32], first: usize, panel: &mut [f32]) {
    let (lines, _) = panel.as_chunks_mut::<PANEL>();
    for (j, row) in rows.chunks_exact(lines.len()).enumerate() {
        for (line, x) in lines.iter_mut().zip(row).skip(first) {
            line[j] = *x;
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
    /// row-major matrices of n columns without gaps, one below the other; equal in rows
    Stack(&'a [&'a [f32]]),
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
            B::Stack(parts) => {
                assert!(!parts.is_empty(), "B has no parts");
                assert!(
                    parts.iter().all(|p| Some(p.len()) == k.checked_mul(n).map(|kn| kn / parts.len())),
                    "B's parts"
                );
                assert!(k.is_multiple_of(parts.len()), "parts of equal rows");
            }
        }
        assert!(self.c_row >= n && fits(self.c.len(), m, n, self.c_row), "C is too short or its rows overlap");
        match self.epilogue {
            Epilogue::Store => {}
            Epilogue::Bias(bias) | Epilogue::BiasRelu(bias) => assert!(bias.len() >= n, "bias is too short"),
            Epilogue::ReluBackward { y, stride } => assert!(fits(y.len(), m, n, stride), "y is too short"),
        }
    }
}
