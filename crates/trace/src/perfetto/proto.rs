//! Just enough of the protobuf encoding to write trace packets: varints, doubles, texts and
//! messages.

/// Bytes of a length that is filled in later: a varint padded to four bytes, as every decoder
/// takes it, for messages up to 2^28 bytes.
const LENGTH: usize = 4;

/// A message under construction, in a buffer that is used again.
#[derive(Clone, Default, Debug)]
pub(super) struct Proto {
    pub(super) bytes: Vec<u8>,
}

impl Proto {
    #[inline]
    fn varint(&mut self, mut value: u64) {
        // Ten bytes hold any 64-bit value. Written in place: a copy from a buffer of their own
        // would have to wait for these single bytes, and made traces a fifth slower to write.
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 10]);
        let room = &mut self.bytes[at..at + 10];
        let mut length = 0;
        while value >= 0x80 && length < 9 {
            room[length] = value as u8 | 0x80;
            length += 1;
            value >>= 7;
        }
        room[length] = value as u8;
        self.bytes.truncate(at + length + 1);
    }
    #[inline]
    fn tag(&mut self, field: u32, wire_type: u8) {
        let tag = field << 3 | u32::from(wire_type);
        if tag < 0x80 { self.bytes.push(tag as u8) } else { self.varint(u64::from(tag)) }
    }
    /// A field of a type that is encoded as a varint.
    pub(super) fn number(&mut self, field: u32, value: u64) -> &mut Self {
        self.tag(field, 0);
        self.varint(value);
        self
    }
    pub(super) fn text(&mut self, field: u32, text: &str) -> &mut Self {
        self.tag(field, 2);
        self.varint(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
        self
    }
    pub(super) fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) -> &mut Self {
        self.tag(field, 2);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; LENGTH]);
        fill(self);
        let mut length = self.bytes.len() - at - LENGTH;
        for byte in &mut self.bytes[at..at + LENGTH] {
            *byte = length as u8 | 0x80;
            length >>= 7;
        }
        self.bytes[at + LENGTH - 1] &= 0x7f;
        self
    }
}
