//! The pickle inside a PyTorch file, read without executing anything.
//!
//! A pickle is a program that may call any function. This reader builds numbers, strings, lists, tuples, dicts, sets and
//! descriptions of tensors, arrays and generators; the few functions of `globals.rs` are known by name and done by
//! hand, here and in `objects.rs`; any other is refused with its name. What is built lies in one list
//! ([`Pickle::values`]) and is referred to by index, so that a value that the memo shares a million times is one value;
//! how often it may be walked is bounded by whoever walks it ([`super::torch`]).

use std::collections::BTreeMap;

pub use super::globals::{Element, Global};
use super::globals::{global, refusal};
use super::objects;
pub use super::objects::{Array, ElementType, Object};

/// Index of a value.
pub type Id = u32;

/// Longest pickle read, in bytes.
const LENGTH: usize = 64 << 20;

/// Most values built, kept in the memo, or held on the stack.
const VALUES: usize = 4_000_000;

/// Most bytes written anew by the functions done here: a pickle may call them again and again on one long string.
const COPIED: usize = 4 * LENGTH;

/// What a pickle builds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `None`
    None,
    /// `True`
    Bool(bool),
    /// an integer that fits
    Int(i64),
    /// a longer one: little-endian two's complement
    Long(Box<[u8]>),
    /// binary64
    Float(f64),
    /// text
    Text(Box<str>),
    /// bytes
    Bytes(Box<[u8]>),
    /// a list
    List(Vec<Id>),
    /// a tuple or a `torch.Size`
    Tuple(Vec<Id>),
    /// a dict or an `OrderedDict`
    Dict(Box<Dict>),
    /// something known by name: a function, a type
    Global(Global),
    /// a storage of the file
    Storage(Box<Storage>),
    /// a view of a storage
    Tensor(Box<View>),
    /// a set or frozenset, in the order of the file
    Set(Vec<Id>),
    /// a deque and its greatest length
    Deque(Box<(Vec<Id>, Option<Id>)>),
    /// real and imaginary part
    Complex(Box<[f64; 2]>),
    /// NumPy's type of elements
    Dtype(Box<ElementType>),
    /// NumPy's array or scalar; None before its state is set
    Array(Option<Box<Array>>),
    /// NumPy's generator
    Object(Box<Object>),
}

/// Keys and values, in order.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Dict {
    /// as they were set
    pub items: Vec<(Id, Id)>,
    /// a dict of attributes: a module's `state_dict` has `_metadata`
    pub attributes: Option<Id>,
    /// what a `defaultdict` makes of a key that is not there
    pub factory: Option<Id>,
}

/// Bytes of the file that tensors view.
#[derive(Clone, Debug, PartialEq)]
pub struct Storage {
    /// its entry is `data/<key>`
    pub key: String,
    /// type of its elements
    pub element: Element,
    /// how many it claims
    pub count: u64,
}

/// A tensor: where its elements lie in a storage.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// the storage
    pub storage: Id,
    /// type of its elements
    pub element: Element,
    /// first element
    pub offset: u64,
    /// a tuple of sizes, slowest first; see [`Pickle::naturals`]
    pub shape: Id,
    /// a tuple: elements from one index to the next
    pub strides: Id,
}

/// A pickle that was read to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Pickle {
    /// everything built
    pub values: Vec<Value>,
    /// what the pickle stands for
    pub root: Id,
}

impl Pickle {
    /// A value; ids are made by the reader only.
    pub fn value(&self, id: Id) -> &Value {
        &self.values[id as usize]
    }

    /// Sizes or strides.
    pub fn naturals(&self, id: Id) -> Result<Vec<u64>, String> {
        naturals(&self.values, id)
    }
}

fn natural(values: &[Value], id: Id) -> Result<u64, String> {
    match &values[id as usize] {
        Value::Int(n) => u64::try_from(*n).map_err(|_| format!("a size, stride or offset of {n}")),
        _ => Err("a size, stride or offset that is no number".to_owned()),
    }
}

