//! Vectors of rules 10 and 11: accounts over a table of bars, and the first value that is not finite.

use super::CaseFault;
use super::engine::{Engine, Seen, Table};
use super::fields::{Fields, Found, Outputs};
use super::network_kinds::product;
use super::random_kinds::stream;

fn table(i: &Fields) -> Result<Table, CaseFault> {
    let (start, end) = (i.number("window_start")?, i.size("window_end")?);
    let window = usize::try_from(start).ok().filter(|&start| start < end.saturating_sub(1)).map(|start| start..end);
    let window = window.ok_or_else(|| i.fault("window_start", format!("{start} leaves no bar below {end}")))?;
    let [ret, cost, vol] = [i.f32s_of("ret", end)?, i.f32s_of("cost", end)?, i.f32s_of("vol", end)?];
    let reset = if i.given("reset")? { Some(stream(&i.fields("reset")?)?) } else { None };
    Ok(Table { ret, cost, vol, window, episode_bars: i.number_u32("episode_bars")?, reset })
}

pub(super) fn environment(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let (table, n, steps) = (table(i)?, i.size("environments")?, i.size("steps")?);
    let actions = i.actions("actions", product(i, "steps", n, steps)?)?;
    let seen = engine.play(&table, n, steps, &actions)?;
    let floats = |of: fn(&Seen) -> f32| Found::F32(seen.iter().map(of).collect());
    let numbers = |of: fn(&Seen) -> u64| Found::Numbers(seen.iter().map(of).collect());
    Ok(vec![
        ("t", numbers(|s| s.t)),
        ("state", Found::F32(seen.iter().flat_map(|s| s.state).collect())),
        ("reward", floats(|s| s.reward)),
        ("equity", floats(|s| s.equity)),
        ("peak", floats(|s| s.peak)),
        ("stopped", numbers(|s| u64::from(s.stopped))),
        ("done", numbers(|s| u64::from(s.done))),
    ])
}

/// The engine stops at the first value that is not finite, so the steps are looked at in their order.
pub(super) fn not_finite(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let mut found = None;
    let mut last = None;
    for fields in i.list("steps")? {
        let (step, tensors) = (fields.number("step")?, fields.f32_lists("tensors")?);
        if last.replace(step).is_some_and(|last| last >= step) {
            return Err(fields.fault("step", "expected ascending steps".to_owned()));
        }
        let first = engine.first_not_finite(&tensors)?;
        found = found.or(first.map(|(tensor, element)| (step, tensor, element)));
    }
    Ok(vec![
        ("step", Found::Maybe(found.map(|(step, ..)| step))),
        ("tensor", Found::Maybe(found.map(|(_, tensor, _)| tensor))),
        ("element", Found::Maybe(found.map(|(.., element)| element))),
    ])
}
