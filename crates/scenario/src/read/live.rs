//! `[live]`: how a live run senses and steers memory.

use crate::cursor::{Field, Table};
use crate::error::{Error, did_you_mean, quoted};
use crate::keys;
use crate::scenario::{CacheSplit, Live, Places, Platform, ThrottleBy};
use maracas_core::memory::Partition;
use maracas_core::sensor::Sense;
use std::path::Path;

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
    match text.parse() {
        // Relative to the scenario's own folder, wherever maracas is started.
        Ok(Sense::Replay(replayed)) => {
            let beside = Path::new(file).parent().unwrap_or(Path::new(""));
            Ok(Sense::Replay(beside.join(replayed).display().to_string()))
        }
        Ok(sense) => Ok(sense),
        Err(why) if text == "replay:" => Err(field.error(format!("`sense` {why}"))),
        Err(_) => {
            let hint = did_you_mean(text, Sense::words(), "sensors");
            Err(field.error(format!("`sense` cannot be {}; {hint}", quoted(text))))
        }
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
