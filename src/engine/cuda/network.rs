//! Where parameters lie on a device: the four heads' layers side by side, so that each is one wide product.
//!
//! Named tensors keep their list order everywhere outside; here only their places differ. Each block begins on a multiple
//! of 256 bytes; what lies between blocks stays +0.

use std::ops::Range;
use std::rc::Rc;

use super::buffer::{Buffer, Slice};
use super::device::Device;
use super::error::CudaError;
use crate::engine::network::{HEAD_OUTPUTS, HEADS, Layer, NetworkShape};

/// Elements to whose multiples blocks are aligned.
const ALIGNMENT: usize = 64;

/// Weight and bias of one wide layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wide {
    /// fan-in
    pub inputs: usize,
    /// fan-out, of the four heads together where they are side by side
    pub outputs: usize,
    /// `[outputs, inputs]`
    pub weight: Range<usize>,
    /// `[outputs]`
    pub bias: Range<usize>,
}

/// Places of all parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// the network's shape
    pub shape: NetworkShape,
    /// bottleneck, trunk1, trunk2, hidden layers of the heads
    pub layers: [Wide; 4],
    /// the heads' second layers, `[16, H/2]` and `[16]`
    pub outputs: Wide,
    /// elements in all
    pub len: usize,
    /// place of each of the 22 named tensors, in list order
    pub tensors: Vec<Range<usize>>,
}

impl Layout {
    /// Places for a shape.
    pub fn new(shape: NetworkShape) -> Self {
        let (h, half) = (shape.h, shape.h / 2);
        let mut at = 0;
        let mut block = |n: usize| {
            let start = at;
            at = (at + n).next_multiple_of(ALIGNMENT);
            start..start + n
        };
        let mut wide = |inputs: usize, outputs: usize| {
            let weight = block(inputs * outputs);
            Wide { inputs, outputs, weight, bias: block(outputs) }
        };
        let layers =
            [wide(shape.d, shape.bottleneck), wide(shape.bottleneck, h), wide(h, h), wide(h, HEADS.len() * half)];
        let outputs = Wide { inputs: half, ..wide(half, HEAD_OUTPUTS) };
        let tensors = shape.layers().iter().enumerate().flat_map(|(i, l)| places(i, l, &layers, &outputs)).collect();
        Layout { shape, layers, outputs, len: at, tensors }
    }

    /// A flat buffer in the order of the list, put into place.
    pub fn place(&self, flat: &[f32]) -> Vec<f32> {
        let mut placed = vec![0.0; self.len];
        for ((.., from), to) in self.shape.tensors().into_iter().zip(&self.tensors) {
            placed[to.clone()].copy_from_slice(&flat[from]);
        }
        placed
    }

    /// A placed buffer in the order of the list.
    pub fn list(&self, placed: &[f32]) -> Vec<f32> {
        self.tensors.iter().flat_map(|range| placed[range.clone()].iter().copied()).collect()
    }
}

/// Places of weight and bias of layer `i` of the list.
fn places(i: usize, layer: &Layer, layers: &[Wide; 4], outputs: &Wide) -> [Range<usize>; 2] {
    let inside = |wide: &Wide, first: usize| {
        let weight = wide.weight.start + first * wide.inputs;
        let bias = wide.bias.start + first;
        [weight..weight + layer.inputs * layer.outputs, bias..bias + layer.outputs]
    };
    match i.checked_sub(3) {
        None => inside(&layers[i], 0),
        Some(of_head) if of_head % 2 == 0 => inside(&layers[3], of_head / 2 * layer.outputs),
        Some(of_head) => inside(outputs, if of_head == 1 { 0 } else { 1 + (of_head / 2 - 1) * layer.outputs }),
    }
}

/// Parameters of one network on a device.
#[derive(Debug)]
pub struct Network {
    /// where what lies
    pub layout: Rc<Layout>,
    /// all of it
    pub flat: Buffer<f32>,
}

impl Network {
    /// From a flat buffer in list order.
    pub fn new(device: &Rc<Device>, layout: &Rc<Layout>, flat: &[f32]) -> Result<Self, CudaError> {
        Ok(Network { layout: layout.clone(), flat: Buffer::of(device, &layout.place(flat))? })
    }

    /// Weight and bias of a layer.
    pub fn layer(&self, wide: &Wide) -> (Slice<'_, f32>, Slice<'_, f32>) {
        (self.flat.slice(wide.weight.clone()), self.flat.slice(wide.bias.clone()))
    }

    /// All parameters, flat, in list order.
    pub fn parameters(&self) -> Result<Vec<f32>, CudaError> {
        Ok(self.layout.list(&self.flat.read()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would fail if two tensors overlapped, one had another length, or the heads were not side by side.
    #[test]
    fn tensors_have_their_places() {
        for h in [8, 64, 256] {
            let shape = NetworkShape { d: 64, bottleneck: 32, h };
            let layout = Layout::new(shape);
            let flat: Vec<f32> = (0..shape.parameters()).map(|i| i as f32 + 1.0).collect();
            let placed = layout.place(&flat);
            assert_eq!(layout.list(&placed), flat);
            assert_eq!(placed.iter().filter(|x| **x != 0.0).count(), flat.len());
            let range = |name: &str| {
                let index = shape.tensors().iter().position(|(n, ..)| n == name).unwrap();
                layout.tensors[index].clone()
            };
            assert_eq!(range("value.hidden.weight").start, layout.layers[3].weight.start);
            assert_eq!(range("branch0.hidden.weight").start, range("value.hidden.weight").end);
            assert_eq!(range("branch2.hidden.bias").end, layout.layers[3].bias.end);
            assert_eq!(range("branch0.out.weight").start, range("value.out.weight").end);
            assert_eq!(range("branch1.out.bias").start, range("branch0.out.bias").end);
            assert_eq!(range("branch2.out.weight").end, layout.outputs.weight.end);
        }
    }
}
