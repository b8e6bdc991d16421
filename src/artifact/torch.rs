//! PyTorch's state files (`torch.save` since 1.6): a zip file with a pickle and a file for each storage.
//!
//! Nested state is flattened to dotted names: `optimizer.state.0.exp_avg`. Numbers, strings and empty containers count
//! too: what a file holds is compared or refused, never passed over. Views are read as their elements, row-major, so
//! that strides, offsets and shared storages do not decide. NumPy's arrays and scalars are tensors; its generators are
//! their states; the elements of a set, which has no order, are sorted. Not compared: whether a tensor requires a
//! gradient, the device it was saved from, and of which of its kinds a sequence, a dict or a set was.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::pickle::{self, Dict, Element, Global, Id, Pickle, Storage, Value, View};
use super::zip::Entry;
use super::{Budget, Found, Tensor, ends, layout};
use crate::trace::record::Dtype;

/// How deep state may nest.
const DEPTH: usize = 64;

/// What a visit of one value costs of the budget, beside its bytes and its name.
const VISIT: u64 = 64;

/// Entries of a state beside its storages: what is read, and how the file was written.
const KNOWN: [&str; 6] =
    ["data.pkl", "byteorder", "version", ".data/serialization_id", ".format_version", ".storage_alignment"];

/// True for files as `torch.save` wrote them before 1.6: a pickled magic number, or a tar file.
pub fn is_legacy(name: &str, bytes: &[u8]) -> bool {
    // PROTO 2, LONG1 of 10 bytes: 0x1950a86a20f9469cfc6c.
    let magic = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    let tar = bytes.get(257..262) == Some(b"ustar");
    bytes.starts_with(magic) || (tar && [".pt", ".pth", ".bin"].iter().any(|e| ends(name, e)))
}

/// The entry with the pickle, and the folder that it stands in.
fn pickled<'a, 'e>(entries: &'a [Entry<'e>]) -> Option<(&'a Entry<'e>, &'a str)> {
    entries.iter().find_map(|e| {
        let folder = e.name.strip_suffix("data.pkl")?;
        (folder.is_empty() || (folder.ends_with('/') && folder.matches('/').count() == 1)).then_some((e, folder))
    })
}

