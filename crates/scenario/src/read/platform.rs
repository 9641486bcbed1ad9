//! `[platform]` with its memory, and `[[device]]`.

use super::classes::classes;
use super::memory::PATTERNS;
use crate::cursor::{Field, Table};
use crate::error::{Error, Source};
use crate::keys;
use crate::presets::{File, PLATFORMS};
use crate::scenario::{Places, Platform, PlatformMemory};
use maracas_core::MAX_CORES;
use maracas_core::memory::{
    Cache, Device, Dram, DramModel, LINE_BYTES, PAGE_BYTES, Partition, Replacement,
};
use std::num::{NonZeroU32, NonZeroU64};

/// Faster clocks are taken for a slip of the finger.
const MOST_MHZ: u64 = 100_000;
/// Timings beyond this many clocks are taken for a slip of the finger; the longest, tREFI, has
/// some ten thousand.
const MOST_CLOCKS: u64 = 1_000_000;
/// Colours and ways are one bit each of a 64-bit word ([`maracas_core::Core::colors`]).
const MOST_COLORS: u64 = 64;

/// The words for [`DramModel`].
const DRAM_MODELS: [(&str, DramModel); 2] =
    [("law", DramModel::Law), ("requests", DramModel::Requests)];

pub(crate) fn platform(root: &Table<'_>, places: &mut Places) -> Result<Platform, Error> {
    let Some(table) = root.table("platform", &keys::PLATFORM)? else {
        return Ok(Platform::default());
    };
    places.cores = root.source.location(table.at());
    if let Some(field) = table.get("cores") {
        places.cores = root.source.location(field.at());
    }
    if let Some(field) = table.get("colors").or(table.get("ways")) {
        places.shares = root.source.location(field.at());
    }
    read(&table)
}

/// The platform that a data file describes.
pub(crate) fn preset((name, text): &File) -> Result<Platform, Error> {
    let file = format!("platforms/{name}.toml");
    let source = Source::new(&file, text);
    let document = super::document(&source)?;
    let platform = read(&Table::new(&source, document.get_ref(), 0, &keys::PLATFORM)?)?;
    Ok(Platform { preset: Some(name), ..platform })
}

fn read(table: &Table<'_>) -> Result<Platform, Error> {
    let base = match table.get("preset") {
        Some(field) => {
            let files: Vec<_> = PLATFORMS.iter().map(|file| (file.0, file)).collect();
            preset(field.word(&files)?)?
        }
        None => Platform::default(),
    };
    let (cores, classes) = classes(table, base.cores, base.classes)?;
    let memory = shared(table, cores, memory(table, base.memory)?)?;
    Ok(Platform { cores, preset: base.preset, classes, memory })
}

fn memory(
    table: &Table<'_>,
    base: Option<PlatformMemory>,
) -> Result<Option<PlatformMemory>, Error> {
    let own = table.table("dram", &keys::DRAM)?;
    let dram = match (own, base.as_ref().map(|base| base.dram)) {
        (Some(own), base) => dram(&own, base)?,
        (None, Some(base)) => base,
        (None, None) => {
            let orphan = ["cache", "mhz", "colors", "ways"].iter().find_map(|key| table.get(key));
            return orphan.map_or(Ok(None), |field| {
                Err(field.key_error(format!(
                    "`{}` needs a memory system; add preset = \"i5-2500k\" or [platform.dram]",
                    field.key
                )))
            });
        }
    };
    let cycles_per_us = match (table.get("mhz"), &base) {
        (Some(field), _) => field.whole(1..=MOST_MHZ)?,
        (None, Some(base)) => base.cycles_per_us,
        (None, None) => table.need("mhz", "3300")?.whole(1..=MOST_MHZ)?,
    };
    let cache = match table.table("cache", &keys::CACHE)? {
        Some(own) => Some(cache(&own, base.as_ref().and_then(|base| base.cache))?),
        None => base.as_ref().and_then(|base| base.cache),
    };
    let partition = Partition::Colors;
    Ok(Some(PlatformMemory { cycles_per_us, dram, cache, partition, shares: Vec::new() }))
}

