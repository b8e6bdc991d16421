//! Launches `kernels/adam.cu`: clip factor, Adam and the target network.

use std::rc::Rc;

use super::buffer::{Buffer, Slice, SliceMut};
use super::compile::{Compiler, source};
use super::device::Device;
use super::error::CudaError;
use super::launch::{Function, Module, Param};
use super::state::Counters;
use crate::bits::rounding::{AdamConstants, power};

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Rule {
    beta1: f32,
    beta2: f32,
    c1: f32,
    c2: f32,
    epsilon: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Adam {
    w: u64,
    target: u64,
    m: u64,
    v: u64,
    g: u64,
    n: u64,
    rule: Rule,
    rates: u64,
    first_update: u64,
    clip: u64,
    target_rule: u32,
    tau: f32,
    period: u64,
    counters: u64,
}

// SAFETY: the kernel's struct of the same name, field by field.
unsafe impl Param for Adam {}

/// The kernels of this file.
#[derive(Debug)]
pub struct Kernels {
    adam_polyak: Function<(Adam,)>,
}

/// Constants as settings have them.
#[derive(Clone, Copy, Debug)]
pub struct Constants {
    /// learning rate
    pub lr: f64,
    /// β1
    pub beta1: f64,
    /// β2
    pub beta2: f64,
    /// ε
    pub epsilon: f64,
    /// τ of Polyak's rule
    pub tau: Option<f64>,
    /// period of copies
    pub period: Option<u64>,
}

/// What depends on t, for a range of updates, as a table on the device.
#[derive(Debug)]
pub struct Schedule {
    constants: Constants,
    rule: Rule,
    rates: Buffer<f32>,
    first: u64,
    updates: u64,
}

impl Schedule {
    /// Updates `first + 1 ..= first + updates`.
    pub fn new(device: &Rc<Device>, constants: Constants, first: u64, updates: u64) -> Result<Self, CudaError> {
        let Constants { lr, beta1, beta2, epsilon, .. } = constants;
        // The products of rule 6, one after the other, as `power` has them.
        let (mut p1, mut p2) = (power(beta1, first), power(beta2, first));
        let mut rates = Vec::with_capacity(2 * updates as usize);
        for _ in 0..updates {
            (p1, p2) = (p1 * beta1, p2 * beta2);
            let c = AdamConstants::new(lr, beta1, beta2, epsilon, p1, p2);
            rates.extend([c.a, c.b]);
        }
        let c = AdamConstants::new(lr, beta1, beta2, epsilon, beta1, beta2);
        let rule = Rule { beta1: c.beta1, beta2: c.beta2, c1: c.c1, c2: c.c2, epsilon: c.epsilon };
        Ok(Schedule { constants, rule, rates: Buffer::of(device, &rates)?, first, updates })
    }

    /// Whether update `done + 1` is in the table.
    pub fn covers(&self, done: u64) -> bool {
        done >= self.first && done - self.first < self.updates
    }
}

impl Kernels {
    pub(super) fn load(device: &Rc<Device>, compiler: &Compiler) -> Result<Self, CudaError> {
        let module = Module::load(device, compiler, &source!("adam"))?;
        Ok(Kernels { adam_polyak: Function::of(&module, "adam_polyak")? })
    }

    /// One update of `[w, target, m, v]` from gradients `g` and the clip factor. The number of updates done is read on the
    /// device; the caller keeps it within the schedule.
    pub fn run(
        &self,
        schedule: &Schedule,
        state: [SliceMut<'_, f32>; 4],
        (g, clip): (Slice<'_, f32>, Slice<'_, f32>),
        counters: &Counters,
    ) -> Result<(), CudaError> {
        let n = g.len();
        assert!(state.iter().all(|s| s.len() == n) && clip.len() == 1, "state and gradients of {n} elements");
        let [w, target, m, v] = state.map(|s| s.address());
        let Constants { tau, period, .. } = schedule.constants;
        let (target_rule, period) = match (tau, period) {
            (Some(_), _) => (0, 1),
            (None, Some(period)) => (1, period),
            (None, None) => (2, 1),
        };
        let args = Adam {
            w,
            target,
            m,
            v,
            g: g.address(),
            n: n as u64,
            rule: schedule.rule,
            rates: schedule.rates.address(),
            first_update: schedule.first,
            clip: clip.address(),
            target_rule,
            tau: tau.unwrap_or(0.0) as f32,
            period,
            counters: counters.address(),
        };
        // SAFETY: lengths were asserted; state is borrowed mutably, so nothing that is read overlaps it.
        unsafe { self.adam_polyak.over(n as u64, (args,)) }
    }
}
