//! Whole updates: against the contract's vectors, across threads and paths, packed copies, planted sums.

use serde_json::Value;

use super::super::{Activations, Batch, Cpu, Faults, Network, SimdPath, TargetRule, Workspace};
use super::{bits, values};
use crate::bits::rounding::{AdamConstants, power};
use crate::engine::network::NetworkShape;
use crate::engine::replay::Replay;

/// A learner's state and the batches it sees.
struct Learner {
    online: Network,
    target: Network,
    m: Vec<f32>,
    v: Vec<f32>,
    ws: Workspace,
}

const SHAPE: NetworkShape = NetworkShape { d: 11, bottleneck: 7, h: 38 };

fn ordinary(seed: u64, n: usize, scale: f32) -> Vec<f32> {
    values(seed, n).iter().map(|x| if x.abs() <= 1.0 { x * scale } else { 0.0 }).collect()
}

impl Learner {
    fn new(shape: NetworkShape) -> Self {
        let n = shape.parameters();
        let online = Network::new(shape, &ordinary(1, n, 0.4));
        let target = Network::new(shape, &ordinary(2, n, 0.4));
        Learner { online, target, m: vec![0.0; n], v: vec![0.0; n], ws: Workspace::default() }
    }

    fn update(&mut self, cpu: &Cpu, t: u64, rows: usize, rule: TargetRule) {
        let d = self.online.shape().d;
        let (obs, next_obs) = (ordinary(10 + t, rows * d, 2.0), ordinary(20 + t, rows * d, 2.0));
        let actions: Vec<[u8; 3]> = (0..rows).map(|i| [i, i / 5, i + 2].map(|a| (a % 5) as u8)).collect();
        let done: Vec<bool> = (0..rows).map(|i| i % 7 == 3).collect();
        let (returns, weights) = (ordinary(30 + t, rows, 3.0), vec![0.75; rows]);
        let batch = Batch {
            obs: &obs,
            next_obs: &next_obs,
            actions: &actions,
            returns: &returns,
            done: &done,
            weights: &weights,
            gamma_n: 0.97,
        };
        cpu.gradients(&self.online, &self.target, &batch, &mut self.ws);
        let c = AdamConstants::new(1e-3, 0.9, 0.999, 1e-8, power(0.9, t), power(0.999, t));
        let Learner { online, target, m, v, ws } = self;
        cpu.apply(&c, 0.5, rule, online, target, m, v, ws);
    }

    /// Every bit of the state and of the last update.
    fn everything(&self) -> Vec<Vec<u32>> {
        let ws = &self.ws;
        let scalars = [ws.sum_squares, ws.norm, ws.k, ws.loss];
        let all: [&[f32]; 21] = [
            self.online.parameters(),
            self.target.parameters(),
            &self.m,
            &self.v,
            &ws.gradients,
            &ws.tensor_squares,
            &scalars,
            &ws.online.bottleneck,
            &ws.online.trunk2,
            &ws.online.hidden,
            &ws.online.outputs,
            &ws.online.q,
            &ws.q_next_online,
            &ws.q_next_target,
            &ws.y,
            &ws.delta,
            &ws.loss_terms,
            &ws.g,
            &ws.dz.bottleneck,
            &ws.dz.hidden,
            &ws.dz.outputs,
        ];
        all.into_iter().map(bits).collect()
    }
}

fn run(path: SimdPath, threads: usize, faults: Faults, rows: usize) -> Learner {
    let cpu = Cpu::new(path, threads, faults).expect("an available path");
    let mut learner = Learner::new(SHAPE);
    for (t, rule) in [(1, TargetRule::Polyak { tau: 0.005 }), (2, TargetRule::Copy), (3, TargetRule::Keep)] {
        learner.update(&cpu, t, rows, rule);
    }
    learner
}

/// Would fail if a result depended on the thread count or the path; rows below the thread count included.
#[test]
fn threads_and_paths_agree() {
    for rows in [2, 41, 300] {
        let expected = run(SimdPath::best(), 1, Faults::default(), rows).everything();
        assert!(expected[4].iter().any(|&g| g != 0), "gradients are not all zero");
        for path in SimdPath::available() {
            for threads in [1, 2, 3, 7] {
                if path == SimdPath::Scalar && threads != 2 {
                    continue;
                }
                let found = run(path, threads, Faults::default(), rows).everything();
                assert!(found == expected, "{path}, {threads} threads, {rows} rows");
            }
        }
    }
}

