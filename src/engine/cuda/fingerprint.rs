//! Launches `kernels/fingerprint.cu`: `fp/1` of many tensors in one launch.

use std::rc::Rc;

use bytemuck::{Pod, Zeroable};

use super::buffer::{Buffer, Slice};
use super::compile::{Compiler, source};
use super::device::Device;
use super::error::CudaError;
use super::launch::{Function, Module};
use crate::digest::fingerprint::{BLOCK, Fingerprint};

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Bytes {
    data: u64,
    length: u64,
    first_block: u64,
}

/// The kernels of this file.
#[derive(Debug)]
pub struct Kernels {
    start: Function<(u64, u32, u64)>,
    blocks: Function<(u64, u32, u64, u64)>,
}

/// Where a tensor's bytes lie, while the buffer that holds them is borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    bytes: Slice<'a, u8>,
}

impl<'a> Tensor<'a> {
    /// Values of a buffer, which begin on a multiple of 4 bytes.
    pub fn of<T: Pod>(values: Slice<'a, T>) -> Self {
        let bytes = values.bytes();
        assert!(bytes.address().is_multiple_of(4), "a tensor begins on a word");
        Tensor { bytes }
    }
}

impl Kernels {
    pub(super) fn load(device: &Rc<Device>, compiler: &Compiler) -> Result<Self, CudaError> {
        let module = Module::load(device, compiler, &source!("fingerprint"))?;
        let start = Function::of(&module, "fingerprint_start")?;
        Ok(Kernels { start, blocks: Function::of(&module, "fingerprint_blocks")? })
    }

    /// Fingerprints of these tensors, read back.
    pub fn run(&self, tensors: &[Tensor<'_>]) -> Result<Vec<Fingerprint>, CudaError> {
        let device = self.start.device();
        let mut blocks = 0;
        // Those without bytes come last, where no block is theirs.
        let mut order: Vec<usize> = (0..tensors.len()).collect();
        order.sort_by_key(|i| tensors[*i].bytes.is_empty());
        let entry = |i: &usize| {
            let length = tensors[*i].bytes.len() as u64;
            let first_block = blocks;
            blocks += length.div_ceil(BLOCK as u64);
            Bytes { data: tensors[*i].bytes.address(), length, first_block }
        };
        let table: Vec<Bytes> = order.iter().map(entry).collect();
        let full = table.iter().filter(|b| b.length > 0).count() as u32;
        let (table, out) = (Buffer::of(device, &table)?, Buffer::<[u64; 2]>::zeroed(device, tensors.len())?);
        let count = u32::try_from(tensors.len()).expect("few tensors");
        // SAFETY: the table's entries lie within borrowed buffers; the results have one place a tensor, changed by atomics.
        unsafe {
            self.start.over(u64::from(count), (table.address(), count, out.address()))?;
            if blocks > 0 {
                self.blocks.over(blocks * 32, (table.address(), full, blocks, out.address()))?;
            }
        }
        let sums = out.read()?;
        let mut found = vec![Fingerprint::default(); tensors.len()];
        order.iter().zip(sums).for_each(|(i, sum)| found[*i] = Fingerprint(sum));
        Ok(found)
    }
}
