//! All kernels of a device, compiled and loaded when it opens: a missing one is an error of the start.

use std::path::Path;
use std::rc::Rc;

use rayon::prelude::*;

use super::compile::{Compiler, Source, source};
use super::device::Device;
use super::error::CudaError;
use super::{
    adam, bias_gradient, environment, evaluate, fingerprint, finite, gather, gemm, heads, init, log, loss, reduce,
    rules, sample,
};

/// Every kernel, by file.
#[derive(Debug)]
pub struct Kernels {
    /// products
    pub gemm: gemm::Kernels,
    /// heads
    pub heads: heads::Kernels,
    /// what a step leaves for the host
    pub log: log::Kernels,
    /// loss
    pub loss: loss::Kernels,
    /// sums, norm
    pub reduce: reduce::Kernels,
    /// bias gradients
    pub bias_gradient: bias_gradient::Kernels,
    /// Adam, target network
    pub adam: adam::Kernels,
    /// rule 11
    pub finite: finite::Kernels,
    /// fingerprints
    pub fingerprint: fingerprint::Kernels,
    /// initial weights
    pub init: init::Kernels,
    /// draws, priorities
    pub sample: sample::Kernels,
    /// batches
    pub gather: gather::Kernels,
    /// collector
    pub environment: environment::Kernels,
    /// evaluator
    pub evaluate: evaluate::Kernels,
    /// the contract's rules one by one
    pub rules: rules::Kernels,
}

impl Kernels {
    /// Compiles what is not kept below `kept`, and loads all of it.
    pub fn load(device: &Rc<Device>, kept: Option<&Path>) -> Result<Self, CudaError> {
        let c = &Compiler::open(kept)?;
        if kept.is_some() {
            // By as many threads as there are; each module below then finds its code kept.
            for_each_source(&[device.name.capability], |source, target| c.cubin(source, target).map(|_| ()))?;
        }
        Ok(Kernels {
            gemm: gemm::Kernels::load(device, c)?,
            heads: heads::Kernels::load(device, c)?,
            log: log::Kernels::load(device, c)?,
            loss: loss::Kernels::load(device, c)?,
            reduce: reduce::Kernels::load(device, c)?,
            bias_gradient: bias_gradient::Kernels::load(device, c)?,
            adam: adam::Kernels::load(device, c)?,
            finite: finite::Kernels::load(device, c)?,
            fingerprint: fingerprint::Kernels::load(device, c)?,
            init: init::Kernels::load(device, c)?,
            sample: sample::Kernels::load(device, c)?,
            gather: gather::Kernels::load(device, c)?,
            environment: environment::Kernels::load(device, c)?,
            evaluate: evaluate::Kernels::load(device, c)?,
            rules: rules::Kernels::load(device, c)?,
        })
    }
}

/// Calls `work` for every source and target, on as many threads as there are. With several errors, one of them.
pub fn for_each_source<F>(targets: &[(u32, u32)], work: F) -> Result<(), CudaError>
where
    F: Fn(&Source, (u32, u32)) -> Result<(), CudaError> + Sync,
{
    let sources = sources();
    let items: Vec<(&Source, (u32, u32))> = targets.iter().flat_map(|t| sources.iter().map(move |s| (s, *t))).collect();
    items.par_iter().try_for_each(|(source, target)| work(source, *target))
}

/// Every source, each tile shape of the products one, for those who compile without a device.
pub fn sources() -> Vec<Source> {
    let mut all: Vec<Source> = gemm::TILES.iter().map(gemm::Tile::source).collect();
    all.extend([
        source!("heads"),
        source!("log"),
        source!("loss"),
        source!("reduce"),
        source!("bias_gradient"),
        source!("adam"),
        source!("finite"),
        source!("fingerprint"),
        source!("init"),
        source!("sample"),
        source!("gather"),
        source!("environment"),
        source!("evaluate"),
        source!("rules"),
    ]);
    all
}
