//! The reference arithmetic on the CPU: `chain/1` of `docs/contract.md`, rules 1 to 6, 11 and 12.
//!
//! [`Cpu`] is an instruction-set path and a pool of threads. Threads split rows of a batch, rows of a weight gradient
//! or elements, never a chain or a sum, so results depend on neither. Verified: the contract's vectors on every path of
//! the machine, property tests of every path against plain loops on hard values, whole updates with one to seven
//! threads.

mod aligned;
mod error;
mod faults;
pub mod gemm;
mod network;
mod passes;
mod path;
pub mod rules;
mod simd;
mod sum;
#[cfg(test)]
mod tests;
mod threads;
mod tiles;
mod update;
mod weights;
mod workspace;

use std::hint::black_box;
use std::sync::Mutex;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

pub use aligned::Aligned;
pub use error::CpuError;
pub use faults::Faults;
pub use network::Network;
pub use path::SimdPath;
pub use update::{Batch, TargetRule};
pub use workspace::{Activations, LayerGradients, Q_VALUES, TENSORS, Workspace};

use crate::bits::rounding::AdamConstants;
use gemm::{B, Epilogue, Gemm, Panels};
use rules::Operation;

/// Elements that one thread scans at a time for rule 11.
const SCAN: usize = 1 << 16;

/// The CPU engine: one path, one pool.
pub struct Cpu {
    path: SimdPath,
    kernels: &'static simd::Kernels,
    pool: ThreadPool,
    /// held by the session that keeps the pool's threads awake
    awake: Mutex<()>,
    faults: Faults,
}

/// Rule 1's proof on the current thread: whether subnormal results or operands are lost.
fn flushes() -> bool {
    let result = black_box(black_box(f32::MIN_POSITIVE) * black_box(0.5));
    let operand = black_box(black_box(f32::from_bits(1)) + black_box(f32::from_bits(1)));
    result.to_bits() == 0 || operand.to_bits() == 0
}

impl Cpu {
    /// Starts a pool of exactly `threads` threads, each of which proves that it keeps subnormals (rule 1).
    pub fn new(path: SimdPath, threads: usize, faults: Faults) -> Result<Cpu, CpuError> {
        let kernels = simd::table(path).ok_or_else(|| CpuError::unsupported(path))?;
        if threads == 0 {
            return Err(CpuError::NoThreads);
        }
        let name = |i| format!("samebits-cpu-{i}");
        let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build().map_err(CpuError::Pool)?;
        let cpu = Cpu { path, kernels, pool, awake: Mutex::new(()), faults };
        if let Some(&thread) = cpu.flushing_threads().first() {
            return Err(CpuError::Flushes { thread, threads });
        }
        if faults.flush_to_zero {
            cpu.pool.broadcast(|worker| {
                if worker.index() + 1 == threads {
                    simd::flush_to_zero();
                }
            });
        }
        Ok(cpu)
    }

    /// The path.
    pub fn path(&self) -> SimdPath {
        self.path
    }

    /// Threads of the pool.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Runs rule 1's proof on every worker again; the workers that flush, ascending.
    pub fn flushing_threads(&self) -> Vec<usize> {
        let flush = self.pool.broadcast(|_| flushes());
        flush.into_iter().enumerate().filter_map(|(i, flushes)| flushes.then_some(i)).collect()
    }

    /// Runs `rounds` of independent fused multiply-adds on every worker at once: the path's ceiling, for benchmarks.
    /// Gives the floating-point operations of all workers.
    pub fn probe(&self, rounds: usize) -> u64 {
        let each = self.pool.broadcast(|_| (self.kernels.probe)(rounds));
        each[0] * each.len() as u64
    }

    /// Forward pass of `rows` rows of `x` `[rows, D]`: every layer's output and Q.
    pub fn forward(&self, net: &Network, x: &[f32], rows: usize, out: &mut Activations) {
        let shape = net.shape();
        assert_eq!(x.len(), rows * shape.d, "x is [rows, D]");
        out.resize(shape, rows);
        let parts = out.view(shape).split(threads::runs(rows, self.threads()));
        self.session(|| {
            self.share(parts, |(first, part)| {
                let x = &x[first * shape.d..(first + part.rows) * shape.d];
                passes::forward(self.kernels, net, x, part);
            });
        });
    }

    /// Index of the first element that is a NaN or an infinity (rule 11).
    pub fn first_not_finite(&self, xs: &[f32]) -> Option<usize> {
        let any = |chunk: &[f32]| (self.kernels.any_not_finite)(chunk);
        let chunk = if xs.len() <= SCAN {
            any(xs).then_some(0)
        } else {
            self.pool.install(|| xs.par_chunks(SCAN).position_first(any))
        }?;
        let inside = xs[chunk * SCAN..].iter().position(|x| !x.is_finite());
        inside.map(|i| chunk * SCAN + i)
    }
}

