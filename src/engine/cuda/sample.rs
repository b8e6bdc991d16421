//! Launches `kernels/sample.cu`: draws, importance weights, priorities, rows that become sampleable.

use std::rc::Rc;

use super::buffer::{Buffer, Slice, SliceMut};
use super::compile::{Compiler, source};
use super::device::Device;
use super::error::CudaError;
use super::launch::{Function, Module, Param};
use super::ring::{RawRing, Ring};
use super::state::Counters;
use crate::bits::philox::Key;
use crate::engine::network::BRANCHES;

const FANOUT: usize = 64;
const LEVELS: usize = 5;

/// Addresses of a tree, as `kernels/priority.cuh` has them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct RawTree {
    leaves: u64,
    level: [u64; LEVELS],
    levels: u32,
    rows: u64,
}

// SAFETY: the kernel's struct `Tree`, field by field.
unsafe impl Param for RawTree {}

/// Running sums over rows of u32 in slot order.
#[derive(Debug)]
pub struct Tree {
    leaves: Buffer<u32>,
    levels: Vec<Buffer<u64>>,
}

impl Tree {
    /// All zero.
    pub fn new(device: &Rc<Device>, rows: usize) -> Result<Self, CudaError> {
        assert!(rows > 0 && rows <= FANOUT.pow(LEVELS as u32), "rows of a tree");
        let (mut levels, mut n) = (Vec::new(), rows);
        while n > 1 || levels.is_empty() {
            n = n.div_ceil(FANOUT);
            levels.push(Buffer::zeroed(device, n)?);
        }
        Ok(Tree { leaves: Buffer::zeroed(device, rows)?, levels })
    }

    /// All zero again.
    pub fn clear(&mut self) -> Result<(), CudaError> {
        self.leaves.clear()?;
        self.levels.iter_mut().try_for_each(Buffer::clear)
    }

    /// Sum of all rows.
    pub fn total(&self) -> Result<u64, CudaError> {
        Ok(self.levels[self.levels.len() - 1].read()?[0])
    }

