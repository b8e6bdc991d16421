//! A buffer of floats that starts on a cache line, so that no full vector straddles two lines.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Floats from a cache line on; a slice in every other respect.
#[derive(Default)]
pub struct Aligned {
    storage: Vec<f32>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// `len` zeros.
    pub fn zeros(len: usize) -> Self {
        let storage = vec![0.0; len + LINE / size_of::<f32>()];
        let start = storage.as_ptr().align_offset(LINE);
        // An alignment that cannot be had costs speed only.
        let start = if start < LINE / size_of::<f32>() { start } else { 0 };
        Aligned { storage, start, len }
    }

    /// Sets the length; contents are unspecified where it grew beyond what was ever held.
    pub(super) fn resize(&mut self, len: usize) {
        if self.start + len > self.storage.len() {
            *self = Aligned::zeros(len);
        }
        self.len = len;
    }
}

impl Deref for Aligned {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.storage[self.start..self.start + self.len]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.storage[self.start..self.start + self.len]
    }
}

impl From<&[f32]> for Aligned {
    fn from(xs: &[f32]) -> Self {
        let mut own = Aligned::zeros(xs.len());
        own.copy_from_slice(xs);
        own
    }
}

impl Clone for Aligned {
    fn clone(&self) -> Self {
        Aligned::from(&**self)
    }
}

impl fmt::Debug for Aligned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
