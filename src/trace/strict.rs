//! Records with a flattened place, as they are read: `serde(flatten)` would let unknown members pass.

use serde::Deserialize;

use super::record::{Body, Event, Number, Op, Ordered, Place, TensorDecl};
use crate::digest::fingerprint::Fingerprint;
use crate::digest::sha::Digest;

/// A [`Body`] whose members are all known.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrictBody {
    #[serde(default)]
    rank: u32,
    #[serde(default)]
    fold: Option<u32>,
    #[serde(default)]
    step: Option<u64>,
    #[serde(default)]
    phase: Option<String>,
    #[serde(default)]
    eval: Option<u64>,
    #[serde(default)]
    fp: Ordered<Fingerprint>,
    #[serde(default)]
    sha256: Ordered<Digest>,
    #[serde(default)]
    metrics: Ordered<Number>,
    #[serde(default)]
    ops: Vec<Op>,
    #[serde(default)]
    values: Ordered<String>,
}

impl From<StrictBody> for Body {
    fn from(b: StrictBody) -> Self {
        let place = Place { rank: b.rank, fold: b.fold, step: b.step, phase: b.phase, eval: b.eval };
        Body { place, fp: b.fp, sha256: b.sha256, metrics: b.metrics, ops: b.ops, values: b.values }
    }
}

/// An [`Event`] whose members are all known.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrictEvent {
    #[serde(default)]
    rank: u32,
    #[serde(default)]
    fold: Option<u32>,
    #[serde(default)]
    step: Option<u64>,
    #[serde(default)]
    phase: Option<String>,
    #[serde(default)]
    eval: Option<u64>,
    name: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    tensors: Vec<TensorDecl>,
    #[serde(default)]
    fp: Ordered<Fingerprint>,
}

impl From<StrictEvent> for Event {
    fn from(e: StrictEvent) -> Self {
        let place = Place { rank: e.rank, fold: e.fold, step: e.step, phase: e.phase, eval: e.eval };
        Event { place, name: e.name, detail: e.detail, tensors: e.tensors, fp: e.fp }
    }
}
