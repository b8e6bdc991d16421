//! Vectors of rule 7 and of the fingerprint.

use super::CaseFault;
use super::engine::Engine;
use super::fields::{Fields, Found, Outputs};
use crate::bits::philox;

pub(super) fn philox_block(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let words = engine.philox(&[i.u32_array("counter")?], i.u32_array("key")?)?;
    Ok(vec![("words", Found::U32(words.concat()))])
}

pub(super) fn stream(i: &Fields) -> Result<philox::Key, CaseFault> {
    Ok(philox::stream_key(i.u64("seed")?, i.number_u32("fold")?, i.text("stream")?))
}

pub(super) fn key(i: &Fields, _: &Fields, _: &dyn Engine) -> Outputs {
    Ok(vec![("key", Found::U32(stream(i)?.to_vec()))])
}

pub(super) fn block(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let (element, draw, step) = (i.number_u32("element")?, i.number_u32("draw")?, i.u64("step")?);
    let words = engine.philox(&[[element, draw, step as u32, (step >> 32) as u32]], i.u32_array("key")?)?;
    Ok(vec![("words", Found::U32(words.concat()))])
}

pub(super) fn uniform(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    Ok(vec![("u", Found::F32(engine.uniform(&i.u32s("words")?)?))])
}

pub(super) fn index_below(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let (n, words) = (i.u64("n")?, i.u32s("words")?);
    i.rows("words", words.len(), 2)?;
    Ok(vec![("index", Found::U64(engine.index_below(n, words.as_chunks().0)?))])
}

pub(super) fn threshold(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let (start, end) = (philox::threshold_of(i.f64("start")?), philox::threshold_of(i.f64("end")?));
    let steps = i.number_u32("steps")?;
    if steps == 0 || start < end || start > 1 << 32 {
        return Err(i.fault("start", "expected 1 >= start >= end and 1 or more steps".to_owned()));
    }
    Ok(vec![("threshold", Found::U64(engine.explore_threshold((start, end, steps), &i.u64s("t")?)?))])
}

pub(super) fn explore(i: &Fields, out: &Fields, engine: &dyn Engine) -> Outputs {
    let (key, step, threshold) = (stream(i)?, i.u64("step")?, i.u64("threshold")?);
    let (explores, actions) = engine.explore(key, step, threshold, out.numbers("explores")?.len())?;
    Ok(vec![
        ("explores", Found::Numbers(explores.into_iter().map(u64::from).collect())),
        ("actions", Found::Numbers(actions.into_iter().map(u64::from).collect())),
    ])
}

pub(super) fn initial_weight(i: &Fields, out: &Fields, engine: &dyn Engine) -> Outputs {
    let (key, s) = (stream(i)?, philox::initial_scale(i.size("fan_in")?));
    let w = engine.initial_weights(key, s, out.f32s("w")?.len())?;
    Ok(vec![("s", Found::F32(vec![s])), ("w", Found::F32(w))])
}

pub(super) fn mix64(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    Ok(vec![("mix", Found::U64(engine.mix64(&i.u64s("z")?)?))])
}

pub(super) fn keys(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let k = i.number("k")?;
    let lane = u32::try_from(k).ok().filter(|k| *k < 2);
    let lane = lane.ok_or_else(|| i.fault("k", format!("expected lane 0 or 1, found {k}")))?;
    Ok(vec![("keys", Found::U32(engine.fingerprint_keys(lane)?))])
}

pub(super) fn fingerprint_of(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let text = i.text("bytes")?;
    let byte = |pair: &[u8]| {
        let digits =
            std::str::from_utf8(pair).ok().filter(|_| pair.iter().all(u8::is_ascii_hexdigit) && pair.len() == 2);
        digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())
    };
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
    let bytes = bytes.ok_or_else(|| i.fault("bytes", "expected pairs of hex digits".to_owned()))?;
    Ok(vec![("fp", Found::Text(engine.fingerprint(&bytes)?.to_string()))])
}
