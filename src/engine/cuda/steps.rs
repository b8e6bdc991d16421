//! The steps of a fold as launches in stream order: one environment step, one update, fingerprints. Nothing here allocates,
//! waits or reads, so that a graph can capture it.

use super::environment::{Collected, Rule};
use super::error::CudaError;
use super::gather::Gathered;
use super::held::{Collector, Gpu, Held, collector_floats, gradient_floats, listed, weight_floats};
use super::learner::forward;
use super::sample::{Draw, Renewed};
use crate::bits::philox::Key;
use crate::bits::rounding::power;
use crate::engine::trainer::OBSERVATION;
use crate::scenario::settings::{ReplayKind, Settings};

/// What the steps of a fold stand on.
#[derive(Clone, Debug)]
pub(super) struct Ground<'a> {
    pub gpu: &'a Gpu,
    pub settings: &'a Settings,
    pub rule: Rule,
    /// stream of the replay's draws
    pub sample: Key,
}

impl Held {
    /// One environment step of all environments.
    pub fn collect(&mut self, ground: &Ground<'_>) -> Result<(), CudaError> {
        let (k, bars) = (&ground.gpu.kernels, &ground.gpu.bars);
        let Held { learner, ring, tree, accounts, collector, counters, searches, .. } = self;
        k.environment.observe(accounts, bars, collector.observation.all_mut(), counters.stop())?;
        let (x, n) = (collector.observation.all(), accounts.len());
        forward(k, &learner.online, x, n, &mut collector.activations, counters.stop())?;
        k.finite.run(&searches[0], &collector_floats(collector), counters)?;
        let Collector { activations, explores, actions, rewards, .. } = collector;
        let out = Collected { explores: explores.all_mut(), actions: actions.all_mut(), rewards: rewards.all_mut() };
        k.environment.collect((accounts, ring), bars, &ground.rule, activations.q.all(), out, counters)?;
        k.environment.count_env_step(counters)?;
        k.sample.open(ring, tree, counters)
    }

    fn draw(&mut self, ground: &Ground<'_>) -> Result<(), CudaError> {
        let (k, t) = (&ground.gpu.kernels, &ground.settings.training);
        let Held { learner, ring, tree, rows, largest, counters, .. } = self;
        let draw = Draw {
            key: ground.sample,
            beta: (t.replay == ReplayKind::Prioritized).then_some(t.beta),
            rows: rows.all_mut(),
            weights: learner.sampled.weights.all_mut(),
            largest,
            drawn: None,
        };
        k.sample.draw(ring, tree, draw, counters)?;
        let (b, s) = (rows.len(), &mut learner.sampled);
        let [obs, next_obs] = s.obs.halves_mut(b * OBSERVATION);
        let (actions, returns, done) = (s.actions.all_mut(), s.returns.all_mut(), s.done.all_mut());
        let out = Gathered { obs, next_obs, actions, returns, done };
        k.gather.run(ring, ground.gpu.bars.columns(), rows.all(), t.gamma as f32, out, counters.stop())
    }

    /// One update.
    pub fn update(&mut self, ground: &Ground<'_>) -> Result<(), CudaError> {
        self.draw(ground)?;
        let (k, t, b) = (&ground.gpu.kernels, &ground.settings.training, self.rows.len());
        let Held { learner, ring, tree, owner, rows, counters, schedule, searches, .. } = self;
        learner.gradients(power(t.gamma, t.n_step as u64) as f32, counters.stop())?;
        k.finite.run(&searches[1], &gradient_floats(learner, b), counters)?;
        learner.apply(schedule, counters)?;
        if t.replay == ReplayKind::Prioritized {
            let new = Renewed::Deltas(learner.ws.delta.all(), t.epsilon_priority as f32, t.alpha);
            k.sample.renew((ring, tree), rows.all(), new, owner, counters.stop())?;
        }
        k.environment.count_update(counters)?;
        k.finite.run(&searches[2], &weight_floats(learner), counters)
    }

    /// Fingerprints of state and results into a slot.
    pub fn take_prints(&mut self, ground: &Ground<'_>, slot: usize) -> Result<(), CudaError> {
        let b = self.rows.len();
        let Held { learner, ring, accounts, counters, streams, collector, rows, prints, .. } = self;
        let list = listed(learner, ring, accounts, counters, streams, collector, rows, b);
        ground.gpu.kernels.fingerprint.run(prints, &list, slot)
    }
}
