//! A typed cursor over a parsed TOML document in which every key and value knows its place.

mod units;

use crate::error::{Error, Location, Source, did_you_mean, quoted};
use crate::keys::Keys;
use maracas_core::Duration;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The longest duration that a scenario may name. Sums of two thousand of them still fit the
/// 64-bit nanoseconds of core, so that no arithmetic on a checked scenario overflows.
pub(crate) const LONGEST: Duration = Duration::from_secs(100 * 24 * 3600);

/// One table, whose keys are all known ones.
pub(crate) struct Table<'a> {
    pub(crate) source: &'a Source<'a>,
    entries: &'a DeTable<'a>,
    keys: &'static Keys,
    at: usize,
}

/// One key with its value.
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    source: &'a Source<'a>,
    /// The key; for elements of an array the key of the array.
    pub(crate) key: &'a str,
    key_at: usize,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Table<'a> {
    /// A table in which only `keys` may stand.
    pub(crate) fn new(
        source: &'a Source<'a>,
        entries: &'a DeTable<'a>,
        at: usize,
        keys: &'static Keys,
    ) -> Result<Self, Error> {
        let unknown = entries
            .iter()
            .map(|(key, _)| key)
            .filter(|key| !keys.open && !keys.keys.contains(&key.get_ref().as_ref()))
            .min_by_key(|key| key.span().start);
        if let Some(key) = unknown {
            let word = key.get_ref();
            let shown = quoted(word).replace('"', "`");
            let hint = did_you_mean(word, keys.keys.iter().copied(), "keys here");
            return Err(source.error(key.span().start, format!("unknown key {shown}; {hint}")));
        }
        Ok(Self { source, entries, keys, at })
    }
    /// Where the table begins, as a byte offset.
    pub(crate) const fn at(&self) -> usize {
        self.at
    }
    /// An error about the table as a whole.
    pub(crate) fn error(&self, message: impl Into<String>) -> Error {
        self.source.error(self.at, message)
    }
    /// All entries, in the order of the file.
    pub(crate) fn fields(&self) -> Vec<Field<'a>> {
        let mut fields: Vec<_> = self
            .entries
            .iter()
            .map(|(key, value)| Field {
                source: self.source,
                key: key.get_ref(),
                key_at: key.span().start,
                value,
            })
            .collect();
        fields.sort_by_key(|field| field.key_at);
        fields
    }
    /// The entry of `key`.
    ///
    /// # Panics
    /// Where `key` is missing from the list of known keys, which the documents stand on.
    pub(crate) fn get(&self, key: &'static str) -> Option<Field<'a>> {
        assert!(self.keys.keys.contains(&key), "`{key}` is not a key of {}", self.keys.table);
        let (found, value) = self.entries.get_key_value(key)?;
        Some(Field { source: self.source, key, key_at: found.span().start, value })
    }
    /// The entry of `key`, or an error that shows how to write it.
    pub(crate) fn need(&self, key: &'static str, example: &str) -> Result<Field<'a>, Error> {
        self.get(key).ok_or_else(|| {
            self.error(format!("{} has no `{key}`; add {key} = {example}", self.keys.table))
        })
    }
    /// The table under `key`, if there.
    pub(crate) fn table(
        &self,
        key: &'static str,
        keys: &'static Keys,
    ) -> Result<Option<Table<'a>>, Error> {
        self.get(key).map(|field| field.table(keys)).transpose()
    }
    /// The `[[key]]` tables; none where the key is missing.
    pub(crate) fn tables(
        &self,
        key: &'static str,
        keys: &'static Keys,
    ) -> Result<Vec<Table<'a>>, Error> {
        let Some(field) = self.get(key) else { return Ok(Vec::new()) };
        let head = Some(keys.table).filter(|table| table.starts_with("[["));
        let head = head.map_or(format!("[[{key}]]"), str::to_owned);
        let way_out = format!("write {head}, with two brackets, before each");
        let DeValue::Array(elements) = field.value.get_ref() else {
            return Err(field.source.error(
                field.key_at,
                format!("`{key}` must be a list of tables, not {}; {way_out}", field.found()),
            ));
        };
        elements
            .iter()
            .map(|value| {
                let element = Field { value, ..field };
                match value.get_ref().as_table() {
                    Some(entries) => Self::new(self.source, entries, value.span().start, keys),
                    None => Err(element.error(format!(
                        "`{key}` must hold tables, not {}; {way_out}",
                        element.found()
                    ))),
                }
            })
            .collect()
    }
}

