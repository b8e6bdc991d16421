//! The Q-network's shape: layers in list order, and where each named tensor lies in a flat buffer.

use std::ops::Range;

/// The heads in list order: value, then the three advantage branches.
pub const HEADS: [&str; 4] = ["value", "branch0", "branch1", "branch2"];
/// Branches of the action: target exposure, speed, stop distance.
pub const BRANCHES: usize = 3;
/// Actions of each branch.
pub const ACTIONS: usize = 5;
/// Advantage and value outputs of one row: 1 + 3·5.
pub const HEAD_OUTPUTS: usize = 1 + BRANCHES * ACTIONS;

/// Sizes of the network (rule 2): D → bottleneck → H → H → {value H/2 → 1; each branch H/2 → 5}.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkShape {
    /// observation width D
    pub d: usize,
    /// width of the bottleneck
    pub bottleneck: usize,
    /// width H of the trunk, even
    pub h: usize,
}

/// One linear layer; `weight` is `[outputs, inputs]` row-major at `weight` of the flat buffer, then `bias`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// name in list order, without prefix: `trunk1`, `branch0.hidden`
    pub name: String,
    /// fan-in
    pub inputs: usize,
    /// fan-out
    pub outputs: usize,
    /// elements of the weight in a flat buffer of all parameters
    pub weight: Range<usize>,
    /// elements of the bias
    pub bias: Range<usize>,
}

/// Number of layers: bottleneck, trunk1, trunk2, and two for each head.
pub const LAYERS: usize = 3 + 2 * HEADS.len();

impl NetworkShape {
    /// Layers in list order. Parameters lie one after the other in that order, weight before bias: 22 tensors.
    pub fn layers(&self) -> Vec<Layer> {
        let mut sizes = vec![
            ("bottleneck".to_owned(), self.d, self.bottleneck),
            ("trunk1".to_owned(), self.bottleneck, self.h),
            ("trunk2".to_owned(), self.h, self.h),
        ];
        for (i, head) in HEADS.iter().enumerate() {
            sizes.push((format!("{head}.hidden"), self.h, self.h / 2));
            sizes.push((format!("{head}.out"), self.h / 2, if i == 0 { 1 } else { ACTIONS }));
        }
        let mut at = 0;
        let layer = |(name, inputs, outputs): (String, usize, usize)| {
            let weight = at..at + inputs * outputs;
            let bias = weight.end..weight.end + outputs;
            at = bias.end;
            Layer { name, inputs, outputs, weight, bias }
        };
        sizes.into_iter().map(layer).collect()
    }

    /// The 22 parameter tensors in list order: name without prefix, shape, elements in the flat buffer.
    pub fn tensors(&self) -> Vec<(String, Vec<usize>, Range<usize>)> {
        let two = |l: Layer| {
            [
                (format!("{}.weight", l.name), vec![l.outputs, l.inputs], l.weight),
                (format!("{}.bias", l.name), vec![l.outputs], l.bias),
            ]
        };
        self.layers().into_iter().flat_map(two).collect()
    }

    /// Parameters in all.
    pub fn parameters(&self) -> usize {
        self.layers().last().map_or(0, |l| l.bias.end)
    }
}
