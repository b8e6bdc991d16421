//! NumPy's npy format, versions 1 to 3: one array a file, as raw bytes behind a small header.
//!
//! Arrays in column-major (Fortran) order and big-endian numbers are turned into row-major little-endian ones, so that
//! equal values give equal bytes. Arrays of Python objects are pickles, which could run code, and are refused.

use super::Tensor;
use super::layout;
use super::literal::{self, Literal};
use crate::trace::record::Dtype;

/// First bytes of the format.
pub const MAGIC: &[u8] = b"\x93NUMPY";

/// Longest header read, in bytes.
const HEADER_LIMIT: usize = 1 << 20;

/// The refusal of arrays whose elements are any values of Python.
pub(super) const OBJECTS: &str = "refused: an array of Python objects is a pickle, which could run code; save numbers";

/// Most dimensions of an array; NumPy has 64.
const DIMENSIONS: usize = 64;

/// One array under a name, and remarks on how it was read.
pub fn parse(name: &str, bytes: &[u8]) -> Result<(Tensor, Vec<String>), String> {
    let (header, data) = split(bytes)?;
    let Literal::Dict(members) = literal::parse(header)? else {
        return Err("its header is no dict".to_owned());
    };
    let member = |name: &str| {
        let found = members.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        found.ok_or_else(|| format!("its header has no {name:?}"))
    };
    let item = Item::of(member("descr")?, 0)?;
    let Literal::Bool(fortran) = member("fortran_order")? else {
        return Err("its fortran_order is no bool".to_owned());
    };
    let shape = shape(member("shape")?)?;
    let bytes = content(data, &item, &shape, *fortran)?;
    let mut remarks = Vec::new();
    if item.unit > 1 && item.big {
        remarks.push(format!("{name}: converted from big-endian"));
    }
    if item.structured {
        remarks.push(format!("{name}: records {}, compared as bytes", item.word));
    }
    Ok((Tensor { name: name.to_owned(), dtype: item.dtype, word: item.word, shape, bytes }, remarks))
}

/// Header text and data.
fn split(bytes: &[u8]) -> Result<(&str, &[u8]), String> {
    let rest = bytes.strip_prefix(MAGIC).ok_or("not an npy file: it does not begin with \\x93NUMPY")?;
    let cut = || "not a whole npy file: it ends inside its header".to_owned();
    let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
    let (length, rest) = match version {
        [1, 0] => rest.split_first_chunk::<2>().map(|(n, rest)| (usize::from(u16::from_le_bytes(*n)), rest)),
        [2 | 3, 0] => rest.split_first_chunk::<4>().map(|(n, rest)| (u32::from_le_bytes(*n) as usize, rest)),
        [major, minor] => return Err(format!("npy version {major}.{minor}; 1.0, 2.0 and 3.0 are read")),
    }
    .ok_or_else(cut)?;
    if length > HEADER_LIMIT {
        return Err(format!("a header of {length} bytes; at most {HEADER_LIMIT} are read"));
    }
    let (header, data) = rest.split_at_checked(length).ok_or_else(cut)?;
    // Version 1 and 2 are Latin-1; what is not ASCII stands in field names only, where UTF-8 is as good.
    let header = std::str::from_utf8(header).map_err(|_| "its header is not UTF-8")?;
    Ok((header, data))
}

fn shape(literal: &Literal) -> Result<Vec<usize>, String> {
    let Literal::Tuple(sizes) = literal else { return Err("its shape is no tuple".to_owned()) };
    if sizes.len() > DIMENSIONS {
        return Err(format!("{} dimensions; NumPy has at most {DIMENSIONS}", sizes.len()));
    }
    let size = |l: &Literal| match l {
        Literal::Number(n) => usize::try_from(*n).map_err(|_| format!("a dimension of {n}")),
        _ => Err("a dimension that is no number".to_owned()),
    };
    sizes.iter().map(size).collect()
}

/// Row-major, little-endian bytes; the claim must be what is there before anything is allocated.
pub(super) fn content(data: &[u8], item: &Item, shape: &[usize], fortran: bool) -> Result<Vec<u8>, String> {
    let claimed = shape.iter().try_fold(item.size, |n, d| n.checked_mul(*d));
    if claimed != Some(data.len()) {
        let claimed = claimed.map_or_else(|| "more than any file".to_owned(), |n| format!("{n} bytes"));
        return Err(format!("its header claims {claimed} ({}{shape:?}), {} bytes follow", item.word, data.len()));
    }
    let mut bytes = if fortran && !data.is_empty() {
        let strides = layout::column_major(shape).ok_or("a shape that overflows")?;
        layout::gather(data, 0, shape, &strides, item.size).ok_or("a shape that overflows")?
    } else {
        data.to_vec()
    };
    if item.big {
        layout::swap(&mut bytes, item.unit);
    }
    Ok(bytes)
}

