//! A CUDA graph: what a stretch of launches did, captured once, launched again as one.

use std::rc::Rc;

use cudarc::driver::sys;

use super::device::Device;
use super::driver::call;
use super::error::CudaError;

/// An executable graph. What its kernels read and write must outlive it.
#[derive(Debug)]
pub struct Graph {
    graph: sys::CUgraph,
    executable: sys::CUgraphExec,
    device: Rc<Device>,
}

impl Graph {
    /// Captures what `work` launches on the device's stream. It may not allocate, wait or read.
    pub(super) fn capture(
        device: &Rc<Device>,
        work: impl FnOnce() -> Result<(), CudaError>,
    ) -> Result<Self, CudaError> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is open and not capturing: captures begin and end here only.
        unsafe { call!("capture", cuStreamBeginCapture_v2(device.stream(), mode))? };
        let done = work();
        let mut graph = std::ptr::null_mut();
        // SAFETY: the capture began above; `graph` outlives the call.
        let ended = unsafe { call!("capture", cuStreamEndCapture(device.stream(), &mut graph)) };
        done.and(ended)?;
        let mut executable = std::ptr::null_mut();
        // SAFETY: the graph is whole; it is destroyed with this.
        unsafe {
            call!("capture", cuGraphInstantiateWithFlags(&mut executable, graph, 0))?;
            call!("capture", cuGraphUpload(executable, device.stream()))?;
        }
        Ok(Graph { graph, executable, device: device.clone() })
    }

    /// Launches it.
    pub(super) fn launch(&self) -> Result<(), CudaError> {
        // SAFETY: the graph is executable; what it uses outlives it.
        unsafe { call!("launch", cuGraphLaunch(self.executable, self.device.stream())) }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // Nothing is left to report to.
        // SAFETY: both were made in `capture` and are destroyed nowhere else.
        unsafe {
            let _ = sys::cuGraphExecDestroy(self.executable);
            let _ = sys::cuGraphDestroy(self.graph);
        }
    }
}
