//! A suspected cause put to the test by runs of their own, both ways: it alone makes the difference, and without it the
//! difference is gone although everything else is changed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::attribution::{Candidate, Kind};
use super::design::Levels;
use super::outcome::{Class, Outcome};
use super::stats::runs_to_see;
use crate::launch::factors::{Factor, State};

/// Fewest runs of each group.
pub const RUNS_MIN: usize = 3;
/// Most runs of each group; a variation rarer than these could show is not put to the test.
pub const RUNS_MAX: usize = 40;
/// Chance that a variation that is there is missed in one group.
const MISS: f64 = 0.05;

/// Greatest chance with which runs that ignore a factor may look as if it were the cause.
const CHANCE_MAX: f64 = 0.001;

/// A named cause, and what its runs said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// factor
    pub factor: String,
    /// the environment variable behind it, where there is one
    pub variable: Option<String>,
    /// setting in words
    pub setting: String,
    /// `pins`, `switches`, `unsettles`
    pub how: String,
    /// it alone makes the difference
    pub alone: bool,
    /// without it the difference is gone, with everything else changed
    pub without: bool,
    /// runs of each group
    pub runs: usize,
    /// the one outcome of the runs with it alone, where they have one
    pub outcome: Option<String>,
    /// an earlier cause that alone gives the same outcome: both do the same
    pub same_as: Option<String>,
    /// in words
    pub words: String,
}

impl Cause {
    /// True when both ways hold.
    pub fn is_confirmed(&self) -> bool {
        self.alone && self.without
    }

    /// Name and setting: `OMP_NUM_THREADS=1`, `cpus (1)`.
    pub fn label(&self) -> String {
        let is_named = self.setting.starts_with(&format!("{}=", self.name()));
        if is_named { self.setting.clone() } else { format!("{} ({})", self.name(), self.setting) }
    }

    /// What people call it: the variable, else the factor.
    pub fn name(&self) -> &str {
        self.variable.as_deref().unwrap_or(&self.factor)
    }
}

/// Runs of each group that a candidate needs; None when it would take too many.
pub fn runs_needed(candidate: &Candidate) -> Option<usize> {
    match runs_to_see(candidate.rate, MISS) {
        n if n > RUNS_MAX => None,
        n if n < RUNS_MIN => Some(RUNS_MIN),
        n => Some(n),
    }
}

/// Settings of the two groups beside the runs as they are: the candidate alone, and everything else. Factors `held` are known to change the
/// outcome by themselves, so they stay as they are.
pub fn groups(factors: &[Factor], candidate: &Candidate, held: &[usize]) -> [Levels; 2] {
    let name = |i: usize| factors[i].name.clone();
    let free = |i: &usize| *i != candidate.factor && !held.contains(i) && factors[*i].state == State::Varied;
    let others = (0..factors.len()).filter(free);
    let mut without: Levels = others.map(|i| (name(i), factors[i].settings.len() - 1)).collect();
    // Under a setting that makes runs alike, the other way is that nothing else makes them vary.
    if candidate.kind == Kind::Pins {
        without.insert(name(candidate.factor), candidate.level);
    }
    let alone = [(name(candidate.factor), candidate.level)].into();
    [alone, without]
}

/// What the three groups' runs say.
pub fn judge(factors: &[Factor], candidate: &Candidate, held: &[usize], groups: [&[Outcome]; 3]) -> Cause {
    let [plain, alone, without] = groups.map(|g| g.iter().map(Outcome::class).collect::<BTreeSet<Class>>());
    let (as_is, n) = (groups[0].len(), groups[1].len());
    let factor = &factors[candidate.factor];
    let setting = &factor.settings[candidate.level];
    let variable = single_variable(factor, candidate.level);
    let name = variable.clone().unwrap_or_else(|| factor.name.clone());
    let word = &setting.word;
    let but: String = held.iter().map(|i| format!(" nor {}", factors[*i].name)).collect();
    let not_this = if held.is_empty() { "not this".to_owned() } else { format!("neither this{but}") };
    // It made runs alike only because another factor moves them to the same outcome.
    let is_switch = candidate.kind == Kind::Pins && plain.len() == 1 && plain.is_disjoint(&alone);
    let kind = if is_switch { Kind::Switches } else { candidate.kind };
    let (holds_alone, holds_without, words) = match kind {
        Kind::Switches => (
            plain.len() == 1 && plain.is_disjoint(&alone),
            without.is_subset(&plain),
            format!(
                "{name}: with {word} and nothing else changed, {n} of {n} differ from {as_is} as they are; with everything else changed and {not_this}, all are as they were"
            ),
        ),
        Kind::Pins => (
            plain.len() > 1 && alone.len() == 1,
            without.len() == 1,
            format!(
                "{name}: with {word} {n} of {n} are alike, also with everything else changed; as it is, {as_is} runs fall into {} classes",
                plain.len()
            ),
        ),
        Kind::Unsettles => (
            plain.len() == 1 && !alone.is_subset(&plain),
            without.is_subset(&plain),
            format!(
                "{name}: with {word} and nothing else changed, {n} runs fall into {} classes; with everything else changed and {not_this}, all are as they were",
                alone.len()
            ),
        ),
    };
    let how = match kind {
        Kind::Pins => "pins",
        Kind::Switches => "switches",
        Kind::Unsettles => "unsettles",
    };
    let words = match (holds_alone, holds_without) {
        (true, true) => words,
        (true, false) => format!("{name}: with {word} alone the outcome changes, but something else changes it too"),
        (false, _) => format!("{name}: suspected, and {n} runs with {word} alone did not show it"),
    };
    let outcome = match (alone.len(), alone.first()) {
        (1, Some(Class::Left(key))) => Some(key.to_string()),
        (1, Some(Class::Broke(ending))) => Some(ending.words()),
        _ => None,
    };
    Cause {
        factor: factor.name.clone(),
        variable,
        setting: word.clone(),
        how: how.to_owned(),
        alone: holds_alone,
        without: holds_without,
        runs: n,
        outcome,
        same_as: None,
        words,
    }
}

