//! The replay ring of rule 8: index rows, integer priorities, draws by running sum.
//!
//! Verified: the contract's vectors `08-replay`; the sum tree against a plain scan (property test).

use std::ops::Range;

use crate::bits::philox::{self, Key};
use crate::digest::fingerprint::Maintained;

/// Priority of a new row before any was written: p = 1.
pub const FIRST_PRIORITY: u32 = 1 << 16;
/// Largest priority: the largest binary32 below 2^32.
const TOP_PRIORITY: f32 = 4_294_967_040.0;

/// `x^exponent` for exponents 0, 1/2, 1 (checked when settings are read).
pub fn root_power(x: f32, exponent: f64) -> f32 {
    match exponent {
        0.0 => 1.0,
        0.5 => x.sqrt(),
        _ => x,
    }
}

/// Integer priority of a row's three TD errors.
pub fn priority(deltas: [f32; 3], epsilon: f32, alpha: f64) -> u32 {
    let p = (((deltas[0].abs() + deltas[1].abs()) + deltas[2].abs()) / 3.0) + epsilon;
    let scaled = root_power(p, alpha) * 65536.0;
    scaled.clamp(1.0, TOP_PRIORITY) as u32
}

/// Importance weights of the sampled priorities, divided by the batch's largest. `n` rows make up `total`.
pub fn importance_weights(total: u64, n: u64, sampled: &[u32], beta: f64, out: &mut Vec<f32>) {
    out.clear();
    let mean = total as f32 / n as f32;
    out.extend(sampled.iter().map(|&q| root_power(mean / q as f32, beta)));
    let mut largest = 0.0f32;
    for &w in out.iter() {
        largest = if w > largest { w } else { largest };
    }
    out.iter_mut().for_each(|w| *w /= largest);
}

/// The draw of a batch position below `total`, after `updates` updates.
pub fn draw_below(total: u64, key: Key, position: u32, updates: u64) -> u64 {
    let words = philox::block(key, position, 0, updates);
    philox::index_below(total, [words[0], words[1]])
}

/// Sums over rows of u32 in slot order; finds the first row whose running sum exceeds r.
#[derive(Clone, Debug, Default)]
pub struct SumTree {
    /// level 0: the rows themselves; each level above sums [`FANOUT`] entries of the one below
    leaves: Vec<u32>,
    levels: Vec<Vec<u64>>,
}

const FANOUT: usize = 64;

impl SumTree {
    /// All zero.
    pub fn new(rows: usize) -> Self {
        let (mut levels, mut n) = (Vec::new(), rows);
        while n > 1 || levels.is_empty() {
            n = n.div_ceil(FANOUT);
            levels.push(vec![0; n]);
        }
        SumTree { leaves: vec![0; rows], levels }
    }

    /// Sets one row.
    pub fn set(&mut self, row: usize, value: u32) {
        let change = u64::from(value).wrapping_sub(u64::from(self.leaves[row]));
        self.leaves[row] = value;
        let mut at = row;
        for level in &mut self.levels {
            at /= FANOUT;
            level[at] = level[at].wrapping_add(change);
        }
    }

    /// One row's value.
    pub fn get(&self, row: usize) -> u32 {
        self.leaves[row]
    }

    /// Sum of all rows.
    pub fn total(&self) -> u64 {
        self.levels.last().map_or(0, |top| top[0])
    }

    /// The first row whose running sum exceeds `r`; `r` is below the total.
    pub fn find(&self, mut r: u64) -> usize {
        assert!(r < self.total(), "a draw is below the total");
        let mut at = 0;
        for level in self.levels.iter().rev().skip(1) {
            at *= FANOUT;
            while level[at] <= r {
                r -= level[at];
                at += 1;
            }
        }
        at *= FANOUT;
        while u64::from(self.leaves[at]) <= r {
            r -= u64::from(self.leaves[at]);
            at += 1;
        }
        at
    }
}

/// One transition before it is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transition {
    /// market of the row
    pub asset: u32,
    /// bar t
    pub time: u32,
    /// position state before the step
    pub before: [f32; 4],
    /// position state after it, before any reset
    pub after: [f32; 4],
    /// actions of the three branches
    pub actions: [u8; 3],
    /// the episode ended
    pub done: bool,
    /// reward
    pub reward: f32,
}

/// The ring, as structure of arrays over `rows` slots; 52 bytes a row.
#[derive(Clone, Debug)]
pub struct Replay {
    /// environments N: step s of environment e lies in slot (s mod (rows/N))·N + e
    pub environments: usize,
    /// market
    pub asset: Vec<u32>,
    /// bar
    pub time: Vec<u32>,
    /// state before, `[rows, 4]`
    pub before: Vec<f32>,
    /// state after, `[rows, 4]`
    pub after: Vec<f32>,
    /// actions, `[rows, 3]`
    pub actions: Vec<u8>,
    /// 1 where the episode ended
    pub done: Vec<u8>,
    /// reward
    pub reward: Vec<f32>,
    /// priority, also of rows that cannot be sampled (yet)
    pub priority: Vec<u32>,
    /// largest priority so far
    pub priority_max: u32,
    tree: SumTree,
    n_step: usize,
    kept: Option<[Maintained; 8]>,
}

