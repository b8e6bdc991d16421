//! Whole updates on the CPU: gradients, clip, Adam, target network, packing.
//!
//! `cargo bench --bench cpu_update -- [--medium] [--path NAME] [--repeats N]`. Each line is one size and thread count:
//! best and median of many updates, beside the fused multiply-add peak probed in the same run. Shared machines swing by
//! a third: compare the share of the peak, or the best.

use std::time::Instant;

use samebits::bits::rounding::{AdamConstants, power};
use samebits::engine::cpu::{Batch, Cpu, Faults, Network, SimdPath, TargetRule, Workspace};
use samebits::engine::network::NetworkShape;

/// One size of `docs/design.md`.
struct Size {
    name: &'static str,
    shape: NetworkShape,
    batch: usize,
    repeats: usize,
}

const SMALL: Size =
    Size { name: "S", shape: NetworkShape { d: 64, bottleneck: 32, h: 256 }, batch: 256, repeats: 1000 };
const MEDIUM: Size =
    Size { name: "M", shape: NetworkShape { d: 64, bottleneck: 32, h: 1024 }, batch: 4096, repeats: 12 };

/// Multiplications and additions of one update: three forwards, weight gradients, input gradients of all but the first.
fn operations(size: &Size) -> f64 {
    let weights = size.shape.layers().iter().fold(0, |n, l| n + l.inputs * l.outputs);
    let first = size.shape.d * size.shape.bottleneck;
    (2 * size.batch * (5 * weights - first)) as f64
}

/// Numbers in ±scale that depend on nothing but their index.
fn fill(n: usize, scale: f32, stream: u32) -> Vec<f32> {
    let key = [stream, 7];
    (0..n).map(|i| samebits::bits::philox::initial_weight(key, i as u32, scale)).collect()
}

/// Best and median of seconds.
fn best_and_median(mut seconds: Vec<f64>) -> (f64, f64) {
    seconds.sort_by(f64::total_cmp);
    (seconds[0], seconds[seconds.len() / 2])
}

/// GFLOP/s of the path's probe, best of several.
fn peak(cpu: &Cpu) -> f64 {
    let once = |_| {
        let start = Instant::now();
        let operations = cpu.probe(1 << 20);
        start.elapsed().as_secs_f64() / operations as f64
    };
    1e-9 / best_and_median((0..9).map(once).collect()).0
}

fn update_times(cpu: &Cpu, size: &Size) -> Vec<f64> {
    let (shape, rows) = (size.shape, size.batch);
    let n = shape.parameters();
    let mut online = Network::new(shape, &fill(n, 0.06, 1));
    let mut target = Network::new(shape, &fill(n, 0.06, 2));
    let (mut m, mut v, mut ws) = (vec![0.0; n], vec![0.0; n], Workspace::default());
    let (obs, next_obs, returns) = (fill(rows * shape.d, 1.0, 3), fill(rows * shape.d, 1.0, 4), fill(rows, 1.0, 5));
    let actions: Vec<[u8; 3]> = (0..rows).map(|i| [i, i / 5, i / 25].map(|a| (a % 5) as u8)).collect();
    let done: Vec<bool> = (0..rows).map(|i| i % 50 == 0).collect();
    let weights = vec![1.0; rows];
    let batch = Batch {
        obs: &obs,
        next_obs: &next_obs,
        actions: &actions,
        returns: &returns,
        done: &done,
        weights: &weights,
        gamma_n: 0.97,
    };
    let mut update = |t: u64| {
        let c = AdamConstants::new(1e-4, 0.9, 0.999, 1e-8, power(0.9, t), power(0.999, t));
        let start = Instant::now();
        cpu.gradients(&online, &target, &batch, &mut ws);
        cpu.apply(&c, 10.0, TargetRule::Polyak { tau: 0.005 }, &mut online, &mut target, &mut m, &mut v, &mut ws);
        start.elapsed().as_secs_f64()
    };
    let warm_up = 1 + size.repeats / 10;
    (1..=(warm_up + size.repeats) as u64).map(&mut update).skip(warm_up).collect()
}

/// The value after a flag.
fn option(flag: &str) -> Option<String> {
    std::env::args().skip_while(|a| a != flag).nth(1)
}

fn main() {
    let path = option("--path").map_or_else(SimdPath::from_env, |name| name.parse()).unwrap_or_else(|e| panic!("{e}"));
    let repeats = option("--repeats").map(|n| n.parse().expect("--repeats takes a number"));
    let mut sizes = vec![SMALL];
    if std::env::args().any(|a| a == "--medium") {
        sizes.push(MEDIUM);
    }
    println!("path {path}");
    println!("size threads   best ms  median ms   GFLOP/s at best   peak GFLOP/s   share");
    for mut size in sizes {
        size.repeats = repeats.unwrap_or(size.repeats);
        for threads in [1, 2] {
            let cpu = Cpu::new(path, threads, Faults::default()).unwrap_or_else(|e| panic!("{e}"));
            let before = peak(&cpu);
            let (best, median) = best_and_median(update_times(&cpu, &size));
            let after = peak(&cpu);
            let peak = if after > before { after } else { before };
            let rate = operations(&size) / best * 1e-9;
            let Size { name, .. } = size;
            println!(
                "{name:4} {threads:7} {:9.3} {:10.3} {rate:17.1} {peak:14.1} {:6.0} %",
                best * 1e3,
                median * 1e3,
                rate / peak * 100.0
            );
        }
    }
}
