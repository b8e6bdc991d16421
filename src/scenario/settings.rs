//! Settings of the embedded engine, as a case gives them and as a run gets them.

use serde::{Deserialize, Serialize};

/// Everything that decides the bits of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// sizes, seed
    pub engine: EngineSettings,
    /// bars and costs
    pub market: MarketSettings,
    /// walk-forward windows
    pub folds: FoldSettings,
    /// collector, replay, learner
    #[serde(default)]
    pub training: TrainingSettings,
    /// what is evaluated, and when
    #[serde(default)]
    pub evaluation: EvaluationSettings,
}

/// Fixed sizes of DESIGN.md section 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Size {
    /// H 64, B 32, 16 environments, 2^12 rows; for tests
    #[serde(rename = "tiny")]
    Tiny,
    /// H 256, B 256, 1024 environments, 2^20 rows
    S,
    /// H 1024, B 4096, 16384 environments, 2^22 rows
    M,
    /// H 4096, B 16384, 16384 environments, 2^24 rows
    L,
}

/// The numbers behind a [`Size`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimensions {
    /// width H of the trunk
    pub h: usize,
    /// batch B of an update
    pub batch: usize,
    /// parallel environments N
    pub environments: usize,
    /// rows of the replay ring
    pub rows: usize,
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Size::Tiny => "tiny",
            Size::S => "S",
            Size::M => "M",
            Size::L => "L",
        })
    }
}

impl Size {
    /// H, B, environments, replay rows.
    pub fn dimensions(self) -> Dimensions {
        let (h, batch, environments, rows) = match self {
            Size::Tiny => (64, 32, 16, 1 << 12),
            Size::S => (256, 256, 1024, 1 << 20),
            Size::M => (1024, 4096, 16384, 1 << 22),
            Size::L => (4096, 16384, 16384, 1 << 24),
        };
        Dimensions { h, batch, environments, rows }
    }
}

/// Which engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineSettings {
    /// `dqn`, the embedded engine
    #[serde(default = "dqn")]
    pub kind: String,
    /// one of the fixed sizes
    pub size: Size,
    /// seed of every stream of rule 7
    #[serde(default = "one")]
    pub seed: u64,
}

fn dqn() -> String {
    "dqn".to_owned()
}
fn one() -> u64 {
    1
}

/// Where the bars come from, and what trading costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarketSettings {
    /// a file, relative to the case's folder or to `cases/data/`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// explicit form of the time column (strftime)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_format: Option<String>,
    /// a generated market instead of a file
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synthetic: Option<SyntheticSettings>,
    /// half of bid-ask spread, as a fraction of the price
    #[serde(default)]
    pub half_spread: f64,
    /// commission, as a fraction of the traded value
    #[serde(default)]
    pub commission: f64,
    /// bars in a year, for the Sharpe ratio
    #[serde(default = "daily")]
    pub bars_per_year: f64,
}

fn daily() -> f64 {
    252.0
}

/// A generated market.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyntheticSettings {
    /// seed of the streams `market.*`
    #[serde(default = "one")]
    pub seed: u64,
    /// bars
    pub bars: usize,
    /// standard deviation of a bar's return
    #[serde(default = "one_percent")]
    pub volatility: f64,
    /// planted pattern
    #[serde(default)]
    pub pattern: PatternKind,
    /// bars of a cycle
    #[serde(default = "sixteen")]
    pub period: u32,
    /// part of a cycle in the standard deviation, or correlation of neighbouring returns
    #[serde(default = "most")]
    pub strength: f64,
    /// the same returns in random order
    #[serde(default)]
    pub shuffle: bool,
}

fn one_percent() -> f64 {
    0.01
}
fn sixteen() -> u32 {
    16
}
fn most() -> f64 {
    0.8
}

/// What can be learned from a generated market.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PatternKind {
    /// nothing: a random walk
    #[default]
    None,
    /// returns rise and fall with a period
    Cycle,
    /// a return continues the one before
    Momentum,
}

