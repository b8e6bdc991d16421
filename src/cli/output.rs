//! Standard output and standard error that may be closed or full: no panic, no lost verdict.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::Mutex;

use crate::compare::verdict::exit;

static FAULT: Mutex<Option<String>> = Mutex::new(None);

/// Writes text to standard output. A reader that went away (`| head`) is fine; another fault is told at the end.
pub fn write(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let result = out.write_fmt(text).and_then(|()| out.flush());
    if let Err(e) = result
        && e.kind() != ErrorKind::BrokenPipe
    {
        *FAULT.lock().unwrap_or_else(|e| e.into_inner()) = Some(e.to_string());
    }
}

/// Writes an error message to standard error, if anyone reads it.
pub fn complain(message: &str) {
    let _ = writeln!(std::io::stderr(), "error: {message}");
}

/// Writes a remark to standard error, if anyone reads it.
pub fn remark(message: &str) {
    let _ = writeln!(std::io::stderr(), "{message}");
}

/// The exit code, given that output may have been lost.
pub fn finish(code: u8) -> u8 {
    match FAULT.lock().unwrap_or_else(|e| e.into_inner()).take() {
        Some(fault) => {
            complain(&format!("standard output cannot be written: {fault}"));
            if code == exit::SAME { exit::UNVERIFIED } else { code }
        }
        None => code,
    }
}

/// `print!` that does not panic.
#[macro_export]
macro_rules! tell {
    ($($part:tt)*) => { $crate::cli::output::write(format_args!($($part)*)) };
}

/// `println!` that does not panic.
#[macro_export]
macro_rules! say {
    () => { $crate::cli::output::write(format_args!("\n")) };
    ($($part:tt)*) => {{
        $crate::cli::output::write(format_args!($($part)*));
        $crate::cli::output::write(format_args!("\n"));
    }};
}
