//! Instruction-set paths (rule 12): which there are, which this CPU has, which one is asked for.

use std::fmt;
use std::str::FromStr;

use super::{CpuError, simd};

/// The environment variable that forces a path.
const VARIABLE: &str = "SAMEBITS_SIMD";

/// An instruction-set path; all give the same bits. Ordered from slowest to fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimdPath {
    /// software fused multiply-add, no vector instructions beyond the target's baseline
    Scalar,
    /// Arm NEON
    Neon,
    /// AVX2 and FMA
    Avx2,
    /// AVX-512F
    Avx512,
}

impl SimdPath {
    const ALL: [SimdPath; 4] = [SimdPath::Scalar, SimdPath::Neon, SimdPath::Avx2, SimdPath::Avx512];

    /// Paths that this CPU can run, slowest first; the scalar one always.
    pub fn available() -> Vec<SimdPath> {
        SimdPath::ALL.into_iter().filter(|&path| simd::table(path).is_some()).collect()
    }

    /// The fastest path of this CPU.
    pub fn best() -> SimdPath {
        SimdPath::ALL.into_iter().rfind(|&path| simd::table(path).is_some()).unwrap_or(SimdPath::Scalar)
    }

    /// The path named by `SAMEBITS_SIMD`, else the best; an unknown or unsupported one is refused.
    pub fn from_env() -> Result<SimdPath, CpuError> {
        match std::env::var_os(VARIABLE) {
            None => Ok(SimdPath::best()),
            Some(asked) => asked.to_string_lossy().parse::<SimdPath>()?.supported(),
        }
    }

    /// This path, if the CPU has it.
    pub(super) fn supported(self) -> Result<SimdPath, CpuError> {
        if simd::table(self).is_some() { Ok(self) } else { Err(CpuError::unsupported(self)) }
    }

    /// Its name in `SAMEBITS_SIMD`.
    pub(super) fn name(self) -> &'static str {
        match self {
            SimdPath::Scalar => "scalar",
            SimdPath::Neon => "neon",
            SimdPath::Avx2 => "avx2",
            SimdPath::Avx512 => "avx512",
        }
    }
}

impl fmt::Display for SimdPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for SimdPath {
    type Err = CpuError;

    fn from_str(name: &str) -> Result<Self, CpuError> {
        SimdPath::ALL.into_iter().find(|path| path.name() == name).ok_or_else(|| CpuError::unknown(name))
    }
}