pub(super) fn naturals(values: &[Value], id: Id) -> Result<Vec<u64>, String> {
    let Value::Tuple(items) = &values[id as usize] else { return Err("sizes that are no tuple".to_owned()) };
    if items.len() > 64 {
        return Err(format!("a tensor of {} dimensions", items.len()));
    }
    items.iter().map(|n| natural(values, *n)).collect()
}

/// Reads a pickle of protocol 2 to 5.
pub fn read(bytes: &[u8]) -> Result<Pickle, String> {
    if bytes.len() > LENGTH {
        return Err(format!("a pickle of {} bytes; at most {LENGTH} are read", bytes.len()));
    }
    let mut machine = Machine {
        rest: bytes,
        values: Vec::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: BTreeMap::new(),
        copied: 0,
    };
    loop {
        let at = bytes.len() - machine.rest.len();
        let op = machine.take(1)?[0];
        if op == b'.' {
            break;
        }
        machine
            .step(op)
            .map_err(|e| if e.starts_with("refused") { e } else { format!("{e} (byte {at} of the pickle)") })?;
    }
    match (machine.stack.as_slice(), machine.rest) {
        ([root], []) => Ok(Pickle { root: *root, values: machine.values }),
        _ => Err("the pickle ends with more than one value".to_owned()),
    }
}

struct Machine<'a> {
    rest: &'a [u8],
    values: Vec<Value>,
    stack: Vec<Id>,
    /// heights of the stack
    marks: Vec<usize>,
    memo: BTreeMap<u32, Id>,
    /// bytes of [`COPIED`] that were used
    copied: usize,
}

type Done = Result<(), String>;

