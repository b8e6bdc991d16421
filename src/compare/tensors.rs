//! Tensors byte by byte: which elements differ, how far apart they are.
//!
//! Bits before tolerances: ±0 and NaN payloads are differences, told apart in the counts.

use std::collections::BTreeMap;

use super::verdict::{Compared, Comparison, Divergence, Elements, Reason, Verdict};
use crate::bits::ulp;
use crate::trace::record::{Dtype, Place};

/// A named tensor in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// name
    pub name: String,
    /// element type; None for bytes of unknown meaning
    pub dtype: Option<Dtype>,
    /// name of the element type, also of one that traces do not know
    pub word: String,
    /// sizes
    pub shape: Vec<usize>,
    /// raw little-endian bytes
    pub bytes: Vec<u8>,
}

/// How the elements of two tensors of one type and length differ; None when they do not.
pub fn elements(dtype: Option<Dtype>, a: &[u8], b: &[u8]) -> Option<Elements> {
    let size = dtype.map_or(1, Dtype::size);
    if a == b || a.len() != b.len() || size == 0 {
        return None;
    }
    let mut found = Elements { total: (a.len() / size) as u64, ..Elements::default() };
    let mut buckets = [0u64; 65];
    for (i, (x, y)) in a.chunks(size).zip(b.chunks(size)).enumerate() {
        if x == y {
            continue;
        }
        if found.differing == 0 {
            found.first = i as u64;
            found.bits = [bits_text(x), bits_text(y)];
            found.values = dtype.and_then(|d| Some([value_text(d, x)?, value_text(d, y)?]));
        }
        found.differing += 1;
        if matches!(dtype, Some(Dtype::F32 | Dtype::F64)) {
            count(&mut found, &mut buckets, x, y);
        }
    }
    let bucket = |(i, n): (usize, &u64)| (*n > 0 && i > 0).then(|| (bucket_name(i), *n));
    found.histogram = buckets.iter().enumerate().filter_map(bucket).collect();
    Some(found)
}

fn count(found: &mut Elements, buckets: &mut [u64; 65], x: &[u8], y: &[u8]) {
    match distance(x, y) {
        None => found.nans += 1,
        Some(0) => found.zero_signs += 1,
        Some(d) => {
            buckets[64 - d.leading_zeros() as usize] += 1;
            found.max_ulp = if found.max_ulp.is_none_or(|m| d > m) { Some(d) } else { found.max_ulp };
        }
    }
}

fn distance(x: &[u8], y: &[u8]) -> Option<u64> {
    match (<[u8; 4]>::try_from(x), <[u8; 4]>::try_from(y), <[u8; 8]>::try_from(x), <[u8; 8]>::try_from(y)) {
        (Ok(x), Ok(y), ..) => ulp::distance(u32::from_le_bytes(x), u32::from_le_bytes(y)),
        (.., Ok(x), Ok(y)) => ulp::distance64(u64::from_le_bytes(x), u64::from_le_bytes(y)),
        _ => None,
    }
}

fn bucket_name(i: usize) -> String {
    let low = 1u64 << (i - 1);
    if i == 1 { "1".to_owned() } else { format!("{low}..{}", low - 1 + low) }
}

fn bits_text(x: &[u8]) -> String {
    x.iter().rev().map(|b| format!("{b:02x}")).collect()
}

fn value_text(dtype: Dtype, x: &[u8]) -> Option<String> {
    Some(match dtype {
        Dtype::U8 => x.first()?.to_string(),
        Dtype::U32 => u32::from_le_bytes(x.try_into().ok()?).to_string(),
        Dtype::U64 => u64::from_le_bytes(x.try_into().ok()?).to_string(),
        Dtype::F32 => format!("{:e}", f32::from_le_bytes(x.try_into().ok()?)),
        Dtype::F64 => format!("{:e}", f64::from_le_bytes(x.try_into().ok()?)),
    })
}

