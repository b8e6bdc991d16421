//! Device memory: allocated once by cuMemAlloc, addressed by raw addresses, read and written in stream order.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::rc::Rc;

use bytemuck::Pod;

use super::device::Device;
use super::driver::call;
use super::error::CudaError;

/// `len` values on a device.
pub struct Buffer<T> {
    address: u64,
    len: usize,
    device: Rc<Device>,
    values: PhantomData<T>,
}

/// A part of a buffer that kernels read.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a, T> {
    address: u64,
    len: usize,
    values: PhantomData<&'a [T]>,
}

/// A part of a buffer that kernels write.
#[derive(Debug)]
pub struct SliceMut<'a, T> {
    address: u64,
    len: usize,
    values: PhantomData<&'a mut [T]>,
}

impl<T: Pod> Buffer<T> {
    /// All bytes zero. An empty buffer has room for one value, so that its address is valid.
    pub fn zeroed(device: &Rc<Device>, len: usize) -> Result<Self, CudaError> {
        let bytes = len.max(1) * size_of::<T>();
        let mut address = 0;
        // SAFETY: the context is current; `address` outlives the calls; the memory is as long as is said.
        unsafe {
            call!("allocate", cuMemAlloc_v2(&mut address, bytes))?;
            call!("allocate", cuMemsetD8Async(address, 0, bytes, device.stream()))?;
        }
        Ok(Buffer { address, len, device: device.clone(), values: PhantomData })
    }

    /// Holds these values.
    pub fn of(device: &Rc<Device>, values: &[T]) -> Result<Self, CudaError> {
        let mut buffer = Buffer::zeroed(device, values.len())?;
        buffer.write(0, values)?;
        Ok(buffer)
    }

    /// Overwrites values from `at` on, and waits.
    pub fn write(&mut self, at: usize, values: &[T]) -> Result<(), CudaError> {
        assert!(at + values.len() <= self.len, "{} values at {at} of {}", values.len(), self.len);
        let (to, bytes) = (self.address + (at * size_of::<T>()) as u64, size_of_val(values));
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: both sides are as long as is said, and the host's side outlives the wait.
        unsafe { call!("upload", cuMemcpyHtoDAsync_v2(to, values.as_ptr().cast(), bytes, self.device.stream()))? };
        self.device.wait("upload")
    }

    /// All values, after everything launched before.
    pub fn read(&self) -> Result<Vec<T>, CudaError> {
        self.read_range(0..self.len)
    }

    /// Some values, after everything launched before.
    pub fn read_range(&self, range: Range<usize>) -> Result<Vec<T>, CudaError> {
        let part = self.slice(range);
        let mut values = vec![T::zeroed(); part.len];
        if values.is_empty() {
            return Ok(values);
        }
        let bytes = size_of_val(&values[..]);
        // SAFETY: both sides are as long as is said, and the host's side outlives the wait.
        unsafe {
            call!(
                "download",
                cuMemcpyDtoHAsync_v2(values.as_mut_ptr().cast(), part.address, bytes, self.device.stream())
            )?;
        }
        self.device.wait("download")?;
        Ok(values)
    }

    /// Sets all bytes to zero, in stream order.
    pub fn clear(&mut self) -> Result<(), CudaError> {
        let bytes = self.len * size_of::<T>();
        // SAFETY: the memory is as long as is said.
        unsafe { call!("clear", cuMemsetD8Async(self.address, 0, bytes, self.device.stream())) }
    }

    /// Copies another buffer's values, in stream order.
    pub fn copy_from(&mut self, other: &Buffer<T>) -> Result<(), CudaError> {
        assert_eq!(self.len, other.len, "buffers of one length");
        let bytes = self.len * size_of::<T>();
        // SAFETY: both are as long as is said and do not overlap, being two buffers.
        unsafe { call!("copy", cuMemcpyDtoDAsync_v2(self.address, other.address, bytes, self.device.stream())) }
    }

    /// A part, to be read.
    pub fn slice(&self, range: Range<usize>) -> Slice<'_, T> {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        let address = self.address + (range.start * size_of::<T>()) as u64;
        Slice { address, len: range.len(), values: PhantomData }
    }

    /// A part, to be written.
    pub fn slice_mut(&mut self, range: Range<usize>) -> SliceMut<'_, T> {
        let Slice { address, len, .. } = self.slice(range);
        SliceMut { address, len, values: PhantomData }
    }

    /// Parts that do not overlap, in ascending order, to be written.
    pub fn parts_mut(&mut self, ranges: &[Range<usize>]) -> Vec<SliceMut<'_, T>> {
        assert!(ranges.windows(2).all(|w| w[0].end <= w[1].start), "parts apart: {ranges:?}");
        let part = |range: &Range<usize>| {
            let Slice { address, len, .. } = self.slice(range.clone());
            SliceMut { address, len, values: PhantomData }
        };
        ranges.iter().map(part).collect()
    }

    /// What lies before and after a place, to be written.
    pub fn halves_mut(&mut self, at: usize) -> [SliceMut<'_, T>; 2] {
        let part = |range: Range<usize>| {
            let Slice { address, len, .. } = self.slice(range);
            SliceMut { address, len, values: PhantomData }
        };
        [part(0..at), part(at..self.len)]
    }

    /// Everything, to be read.
    pub fn all(&self) -> Slice<'_, T> {
        self.slice(0..self.len)
    }

    /// Everything, to be written.
    pub fn all_mut(&mut self) -> SliceMut<'_, T> {
        self.slice_mut(0..self.len)
    }
}

impl<T> Buffer<T> {
    /// Values held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when none are held.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it lies on the device; valid as long as the buffer.
    pub(super) fn address(&self) -> u64 {
        self.address
    }
}

impl<'a, T> Slice<'a, T> {
    /// One value of another type at this many bytes from the start.
    pub(super) fn part<U>(self, bytes: usize) -> Slice<'a, U> {
        assert!(bytes + size_of::<U>() <= self.len * size_of::<T>(), "{bytes} bytes from the start");
        assert!(bytes.is_multiple_of(align_of::<U>()), "{bytes} bytes from the start");
        Slice { address: self.address + bytes as u64, len: 1, values: PhantomData }
    }

    /// The same memory, byte by byte.
    pub(super) fn bytes(self) -> Slice<'a, u8> {
        Slice { address: self.address, len: self.len * size_of::<T>(), values: PhantomData }
    }

    /// One value, after everything launched before.
    pub(super) fn read_one(self, device: &Device, at: usize) -> Result<T, CudaError>
    where
        T: Pod,
    {
        assert!(at < self.len, "value {at} of {}", self.len);
        let (mut value, from) = (T::zeroed(), self.address + (at * size_of::<T>()) as u64);
        // SAFETY: both sides hold one value, and the host's side outlives the wait.
        unsafe {
            let to = std::ptr::from_mut(&mut value).cast();
            call!("download", cuMemcpyDtoHAsync_v2(to, from, size_of::<T>(), device.stream()))?;
        }
        device.wait("download")?;
        Ok(value)
    }

    /// Values in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it lies on the device.
    pub(super) fn address(&self) -> u64 {
        self.address
    }
}

impl<T> SliceMut<'_, T> {
    /// Values in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it lies on the device.
    pub(super) fn address(&self) -> u64 {
        self.address
    }
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer of {} {}", self.len, std::any::type_name::<T>())
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        // Nothing is left to report to: a context that failed refuses this call too.
        // SAFETY: the address came from cuMemAlloc; cuMemFree waits for work that uses it.
        let _ = unsafe { cudarc::driver::sys::cuMemFree_v2(self.address) };
    }
}
