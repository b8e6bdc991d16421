//! The records of a trace and their JSON form.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::digest::fingerprint::Fingerprint;
use crate::digest::sha::Digest;

/// Name and version of the format, the first thing in a trace.
pub const SCHEMA: &str = "samebits-trace/1";

/// How much a trace holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// `open` and `close` with final SHA-256s
    Off,
    /// fingerprints at every step; SHA-256 at evaluations, fold ends and close
    #[default]
    Step,
    /// SHA-256 at every step
    Tensor,
    /// inputs and outputs of every operation
    Op,
}

impl Level {
    /// All levels by name.
    pub const ALL: [(&str, Level); 4] =
        [("off", Level::Off), ("step", Level::Step), ("tensor", Level::Tensor), ("op", Level::Op)];
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Level::ALL.iter().find(|(_, l)| l == self).map_or("", |(name, _)| name))
    }
}

impl std::str::FromStr for Level {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Level::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, level)| *level).ok_or_else(|| format!("unknown level {text:?}; one of: off, step, tensor, op"))
    }
}

/// A map that keeps its order and refuses a name given twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordered<T>(pub Vec<(String, T)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Ordered(Vec::new())
    }
}

impl<T> Ordered<T> {
    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value under a name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v))
    }
}

impl<T: Serialize> Serialize for Ordered<T> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Entries<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Ordered<T>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered<T>, A::Error> {
                let (mut entries, mut seen) = (Vec::new(), std::collections::BTreeSet::new());
                while let Some((name, value)) = map.next_entry::<String, T>()? {
                    if !seen.insert(name.clone()) {
                        return Err(serde::de::Error::custom(format!("the name {name:?} stands twice")));
                    }
                    entries.push((name, value));
                }
                Ok(Ordered(entries))
            }
        }
        d.deserialize_map(Entries(std::marker::PhantomData))
    }
}

/// A number with its bits: `value` is for people, `bits` (16 hex digits of the binary64) is what is compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Number {
    /// null when not finite
    pub value: Option<f64>,
    /// bits of the binary64
    pub bits: String,
}

impl Number {
    /// From a value.
    pub fn new(x: f64) -> Self {
        Number { value: x.is_finite().then_some(x), bits: format!("{:016x}", x.to_bits()) }
    }
}

/// Element type of a tensor; all little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// a byte, 0 or 1
    Bool,
    /// bytes
    U8,
    /// signed bytes
    I8,
    /// 16 bits, unsigned
    U16,
    /// 16 bits, signed
    I16,
    /// 32 bits, unsigned
    U32,
    /// 32 bits, signed
    I32,
    /// 64 bits, unsigned
    U64,
    /// 64 bits, signed
    I64,
    /// binary16
    F16,
    /// the upper half of a binary32
    Bf16,
    /// binary32
    F32,
    /// binary64
    F64,
    /// two binary32: real, imaginary
    C64,
    /// two binary64: real, imaginary
    C128,
}

impl Dtype {
    /// All types, by the word that traces and JSON use.
    pub const ALL: [(&str, Dtype); 15] = [
        ("bool", Dtype::Bool),
        ("u8", Dtype::U8),
        ("i8", Dtype::I8),
        ("u16", Dtype::U16),
        ("i16", Dtype::I16),
        ("u32", Dtype::U32),
        ("i32", Dtype::I32),
        ("u64", Dtype::U64),
        ("i64", Dtype::I64),
        ("f16", Dtype::F16),
        ("bf16", Dtype::Bf16),
        ("f32", Dtype::F32),
        ("f64", Dtype::F64),
        ("c64", Dtype::C64),
        ("c128", Dtype::C128),
    ];

    /// The word that traces and JSON use.
    pub fn word(self) -> &'static str {
        Dtype::ALL[self as usize].0
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Dtype::Bool | Dtype::U8 | Dtype::I8 => 1,
            Dtype::U16 | Dtype::I16 | Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::U32 | Dtype::I32 | Dtype::F32 => 4,
            Dtype::U64 | Dtype::I64 | Dtype::F64 | Dtype::C64 => 8,
            Dtype::C128 => 16,
        }
    }
}

/// How far a step's fingerprint sees a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Coverage {
    /// every byte at every step
    #[default]
    Full,
    /// kept up from the blocks written; a full recomputation at every evaluation must equal it
    Written,
}

/// A tensor that the records name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorDecl {
    /// unique name
    pub name: String,
    /// element type
    pub dtype: Dtype,
    /// sizes, slowest first
    pub shape: Vec<u64>,
    /// what a step's fingerprint sees
    #[serde(default)]
    pub coverage: Coverage,
}

/// One operation at level `op`. The order of `inputs` is the order in which they were read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Op {
    /// name of the operation
    pub op: String,
    /// everything it may read: tensors, scalars, counters, packed copies
    #[serde(rename = "in")]
    pub inputs: Ordered<Fingerprint>,
    /// everything it wrote
    #[serde(rename = "out")]
    pub outputs: Ordered<Fingerprint>,
}

/// What may change bits (`keyed`) and what is only told (`noted`).
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// names a golden's key
    pub keyed: BTreeMap<String, String>,
    /// the first thing printed when bits differ
    pub noted: BTreeMap<String, String>,
}

