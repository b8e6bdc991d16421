//! Vectors of whole updates: sampling, gradients, clip, Adam, target network, priorities, three times in a row.

use std::ops::Range;

use super::CaseFault;
use super::engine::{Drawn, Engine, Start, Updated, Updates};
use super::fields::{Fields, Found, Outputs, SIZE_LIMIT};
use super::learner_kinds::adam_settings;
use super::network_kinds::product;
use super::replay_kinds::{exponent, priorities};
use crate::bits::philox::stream_key;
use crate::bits::rounding::power;
use crate::engine::network::{BRANCHES, NetworkShape};

/// One a whole update; the file lists as many.
const UPDATES: [&str; 3] = ["0", "1", "2"];

fn shape(i: &Fields, batch: usize) -> Result<NetworkShape, CaseFault> {
    let shape = NetworkShape { d: i.size("d")?, bottleneck: i.size("bottleneck")?, h: i.size("h")? };
    let NetworkShape { d, bottleneck, h } = shape;
    if !h.is_multiple_of(2) {
        return Err(i.fault("h", format!("expected an even size, found {h}")));
    }
    if shape.parameters() > SIZE_LIMIT {
        return Err(i.fault("h", format!("{} parameters; at most {SIZE_LIMIT} are run", shape.parameters())));
    }
    // The buffers of a batch: s, s', and every layer's outputs.
    product(i, "d", batch, 2 * d + bottleneck + 4 * h)?;
    Ok(shape)
}

struct Transition {
    obs: Vec<f32>,
    next_obs: Vec<f32>,
    actions: [u8; BRANCHES],
    ret: f32,
    done: bool,
}

impl Transition {
    fn read(i: &Fields, d: usize, (n, gamma): (usize, f32), engine: &dyn Engine) -> Result<Self, CaseFault> {
        let (rewards, dones) = (i.f32s_of("rewards", n)?, i.bools("dones")?);
        i.length("dones", dones.len(), n)?;
        let (ret, done) = engine.n_step(n, gamma, &rewards, &dones)?;
        let (obs, next_obs) = (i.f32s_of("obs", d)?, i.f32s_of("next_obs", d)?);
        Ok(Transition { obs, next_obs, actions: i.actions("actions", 1)?[0], ret: ret[0], done: done[0] })
    }
}

fn parameters(i: &Fields, shape: NetworkShape) -> Result<Vec<f32>, CaseFault> {
    let mut flat = Vec::new();
    for (name, _, range) in shape.tensors() {
        flat.extend(i.f32s_of(&name, range.len())?);
    }
    Ok(flat)
}

fn start(i: &Fields, rows: usize) -> Result<(Start, usize, f32), CaseFault> {
    let (s, before) = (i.fields("settings")?, i.fields("before")?);
    let batch = s.size("batch")?;
    let shape = shape(&i.fields("shape")?, batch)?;
    let prioritized = if s.given("alpha")? {
        Some((exponent(&s, "alpha")?, exponent(&s, "beta")?, s.f64("epsilon_priority")? as f32))
    } else {
        None
    };
    let tau = if s.given("tau")? { Some(s.f64("tau")?) } else { None };
    let period = if s.given("period")? { Some(s.size("period")? as u64) } else { None };
    let (gamma, n) = (s.f64("gamma")?, s.size("n")?);
    let q = priorities(&before, "priorities")?;
    before.length("priorities", q.len(), rows)?;
    let t = before.number("t")?;
    if t > SIZE_LIMIT as u64 {
        return Err(before.fault("t", format!("expected at most {SIZE_LIMIT}, found {t}")));
    }
    let of = |key: &str| parameters(&before.fields(key)?, shape);
    let start = Start {
        shape,
        flat: [of("q")?, of("target")?, of("m")?, of("v")?],
        priorities: q,
        t,
        batch,
        adam: adam_settings(&s)?,
        clip: s.f64("clip")?,
        tau,
        period,
        prioritized,
        key: stream_key(s.u64("seed")?, s.number_u32("fold")?, "replay.sample"),
        gamma_n: power(gamma, n as u64) as f32,
    };
    Ok((start, n, gamma as f32))
}

fn named(shape: NetworkShape, flat: &[f32]) -> Found {
    let tensor = |(name, _, range): (String, Vec<usize>, Range<usize>)| (name, Found::F32(flat[range].to_vec()));
    Found::Fields(shape.tensors().into_iter().map(tensor).collect())
}

/// What the file lists of an update, in the order of computation.
fn shown(shape: NetworkShape, rows: &[u32], w: Vec<f32>, u: Updated) -> Vec<(String, Found)> {
    let [online, target, m, v] = &u.flat;
    let state = [
        ("t", Found::Numbers(vec![u.t])),
        ("q", named(shape, online)),
        ("target", named(shape, target)),
        ("m", named(shape, m)),
        ("v", named(shape, v)),
        ("priorities", Found::U32(u.priorities)),
    ];
    let all = [
        ("rows", Found::Numbers(rows.iter().map(|&row| u64::from(row)).collect())),
        ("w", Found::F32(w)),
        ("q", Found::F32(u.q)),
        ("y", Found::F32(u.y)),
        ("deltas", Found::F32(u.deltas)),
        ("loss", Found::F32(vec![u.loss])),
        ("gradients", named(shape, &u.gradients)),
        ("s", Found::F32(vec![u.sum_squares])),
        ("norm", Found::F32(vec![u.norm])),
        ("k", Found::F32(vec![u.k])),
        ("after", Found::Fields(state.map(|(key, found)| (key.to_owned(), found)).into())),
    ];
    all.map(|(key, found)| (key.to_owned(), found)).into()
}

fn update(
    shape: NetworkShape,
    updates: &mut dyn Updates,
    transitions: &[Transition],
) -> Result<Vec<(String, Found)>, CaseFault> {
    let (rows, w) = updates.sample()?;
    let drawn: Vec<&Transition> = rows.iter().map(|&row| &transitions[row as usize]).collect();
    let batch = Drawn {
        obs: drawn.iter().flat_map(|t| t.obs.iter().copied()).collect(),
        next_obs: drawn.iter().flat_map(|t| t.next_obs.iter().copied()).collect(),
        actions: drawn.iter().map(|t| t.actions).collect(),
        returns: drawn.iter().map(|t| t.ret).collect(),
        done: drawn.iter().map(|t| t.done).collect(),
    };
    let updated = updates.update(&rows, &w, &batch)?;
    Ok(shown(shape, &rows, w, updated))
}

pub(super) fn whole_update(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let rows = i.list("transitions")?;
    let (start, n, gamma) = start(i, rows.len())?;
    let read = |row: &Fields<'_>| Transition::read(row, start.shape.d, (n, gamma), engine);
    let transitions: Vec<_> = rows.iter().map(read).collect::<Result<_, _>>()?;
    let mut updates = engine.updates(&start)?;
    let mut one = |index| Ok((index, Found::Fields(update(start.shape, updates.as_mut(), &transitions)?)));
    UPDATES.into_iter().map(&mut one).collect()
}
