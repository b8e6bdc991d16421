//! Vectors of rule 8, on the replay ring itself: a ring of one environment whose rows have the given priorities.

use super::CaseFault;
use super::fields::{Fields, Found, Outputs};
use super::random_kinds::stream;
use crate::engine::cpu::Cpu;
use crate::engine::replay::{Replay, SumTree, Transition, draw_below, importance_weights, priority};

/// Batch positions that a `sample` vector lists.
const POSITIONS: usize = 32;

/// An exponent of rule 8.
pub(super) fn exponent(i: &Fields, key: &str) -> Result<f64, CaseFault> {
    match i.text(key)? {
        "0" => Ok(0.0),
        "1/2" => Ok(0.5),
        "1" => Ok(1.0),
        _ => Err(i.fault(key, "expected \"0\", \"1/2\" or \"1\"".to_owned())),
    }
}

/// Priorities from which something can be drawn.
pub(super) fn priorities(i: &Fields, key: &str) -> Result<Vec<u32>, CaseFault> {
    let q = i.u32s(key)?;
    if q.iter().all(|&q| q == 0) {
        return Err(i.fault(key, "expected a row above 0".to_owned()));
    }
    Ok(q)
}

/// A ring whose rows have these priorities; rows of 0 are never drawn.
pub(super) fn ring(q: Vec<u32>) -> Replay {
    let mut replay = Replay::new(q.len(), 1, 1, false);
    replay.priority = q;
    replay.rebuild(replay.rows() as u64);
    replay
}

/// Running sums over rows of these priorities.
pub(super) fn tree(q: &[u32]) -> SumTree {
    let mut tree = SumTree::new(q.len());
    q.iter().enumerate().for_each(|(row, &q)| tree.set(row, q));
    tree
}

/// n-step return of one transition's rewards and dones, which lie across the end of a ring.
pub(super) fn n_step_return(rewards: &[f32], dones: &[bool], gamma: f32) -> (f32, bool) {
    let n = rewards.len();
    let mut replay = Replay::new(n, 1, n, false);
    replay.reward.copy_from_slice(rewards);
    replay.done = dones.iter().map(|&done| u8::from(done)).collect();
    replay.reward.rotate_right(n / 2);
    replay.done.rotate_right(n / 2);
    let (r, done, _) = replay.n_step_return(n / 2, gamma);
    (r, done)
}

/// Row indices, each below `rows`.
fn indices(i: &Fields, key: &str, rows: usize) -> Result<Vec<u32>, CaseFault> {
    let index = |n: u64| {
        let index = u32::try_from(n).ok().filter(|&n| (n as usize) < rows);
        index.ok_or_else(|| i.fault(key, format!("expected rows below {rows}, found {n}")))
    };
    i.numbers(key)?.into_iter().map(index).collect()
}

fn numbers(rows: &[u32]) -> Found {
    Found::Numbers(rows.iter().map(|&row| u64::from(row)).collect())
}

pub(super) fn priority_of(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let (alpha, epsilon, deltas) = (exponent(i, "alpha")?, i.f32("epsilon")?, i.f32s("deltas")?);
    i.rows("deltas", deltas.len(), 3)?;
    let q = deltas.as_chunks().0.iter().map(|&deltas| priority(deltas, epsilon, alpha)).collect();
    Ok(vec![("q", Found::U32(q))])
}

pub(super) fn draw(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let tree = tree(&priorities(i, "q")?);
    let (total, r) = (tree.total(), i.u64s("r")?);
    if let Some(r) = r.iter().find(|&&r| r >= total) {
        return Err(i.fault("r", format!("expected draws below the total {total:016x}, found {r:016x}")));
    }
    let rows = r.into_iter().map(|r| tree.find(r) as u64).collect();
    Ok(vec![("total", Found::U64(vec![total])), ("rows", Found::Numbers(rows))])
}

pub(super) fn sample(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let (key, step, q) = (stream(i)?, i.u64("step")?, priorities(i, "q")?);
    let (total, replay) = (tree(&q).total(), ring(q));
    let r = (0..POSITIONS as u32).map(|position| draw_below(total, key, position, step)).collect();
    let (mut rows, steps) = (vec![0; POSITIONS], replay.rows() as u64);
    replay.sample(key, step, steps, Some(0.0), &mut rows, &mut Vec::new());
    Ok(vec![("r", Found::U64(r)), ("rows", numbers(&rows))])
}

pub(super) fn write(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let mut replay = ring(priorities(i, "q")?);
    let (rows, new) = (indices(i, "rows", replay.rows())?, i.u32s("new")?);
    i.length("new", new.len(), rows.len())?;
    replay.write_priorities(&rows, &new);
    Ok(vec![("q", Found::U32(replay.priority))])
}

pub(super) fn new_row(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let written = i.u32s("written")?;
    let (last, rows) = (written.len(), (0..written.len() as u32).collect::<Vec<u32>>());
    let mut replay = Replay::new(last + 1, 1, 1, false);
    replay.write_priorities(&rows, &written);
    let (before, after) = ([0.0; 4], [0.0; 4]);
    let row = Transition { asset: 0, time: 0, before, after, actions: [0; 3], done: false, reward: 0.0 };
    replay.write(last as u64, &[row]);
    Ok(vec![("q", Found::U32(vec![replay.priority[last]]))])
}

pub(super) fn importance(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let (total, n, beta) = (i.u64("total")?, i.number("n")?, exponent(i, "beta")?);
    let mut w = Vec::new();
    importance_weights(total, n, &i.u32s("q")?, beta, &mut w);
    Ok(vec![("w", Found::F32(w))])
}
