//! All state of a run at one moment, and the one list of named tensors that digests, checkpoints, diffs and resume walk.

use super::cpu::Network;
use super::environment::Environments;
use super::network::NetworkShape;
use super::replay::Replay;
use crate::bits::philox::{self, Key};
use crate::trace::observer::TensorView;
use crate::trace::record::Dtype;

/// Keys of the generators of one fold. Each draw is a function of key and counters; the counters are
/// `env.steps` and `learner.t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    /// exploration: element = environment, step = environment step
    pub explore: Key,
    /// episode starts: element = environment, step = first step of the episode
    pub reset: Key,
    /// replay draws: element = batch position, step = updates done
    pub sample: Key,
}

impl Streams {
    /// The streams of rule 7.
    pub fn new(seed: u64, fold: u32) -> Self {
        let key = |name| philox::stream_key(seed, fold, name);
        Streams { explore: key("env.explore"), reset: key("env.reset"), sample: key("replay.sample") }
    }
}

/// State of a run.
#[derive(Debug)]
pub struct State {
    /// online network
    pub online: Network,
    /// target network
    pub target: Network,
    /// first moments, laid out as the parameters
    pub m: Vec<f32>,
    /// second moments
    pub v: Vec<f32>,
    /// updates behind the weights (Adam's t − 1 before an update); goes on over folds under `carry`
    pub t: u64,
    /// updates of this fold
    pub fold_updates: u64,
    /// replay ring
    pub replay: Replay,
    /// environments
    pub env: Environments,
    /// environment steps of this fold
    pub env_steps: u64,
    /// generators
    pub streams: Streams,
}

/// Initial parameters of a fold: one stream a tensor (rule 7), biases +0.
pub fn initial_parameters(shape: &NetworkShape, seed: u64, fold: u32) -> Vec<f32> {
    let mut parameters = vec![0.0; shape.parameters()];
    for layer in shape.layers() {
        let key = philox::stream_key(seed, fold, &format!("init.q.{}.weight", layer.name));
        let scale = philox::initial_scale(layer.inputs);
        for (i, w) in parameters[layer.weight].iter_mut().enumerate() {
            *w = philox::initial_weight(key, i as u32, scale);
        }
    }
    parameters
}

const PARAMETER_GROUPS: [&str; 4] = ["q.", "target.", "adam.m.q.", "adam.v.q."];

