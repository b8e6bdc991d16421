//! The embedded engine: a branching, dueling double DQN that trades a market, walk-forward fold by fold.

pub mod cpu;
pub mod market;
pub mod market_csv;
pub mod market_error;
mod market_header;
pub mod market_lines;
#[cfg(feature = "parquet")]
pub mod market_parquet;
mod market_time;
mod market_time_forms;
pub mod network;
