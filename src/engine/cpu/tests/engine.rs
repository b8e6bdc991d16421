//! Starting an engine: paths, threads, the proof of rule 1, planted faults.

use super::super::{Cpu, CpuError, Faults, SimdPath};
use super::values;

/// Would fail if the scalar path could be missing, or the best one were not among those that run here.
#[test]
fn paths_of_this_machine() {
    let available = SimdPath::available();
    assert_eq!(available.first(), Some(&SimdPath::Scalar));
    assert_eq!(available.last(), Some(&SimdPath::best()));
    for path in available {
        assert_eq!(path.to_string().parse::<SimdPath>().expect("its own name"), path);
    }
}

/// Would fail if an unknown or unsupported path fell back silently.
#[test]
fn a_path_that_cannot_run_is_refused() {
    let unknown = "sse9".parse::<SimdPath>().expect_err("no such path").to_string();
    assert!(unknown.contains("\"sse9\"") && unknown.contains("scalar"), "{unknown}");
    let all = [SimdPath::Scalar, SimdPath::Neon, SimdPath::Avx2, SimdPath::Avx512];
    for path in all.into_iter().filter(|path| !SimdPath::available().contains(path)) {
        let error = Cpu::new(path, 1, Faults::default()).err().expect("unsupported").to_string();
        assert!(error.contains(&path.to_string()) && error.contains("scalar"), "{error}");
    }
    assert!(matches!(Cpu::new(SimdPath::Scalar, 0, Faults::default()), Err(CpuError::NoThreads)));
}

/// Would fail if a thread that loses subnormals went unseen.
#[test]
fn flushing_threads_are_named() {
    for threads in [1, 3] {
        let cpu = Cpu::new(SimdPath::best(), threads, Faults::default()).expect("starts");
        assert_eq!((cpu.threads(), cpu.flushing_threads()), (threads, vec![]));
        let faults = Faults { flush_to_zero: true, ..Faults::default() };
        let cpu = Cpu::new(SimdPath::best(), threads, faults).expect("the fault comes after the proof");
        assert_eq!(cpu.flushing_threads(), vec![threads - 1]);
    }
}

/// Would fail if the contracted Polyak gave the contract's bits, or reached the scalar path.
#[test]
fn contracted_polyak_differs_off_the_scalar_path() {
    let faults = Faults { contracted_polyak: true, ..Faults::default() };
    let w: Vec<f32> = values(1, 500).iter().map(|w| w.clamp(-1.0, 1.0)).collect();
    for path in SimdPath::available() {
        let run = |faults| {
            let mut target: Vec<f32> = values(2, 500).iter().map(|w| w.clamp(-1.0, 1.0)).collect();
            Cpu::new(path, 1, faults).expect("starts").polyak(0.005, &mut target, &w);
            target
        };
        assert_eq!(run(faults) == run(Faults::default()), path == SimdPath::Scalar, "{path}");
    }
}
