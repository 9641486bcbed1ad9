//! A reader of JSON for the reports that guests send and for Cargo's messages. The project's own
//! tool has no dependencies (`xtask/Cargo.toml` says why), and this needs only reading.

use std::collections::BTreeMap;

/// Nesting that is read; reports have a depth of 4. A bound keeps the recursion's stack small.
const DEPTH_MAX: usize = 64;

/// A value as RFC 8259 has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    /// Reads one value that is the whole text. `None` where the text is not JSON.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut at = Reader { bytes: text.as_bytes(), at: 0 };
        let value = at.value(0)?;
        at.blanks();
        (at.at == at.bytes.len()).then_some(value)
    }
    /// The value of a key. `None` for other values than objects and where the key is absent.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        if let Self::Object(fields) = self { fields.get(key) } else { None }
    }
    /// The number.
    pub(super) fn number(&self) -> Option<f64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }
    /// The text.
    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
    /// The elements; none for other values than lists.
    pub(super) fn list(&self) -> &[Self] {
        if let Self::List(elements) = self { elements } else { &[] }
    }
}

/// A text as a JSON string, quotes included.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn blanks(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }
    /// The next byte that is no blank, consumed.
    fn next(&mut self) -> Option<u8> {
        self.blanks();
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte
    }
    fn peek(&mut self) -> Option<u8> {
        self.blanks();
        self.bytes.get(self.at).copied()
    }
    fn word(&mut self, word: &str, value: Json) -> Option<Json> {
        let there = self.bytes[self.at..].starts_with(word.as_bytes());
        self.at += word.len();
        there.then_some(value)
    }
    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > DEPTH_MAX {
            return None;
        }
        match self.peek()? {
            b'n' => self.word("null", Json::Null),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'"' => self.text().map(Json::Text),
            b'[' => self.elements(depth),
            b'{' => self.fields(depth),
            _ => self.number(),
        }
    }
    fn number(&mut self) -> Option<Json> {
        let begin = self.at;
        let part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
        while self.bytes.get(self.at).is_some_and(part) {
            self.at += 1;
        }
        let digits = std::str::from_utf8(&self.bytes[begin..self.at]).ok()?;
        digits.parse().ok().map(Json::Number)
    }
    fn elements(&mut self, depth: usize) -> Option<Json> {
        self.at += 1;
        let mut elements = Vec::new();
        if self.peek()? == b']' {
            self.at += 1;
            return Some(Json::List(elements));
        }
        loop {
            elements.push(self.value(depth + 1)?);
            match self.next()? {
                b',' => {}
                b']' => return Some(Json::List(elements)),
                _ => return None,
            }
        }
    }
    fn fields(&mut self, depth: usize) -> Option<Json> {
        self.at += 1;
        let mut fields = BTreeMap::new();
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(Json::Object(fields));
        }
        loop {
            (self.peek()? == b'"').then_some(())?;
            let key = self.text()?;
            (self.next()? == b':').then_some(())?;
            fields.insert(key, self.value(depth + 1)?);
            match self.next()? {
                b',' => {}
                b'}' => return Some(Json::Object(fields)),
                _ => return None,
            }
        }
    }
    fn text(&mut self) -> Option<String> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            match byte {
                b'"' => return String::from_utf8(out).ok(),
                b'\\' => {
                    let c = self.escaped()?;
                    out.extend(c.encode_utf8(&mut [0; 4]).bytes());
                }
                byte => out.push(byte),
            }
        }
    }
    /// What stands after a backslash. Halves of a surrogate pair become U+FFFD.
    fn escaped(&mut self) -> Option<char> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(match byte {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => {
                let digits = std::str::from_utf8(self.bytes.get(self.at..self.at + 4)?).ok()?;
                self.at += 4;
                char::from_u32(u32::from_str_radix(digits, 16).ok()?).unwrap_or('\u{fffd}')
            }
            b'"' | b'\\' | b'/' => char::from(byte),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Json, quoted};

    #[test]
    fn values_of_all_kinds_are_read() {
        let text = r#" {"a": [1, -2.5e3, "x\n\u00e4\"", null, true], "b": {}, "c": []} "#;
        let json = Json::read(text).unwrap();
        let a = json.get("a").unwrap().list();
        assert_eq!(a[1].number(), Some(-2500.0));
        assert_eq!(a[2].text(), Some("x\nä\""));
        assert_eq!(a[3..], [Json::Null, Json::Bool(true)]);
        assert!(json.get("d").is_none() && json.get("c").unwrap().list().is_empty());
    }

    #[test]
    fn what_is_cut_off_or_followed_by_more_is_refused() {
        for text in ["", "{", "{\"a\"", "[1,", "[1 2]", "\"x", "{} {}", "nul", "{a:1}", "1-2"] {
            assert_eq!(Json::read(text), None, "{text}");
        }
        assert_eq!(Json::read(&"[".repeat(100_000)), None);
    }

    #[test]
    fn quoted_text_reads_back() {
        let text = "a \"b\" \\ \n \t ä";
        assert_eq!(Json::read(&quoted(text)).unwrap().text(), Some(text));
    }
}
