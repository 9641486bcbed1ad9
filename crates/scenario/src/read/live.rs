//! `[live]`: how a live run senses and steers memory.

use crate::cursor::{Field, Table};
use crate::error::{Error, did_you_mean, quoted};
use crate::keys;
use crate::scenario::{CacheSplit, Live, Places, Platform, SENSORS, Sense, ThrottleBy};
use maracas_core::memory::Partition;
use std::path::Path;

/// How a replayed file is named.
const REPLAY: &str = "replay:";

pub(super) fn live(
    root: &Table<'_>,
    platform: &Platform,
    places: &mut Places,
) -> Result<Live, Error> {
    let mut live = Live::default();
    let Some(table) = root.table("live", &keys::LIVE)? else { return Ok(live) };
    places.sense = root.source.location(table.at());
    if let Some(field) = table.get("sense") {
        places.sense = root.source.location(field.at());
        live.sense = sense(&field, root.source.file)?;
    }
    if let Some(field) = table.get("throttle_by") {
        places.throttle_by = root.source.location(field.at());
        live.throttle_by =
            field.word(&[("freezer", ThrottleBy::Freezer), ("mba", ThrottleBy::Mba)])?;
    }
    if let Some(field) = table.get("cache") {
        places.cache = root.source.location(field.at());
        live.cache = cache(&field, platform)?;
    }
    Ok(live)
}

fn sense(field: &Field<'_>, file: &str) -> Result<Sense, Error> {
    let text = field.text("\"auto\"")?;
    if let Some(replayed) = text.strip_prefix(REPLAY) {
        if replayed.is_empty() {
            let why = "`sense` replays no file; name one, such as \"replay:episode.csv\"";
            return Err(field.error(why));
        }
        // Relative to the scenario's own folder, wherever maracas is started.
        let beside = Path::new(file).parent().unwrap_or(Path::new(""));
        return Ok(Sense::Replay(beside.join(replayed)));
    }
    let sensor = || SENSORS.into_iter().find(|sensor| *sensor == text);
    match text {
        "auto" => Ok(Sense::Auto),
        "off" => Ok(Sense::Off),
        word => sensor().map(Sense::Sensor).ok_or_else(|| {
            let known = ["auto", "off"].into_iter().chain(SENSORS).chain(["replay:FILE"]);
            let hint = did_you_mean(word, known, "sensors");
            field.error(format!("`sense` cannot be {}; {hint}", quoted(word)))
        }),
    }
}

fn cache(field: &Field<'_>, platform: &Platform) -> Result<CacheSplit, Error> {
    let split = field.word(&[
        ("whole", CacheSplit::Whole),
        ("ways", CacheSplit::Ways),
        ("colors", CacheSplit::Colors),
    ])?;
    let (key, partition) = match split {
        CacheSplit::Whole => return Ok(split),
        CacheSplit::Ways => ("ways", Partition::Ways),
        CacheSplit::Colors => ("colors", Partition::Colors),
    };
    let memory = platform.memory.as_ref();
    if memory.is_some_and(|memory| memory.partition == partition && !memory.shares.is_empty()) {
        return Ok(split);
    }
    Err(field.error(format!(
        "`cache` is to be split by {key}, and [platform] does not say how; give it {key} = [..], \
         one number for each core"
    )))
}
