//! A plan carried out: local processes, each with a limit, several at a time.

pub mod command;
pub mod factors;
pub mod folder;
pub mod job;
pub mod load;
pub mod process;
pub mod project;
pub mod slots;
pub mod surroundings;
