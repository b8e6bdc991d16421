//! Trace against trace or golden, file against file, giving a verdict. Of the engine only the form of its checkpoints and
//! exports is known.

pub mod artifacts;
pub mod evidence;
pub mod files;
pub mod golden;
pub mod left;
pub mod lines;
mod noted;
mod resumed;
pub mod tensors;
pub mod traces;
pub mod unlooked;
pub mod verdict;
