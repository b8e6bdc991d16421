//! What an engine reports to, and the views it reports.

use super::record::{Coverage, Dtype, Event, Level, Open, Ordered, Place, Status, TensorDecl};
use crate::digest::fingerprint::{Fingerprint, fingerprint};

/// A named tensor as raw little-endian bytes, valid for the call.
#[derive(Clone, Debug)]
pub struct TensorView<'a> {
    /// unique name
    pub name: String,
    /// element type
    pub dtype: Dtype,
    /// sizes, slowest first
    pub shape: Vec<usize>,
    /// raw little-endian bytes
    pub bytes: &'a [u8],
    /// a fingerprint kept up by the engine (coverage `written`)
    pub kept: Option<Fingerprint>,
    /// the fingerprint over every byte, where the engine took it and left the bytes where they are: `bytes` is empty then
    pub fp: Option<Fingerprint>,
}

impl<'a> TensorView<'a> {
    /// A view of plain data.
    pub fn new<T: bytemuck::NoUninit>(name: impl Into<String>, dtype: Dtype, shape: &[usize], data: &'a [T]) -> Self {
        TensorView {
            name: name.into(),
            dtype,
            shape: shape.to_vec(),
            bytes: bytemuck::cast_slice(data),
            kept: None,
            fp: None,
        }
    }

    /// As `open` declares it.
    pub fn declaration(&self) -> TensorDecl {
        let shape = self.shape.iter().map(|n| *n as u64).collect();
        TensorDecl { name: self.name.clone(), dtype: self.dtype, shape, coverage: self.coverage() }
    }

    /// Coverage that the kept fingerprint declares.
    pub fn coverage(&self) -> Coverage {
        if self.kept.is_some() { Coverage::Written } else { Coverage::Full }
    }

    /// The step fingerprint: the kept one, else over every byte.
    pub fn step_fingerprint(&self) -> Fingerprint {
        self.kept.or(self.fp).unwrap_or_else(|| fingerprint(self.bytes))
    }

    /// Every byte. Panics where the engine left them where they are: it was asked for too little.
    pub fn whole(&self) -> &'a [u8] {
        assert!(self.fp.is_none(), "{}: only its fingerprint was fetched", self.name);
        self.bytes
    }
}

/// One operation: inputs in the order they were read, outputs.
#[derive(Clone, Debug)]
pub struct OpView {
    /// name
    pub name: String,
    /// (name, fingerprint)
    pub inputs: Vec<(String, Fingerprint)>,
    /// (name, fingerprint)
    pub outputs: Vec<(String, Fingerprint)>,
}

/// What kind of place a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// after an update
    Step,
    /// after an evaluation
    Evaluation,
    /// at the end of a fold
    FoldEnd,
}

/// Everything an engine says at one moment.
#[derive(Debug, Default)]
pub struct Report<'a> {
    /// where
    pub place: Place,
    /// state and results, in list order
    pub tensors: Vec<TensorView<'a>>,
    /// readable numbers
    pub metrics: Vec<(&'static str, f64)>,
    /// operations since the last report, at level `op`
    pub ops: Vec<OpView>,
}

/// An error of the observer: the trace could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// writing failed
    #[error("{path}: cannot write the trace: {source}")]
    Write {
        /// file
        path: String,
        /// cause
        source: std::io::Error,
    },
    /// `--trace-limit` was reached
    #[error("{path}: the trace reached its limit of {limit} bytes at {place}; raise --trace-limit or lower --level")]
    Limit {
        /// file
        path: String,
        /// bytes
        limit: u64,
        /// where
        place: String,
    },
    /// a kept fingerprint is not that of the buffer
    #[error("{place}: the kept fingerprint of {tensor} is {kept}, a recomputation gives {full}")]
    Stale {
        /// where
        place: String,
        /// tensor
        tensor: String,
        /// as kept
        kept: Fingerprint,
        /// recomputed
        full: Fingerprint,
    },
}

/// What engines report to. Observing must not change the observed: every method sees borrowed bytes only.
pub trait Observer {
    /// How much the observer wants; an engine need not prepare more.
    fn level(&self) -> Level;
    /// True if small tensors are kept with their values.
    fn values(&self) -> bool {
        false
    }
    /// First call.
    fn open(&mut self, open: Open) -> Result<(), ObserveError>;
    /// At a moment.
    fn report(&mut self, moment: Moment, report: &Report<'_>) -> Result<(), ObserveError>;
    /// Something happened.
    fn event(&mut self, event: Event) -> Result<(), ObserveError>;
    /// Last call, with the final tensors.
    fn close(&mut self, status: Status, tensors: &[TensorView<'_>]) -> Result<(), ObserveError>;
}

/// An observer that wants nothing.
#[derive(Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn level(&self) -> Level {
        Level::Off
    }
    fn open(&mut self, _: Open) -> Result<(), ObserveError> {
        Ok(())
    }
    fn report(&mut self, _: Moment, _: &Report<'_>) -> Result<(), ObserveError> {
        Ok(())
    }
    fn event(&mut self, _: Event) -> Result<(), ObserveError> {
        Ok(())
    }
    fn close(&mut self, _: Status, _: &[TensorView<'_>]) -> Result<(), ObserveError> {
        Ok(())
    }
}

/// Fingerprints of operands as an [`OpView`] holds them.
pub fn operands(named: &[(&str, &[u8])]) -> Vec<(String, Fingerprint)> {
    named.iter().map(|(name, bytes)| ((*name).to_owned(), fingerprint(bytes))).collect()
}

pub(super) fn ordered<T: Clone>(pairs: &[(String, T)]) -> Ordered<T> {
    Ordered(pairs.to_vec())
}
