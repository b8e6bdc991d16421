//! Typed access to `in` and `out` of one vector: every length and digit is checked, every refusal names its key.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use super::CaseFault;

/// Elements that one case may ask for without listing them.
pub(crate) const SIZE_LIMIT: usize = 1 << 24;

/// Values of one key of `out`, as computed; the variant says how the file writes them.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// 8 hex digits each, or `nan`
    F32(Vec<f32>),
    /// 8 hex digits each
    U32(Vec<u32>),
    /// 16 hex digits each
    U64(Vec<u64>),
    /// JSON numbers, one or an array of them; booleans are 0 and 1
    Numbers(Vec<u64>),
    /// a JSON number, or no such key
    Maybe(Option<u64>),
    /// a text, compared as it is
    Text(String),
    /// an object, or an element of a list
    Fields(Vec<(String, Found)>),
}

/// What a runner returns: every key of `out` with its values.
pub(crate) type Outputs = Result<Vec<(&'static str, Found)>, CaseFault>;

/// `in` or `out` of one case, or an object within.
pub(crate) struct Fields<'a> {
    /// where it stands: `in`, `out.1.after`
    at: String,
    map: BTreeMap<Cow<'a, str>, &'a Value>,
}

/// First element that differs.
pub(super) struct Difference {
    pub key: String,
    pub element: usize,
    pub expected: String,
    pub found: String,
}

/// At most 80 characters of a foreign text.
pub(super) fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

fn word(x: f32) -> String {
    if x.is_nan() { "nan".to_owned() } else { format!("{:08x}", x.to_bits()) }
}

impl<'a> Fields<'a> {
    fn object(at: String, value: &'a Value) -> Result<Self, CaseFault> {
        match value.as_object() {
            Some(map) => Ok(Fields { at, map: map.iter().map(|(key, value)| (key.into(), value)).collect() }),
            None => Err(CaseFault::Key { key: at, reason: "expected an object".to_owned() }),
        }
    }

    pub(super) fn input(value: &'a Value) -> Result<Self, CaseFault> {
        Fields::object("in".to_owned(), value)
    }

    /// `out` may also be null, which is no fields, or a list, whose elements are fields under their index.
    pub(super) fn output(value: &'a Value) -> Result<Self, CaseFault> {
        let at = "out".to_owned();
        match value {
            Value::Null => Ok(Fields { at, map: BTreeMap::new() }),
            Value::Array(list) => {
                let indexed = list.iter().enumerate().map(|(i, value)| (i.to_string().into(), value));
                Ok(Fields { at, map: indexed.collect() })
            }
            _ => Fields::object(at, value),
        }
    }

    pub(crate) fn fault(&self, key: &str, reason: String) -> CaseFault {
        CaseFault::Key { key: format!("{}.{}", self.at, short(key)), reason }
    }

