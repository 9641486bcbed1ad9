//! Recordings as CSV.

use super::{FIRST_CORE, Track, Wrong, check_cores};
use maracas_core::Instant;

const COLUMNS: &str = "time_us,requests,occupancy,core0,core1,...";

pub(super) fn parse(text: &str, cores: usize) -> Result<Track, Wrong> {
    let mut track = Track::default();
    let mut has_header = false;
    let mut counted = Vec::new();
    for (line, text) in (1..).zip(text.lines().map(str::trim)) {
        let wrong = |what: String| Wrong { line: Some(line), what };
        if let Some(comment) = text.strip_prefix('#') {
            setting(comment.trim(), &mut track).map_err(wrong)?;
        } else if text.is_empty() {
        } else if has_header {
            let at = row(text, cores, &mut counted).map_err(wrong)?;
            track.push(at, &counted).map_err(wrong)?;
        } else {
            check_cores(header(text).map_err(wrong)?, cores).map_err(wrong)?;
            has_header = true;
        }
    }
    let empty = format!("has no rows; it needs the header {COLUMNS} and a row below it");
    if track.rows.is_empty() { Err(Wrong { line: None, what: empty }) } else { Ok(track) }
}

/// A comment; most say nothing to us.
fn setting(comment: &str, track: &mut Track) -> Result<(), String> {
    if comment == "repeat" {
        track.repeats = true;
    } else if let Some((key, value)) = comment.split_once('=')
        && key.trim() == "cycles_per_us"
    {
        let value = value.trim();
        track.cycles_per_us = value.parse().ok().filter(|cycles| *cycles > 0);
        if track.cycles_per_us.is_none() {
            return Err(format!(
                "cycles_per_us is \"{value}\"; it must be a whole number above 0, such as 3300"
            ));
        }
    }
    Ok(())
}

/// How many cores a header has.
fn header(text: &str) -> Result<usize, String> {
    let mut names = text.split(',').map(str::trim);
    let expected = |what| format!("{what}; the header must be {COLUMNS}");
    for name in ["time_us", "requests", "occupancy"] {
        if names.next() != Some(name) {
            return Err(expected(format!("column \"{name}\" is not where it should be")));
        }
    }
    let mut cores = 0;
    for name in names {
        if name != format!("core{cores}") {
            return Err(expected(format!("column \"{name}\" stands where core{cores} should")));
        }
        cores += 1;
    }
    Ok(cores)
}

/// Reads the counts of a row and returns its instant.
fn row(text: &str, cores: usize, counted: &mut Vec<u64>) -> Result<Instant, String> {
    let fields: Vec<_> = text.split(',').map(str::trim).collect();
    let columns = 1 + FIRST_CORE + cores;
    if fields.len() != columns {
        return Err(format!("has {} fields instead of {columns}", fields.len()));
    }
    counted.clear();
    for field in &fields[1..] {
        let number = field.parse();
        let what = |_| format!("\"{field}\" is no count: a whole number from 0 to 2^64 - 1");
        counted.push(number.map_err(what)?);
    }
    instant(fields[0]).ok_or_else(|| {
        format!("time_us is \"{}\"; it must be microseconds, such as 1500 or 1500.25", fields[0])
    })
}

/// Microseconds with at most three decimals.
fn instant(text: &str) -> Option<Instant> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || decimals.len() > 3 {
        return None;
    }
    let (whole, decimals): (u64, u64) =
        (whole.parse().ok()?, format!("{decimals:0<3}").parse().ok()?);
    whole.checked_mul(1000)?.checked_add(decimals).map(Instant::from_ticks)
}
