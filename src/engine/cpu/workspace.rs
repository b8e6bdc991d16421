//! Buffers of forward passes and updates, in the layouts that a trace digests, and their division into rows for
//! threads.

use std::sync::{Mutex, PoisonError};

use super::aligned::Aligned;
use super::network::Network;
use super::rules::REDUCE_BLOCK;
use crate::engine::network::{ACTIONS, BRANCHES, HEAD_OUTPUTS, NetworkShape};

/// Q-values of one row.
pub const Q_VALUES: usize = BRANCHES * ACTIONS;
/// Parameter tensors of a network.
pub const TENSORS: usize = 22;

/// Outputs of every layer for a batch of rows, row-major. Grows when needed, so one can be kept for all batches.
#[derive(Clone, Debug, Default)]
pub struct Activations {
    /// rows held
    pub rows: usize,
    /// `[rows, bottleneck]`, after the ReLU
    pub bottleneck: Aligned,
    /// `[rows, H]`, after the ReLU
    pub trunk1: Aligned,
    /// `[rows, H]`, after the ReLU
    pub trunk2: Aligned,
    /// `[rows, 2H]`, after the ReLU: value, branch 0, 1, 2 side by side
    pub hidden: Aligned,
    /// `[rows, 16]`: value, then the advantages of branch 0, 1, 2
    pub outputs: Aligned,
    /// `[rows, 3, 5]`
    pub q: Aligned,
}

impl Activations {
    /// Sets the number of rows; contents are unspecified until the next forward pass.
    pub(super) fn resize(&mut self, shape: NetworkShape, rows: usize) {
        self.rows = rows;
        for (buffer, width) in self.buffers().into_iter().zip(widths(shape)) {
            buffer.resize(rows * width);
        }
    }

    fn buffers(&mut self) -> [&mut Aligned; 6] {
        let Activations { bottleneck, trunk1, trunk2, hidden, outputs, q, .. } = self;
        [bottleneck, trunk1, trunk2, hidden, outputs, q]
    }

    pub(super) fn view(&mut self, shape: NetworkShape) -> RowsMut<'_, 6> {
        let rows = self.rows;
        RowsMut::new(rows, self.buffers().map(|b| &mut **b), widths(shape))
    }
}

/// Row widths of [`Activations`].
fn widths(shape: NetworkShape) -> [usize; 6] {
    [shape.bottleneck, shape.h, shape.h, 2 * shape.h, HEAD_OUTPUTS, Q_VALUES]
}

/// Gradients entering each layer before its bias, for a batch of rows, row-major.
#[derive(Clone, Debug, Default)]
pub struct LayerGradients {
    /// `[rows, bottleneck]`
    pub bottleneck: Aligned,
    /// `[rows, H]`
    pub trunk1: Aligned,
    /// `[rows, H]`
    pub trunk2: Aligned,
    /// `[rows, 2H]`: value, branch 0, 1, 2 side by side
    pub hidden: Aligned,
    /// `[rows, 16]`: dv, then da of branch 0, 1, 2
    pub outputs: Aligned,
}

/// Everything that one update computes on its way, readable after [`super::Cpu::gradients`].
#[derive(Debug, Default)]
pub struct Workspace {
    /// layers' outputs and Q of the online network at s
    pub online: Activations,
    /// `[B, 3, 5]`: Q of the online network at s′
    pub q_next_online: Aligned,
    /// `[B, 3, 5]`: Q of the target network at s′
    pub q_next_target: Aligned,
    /// `[B]`: Y
    pub y: Aligned,
    /// `[B, 3]`: δ
    pub delta: Aligned,
    /// `[B, 3]`: loss_b·w
    pub loss_terms: Aligned,
    /// `[B, 3]`: g
    pub g: Aligned,
    /// dz of every layer
    pub dz: LayerGradients,
    /// `[parameters]`: gradients before clipping, in the layout of the parameters
    pub gradients: Aligned,
    /// sum of squares of each tensor's gradient, in list order
    pub tensor_squares: [f32; TENSORS],
    /// rule 4 over `tensor_squares`
    pub sum_squares: f32,
    /// global norm
    pub norm: f32,
    /// clip factor of the last [`super::Cpu::apply`]
    pub k: f32,
    /// traced loss: rule 4 over `loss_terms`, times c
    pub loss: f32,
    /// one for each thread: layers of a block of rows of s′
    pub(super) scratch: Mutex<Vec<Activations>>,
    /// block results of rule 4, tensor after tensor
    pub(super) partial: Vec<f32>,
}

