//! The ledger of operations at trace level `op`: every byte an operation may read, every byte it wrote.

use super::cpu::{Activations, Network, Workspace};
use super::replay::Transition;
use super::state::State;
use crate::bits::rounding::AdamConstants;
use crate::digest::fingerprint::{Fingerprint, fingerprint};
use crate::trace::observer::{OpView, TensorView, operands};

/// Operations since the last report. Does nothing unless they are wanted.
#[derive(Debug, Default)]
pub struct Ledger {
    wanted: bool,
    market: Vec<(String, Fingerprint)>,
    ops: Vec<OpView>,
    pending: Vec<(String, Fingerprint)>,
}

type Named = Vec<(String, Fingerprint)>;

impl Ledger {
    /// A ledger; `market` names the market's tables.
    pub fn new(wanted: bool, market: &[(&str, &[u8])]) -> Self {
        let market = if wanted { operands(market) } else { Vec::new() };
        Ledger { wanted, market, ..Ledger::default() }
    }

    /// The operations since the last [`Ledger::clear`].
    pub fn ops(&self) -> &[OpView] {
        &self.ops
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.ops.clear();
    }

    fn push(&mut self, name: &str, inputs: impl FnOnce() -> Named, outputs: impl FnOnce() -> Named) {
        if self.wanted {
            self.ops.push(OpView { name: name.to_owned(), inputs: inputs(), outputs: outputs() });
        }
    }

    /// Initial weights and episode starts of a fold.
    pub fn start(&mut self, state: &State) {
        self.push("init", Vec::new, || of(state, &["q.", "target.", "adam."]));
        self.push("env.reset", || of(state, &["rng.env.reset", "env.steps"]), || of(state, &["env.time"]));
    }

    /// Market row and position state side by side.
    pub fn observe(&mut self, state: &State, observation: &[f32]) {
        let market = self.market.clone();
        self.push(
            "collector.observe",
            || [market, of(state, &["env."])].concat(),
            || operands(&[("collector.observation", bytemuck::cast_slice(observation))]),
        );
    }

    /// A forward pass of the online network.
    pub fn forward(&mut self, prefix: &str, net: &Network, x: &[f32], out: &Activations) {
        self.push(
            &format!("{prefix}.forward"),
            || [vec![one("x", x)], network(net, "q")].concat(),
            || activations(prefix, out),
        );
    }

    /// Exploration draws.
    pub fn explore(&mut self, state: &State, threshold: u64, drawn: &[u32], explores: &[u8]) {
        self.push(
            "env.explore",
            || {
                [of(state, &["rng.env.explore", "env.steps"]), operands(&[("threshold", &threshold.to_le_bytes())])]
                    .concat()
            },
            || operands(&[("explore.words", bytemuck::cast_slice(drawn)), ("explores", explores)]),
        );
    }

    /// Greedy or random actions.
    pub fn act(&mut self, q: &[f32], explores: &[u8], actions: &[u8]) {
        self.push(
            "collector.act",
            || operands(&[("collector.q", bytemuck::cast_slice(q)), ("explores", explores)]),
            || operands(&[("collector.actions", actions)]),
        );
    }

    /// State that the environment step reads.
    pub fn env_inputs(&mut self, state: &State, before: &[f32], actions: &[u8]) {
        if self.wanted {
            let named = [("env.state", bytemuck::cast_slice(before)), ("collector.actions", actions)];
            self.pending = [self.market.clone(), of(state, &["env."]), operands(&named)].concat();
        }
    }

    /// The environment step, the row write, and the restarts.
    pub fn env_outputs(&mut self, state: &State, rows: &[Transition], restarts: &[usize]) {
        if !self.wanted {
            return;
        }
        let before: Vec<[f32; 4]> = rows.iter().map(|r| r.before).collect();
        let after: Vec<[f32; 4]> = rows.iter().map(|r| r.after).collect();
        let reward: Vec<f32> = rows.iter().map(|r| r.reward).collect();
        let done: Vec<u8> = rows.iter().map(|r| u8::from(r.done)).collect();
        let named = |prefix: &str| {
            vec![
                (format!("{prefix}.after"), fingerprint(bytemuck::cast_slice(&after))),
                (format!("{prefix}.reward"), fingerprint(bytemuck::cast_slice(&reward))),
                (format!("{prefix}.done"), fingerprint(&done)),
            ]
        };
        let inputs = std::mem::take(&mut self.pending);
        self.push("env.step", || inputs, || named("env"));
        let written = (String::from("row.before"), fingerprint(bytemuck::cast_slice(&before)));
        self.push("replay.write", || named("env"), || [vec![written], of(state, &["replay."])].concat());
        let who: Vec<u32> = restarts.iter().map(|e| *e as u32).collect();
        let inputs = || [of(state, &["rng.env.reset", "env.steps"]), vec![one("restarts", &who)]].concat();
        self.push("env.reset", inputs, || of(state, &["env.time"]));
    }

    /// Rows drawn from the replay.
    pub fn sample(&mut self, state: &State, rows: &[u32], weights: &[f32]) {
        let reads = ["rng.replay.sample", "learner.t", "env.steps", "replay.priority"];
        self.push(
            "replay.sample",
            || of(state, &reads),
            || vec![one("sample.rows", rows), one("sample.weights", weights)],
        );
    }

