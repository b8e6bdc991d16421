//! Host memory that a device can reach: page-locked, mapped, read only after a word says that it was written.

use std::fmt;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};

use bytemuck::Pod;

use super::buffer::Buffer;
use super::device::Device;
use super::driver::call;
use super::error::CudaError;

/// `len` values on the host.
pub struct Pinned<T> {
    host: NonNull<T>,
    on_device: u64,
    len: usize,
    device: Rc<Device>,
}

impl<T: Pod> Pinned<T> {
    /// All bytes zero.
    pub fn zeroed(device: &Rc<Device>, len: usize) -> Result<Self, CudaError> {
        let bytes = len.max(1) * size_of::<T>();
        let (mut host, mut on_device) = (std::ptr::null_mut(), 0);
        // SAFETY: the context is current; both addresses outlive the calls; the memory is as long as is said.
        unsafe {
            call!("allocate", cuMemHostAlloc(&mut host, bytes, cudarc::driver::sys::CU_MEMHOSTALLOC_DEVICEMAP))?;
            std::ptr::write_bytes(host.cast::<u8>(), 0, bytes);
            call!("allocate", cuMemHostGetDevicePointer_v2(&mut on_device, host, 0))?;
        }
        let host = NonNull::new(host.cast()).ok_or_else(|| CudaError::NoDevice("no page-locked memory".to_owned()))?;
        Ok(Pinned { host, on_device, len, device: device.clone() })
    }

    /// One value as it is now, though a device may write it at this moment.
    pub fn now(&self, at: usize) -> T {
        assert!(at < self.len, "value {at} of {}", self.len);
        // SAFETY: within the allocation; a value of at most 8 bytes is written whole by a device.
        let value = unsafe { self.host.add(at).read_volatile() };
        fence(Ordering::Acquire);
        value
    }

    /// Copies a buffer here, in stream order. Read it after a later word was seen.
    pub fn copy_from(&mut self, buffer: &Buffer<T>) -> Result<(), CudaError> {
        assert_eq!(self.len, buffer.len(), "buffers of one length");
        let (to, from, bytes) = (self.host.as_ptr().cast(), buffer.address(), self.len * size_of::<T>());
        // SAFETY: both are as long as is said; page-locked memory stays in place until this is dropped.
        unsafe { call!("copy", cuMemcpyDtoHAsync_v2(to, from, bytes, self.device.stream())) }
    }

    /// All values; only after a word that follows their copy was seen.
    pub fn read(&self) -> Vec<T> {
        (0..self.len).map(|at| self.now(at)).collect()
    }

    /// Where a device finds it.
    pub(super) fn on_device(&self) -> u64 {
        self.on_device
    }
}

impl<T> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned of {} {}", self.len, std::any::type_name::<T>())
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        // Work that still writes here must end first; nothing is left to report to.
        let _ = self.device.wait("free");
        // SAFETY: the address came from cuMemHostAlloc, and nothing uses it any more.
        let _ = unsafe { cudarc::driver::sys::cuMemFreeHost(self.host.as_ptr().cast()) };
    }
}
