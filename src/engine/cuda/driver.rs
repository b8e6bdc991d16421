//! Calls of the driver, each checked where it is made.
//!
//! cudarc's safe layer is left alone: it records events once a context has two streams, and chooses asynchronous
//! allocation by itself. These calls do neither. Answers are read as numbers of 32 bits, so that one that this version
//! of the bindings does not know is printed.

use std::ffi::CStr;

use cudarc::driver::sys;

use super::error::CudaError;

/// Turns a driver's answer into a result; `call` and `phase` are for people.
pub(super) fn check(answer: sys::CUresult, call: &'static str, phase: &'static str) -> Result<(), CudaError> {
    let code = answer as u32;
    if code == 0 {
        return Ok(());
    }
    Err(CudaError::Driver { phase, call, code, text: words(answer) })
}

/// The driver's name of an answer.
fn words(answer: sys::CUresult) -> String {
    let mut name = std::ptr::null();
    // SAFETY: `name` outlives the call, which writes a pointer to a static string of the driver's, or nothing.
    let known = unsafe { sys::cuGetErrorName(answer, &mut name) } as u32 == 0 && !name.is_null();
    if !known {
        return "unknown to this driver".to_owned();
    }
    // SAFETY: the driver answered success, so the pointer is a string of its own that is never freed.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

/// Makes a driver call in a phase: `call!("open", cuInit(0))`.
macro_rules! call {
    ($phase:expr, $function:ident ( $($argument:expr),* $(,)? )) => {
        super::driver::check(
            cudarc::driver::sys::$function($($argument),*),
            stringify!($function),
            $phase,
        )
    };
}
pub(super) use call;

/// True when a driver can be loaded; cudarc panics on the first call otherwise.
pub(super) fn is_present() -> bool {
    // SAFETY: opens and closes a library by name; its initialisers are the driver's own.
    unsafe { sys::is_culib_present() }
}