impl<'a> Machine<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], String> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or("the pickle is cut")?;
        self.rest = rest;
        Ok(head)
    }

    /// A little-endian number of `n` bytes.
    fn number(&mut self, n: usize) -> Result<u64, String> {
        Ok(self.take(n)?.iter().rev().fold(0, |x, b| x << 8 | u64::from(*b)))
    }

    /// Bytes behind their length, which has `n` bytes itself.
    fn counted(&mut self, n: usize) -> Result<&'a [u8], String> {
        let length = self.number(n)?;
        self.take(usize::try_from(length).map_err(|_| "the pickle is cut")?)
    }

    fn text(&mut self, n: usize) -> Result<&'a str, String> {
        std::str::from_utf8(self.counted(n)?).map_err(|_| "a string that is not UTF-8".to_owned())
    }

    fn line(&mut self) -> Result<&'a str, String> {
        let end = self.rest.iter().position(|b| *b == b'\n').ok_or("the pickle is cut")?;
        let line = self.take(end + 1)?;
        std::str::from_utf8(&line[..end]).map_err(|_| "a name that is not UTF-8".to_owned())
    }

    fn push(&mut self, value: Value) -> Done {
        // VALUES fits.
        let id = self.values.len() as Id;
        self.values.push(value);
        self.push_id(id)
    }

    fn push_id(&mut self, id: Id) -> Done {
        self.stack.push(id);
        let most = [self.values.len(), self.stack.len(), self.marks.len(), self.memo.len()];
        if most.iter().any(|n| *n > VALUES) {
            return Err(format!("the pickle builds more than {VALUES} values"));
        }
        Ok(())
    }

    fn copied(&mut self, bytes: usize) -> Done {
        self.copied = self.copied.saturating_add(bytes);
        if self.copied > COPIED {
            return Err("the pickle copies strings without end".to_owned());
        }
        Ok(())
    }

    /// The topmost value above the last mark.
    fn pop(&mut self) -> Result<Id, String> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.len() > floor {
            true => self.stack.pop().ok_or_else(String::new),
            false => Err("the pickle takes a value that is not there".to_owned()),
        }
    }

    /// The values above the last mark, which is taken away.
    fn pop_mark(&mut self) -> Result<Vec<Id>, String> {
        let mark = self.marks.pop().ok_or("the pickle takes a mark that is not there")?;
        Ok(self.stack.split_off(mark))
    }

    fn top(&self) -> Result<Id, String> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let above = self.stack.get(floor..).and_then(<[Id]>::last).copied();
        above.ok_or_else(|| "the pickle takes a value that is not there".to_owned())
    }

    fn value(&self, id: Id) -> &Value {
        // Ids are made by `push` only.
        &self.values[id as usize]
    }

    fn step(&mut self, op: u8) -> Done {
        match op {
            // PROTO, FRAME
            0x80 => match self.number(1)? {
                2..=5 => Ok(()),
                other => Err(format!("pickle protocol {other}; 2 to 5 are read")),
            },
            0x95 => self.take(8).map(drop),
            b'N' | 0x88 | 0x89 | b'J' | b'K' | b'M' | 0x8a | 0x8b | b'G' => self.scalar(op),
            b'X' | 0x8c | 0x8d | b'B' | b'C' | 0x8e | 0x96 => self.string(op),
            b'}' | b']' | b')' | b'(' | b't' | 0x85..=0x87 | b'l' | b'd' | b'0' | b'1' | b'2' | 0x8f | 0x91 => {
                self.container(op)
            }
            b'a' | b'e' | b's' | b'u' | 0x90 => self.fill(op),
            b'q' | b'r' | 0x94 | b'h' | b'j' => self.memo(op),
            b'c' | 0x93 | b'R' | b'b' | b'Q' => self.call(op),
            b'i' => {
                let (module, name) = (self.line()?, self.line()?);
                Err(refusal(module, name))
            }
            _ => Err(format!("the pickle holds the instruction {:?}, which samebits does not read", op as char)),
        }
    }

    fn scalar(&mut self, op: u8) -> Done {
        let value = match op {
            b'N' => Value::None,
            0x88 => Value::Bool(true),
            0x89 => Value::Bool(false),
            b'J' => Value::Int(i64::from(self.number(4)? as u32 as i32)),
            b'K' => Value::Int(self.number(1)? as i64),
            b'M' => Value::Int(self.number(2)? as i64),
            0x8a => long(self.counted(1)?),
            0x8b => long(self.counted(4)?),
            // Big-endian, unlike everything else.
            _ => Value::Float(f64::from_bits(self.number(8)?.swap_bytes())),
        };
        self.push(value)
    }

    fn string(&mut self, op: u8) -> Done {
        let value = match op {
            b'X' => Value::Text(self.text(4)?.into()),
            0x8c => Value::Text(self.text(1)?.into()),
            0x8d => Value::Text(self.text(8)?.into()),
            b'B' => Value::Bytes(self.counted(4)?.into()),
            b'C' => Value::Bytes(self.counted(1)?.into()),
            _ => Value::Bytes(self.counted(8)?.into()),
        };
        self.push(value)
    }

    fn container(&mut self, op: u8) -> Done {
        match op {
            b'}' => self.push(Value::Dict(Box::default())),
            b']' => self.push(Value::List(Vec::new())),
            b')' => self.push(Value::Tuple(Vec::new())),
            0x8f => self.push(Value::Set(Vec::new())),
            0x91 => {
                let items = self.pop_mark()?;
                self.push(Value::Set(items))
            }
            b'(' => {
                self.marks.push(self.stack.len());
                if self.marks.len() > VALUES { Err("the pickle nests without end".to_owned()) } else { Ok(()) }
            }
            b't' => {
                let items = self.pop_mark()?;
                self.push(Value::Tuple(items))
            }
            0x85..=0x87 => {
                let mut items = (0..op - 0x84).map(|_| self.pop()).collect::<Result<Vec<Id>, _>>()?;
                items.reverse();
                self.push(Value::Tuple(items))
            }
            b'l' => {
                let items = self.pop_mark()?;
                self.push(Value::List(items))
            }
            b'd' => {
                let items = pairs(self.pop_mark()?)?;
                self.push(Value::Dict(Box::new(Dict { items, ..Dict::default() })))
            }
            b'0' => self.pop().map(drop),
            b'1' => self.pop_mark().map(drop),
            _ => {
                let top = self.top()?;
                self.push_id(top)
            }
        }
    }

    /// Appends to the list, adds to the set, or sets in the dict, below the values.
    fn fill(&mut self, op: u8) -> Done {
        let given = match op {
            b'a' => vec![self.pop()?],
            b's' => {
                let value = self.pop()?;
                vec![self.pop()?, value]
            }
            _ => self.pop_mark()?,
        };
        let into = self.top()? as usize;
        match (op, &mut self.values[into]) {
            (b'a' | b'e', Value::List(list)) => list.extend(given),
            (b'a' | b'e', Value::Deque(deque)) => deque.0.extend(given),
            (0x90, Value::Set(set)) => set.extend(given),
            (b's' | b'u', Value::Dict(dict)) => dict.items.extend(pairs(given)?),
            _ => return Err("the pickle fills what is no list or dict".to_owned()),
        }
        Ok(())
    }

    fn memo(&mut self, op: u8) -> Done {
        let key = match op {
            b'q' | b'h' => self.number(1)?,
            b'r' | b'j' => self.number(4)?,
            _ => self.memo.len() as u64,
        } as u32;
        if matches!(op, b'h' | b'j') {
            let id = *self.memo.get(&key).ok_or("the pickle recalls what it did not keep")?;
            return self.push_id(id);
        }
        let top = self.top()?;
        self.memo.insert(key, top);
        if self.memo.len() > VALUES { Err("the pickle keeps values without end".to_owned()) } else { Ok(()) }
    }

    fn call(&mut self, op: u8) -> Done {
        let value = match op {
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                Value::Global(global(module, name)?)
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let (Value::Text(module), Value::Text(name)) = (self.value(module), self.value(name)) else {
                    return Err("the pickle names a function by something that is no string".to_owned());
                };
                Value::Global(global(module, name)?)
            }
            b'b' => return self.attributes(),
            b'Q' => {
                let id = self.pop()?;
                self.copied(128)?;
                Value::Storage(Box::new(self.storage(id)?))
            }
            _ => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                return self.reduce(function, arguments);
            }
        };
        self.push(value)
    }

    /// Attributes of an `OrderedDict`, which are a dict, or the state of a value of NumPy.
    fn attributes(&mut self) -> Done {
        let (state, into) = (self.pop()?, self.top()?);
        let by_dict = matches!(self.value(state), Value::Dict(_));
        match &mut self.values[into as usize] {
            Value::Dict(_) if !by_dict => Err("the pickle sets attributes by something that is no dict".to_owned()),
            Value::Dict(dict) if dict.attributes.is_none() => {
                dict.attributes = Some(state);
                Ok(())
            }
            _ => objects::set_state(&mut self.values, into, state),
        }
    }

    fn tuple(&self, id: Id) -> Result<&[Id], String> {
        match self.value(id) {
            Value::Tuple(items) => Ok(items),
            _ => Err("an argument that is no tuple".to_owned()),
        }
    }

    /// `('storage', torch.FloatStorage, '0', 'cpu', 6)`
    fn storage(&self, id: Id) -> Result<Storage, String> {
        let [tag, kind, key, _, count] = self.tuple(id)? else {
            return Err("a storage of an unknown form".to_owned());
        };
        match (self.value(*tag), self.value(*kind), self.value(*key)) {
            (Value::Text(tag), Value::Global(Global::Storage(element)), Value::Text(key))
                if &**tag == "storage" && key.len() <= 64 =>
            {
                Ok(Storage { key: key.to_string(), element: *element, count: natural(&self.values, *count)? })
            }
            _ => Err("a storage of an unknown form".to_owned()),
        }
    }

    fn reduce(&mut self, function: Id, arguments: Id) -> Done {
        let given = self.tuple(arguments)?;
        let Value::Global(global) = self.value(function) else {
            return Err("the pickle calls what is no function".to_owned());
        };
        let (value, copied) = match (global, given) {
            (Global::OrderedDict, []) => (Value::Dict(Box::default()), 0),
            (Global::Rebuild { typed }, _) => (Value::Tensor(Box::new(self.tensor(*typed, given)?)), 0),
            (Global::Device, _) => (Value::Text(self.device(given)?.into()), 128),
            (Global::Encode, [text, encoding]) => {
                let bytes = self.latin1(*text, *encoding)?;
                let length = bytes.len();
                (Value::Bytes(bytes), length)
            }
            // A parameter is its tensor, a size its tuple, a counter its dict.
            (Global::Parameter, [same, ..]) | (Global::Size, [same]) => {
                let same = *same;
                return self.push_id(same);
            }
            (Global::Counter, [same]) if matches!(self.value(*same), Value::Dict(_)) => {
                let same = *same;
                return self.push_id(same);
            }
            _ => objects::build(&self.values, global, given)?,
        };
        self.copied(copied)?;
        self.push(value)
    }

    fn tensor(&self, typed: bool, given: &[Id]) -> Result<View, String> {
        let [storage, offset, shape, strides, _, _, rest @ ..] = given else {
            return Err("a tensor of an unknown form".to_owned());
        };
        let Value::Storage(held) = self.value(*storage) else {
            return Err("a tensor without a storage".to_owned());
        };
        // After the type, where there is one: whether its values are conjugates or negatives of what is stored.
        let flags = if typed { rest.get(1) } else { rest.first() };
        if flags.is_some_and(|id| !self.is_empty(*id)) {
            let how = "call resolve_conj() and resolve_neg() before torch.save";
            return Err(format!("a tensor that is a conjugate or a negative of what is stored; {how}"));
        }
        let element = match (typed, rest) {
            (false, _) => held.element,
            (true, [element, ..]) => match self.value(*element) {
                Value::Global(Global::Element(element)) => *element,
                _ => return Err("a tensor of an unknown type".to_owned()),
            },
            _ => return Err("a tensor of an unknown form".to_owned()),
        };
        // The tuples may be shared by any number of tensors, so they are kept once.
        if naturals(&self.values, *shape)?.len() != naturals(&self.values, *strides)?.len() {
            return Err("a tensor with more sizes than strides, or fewer".to_owned());
        }
        let offset = natural(&self.values, *offset)?;
        Ok(View { storage: *storage, element, offset, shape: *shape, strides: *strides })
    }

    fn is_empty(&self, id: Id) -> bool {
        match self.value(id) {
            Value::Dict(dict) => dict.items.is_empty(),
            value => *value == Value::None,
        }
    }

    /// `cuda:0`
    fn device(&self, given: &[Id]) -> Result<String, String> {
        match given.iter().map(|id| self.value(*id)).collect::<Vec<_>>().as_slice() {
            [Value::Text(kind)] if kind.len() <= 64 => Ok(kind.to_string()),
            [Value::Text(kind), Value::Int(index)] if kind.len() <= 64 => Ok(format!("{kind}:{index}")),
            _ => Err("a device of an unknown form".to_owned()),
        }
    }

    fn latin1(&self, id: Id, encoding: Id) -> Result<Box<[u8]>, String> {
        let Value::Text(text) = self.value(id) else { return Err("bytes that are no string".to_owned()) };
        match self.value(encoding) {
            Value::Text(encoding) if matches!(&**encoding, "latin1" | "latin-1") => {}
            _ => return Err("bytes in another encoding than latin1".to_owned()),
        }
        let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
        bytes.map(Vec::into_boxed_slice).ok_or_else(|| "bytes that are not Latin-1".to_owned())
    }
}

fn pairs(items: Vec<Id>) -> Result<Vec<(Id, Id)>, String> {
    if !items.len().is_multiple_of(2) {
        return Err("a dict with a key and no value".to_owned());
    }
    Ok(items.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

/// Little-endian two's complement.
fn long(bytes: &[u8]) -> Value {
    if bytes.len() > 8 { Value::Long(bytes.into()) } else { Value::Int(whole(bytes, true) as i64) }
}

/// A whole number of at most 16 bytes, little-endian.
pub(super) fn whole(bytes: &[u8], signed: bool) -> i128 {
    let is_negative = signed && bytes.last().is_some_and(|b| b & 0x80 != 0);
    bytes.iter().rev().fold(if is_negative { -1 } else { 0 }, |n, b| n << 8 | i128::from(*b))
}
