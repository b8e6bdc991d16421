//! Trace against trace or golden, file against file, giving a verdict. Knows nothing of any engine.

pub mod evidence;
mod files;
pub mod golden;
mod noted;
mod resumed;
pub mod tensors;
pub mod traces;
pub mod verdict;
