//! Reads a trace record by record and refuses what is not one.
//!
//! Verified: every line's chain (a changed record is named), that the first record is `open` and the last `close` with
//! the right count and root, what [`super::check`] demands of each record, that lengths stay within limits whatever a
//! file claims. Not verified: that the digests are those of the run; a lying engine writes a valid trace.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::check::Check;
use super::files;
use super::record::{Body, Close, Event, Open, Record, SCHEMA, TensorDecl};
use super::writer::{CHAIN_MEMBER, chain_next, chain_start, part_name};
use crate::digest::root::root;
use crate::digest::sha::Digest;

/// Longest line that is read, in bytes.
pub const LINE_LIMIT: u64 = 64 << 20;
/// Most bytes of one trace that are read, after decompression: what a recorder writes at most, and its last lines.
pub const TRACE_LIMIT: u64 = (4 << 30) + 2 * LINE_LIMIT;
/// Most bytes of a trace that was not closed in which events are looked for.
pub const PREFIX_LIMIT: u64 = 64 << 20;

/// Why a file is not a complete trace.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// cannot be read at all
    #[error("{path}: {detail}")]
    Unreadable {
        /// file
        path: String,
        /// what happened and what to do
        detail: String,
    },
    /// the file ends before `close`
    #[error("{path}: cut: it ends after {records} records without a closing record{hint}")]
    Cut {
        /// file
        path: String,
        /// readable records
        records: u64,
        /// where it breaks off
        hint: String,
    },
    /// a record is not what was written
    #[error("{path}:{line}: altered: {detail}")]
    Altered {
        /// file
        path: String,
        /// line, from 1
        line: u64,
        /// what is wrong
        detail: String,
    },
    /// not this format
    #[error("{path}:{line}: not a {SCHEMA} record: {detail}")]
    Format {
        /// file
        path: String,
        /// line, from 1
        line: u64,
        /// what is wrong
        detail: String,
    },
}

impl ReadError {
    /// The reason word of the verdict `unverified`.
    pub fn reason(&self) -> &'static str {
        match self {
            ReadError::Unreadable { .. } => "no-evidence",
            ReadError::Cut { .. } => "cut-trace",
            ReadError::Altered { .. } => "altered-trace",
            ReadError::Format { .. } => "not-comparable",
        }
    }
}

/// A complete trace in memory.
#[derive(Clone, Debug)]
pub struct Trace {
    /// where it came from
    pub path: PathBuf,
    /// first record
    pub open: Open,
    /// `step`, `eval` and `fold` records in order
    pub bodies: Vec<(&'static str, Body)>,
    /// events in order
    pub events: Vec<Event>,
    /// last record
    pub close: Close,
    /// chained digest over all records
    pub chain: Digest,
}

impl Trace {
    /// Every declared tensor: those of `open`, then those that events declared, in order.
    pub fn declared(&self) -> impl Iterator<Item = &TensorDecl> {
        self.open.tensors.iter().chain(self.events.iter().flat_map(|e| &e.tensors))
    }
}

/// Reads a whole trace file, plain or zstd.
pub fn read(path: &Path) -> Result<Trace, ReadError> {
    let file = files::open(path).map_err(|e| {
        let hint =
            if part_name(path).exists() { " (its run did not finish: there is only the unfinished .part)" } else { "" };
        ReadError::Unreadable { path: path.display().to_string(), detail: format!("{e}{hint}") }
    })?;
    let mut start = BufReader::new(file);
    let zstd = start.fill_buf().is_ok_and(|b| b.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]));
    if zstd {
        let unreadable =
            |e: io::Error| ReadError::Unreadable { path: path.display().to_string(), detail: e.to_string() };
        let mut decoder = zstd::Decoder::with_buffer(start).map_err(unreadable)?;
        decoder.window_log_max(27).map_err(unreadable)?;
        read_from(path, BufReader::new(decoder))
    } else {
        read_from(path, start)
    }
}

/// Reads a whole trace from a stream; `path` is for messages.
pub fn read_from(path: &Path, source: impl BufRead) -> Result<Trace, ReadError> {
    let mut lines = Lines { path, source: source.take(TRACE_LIMIT), line: 0, chain: chain_start() };
    let open = match lines.next()? {
        Some(Record::Open(open)) => open,
        Some(other) => return Err(lines.format(format!("the first record is {:?}, expected \"open\"", other.kind()))),
        None => return Err(lines.cut("")),
    };
    let mut check = Check::open(&open).map_err(|detail| lines.format(detail))?;
    let (mut bodies, mut events) = (Vec::new(), Vec::new());
    let close = loop {
        let record = lines.next()?.ok_or_else(|| lines.cut(""))?;
        if record.rank() != open.rank {
            return Err(lines.format(format!("rank {} in a trace of rank {}", record.rank(), open.rank)));
        }
        let kind = record.kind();
        match record {
            Record::Open(_) => return Err(lines.format("a second \"open\"".to_owned())),
            Record::Step(body) | Record::Eval(body) | Record::Fold(body) => {
                check.body(kind, &body).map_err(|detail| lines.format(detail))?;
                bodies.push((kind, body));
            }
            Record::Event(event) => {
                check.event(&event).map_err(|detail| lines.format(detail))?;
                events.push(event);
            }
            Record::Close(close) => break close,
        }
    };
    check_close(&mut lines, &close, &check)?;
    let chain = lines.chain;
    Ok(Trace { path: path.to_owned(), open, bodies, events, close, chain })
}

