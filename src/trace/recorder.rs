//! The observer that writes a trace file.

use std::path::{Path, PathBuf};

use super::observer::{Moment, ObserveError, Observer, Report, TensorView, ordered};
use super::record::{Body, Close, Event, Level, Number, Op, Open, Ordered, Record, Status};
use super::writer::Writer;
use crate::digest::fingerprint::{Fingerprint, fingerprint};
use crate::digest::root::root;
use crate::digest::sha::{Digest, sha256, to_hex};

/// Largest tensor, in bytes, that `--values` keeps in a record.
pub const VALUE_LIMIT: usize = 1024;

/// Writes what an engine reports to one trace file.
#[derive(Debug)]
pub struct Recorder {
    writer: Option<Writer>,
    path: PathBuf,
    level: Level,
    values: bool,
    limit: u64,
    rank: u32,
    finished: Option<Finished>,
}

/// A closed trace.
#[derive(Clone, Debug)]
pub struct Finished {
    /// the file
    pub path: PathBuf,
    /// root of the final tensors
    pub root: Digest,
}

impl Recorder {
    /// A recorder for `path`. `limit` is in bytes before compression.
    pub fn create(path: &Path, level: Level, values: bool, limit: u64) -> Result<Self, ObserveError> {
        let writer = Writer::create(path).map_err(|source| write_error(path, source))?;
        Ok(Recorder { writer: Some(writer), path: path.to_owned(), level, values, limit, rank: 0, finished: None })
    }

    /// The closed trace, once [`Observer::close`] was called.
    pub fn finished(&self) -> Option<&Finished> {
        self.finished.as_ref()
    }

    fn write(&mut self, record: &Record, place: &str) -> Result<(), ObserveError> {
        let Some(writer) = &mut self.writer else {
            return Err(write_error(&self.path, std::io::Error::other("the trace is closed")));
        };
        if writer.bytes() > self.limit {
            let path = self.path.display().to_string();
            return Err(ObserveError::Limit { path, limit: self.limit, place: place.to_owned() });
        }
        writer.write(record).map_err(|source| write_error(&self.path, source))
    }

    fn body(&self, moment: Moment, report: &Report<'_>) -> Result<Body, ObserveError> {
        let with_sha = self.level >= Level::Tensor || moment != Moment::Step;
        let mut body = Body { place: report.place.clone(), ..Body::default() };
        body.place.rank = self.rank;
        for tensor in &report.tensors {
            body.fp.0.push((tensor.name.clone(), self.checked(moment, tensor, &report.place.to_string())?));
            if with_sha {
                body.sha256.0.push((tensor.name.clone(), sha256(tensor.whole())));
            }
            if self.values && tensor.whole().len() <= VALUE_LIMIT {
                body.values.0.push((tensor.name.clone(), to_hex(tensor.whole())));
            }
        }
        body.metrics.0.extend(report.metrics.iter().map(|(name, x)| ((*name).to_owned(), Number::new(*x))));
        if self.level == Level::Op {
            let op = |o: &super::observer::OpView| Op {
                op: o.name.clone(),
                inputs: ordered(&o.inputs),
                outputs: ordered(&o.outputs),
            };
            body.ops = report.ops.iter().map(op).collect();
        }
        Ok(body)
    }

    /// The step fingerprint; at evaluations and fold ends a kept one must equal a full recomputation.
    fn checked(&self, moment: Moment, tensor: &TensorView<'_>, place: &str) -> Result<Fingerprint, ObserveError> {
        let value = tensor.step_fingerprint();
        if moment != Moment::Step && tensor.kept.is_some() {
            let full = fingerprint(tensor.whole());
            if full != value {
                let (place, tensor) = (place.to_owned(), tensor.name.clone());
                return Err(ObserveError::Stale { place, tensor, kept: value, full });
            }
        }
        Ok(value)
    }
}

impl Observer for Recorder {
    fn level(&self) -> Level {
        self.level
    }

    fn values(&self) -> bool {
        self.values
    }

    fn open(&mut self, mut open: Open) -> Result<(), ObserveError> {
        self.rank = open.rank;
        open.level = self.level;
        self.write(&Record::Open(open), "the start")
    }

    fn report(&mut self, moment: Moment, report: &Report<'_>) -> Result<(), ObserveError> {
        if self.level == Level::Off {
            return Ok(());
        }
        let body = self.body(moment, report)?;
        let record = match moment {
            Moment::Step => Record::Step(body),
            Moment::Evaluation => Record::Eval(body),
            Moment::FoldEnd => Record::Fold(body),
        };
        self.write(&record, &report.place.to_string())
    }

    fn event(&mut self, mut event: Event) -> Result<(), ObserveError> {
        event.place.rank = self.rank;
        let place = event.place.to_string();
        self.write(&Record::Event(event), &place)
    }

    fn close(&mut self, status: Status, tensors: &[TensorView<'_>]) -> Result<(), ObserveError> {
        let named = tensors.iter().map(|t| (t.name.clone(), sha256(t.whole())));
        let sha256 = Ordered(named.collect());
        let root = root(sha256.iter());
        let records = self.writer.as_ref().map_or(0, Writer::records);
        self.write(&Record::Close(Close { rank: self.rank, records, status, sha256, root }), "the end")?;
        if let Some(writer) = self.writer.take() {
            let path = writer.finish().map_err(|source| write_error(&self.path, source))?;
            self.finished = Some(Finished { path, root });
        }
        Ok(())
    }
}

fn write_error(path: &Path, source: std::io::Error) -> ObserveError {
    ObserveError::Write { path: path.display().to_string(), source }
}
