//! The Python literal in the header of an npy file: strings, numbers, booleans, tuples, lists, one kind of dict.

/// A literal.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `'<f4'`
    Text(String),
    /// `3` or `3L`
    Number(u64),
    /// `True`
    Bool(bool),
    /// `(3, 4)`
    Tuple(Vec<Literal>),
    /// `[('a', '<f4')]`
    List(Vec<Literal>),
    /// `{'descr': '<f4'}`
    Dict(Vec<(String, Literal)>),
}

/// How deep literals may nest.
const DEPTH: usize = 16;

/// Reads one literal and nothing after it but white space.
pub fn parse(text: &str) -> Result<Literal, String> {
    let mut reader = Reader { rest: text };
    let literal = reader.value(0)?;
    reader.space();
    if reader.rest.is_empty() { Ok(literal) } else { Err(reader.unexpected()) }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn unexpected(&self) -> String {
        let some: String = self.rest.chars().take(12).collect();
        format!("its header cannot be read at {some:?}")
    }

    /// True when the next character is this one, which is then taken.
    fn take(&mut self, c: char) -> bool {
        self.space();
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn value(&mut self, depth: usize) -> Result<Literal, String> {
        if depth > DEPTH {
            return Err("its header nests too deep".to_owned());
        }
        self.space();
        match self.rest.chars().next() {
            Some('\'' | '"') => self.text().map(Literal::Text),
            Some('0'..='9') => self.number(),
            Some('(') => self.items(')', depth),
            Some('[') => self.items(']', depth),
            Some('{') => self.dict(depth),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Literal, String> {
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(Literal::Bool(value));
            }
        }
        Err(self.unexpected())
    }

    fn number(&mut self) -> Result<Literal, String> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        let number = digits.parse().map_err(|_| format!("its header holds the number {digits}"))?;
        self.rest = rest.strip_prefix('L').unwrap_or(rest);
        Ok(Literal::Number(number))
    }

    fn text(&mut self) -> Result<String, String> {
        let mut chars = self.rest.char_indices();
        let quote = chars.next().map(|(_, c)| c);
        let mut text = String::new();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some((_, c @ ('\\' | '\'' | '"'))) => text.push(c),
                    _ => return Err("its header holds an escape that is not read".to_owned()),
                },
                c if Some(c) == quote => {
                    self.rest = &self.rest[at + c.len_utf8()..];
                    return Ok(text);
                }
                c => text.push(c),
            }
        }
        Err("its header ends inside a string".to_owned())
    }

    fn items(&mut self, end: char, depth: usize) -> Result<Literal, String> {
        self.rest = &self.rest[1..];
        let (mut items, mut comma) = (Vec::new(), true);
        while !self.take(end) {
            if !comma {
                return Err(self.unexpected());
            }
            items.push(self.value(depth + 1)?);
            comma = self.take(',');
        }
        match (end, items.len(), comma) {
            // Parentheses around one value are no tuple.
            (')', 1, false) => items.pop().ok_or_else(String::new),
            (')', ..) => Ok(Literal::Tuple(items)),
            _ => Ok(Literal::List(items)),
        }
    }

    fn dict(&mut self, depth: usize) -> Result<Literal, String> {
        self.rest = &self.rest[1..];
        let (mut items, mut comma) = (Vec::<(String, Literal)>::new(), true);
        while !self.take('}') {
            self.space();
            if !comma || !self.rest.starts_with(['\'', '"']) {
                return Err(self.unexpected());
            }
            let key = self.text()?;
            if items.iter().any(|(k, _)| *k == key) {
                return Err(format!("its header gives {key:?} twice"));
            }
            if !self.take(':') {
                return Err(self.unexpected());
            }
            items.push((key, self.value(depth + 1)?));
            comma = self.take(',');
            // A dict of a header has three keys; many would make the search for doubles slow.
            if items.len() > 8 {
                return Err("its header has more keys than an npy header has".to_owned());
            }
        }
        Ok(Literal::Dict(items))
    }
}
