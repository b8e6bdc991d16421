//! One update on a device: forward passes, loss, backward passes, norm; then Adam and the target network.
//!
//! Stages follow `docs/contract.md` as `src/engine/cpu/update.rs` does; the four heads run as one wide layer, and s and s′
//! of the online network as one batch of 2B rows.

use std::ops::Range;
use std::rc::Rc;

use super::adam::Schedule;
use super::bias_gradient::Columns;
use super::buffer::{Buffer, Slice};
use super::device::Device;
use super::error::CudaError;
use super::gemm::{Epilogue, Operand, Product};
use super::kernels::Kernels;
use super::loss::{Batch, Terms};
use super::network::{Layout, Network, Wide};
use super::reduce::{Reduction, Total};
use super::state::Counters;
use crate::engine::cpu::Q_VALUES;
use crate::engine::network::{BRANCHES, HEAD_OUTPUTS, NetworkShape};

/// Layers' outputs for a batch of rows.
#[derive(Debug)]
pub struct Activations {
    /// rows held
    pub rows: usize,
    /// outputs of bottleneck, trunk1, trunk2 and the heads' hidden layers, after the ReLU
    pub layers: [Buffer<f32>; 4],
    /// `[rows, 16]`
    pub outputs: Buffer<f32>,
    /// `[rows, 15]`
    pub q: Buffer<f32>,
}

impl Activations {
    /// For `rows` rows.
    pub fn new(device: &Rc<Device>, layout: &Layout, rows: usize) -> Result<Self, CudaError> {
        let [a, b, c, d] = layout.layers.each_ref().map(|l| Buffer::zeroed(device, rows * l.outputs));
        Ok(Activations {
            rows,
            layers: [a?, b?, c?, d?],
            outputs: Buffer::zeroed(device, rows * HEAD_OUTPUTS)?,
            q: Buffer::zeroed(device, rows * Q_VALUES)?,
        })
    }
}

/// A sampled batch, B rows.
#[derive(Debug)]
pub struct Sampled {
    /// `[2B, D]`: s, then s′
    pub obs: Buffer<f32>,
    /// `[B, 3]`
    pub actions: Buffer<u8>,
    /// `[B]`
    pub returns: Buffer<f32>,
    /// `[B]`
    pub done: Buffer<u8>,
    /// `[B]`
    pub weights: Buffer<f32>,
}

/// What an update computes on its way.
#[derive(Debug)]
pub struct Workspace {
    /// online network at s and s′
    pub online: Activations,
    /// target network at s′
    pub target: Activations,
    /// `[B]`
    pub y: Buffer<f32>,
    /// `[B, 3]`
    pub delta: Buffer<f32>,
    /// `[B, 3]`
    pub loss_terms: Buffer<f32>,
    /// `[B, 3]`
    pub g: Buffer<f32>,
    /// `[B, 16]`
    pub dz_outputs: Buffer<f32>,
    /// dz of bottleneck, trunk1, trunk2, hidden
    pub dz: [Buffer<f32>; 4],
    /// in the layout of the parameters
    pub gradients: Buffer<f32>,
    /// rule 4 over the gradients
    pub norm: Reduction,
    /// rule 4 over the loss terms
    pub loss: Reduction,
}

/// Networks, moments and memory of updates.
#[derive(Debug)]
pub struct Learner {
    kernels: Rc<Kernels>,
    layout: Rc<Layout>,
    batch: usize,
    /// online network
    pub online: Network,
    /// target network
    pub target: Network,
    /// first moments
    pub m: Buffer<f32>,
    /// second moments
    pub v: Buffer<f32>,
    /// the batch of the next update
    pub sampled: Sampled,
    /// what the last update computed
    pub ws: Workspace,
    limit: f32,
}

impl Workspace {
    fn new(device: &Rc<Device>, layout: &Layout, b: usize) -> Result<Self, CudaError> {
        let [d0, d1, d2, d3] = layout.layers.each_ref().map(|l| Buffer::zeroed(device, b * l.outputs));
        Ok(Workspace {
            online: Activations::new(device, layout, 2 * b)?,
            target: Activations::new(device, layout, b)?,
            y: Buffer::zeroed(device, b)?,
            delta: Buffer::zeroed(device, BRANCHES * b)?,
            loss_terms: Buffer::zeroed(device, BRANCHES * b)?,
            g: Buffer::zeroed(device, BRANCHES * b)?,
            dz_outputs: Buffer::zeroed(device, HEAD_OUTPUTS * b)?,
            dz: [d0?, d1?, d2?, d3?],
            gradients: Buffer::zeroed(device, layout.len)?,
            norm: Reduction::new(device, &layout.tensors)?,
            loss: Reduction::of_one(device, BRANCHES * b)?,
        })
    }
}

/// Online and target network and both moments, flat, in list order.
pub type Flat<'a> = [&'a [f32]; 4];

