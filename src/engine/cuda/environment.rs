//! Launches `kernels/environment.cu`: the collector around its forward pass.

use std::ops::Range;
use std::rc::Rc;

use super::buffer::{Buffer, Slice, SliceMut};
use super::compile::{Compiler, source};
use super::device::Device;
use super::error::CudaError;
use super::launch::{Function, Module, Param};
use super::market::{Bars, RawBars};
use super::ring::{RawRing, Ring};
use super::state::Counters;
use crate::bits::philox::Key;
use crate::engine::cpu::Q_VALUES;
use crate::engine::environment::STATE_COLUMNS;
use crate::engine::network::BRANCHES;
use crate::engine::trainer::OBSERVATION;

#[repr(C)]
#[derive(Clone, Copy)]
struct RawAccounts {
    time: u64,
    position: u64,
    open: u64,
    bars: u64,
    equity: u64,
    peak: u64,
    episode_bars: u64,
    count: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Collect {
    accounts: RawAccounts,
    bars: RawBars,
    ring: RawRing,
    q: u64,
    explores: u64,
    actions: u64,
    rewards: u64,
    explore_key: [u32; 2],
    reset_key: [u32; 2],
    epsilon_start: u64,
    epsilon_end: u64,
    epsilon_steps: u64,
    window_start: u32,
    window_end: u32,
    episode_bars: u32,
    counters: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RawTrail {
    time: u64,
    state: u64,
    reward: u64,
    equity: u64,
    peak: u64,
    stopped: u64,
    done: u64,
}

// SAFETY: the kernel's struct `Accounts`, field by field.
unsafe impl Param for RawAccounts {}
// SAFETY: the kernel's struct of the same name, field by field.
unsafe impl Param for Collect {}
// SAFETY: the kernel's struct `Trail`, field by field.
unsafe impl Param for RawTrail {}

/// N accounts, in columns.
#[derive(Debug)]
pub struct Accounts {
    /// bar of each
    pub time: Buffer<u32>,
    /// exposure
    pub position: Buffer<f32>,
    /// profit since the position's sign last changed
    pub open: Buffer<f32>,
    /// bars since then
    pub bars: Buffer<u32>,
    /// sum of rewards
    pub equity: Buffer<f32>,
    /// largest equity
    pub peak: Buffer<f32>,
    /// steps taken in the episode
    pub episode_bars: Buffer<u32>,
}

impl Accounts {
    /// N accounts at bar 0; start their episodes before anything else.
    pub fn new(device: &Rc<Device>, n: usize) -> Result<Self, CudaError> {
        Ok(Accounts {
            time: Buffer::zeroed(device, n)?,
            position: Buffer::zeroed(device, n)?,
            open: Buffer::zeroed(device, n)?,
            bars: Buffer::zeroed(device, n)?,
            equity: Buffer::zeroed(device, n)?,
            peak: Buffer::zeroed(device, n)?,
            episode_bars: Buffer::zeroed(device, n)?,
        })
    }

    /// N.
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// True without accounts.
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    fn raw(&self) -> RawAccounts {
        RawAccounts {
            time: self.time.address(),
            position: self.position.address(),
            open: self.open.address(),
            bars: self.bars.address(),
            equity: self.equity.address(),
            peak: self.peak.address(),
            episode_bars: self.episode_bars.address(),
            count: u32::try_from(self.len()).expect("accounts below 2^32"),
        }
    }
}

/// What decides a collector's actions and episodes.
#[derive(Clone, Debug)]
pub struct Rule {
    /// exploration's stream
    pub explore: Key,
    /// episode starts' stream; None: every episode begins with the window
    pub reset: Option<Key>,
    /// exploration threshold before and after its decay, and the decay's length
    pub epsilon: (u64, u64, u64),
    /// bars of the fold
    pub window: Range<usize>,
    /// most bars of an episode
    pub episode_bars: u32,
}

/// What one environment step gave, N rows.
#[derive(Debug)]
pub struct Collected<'a> {
    /// 1 where the actions are random
    pub explores: SliceMut<'a, u8>,
    /// `[N, 3]`
    pub actions: SliceMut<'a, u8>,
    /// `[N]`
    pub rewards: SliceMut<'a, f32>,
}

/// What every step of a given play left, `[N, steps]` each.
#[derive(Debug)]
pub struct Trail {
    /// bar
    pub time: Buffer<u32>,
    /// position state
    pub state: Buffer<f32>,
    /// reward
    pub reward: Buffer<f32>,
    /// equity
    pub equity: Buffer<f32>,
    /// peak
    pub peak: Buffer<f32>,
    /// 1 where the stop closed the position
    pub stopped: Buffer<u8>,
    /// 1 where the episode ended
    pub done: Buffer<u8>,
}

impl Trail {
    /// For this many steps in all.
    pub fn new(device: &Rc<Device>, n: usize) -> Result<Self, CudaError> {
        Ok(Trail {
            time: Buffer::zeroed(device, n)?,
            state: Buffer::zeroed(device, n * STATE_COLUMNS)?,
            reward: Buffer::zeroed(device, n)?,
            equity: Buffer::zeroed(device, n)?,
            peak: Buffer::zeroed(device, n)?,
            stopped: Buffer::zeroed(device, n)?,
            done: Buffer::zeroed(device, n)?,
        })
    }
}

type Play = (RawAccounts, RawBars, u64, u32, u32, u32, u32, u32, u32, u32, RawTrail);

/// The kernels of this file.
#[derive(Debug)]
pub struct Kernels {
    observe: Function<(RawAccounts, RawBars, u64, u64)>,
    collect: Function<(Collect,)>,
    start: Function<(RawAccounts, u32, u32, u32, u32, u32)>,
    play: Function<Play>,
    count_env_step: Function<(u64,)>,
    count_update: Function<(u64,)>,
}

fn window(rule: &Rule, bars: &Bars) -> (u32, u32) {
    assert!(rule.window.start + 1 < rule.window.end && rule.window.end <= bars.len(), "a window of the market");
    (rule.window.start as u32, rule.window.end as u32)
}

impl Kernels {
    pub(super) fn load(device: &Rc<Device>, compiler: &Compiler) -> Result<Self, CudaError> {
        let module = Module::load(device, compiler, &source!("environment"))?;
        Ok(Kernels {
            observe: Function::of(&module, "observe_accounts")?,
            collect: Function::of(&module, "collect_step")?,
            start: Function::of(&module, "start_episodes")?,
            play: Function::of(&module, "play_episodes")?,
            count_env_step: Function::of(&module, "count_env_step")?,
            count_update: Function::of(&module, "count_update")?,
        })
    }

