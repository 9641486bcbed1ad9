//! Which of a program's doings this host counts, by the same tables as the sensors.

use super::model::Hits;
use maracas_live::host::HardwareCore;
use maracas_live::host::hardware::{EventCode, Hardware, Scope};
use maracas_live::profile::Events;
use maracas_live::sense::SensorKind;
use maracas_live::sense::events::{CORES, PAIRS, Processor};
use maracas_live::sense::sysfs::{self, Reach, Unit};
use std::path::Path;

/// `PERF_COUNT_HW_INSTRUCTIONS` of include/uapi/linux/perf_event.h: the kernel knows every core's.
const INSTRUCTIONS: EventCode = EventCode { unit: 0, config: 1, config1: 0, config2: 0 };

/// `PERF_COUNT_HW_CPU_CYCLES` of the same.
const CYCLES: EventCode = EventCode { unit: 0, config: 0, config1: 0, config2: 0 };

/// For how long AMD's cores have a miss under way that the L3 answers, in cycles (measured on Zen
/// 5: 48 to 60, by a chase through 2 to 4 MB).
const L3_CYCLES: f64 = 50.0;

/// What is counted, and a sentence for each thing that is not.
pub(super) struct Counted {
    pub(super) events: Events,
    /// What the occupancy counts beside reads of memory.
    pub(super) hits: Hits,
    pub(super) missing: Vec<String>,
}

impl Counted {
    /// What `core` counts for the groups that run on it.
    ///
    /// # Errors
    /// Where it counts no reads of memory: without them there is no model.
    pub(super) fn of(hardware: &dyn Hardware, core: HardwareCore) -> Result<Self, String> {
        let tried = Tried { hardware, core, processor: Processor::of(hardware) };
        let rows = || CORES.iter().filter(|row| row.processors.hold(&tried.processor));
        let (reads, refused) = tried.first(rows().map(|row| (row.units, row.reads)), "");
        let Some(reads) = reads else {
            return Err(format!(
                "reads of memory cannot be counted here, and without them there is no model: \
                 {refused}; `maracas doctor` says what would help"
            ));
        };
        let (references, no_references) =
            tried.first(rows().map(|row| (row.units, row.references)), "");
        let own = || PAIRS.iter().filter(|pair| tried.is_own(pair));
        let pairs = || own().map(|pair| (pair.units, pair.occupancy));
        let (occupancy, no_occupancy) = tried.first(pairs(), "");
        // Cycles in which at least one is under way: the threshold of the same counter.
        let (waiting, _) = tried.first(pairs(), ",cmask=1");
        let less = own().find_map(|pair| Some((pair.units, pair.less.first()?)));
        let nearer =
            less.and_then(|(units, (event, _))| tried.first([(units, &[*event][..])], "").0);
        let hits = Hits {
            nearer_cycles: less.map_or(0.0, |(_, (_, cycles))| *cycles as f64),
            last_level_cycles: match own().next().map(|pair| pair.sensor_kind)
                == Some(SensorKind::Amd)
            {
                true => L3_CYCLES,
                false => 0.0,
            },
        };
        let instructions = tried.open(INSTRUCTIONS);
        let no_instructions = instructions.as_ref().err().cloned().unwrap_or_default();
        let said = |what: &str, counted: bool, why: String| {
            (!counted).then(|| format!("Not counted here: {what} ({why})."))
        };
        let both = occupancy.is_some() && waiting.is_some();
        let missing = [
            said("instructions", instructions.is_ok(), no_instructions),
            said("references to the last-level cache", references.is_some(), no_references),
            said("misses under way", both, no_occupancy),
            Some("Not counted anywhere: write-backs of one program, the order of accesses.".into()),
        ];
        let events = Events {
            instructions: instructions.ok(),
            references,
            reads: Some(reads),
            occupancy: occupancy.filter(|_| both),
            waiting: waiting.filter(|_| both),
            cycles: tried.open(CYCLES).ok().filter(|_| both),
            nearer: nearer.filter(|_| both),
        };
        Ok(Self { events, hits, missing: missing.into_iter().flatten().collect() })
    }
}

/// A host on which events are tried.
struct Tried<'a> {
    hardware: &'a dyn Hardware,
    core: HardwareCore,
    processor: Processor,
}

impl Tried<'_> {
    /// Whether a core itself counts this pair, and so for a single program; Arm's counts loads that
    /// the first level answers too, most of all, and says nothing of misses.
    fn is_own(&self, pair: &maracas_live::sense::events::Pair) -> bool {
        pair.reach == Reach::Core
            && pair.sensor_kind != SensorKind::Arm
            && !pair.occupancy.is_empty()
            && pair.processors.hold(&self.processor)
    }

    /// The first of the events that the core counts, with `more` terms, or why there is none.
    fn first<'b>(
        &self,
        rows: impl IntoIterator<Item = (&'b [&'b str], &'b [&'b str])>,
        more: &str,
    ) -> (Option<EventCode>, String) {
        let mut why = format!("no event is known for {}", self.processor);
        for (units, events) in rows {
            for unit in sysfs::names(self.hardware) {
                if !units.iter().any(|wanted| sysfs::means(wanted, &unit)) {
                    continue;
                }
                for terms in events {
                    match self.encoded(&unit, &format!("{terms}{more}")) {
                        Ok(event) => return (Some(event), String::new()),
                        Err(refused) => why = refused,
                    }
                }
            }
        }
        (None, why)
    }

    fn encoded(&self, unit: &str, terms: &str) -> Result<EventCode, String> {
        let unit = Unit::read(self.hardware, unit)?;
        if unit.cores.as_ref().is_some_and(|cores| !cores.contains(&self.core)) {
            return Err(format!("unit {} is not of core {}", unit.name, self.core));
        }
        self.open(unit.encode(terms)?)
    }

    /// The event, if it can be opened.
    fn open(&self, event: EventCode) -> Result<EventCode, String> {
        let opened = self.hardware.open(&event, Scope::Core(self.core));
        opened.map(|_| event).map_err(|error| error.to_string())
    }
}

/// Bytes of the last-level cache of a core: that of the highest level (sysfs-devices-system-cpu).
pub(super) fn cache_bytes(core: HardwareCore) -> Option<u64> {
    let dir = format!("/sys/devices/system/cpu/cpu{core}/cache");
    let indices = std::fs::read_dir(Path::new(&dir)).ok()?.filter_map(Result::ok);
    let cache = |dir: &Path| {
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).ok();
        let level: u32 = read("level")?.trim().parse().ok()?;
        let size = read("size")?;
        let kilobytes: u64 = size.trim().strip_suffix('K')?.parse().ok()?;
        Some((level, kilobytes << 10))
    };
    indices.filter_map(|entry| cache(&entry.path())).max().map(|(_, bytes)| bytes)
}
