//! One runner for each kind of vector.

use super::CaseFault;
use super::fields::{Fields, Found, Outputs, SIZE_LIMIT};
use crate::bits::rounding::{AdamConstants, power};
use crate::bits::{philox, rounding};
use crate::digest::fingerprint;
use crate::engine::cpu::gemm::{B, Epilogue, Gemm};
use crate::engine::cpu::rules::{self, Operation};
use crate::engine::cpu::{Cpu, Q_VALUES};
use crate::engine::network::{ACTIONS, HEADS};

/// Computes `out` from `in` on a path; `out` itself says only how many elements are asked for.
pub(crate) type Runner = fn(&Fields, &Fields, &Cpu) -> Outputs;

/// The one place to add a kind.
pub(crate) const KINDS: &[(&str, Runner)] = &[
    // Rule 1
    ("add", |i, _, cpu| operation(i, cpu, Operation::Add)),
    ("sub", |i, _, cpu| operation(i, cpu, Operation::Sub)),
    ("mul", |i, _, cpu| operation(i, cpu, Operation::Mul)),
    ("div", |i, _, cpu| operation(i, cpu, Operation::Div)),
    ("sqrt", |i, _, cpu| operation(i, cpu, Operation::Sqrt)),
    ("fma", |i, _, cpu| operation(i, cpu, Operation::Fma)),
    // Rule 2
    ("dot", dot),
    ("layer", layer),
    ("relu", relu),
    ("relu_backward", relu_backward),
    ("input_gradient", input_gradient),
    ("trunk2_input_gradient", trunk2_input_gradient),
    ("weight_gradient", weight_gradient),
    // Rules 3 and 4
    ("bias_gradient", bias_gradient),
    ("reduce", reduce),
    ("reduce_fill", reduce_fill),
    // Rule 5
    ("dueling", dueling),
    ("argmax", argmax),
    ("n_step", n_step),
    ("target", target),
    ("huber", huber),
    ("heads_backward", heads_backward),
    // Rule 6
    ("clip", clip),
    ("adam", adam),
    ("adam_dead_unit", adam_dead_unit),
    ("polyak", polyak),
    // Rule 7
    ("philox", philox_block),
    ("key", key),
    ("block", block),
    ("uniform", uniform),
    ("index_below", index_below),
    ("threshold", threshold),
    ("explore", explore),
    ("initial_weight", initial_weight),
    // Fingerprint
    ("mix64", mix64),
    ("keys", keys),
    ("fingerprint", fingerprint_of),
];

/// `a · b` elements, refused above the limit.
fn product(fields: &Fields, key: &str, a: usize, b: usize) -> Result<usize, CaseFault> {
    let n = a.checked_mul(b).filter(|&n| n <= SIZE_LIMIT);
    n.ok_or_else(|| fields.fault(key, format!("{a} times {b} elements; at most {SIZE_LIMIT} are run")))
}

fn operation(i: &Fields, cpu: &Cpu, operation: Operation) -> Outputs {
    let a = i.f32s("a")?;
    let zeros = vec![0.0; a.len()];
    let b = if operation == Operation::Sqrt { zeros.clone() } else { i.f32s_of("b", a.len())? };
    let c = if operation == Operation::Fma { i.f32s_of("c", a.len())? } else { zeros.clone() };
    let mut r = zeros;
    cpu.elementwise(operation, [&a, &b, &c], &mut r);
    Ok(vec![("r", Found::F32(r))])
}

fn dot(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let k = i.size("k")?;
    let (a, b) = (i.f32s_of("a", k)?, i.f32s_of("b", k)?);
    let mut acc = vec![0.0];
    cpu.layer(&a, 1, &b, Epilogue::Store, &mut acc);
    Ok(vec![("acc", Found::F32(acc))])
}

