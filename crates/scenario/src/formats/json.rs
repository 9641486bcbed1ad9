//! JSON in which every key and value knows its place and no key is lost.

use crate::error::{Error, Source, quoted};
use jsonc_parser::ast::{ObjectPropName, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::ParseError;
use jsonc_parser::{CollectOptions, ParseOptions};
use std::collections::BTreeSet;

/// A value in its place.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) source: &'a Source<'a>,
    value: &'a Value<'a>,
}

/// A key with its value.
#[derive(Clone, Copy)]
pub(super) struct Member<'a> {
    pub(super) key: &'a str,
    pub(super) key_at: usize,
    pub(super) value: Node<'a>,
}

/// What rt-app's parser (json-c) takes beyond the standard, as its own examples use it: comments
/// and a comma before a closing bracket.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The value that a text holds.
pub(super) fn parse<'a>(source: &Source<'a>) -> Result<Value<'a>, Error> {
    let text = source.text;
    let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &OPTIONS);
    let broken = |error: ParseError| {
        let what = error.kind().to_string();
        let at = error.range().start;
        source.error(at, format!("this is no JSON: {}; mend it here", lowered(&what)))
    };
    let empty = || source.error(0, "the file is empty; write {\"tasks\": {}} with tasks in it");
    parsed.map_err(broken)?.value.ok_or_else(empty)
}

fn lowered(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

impl<'a> Node<'a> {
    pub(super) const fn new(source: &'a Source<'a>, value: &'a Value<'a>) -> Self {
        Self { source, value }
    }
    pub(super) fn at(&self) -> usize {
        self.value.range().start
    }
    pub(super) fn error(&self, message: impl Into<String>) -> Error {
        self.source.error(self.at(), message)
    }
    /// What stands there, for "must be ..., not ...".
    pub(super) fn found(&self) -> String {
        match self.value {
            Value::StringLit(text) => format!("the string {}", quoted(&text.value)),
            Value::NumberLit(number) => quoted(number.value).replace('"', ""),
            Value::BooleanLit(flag) => flag.value.to_string(),
            Value::Object(_) => "an object".into(),
            Value::Array(_) => "an array".into(),
            Value::NullKeyword(_) => "null".into(),
        }
    }
    fn mismatch(&self, key: &str, what: &str) -> Error {
        let key = quoted(key).replace('"', "`");
        self.error(format!("{key} must be {what}, not {}", self.found()))
    }

    /// The members of an object in the order of the file; none has the key of another.
    pub(super) fn members(&self, key: &str) -> Result<Vec<Member<'a>>, Error> {
        Ok(self.members_but(key, |_| false)?.0)
    }
    /// The members of an object in the order of the file, and whether two have the same key, which
    /// only keys may that `may_repeat`.
    pub(super) fn members_but(
        &self,
        key: &str,
        may_repeat: impl Fn(&str) -> bool,
    ) -> Result<(Vec<Member<'a>>, bool), Error> {
        let Value::Object(object) = self.value else {
            return Err(self.mismatch(key, "an object"));
        };
        let member = |property: &'a jsonc_parser::ast::ObjectProp<'a>| Member {
            key: match &property.name {
                ObjectPropName::String(text) => &text.value,
                ObjectPropName::Word(word) => word.value,
            },
            key_at: property.name.range().start,
            value: Node::new(self.source, &property.value),
        };
        let members: Vec<Member<'a>> = object.properties.iter().map(member).collect();
        let (mut known, mut repeated) = (BTreeSet::new(), false);
        for member in &members {
            let new = known.insert(member.key);
            repeated |= !new;
            if !new && !may_repeat(member.key) {
                let key = quoted(member.key).replace('"', "`");
                return Err(self.source.error(
                    member.key_at,
                    format!(
                        "the key {key} stands twice in one object, where JSON keeps the last \
                         only; number them, as rt-app's `workgen` does"
                    ),
                ));
            }
        }
        Ok((members, repeated))
    }
    /// A whole number as written, its sign too.
    pub(super) fn whole(&self, key: &str, what: &str) -> Result<i64, Error> {
        let Value::NumberLit(number) = self.value else {
            return Err(self.mismatch(key, &format!("a whole number{what}")));
        };
        let digits = number.value.bytes().all(|byte| byte.is_ascii_digit());
        number.value.parse().map_err(|_| match digits {
            true => self.error(format!(
                "{} {} is above {}, the largest number that is read; lower it",
                quoted(key).replace('"', ""),
                self.found(),
                i64::MAX
            )),
            false => self.mismatch(key, &format!("a whole number{what}")),
        })
    }
    /// A string.
    pub(super) fn text(&self, key: &str) -> Result<&'a str, Error> {
        match self.value {
            Value::StringLit(text) => Ok(&text.value),
            Value::NumberLit(_)
            | Value::BooleanLit(_)
            | Value::Object(_)
            | Value::Array(_)
            | Value::NullKeyword(_) => Err(self.mismatch(key, "a string")),
        }
    }
    /// The elements of an array.
    pub(super) fn elements(&self, key: &str) -> Result<Vec<Node<'a>>, Error> {
        let Value::Array(array) = self.value else {
            return Err(self.mismatch(key, "an array"));
        };
        Ok(array.elements.iter().map(|value| Node::new(self.source, value)).collect())
    }
}
