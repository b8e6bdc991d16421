//! The vectors' engine on a CPU path: the functions that training itself calls.

use super::engine::{
    AdamSettings, Computed, Drawn, Engine, Last, Moments, Product, Seen, Start, Table, Updated, Updates,
};
use crate::bits::philox::{self, Key};
use crate::bits::rounding::{AdamConstants, power};
use crate::digest::fingerprint::{self, Fingerprint};
use crate::engine::cpu::gemm::{B, Epilogue, Gemm};
use crate::engine::cpu::rules::{self, Huber, Operation};
use crate::engine::cpu::{Batch, Cpu, Network, Q_VALUES, TargetRule, Workspace};
use crate::engine::environment::{Environments, reset_time};
use crate::engine::network::{ACTIONS, BRANCHES};
use crate::engine::replay::{Replay, SumTree, Transition, draw_below, importance_weights, priority};

fn epilogue<'a>(last: &Last<'a>) -> Epilogue<'a> {
    match *last {
        Last::Store => Epilogue::Store,
        Last::Bias(bias) => Epilogue::Bias(bias),
        Last::BiasRelu(bias) => Epilogue::BiasRelu(bias),
    }
}

/// A ring of one environment whose rows have these priorities; rows of 0 are never drawn.
fn ring(q: Vec<u32>) -> Replay {
    let mut replay = Replay::new(q.len(), 1, 1, false);
    replay.priority = q;
    replay.rebuild(replay.rows() as u64);
    replay
}

/// Running sums over rows of these priorities.
fn tree(q: &[u32]) -> SumTree {
    let mut tree = SumTree::new(q.len());
    q.iter().enumerate().for_each(|(row, &q)| tree.set(row, q));
    tree
}

/// n-step return of one transition's rewards and dones, which lie across the end of a ring.
fn n_step_return(rewards: &[f32], dones: &[bool], gamma: f32) -> (f32, bool) {
    let n = rewards.len();
    let mut replay = Replay::new(n, 1, n, false);
    replay.reward.copy_from_slice(rewards);
    replay.done = dones.iter().map(|&done| u8::from(done)).collect();
    replay.reward.rotate_right(n / 2);
    replay.done.rotate_right(n / 2);
    let (r, done, _) = replay.n_step_return(n / 2, gamma);
    (r, done)
}

fn adam_constants(s: &AdamSettings, t: u64) -> AdamConstants {
    AdamConstants::new(s.lr, s.beta1, s.beta2, s.epsilon, power(s.beta1, t), power(s.beta2, t))
}

impl Engine for Cpu {
    fn elementwise(&self, operation: Operation, operands: [&[f32]; 3]) -> Computed<Vec<f32>> {
        let mut r = vec![0.0; operands[0].len()];
        Cpu::elementwise(self, operation, operands, &mut r);
        Ok(r)
    }

    fn product(&self, p: &Product<'_>) -> Computed<Vec<f32>> {
        let (m, n, k) = p.size;
        let (mut c, last) = (vec![0.0; m * n], epilogue(&p.last));
        match (p.a_k_inner, p.b_k_inner) {
            (true, true) => self.layer(p.a, m, p.b, last, &mut c),
            (true, false) => {
                let parts: Vec<&[f32]> = p.b.chunks(if p.b.is_empty() { 1 } else { p.b.len() / p.b_parts }).collect();
                let b = B::Stack(&parts);
                self.gemm(Gemm { m, n, k, a: p.a, a_row: k, a_k: 1, b, c: &mut c, c_row: n, epilogue: last });
            }
            (false, false) => self.weight_gradient(p.a, p.b, k, &mut c),
            (false, true) => unreachable!("no rule of the contract reads A by columns and B by rows"),
        }
        Ok(c)
    }

    fn relu(&self, z: &[f32]) -> Computed<Vec<f32>> {
        let mut y = vec![0.0; z.len()];
        Cpu::relu(self, z, &mut y);
        Ok(y)
    }

