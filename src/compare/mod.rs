//! Trace against trace or golden, file against file, giving a verdict. Knows nothing of any engine.

pub mod evidence;
pub mod golden;
pub mod tensors;
pub mod traces;
pub mod verdict;
