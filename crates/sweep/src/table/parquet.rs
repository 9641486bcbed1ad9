//! Parquet files in their simplest form: plain values, not compressed, one page for each column of
//! a row group ("Apache Parquet", docs/File Format and `parquet.thrift` of apache/parquet-format).
//!
//! A library for it would be a quarter of what a user has to build, for one page of code.

use super::{Column, Kind, Rows, Value};
use crate::Error;
use std::io::Write;

/// Rows of a row group, whose values are held in memory at once.
pub(super) const GROUP: usize = 1 << 16;

/// Begins and ends a file.
const MAGIC: &[u8; 4] = b"PAR1";

// Numbers of `parquet.thrift`. Encoding: PLAIN for values, RLE for levels.
const PLAIN: i64 = 0;
const RLE: i64 = 3;
const UTF8: i64 = 0;

/// Writes a Parquet file: one row group for each 65536 rows, not compressed.
///
/// # Errors
/// Where `out` takes no more, or rows cannot be read.
///
/// # Panics
/// Where a value is not of its column's kind: the caller that made the row is wrong.
pub fn parquet(columns: &[Column], rows: Rows<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let mut rows = rows.peekable();
    let mut place = 0_u64;
    let mut put = |bytes: &[u8]| {
        place += bytes.len() as u64;
        out.write_all(bytes).map(|()| place).map_err(super::unwritten)
    };
    put(MAGIC)?;
    let (mut groups, mut total) = (Vec::new(), 0);
    while rows.peek().is_some() {
        let mut pages: Vec<Page<'_>> = columns.iter().map(Page::new).collect();
        let mut count = 0;
        for row in rows.by_ref().take(GROUP) {
            pages.iter_mut().zip(row?).for_each(|(page, value)| page.push(&value));
            count += 1;
        }
        let mut chunks = Vec::new();
        for page in pages {
            let (column, bytes) = (page.column, page.bytes(count));
            let end = put(&bytes)?;
            chunks.push(Chunk { column, start: end - bytes.len() as u64, bytes: bytes.len() });
        }
        total += count;
        groups.push((count, chunks));
    }
    let footer = footer(columns, total, &groups);
    put(&footer)?;
    put(&u32::try_from(footer.len()).map_err(super::unwritten)?.to_le_bytes())?;
    put(MAGIC)?;
    Ok(())
}

/// A column of a row group in the file.
struct Chunk<'a> {
    column: &'a Column,
    start: u64,
    bytes: usize,
}

/// The page of a column: which values are there, and those that are.
struct Page<'a> {
    column: &'a Column,
    there: Bits,
    flags: Bits,
    values: Vec<u8>,
}

impl<'a> Page<'a> {
    fn new(column: &'a Column) -> Self {
        Self { column, there: Bits::default(), flags: Bits::default(), values: Vec::new() }
    }

    /// Values one behind the other.
    fn push(&mut self, value: &Value) {
        let Column { name, kind, optional } = self.column;
        if *optional {
            self.there.push(*value != Value::Missing);
        }
        match (kind, value) {
            (_, Value::Missing) if *optional => {}
            (Kind::Text, Value::Text(text)) => {
                self.values.extend_from_slice(&(text.len() as u32).to_le_bytes());
                self.values.extend_from_slice(text.as_bytes());
            }
            (Kind::Whole, Value::Whole(number)) => {
                let number = i64::try_from(*number).unwrap_or(i64::MAX);
                self.values.extend_from_slice(&number.to_le_bytes());
            }
            (Kind::Number, Value::Number(number)) => {
                self.values.extend_from_slice(&number.to_le_bytes());
            }
            (Kind::Flag, Value::Flag(flag)) => self.flags.push(*flag),
            (Kind::Text | Kind::Whole | Kind::Number | Kind::Flag, value) => {
                panic!("{name} cannot hold {value:?}")
            }
        }
    }

    /// Header and body of a page of so many rows.
    fn bytes(self, rows: usize) -> Vec<u8> {
        let mut levels = Vec::new();
        if self.column.optional {
            let bits = self.there.bytes;
            // One run of groups of eight, whose number stands shifted beside a one.
            let mut run = Vec::new();
            varint(&mut run, (bits.len() as u64) << 1 | 1);
            levels.extend_from_slice(&((run.len() + bits.len()) as u32).to_le_bytes());
            levels.extend_from_slice(&run);
            levels.extend_from_slice(&bits);
        }
        let body = [levels, self.values, self.flags.bytes];
        let length: usize = body.iter().map(Vec::len).sum();
        // PageHeader
        let mut header = Struct::default();
        header.whole(1, 0);
        header.whole(2, length as i64);
        header.whole(3, length as i64);
        let mut of_data = Struct::default();
        of_data.whole(1, rows as i64);
        [PLAIN, RLE, RLE].into_iter().zip(2..).for_each(|(way, field)| of_data.whole(field, way));
        header.structure(5, of_data);
        let mut page = header.finish();
        body.iter().for_each(|part| page.extend_from_slice(part));
        page
    }
}

