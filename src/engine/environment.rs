//! The trading environment of rule 10: N accounts over one training window.
//!
//! Verified: the contract's vectors `10-environment`, and `07-randomness` for exploration.

use std::ops::Range;

use crate::bits::philox::{self, Key};

const TARGETS: [f32; 5] = [-1.0, -0.5, 0.0, 0.5, 1.0];
const SPEEDS: [f32; 5] = [0.125, 0.25, 0.5, 0.75, 1.0];
const STOPS: [f32; 5] = [0.0, 1.0, 2.0, 4.0, 8.0];

/// Columns of position state in an observation: position, open profit, bars held · 2^-8, drawdown.
pub const STATE_COLUMNS: usize = 4;

/// One account.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Account {
    /// exposure in [−1, 1]
    pub position: f32,
    /// profit since the position's sign last changed
    pub open: f32,
    /// bars since then
    pub bars: u32,
    /// sum of rewards
    pub equity: f32,
    /// largest equity
    pub peak: f32,
}

impl Account {
    /// The four columns of an observation.
    pub fn state(&self) -> [f32; STATE_COLUMNS] {
        [self.position, self.open, self.bars as f32 * (1.0 / 256.0), self.peak - self.equity]
    }
}

fn sign(x: f32) -> i8 {
    i8::from(x > 0.0) - i8::from(x < 0.0)
}

/// What one step gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stepped {
    /// reward of the bar
    pub reward: f32,
    /// the stop closed the position
    pub stopped: bool,
    /// traded fraction: |change| + |closed by the stop|
    pub turnover: f32,
}

/// One step at bar t: `cost` and `vol` are the bar's own, `next_ret` is the return of bar t+1.
pub fn step(account: &mut Account, actions: [u8; 3], cost: f32, vol: f32, next_ret: f32) -> Stepped {
    let [target, speed, multiple] =
        [TARGETS[usize::from(actions[0])], SPEEDS[usize::from(actions[1])], STOPS[usize::from(actions[2])]];
    let before = account.position;
    account.position = before + (speed * (target - before));
    let traded = (account.position - before).abs();
    let turn = traded * cost;
    if sign(account.position) != sign(before) {
        (account.open, account.bars) = (0.0, 0);
    }
    let r = account.position * next_ret;
    account.open += r;
    account.bars += 1;
    let stopped = multiple > 0.0 && account.open < -(multiple * vol);
    let closed = if stopped { account.position.abs() } else { 0.0 };
    let exit = if stopped { closed * cost } else { 0.0 };
    if stopped {
        (account.position, account.open, account.bars) = (0.0, 0.0, 0);
    }
    let reward = (r - turn) - exit;
    account.equity += reward;
    account.peak = if account.equity > account.peak { account.equity } else { account.peak };
    Stepped { reward, stopped, turnover: traded + closed }
}

/// True when the step at bar `t` is the episode's last: bar t+1 is the window's last, or the episode has had its bars.
pub fn episode_done(t: usize, window_end: usize, steps_taken: u32, episode_bars: u32) -> bool {
    t + 2 >= window_end || steps_taken >= episode_bars
}

/// First bar of the episode that begins at environment step `step`: any bar of the window but its last.
pub fn reset_time(key: Key, environment: u32, step: u64, window: &Range<usize>) -> usize {
    let words = philox::block(key, environment, 0, step);
    window.start + philox::index_below((window.len() - 1) as u64, [words[0], words[1]]) as usize
}

/// N environments as structure of arrays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Environments {
    /// bar of each
    pub time: Vec<u32>,
    /// [`Account::position`]
    pub position: Vec<f32>,
    /// [`Account::open`]
    pub open: Vec<f32>,
    /// [`Account::bars`]
    pub bars: Vec<u32>,
    /// [`Account::equity`]
    pub equity: Vec<f32>,
    /// [`Account::peak`]
    pub peak: Vec<f32>,
    /// steps taken in the episode
    pub episode_bars: Vec<u32>,
}

impl Environments {
    /// N environments, each at the start of an episode that begins at environment step 0.
    pub fn reset_all(n: usize, key: Key, window: &Range<usize>) -> Self {
        Environments::starting((0..n).map(|e| reset_time(key, e as u32, 0, window) as u32).collect())
    }

    /// One environment for each of these first bars.
    pub fn starting(time: Vec<u32>) -> Self {
        let n = time.len();
        Environments {
            time,
            position: vec![0.0; n],
            open: vec![0.0; n],
            bars: vec![0; n],
            equity: vec![0.0; n],
            peak: vec![0.0; n],
            episode_bars: vec![0; n],
        }
    }

    /// Number of environments.
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// True without environments.
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    /// Account of environment `e`.
    pub fn account(&self, e: usize) -> Account {
        Account {
            position: self.position[e],
            open: self.open[e],
            bars: self.bars[e],
            equity: self.equity[e],
            peak: self.peak[e],
        }
    }

    /// Stores the account of environment `e`.
    pub fn store(&mut self, e: usize, account: Account) {
        self.position[e] = account.position;
        self.open[e] = account.open;
        self.bars[e] = account.bars;
        self.equity[e] = account.equity;
        self.peak[e] = account.peak;
    }

    /// One step of environment `e` at its bar, of which `cost`, `vol` and the next bar's return are given: what it gave,
    /// and whether it was the episode's last.
    pub fn step(
        &mut self,
        e: usize,
        actions: [u8; 3],
        [cost, vol, next_ret]: [f32; 3],
        window_end: usize,
        episode_bars: u32,
    ) -> (Stepped, bool) {
        let (mut account, t) = (self.account(e), self.time[e] as usize);
        let stepped = step(&mut account, actions, cost, vol, next_ret);
        self.store(e, account);
        self.episode_bars[e] += 1;
        self.time[e] += 1;
        (stepped, episode_done(t, window_end, self.episode_bars[e], episode_bars))
    }

    /// Starts a new episode in environment `e` at bar `t`.
    pub fn restart(&mut self, e: usize, t: usize) {
        self.store(e, Account::default());
        self.time[e] = t as u32;
        self.episode_bars[e] = 0;
    }
}
