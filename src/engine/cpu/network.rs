//! A network's parameters, flat in list order, and the packed copies that the chain GEMM reads.
//!
//! The four heads' hidden layers run as one product over 2H outputs, and the gradient entering trunk2 as one chain over
//! them (rule 2), so their weights are packed side by side. Every way to change the parameters packs them again: a
//! stale copy cannot be read. Verified: packed bytes after an update equal those of a fresh network (tests).

use super::aligned::Aligned;
use super::gemm::{PANEL, Panels, pack_straight};
use super::simd::Kernels;
use crate::engine::network::{HEADS, LAYERS, Layer, NetworkShape};

/// Products of one forward pass: bottleneck, trunk1, trunk2, all hidden layers, then each head's second layer.
pub(super) const PRODUCTS: [&str; 8] =
    ["bottleneck", "trunk1", "trunk2", "hidden", "value.out", "branch0.out", "branch1.out", "branch2.out"];
/// Index of the joint hidden product in [`PRODUCTS`]; the heads' second layers follow it.
pub(super) const HIDDEN: usize = 3;
/// Products whose input gradient reads packed weights: trunk1, trunk2, hidden.
const BACKWARD: [usize; 3] = [1, 2, HIDDEN];

/// Parameters of one network and their packed copies.
#[derive(Clone, Debug)]
pub struct Network {
    shape: NetworkShape,
    layers: Vec<Layer>,
    parameters: Aligned,
    forward: Vec<Panels>,
    /// empty in a network that is never differentiated
    backward: Vec<Panels>,
    hidden_bias: Aligned,
}

/// Layers of the list that make up a product.
fn members(product: usize) -> Vec<usize> {
    match product {
        0..HIDDEN => vec![product],
        HIDDEN => (0..HEADS.len()).map(|h| HIDDEN + 2 * h).collect(),
        _ => vec![HIDDEN + 2 * (product - HIDDEN - 1) + 1],
    }
}

/// One panel to pack; panels are independent, so threads share them out.
pub(super) struct PackJob<'a> {
    layers: &'a [Layer],
    parameters: &'a [f32],
    product: usize,
    transposed: bool,
    panel: usize,
    out: &'a mut [f32],
}

impl PackJob<'_> {
    pub(super) fn run(self, kernels: &Kernels) {
        let members = members(self.product);
        let rows = || {
            members.iter().flat_map(|&l| {
                let layer = &self.layers[l];
                self.parameters[layer.weight.clone()].chunks_exact(layer.inputs)
            })
        };
        if self.transposed {
            let rows: Vec<&[f32]> = rows().skip(self.panel * PANEL).take(PANEL).collect();
            (kernels.pack_transposed)(&rows, self.out);
        } else {
            pack_straight(rows(), self.panel, self.out);
        }
    }
}

impl Network {
    /// A network that can be differentiated; `parameters` has the layout of [`NetworkShape::tensors`].
    pub fn new(shape: NetworkShape, parameters: Vec<f32>) -> Self {
        Network::with_backward(shape, parameters, true)
    }

    /// A network for forward passes only (the target network, an evaluator): packs half as much.
    pub fn forward_only(shape: NetworkShape, parameters: Vec<f32>) -> Self {
        Network::with_backward(shape, parameters, false)
    }

    fn with_backward(shape: NetworkShape, parameters: Vec<f32>, backward: bool) -> Self {
        assert_eq!(parameters.len(), shape.parameters(), "parameters of {shape:?}");
        assert!(shape.h.is_multiple_of(2) && shape.h > 0 && shape.d > 0 && shape.bottleneck > 0, "{shape:?}");
        let layers = shape.layers();
        let panels = |product: usize, transposed: bool| {
            let members = members(product);
            let (inputs, outputs) = (layers[members[0]].inputs, layers[members[0]].outputs * members.len());
            if transposed { Panels::new(inputs, outputs) } else { Panels::new(outputs, inputs) }
        };
        let forward = (0..PRODUCTS.len()).map(|p| panels(p, true)).collect();
        let backward = if backward { BACKWARD.iter().map(|&p| panels(p, false)).collect() } else { Vec::new() };
        let hidden_bias = Aligned::zeros(2 * shape.h);
        let parameters = Aligned::from(&parameters[..]);
        let mut network = Network { shape, layers, parameters, forward, backward, hidden_bias };
        network.pack();
        network
    }

