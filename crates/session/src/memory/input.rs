//! The JSON that `maracas memory --json` takes: a mix, or a list of mixes.

use super::Answered;
use super::strict::Strict;
use maracas_console::failure::did_you_mean;
use maracas_core::MAX_CORES;
use maracas_scenario::{PlatformMemory, mix, presets};
use maracas_sim::memory::dram::Requestor;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// Answers a mix with an object and a list of mixes with a list.
///
/// # Errors
/// What is wrong, after where in the input it stands.
pub fn answer(bytes: &[u8]) -> Result<Value, String> {
    let Strict(input) =
        serde_json::from_slice(bytes).map_err(|why| format!("not valid JSON: {why}"))?;
    match &input {
        Value::Array(mixes) => {
            let each = mixes.iter().enumerate();
            each.map(|(index, mix)| one(mix, &format!("[{index}]"))).collect()
        }
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            one(&input, "")
        }
    }
}

fn memory_of(preset: &str) -> Option<PlatformMemory> {
    presets::platform(preset)?.memory
}

/// The presets that describe a memory.
fn with_memory() -> impl Iterator<Item = &'static str> {
    presets::platforms().filter(|preset| memory_of(preset).is_some())
}

fn one(input: &Value, at: &str) -> Result<Value, String> {
    let mix = object(input, at, &["preset", "requestors"])?;
    let preset = text(mix, at, "preset")?;
    let memory = memory_of(preset).ok_or_else(|| {
        let wrong = match presets::platform(preset) {
            Some(_) => "has no memory",
            None => "is unknown",
        };
        let near = did_you_mean(preset, with_memory());
        let all = with_memory().collect::<Vec<_>>().join(", ");
        format!("{} {wrong}: \"{preset}\"{near} (there are: {all})", path(at, "preset"))
    })?;
    let place = path(at, "requestors");
    let list = need(mix, at, "requestors")?
        .as_array()
        .ok_or_else(|| format!("{place} must be a list of objects"))?;
    if list.len() > MAX_CORES {
        return Err(format!("{place} holds {} requestors; at most {MAX_CORES} may be", list.len()));
    }
    let each = list.iter().enumerate();
    let requestors: Vec<_> = each
        .map(|(index, value)| requestor(value, &format!("{place}[{index}]")))
        .collect::<Result<_, _>>()?;
    Ok(Answered::to(&memory.dram, &requestors).json())
}

fn requestor(value: &Value, at: &str) -> Result<Requestor, String> {
    let one = object(value, at, &["pattern", "W", "Z_ns", "wb"])?;
    let pattern = text(one, at, "pattern")?;
    Ok(Requestor {
        pattern: mix::pattern(pattern)
            .map_err(|hint| format!("{at}.pattern is unknown: \"{pattern}\"; {hint}"))?,
        // The bounds of `outstanding`, `think` and `writebacks` in TOML.
        outstanding: number(one, at, "W", 0.001..=1000.0)?,
        think_ns: number(one, at, "Z_ns", 0.0..=1e6)?,
        writebacks: number(one, at, "wb", 0.0..=100.0)?,
    })
}

/// Where `key` stands, as a user would point at it.
fn path(at: &str, key: &str) -> String {
    if at.is_empty() { key.to_string() } else { format!("{at}.{key}") }
}

fn object<'a>(
    value: &'a Value,
    at: &str,
    keys: &[&'static str],
) -> Result<&'a Map<String, Value>, String> {
    let place = if at.is_empty() { "the mix" } else { at };
    let known = keys.join(", ");
    let object =
        value.as_object().ok_or_else(|| format!("{place} must be an object with {known}"))?;
    match object.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => {
            let near = did_you_mean(key, keys.iter().copied());
            Err(format!("{place} has an unknown field \"{key}\"{near} (it takes {known})"))
        }
        None => Ok(object),
    }
}

fn need<'a>(object: &'a Map<String, Value>, at: &str, key: &str) -> Result<&'a Value, String> {
    let place = if at.is_empty() { "the mix" } else { at };
    object.get(key).ok_or_else(|| format!("{place} has no \"{key}\"; add it"))
}

fn text<'a>(object: &'a Map<String, Value>, at: &str, key: &str) -> Result<&'a str, String> {
    let value = need(object, at, key)?;
    value.as_str().ok_or_else(|| format!("{} must be a string, not {value}", path(at, key)))
}

