//! The trace's reader and the comparison of traces: nothing incomplete or changed may read as complete.

use std::io::BufReader;
use std::path::Path;

use proptest::prelude::*;
use samebits::compare::evidence::{self, compare};
use samebits::compare::verdict::{Reason, Verdict};
use samebits::scenario::case::Scope;
use samebits::trace::example::{lines, records};
use samebits::trace::reader::{ReadError, read_from};
use samebits::trace::record::{Level, Number, Ordered, Record, SCHEMA};

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
/// Puts a change under a right chain and gives back why it was refused.
fn refused(change: impl FnMut(&mut Vec<Record>)) -> String {
    read(chained(change).as_bytes()).expect_err("a lie").to_string()
}

fn body(record: &mut Record) -> &mut samebits::trace::record::Body {
    match record {
        Record::Step(body) | Record::Eval(body) | Record::Fold(body) => body,
        other => panic!("{} has no body", other.kind()),
    }
}

fn open(record: &mut Record) -> &mut samebits::trace::record::Open {
    match record {
        Record::Open(open) => open,
        other => panic!("{} is not open", other.kind()),
    }
}

/// Would fail if the elements of a smaller tensor were not shown where the first that differs has no values.
#[test]
fn elements_come_from_the_next_tensor_with_values() {
    let a = read(chained(|_| {}).as_bytes()).unwrap();
    let b = read(
        chained(|r| {
            let step = body(&mut r[1]);
            step.sha256.0[0].1 = samebits::digest::sha::sha256(b"other");
            let nine = [9, 0, 0, 0];
            step.sha256.0[1].1 = samebits::digest::sha::sha256(&nine);
            step.fp.0[1].1 = samebits::digest::fingerprint::fingerprint(&nine);
            step.values.0[0].1 = "09000000".into();
        })
        .as_bytes(),
    );
    let first = samebits::compare::traces::compare(&a, &b.unwrap(), &Scope::default()).first.unwrap();
    assert_eq!((first.name.as_str(), first.elements_of.as_deref()), ("w", Some("rng.sample")));
    assert_eq!(first.elements.unwrap().bits, ["00000007", "00000009"]);
}

/// Would fail if a trace could hold less than its level says, and pass as one of that level.
#[test]
fn a_level_promises_its_digests() {
    assert!(refused(|r| open(&mut r[0]).level = Level::Off).contains("level off"));
    assert!(refused(|r| body(&mut r[1]).fp = Ordered::default()).contains("no fingerprints"));
    assert!(refused(|r| body(&mut r[1]).sha256 = Ordered::default()).contains("no SHA-256"));
    assert!(refused(|r| body(&mut r[2]).sha256 = Ordered::default()).contains("no SHA-256"));
    assert!(refused(|r| body(&mut r[1]).ops.clear()).contains("no operations"));
    let stopped = chained(|r| {
        body(&mut r[1]).ops.clear();
        r.drain(2..4);
        if let Record::Close(close) = &mut r[3] {
            (close.records, close.status) = (3, samebits::trace::record::Status::NotFinite);
        }
    });
    assert!(read(stopped.as_bytes()).is_ok(), "rule 11 stops a run before its last operations are known");
    let step = chained(|r| {
        open(&mut r[0]).level = Level::Step;
        (body(&mut r[1]).sha256, body(&mut r[1]).ops) = (Ordered::default(), Vec::new());
    });
    assert!(read(step.as_bytes()).is_ok());
}

/// Would fail if a record could be repeated, stand in another order, or say a number that is not its bits.
#[test]
fn places_numbers_and_values_are_checked() {
    assert!(refused(|r| r.insert(1, r[1].clone())).contains("twice"));
    let swapped = refused(|r| {
        let mut later = r[1].clone();
        body(&mut later).place.step = Some(7);
        r.insert(1, later);
    });
    assert!(swapped.contains("later place"), "{swapped}");
    let metric = |bits: &str, value| refused(|r| body(&mut r[1]).metrics.0[0].1 = Number { value, bits: bits.into() });
    assert!(metric("3FD0000000000000", Some(0.25)).contains("loss"));
    assert!(metric("3fd0", Some(0.25)).contains("loss"));
    assert!(metric("3fd0000000000000", Some(0.5)).contains("loss"));
    assert!(metric("3fd0000000000000", None).contains("loss"));
    assert!(metric("7ff8000000000000", Some(1.0)).contains("loss"));
    let values = |hex: &str| refused(|r| body(&mut r[1]).values.0[0].1 = hex.into());
    assert!(values("08000000").contains("not those of its digests"));
    assert!(values("0700").contains("4 bytes") && values("0700000A").contains("4 bytes"));
    let last = refused(|r| body(&mut r[3]).sha256.0[0].1 = samebits::digest::sha::sha256(b"other"));
    assert!(last.contains("last record"), "{last}");
    let settings = refused(|r| open(&mut r[0]).settings = "x".repeat(2 << 20).into());
    assert!(settings.contains("settings"), "{settings}");
}

