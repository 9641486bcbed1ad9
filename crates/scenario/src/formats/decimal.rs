//! Decimal numbers as programs write them, exactly: no float ever stands between a file and its
//! nanoseconds.

use crate::cursor::LONGEST;
use maracas_core::Duration;

/// A number of some unit of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Decimal {
    /// Rounded down to a nanosecond.
    pub(crate) time: Duration,
    /// Whether that lost something.
    pub(crate) cut: bool,
}

/// A unit of time: its name, and the zeros of its nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    name: &'static str,
    zeros: i64,
}

/// 1000 ns.
pub(crate) const MICROSECONDS: Unit = Unit { name: "microseconds", zeros: 3 };
/// 1000000 ns.
pub(crate) const MILLISECONDS: Unit = Unit { name: "milliseconds", zeros: 6 };

/// More digits than any float has; the rest is cut.
const DIGITS_MAX: usize = 30;

/// Reads `10`, `10.5` or `1.05e+1` of `unit`.
///
/// Errors go on after the number: "is negative; ...".
pub(crate) fn time(text: &str, unit: Unit) -> Result<Decimal, String> {
    if text.starts_with('-') {
        return Err("is negative; drop the minus sign".into());
    }
    let no_number = || format!("is not a number of {}, such as 12 or 2.5", unit.name);
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => {
            let exponent: i64 = exponent.parse().map_err(|_| no_number())?;
            (number, exponent.clamp(-1_000, 1_000))
        }
        None => (text, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(no_number());
    }
    let digits = digits.trim_start_matches('0');
    let (kept, beyond) = digits.split_at(digits.len().min(DIGITS_MAX));
    let mut cut = beyond.bytes().any(|digit| digit != b'0');
    let value: u128 = if kept.is_empty() { 0 } else { kept.parse().map_err(|_| no_number())? };
    let zeros = exponent - fraction.len() as i64 + beyond.len() as i64 + unit.zeros;
    let too_long = || "is longer than 100 days; shorten it".to_string();
    let power = 10u128.checked_pow(zeros.unsigned_abs().min(1_000) as u32);
    let ns = match power {
        Some(power) if zeros >= 0 => value.checked_mul(power).ok_or_else(too_long)?,
        Some(power) => {
            cut |= !value.is_multiple_of(power);
            value / power
        }
        None if zeros >= 0 && value > 0 => return Err(too_long()),
        None => {
            cut |= value > 0;
            0
        }
    };
    let time = u64::try_from(ns).map(Duration::from_ticks).map_err(|_| too_long())?;
    if time > LONGEST { Err(too_long()) } else { Ok(Decimal { time, cut }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact_and_say_what_they_cut() {
        for (text, ns, cut) in [
            ("10", 10_000_000, false),
            ("10.0", 10_000_000, false),
            (".5", 500_000, false),
            ("5.", 5_000_000, false),
            ("0.333333", 333_333, false),
            ("0.3333333333333333", 333_333, true),
            ("1e-05", 10, false),
            ("1E-7", 0, true),
            ("2.5e+2", 250_000_000, false),
            ("0.10000000000000000000000000000000000001", 100_000, true),
            ("0e999999999", 0, false),
            ("000000000000000000000000000000000000000000001", 1_000_000, false),
            ("1e-99999", 0, true),
        ] {
            let expected = Decimal { time: Duration::from_nanos(ns), cut };
            assert_eq!(time(text, MILLISECONDS), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for (text, why) in [
            ("-1", "negative"),
            ("", "not a number"),
            (".", "not a number"),
            ("nan", "not a number"),
            ("inf", "not a number"),
            ("+1", "not a number"),
            ("1_000", "not a number"),
            ("1.2.3", "not a number"),
            ("0x10", "not a number"),
            ("1e", "not a number"),
            ("1e300", "longer than 100 days"),
            ("9e10", "longer than 100 days"),
            ("99999999999999999999999999999999999999999", "longer than 100 days"),
        ] {
            let error = time(text, MICROSECONDS).err().filter(|_| text != "9e10");
            let error = error.or_else(|| time(text, MILLISECONDS).err()).expect(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
