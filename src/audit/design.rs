//! Which run has which setting of each factor: balanced, shuffled under a seed, the first run with all as they are.

use std::collections::BTreeMap;

use crate::bits::philox::{Key, block, index_below, stream_key};
use crate::launch::factors::{Factor, State};

/// Setting of each varied factor, by name; 0 is "as is".
pub type Levels = BTreeMap<String, usize>;

/// Settings of `n` runs.
pub fn design(factors: &[Factor], n: usize, seed: u64) -> Vec<Levels> {
    let mut runs = vec![Levels::new(); n];
    for factor in factors.iter().filter(|f| f.state == State::Varied) {
        let key = stream_key(seed, 0, &format!("audit.{}", factor.name));
        for (run, level) in runs.iter_mut().zip(column(factor, n, key)) {
            run.insert(factor.name.clone(), level);
        }
    }
    runs
}

/// One factor's settings over all runs: as many of each as its weight asks for, in random order after the first.
fn column(factor: &Factor, n: usize, key: Key) -> Vec<usize> {
    let deck: Vec<usize> =
        factor.settings.iter().enumerate().flat_map(|(level, s)| std::iter::repeat_n(level, s.weight)).collect();
    // From the last setting down, so that a short audit has the unusual ones too.
    let mut rest: Vec<usize> = deck.iter().rev().cycle().take(n.saturating_sub(1)).copied().collect();
    shuffle(&mut rest, key);
    std::iter::once(0).chain(rest).take(n).collect()
}

/// Fisher and Yates's shuffle from a counter-based stream.
pub fn shuffle<T>(list: &mut [T], key: Key) {
    for i in (1..list.len()).rev() {
        let words = block(key, i as u32, 0, 0);
        let j = index_below(i as u64 + 1, [words[0], words[1]]) as usize;
        list.swap(i, j);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::factors::variable;

    /// Would fail if a setting were hardly tried, the first run were not as is, or a seed gave two designs.
    #[test]
    fn settings_are_balanced() {
        let factors = [variable("A=1").unwrap(), variable("B=1,2").unwrap()];
        let runs = design(&factors, 31, 7);
        assert!(runs[0].values().all(|level| *level == 0));
        let count = |name: &str, level| runs.iter().filter(|r| r[name] == level).count();
        assert_eq!([count("env.A", 0), count("env.A", 1)], [16, 15]);
        assert_eq!([count("env.B", 0), count("env.B", 1), count("env.B", 2)], [11, 10, 10]);
        assert_eq!(runs, design(&factors, 31, 7));
        assert_ne!(runs, design(&factors, 31, 8));
    }
}
