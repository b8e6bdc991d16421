//! Forward and backward pass of a run of batch rows on one thread, rules 2 and 5: no barrier between layers.

use super::Batch;
use super::gemm::{B, Epilogue, Gemm};
use super::network::{HIDDEN, Network};
use super::rules;
use super::simd::Kernels;
use super::workspace::{Activations, Q_VALUES, RowsMut};
use crate::engine::network::{ACTIONS, BRANCHES, HEAD_OUTPUTS, HEADS};

/// First column of a head's outputs in a row of 16, and how many there are.
pub(super) fn output_columns(head: usize) -> (usize, usize) {
    if head == 0 { (0, 1) } else { (1 + (head - 1) * ACTIONS, ACTIONS) }
}

/// One layer of rows `x` (row-major, `stride` apart) into `y`.
fn layer(kernels: &Kernels, net: &Network, product: usize, (x, stride): (&[f32], usize), y: &mut [f32], rows: usize) {
    let panels = net.forward_panels(product);
    let (bias, n) = (net.bias(product), panels.n);
    let epilogue = if product <= HIDDEN { Epilogue::BiasRelu(bias) } else { Epilogue::Bias(bias) };
    let c_row = if product <= HIDDEN { n } else { HEAD_OUTPUTS };
    let b = B::Panels(panels);
    (kernels.gemm)(&mut Gemm { m: rows, n, k: panels.k, a: x, a_row: stride, a_k: 1, b, c: y, c_row, epilogue });
}

/// Forward pass of `out.rows` rows of `x` `[rows, D]`.
pub(super) fn forward(kernels: &Kernels, net: &Network, x: &[f32], out: RowsMut<'_, 6>) {
    let (shape, rows) = (net.shape(), out.rows);
    let [bottleneck, trunk1, trunk2, hidden, outputs, q] = out.buffers;
    if rows == 0 {
        return;
    }
    layer(kernels, net, 0, (x, shape.d), bottleneck, rows);
    layer(kernels, net, 1, (bottleneck, shape.bottleneck), trunk1, rows);
    layer(kernels, net, 2, (trunk1, shape.h), trunk2, rows);
    layer(kernels, net, HIDDEN, (trunk2, shape.h), hidden, rows);
    for head in 0..HEADS.len() {
        let x = (&hidden[head * (shape.h / 2)..], 2 * shape.h);
        layer(kernels, net, HIDDEN + 1 + head, x, &mut outputs[output_columns(head).0..], rows);
    }
    let (outputs, _) = outputs.as_chunks::<HEAD_OUTPUTS>();
    let (q, _) = q.as_chunks_mut::<ACTIONS>();
    for (row, q) in outputs.iter().zip(q.as_chunks_mut::<BRANCHES>().0) {
        let (a, _) = row[1..].as_chunks::<ACTIONS>();
        for (q, a) in q.iter_mut().zip(a) {
            *q = rules::dueling(row[0], *a);
        }
    }
}

/// Q-values only, block by block through `scratch`.
pub(super) fn q_values(kernels: &Kernels, net: &Network, x: &[f32], scratch: &mut Activations, q: &mut [f32]) {
    let (shape, block) = (net.shape(), scratch.rows);
    for (x, q) in x.chunks(block * shape.d).zip(q.chunks_mut(block * Q_VALUES)) {
        let rows = x.len() / shape.d;
        let (part, _) = scratch.view(shape).split_off(rows);
        forward(kernels, net, x, part);
        q.copy_from_slice(&scratch.q[..rows * Q_VALUES]);
    }
}

/// Targets, loss and gradients by the heads' outputs of the rows from `first` on: rule 5.
fn loss(batch: &Batch, first: usize, q: &[f32], out: &mut RowsMut<'_, 11>) {
    let c = rules::loss_scale(batch.rows());
    let rows = out.rows;
    let [q_online, q_target, y, delta, loss_terms, g, .., outputs] = &mut out.buffers;
    for i in 0..rows {
        let at = first + i;
        let next = i * Q_VALUES..(i + 1) * Q_VALUES;
        y[i] = rules::td_target(
            batch.returns[at],
            batch.done[at],
            batch.gamma_n,
            &q_online[next.clone()],
            &q_target[next],
        );
        let (actions, w) = (batch.actions[at], batch.weights[at]);
        let mut g_row = [0.0; BRANCHES];
        for b in 0..BRANCHES {
            let taken = q[i * Q_VALUES + b * ACTIONS + usize::from(actions[b])];
            let huber = rules::huber(taken, y[i], w, c);
            delta[i * BRANCHES + b] = huber.delta;
            loss_terms[i * BRANCHES + b] = huber.loss * w;
            g_row[b] = huber.g;
        }
        g[i * BRANCHES..(i + 1) * BRANCHES].copy_from_slice(&g_row);
        let (dv, da) = rules::heads_backward(g_row, actions);
        let row = &mut outputs[i * HEAD_OUTPUTS..(i + 1) * HEAD_OUTPUTS];
        row[0] = dv;
        row[1..].copy_from_slice(da.as_flattened());
    }
}

/// Gradients entering every layer below the heads' outputs, rule 2's backward half.
fn backward(kernels: &Kernels, net: &Network, y: &RowsMut<'_, 6>, dz: &mut RowsMut<'_, 11>) {
    let (shape, rows, half) = (net.shape(), dz.rows, net.shape().h / 2);
    let [.., bottleneck, trunk1, trunk2, hidden, outputs] = &mut dz.buffers;
    for head in 0..HEADS.len() {
        let (column, k) = output_columns(head);
        let epilogue = Epilogue::ReluBackward { y: &y.buffers[3][head * half..], stride: 2 * shape.h };
        let b = B::Rows { data: net.weight(HIDDEN + 2 * head + 1), stride: half };
        let (a, c) = (&outputs[column..], &mut hidden[head * half..]);
        let gemm = Gemm { m: rows, n: half, k, a, a_row: HEAD_OUTPUTS, a_k: 1, b, c, c_row: 2 * shape.h, epilogue };
        (kernels.gemm)(&mut { gemm });
    }
    let below = |product: usize, dz: &[f32], y: &[f32], dx: &mut [f32]| {
        let panels = net.backward_panels(product);
        let (n, k) = (panels.n, panels.k);
        let epilogue = Epilogue::ReluBackward { y, stride: n };
        let b = B::Panels(panels);
        (kernels.gemm)(&mut Gemm { m: rows, n, k, a: dz, a_row: k, a_k: 1, b, c: dx, c_row: n, epilogue });
    };
    below(HIDDEN, hidden, y.buffers[2], trunk2);
    below(2, trunk2, y.buffers[1], trunk1);
    below(1, trunk1, y.buffers[0], bottleneck);
}

/// All that one thread does for its rows before weight gradients: three forwards, targets, loss, backward.
pub(super) fn rows(
    kernels: &Kernels,
    [online, target]: [&Network; 2],
    batch: &Batch,
    first: usize,
    (mut layers, mut out): (RowsMut<'_, 6>, RowsMut<'_, 11>),
    scratch: &mut Activations,
) {
    let d = online.shape().d;
    let x = first * d..(first + out.rows) * d;
    forward(kernels, online, &batch.obs[x.clone()], layers.reborrow());
    let [q_online, q_target, ..] = &mut out.buffers;
    q_values(kernels, online, &batch.next_obs[x.clone()], scratch, q_online);
    q_values(kernels, target, &batch.next_obs[x], scratch, q_target);
    loss(batch, first, layers.buffers[5], &mut out);
    backward(kernels, online, &layers, &mut out);
}