fn layer(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let (rows, inputs, outputs) = (i.size("rows")?, i.size("in")?, i.size("out")?);
    let x = i.f32s_of("x", product(i, "x", rows, inputs)?)?;
    let weight = i.f32s_of("weight", product(i, "weight", outputs, inputs)?)?;
    let bias = i.f32s_of("bias", outputs)?;
    let mut z = vec![0.0; product(i, "out", rows, outputs)?];
    let mut y = z.clone();
    cpu.layer(&x, rows, &weight, Epilogue::Bias(&bias), &mut z);
    cpu.layer(&x, rows, &weight, Epilogue::BiasRelu(&bias), &mut y);
    Ok(vec![("z", Found::F32(z)), ("y", Found::F32(y))])
}

fn relu(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let z = i.f32s("z")?;
    let mut y = vec![0.0; z.len()];
    cpu.relu(&z, &mut y);
    Ok(vec![("y", Found::F32(y))])
}

fn relu_backward(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let y = i.f32s("y")?;
    let dy = i.f32s_of("dy", y.len())?;
    let mut dz = vec![0.0; y.len()];
    cpu.relu_backward(&y, &dy, &mut dz);
    Ok(vec![("dz", Found::F32(dz))])
}

fn input_gradient(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let (rows, inputs, outputs) = (i.size("rows")?, i.size("in")?, i.size("out")?);
    let dz = i.f32s_of("dz", product(i, "dz", rows, outputs)?)?;
    let weight = i.f32s_of("weight", product(i, "weight", outputs, inputs)?)?;
    let mut dx = vec![0.0; product(i, "in", rows, inputs)?];
    cpu.input_gradient(&dz, rows, &weight, Epilogue::Store, &mut dx);
    Ok(vec![("dx", Found::F32(dx))])
}

fn trunk2_input_gradient(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let h = i.size("h")?;
    if h % 2 == 1 {
        return Err(i.fault("h", format!("expected an even size, found {h}")));
    }
    let each = product(i, "h", h / 2, h)?;
    let (mut dz, mut weight) = (Vec::new(), Vec::new());
    let (by_head, weights) = (i.fields("dz")?, i.fields("weight")?);
    for head in HEADS {
        dz.extend(by_head.f32s_of(head, h / 2)?);
        weight.extend(weights.f32s_of(head, each)?);
    }
    let mut dy = vec![0.0; h];
    let parts: Vec<&[f32]> = weight.chunks(each).collect();
    let (k, b) = (2 * h, B::Stack(&parts));
    cpu.gemm(Gemm { m: 1, n: h, k, a: &dz, a_row: k, a_k: 1, b, c: &mut dy, c_row: h, epilogue: Epilogue::Store });
    Ok(vec![("dy", Found::F32(dy))])
}

fn weight_gradient(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let (batch, inputs, outputs) = (i.size("batch")?, i.size("in")?, i.size("out")?);
    let dz = i.f32s_of("dz", product(i, "dz", batch, outputs)?)?;
    let x = i.f32s_of("x", product(i, "x", batch, inputs)?)?;
    let mut dw = vec![0.0; product(i, "out", outputs, inputs)?];
    cpu.weight_gradient(&dz, &x, batch, &mut dw);
    Ok(vec![("dw", Found::F32(dw))])
}

fn bias_gradient(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let (batch, width) = (i.size("batch")?, i.size("width")?);
    let dz = i.f32s_of("dz", product(i, "dz", batch, width)?)?;
    let mut db = vec![0.0; width];
    cpu.bias_gradient(&dz, batch, &mut db);
    Ok(vec![("db", Found::F32(db))])
}

fn reduce(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let tensors = i.f32_lists("tensors")?;
    let lengths = i.numbers("lengths")?;
    i.length("lengths", lengths.len(), tensors.len())?;
    for (tensor, length) in tensors.iter().zip(lengths) {
        i.length("tensors", tensor.len(), usize::try_from(length).unwrap_or(usize::MAX))?;
    }
    let sums: Vec<f32> = tensors.iter().map(|t| cpu.reduce(t)).collect();
    let squares: Vec<f32> = tensors.iter().map(|t| cpu.reduce_squares(t)).collect();
    let (sum, square) = (cpu.reduce(&sums), cpu.reduce(&squares));
    Ok(vec![
        ("tensor_sums", Found::F32(sums)),
        ("sum", Found::F32(vec![sum])),
        ("tensor_squares", Found::F32(squares)),
        ("squares", Found::F32(vec![square])),
    ])
}

