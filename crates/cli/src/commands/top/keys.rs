//! Keys, read from the bytes that a terminal sends for them.

/// A key that the view knows, or a letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Char(char),
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    Escape,
    /// Ctrl-C.
    Interrupt,
}

/// The keys in what was read at once: a lone escape character is the key, one with more behind it
/// begins a sequence (ECMA-48, section 5.4, and xterm's `ctlseqs`).
pub(super) fn keys(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let [first, rest @ ..] = bytes {
        bytes = rest;
        match (first, rest) {
            (0x1b, [b'[' | b'O', rest @ ..]) => {
                let is_final = |byte: &u8| (0x40..=0x7e).contains(byte);
                let length = rest.iter().position(is_final).map_or(rest.len(), |at| at + 1);
                keys.extend(sequence(&rest[..length]));
                bytes = &rest[length..];
            }
            (0x1b, []) => keys.push(Key::Escape),
            (0x03, _) => keys.push(Key::Interrupt),
            (b' '..=b'~', _) => keys.push(Key::Char(char::from(*first))),
            _ => {}
        }
    }
    keys
}

/// What stands behind the introducer of a sequence.
const fn sequence(bytes: &[u8]) -> Option<Key> {
    match bytes {
        b"A" => Some(Key::Up),
        b"B" => Some(Key::Down),
        b"C" => Some(Key::Right),
        b"D" => Some(Key::Left),
        b"H" | b"1~" | b"7~" => Some(Key::Home),
        b"5~" => Some(Key::PageUp),
        b"6~" => Some(Key::PageDown),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_reported_apart() {
        assert_eq!(keys(b"q s"), [Key::Char('q'), Key::Char(' '), Key::Char('s')]);
        let arrows = [Key::Up, Key::Down, Key::Right, Key::Left];
        assert_eq!(keys(b"\x1b[A\x1b[B\x1b[C\x1b[D"), arrows);
        assert_eq!(keys(b"\x1bOA\x1bOB\x1bOC\x1bOD"), arrows);
        assert_eq!(keys(b"\x1b[5~\x1b[6~\x1b[H"), [Key::PageUp, Key::PageDown, Key::Home]);
        assert_eq!(keys(b"\x1b"), [Key::Escape]);
        assert_eq!(keys(b"\x03"), [Key::Interrupt]);
        // F5, Ctrl-S, a letter of two bytes and a torn sequence are none of the view's keys.
        assert_eq!(keys(b"\x1b[15~\x13\xc3\xa4q\x1b[1;"), [Key::Char('q')]);
    }
}
