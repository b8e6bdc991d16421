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
    first: u64,
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

/// Tensors whose fingerprints are taken together, and the fingerprints.
#[derive(Debug)]
pub struct Prints {
    table: Buffer<Bytes>,
    full: u32,
    blocks: u64,
    /// `[slots, tensors]`, in the table's order
    sums: Buffer<[u64; 2]>,
    /// place in the table of each tensor
    order: Vec<usize>,
    places: Vec<(u64, usize)>,
}

fn places(tensors: &[Tensor<'_>]) -> Vec<(u64, usize)> {
    tensors.iter().map(|t| (t.bytes.address(), t.bytes.len())).collect()
}

impl Prints {
    /// Of these tensors, with room for `slots` takings.
    pub fn new(device: &Rc<Device>, tensors: &[Tensor<'_>], slots: usize) -> Result<Self, CudaError> {
        let mut blocks = 0;
        // Those without bytes come last, where no block is theirs.
        let mut order: Vec<usize> = (0..tensors.len()).collect();
        order.sort_by_key(|i| tensors[*i].bytes.is_empty());
        let entry = |i: &usize| {
            let length = tensors[*i].bytes.len() as u64;
            let first = blocks;
            blocks += length.div_ceil(BLOCK as u64);
            Bytes { data: tensors[*i].bytes.address(), length, first }
        };
        let table: Vec<Bytes> = order.iter().map(entry).collect();
        let full = table.iter().filter(|b| b.length > 0).count() as u32;
        let (table, sums) = (Buffer::of(device, &table)?, Buffer::zeroed(device, slots * tensors.len())?);
        Ok(Prints { table, full, blocks, sums, order, places: places(tensors) })
    }

    /// As they were taken last into a slot.
    pub fn read(&self, slot: usize) -> Result<Vec<Fingerprint>, CudaError> {
        let n = self.order.len();
        Ok(self.listed(&self.sums.read_range(slot * n..(slot + 1) * n)?))
    }

    /// A slot's sums in the order of the tensors.
    pub fn listed(&self, sums: &[[u64; 2]]) -> Vec<Fingerprint> {
        let mut found = vec![Fingerprint::default(); self.order.len()];
        self.order.iter().zip(sums).for_each(|(i, sum)| found[*i] = Fingerprint(*sum));
        found
    }

    /// All slots, for a copy to the host.
    pub(super) fn sums(&self) -> &Buffer<[u64; 2]> {
        &self.sums
    }
}

impl Kernels {
    pub(super) fn load(device: &Rc<Device>, compiler: &Compiler) -> Result<Self, CudaError> {
        let module = Module::load(device, compiler, &source!("fingerprint"))?;
        let start = Function::of(&module, "fingerprint_start")?;
        Ok(Kernels { start, blocks: Function::of(&module, "fingerprint_blocks")? })
    }

    /// Takes the fingerprints of the tensors that `prints` was made for, lent again, into a slot.
    pub fn run(&self, prints: &mut Prints, tensors: &[Tensor<'_>], slot: usize) -> Result<(), CudaError> {
        assert_eq!(prints.places, places(tensors), "the tensors that the table was made for");
        let count = u32::try_from(tensors.len()).expect("few tensors");
        let n = tensors.len();
        let (table, sums) = (prints.table.address(), prints.sums.slice(slot * n..(slot + 1) * n).address());
        // SAFETY: the table's entries are the tensors lent; the sums have one place a tensor, changed by atomics.
        unsafe {
            self.start.over(u64::from(count), (table, count, sums))?;
            match prints.blocks {
                0 => Ok(()),
                blocks => self.blocks.over(blocks * 32, (table, prints.full, blocks, sums)),
            }
        }
    }
}
