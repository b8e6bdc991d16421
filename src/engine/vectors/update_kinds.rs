//! Vectors of whole updates: sampling, gradients, clip, Adam, target network, priorities, three times in a row.

use std::ops::Range;

use super::CaseFault;
use super::fields::{Fields, Found, Outputs, SIZE_LIMIT};
use super::network_kinds::product;
use super::replay_kinds::{exponent, n_step_return, priorities, ring, tree};
use crate::bits::philox::{Key, stream_key};
use crate::bits::rounding::{AdamConstants, power};
use crate::engine::cpu::{Batch, Cpu, Network, TargetRule, Workspace};
use crate::engine::network::{BRANCHES, NetworkShape};
use crate::engine::replay::{Replay, draw_below, importance_weights, priority};

/// One a whole update; the file lists as many.
const UPDATES: [&str; 3] = ["0", "1", "2"];

struct Settings {
    lr: f64,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    clip: f64,
    gamma: f64,
    n: usize,
    tau: Option<f64>,
    period: Option<u64>,
    /// α, β and ε of prioritized replay
    prioritized: Option<(f64, f64, f32)>,
    batch: usize,
    key: Key,
}

impl Settings {
    fn read(i: &Fields) -> Result<Self, CaseFault> {
        let prioritized = if i.given("alpha")? {
            Some((exponent(i, "alpha")?, exponent(i, "beta")?, i.f64("epsilon_priority")? as f32))
        } else {
            None
        };
        let tau = if i.given("tau")? { Some(i.f64("tau")?) } else { None };
        let period = if i.given("period")? { Some(i.size("period")? as u64) } else { None };
        let [lr, beta1, beta2, epsilon] = [i.f64("lr")?, i.f64("beta1")?, i.f64("beta2")?, i.f64("epsilon")?];
        let (clip, gamma, n, batch) = (i.f64("clip")?, i.f64("gamma")?, i.size("n")?, i.size("batch")?);
        let key = stream_key(i.u64("seed")?, i.number_u32("fold")?, "replay.sample");
        Ok(Settings { lr, beta1, beta2, epsilon, clip, gamma, n, tau, period, prioritized, batch, key })
    }
}

fn shape(i: &Fields, batch: usize) -> Result<NetworkShape, CaseFault> {
    let shape = NetworkShape { d: i.size("d")?, bottleneck: i.size("bottleneck")?, h: i.size("h")? };
    let NetworkShape { d, bottleneck, h } = shape;
    if !h.is_multiple_of(2) {
        return Err(i.fault("h", format!("expected an even size, found {h}")));
    }
    if shape.parameters() > SIZE_LIMIT {
        return Err(i.fault("h", format!("{} parameters; at most {SIZE_LIMIT} are run", shape.parameters())));
    }
    // The buffers of a batch: s, s', and every layer's outputs.
    product(i, "d", batch, 2 * d + bottleneck + 4 * h)?;
    Ok(shape)
}

struct Transition {
    obs: Vec<f32>,
    next_obs: Vec<f32>,
    actions: [u8; BRANCHES],
    ret: f32,
    done: bool,
}

impl Transition {
    fn read(i: &Fields, d: usize, settings: &Settings) -> Result<Self, CaseFault> {
        let (rewards, dones) = (i.f32s_of("rewards", settings.n)?, i.bools("dones")?);
        i.length("dones", dones.len(), settings.n)?;
        let (ret, done) = n_step_return(&rewards, &dones, settings.gamma as f32);
        let (obs, next_obs) = (i.f32s_of("obs", d)?, i.f32s_of("next_obs", d)?);
        Ok(Transition { obs, next_obs, actions: i.actions("actions", 1)?[0], ret, done })
    }
}

struct Learner {
    online: Network,
    target: Network,
    m: Vec<f32>,
    v: Vec<f32>,
    replay: Replay,
    /// updates done
    t: u64,
    ws: Workspace,
}

fn parameters(i: &Fields, shape: NetworkShape) -> Result<Vec<f32>, CaseFault> {
    let mut flat = Vec::new();
    for (name, _, range) in shape.tensors() {
        flat.extend(i.f32s_of(&name, range.len())?);
    }
    Ok(flat)
}

fn named(shape: NetworkShape, flat: &[f32]) -> Found {
    let tensor = |(name, _, range): (String, Vec<usize>, Range<usize>)| (name, Found::F32(flat[range].to_vec()));
    Found::Fields(shape.tensors().into_iter().map(tensor).collect())
}

impl Learner {
    fn read(i: &Fields, shape: NetworkShape, rows: usize) -> Result<Self, CaseFault> {
        let q = priorities(i, "priorities")?;
        i.length("priorities", q.len(), rows)?;
        let t = i.number("t")?;
        if t > SIZE_LIMIT as u64 {
            return Err(i.fault("t", format!("expected at most {SIZE_LIMIT}, found {t}")));
        }
        let [online, target] = [parameters(&i.fields("q")?, shape)?, parameters(&i.fields("target")?, shape)?];
        let [m, v] = [parameters(&i.fields("m")?, shape)?, parameters(&i.fields("v")?, shape)?];
        let [online, target] = [Network::new(shape, &online), Network::new(shape, &target)];
        Ok(Learner { online, target, m, v, replay: ring(q), t, ws: Workspace::default() })
    }