/// Forward pass of `rows` rows of `x` `[rows, D]`.
pub fn forward(
    kernels: &Kernels,
    net: &Network,
    x: Slice<'_, f32>,
    rows: usize,
    out: &mut Activations,
    stop: Slice<'_, u32>,
) -> Result<(), CudaError> {
    assert!(rows <= out.rows, "{rows} rows of {}", out.rows);
    for (i, wide) in net.layout.layers.iter().enumerate() {
        let (before, after) = out.layers.split_at_mut(i);
        let x = before.last().map_or(x, Buffer::all);
        let (weight, bias) = net.layer(wide);
        kernels.gemm.run(
            Product {
                size: (rows, wide.outputs, wide.inputs),
                a: Operand { data: x, stride: wide.inputs, k_inner: true },
                b: Operand { data: weight, stride: wide.inputs, k_inner: true },
                c: after[0].all_mut(),
                c_stride: wide.outputs,
                epilogue: Epilogue::BiasRelu(bias),
            },
            stop,
        )?;
    }
    let (weight, bias) = net.layer(&net.layout.outputs);
    let (hidden, half) = (out.layers[3].all(), net.layout.outputs.inputs);
    kernels.heads.forward((rows, half), [hidden, weight, bias], [out.outputs.all_mut(), out.q.all_mut()], stop)
}

impl Learner {
    /// A learner of this state and batch size; `limit` clips the norm.
    pub fn new(
        kernels: &Rc<Kernels>,
        device: &Rc<Device>,
        shape: NetworkShape,
        (batch, limit): (usize, f32),
        [online, target, m, v]: Flat<'_>,
    ) -> Result<Self, CudaError> {
        let layout = Rc::new(Layout::new(shape));
        let placed = |flat: &[f32]| Buffer::of(device, &layout.place(flat));
        Ok(Learner {
            kernels: kernels.clone(),
            batch,
            online: Network::new(device, &layout, online)?,
            target: Network::new(device, &layout, target)?,
            m: placed(m)?,
            v: placed(v)?,
            sampled: Sampled {
                obs: Buffer::zeroed(device, 2 * batch * shape.d)?,
                actions: Buffer::zeroed(device, BRANCHES * batch)?,
                returns: Buffer::zeroed(device, batch)?,
                done: Buffer::zeroed(device, batch)?,
                weights: Buffer::zeroed(device, batch)?,
            },
            ws: Workspace::new(device, &layout, batch)?,
            layout,
            limit,
        })
    }

    /// Gradients of the batch, with everything on the way, the loss and the norm.
    pub fn gradients(&mut self, gamma_n: f32, stop: Slice<'_, u32>) -> Result<(), CudaError> {
        self.forwards(stop)?;
        self.loss(gamma_n, stop)?;
        self.backward(stop)?;
        self.weight_gradients(stop)?;
        self.bias_gradients(stop)?;
        let (base, limit) = (self.ws.gradients.all(), self.limit);
        self.kernels.reduce.run(&mut self.ws.norm, base, true, (limit, 1.0), stop)
    }

    fn forwards(&mut self, stop: Slice<'_, u32>) -> Result<(), CudaError> {
        let (b, d) = (self.batch, self.layout.shape.d);
        let obs = self.sampled.obs.all();
        forward(&self.kernels, &self.online, obs, 2 * b, &mut self.ws.online, stop)?;
        let next = self.sampled.obs.slice(b * d..2 * b * d);
        forward(&self.kernels, &self.target, next, b, &mut self.ws.target, stop)
    }

    fn loss(&mut self, gamma_n: f32, stop: Slice<'_, u32>) -> Result<(), CudaError> {
        let (ws, s, b) = (&mut self.ws, &self.sampled, self.batch);
        let at_s = ws.online.q.slice(0..b * Q_VALUES);
        let at_next = ws.online.q.slice(b * Q_VALUES..2 * b * Q_VALUES);
        let batch = Batch {
            q: [at_s, at_next, ws.target.q.all()],
            returns: s.returns.all(),
            done: s.done.all(),
            actions: s.actions.all(),
            weights: s.weights.all(),
            gamma_n,
        };
        let terms = Terms {
            y: ws.y.all_mut(),
            delta: ws.delta.all_mut(),
            loss_terms: ws.loss_terms.all_mut(),
            g: ws.g.all_mut(),
            dz_outputs: ws.dz_outputs.all_mut(),
        };
        self.kernels.loss.run(&batch, terms, stop)?;
        let scale = crate::engine::cpu::rules::loss_scale(b);
        self.kernels.reduce.run(&mut ws.loss, ws.loss_terms.all(), false, (f32::INFINITY, scale), stop)
    }