fn dram(table: &Table<'_>, base: Option<Dram>) -> Result<Dram, Error> {
    let number = |key, example: &str, most, base: Option<u32>| match (table.get(key), base) {
        (Some(field), _) => field.whole(1..=most).map(|n| n as u32),
        (None, Some(base)) => Ok(base),
        (None, None) => table.need(key, example)?.whole(1..=most).map(|n| n as u32),
    };
    let clocks = |key, example: &str, of: fn(&Dram) -> u32| {
        number(key, example, MOST_CLOCKS, base.as_ref().map(of))
    };
    let count = |key, most, default: u32, of: fn(&Dram) -> u32| {
        number(key, "1", most, Some(base.as_ref().map_or(default, of)))
    };
    let fitted = |key, of: fn(&Dram) -> Option<NonZeroU64>| match table.get(key) {
        Some(field) => field.picoseconds().map(NonZeroU64::new),
        None => Ok(base.as_ref().and_then(of)),
    };
    let clock_ps = match (table.get("tck"), &base) {
        (None, Some(base)) => base.clock_ps,
        (Some(_), _) | (None, None) => table.need("tck", "\"1.5ns\"")?.positive_picoseconds()?,
    };
    let dram = Dram {
        clock_ps,
        cas: clocks("cl", "9", |it| it.cas)?,
        activate: clocks("trcd", "9", |it| it.activate)?,
        precharge: clocks("trp", "9", |it| it.precharge)?,
        row_active: clocks("tras", "24", |it| it.row_active)?,
        refresh: clocks("trfc", "174", |it| it.refresh)?,
        refresh_interval: clocks("trefi", "5200", |it| it.refresh_interval)?,
        write_recovery: clocks("twr", "10", |it| it.write_recovery)?,
        write_to_read: clocks("twtr", "5", |it| it.write_to_read)?,
        cas_write: clocks("cwl", "7", |it| it.cas_write)?,
        burst_transfers: match table.get("burst") {
            Some(field) => transfers(&field)?,
            None => base.as_ref().map_or(8, |it| it.burst_transfers),
        },
        channels: count("channels", 64, 1, |it| it.channels)?,
        ranks: count("ranks", 64, 1, |it| it.ranks)?,
        banks: count("banks", 64, 8, |it| it.banks)?,
        conflict_latency_ps: fitted("conflict_latency", |it| it.conflict_latency_ps)?,
        conflict_service_ps: fitted("conflict_service", |it| it.conflict_service_ps)?,
        model: match table.get("model") {
            Some(field) => field.word(&DRAM_MODELS)?,
            None => base.map_or(DramModel::Law, |it| it.model),
        },
    };
    if dram.refresh >= dram.refresh_interval {
        let (refresh, interval) = (dram.refresh, dram.refresh_interval);
        return Err(table.error(format!(
            "a refresh of {refresh} clocks every {interval} leaves no time for requests; lower \
             `trfc` or raise `trefi`"
        )));
    }
    Ok(dram)
}

/// Transfers that bring one line: a bus is a power of two of bytes wide, and at most a line.
fn transfers(field: &Field<'_>) -> Result<u32, Error> {
    let transfers = field.whole(1..=LINE_BYTES)? as u32;
    if !transfers.is_power_of_two() {
        return Err(field.error(format!(
            "`burst` is {transfers}; a line of {LINE_BYTES} B takes a power of two, such as 8 \
             transfers of 8 B"
        )));
    }
    Ok(transfers)
}

fn cache(table: &Table<'_>, base: Option<Cache>) -> Result<Cache, Error> {
    let number = |key, example: &str, most, base: Option<u32>| match (table.get(key), base) {
        (None, Some(base)) => Ok(base),
        (Some(_), _) | (None, None) => table.need(key, example)?.whole(1..=most).map(|n| n as u32),
    };
    let bytes = match (table.get("size"), &base) {
        (None, Some(base)) => base.bytes,
        (Some(_), _) | (None, None) => table.need("size", "\"6MiB\"")?.bytes()?,
    };
    let ways = number("ways", "12", 1024, base.map(|it| it.ways))?;
    let slices = number("slices", "1", 1024, Some(base.map_or(1, |it| it.slices)))?;
    let cores_per_cache = match table.get("cores_per_cache") {
        Some(field) => NonZeroU32::new(field.whole(0..=MAX_CORES as u64)? as u32),
        None => base.and_then(|it| it.cores_per_cache),
    };
    let policies = [("random", Replacement::Random), ("lru", Replacement::Lru)];
    let replacement = match table.get("replacement") {
        Some(field) => field.word(&policies)?,
        None => base.map_or(Replacement::Lru, |it| it.replacement),
    };
    let columns = u64::from(ways) * u64::from(slices);
    if !bytes.is_multiple_of(columns * LINE_BYTES) {
        return Err(table.error(format!(
            "a cache of {bytes} bytes has no whole number of sets in {ways} ways and {slices} \
             slices; change `size`, `ways` or `slices`"
        )));
    }
    // Pages whose lines fall on the same sets: the sets of a slice by those that a page covers.
    let natural = (bytes / columns / PAGE_BYTES).max(1);
    let colors = match table.get("colors") {
        Some(field) => {
            let colors = field.whole(1..=MOST_COLORS)?;
            if !natural.is_multiple_of(colors) {
                return Err(field.error(format!(
                    "{bytes} bytes in {ways} ways and {slices} slices have {natural} page \
                     colours, which {colors} does not divide; lower `colors` to a divisor"
                )));
            }
            colors
        }
        None if natural <= MOST_COLORS => natural,
        None => {
            return Err(table.error(format!(
                "the cache has {natural} page colours, of which {MOST_COLORS} can be \
                 distinguished; add colors = {MOST_COLORS} or fewer, to take several as one"
            )));
        }
    };
    let colors = colors as u32;
    Ok(Cache { bytes, ways, slices, colors, replacement, cores_per_cache })
}