/// Single rules, so that vectors run on every path. They run on the calling thread; rows and batches are at least 1.
impl Cpu {
    /// One operation of rule 1 on each element; operands that the operation lacks are ignored but as long as `out`.
    pub fn elementwise(&self, operation: Operation, operands: [&[f32]; 3], out: &mut [f32]) {
        (self.kernels.elementwise)(operation, operands, out);
    }

    /// One chain GEMM (rule 2).
    pub fn gemm(&self, mut gemm: Gemm) {
        (self.kernels.gemm)(&mut gemm);
    }

    /// A layer of `rows` rows: x `[rows, inputs]`, weight `[outputs, inputs]`, y `[rows, outputs]`.
    pub fn layer(&self, x: &[f32], rows: usize, weight: &[f32], epilogue: Epilogue, y: &mut [f32]) {
        let (k, n) = (x.len() / rows, y.len() / rows);
        let b = B::Panels(&Panels::transposed(weight, k, n));
        self.gemm(Gemm { m: rows, n, k, a: x, a_row: k, a_k: 1, b, c: y, c_row: n, epilogue });
    }

    /// Input gradient of `rows` rows: dz `[rows, outputs]`, weight `[outputs, inputs]`, dx `[rows, inputs]`.
    pub fn input_gradient(&self, dz: &[f32], rows: usize, weight: &[f32], epilogue: Epilogue, dx: &mut [f32]) {
        let (k, n) = (dz.len() / rows, dx.len() / rows);
        let b = B::Rows { data: weight, stride: n };
        self.gemm(Gemm { m: rows, n, k, a: dz, a_row: k, a_k: 1, b, c: dx, c_row: n, epilogue });
    }

    /// Weight gradient of a batch: dz `[batch, outputs]`, x `[batch, inputs]`, dw `[outputs, inputs]`.
    pub fn weight_gradient(&self, dz: &[f32], x: &[f32], batch: usize, dw: &mut [f32]) {
        let (m, n) = (dz.len() / batch, x.len() / batch);
        let b = B::Rows { data: x, stride: n };
        self.gemm(Gemm { m, n, k: batch, a: dz, a_row: 1, a_k: m, b, c: dw, c_row: n, epilogue: Epilogue::Store });
    }

    /// z → y, elementwise.
    pub fn relu(&self, z: &[f32], y: &mut [f32]) {
        assert_eq!(z.len(), y.len());
        (self.kernels.relu)(z, y);
    }

    /// y, dy → dz, elementwise.
    pub fn relu_backward(&self, y: &[f32], dy: &[f32], dz: &mut [f32]) {
        assert!(y.len() == dz.len() && dy.len() == dz.len());
        (self.kernels.relu_backward)(y, dy, dz);
    }

    /// Bias gradient (rule 3): dz `[batch, width]` → db `[width]`.
    pub fn bias_gradient(&self, dz: &[f32], batch: usize, db: &mut [f32]) {
        assert_eq!(dz.len(), batch * db.len(), "dz is [batch, width]");
        (self.kernels.bias_gradient)(dz, db.len(), batch, db);
    }

    /// Sum of one tensor (rule 4).
    pub fn reduce(&self, xs: &[f32]) -> f32 {
        sum::reduce(self.kernels, xs, false, &mut vec![0.0; xs.len().div_ceil(rules::REDUCE_BLOCK)])
    }

    /// Sum of squares of one tensor (rule 4).
    pub fn reduce_squares(&self, xs: &[f32]) -> f32 {
        sum::reduce(self.kernels, xs, true, &mut vec![0.0; xs.len().div_ceil(rules::REDUCE_BLOCK)])
    }

    /// Adam (rule 6) on gradients that it multiplies by `k` first.
    pub fn adam(&self, c: &AdamConstants, k: f32, w: &mut [f32], m: &mut [f32], v: &mut [f32], g: &[f32]) {
        assert!(m.len() == w.len() && v.len() == w.len() && g.len() == w.len());
        (self.kernels.adam)(c, k, w, m, v, g);
    }

    /// Polyak averaging (rule 6), with the planted fault if there is one.
    pub fn polyak(&self, tau: f32, target: &mut [f32], w: &[f32]) {
        assert_eq!(target.len(), w.len());
        if self.faults.contracted_polyak && self.path != SimdPath::Scalar {
            (self.kernels.polyak_contracted)(tau, target, w);
        } else {
            (self.kernels.polyak)(tau, target, w);
        }
    }
}
