//! Words that all kernels of a run share, as `kernels/state.cuh` lays them out.

use std::rc::Rc;

use bytemuck::{Pod, Zeroable};

use super::buffer::{Buffer, Slice};
use super::device::Device;
use super::error::CudaError;

/// Where a run stands.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Words {
    /// environment steps of the fold
    pub env_steps: u64,
    /// updates done: Adam's t before an update
    pub updates: u64,
    /// updates of the fold
    pub fold_updates: u64,
    /// smallest (tensor, element) that is not finite; all ones for none
    pub found: u64,
    /// not 0: later kernels write nothing
    pub stop: u32,
    /// launches done
    pub launch: u32,
}

/// Bits of an element's index in [`Words::found`].
const ELEMENT_BITS: u32 = 48;

impl Words {
    /// Nothing done, nothing found.
    pub fn start() -> Self {
        Words { env_steps: 0, updates: 0, fold_updates: 0, found: u64::MAX, stop: 0, launch: 0 }
    }

    /// Tensor (in rule 11's order) and element found not finite.
    pub fn not_finite(&self) -> Option<(u64, usize)> {
        let element = self.found & ((1 << ELEMENT_BITS) - 1);
        (self.found != u64::MAX).then_some((self.found >> ELEMENT_BITS, element as usize))
    }
}

/// The words on the device.
#[derive(Debug)]
pub struct Counters {
    words: Buffer<Words>,
}

impl Counters {
    /// With these values.
    pub fn new(device: &Rc<Device>, words: Words) -> Result<Self, CudaError> {
        Ok(Counters { words: Buffer::of(device, &[words])? })
    }

    /// As they are now, after everything launched before.
    pub fn read(&self) -> Result<Words, CudaError> {
        Ok(self.words.read()?[0])
    }

    /// Overwrites them.
    pub fn write(&mut self, words: Words) -> Result<(), CudaError> {
        self.words.write(0, &[words])
    }

    /// The word that stops later kernels.
    pub fn stop(&self) -> Slice<'_, u32> {
        self.words.all().part(std::mem::offset_of!(Words, stop))
    }

    /// Environment steps, updates, updates of the fold, as tensors of one element.
    pub fn tensors(&self) -> [Slice<'_, u64>; 3] {
        use std::mem::offset_of;
        let places = [offset_of!(Words, env_steps), offset_of!(Words, updates), offset_of!(Words, fold_updates)];
        places.map(|at| self.words.all().part(at))
    }

    /// Where the words lie.
    pub(super) fn address(&self) -> u64 {
        self.words.address()
    }
}
