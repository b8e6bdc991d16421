//! Why a CPU engine cannot start.

use super::SimdPath;

/// A path or a pool that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum CpuError {
    /// a name that is no path
    #[error("unknown SIMD path {asked:?}; this CPU has: {available}")]
    UnknownPath {
        /// what was asked for
        asked: String,
        /// paths of this CPU
        available: String,
    },
    /// a path that this CPU lacks
    #[error("this CPU cannot run the SIMD path `{asked}`; it has: {available}")]
    Unsupported {
        /// what was asked for
        asked: SimdPath,
        /// paths of this CPU
        available: String,
    },
    /// zero threads
    #[error("0 threads asked for; at least 1 is needed")]
    NoThreads,
    /// the pool could not be started
    #[error("the thread pool did not start: {0}")]
    Pool(#[source] rayon::ThreadPoolBuildError),
    /// rule 1 broken at start
    #[error("worker thread {thread} of {threads} flushes subnormals (2^-126 * 0.5 is zero); rule 1 needs them kept")]
    Flushes {
        /// index of the worker
        thread: usize,
        /// threads of the pool
        threads: usize,
    },
}

impl CpuError {
    pub(super) fn unsupported(asked: SimdPath) -> Self {
        CpuError::Unsupported { asked, available: available() }
    }

    pub(super) fn unknown(asked: &str) -> Self {
        CpuError::UnknownPath { asked: asked.to_owned(), available: available() }
    }
}

fn available() -> String {
    let names: Vec<&str> = SimdPath::available().into_iter().map(SimdPath::name).collect();
    names.join(", ")
}
