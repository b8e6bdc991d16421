//! Launches `kernels/reduce.cu`: rule 4 over named tensors, the norm and the clip factor.

use std::ops::Range;
use std::rc::Rc;

use bytemuck::{Pod, Zeroable};

use super::buffer::{Buffer, Slice};
use super::compile::{Compiler, source};
use super::device::Device;
use super::error::CudaError;
use super::launch::{Function, Module};
use crate::engine::cpu::rules::REDUCE_BLOCK;

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Segment {
    offset: u64,
    length: u64,
    first: u64,
}

/// What is known once all tensors are reduced.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct Total {
    /// over the tensors' results
    pub sum: f32,
    /// its square root
    pub norm: f32,
    /// clip factor under the limit
    pub k: f32,
    /// the sum times the scale
    pub scaled: f32,
}

type Blocks = (u64, u64, u32, u64, u32, u64, u64);
type Segments = (u64, u64, u32, u64, u64, u64, f32, f32, u64, u64);

/// The kernels of this file.
#[derive(Debug)]
pub struct Kernels {
    blocks: Function<Blocks>,
    segments: Function<Segments>,
}

/// Tensors of one buffer that are reduced together, and the memory that takes.
#[derive(Debug)]
pub struct Reduction {
    segments: Buffer<Segment>,
    blocks: u64,
    needs: usize,
    partial: Buffer<f32>,
    results: Buffer<f32>,
    scratch: Buffer<f32>,
    arrived: Buffer<u32>,
    total: Buffer<Total>,
}

impl Reduction {
    /// Over the first `len` elements of a buffer, as one tensor.
    pub fn of_one(device: &Rc<Device>, len: usize) -> Result<Self, CudaError> {
        Reduction::new(device, std::slice::from_ref(&(0..len)))
    }

    /// Over these ranges of a buffer, none of them empty.
    pub fn new(device: &Rc<Device>, ranges: &[Range<usize>]) -> Result<Self, CudaError> {
        assert!(!ranges.is_empty() && ranges.iter().all(|r| !r.is_empty()), "tensors that are not empty");
        let mut blocks = 0;
        let segment = |r: &Range<usize>| {
            let first = blocks;
            blocks += r.len().div_ceil(REDUCE_BLOCK) as u64;
            Segment { offset: r.start as u64, length: r.len() as u64, first }
        };
        let segments: Vec<Segment> = ranges.iter().map(segment).collect();
        Ok(Reduction {
            segments: Buffer::of(device, &segments)?,
            blocks,
            needs: ranges.iter().map(|r| r.end).max().unwrap_or(0),
            partial: Buffer::zeroed(device, blocks as usize)?,
            results: Buffer::zeroed(device, ranges.len())?,
            scratch: Buffer::zeroed(device, ranges.len())?,
            arrived: Buffer::zeroed(device, 1)?,
            total: Buffer::zeroed(device, 1)?,
        })
    }

    /// Each tensor's result.
    pub fn results(&self) -> &Buffer<f32> {
        &self.results
    }

    /// What came of all of them.
    pub fn total(&self) -> &Buffer<Total> {
        &self.total
    }

    /// The root of the total.
    pub fn norm(&self) -> Slice<'_, f32> {
        self.total.all().part(std::mem::offset_of!(Total, norm))
    }

    /// The total times the scale.
    pub fn scaled(&self) -> Slice<'_, f32> {
        self.total.all().part(std::mem::offset_of!(Total, scaled))
    }

    /// The clip factor.
    pub fn clip(&self) -> Slice<'_, f32> {
        self.total.all().part(std::mem::offset_of!(Total, k))
    }
}

impl Kernels {
    pub(super) fn load(device: &Rc<Device>, compiler: &Compiler) -> Result<Self, CudaError> {
        let module = Module::load(device, compiler, &source!("reduce"))?;
        let blocks = Function::of(&module, "reduce_blocks")?;
        Ok(Kernels { blocks, segments: Function::of(&module, "reduce_segments")? })
    }

    /// Sums of the tensors of `base`, or of their squares; then the total, its root against `limit`, and times `scale`.
    pub fn run(
        &self,
        of: &mut Reduction,
        base: Slice<'_, f32>,
        squares: bool,
        (limit, scale): (f32, f32),
        stop: Slice<'_, u32>,
    ) -> Result<(), CudaError> {
        assert!(base.len() >= of.needs, "{} elements, tensors up to {}", base.len(), of.needs);
        let (segments, count) = (of.segments.address(), u32::try_from(of.segments.len()).expect("few tensors"));
        let (partial, stop) = (of.partial.address(), stop.address());
        let args = (base.address(), segments, count, of.blocks, u32::from(squares), partial, stop);
        // SAFETY: segments lie within the base, as asserted; partial results have one place a block.
        unsafe { self.blocks.over(of.blocks * 32, args)? };
        let [results, scratch, arrived] = [of.results.address(), of.scratch.address(), of.arrived.address()];
        let args = (partial, segments, count, results, scratch, arrived, limit, scale, of.total.address(), stop);
        // SAFETY: results and scratch have one place a tensor, blocks of the launch are the tensors.
        unsafe { self.segments.launch(count, 1024, 0, args) }
    }
}
