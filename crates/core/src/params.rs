//! A policy's parameters: what it takes, and what the user gave.

use crate::{Duration, Rate};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// One parameter that a policy takes.
#[derive(Clone, Copy, Debug)]
pub struct ParamSpec {
    /// Its key in the scenario's `[policy]` table.
    pub name: &'static str,
    /// What values it takes, and the default.
    pub kind: Kind,
    /// One sentence for help and documentation, with the source of the default.
    pub help: &'static str,
}

/// The kind of a parameter, with its default.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// One of these words; the first is the default.
    Choice(&'static [&'static str]),
    /// A duration with its unit, as text; an empty default means "none".
    Time(&'static str),
    /// A whole number within the bounds (default, least, greatest).
    Whole(u64, u64, u64),
    /// A fraction, written `"1/2"` or `0.5`: default as (numerator, denominator).
    Fraction(u64, u64),
    /// Yes or no, with the default.
    Flag(bool),
}

/// A value as the user wrote it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// Text: words, durations, fractions.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// True or false.
    Flag(bool),
}

/// What the user gave, by name. Checked against the specs by [`Params::check`].
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Params {
    given: BTreeMap<String, Value>,
}

impl Params {
    /// No parameters: every default.
    pub const fn new() -> Self {
        Self { given: BTreeMap::new() }
    }
    /// Sets one value.
    pub fn set(&mut self, name: &str, value: Value) {
        self.given.insert(name.to_string(), value);
    }
    /// What was given, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.given.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Checks every given value against `specs`.
    ///
    /// # Errors
    /// The offending name and a sentence that says what is wrong and what would be right.
    pub fn check(&self, specs: &[ParamSpec]) -> Result<(), (String, String)> {
        for (name, value) in &self.given {
            let Some(spec) = specs.iter().find(|spec| spec.name == name) else {
                let known: Vec<_> = specs.iter().map(|spec| spec.name).collect();
                let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
                return Err((
                    name.clone(),
                    format!("unknown parameter; this policy takes: {known}"),
                ));
            };
            spec.kind.accepts(value).map_err(|why| (name.clone(), why))?;
        }
        Ok(())
    }

    /// The chosen word of a [`Kind::Choice`].
    pub fn choice(&self, spec: &ParamSpec) -> &str {
        match (self.given.get(spec.name), spec.kind) {
            (Some(Value::Text(word)), _) => word,
            (_, Kind::Choice(words)) => words[0],
            _ => "",
        }
    }
    /// The duration of a [`Kind::Time`], `None` where it is empty.
    pub fn time(&self, spec: &ParamSpec) -> Option<Duration> {
        let text = match (self.given.get(spec.name), spec.kind) {
            (Some(Value::Text(text)), _) => text.as_str(),
            (_, Kind::Time(text)) => text,
            _ => "",
        };
        Duration::parse(text).ok()
    }
    /// The number of a [`Kind::Whole`].
    pub fn whole(&self, spec: &ParamSpec) -> u64 {
        match (self.given.get(spec.name), spec.kind) {
            (Some(Value::Whole(n)), _) => n.unsigned_abs(),
            (_, Kind::Whole(default, ..)) => default,
            _ => 0,
        }
    }
    /// The fraction of a [`Kind::Fraction`].
    pub fn fraction(&self, spec: &ParamSpec) -> Rate {
        match (self.given.get(spec.name), spec.kind) {
            (Some(Value::Text(text)), _) => parse_fraction(text).unwrap_or(Rate::ZERO),
            (Some(Value::Whole(n)), _) => Rate::new(n.unsigned_abs(), 1),
            (_, Kind::Fraction(num, den)) => Rate::new(num, den),
            _ => Rate::ZERO,
        }
    }
    /// The answer of a [`Kind::Flag`].
    pub fn flag(&self, spec: &ParamSpec) -> bool {
        match (self.given.get(spec.name), spec.kind) {
            (Some(Value::Flag(flag)), _) => *flag,
            (_, Kind::Flag(default)) => default,
            _ => false,
        }
    }
}

impl Kind {
    fn accepts(&self, value: &Value) -> Result<(), String> {
        let expected = match (self, value) {
            (Self::Choice(words), Value::Text(word)) if words.contains(&word.as_str()) => {
                return Ok(());
            }
            (Self::Choice(words), _) => format!("must be one of: {}", words.join(", ")),
            (Self::Time(_), Value::Text(text)) if text.is_empty() => return Ok(()),
            (Self::Time(_), Value::Text(text)) => match Duration::parse(text) {
                Ok(_) => return Ok(()),
                Err(why) => format!("\"{text}\" {why}"),
            },
            (Self::Time(_), _) => "must be a duration with its unit, such as \"20ms\"".into(),
            (Self::Whole(_, least, most), Value::Whole(n)) => {
                if u64::try_from(*n).is_ok_and(|n| (*least..=*most).contains(&n)) {
                    return Ok(());
                }
                format!("is {n}, must lie between {least} and {most}")
            }
            (Self::Whole(_, least, most), _) => {
                format!("must be a whole number between {least} and {most}")
            }
            (Self::Fraction(..), Value::Text(text)) if parse_fraction(text).is_some() => {
                return Ok(());
            }
            (Self::Fraction(..), Value::Whole(0..)) => return Ok(()),
            (Self::Fraction(..), _) => "must be a fraction such as \"1/2\" or \"0.5\"".into(),
            (Self::Flag(_), Value::Flag(_)) => return Ok(()),
            (Self::Flag(_), _) => "must be true or false".into(),
        };
        Err(expected)
    }
}

/// Reads `"1/2"` or `"0.5"` exactly.
pub fn parse_fraction(text: &str) -> Option<Rate> {
    let text = text.trim();
    if let Some((num, den)) = text.split_once('/') {
        let den: u64 = den.trim().parse().ok()?;
        return (den > 0).then_some(Rate::new(num.trim().parse().ok()?, den));
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let den = 10u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let whole: u64 = whole.parse().ok()?;
    let fraction: u64 = fraction.parse().ok()?;
    Some(Rate::new(whole.checked_mul(den)?.checked_add(fraction)?, den))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: ParamSpec =
        ParamSpec { name: "rule", kind: Kind::Choice(&["fair", "sticky"]), help: "" };
    const IDLE: ParamSpec = ParamSpec { name: "idle", kind: Kind::Fraction(1, 2), help: "" };

    #[test]
    fn values_are_checked_and_defaults_apply() {
        let mut params = Params::new();
        assert_eq!(params.choice(&RULE), "fair");
        assert_eq!(params.fraction(&IDLE), Rate::new(1, 2));
        params.set("rule", Value::Text("sticky".into()));
        params.set("idle", Value::Text("0.25".into()));
        assert_eq!(params.check(&[RULE, IDLE]), Ok(()));
        assert_eq!(params.fraction(&IDLE), Rate::new(1, 4));
        params.set("rule", Value::Text("fairer".into()));
        let (name, why) = params.check(&[RULE, IDLE]).unwrap_err();
        assert_eq!((name.as_str(), why.as_str()), ("rule", "must be one of: fair, sticky"));
    }
}