    /// All accounts at the start of an episode that begins at environment step 0.
    pub fn start(&self, accounts: &mut Accounts, bars: &Bars, rule: &Rule) -> Result<(), CudaError> {
        let (start, end) = window(rule, bars);
        let [k0, k1] = rule.reset.unwrap_or_default();
        let args = (accounts.raw(), k0, k1, u32::from(rule.reset.is_some()), start, end);
        // SAFETY: columns have one place an account and are borrowed mutably.
        unsafe { self.start.over(accounts.len() as u64, args) }
    }

    /// Observations `[N, 64]`.
    pub fn observe(
        &self,
        accounts: &Accounts,
        bars: &Bars,
        out: SliceMut<'_, f32>,
        stop: Slice<'_, u32>,
    ) -> Result<(), CudaError> {
        let n = accounts.len() * OBSERVATION;
        assert_eq!(out.len(), n, "observations of {} accounts", accounts.len());
        // SAFETY: lengths were asserted; accounts stand at bars of the market.
        unsafe { self.observe.over(n as u64, (accounts.raw(), bars.raw(), out.address(), stop.address())) }
    }

    /// Actions from `q` `[N, 15]`, rule 10's step, new episodes, rows of the ring.
    pub fn collect(
        &self,
        (accounts, ring): (&mut Accounts, &mut Ring),
        bars: &Bars,
        rule: &Rule,
        q: Slice<'_, f32>,
        out: Collected<'_>,
        counters: &Counters,
    ) -> Result<(), CudaError> {
        let n = accounts.len();
        let (window_start, window_end) = window(rule, bars);
        assert!(q.len() >= n * Q_VALUES && ring.environments() == n, "Q-values and a ring of {n} accounts");
        assert!(out.explores.len() == n && out.actions.len() == BRANCHES * n && out.rewards.len() == n, "{n} rows");
        let args = Collect {
            accounts: accounts.raw(),
            bars: bars.raw(),
            ring: ring.raw(),
            q: q.address(),
            explores: out.explores.address(),
            actions: out.actions.address(),
            rewards: out.rewards.address(),
            explore_key: rule.explore,
            reset_key: rule.reset.unwrap_or_default(),
            epsilon_start: rule.epsilon.0,
            epsilon_end: rule.epsilon.1,
            epsilon_steps: rule.epsilon.2,
            window_start,
            window_end,
            episode_bars: rule.episode_bars,
            counters: counters.address(),
        };
        // SAFETY: lengths were asserted; what is written is borrowed mutably; accounts stay within the window, whose last bar
        // has a return.
        unsafe { self.collect.over(n as u64, (args,)) }
    }

    /// Given actions `[N, steps, 3]`, below 5, from the start of an episode.
    pub fn play(
        &self,
        accounts: &mut Accounts,
        bars: &Bars,
        rule: &Rule,
        (actions, steps): (Slice<'_, u8>, usize),
        trail: &mut Trail,
    ) -> Result<(), CudaError> {
        let (n, (start, end)) = (accounts.len(), window(rule, bars));
        assert!(actions.len() == n * steps * BRANCHES && trail.time.len() == n * steps, "{n} accounts, {steps} steps");
        let [k0, k1] = rule.reset.unwrap_or_default();
        let raw = RawTrail {
            time: trail.time.address(),
            state: trail.state.address(),
            reward: trail.reward.address(),
            equity: trail.equity.address(),
            peak: trail.peak.address(),
            stopped: trail.stopped.address(),
            done: trail.done.address(),
        };
        let (actions, steps) = (actions.address(), u32::try_from(steps).expect("steps below 2^32"));
        let random = u32::from(rule.reset.is_some());
        let args = (accounts.raw(), bars.raw(), actions, steps, k0, k1, random, start, end, rule.episode_bars, raw);
        // SAFETY: lengths were asserted; what is written is borrowed mutably; accounts stay within the window.
        unsafe { self.play.over(n as u64, args) }
    }

    /// Counts an environment step.
    pub fn count_env_step(&self, counters: &Counters) -> Result<(), CudaError> {
        // SAFETY: the words are the kernel's own.
        unsafe { self.count_env_step.launch(1, 1, 0, (counters.address(),)) }
    }

    /// Counts an update.
    pub fn count_update(&self, counters: &Counters) -> Result<(), CudaError> {
        // SAFETY: the words are the kernel's own.
        unsafe { self.count_update.launch(1, 1, 0, (counters.address(),)) }
    }
}
