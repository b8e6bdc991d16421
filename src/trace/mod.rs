//! The trace `samebits-trace/1`: schema, writer, reader, and the [`observer::Observer`] that engines report to.
//!
//! JSON Lines, one self-describing record a line, each chained to those before it by SHA-256, so that a cut trace lacks
//! its closing record and a changed record is named. `docs/trace.md` states the format for other engines.

pub mod check;
pub mod example;
pub mod files;
pub mod identity;
pub mod lacks;
pub mod observer;
pub mod privacy;
pub mod reader;
pub mod record;
pub mod recorder;
mod strict;
pub mod writer;
