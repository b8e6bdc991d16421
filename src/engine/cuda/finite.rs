//! Launches `kernels/finite.cu`: rule 11's search, and the word that stops the run.

use std::rc::Rc;

use super::buffer::Slice;
use super::compile::{Compiler, source};
use super::device::Device;
use super::error::CudaError;
use super::launch::{Function, Module};
use super::state::Counters;

/// The kernels of this file.
#[derive(Debug)]
pub struct Kernels {
    find: Function<(u64, u64, u64, u64)>,
    stop: Function<(u64,)>,
}

impl Kernels {
    pub(super) fn load(device: &Rc<Device>, compiler: &Compiler) -> Result<Self, CudaError> {
        let module = Module::load(device, compiler, &source!("finite"))?;
        Ok(Kernels { find: Function::of(&module, "find_not_finite")?, stop: Function::of(&module, "stop_if_found")? })
    }

    /// Looks through one tensor, number `order` of rule 11's list.
    pub fn look(&self, x: Slice<'_, f32>, order: u64, counters: &Counters) -> Result<(), CudaError> {
        assert!(order < 1 << 15, "few tensors");
        // SAFETY: the slice is as long as is said; the word is changed by atomics only.
        unsafe { self.find.over(x.len() as u64, (x.address(), x.len() as u64, order, counters.address())) }
    }

    /// Stops what follows if anything was found.
    pub fn stop(&self, counters: &Counters) -> Result<(), CudaError> {
        // SAFETY: the words are the kernel's own.
        unsafe { self.stop.launch(1, 1, 0, (counters.address(),)) }
    }
}
