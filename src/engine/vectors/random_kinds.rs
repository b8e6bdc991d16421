//! Vectors of rule 7 and of the fingerprint.

use super::CaseFault;
use super::fields::{Fields, Found, Outputs};
use crate::bits::philox;
use crate::digest::fingerprint;
use crate::engine::cpu::Cpu;

pub(super) fn philox_block(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let words = philox::philox(i.u32_array("counter")?, i.u32_array("key")?);
    Ok(vec![("words", Found::U32(words.to_vec()))])
}

pub(super) fn stream(i: &Fields) -> Result<philox::Key, CaseFault> {
    Ok(philox::stream_key(i.u64("seed")?, i.number_u32("fold")?, i.text("stream")?))
}

pub(super) fn key(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    Ok(vec![("key", Found::U32(stream(i)?.to_vec()))])
}

pub(super) fn block(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let words = philox::block(i.u32_array("key")?, i.number_u32("element")?, i.number_u32("draw")?, i.u64("step")?);
    Ok(vec![("words", Found::U32(words.to_vec()))])
}

pub(super) fn uniform(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    Ok(vec![("u", Found::F32(i.u32s("words")?.into_iter().map(philox::uniform).collect()))])
}

pub(super) fn index_below(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let (n, words) = (i.u64("n")?, i.u32s("words")?);
    i.rows("words", words.len(), 2)?;
    let index = words.as_chunks().0.iter().map(|&words| philox::index_below(n, words)).collect();
    Ok(vec![("index", Found::U64(index))])
}

pub(super) fn threshold(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let (start, end) = (philox::threshold_of(i.f64("start")?), philox::threshold_of(i.f64("end")?));
    let steps = i.number_u32("steps")?;
    if steps == 0 || start < end || start > 1 << 32 {
        return Err(i.fault("start", "expected 1 >= start >= end and 1 or more steps".to_owned()));
    }
    let t = i.u64s("t")?.into_iter();
    Ok(vec![("threshold", Found::U64(t.map(|t| philox::explore_threshold(start, end, t, steps)).collect()))])
}

pub(super) fn explore(i: &Fields, out: &Fields, _: &Cpu) -> Outputs {
    let (key, step, threshold) = (stream(i)?, i.u64("step")?, i.u64("threshold")?);
    let (mut explores, mut actions) = (Vec::new(), Vec::new());
    for element in 0..out.numbers("explores")?.len() {
        let words = philox::block(key, element as u32, 0, step);
        explores.push(u64::from(u64::from(words[0]) < threshold));
        actions.extend(philox::random_actions(words).map(u64::from));
    }
    Ok(vec![("explores", Found::Numbers(explores)), ("actions", Found::Numbers(actions))])
}

pub(super) fn initial_weight(i: &Fields, out: &Fields, _: &Cpu) -> Outputs {
    let (key, s) = (stream(i)?, philox::initial_scale(i.size("fan_in")?));
    let elements = 0..out.f32s("w")?.len();
    let w = elements.map(|e| philox::initial_weight(key, e as u32, s)).collect();
    Ok(vec![("s", Found::F32(vec![s])), ("w", Found::F32(w))])
}

pub(super) fn mix64(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    Ok(vec![("mix", Found::U64(i.u64s("z")?.into_iter().map(fingerprint::mix64).collect()))])
}

pub(super) fn keys(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let k = i.number("k")?;
    let keys = usize::try_from(k).ok().and_then(|k| fingerprint::KEYS.get(k));
    let keys = keys.ok_or_else(|| i.fault("k", format!("expected lane 0 or 1, found {k}")))?;
    Ok(vec![("keys", Found::U32(keys.to_vec()))])
}

pub(super) fn fingerprint_of(i: &Fields, _: &Fields, _: &Cpu) -> Outputs {
    let text = i.text("bytes")?;
    let byte = |pair: &[u8]| {
        let digits =
            std::str::from_utf8(pair).ok().filter(|_| pair.iter().all(u8::is_ascii_hexdigit) && pair.len() == 2);
        digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())
    };
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
    let bytes = bytes.ok_or_else(|| i.fault("bytes", "expected pairs of hex digits".to_owned()))?;
    Ok(vec![("fp", Found::Text(fingerprint::fingerprint(&bytes).to_string()))])
}