/// Where a resumed run began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resumed {
    /// fold of the checkpoint
    pub fold: u32,
    /// updates done in that fold
    pub step: u64,
    /// root of the checkpoint's tensors
    pub root: Digest,
}

/// Places of a record; `fold`, `phase` and `eval` are optional, so that engines without them write valid traces.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Place {
    /// rank of the process in its group
    #[serde(default)]
    pub rank: u32,
    /// walk-forward fold
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<u32>,
    /// update, from 0 in its fold
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// part of a step, when an engine writes more than one record a step
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// number of the evaluation in its fold
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eval: Option<u64>,
}

impl Place {
    /// An update of an engine without folds.
    pub fn step(step: u64) -> Self {
        Place { step: Some(step), ..Place::default() }
    }
}

/// One record. Its `chain` member stands in the line only; see [`super::writer`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Record {
    /// first
    Open(Open),
    /// one update
    Step(Body),
    /// one evaluation
    Eval(Body),
    /// end of a fold
    Fold(Body),
    /// fallbacks, errors, re-selections, checkpoints, resumes
    Event(Event),
    /// last
    Close(Close),
}

/// First record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// [`SCHEMA`]
    pub schema: String,
    /// rank of this process
    #[serde(default)]
    pub rank: u32,
    /// processes in the group
    pub world_size: u32,
    /// name and version of the engine
    pub engine: String,
    /// how much is recorded
    pub level: Level,
    /// seed of the run
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// what may change bits
    pub identity: Identity,
    /// the engine's settings, as it resolved them
    #[serde(default)]
    pub settings: serde_json::Value,
    /// tensors that records name; one that neither this record nor an earlier event declares is refused
    pub tensors: Vec<TensorDecl>,
    /// present in a resumed run
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<Resumed>,
}

impl Open {
    /// Of a run of one process, with an empty identity and no settings; a recorder fills in its level.
    pub fn new(engine: impl Into<String>, tensors: Vec<TensorDecl>) -> Self {
        Open {
            schema: SCHEMA.to_owned(),
            rank: 0,
            world_size: 1,
            engine: engine.into(),
            level: Level::default(),
            seed: None,
            identity: Identity::default(),
            settings: serde_json::Value::Null,
            tensors,
            resumed: None,
        }
    }
}

/// Digests at one place.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(from = "super::strict::StrictBody")]
pub struct Body {
    /// where
    #[serde(flatten)]
    pub place: Place,
    /// fingerprints by tensor
    #[serde(default, skip_serializing_if = "Ordered::is_empty")]
    pub fp: Ordered<Fingerprint>,
    /// SHA-256 by tensor
    #[serde(default, skip_serializing_if = "Ordered::is_empty")]
    pub sha256: Ordered<Digest>,
    /// readable numbers, compared by their bits
    #[serde(default, skip_serializing_if = "Ordered::is_empty")]
    pub metrics: Ordered<Number>,
    /// operations in order
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ops: Vec<Op>,
    /// raw bytes of small tensors as hex, under `--values`
    #[serde(default, skip_serializing_if = "Ordered::is_empty")]
    pub values: Ordered<String>,
}

/// Name of the event that says where rule 11 stopped a run; its detail is `tensor[element]`.
pub const NOT_FINITE: &str = "not-finite";

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(from = "super::strict::StrictEvent")]
pub struct Event {
    /// where
    #[serde(flatten)]
    pub place: Place,
    /// what: `checkpoint`, `resume`, `float-mode`, `not-finite`, `fallback`, ...
    pub name: String,
    /// words for people
    #[serde(default)]
    pub detail: String,
    /// further tensors, which records from here on may name: state that an optimizer makes at its first update
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tensors: Vec<TensorDecl>,
    /// fingerprints that belong to it
    #[serde(default, skip_serializing_if = "Ordered::is_empty")]
    pub fp: Ordered<Fingerprint>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// everything asked for was done
    Complete,
    /// stopped where it was asked to
    Stopped,
    /// stopped by rule 11
    NotFinite,
}

/// Last record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Close {
    /// rank of this process
    #[serde(default)]
    pub rank: u32,
    /// records before this one
    pub records: u64,
    /// how it ended
    pub status: Status,
    /// final tensors
    pub sha256: Ordered<Digest>,
    /// root of them
    pub root: Digest,
}

impl Record {
    /// `open`, `step`, ...
    pub fn kind(&self) -> &'static str {
        match self {
            Record::Open(_) => "open",
            Record::Step(_) => "step",
            Record::Eval(_) => "eval",
            Record::Fold(_) => "fold",
            Record::Event(_) => "event",
            Record::Close(_) => "close",
        }
    }

    /// Rank that wrote it.
    pub fn rank(&self) -> u32 {
        match self {
            Record::Open(r) => r.rank,
            Record::Step(b) | Record::Eval(b) | Record::Fold(b) => b.place.rank,
            Record::Event(e) => e.place.rank,
            Record::Close(c) => c.rank,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.rank > 0 {
            parts.push(format!("rank {}", self.rank));
        }
        parts.extend(self.fold.map(|x| format!("fold {x}")));
        parts.extend(self.step.map(|x| format!("step {x}")));
        parts.extend(self.phase.clone());
        parts.extend(self.eval.map(|x| format!("evaluation {x}")));
        f.write_str(&parts.join(", "))
    }
}
