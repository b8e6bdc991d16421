//! What can go wrong on a device, with the phase it appeared in.

/// Why a device did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    /// no driver, no device, or none of that name
    #[error("no CUDA device: {0}")]
    NoDevice(String),
    /// a driver call failed, or an earlier launch did and this call is where it shows
    #[error("{phase}: {call} answered {code} ({text})")]
    Driver {
        /// what the engine was doing
        phase: &'static str,
        /// the driver's function
        call: &'static str,
        /// its answer
        code: u32,
        /// the answer in the driver's words
        text: String,
    },
    /// NVRTC is missing or of another major version
    #[error("no NVRTC: {0}")]
    NoCompiler(String),
    /// a kernel does not compile
    #[error("kernels/{stem}.cu for {target}: {log}")]
    Compile {
        /// the file's stem
        stem: &'static str,
        /// architecture
        target: String,
        /// the compiler's log
        log: String,
    },
    /// a kernel's parameters are not what its launcher passes
    #[error("kernel {name}: {detail}")]
    Signature {
        /// kernel
        name: &'static str,
        /// expected and found
        detail: String,
    },
    /// the cache of compiled kernels cannot be read or written
    #[error("{path}: {source}")]
    Cache {
        /// file
        path: String,
        /// why
        source: std::io::Error,
    },
}
