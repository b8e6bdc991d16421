//! The trace's reader and the comparison of traces: nothing incomplete or changed may read as complete.

use std::io::BufReader;
use std::path::Path;

use proptest::prelude::*;
use samebits::compare::evidence::{self, compare};
use samebits::compare::verdict::{Reason, Verdict};
use samebits::scenario::case::Scope;
use samebits::trace::example::{lines, records};
use samebits::trace::reader::{ReadError, read_from};
use samebits::trace::record::{Number, Record, SCHEMA};

fn read(text: &[u8]) -> Result<samebits::trace::reader::Trace, ReadError> {
    read_from(Path::new("x.jsonl"), BufReader::new(text))
}

/// Would fail if a whole trace were refused, or what it says were lost.
#[test]
fn a_whole_trace_is_read_as_written() {
    let trace = read(lines(&records(0, 1)).as_bytes()).unwrap();
    assert_eq!((trace.open.schema.as_str(), trace.bodies.len(), trace.events.len()), (SCHEMA, 3, 1));
    let written = records(0, 1);
    assert_eq!(Record::Close(trace.close), written[5]);
}

/// Would fail if a trace cut anywhere, inside a line or between two, could read as complete.
#[test]
fn a_cut_anywhere_is_seen() {
    let text = lines(&records(0, 1));
    for n in 0..text.len() {
        let error = read(&text.as_bytes()[..n]).expect_err("cut");
        assert_eq!(error.reason(), "cut-trace", "at byte {n}: {error}");
    }
}

/// Would fail if a changed digest could pass, or the wrong record be named.
#[test]
fn a_changed_digest_names_its_record() {
    let text = lines(&records(0, 1));
    for (i, line) in text.lines().enumerate() {
        let Some(at) = line.find("\"w\":\"") else { continue };
        let mut changed: Vec<String> = text.lines().map(|l| l.to_owned() + "\n").collect();
        let old = changed[i].as_bytes()[at + 5];
        let new = if old == b'0' { "1" } else { "0" };
        changed[i].replace_range(at + 5..at + 6, new);
        let error = read(changed.concat().as_bytes()).expect_err("altered");
        assert_eq!(error.reason(), "altered-trace");
        assert!(error.to_string().contains(&format!("x.jsonl:{}", i + 1)), "{error}");
    }
}

proptest! {
    /// Would fail if any changed byte of a closed trace could pass.
    #[test]
    fn no_changed_byte_passes(at in 0usize..10_000, to in any::<u8>()) {
        let mut bytes = lines(&records(0, 1)).into_bytes();
        let at = at % bytes.len();
        prop_assume!(bytes[at] != to);
        bytes[at] = to;
        prop_assert!(read(&bytes).is_err());
    }
}

fn chained(mut change: impl FnMut(&mut Vec<Record>)) -> String {
    let mut all = records(0, 1);
    change(&mut all);
    lines(&all)
}

/// Would fail if lying counts, roots, ranks, schemas or undeclared tensors were believed, even under a right chain.
#[test]
fn lies_under_a_right_chain_are_refused() {
    type Change = Box<dyn FnMut(&mut Vec<Record>)>;
    let cases: [(&str, Change); 6] = [
        (
            "counts",
            Box::new(|r| {
                if let Record::Close(c) = &mut r[5] {
                    c.records = 4
                }
            }),
        ),
        (
            "root",
            Box::new(|r| {
                if let Record::Close(c) = &mut r[5] {
                    c.root = samebits::digest::sha::sha256(b"")
                }
            }),
        ),
        (
            "rank",
            Box::new(|r| {
                if let Record::Step(b) = &mut r[1] {
                    b.place.rank = 3
                }
            }),
        ),
        (
            "schema",
            Box::new(|r| {
                if let Record::Open(o) = &mut r[0] {
                    o.schema = "other/1".into()
                }
            }),
        ),
        (
            "declared",
            Box::new(|r| {
                if let Record::Open(o) = &mut r[0] {
                    o.tensors.truncate(1)
                }
            }),
        ),
        (
            "claims",
            Box::new(|r| {
                if let Record::Open(o) = &mut r[0] {
                    o.tensors[0].shape = vec![u64::MAX, u64::MAX]
                }
            }),
        ),
    ];
    for (word, change) in cases {
        let error = read(chained(change).as_bytes()).expect_err(word).to_string();
        assert!(error.contains(word), "{word}: {error}");
    }
}

