//! Vectors of rule 8, on the replay ring itself: a ring of one environment whose rows have the given priorities.

use super::CaseFault;
use super::engine::Engine;
use super::fields::{Fields, Found, Outputs};
use super::random_kinds::stream;

/// Batch positions that a `sample` vector lists.
const POSITIONS: usize = 32;

/// An exponent of rule 8.
pub(super) fn exponent(i: &Fields, key: &str) -> Result<f64, CaseFault> {
    match i.text(key)? {
        "0" => Ok(0.0),
        "1/2" => Ok(0.5),
        "1" => Ok(1.0),
        _ => Err(i.fault(key, "expected \"0\", \"1/2\" or \"1\"".to_owned())),
    }
}

/// Priorities from which something can be drawn.
pub(super) fn priorities(i: &Fields, key: &str) -> Result<Vec<u32>, CaseFault> {
    let q = i.u32s(key)?;
    if q.iter().all(|&q| q == 0) {
        return Err(i.fault(key, "expected a row above 0".to_owned()));
    }
    Ok(q)
}

/// Row indices, each below `rows`.
fn indices(i: &Fields, key: &str, rows: usize) -> Result<Vec<u32>, CaseFault> {
    let index = |n: u64| {
        let index = u32::try_from(n).ok().filter(|&n| (n as usize) < rows);
        index.ok_or_else(|| i.fault(key, format!("expected rows below {rows}, found {n}")))
    };
    i.numbers(key)?.into_iter().map(index).collect()
}

pub(super) fn priority_of(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let (alpha, epsilon, deltas) = (exponent(i, "alpha")?, i.f32("epsilon")?, i.f32s("deltas")?);
    i.rows("deltas", deltas.len(), 3)?;
    Ok(vec![("q", Found::U32(engine.priority(&deltas, epsilon, alpha)?))])
}

pub(super) fn draw(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let (q, r) = (priorities(i, "q")?, i.u64s("r")?);
    let total = q.iter().fold(0, |sum, q| sum + u64::from(*q));
    if let Some(r) = r.iter().find(|&&r| r >= total) {
        return Err(i.fault("r", format!("expected draws below the total {total:016x}, found {r:016x}")));
    }
    let (total, rows) = engine.find(&q, &r)?;
    Ok(vec![("total", Found::U64(vec![total])), ("rows", Found::Numbers(rows))])
}

pub(super) fn sample(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let (key, step, q) = (stream(i)?, i.u64("step")?, priorities(i, "q")?);
    let (r, rows) = engine.sample(key, step, &q, POSITIONS)?;
    Ok(vec![("r", Found::U64(r)), ("rows", Found::Numbers(rows))])
}

pub(super) fn write(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let q = priorities(i, "q")?;
    let (rows, new) = (indices(i, "rows", q.len())?, i.u32s("new")?);
    i.length("new", new.len(), rows.len())?;
    Ok(vec![("q", Found::U32(engine.renew(&q, &rows, &new)?))])
}

pub(super) fn new_row(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    Ok(vec![("q", Found::U32(vec![engine.new_row(&i.u32s("written")?)?]))])
}

pub(super) fn importance(i: &Fields, _: &Fields, engine: &dyn Engine) -> Outputs {
    let (total, n, beta) = (i.u64("total")?, i.number("n")?, exponent(i, "beta")?);
    Ok(vec![("w", Found::F32(engine.importance(total, n, &i.u32s("q")?, beta)?))])
}
