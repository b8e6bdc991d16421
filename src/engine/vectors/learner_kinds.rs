//! Vectors of rules 5 and 6: targets, loss, clip, Adam, the target network.

use super::CaseFault;
use super::engine::{AdamSettings, Engine, Moments};
use super::fields::{Fields, Found, Outputs};
use super::network_kinds::product;
use crate::bits::rounding::{AdamConstants, power};
use crate::engine::cpu::Q_VALUES;
use crate::engine::cpu::rules::{Huber, Operation, loss_scale};
use crate::engine::network::{ACTIONS, HEAD_OUTPUTS};

pub(super) fn dueling(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let v = i.f32s("v")?;
    let a = i.f32s_of("a", product(i, "a", v.len(), ACTIONS)?)?;
    Ok(vec![("q", Found::F32(engine.dueling(&v, &a)?))])
}

pub(super) fn argmax(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let q = i.f32s("q")?;
    i.rows("q", q.len(), ACTIONS)?;
    Ok(vec![("index", Found::Numbers(engine.argmax(&q)?))])
}

pub(super) fn n_step(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let (n, gamma, rewards) = (i.size("n")?, i.f64("gamma")?, i.f32s("rewards")?);
    let dones = i.bools("dones")?;
    i.rows("rewards", rewards.len(), n)?;
    i.length("dones", dones.len(), rewards.len())?;
    let (r, done) = engine.n_step(n, gamma as f32, &rewards, &dones)?;
    Ok(vec![
        ("gamma_f32", Found::F32(vec![gamma as f32])),
        ("gamma_n", Found::F32(vec![power(gamma, n as u64) as f32])),
        ("r", Found::F32(r)),
        ("done", Found::Numbers(done.into_iter().map(u64::from).collect())),
    ])
}

pub(super) fn target(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let (gamma_n, r, done) = (i.f32("gamma_n")?, i.f32s("r")?, i.bools("done")?);
    i.length("done", done.len(), r.len())?;
    let n = product(i, "online", r.len(), Q_VALUES)?;
    let (online, target) = (i.f32s_of("online", n)?, i.f32s_of("target", n)?);
    let (picks, y) = engine.td_target(&r, &done, gamma_n, &online, &target)?;
    Ok(vec![("picks", Found::Numbers(picks)), ("y", Found::F32(y))])
}

pub(super) fn huber(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let (batch, q) = (i.size("batch")?, i.f32s("q")?);
    let (y, w) = (i.f32s_of("y", q.len())?, i.f32s_of("w", q.len())?);
    let c = loss_scale(batch);
    let rows = engine.huber(&q, &y, &w, c)?;
    let column = |value: fn(&Huber) -> f32| Found::F32(rows.iter().map(value).collect());
    Ok(vec![
        ("c", Found::F32(vec![c])),
        ("delta", column(|h| h.delta)),
        ("e", column(|h| h.e)),
        ("loss", column(|h| h.loss)),
        ("g", column(|h| h.g)),
    ])
}

pub(super) fn heads_backward(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let g = i.f32s("g")?;
    let actions = i.actions("actions", i.rows("g", g.len(), 3)?)?;
    let rows = engine.heads_backward(&g, &actions)?;
    let (mut dv, mut da) = (Vec::new(), Vec::new());
    for row in rows.chunks(HEAD_OUTPUTS) {
        dv.push(row[0]);
        da.extend(&row[1..]);
    }
    Ok(vec![("dv", Found::F32(dv)), ("da", Found::F32(da))])
}

pub(super) fn clip(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let g = i.f32s("g")?;
    let (norm, k) = engine.clip(i.f32("s")?, i.f32("limit")?)?;
    let clipped = engine.elementwise(Operation::Mul, [&g, &vec![k; g.len()], &g])?;
    Ok(vec![("norm", Found::F32(vec![norm])), ("k", Found::F32(vec![k])), ("g", Found::F32(clipped))])
}

pub(super) fn adam_settings(i: &Fields) -> Result<AdamSettings, CaseFault> {
    Ok(AdamSettings { lr: i.f64("lr")?, beta1: i.f64("beta1")?, beta2: i.f64("beta2")?, epsilon: i.f64("epsilon")? })
}

pub(super) fn adam(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let (settings, t) = (adam_settings(i)?, i.size("t")? as u64);
    if t == 0 {
        return Err(i.fault("t", "expected 1 or more".to_owned()));
    }
    let w = i.f32s("w")?;
    let (m, v) = (i.f32s_of("m", w.len())?, i.f32s_of("v", w.len())?);
    let g = i.f32s_of("g", w.len())?;
    let [w, m, v] = engine.adam(&settings, t, [w, m, v], &g)?;
    let one = |x| Found::F32(vec![x]);
    let AdamSettings { lr, beta1, beta2, epsilon } = settings;
    let AdamConstants { beta1, beta2, c1, c2, a, b, epsilon } =
        AdamConstants::new(lr, beta1, beta2, epsilon, power(beta1, t), power(beta2, t));
    let constants =
        [("beta1", beta1), ("beta2", beta2), ("c1", c1), ("c2", c2), ("a", a), ("b", b), ("epsilon", epsilon)];
    let mut out: Vec<_> = constants.into_iter().map(|(key, x)| (key, one(x))).collect();
    out.extend([("w", Found::F32(w)), ("m", Found::F32(m)), ("v", Found::F32(v))]);
    Ok(out)
}

pub(super) fn adam_dead_unit(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let settings = adam_settings(i)?;
    let mut state: Moments = [vec![i.f32("w")?], vec![i.f32("m")?], vec![i.f32("v")?]];
    let (mut seen, mut zero_after) = (Vec::new(), 0);
    for t in 1..=720 {
        state = engine.adam(&settings, t, state, &[0.0])?;
        let [w, m, v] = state.each_ref().map(|x| x[0]);
        if zero_after == 0 && m == 0.0 {
            zero_after = t;
        }
        if t % 120 == 0 {
            seen.extend([w, m, v]);
        }
    }
    Ok(vec![("seen", Found::F32(seen)), ("m_is_zero_after", Found::Numbers(vec![zero_after]))])
}

pub(super) fn polyak(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let target = i.f32s("target")?;
    let w = i.f32s_of("w", target.len())?;
    Ok(vec![("target", Found::F32(engine.polyak(i.f64("tau")? as f32, &target, &w)?))])
}
