//! How values on the command line are read.

use maracas_core::Duration;
use maracas_core::params::{Value, parse_bandwidth};
use maracas_core::resources::Protocol;

/// A duration with its unit: `20ms`.
pub fn duration(text: &str) -> Result<Duration, String> {
    Duration::parse(text).map_err(|why| format!("a duration {why}"))
}

/// A duration above zero.
pub fn positive(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if duration.is_zero() { Err("must be longer than nothing".into()) } else { Ok(duration) }
}

/// A bandwidth in bytes per second: `200MB/s`.
pub fn bandwidth(text: &str) -> Result<u64, String> {
    parse_bandwidth(text).map_err(|why| format!("a bandwidth {why}"))
}

/// A factor from 1 to 1000, in thousandths: `2.5`.
pub fn speedup(text: &str) -> Result<u32, String> {
    let range = 1.0..=1_000.0;
    let factor = text.parse::<f64>().ok().filter(|factor| range.contains(factor));
    let factor = factor.ok_or("a speedup is a number from 1 to 1000, such as 2.5")?;
    Ok((factor * 1e3).round() as u32)
}

/// A size in bytes, kB, MB or GB (powers of 1024, as caches are counted): `2MB`.
pub fn size(text: &str) -> Result<usize, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err("a size has the unit B, kB, MB or GB, such as \"2MB\"".into()),
    };
    let number: usize = number.parse().map_err(|_| "a size begins with a whole number")?;
    // 64 GB: more than any cache experiment needs, less than what overflows the element counts.
    let bytes = number.checked_mul(1 << shift).filter(|bytes| (4..=64 << 30).contains(bytes));
    bytes.ok_or_else(|| "a size lies between 4 bytes and 64 GB".into())
}

/// A locking protocol: `mpcp`.
pub fn protocol(text: &str) -> Result<Protocol, String> {
    let found = Protocol::ALL.into_iter().find(|(name, _)| *name == text);
    found.map(|(_, protocol)| protocol).ok_or_else(|| {
        let names = Protocol::ALL.map(|(name, _)| name);
        format!("the protocols are {}", names.join(", "))
    })
}

/// A policy's parameter: `name=value`.
pub fn parameter(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("a parameter is written name=value, such as background=fair")?;
    let value = match (value, value.parse()) {
        ("true", _) => Value::Flag(true),
        ("false", _) => Value::Flag(false),
        (_, Ok(number)) => Value::Whole(number),
        (_, Err(_)) => Value::Text(value.to_string()),
    };
    Ok((name.to_string(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_parameters() {
        assert_eq!(size("2MB"), Ok(2 << 20));
        assert_eq!(size("512kB"), Ok(512 << 10));
        assert!(size("2 miles").is_err());
        assert!(size("99999999999999999999").is_err());
        assert_eq!(parameter("rotate=2ms"), Ok(("rotate".into(), Value::Text("2ms".into()))));
        assert_eq!(parameter("n=3"), Ok(("n".into(), Value::Whole(3))));
        assert_eq!(parameter("on=true"), Ok(("on".into(), Value::Flag(true))));
        assert!(parameter("=3").is_err());
    }
}
