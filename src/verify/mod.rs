//! A case carried out and judged: its arms in fresh processes, each against the base, the base against the golden, and
//! what the detectors make of it.

pub mod case;
pub mod command;
pub mod golden;
pub mod report;
pub mod runs;