/// Would fail if an update left a packed copy behind, or the target network were packed from other weights.
#[test]
fn packed_copies_are_fresh() {
    let learner = run(SimdPath::best(), 2, Faults::default(), 30);
    let fresh = Network::new(SHAPE, learner.online.parameters());
    assert!(learner.online.packed_bytes() == fresh.packed_bytes());
    let fresh = Network::new(SHAPE, learner.target.parameters());
    assert!(learner.target.packed_bytes() == fresh.packed_bytes());
    let mut changed = fresh.clone();
    changed.update(|w| w[3] += 1.0);
    assert!(changed.packed_bytes() != fresh.packed_bytes());
}

/// Would fail if a forward pass depended on how many rows come with a row.
#[test]
fn a_row_does_not_see_its_neighbours() {
    let net = Network::new(SHAPE, &ordinary(1, SHAPE.parameters(), 0.4));
    let x = ordinary(5, 50 * SHAPE.d, 2.0);
    let cpu = Cpu::new(SimdPath::best(), 3, Faults::default()).expect("starts");
    let (mut all, mut one) = (Activations::default(), Activations::default());
    cpu.forward(&net, &x, 50, &mut all);
    for row in 0..50 {
        cpu.forward(&net, &x[row * SHAPE.d..(row + 1) * SHAPE.d], 1, &mut one);
        assert_eq!(bits(&one.q), bits(&all.q[row * 15..(row + 1) * 15]), "row {row}");
    }
}

/// Would fail if callers of one engine waited for each other for ever, from outside the pool or from within, or mixed
/// their rows.
#[test]
fn callers_at_once_do_not_block_each_other() {
    let net = Network::new(SHAPE, &ordinary(1, SHAPE.parameters(), 0.4));
    let x = ordinary(5, 300 * SHAPE.d, 2.0);
    let cpu = Cpu::new(SimdPath::best(), 3, Faults::default()).expect("starts");
    let q = || {
        let mut out = Activations::default();
        cpu.forward(&net, &x, 300, &mut out);
        bits(&out.q)
    };
    let expected = q();
    std::thread::scope(|scope| {
        for caller in 0..4 {
            let (cpu, q, expected) = (&cpu, &q, &expected);
            scope.spawn(move || {
                for _ in 0..20 {
                    assert!(&(if caller % 2 == 0 { q() } else { cpu.on_pool(q) }) == expected, "caller {caller}");
                }
            });
        }
    });
}

/// Would fail if the planted sums could not be told from the contract's, or the chunked one were not stable.
#[test]
fn planted_sums_differ() {
    let chunked = Faults { thread_chunked_sum: true, ..Faults::default() };
    let sums = |threads, faults| run(SimdPath::best(), threads, faults, 41).ws.tensor_squares.map(f32::to_bits);
    let honest = sums(1, Faults::default());
    assert_eq!(sums(1, chunked), honest, "one chunk is the contract's sum");
    assert_ne!(sums(3, chunked), honest);
    assert_eq!(sums(3, chunked), sums(3, chunked), "a fixed thread count repeats");
    let unordered = Faults { unordered_sum: true, ..Faults::default() };
    assert_eq!(sums(1, unordered), sums(1, unordered), "one thread has one order");
    let first = sums(2, unordered);
    assert!((0..200).any(|_| sums(2, unordered) != first), "two threads never changed the order");
}

/// Would fail if an empty batch passed as one without gradients.
#[test]
#[should_panic(expected = "an empty batch")]
fn an_empty_batch_is_refused() {
    let cpu = Cpu::new(SimdPath::best(), 1, Faults::default()).expect("starts");
    Learner::new(SHAPE).update(&cpu, 1, 0, TargetRule::Keep);
}

fn words(v: &Value) -> Vec<f32> {
    let word = |w: &str| f32::from_bits(u32::from_str_radix(w, 16).expect("a hex word"));
    v.as_str().expect("a text").split(' ').map(word).collect()
}

fn real(v: &Value) -> f64 {
    f64::from_bits(u64::from_str_radix(v.as_str().expect("a text"), 16).expect("a hex word"))
}

fn count(v: &Value) -> usize {
    v.as_u64().expect("a number") as usize
}

/// `{tensor: words}` as one flat buffer in list order.
fn flat(shape: NetworkShape, v: &Value) -> Vec<f32> {
    shape.tensors().iter().flat_map(|(name, ..)| words(&v[name])).collect()
}