    fn value(&self, key: &str) -> Result<&'a Value, CaseFault> {
        self.map.get(key).copied().ok_or_else(|| self.fault(key, "missing".to_owned()))
    }

    /// False for a null.
    pub(crate) fn given(&self, key: &str) -> Result<bool, CaseFault> {
        Ok(!self.value(key)?.is_null())
    }

    /// An object of fields within this one.
    pub(crate) fn fields(&self, key: &str) -> Result<Fields<'a>, CaseFault> {
        Fields::object(format!("{}.{key}", self.at), self.value(key)?)
    }

    /// A list of objects of fields.
    pub(crate) fn list(&self, key: &str) -> Result<Vec<Fields<'a>>, CaseFault> {
        let values = self.array(key)?.iter().enumerate();
        values.map(|(index, value)| Fields::object(format!("{}.{key}.{index}", self.at), value)).collect()
    }

    pub(crate) fn text(&self, key: &str) -> Result<&'a str, CaseFault> {
        self.value(key)?.as_str().ok_or_else(|| self.fault(key, "expected a string".to_owned()))
    }

    /// Words of `digits` lower-case hex digits, separated by single spaces; an empty text is none.
    fn words(&self, key: &str, text: &str, digits: usize) -> Result<Vec<Option<u64>>, CaseFault> {
        let word = |word: &str| {
            if word == "nan" && digits == 8 {
                return Ok(None);
            }
            let hex = word.len() == digits && word.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
            let value = if hex { u64::from_str_radix(word, 16).ok() } else { None };
            value.map(Some).ok_or_else(|| {
                self.fault(key, format!("expected words of {digits} lower-case hex digits, found {:?}", short(word)))
            })
        };
        if text.is_empty() { Ok(Vec::new()) } else { text.split(' ').map(word).collect() }
    }

    fn floats(&self, key: &str, text: &str) -> Result<Vec<f32>, CaseFault> {
        let float = |word: Option<u64>| word.map_or(f32::NAN, |word| f32::from_bits(word as u32));
        Ok(self.words(key, text, 8)?.into_iter().map(float).collect())
    }

    /// Floats of any number.
    pub(crate) fn f32s(&self, key: &str) -> Result<Vec<f32>, CaseFault> {
        self.floats(key, self.text(key)?)
    }

    /// Exactly `n` floats.
    pub(crate) fn f32s_of(&self, key: &str, n: usize) -> Result<Vec<f32>, CaseFault> {
        let xs = self.f32s(key)?;
        self.length(key, xs.len(), n)?;
        Ok(xs)
    }

    /// One float.
    pub(crate) fn f32(&self, key: &str) -> Result<f32, CaseFault> {
        Ok(self.f32s_of(key, 1)?[0])
    }

    /// One list of floats a text.
    pub(crate) fn f32_lists(&self, key: &str) -> Result<Vec<Vec<f32>>, CaseFault> {
        let texts = self.array(key)?.iter().map(Value::as_str);
        let list = |text: Option<&str>| {
            self.floats(key, text.ok_or_else(|| self.fault(key, "expected an array of strings".to_owned()))?)
        };
        texts.map(list).collect()
    }

    /// u32 words.
    pub(crate) fn u32s(&self, key: &str) -> Result<Vec<u32>, CaseFault> {
        let word = |word: Option<u64>| {
            let word = word.ok_or_else(|| self.fault(key, "expected integers, found nan".to_owned()))?;
            Ok(word as u32)
        };
        self.words(key, self.text(key)?, 8)?.into_iter().map(word).collect()
    }

    /// Exactly `N` u32 words.
    pub(crate) fn u32_array<const N: usize>(&self, key: &str) -> Result<[u32; N], CaseFault> {
        let words = self.u32s(key)?;
        words.try_into().map_err(|w: Vec<u32>| self.fault(key, format!("expected {N} words, found {}", w.len())))
    }

    /// u64 words, in one text or in an array of texts.
    pub(crate) fn u64s(&self, key: &str) -> Result<Vec<u64>, CaseFault> {
        let expected = || self.fault(key, "expected a string or an array of strings".to_owned());
        let texts = match self.value(key)? {
            Value::String(text) => vec![text.as_str()],
            Value::Array(texts) => texts.iter().map(|t| t.as_str().ok_or_else(expected)).collect::<Result<_, _>>()?,
            _ => return Err(expected()),
        };
        let mut all = Vec::new();
        for text in texts {
            all.extend(self.words(key, text, 16)?.into_iter().flatten());
        }
        Ok(all)
    }

    /// One u64.
    pub(crate) fn u64(&self, key: &str) -> Result<u64, CaseFault> {
        let words = self.u64s(key)?;
        self.length(key, words.len(), 1)?;
        Ok(words[0])
    }

    /// One binary64.
    pub(crate) fn f64(&self, key: &str) -> Result<f64, CaseFault> {
        Ok(f64::from_bits(self.u64(key)?))
    }

    fn array(&self, key: &str) -> Result<&'a Vec<Value>, CaseFault> {
        self.value(key)?.as_array().ok_or_else(|| self.fault(key, "expected an array".to_owned()))
    }

    /// JSON numbers, one or an array of them.
    pub(crate) fn numbers(&self, key: &str) -> Result<Vec<u64>, CaseFault> {
        let number = |v: &Value| {
            v.as_u64()
                .ok_or_else(|| self.fault(key, format!("expected a whole number, found {:?}", short(&v.to_string()))))
        };
        match self.value(key)? {
            Value::Array(values) => values.iter().map(number).collect(),
            value => Ok(vec![number(value)?]),
        }
    }

    /// One number.
    pub(crate) fn number(&self, key: &str) -> Result<u64, CaseFault> {
        let numbers = self.numbers(key)?;
        self.length(key, numbers.len(), 1)?;
        Ok(numbers[0])
    }

    /// One number of u32.
    pub(crate) fn number_u32(&self, key: &str) -> Result<u32, CaseFault> {
        let n = self.number(key)?;
        u32::try_from(n).map_err(|_| self.fault(key, format!("expected at most {}, found {n}", u32::MAX)))
    }

    /// A size from 1 to [`SIZE_LIMIT`].
    pub(crate) fn size(&self, key: &str) -> Result<usize, CaseFault> {
        let n = self.number(key)?;
        let size = usize::try_from(n).ok().filter(|n| (1..=SIZE_LIMIT).contains(n));
        size.ok_or_else(|| self.fault(key, format!("expected 1 to {SIZE_LIMIT}, found {n}")))
    }

    /// Booleans, written as 0 and 1.
    pub(crate) fn bools(&self, key: &str) -> Result<Vec<bool>, CaseFault> {
        let bool = |n| if n < 2 { Ok(n == 1) } else { Err(self.fault(key, format!("expected 0 or 1, found {n}"))) };
        self.numbers(key)?.into_iter().map(bool).collect()
    }

    /// Actions below 5, three a row.
    pub(crate) fn actions(&self, key: &str, rows: usize) -> Result<Vec<[u8; 3]>, CaseFault> {
        let numbers = self.numbers(key)?;
        self.length(key, numbers.len(), 3 * rows)?;
        if let Some(n) = numbers.iter().find(|&&n| n >= 5) {
            return Err(self.fault(key, format!("expected actions below 5, found {n}")));
        }
        Ok(numbers.as_chunks::<3>().0.iter().map(|a| a.map(|a| a as u8)).collect())
    }

    /// Refuses a list that does not divide into rows of `width`.
    pub(crate) fn rows(&self, key: &str, found: usize, width: usize) -> Result<usize, CaseFault> {
        if found.is_multiple_of(width) {
            return Ok(found / width);
        }
        Err(self.fault(key, format!("expected a multiple of {width} values, found {found}")))
    }

    /// Refuses a list whose length is not `expected`.
    pub(crate) fn length(&self, key: &str, found: usize, expected: usize) -> Result<(), CaseFault> {
        if found == expected {
            return Ok(());
        }
        Err(self.fault(key, format!("expected {expected} values, found {found}")))
    }

    /// First element that differs, in the order of `found`. Every key of the file must have been computed.
    pub(super) fn compare<K: AsRef<str>>(&self, found: &[(K, Found)]) -> Result<Option<Difference>, CaseFault> {
        let computed = |key: &str| found.iter().any(|(name, _)| name.as_ref() == key);
        if let Some(key) = self.map.keys().find(|key| !computed(key)) {
            return Err(self.fault(key, "no runner computes it".to_owned()));
        }
        for (key, values) in found {
            if let Some(difference) = self.compare_values(key.as_ref(), values)? {
                return Ok(Some(difference));
            }
        }
        Ok(None)
    }

    fn compare_values(&self, key: &str, found: &Found) -> Result<Option<Difference>, CaseFault> {
        let number = |n: Option<u64>| vec![n.map_or("nothing".to_owned(), |n| n.to_string())];
        let (expected, found): (Vec<String>, Vec<String>) = match found {
            Found::F32(xs) => (texts(self.f32s(key)?, word), texts(xs, |&x| word(x))),
            Found::U32(xs) => (texts(self.u32s(key)?, |x| format!("{x:08x}")), texts(xs, |x| format!("{x:08x}"))),
            Found::U64(xs) => (texts(self.u64s(key)?, |x| format!("{x:016x}")), texts(xs, |x| format!("{x:016x}"))),
            Found::Numbers(xs) => (texts(self.numbers(key)?, |x| x.to_string()), texts(xs, |x| x.to_string())),
            Found::Maybe(x) => {
                let expected = if self.map.contains_key(key) { Some(self.number(key)?) } else { None };
                (number(expected), number(*x))
            }
            Found::Text(text) => (vec![self.text(key)?.to_owned()], vec![text.clone()]),
            Found::Fields(inner) => return self.fields(key)?.compare(inner),
        };
        self.length(key, expected.len(), found.len())?;
        let differs = expected.into_iter().zip(found).enumerate().find(|(_, (e, f))| e != f);
        Ok(differs.map(|(element, (expected, found))| {
            let place = format!("{}.{key}", self.at);
            let key = place.strip_prefix("out.").unwrap_or(&place).to_owned();
            Difference { key, element, expected: short(&expected), found: short(&found) }
        }))
    }
}

fn texts<T>(xs: impl IntoIterator<Item = T>, text: impl Fn(T) -> String) -> Vec<String> {
    xs.into_iter().map(text).collect()
}