impl Replay {
    /// An empty ring. `keep` keeps fingerprints up to date with every write.
    pub fn new(rows: usize, environments: usize, n_step: usize, keep: bool) -> Self {
        let mut replay = Replay {
            environments,
            asset: vec![0; rows],
            time: vec![0; rows],
            before: vec![0.0; 4 * rows],
            after: vec![0.0; 4 * rows],
            actions: vec![0; 3 * rows],
            done: vec![0; rows],
            reward: vec![0.0; rows],
            priority: vec![0; rows],
            priority_max: FIRST_PRIORITY,
            tree: SumTree::new(rows),
            n_step,
            kept: None,
        };
        if keep {
            replay.kept = Some(replay.columns().map(Maintained::new));
        }
        replay
    }

    /// Rows of the ring.
    pub fn rows(&self) -> usize {
        self.time.len()
    }

    /// Slots of one environment.
    pub fn slots(&self) -> usize {
        self.rows() / self.environments
    }

    /// Bytes of the eight columns in list order.
    pub fn columns(&self) -> [&[u8]; 8] {
        [
            bytemuck::cast_slice(&self.asset),
            bytemuck::cast_slice(&self.time),
            bytemuck::cast_slice(&self.before),
            bytemuck::cast_slice(&self.after),
            &self.actions,
            &self.done,
            bytemuck::cast_slice(&self.reward),
            bytemuck::cast_slice(&self.priority),
        ]
    }

    /// Fingerprints of the columns as kept, when they are.
    pub fn kept(&self) -> Option<&[Maintained; 8]> {
        self.kept.as_ref()
    }

    fn touch(&mut self, rows: Range<usize>, columns: &[usize]) {
        let Some(mut kept) = self.kept.take() else { return };
        const WIDTH: [usize; 8] = [4, 4, 16, 16, 3, 1, 4, 4];
        for &c in columns {
            kept[c].update(self.columns()[c], rows.start * WIDTH[c]..rows.end * WIDTH[c]);
        }
        self.kept = Some(kept);
    }

    /// Writes environment step `step` of all environments and makes sampleable what becomes so.
    pub fn write(&mut self, step: u64, transitions: &[Transition]) {
        let first = self.first_slot(step);
        for (e, t) in transitions.iter().enumerate() {
            let row = first + e;
            (self.asset[row], self.time[row]) = (t.asset, t.time);
            self.before[4 * row..4 * row + 4].copy_from_slice(&t.before);
            self.after[4 * row..4 * row + 4].copy_from_slice(&t.after);
            self.actions[3 * row..3 * row + 3].copy_from_slice(&t.actions);
            (self.done[row], self.reward[row]) = (u8::from(t.done), t.reward);
            self.priority[row] = self.priority_max;
            self.tree.set(row, 0);
        }
        self.touch(first..first + transitions.len(), &[0, 1, 2, 3, 4, 5, 6, 7]);
        if let Some(ready) = (step + 1).checked_sub(self.n_step as u64) {
            self.open(ready);
        }
    }

    /// Counts the rows of environment step `step` from now on.
    pub fn open(&mut self, step: u64) {
        let first = self.first_slot(step);
        for row in first..first + self.environments {
            self.tree.set(row, self.priority[row]);
        }
    }

    /// Planted: counts the rows of a step that is not written.
    pub fn plant_unwritten(&mut self, step: u64) {
        let first = self.first_slot(step);
        (first..first + self.environments).for_each(|row| self.tree.set(row, self.priority_max));
    }

    /// True when every row that `steps` environment steps make sampleable has a priority, and there is one.
    pub fn can_be_sampled(&self, steps: u64) -> bool {
        let mut sampleable = self.sampleable_steps(steps);
        let has_priority = |step| {
            let first = self.first_slot(step);
            self.priority[first..first + self.environments].iter().all(|q| *q > 0)
        };
        !sampleable.is_empty() && sampleable.all(has_priority)
    }

    fn first_slot(&self, step: u64) -> usize {
        (step % self.slots() as u64) as usize * self.environments
    }

    /// Environment steps whose rows can be sampled, of `steps` done.
    pub fn sampleable_steps(&self, steps: u64) -> Range<u64> {
        let first = steps.saturating_sub(self.slots() as u64);
        first..steps.saturating_add(1).saturating_sub(self.n_step as u64)
    }

    /// Rebuilds what is derived from the columns, after they were loaded.
    pub fn rebuild(&mut self, steps: u64) {
        self.tree = SumTree::new(self.rows());
        self.sampleable_steps(steps).for_each(|step| self.open(step));
        if self.kept.is_some() {
            self.kept = Some(self.columns().map(Maintained::new));
        }
    }

