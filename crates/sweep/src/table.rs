//! Tables with typed columns, as CSV, Parquet and JSON.

mod parquet;

pub use self::parquet::parquet;

use crate::Error;
use std::io::Write;

/// A column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// What it is called; `docs/sweep.md` says what it means.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
    /// Whether a value may be missing.
    pub optional: bool,
}

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Words: UTF-8.
    Text,
    /// Whole numbers below 2^63: 64-bit integers.
    Whole,
    /// Numbers: 64-bit floats.
    Number,
    /// Yes or no.
    Flag,
}

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Of a [`Kind::Text`].
    Text(String),
    /// Of a [`Kind::Whole`].
    Whole(u64),
    /// Of a [`Kind::Number`].
    Number(f64),
    /// Of a [`Kind::Flag`].
    Flag(bool),
    /// There is none.
    Missing,
}

/// One value for each column.
pub type Row = Vec<Value>;

/// Rows one after the other, until they cannot be read.
pub type Rows<'a> = Box<dyn Iterator<Item = Result<Row, Error>> + 'a>;

impl Column {
    /// A column in which every value is there.
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        Self { name: name.into(), kind, optional: false }
    }
    /// The same with values that may be missing.
    #[must_use]
    pub fn optional(self) -> Self {
        Self { optional: true, ..self }
    }
}

impl Value {
    /// A number, or a missing value.
    pub fn maybe<T>(value: Option<T>, of: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Missing, of)
    }
    fn write_cell(&self, out: &mut dyn Write) -> std::io::Result<()> {
        match self {
            Self::Text(text) if text.contains([',', '"', '\n', '\r']) => {
                write!(out, "\"{}\"", text.replace('"', "\"\""))
            }
            Self::Text(text) => out.write_all(text.as_bytes()),
            Self::Whole(number) => write!(out, "{number}"),
            // The shortest digits that give the same float again.
            Self::Number(number) => write!(out, "{number}"),
            Self::Flag(flag) => write!(out, "{flag}"),
            Self::Missing => Ok(()),
        }
    }
    /// As JSON.
    pub fn json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Whole(number) => (*number).into(),
            Self::Number(number) => (*number).into(),
            Self::Flag(flag) => (*flag).into(),
            Self::Missing => serde_json::Value::Null,
        }
    }
}

fn unwritten(error: impl std::fmt::Display) -> Error {
    Error(error.to_string())
}

/// Writes comma-separated values with a header.
///
/// # Errors
/// Where `out` takes no more, or rows cannot be read.
pub fn csv(columns: &[Column], rows: Rows<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
    writeln!(out, "{}", names.join(",")).map_err(unwritten)?;
    let mut line = Vec::new();
    for row in rows {
        line.clear();
        for (place, value) in row?.iter().enumerate() {
            if place > 0 {
                line.push(b',');
            }
            value.write_cell(&mut line).map_err(unwritten)?;
        }
        line.push(b'\n');
        out.write_all(&line).map_err(unwritten)?;
    }
    Ok(())
}

/// An array of objects, one for each row.
///
/// # Errors
/// Where rows cannot be read.
pub fn json(columns: &[Column], rows: Rows<'_>) -> Result<serde_json::Value, Error> {
    let object = |row: Row| {
        let names = columns.iter().map(|column| column.name.clone());
        names.zip(row.iter().map(Value::json)).collect::<serde_json::Map<_, _>>()
    };
    rows.map(|row| Ok(serde_json::Value::Object(object(row?)))).collect()
}

#[cfg(test)]
mod tests {
    use super::parquet::GROUP;
    use super::*;
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::Field;

    fn columns() -> Vec<Column> {
        vec![
            Column::new("policy", Kind::Text),
            Column::new("jobs", Kind::Whole),
            Column::new("share", Kind::Number).optional(),
            Column::new("success", Kind::Flag),
            Column::new("tasks", Kind::Whole).optional(),
        ]
    }

    fn rows(count: u64) -> impl Iterator<Item = Row> {
        (0..count).map(|n| {
            let number = Value::Number(n as f64 / 7.0);
            vec![
                Value::Text(format!("run, \"{}\"", n % 3)),
                Value::Whole(n * n),
                if n % 5 == 0 { Value::Missing } else { number },
                Value::Flag(n % 2 == 0),
                Value::maybe((n % 4 != 0).then_some(n), Value::Whole),
            ]
        })
    }

    fn value(field: &Field) -> Value {
        if let Field::Str(text) = field {
            Value::Text(text.clone())
        } else if let Field::Long(number) = field {
            Value::Whole(*number as u64)
        } else if let Field::Double(number) = field {
            Value::Number(*number)
        } else if let Field::Bool(flag) = field {
            Value::Flag(*flag)
        } else {
            assert_eq!(*field, Field::Null);
            Value::Missing
        }
    }

    #[test]
    fn parquet_is_read_back_as_it_was_written() {
        // More than one row group.
        for count in [0, 3, GROUP as u64 + 10] {
            let mut bytes = Vec::new();
            parquet(&columns(), Box::new(rows(count).map(Ok)), &mut bytes).unwrap();
            let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
            assert_eq!(reader.metadata().file_metadata().num_rows(), count as i64);
            let read = reader.get_row_iter(None).unwrap().map(|row| {
                let row = row.unwrap();
                let names: Vec<_> = row.get_column_iter().map(|(name, _)| name.clone()).collect();
                assert_eq!(names, ["policy", "jobs", "share", "success", "tasks"]);
                row.get_column_iter().map(|(_, field)| value(field)).collect::<Row>()
            });
            assert!(read.eq(rows(count)), "{count}");
        }
    }

    #[test]
    fn csv_and_json_say_the_same() {
        let mut text = Vec::new();
        csv(&columns(), Box::new(rows(2).map(Ok)), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let wanted = "policy,jobs,share,success,tasks\n\"run, \"\"0\"\"\",0,,true,\n\
                      \"run, \"\"1\"\"\",1,0.14285714285714285,false,1\n";
        assert_eq!(text, wanted);
        let json = json(&columns(), Box::new(rows(2).map(Ok))).unwrap();
        assert_eq!(json[1]["share"], 1.0 / 7.0);
        assert!(json[0]["tasks"].is_null() && json[0]["success"] == true);
    }
}
