//! What a pickle builds by a call and keeps in a state: NumPy's arrays, scalars, types and generators, Python's sets,
//! deques, counters and defaultdicts.
//!
//! Nothing is called. Each function of the list in [`super::globals`] is known with one form of arguments and one form
//! of state; any other form is refused. Verified here: the element type (no Python objects, no records), and that an
//! array's bytes are exactly as many as its shape says. A generator must hold its state, under its own name; that the
//! state is one which the generator could reach is not verified.

use super::globals::Global;
use super::npy::{self, Item};
use super::pickle::{Dict, Id, Pickle, Value, naturals, whole};
use crate::trace::record::Dtype;

/// An element type, `numpy.dtype('f4', False, True)`.
#[derive(Clone, Debug, PartialEq)]
pub struct ElementType {
    /// `f4`, `M8`
    code: Box<str>,
    /// with its byte order and unit, once they are set
    item: Option<Item>,
}

/// An array or a scalar.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    element: Id,
    /// a tuple; None for a scalar
    shape: Option<Id>,
    fortran: bool,
    data: Id,
}

/// A generator of random numbers, or what seeded one.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    kind: Kind,
    state: Option<Id>,
}

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// `PCG64`, by its name
    Bits(&'static str),
    /// a `Generator` or `RandomState` on bits known by their name only, as NumPy before 2 wrote it
    Named(&'static str),
    /// the same on bits that are a value
    On(Id),
    /// `SeedSequence`
    Seeds,
}

/// Members of a `SeedSequence`, in the order of its state.
const SEEDS: [&str; 5] = ["entropy", "n_children_spawned", "pool", "pool_size", "spawn_key"];

const UNKNOWN: &str = "the pickle calls a known function with unknown arguments";

/// The value of a call, and how many bytes were copied for it.
pub fn build(values: &[Value], global: &Global, given: &[Id]) -> Result<(Value, usize), String> {
    let arguments: Vec<&Value> = given.iter().map(|id| &values[*id as usize]).collect();
    let value = match (global, arguments.as_slice()) {
        (Global::DefaultDict, [] | [Value::None]) => Value::Dict(Box::default()),
        (Global::DefaultDict, [Value::Global(_)]) => {
            Value::Dict(Box::new(Dict { factory: given.first().copied(), ..Dict::default() }))
        }
        (Global::Deque, []) => Value::Deque(Box::default()),
        (Global::Deque, [Value::Tuple(items), Value::Int(_) | Value::None]) if items.is_empty() => {
            Value::Deque(Box::new((Vec::new(), given.get(1).copied())))
        }
        (Global::Type("set" | "frozenset"), [Value::List(items)]) => {
            return Ok((Value::Set(items.clone()), size_of_val(items.as_slice())));
        }
        (Global::Type("bytes"), []) => Value::Bytes(Box::default()),
        (Global::Type("bytearray"), [Value::Bytes(bytes)]) => return Ok((Value::Bytes(bytes.clone()), bytes.len())),
        (Global::Type("complex"), [Value::Float(re), Value::Float(im)]) => Value::Complex(Box::new([*re, *im])),
        (Global::Dtype, [Value::Text(code), Value::Bool(false), Value::Bool(true)])
            if code.len() <= 16 && code.bytes().all(|b| b.is_ascii_alphanumeric()) =>
        {
            Value::Dtype(Box::new(ElementType { code: code.clone(), item: None }))
        }
        (Global::Reconstruct, [Value::Global(Global::Ndarray), Value::Tuple(shape), Value::Bytes(kind)])
            if &**kind == b"b" && matches!(shape.as_slice(), [n] if values[*n as usize] == Value::Int(0)) =>
        {
            Value::Array(None)
        }
        (Global::Scalar, [_, _]) => array(values, given[0], None, false, given[1])?,
        (Global::FromBuffer, [_, _, _, Value::Text(order)]) if matches!(&**order, "C" | "F") => {
            array(values, given[1], Some(given[2]), &**order == "F", given[0])?
        }
        _ => Value::Object(Box::new(Object { kind: generator(global, given, &arguments)?, state: None })),
    };
    Ok((value, 0))
}

/// A generator by the constructor that NumPy pickles.
fn generator(global: &Global, given: &[Id], arguments: &[&Value]) -> Result<Kind, String> {
    let named = |value: &Value| match value {
        Value::Text(name) => bits(name),
        Value::Global(Global::Bits(name)) => Some(*name),
        _ => None,
    };
    let is_bits = |value: &Value| matches!(value, Value::Object(object) if matches!(object.kind, Kind::Bits(_)));
    let found = match (global, arguments) {
        (Global::BitsCtor, [name]) => named(name).map(Kind::Bits),
        (Global::GeneratorCtor, [on]) if is_bits(on) => given.first().map(|id| Kind::On(*id)),
        (Global::GeneratorCtor, [name] | [name, Value::Global(Global::BitsCtor)]) => named(name).map(Kind::Named),
        (Global::SeedsNew, [Value::Global(Global::Seeds), Value::Int(_), Value::None]) => Some(Kind::Seeds),
        _ => None,
    };
    found.ok_or_else(|| UNKNOWN.to_owned())
}

/// Generators of bits that NumPy has, by their names.
pub fn bits(name: &str) -> Option<&'static str> {
    ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"].into_iter().find(|known| *known == name)
}