/// Events in the readable prefix of a trace that was not closed; none when there is no such file.
pub fn prefix_events(path: &Path) -> Vec<Event> {
    let Ok(file) = files::open(path) else { return Vec::new() };
    let mut lines = Lines { path, source: BufReader::new(file).take(PREFIX_LIMIT), line: 0, chain: chain_start() };
    let mut events = Vec::new();
    while let Ok(Some(record)) = lines.next() {
        if let Record::Event(event) = record {
            events.push(event);
        }
    }
    events
}

fn check_close<R: BufRead>(lines: &mut Lines<'_, R>, close: &Close, check: &Check) -> Result<(), ReadError> {
    if close.records != lines.line - 1 {
        let found = lines.line - 1;
        return Err(lines.altered(format!("it counts {} records before it, there are {found}", close.records)));
    }
    check.close(close).map_err(|detail| lines.format(detail))?;
    if root(close.sha256.iter()) != close.root {
        return Err(lines.altered("the root is not that of the final digests".to_owned()));
    }
    match lines.next_line()? {
        None => Ok(()),
        Some(_) => Err(lines.altered("there is more after the closing record".to_owned())),
    }
}

struct Lines<'a, R> {
    path: &'a Path,
    source: io::Take<R>,
    line: u64,
    chain: Digest,
}

impl<R: BufRead> Lines<'_, R> {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn format(&self, detail: String) -> ReadError {
        ReadError::Format { path: self.name(), line: self.line, detail }
    }

    fn altered(&self, detail: String) -> ReadError {
        ReadError::Altered { path: self.name(), line: self.line, detail }
    }

    fn cut(&self, hint: &str) -> ReadError {
        ReadError::Cut { path: self.name(), records: self.line, hint: hint.to_owned() }
    }

    /// The next line without its end; None at the end of the file; an unfinished line is a cut.
    fn next_line(&mut self) -> Result<Option<String>, ReadError> {
        let mut bytes = Vec::new();
        let read = self.source.by_ref().take(LINE_LIMIT).read_until(b'\n', &mut bytes);
        if let Err(e) = read {
            return Err(match e.kind() {
                io::ErrorKind::UnexpectedEof => self.cut(" (the compressed data ends early)"),
                _ => self.cut(&format!(" ({e})")),
            });
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        if bytes.pop() != Some(b'\n') {
            let long = bytes.len() as u64 + 1 >= LINE_LIMIT;
            return Err(self.cut(if long { ": a line is too long" } else { ": its last line is unfinished" }));
        }
        self.line += 1;
        String::from_utf8(bytes).map(Some).map_err(|_| self.altered("not UTF-8".to_owned()))
    }

    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        let Some(line) = self.next_line()? else { return Ok(None) };
        let (body, chain) = match split_chain(&line) {
            Some(parts) => parts,
            None => return Err(self.format("the line does not end in its \"chain\" member".to_owned())),
        };
        let expected = chain_next(self.chain, body);
        if chain != expected.to_string() {
            return Err(self.altered(format!("{} does not match its chain", describe(body))));
        }
        self.chain = expected;
        let mut text = body.to_owned();
        text.push('}');
        serde_json::from_str(&text).map(Some).map_err(|e| self.format(e.to_string()))
    }
}

fn split_chain(line: &str) -> Option<(&str, &str)> {
    let at = line.rfind(CHAIN_MEMBER)?;
    let chain = line[at + CHAIN_MEMBER.len()..].strip_suffix("\"}")?;
    (chain.len() == 64).then_some((&line[..at], chain))
}

/// `the record "step" (fold 0, step 3)`, from text that may be anything.
fn describe(body: &str) -> String {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(&format!("{body}}}")) else {
        return "this record".to_owned();
    };
    let place = super::record::Place {
        rank: 0,
        fold: value["fold"].as_u64().and_then(|x| u32::try_from(x).ok()),
        step: value["step"].as_u64(),
        phase: None,
        eval: value["eval"].as_u64(),
    };
    format!("the record {} ({place})", value["kind"])
}
