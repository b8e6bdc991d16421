//! Launches `kernels/log.cu`: what a step leaves for the host, and the word that says that a launch is done.

use std::rc::Rc;

use bytemuck::{Pod, Zeroable};

use super::buffer::{Buffer, Slice};
use super::compile::{Compiler, source};
use super::device::Device;
use super::error::CudaError;
use super::launch::{Function, Module};
use super::pinned::Pinned;
use super::state::Counters;

/// Numbers of one step.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct Entry {
    /// loss
    pub loss: f32,
    /// norm
    pub norm: f32,
    /// not 0: the run had stopped
    pub stop: u32,
    unused: u32,
}

/// The kernels of this file.
#[derive(Debug)]
pub struct Kernels {
    step: Function<(u64, u64, u64, u64)>,
    end: Function<(u64, u64)>,
}

impl Kernels {
    pub(super) fn load(device: &Rc<Device>, compiler: &Compiler) -> Result<Self, CudaError> {
        let module = Module::load(device, compiler, &source!("log"))?;
        Ok(Kernels { step: Function::of(&module, "log_step")?, end: Function::of(&module, "end_launch")? })
    }

    /// Loss, norm and stop of the step just done into entry `slot`.
    pub fn step(
        &self,
        counters: &Counters,
        [loss, norm]: [Slice<'_, f32>; 2],
        entries: &mut Buffer<Entry>,
        slot: usize,
    ) -> Result<(), CudaError> {
        let entry = entries.slice_mut(slot..slot + 1).address();
        // SAFETY: one value each, one entry, borrowed mutably.
        unsafe { self.step.launch(1, 1, 0, (counters.address(), loss.address(), norm.address(), entry)) }
    }

    /// Counts the launch and writes its number into the word.
    pub fn end(&self, counters: &Counters, word: &Pinned<u32>) -> Result<(), CudaError> {
        // SAFETY: the word is mapped for the device and holds one value.
        unsafe { self.end.launch(1, 1, 0, (counters.address(), word.on_device())) }
    }
}