/// Walk-forward folds over the bars after the warm-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoldSettings {
    /// `rolling` or `expanding`
    #[serde(default)]
    pub mode: FoldMode,
    /// `fresh` or `carry`
    #[serde(default)]
    pub start: FoldStart,
    /// bars of the (first) training window
    pub train: usize,
    /// bars of the validation window
    pub validation: usize,
    /// bars between training and validation
    #[serde(default)]
    pub embargo: usize,
    /// bars from one fold to the next; default: `validation`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// folds; default: as many as the bars allow
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
}

/// What happens to the training window from fold to fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FoldMode {
    /// it moves
    #[default]
    Rolling,
    /// it grows
    Expanding,
}

/// What a fold starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FoldStart {
    /// initial weights, empty replay, streams keyed by fold
    #[default]
    Fresh,
    /// weights, moments, t and target continue; everything else starts as in `fresh`
    Carry,
}

/// Collector, replay and learner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainingSettings {
    /// cycles of a fold
    pub cycles: u64,
    /// environment steps of a cycle
    pub env_steps_per_cycle: u64,
    /// updates of a cycle
    pub updates_per_cycle: u64,
    /// environment steps before the first cycle
    pub learning_starts: u64,
    /// bars of an episode at most
    pub episode_bars: u32,
    /// exploration rate at the start
    pub epsilon_start: f64,
    /// exploration rate at the end
    pub epsilon_end: f64,
    /// environment steps of the decay
    pub epsilon_steps: u64,
    /// discount γ
    pub gamma: f64,
    /// rows of a return
    pub n_step: usize,
    /// Adam's learning rate
    pub lr: f64,
    /// Adam's β1
    pub beta1: f64,
    /// Adam's β2
    pub beta2: f64,
    /// Adam's ε
    pub epsilon: f64,
    /// global norm above which gradients are scaled
    pub clip: f64,
    /// Polyak's τ; exclusive with `target_period`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tau: Option<f64>,
    /// updates between copies into the target network
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_period: Option<u64>,
    /// `uniform` or `prioritized`
    pub replay: ReplayKind,
    /// exponent of priorities: 0, 0.5 or 1
    pub alpha: f64,
    /// exponent of importance weights: 0, 0.5 or 1
    pub beta: f64,
    /// added to priorities
    pub epsilon_priority: f64,
}

/// How rows are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplayKind {
    /// every row alike
    Uniform,
    /// by priority
    Prioritized,
}

impl Default for TrainingSettings {
    fn default() -> Self {
        TrainingSettings {
            cycles: 64,
            env_steps_per_cycle: 1,
            updates_per_cycle: 1,
            learning_starts: 16,
            episode_bars: 256,
            epsilon_start: 1.0,
            epsilon_end: 0.05,
            epsilon_steps: 1000,
            gamma: 0.99,
            n_step: 1,
            lr: 3e-4,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            clip: 10.0,
            tau: None,
            target_period: None,
            replay: ReplayKind::Uniform,
            alpha: 0.5,
            beta: 0.5,
            epsilon_priority: 1e-3,
        }
    }
}

/// Evaluations. None of this moves a training bit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluationSettings {
    /// cycles between evaluations; 0: at fold ends only
    pub every: u64,
    /// false: no evaluation at all
    pub enabled: bool,
    /// rows of an evaluation batch; default: those of an update
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<usize>,
}

impl Default for EvaluationSettings {
    fn default() -> Self {
        EvaluationSettings { every: 0, enabled: true, rows: None }
    }
}

/// One refused value: the key and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// dotted key
    pub key: &'static str,
    /// what was found and what is expected
    pub detail: String,
}