    /// Draws a batch: rows, and importance weights. `steps` environment steps are done; element = batch position, step =
    /// `updates` done. Uniform when `beta` is None.
    pub fn sample(&self, key: Key, updates: u64, steps: u64, beta: Option<f64>, rows: &mut [u32], w: &mut Vec<f32>) {
        let sampleable = self.sampleable_steps(steps);
        let n = (sampleable.end - sampleable.start) * self.environments as u64;
        let total = if beta.is_some() { self.tree.total() } else { n };
        for (i, row) in rows.iter_mut().enumerate() {
            let r = draw_below(total, key, i as u32, updates);
            *row = if beta.is_some() { self.tree.find(r) } else { self.nth_sampleable(&sampleable, r) } as u32;
        }
        match beta {
            Some(beta) => {
                let sampled: Vec<u32> = rows.iter().map(|&row| self.tree.get(row as usize)).collect();
                importance_weights(total, n, &sampled, beta, w);
            }
            None => {
                w.clear();
                w.resize(rows.len(), 1.0);
            }
        }
    }

    /// The r-th row, in slot order, of those that can be sampled.
    fn nth_sampleable(&self, steps: &Range<u64>, r: u64) -> usize {
        let (slots, n) = (self.slots() as u64, self.environments as u64);
        // In slot order the steps that wrapped around come first.
        let wrapped = (steps.end.saturating_sub(steps.start.next_multiple_of(slots))) * n;
        let wraps = !steps.start.is_multiple_of(slots) && steps.start.next_multiple_of(slots) < steps.end;
        let row = match (wraps, r < wrapped) {
            (true, true) => r,
            (true, false) => (steps.start % slots) * n + (r - wrapped),
            (false, _) => (steps.start % slots) * n + r,
        };
        row as usize
    }

    /// Writes priorities of sampled rows; for a row sampled twice the highest batch position stays.
    pub fn write_priorities(&mut self, rows: &[u32], new: &[u32]) {
        for (&row, &q) in rows.iter().zip(new) {
            let row = row as usize;
            self.priority[row] = q;
            self.tree.set(row, q);
            self.priority_max = if q > self.priority_max { q } else { self.priority_max };
        }
        for &row in rows {
            self.touch(row as usize..row as usize + 1, &[7]);
        }
    }

    /// n-step return of a sampled row: (R, cut by a done, last row used).
    pub fn n_step_return(&self, row: usize, gamma: f32) -> (f32, bool, usize) {
        let at = |k: usize| {
            let slot = (row / self.environments + k) % self.slots();
            slot * self.environments + row % self.environments
        };
        let done_at = (0..self.n_step).find(|&k| self.done[at(k)] != 0);
        let last = done_at.unwrap_or(self.n_step - 1);
        let mut r = self.reward[at(last)];
        for k in (0..last).rev() {
            r = self.reward[at(k)] + (gamma * r);
        }
        (r, done_at.is_some(), at(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Would fail if the tree and a plain running sum ever picked different rows.
        #[test]
        fn tree_equals_scan(values in prop::collection::vec(0u32..5, 1..300), more in prop::collection::vec((0usize..300, any::<u32>()), 0..20)) {
            let mut tree = SumTree::new(values.len());
            let mut plain: Vec<u32> = values.clone();
            values.iter().enumerate().for_each(|(i, v)| tree.set(i, *v));
            for (at, v) in more {
                tree.set(at % plain.len(), v);
                let n = plain.len();
                plain[at % n] = v;
            }
            let total = plain.iter().fold(0u64, |s, v| s + u64::from(*v));
            prop_assert_eq!(tree.total(), total);
            for k in 0..if total < 50 { total } else { 50 } {
                let r = k * (total / 50 + 1) % total;
                let mut running = 0;
                let scan = plain.iter().position(|v| { running += u64::from(*v); running > r });
                prop_assert_eq!(Some(tree.find(r)), scan);
            }
        }

        /// Would fail if uniform draws left out or repeated a row, or met one that is not written.
        #[test]
        fn uniform_draws_cover_the_sampleable_rows_in_slot_order(steps in 1u64..40, n_step in 1usize..4) {
            let (environments, slots) = (3usize, 8u64);
            let mut replay = Replay::new(environments * slots as usize, environments, n_step, false);
            let row = Transition { asset: 0, time: 0, before: [0.0; 4], after: [0.0; 4], actions: [0; 3], done: false, reward: 0.0 };
            (0..steps).for_each(|s| replay.write(s, &[row; 3]));
            let range = replay.sampleable_steps(steps);
            if range.is_empty() || range.end <= range.start { return Ok(()); }
            let mut expected: Vec<usize> = range.clone().flat_map(|s| (0..3).map(move |e| (s % slots) as usize * 3 + e)).collect();
            expected.sort_unstable();
            let drawn: Vec<usize> = (0..expected.len() as u64).map(|r| replay.nth_sampleable(&range, r)).collect();
            prop_assert_eq!(&drawn, &expected);
            let open: Vec<usize> = (0..replay.rows()).filter(|&r| replay.tree.get(r) > 0).collect();
            prop_assert_eq!(open, expected);
        }
    }
}