/// Would fail if a misspelt member could be passed over: what it was to say would be lost.
#[test]
fn unknown_members_are_refused() {
    let text = lines(&records(0, 1));
    for line in text.lines() {
        let cut = line.rfind(",\"chain\"").unwrap();
        let record: Result<Record, _> = serde_json::from_str(&format!("{},\"sha265\":{{}}}}", &line[..cut]));
        assert!(record.unwrap_err().to_string().contains("unknown field"), "{line}");
    }
}

/// Would fail if a pipe could block the reader, or a device feed it for ever.
#[test]
fn special_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["x.jsonl", "x.safetensors"] {
        let path = folder.path().join(name);
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let error = evidence::read(&path).unwrap_err();
        assert!(error.detail.contains("not a regular file"), "{error}");
    }
}

/// Compares two lists of records as trace files.
fn both(x: &[Record], y: &[Record], scope: &Scope) -> samebits::compare::verdict::Comparison {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a.jsonl"), folder.path().join("b.jsonl"));
    std::fs::write(&a, lines(x)).unwrap();
    std::fs::write(&b, lines(y)).unwrap();
    compare(&a, &b, scope)
}

fn changed(change: impl Fn(&mut Vec<Record>)) -> Vec<Record> {
    let mut all = records(0, 1);
    change(&mut all);
    all
}

/// The reason and the words of a verdict that could not be told.
#[track_caller]
fn unverified(result: &samebits::compare::verdict::Comparison, reason: Reason, words: &str) {
    match &result.verdict {
        Verdict::Unverified { reason: found, detail } => {
            assert!(*found == reason && detail.contains(words), "{found:?}: {detail}");
        }
        other => panic!("{other:?}"),
    }
}

fn scope(kinds: &[&str], folds: &[u32], tensors: &[&str]) -> Scope {
    let own = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
    Scope { kinds: own(kinds), folds: folds.to_vec(), tensors: own(tensors) }
}

/// Would fail if a part of a scope that matches nothing could be passed over.
#[test]
fn every_part_of_a_scope_must_match() {
    let all = records(0, 1);
    for (scope, words) in [
        (scope(&[], &[99], &[]), "fold 99"),
        (scope(&[], &[0, 99], &[]), "fold 99"),
        (scope(&[], &[], &["nosuch"]), "tensors nosuch"),
        (scope(&[], &[], &["w", "nosuch"]), "tensors nosuch"),
        (scope(&["close"], &[0], &[]), "kind close"),
        (scope(&["epoch", "step"], &[], &[]), "kind epoch"),
    ] {
        unverified(&both(&all, &all, &scope), Reason::NoEvidence, words);
    }
    for scope in [scope(&["step"], &[0], &["w"]), scope(&[], &[], &["rng.*"]), scope(&["close"], &[], &[])] {
        assert_eq!(both(&all, &all, &scope).verdict, Verdict::Same, "{scope:?}");
    }
    let tensors = both(&all, &all, &scope(&[], &[], &["w"]));
    assert_eq!((tensors.compared.metrics, tensors.compared.sha256), (0, 4));
    let folds = both(&all, &all, &scope(&[], &[0], &[]));
    assert_eq!((folds.compared.records, folds.compared.sha256), (3, 6));
    let without = changed(|r| {
        r.remove(2);
        if let Record::Close(close) = &mut r[4] {
            close.records = 4;
        }
    });
    let result = both(&without, &without, &scope(&["step", "eval", "fold"], &[0], &[]));
    assert_eq!(result.verdict, Verdict::Same);
    assert!(result.left_out.iter().any(|l| l.contains("kind eval")), "{:?}", result.left_out);
    unverified(&both(&without, &all, &scope(&["step", "eval"], &[], &[])), Reason::NotComparable, "eval");
}