/// Adds what each core may use of the cache.
fn shared(
    table: &Table<'_>,
    cores: Option<usize>,
    memory: Option<PlatformMemory>,
) -> Result<Option<PlatformMemory>, Error> {
    let (field, partition) = match (table.get("colors"), table.get("ways")) {
        (Some(_), Some(ways)) => {
            let line = "a cache is split by `colors` or by `ways`, not by both; drop one of them";
            return Err(ways.key_error(line));
        }
        (Some(field), None) => (field, Partition::Colors),
        (None, Some(field)) => (field, Partition::Ways),
        (None, None) => return Ok(memory),
    };
    let Some(mut memory) = memory else { return Ok(None) };
    let Some(cache) = memory.cache else {
        let line =
            format!("`{}` splits a cache, and there is none; add [platform.cache]", field.key);
        return Err(field.key_error(line));
    };
    memory.partition = partition;
    let each = field.elements("a list with one number for each core, such as [4, 4, 10, 14]")?;
    let most = u64::from(memory.parts()).clamp(1, MOST_COLORS);
    memory.shares = each
        .iter()
        .map(|field| field.whole(1..=most).map(|n| n as u32))
        .collect::<Result<_, _>>()?;
    let cores = cores.unwrap_or(memory.shares.len());
    memory.check_shares(&cache, cores).map_err(|line| field.error(line))?;
    Ok(Some(memory))
}

/// The devices in the order of the file.
pub(super) fn devices(
    root: &Table<'_>,
    platform: &Platform,
    places: &mut Places,
) -> Result<Vec<Device>, Error> {
    let tables = root.tables("device", &keys::DEVICE)?;
    if let (Some(first), None) = (tables.first(), &platform.memory) {
        return Err(first.error(
            "a device uses memory, and [platform] has none; add preset = \"i5-2500k\" or \
             [platform.dram]",
        ));
    }
    for table in &tables {
        let at = table.get("bandwidth").map_or(table.at(), |field| field.at());
        places.devices.push(root.source.location(at));
    }
    tables.iter().map(device).collect()
}

fn device(table: &Table<'_>) -> Result<Device, Error> {
    let optional = |key, default, most| {
        table.get(key).map_or(Ok(default), |field: Field<'_>| field.thousandths(0, most))
    };
    let name = table.need("name", "\"network\"")?;
    let bandwidth = table.need("bandwidth", "\"500MB/s\"")?;
    let reads_per_s = bandwidth.bandwidth()? / LINE_BYTES;
    if reads_per_s == 0 {
        let line = format!("bandwidth is less than one line of {LINE_BYTES} B a second; raise it");
        return Err(bandwidth.error(line));
    }
    let (on, off) = match (table.get("on"), table.get("off")) {
        (None, None) => (maracas_core::Duration::MAX, maracas_core::Duration::ZERO),
        (Some(on), Some(off)) => (on.noticeable()?, off.noticeable()?),
        (Some(one), None) | (None, Some(one)) => {
            let line = "a device that pauses has both `on` and `off`; add the other or drop this";
            return Err(one.key_error(line));
        }
    };
    Ok(Device {
        name: super::vcpu::checked_name(&name)?.into(),
        pattern: table.need("pattern", "\"seq\"")?.word(&PATTERNS)?,
        reads_per_s,
        writes_milli: optional("writes", 0, super::memory::MOST_WRITEBACKS)?,
        outstanding_milli: match table.get("outstanding") {
            Some(field) => field.thousandths(1, super::memory::MOST_OUTSTANDING)?,
            None => 1000,
        },
        on,
        off,
    })
}
