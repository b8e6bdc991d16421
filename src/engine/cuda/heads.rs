//! Launches `kernels/heads.cu`: the heads' second layers with the dueling sum, and the gradient entering their first.

use std::rc::Rc;

use super::buffer::{Slice, SliceMut};
use super::compile::{Compiler, source};
use super::device::Device;
use super::error::CudaError;
use super::launch::{Function, Module, Param};
use crate::engine::cpu::Q_VALUES;
use crate::engine::network::{HEAD_OUTPUTS, HEADS};

/// Rows a block takes in a forward pass, one thread an output.
const ROWS: usize = 8;
/// Inputs of each head that a block takes in a weight gradient.
const WIDE: usize = 8;

#[repr(C)]
#[derive(Clone, Copy)]
struct HeadsForward {
    hidden: u64,
    weight: u64,
    bias: u64,
    outputs: u64,
    q: u64,
    rows: u32,
    half: u32,
    stop: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct HeadsBackward {
    dz_outputs: u64,
    weight: u64,
    hidden: u64,
    dz_hidden: u64,
    rows: u32,
    half: u32,
    stop: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct HeadsWeight {
    dz_outputs: u64,
    hidden: u64,
    dw: u64,
    rows: u32,
    half: u32,
    stop: u64,
}

// SAFETY: the kernels' structs of the same names, field by field.
unsafe impl Param for HeadsForward {}
// SAFETY: as above.
unsafe impl Param for HeadsWeight {}
// SAFETY: as above.
unsafe impl Param for HeadsBackward {}

/// The kernels of this file.
#[derive(Debug)]
pub struct Kernels {
    forward: Function<(HeadsForward,)>,
    backward: Function<(HeadsBackward,)>,
    weight_gradient: Function<(HeadsWeight,)>,
}

impl Kernels {
    pub(super) fn load(device: &Rc<Device>, compiler: &Compiler) -> Result<Self, CudaError> {
        let module = Module::load(device, compiler, &source!("heads"))?;
        let forward = Function::of(&module, "heads_forward")?;
        let backward = Function::of(&module, "heads_backward")?;
        Ok(Kernels { forward, backward, weight_gradient: Function::of(&module, "heads_weight_gradient")? })
    }

    /// `hidden` `[rows, 2H]`, `weight` `[16, H/2]`, `bias` `[16]`; gives `outputs` `[rows, 16]` and `q` `[rows, 15]`.
    pub fn forward(
        &self,
        (rows, half): (usize, usize),
        [hidden, weight, bias]: [Slice<'_, f32>; 3],
        [outputs, q]: [SliceMut<'_, f32>; 2],
        stop: Slice<'_, u32>,
    ) -> Result<(), CudaError> {
        assert!(hidden.len() >= rows * HEADS.len() * half && weight.len() == HEAD_OUTPUTS * half, "heads of {half}");
        assert!(bias.len() == HEAD_OUTPUTS && outputs.len() >= rows * HEAD_OUTPUTS && q.len() >= rows * Q_VALUES);
        let args = HeadsForward {
            hidden: hidden.address(),
            weight: weight.address(),
            bias: bias.address(),
            outputs: outputs.address(),
            q: q.address(),
            rows: u32::try_from(rows).expect("rows below 2^32"),
            half: u32::try_from(half).expect("a width below 2^32"),
            stop: stop.address(),
        };
        let grid = u32::try_from(rows.div_ceil(ROWS)).expect("rows below 2^32").max(1);
        // SAFETY: lengths were asserted; outputs are borrowed mutably, so nothing that is read overlaps them.
        unsafe { self.forward.launch(grid, (ROWS * HEAD_OUTPUTS) as u32, 0, (args,)) }
    }

    /// `dz_outputs` `[rows, 16]`, `weight` `[16, H/2]`, `hidden` `[rows, 2H]` after the ReLU; gives `dz_hidden`.
    pub fn backward(
        &self,
        (rows, half): (usize, usize),
        [dz_outputs, weight, hidden]: [Slice<'_, f32>; 3],
        dz_hidden: SliceMut<'_, f32>,
        stop: Slice<'_, u32>,
    ) -> Result<(), CudaError> {
        let n = rows * HEADS.len() * half;
        assert!(dz_outputs.len() >= rows * HEAD_OUTPUTS && weight.len() == HEAD_OUTPUTS * half, "heads of {half}");
        assert!(hidden.len() >= n && dz_hidden.len() >= n, "[{rows}, {}]", HEADS.len() * half);
        let args = HeadsBackward {
            dz_outputs: dz_outputs.address(),
            weight: weight.address(),
            hidden: hidden.address(),
            dz_hidden: dz_hidden.address(),
            rows: u32::try_from(rows).expect("rows below 2^32"),
            half: u32::try_from(half).expect("a width below 2^32"),
            stop: stop.address(),
        };
        // SAFETY: lengths were asserted; the result is borrowed mutably, so nothing that is read overlaps it.
        unsafe { self.backward.over(n as u64, (args,)) }
    }

    /// `dz_outputs` `[rows, 16]`, `hidden` `[rows, 2H]` after the ReLU; gives `dw` `[16, H/2]`.
    pub fn weight_gradient(
        &self,
        (rows, half): (usize, usize),
        [dz_outputs, hidden]: [Slice<'_, f32>; 2],
        dw: SliceMut<'_, f32>,
        stop: Slice<'_, u32>,
    ) -> Result<(), CudaError> {
        assert!(dz_outputs.len() >= rows * HEAD_OUTPUTS && dw.len() == HEAD_OUTPUTS * half, "heads of {half}");
        assert!(hidden.len() >= rows * HEADS.len() * half, "[{rows}, {}]", HEADS.len() * half);
        let args = HeadsWeight {
            dz_outputs: dz_outputs.address(),
            hidden: hidden.address(),
            dw: dw.address(),
            rows: u32::try_from(rows).expect("rows below 2^32"),
            half: u32::try_from(half).expect("a width below 2^32"),
            stop: stop.address(),
        };
        let grid = u32::try_from(half.div_ceil(WIDE)).expect("a width below 2^32").max(1);
        // SAFETY: lengths were asserted; the result is borrowed mutably, so nothing that is read overlaps it.
        unsafe { self.weight_gradient.launch(grid, (WIDE * HEAD_OUTPUTS) as u32, 0, (args,)) }
    }
}
