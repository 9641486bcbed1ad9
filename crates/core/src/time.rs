//! Instants and durations, in ticks. A tick is one nanosecond unless the [`System`](crate::System)
//! says otherwise; the exact studies of RUN and QPS scale it by the least common multiple of the
//! periods so that every budget is a whole number.
//!
//! All arithmetic is checked: overflow panics in release builds too, since a wrapped budget is a
//! broken guarantee.

use core::fmt;
use core::ops::{Add, AddAssign, Mul, Sub, SubAssign};

/// A point in time: ticks since the machine's start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

/// A length of time, in ticks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

impl Instant {
    /// The machine's start.
    pub const ZERO: Self = Self(0);
    /// Later than everything that happens: "no such instant".
    pub const NEVER: Self = Self(u64::MAX);

    /// The instant `ticks` after the start.
    pub const fn from_ticks(ticks: u64) -> Self {
        Self(ticks)
    }
    /// Ticks since the start.
    pub const fn ticks(self) -> u64 {
        self.0
    }
    /// Time since `earlier`, or zero where `earlier` lies after `self`.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
    /// `self + duration`, or [`Instant::NEVER`] on overflow.
    pub const fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration.0))
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest duration.
    pub const MAX: Self = Self(u64::MAX);

    /// A duration of `ticks`.
    pub const fn from_ticks(ticks: u64) -> Self {
        Self(ticks)
    }
    /// A duration of `n` nanoseconds at one tick a nanosecond.
    pub const fn from_nanos(n: u64) -> Self {
        Self(n)
    }
    /// A duration of `n` microseconds at one tick a nanosecond.
    pub const fn from_micros(n: u64) -> Self {
        Self(n * 1_000)
    }
    /// A duration of `n` milliseconds at one tick a nanosecond.
    pub const fn from_millis(n: u64) -> Self {
        Self(n * 1_000_000)
    }
    /// A duration of `n` seconds at one tick a nanosecond.
    pub const fn from_secs(n: u64) -> Self {
        Self(n * 1_000_000_000)
    }
    /// The length in ticks.
    pub const fn ticks(self) -> u64 {
        self.0
    }
    /// True for a duration of no ticks.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// `self - other`, or zero where `other` is longer.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// `self + other`, or `None` on overflow.
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(ticks) => Some(Self(ticks)),
            None => None,
        }
    }

    /// Reads `"20ms"`, `"1.5s"`, `"200us"`, `"10ns"`, `"2min"` (one tick a nanosecond).
    ///
    /// # Errors
    /// Says what is wrong with the text: no number, no or unknown unit, finer than a nanosecond, or
    /// too long for 64-bit nanoseconds (584 years).
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_');
        let (number, unit) = match split {
            Some(0) => {
                return Err("must begin with a number and end with a unit, such as \"20ms\"");
            }
            Some(at) => (&text[..at], text[at..].trim()),
            None => return Err("needs a unit: ns, us, ms, s or min, such as \"20ms\""),
        };
        let scale: u64 = match unit {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" => 60_000_000_000,
            _ => return Err("has an unknown unit; use ns, us, ms, s or min"),
        };
        if !number.contains(|digit: char| digit.is_ascii_digit()) {
            return Err("must begin with a number and end with a unit, such as \"20ms\"");
        }
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let mut ticks: u64 = 0;
        for digit in whole.bytes().filter(|b| *b != b'_') {
            ticks = ticks
                .checked_mul(10)
                .and_then(|t| t.checked_add(u64::from(digit - b'0')))
                .ok_or("is too long for 64-bit nanoseconds")?;
        }
        ticks = ticks.checked_mul(scale).ok_or("is too long for 64-bit nanoseconds")?;
        let mut place = scale;
        for digit in fraction.bytes() {
            if !digit.is_ascii_digit() {
                return Err("has a malformed number");
            }
            if !place.is_multiple_of(10) {
                if digit == b'0' {
                    continue;
                }
                return Err("is finer than one nanosecond");
            }
            place /= 10;
            ticks = ticks
                .checked_add(u64::from(digit - b'0') * place)
                .ok_or("is too long for 64-bit nanoseconds")?;
        }
        Ok(Self(ticks))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        Self(self.0 + d.0)
    }
}
impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, d: Duration) {
        self.0 += d.0;
    }
}
impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, d: Duration) -> Self {
        Self(self.0 - d.0)
    }
}
impl Sub for Instant {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        Duration(self.0 - earlier.0)
    }
}
impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}
impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}
impl Sub for Duration {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}
impl SubAssign for Duration {
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}
impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, n: u64) -> Self {
        Self(self.0 * n)
    }
}
impl core::iter::Sum for Duration {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, |a, b| a + b)
    }
}

impl fmt::Display for Duration {
    /// The largest unit that keeps at most three decimals: `20ms`, `1.5ms`, `333.333us`, `7ns`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
        for (scale, unit) in units {
            let thousandth = scale / 1_000;
            if self.0 >= scale && self.0.is_multiple_of(thousandth) {
                let (whole, rest) = (self.0 / scale, self.0 % scale / thousandth);
                if rest == 0 {
                    return write!(f, "{whole}{unit}");
                }
                let digits = alloc::format!("{rest:03}");
                return write!(f, "{whole}.{}{unit}", digits.trim_end_matches('0'));
            }
        }
        write!(f, "{}ns", self.0)
    }
}
impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER { f.write_str("never") } else { Duration(self.0).fmt(f) }
    }
}
impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn durations_read_and_print() {
        for (text, ns) in [
            ("20ms", 20_000_000),
            ("1.5s", 1_500_000_000),
            ("200us", 200_000),
            ("7ns", 7),
            ("2min", 120_000_000_000),
            ("0.25ms", 250_000),
            ("1_000us", 1_000_000),
        ] {
            assert_eq!(Duration::parse(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
        assert_eq!(Duration::from_micros(1500).to_string(), "1.5ms");
        assert_eq!(Duration::from_nanos(333_333).to_string(), "333.333us");
        assert_eq!(Duration::from_nanos(1_000_001).to_string(), "1000.001us");
        assert_eq!(Duration::ZERO.to_string(), "0ns");
    }

    #[test]
    fn bad_durations_say_why() {
        for (text, reason) in [
            ("20", "unit"),
            ("ms", "number"),
            ("-5ms", "number"),
            ("._ms", "number"),
            ("_ms", "number"),
            (".ms", "number"),
            ("20min5", "unit"),
            ("1.5ns", "finer"),
            ("1.2.3ms", "malformed"),
            ("99999999999999999s", "too long"),
            ("", "unit"),
        ] {
            let error = Duration::parse(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