fn reduce_fill(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let (key, n) = (i.u32_array("key")?, i.size("n")?);
    let xs: Vec<f32> = (0..n).map(|e| philox::initial_weight(key, e as u32, 1.0)).collect();
    let (sum, squares) = (cpu.reduce(&xs), cpu.reduce_squares(&xs));
    Ok(vec![("sum", Found::F32(vec![sum])), ("squares", Found::F32(vec![squares]))])
}

fn dueling(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let v = i.f32s("v")?;
    let a = i.f32s_of("a", product(i, "a", v.len(), ACTIONS)?)?;
    let q = v.iter().zip(a.as_chunks().0).flat_map(|(&v, &a)| rules::dueling(v, a)).collect();
    Ok(vec![("q", Found::F32(q))])
}

fn argmax(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let q = i.f32s("q")?;
    i.rows("q", q.len(), ACTIONS)?;
    let index = q.chunks(ACTIONS).map(|q| rules::argmax(q) as u64).collect();
    Ok(vec![("index", Found::Numbers(index))])
}

fn n_step(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let (n, gamma, rewards) = (i.size("n")?, i.f64("gamma")?, i.f32s("rewards")?);
    let dones = i.bools("dones")?;
    i.rows("rewards", rewards.len(), n)?;
    i.length("dones", dones.len(), rewards.len())?;
    let rows = rewards.chunks(n).zip(dones.chunks(n)).map(|(r, d)| rules::n_step(r, d, gamma as f32));
    let (r, done) = rows.map(|(r, done)| (r, u64::from(done))).unzip();
    Ok(vec![
        ("gamma_f32", Found::F32(vec![gamma as f32])),
        ("gamma_n", Found::F32(vec![power(gamma, n as u64) as f32])),
        ("r", Found::F32(r)),
        ("done", Found::Numbers(done)),
    ])
}

fn target(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let (gamma_n, r, done) = (i.f32("gamma_n")?, i.f32s("r")?, i.bools("done")?);
    i.length("done", done.len(), r.len())?;
    let n = product(i, "online", r.len(), Q_VALUES)?;
    let (online, target) = (i.f32s_of("online", n)?, i.f32s_of("target", n)?);
    let picks = online.chunks(ACTIONS).map(|q| rules::argmax(q) as u64).collect();
    let rows = online.chunks(Q_VALUES).zip(target.chunks(Q_VALUES));
    let y = rows.zip(&r).zip(&done).map(|(((o, t), &r), &done)| rules::td_target(r, done, gamma_n, o, t));
    Ok(vec![("picks", Found::Numbers(picks)), ("y", Found::F32(y.collect()))])
}

