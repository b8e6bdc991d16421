//! The market's tables on a device.

use std::rc::Rc;

use super::buffer::{Buffer, Slice};
use super::device::Device;
use super::error::CudaError;
use super::launch::Param;
use crate::engine::market_features::MARKET_COLUMNS;

/// Addresses of the tables, as the kernels' struct `Bars` has them.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawBars {
    columns: u64,
    ret: u64,
    cost: u64,
    vol: u64,
}

// SAFETY: the kernels' struct `Bars`, field by field.
unsafe impl Param for RawBars {}

/// Tables by bar.
#[derive(Debug)]
pub struct Bars {
    columns: Buffer<f32>,
    ret: Buffer<f32>,
    cost: Buffer<f32>,
    vol: Buffer<f32>,
}

impl Bars {
    /// `columns` `[bars, 60]` or empty, the others `[bars]`.
    pub fn new(device: &Rc<Device>, columns: &[f32], [ret, cost, vol]: [&[f32]; 3]) -> Result<Self, CudaError> {
        assert!(columns.is_empty() || columns.len() == ret.len() * MARKET_COLUMNS, "columns of {} bars", ret.len());
        assert!(cost.len() == ret.len() && vol.len() == ret.len(), "tables of {} bars", ret.len());
        Ok(Bars {
            columns: Buffer::of(device, columns)?,
            ret: Buffer::of(device, ret)?,
            cost: Buffer::of(device, cost)?,
            vol: Buffer::of(device, vol)?,
        })
    }

    /// Bars.
    pub fn len(&self) -> usize {
        self.ret.len()
    }

    /// True without bars.
    pub fn is_empty(&self) -> bool {
        self.ret.is_empty()
    }

    /// `[bars, 60]`.
    pub fn columns(&self) -> Slice<'_, f32> {
        self.columns.all()
    }

    pub(super) fn raw(&self) -> RawBars {
        RawBars {
            columns: self.columns.address(),
            ret: self.ret.address(),
            cost: self.cost.address(),
            vol: self.vol.address(),
        }
    }
}
