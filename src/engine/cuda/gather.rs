//! Launches `kernels/gather.cu`: a batch from the ring's index rows.

use std::rc::Rc;

use super::buffer::{Slice, SliceMut};
use super::compile::{Compiler, source};
use super::device::Device;
use super::error::CudaError;
use super::launch::{Function, Module, Param};
use super::ring::{RawRing, Ring};
use crate::engine::market_features::MARKET_COLUMNS;
use crate::engine::network::BRANCHES;
use crate::engine::trainer::OBSERVATION;

#[repr(C)]
#[derive(Clone, Copy)]
struct Gather {
    ring: RawRing,
    market: u64,
    rows: u64,
    obs: u64,
    next_obs: u64,
    actions: u64,
    returns: u64,
    done: u64,
    gamma: f32,
    batch: u32,
    stop: u64,
}

// SAFETY: the kernel's struct of the same name, field by field.
unsafe impl Param for Gather {}

/// The kernels of this file.
#[derive(Debug)]
pub struct Kernels {
    gather: Function<(Gather,)>,
    returns: Function<(RawRing, u64, f32, u64, u64, u64)>,
}

/// A batch, B rows.
#[derive(Debug)]
pub struct Gathered<'a> {
    /// `[B, 64]`: s
    pub obs: SliceMut<'a, f32>,
    /// `[B, 64]`: s′
    pub next_obs: SliceMut<'a, f32>,
    /// `[B, 3]`
    pub actions: SliceMut<'a, u8>,
    /// `[B]`
    pub returns: SliceMut<'a, f32>,
    /// `[B]`
    pub done: SliceMut<'a, u8>,
}

impl Kernels {
    pub(super) fn load(device: &Rc<Device>, compiler: &Compiler) -> Result<Self, CudaError> {
        let module = Module::load(device, compiler, &source!("gather"))?;
        Ok(Kernels { gather: Function::of(&module, "gather_batch")?, returns: Function::of(&module, "return_rows")? })
    }

    /// The rows' batch; `market` holds `[bars, 60]`, and every row's bar and the one after it are in it.
    pub fn run(
        &self,
        ring: &Ring,
        market: Slice<'_, f32>,
        rows: Slice<'_, u32>,
        gamma: f32,
        out: Gathered<'_>,
        stop: Slice<'_, u32>,
    ) -> Result<(), CudaError> {
        let batch = rows.len();
        assert!(market.len().is_multiple_of(MARKET_COLUMNS), "whole bars");
        assert!(out.obs.len() == batch * OBSERVATION && out.next_obs.len() == batch * OBSERVATION, "{batch} rows");
        assert!(out.actions.len() == BRANCHES * batch && out.returns.len() == batch && out.done.len() == batch);
        let args = Gather {
            ring: ring.raw(),
            market: market.address(),
            rows: rows.address(),
            obs: out.obs.address(),
            next_obs: out.next_obs.address(),
            actions: out.actions.address(),
            returns: out.returns.address(),
            done: out.done.address(),
            gamma,
            batch: u32::try_from(batch).expect("a batch below 2^32"),
            stop: stop.address(),
        };
        // SAFETY: lengths were asserted; results are borrowed mutably; rows are the ring's, as the draw gave them, and bars
        // the market's, as the collector wrote them or a checkpoint's reader checked.
        unsafe { self.gather.over(batch as u64 * 32, (args,)) }
    }

    /// n-step returns of rows of the ring, and whether an episode's end cut them.
    pub fn returns(
        &self,
        ring: &Ring,
        rows: Slice<'_, u32>,
        gamma: f32,
        (returns, done): (SliceMut<'_, f32>, SliceMut<'_, u8>),
    ) -> Result<(), CudaError> {
        let n = rows.len();
        assert!(returns.len() == n && done.len() == n, "{n} rows");
        let args = (ring.raw(), rows.address(), gamma, returns.address(), done.address(), n as u64);
        // SAFETY: lengths were asserted; results are borrowed mutably; the caller's rows are the ring's.
        unsafe { self.returns.over(n as u64, args) }
    }
}
