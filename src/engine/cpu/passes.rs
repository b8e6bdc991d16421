//! Forward and backward pass of a run of batch rows on one thread, rules 2 and 5: no barrier between layers.

use super::Batch;
use super::gemm::{B, Epilogue, Gemm};
use super::network::{HEADS_START, Network};
use super::rules;
use super::simd::Kernels;
use super::workspace::{Activations, Q_VALUES, RowsMut};
use crate::engine::network::{ACTIONS, BRANCHES, HEAD_OUTPUTS, HEADS, NetworkShape};

/// First column of a head's outputs in a row of 16, and how many there are.
pub(super) fn output_columns(head: usize) -> (usize, usize) {
    if head == 0 { (0, 1) } else { (1 + (head - 1) * ACTIONS, ACTIONS) }
}

/// One layer of rows of x into rows of y, both row-major with the strides given.
fn layer(kernels: &Kernels, net: &Network, layer: usize, rows: usize, x: (&[f32], usize), y: (&mut [f32], usize)) {
    let (panels, bias) = (net.panels(layer), net.bias(layer));
    let second = layer >= HEADS_START && (layer - HEADS_START) % 2 == 1;
    let epilogue = if second { Epilogue::Bias(bias) } else { Epilogue::BiasRelu(bias) };
    let (n, k, b) = (panels.n, panels.k, B::Panels(panels));
    (kernels.gemm)(&mut Gemm { m: rows, n, k, a: x.0, a_row: x.1, a_k: 1, b, c: y.0, c_row: y.1, epilogue });
}

/// Forward pass of `out.rows` rows of `x` `[rows, D]`.
pub(super) fn forward(kernels: &Kernels, net: &Network, x: &[f32], out: RowsMut<'_, 6>) {
    let (NetworkShape { d, bottleneck: narrow, h }, rows) = (net.shape(), out.rows);
    let [bottleneck, trunk1, trunk2, hidden, outputs, q] = out.buffers;
    if rows == 0 {
        return;
    }
    layer(kernels, net, 0, rows, (x, d), (bottleneck, narrow));
    layer(kernels, net, 1, rows, (bottleneck, narrow), (trunk1, h));
    layer(kernels, net, 2, rows, (trunk1, h), (trunk2, h));
    for head in 0..HEADS.len() {
        let (first, column) = (HEADS_START + 2 * head, head * (h / 2));
        layer(kernels, net, first, rows, (trunk2, h), (&mut hidden[column..], 2 * h));
        let outputs = (&mut outputs[output_columns(head).0..], HEAD_OUTPUTS);
        layer(kernels, net, first + 1, rows, (&hidden[column..], 2 * h), outputs);
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
    let (NetworkShape { bottleneck: narrow, h, .. }, m) = (net.shape(), dz.rows);
    let [.., bottleneck, trunk1, trunk2, hidden, outputs] = &mut dz.buffers;
    for head in 0..HEADS.len() {
        let (half, column, (output, k)) = (h / 2, head * (h / 2), output_columns(head));
        let epilogue = Epilogue::ReluBackward { y: &y.buffers[3][column..], stride: 2 * h };
        let b = B::Rows { data: net.weight(HEADS_START + 2 * head + 1), stride: half };
        let (a, c) = (&outputs[output..], &mut hidden[column..]);
        (kernels.gemm)(&mut Gemm { m, n: half, k, a, a_row: HEAD_OUTPUTS, a_k: 1, b, c, c_row: 2 * h, epilogue });
    }
    let heads: [&[f32]; HEADS.len()] = std::array::from_fn(|head| net.weight(HEADS_START + 2 * head));
    let below = |weights: &[&[f32]], k: usize, dz: &[f32], y: &[f32], dx: &mut [f32], n: usize| {
        let (b, epilogue) = (B::Stack(weights), Epilogue::ReluBackward { y, stride: n });
        (kernels.gemm)(&mut Gemm { m, n, k, a: dz, a_row: k, a_k: 1, b, c: dx, c_row: n, epilogue });
    };
    below(&heads, 2 * h, hidden, y.buffers[2], trunk2, h);
    below(&[net.weight(2)], h, trunk2, y.buffers[1], trunk1, h);
    below(&[net.weight(1)], h, trunk1, y.buffers[0], bottleneck, narrow);
}

/// All that a run of rows needs before weight gradients: three forwards, targets, loss, backward.
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
