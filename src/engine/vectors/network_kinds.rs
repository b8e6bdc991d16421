//! Vectors of rules 1 to 4: scalars, layers and their gradients, reductions.

use super::CaseFault;
use super::engine::{Engine, Last, Product};
use super::fields::{Fields, Found, Outputs, SIZE_LIMIT};
use crate::engine::cpu::rules::Operation;
use crate::engine::network::HEADS;

/// `a · b` elements, refused above the limit.
pub(super) fn product(fields: &Fields, key: &str, a: usize, b: usize) -> Result<usize, CaseFault> {
    let n = a.checked_mul(b).filter(|&n| n <= SIZE_LIMIT);
    n.ok_or_else(|| fields.fault(key, format!("{a} times {b} elements; at most {SIZE_LIMIT} are run")))
}

pub(super) fn operation(i: &Fields, engine: &dyn Engine, operation: Operation) -> Outputs {
    let a = i.f32s("a")?;
    let zeros = vec![0.0; a.len()];
    let b = if operation == Operation::Sqrt { zeros.clone() } else { i.f32s_of("b", a.len())? };
    let c = if operation == Operation::Fma { i.f32s_of("c", a.len())? } else { zeros };
    Ok(vec![("r", Found::F32(engine.elementwise(operation, [&a, &b, &c])?))])
}

/// A product whose operands both have k as inner dimension: rows by rows.
fn rows_by_rows<'a>(size: (usize, usize, usize), a: &'a [f32], b: &'a [f32], last: Last<'a>) -> Product<'a> {
    Product { size, a, a_k_inner: true, b, b_k_inner: true, b_parts: 1, last }
}

pub(super) fn dot(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let k = i.size("k")?;
    let (a, b) = (i.f32s_of("a", k)?, i.f32s_of("b", k)?);
    let acc = engine.product(&rows_by_rows((1, 1, k), &a, &b, Last::Store))?;
    Ok(vec![("acc", Found::F32(acc))])
}

pub(super) fn layer(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let (rows, inputs, outputs) = (i.size("rows")?, i.size("in")?, i.size("out")?);
    let x = i.f32s_of("x", product(i, "x", rows, inputs)?)?;
    let weight = i.f32s_of("weight", product(i, "weight", outputs, inputs)?)?;
    let bias = i.f32s_of("bias", outputs)?;
    product(i, "out", rows, outputs)?;
    let size = (rows, outputs, inputs);
    let z = engine.product(&rows_by_rows(size, &x, &weight, Last::Bias(&bias)))?;
    let y = engine.product(&rows_by_rows(size, &x, &weight, Last::BiasRelu(&bias)))?;
    Ok(vec![("z", Found::F32(z)), ("y", Found::F32(y))])
}

pub(super) fn relu(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    Ok(vec![("y", Found::F32(engine.relu(&i.f32s("z")?)?))])
}

pub(super) fn relu_backward(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let y = i.f32s("y")?;
    let dy = i.f32s_of("dy", y.len())?;
    Ok(vec![("dz", Found::F32(engine.relu_backward(&y, &dy)?))])
}

pub(super) fn input_gradient(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let (rows, inputs, outputs) = (i.size("rows")?, i.size("in")?, i.size("out")?);
    let a = i.f32s_of("dz", product(i, "dz", rows, outputs)?)?;
    let b = i.f32s_of("weight", product(i, "weight", outputs, inputs)?)?;
    product(i, "in", rows, inputs)?;
    let size = (rows, inputs, outputs);
    let of = Product { size, a: &a, a_k_inner: true, b: &b, b_k_inner: false, b_parts: 1, last: Last::Store };
    Ok(vec![("dx", Found::F32(engine.product(&of)?))])
}

pub(super) fn trunk2_input_gradient(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
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
    let (size, b_parts) = ((1, h, 2 * h), HEADS.len());
    let of = Product { size, a: &dz, a_k_inner: true, b: &weight, b_k_inner: false, b_parts, last: Last::Store };
    Ok(vec![("dy", Found::F32(engine.product(&of)?))])
}

pub(super) fn weight_gradient(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let (batch, inputs, outputs) = (i.size("batch")?, i.size("in")?, i.size("out")?);
    let a = i.f32s_of("dz", product(i, "dz", batch, outputs)?)?;
    let b = i.f32s_of("x", product(i, "x", batch, inputs)?)?;
    product(i, "out", outputs, inputs)?;
    let size = (outputs, inputs, batch);
    let of = Product { size, a: &a, a_k_inner: false, b: &b, b_k_inner: false, b_parts: 1, last: Last::Store };
    Ok(vec![("dw", Found::F32(engine.product(&of)?))])
}

pub(super) fn bias_gradient(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let (batch, width) = (i.size("batch")?, i.size("width")?);
    let dz = i.f32s_of("dz", product(i, "dz", batch, width)?)?;
    Ok(vec![("db", Found::F32(engine.bias_gradient(&dz, batch, width)?))])
}

pub(super) fn reduce(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let tensors = i.f32_lists("tensors")?;
    let lengths = i.numbers("lengths")?;
    i.length("lengths", lengths.len(), tensors.len())?;
    for (tensor, length) in tensors.iter().zip(lengths) {
        i.length("tensors", tensor.len(), usize::try_from(length).unwrap_or(usize::MAX))?;
    }
    let ((sums, sum), (squares, square)) = (engine.reduce(&tensors, false)?, engine.reduce(&tensors, true)?);
    Ok(vec![
        ("tensor_sums", Found::F32(sums)),
        ("sum", Found::F32(vec![sum])),
        ("tensor_squares", Found::F32(squares)),
        ("squares", Found::F32(vec![square])),
    ])
}

pub(super) fn reduce_fill(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let (key, n) = (i.u32_array("key")?, i.size("n")?);
    let xs = [engine.initial_weights(key, 1.0, n)?];
    let ((sum, _), (squares, _)) = (engine.reduce(&xs, false)?, engine.reduce(&xs, true)?);
    Ok(vec![("sum", Found::F32(sum)), ("squares", Found::F32(squares))])
}
