//! Launches `kernels/gemm.cu`: products by rule 2's chains, with the epilogue fused.

use std::rc::Rc;

use super::buffer::{Slice, SliceMut};
use super::compile::{Compiler, Source, source};
use super::device::Device;
use super::error::CudaError;
use super::launch::{Function, Module, Param};

/// A tile shape; bits do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// rows and columns a thread computes
    pub thread: (u32, u32),
    /// warps of 4 × 8 lanes down and across
    pub warps: (u32, u32),
    /// steps of k a stage
    pub depth: u32,
    /// stages in shared memory
    pub stages: u32,
    /// steps of k by which a thread fetches its operands ahead
    pub ahead: u32,
}

/// Tile shapes from large to small; each fits into the 64 KiB of shared memory of the oldest architecture.
pub const TILES: [Tile; 5] = [
    Tile { thread: (8, 8), warps: (4, 2), depth: 16, stages: 3, ahead: 1 },
    Tile { thread: (8, 8), warps: (2, 2), depth: 16, stages: 4, ahead: 1 },
    Tile { thread: (4, 8), warps: (4, 1), depth: 16, stages: 4, ahead: 2 },
    Tile { thread: (2, 4), warps: (4, 1), depth: 32, stages: 3, ahead: 4 },
    Tile { thread: (2, 2), warps: (2, 1), depth: 32, stages: 4, ahead: 8 },
];

impl Tile {
    /// Rows and columns of C a block computes.
    pub fn block(&self) -> (u32, u32) {
        (self.warps.0 * 4 * self.thread.0, self.warps.1 * 8 * self.thread.1)
    }

    fn threads(&self) -> u32 {
        self.warps.0 * self.warps.1 * 32
    }

    /// Bytes of shared memory.
    fn shared(&self) -> u32 {
        let (m, n) = self.block();
        self.stages * self.depth * (m + 4 + n + 4) * 4
    }

    /// The source with this shape.
    pub fn source(&self) -> Source {
        let defines = vec![
            ("TM", self.thread.0),
            ("TN", self.thread.1),
            ("WM", self.warps.0),
            ("WN", self.warps.1),
            ("BK", self.depth),
            ("STAGES", self.stages),
            ("AHEAD", self.ahead),
        ];
        Source { defines, ..source!("gemm") }
    }
}

/// A matrix read by a product: element (row, k) of A, or (column, k) of B.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// its elements, from the first on
    pub data: Slice<'a, f32>,
    /// elements between neighbours in the outer dimension
    pub stride: usize,
    /// whether neighbours in memory are neighbours in k, else in rows (columns)
    pub k_inner: bool,
}

/// What happens to a finished chain.
#[derive(Clone, Copy, Debug)]
pub enum Epilogue<'a> {
    /// stored as it is
    Store,
    /// plus bias
    Bias(Slice<'a, f32>),
    /// plus bias, then the ReLU
    BiasRelu(Slice<'a, f32>),
    /// where `y > 0`, else +0
    ReluBackward {
        /// element (m, n) at `m · stride + n`
        y: Slice<'a, f32>,
        /// elements between rows
        stride: usize,
    },
}

/// One product.
#[derive(Debug)]
pub struct Product<'a> {
    /// rows, columns, length of the chains
    pub size: (usize, usize, usize),
    /// A
    pub a: Operand<'a>,
    /// B
    pub b: Operand<'a>,
    /// C, from element (0, 0) on
    pub c: SliceMut<'a, f32>,
    /// elements between rows of C
    pub c_stride: usize,
    /// the last step
    pub epilogue: Epilogue<'a>,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Gemm {
    a: u64,
    b: u64,
    c: u64,
    bias: u64,
    y: u64,
    lda: u64,
    ldb: u64,
    ldc: u64,
    ldy: u64,
    m: u32,
    n: u32,
    k: u32,
    vector_a: u32,
    vector_b: u32,
    vector_c: u32,
    stop: u64,
}

// SAFETY: the kernel's struct of the same name, field by field.
unsafe impl Param for Gemm {}

const NAMES: [&str; 7] = [
    "gemm_kk_store",
    "gemm_kn_store",
    "gemm_mk_store",
    "gemm_mn_store",
    "gemm_kk_bias",
    "gemm_kk_bias_relu",
    "gemm_kn_relu_backward",
];

#[derive(Debug)]
struct Shaped {
    tile: Tile,
    functions: Vec<Function<(Gemm,)>>,
    resident: u32,
}

/// The kernels of this file.
#[derive(Debug)]
pub struct Kernels {
    shapes: Vec<Shaped>,
}

impl Shaped {
    fn load(device: &Rc<Device>, compiler: &Compiler, tile: Tile) -> Result<Self, CudaError> {
        let module = Module::load(device, compiler, &tile.source())?;
        let functions = NAMES.iter().map(|name| Function::of(&module, name)).collect::<Result<Vec<_>, _>>()?;
        functions.iter().try_for_each(|f| f.allow_shared(tile.shared()))?;
        let mut resident = u32::MAX;
        for function in &functions {
            resident = resident.min(function.resident(tile.threads(), tile.shared())?);
        }
        Ok(Shaped { tile, functions, resident })
    }

    fn blocks(&self, m: usize, n: usize) -> u64 {
        let (rows, columns) = self.tile.block();
        (m as u64).div_ceil(u64::from(rows)) * (n as u64).div_ceil(u64::from(columns))
    }
}

