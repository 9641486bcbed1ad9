//! Values with units of memory: picoseconds, bytes, bytes per second, and exact fractions.

use super::Field;
use crate::error::{Error, quoted};
use maracas_core::params::parse_bandwidth;
use std::ops::RangeInclusive;

/// Units with how many of the smallest each is.
type Units = &'static [(&'static str, u128)];

/// Picoseconds.
const TIMES: Units =
    &[("ps", 1), ("ns", 1_000), ("us", 1_000_000), ("µs", 1_000_000), ("ms", 1_000_000_000)];
/// Powers of 1024 alone: `MB` is said for either, and a wrong one shifts every cache by 5 %.
const SIZES: Units = &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
/// Events: powers of 1000, or none.
const COUNTS: Units = &[("", 1), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
/// No access is farther apart than this; keeps sums of picoseconds within 64 bits.
const LONGEST_PS: u64 = 1_000_000_000;
/// No working set, cache or measured point is larger: 64 GiB.
const MOST_BYTES: u64 = 64 << 30;
/// No core retires more instructions in a second: a thousand in a nanosecond.
const MOST_PER_SECOND: u64 = 1_000_000_000_000;
/// No bus is faster: 10 TB/s.
const MOST_BANDWIDTH: u64 = 10_000_000_000_000;

impl Field<'_> {
    /// A time in picoseconds, zero included, at most a millisecond.
    pub(crate) fn picoseconds(&self) -> Result<u64, Error> {
        self.quantity(TIMES, "3.5ns", 0..=LONGEST_PS, "1ms")
    }
    /// A time in picoseconds above zero.
    pub(crate) fn positive_picoseconds(&self) -> Result<u64, Error> {
        match self.picoseconds()? {
            0 => Err(self.error(format!("{} must be above zero, such as \"3.5ns\"", self.key))),
            time => Ok(time),
        }
    }
    /// A size in bytes above zero.
    pub(crate) fn bytes(&self) -> Result<u64, Error> {
        self.quantity(SIZES, "1MiB", 1..=MOST_BYTES, "64GiB")
    }
    /// A bandwidth in bytes per second above zero.
    pub(crate) fn bandwidth(&self) -> Result<u64, Error> {
        let (key, example) = (self.key, "200MB/s");
        let Some(text) = self.value().as_str() else {
            return Err(self.mismatch(format!("a string with a unit, such as \"{example}\"")));
        };
        let shown = quoted(text);
        match parse_bandwidth(text) {
            Ok(0) => Err(self.error(format!("{key} must be above zero, such as \"{example}\""))),
            Ok(bytes) if bytes <= MOST_BANDWIDTH => Ok(bytes),
            Ok(_) => Err(self.error(format!("{key} {shown} is more than 10000GB/s; lower it"))),
            Err(why) => Err(self.error(format!("{key} {shown} {why}"))),
        }
    }

    /// So many a second, above zero: a whole number, or text with a power of 1000.
    pub(crate) fn per_second(&self) -> Result<u64, Error> {
        if self.value().is_integer() {
            return self.whole(1..=MOST_PER_SECOND);
        }
        if !self.value().is_str() {
            return Err(self.mismatch("a whole number or a string, such as \"2.4G\""));
        }
        self.quantity(COUNTS, "2.4G", 1..=MOST_PER_SECOND, "1000G")
    }

    fn quantity(
        &self,
        units: Units,
        example: &str,
        range: RangeInclusive<u64>,
        most: &str,
    ) -> Result<u64, Error> {
        let key = self.key;
        let Some(text) = self.value().as_str() else {
            return Err(self.mismatch(format!("a string with a unit, such as \"{example}\"")));
        };
        let text = text.trim();
        let shown = quoted(text);
        if text.starts_with('-') {
            return Err(self.error(format!("{key} {shown} is negative; drop the minus sign")));
        }
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_');
        let (number, unit) = text.split_at(split.unwrap_or(text.len()));
        let words = || units.iter().map(|(unit, _)| *unit).filter(|unit| !unit.is_empty());
        let known = || words().collect::<Vec<_>>().join(", ");
        let Some((_, scale)) = units.iter().find(|(known, _)| *known == unit.trim()) else {
            let what = if unit.is_empty() { "has no unit" } else { "has an unknown unit" };
            let line = format!("{key} {shown} {what}; use {}, such as \"{example}\"", known());
            return Err(self.error(line));
        };
        let amount = scaled(number, *scale).map_err(|why| {
            self.error(format!("{key} {shown} {why}; write it like \"{example}\""))
        })?;
        match u64::try_from(amount) {
            Ok(amount) if range.contains(&amount) => Ok(amount),
            Ok(0) => Err(self.error(format!("{key} must be above zero, such as \"{example}\""))),
            Ok(_) | Err(_) => {
                Err(self.error(format!("{key} {shown} is more than {most}; lower it")))
            }
        }
    }

    /// A number in thousandths, exactly as written.
    pub(crate) fn thousandths(&self, least: u64, most: u64) -> Result<u64, Error> {
        self.decimal(1_000, "three", least..=most)
    }
    /// A share from 0 to 1 in millionths, exactly as written.
    pub(crate) fn millionths(&self) -> Result<u32, Error> {
        self.decimal(1_000_000, "six", 0..=1_000_000).map(|share| share as u32)
    }

    fn decimal(&self, scale: u64, places: &str, range: RangeInclusive<u64>) -> Result<u64, Error> {
        let bound = |scaled: &u64| *scaled as f64 / scale as f64;
        let (least, most) = (bound(range.start()), bound(range.end()));
        let written = self
            .number()
            .ok_or_else(|| self.mismatch(format!("a number from {least} to {most}")))?;
        let (text, negative) =
            written.strip_prefix('-').map_or((written, false), |text| (text, true));
        let out = || {
            let key = self.key;
            self.error(format!("`{key}` is {written}; it must lie from {least} to {most}"))
        };
        match scaled(text, u128::from(scale)) {
            Ok(value) if negative && value > 0 => Err(out()),
            Ok(value) => {
                let value = u64::try_from(value).ok().filter(|value| range.contains(value));
                value.ok_or_else(out)
            }
            Err(_) => {
                let key = self.key;
                Err(self.error(format!(
                    "`{key}` is {written}; write it plainly, with at most {places} decimals"
                )))
            }
        }
    }

    /// The digits of a number, as written.
    fn number(&self) -> Option<&str> {
        let value = self.value();
        value.as_integer().filter(|n| n.radix() == 10).map(|n| n.as_str()).or_else(|| {
            let float = value.as_float().map(|x| x.as_str());
            float.filter(|text| !text.ends_with("nan") && !text.ends_with("inf"))
        })
    }
}

