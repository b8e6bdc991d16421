//! The replay ring on a device, in the columns of `kernels/ring.cuh`.

use std::rc::Rc;

use super::buffer::Buffer;
use super::device::Device;
use super::error::CudaError;
use super::launch::Param;
use crate::engine::network::BRANCHES;
use crate::engine::replay::FIRST_PRIORITY;

/// Addresses of a ring.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct RawRing {
    asset: u64,
    time: u64,
    before: u64,
    after: u64,
    actions: u64,
    done: u64,
    reward: u64,
    priority: u64,
    priority_max: u64,
    slots: u64,
    environments: u32,
    n_step: u32,
}

// SAFETY: the kernel's struct `Ring`, field by field.
unsafe impl Param for RawRing {}

/// The ring's columns.
#[derive(Debug)]
pub struct Ring {
    /// `[rows]`
    pub asset: Buffer<u32>,
    /// `[rows]`
    pub time: Buffer<u32>,
    /// `[rows, 4]`
    pub before: Buffer<f32>,
    /// `[rows, 4]`
    pub after: Buffer<f32>,
    /// `[rows, 3]`
    pub actions: Buffer<u8>,
    /// `[rows]`
    pub done: Buffer<u8>,
    /// `[rows]`
    pub reward: Buffer<f32>,
    /// `[rows]`
    pub priority: Buffer<u32>,
    /// largest so far
    pub priority_max: Buffer<u32>,
    environments: usize,
    n_step: usize,
}

impl Ring {
    /// An empty ring.
    pub fn new(device: &Rc<Device>, rows: usize, environments: usize, n_step: usize) -> Result<Self, CudaError> {
        assert!(environments > 0 && rows.is_multiple_of(environments) && n_step > 0, "rows of the environments");
        Ok(Ring {
            asset: Buffer::zeroed(device, rows)?,
            time: Buffer::zeroed(device, rows)?,
            before: Buffer::zeroed(device, 4 * rows)?,
            after: Buffer::zeroed(device, 4 * rows)?,
            actions: Buffer::zeroed(device, BRANCHES * rows)?,
            done: Buffer::zeroed(device, rows)?,
            reward: Buffer::zeroed(device, rows)?,
            priority: Buffer::zeroed(device, rows)?,
            priority_max: Buffer::of(device, &[FIRST_PRIORITY])?,
            environments,
            n_step,
        })
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.time.len()
    }

    /// Environments.
    pub fn environments(&self) -> usize {
        self.environments
    }

    pub(super) fn raw(&self) -> RawRing {
        RawRing {
            asset: self.asset.address(),
            time: self.time.address(),
            before: self.before.address(),
            after: self.after.address(),
            actions: self.actions.address(),
            done: self.done.address(),
            reward: self.reward.address(),
            priority: self.priority.address(),
            priority_max: self.priority_max.address(),
            slots: (self.rows() / self.environments) as u64,
            environments: u32::try_from(self.environments).expect("environments below 2^32"),
            n_step: u32::try_from(self.n_step).expect("few steps"),
        }
    }
}