/// Would fail if a name given twice could hide a digest.
#[test]
fn a_name_given_twice_is_refused() {
    let body = lines(&records(0, 1)).lines().nth(1).unwrap().to_owned();
    let doubled = body.replacen("\"fp\":{", "\"fp\":{\"w\":\"00000000000000000000000000000000\",", 1);
    let cut = doubled.rfind(",\"chain\"").unwrap();
    let record: Result<Record, _> = serde_json::from_str(&format!("{}}}", &doubled[..cut]));
    assert!(record.unwrap_err().to_string().contains("twice"));
}

fn two_ranks(folder: &Path, change: impl Fn(u32, &mut Vec<Record>)) {
    for rank in 0..2 {
        let mut all = records(rank, 2);
        change(rank, &mut all);
        std::fs::write(folder.join(format!("rank-{rank}.jsonl")), lines(&all)).unwrap();
    }
}

/// Would fail if a rank could be passed over, or its divergence not be named.
#[test]
fn runs_of_two_ranks() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    two_ranks(a.path(), |_, _| {});
    two_ranks(b.path(), |_, _| {});
    let same = compare(a.path(), b.path(), &Scope::default());
    assert_eq!(same.verdict, Verdict::Same);
    assert_eq!(same.compared.records, 8);
    two_ranks(b.path(), |rank, all| {
        if let (1, Record::Step(body)) = (rank, &mut all[1]) {
            body.metrics.0[0].1 = Number::new(0.5);
        }
    });
    let different = compare(a.path(), b.path(), &Scope::default());
    let first = different.first.clone().unwrap();
    assert_eq!((different.verdict.clone(), first.place.rank, first.name.as_str()), (Verdict::Different, 1, "loss"));
    assert!(samebits::report::text::comparison(&different).contains("rank 1"));
    std::fs::remove_file(b.path().join("rank-1.jsonl")).unwrap();
    let lacking = compare(a.path(), b.path(), &Scope::default());
    assert!(matches!(lacking.verdict, Verdict::Unverified { reason: Reason::NoEvidence, .. }));
    std::fs::write(b.path().join("rank-1.jsonl.part"), "").unwrap();
    assert_eq!(evidence::read(b.path()).unwrap_err().reason, Reason::CutTrace);
}

/// Would fail if traces with different records, or none in scope, could be the same.
#[test]
fn absence_is_never_same() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = |d: &tempfile::TempDir| d.path().join("x.jsonl");
    std::fs::write(path(&a), lines(&records(0, 1))).unwrap();
    let shorter = chained(|r| {
        r.remove(2);
        if let Record::Close(c) = &mut r[4] {
            c.records = 4;
        }
    });
    std::fs::write(path(&b), shorter).unwrap();
    let lacking = compare(&path(&a), &path(&b), &Scope::default());
    assert!(
        matches!(lacking.verdict, Verdict::Unverified { reason: Reason::NotComparable, .. }),
        "{:?}",
        lacking.verdict
    );
    let nothing = Scope { tensors: vec!["no such tensor".into()], kinds: vec!["close".into()], ..Scope::default() };
    assert!(matches!(compare(&path(&a), &path(&a), &nothing).verdict, Verdict::Unverified { .. }));
    let outside = Scope { kinds: vec!["step".into(), "close".into()], ..Scope::default() };
    let scoped = compare(&path(&a), &path(&b), &outside);
    assert_eq!(scoped.verdict, Verdict::Same);
    assert!(!scoped.left_out.is_empty());
}

/// Would fail if a metric that only one run has were passed over, whichever side it is on.
#[test]
fn a_metric_of_one_side_is_never_same() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a.jsonl", "b.jsonl"].map(|name| folder.path().join(name));
    std::fs::write(&a, lines(&records(0, 1))).unwrap();
    let more = chained(|r| {
        if let Record::Step(body) = &mut r[1] {
            body.metrics.0.push(("norm".to_owned(), Number::new(1.0)));
        }
    });
    std::fs::write(&b, more).unwrap();
    for (x, y) in [(&a, &b), (&b, &a)] {
        let Verdict::Unverified { reason: Reason::NotComparable, detail } = compare(x, y, &Scope::default()).verdict
        else {
            panic!("a metric is missing");
        };
        assert!(detail.contains("metric norm"), "{detail}");
    }
}