    fn backward(&mut self, stop: Slice<'_, u32>) -> Result<(), CudaError> {
        let (ws, b, layout) = (&mut self.ws, self.batch, &self.layout);
        let (weight, _) = self.online.layer(&layout.outputs);
        let half = layout.outputs.inputs;
        let read = [ws.dz_outputs.all(), weight, ws.online.layers[3].all()];
        self.kernels.heads.backward((b, half), read, ws.dz[3].all_mut(), stop)?;
        for i in (0..3).rev() {
            let above = &layout.layers[i + 1];
            let (weight, _) = self.online.layer(above);
            let (below, from) = ws.dz.split_at_mut(i + 1);
            let n = above.inputs;
            self.kernels.gemm.run(
                Product {
                    size: (b, n, above.outputs),
                    a: Operand { data: from[0].all(), stride: above.outputs, k_inner: true },
                    b: Operand { data: weight, stride: n, k_inner: false },
                    c: below[i].all_mut(),
                    c_stride: n,
                    epilogue: Epilogue::ReluBackward { y: ws.online.layers[i].all(), stride: n },
                },
                stop,
            )?;
        }
        Ok(())
    }

    fn weight_gradients(&mut self, stop: Slice<'_, u32>) -> Result<(), CudaError> {
        let layout = self.layout.clone();
        for (i, wide) in layout.layers.iter().enumerate() {
            let Workspace { dz, online, gradients, .. } = &mut self.ws;
            let x = if i == 0 { self.sampled.obs.all() } else { online.layers[i - 1].all() };
            let dz = (dz[i].all(), wide.outputs);
            product_of_batch(&self.kernels, self.batch, wide, dz, (x, wide.inputs), (gradients, &wide.weight), stop)?;
        }
        let Workspace { dz_outputs, online, gradients, .. } = &mut self.ws;
        let read = [dz_outputs.all(), online.layers[3].all()];
        let into = gradients.slice_mut(layout.outputs.weight.clone());
        self.kernels.heads.weight_gradient((self.batch, layout.outputs.inputs), read, into, stop)
    }

    fn bias_gradients(&mut self, stop: Slice<'_, u32>) -> Result<(), CudaError> {
        let Workspace { dz, dz_outputs, gradients, .. } = &mut self.ws;
        let layout = &self.layout;
        let wides = layout.layers.iter().chain([&layout.outputs]);
        let places: Vec<Range<usize>> = wides.map(|w| w.bias.clone()).collect();
        let parts = gradients.parts_mut(&places);
        let sources = dz.iter().chain([&*dz_outputs]);
        let mut columns: Vec<Columns<'_>> = sources.zip(parts).map(|(dz, db)| Columns { dz: dz.all(), db }).collect();
        self.kernels.bias_gradient.run(self.batch, &mut columns, stop)
    }

    /// Applies the gradients: Adam, then the target network.
    pub fn apply(&mut self, schedule: &Schedule, counters: &Counters) -> Result<(), CudaError> {
        let state = [&mut self.online.flat, &mut self.target.flat, &mut self.m, &mut self.v].map(Buffer::all_mut);
        self.kernels.adam.run(schedule, state, (self.ws.gradients.all(), self.ws.norm.clip()), counters)
    }

    /// Sum of squares, norm and clip factor of the last update.
    pub fn norm(&self) -> Result<Total, CudaError> {
        Ok(self.ws.norm.total().read()?[0])
    }

    /// Loss of the last update.
    pub fn loss_value(&self) -> Result<f32, CudaError> {
        Ok(self.ws.loss.total().read()?[0].scaled)
    }

    /// Where what lies.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The 22 tensors of a buffer in the parameters' layout, in list order.
    pub fn tensors<'a>(&self, placed: &'a Buffer<f32>) -> Vec<Slice<'a, f32>> {
        self.layout.tensors.iter().map(|range| placed.slice(range.clone())).collect()
    }

    /// A buffer in the parameters' layout, in list order.
    pub fn listed(&self, placed: &Buffer<f32>) -> Result<Vec<f32>, CudaError> {
        Ok(self.layout.list(&placed.read()?))
    }
}

/// dW `[outputs, inputs]` of a layer: one chain over the batch an element.
fn product_of_batch(
    kernels: &Kernels,
    batch: usize,
    wide: &Wide,
    dz: (Slice<'_, f32>, usize),
    x: (Slice<'_, f32>, usize),
    (into, place): (&mut Buffer<f32>, &Range<usize>),
    stop: Slice<'_, u32>,
) -> Result<(), CudaError> {
    kernels.gemm.run(
        Product {
            size: (wide.outputs, wide.inputs, batch),
            a: Operand { data: dz.0, stride: dz.1, k_inner: false },
            b: Operand { data: x.0, stride: x.1, k_inner: false },
            c: into.slice_mut(place.clone()),
            c_stride: wide.inputs,
            epilogue: Epilogue::Store,
        },
        stop,
    )
}
