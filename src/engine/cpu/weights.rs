//! Weight and bias gradients, rules 2 and 3: threads take rows of dW, never batch positions.

use super::gemm::{B, Epilogue, Gemm};
use super::network::{HEADS_START, Network};
use super::passes::output_columns;
use super::simd::Kernels;
use super::workspace::{Activations, LayerGradients};
use crate::engine::network::HEAD_OUTPUTS;

/// Rows of dW by which work is cut: the tallest wide tile.
const CUT: usize = 6;

/// A matrix read by rows: data from its first element on, elements between rows.
#[derive(Clone, Copy)]
struct View<'a> {
    data: &'a [f32],
    stride: usize,
}

/// Rows `first ..` of one layer's weight gradient and the same elements of its bias gradient.
struct Part<'a> {
    layer: usize,
    first: usize,
    inputs: usize,
    dw: &'a mut [f32],
    db: &'a mut [f32],
}

/// What one task computes.
pub(super) struct Share<'a> {
    parts: Vec<Part<'a>>,
}

/// Cuts the flat gradients into at most `count` shares, equal in multiplications but for the height of a tile.
pub(super) fn shares<'a>(net: &Network, gradients: &'a mut [f32], count: usize) -> Vec<Share<'a>> {
    let all: usize = net.layers().iter().fold(0, |n, l| n + l.inputs * l.outputs);
    let budget = all.div_ceil(count);
    let mut shares = vec![Share { parts: Vec::new() }];
    let (mut rest, mut left) = (gradients, budget);
    for (layer, l) in net.layers().iter().enumerate() {
        let (mut weight, tail) = rest.split_at_mut(l.weight.len());
        let (mut bias, tail) = tail.split_at_mut(l.bias.len());
        rest = tail;
        let mut first = 0;
        while first < l.outputs {
            if left == 0 {
                shares.push(Share { parts: Vec::new() });
                left = budget;
            }
            let rows = left.div_ceil(l.inputs).next_multiple_of(CUT).min(l.outputs - first);
            let (dw, weight_tail) = weight.split_at_mut(rows * l.inputs);
            let (db, bias_tail) = bias.split_at_mut(rows);
            (weight, bias) = (weight_tail, bias_tail);
            let share = shares.last_mut().expect("starts with one");
            share.parts.push(Part { layer, first, inputs: l.inputs, dw, db });
            left = left.saturating_sub(rows * l.inputs);
            first += rows;
        }
    }
    shares
}

impl Share<'_> {
    /// Computes the share for a batch of observations.
    pub(super) fn run(self, kernels: &Kernels, h: usize, obs: &[f32], y: &Activations, dz: &LayerGradients) {
        for part in self.parts {
            let (dz, x) = operands(part.layer, h, (obs, part.inputs), y, dz);
            let dz = View { data: &dz.data[part.first..], stride: dz.stride };
            let (m, n) = (part.db.len(), part.inputs);
            (kernels.bias_gradient)(dz.data, dz.stride, y.rows, part.db);
            let b = B::Rows { data: x.data, stride: x.stride };
            let (k, a_k, epilogue) = (y.rows, dz.stride, Epilogue::Store);
            (kernels.gemm)(&mut Gemm { m, n, k, a: dz.data, a_row: 1, a_k, b, c: part.dw, c_row: n, epilogue });
        }
    }
}

/// dz and x of a layer of the list.
fn operands<'a>(
    layer: usize,
    h: usize,
    (obs, inputs): (&'a [f32], usize),
    y: &'a Activations,
    dz: &'a LayerGradients,
) -> (View<'a>, View<'a>) {
    let view = |data: &'a [f32], stride: usize| View { data, stride };
    let rows = |data: &'a [f32]| View { data, stride: data.len() / y.rows };
    match layer {
        0 => (rows(&dz.bottleneck), view(obs, inputs)),
        1 => (rows(&dz.trunk1), rows(&y.bottleneck)),
        2 => (rows(&dz.trunk2), rows(&y.trunk1)),
        _ => {
            let (head, second) = ((layer - HEADS_START) / 2, (layer - HEADS_START) % 2 == 1);
            let column = head * (h / 2);
            if second {
                let outputs = view(&dz.outputs[output_columns(head).0..], HEAD_OUTPUTS);
                (outputs, view(&y.hidden[column..], 2 * h))
            } else {
                (view(&dz.hidden[column..], 2 * h), rows(&y.trunk2))
            }
        }
    }
}
