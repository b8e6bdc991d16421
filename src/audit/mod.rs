//! Many fresh processes of one command under surroundings that vary: outcome classes, the factor that explains a split,
//! and how sure that is.
//!
//! Engine-agnostic: it sees traces, files and standard output only. Verified: statistics against simulated audits with a
//! known rate; factors by looking at the surroundings from inside; causes by programs that depend on one thing only
//! (`tests/audit.rs`); files of the project that runs change, by looking at it before and after each. Not attempted: causes
//! that need two factors at once, and what runs share outside the project.

pub mod attribution;
pub mod confirm;
pub mod design;
pub mod difference;
pub mod next;
pub mod outcome;
pub mod report;
pub mod session;
pub mod stats;
pub mod store;
