//! Traces: no bytes make the reader panic or fill the memory, nothing cut reads as complete, and a trace is the same as
//! itself.
//!
//! The bytes are read as they are, which never gets past the chain, and as the bodies of records, one a line, which are
//! chained here; a closing record gets its count and root. A line `===` begins a second trace, compared with the first.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use samebits::compare::traces::compare;
use samebits::compare::verdict::Verdict;
use samebits::digest::root::root;
use samebits::scenario::case::Scope;
use samebits::trace::reader::{ReadError, Trace, read_from};
use samebits::trace::record::Record;
use samebits::trace::writer::{chain_next, chain_start, line};

fn read(bytes: &[u8]) -> Result<Trace, ReadError> {
    let result = read_from(Path::new("fuzz.jsonl"), bytes);
    if let Err(error) = &result {
        assert!(error.to_string().starts_with("fuzz.jsonl:"), "{error}");
    }
    result
}

/// The lines of a trace whose records have these bodies.
fn chained(bodies: &str) -> String {
    let (mut chain, mut text) = (chain_start(), String::new());
    for (i, body) in bodies.lines().enumerate() {
        let (next, one) = match serde_json::from_str(body) {
            Ok(Record::Close(mut close)) => {
                (close.records, close.root) = (i as u64, root(close.sha256.iter()));
                line(chain, &Record::Close(close)).expect("a record has a JSON form")
            }
            _ => {
                let body = body.strip_suffix('}').unwrap_or(body);
                let next = chain_next(chain, body);
                (next, format!("{body},\"chain\":\"{next}\"}}\n"))
            }
        };
        chain = next;
        text.push_str(&one);
    }
    text
}

fn check(text: &str, trace: &Trace) {
    let declared = |name: &str| trace.declared().any(|t| t.name == name);
    for (_, body) in &trace.bodies {
        assert!(body.fp.iter().all(|(name, _)| declared(name)));
    }
    assert_eq!(trace.close.records as usize, 1 + trace.bodies.len() + trace.events.len());
    // Cut inside the last line, and before it.
    for cut in [text.len() / 3, text.len() - 1, text[..text.len() - 1].rfind('\n').map_or(0, |at| at + 1)] {
        let error = read(&text.as_bytes()[..cut]).expect_err("cut");
        assert_eq!(error.reason(), "cut-trace", "{error}");
    }
    let own = compare(trace, trace, &Scope::default());
    assert!(!matches!(own.verdict, Verdict::Different), "a trace differs from itself: {:?}", own.first);
}

fuzz_target!(|data: &[u8]| {
    let _ = read(data);
    let text = String::from_utf8_lossy(data);
    let (a, b) = text.split_once("\n===\n").unwrap_or((&text, ""));
    let [a, b] = [a, b].map(|bodies| {
        let text = chained(bodies);
        let trace = read(text.as_bytes());
        trace.iter().for_each(|trace| check(&text, trace));
        trace
    });
    if let (Ok(a), Ok(b)) = (a, b) {
        let (one, other) = (compare(&a, &b, &Scope::default()), compare(&b, &a, &Scope::default()));
        assert_eq!(one.verdict.word(), other.verdict.word(), "the order decides");
    }
});