    fn relu_backward(&self, y: &[f32], dy: &[f32]) -> Computed<Vec<f32>> {
        let mut dz = vec![0.0; y.len()];
        Cpu::relu_backward(self, y, dy, &mut dz);
        Ok(dz)
    }

    fn bias_gradient(&self, dz: &[f32], batch: usize, width: usize) -> Computed<Vec<f32>> {
        let mut db = vec![0.0; width];
        Cpu::bias_gradient(self, dz, batch, &mut db);
        Ok(db)
    }

    fn reduce(&self, tensors: &[Vec<f32>], squares: bool) -> Computed<(Vec<f32>, f32)> {
        let one = |t: &Vec<f32>| if squares { self.reduce_squares(t) } else { Cpu::reduce(self, t) };
        let results: Vec<f32> = tensors.iter().map(one).collect();
        let all = Cpu::reduce(self, &results);
        Ok((results, all))
    }

    fn dueling(&self, v: &[f32], a: &[f32]) -> Computed<Vec<f32>> {
        Ok(v.iter().zip(a.as_chunks().0).flat_map(|(&v, &a)| rules::dueling(v, a)).collect())
    }

    fn argmax(&self, q: &[f32]) -> Computed<Vec<u64>> {
        Ok(q.chunks(ACTIONS).map(|q| rules::argmax(q) as u64).collect())
    }

    fn n_step(&self, n: usize, gamma: f32, rewards: &[f32], dones: &[bool]) -> Computed<(Vec<f32>, Vec<bool>)> {
        Ok(rewards.chunks(n).zip(dones.chunks(n)).map(|(r, d)| n_step_return(r, d, gamma)).unzip())
    }

    fn td_target(
        &self,
        r: &[f32],
        done: &[bool],
        gamma_n: f32,
        online: &[f32],
        target: &[f32],
    ) -> Computed<(Vec<u64>, Vec<f32>)> {
        let rows = online.chunks(Q_VALUES).zip(target.chunks(Q_VALUES));
        let y = rows.zip(r).zip(done).map(|(((o, t), &r), &done)| rules::td_target(r, done, gamma_n, o, t));
        Ok((self.argmax(online)?, y.collect()))
    }

    fn huber(&self, q: &[f32], y: &[f32], w: &[f32], c: f32) -> Computed<Vec<Huber>> {
        Ok((0..q.len()).map(|n| rules::huber(q[n], y[n], w[n], c)).collect())
    }

    fn heads_backward(&self, g: &[f32], actions: &[[u8; 3]]) -> Computed<Vec<f32>> {
        let row = |(g, actions): (&[f32; BRANCHES], &[u8; 3])| {
            let (dv, da) = rules::heads_backward(*g, *actions);
            std::iter::once(dv).chain(da.into_iter().flatten()).collect::<Vec<f32>>()
        };
        Ok(g.as_chunks().0.iter().zip(actions).flat_map(row).collect())
    }

    fn clip(&self, sum_squares: f32, limit: f32) -> Computed<(f32, f32)> {
        Ok(rules::clip(sum_squares, limit))
    }

    fn adam(&self, s: &AdamSettings, t: u64, [mut w, mut m, mut v]: Moments, g: &[f32]) -> Computed<Moments> {
        Cpu::adam(self, &adam_constants(s, t), 1.0, &mut w, &mut m, &mut v, g);
        Ok([w, m, v])
    }

    fn polyak(&self, tau: f32, target: &[f32], w: &[f32]) -> Computed<Vec<f32>> {
        let mut target = target.to_vec();
        Cpu::polyak(self, tau, &mut target, w);
        Ok(target)
    }

    fn philox(&self, counters: &[[u32; 4]], key: Key) -> Computed<Vec<[u32; 4]>> {
        Ok(counters.iter().map(|c| philox::philox(*c, key)).collect())
    }

    fn uniform(&self, words: &[u32]) -> Computed<Vec<f32>> {
        Ok(words.iter().map(|w| philox::uniform(*w)).collect())
    }

    fn index_below(&self, n: u64, words: &[[u32; 2]]) -> Computed<Vec<u64>> {
        Ok(words.iter().map(|w| philox::index_below(n, *w)).collect())
    }

