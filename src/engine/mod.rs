//! The embedded engine: a branching, dueling double DQN that trades a market, walk-forward fold by fold.

pub mod cpu;
pub mod network;
pub mod vectors;
