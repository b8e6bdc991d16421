//! Launches `kernels/bias_gradient.cu`: rule 3 for up to five layers at a time.

use std::rc::Rc;

use super::buffer::{Slice, SliceMut};
use super::compile::{Compiler, source};
use super::device::Device;
use super::error::CudaError;
use super::launch::{Function, Module, Param};

const LAYERS: usize = 5;
const COLUMNS: usize = 32;
const CHUNKS: u32 = 16;

#[repr(C)]
#[derive(Clone, Copy)]
struct BiasLayer {
    dz: u64,
    db: u64,
    stride: u64,
    width: u32,
    first_block: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct BiasGradient {
    layer: [BiasLayer; LAYERS],
    layers: u32,
    blocks: u32,
    rows: u32,
    stop: u64,
}

// SAFETY: the kernel's struct of the same name, field by field.
unsafe impl Param for BiasGradient {}

/// The kernels of this file.
#[derive(Debug)]
pub struct Kernels {
    bias_gradient: Function<(BiasGradient,)>,
}

/// One layer: `dz` `[rows, width]` row-major, and its sums by column.
#[derive(Debug)]
pub struct Columns<'a> {
    /// dz
    pub dz: Slice<'a, f32>,
    /// `[width]`
    pub db: SliceMut<'a, f32>,
}

impl Kernels {
    pub(super) fn load(device: &Rc<Device>, compiler: &Compiler) -> Result<Self, CudaError> {
        let module = Module::load(device, compiler, &source!("bias_gradient"))?;
        Ok(Kernels { bias_gradient: Function::of(&module, "bias_gradient")? })
    }

    /// Bias gradients of at most five layers over `rows` rows.
    pub fn run(&self, rows: usize, columns: &mut [Columns<'_>], stop: Slice<'_, u32>) -> Result<(), CudaError> {
        assert!((1..=LAYERS).contains(&columns.len()), "1 to {LAYERS} layers");
        let none = BiasLayer { dz: 0, db: 0, stride: 0, width: 0, first_block: 0 };
        let (mut layer, mut blocks) = ([none; LAYERS], 0);
        for (to, c) in layer.iter_mut().zip(columns.iter()) {
            let width = c.db.len();
            assert!(c.dz.len() >= rows * width, "dz of [{rows}, {width}]");
            let (dz, db, first_block) = (c.dz.address(), c.db.address(), blocks);
            *to = BiasLayer { dz, db, stride: width as u64, width: width as u32, first_block };
            blocks += u32::try_from(width.div_ceil(COLUMNS)).expect("a width below 2^32");
        }
        let rows = u32::try_from(rows).expect("rows below 2^32");
        let args = BiasGradient { layer, layers: columns.len() as u32, blocks, rows, stop: stop.address() };
        // SAFETY: lengths were asserted; sums are borrowed mutably, so nothing that is read overlaps them.
        unsafe { self.bias_gradient.launch(blocks.max(1), COLUMNS as u32 * CHUNKS, 0, (args,)) }
    }
}
