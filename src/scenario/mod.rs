//! Case files: parsed, checked, resolved into a plan of arms.

pub mod case;
pub mod check;
pub mod command;
pub mod copies;
pub mod document;
pub mod factor;
pub mod mutant;
pub mod outputs;
pub mod plan;
pub mod request;
pub mod settings;
