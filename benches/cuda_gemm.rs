//! Speed of the chain products on one GPU: every product of an update at S, M and L, by tile shape.
//!
//! `cargo bench --bench cuda_gemm -- [DEVICE]`. Prints TFLOP/s of each tile shape and the one that the engine picks. Wall
//! clock over many launches in one stream, the shortest of five rounds; operands are uniform and stay on the device.

use std::rc::Rc;
use std::time::Instant;

use samebits::bits::philox::initial_weight;
use samebits::engine::cuda::buffer::Buffer;
use samebits::engine::cuda::compile::Compiler;
use samebits::engine::cuda::device::Device;
use samebits::engine::cuda::error::CudaError;
use samebits::engine::cuda::gemm::{Epilogue, Kernels, Operand, Product, TILES, Tile};
use samebits::engine::cuda::state::{Counters, Words};

/// Rows, columns, length of the chains, and whether k is the inner dimension of A and B.
type Shape = (&'static str, (usize, usize, usize), (bool, bool));

/// Further tile shapes, to find better ones.
const OTHERS: [Tile; 7] = [
    Tile { thread: (8, 8), warps: (4, 2), depth: 8, stages: 4, ahead: 1 },
    Tile { thread: (8, 16), warps: (4, 2), depth: 16, stages: 3, ahead: 1 },
    Tile { thread: (8, 8), warps: (4, 2), depth: 32, stages: 2, ahead: 1 },
    Tile { thread: (4, 4), warps: (4, 2), depth: 16, stages: 4, ahead: 2 },
    Tile { thread: (2, 4), warps: (4, 1), depth: 32, stages: 3, ahead: 8 },
    Tile { thread: (2, 2), warps: (4, 2), depth: 32, stages: 4, ahead: 8 },
    Tile { thread: (1, 2), warps: (4, 1), depth: 32, stages: 4, ahead: 8 },
];

fn shapes(size: &'static str, h: usize, b: usize) -> Vec<(String, Shape)> {
    let all: Vec<Shape> = vec![
        ("bottleneck", (2 * b, 32, 64), (true, true)),
        ("trunk1", (2 * b, h, 32), (true, true)),
        ("trunk2", (2 * b, h, h), (true, true)),
        ("hidden", (2 * b, 2 * h, h), (true, true)),
        ("trunk2 dX", (b, h, 2 * h), (true, false)),
        ("trunk1 dX", (b, h, h), (true, false)),
        ("bottleneck dX", (b, 32, h), (true, false)),
        ("hidden dW", (2 * h, h, b), (false, false)),
        ("trunk2 dW", (h, h, b), (false, false)),
        ("trunk1 dW", (h, 32, b), (false, false)),
        ("bottleneck dW", (32, 64, b), (false, false)),
        ("branch dW", (5, h / 2, b), (false, false)),
    ];
    all.into_iter().map(|shape| (format!("{size} {}", shape.0), shape)).collect()
}

struct Bench {
    device: Rc<Device>,
    counters: Counters,
    values: Vec<f32>,
}

impl Bench {
    fn fill(&self, n: usize) -> Result<Buffer<f32>, CudaError> {
        let values: Vec<f32> = self.values.iter().copied().cycle().take(n).collect();
        Buffer::of(&self.device, &values)
    }

    /// Seconds of one product.
    fn time(&self, kernels: &Kernels, (_, (m, n, k), (a_inner, b_inner)): &Shape) -> Result<f64, CudaError> {
        let (a, b, mut c) = (self.fill(m * k)?, self.fill(n * k)?, Buffer::zeroed(&self.device, m * n)?);
        let stride = |inner: bool, outer: usize| if inner { *k } else { outer };
        let mut one = || {
            let product = Product {
                size: (*m, *n, *k),
                a: Operand { data: a.all(), stride: stride(*a_inner, *m), k_inner: *a_inner },
                b: Operand { data: b.all(), stride: stride(*b_inner, *n), k_inner: *b_inner },
                c: c.all_mut(),
                c_stride: *n,
                epilogue: Epilogue::Store,
            };
            kernels.run(product, self.counters.stop())
        };
        one()?;
        self.device.wait("bench")?;
        let flop = 2.0 * *m as f64 * *n as f64 * *k as f64;
        let launches = (0.01 / (flop / 30e12 + 3e-6)) as usize + 1;
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let start = Instant::now();
            (0..launches).try_for_each(|_| one())?;
            self.device.wait("bench")?;
            let seconds = start.elapsed().as_secs_f64() / launches as f64;
            best = if seconds < best { seconds } else { best };
        }
        Ok(best)
    }
}

fn label(tile: &Tile) -> String {
    let (m, n) = tile.block();
    format!("{m}x{n}/{}x{}k{}s{}a{}", tile.thread.0, tile.thread.1, tile.depth, tile.stages, tile.ahead)
}

fn run(wanted: &str) -> Result<(), CudaError> {
    let device = Device::open(wanted)?;
    let kept = std::env::temp_dir().join("samebits-bench-kernels");
    let compiler = Compiler::open(Some(&kept))?;
    let values = (0..1 << 20).map(|i| initial_weight([1, 2], i, 1.0)).collect();
    let bench = Bench { counters: Counters::new(&device, Words::start())?, device: device.clone(), values };
    let tiles: Vec<Tile> = TILES.iter().chain(&OTHERS).copied().collect();
    let each: Vec<Kernels> =
        tiles.iter().map(|t| Kernels::with(&device, &compiler, &[*t])).collect::<Result<_, _>>()?;
    let picked = Kernels::with(&device, &compiler, &TILES)?;
    println!("{}, {} multiprocessors; TFLOP/s (microseconds)", device.name.model, device.multiprocessors());
    println!(
        "{:<16} {:>14} {}",
        "product",
        "picked",
        tiles.iter().map(|t| format!(" {:>18}", label(t))).collect::<String>()
    );
    for (name, shape) in [shapes("S", 256, 256), shapes("M", 1024, 4096), shapes("L", 4096, 16384)].concat() {
        let (m, n, k) = shape.1;
        let flop = 2.0 * m as f64 * n as f64 * k as f64;
        let cell = |seconds: f64| format!("{:.1} ({:.1})", flop / seconds / 1e12, seconds * 1e6);
        let first = cell(bench.time(&picked, &shape)?);
        let mut line = format!("{name:<16} {first:>14} ");
        for kernels in &each {
            line.push_str(&format!(" {:>18}", cell(bench.time(kernels, &shape)?)));
        }
        println!("{line}");
    }
    Ok(())
}

fn main() {
    let wanted = std::env::args().skip(1).find(|a| !a.starts_with("--")).unwrap_or_else(|| "0".to_owned());
    if let Err(e) = run(&wanted) {
        println!("not run: {e}");
        std::process::exit(3);
    }
}