/// Marks causes that alone give the same other outcome as an earlier one: what they do is one thing, such as the number of
/// threads, which a variable and the allowed processors both set.
pub fn mark_same(causes: &mut [Cause]) {
    for i in 0..causes.len() {
        let (before, rest) = causes.split_at_mut(i);
        let cause = &mut rest[0];
        let is_same = |c: &&Cause| {
            let both = [*c, &*cause].iter().all(|c| c.alone && c.how == "switches" && c.outcome.is_some());
            both && c.same_as.is_none() && c.outcome == cause.outcome && c.is_confirmed() == cause.is_confirmed()
        };
        cause.same_as = before.iter().find(is_same).map(|c| c.name().to_owned());
    }
}

/// Runs that put suspected causes to the test at the very most: `variables` has, for each factor that varies, how many
/// variables it sets.
pub fn runs_at_most(variables: &[usize], candidates: usize) -> usize {
    // Each twice in two groups, the second time with the other causes held still; then each of its variables alike.
    let cost = |n: &usize| 4 * RUNS_MAX * if *n > 1 { 1 + n } else { 1 };
    let mut costs: Vec<usize> = variables.iter().map(cost).collect();
    costs.sort_unstable_by(|a, b| b.cmp(a));
    costs.iter().take(candidates).fold(RUNS_MAX, |all, n| all + n)
}

/// The one variable that a setting sets.
pub fn single_variable(factor: &Factor, level: usize) -> Option<String> {
    let set = &factor.settings[level].surroundings.set;
    if set.len() == 1 { set.keys().next().cloned() } else { None }
}

/// True when a cause that makes runs alike, or vary, rests on so few runs which differ that they may all lie in one group
/// by chance. A cause that moves every run of a group is beyond that.
pub fn may_be_chance(cause: &Cause, groups: [&[Outcome]; 3]) -> bool {
    let varying = match cause.how.as_str() {
        "pins" => groups[0],
        "unsettles" => groups[1],
        _ => return false,
    };
    let classes: Vec<Class> = varying.iter().map(Outcome::class).collect();
    let largest = classes.iter().map(|c| classes.iter().filter(|d| *d == c).count()).max().unwrap_or(0);
    let all = groups.iter().fold(0, |n, g| n + g.len());
    all_in_one(classes.len() - largest, varying.len(), all) > CHANCE_MAX
}

/// The chance that `k` runs of `all`, drawn blindly, all lie in a group of `n`.
fn all_in_one(k: usize, n: usize, all: usize) -> f64 {
    (0..k).fold(1.0, |p, i| p * (n - i) as f64 / (all - i) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would fail if a program that ignores every factor, and differs now and then, were told a confirmed cause.
    #[test]
    fn a_few_runs_that_differ_are_no_cause() {
        assert!((all_in_one(2, 3, 9) - 3.0 / 36.0).abs() < 1e-12);
        // Of 18 runs as they are 3 differ, and none of 36 others: what a coin of one in six gives now and then.
        assert!(all_in_one(3, 18, 54) > CHANCE_MAX && all_in_one(1, 40, 120) > CHANCE_MAX);
        assert!(all_in_one(8, 18, 54) < CHANCE_MAX && all_in_one(12, 13, 39) < CHANCE_MAX);
    }
}
