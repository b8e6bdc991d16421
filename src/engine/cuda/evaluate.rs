//! Launches `kernels/evaluate.cu`: the evaluator around its forward passes.

use std::rc::Rc;

use bytemuck::{Pod, Zeroable};

use super::buffer::{Buffer, Slice, SliceMut};
use super::compile::{Compiler, source};
use super::device::Device;
use super::error::CudaError;
use super::launch::{Function, Module, Param};
use super::market::{Bars, RawBars};
use crate::engine::cpu::Q_VALUES;
use crate::engine::trainer::OBSERVATION;

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Live {
    account: [u32; 5],
    bar: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RawRollout {
    bars: RawBars,
    live: u64,
    row: u64,
    q: u64,
    q_live: u64,
    rewards: u64,
    positions: u64,
    turnover: u64,
    first: u32,
    rows: u32,
}

// SAFETY: the kernel's struct `Rollout`, field by field.
unsafe impl Param for RawRollout {}

/// The kernels of this file.
#[derive(Debug)]
pub struct Kernels {
    observe_bars: Function<(RawBars, u32, u32, u64)>,
    start: Function<(RawRollout,)>,
    observe: Function<(RawRollout,)>,
    step: Function<(RawRollout,)>,
}

/// A greedy rollout from flat, bar by bar.
#[derive(Debug)]
pub struct Rollout {
    live: Buffer<Live>,
    /// `[rows, 64]`: the live row, repeated
    pub row: Buffer<f32>,
    /// `[bars, 15]`: Q-values of the live rows
    pub q_live: Buffer<f32>,
    /// `[bars]`
    pub rewards: Buffer<f32>,
    /// `[bars]`
    pub positions: Buffer<f32>,
    /// `[bars]`: traded fraction
    pub turnover: Buffer<f32>,
    first: usize,
    rows: usize,
}

impl Rollout {
    /// Over `bars` bars from `first` on, in a batch of `rows` rows.
    pub fn new(device: &Rc<Device>, first: usize, bars: usize, rows: usize) -> Result<Self, CudaError> {
        Ok(Rollout {
            live: Buffer::zeroed(device, 1)?,
            row: Buffer::zeroed(device, rows * OBSERVATION)?,
            q_live: Buffer::zeroed(device, bars * Q_VALUES)?,
            rewards: Buffer::zeroed(device, bars)?,
            positions: Buffer::zeroed(device, bars)?,
            turnover: Buffer::zeroed(device, bars)?,
            first,
            rows,
        })
    }

    fn raw(&self, bars: &Bars, q: u64) -> RawRollout {
        assert!(self.first + self.rewards.len() < bars.len(), "every bar of a rollout has a return after it");
        RawRollout {
            bars: bars.raw(),
            live: self.live.address(),
            row: self.row.address(),
            q,
            q_live: self.q_live.address(),
            rewards: self.rewards.address(),
            positions: self.positions.address(),
            turnover: self.turnover.address(),
            first: u32::try_from(self.first).expect("bars below 2^32"),
            rows: u32::try_from(self.rows).expect("rows below 2^32"),
        }
    }
}

impl Kernels {
    pub(super) fn load(device: &Rc<Device>, compiler: &Compiler) -> Result<Self, CudaError> {
        let module = Module::load(device, compiler, &source!("evaluate"))?;
        Ok(Kernels {
            observe_bars: Function::of(&module, "observe_bars")?,
            start: Function::of(&module, "start_rollout")?,
            observe: Function::of(&module, "observe_live")?,
            step: Function::of(&module, "step_live")?,
        })
    }

    /// Bars `first ..` at flat position, `[count, 64]`.
    pub fn observe_bars(
        &self,
        bars: &Bars,
        (first, count): (usize, usize),
        out: SliceMut<'_, f32>,
    ) -> Result<(), CudaError> {
        assert!(first + count <= bars.len() && out.len() >= count * OBSERVATION, "{count} bars from {first}");
        let args = (bars.raw(), first as u32, count as u32, out.address());
        // SAFETY: lengths were asserted; the result is borrowed mutably.
        unsafe { self.observe_bars.over((count * OBSERVATION) as u64, args) }
    }

    /// Flat at the first bar.
    pub fn start(&self, rollout: &mut Rollout, bars: &Bars) -> Result<(), CudaError> {
        // SAFETY: only the live account is written.
        unsafe { self.start.launch(1, 1, 0, (rollout.raw(bars, 0),)) }
    }

    /// The live row into all rows of the batch.
    pub fn observe(&self, rollout: &mut Rollout, bars: &Bars) -> Result<(), CudaError> {
        let items = (rollout.rows * OBSERVATION) as u64;
        // SAFETY: the batch is the rollout's own; its bar has a return after it, as asserted.
        unsafe { self.observe.over(items, (rollout.raw(bars, 0),)) }
    }

    /// One bar by the greedy actions of the batch's `q` `[rows, 15]`; called once a bar of the rollout.
    pub fn step(&self, rollout: &mut Rollout, bars: &Bars, q: Slice<'_, f32>) -> Result<(), CudaError> {
        assert!(q.len() >= rollout.rows * Q_VALUES, "Q-values of {} rows", rollout.rows);
        // SAFETY: results have one place a bar, and this is called as often.
        unsafe { self.step.launch(1, 1, 0, (rollout.raw(bars, q.address()),)) }
    }
}