impl Workspace {
    /// Sizes every buffer for a batch.
    pub(super) fn prepare(&mut self, network: &Network, rows: usize, threads: usize, scratch_rows: usize) {
        let shape = network.shape();
        self.online.resize(shape, rows);
        for (buffer, width) in self.row_buffers().into_iter().zip(row_widths(shape)) {
            buffer.resize(rows * width);
        }
        self.gradients.resize(shape.parameters());
        let scratch = self.scratch.get_mut().unwrap_or_else(PoisonError::into_inner);
        scratch.resize_with(threads, Activations::default);
        scratch.iter_mut().for_each(|s| s.resize(shape, scratch_rows));
        let blocks = |n: usize| n.div_ceil(REDUCE_BLOCK);
        let of_tensors = network.layers().iter().fold(0, |n, l| n + blocks(l.weight.len()) + blocks(l.bias.len()));
        let of_loss = blocks(rows * BRANCHES);
        self.partial.resize(if of_tensors > of_loss { of_tensors } else { of_loss }, 0.0);
    }

    fn row_buffers(&mut self) -> [&mut Aligned; 11] {
        let Workspace { q_next_online, q_next_target, y, delta, loss_terms, g, dz, .. } = self;
        let LayerGradients { bottleneck, trunk1, trunk2, hidden, outputs } = dz;
        [q_next_online, q_next_target, y, delta, loss_terms, g, bottleneck, trunk1, trunk2, hidden, outputs]
    }

    /// Per-row buffers, the layers' outputs and the scratch, to be split among threads.
    pub(super) fn views(&mut self, shape: NetworkShape) -> (RowsMut<'_, 6>, RowsMut<'_, 11>, &Mutex<Vec<Activations>>) {
        let rows = self.online.rows;
        let Workspace { online, q_next_online, q_next_target, y, delta, loss_terms, g, dz, scratch, .. } = self;
        let LayerGradients { bottleneck, trunk1, trunk2, hidden, outputs } = dz;
        let buffers =
            [q_next_online, q_next_target, y, delta, loss_terms, g, bottleneck, trunk1, trunk2, hidden, outputs];
        let of_rows = RowsMut::new(rows, buffers.map(|b| &mut **b), row_widths(shape));
        (online.view(shape), of_rows, scratch)
    }
}

/// Row widths of the buffers that a workspace holds per batch row.
fn row_widths(shape: NetworkShape) -> [usize; 11] {
    let NetworkShape { bottleneck, h, .. } = shape;
    [Q_VALUES, Q_VALUES, 1, BRANCHES, BRANCHES, BRANCHES, bottleneck, h, h, 2 * h, HEAD_OUTPUTS]
}

/// The same rows of several row-major buffers.
pub(super) struct RowsMut<'a, const N: usize> {
    pub rows: usize,
    pub buffers: [&'a mut [f32]; N],
    widths: [usize; N],
}

impl<'a, const N: usize> RowsMut<'a, N> {
    fn new(rows: usize, buffers: [&'a mut [f32]; N], widths: [usize; N]) -> Self {
        for (buffer, width) in buffers.iter().zip(widths) {
            assert_eq!(buffer.len(), rows * width, "a buffer of {rows} rows");
        }
        RowsMut { rows, buffers, widths }
    }

    /// Takes the first rows off.
    fn take(&mut self, rows: usize) -> Self {
        self.rows -= rows;
        let widths = self.widths;
        let mut width = widths.into_iter();
        let buffers = self.buffers.each_mut().map(|buffer| {
            let (head, tail) = std::mem::take(buffer).split_at_mut(rows * width.next().expect("N widths"));
            *buffer = tail;
            head
        });
        RowsMut { rows, buffers, widths }
    }

    /// The first rows and the others.
    pub(super) fn split_off(mut self, rows: usize) -> (Self, Self) {
        (self.take(rows), self)
    }

    /// Splits into `parts` runs of rows as equal as can be, each with its first row; fewer if there are fewer rows.
    pub(super) fn split(mut self, parts: usize) -> Vec<(usize, Self)> {
        let rows = self.rows;
        let parts = parts.min(rows);
        let cut = |i: usize| rows * i / parts;
        (0..parts).map(|i| (cut(i), self.take(cut(i + 1) - cut(i)))).collect()
    }

    /// The same rows, borrowed for a while.
    pub(super) fn reborrow(&mut self) -> RowsMut<'_, N> {
        RowsMut { rows: self.rows, buffers: self.buffers.each_mut().map(|b| &mut **b), widths: self.widths }
    }
}
