//! `suspend` without a value, which rt-app's `workgen` took until May 2025: rt-app's own examples
//! are written so, though it is no JSON.

use crate::error::Error;

const KEY: &[u8] = b"\"suspend\"";
const VALUE: &str = ": \"\"";

/// A text with a value for each `suspend` that had none.
pub(in crate::formats) struct Mended {
    pub(in crate::formats) text: String,
    /// The places before it of the text as it was.
    places: Vec<usize>,
}

impl Mended {
    /// The text with such values; `None` where none is missing.
    pub(in crate::formats) fn of(text: &str) -> Option<Self> {
        let places = bare(text.as_bytes());
        let last = *places.last()?;
        let (mut mended, mut from) = (String::new(), 0);
        for to in &places {
            mended += &text[from..*to];
            mended += VALUE;
            from = *to;
        }
        mended += &text[last..];
        Some(Self { text: mended, places })
    }

    /// An error in this text at its place in `text`, the one as it was.
    pub(in crate::formats) fn moved(&self, text: &str, mut error: Error) -> Error {
        let lines = text.split_inclusive('\n').scan(0, |end, line| {
            *end += line.len();
            Some((*end - line.len(), line))
        });
        let Some((start, line)) =
            lines.enumerate().find(|(at, _)| at + 1 == error.line).map(|it| it.1)
        else {
            return error;
        };
        for place in self.places.iter().filter(|it| (start..start + line.len()).contains(it)) {
            let column = text[start..*place].chars().count() + 1;
            if error.column > column {
                error.column = column.max(error.column - VALUE.len());
            }
        }
        error
    }
}

/// The ends of the keys `suspend` that a comma or the end of the object follows.
fn bare(text: &[u8]) -> Vec<usize> {
    let (mut found, mut open, mut last, mut key) = (Vec::new(), Vec::new(), b' ', None);
    let mut at = 0;
    while let Some(byte) = text.get(at).copied() {
        let end = end(text, at);
        let word = &text[at..end];
        at = end;
        if byte.is_ascii_whitespace() || byte == b'/' {
            continue;
        }
        if matches!(byte, b',' | b'}') {
            found.extend(key);
        }
        let is_key = word == KEY && open.last() == Some(&b'{') && matches!(last, b'{' | b',');
        key = is_key.then_some(end);
        match byte {
            b'{' | b'[' => open.push(byte),
            b'}' | b']' => _ = open.pop(),
            _ => {}
        }
        last = byte;
    }
    found
}

/// The end of the string, the comment or the byte that begins here.
fn end(text: &[u8], at: usize) -> usize {
    let rest = &text[at..];
    let after = |word: &[u8]| {
        let found = rest[2..].windows(word.len()).position(|it| it == word);
        found.map_or(text.len(), |found| at + 2 + found + word.len())
    };
    if rest.starts_with(b"//") {
        return after(b"\n");
    }
    if rest.starts_with(b"/*") {
        return after(b"*/");
    }
    if rest[0] != b'"' {
        return at + 1;
    }
    let mut escaped = false;
    let closes = |byte: &u8| {
        let closes = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        closes
    };
    rest[1..].iter().position(closes).map_or(text.len(), |found| at + found + 2)
}