    /// The shape.
    pub fn shape(&self) -> NetworkShape {
        self.shape
    }

    /// Parameters, flat, in the layout of [`NetworkShape::tensors`].
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// Replaces all parameters and packs them.
    pub fn set_parameters(&mut self, parameters: &[f32]) {
        self.update(|own| own.copy_from_slice(parameters));
    }

    /// Changes parameters in place, then packs them.
    pub fn update(&mut self, change: impl FnOnce(&mut [f32])) {
        change(&mut self.parameters);
        self.pack();
    }

    /// The packed copies as bytes, each under its name: `trunk2.forward`, `hidden.backward`, `hidden.bias`.
    pub fn packed_bytes(&self) -> Vec<(String, &[u8])> {
        let forward = self.forward.iter().zip(PRODUCTS).map(|(p, name)| (format!("{name}.forward"), &p.data));
        let backward = self.backward.iter().zip(BACKWARD).map(|(p, i)| (format!("{}.backward", PRODUCTS[i]), &p.data));
        let bias = std::iter::once(("hidden.bias".to_owned(), &self.hidden_bias));
        forward.chain(backward).chain(bias).map(|(name, data)| (name, bytemuck::cast_slice(&data[..]))).collect()
    }

    /// Layers in list order.
    pub(super) fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Wᵀ of a product of [`PRODUCTS`], packed.
    pub(super) fn forward_panels(&self, product: usize) -> &Panels {
        &self.forward[product]
    }

    /// W of trunk1 (1), trunk2 (2) or the joint hidden layer (3), packed; panics in a forward-only network.
    pub(super) fn backward_panels(&self, product: usize) -> &Panels {
        assert!(!self.backward.is_empty(), "this network was made for forward passes only");
        &self.backward[product - BACKWARD[0]]
    }

    /// Bias of a product.
    pub(super) fn bias(&self, product: usize) -> &[f32] {
        if product == HIDDEN {
            &self.hidden_bias
        } else {
            &self.parameters[self.layers[members(product)[0]].bias.clone()]
        }
    }

    /// Weight `[outputs, inputs]` of a layer of the list.
    pub(super) fn weight(&self, layer: usize) -> &[f32] {
        debug_assert!(layer < LAYERS);
        &self.parameters[self.layers[layer].weight.clone()]
    }

    /// The parameters, to be changed by a caller that runs [`Network::pack_jobs`] before anything reads them.
    pub(super) fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.parameters
    }

    /// Packs the hidden biases and gives the panels that are left to pack.
    pub(super) fn pack_jobs(&mut self) -> Vec<PackJob<'_>> {
        let half = self.shape.h / 2;
        for (h, bias) in self.hidden_bias.chunks_exact_mut(half).enumerate() {
            bias.copy_from_slice(&self.parameters[self.layers[HIDDEN + 2 * h].bias.clone()]);
        }
        let (layers, parameters) = (&self.layers[..], &self.parameters[..]);
        let forward = self.forward.iter_mut().enumerate().map(|(product, panels)| (product, true, panels));
        let backward = self.backward.iter_mut().zip(BACKWARD).map(|(panels, product)| (product, false, panels));
        let jobs = forward.chain(backward).flat_map(|(product, transposed, panels)| {
            let size = panels.k * PANEL;
            let panel = move |(panel, out)| PackJob { layers, parameters, product, transposed, panel, out };
            panels.data.chunks_exact_mut(size).enumerate().map(panel)
        });
        jobs.collect()
    }

    fn pack(&mut self) {
        let kernels = super::simd::table(super::SimdPath::best()).expect("the best path is a supported one");
        self.pack_jobs().into_iter().for_each(|job| job.run(kernels));
    }
}
