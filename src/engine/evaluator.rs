//! Evaluation of one fold: a Q table of every validation bar at flat position, and a greedy rollout.
//!
//! Rule 2 gives each row a chain of its own, so the number of rows in a batch moves no bit (arm `batch-rows`). Nothing
//! here draws a random number or touches training state.

use std::ops::Range;

use super::cpu::{Activations, Cpu, Network};
use super::environment::{self, Account, STATE_COLUMNS};
use super::market_features::Market;
use super::network::{ACTIONS, BRANCHES};
use crate::bits::rounding::sum;

/// What one evaluation gave, per bar and in all.
#[derive(Clone, Debug, Default)]
pub struct Evaluation {
    /// Q of every validation bar but the last, at flat position: `[bars, 3, 5]`
    pub q_table: Vec<f32>,
    /// Q of the rollout's live rows: `[bars, 3, 5]`
    pub q_live: Vec<f32>,
    /// reward of each bar
    pub rewards: Vec<f32>,
    /// position after each bar
    pub positions: Vec<f32>,
    /// traded fraction of each bar
    pub turnover: Vec<f32>,
    /// numbers for people
    pub metrics: Metrics,
}

/// Metrics of rule 9, f64, from per-bar rewards in ascending order.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Metrics {
    /// sum of rewards
    pub total_return: f64,
    /// mean/standard deviation·sqrt(bars per year); 0 at zero variance
    pub sharpe: f64,
    /// largest fall of the running sum from its peak
    pub max_drawdown: f64,
    /// sum of traded fractions
    pub turnover: f64,
}

impl Metrics {
    /// From per-bar rewards and traded fractions.
    pub fn new(rewards: &[f32], turnover: &[f32], bars_per_year: f64) -> Self {
        let n = rewards.len() as f64;
        let total_return = sum(rewards.iter().map(|r| f64::from(*r)));
        let mean = total_return / n;
        let variance = sum(rewards.iter().map(|r| (f64::from(*r) - mean) * (f64::from(*r) - mean))) / n;
        let sharpe = if variance > 0.0 { mean / variance.sqrt() * bars_per_year.sqrt() } else { 0.0 };
        let (mut equity, mut peak, mut max_drawdown) = (0.0f64, 0.0f64, 0.0f64);
        for r in rewards {
            equity += f64::from(*r);
            peak = if equity > peak { equity } else { peak };
            max_drawdown = if peak - equity > max_drawdown { peak - equity } else { max_drawdown };
        }
        Metrics { total_return, sharpe, max_drawdown, turnover: sum(turnover.iter().map(|t| f64::from(*t))) }
    }

    /// Names and values as a trace holds them.
    pub fn named(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("return", self.total_return),
            ("sharpe", self.sharpe),
            ("max_drawdown", self.max_drawdown),
            ("turnover", self.turnover),
        ]
    }
}

/// Observation of bar `t` with a position state.
pub fn observe(market: &Market, t: usize, state: [f32; STATE_COLUMNS], out: &mut [f32]) {
    let (columns, position) = out.split_at_mut(out.len() - STATE_COLUMNS);
    columns.copy_from_slice(market.row(t));
    position.copy_from_slice(&state);
}

/// Lowest index of the largest Q of each branch.
pub fn greedy(q: &[f32]) -> [u8; BRANCHES] {
    std::array::from_fn(|b| {
        let row = &q[b * ACTIONS..(b + 1) * ACTIONS];
        (1..ACTIONS).fold(0, |best, j| if row[j] > row[best] { j } else { best }) as u8
    })
}

/// Evaluates `net` on the bars of `window`, in batches of at most `rows` rows.
pub fn evaluate(
    cpu: &Cpu,
    net: &Network,
    market: &Market,
    window: &Range<usize>,
    rows: usize,
    bars_per_year: f64,
) -> Evaluation {
    let bars = window.start..window.end - 1; // the last bar has no return after it
    let mut result = Evaluation { q_table: q_table(cpu, net, market, &bars, rows), ..Evaluation::default() };
    rollout(cpu, net, market, &bars, rows, &mut result);
    result.metrics = Metrics::new(&result.rewards, &result.turnover, bars_per_year);
    result
}

fn q_table(cpu: &Cpu, net: &Network, market: &Market, bars: &Range<usize>, rows: usize) -> Vec<f32> {
    let d = net.shape().d;
    let (mut table, mut activations) = (Vec::new(), Activations::default());
    let all: Vec<usize> = bars.clone().collect();
    for batch in all.chunks(rows) {
        let mut x = vec![0.0; batch.len() * d];
        for (t, row) in batch.iter().zip(x.chunks_exact_mut(d)) {
            observe(market, *t, [0.0; STATE_COLUMNS], row);
        }
        cpu.forward(net, &x, batch.len(), &mut activations);
        table.extend_from_slice(&activations.q[..batch.len() * BRANCHES * ACTIONS]);
    }
    table
}

/// Greedy from flat at the first bar. The live row stands at position `bar mod rows` of a batch of `live` rows, the rest
/// of which repeat it, so that an engine whose rows depend on their neighbours or place is seen.
fn rollout(cpu: &Cpu, net: &Network, market: &Market, bars: &Range<usize>, rows: usize, result: &mut Evaluation) {
    let (d, live) = (net.shape().d, if rows < LIVE_ROWS { rows } else { LIVE_ROWS });
    let (mut account, mut activations) = (Account::default(), Activations::default());
    let mut x = vec![0.0; live * d];
    for t in bars.clone() {
        x.chunks_exact_mut(d).for_each(|row| observe(market, t, account.state(), row));
        cpu.forward(net, &x, live, &mut activations);
        let at = (t % live) * BRANCHES * ACTIONS;
        let q = &activations.q[at..at + BRANCHES * ACTIONS];
        let stepped = environment::step(&mut account, greedy(q), market.cost[t], market.vol[t], market.ret[t + 1]);
        result.q_live.extend_from_slice(q);
        result.rewards.push(stepped.reward);
        result.positions.push(account.position);
        result.turnover.push(stepped.turnover);
    }
}

/// Rows of a rollout's batch. Padding to the update's full batch would cost thousands of forward rows a bar
/// and move no bit.
pub const LIVE_ROWS: usize = 4;
