//! Launches `kernels/finite.cu`: rule 11's search through tensors, and the word that stops the run.

use std::rc::Rc;

use bytemuck::{Pod, Zeroable};

use super::buffer::{Buffer, Slice};
use super::compile::{Compiler, source};
use super::device::Device;
use super::error::CudaError;
use super::launch::{Function, Module};
use super::state::Counters;

const CHUNK: u64 = 4096;

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Floats {
    data: u64,
    length: u64,
    order: u64,
    first: u64,
}

/// The kernels of this file.
#[derive(Debug)]
pub struct Kernels {
    find: Function<(u64, u32, u64, u64)>,
    stop: Function<(u64,)>,
}

/// Tensors that are looked through together.
#[derive(Debug)]
pub struct Search {
    table: Buffer<Floats>,
    chunks: u64,
    places: Vec<(u64, usize)>,
}

impl Search {
    /// Through these tensors, the first of which has this number in rule 11's order.
    pub fn new(device: &Rc<Device>, number: u64, tensors: &[Slice<'_, f32>]) -> Result<Self, CudaError> {
        let mut chunks = 0;
        let entry = |(i, x): (usize, &Slice<'_, f32>)| {
            let (length, first) = (x.len() as u64, chunks);
            chunks += length.div_ceil(CHUNK);
            Floats { data: x.address(), length, order: number + i as u64, first }
        };
        // A tensor without elements has no chunk, and none may be taken for its own.
        let full = tensors.iter().enumerate().filter(|(_, x)| !x.is_empty());
        let table: Vec<Floats> = full.map(entry).collect();
        Ok(Search { table: Buffer::of(device, &table)?, chunks, places: places(tensors) })
    }
}

fn places(tensors: &[Slice<'_, f32>]) -> Vec<(u64, usize)> {
    tensors.iter().map(|x| (x.address(), x.len())).collect()
}

impl Kernels {
    pub(super) fn load(device: &Rc<Device>, compiler: &Compiler) -> Result<Self, CudaError> {
        let module = Module::load(device, compiler, &source!("finite"))?;
        Ok(Kernels { find: Function::of(&module, "find_not_finite")?, stop: Function::of(&module, "stop_if_found")? })
    }

    /// Looks through the search's tensors, lent again; what follows is stopped if anything was found.
    pub fn run(&self, search: &Search, tensors: &[Slice<'_, f32>], counters: &Counters) -> Result<(), CudaError> {
        assert_eq!(search.places, places(tensors), "the tensors that the search was made for");
        let (table, count) = (search.table.address(), search.table.len() as u32);
        let most = u64::from(self.find.device().multiprocessors()) * 8;
        let grid = search.chunks.clamp(1, most) as u32;
        // SAFETY: the table's entries are the tensors lent; the words are the kernels' own.
        unsafe {
            if search.chunks > 0 {
                self.find.launch(grid, 256, 0, (table, count, search.chunks, counters.address()))?;
            }
            self.stop.launch(1, 1, 0, (counters.address(),))
        }
    }
}