    fn raw(&self) -> RawTree {
        let mut level = [0; LEVELS];
        level.iter_mut().zip(&self.levels).for_each(|(to, of)| *to = of.address());
        RawTree {
            leaves: self.leaves.address(),
            level,
            levels: self.levels.len() as u32,
            rows: self.leaves.len() as u64,
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Sample {
    ring: RawRing,
    tree: RawTree,
    key: [u32; 2],
    batch: u32,
    prioritized: u32,
    beta_halves: u32,
    rows: u64,
    weights: u64,
    largest: u64,
    drawn: u64,
    counters: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Priorities {
    ring: RawRing,
    tree: RawTree,
    rows: u64,
    deltas: u64,
    given: u64,
    owner: u64,
    epsilon: f32,
    alpha_halves: u32,
    batch: u32,
    stop: u64,
}

// SAFETY: the kernels' structs of the same names, field by field.
unsafe impl Param for Sample {}
// SAFETY: as above.
unsafe impl Param for Priorities {}

/// An exponent of rule 8 in halves.
pub fn halves(exponent: f64) -> u32 {
    match exponent {
        0.0 => 0,
        0.5 => 1,
        _ => 2,
    }
}

/// New priorities of sampled rows.
#[derive(Clone, Copy, Debug)]
pub enum Renewed<'a> {
    /// from TD errors `[B, 3]`, ε_p and α
    Deltas(Slice<'a, f32>, f32, f64),
    /// as they are
    Given(Slice<'a, u32>),
}

/// The kernels of this file.
#[derive(Debug)]
pub struct Kernels {
    sample: Function<(Sample,)>,
    divide: Function<(Sample,)>,
    claim: Function<(Priorities,)>,
    write: Function<(Priorities,)>,
    open: Function<(RawRing, RawTree, u64)>,
    rebuild: Function<(RawRing, RawTree, u64)>,
    fill: Function<(RawTree, u64)>,
    find: Function<(RawTree, u64, u64, u64)>,
    importance: Function<(u64, u64, u64, u32, u64, u64, u64)>,
    divide_rows: Function<(u64, u64, u64)>,
}

/// One draw of a batch.
#[derive(Debug)]
pub struct Draw<'a> {
    /// stream
    pub key: Key,
    /// β of prioritized replay; None for uniform
    pub beta: Option<f64>,
    /// `[B]`
    pub rows: SliceMut<'a, u32>,
    /// `[B]`
    pub weights: SliceMut<'a, f32>,
    /// one word, for the largest weight's bits
    pub largest: &'a mut Buffer<u32>,
    /// `[B]`: the draws themselves, when wanted
    pub drawn: Option<SliceMut<'a, u64>>,
}

impl Kernels {
    pub(super) fn load(device: &Rc<Device>, compiler: &Compiler) -> Result<Self, CudaError> {
        let module = Module::load(device, compiler, &source!("sample"))?;
        Ok(Kernels {
            sample: Function::of(&module, "sample_rows")?,
            divide: Function::of(&module, "divide_weights")?,
            claim: Function::of(&module, "claim_rows")?,
            write: Function::of(&module, "write_priorities")?,
            open: Function::of(&module, "open_rows")?,
            rebuild: Function::of(&module, "rebuild_tree")?,
            fill: Function::of(&module, "fill_tree")?,
            find: Function::of(&module, "find_rows")?,
            importance: Function::of(&module, "importance_rows")?,
            divide_rows: Function::of(&module, "divide_rows")?,
        })
    }

    /// Rows and importance weights of a batch. Something can be drawn: the caller's settings say so.
    pub fn draw(&self, ring: &Ring, tree: &Tree, draw: Draw<'_>, counters: &Counters) -> Result<(), CudaError> {
        let batch = draw.rows.len();
        assert!(draw.weights.len() == batch && draw.drawn.as_ref().is_none_or(|d| d.len() == batch), "{batch} rows");
        assert_eq!(tree.leaves.len(), ring.rows(), "a tree over the ring");
        draw.largest.clear()?;
        let args = Sample {
            ring: ring.raw(),
            tree: tree.raw(),
            key: draw.key,
            batch: u32::try_from(batch).expect("a batch below 2^32"),
            prioritized: u32::from(draw.beta.is_some()),
            beta_halves: halves(draw.beta.unwrap_or(0.0)),
            rows: draw.rows.address(),
            weights: draw.weights.address(),
            largest: draw.largest.address(),
            drawn: draw.drawn.as_ref().map_or(0, SliceMut::address),
            counters: counters.address(),
        };
        // SAFETY: lengths were asserted; results are borrowed mutably; draws are below the total, so rows are the ring's.
        unsafe {
            self.sample.over(batch as u64 * 32, (args,))?;
            if draw.beta.is_some() { self.divide.over(batch as u64, (args,)) } else { Ok(()) }
        }
    }

    /// Priorities of sampled rows; of a row sampled twice the highest batch position stays. `owner` holds one word a row of
    /// the ring, all 0 before and after.
    pub fn renew(
        &self,
        (ring, tree): (&mut Ring, &mut Tree),
        rows: Slice<'_, u32>,
        new: Renewed<'_>,
        owner: &mut Buffer<u32>,
        stop: Slice<'_, u32>,
    ) -> Result<(), CudaError> {
        let batch = rows.len();
        assert!(tree.leaves.len() == ring.rows() && owner.len() == ring.rows(), "a tree and owners over the ring");
        let (deltas, given, epsilon, alpha) = match new {
            Renewed::Deltas(d, epsilon, alpha) => {
                assert_eq!(d.len(), BRANCHES * batch, "TD errors of {batch} rows");
                (d.address(), 0, epsilon, alpha)
            }
            Renewed::Given(q) => {
                assert_eq!(q.len(), batch, "priorities of {batch} rows");
                (0, q.address(), 0.0, 0.0)
            }
        };
        let args = Priorities {
            ring: ring.raw(),
            tree: tree.raw(),
            rows: rows.address(),
            deltas,
            given,
            owner: owner.address(),
            epsilon,
            alpha_halves: halves(alpha),
            batch: u32::try_from(batch).expect("a batch below 2^32"),
            stop: stop.address(),
        };
        // SAFETY: lengths were asserted; rows are the ring's, as the draw gave them; each row has one owner that writes.
        unsafe {
            self.claim.over(batch as u64, (args,))?;
            self.write.over(batch as u64, (args,))
        }
    }

    /// After an environment step was counted: its rows do not count yet, those n − 1 steps before do.
    pub fn open(&self, ring: &Ring, tree: &mut Tree, counters: &Counters) -> Result<(), CudaError> {
        assert_eq!(tree.leaves.len(), ring.rows(), "a tree over the ring");
        // SAFETY: rows of a step are the ring's; sums are changed by atomics.
        unsafe { self.open.over(ring.environments() as u64, (ring.raw(), tree.raw(), counters.address())) }
    }

    /// The tree of a ring that was loaded after `steps` environment steps.
    pub fn rebuild(&self, ring: &Ring, tree: &mut Tree, steps: u64) -> Result<(), CudaError> {
        assert_eq!(tree.leaves.len(), ring.rows(), "a tree over the ring");
        tree.clear()?;
        // SAFETY: as above.
        unsafe { self.rebuild.over(ring.rows() as u64, (ring.raw(), tree.raw(), steps)) }
    }

    /// The tree of these leaves.
    pub fn fill(&self, tree: &mut Tree, leaves: Slice<'_, u32>) -> Result<(), CudaError> {
        assert_eq!(tree.leaves.len(), leaves.len(), "leaves of the tree");
        tree.clear()?;
        // SAFETY: lengths were asserted; sums are changed by atomics.
        unsafe { self.fill.over(leaves.len() as u64, (tree.raw(), leaves.address())) }
    }

    /// For each draw, below the tree's total, the first row whose running sum exceeds it.
    pub fn find(&self, tree: &Tree, r: Slice<'_, u64>, rows: SliceMut<'_, u32>) -> Result<(), CudaError> {
        assert_eq!(r.len(), rows.len(), "a row a draw");
        let n = r.len() as u64;
        // SAFETY: lengths were asserted; the result is borrowed mutably.
        unsafe { self.find.over(n * 32, (tree.raw(), r.address(), rows.address(), n)) }
    }

    /// Importance weights of given priorities, divided by their largest.
    pub fn importance(
        &self,
        (total, n): (u64, u64),
        q: Slice<'_, u32>,
        beta: f64,
        weights: SliceMut<'_, f32>,
        largest: &mut Buffer<u32>,
    ) -> Result<(), CudaError> {
        assert_eq!(q.len(), weights.len(), "a weight a priority");
        largest.clear()?;
        let (count, w, most) = (q.len() as u64, weights.address(), largest.address());
        // SAFETY: lengths were asserted; results are borrowed mutably.
        unsafe {
            self.importance.over(count, (total, n, q.address(), halves(beta), w, most, count))?;
            self.divide_rows.over(count, (w, most, count))
        }
    }
}
