//! Launches `kernels/init.cu`: initial weights from a stream of the tensor's own.

use std::rc::Rc;

use super::buffer::SliceMut;
use super::compile::{Compiler, source};
use super::device::Device;
use super::error::CudaError;
use super::launch::{Function, Module};
use crate::bits::philox::Key;

/// The kernels of this file.
#[derive(Debug)]
pub struct Kernels {
    initial_weights: Function<(u64, u64, u32, u32, f32)>,
}

impl Kernels {
    pub(super) fn load(device: &Rc<Device>, compiler: &Compiler) -> Result<Self, CudaError> {
        let module = Module::load(device, compiler, &source!("init"))?;
        Ok(Kernels { initial_weights: Function::of(&module, "initial_weights")? })
    }

    /// Uniform in ±`scale`.
    pub fn run(&self, w: SliceMut<'_, f32>, key: Key, scale: f32) -> Result<(), CudaError> {
        let n = w.len() as u64;
        // SAFETY: the slice is as long as is said, and borrowed mutably.
        unsafe { self.initial_weights.over(n, (w.address(), n, key[0], key[1], scale)) }
    }
}