fn huber(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
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

fn heads_backward(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
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

fn clip(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
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

fn adam(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let t = i.size("t")? as u64;
    let constants = adam_constants(i, t)?.last();
    let c = constants.ok_or_else(|| i.fault("t", "expected 1 or more".to_owned()))?;
    let mut w = i.f32s("w")?;
    let (mut m, mut v) = (i.f32s_of("m", w.len())?, i.f32s_of("v", w.len())?);
    let g = i.f32s_of("g", w.len())?;
    cpu.adam(&c, 1.0, &mut w, &mut m, &mut v, &g);
    let one = |x| Found::F32(vec![x]);
    let rounding::AdamConstants { beta1, beta2, c1, c2, a, b, epsilon } = c;
    let constants =
        [("beta1", beta1), ("beta2", beta2), ("c1", c1), ("c2", c2), ("a", a), ("b", b), ("epsilon", epsilon)];
    let mut out: Vec<_> = constants.into_iter().map(|(key, x)| (key, one(x))).collect();
    out.extend([("w", Found::F32(w)), ("m", Found::F32(m)), ("v", Found::F32(v))]);
    Ok(out)
}

fn adam_dead_unit(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
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

fn polyak(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let mut target = i.f32s("target")?;
    let w = i.f32s_of("w", target.len())?;
    cpu.polyak(i.f64("tau")? as f32, &mut target, &w);
    Ok(vec![("target", Found::F32(target))])
}

fn philox_block(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let words = philox::philox(i.u32_array("counter")?, i.u32_array("key")?);
    Ok(vec![("words", Found::U32(words.to_vec()))])
}

fn stream(i: &Fields) -> Result<philox::Key, CaseFault> {
    Ok(philox::stream_key(i.u64("seed")?, i.number_u32("fold")?, i.text("stream")?))
}

fn key(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    Ok(vec![("key", Found::U32(stream(i)?.to_vec()))])
}

fn block(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let words = philox::block(i.u32_array("key")?, i.number_u32("element")?, i.number_u32("draw")?, i.u64("step")?);
    Ok(vec![("words", Found::U32(words.to_vec()))])
}

fn uniform(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    Ok(vec![("u", Found::F32(i.u32s("words")?.into_iter().map(philox::uniform).collect()))])
}

fn index_below(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let (n, words) = (i.u64("n")?, i.u32s("words")?);
    i.rows("words", words.len(), 2)?;
    let index = words.as_chunks().0.iter().map(|&words| philox::index_below(n, words)).collect();
    Ok(vec![("index", Found::U64(index))])
}

fn threshold(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let (start, end) = (philox::threshold_of(i.f64("start")?), philox::threshold_of(i.f64("end")?));
    let steps = i.number_u32("steps")?;
    if steps == 0 || start < end || start > 1 << 32 {
        return Err(i.fault("start", "expected 1 >= start >= end and 1 or more steps".to_owned()));
    }
    let t = i.u64s("t")?.into_iter();
    Ok(vec![("threshold", Found::U64(t.map(|t| philox::explore_threshold(start, end, t, steps)).collect()))])
}

fn explore(i: &Fields, out: &Fields, _: &Cpu) -> Outputs {
    let (key, step, threshold) = (stream(i)?, i.u64("step")?, i.u64("threshold")?);
    let (mut explores, mut actions) = (Vec::new(), Vec::new());
    for element in 0..out.numbers("explores")?.len() {
        let words = philox::block(key, element as u32, 0, step);
        explores.push(u64::from(u64::from(words[0]) < threshold));
        actions.extend(philox::random_actions(words).map(u64::from));
    }
    Ok(vec![("explores", Found::Numbers(explores)), ("actions", Found::Numbers(actions))])
}

fn initial_weight(i: &Fields, out: &Fields, _: &Cpu) -> Outputs {
    let (key, s) = (stream(i)?, philox::initial_scale(i.size("fan_in")?));
    let elements = 0..out.f32s("w")?.len();
    let w = elements.map(|e| philox::initial_weight(key, e as u32, s)).collect();
    Ok(vec![("s", Found::F32(vec![s])), ("w", Found::F32(w))])
}

fn mix64(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    Ok(vec![("mix", Found::U64(i.u64s("z")?.into_iter().map(fingerprint::mix64).collect()))])
}

fn keys(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let k = i.number("k")?;
    let keys = usize::try_from(k).ok().and_then(|k| fingerprint::KEYS.get(k));
    let keys = keys.ok_or_else(|| i.fault("k", format!("expected lane 0 or 1, found {k}")))?;
    Ok(vec![("keys", Found::U32(keys.to_vec()))])
}

fn fingerprint_of(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let text = i.text("bytes")?;
    let byte = |pair: &[u8]| {
        let digits =
            std::str::from_utf8(pair).ok().filter(|_| pair.iter().all(u8::is_ascii_hexdigit) && pair.len() == 2);
        digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())
    };
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
    let bytes = bytes.ok_or_else(|| i.fault("bytes", "expected pairs of hex digits".to_owned()))?;
    Ok(vec![("fp", Found::Text(fingerprint::fingerprint(&bytes).to_string()))])
}
