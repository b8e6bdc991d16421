//! A network's parameters, flat in list order, and the packed copies of its weights that forward passes read.
//!
//! Every way to change the parameters packs them again: a stale copy cannot be read. Verified: packed bytes after an
//! update equal those of a fresh network (tests).

use super::aligned::Aligned;
use super::gemm::{PANEL, Panels};
use crate::engine::network::{Layer, NetworkShape};

/// Index of the first head's hidden layer in the list; hidden and second layers alternate from there.
pub(super) const HEADS_START: usize = 3;

/// Parameters of one network and their packed copies.
#[derive(Clone, Debug)]
pub struct Network {
    shape: NetworkShape,
    layers: Vec<Layer>,
    parameters: Aligned,
    panels: Vec<Panels>,
}

/// A network taken apart to be changed: what is written must be packed before anything reads it.
pub(super) struct Parts<'a> {
    pub layers: &'a [Layer],
    pub parameters: &'a mut [f32],
    /// one a layer
    pub panels: &'a mut [Panels],
}

impl Network {
    /// A network; `parameters` has the layout of [`NetworkShape::tensors`].
    pub fn new(shape: NetworkShape, parameters: &[f32]) -> Self {
        assert_eq!(parameters.len(), shape.parameters(), "parameters of {shape:?}");
        assert!(shape.h.is_multiple_of(2) && shape.h > 0 && shape.d > 0 && shape.bottleneck > 0, "{shape:?}");
        let layers = shape.layers();
        let panels = layers.iter().map(|l| Panels::new(l.inputs, l.outputs)).collect();
        let mut network = Network { shape, layers, parameters: Aligned::from(parameters), panels };
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

    /// The packed copies as bytes, each under its layer's name, in list order.
    pub fn packed_bytes(&self) -> Vec<(&str, &[u8])> {
        let named = self.layers.iter().zip(&self.panels);
        named.map(|(layer, panels)| (layer.name.as_str(), bytemuck::cast_slice(&panels.data))).collect()
    }

    /// Layers in list order.
    pub(super) fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Wᵀ of a layer of the list, packed.
    pub(super) fn panels(&self, layer: usize) -> &Panels {
        &self.panels[layer]
    }

    /// Bias of a layer.
    pub(super) fn bias(&self, layer: usize) -> &[f32] {
        &self.parameters[self.layers[layer].bias.clone()]
    }

    /// Weight `[outputs, inputs]` of a layer.
    pub(super) fn weight(&self, layer: usize) -> &[f32] {
        &self.parameters[self.layers[layer].weight.clone()]
    }

    pub(super) fn parts(&mut self) -> Parts<'_> {
        Parts { layers: &self.layers, parameters: &mut self.parameters, panels: &mut self.panels }
    }

    fn pack(&mut self) {
        let kernels = super::simd::table(super::SimdPath::best()).expect("the best path is a supported one");
        for (layer, panels) in self.layers.iter().zip(&mut self.panels) {
            let weight = &self.parameters[layer.weight.clone()];
            for (rows, panel) in weight.chunks(layer.inputs * PANEL).zip(panels.panels_mut()) {
                (kernels.pack_transposed)(rows, panel);
            }
        }
    }
}