impl State {
    /// The named tensors in list order.
    pub fn tensors(&self) -> Vec<TensorView<'_>> {
        let shape = self.online.shape();
        let mut list = Vec::with_capacity(120);
        let groups = [self.online.parameters(), self.target.parameters(), &self.m, &self.v];
        for (prefix, flat) in PARAMETER_GROUPS.into_iter().zip(groups) {
            for (name, sizes, range) in shape.tensors() {
                list.push(TensorView::new(format!("{prefix}{name}"), Dtype::F32, &sizes, &flat[range]));
            }
        }
        list.push(TensorView::new("learner.t", Dtype::U64, &[1], std::slice::from_ref(&self.t)));
        list.push(TensorView::new("fold.updates", Dtype::U64, &[1], std::slice::from_ref(&self.fold_updates)));
        self.replay_tensors(&mut list);
        self.env_tensors(&mut list);
        let key = |name: &str, key| TensorView::new(name.to_owned(), Dtype::U32, &[2], key);
        list.push(key("rng.env.explore", &self.streams.explore));
        list.push(key("rng.env.reset", &self.streams.reset));
        list.push(key("rng.replay.sample", &self.streams.sample));
        list
    }

    fn replay_tensors<'a>(&'a self, list: &mut Vec<TensorView<'a>>) {
        let (r, n) = (&self.replay, self.replay.rows());
        let kept = |i: usize| r.kept().map(|k| k[i].value());
        let mut column = |name: &str, dtype, shape: &[usize], i: usize| {
            let view = TensorView::new(format!("replay.{name}"), dtype, shape, r.columns()[i]);
            list.push(TensorView { kept: kept(i), ..view });
        };
        column("asset", Dtype::U32, &[n], 0);
        column("time", Dtype::U32, &[n], 1);
        column("before", Dtype::F32, &[n, 4], 2);
        column("after", Dtype::F32, &[n, 4], 3);
        column("actions", Dtype::U8, &[n, 3], 4);
        column("done", Dtype::U8, &[n], 5);
        column("reward", Dtype::F32, &[n], 6);
        column("priority", Dtype::U32, &[n], 7);
        list.push(TensorView::new("replay.priority_max", Dtype::U32, &[1], std::slice::from_ref(&r.priority_max)));
    }

    fn env_tensors<'a>(&'a self, list: &mut Vec<TensorView<'a>>) {
        let (e, n) = (&self.env, self.env.len());
        list.push(TensorView::new("env.time", Dtype::U32, &[n], &e.time));
        list.push(TensorView::new("env.position", Dtype::F32, &[n], &e.position));
        list.push(TensorView::new("env.open", Dtype::F32, &[n], &e.open));
        list.push(TensorView::new("env.bars", Dtype::U32, &[n], &e.bars));
        list.push(TensorView::new("env.equity", Dtype::F32, &[n], &e.equity));
        list.push(TensorView::new("env.peak", Dtype::F32, &[n], &e.peak));
        list.push(TensorView::new("env.episode_bars", Dtype::U32, &[n], &e.episode_bars));
        list.push(TensorView::new("env.steps", Dtype::U64, &[1], std::slice::from_ref(&self.env_steps)));
    }

    /// Overwrites one named tensor; `bytes` has its length. False when there is no such tensor. Call
    /// [`State::rebuild`] after the last.
    pub fn load(&mut self, name: &str, bytes: &[u8]) -> bool {
        if let Some((group, layer)) = split_parameter(name) {
            let tensors = self.online.shape().tensors();
            let Some((_, _, range)) = tensors.into_iter().find(|(n, ..)| n == layer) else { return false };
            let write = |flat: &mut [f32]| fill(&mut flat[range.clone()], bytes);
            match group {
                0 => self.online.update(write),
                1 => self.target.update(write),
                2 => write(&mut self.m),
                _ => write(&mut self.v),
            }
            return true;
        }
        let (r, e) = (&mut self.replay, &mut self.env);
        match name {
            "learner.t" => fill(std::slice::from_mut(&mut self.t), bytes),
            "fold.updates" => fill(std::slice::from_mut(&mut self.fold_updates), bytes),
            "replay.asset" => fill(&mut r.asset, bytes),
            "replay.time" => fill(&mut r.time, bytes),
            "replay.before" => fill(&mut r.before, bytes),
            "replay.after" => fill(&mut r.after, bytes),
            "replay.actions" => fill(&mut r.actions, bytes),
            "replay.done" => fill(&mut r.done, bytes),
            "replay.reward" => fill(&mut r.reward, bytes),
            "replay.priority" => fill(&mut r.priority, bytes),
            "replay.priority_max" => fill(std::slice::from_mut(&mut r.priority_max), bytes),
            "env.time" => fill(&mut e.time, bytes),
            "env.position" => fill(&mut e.position, bytes),
            "env.open" => fill(&mut e.open, bytes),
            "env.bars" => fill(&mut e.bars, bytes),
            "env.equity" => fill(&mut e.equity, bytes),
            "env.peak" => fill(&mut e.peak, bytes),
            "env.episode_bars" => fill(&mut e.episode_bars, bytes),
            "env.steps" => fill(std::slice::from_mut(&mut self.env_steps), bytes),
            "rng.env.explore" => fill(&mut self.streams.explore, bytes),
            "rng.env.reset" => fill(&mut self.streams.reset, bytes),
            "rng.replay.sample" => fill(&mut self.streams.sample, bytes),
            _ => return false,
        }
        true
    }

    /// Rebuilds what is derived from the tensors, after they were loaded.
    pub fn rebuild(&mut self) {
        self.replay.rebuild(self.env_steps);
    }
}

fn fill<T: bytemuck::Pod>(data: &mut [T], bytes: &[u8]) {
    bytemuck::cast_slice_mut(data).copy_from_slice(bytes);
}

/// Group of a parameter tensor and its name without prefix.
fn split_parameter(name: &str) -> Option<(usize, &str)> {
    PARAMETER_GROUPS.iter().enumerate().find_map(|(i, prefix)| Some((i, name.strip_prefix(prefix)?)))
}