/// The rows drawn for one of a case's updates, as a batch: obs, next_obs, actions, returns, done.
#[expect(clippy::type_complexity, reason = "one column each")]
fn drawn(input: &Value, rows: &Value, gamma: f32) -> (Vec<f32>, Vec<f32>, Vec<[u8; 3]>, Vec<f32>, Vec<bool>) {
    let mut batch = (vec![], vec![], vec![], vec![], vec![]);
    for row in rows.as_array().expect("rows") {
        let transition = &input["transitions"][count(row)];
        batch.0.extend(words(&transition["obs"]));
        batch.1.extend(words(&transition["next_obs"]));
        batch.2.push([0, 1, 2].map(|b| count(&transition["actions"][b]) as u8));
        let dones: Vec<bool> = transition["dones"].as_array().expect("flags").iter().map(|d| count(d) == 1).collect();
        let mut ring = Replay::new(dones.len(), 1, dones.len(), false);
        ring.reward = words(&transition["rewards"]);
        ring.done = dones.into_iter().map(u8::from).collect();
        let (r, done, _) = ring.n_step_return(0, gamma);
        batch.3.push(r);
        batch.4.push(done);
    }
    batch
}

/// Would fail if gradients, clip, Adam or the target network left the contract: three updates in a row of each case,
/// with the rows and importance weights that the vectors give (drawing them is the replay's business).
#[test]
fn whole_updates_follow_the_vectors() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/cases/vectors/whole-update.json");
    let file: Value = serde_json::from_slice(&std::fs::read(path).expect("the vectors")).expect("JSON");
    for path in SimdPath::available() {
        let cpu = Cpu::new(path, 2, Faults::default()).expect("an available path");
        file["cases"].as_array().expect("cases").iter().for_each(|case| follow(&cpu, case));
    }
}

fn follow(cpu: &Cpu, case: &Value) {
    let (input, settings) = (&case["in"], &case["in"]["settings"]);
    let size = |key: &str| count(&input["shape"][key]);
    let shape = NetworkShape { d: size("d"), bottleneck: size("bottleneck"), h: size("h") };
    let before = |key: &str| flat(shape, &input["before"][key]);
    let [mut online, mut target] = ["q", "target"].map(|key| Network::new(shape, &before(key)));
    let (mut m, mut v, mut ws) = (before("m"), before("v"), Workspace::default());
    let [lr, beta1, beta2, epsilon, clip, gamma] =
        ["lr", "beta1", "beta2", "epsilon", "clip", "gamma"].map(|key| real(&settings[key]));
    let updates = case["out"].as_array().expect("updates");
    assert!(!updates.is_empty());
    for (t, out) in (count(&input["before"]["t"]) as u64 + 1..).zip(updates) {
        let (obs, next_obs, actions, returns, done) = drawn(input, &out["rows"], gamma as f32);
        let (weights, gamma_n) = (words(&out["w"]), power(gamma, count(&settings["n"]) as u64) as f32);
        let batch = Batch {
            obs: &obs,
            next_obs: &next_obs,
            actions: &actions,
            returns: &returns,
            done: &done,
            weights: &weights,
            gamma_n,
        };
        cpu.gradients(&online, &target, &batch, &mut ws);
        let c = AdamConstants::new(lr, beta1, beta2, epsilon, power(beta1, t), power(beta2, t));
        let rule =
            TargetRule::of(settings["tau"].as_str().map(|_| real(&settings["tau"])), settings["period"].as_u64(), t);
        cpu.apply(&c, clip as f32, rule, &mut online, &mut target, &mut m, &mut v, &mut ws);
        let same = |name: &str, found: &[f32], expected: &[f32]| {
            assert_eq!(bits(found), bits(expected), "{} {name} at t = {t}", cpu.path())
        };
        for (name, found) in [("q", &ws.online.q), ("y", &ws.y), ("deltas", &ws.delta)] {
            same(name, found, &words(&out[name]));
        }
        for (name, found) in [("loss", ws.loss), ("s", ws.sum_squares), ("norm", ws.norm), ("k", ws.k)] {
            same(name, &[found], &words(&out[name]));
        }
        same("gradients", &ws.gradients, &flat(shape, &out["gradients"]));
        let state = [("q", online.parameters()), ("target", target.parameters()), ("m", &m), ("v", &v)];
        state.iter().for_each(|(name, found)| same(name, found, &flat(shape, &out["after"][name])));
    }
}
