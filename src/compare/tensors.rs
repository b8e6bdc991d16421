//! Tensors byte by byte: which elements differ, how far apart they are.
//!
//! Bits before tolerances: ±0 and NaN payloads are differences, told apart in the counts.

use std::collections::BTreeMap;

use super::verdict::{Compared, Comparison, Divergence, Elements, Reason, Verdict};
pub use crate::artifact::Tensor;
use crate::bits::ulp;
use crate::trace::record::{Dtype, Place};

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
            found.bits = [bits_text(dtype, x), bits_text(dtype, y)];
            found.values = dtype.and_then(|d| Some([value_text(d, x)?, value_text(d, y)?]));
        }
        found.differing += 1;
        if let Some(distance) = dtype.and_then(|d| distance(d, x, y)) {
            count(&mut found, &mut buckets, distance);
        }
    }
    let bucket = |(i, n): (usize, &u64)| (*n > 0 && i > 0).then(|| (bucket_name(i), *n));
    found.histogram = buckets.iter().enumerate().filter_map(bucket).collect();
    Some(found)
}

/// How far apart two floats are that differ in a bit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    /// 0 ULP: zeros of other sign
    ZeroSigns,
    /// so many ULP
    Ulp(u64),
    /// no distance: one is a NaN
    Nan,
}

fn count(found: &mut Elements, buckets: &mut [u64; 65], distance: Distance) {
    match distance {
        Distance::Nan => found.nans += 1,
        Distance::ZeroSigns => found.zero_signs += 1,
        Distance::Ulp(d) => {
            buckets[64 - d.leading_zeros() as usize] += 1;
            found.max_ulp = if found.max_ulp.is_none_or(|m| d > m) { Some(d) } else { found.max_ulp };
        }
    }
}

/// Distance of two elements; None where the type has none. That of a complex number is that of its farther component.
fn distance(dtype: Dtype, x: &[u8], y: &[u8]) -> Option<Distance> {
    let ulp = match dtype {
        Dtype::F16 => ulp::distance16(u16_of(x)?, u16_of(y)?, ulp::INFINITY_F16),
        Dtype::Bf16 => ulp::distance16(u16_of(x)?, u16_of(y)?, ulp::INFINITY_BF16),
        Dtype::F32 => ulp::distance(u32_of(x)?, u32_of(y)?),
        Dtype::F64 => ulp::distance64(u64_of(x)?, u64_of(y)?),
        Dtype::C64 | Dtype::C128 => {
            let (half, part) = component(dtype)?;
            let parts = x.chunks(half).zip(y.chunks(half)).filter(|(x, y)| x != y);
            return parts.filter_map(|(x, y)| distance(part, x, y)).max();
        }
        _ => return None,
    };
    Some(match ulp {
        None => Distance::Nan,
        Some(0) => Distance::ZeroSigns,
        Some(d) => Distance::Ulp(d),
    })
}

/// Size and type of a complex number's components.
fn component(dtype: Dtype) -> Option<(usize, Dtype)> {
    match dtype {
        Dtype::C64 => Some((4, Dtype::F32)),
        Dtype::C128 => Some((8, Dtype::F64)),
        _ => None,
    }
}

fn u16_of(x: &[u8]) -> Option<u16> {
    x.try_into().ok().map(u16::from_le_bytes)
}

fn u32_of(x: &[u8]) -> Option<u32> {
    x.try_into().ok().map(u32::from_le_bytes)
}

fn u64_of(x: &[u8]) -> Option<u64> {
    x.try_into().ok().map(u64::from_le_bytes)
}

fn bucket_name(i: usize) -> String {
    let low = 1u64 << (i - 1);
    if i == 1 { "1".to_owned() } else { format!("{low}..{}", low - 1 + low) }
}

/// Most significant digit first; a complex number has those of its real and its imaginary part.
fn bits_text(dtype: Option<Dtype>, x: &[u8]) -> String {
    let part = dtype.and_then(component).map_or(16, |(half, _)| half);
    let hex = |part: &[u8]| part.iter().rev().map(|b| format!("{b:02x}")).collect::<String>();
    x.chunks(part).map(hex).collect::<Vec<_>>().join(" ")
}