/// A run of three updates in each of two folds, run in the order 1, 0; the first `skip` bodies are left out.
fn two_folds(skip: usize, resumed: Option<(u32, u64)>) -> Vec<Record> {
    let all = records(0, 1);
    let mut bodies = Vec::new();
    for fold in [1, 0] {
        for (record, step) in [(1, 0), (1, 1), (1, 2), (2, 3), (3, 3)] {
            let mut one = all[record].clone();
            (body(&mut one).place.fold, body(&mut one).place.step) = (Some(fold), Some(step));
            bodies.push(one);
        }
    }
    let mut out = vec![all[0].clone()];
    out.extend(bodies.into_iter().skip(skip));
    out.push(all[5].clone());
    let records = out.len() as u64 - 1;
    if let Some(Record::Close(close)) = out.last_mut() {
        close.records = records;
    }
    let root = samebits::digest::sha::sha256(b"");
    open(&mut out[0]).resumed = resumed.map(|(fold, step)| samebits::trace::record::Resumed { fold, step, root });
    out
}

/// Would fail if a claim to have resumed could excuse records that are missing, or that were there already.
#[test]
fn a_resume_skips_what_lies_before_it_and_no_more() {
    let whole = two_folds(0, None);
    let all = Scope::default();
    // Mid-fold, at the end of the first fold of the order, at the start and at the end of the last.
    for (skip, place) in [(2, (1, 2)), (5, (1, 3)), (5, (0, 0)), (7, (0, 2)), (10, (0, 3))] {
        let resumed = two_folds(skip, Some(place));
        let result = both(&whole, &resumed, &all);
        assert_eq!(result.verdict, Verdict::Same, "{place:?}");
        assert!(result.left_out.contains(&format!("{skip} records before the resume")), "{:?}", result.left_out);
        assert_eq!(both(&resumed, &whole, &all).verdict, Verdict::Same);
        assert_eq!(both(&resumed, &resumed, &all).verdict, Verdict::Same);
    }
    for (skip, place, words) in [
        (3, (1, 2), "the records part"),
        (6, (0, 0), "the records part"),
        (10, (1, 2), "the records part"),
        (1, (1, 2), "holds step"),
        (0, (0, 2), "holds step"),
        (10, (7, 0), "no such place"),
        (10, (0, 9), "no such place"),
    ] {
        unverified(&both(&whole, &two_folds(skip, Some(place)), &all), Reason::NotComparable, words);
    }
}

/// Would fail if another type or shape of a tensor, or one that a side does not declare, could be the same.
#[test]
fn declarations_are_compared() {
    let all = records(0, 1);
    let shape = both(&all, &changed(|r| open(&mut r[0]).tensors[0].shape = vec![2, 1]), &Scope::default());
    let first = shape.first.clone().unwrap();
    assert_eq!((shape.verdict, first.name.as_str(), first.evidence), (Verdict::Different, "w", "declared"));
    let more = |r: &mut Vec<Record>| {
        let mut extra = open(&mut r[0]).tensors[0].clone();
        extra.name = "extra".into();
        open(&mut r[0]).tensors.push(extra);
    };
    unverified(&both(&all, &changed(more), &Scope::default()), Reason::NotComparable, "extra");
    let unseen = both(&changed(more), &changed(more), &Scope::default());
    assert_eq!(unseen.verdict, Verdict::Same);
    assert!(unseen.left_out.iter().any(|l| l.contains("extra")), "{:?}", unseen.left_out);
    unverified(&both(&changed(more), &changed(more), &scope(&[], &[], &["w", "extra"])), Reason::NoEvidence, "extra");
}

