//! Vectors of rules 10 and 11: accounts over a table of bars, and the first value that is not finite.

use std::ops::Range;

use super::CaseFault;
use super::fields::{Fields, Found, Outputs};
use super::network_kinds::product;
use super::random_kinds::stream;
use crate::bits::philox::Key;
use crate::engine::cpu::Cpu;
use crate::engine::environment::{Account, Environments, Stepped, reset_time};

/// The bars of a case, and how its episodes begin and end.
struct Table {
    ret: Vec<f32>,
    cost: Vec<f32>,
    vol: Vec<f32>,
    window: Range<usize>,
    episode_bars: u32,
    /// None: every episode begins with the window
    reset: Option<Key>,
}

impl Table {
    fn read(i: &Fields) -> Result<Self, CaseFault> {
        let (start, end) = (i.number("window_start")?, i.size("window_end")?);
        let window = usize::try_from(start).ok().filter(|&start| start < end - 1).map(|start| start..end);
        let window = window.ok_or_else(|| i.fault("window_start", format!("{start} leaves no bar below {end}")))?;
        let [ret, cost, vol] = [i.f32s_of("ret", end)?, i.f32s_of("cost", end)?, i.f32s_of("vol", end)?];
        let reset = if i.given("reset")? { Some(stream(&i.fields("reset")?)?) } else { None };
        Ok(Table { ret, cost, vol, window, episode_bars: i.number_u32("episode_bars")?, reset })
    }

    /// First bar of the episode of `environment` that begins at environment step `step`.
    fn start(&self, environment: usize, step: u64) -> usize {
        self.reset.map_or(self.window.start, |key| reset_time(key, environment as u32, step, &self.window))
    }
}

/// Bar, account after the step and before any reset, what the step gave, the episode's end.
type Seen = (u64, Account, Stepped, bool);

pub(super) fn environment(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let (table, n, steps) = (Table::read(i)?, i.size("environments")?, i.size("steps")?);
    let actions = i.actions("actions", product(i, "steps", n, steps)?)?;
    let mut env = Environments::starting((0..n).map(|e| table.start(e, 0) as u32).collect());
    let mut seen = Vec::with_capacity(actions.len());
    for (e, actions) in actions.chunks(steps).enumerate() {
        for (now, actions) in (1..).zip(actions) {
            let t = env.time[e] as usize;
            let bar = [table.cost[t], table.vol[t], table.ret[t + 1]];
            let (stepped, done) = env.step(e, *actions, bar, table.window.end, table.episode_bars);
            seen.push((t as u64, env.account(e), stepped, done));
            if done {
                env.restart(e, table.start(e, now));
            }
        }
    }
    let floats = |of: fn(&Seen) -> f32| Found::F32(seen.iter().map(of).collect());
    let numbers = |of: fn(&Seen) -> u64| Found::Numbers(seen.iter().map(of).collect());
    Ok(vec![
        ("t", numbers(|(t, ..)| *t)),
        ("state", Found::F32(seen.iter().flat_map(|(_, account, ..)| account.state()).collect())),
        ("reward", floats(|(_, _, stepped, _)| stepped.reward)),
        ("equity", floats(|(_, account, ..)| account.equity)),
        ("peak", floats(|(_, account, ..)| account.peak)),
        ("stopped", numbers(|(_, _, stepped, _)| u64::from(stepped.stopped))),
        ("done", numbers(|(.., done)| u64::from(*done))),
    ])
}

/// The engine stops at the first value that is not finite, so the steps and tensors are looked at in their order.
pub(super) fn not_finite(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let mut found = None;
    let mut last = None;
    for fields in i.list("steps")? {
        let (step, tensors) = (fields.number("step")?, fields.f32_lists("tensors")?);
        if last.replace(step).is_some_and(|last| last >= step) {
            return Err(fields.fault("step", "expected ascending steps".to_owned()));
        }
        let mut elements = tensors.iter().enumerate().map(|(tensor, xs)| (tensor, cpu.first_not_finite(xs)));
        let first = elements.find_map(|(tensor, element)| Some((step, tensor as u64, element? as u64)));
        found = found.or(first);
    }
    Ok(vec![
        ("step", Found::Maybe(found.map(|(step, ..)| step))),
        ("tensor", Found::Maybe(found.map(|(_, tensor, _)| tensor))),
        ("element", Found::Maybe(found.map(|(.., element)| element))),
    ])
}