/// Bits, the first one lowest.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: usize,
}

impl Bits {
    fn push(&mut self, flag: bool) {
        if self.count.is_multiple_of(8) {
            self.bytes.push(0);
        }
        self.bytes[self.count / 8] |= u8::from(flag) << (self.count % 8);
        self.count += 1;
    }
}

/// `FileMetaData`: the schema, and where each column of each row group stands.
fn footer(columns: &[Column], count: usize, groups: &[(usize, Vec<Chunk<'_>>)]) -> Vec<u8> {
    let mut root = Struct::default();
    root.text(4, "maracas");
    root.whole(5, columns.len() as i64);
    let schema = std::iter::once(root).chain(columns.iter().map(schema_of)).collect();
    let mut file = Struct::default();
    file.whole(1, 1);
    file.list(2, schema);
    file.long(3, count as i64);
    let group_of = |(rows, chunks): &(usize, Vec<Chunk<'_>>)| {
        let mut group = Struct::default();
        group.list(1, chunks.iter().map(|chunk| chunk_of(chunk, *rows)).collect());
        group.long(2, chunks.iter().map(|chunk| chunk.bytes as i64).sum());
        group.long(3, *rows as i64);
        group
    };
    file.list(4, groups.iter().map(group_of).collect());
    file.text(6, "maracas");
    file.finish()
}

/// `Type`.
const fn physical(kind: Kind) -> i64 {
    match kind {
        Kind::Flag => 0,
        Kind::Whole => 2,
        Kind::Number => 5,
        Kind::Text => 6,
    }
}

/// `SchemaElement`.
fn schema_of(column: &Column) -> Struct {
    let mut element = Struct::default();
    element.whole(1, physical(column.kind));
    element.whole(3, i64::from(column.optional));
    element.text(4, &column.name);
    if column.kind == Kind::Text {
        element.whole(6, UTF8);
    }
    element
}

/// `ColumnChunk` with its `ColumnMetaData`.
fn chunk_of(chunk: &Chunk<'_>, rows: usize) -> Struct {
    let mut meta = Struct::default();
    meta.whole(1, physical(chunk.column.kind));
    meta.wholes(2, &[PLAIN, RLE]);
    meta.texts(3, &[&chunk.column.name]);
    meta.whole(4, 0);
    meta.long(5, rows as i64);
    meta.long(6, chunk.bytes as i64);
    meta.long(7, chunk.bytes as i64);
    meta.long(9, chunk.start as i64);
    let mut column = Struct::default();
    column.long(2, chunk.start as i64);
    column.structure(3, meta);
    column
}

/// A structure of Thrift's compact protocol ("Thrift Compact protocol encoding" of apache/thrift).
#[derive(Default)]
struct Struct {
    bytes: Vec<u8>,
    last: u8,
}

// Types of the compact protocol.
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

impl Struct {
    /// The head of a field: how much its number is above the last one's, and its type.
    fn field(&mut self, number: u8, kind: u8) {
        self.bytes.push((number - self.last) << 4 | kind);
        self.last = number;
    }
    fn whole(&mut self, field: u8, value: i64) {
        self.field(field, I32);
        varint(&mut self.bytes, zigzag(value));
    }
    fn long(&mut self, field: u8, value: i64) {
        self.field(field, I64);
        varint(&mut self.bytes, zigzag(value));
    }
    fn text(&mut self, field: u8, text: &str) {
        self.field(field, BINARY);
        varint(&mut self.bytes, text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }
    fn structure(&mut self, field: u8, inner: Self) {
        self.field(field, STRUCT);
        self.bytes.extend(inner.finish());
    }
    /// The head of a list: its length and the type of what is in it.
    fn items(&mut self, field: u8, count: usize, kind: u8) {
        self.field(field, LIST);
        if count < 15 {
            self.bytes.push((count as u8) << 4 | kind);
        } else {
            self.bytes.push(0xF0 | kind);
            varint(&mut self.bytes, count as u64);
        }
    }
    fn list(&mut self, field: u8, items: Vec<Self>) {
        self.items(field, items.len(), STRUCT);
        items.into_iter().for_each(|item| self.bytes.extend(item.finish()));
    }
    fn wholes(&mut self, field: u8, values: &[i64]) {
        self.items(field, values.len(), I32);
        values.iter().for_each(|value| varint(&mut self.bytes, zigzag(*value)));
    }
    fn texts(&mut self, field: u8, texts: &[&str]) {
        self.items(field, texts.len(), BINARY);
        for text in texts {
            varint(&mut self.bytes, text.len() as u64);
            self.bytes.extend_from_slice(text.as_bytes());
        }
    }
    fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

/// Small numbers of either sign as small numbers.
const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// Seven bits a byte, the lowest first; all but the last byte have the eighth bit.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
