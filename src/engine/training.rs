//! What a run drives: one fold in training, on whichever engine.

use super::error::{EngineError, NotFinite};
use super::evaluator::Evaluation;
use super::folds::Fold;
use super::state::State;
use crate::trace::observer::{OpView, TensorView};

/// Why a fold ended early.
#[derive(Debug)]
pub enum Stop {
    /// rule 11
    NotFinite(NotFinite),
    /// anything else
    Engine(EngineError),
}

impl<E: Into<EngineError>> From<E> for Stop {
    fn from(e: E) -> Self {
        Stop::Engine(e.into())
    }
}

/// How much of a fold's tensors the next report needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// a fingerprint of each
    Fingerprints,
    /// every byte
    Bytes,
}

/// One fold in training.
pub trait Training {
    /// Bars of the fold.
    fn fold(&self) -> &Fold;
    /// Updates of the fold.
    fn fold_updates(&self) -> u64;
    /// Environment steps before the first update.
    fn warm_up(&mut self) -> Result<(), Stop>;
    /// One environment step of all environments.
    fn collect(&mut self) -> Result<(), Stop>;
    /// One update.
    fn update(&mut self) -> Result<(), Stop>;
    /// Makes what [`Training::tensors`] and [`Training::results`] show current.
    fn fetch(&mut self, wanted: Wanted) -> Result<(), Stop>;
    /// The named tensors in list order, as of the last fetch.
    fn tensors(&self) -> Vec<TensorView<'_>>;
    /// Results of the step that are not state, as of the last fetch.
    fn results(&self) -> Vec<TensorView<'_>>;
    /// Loss and norm of the last update, as of the last fetch.
    fn loss_and_norm(&self) -> (f32, f32);
    /// Operations since the last report, when they are wanted.
    fn ops(&self) -> Vec<OpView>;
    /// Ends a step's report.
    fn reported(&mut self);
    /// Q table and greedy rollout on the validation bars, in batches of `rows` rows.
    fn evaluate(&mut self, rows: usize) -> Result<Evaluation, Stop>;
    /// Called after each evaluation's report.
    fn evaluated(&mut self);
    /// The state on the host, as of the last fetch.
    fn state(&self) -> &State;
    /// The same, to be loaded or damaged; [`Training::resumed`] takes it in.
    fn state_mut(&mut self) -> &mut State;
    /// Takes in that the state was loaded, after `evaluations` evaluations of the fold.
    fn resumed(&mut self, evaluations: u64) -> Result<(), Stop>;
    /// The state at the end.
    fn into_state(self: Box<Self>) -> Result<State, Stop>;
}