fn value_text(dtype: Dtype, x: &[u8]) -> Option<String> {
    Some(match dtype {
        Dtype::Bool => match x.first()? {
            0 => "false".to_owned(),
            1 => "true".to_owned(),
            other => format!("{other}, which is no bool"),
        },
        Dtype::U8 => x.first()?.to_string(),
        Dtype::I8 => (*x.first()? as i8).to_string(),
        Dtype::U16 => u16_of(x)?.to_string(),
        Dtype::I16 => (u16_of(x)? as i16).to_string(),
        Dtype::U32 => u32_of(x)?.to_string(),
        Dtype::I32 => (u32_of(x)? as i32).to_string(),
        Dtype::U64 => u64_of(x)?.to_string(),
        Dtype::I64 => (u64_of(x)? as i64).to_string(),
        Dtype::F16 => format!("{:e}", ulp::f16_value(u16_of(x)?)),
        Dtype::Bf16 => format!("{:e}", ulp::bf16_value(u16_of(x)?)),
        Dtype::F32 => format!("{:e}", f32::from_bits(u32_of(x)?)),
        Dtype::F64 => format!("{:e}", f64::from_bits(u64_of(x)?)),
        Dtype::C64 | Dtype::C128 => {
            let (half, part) = component(dtype)?;
            format!("({}, {})", value_text(part, x.get(..half)?)?, value_text(part, x.get(half..)?)?)
        }
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
        bytes += content(x);
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

/// Bytes that a tensor says something by: the texts of a header say nothing where all tensors are empty.
pub fn content(tensor: &Tensor) -> usize {
    let is_metadata = tensor.dtype.is_none() && tensor.word == "metadata";
    if is_metadata { 0 } else { tensor.bytes.len() }
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
        lines: is_file(x).zip(is_file(y)).and_then(|(x, y)| super::lines::differences(x, y)),
        operation: None,
    }
}

/// Bytes of a file of unknown form, of standard output or of a string: what may be text.
fn is_file(t: &Tensor) -> Option<&[u8]> {
    let plain = t.shape.len() == 1 && ["u8", "bytes", "str"].contains(&t.word.as_str());
    plain.then_some(t.bytes.as_slice())
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

    /// Would fail if a type lost its values, or a complex number the distance of either component.
    #[test]
    fn every_type_has_values() {
        for (dtype, a, b, values, ulp) in [
            (Dtype::Bool, vec![0], vec![1], ["false", "true"], None),
            (Dtype::I8, vec![0xff], vec![1], ["-1", "1"], None),
            (Dtype::I16, vec![0xfe, 0xff], vec![1, 0], ["-2", "1"], None),
            (Dtype::U16, vec![0xfe, 0xff], vec![1, 0], ["65534", "1"], None),
            (Dtype::I32, (-7i32).to_le_bytes().into(), 7i32.to_le_bytes().into(), ["-7", "7"], None),
            (Dtype::I64, i64::MIN.to_le_bytes().into(), 7i64.to_le_bytes().into(), ["-9223372036854775808", "7"], None),
            (Dtype::F16, vec![0, 0x3c], vec![3, 0x3c], ["1e0", "1.0029297e0"], Some(3)),
            (Dtype::Bf16, vec![0x80, 0x3f], vec![0x81, 0x3f], ["1e0", "1.0078125e0"], Some(1)),
            (Dtype::C64, floats(&[0, 1]), floats(&[0x8000_0000, 5]), ["(0e0, 1e-45)", "(-0e0, 7e-45)"], Some(4)),
        ] {
            let e = elements(Some(dtype), &a, &b).unwrap();
            assert_eq!((e.values.unwrap(), e.max_ulp, e.total), (values.map(str::to_owned), ulp, 1), "{dtype:?}");
        }
        let zeros = elements(Some(Dtype::C64), &floats(&[0, 1]), &floats(&[0x8000_0000, 1])).unwrap();
        assert_eq!(zeros.bits, ["00000000 00000001", "80000000 00000001"]);
        let nans = elements(Some(Dtype::C64), &floats(&[0, 0x7fc0_0000]), &floats(&[1, 0x7fc0_0001])).unwrap();
        assert_eq!((zeros.zero_signs, nans.nans, nans.max_ulp), (1, 1, None));
        assert!(
            Dtype::ALL
                .iter()
                .all(|(word, d)| d.word() == *word && format!("\"{word}\"") == serde_json::to_string(d).unwrap())
        );
    }

    proptest! {
        /// Would fail if any changed byte could pass, or an equal pair be reported.
        #[test]
        fn every_changed_bit_is_seen(xs in prop::collection::vec(any::<u32>(), 1..64), at in 0usize..64, bit in 0u32..32) {
            let at = at % xs.len();
            let mut ys = xs.clone();
            ys[at] ^= 1 << bit;
            let tensor = |v: &[u32]| vec![Tensor { name: "w".into(), dtype: Some(Dtype::F32), word: "f32".into(), shape: vec![v.len()], bytes: floats(v) }];
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
                n.iter().map(|n| Tensor { name: n.clone(), dtype: None, word: "bf16".into(), shape: vec![1], bytes: vec![1] }).collect()
            };
            let verdict = compare(&tensors(&names), &tensors(&others)).verdict;
            prop_assert_eq!(verdict == Verdict::Same, names == others && !names.is_empty());
        }
    }
}
