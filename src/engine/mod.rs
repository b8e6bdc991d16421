//! The embedded engine: a branching, dueling double DQN that trades a market, walk-forward fold by fold.

pub mod cpu;
pub mod market;
pub mod market_csv;
pub mod market_error;
pub mod market_features;
mod market_header;
pub mod market_lines;
#[cfg(feature = "parquet")]
pub mod market_parquet;
pub mod market_synthetic;
mod market_time;
mod market_time_forms;
mod market_window;
pub mod network;