/// An array whose bytes are as many as its type and shape say.
fn array(values: &[Value], element: Id, shape: Option<Id>, fortran: bool, data: Id) -> Result<Value, String> {
    let item = item(values, element)?;
    let sizes = shape.map_or_else(|| Ok(Vec::new()), |id| naturals(values, id))?;
    let data = match &values[data as usize] {
        Value::Bytes(bytes) => (data, bytes.len() as u64),
        Value::List(_) => return Err(npy::OBJECTS.to_owned()),
        _ => return Err("an array whose data is no bytes".to_owned()),
    };
    let claimed = sizes.iter().try_fold(item.size as u64, |n, d| n.checked_mul(*d));
    if claimed != Some(data.1) {
        let word = &item.word;
        return Err(format!("an array that claims {word}{sizes:?}, and {} bytes of data", data.1));
    }
    Ok(Value::Array(Some(Box::new(Array { element, shape, fortran, data: data.0 }))))
}

fn item(values: &[Value], element: Id) -> Result<&Item, String> {
    match &values[element as usize] {
        Value::Dtype(element) => element.item.as_ref().ok_or_else(|| "an element type without its state".to_owned()),
        _ => Err("an array of an unknown type".to_owned()),
    }
}

/// Gives a value the state that a pickle builds it with; a second state is refused.
pub fn set_state(values: &mut [Value], into: Id, state: Id) -> Result<(), String> {
    let parts: &[Id] = match &values[state as usize] {
        Value::Tuple(items) => items,
        _ => &[],
    };
    let built = match (&values[into as usize], parts) {
        (Value::Array(None), [version, shape, element, fortran, data])
            if values[*version as usize] == Value::Int(1) =>
        {
            let Value::Bool(fortran) = values[*fortran as usize] else { return Err(UNKNOWN.to_owned()) };
            array(values, *element, Some(*shape), fortran, *data)?
        }
        (Value::Dtype(element), parts) if element.item.is_none() => {
            let parts: Vec<&Value> = parts.iter().map(|id| &values[*id as usize]).collect();
            let item = Some(typed(values, &element.code, &parts)?);
            Value::Dtype(Box::new(ElementType { code: element.code.clone(), item }))
        }
        (Value::Object(object), _) if object.state.is_none() => {
            Value::Object(Box::new(Object { kind: object.kind, state: Some(state) }))
        }
        (Value::Array(_) | Value::Dtype(_) | Value::Object(_), _) => {
            return Err("the pickle gives a value of NumPy a state of an unknown form".to_owned());
        }
        _ => return Err("the pickle sets attributes of what has none".to_owned()),
    };
    values[into as usize] = built;
    Ok(())
}

/// `(3, '<', None, None, None, -1, -1, 0)`, and with the unit of a time `(4, ..., (None, (b's', 1, 1, 1)))`.
fn typed(values: &[Value], code: &str, state: &[&Value]) -> Result<Item, String> {
    let unknown = || format!("refused: an array of NumPy's type {code:?}; numbers, strings and times are read");
    if code.starts_with('O') {
        return Err(npy::OBJECTS.to_owned());
    }
    let [Value::Int(3 | 4), Value::Text(order), parts @ .., Value::Int(size), _, _] = state.get(..8).unwrap_or(state)
    else {
        return Err(unknown());
    };
    // A type of several numbers, names of fields, fields.
    if parts.len() != 3 || parts.iter().any(|part| **part != Value::None) {
        return Err("refused: an array of records; save its fields one by one".to_owned());
    }
    let unit = match state.get(8..).unwrap_or_default() {
        [] => String::new(),
        [Value::Tuple(both)] => time_unit(values, both).ok_or_else(unknown)?,
        _ => return Err(unknown()),
    };
    let item = Item::simple(&format!("{order}{code}{unit}"))?;
    let extended = item.dtype.is_none() && code.starts_with(['f', 'c']);
    if extended {
        return Err(format!("refused: numbers of type {code:?} hold bytes without a meaning; save them as float64"));
    }
    let sized = *size == -1 || usize::try_from(*size) == Ok(item.size);
    let ordered = matches!(&**order, "<" | ">") || (&**order == "|" && item.unit <= 1);
    if sized && ordered { Ok(item) } else { Err(unknown()) }
}

