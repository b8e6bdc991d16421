//! Lines of a text file, plain or gzip, within limits, and the fields of one line.
//!
//! Verified: limits, truncated and corrupt gzip, encodings, quotes. Not supported, and refused: a quoted field over
//! several lines, lines that end in a lone carriage return, encodings other than UTF-8.

use std::io::{self, BufRead, BufReader, Read};

use flate2::read::MultiGzDecoder;

use super::market_error::{At, MarketError, Place};

/// Bytes of a text file after decompression: 2 GiB.
pub const BYTES_MAX: u64 = 1 << 31;
/// Lines of a text file, blank ones included.
pub const LINES_MAX: u64 = 1 << 25;
/// Bytes of one line, without its end.
pub const LINE_BYTES_MAX: usize = 1 << 16;

/// Reader of lines.
pub(super) struct Lines<'a> {
    reader: Box<dyn BufRead + 'a>,
    file: &'a str,
    compressed: bool,
    line: u64,
    bytes_left: u64,
    buffer: Vec<u8>,
}

impl<'a> Lines<'a> {
    /// Over plain or gzip data, told apart by the first two bytes.
    pub fn new(data: impl Read + 'a, file: &'a str) -> Result<Self, MarketError> {
        let mut data = BufReader::new(data);
        let failed =
            |e: io::Error| At::file(file).refuse(format!("an error while reading: {e}"), "a readable file", "");
        let compressed = data.fill_buf().map_err(failed)?.starts_with(&[0x1f, 0x8b]);
        let reader: Box<dyn BufRead + 'a> =
            if compressed { Box::new(BufReader::new(MultiGzDecoder::new(data))) } else { Box::new(data) };
        Ok(Lines { reader, file, compressed, line: 0, bytes_left: BYTES_MAX, buffer: Vec::new() })
    }

    /// The next line that is not blank, without its end and without a byte order mark, and its number from 1.
    pub fn next(&mut self) -> Result<Option<(u64, &str)>, MarketError> {
        loop {
            self.buffer.clear();
            self.line += 1;
            let limit = LINE_BYTES_MAX as u64 + 2; // and its end
            let read = (&mut self.reader).take(limit).read_until(b'\n', &mut self.buffer);
            match read {
                Ok(0) => return Ok(None),
                Ok(n) => self.count(n as u64)?,
                Err(error) => return Err(self.unreadable(&error)),
            }
            self.strip();
            if self.buffer.len() > LINE_BYTES_MAX {
                let expected = format!("at most {LINE_BYTES_MAX} bytes, ended by a line feed");
                return Err(self.at().refuse("a longer line", expected, "check that this is a CSV file"));
            }
            if self.buffer.iter().any(|byte| *byte != b' ') {
                break;
            }
        }
        self.text().map(|text| Some((self.line, text)))
    }

    fn at(&self) -> At<'a> {
        At::file(self.file).place(Place::Line(self.line))
    }

    fn count(&mut self, bytes: u64) -> Result<(), MarketError> {
        let refuse = || {
            let advice = if self.compressed { "check that the gzip data is not a bomb" } else { "split the file" };
            self.at().refuse("more data", format!("at most {BYTES_MAX} bytes, decompressed"), advice)
        };
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or_else(refuse)?;
        match self.line > LINES_MAX {
            true => Err(self.at().refuse("more lines", format!("at most {LINES_MAX}"), "split the file")),
            false => Ok(()),
        }
    }

    /// Takes off the line's end and, on the first line, the byte order mark.
    fn strip(&mut self) {
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        }
        if self.buffer.last() == Some(&b'\r') {
            self.buffer.pop();
        }
        if self.line == 1 && self.buffer.starts_with(b"\xef\xbb\xbf") {
            self.buffer.drain(..3);
        }
    }

    fn text(&self) -> Result<&str, MarketError> {
        let not_utf8 = |error: std::str::Utf8Error| {
            let utf16 =
                self.line == 1 && (self.buffer.starts_with(b"\xff\xfe") || self.buffer.starts_with(b"\xfe\xff"));
            let found = match utf16 {
                true => "UTF-16".to_owned(),
                false => format!("bytes that are not UTF-8, from byte {} of the line", error.valid_up_to() + 1),
            };
            self.at().refuse(found, "UTF-8", "convert it, for example with `iconv -f UTF-16 -t UTF-8`")
        };
        let text = std::str::from_utf8(&self.buffer).map_err(not_utf8)?;
        match text.contains('\r') {
            true => Err(self.at().refuse("a carriage return inside the line", "lines that end in \\n or \\r\\n", "")),
            false => Ok(text),
        }
    }

    fn unreadable(&self, error: &io::Error) -> MarketError {
        let found = match (self.compressed, error.kind()) {
            (true, io::ErrorKind::UnexpectedEof) => "gzip data that ends too early".to_owned(),
            (true, _) => format!("corrupt gzip data ({error})"),
            (false, _) => format!("an error while reading: {error}"),
        };
        let advice = if self.compressed { "check it with `gzip -t`, then fetch the file again" } else { "" };
        self.at().refuse(found, "a complete, readable file", advice)
    }
}

