//! Launches `kernels/loss.cu`: targets, Huber loss and the gradients entering the heads' outputs.

use std::rc::Rc;

use super::buffer::{Slice, SliceMut};
use super::compile::{Compiler, source};
use super::device::Device;
use super::error::CudaError;
use super::launch::{Function, Module, Param};
use crate::engine::cpu::Q_VALUES;
use crate::engine::cpu::rules::loss_scale;
use crate::engine::network::{BRANCHES, HEAD_OUTPUTS};

#[repr(C)]
#[derive(Clone, Copy)]
struct Loss {
    q: u64,
    q_online: u64,
    q_target: u64,
    returns: u64,
    done: u64,
    actions: u64,
    weights: u64,
    y: u64,
    delta: u64,
    loss_terms: u64,
    g: u64,
    dz_outputs: u64,
    gamma_n: f32,
    scale: f32,
    rows: u32,
    stop: u64,
}

// SAFETY: the kernel's struct of the same name, field by field.
unsafe impl Param for Loss {}

/// The kernels of this file.
#[derive(Debug)]
pub struct Kernels {
    td_loss: Function<(Loss,)>,
}

/// What the loss is computed from, B rows.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// `[B, 15]`: online network at s, online at s′, target at s′
    pub q: [Slice<'a, f32>; 3],
    /// `[B]`: R of rule 5
    pub returns: Slice<'a, f32>,
    /// `[B]`
    pub done: Slice<'a, u8>,
    /// `[B, 3]`, below 5
    pub actions: Slice<'a, u8>,
    /// `[B]`: importance weights
    pub weights: Slice<'a, f32>,
    /// f32(γ^n)
    pub gamma_n: f32,
}

/// What the loss gives, B rows.
#[derive(Debug)]
pub struct Terms<'a> {
    /// `[B]`: Y
    pub y: SliceMut<'a, f32>,
    /// `[B, 3]`: δ
    pub delta: SliceMut<'a, f32>,
    /// `[B, 3]`: loss_b·w
    pub loss_terms: SliceMut<'a, f32>,
    /// `[B, 3]`: g
    pub g: SliceMut<'a, f32>,
    /// `[B, 16]`: dv, da
    pub dz_outputs: SliceMut<'a, f32>,
}

impl Kernels {
    pub(super) fn load(device: &Rc<Device>, compiler: &Compiler) -> Result<Self, CudaError> {
        let module = Module::load(device, compiler, &source!("loss"))?;
        Ok(Kernels { td_loss: Function::of(&module, "td_loss")? })
    }

    /// Rule 5 for B rows.
    pub fn run(&self, batch: &Batch<'_>, terms: Terms<'_>, stop: Slice<'_, u32>) -> Result<(), CudaError> {
        let b = batch.returns.len();
        assert!(batch.q.iter().all(|q| q.len() >= b * Q_VALUES) && batch.done.len() == b, "{b} rows everywhere");
        assert!(batch.actions.len() == BRANCHES * b && batch.weights.len() == b, "{b} rows everywhere");
        let Terms { y, delta, loss_terms, g, dz_outputs } = terms;
        assert!(y.len() == b && [&delta, &loss_terms, &g].iter().all(|x| x.len() == BRANCHES * b), "{b} rows");
        assert!(dz_outputs.len() == HEAD_OUTPUTS * b, "{b} rows everywhere");
        let args = Loss {
            q: batch.q[0].address(),
            q_online: batch.q[1].address(),
            q_target: batch.q[2].address(),
            returns: batch.returns.address(),
            done: batch.done.address(),
            actions: batch.actions.address(),
            weights: batch.weights.address(),
            y: y.address(),
            delta: delta.address(),
            loss_terms: loss_terms.address(),
            g: g.address(),
            dz_outputs: dz_outputs.address(),
            gamma_n: batch.gamma_n,
            scale: loss_scale(b),
            rows: u32::try_from(b).expect("rows below 2^32"),
            stop: stop.address(),
        };
        // SAFETY: lengths were asserted; results are borrowed mutably, so nothing that is read overlaps them. Actions are
        // below 5: the gather kernel copies what the collector's argmax and draws gave, the vectors check theirs.
        unsafe { self.td_loss.over(b as u64, (args,)) }
    }
}