/// `[s]`, `[25us]`.
fn time_unit(values: &[Value], both: &[Id]) -> Option<String> {
    let [_, unit] = both else { return None };
    let Value::Tuple(parts) = &values[*unit as usize] else { return None };
    let parts: Vec<&Value> = parts.iter().map(|id| &values[*id as usize]).collect();
    let [Value::Bytes(unit), Value::Int(count), Value::Int(1), Value::Int(1)] = parts.as_slice() else { return None };
    let unit = std::str::from_utf8(unit).ok().filter(|u| u.len() <= 8 && u.bytes().all(|b| b.is_ascii_alphabetic()))?;
    Some(if *count == 1 { format!("[{unit}]") } else { format!("[{count}{unit}]") })
}

/// Type, sizes and bytes of an array, and the type of an element type; the caller has bounded the bytes.
impl Array {
    /// Bytes that it holds.
    pub fn size(&self, pickle: &Pickle) -> u64 {
        match pickle.value(self.data) {
            Value::Bytes(bytes) => bytes.len() as u64,
            _ => 0,
        }
    }

    /// The digits of a scalar that is a whole number.
    pub fn whole_number(&self, pickle: &Pickle) -> Option<String> {
        let (item, None) = (item(&pickle.values, self.element).ok()?, self.shape) else { return None };
        let signed = matches!(item.dtype?, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64);
        if !signed && !matches!(item.dtype?, Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64) {
            return None;
        }
        let (_, _, bytes) = self.read(pickle).ok()?;
        Some(whole(&bytes, signed).to_string())
    }

    /// Its element, its sizes and its elements in row-major order, little-endian.
    pub(super) fn read<'a>(&self, pickle: &'a Pickle) -> Result<(&'a Item, Vec<usize>, Vec<u8>), String> {
        let item = item(&pickle.values, self.element)?;
        let sizes = self.shape.map_or_else(|| Ok(Vec::new()), |id| pickle.naturals(id))?;
        let shape: Option<Vec<usize>> = sizes.iter().map(|n| usize::try_from(*n).ok()).collect();
        let shape = shape.ok_or_else(|| format!("it claims {sizes:?} elements"))?;
        let Value::Bytes(data) = pickle.value(self.data) else { return Err("an array without data".to_owned()) };
        let bytes = npy::content(data, item, &shape, self.fortran)?;
        Ok((item, shape, bytes))
    }
}

impl ElementType {
    /// `f32`, `big-endian f32`; None before its state is set.
    pub fn words(&self) -> Option<String> {
        let item = self.item.as_ref()?;
        let order = if item.big && item.unit > 1 { "big-endian " } else { "" };
        Some(format!("{order}{}", item.word))
    }
}

impl Object {
    /// The parts of a generator by their names, all of them.
    pub fn parts<'a>(&self, pickle: &'a Pickle) -> Result<Vec<(&'a str, Id)>, String> {
        let none = || "a generator of NumPy without its state".to_owned();
        let state = || self.state.ok_or_else(none);
        match self.kind {
            Kind::Seeds => match pickle.value(state()?) {
                Value::Tuple(items) if items.len() == SEEDS.len() => {
                    Ok(SEEDS.into_iter().zip(items.iter().copied()).collect())
                }
                _ => Err("a SeedSequence of an unknown form".to_owned()),
            },
            Kind::Named(name) => fields(pickle, state()?, name),
            Kind::On(inner) => {
                let Value::Object(bits) = pickle.value(inner) else { return Err(none()) };
                let Kind::Bits(name) = bits.kind else { return Err(none()) };
                let own = self.state.map_or_else(|| Ok(Vec::new()), |state| fields(pickle, state, name))?;
                Ok([vec![("_bit_generator", inner)], own].concat())
            }
            Kind::Bits(name) => match pickle.value(state()?) {
                Value::Tuple(both) => match both.as_slice() {
                    [own, seeds] => Ok([fields(pickle, *own, name)?, vec![("seed_seq", *seeds)]].concat()),
                    _ => Err(none()),
                },
                _ => fields(pickle, state()?, name),
            },
        }
    }
}

/// The entries of a generator's state, which must be that of bits of this name.
fn fields<'a>(pickle: &'a Pickle, state: Id, name: &str) -> Result<Vec<(&'a str, Id)>, String> {
    let Value::Dict(dict) = pickle.value(state) else {
        return Err("a generator whose state is no dict".to_owned());
    };
    let text = |id: Id| match pickle.value(id) {
        Value::Text(text) => Ok(&**text),
        _ => Err("a generator whose state has a key or name that is no string".to_owned()),
    };
    let parts = dict.items.iter().map(|(key, value)| Ok((text(*key)?, *value))).collect::<Result<Vec<_>, String>>()?;
    let own = parts.iter().find(|(key, _)| *key == "bit_generator").map(|(_, id)| text(*id)).transpose()?;
    match own {
        Some(own) if own == name => Ok(parts),
        _ => Err(format!("a generator {name} with the state of {}", own.unwrap_or("none"))),
    }
}
