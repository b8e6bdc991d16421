//! One record of each kind, as `docs/trace.md` shows them and tests use them.

use super::record::{
    Body, Close, Coverage, Dtype, Event, Identity, Level, Number, Op, Open, Ordered, Place, Record, SCHEMA, Status,
    TensorDecl,
};
use super::writer::{chain_start, line};
use crate::digest::fingerprint::fingerprint;
use crate::digest::root::root;
use crate::digest::sha::sha256;

fn place(rank: u32, step: u64) -> Place {
    Place { rank, fold: Some(0), step: Some(step), ..Place::default() }
}

/// A small trace of one rank: a weight of two elements and a generator, one update, one evaluation.
pub fn records(rank: u32, world_size: u32) -> Vec<Record> {
    let weight = [1.0f32 + rank as f32, -0.5];
    let bytes: &[u8] = bytemuck::cast_slice(&weight);
    let rng: &[u8] = &[7, 0, 0, 0];
    let declare = |name: &str, dtype, shape: &[u64]| TensorDecl {
        name: name.to_owned(),
        dtype,
        shape: shape.to_vec(),
        coverage: Coverage::Full,
    };
    let named = |name: &str, bytes: &[u8]| (name.to_owned(), fingerprint(bytes));
    let fp = Ordered(vec![named("w", bytes), named("rng.sample", rng)]);
    let sha = Ordered(vec![("w".to_owned(), sha256(bytes)), ("rng.sample".to_owned(), sha256(rng))]);
    let identity = Identity {
        keyed: [("contract".to_owned(), "mine/1".to_owned())].into(),
        noted: [("cpu".to_owned(), "some CPU".to_owned())].into(),
    };
    let op = Op {
        op: "sgd".to_owned(),
        inputs: Ordered(vec![named("w", bytes), named("gradient", &[0; 8])]),
        outputs: Ordered(vec![named("w", bytes)]),
    };
    let step = Body {
        place: place(rank, 0),
        fp: fp.clone(),
        sha256: sha.clone(),
        metrics: Ordered(vec![("loss".to_owned(), Number::new(0.25))]),
        ops: vec![op],
        values: Ordered(vec![("rng.sample".to_owned(), "07000000".to_owned())]),
    };
    let at_end = |eval| Body {
        place: Place { eval, ..place(rank, 1) },
        fp: fp.clone(),
        sha256: sha.clone(),
        metrics: Ordered(vec![("sharpe".to_owned(), Number::new(1.5))]),
        ..Body::default()
    };
    let open = Open {
        schema: SCHEMA.to_owned(),
        rank,
        world_size,
        engine: "my-trainer 1.0".to_owned(),
        level: Level::Op,
        seed: Some(1),
        identity,
        settings: serde_json::json!({ "lr": 0.1 }),
        tensors: vec![declare("w", Dtype::F32, &[2]), declare("rng.sample", Dtype::U32, &[1])],
        resumed: None,
    };
    let event = Event {
        place: place(rank, 1),
        name: "fallback".to_owned(),
        detail: "kernel x is not supported here, used y".to_owned(),
        ..Event::default()
    };
    let close = Close { rank, records: 5, status: Status::Complete, root: root(sha.iter()), sha256: sha.clone() };
    vec![
        Record::Open(open),
        Record::Step(step),
        Record::Eval(at_end(Some(1))),
        Record::Fold(at_end(None)),
        Record::Event(event),
        Record::Close(close),
    ]
}

/// The lines of a trace.
pub fn lines(records: &[Record]) -> String {
    let (mut chain, mut text) = (chain_start(), String::new());
    for record in records {
        // A record always has a JSON form: no map key is anything but a string.
        if let Ok((next, one)) = line(chain, record) {
            chain = next;
            text.push_str(&one);
        }
    }
    text
}

/// The example of `docs/trace.md`, in a code block.
pub fn text() -> String {
    format!("```json\n{}```\n", lines(&records(0, 1)))
}
