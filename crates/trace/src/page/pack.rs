//! Long lists of numbers as few letters: differences as varints, all of them as base64.

/// Numbers in the order in which the page reads them again (`page/data.js`, `Reader`).
#[derive(Clone, Default, Debug)]
pub(super) struct Pack {
    bytes: Vec<u8>,
}

/// The letters of base64 (RFC 4648, table 1).
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

impl Pack {
    /// Adds a number: seven bits a byte, the lowest first, the eighth says that more follow.
    pub(super) fn put(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
    /// Adds a number with a sign: 0, -1, 1, -2 become 0, 1, 2, 3.
    pub(super) fn put_signed(&mut self, number: i64) {
        self.put((number << 1 ^ number >> 63) as u64);
    }
    /// All of it as base64.
    pub(super) fn base64(&self) -> String {
        let mut text = String::with_capacity(self.bytes.len().div_ceil(3) * 4);
        for three in self.bytes.chunks(3) {
            let at = |place: usize| u32::from(three.get(place).copied().unwrap_or(0));
            let bits = at(0) << 16 | at(1) << 8 | at(2);
            for letter in 0..4 {
                let index = (bits >> (18 - 6 * letter)) as usize & 63;
                text.push(if letter <= three.len() { char::from(LETTERS[index]) } else { '=' });
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        // RFC 4648, section 10.
        let of = |text: &str| Pack { bytes: text.into() }.base64();
        let expected = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        assert_eq!(["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(of), expected);
    }

    #[test]
    fn numbers_take_the_bytes_that_they_need() {
        let mut pack = Pack::default();
        [0, 127, 128, 300].into_iter().for_each(|number| pack.put(number));
        assert_eq!(pack.bytes, [0, 0x7f, 0x80, 1, 0xac, 2]);
        let mut pack = Pack::default();
        [0, -1, 1, -2, 64].into_iter().for_each(|number| pack.put_signed(number));
        assert_eq!(pack.bytes, [0, 1, 2, 3, 0x80, 1]);
        let mut pack = Pack::default();
        [i64::MIN, i64::MAX].into_iter().for_each(|number| pack.put_signed(number));
        assert_eq!(pack.bytes.len(), 20);
    }
}
