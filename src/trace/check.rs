//! What a record must say beyond its form: declared names, ascending places, the digests of its level, honest numbers.

use std::collections::BTreeMap;

use super::record::{Body, Close, Event, Level, Number, Open, Ordered, SCHEMA, Status, TensorDecl};
use crate::bits::ulp;
use crate::digest::fingerprint::fingerprint;
use crate::digest::sha::{Digest, from_hex, sha256};

/// Most bytes of the settings in `open`, as JSON.
pub const SETTINGS_LIMIT: usize = 1 << 20;

type Series = (Option<u32>, &'static str, Option<String>);

/// State of the check of one trace.
#[derive(Debug)]
pub struct Check {
    level: Level,
    /// bytes by declared tensor, late ones too
    declared: BTreeMap<String, u64>,
    /// last (step, evaluation) by fold, kind and phase
    last: BTreeMap<Series, (Option<u64>, Option<u64>)>,
    /// digests of the last body, when it stands at an evaluation or a fold end
    at_end: Ordered<Digest>,
    /// a step record at level `op` without operations; only a run stopped by rule 11 may end in one
    without_ops: Option<String>,
}

impl Check {
    /// Checks the first record.
    pub fn open(open: &Open) -> Result<Self, String> {
        if open.schema != SCHEMA {
            return Err(format!("schema {:?}, expected {SCHEMA:?}", open.schema));
        }
        if open.world_size == 0 || open.rank >= open.world_size {
            return Err(format!("rank {} of a world of {}", open.rank, open.world_size));
        }
        let settings = open.settings.to_string().len();
        if settings > SETTINGS_LIMIT {
            return Err(format!("settings of {settings} bytes, at most {SETTINGS_LIMIT} are read"));
        }
        let (declared, last, at_end) = (BTreeMap::new(), BTreeMap::new(), Ordered::default());
        let mut check = Check { level: open.level, declared, last, at_end, without_ops: None };
        check.declare(&open.tensors)?;
        Ok(check)
    }

    fn declare(&mut self, tensors: &[TensorDecl]) -> Result<(), String> {
        for tensor in tensors {
            let size = tensor.shape.iter().try_fold(tensor.dtype.size() as u64, |n, d| n.checked_mul(*d));
            let size =
                size.ok_or_else(|| format!("the tensor {:?} claims {:?} elements", tensor.name, tensor.shape))?;
            valid_name(&tensor.name)?;
            if self.declared.insert(tensor.name.clone(), size).is_some() {
                return Err(format!("the tensor {:?} is declared twice", tensor.name));
            }
        }
        Ok(())
    }

    fn names<T>(&self, named: &Ordered<T>) -> Result<(), String> {
        match named.iter().find(|(name, _)| !self.declared.contains_key(*name)) {
            Some((name, _)) => Err(format!("the tensor {name:?} is not declared in \"open\" or an event before")),
            None => Ok(()),
        }
    }

    /// Checks a `step`, `eval` or `fold` record.
    pub fn body(&mut self, kind: &'static str, body: &Body) -> Result<(), String> {
        self.names(&body.fp)?;
        self.names(&body.sha256)?;
        self.names(&body.values)?;
        self.place(kind, body)?;
        self.of_level(kind, body)?;
        for (name, number) in body.metrics.iter() {
            valid_name(name)?;
            if !is_honest(number) {
                return Err(format!(
                    "the metric {name:?} has the bits {:?} and the value {:?}",
                    number.bits, number.value
                ));
            }
        }
        for (name, hex) in body.values.iter() {
            let digits = hex.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
            let size = self.declared.get(name).copied().unwrap_or(0);
            let bytes = from_hex(hex).filter(|b| digits && b.len() as u64 == size);
            let bytes = bytes.ok_or_else(|| format!("values of {name:?}: expected {size} bytes as lower-case hex"))?;
            let sha = body.sha256.get(name).is_some_and(|d| *d != sha256(&bytes));
            if sha || body.fp.get(name).is_some_and(|f| *f != fingerprint(&bytes)) {
                return Err(format!("values of {name:?} are not those of its digests"));
            }
        }
        self.at_end = if kind == "step" { Ordered::default() } else { body.sha256.clone() };
        Ok(())
    }

    fn place(&mut self, kind: &'static str, body: &Body) -> Result<(), String> {
        let place = &body.place;
        let now = (place.step, place.eval);
        let before = self.last.insert((place.fold, kind, place.phase.clone()), now);
        if before.is_some_and(|before| now <= before) {
            return Err(format!("{kind} at {place} stands after a later place, or stands twice"));
        }
        Ok(())
    }

    /// The digests that the level promises.
    fn of_level(&mut self, kind: &'static str, body: &Body) -> Result<(), String> {
        let lacks = |what: &str| Err(format!("{kind} at {} has no {what}, which its level promises", body.place));
        if self.level == Level::Off {
            return Err(format!("a {kind} record in a trace of level off"));
        }
        if let Some(earlier) = &self.without_ops {
            return Err(format!("{earlier} has no operations, which level op promises"));
        }
        let is_step = kind == "step";
        if is_step && body.fp.is_empty() {
            return lacks("fingerprints");
        }
        if (!is_step || self.level >= Level::Tensor) && body.sha256.is_empty() {
            return lacks("SHA-256");
        }
        if is_step && self.level >= Level::Tensor && body.sha256.0.len() < body.fp.0.len() {
            return lacks("SHA-256 of every tensor");
        }
        if is_step && self.level == Level::Op && body.ops.is_empty() {
            self.without_ops = Some(format!("step at {}", body.place));
        }
        Ok(())
    }

    /// Checks an event and takes its declarations over.
    pub fn event(&mut self, event: &Event) -> Result<(), String> {
        valid_name(&event.name)?;
        self.declare(&event.tensors)?;
        self.names(&event.fp)
    }

    /// Checks the last record.
    pub fn close(&self, close: &Close) -> Result<(), String> {
        self.names(&close.sha256)?;
        if let (Some(earlier), Status::Complete | Status::Stopped) = (&self.without_ops, close.status) {
            return Err(format!("{earlier} has no operations, which level op promises"));
        }
        let last: BTreeMap<&str, &Digest> = self.at_end.iter().collect();
        match close.sha256.iter().find(|(name, digest)| last.get(name).is_some_and(|d| d != digest)) {
            Some((name, _)) => Err(format!("the final {name:?} is not that of the last record")),
            None => Ok(()),
        }
    }
}

fn valid_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(format!("{name:?} is no name"));
    }
    Ok(())
}

/// 16 lower-case hex digits, and the value that people read is that of the bits (as JSON readers round it).
fn is_honest(number: &Number) -> bool {
    let lower = number.bits.len() == 16 && number.bits.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    let Ok(bits) = u64::from_str_radix(&number.bits, 16) else { return false };
    let x = f64::from_bits(bits);
    lower
        && match number.value {
            None => !x.is_finite(),
            Some(value) => x.is_finite() && ulp::distance64(value.to_bits(), bits).is_some_and(|d| d <= 4),
        }
}
