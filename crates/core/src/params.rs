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
    /// Values of one kind separated by commas, at most so many; none where the user said nothing.
    List(Item, usize),
}

/// What a [`Kind::List`] holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item {
    /// Bandwidths as [`parse_bandwidth`] reads them.
    Bandwidth,
    /// Whole numbers up to this.
    Whole(u64),
    /// Some of these words.
    Word(&'static [&'static str]),
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

/// What the user gave, by name. Checked against the declarations by [`Params::check`].
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
    /// The items of a [`Kind::List`], as written; none where nothing was given.
    pub fn list(&self, spec: &ParamSpec) -> Vec<String> {
        match self.given.get(spec.name) {
            Some(Value::Text(text)) => items(text).map(ToString::to_string).collect(),
            Some(Value::Whole(n)) => alloc::vec![n.to_string()],
            Some(Value::Flag(_)) | None => Vec::new(),
        }
    }
}

/// The items of a list as text.
fn items(text: &str) -> impl Iterator<Item = &str> {
    let items = text.split(',').map(str::trim);
    items.take(if text.trim().is_empty() { 0 } else { usize::MAX })
}

impl Item {
    fn accepts(self, item: &str) -> Result<(), String> {
        match self {
            Self::Bandwidth => match parse_bandwidth(item) {
                Ok(_) => Ok(()),
                Err(why) => Err(format!("\"{item}\" {why}")),
            },
            Self::Whole(most) if item.parse::<u64>().is_ok_and(|n| n <= most) => Ok(()),
            Self::Whole(most) => Err(format!("\"{item}\" is no whole number from 0 to {most}")),
            Self::Word(words) if words.contains(&item) => Ok(()),
            Self::Word(words) => Err(format!("\"{item}\" is none of: {}", words.join(", "))),
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
            (Self::List(item, most), Value::Text(text)) => {
                let count = items(text).count();
                if count > *most {
                    return Err(format!("has {count} values; at most {most} may be"));
                }
                return items(text).try_for_each(|one| item.accepts(one));
            }
            (Self::List(item @ Item::Whole(_), _), Value::Whole(n)) => {
                return item.accepts(&n.to_string());
            }
            (Self::List(..), _) => "must be text: values separated by commas".into(),
        };
        Err(expected)
    }
}

/// Reads `"1/2"` or `"0.5"` exactly.
pub fn parse_fraction(text: &str) -> Option<Rate> {
    let text = text.trim();
    if let Some((num, den)) = text.split_once('/') {
        let (num, den): (u64, u64) = (num.trim().parse().ok()?, den.trim().parse().ok()?);
        return (den > 0).then(|| Rate::new(num, den));
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let den = 10u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let whole: u64 = whole.parse().ok()?;
    let fraction: u64 = fraction.parse().ok()?;
    Some(Rate::new(whole.checked_mul(den)?.checked_add(fraction)?, den))
}

/// Units of bandwidth: powers of 1000, as datasheets count, and of 1024, as the MemGuard module
/// does, whose "MB" are MiB.
const BANDWIDTHS: [(&str, u64); 7] = [
    ("B/s", 1),
    ("kB/s", 1_000),
    ("MB/s", 1_000_000),
    ("GB/s", 1_000_000_000),
    ("KiB/s", 1 << 10),
    ("MiB/s", 1 << 20),
    ("GiB/s", 1 << 30),
];

/// Reads `"200MB/s"`, `"1.2GB/s"` or `"1200MiB/s"` as bytes per second, exactly; `"none"` is 0.
///
/// # Errors
/// Says what is wrong with the text: no number, no or unknown unit, no whole number of bytes, or
/// more than 64 bits hold.
pub fn parse_bandwidth(text: &str) -> Result<u64, &'static str> {
    const LARGE: &str = "is more than 64 bits hold";
    let text = text.trim();
    if text == "none" {
        return Ok(0);
    }
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let Some(number) = parse_fraction(number) else {
        return Err("must be a bandwidth such as \"200MB/s\"");
    };
    let Some((_, scale)) = BANDWIDTHS.iter().find(|(known, _)| *known == unit.trim()) else {
        return Err("needs a unit: B/s, kB/s, MB/s, GB/s (powers of 1000) or KiB/s, MiB/s, GiB/s");
    };
    let bytes = u128::from(number.num()) * u128::from(*scale);
    if !bytes.is_multiple_of(u128::from(number.den())) {
        return Err("is no whole number of bytes per second");
    }
    u64::try_from(bytes / u128::from(number.den())).map_err(|_| LARGE)
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

    #[test]
    fn fractions_without_a_value_are_no_fractions() {
        for text in ["1/0", "0/0", " 1 / 0 ", "1/", "/2", "1/-2", "-1/2", "nan", "1e3", ""] {
            assert_eq!(parse_fraction(text), None, "{text}");
            let mut params = Params::new();
            params.set("idle", Value::Text(text.into()));
            assert!(params.check(&[IDLE]).unwrap_err().1.contains("must be a fraction"), "{text}");
        }
        assert_eq!(parse_fraction(" 0 / 5 "), Some(Rate::ZERO));
    }

    #[test]
    fn bandwidths_are_read_exactly() {
        for (text, bytes) in [
            ("1000MB/s", 1_000_000_000),
            ("1200MiB/s", 1200 << 20),
            ("1.3 GB/s", 1_300_000_000),
            ("0.5KiB/s", 512),
            ("64B/s", 64),
            ("none", 0),
        ] {
            assert_eq!(parse_bandwidth(text), Ok(bytes), "{text}");
        }
        for (text, why) in [
            ("5", "unit"),
            ("5MB", "unit"),
            ("5 mb/s", "unit"),
            ("", "must be a bandwidth"),
            ("-5MB/s", "must be a bandwidth"),
            ("1.5B/s", "whole number"),
            ("99999999999GiB/s", "64 bits"),
        ] {
            let error = parse_bandwidth(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn lists_are_checked_item_by_item() {
        let list = |item| ParamSpec { name: "list", kind: Kind::List(item, 3), help: "" };
        let check = |item, text: &str| {
            let mut params = Params::new();
            params.set("list", Value::Text(text.into()));
            let verdict = params.check(&[list(item)]).map_err(|(_, why)| why);
            verdict.map(|()| params.list(&list(item)).join("|"))
        };
        let kinds = Item::Word(&["soft", "hard"]);
        assert_eq!(check(kinds, " soft,hard ").as_deref(), Ok("soft|hard"));
        assert_eq!(check(kinds, "  ").as_deref(), Ok(""));
        assert_eq!(check(kinds, "soft,"), Err("\"\" is none of: soft, hard".into()));
        assert_eq!(check(Item::Bandwidth, "1MB/s, none, 2MB/s").as_deref(), Ok("1MB/s|none|2MB/s"));
        assert_eq!(
            check(Item::Whole(9), "1,10").unwrap_err(),
            "\"10\" is no whole number from 0 to 9"
        );
        let mut params = Params::new();
        params.set("list", Value::Whole(7));
        assert_eq!(params.check(&[list(Item::Whole(9))]), Ok(()));
        assert_eq!(params.list(&list(Item::Whole(9))), ["7"]);
        assert!(params.check(&[list(kinds)]).is_err());
        assert!(check(Item::Whole(9), "1,2,3,4").unwrap_err().contains("4 values"));
        assert!(Params::new().list(&list(kinds)).is_empty());
    }
}