/// Fields of one line at a time.
pub(super) struct Fields {
    parser: csv_core::Reader,
    text: Vec<u8>,
    ends: Vec<usize>,
    count: usize,
}

impl Fields {
    /// Fields parted by `delimiter`, in double quotes where a field holds the delimiter.
    pub fn new(delimiter: u8) -> Self {
        let parser = csv_core::ReaderBuilder::new().delimiter(delimiter).build();
        Fields { parser, text: Vec::new(), ends: Vec::new(), count: 0 }
    }

    /// Splits a line, which holds no line end. None if a quote is left open.
    pub fn split(&mut self, line: &str) -> Option<()> {
        self.parser.reset();
        // One field an input byte at most, and one for the end of the line.
        self.text.resize(line.len() + 1, 0);
        self.ends.resize(line.len() + 2, 0);
        let (_, _, text, ends) = self.parser.read_record(line.as_bytes(), &mut self.text, &mut self.ends);
        let (_, _, _, last) = self.parser.read_record(&[], &mut self.text[text..], &mut self.ends[ends..]);
        self.count = ends + last;
        let quotes = line.bytes().filter(|b| *b == b'"').count();
        (quotes % 2 == 0).then_some(())
    }

    /// Fields in the line.
    pub fn len(&self) -> usize {
        self.count
    }

    /// One field without surrounding spaces; empty beyond the last.
    pub fn get(&self, i: usize) -> &str {
        let ends = &self.ends[..self.count];
        let (Some(&end), start) = (ends.get(i), i.checked_sub(1).and_then(|i| ends.get(i)).copied().unwrap_or(0))
        else {
            return "";
        };
        // Quotes and delimiters are ASCII, so what is left of a UTF-8 line is UTF-8.
        self.text.get(start..end).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("").trim()
    }

    /// All fields.
    pub fn all(&self) -> Vec<String> {
        (0..self.count).map(|i| self.get(i).to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(data: &[u8]) -> Result<Vec<(u64, String)>, MarketError> {
        let mut lines = Lines::new(data, "x")?;
        let mut found = Vec::new();
        while let Some((line, text)) = lines.next()? {
            found.push((line, text.to_owned()));
        }
        Ok(found)
    }

    fn split(delimiter: u8, line: &str) -> Option<Vec<String>> {
        let mut fields = Fields::new(delimiter);
        fields.split(line)?;
        Some(fields.all())
    }

    /// Would fail if blank lines, line ends or the byte order mark shifted line numbers or text.
    #[test]
    fn lines_keep_their_numbers() {
        let found = all(b"\xef\xbb\xbfa,b\r\n\n  \nc\n\nd").unwrap();
        assert_eq!(found, [(1, "a,b".to_owned()), (4, "c".to_owned()), (6, "d".to_owned())]);
        assert_eq!(all(b"").unwrap(), []);
    }

    /// Would fail if foreign encodings or endless lines were read.
    #[test]
    fn refused_lines() {
        let text = |data: &[u8]| all(data).unwrap_err().to_string();
        assert!(text(b"a\nb\xff\n").starts_with("x:2: found bytes that are not UTF-8, from byte 2"));
        assert!(text(b"\xff\xfea\0").starts_with("x:1: found UTF-16"));
        assert!(text(b"a\rb\rc").starts_with("x:1: found a carriage return inside the line"));
        assert!(text(&vec![b'a'; LINE_BYTES_MAX + 1]).starts_with("x:1: found a longer line"));
        assert_eq!(all(&vec![b'a'; LINE_BYTES_MAX]).unwrap()[0].1.len(), LINE_BYTES_MAX);
    }

    /// Would fail if a file beyond the limits were read to its end.
    #[test]
    fn limits_of_the_whole() {
        let mut lines = Lines::new(&b"abc\ndef\n"[..], "x").unwrap();
        lines.bytes_left = 6;
        assert_eq!(lines.next(), Ok(Some((1, "abc"))));
        let error = lines.next().unwrap_err().to_string();
        assert!(error.starts_with("x:2: found more data; expected at most 2147483648 bytes"), "{error}");
        let mut lines = Lines::new(&b"a\n"[..], "x").unwrap();
        lines.line = LINES_MAX;
        assert!(lines.next().unwrap_err().to_string().contains("found more lines"));
    }

    /// Would fail if quotes, empty fields or the end of the line were misread.
    #[test]
    fn fields_of_a_line() {
        assert_eq!(split(b',', "a, b ,,\"c,\"\"d\"\"\"").unwrap(), ["a", "b", "", "c,\"d\""]);
        assert_eq!(split(b';', ";").unwrap(), ["", ""]);
        assert_eq!(split(b'\t', "\ta").unwrap(), ["", "a"]);
        assert_eq!(split(b',', "a,\"b"), None);
    }
}