impl Settings {
    /// Checks values that types cannot.
    pub fn check(&self) -> Result<(), Refusal> {
        let fail = |key, detail: String| Err(Refusal { key, detail });
        if self.engine.kind != "dqn" {
            return fail("engine.kind", format!("unknown engine {:?}; one of: dqn", self.engine.kind));
        }
        match (&self.market.file, &self.market.synthetic) {
            (Some(_), Some(_)) => return fail("market", "give `file` or `synthetic`, not both".into()),
            (None, None) => return fail("market", "give `file = \"...\"` or a `[market.synthetic]` table".into()),
            _ => {}
        }
        for (key, x) in [("market.half_spread", self.market.half_spread), ("market.commission", self.market.commission)]
        {
            if !(0.0..0.5).contains(&x) {
                return fail(key, format!("{x} is not a fraction from 0 to 0.5"));
            }
        }
        if !(self.market.bars_per_year > 0.0 && self.market.bars_per_year.is_finite()) {
            return fail("market.bars_per_year", format!("{} is not positive", self.market.bars_per_year));
        }
        if self.folds.train < 2 || self.folds.validation < 2 {
            return fail("folds", "train and validation need at least 2 bars".into());
        }
        if self.folds.step == Some(0) || self.folds.count == Some(0) {
            return fail("folds", "step and count start at 1".into());
        }
        if self.evaluation.rows == Some(0) {
            return fail("evaluation.rows", "an evaluation batch has at least 1 row".into());
        }
        self.training.check(self.engine.size)
    }
}

impl TrainingSettings {
    fn check(&self, size: Size) -> Result<(), Refusal> {
        let fail = |key, detail: String| Err(Refusal { key, detail });
        let between = |key, x: f64, low: f64, high: f64| {
            let detail = format!("{x} is not in {low} to {high}");
            if (low..=high).contains(&x) { Ok(()) } else { Err(Refusal { key, detail }) }
        };
        between("training.epsilon_start", self.epsilon_start, 0.0, 1.0)?;
        between("training.epsilon_end", self.epsilon_end, 0.0, self.epsilon_start)?;
        between("training.gamma", self.gamma, 0.0, 1.0)?;
        between("training.lr", self.lr, 0.0, 1e3)?;
        between("training.beta1", self.beta1, 0.0, 0.999_999)?;
        between("training.beta2", self.beta2, 0.0, 0.999_999_9)?;
        between("training.epsilon", self.epsilon, 1e-30, 1.0)?;
        between("training.clip", self.clip, 1e-20, 1e30)?;
        between("training.epsilon_priority", self.epsilon_priority, 0.0, 1e6)?;
        if let Some(tau) = self.tau {
            between("training.tau", tau, 0.0, 1.0)?;
        }
        if self.tau.is_some() == self.target_period.is_some() {
            return fail("training.tau", "give exactly one of `tau` (Polyak) and `target_period` (copy)".into());
        }
        if self.target_period == Some(0) {
            return fail("training.target_period", "a period starts at 1".into());
        }
        if !(1..u64::from(u32::MAX)).contains(&self.epsilon_steps) {
            return fail("training.epsilon_steps", format!("{} is not in 1 to 2^32 - 1", self.epsilon_steps));
        }
        for (key, x) in [("training.alpha", self.alpha), ("training.beta", self.beta)] {
            if x != 0.0 && x != 0.5 && x != 1.0 {
                return fail(key, format!("{x}: only 0, 0.5 and 1 are exact powers by square root (rule 8)"));
            }
        }
        let slots = (size.dimensions().rows / size.dimensions().environments) as u64;
        if self.n_step == 0 || self.n_step as u64 >= slots {
            return fail("training.n_step", format!("{} is not in 1 to {}", self.n_step, slots - 1));
        }
        if self.learning_starts < self.n_step as u64 {
            let detail = format!(
                "{} environment steps leave no row to sample; at least n_step = {}",
                self.learning_starts, self.n_step
            );
            return fail("training.learning_starts", detail);
        }
        if self.cycles == 0 || self.env_steps_per_cycle == 0 || self.updates_per_cycle == 0 || self.episode_bars == 0 {
            return fail(
                "training",
                "cycles, env_steps_per_cycle, updates_per_cycle and episode_bars start at 1".into(),
            );
        }
        Ok(())
    }

    /// Updates of a fold.
    pub fn updates(&self) -> u64 {
        self.cycles.saturating_mul(self.updates_per_cycle)
    }
}
