//! Case files: parsed, checked, resolved into a plan of arms.

pub mod case;
pub mod check;
pub mod document;
pub mod mutant;
pub mod plan;
pub mod request;
pub mod settings;