impl Kernels {
    /// Compiles and loads every tile shape.
    pub(super) fn load(device: &Rc<Device>, compiler: &Compiler) -> Result<Self, CudaError> {
        Kernels::with(device, compiler, &TILES)
    }

    /// Only these tile shapes.
    pub fn with(device: &Rc<Device>, compiler: &Compiler, tiles: &[Tile]) -> Result<Self, CudaError> {
        let shapes = tiles.iter().map(|tile| Shaped::load(device, compiler, *tile)).collect::<Result<_, _>>()?;
        Ok(Kernels { shapes })
    }

    /// The largest shape whose blocks fill the device, else the smallest.
    fn pick(&self, m: usize, n: usize) -> &Shaped {
        let device = self.shapes[0].functions[0].device();
        let wanted = u64::from(device.multiprocessors());
        let full = self.shapes.iter().find(|s| s.blocks(m, n) >= wanted);
        full.unwrap_or(&self.shapes[self.shapes.len() - 1])
    }

    /// One product.
    pub fn run(&self, product: Product<'_>, stop: Slice<'_, u32>) -> Result<(), CudaError> {
        let (m, n, _) = product.size;
        if m == 0 || n == 0 {
            return Ok(());
        }
        let shaped = self.pick(m, n);
        let (index, args) = arguments(&product, stop);
        let function = &shaped.functions[index];
        let most = u64::from(shaped.resident) * u64::from(function.device().multiprocessors());
        let grid = shaped.blocks(m, n).min(most);
        // SAFETY: bounds were asserted in `arguments`; C is borrowed mutably, so nothing that is read overlaps it; one stream
        // orders the launch among the others.
        unsafe { function.launch(grid as u32, shaped.tile.threads(), shaped.tile.shared(), (args,)) }
    }
}

/// Panics unless a `[outer, inner]` matrix of this stride lies within `len` elements.
fn fits(len: usize, outer: usize, inner: usize, stride: usize, what: &str) {
    let end = if outer == 0 || inner == 0 { 0 } else { (outer - 1) * stride + inner };
    assert!(stride >= inner && end <= len, "{what}: [{outer}, {inner}] by {stride} in {len} elements");
}

fn operand(x: &Operand<'_>, outer: usize, k: usize, what: &str) -> (u64, u64, u32) {
    let (rows, columns) = if x.k_inner { (outer, k) } else { (k, outer) };
    fits(x.data.len(), rows, columns, x.stride, what);
    let vector = x.data.address().is_multiple_of(16) && x.stride.is_multiple_of(4);
    (x.data.address(), x.stride as u64, u32::from(vector))
}

/// Which kernel, and its arguments.
fn arguments(p: &Product<'_>, stop: Slice<'_, u32>) -> (usize, Gemm) {
    let (m, n, k) = p.size;
    let (a, lda, vector_a) = operand(&p.a, m, k, "A");
    let (b, ldb, vector_b) = operand(&p.b, n, k, "B");
    fits(p.c.len(), m, n, p.c_stride, "C");
    assert!(!stop.is_empty(), "a word that stops");
    let vector_c = u32::from(p.c.address().is_multiple_of(16) && p.c_stride.is_multiple_of(4));
    let (mut bias, mut y, mut ldy) = (0, 0, 0);
    let layouts = (p.a.k_inner, p.b.k_inner);
    let index = match (p.epilogue, layouts) {
        (Epilogue::Store, (true, true)) => 0,
        (Epilogue::Store, (true, false)) => 1,
        (Epilogue::Store, (false, true)) => 2,
        (Epilogue::Store, (false, false)) => 3,
        (Epilogue::Bias(b) | Epilogue::BiasRelu(b), (true, true)) => {
            assert!(b.len() >= n, "bias of {n} columns");
            bias = b.address();
            if matches!(p.epilogue, Epilogue::Bias(_)) { 4 } else { 5 }
        }
        (Epilogue::ReluBackward { y: of, stride }, (true, false)) => {
            fits(of.len(), m, n, stride, "y");
            (y, ldy) = (of.address(), stride as u64);
            6
        }
        (epilogue, layouts) => panic!("no kernel for {epilogue:?} with k inner {layouts:?}"),
    };
    let size = |x: usize| u32::try_from(x).expect("a dimension below 2^32");
    let (m, n, k) = (size(m), size(n), size(k));
    let (c, ldc, stop) = (p.c.address(), p.c_stride as u64, stop.address());
    (index, Gemm { a, b, c, bias, y, lda, ldb, ldc, ldy, m, n, k, vector_a, vector_b, vector_c, stop })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would fail if a tile asked for more than an architecture has, or a smaller one stood before a larger.
    #[test]
    fn tiles_fit_and_are_in_order() {
        for tile in TILES {
            assert!(tile.shared() <= 64 << 10 && tile.threads() <= 1024, "{tile:?}");
            assert!(tile.threads().is_multiple_of(tile.depth) && tile.ahead < tile.depth, "{tile:?}");
        }
        let areas = TILES.map(|t| t.block().0 * t.block().1);
        assert!(areas.is_sorted_by(|a, b| a > b), "{areas:?}");
    }

    /// Would fail if a matrix that reaches past its buffer, or whose rows overlap, were taken.
    #[test]
    #[should_panic(expected = "A: [3, 4] by 4 in 11 elements")]
    fn a_matrix_lies_within_its_buffer() {
        fits(11, 3, 4, 4, "A");
    }
}