fn number(
    object: &Map<String, Value>,
    at: &str,
    key: &str,
    range: RangeInclusive<f64>,
) -> Result<f64, String> {
    let value = need(object, at, key)?;
    let (place, least, most) = (path(at, key), range.start(), range.end());
    let number = value
        .as_f64()
        .ok_or_else(|| format!("{place} must be a number from {least} to {most}, not {value}"))?;
    if !range.contains(&number) {
        return Err(format!("{place} is {number}; it must lie from {least} to {most}"));
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        answer(text.as_bytes()).expect_err(text)
    }

    #[test]
    fn a_mix_gives_an_object_and_a_list_a_list() {
        let mix = r#"{"preset": "ddr3-1333", "requestors":
            [{"pattern": "jump", "W": 2, "Z_ns": 3.1, "wb": 0}]}"#;
        let single = answer(mix.as_bytes()).expect("a good mix");
        let one = &single["requestors"][0];
        let (reads, latency) = (&one["read_Mps"], &one["read_lat_ns"]);
        let (reads, latency) = (reads.as_f64().unwrap_or(0.0), latency.as_f64().unwrap_or(0.0));
        // X = W / (W Z + L), N = X L, and 64 bytes a read.
        assert!((reads * (3.1 + latency / 2.0) / 1e3 - 1.0).abs() < 1e-3, "{single}");
        let total = single["total_GBps"].as_f64().unwrap_or(0.0);
        assert!((total - reads * 0.064).abs() < 1e-9, "{single}");
        assert_eq!(single["read_lat_ns"], one["read_lat_ns"]);
        let list = answer(format!("[{mix}, {mix}]").as_bytes()).expect("two good mixes");
        assert_eq!(list, Value::from(vec![single.clone(), single]));
        assert_eq!(answer(b"[]").expect("no mixes"), Value::Array(Vec::new()));
        let none = answer(br#"{"preset": "p4080", "requestors": []}"#).expect("an empty mix");
        assert_eq!(none.to_string(), r#"{"requestors":[],"total_GBps":0.0,"read_lat_ns":0.0}"#);
    }

    #[test]
    fn every_preset_and_pattern_is_solved() {
        for preset in with_memory() {
            for pattern in ["jump", "jumpr", "rand", "seq", "bank1", "bankp"] {
                let one = format!(r#"{{"pattern": "{pattern}", "W": 4, "Z_ns": 10, "wb": 1}}"#);
                let mix = format!(r#"{{"preset": "{preset}", "requestors": [{one}, {one}]}}"#);
                let answer = answer(mix.as_bytes()).expect(&mix);
                let total = answer["total_GBps"].as_f64().unwrap_or(0.0);
                assert!(total > 0.1 && total.is_finite(), "{preset} {pattern}: {answer}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let bare = refused(r#"{"preset": "phenom-ii-x6", "requestors": []}"#);
        assert!(bare.starts_with("preset has no memory: \"phenom-ii-x6\" (there are: "), "{bare}");
        let with = |requestor: &str| {
            refused(&format!(r#"[{{"preset": "p4080", "requestors": [{requestor}]}}]"#))
        };
        let at = "[0].requestors[0]";
        for (requestor, expected) in [
            ("{}", "has no \"pattern\"; add it"),
            (r#"{"pattern": "jump", "W": 1, "Z_ns": 0}"#, "has no \"wb\"; add it"),
            (r#"{"pattern": "jmp"}"#, ".pattern is unknown: \"jmp\"; did you mean `jump`?"),
            (r#"{"pattern": 3}"#, ".pattern must be a string, not 3"),
            (r#"{"pattern": "jump", "W": 0}"#, ".W is 0; it must lie from 0.001 to 1000"),
            (r#"{"pattern": "jump", "W": -2}"#, ".W is -2; it must lie from 0.001 to 1000"),
            (
                r#"{"pattern": "jump", "W": null}"#,
                ".W must be a number from 0.001 to 1000, not null",
            ),
            (
                r#"{"pattern": "jump", "W": 1, "Z_ns": -1e-9}"#,
                ".Z_ns is -0.000000001; it must lie from 0 to 1000000",
            ),
            (
                r#"{"pattern": "jump", "w": 1}"#,
                "has an unknown field \"w\"; did you mean \"W\" or \"wb\"? (it takes pattern, W, \
                 Z_ns, wb)",
            ),
            ("7", "must be an object with pattern, W, Z_ns, wb"),
        ] {
            let separator = if expected.starts_with('.') { "" } else { " " };
            assert_eq!(with(requestor), format!("{at}{separator}{expected}"));
        }
        let twice = refused(r#"[{"preset": "p4080", "preset": "ddr3-1333"}]"#);
        assert!(twice.contains("\"preset\" stands twice at line 1"), "{twice}");
        assert!(refused("{\"W\": NaN}").starts_with("not valid JSON: expected value"));
        assert!(refused("[1e999]").starts_with("not valid JSON: number out of range"));
        assert!(refused("").starts_with("not valid JSON: EOF"));
        assert_eq!(refused("{}"), "the mix has no \"preset\"; add it");
        assert_eq!(refused("[3]"), "[0] must be an object with preset, requestors");
        assert!(refused(r#"{"preset": "ddr3"}"#).starts_with("preset is unknown: \"ddr3\""));
        let none = r#"{"preset": "p4080", "requestors": 3}"#;
        assert_eq!(refused(none), "requestors must be a list of objects");
    }
}
