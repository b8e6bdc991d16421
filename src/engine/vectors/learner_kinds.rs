//! Vectors of rules 5 and 6: targets, loss, clip, Adam, the target network.

use super::CaseFault;
use super::fields::{Fields, Found, Outputs};
use super::network_kinds::product;
use super::replay_kinds::n_step_return;
use crate::bits::rounding::{AdamConstants, power};
use crate::engine::cpu::rules::{self, Operation};
use crate::engine::cpu::{Cpu, Q_VALUES};
use crate::engine::network::ACTIONS;

pub(super) fn dueling(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let v = i.f32s("v")?;
    let a = i.f32s_of("a", product(i, "a", v.len(), ACTIONS)?)?;
    let q = v.iter().zip(a.as_chunks().0).flat_map(|(&v, &a)| rules::dueling(v, a)).collect();
    Ok(vec![("q", Found::F32(q))])
}

pub(super) fn argmax(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let q = i.f32s("q")?;
    i.rows("q", q.len(), ACTIONS)?;
    let index = q.chunks(ACTIONS).map(|q| rules::argmax(q) as u64).collect();
    Ok(vec![("index", Found::Numbers(index))])
}

pub(super) fn n_step(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let (n, gamma, rewards) = (i.size("n")?, i.f64("gamma")?, i.f32s("rewards")?);
    let dones = i.bools("dones")?;
    i.rows("rewards", rewards.len(), n)?;
    i.length("dones", dones.len(), rewards.len())?;
    let rows = rewards.chunks(n).zip(dones.chunks(n)).map(|(r, d)| n_step_return(r, d, gamma as f32));
    let (r, done) = rows.map(|(r, done)| (r, u64::from(done))).unzip();
    Ok(vec![
        ("gamma_f32", Found::F32(vec![gamma as f32])),
        ("gamma_n", Found::F32(vec![power(gamma, n as u64) as f32])),
        ("r", Found::F32(r)),
        ("done", Found::Numbers(done)),
    ])
}

pub(super) fn target(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let (gamma_n, r, done) = (i.f32("gamma_n")?, i.f32s("r")?, i.bools("done")?);
    i.length("done", done.len(), r.len())?;
    let n = product(i, "online", r.len(), Q_VALUES)?;
    let (online, target) = (i.f32s_of("online", n)?, i.f32s_of("target", n)?);
    let picks = online.chunks(ACTIONS).map(|q| rules::argmax(q) as u64).collect();
    let rows = online.chunks(Q_VALUES).zip(target.chunks(Q_VALUES));
    let y = rows.zip(&r).zip(&done).map(|(((o, t), &r), &done)| rules::td_target(r, done, gamma_n, o, t));
    Ok(vec![("picks", Found::Numbers(picks)), ("y", Found::F32(y.collect()))])
}

pub(super) fn huber(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let (batch, q) = (i.size("batch")?, i.f32s("q")?);
    let (y, w) = (i.f32s_of("y", q.len())?, i.f32s_of("w", q.len())?);
    let c = rules::loss_scale(batch);
    let rows: Vec<rules::Huber> = (0..q.len()).map(|n| rules::huber(q[n], y[n], w[n], c)).collect();
    let column = |value: fn(&rules::Huber) -> f32| Found::F32(rows.iter().map(value).collect());
    Ok(vec![
        ("c", Found::F32(vec![c])),
        ("delta", column(|h| h.delta)),
        ("e", column(|h| h.e)),
        ("loss", column(|h| h.loss)),
        ("g", column(|h| h.g)),
    ])
}

pub(super) fn heads_backward(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let g = i.f32s("g")?;
    let actions = i.actions("actions", i.rows("g", g.len(), 3)?)?;
    let (mut dv, mut da) = (Vec::new(), Vec::new());
    for (g, actions) in g.as_chunks().0.iter().zip(actions) {
        let row = rules::heads_backward(*g, actions);
        dv.push(row.0);
        da.extend(row.1.as_flattened());
    }
    Ok(vec![("dv", Found::F32(dv)), ("da", Found::F32(da))])
}

pub(super) fn clip(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let g = i.f32s("g")?;
    let (norm, k) = rules::clip(i.f32("s")?, i.f32("limit")?);
    let mut clipped = vec![0.0; g.len()];
    cpu.elementwise(Operation::Mul, [&g, &vec![k; g.len()], &g], &mut clipped);
    Ok(vec![("norm", Found::F32(vec![norm])), ("k", Found::F32(vec![k])), ("g", Found::F32(clipped))])
}

/// Constants of every update from 1 to `t`.
fn adam_constants(i: &Fields, t: u64) -> Result<impl Iterator<Item = AdamConstants>, CaseFault> {
    let [lr, beta1, beta2, epsilon] = [i.f64("lr")?, i.f64("beta1")?, i.f64("beta2")?, i.f64("epsilon")?];
    let mut powers = (1.0, 1.0);
    Ok((0..t).map(move |_| {
        powers = (powers.0 * beta1, powers.1 * beta2);
        AdamConstants::new(lr, beta1, beta2, epsilon, powers.0, powers.1)
    }))
}

pub(super) fn adam(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let t = i.size("t")? as u64;
    let constants = adam_constants(i, t)?.last();
    let c = constants.ok_or_else(|| i.fault("t", "expected 1 or more".to_owned()))?;
    let mut w = i.f32s("w")?;
    let (mut m, mut v) = (i.f32s_of("m", w.len())?, i.f32s_of("v", w.len())?);
    let g = i.f32s_of("g", w.len())?;
    cpu.adam(&c, 1.0, &mut w, &mut m, &mut v, &g);
    let one = |x| Found::F32(vec![x]);
    let AdamConstants { beta1, beta2, c1, c2, a, b, epsilon } = c;
    let constants =
        [("beta1", beta1), ("beta2", beta2), ("c1", c1), ("c2", c2), ("a", a), ("b", b), ("epsilon", epsilon)];
    let mut out: Vec<_> = constants.into_iter().map(|(key, x)| (key, one(x))).collect();
    out.extend([("w", Found::F32(w)), ("m", Found::F32(m)), ("v", Found::F32(v))]);
    Ok(out)
}

pub(super) fn adam_dead_unit(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let (mut w, mut m, mut v) = ([i.f32("w")?], [i.f32("m")?], [i.f32("v")?]);
    let (mut seen, mut zero_after) = (Vec::new(), 0);
    for (t, c) in (1..).zip(adam_constants(i, 720)?) {
        cpu.adam(&c, 1.0, &mut w, &mut m, &mut v, &[0.0]);
        if zero_after == 0 && m[0] == 0.0 {
            zero_after = t;
        }
        if t % 120 == 0 {
            seen.extend([w[0], m[0], v[0]]);
        }
    }
    Ok(vec![("seen", Found::F32(seen)), ("m_is_zero_after", Found::Numbers(vec![zero_after]))])
}

pub(super) fn polyak(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let mut target = i.f32s("target")?;
    let w = i.f32s_of("w", target.len())?;
    cpu.polyak(i.f64("tau")? as f32, &mut target, &w);
    Ok(vec![("target", Found::F32(target))])
}