/// Would fail if a tensor declared by an event were refused, forgotten by a comparison, or declared over again.
#[test]
fn events_may_declare_further_tensors() {
    use samebits::trace::record::{Coverage, Dtype, TensorDecl};
    let late = |shape: &[u64], name: &str| {
        let decl =
            TensorDecl { name: name.into(), dtype: Dtype::Bf16, shape: shape.to_vec(), coverage: Coverage::Full };
        changed(|r| {
            let Record::Event(mut event) = r[4].clone() else { panic!("the event") };
            event.tensors = vec![decl.clone()];
            event.place.step = Some(0);
            let (fp, sha) = (body(&mut r[2]).fp.0[0].1, body(&mut r[2]).sha256.0[0].1);
            for at in [2, 3] {
                body(&mut r[at]).fp.0.push((decl.name.clone(), fp));
                body(&mut r[at]).sha256.0.push((decl.name.clone(), sha));
            }
            r.insert(2, Record::Event(event));
            if let Record::Close(close) = &mut r[6] {
                close.records = 6;
            }
        })
    };
    let whole = late(&[2], "adam.m");
    let trace = read(lines(&whole).as_bytes()).unwrap();
    assert_eq!(trace.declared().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["w", "rng.sample", "adam.m"]);
    let same = both(&whole, &whole, &Scope::default());
    assert!(same.verdict == Verdict::Same && same.left_out.is_empty(), "{same:?}");
    let shape = both(&whole, &late(&[2, 1], "adam.m"), &Scope::default()).first.unwrap();
    assert_eq!((shape.name.as_str(), shape.evidence, shape.values[0].as_str()), ("adam.m", "declared", "bf16[2]"));
    unverified(&both(&whole, &records(0, 1), &Scope::default()), Reason::NotComparable, "adam.m");
    let twice = read(lines(&late(&[2], "w")).as_bytes()).unwrap_err().to_string();
    assert!(twice.contains("declared twice"), "{twice}");
    let mut early = whole.clone();
    early.swap(2, 3);
    let early = read(lines(&early).as_bytes()).unwrap_err().to_string();
    assert!(early.contains("not declared"), "{early}");
}

/// Would fail if a lack of a trace were not said, or one of the whole example be invented.
#[test]
fn lacks_are_said() {
    use samebits::trace::lacks::lacks;
    let of = |all: &[Record]| -> Vec<&str> {
        lacks(&read(lines(all).as_bytes()).unwrap()).into_iter().map(|l| l.slug).collect()
    };
    assert!(of(&records(0, 1)).is_empty());
    let bare = changed(|r| {
        let o = open(&mut r[0]);
        (o.level, o.seed, o.identity) = (Level::Step, None, Default::default());
        o.tensors[1].name = "never".into();
        let Record::Close(mut close) = r.remove(5) else { panic!("close") };
        r.truncate(2);
        let step = body(&mut r[1]);
        step.fp.0.truncate(1);
        (step.sha256, step.metrics, step.values, step.ops) = Default::default();
        (close.records, close.sha256) = (2, Ordered::default());
        close.root = samebits::digest::root::root(close.sha256.iter());
        r.push(Record::Close(close));
    });
    #[rustfmt::skip]
    assert_eq!(of(&bare), [
        "no-final-digests", "no-evaluations", "no-folds", "no-sha256", "unrecorded-tensors", "no-generators", "no-seed",
        "no-keyed-identity", "no-noted-identity", "no-operations", "no-metrics", "no-values",
    ]);
    for lack in lacks(&read(lines(&bare).as_bytes()).unwrap()) {
        let [what, costs, mend] = [lack.what.as_str(), lack.costs, lack.mend];
        assert!(![what, costs, mend].iter().any(|t| t.is_empty() || t.contains('\n')), "{}", lack.slug);
        // What a writer of its own does, and what the recorder for Python does about it.
        assert!(mend.contains('`') || mend.contains("rng.NAME"), "{}: {mend}", lack.slug);
        assert!(mend.contains("ython"), "{}: {mend}", lack.slug);
    }
}

/// Would fail if a metric of one side, a rank of several, or evidence against itself could be passed over.
#[test]
fn lone_metrics_lone_ranks_and_contradictions() {
    let all = records(0, 1);
    let metric = changed(|r| body(&mut r[1]).metrics.0.push(("more".into(), Number::new(1.0))));
    unverified(&both(&all, &metric, &Scope::default()), Reason::NotComparable, "more");
    unverified(&both(&metric, &all, &Scope::default()), Reason::NotComparable, "more");
    let lone = records(0, 2);
    unverified(&both(&lone, &lone, &Scope::default()), Reason::NotComparable, "rank 0 of 2 only");
    let fp = changed(|r| body(&mut r[2]).fp.0[0].1.0[0] ^= 1);
    unverified(&both(&all, &fp, &Scope::default()), Reason::AlteredTrace, "unequal fp");
    let noted = both(&all, &changed(|r| open(&mut r[0]).seed = Some(2)), &Scope::default());
    assert!(noted.noted.contains(&"seed: 1 | 2".to_owned()), "{:?}", noted.noted);
    let settings = changed(|r| open(&mut r[0]).settings = serde_json::json!({ "lr": 0.2 }));
    assert!(both(&all, &settings, &Scope::default()).noted.iter().any(|n| n.contains("lr: 0.1 | 0.2")));
    let event = changed(|r| {
        if let Record::Event(event) = &mut r[4] {
            event.detail = "used z".into();
        }
    });
    assert!(both(&all, &event, &Scope::default()).noted.iter().any(|n| n.contains("used z")));
}