    fn explore_threshold(&self, (start, end, steps): (u64, u64, u32), t: &[u64]) -> Computed<Vec<u64>> {
        Ok(t.iter().map(|t| philox::explore_threshold(start, end, *t, steps)).collect())
    }

    fn explore(&self, key: Key, step: u64, threshold: u64, n: usize) -> Computed<(Vec<bool>, Vec<u8>)> {
        let blocks = || (0..n).map(|e| philox::block(key, e as u32, 0, step));
        let explores = blocks().map(|words| u64::from(words[0]) < threshold).collect();
        Ok((explores, blocks().flat_map(philox::random_actions).collect()))
    }

    fn initial_weights(&self, key: Key, scale: f32, n: usize) -> Computed<Vec<f32>> {
        Ok((0..n).map(|e| philox::initial_weight(key, e as u32, scale)).collect())
    }

    fn priority(&self, deltas: &[f32], epsilon: f32, alpha: f64) -> Computed<Vec<u32>> {
        Ok(deltas.as_chunks().0.iter().map(|&deltas| priority(deltas, epsilon, alpha)).collect())
    }

    fn find(&self, q: &[u32], r: &[u64]) -> Computed<(u64, Vec<u64>)> {
        let tree = tree(q);
        Ok((tree.total(), r.iter().map(|&r| tree.find(r) as u64).collect()))
    }

    fn sample(&self, key: Key, step: u64, q: &[u32], positions: usize) -> Computed<(Vec<u64>, Vec<u64>)> {
        let (total, replay) = (tree(q).total(), ring(q.to_vec()));
        let r = (0..positions as u32).map(|position| draw_below(total, key, position, step)).collect();
        let (mut rows, steps) = (vec![0; positions], replay.rows() as u64);
        replay.sample(key, step, steps, Some(0.0), &mut rows, &mut Vec::new());
        Ok((r, rows.into_iter().map(u64::from).collect()))
    }

    fn renew(&self, q: &[u32], rows: &[u32], new: &[u32]) -> Computed<Vec<u32>> {
        let mut replay = ring(q.to_vec());
        replay.write_priorities(rows, new);
        Ok(replay.priority)
    }

    fn new_row(&self, written: &[u32]) -> Computed<u32> {
        let (last, rows) = (written.len(), (0..written.len() as u32).collect::<Vec<u32>>());
        let mut replay = Replay::new(last + 1, 1, 1, false);
        replay.write_priorities(&rows, written);
        let (before, after) = ([0.0; 4], [0.0; 4]);
        let row = Transition { asset: 0, time: 0, before, after, actions: [0; 3], done: false, reward: 0.0 };
        replay.write(last as u64, &[row]);
        Ok(replay.priority[last])
    }

    fn importance(&self, total: u64, n: u64, q: &[u32], beta: f64) -> Computed<Vec<f32>> {
        let mut w = Vec::new();
        importance_weights(total, n, q, beta, &mut w);
        Ok(w)
    }

    fn play(&self, table: &Table, environments: usize, steps: usize, actions: &[[u8; 3]]) -> Computed<Vec<Seen>> {
        let start = |environment: usize, step: u64| {
            table.reset.map_or(table.window.start, |key| reset_time(key, environment as u32, step, &table.window))
        };
        let mut env = Environments::starting((0..environments).map(|e| start(e, 0) as u32).collect());
        let mut seen = Vec::with_capacity(actions.len());
        for (e, actions) in actions.chunks(steps).enumerate() {
            for (now, actions) in (1..).zip(actions) {
                let t = env.time[e] as usize;
                let bar = [table.cost[t], table.vol[t], table.ret[t + 1]];
                let (stepped, done) = env.step(e, *actions, bar, table.window.end, table.episode_bars);
                let (account, t) = (env.account(e), t as u64);
                let (state, equity, peak) = (account.state(), account.equity, account.peak);
                seen.push(Seen { t, state, reward: stepped.reward, equity, peak, stopped: stepped.stopped, done });
                if done {
                    env.restart(e, start(e, now));
                }
            }
        }
        Ok(seen)
    }

