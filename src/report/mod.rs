//! Views of verdicts: text, JSON, JUnit.

pub mod audit;
pub mod junit;
pub mod names;
pub mod shared;
pub mod summary;
pub mod text;