/// An export of one tensor as [`samebits::engine::export::export`] writes it.
fn export(folder: &Path, bytes: &[u8]) {
    use samebits::trace::observer::TensorView;
    use samebits::trace::record::Dtype;
    let view = TensorView::new("w", Dtype::U8, &[bytes.len()], bytes);
    samebits::engine::export::export(folder, &[view]).unwrap();
}

/// Would fail if an export that contradicts itself, holds more than it lists, or holds nothing could be the same.
#[test]
fn exports_must_agree_with_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    let again = || [&a, &b].into_iter().for_each(|f| export(f, &[1, 2, 3]));
    let diff = |scope: &Scope| compare(&a, &b, scope);
    let write = |name: &str, bytes: &[u8]| [&a, &b].map(|f| std::fs::write(f.join(name), bytes).unwrap());
    again();
    assert_eq!(diff(&Scope::default()).verdict, Verdict::Same);
    for given in [scope(&["step"], &[], &[]), scope(&[], &[0], &[])] {
        unverified(&diff(&given), Reason::NoEvidence, "do not apply");
    }
    unverified(&diff(&scope(&[], &[], &["nosuch"])), Reason::NoEvidence, "nosuch");
    unverified(&diff(&scope(&[], &[], &["w", "nosuch"])), Reason::NoEvidence, "nosuch");
    write("w.bin", &[1, 2, 4]);
    unverified(&diff(&Scope::default()), Reason::AlteredTrace, "not those of its index");
    std::fs::write(b.join("w.bin"), [1, 2, 3]).unwrap();
    let differ = diff(&Scope::default());
    assert_eq!((differ.verdict, differ.first.unwrap().elements.unwrap().first), (Verdict::Different, 2));
    write("w.bin", &[1, 2]);
    unverified(&diff(&Scope::default()), Reason::NotComparable, "2 bytes");
    again();
    write("extra.bin", &[1]);
    unverified(&diff(&Scope::default()), Reason::NotComparable, "extra.bin");
    again();
    let index = std::fs::read_to_string(a.join("tensors.json")).unwrap();
    let twice = index.trim().trim_end_matches(']').to_owned() + "," + index.trim().trim_start_matches('[');
    write("tensors.json", twice.as_bytes());
    unverified(&diff(&Scope::default()), Reason::NotComparable, "twice");
    again();
    write("x.jsonl", lines(&records(0, 1)).as_bytes());
    unverified(&diff(&Scope::default()), Reason::NotComparable, "more than one");
    [&a, &b].into_iter().for_each(|f| export(f, &[]));
    unverified(&diff(&Scope::default()), Reason::NoEvidence, "empty");
}

/// Would fail if a safetensors file of other types, or with a header longer than itself, could be the same.
#[test]
fn safetensors_files_keep_their_types() {
    use safetensors::{Dtype, serialize_to_file, tensor::TensorView};
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, dtype| {
        let path = folder.path().join(format!("{name}.safetensors"));
        let view = TensorView::new(dtype, vec![1], &[0, 60]).unwrap();
        serialize_to_file([("w", view)], None, &path).unwrap();
        path
    };
    let (bf16, f16) = (file("a", Dtype::BF16), file("b", Dtype::F16));
    assert_eq!(compare(&bf16, &bf16, &Scope::default()).verdict, Verdict::Same);
    assert_eq!(compare(&bf16, &f16, &Scope::default()).verdict, Verdict::Different);
    std::fs::write(&f16, [&u64::MAX.to_le_bytes()[..], &[0; 8]].concat()).unwrap();
    unverified(&compare(&f16, &f16, &Scope::default()), Reason::NotComparable, "a header of");
    let bare = folder.path().join("bare");
    std::fs::create_dir(&bare).unwrap();
    std::fs::copy(&bf16, bare.join("state.safetensors")).unwrap();
    unverified(&compare(&bare, &bare, &Scope::default()), Reason::NoEvidence, "manifest.json");
    std::fs::write(bare.join("manifest.json"), "{}").unwrap();
    unverified(&compare(&bare, &bare, &Scope::default()), Reason::NotComparable, "manifest");
}