    fn first_not_finite(&self, tensors: &[Vec<f32>]) -> Computed<Option<(u64, u64)>> {
        let mut elements = tensors.iter().enumerate().map(|(tensor, xs)| (tensor, Cpu::first_not_finite(self, xs)));
        Ok(elements.find_map(|(tensor, element)| Some((tensor as u64, element? as u64))))
    }

    fn updates<'a>(&'a self, start: &Start) -> Computed<Box<dyn Updates + 'a>> {
        let [online, target, m, v] = start.flat.clone();
        Ok(Box::new(Learner {
            cpu: self,
            online: Network::new(start.shape, &online),
            target: Network::new(start.shape, &target),
            m,
            v,
            replay: ring(start.priorities.clone()),
            t: start.t,
            ws: Workspace::default(),
            start: start.clone(),
        }))
    }

    fn mix64(&self, z: &[u64]) -> Computed<Vec<u64>> {
        Ok(z.iter().map(|z| fingerprint::mix64(*z)).collect())
    }

    fn fingerprint_keys(&self, lane: u32) -> Computed<Vec<u32>> {
        Ok(fingerprint::KEYS[lane as usize].to_vec())
    }

    fn fingerprint(&self, bytes: &[u8]) -> Computed<Fingerprint> {
        Ok(fingerprint::fingerprint(bytes))
    }
}

struct Learner<'a> {
    cpu: &'a Cpu,
    online: Network,
    target: Network,
    m: Vec<f32>,
    v: Vec<f32>,
    replay: Replay,
    t: u64,
    ws: Workspace,
    start: Start,
}

impl Updates for Learner<'_> {
    fn sample(&mut self) -> Computed<(Vec<u32>, Vec<f32>)> {
        let q = &self.replay.priority;
        let ones: Vec<u32> = q.iter().map(|&q| u32::from(q > 0)).collect();
        let n = ones.iter().fold(0, |n, &one| n + u64::from(one));
        let tree = tree(if self.start.prioritized.is_some() { q } else { &ones });
        let draw = |position| tree.find(draw_below(tree.total(), self.start.key, position, self.t)) as u32;
        let rows: Vec<u32> = (0..self.start.batch as u32).map(draw).collect();
        let mut w = vec![1.0; rows.len()];
        if let Some((_, beta, _)) = self.start.prioritized {
            let sampled: Vec<u32> = rows.iter().map(|&row| q[row as usize]).collect();
            importance_weights(tree.total(), n, &sampled, beta, &mut w);
        }
        Ok((rows, w))
    }

    fn update(&mut self, rows: &[u32], weights: &[f32], drawn: &Drawn) -> Computed<Updated> {
        let Drawn { obs, next_obs, actions, returns, done } = drawn;
        let batch = Batch { obs, next_obs, actions, returns, done, weights, gamma_n: self.start.gamma_n };
        let Learner { cpu, online, target, m, v, replay, t, ws, start } = self;
        cpu.gradients(online, target, &batch, ws);
        *t += 1;
        let rule = TargetRule::of(start.tau, start.period, *t);
        cpu.apply(&adam_constants(&start.adam, *t), start.clip as f32, rule, online, target, m, v, ws);
        if let Some((alpha, _, epsilon)) = start.prioritized {
            let deltas = ws.delta.as_chunks().0.iter();
            let new: Vec<u32> = deltas.map(|&deltas| priority(deltas, epsilon, alpha)).collect();
            replay.write_priorities(rows, &new);
        }
        Ok(Updated {
            q: ws.online.q.to_vec(),
            y: ws.y.to_vec(),
            deltas: ws.delta.to_vec(),
            loss: ws.loss,
            gradients: ws.gradients.to_vec(),
            sum_squares: ws.sum_squares,
            norm: ws.norm,
            k: ws.k,
            t: *t,
            flat: [online.parameters().to_vec(), target.parameters().to_vec(), m.clone(), v.clone()],
            priorities: replay.priority.clone(),
        })
    }
}
