//! Which factor explains that runs differ: a permutation test to choose candidates, which runs of their own then confirm.

use std::collections::{BTreeMap, BTreeSet};

use super::design::shuffle;
use super::outcome::{Class, Outcome};
use super::stats::wilson;
use crate::bits::philox::stream_key;
use crate::launch::factors::{Factor, State};

/// Permutations of the test; its smallest p-value is 1 / (1 + this).
const PERMUTATIONS: usize = 999;

/// How a setting may explain a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// under it runs are alike that otherwise vary
    Pins,
    /// under it the outcome is another one
    Switches,
    /// under it runs vary that otherwise are alike
    Unsettles,
}

/// A factor that may explain a split.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// index of the factor
    pub factor: usize,
    /// its setting, from 1
    pub level: usize,
    /// how
    pub kind: Kind,
    /// chance of an agreement as good as this one if the factor had nothing to do with it
    pub p: f64,
    /// share of runs that show the variation where there is some
    pub rate: f64,
}

/// Setting of a factor in a run.
pub fn level(outcome: &Outcome, factor: &Factor) -> usize {
    outcome.levels.get(&factor.name).copied().unwrap_or(0)
}

/// Candidates, the most convincing first. Runs that failed count as classes of their own.
pub fn candidates(factors: &[Factor], outcomes: &[&Outcome], seed: u64) -> Vec<Candidate> {
    let classes: Vec<Class> = outcomes.iter().map(|o| o.class()).collect();
    let distinct: BTreeSet<&Class> = classes.iter().collect();
    let number: BTreeMap<&Class, usize> = distinct.into_iter().enumerate().map(|(i, c)| (c, i)).collect();
    let classes: Vec<usize> = classes.iter().map(|c| number[c]).collect();
    let mut found: Vec<Candidate> = Vec::new();
    for (index, factor) in factors.iter().enumerate().filter(|(_, f)| f.state == State::Varied) {
        let levels: Vec<usize> = outcomes.iter().map(|o| level(o, factor)).collect();
        let explain = |level| explains(&levels, &classes, level).map(|(kind, rate)| (kind, level, rate));
        let Some((kind, level, rate)) = (1..factor.settings.len()).filter_map(explain).min_by_key(|e| (e.0, e.1))
        else {
            continue;
        };
        let p = p_value(&levels, &classes, stream_key(seed, 0, &format!("audit.permute.{}", factor.name)));
        found.push(Candidate { factor: index, level, kind, p, rate });
    }
    found.sort_by(|a, b| a.p.total_cmp(&b.p).then(a.kind.cmp(&b.kind)).then(a.factor.cmp(&b.factor)));
    found
}

/// How the runs under a setting, against those "as is", would explain the split, and the rate of the variation: at least
/// that, with 97.5 % confidence, since the setting was chosen for looking good.
fn explains(levels: &[usize], classes: &[usize], level: usize) -> Option<(Kind, f64)> {
    let of = |wanted: usize| -> Vec<usize> {
        levels.iter().zip(classes).filter(|(l, _)| **l == wanted).map(|(_, c)| *c).collect()
    };
    let (plain, under) = (of(0), of(level));
    let set = |runs: &[usize]| runs.iter().copied().collect::<BTreeSet<usize>>();
    let (a, b) = (set(&plain), set(&under));
    if a.is_empty() || b.is_empty() {
        return None;
    }
    if a.len() > 1 && b.len() == 1 && under.len() > 1 {
        let largest = a.iter().map(|c| plain.iter().filter(|x| *x == c).count()).max().unwrap_or(0);
        return Some((Kind::Pins, wilson(plain.len() - largest, plain.len()).0));
    }
    if a.is_disjoint(&b) {
        return Some((Kind::Switches, 1.0));
    }
    let outside = under.iter().filter(|c| !a.contains(c)).count();
    (a.len() == 1 && outside > 0).then(|| (Kind::Unsettles, wilson(outside, under.len()).0))
}

/// Pairs of runs with equal setting and equal class.
fn agreement(levels: &[usize], classes: &[usize]) -> u64 {
    let mut counts: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for (level, class) in levels.iter().zip(classes) {
        *counts.entry((*level, *class)).or_default() += 1;
    }
    counts.values().fold(0, |sum, n| sum + n * n.saturating_sub(1) / 2)
}

fn p_value(levels: &[usize], classes: &[usize], key: [u32; 2]) -> f64 {
    let observed = agreement(levels, classes);
    let mut shuffled = classes.to_vec();
    let as_good = (0..PERMUTATIONS).filter(|i| {
        shuffle(&mut shuffled, [key[0], key[1] ^ *i as u32]);
        agreement(levels, &shuffled) >= observed
    });
    (1 + as_good.count()) as f64 / (1 + PERMUTATIONS) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would fail if a fixed hash seed, a switch or a load were taken for each other, or seen where there is none.
    #[test]
    fn kinds() {
        let levels = [0, 0, 0, 0, 1, 1, 1];
        assert_eq!(explains(&levels, &[1, 2, 3, 4, 5, 5, 5], 1).unwrap().0, Kind::Pins);
        assert_eq!(explains(&levels, &[1, 1, 1, 1, 2, 2, 2], 1).unwrap().0, Kind::Switches);
        assert_eq!(explains(&levels, &[1, 1, 1, 1, 1, 2, 3], 1).unwrap(), (Kind::Unsettles, wilson(2, 3).0));
        assert_eq!(explains(&levels, &[1, 1, 2, 1, 1, 1, 2], 1), None);
        assert_eq!(explains(&levels, &[1; 7], 1), None);
        assert_eq!(explains(&levels, &[1; 7], 2), None);
    }

    /// Would fail if chance passed for an explanation or an explanation for chance.
    #[test]
    fn p_values() {
        let levels: Vec<usize> = (0..32).map(|i| i % 2).collect();
        let explained: Vec<usize> = levels.clone();
        let unrelated: Vec<usize> = (0..32).map(|i| usize::from(i % 8 < 2)).collect();
        assert!(p_value(&levels, &explained, [1, 2]) <= 0.002);
        assert!(p_value(&levels, &unrelated, [1, 2]) > 0.1);
    }
}