/// Compares two lists of tensors by name, in the order of `a`.
pub fn compare(a: &[Tensor], b: &[Tensor]) -> Comparison {
    let mut result = Comparison::empty();
    let (of_a, of_b) = (by_name(a), by_name(b));
    let absent: Vec<String> = missing(a, &of_b, "second").chain(missing(b, &of_a, "first")).collect();
    let mut bytes = 0;
    for x in a {
        let Some(y) = of_b.get(x.name.as_str()) else { continue };
        result.compared.tensors += 1;
        bytes += x.bytes.len();
        if x.word == y.word && x.shape == y.shape && x.bytes == y.bytes {
            continue;
        }
        result.differing.push(x.name.clone());
        if result.first.is_none() {
            result.first = Some(divergence(x, y));
        }
    }
    result.verdict = match (&result.first, absent.first()) {
        (Some(_), _) => Verdict::Different,
        (None, Some(first)) => Verdict::unverified(Reason::NotComparable, first.clone()),
        (None, None) if result.compared == Compared::default() => return result,
        (None, None) if bytes == 0 => Verdict::unverified(Reason::NoEvidence, "every tensor is empty"),
        (None, None) => Verdict::Same,
    };
    result.left_out.extend(absent);
    result
}

fn by_name(list: &[Tensor]) -> BTreeMap<&str, &Tensor> {
    list.iter().map(|t| (t.name.as_str(), t)).collect()
}

fn missing<'a>(a: &'a [Tensor], b: &'a BTreeMap<&str, &Tensor>, side: &'a str) -> impl Iterator<Item = String> + 'a {
    let gone = a.iter().filter(|x| !b.contains_key(x.name.as_str()));
    gone.map(move |x| format!("{} is absent from the {side}", x.name))
}

fn divergence(x: &Tensor, y: &Tensor) -> Divergence {
    let same_kind = x.word == y.word && x.shape == y.shape;
    let text = |t: &Tensor| match same_kind {
        true => crate::digest::sha::sha256(&t.bytes).to_string(),
        false => format!("{}{:?}", t.word, t.shape),
    };
    Divergence {
        kind: "tensor".into(),
        place: Place::default(),
        name: x.name.clone(),
        evidence: "bytes",
        values: [text(x), text(y)],
        elements: if same_kind { elements(x.dtype, &x.bytes, &y.bytes) } else { None },
        elements_of: None,
        operation: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn floats(xs: &[u32]) -> Vec<u8> {
        xs.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    /// Would fail if signed zeros, NaN payloads or distances were confused with each other.
    #[test]
    fn kinds_of_difference_are_told_apart() {
        let a = floats(&[0, 0x3f80_0000, 0x7fc0_0000, 0x4000_0000, 7]);
        let b = floats(&[0x8000_0000, 0x3f80_0001, 0x7fc0_0001, 0x4000_0005, 7]);
        let e = elements(Some(Dtype::F32), &a, &b).unwrap();
        assert_eq!((e.differing, e.total, e.first, e.zero_signs, e.nans), (4, 5, 0, 1, 1));
        assert_eq!((e.max_ulp, e.histogram), (Some(5), vec![("1".into(), 1), ("4..7".into(), 1)]));
    }

    proptest! {
        /// Would fail if any changed byte could pass, or an equal pair be reported.
        #[test]
        fn every_changed_bit_is_seen(xs in prop::collection::vec(any::<u32>(), 1..64), at in 0usize..64, bit in 0u32..32) {
            let at = at % xs.len();
            let mut ys = xs.clone();
            ys[at] ^= 1 << bit;
            let tensor = |v: &[u32]| vec![Tensor { name: "w".into(), dtype: Some(Dtype::F32), word: "F32".into(), shape: vec![v.len()], bytes: floats(v) }];
            let result = compare(&tensor(&xs), &tensor(&ys));
            prop_assert_eq!(&result.verdict, &Verdict::Different);
            let e = result.first.unwrap().elements.unwrap();
            prop_assert_eq!((e.first, e.differing), (at as u64, 1));
            prop_assert_eq!(compare(&tensor(&xs), &tensor(&xs)).verdict, Verdict::Same);
        }

        /// Would fail if a tensor that one side lacks could be passed over.
        #[test]
        fn absence_is_never_same(names in prop::collection::btree_set("[a-c]", 0..3), others in prop::collection::btree_set("[a-c]", 0..3)) {
            let tensors = |n: &std::collections::BTreeSet<String>| -> Vec<Tensor> {
                n.iter().map(|n| Tensor { name: n.clone(), dtype: None, word: "BF16".into(), shape: vec![1], bytes: vec![1] }).collect()
            };
            let verdict = compare(&tensors(&names), &tensors(&others)).verdict;
            prop_assert_eq!(verdict == Verdict::Same, names == others && !names.is_empty());
        }
    }
}
