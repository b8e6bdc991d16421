//! Where two texts part: the first line that differs, and how many do.
//!
//! Lines are ended by a newline; what ends a line is part of it, so that texts of other bytes never have equal lines.
//! Counted are the lines between the beginning and the end that both have, place by place. No line is moved to find a
//! better match. What is shown goes into reports, so secrets, home, host and user in it are masked as everywhere: two
//! lines that differ in nothing else are shown alike.

use serde::Serialize;

use crate::trace::privacy::Mask;

/// How two texts differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lines {
    /// number of the first line that differs, from 1
    pub first: u64,
    /// that line on both sides, cut around the difference, control characters escaped; None past the end
    pub values: [Option<String>; 2],
    /// lines that differ
    pub differing: u64,
    /// lines of both sides
    pub total: [u64; 2],
}

/// Characters of a line that are shown before the first that differs, and in all.
const BEFORE: usize = 30;
const WIDTH: usize = 100;

/// How two texts differ; None when they do not, or when one of them is no text.
pub fn differences(a: &[u8], b: &[u8]) -> Option<Lines> {
    masked(a, b, &Mask::from_environment())
}

fn masked(a: &[u8], b: &[u8], mask: &Mask) -> Option<Lines> {
    let (a, b) = (text(a)?, text(b)?);
    if a == b {
        return None;
    }
    let (x, y) = (|| a.split_inclusive('\n'), || b.split_inclusive('\n'));
    let start = x().zip(y()).take_while(|(p, q)| p == q).count();
    let total = [x().count(), y().count()];
    let rest = if total[0] < total[1] { total[0] } else { total[1] } - start;
    let end = x().rev().zip(y().rev()).take(rest).take_while(|(p, q)| p == q).count();
    let between = total.map(|n| n - start - end);
    let longer = if between[0] > between[1] { between[0] } else { between[1] };
    let alike = x().zip(y()).skip(start).take(rest - end).filter(|(p, q)| p == q).count();
    let [p, q] = [x().nth(start), y().nth(start)].map(|line| line.map(|l| mask.apply(l)));
    let shown = shown(p.as_deref(), q.as_deref());
    let total = total.map(|n| n as u64);
    Some(Lines { first: start as u64 + 1, values: shown, differing: (longer - alike) as u64, total })
}

/// The text of bytes that are UTF-8 without control characters other than those of texts and terminals.
fn text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let plain = |c: char| !c.is_control() || "\n\r\t\u{8}\u{b}\u{c}\u{1b}".contains(c);
    text.chars().all(plain).then_some(text)
}

/// Both lines around the first character that differs.
fn shown(a: Option<&str>, b: Option<&str>) -> [Option<String>; 2] {
    let (mut a, mut b) = (a, b);
    if let (Some(x), Some(y)) = (a.and_then(|l| l.strip_suffix('\n')), b.and_then(|l| l.strip_suffix('\n'))) {
        (a, b) = (Some(x), Some(y));
    }
    let same = a.unwrap_or("").chars().zip(b.unwrap_or("").chars()).take_while(|(p, q)| p == q).count();
    let from = if same > 2 * BEFORE { same - BEFORE } else { 0 };
    [a, b].map(|line| line.map(|line| cut(line, from)))
}

/// At most so many characters of a line from one on, escaped, with dots where something is left out.
fn cut(line: &str, from: usize) -> String {
    // One by one, so that marks that combine with the letter before them are escaped too: a letter and its mark look
    // like the one character that means both.
    let part: String = line.chars().skip(from).take(WIDTH).flat_map(char::escape_debug).collect();
    let more = line.chars().nth(from + WIDTH).is_some();
    format!("{}{part}{}", if from > 0 { "..." } else { "" }, if more { "..." } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(a: &str, b: &str) -> Lines {
        masked(a.as_bytes(), b.as_bytes(), &Mask::default()).unwrap()
    }

    fn values(a: &str, b: &str) -> [Option<String>; 2] {
        [a, b].map(|line| Some(line.to_owned()))
    }

    /// Would fail if a line added, changed, cut or ended otherwise were counted or shown as something else.
    #[test]
    fn lines_are_counted_and_shown() {
        let one = found("a\nb\nc\n", "a\nB\nc\n");
        assert_eq!((one.first, one.values, one.differing, one.total), (2, values("b", "B"), 1, [3, 3]));
        let added = found("a\nb\nc\n", "a\nnew\nb\nc\n");
        assert_eq!((added.first, added.differing, added.total), (2, 1, [3, 4]));
        let gone = found("a\nb\n", "a\n");
        assert_eq!((gone.values, gone.differing), ([Some("b\\n".to_owned()), None], 1));
        assert_eq!(found("a\nb\nc\nd\n", "x\nb\ny\nd\n").differing, 2);
        assert_eq!(found("a", "a\n").values, values("a", "a\\n"));
        assert_eq!(found("a\r\n", "a\n").values, values("a\\r", "a"));
        assert_eq!(found("\u{1b}[31m\n", "\t\n").values, values("\\u{1b}[31m", "\\t"));
        assert_eq!(found("e\u{301}\n", "\u{e9}\n").values, values("e\\u{301}", "\u{e9}"));
        assert_eq!(found("", "a").values, [None, Some("a".to_owned())]);
        assert_eq!(found("a\na\n", "a\n").differing, 1);
    }

    /// Would fail if a long line hid its difference, or bytes that are no text were shown as text.
    #[test]
    fn long_lines_and_no_text() {
        let long = "x".repeat(500);
        let [a, b] = found(&format!("{long}1{long}\n"), &format!("{long}2\n")).values.map(Option::unwrap);
        assert_eq!(b, format!("...{}2", "x".repeat(BEFORE)));
        assert!(a.starts_with(&format!("...{}1x", "x".repeat(BEFORE))) && a.ends_with("x...") && a.len() == WIDTH + 6);
        for other in [&b"a\0"[..], b"\xff", b"\x01", b"a\n"] {
            assert_eq!(differences(b"a\n", other), None);
        }
    }

    /// Would fail if a secret in an output reached a report, or hid that the lines differ.
    #[test]
    fn secrets_in_lines_are_masked() {
        let mask = Mask::default().and_arguments(&["--token".to_owned(), "hunter22".to_owned()]);
        let lines = masked(b"a hunter22\n", b"a hunter23\n", &mask).unwrap();
        assert_eq!((lines.differing, lines.values), (1, values("a <masked>", "a hunter23")));
        let lines = masked(b"API_KEY=1\n", b"API_KEY=2\n", &mask).unwrap();
        assert_eq!((lines.differing, lines.values), (1, values("API_KEY=<masked>", "API_KEY=<masked>")));
    }

    proptest! {
        /// Would fail if texts of other bytes had no line that differs, or the count depended on the side.
        #[test]
        fn other_bytes_are_other_lines(a in "[ab\n\r]{0,12}", b in "[ab\n\r]{0,12}") {
            let (x, y) = (masked(a.as_bytes(), b.as_bytes(), &Mask::default()), masked(b.as_bytes(), a.as_bytes(), &Mask::default()));
            prop_assert_eq!(x.is_none(), a == b);
            if let (Some(x), Some(y)) = (x, y) {
                prop_assert_eq!((x.first, x.differing), (y.first, y.differing));
                let longer = std::cmp::Ord::max(x.total[0], x.total[1]);
                prop_assert!(x.differing >= 1 && x.first <= longer && x.differing <= longer - x.first + 1);
                prop_assert_ne!(&x.values[0], &x.values[1]);
            }
        }
    }
}
