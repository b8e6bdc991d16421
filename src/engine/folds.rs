//! Walk-forward folds: which bars train, which validate.

use std::ops::Range;

use crate::scenario::settings::{FoldMode, FoldSettings};

/// Bars of one fold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    /// number from 0
    pub index: u32,
    /// training bars
    pub train: Range<usize>,
    /// validation bars, after the embargo
    pub validation: Range<usize>,
}

/// Too few bars for the folds asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "too few bars for {wanted} folds: they need {needed}, the first {warm_up} of which warm up the features; there are \
     {bars}. Lower folds.train, folds.validation, folds.embargo, folds.step or folds.count"
)]
pub struct TooFewBars {
    /// bars of the market
    pub bars: usize,
    /// bars before the first fold
    pub warm_up: usize,
    /// bars needed in all
    pub needed: usize,
    /// folds asked for
    pub wanted: u32,
}

/// Lays the folds over `bars` bars, the first `warm_up` of which no fold uses.
pub fn folds(settings: &FoldSettings, bars: usize, warm_up: usize) -> Result<Vec<Fold>, TooFewBars> {
    let step = settings.step.unwrap_or(settings.validation);
    let one = settings.train.saturating_add(settings.embargo).saturating_add(settings.validation);
    let needed = |n: u32| warm_up.saturating_add(one).saturating_add(step.saturating_mul(n as usize - 1));
    let count = match settings.count {
        Some(count) => count,
        None if needed(1) <= bars => {
            ((bars - needed(1)) / step).try_into().map_or(u32::MAX, |n: u32| n.saturating_add(1))
        }
        None => 1,
    };
    if needed(count) > bars {
        return Err(TooFewBars { bars, warm_up, needed: needed(count), wanted: count });
    }
    let fold = |index: u32| {
        let at = warm_up + index as usize * step;
        let start = if settings.mode == FoldMode::Rolling { at } else { warm_up };
        let train = start..at + settings.train;
        let validation = train.end + settings.embargo..train.end + settings.embargo + settings.validation;
        Fold { index, train, validation }
    };
    Ok((0..count).map(fold).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(mode: FoldMode, count: Option<u32>) -> FoldSettings {
        FoldSettings { mode, start: Default::default(), train: 100, validation: 20, embargo: 5, step: Some(30), count }
    }

    /// Would fail if a validation bar could be trained on, or a fold reached past the bars.
    #[test]
    fn windows() {
        let all = folds(&settings(FoldMode::Rolling, None), 250, 10).unwrap();
        assert_eq!(all.len(), 4);
        assert_eq!((all[3].train.clone(), all[3].validation.clone()), (100..200, 205..225));
        let all = folds(&settings(FoldMode::Expanding, Some(2)), 250, 10).unwrap();
        assert_eq!((all[1].train.clone(), all[1].validation.clone()), (10..140, 145..165));
        assert_eq!(folds(&settings(FoldMode::Rolling, Some(9)), 250, 10).unwrap_err().needed, 375);
        assert!(folds(&settings(FoldMode::Rolling, None), 100, 10).is_err());
    }
}
