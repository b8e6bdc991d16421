//! Modules, functions whose parameters were checked when they were loaded, and launches.

use std::ffi::{CString, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

use cudarc::driver::sys;

use super::compile::{Compiler, Source};
use super::device::Device;
use super::driver::call;
use super::error::CudaError;

/// A value that a kernel takes by value.
///
/// # Safety
/// The type has the same size, alignment and layout as the kernel's parameter.
pub(super) unsafe trait Param: Copy + 'static {}

// SAFETY: CUDA's unsigned int, unsigned long long and float, and addresses as unsigned long long.
unsafe impl Param for u32 {}
// SAFETY: as above.
unsafe impl Param for u64 {}
// SAFETY: as above.
unsafe impl Param for f32 {}

/// A kernel's parameters, in order.
pub(super) trait Params: Copy {
    /// Size of each in bytes.
    fn sizes() -> Vec<usize>;
    /// Where each lies.
    fn pointers(&self) -> Vec<*mut c_void>;
}

macro_rules! params {
    ($($name:ident $index:tt),+) => {
        impl<$($name: Param),+> Params for ($($name,)+) {
            fn sizes() -> Vec<usize> {
                vec![$(size_of::<$name>()),+]
            }
            fn pointers(&self) -> Vec<*mut c_void> {
                vec![$(std::ptr::from_ref(&self.$index).cast_mut().cast()),+]
            }
        }
    };
}
params!(A 0);
params!(A 0, B 1);
params!(A 0, B 1, C 2);
params!(A 0, B 1, C 2, D 3);
params!(A 0, B 1, C 2, D 3, E 4);
params!(A 0, B 1, C 2, D 3, E 4, F 5);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
params!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);

/// A loaded module, unloaded when dropped.
#[derive(Debug)]
pub(super) struct Module {
    raw: sys::CUmodule,
    device: Rc<Device>,
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: the module was loaded and is not unloaded elsewhere; its functions hold it.
        let _ = unsafe { sys::cuModuleUnload(self.raw) };
    }
}

/// A kernel that takes `P`.
pub(super) struct Function<P> {
    raw: sys::CUfunction,
    module: Rc<Module>,
    params: PhantomData<P>,
}

impl<P> fmt::Debug for Function<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function at {:?}", self.raw)
    }
}

impl Module {
    /// Compiles a source for the device, or takes it from the kept ones, and loads it.
    pub(super) fn load(device: &Rc<Device>, compiler: &Compiler, source: &Source) -> Result<Rc<Self>, CudaError> {
        let code = compiler.cubin(source, device.name.capability)?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the code is a whole cubin, which the driver checks and copies.
        unsafe { call!("load kernels", cuModuleLoadData(&mut raw, code.as_ptr().cast()))? };
        Ok(Rc::new(Module { raw, device: device.clone() }))
    }
}

impl<P: Params> Function<P> {
    /// Finds a kernel by name and checks the number and sizes of its parameters.
    pub(super) fn of(module: &Rc<Module>, name: &'static str) -> Result<Self, CudaError> {
        let mut raw = std::ptr::null_mut();
        let text = CString::new(name).unwrap_or_default();
        // SAFETY: the module is loaded; the name ends in 0.
        unsafe { call!("load kernels", cuModuleGetFunction(&mut raw, module.raw, text.as_ptr()))? };
        let wanted = P::sizes();
        let found = sizes(raw, wanted.len() + 1);
        if found != wanted {
            let detail = format!("its parameters take {found:?} bytes, its launcher passes {wanted:?}");
            return Err(CudaError::Signature { name, detail });
        }
        Ok(Function { raw, module: module.clone(), params: PhantomData })
    }

    /// Lets a launch take this much dynamic shared memory.
    pub(super) fn allow_shared(&self, bytes: u32) -> Result<(), CudaError> {
        let which = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function is loaded.
        unsafe { call!("load kernels", cuFuncSetAttribute(self.raw, which, i32::try_from(bytes).unwrap_or(i32::MAX))) }
    }

    /// Blocks of `threads` threads that fit on one multiprocessor at a time, at least 1.
    pub(super) fn resident(&self, threads: u32, shared: u32) -> Result<u32, CudaError> {
        let mut blocks = 0;
        // SAFETY: the function is loaded; `blocks` outlives the call.
        unsafe {
            call!(
                "load kernels",
                cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, self.raw, threads as i32, shared as usize)
            )?;
        }
        Ok(u32::try_from(blocks).unwrap_or(1).max(1))
    }

    /// Launches the kernel on the device's stream.
    ///
    /// # Safety
    /// Addresses among the parameters are valid for what the kernel reads and writes through them, do not alias where it
    /// writes, and stay valid until the stream has passed the launch.
    pub(super) unsafe fn launch(&self, grid: u32, threads: u32, shared: u32, params: P) -> Result<(), CudaError> {
        let mut pointers = params.pointers();
        let stream = self.module.device.stream();
        // SAFETY: the pointers are to parameters of the sizes checked at load, which the call copies; the rest is the caller's.
        unsafe {
            call!(
                "launch",
                cuLaunchKernel(
                    self.raw,
                    grid,
                    1,
                    1,
                    threads,
                    1,
                    1,
                    shared,
                    stream,
                    pointers.as_mut_ptr(),
                    std::ptr::null_mut()
                )
            )
        }
    }

    /// Launches a grid-stride kernel over `items` items with blocks of 256 threads.
    ///
    /// # Safety
    /// As [`Function::launch`].
    pub(super) unsafe fn over(&self, items: u64, params: P) -> Result<(), CudaError> {
        const THREADS: u32 = 256;
        let most = u64::from(self.module.device.multiprocessors()) * 8;
        let blocks = items.div_ceil(u64::from(THREADS)).clamp(1, most);
        // SAFETY: the caller's.
        unsafe { self.launch(blocks as u32, THREADS, 0, params) }
    }

    /// The device it runs on.
    pub(super) fn device(&self) -> &Rc<Device> {
        &self.module.device
    }
}

/// Sizes of a kernel's parameters, at most `limit` of them.
fn sizes(function: sys::CUfunction, limit: usize) -> Vec<usize> {
    let size = |index: usize| {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: the function is loaded; both numbers outlive the call, which refuses an index past the last.
        let answer = unsafe { sys::cuFuncGetParamInfo(function, index, &mut offset, &mut size) } as u32;
        (answer == 0).then_some(size)
    };
    (0..limit).map_while(size).collect()
}