impl<'a> Field<'a> {
    /// Where the value begins, as a byte offset.
    pub(crate) fn at(&self) -> usize {
        self.value.span().start
    }
    /// Where the key begins, as a byte offset.
    pub(crate) const fn key_at(&self) -> usize {
        self.key_at
    }
    /// An error about the value.
    pub(crate) fn error(&self, message: impl Into<String>) -> Error {
        self.source.error(self.at(), message)
    }
    /// An error about the key.
    pub(crate) fn key_error(&self, message: impl Into<String>) -> Error {
        self.source.error(self.key_at, message)
    }
    /// The value as written.
    /// Where its value stands.
    pub(crate) fn location(&self) -> Location {
        self.source.location(self.at())
    }
    pub(crate) fn value(&self) -> &'a DeValue<'a> {
        self.value.get_ref()
    }
    /// The folder of the file in which it stands: what relative paths start from.
    pub(crate) fn folder(&self) -> &'a Path {
        Path::new(self.source.file).parent().unwrap_or(Path::new(""))
    }
    /// What stands there, for "must be ..., not ...".
    pub(crate) fn found(&self) -> String {
        match self.value() {
            DeValue::String(text) => format!("the string {}", quoted(text)),
            DeValue::Integer(n) => format!("the integer {n}"),
            DeValue::Float(x) => format!("the float {x}"),
            DeValue::Boolean(flag) => flag.to_string(),
            DeValue::Datetime(time) => format!("the date {time}"),
            DeValue::Array(_) => "an array".into(),
            DeValue::Table(_) => "a table".into(),
        }
    }
    /// "`key` must be `what`, not what stands there".
    pub(crate) fn mismatch(&self, what: impl Display) -> Error {
        self.error(format!("`{}` must be {what}, not {}", self.key, self.found()))
    }

    /// A table.
    pub(crate) fn table(&self, keys: &'static Keys) -> Result<Table<'a>, Error> {
        match self.value() {
            DeValue::Table(entries) => Table::new(self.source, entries, self.at(), keys),
            DeValue::Array(elements) if elements.iter().all(|e| e.get_ref().is_table()) => {
                let key = self.key;
                Err(self.key_error(format!("`{key}` may stand once only; write [{key}]")))
            }
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => Err(self.mismatch("a table")),
        }
    }
    /// A string.
    pub(crate) fn text(&self, example: &str) -> Result<&'a str, Error> {
        self.value().as_str().ok_or_else(|| self.mismatch(format!("a string, such as {example}")))
    }
    /// One of `words`.
    pub(crate) fn word<T: Copy>(&self, words: &[(&'static str, T)]) -> Result<T, Error> {
        let names = || words.iter().map(|(name, _)| *name);
        let list = || names().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(" or ");
        let text = self.value().as_str().ok_or_else(|| self.mismatch(list()))?;
        words.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
            let hint = did_you_mean(text, names(), "choices");
            self.error(format!("`{}` cannot be {}; {hint}", self.key, quoted(text)))
        })
    }
    /// A whole number within `range`.
    pub(crate) fn whole(&self, range: RangeInclusive<u64>) -> Result<u64, Error> {
        let (least, most) = (range.start(), range.end());
        let DeValue::Integer(n) = self.value() else {
            return Err(self.mismatch(format!("a whole number from {least} to {most}")));
        };
        i128::from_str_radix(n.as_str(), n.radix())
            .ok()
            .and_then(|n| u64::try_from(n).ok())
            .filter(|n| range.contains(n))
            .ok_or_else(|| {
                self.error(format!("`{}` is {n}; it must lie from {least} to {most}", self.key))
            })
    }
    /// A length of time, zero included.
    pub(crate) fn duration(&self) -> Result<Duration, Error> {
        let key = self.key;
        let DeValue::String(text) = self.value() else {
            return Err(self.mismatch("a string with a unit, such as \"20ms\""));
        };
        let shown = quoted(text);
        if text.trim_start().starts_with('-') {
            return Err(self.error(format!("{key} {shown} is negative; drop the minus sign")));
        }
        let duration = Duration::parse(text).map_err(|why| {
            let way_out = if why.contains("20ms") { "" } else { "; write it like \"20ms\"" };
            self.error(format!("{key} {shown} {why}{way_out}"))
        })?;
        if duration > LONGEST {
            return Err(self.error(format!(
                "{key} {duration} is longer than 100 days, the most a scenario may name; shorten it"
            )));
        }
        Ok(duration)
    }
    /// True or false.
    pub(crate) fn flag(&self) -> Result<bool, Error> {
        self.value().as_bool().ok_or_else(|| self.mismatch("true or false"))
    }
    /// A length of time above zero.
    pub(crate) fn positive(&self) -> Result<Duration, Error> {
        let duration = self.duration()?;
        if duration.is_zero() {
            return Err(self.error(format!("{} must be above zero, such as \"20ms\"", self.key)));
        }
        Ok(duration)
    }
    /// A length of time in which memory can be seen to do something: a microsecond or more. What
    /// changes faster is for a mean rate, and would only make the simulation slow.
    pub(crate) fn noticeable(&self) -> Result<Duration, Error> {
        let duration = self.positive()?;
        if duration < Duration::from_micros(1) {
            let key = self.key;
            return Err(self.error(format!("{key} {duration} is shorter than 1us; lengthen it")));
        }
        Ok(duration)
    }
    /// The elements of an array.
    pub(crate) fn elements(&self, what: &str) -> Result<Vec<Field<'a>>, Error> {
        let DeValue::Array(elements) = self.value() else { return Err(self.mismatch(what)) };
        Ok(elements.iter().map(|value| Field { value, ..*self }).collect())
    }
}
