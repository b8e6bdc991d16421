//! Vectors of rules 1 to 4: scalars, layers and their gradients, reductions.

use super::CaseFault;
use super::fields::{Fields, Found, Outputs, SIZE_LIMIT};
use crate::bits::philox;
use crate::engine::cpu::Cpu;
use crate::engine::cpu::gemm::{B, Epilogue, Gemm};
use crate::engine::cpu::rules::Operation;
use crate::engine::network::HEADS;

/// `a · b` elements, refused above the limit.
pub(super) fn product(fields: &Fields, key: &str, a: usize, b: usize) -> Result<usize, CaseFault> {
    let n = a.checked_mul(b).filter(|&n| n <= SIZE_LIMIT);
    n.ok_or_else(|| fields.fault(key, format!("{a} times {b} elements; at most {SIZE_LIMIT} are run")))
}

pub(super) fn operation(i: &Fields, cpu: &Cpu, operation: Operation) -> Outputs {
    let a = i.f32s("a")?;
    let zeros = vec![0.0; a.len()];
    let b = if operation == Operation::Sqrt { zeros.clone() } else { i.f32s_of("b", a.len())? };
    let c = if operation == Operation::Fma { i.f32s_of("c", a.len())? } else { zeros.clone() };
    let mut r = zeros;
    cpu.elementwise(operation, [&a, &b, &c], &mut r);
    Ok(vec![("r", Found::F32(r))])
}

pub(super) fn dot(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let k = i.size("k")?;
    let (a, b) = (i.f32s_of("a", k)?, i.f32s_of("b", k)?);
    let mut acc = vec![0.0];
    cpu.layer(&a, 1, &b, Epilogue::Store, &mut acc);
    Ok(vec![("acc", Found::F32(acc))])
}

pub(super) fn layer(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
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

pub(super) fn relu(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let z = i.f32s("z")?;
    let mut y = vec![0.0; z.len()];
    cpu.relu(&z, &mut y);
    Ok(vec![("y", Found::F32(y))])
}

pub(super) fn relu_backward(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let y = i.f32s("y")?;
    let dy = i.f32s_of("dy", y.len())?;
    let mut dz = vec![0.0; y.len()];
    cpu.relu_backward(&y, &dy, &mut dz);
    Ok(vec![("dz", Found::F32(dz))])
}

pub(super) fn input_gradient(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let (rows, inputs, outputs) = (i.size("rows")?, i.size("in")?, i.size("out")?);
    let dz = i.f32s_of("dz", product(i, "dz", rows, outputs)?)?;
    let weight = i.f32s_of("weight", product(i, "weight", outputs, inputs)?)?;
    let mut dx = vec![0.0; product(i, "in", rows, inputs)?];
    cpu.input_gradient(&dz, rows, &weight, Epilogue::Store, &mut dx);
    Ok(vec![("dx", Found::F32(dx))])
}

pub(super) fn trunk2_input_gradient(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
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

pub(super) fn weight_gradient(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let (batch, inputs, outputs) = (i.size("batch")?, i.size("in")?, i.size("out")?);
    let dz = i.f32s_of("dz", product(i, "dz", batch, outputs)?)?;
    let x = i.f32s_of("x", product(i, "x", batch, inputs)?)?;
    let mut dw = vec![0.0; product(i, "out", outputs, inputs)?];
    cpu.weight_gradient(&dz, &x, batch, &mut dw);
    Ok(vec![("dw", Found::F32(dw))])
}

pub(super) fn bias_gradient(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let (batch, width) = (i.size("batch")?, i.size("width")?);
    let dz = i.f32s_of("dz", product(i, "dz", batch, width)?)?;
    let mut db = vec![0.0; width];
    cpu.bias_gradient(&dz, batch, &mut db);
    Ok(vec![("db", Found::F32(db))])
}

pub(super) fn reduce(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
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

pub(super) fn reduce_fill(i: &Fields, _: &Fields, cpu: &Cpu) -> Outputs {
    let (key, n) = (i.u32_array("key")?, i.size("n")?);
    let xs: Vec<f32> = (0..n).map(|e| philox::initial_weight(key, e as u32, 1.0)).collect();
    let (sum, squares) = (cpu.reduce(&xs), cpu.reduce_squares(&xs));
    Ok(vec![("sum", Found::F32(vec![sum])), ("squares", Found::F32(vec![squares]))])
}