    /// Rebuilt observations and returns.
    pub fn gather(&mut self, state: &State, batch: &[(&str, &[u8])]) {
        let market = self.market.clone();
        self.push("replay.gather", || [market, of(state, &["replay."])].concat(), || operands(&batch[..5]));
    }

    /// Forward passes, targets, loss, gradients, and the norm, which read the tensors in `order`.
    pub fn gradients(&mut self, state: &State, batch: &[(&str, &[u8])], ws: &Workspace, order: &[usize]) {
        if !self.wanted {
            return;
        }
        let nets = [network(&state.online, "q"), network(&state.target, "target")].concat();
        let q_next = vec![one("online.q_next", &ws.q_next_online), one("target.q_next", &ws.q_next_target)];
        let passes = [activations("online", &ws.online), q_next.clone()].concat();
        self.push("learner.forward", || [nets.clone(), operands(&batch[..2])].concat(), || passes);
        let y = one("td.y", &ws.y);
        self.push("td_target", || [q_next, operands(&batch[3..5])].concat(), || vec![y.clone()]);
        let loss = vec![
            one("td.delta", &ws.delta),
            one("loss_terms", &ws.loss_terms),
            one("g", &ws.g),
            one("loss", &[ws.loss]),
        ];
        let q = one("online.q", &ws.online.q);
        self.push("loss", || [vec![q, y], operands(&batch[2..3]), operands(&batch[5..6])].concat(), || loss);
        let dz = vec![
            one("dz.bottleneck", &ws.dz.bottleneck),
            one("dz.trunk1", &ws.dz.trunk1),
            one("dz.trunk2", &ws.dz.trunk2),
            one("dz.hidden", &ws.dz.hidden),
            one("dz.outputs", &ws.dz.outputs),
        ];
        let layers = activations("online", &ws.online);
        let g = one("g", &ws.g);
        let inputs = || [network(&state.online, "q"), layers.clone(), vec![g], operands(&batch[2..3])].concat();
        self.push("backward", inputs, || dz.clone());
        let gradients = gradient_tensors(state, &ws.gradients);
        self.push("gradient", || [dz, layers, operands(&batch[..1])].concat(), || gradients.clone());
        let read: Named = order.iter().map(|&i| gradients[i].clone()).collect();
        self.push("norm", || read, || vec![one("tensor_squares", &ws.tensor_squares), one("norm", &[ws.norm])]);
    }

    /// State that Adam reads.
    pub fn before_apply(&mut self, state: &State) {
        if self.wanted {
            self.pending = of(state, &["q.", "adam.", "target.", "learner.t"]);
        }
    }

    /// Adam and the target's update.
    pub fn after_apply(&mut self, state: &State, ws: &Workspace, c: &AdamConstants, tau: f32) {
        if !self.wanted {
            return;
        }
        let pending = std::mem::take(&mut self.pending);
        let (target, rest): (Named, Named) = pending.into_iter().partition(|(name, _)| name.starts_with("target."));
        let constants = [c.beta1, c.beta2, c.c1, c.c2, c.a, c.b, c.epsilon];
        let scalars = vec![one("norm", &[ws.norm]), one("adam.constants", &constants)];
        let gradients = gradient_tensors(state, &ws.gradients);
        self.push("adam", || [rest, gradients, scalars].concat(), || of(state, &["q.", "adam."]));
        let inputs = || [target, of(state, &["q.", "learner.t"]), vec![one("tau", &[tau])]].concat();
        self.push("target", inputs, || of(state, &["target."]));
    }

    /// Priorities written back.
    pub fn priorities(&mut self, state: &State, rows: &[u32], delta: &[f32]) {
        let inputs = || vec![one("sample.rows", rows), one("td.delta", delta)];
        self.push("replay.priorities", inputs, || of(state, &["replay.priority"]));
    }
}

fn one<T: bytemuck::NoUninit>(name: &str, data: &[T]) -> (String, Fingerprint) {
    (name.to_owned(), fingerprint(bytemuck::cast_slice(data)))
}

/// State tensors by name or by prefix ending in a dot.
fn of(state: &State, names: &[&str]) -> Named {
    let wanted =
        |t: &TensorView<'_>| names.iter().any(|n| if n.ends_with('.') { t.name.starts_with(n) } else { t.name == *n });
    state.tensors().iter().filter(|t| wanted(t)).map(|t| (t.name.clone(), t.step_fingerprint())).collect()
}

fn network(net: &Network, prefix: &str) -> Named {
    let packed =
        net.packed_bytes().into_iter().map(|(name, bytes)| (format!("{prefix}.packed.{name}"), fingerprint(bytes)));
    let tensors = net.shape().tensors().into_iter();
    let plain = tensors.map(|(name, _, range)| one(&format!("{prefix}.{name}"), &net.parameters()[range]));
    plain.chain(packed).collect()
}

fn activations(prefix: &str, a: &Activations) -> Named {
    let layers = [
        ("bottleneck", &a.bottleneck),
        ("trunk1", &a.trunk1),
        ("trunk2", &a.trunk2),
        ("hidden", &a.hidden),
        ("outputs", &a.outputs),
        ("q", &a.q),
    ];
    layers.into_iter().map(|(name, data)| one(&format!("{prefix}.{name}"), data)).collect()
}

fn gradient_tensors(state: &State, flat: &[f32]) -> Named {
    let tensors = state.online.shape().tensors().into_iter();
    tensors.map(|(name, _, range)| one(&format!("gradient.{name}"), &flat[range])).collect()
}