    /// Rows and importance weights. Rows of priority 0 are those that cannot be sampled.
    fn sample(&self, settings: &Settings) -> (Vec<u32>, Vec<f32>) {
        let q = &self.replay.priority;
        let ones: Vec<u32> = q.iter().map(|&q| u32::from(q > 0)).collect();
        let n = ones.iter().fold(0, |n, &one| n + u64::from(one));
        let tree = tree(if settings.prioritized.is_some() { q } else { &ones });
        let draw = |position| tree.find(draw_below(tree.total(), settings.key, position, self.t)) as u32;
        let rows: Vec<u32> = (0..settings.batch as u32).map(draw).collect();
        let mut w = vec![1.0; rows.len()];
        if let Some((_, beta, _)) = settings.prioritized {
            let sampled: Vec<u32> = rows.iter().map(|&row| q[row as usize]).collect();
            importance_weights(tree.total(), n, &sampled, beta, &mut w);
        }
        (rows, w)
    }

    /// Gradients of the sampled rows, then everything that follows from them.
    fn learn(&mut self, cpu: &Cpu, settings: &Settings, batch: &Batch, rows: &[u32]) {
        let Learner { online, target, m, v, replay, t, ws } = self;
        cpu.gradients(online, target, batch, ws);
        *t += 1;
        let Settings { lr, beta1, beta2, epsilon, .. } = *settings;
        let c = AdamConstants::new(lr, beta1, beta2, epsilon, power(beta1, *t), power(beta2, *t));
        let rule = TargetRule::of(settings.tau, settings.period, *t);
        cpu.apply(&c, settings.clip as f32, rule, online, target, m, v, ws);
        if let Some((alpha, _, epsilon)) = settings.prioritized {
            let deltas = ws.delta.as_chunks().0.iter();
            let new: Vec<u32> = deltas.map(|&deltas| priority(deltas, epsilon, alpha)).collect();
            replay.write_priorities(rows, &new);
        }
    }

    fn update(&mut self, cpu: &Cpu, settings: &Settings, transitions: &[Transition]) -> Vec<(String, Found)> {
        let (rows, w) = self.sample(settings);
        let drawn: Vec<&Transition> = rows.iter().map(|&row| &transitions[row as usize]).collect();
        let obs: Vec<f32> = drawn.iter().flat_map(|t| t.obs.iter().copied()).collect();
        let next_obs: Vec<f32> = drawn.iter().flat_map(|t| t.next_obs.iter().copied()).collect();
        let batch = Batch {
            obs: &obs,
            next_obs: &next_obs,
            actions: &drawn.iter().map(|t| t.actions).collect::<Vec<_>>(),
            returns: &drawn.iter().map(|t| t.ret).collect::<Vec<_>>(),
            done: &drawn.iter().map(|t| t.done).collect::<Vec<_>>(),
            weights: &w,
            gamma_n: power(settings.gamma, settings.n as u64) as f32,
        };
        self.learn(cpu, settings, &batch, &rows);
        self.shown(&rows, w)
    }

    /// What the file lists of an update, in the order of computation.
    fn shown(&self, rows: &[u32], w: Vec<f32>) -> Vec<(String, Found)> {
        let (ws, shape) = (&self.ws, self.online.shape());
        let floats = |xs: &[f32]| Found::F32(xs.to_vec());
        let state = [
            ("t", Found::Numbers(vec![self.t])),
            ("q", named(shape, self.online.parameters())),
            ("target", named(shape, self.target.parameters())),
            ("m", named(shape, &self.m)),
            ("v", named(shape, &self.v)),
            ("priorities", Found::U32(self.replay.priority.clone())),
        ];
        let all = [
            ("rows", Found::Numbers(rows.iter().map(|&row| u64::from(row)).collect())),
            ("w", Found::F32(w)),
            ("q", floats(&ws.online.q)),
            ("y", floats(&ws.y)),
            ("deltas", floats(&ws.delta)),
            ("loss", floats(&[ws.loss])),
            ("gradients", named(shape, &ws.gradients)),
            ("s", floats(&[ws.sum_squares])),
            ("norm", floats(&[ws.norm])),
            ("k", floats(&[ws.k])),
            ("after", Found::Fields(state.map(|(key, found)| (key.to_owned(), found)).into())),
        ];
        all.map(|(key, found)| (key.to_owned(), found)).into()
    }
}

pub(super) fn whole_update(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let settings = Settings::read(&i.fields("settings")?)?;
    let shape = shape(&i.fields("shape")?, settings.batch)?;
    let rows = i.list("transitions")?;
    let transitions: Vec<_> =
        rows.iter().map(|row| Transition::read(row, shape.d, &settings)).collect::<Result<_, _>>()?;
    let mut learner = Learner::read(&i.fields("before")?, shape, transitions.len())?;
    Ok(UPDATES.map(|index| (index, Found::Fields(learner.update(cpu, &settings, &transitions)))).into())
}