/// `number` x `scale`, where that is a whole number.
fn scaled(number: &str, scale: u128) -> Result<u128, &'static str> {
    const MALFORMED: &str = "has a malformed number";
    let number = number.strip_prefix('+').unwrap_or(number).replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let digits = format!("{whole}{fraction}");
    if whole.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(MALFORMED);
    }
    // 18 digits times any scale fit; more say nothing of memory.
    let digits = digits.trim_start_matches('0');
    if digits.len() > 18 || fraction.len() > 18 {
        return Err("has too many digits");
    }
    let value = digits.parse().unwrap_or(0u128) * scale;
    let one = 10u128.pow(fraction.len() as u32);
    if value.is_multiple_of(one) { Ok(value / one) } else { Err("has too many decimals") }
}

#[cfg(test)]
mod tests {
    use super::scaled;

    #[test]
    fn numbers_are_read_exactly_or_not_at_all() {
        assert_eq!(scaled("3.1", 1000), Ok(3100));
        assert_eq!(scaled("0.000_5", 1_000_000), Ok(500));
        assert_eq!(scaled("6", 1 << 20), Ok(6 << 20));
        assert_eq!(scaled("0.5", 1 << 20), Ok(1 << 19));
        assert_eq!(scaled("1.", 10), Ok(10));
        for (bad, scale) in [("0.0001", 1000), ("", 1), (".5", 10), ("1.2.3", 1000), ("1e3", 1)] {
            assert!(scaled(bad, scale).is_err(), "{bad}");
        }
        assert!(scaled("1234567890123456789", 1).is_err());
    }
}