/// One element of an array.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) dtype: Option<Dtype>,
    pub(super) word: String,
    pub(super) size: usize,
    /// bytes of the number that a byte order turns round
    pub(super) unit: usize,
    pub(super) big: bool,
    structured: bool,
}

impl Item {
    fn of(descr: &Literal, depth: usize) -> Result<Self, String> {
        match descr {
            Literal::Text(text) => Item::simple(text),
            Literal::List(fields) if depth < 8 => Item::record(fields, depth),
            _ => Err("its descr is not an element type".to_owned()),
        }
    }

    /// `<f4`, `|b1`, `>c16`, `<U10`, `<M8[ns]`.
    pub(super) fn simple(text: &str) -> Result<Self, String> {
        let unknown = || format!("the element type {text:?} is not read");
        let (order, rest) = match text.chars().next() {
            Some(c @ ('<' | '>' | '|' | '=')) => (c, &text[1..]),
            _ => ('|', text),
        };
        let kind = rest.chars().next().filter(char::is_ascii).ok_or_else(unknown)?;
        if kind == 'O' {
            return Err(OBJECTS.to_owned());
        }
        let digits: &str = rest[1..].split('[').next().unwrap_or("");
        let n: usize = digits.parse().map_err(|_| unknown())?;
        let dtype = match (kind, n) {
            ('b', 1) => Some(Dtype::Bool),
            ('u', 1) => Some(Dtype::U8),
            ('i', 1) => Some(Dtype::I8),
            ('u', 2) => Some(Dtype::U16),
            ('i', 2) => Some(Dtype::I16),
            ('u', 4) => Some(Dtype::U32),
            ('i', 4) => Some(Dtype::I32),
            ('u', 8) => Some(Dtype::U64),
            ('i', 8) | ('M' | 'm', 8) => Some(Dtype::I64),
            ('f', 2) => Some(Dtype::F16),
            ('f', 4) => Some(Dtype::F32),
            ('f', 8) => Some(Dtype::F64),
            ('c', 8) => Some(Dtype::C64),
            ('c', 16) => Some(Dtype::C128),
            ('f' | 'c' | 'S' | 'a' | 'U' | 'V', _) => None,
            _ => return Err(unknown()),
        };
        let (size, unit) = match kind {
            'U' => (n.checked_mul(4).ok_or_else(unknown)?, 4),
            'S' | 'a' | 'V' => (n, 1),
            'c' => (n, n / 2),
            _ => (n, n),
        };
        let word = match (dtype, kind) {
            (Some(d), k) if !matches!(k, 'M' | 'm') => d.word().to_owned(),
            _ => rest.to_owned(),
        };
        Ok(Item { dtype, word, size, unit, big: order == '>', structured: false })
    }

    /// `[('a', '<f4'), ('b', '>i4', (2,))]`: bytes, whose order is left as it is and told in the word.
    fn record(fields: &[Literal], depth: usize) -> Result<Self, String> {
        let (mut size, mut words) = (0usize, Vec::new());
        for field in fields {
            let Literal::Tuple(parts) = field else { return Err("a field of its descr is no tuple".to_owned()) };
            let (name, descr, sizes) = match parts.as_slice() {
                [name, descr] => (name, descr, Vec::new()),
                [name, descr, sizes] => (name, descr, shape(sizes)?),
                _ => return Err("a field of its descr has not two or three parts".to_owned()),
            };
            let name = match name {
                Literal::Text(name) => name.clone(),
                Literal::Tuple(both) => format!("{both:?}"),
                _ => return Err("a field of its descr has no name".to_owned()),
            };
            let item = Item::of(descr, depth + 1)?;
            let bytes = sizes.iter().try_fold(item.size, |n, d| n.checked_mul(*d));
            size = bytes.and_then(|n| size.checked_add(n)).ok_or("a record that overflows")?;
            let order = if item.big { "big-endian " } else { "" };
            let sizes = if sizes.is_empty() { String::new() } else { format!("{sizes:?}") };
            words.push(format!("{name}: {order}{}{sizes}", item.word));
        }
        let word = format!("{{{}}}", words.join(", "));
        Ok(Item { dtype: None, word, size, unit: 1, big: false, structured: true })
    }
}