/// True for a zip file that holds a state.
pub fn is_state(entries: &[Entry<'_>]) -> bool {
    pickled(entries).is_some()
}

/// Every tensor and number of a state.
pub fn parse(entries: &[Entry<'_>], budget: Budget) -> Result<Found, String> {
    let (entry, folder) = pickled(entries).ok_or("no data.pkl in it")?;
    let of = |name: &str| entries.iter().find(|e| e.name.strip_prefix(folder) == Some(name));
    if of("constants.pkl").is_some() {
        return Err("a TorchScript program; save its state_dict instead".to_owned());
    }
    let order = of("byteorder").map(Entry::read).transpose()?;
    let big = match order.as_deref() {
        None | Some(b"little") => false,
        Some(b"big") => true,
        Some(_) => return Err("its byteorder is neither little nor big".to_owned()),
    };
    let pickle = pickle::read(&entry.read()?)?;
    let data = format!("{folder}data/");
    let storages: BTreeMap<&str, &Entry<'_>> =
        entries.iter().filter_map(|e| Some((e.name.strip_prefix(data.as_str())?, e))).collect();
    let mut walk = Walk {
        pickle: &pickle,
        storages,
        read: BTreeMap::new(),
        big,
        budget,
        found: Found::default(),
        names: BTreeSet::new(),
    };
    walk.visit(pickle.root, "", 0)?;
    let unread = walk.storages.keys().filter(|key| !walk.read.contains_key(*key)).count();
    if unread > 0 {
        walk.found.unlooked.push(format!("{unread} storages in it belong to no tensor"));
    }
    let other = |e: &&Entry<'_>| {
        let name = e.name.strip_prefix(folder).unwrap_or(&e.name);
        !KNOWN.contains(&name) && !name.starts_with("data/")
    };
    if let Some(first) = entries.iter().find(other) {
        let count = entries.iter().filter(other).count();
        walk.found.unlooked.push(format!("{count} files in it that PyTorch's state does not have ({})", first.name));
    }
    Ok(walk.found)
}

struct Walk<'a, 'e> {
    pickle: &'a Pickle,
    storages: BTreeMap<&'a str, &'a Entry<'e>>,
    /// storages that a tensor viewed; unpacked once
    read: BTreeMap<&'a str, Cow<'e, [u8]>>,
    big: bool,
    budget: Budget,
    found: Found,
    names: BTreeSet<String>,
}

impl<'a> Walk<'a, '_> {
    fn value(&self, id: Id) -> &'a Value {
        self.pickle.value(id)
    }

    fn visit(&mut self, id: Id, name: &str, depth: usize) -> Result<(), String> {
        self.budget.take(VISIT + name.len() as u64)?;
        if depth > DEPTH {
            return Err(format!("{}: nested more than {DEPTH} deep", short(name)));
        }
        let join = |part: &str| if depth == 0 { part.to_owned() } else { format!("{name}.{part}") };
        match self.value(id) {
            Value::Dict(dict)
                if !dict.items.is_empty() || !self.attributes(dict).is_empty() || dict.factory.is_some() =>
            {
                for (key, value) in dict.items.iter().chain(self.attributes(dict)) {
                    let part = self.key(*key, name, 0)?;
                    self.visit(*value, &join(&part), depth + 1)?;
                }
                dict.factory.map_or(Ok(()), |factory| self.visit(factory, &join("default_factory"), depth + 1))
            }
            Value::List(items) | Value::Tuple(items) if !items.is_empty() => self.items(items, &join, depth),
            Value::Deque(deque) if !deque.0.is_empty() || deque.1.is_some() => {
                self.items(&deque.0, &join, depth)?;
                deque.1.map_or(Ok(()), |longest| self.visit(longest, &join("maxlen"), depth + 1))
            }
            Value::Set(items) if !items.is_empty() => {
                let sorted = self.sorted(items).map_err(|e| format!("{}: {e}", short(name)))?;
                self.items(&sorted, &join, depth)
            }
            Value::Object(object) => {
                let parts = object.parts(self.pickle).map_err(|e| format!("{}: {e}", short(name)))?;
                parts.into_iter().try_for_each(|(part, id)| self.visit(id, &join(part), depth + 1))
            }
            leaf => self.leaf(leaf, if depth == 0 { "value" } else { name }),
        }
    }

    fn items(&mut self, items: &[Id], join: &dyn Fn(&str) -> String, depth: usize) -> Result<(), String> {
        items.iter().enumerate().try_for_each(|(i, item)| self.visit(*item, &join(&i.to_string()), depth + 1))
    }

    /// The elements of a set in an order that is not the file's, each once.
    fn sorted(&mut self, items: &[Id]) -> Result<Vec<Id>, String> {
        let mut keyed = items.iter().map(|id| Ok((self.order_of(*id, 0)?, *id))).collect::<Result<Vec<_>, String>>()?;
        keyed.sort();
        keyed.dedup_by(|a, b| a.0 == b.0);
        Ok(keyed.into_iter().map(|(_, id)| id).collect())
    }

    /// Bytes that are equal for equal elements of a set, and sort as numbers and strings do.
    fn order_of(&mut self, id: Id, depth: usize) -> Result<Vec<u8>, String> {
        let value = self.value(id);
        let bytes: Vec<u8> = match value {
            Value::None => vec![0],
            Value::Bool(b) => vec![1, u8::from(*b)],
            Value::Int(n) => [&[2][..], &(*n as u64 ^ 1 << 63).to_be_bytes()].concat(),
            Value::Long(bytes) => [&[3][..], bytes].concat(),
            Value::Float(x) => [&[4][..], &x.to_bits().to_be_bytes()].concat(),
            Value::Text(text) => [&[5][..], text.as_bytes()].concat(),
            Value::Bytes(bytes) => [&[6][..], bytes].concat(),
            Value::Array(Some(array)) if array.whole_number(self.pickle).is_some() => {
                [&[8][..], array.whole_number(self.pickle).unwrap_or_default().as_bytes()].concat()
            }
            Value::Tuple(items) if depth < DEPTH => {
                let mut all = vec![7];
                for item in items {
                    let one = self.order_of(*item, depth + 1)?;
                    all.extend((one.len() as u64).to_be_bytes());
                    all.extend(one);
                }
                all
            }
            Value::Tuple(_) => return Err(format!("a set of tuples that nest more than {DEPTH} deep")),
            _ => return Err("a set of something other than numbers, strings and tuples of them".to_owned()),
        };
        self.budget.take(VISIT + bytes.len() as u64)?;
        Ok(bytes)
    }

    fn attributes(&self, dict: &Dict) -> &'a [(Id, Id)] {
        match dict.attributes.map(|id| self.value(id)) {
            Some(Value::Dict(attributes)) => &attributes.items,
            _ => &[],
        }
    }

    /// A dict's key as a part of a name.
    fn key(&mut self, id: Id, name: &str, depth: usize) -> Result<String, String> {
        // Tuples may share one wide tuple any number of times.
        self.budget.take(VISIT)?;
        match self.value(id) {
            Value::Text(text) => {
                self.budget.take(text.len() as u64)?;
                // Inside a tuple strings are quoted, so that other tuples have other names.
                Ok(if depth > 0 { format!("{text:?}") } else { text.to_string() })
            }
            Value::Bytes(bytes) => {
                self.budget.take(4 * bytes.len() as u64)?;
                Ok(format!("b\"{}\"", bytes.escape_ascii()))
            }
            Value::Int(n) => Ok(n.to_string()),
            Value::Long(bytes) if bytes.len() <= 16 => Ok(pickle::whole(bytes, true).to_string()),
            Value::Bool(b) => Ok(b.to_string()),
            Value::None => Ok("None".to_owned()),
            Value::Float(x) => Ok(format!("{x:?}")),
            Value::Array(Some(array)) => {
                let number = array.whole_number(self.pickle);
                number.ok_or_else(|| format!("{}: a key that is an array, or no whole number", short(name)))
            }
            Value::Tuple(parts) if depth < DEPTH => {
                let parts = parts.iter().map(|part| self.key(*part, name, depth + 1));
                Ok(format!("({})", parts.collect::<Result<Vec<String>, String>>()?.join(", ")))
            }
            Value::Tuple(_) => Err(format!("{}: a key that nests more than {DEPTH} deep", short(name))),
            Value::Long(_) => Err(format!("{}: a key that is a number of more than 128 bits", short(name))),
            _ => Err(format!("{}: a key that is no string, bytes, number or tuple of them", short(name))),
        }
    }

    fn leaf(&mut self, value: &Value, name: &str) -> Result<(), String> {
        if let Value::Tensor(view) = value {
            let (shape, bytes) = self.tensor(view).map_err(|e| format!("{}: {e}", short(name)))?;
            return self.add(name, view.element.dtype, view.element.word, shape, bytes);
        }
        if let Value::Array(array) = value {
            let array = array.as_ref().ok_or_else(|| format!("{}: an array without its state", short(name)))?;
            self.budget.take(array.size(self.pickle))?;
            let (item, shape, bytes) = array.read(self.pickle).map_err(|e| format!("{}: {e}", short(name)))?;
            return self.add(name, item.dtype, &item.word, shape, bytes);
        }
        let (dtype, word, shape, bytes): (_, _, Vec<usize>, Vec<u8>) = match value {
            Value::None => (None, "none", vec![], vec![]),
            Value::Bool(b) => (Some(Dtype::Bool), Dtype::Bool.word(), vec![], vec![u8::from(*b)]),
            Value::Int(n) => (Some(Dtype::I64), Dtype::I64.word(), vec![], n.to_le_bytes().into()),
            Value::Float(x) => (Some(Dtype::F64), Dtype::F64.word(), vec![], x.to_bits().to_le_bytes().into()),
            Value::Long(bytes) => (None, "int", vec![], self.copy(bytes)?),
            Value::Text(text) => (None, "str", vec![text.len()], self.copy(text.as_bytes())?),
            Value::Bytes(bytes) => (None, "bytes", vec![bytes.len()], self.copy(bytes)?),
            Value::Complex(parts) => (
                Some(Dtype::C128),
                Dtype::C128.word(),
                vec![],
                parts.iter().flat_map(|x| x.to_bits().to_le_bytes()).collect(),
            ),
            Value::List(_) | Value::Tuple(_) | Value::Deque(_) => (None, "list", vec![0], vec![]),
            Value::Set(_) => (None, "set", vec![0], vec![]),
            Value::Dict(_) => (None, "dict", vec![0], vec![]),
            Value::Global(Global::Element(element)) => (None, "dtype", vec![element.word.len()], element.word.into()),
            Value::Global(global) if global.type_name().is_some() => {
                let word = global.type_name().unwrap_or_default();
                (None, "type", vec![word.len()], word.into())
            }
            Value::Dtype(element) => {
                let words =
                    element.words().ok_or_else(|| format!("{}: an element type without its state", short(name)))?;
                (None, "dtype", vec![words.len()], words.into())
            }
            Value::Storage(storage) => {
                self.budget.take(storage.count.saturating_mul(storage.element.size as u64))?;
                let mut bytes = self.storage(storage).map_err(|e| format!("{}: {e}", short(name)))?.to_vec();
                self.order(&mut bytes, storage.element);
                (storage.element.dtype, storage.element.word, vec![bytes.len() / storage.element.size], bytes)
            }
            Value::Global(_) | Value::Tensor(_) | Value::Array(_) | Value::Object(_) => {
                return Err(format!("{}: a function, not a value", short(name)));
            }
        };
        self.add(name, dtype, word, shape, bytes)
    }

    fn copy(&mut self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        self.budget.take(bytes.len() as u64)?;
        Ok(bytes.to_vec())
    }

    fn add(
        &mut self,
        name: &str,
        dtype: Option<Dtype>,
        word: &str,
        shape: Vec<usize>,
        bytes: Vec<u8>,
    ) -> Result<(), String> {
        if !self.names.insert(name.to_owned()) {
            return Err(format!("two entries have the name {:?} once nested names are joined by dots", short(name)));
        }
        self.found.tensors.push(Tensor { name: name.to_owned(), dtype, word: word.to_owned(), shape, bytes });
        Ok(())
    }

    /// Bytes of a storage, which must be as many as it claims.
    fn storage(&mut self, storage: &Storage) -> Result<Cow<'_, [u8]>, String> {
        let key = storage.key.as_str();
        let (key, entry) =
            self.storages.get_key_value(key).ok_or_else(|| format!("its storage data/{key} is missing"))?;
        let claimed = storage.count.checked_mul(storage.element.size as u64);
        if claimed != Some(entry.size()) {
            let found = entry.size();
            let (count, word) = (storage.count, storage.element.word);
            return Err(format!("its storage data/{key} has {found} bytes, not {count} elements of {word}"));
        }
        if !self.read.contains_key(key) {
            self.read.insert(key, entry.read()?);
        }
        let bytes = self.read.get(key).ok_or("its storage is missing")?;
        Ok(Cow::Borrowed(bytes))
    }

    /// Sizes of a view and its elements in row-major order.
    fn tensor(&mut self, view: &View) -> Result<(Vec<usize>, Vec<u8>), String> {
        let Value::Storage(storage) = self.value(view.storage) else { return Err("it has no storage".to_owned()) };
        let (sizes, strides) = (self.pickle.naturals(view.shape)?, self.pickle.naturals(view.strides)?);
        let overflow = || format!("it claims {sizes:?} elements");
        let total = sizes.iter().try_fold(view.element.size as u64, |n, d| n.checked_mul(*d)).ok_or_else(overflow)?;
        self.budget.take(total)?;
        let native = |list: &[u64]| list.iter().map(|x| usize::try_from(*x).ok()).collect::<Option<Vec<usize>>>();
        let (shape, strides) = native(&sizes).zip(native(&strides)).ok_or_else(overflow)?;
        let offset = usize::try_from(view.offset).map_err(|_| overflow())?;
        let bytes = self.storage(storage)?;
        let gathered = layout::gather(&bytes, offset, &shape, &strides, view.element.size);
        let mut gathered = gathered.ok_or_else(|| {
            let (key, have) = (&storage.key, bytes.len());
            format!("it reaches past the {have} bytes of its storage data/{key}")
        })?;
        self.order(&mut gathered, view.element);
        Ok((shape, gathered))
    }

    /// Turns what a big-endian machine wrote.
    fn order(&self, bytes: &mut [u8], element: Element) {
        if self.big {
            let complex = matches!(element.dtype, Some(Dtype::C64 | Dtype::C128));
            layout::swap(bytes, if complex { element.size / 2 } else { element.size });
        }
    }
}

/// A name for a message, however long it is.
fn short(name: &str) -> String {
    if name.is_empty() { "its state".to_owned() } else { name.chars().take(120).collect() }
}
