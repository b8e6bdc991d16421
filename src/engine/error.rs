//! Why a run cannot go on.

use super::cpu::CpuError;
use super::folds::TooFewBars;
use super::market_error::MarketError;
use crate::trace::observer::ObserveError;

/// A NaN or infinity (rule 11): the smallest (step, tensor, element), collector before learner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fold {fold}, step {step}: {tensor}[{element}] is not finite (bits {bits:08x})")]
pub struct NotFinite {
    /// fold
    pub fold: u32,
    /// update, from 0 in its fold
    pub step: u64,
    /// tensor
    pub tensor: String,
    /// element of the flat tensor
    pub element: usize,
    /// its bits
    pub bits: u32,
}

impl NotFinite {
    /// `norm[0]`; the bits of a NaN are the platform's and stay out.
    pub fn element_name(&self) -> String {
        format!("{}[{}]", self.tensor, self.element)
    }
}

/// Any failure of a run.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// the market file or its bars
    #[error(transparent)]
    Market(#[from] MarketError),
    /// folds do not fit
    #[error(transparent)]
    Folds(#[from] TooFewBars),
    /// SIMD path or threads
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// the trace
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// a checkpoint or export
    #[error(transparent)]
    Checkpoint(#[from] super::checkpoint::CheckpointError),
    /// a GPU
    #[error(transparent)]
    Cuda(#[from] super::cuda::error::CudaError),
    /// a request that makes no sense
    #[error("{0}")]
    Request(String),
}
