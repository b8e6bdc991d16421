//! One GPU: its context, its one stream, and what is known about it.
//!
//! Verified on an H200: see `ci/evidence`. Not verified: MIG instances, more than one device in a process.

use std::ffi::{CStr, c_int};
use std::rc::Rc;

use cudarc::driver::sys;

use super::driver::{self, call};
use super::error::CudaError;

/// What identifies a device, as a trace's identity has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceName {
    /// place among the visible devices
    pub ordinal: u32,
    /// the model, as the driver names it
    pub model: String,
    /// `GPU-...` or `MIG-...`
    pub uuid: String,
    /// compute capability
    pub capability: (u32, u32),
    /// visible multiprocessors
    pub multiprocessors: u32,
    /// bytes of memory
    pub memory: usize,
}

/// An open device. Everything runs on its one stream, in order.
#[derive(Debug)]
pub struct Device {
    /// what it is
    pub name: DeviceName,
    raw: sys::CUdevice,
    stream: sys::CUstream,
    /// multiprocessors that launches are sized for
    launch_for: u32,
}

/// The driver's answer where no device is visible.
const NO_DEVICE: u32 = 100;

/// The visible devices. An absent driver, or none, is an error that says so.
pub fn devices() -> Result<Vec<DeviceName>, CudaError> {
    if !driver::is_present() {
        return Err(CudaError::NoDevice("libcuda.so.1 is not on the library path".to_owned()));
    }
    let mut count = 0;
    // SAFETY: the library is present; `count` outlives the call.
    let counted = unsafe { call!("open", cuInit(0)).and_then(|()| call!("open", cuDeviceGetCount(&mut count))) };
    let none = || CudaError::NoDevice("the driver shows none (CUDA_VISIBLE_DEVICES?)".to_owned());
    match counted {
        Err(CudaError::Driver { code, .. }) if code == NO_DEVICE => return Err(none()),
        Ok(()) if count == 0 => return Err(none()),
        other => other?,
    }
    (0..count).map(|i| describe(raw_device(i)?, i)).collect()
}

fn raw_device(ordinal: c_int) -> Result<sys::CUdevice, CudaError> {
    let mut raw = 0;
    // SAFETY: the driver is initialised; `raw` outlives the call.
    unsafe { call!("open", cuDeviceGet(&mut raw, ordinal))? };
    Ok(raw)
}

fn attribute(raw: sys::CUdevice, which: sys::CUdevice_attribute) -> Result<u32, CudaError> {
    let mut value = 0;
    // SAFETY: `raw` is a device of the initialised driver; `value` outlives the call.
    unsafe { call!("open", cuDeviceGetAttribute(&mut value, which, raw))? };
    Ok(u32::try_from(value).unwrap_or(0))
}

fn describe(raw: sys::CUdevice, ordinal: c_int) -> Result<DeviceName, CudaError> {
    use sys::CUdevice_attribute as A;
    let (mut model, mut uuid, mut memory) = ([0; 128], sys::CUuuid { bytes: [0; 16] }, 0);
    // SAFETY: the buffers outlive the calls and are as long as is said; names end in 0.
    let model = unsafe {
        call!("open", cuDeviceGetName(model.as_mut_ptr(), 127, raw))?;
        call!("open", cuDeviceGetUuid_v2(&mut uuid, raw))?;
        call!("open", cuDeviceTotalMem_v2(&mut memory, raw))?;
        CStr::from_ptr(model.as_ptr()).to_string_lossy().into_owned()
    };
    let hex: String = uuid.bytes.iter().map(|b| format!("{:02x}", *b as u8)).collect();
    let uuid = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-");
    Ok(DeviceName {
        ordinal: u32::try_from(ordinal).unwrap_or(0),
        model,
        uuid: format!("GPU-{uuid}"),
        capability: (
            attribute(raw, A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(raw, A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: attribute(raw, A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        memory,
    })
}

/// The device that `wanted` names: an index, a UUID, or the beginning of one.
fn chosen(wanted: &str) -> Result<DeviceName, CudaError> {
    let all = devices()?;
    let told = || all.iter().map(|d| format!("{} {} ({})", d.ordinal, d.uuid, d.model)).collect::<Vec<_>>().join(", ");
    let matches = |d: &&DeviceName| match wanted.parse::<u32>() {
        Ok(index) => d.ordinal == index,
        Err(_) => d.uuid.starts_with(wanted),
    };
    let found: Vec<&DeviceName> = all.iter().filter(matches).collect();
    match found[..] {
        [one] => Ok(one.clone()),
        [] => Err(CudaError::NoDevice(format!("none is {wanted:?}; visible: {}", told()))),
        _ => Err(CudaError::NoDevice(format!("{wanted:?} is the beginning of several; visible: {}", told()))),
    }
}

impl Device {
    /// Opens a device by index, UUID or the beginning of a UUID.
    pub fn open(wanted: &str) -> Result<Rc<Self>, CudaError> {
        let name = chosen(wanted)?;
        let raw = raw_device(c_int::try_from(name.ordinal).unwrap_or(0))?;
        let (mut context, mut stream) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: `raw` is a device of the initialised driver; the primary context is retained until this is dropped.
        unsafe {
            call!("open", cuDevicePrimaryCtxRetain(&mut context, raw))?;
            call!("open", cuCtxSetCurrent(context))?;
            let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            call!("open", cuStreamCreate(&mut stream, flags))?;
        }
        let launch_for = name.multiprocessors;
        Ok(Rc::new(Device { name, raw, stream, launch_for }))
    }

    /// The same device with launches sized for another number of multiprocessors: no bit may depend on it.
    pub fn open_as(wanted: &str, multiprocessors: u32) -> Result<Rc<Self>, CudaError> {
        let device = Device::open(wanted)?;
        match Rc::try_unwrap(device) {
            Ok(mut device) => {
                device.launch_for = multiprocessors;
                Ok(Rc::new(device))
            }
            Err(shared) => Ok(shared),
        }
    }

    /// Multiprocessors that launches are sized for.
    pub fn multiprocessors(&self) -> u32 {
        self.launch_for
    }

    /// The one stream.
    pub(super) fn stream(&self) -> sys::CUstream {
        self.stream
    }

    /// Asks for errors of what was launched, without waiting for it.
    pub fn poll(&self, phase: &'static str) -> Result<(), CudaError> {
        // SAFETY: the stream is open as long as `self`.
        let answer = unsafe { sys::cuStreamQuery(self.stream) };
        if answer as u32 == sys::CUresult::CUDA_ERROR_NOT_READY as u32 {
            return Ok(());
        }
        driver::check(answer, "cuStreamQuery", phase)
    }

    /// Waits for everything launched so far; errors of earlier launches show here.
    pub fn wait(&self, phase: &'static str) -> Result<(), CudaError> {
        // SAFETY: the stream is open as long as `self`.
        unsafe { call!(phase, cuStreamSynchronize(self.stream)) }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // Nothing is left to report to: a context that failed refuses these calls too.
        // SAFETY: buffers and modules hold the device, so nothing of it is in use any more.
        unsafe {
            let _ = sys::cuStreamDestroy_v2(self.stream);
            let _ = sys::cuDevicePrimaryCtxRelease_v2(self.raw);
        }
    }
}
