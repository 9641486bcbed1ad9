//! The order of preference: every sensor is tried and compared with a known load; the best that
//! passes is taken.
//!
//! # How it is tried
//! For each sensor the rows of the event tables that are about this processor are looked up in
//! sysfs and opened (`sets`), then held against reads of known number and against computing in
//! registers (`proof`). A counter that opens and does not move as it must is refused, with the
//! numbers. Nothing is taken on trust, and all that was tried is reported: [`Preference::sensors`]
//! has one entry a sensor, works or not.

mod proof;
mod sets;
mod together;

use super::events::{self, CORES, PAIRS, Pair, Processor, Vendor};
use super::replay::Recording;
use super::sensors::{Bytes, Counted, EventSet, Wanted};
use super::{Cores, Meter, Sense, Senses, Sensor, SensorKind, VcpuEvents, chase, faults, meter};
use crate::host::hardware::{Counter, EventCode, Hardware, Scope, loads};
use crate::host::resctrl::Info;
use crate::host::{HardwareCore, sched, sys};
use maracas_core::CoreId;
use sets::Host;
use std::path::Path;
use std::sync::Arc;
use std::{fmt, io, thread};

/// What came of trying a sensor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// It moved as the known load must move it.
    Works {
        /// By what: the numbers.
        proof: String,
    },
    /// It is not there, or not for us.
    Missing {
        /// Why.
        why: String,
        /// What would enable it.
        way: String,
    },
    /// It is there and does not count what it says.
    Refused {
        /// How it moved: the numbers.
        why: String,
    },
}

impl State {
    /// Whether it may be used.
    pub const fn works(&self) -> bool {
        matches!(self, Self::Works { .. })
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Works { proof } => write!(f, "works: {proof}"),
            Self::Missing { why, way } => write!(f, "missing: {why}; {way}"),
            Self::Refused { why } => write!(f, "not usable: {why}"),
        }
    }
}

/// A sensor that was tried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tried {
    /// Which.
    pub sensor_kind: SensorKind,
    /// What came of it.
    pub state: State,
    /// What it reads, such as `cpu/event=0x5f/`: empty where nothing was found to be read.
    pub events: Vec<String>,
}

impl Tried {
    /// Which of several failures says most: what is there and wrong, then what is there and not for
    /// us.
    fn weight(&self) -> u8 {
        match self.state {
            State::Works { .. } => 3,
            State::Refused { .. } => 2,
            State::Missing { .. } => u8::from(!self.events.is_empty()),
        }
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.sensor_kind, self.state)?;
        if self.events.is_empty() { Ok(()) } else { write!(f, " ({})", self.events.join(", ")) }
    }
}

/// What every core counts of its own: for meters and for VCPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoreEvent {
    /// A counter for each core, by `CoreId`; none where it does not work.
    pub counters: Vec<Wanted>,
    /// What was tried, as users write it; empty where there is nothing.
    pub events: Vec<String>,
    /// What came of trying it.
    pub state: State,
}

impl CoreEvent {
    /// The one code that all cores share, as control groups need it.
    pub fn common(&self) -> Option<EventCode> {
        let first = self.counters.first()?.code;
        self.counters.iter().all(|counter| counter.code == first).then_some(first)
    }
}

/// What makes the sensor of a sensor that works.
enum Means {
    Counters(EventSet),
    Bytes,
    Chase,
}

/// What was found by trying.
pub struct Preference {
    hardware: Arc<dyn Hardware>,
    cores: Vec<(CoreId, HardwareCore)>,
    processor: Processor,
    reads: CoreEvent,
    references: CoreEvent,
    tried: Vec<Tried>,
    means: Vec<(SensorKind, Means)>,
}

impl fmt::Debug for Preference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cores, processor, reads, references, tried, .. } = self;
        f.debug_struct("Preference")
            .field("cores", cores)
            .field("processor", processor)
            .field("reads", reads)
            .field("references", references)
            .field("tried", tried)
            .finish_non_exhaustive()
    }
}

impl Preference {
    /// Tries every sensor for these cores. Takes less than two seconds and loads the cores
    /// meanwhile; the memory of the loads is kept until a sensor is chosen ([`loads::release`]).
    pub fn probe(hardware: &Arc<dyn Hardware>, cores: &Cores) -> Self {
        // A counter is a file, and a hundred cores have some of them each.
        sys::open_many();
        let mut cores = cores.to_vec();
        cores.sort_unstable();
        let processor = Processor::of(&**hardware);
        let nothing = || CoreEvent {
            counters: Vec::new(),
            events: Vec::new(),
            state: State::Missing { why: "not tried".into(), way: "it needs a core".into() },
        };
        let mut preference = Self {
            hardware: Arc::clone(hardware),
            cores,
            processor,
            reads: nothing(),
            references: nothing(),
            tried: Vec::new(),
            means: Vec::new(),
        };
        if !preference.cores.is_empty() {
            undisturbed(|| preference.climb());
        }
        preference
    }
    fn climb(&mut self) {
        // First of all what cores count of their own: most sensors distinguish cores by it.
        self.reads = self.try_core_event(|row| row.reads, "reads of memory");
        self.references = self.try_core_event(|row| row.references, "references");
        for sensor_kind in SensorKind::tried() {
            self.try_sensor_kind(sensor_kind);
        }
    }
    /// Every sensor that was tried, best first.
    pub fn sensors(&self) -> &[Tried] {
        &self.tried
    }
    /// The best sensor that works.
    pub fn best(&self) -> Option<&Tried> {
        self.tried.iter().find(|tried| tried.state.works())
    }
    /// Reads of memory by each core: what meters and budgets of memory are held against.
    pub fn reads(&self) -> &CoreEvent {
        &self.reads
    }
    /// References to the last-level cache by each core.
    pub fn references(&self) -> &CoreEvent {
        &self.references
    }
    /// Which counters make the sensor of a sensor; `None` where it does not work or has none.
    pub fn event_set(&self, sensor_kind: SensorKind) -> Option<&EventSet> {
        let means = self.means.iter().find(|(other, _)| *other == sensor_kind);
        means.and_then(|(_, means)| match means {
            Means::Counters(set) => Some(set),
            Means::Bytes | Means::Chase => None,
        })
    }
    /// The processor, as the tables know it.
    pub fn processor(&self) -> &Processor {
        &self.processor
    }

    /// Builds what `choice` asks for, where a policy counts in a clock of its own or in none.
    ///
    /// # Errors
    /// As [`choose_at`](Self::choose_at).
    pub fn choose(&self, choice: &Sense) -> Result<Senses, String> {
        self.choose_at(choice, None)
    }

    /// Builds what `choice` asks for. A recording that does not say its clock is taken to be in
    /// that of the run's policy, `cycles_per_us`, if it has one.
    ///
    /// # Errors
    /// A sentence for users where the sensor that was asked for does not work, or the recording
    /// cannot be read.
    pub fn choose_at(&self, choice: &Sense, cycles_per_us: Option<u64>) -> Result<Senses, String> {
        let senses = self.build(choice, cycles_per_us);
        // Nothing is tried any more, and the memory of the loads is large.
        loads::release();
        senses
    }

    fn build(&self, choice: &Sense, cycles_per_us: Option<u64>) -> Result<Senses, String> {
        let tried = match choice {
            Sense::Off => return Ok(Senses::default()),
            Sense::Sensor(SensorKind::Faults) => {
                let opened = faults::open(&*self.hardware, &self.cores);
                return opened.map_err(|error| format!("sensor faults: {error}"));
            }
            Sense::Replay(file) => return self.recorded(Path::new(file), cycles_per_us),
            Sense::Auto => match self.best() {
                Some(tried) => tried,
                None => return Ok(self.blind()),
            },
            Sense::Sensor(sensor_kind) => self
                .tried
                .iter()
                .find(|tried| tried.sensor_kind == *sensor_kind)
                .ok_or_else(|| format!("sensor {} was not tried", sensor_kind.word()))?,
        };
        let sensor_kind = tried.sensor_kind;
        if !tried.state.works() {
            return Err(format!("sensor {}: {}", sensor_kind.word(), tried.state));
        }
        let opened = || {
            self.open(sensor_kind)
                .map_err(|error| format!("sensor {}: {error}", sensor_kind.word()))
        };
        let mut senses = self.counted();
        if senses.vcpus != VcpuEvents::default() {
            senses.sensor = Some(opened()?);
            self.leave_room(&mut senses);
            // What was tried has counted the loads.
            senses.meters = self.open_meters().unwrap_or_default();
        }
        senses.sensor = Some(opened()?);
        if !sensor_kind.has_latency() {
            senses.notes.push(format!("{sensor_kind}: how long requests wait is not known"));
        }
        if *choice == Sense::Auto {
            let better = self.tried.iter().take_while(|tried| tried.sensor_kind != sensor_kind);
            senses.notes.extend(better.map(Tried::to_string));
        }
        Ok(senses)
    }

    /// Meters and events of VCPUs, as far as the cores count.
    fn counted(&self) -> Senses {
        let mut senses = Senses::default();
        match self.open_meters() {
            Ok(meters) => senses.meters = meters,
            Err(why) => senses.notes.push(format!("no memory meters of cores: {why}")),
        }
        senses.vcpus =
            VcpuEvents { reads: self.reads.common(), references: self.references.common() };
        senses.overflows = overflows(senses.vcpus.reads, &senses.meters);
        let several = |event: &CoreEvent| !event.counters.is_empty() && event.common().is_none();
        if several(&self.reads) || several(&self.references) {
            let what = "VCPUs' own reads are not counted: the cores are of several kinds, and \
                        their events differ";
            senses.notes.push(what.into());
        } else if !self.references.state.works() {
            senses.notes.push(format!("references of VCPUs: {}", self.references.state));
        }
        senses
    }

    fn open_meters(&self) -> Result<Vec<Box<dyn Meter>>, String> {
        if !self.reads.state.works() {
            return Err(self.reads.state.to_string());
        }
        let open = |wanted: &Wanted| meter::open(&*self.hardware, &wanted.code, wanted.core);
        let meters = self.reads.counters.iter().map(open).collect::<io::Result<Vec<_>>>();
        meters.map_err(|error| error.to_string())
    }

    /// Nothing works: everything runs, and what could not be sensed is said.
    fn blind(&self) -> Senses {
        let mut senses = self.counted();
        senses
            .notes
            .insert(0, "memory cannot be sensed here: no sensor of the preference works".into());
        senses.notes.extend(self.tried.iter().map(Tried::to_string));
        senses
    }

    /// A recording stands for the whole host, its cores' meters too.
    fn recorded(&self, file: &Path, cycles_per_us: Option<u64>) -> Result<Senses, String> {
        let recording = Recording::read(file, self.cores.len(), cycles_per_us);
        let recording = recording.map_err(|error| error.to_string())?;
        let mut senses = Senses {
            sensor: Some(recording.sensor()),
            meters: recording.meters(),
            ..Senses::default()
        };
        senses.notes.push("memory is not sensed: a recording is played".into());
        Ok(senses)
    }

    fn open(&self, sensor_kind: SensorKind) -> io::Result<Box<dyn Sensor>> {
        let means = self.means.iter().find(|(other, _)| *other == sensor_kind);
        let (_, means) = means.ok_or_else(|| io::Error::other("it was not proved"))?;
        Ok(match means {
            Means::Counters(set) => Box::new(Counted::open(&*self.hardware, set)?),
            Means::Bytes => Box::new(Bytes::open(&self.hardware, &self.cores)?),
            Means::Chase => chase::open(self.cores.len(), self.open_shares()?)?,
        })
    }

    /// A counter of reads for each core; none where they do not work.
    fn open_shares(&self) -> io::Result<Vec<Box<dyn Counter>>> {
        let open = |wanted: &Wanted| self.hardware.open(&wanted.code, Scope::Core(wanted.core));
        self.reads.counters.iter().map(open).collect()
    }

    fn try_sensor_kind(&mut self, sensor_kind: SensorKind) {
        let (tried, means) = match sensor_kind {
            SensorKind::Uncore | SensorKind::Offcore | SensorKind::Amd | SensorKind::Arm => {
                self.try_pairs(sensor_kind)
            }
            SensorKind::Rate => self.try_rates(),
            SensorKind::Mbm => self.try_bytes(),
            SensorKind::Chase => self.try_chase(),
            SensorKind::Faults | SensorKind::Replay => return,
        };
        self.means.extend(means.map(|means| (sensor_kind, means)));
        self.tried.push(tried);
    }

    /// Every row of the sensor, until one passes.
    fn try_pairs(&self, sensor_kind: SensorKind) -> (Tried, Option<Means>) {
        let rows = PAIRS.iter().filter(|row| row.sensor_kind == sensor_kind);
        let rows = rows.filter(|row| row.processors.hold(&self.processor));
        let mut failed: Option<Tried> = None;
        for row in rows {
            let (tried, set) = self.try_pair(row);
            if let Some(set) = set {
                return (tried, Some(Means::Counters(set)));
            }
            // Of several failures the one that says most.
            if failed.as_ref().is_none_or(|old| tried.weight() > old.weight()) {
                failed = Some(tried);
            }
        }
        let none = || Tried { sensor_kind, state: self.no_row(sensor_kind), events: Vec::new() };
        (failed.unwrap_or_else(none), None)
    }

    fn try_pair(&self, row: &Pair) -> (Tried, Option<EventSet>) {
        let sensor_kind = row.sensor_kind;
        let host = self.host();
        let found = host.pair(row, &self.reads);
        let (mut set, clock) = match found {
            Ok(found) => found,
            Err(state) => return (Tried { sensor_kind, state, events: Vec::new() }, None),
        };
        let events = set.events();
        let state = host
            .set_clock(&mut set, &clock)
            .and_then(|()| self.prove(&set, row))
            .unwrap_or_else(|state| state);
        let set = state.works().then_some(set);
        (Tried { sensor_kind, state, events }, set)
    }

    fn prove(&self, set: &EventSet, row: &Pair) -> Result<State, State> {
        let local = row.reach == super::sysfs::Reach::Core;
        let trial = proof::Trial { hardware: &*self.hardware, cores: &self.cores, local };
        let proof = trial.counters(set).map_err(|failed| self.host().state(failed))?;
        let doubt = match row.source {
            events::Source::Tables => String::new(),
            events::Source::Unverified(why) => format!(" (not in the tables: {why})"),
        };
        Ok(State::Works { proof: proof + &doubt })
    }

    /// Whole memory controllers where they count, else the cores' reads summed up.
    fn try_rates(&self) -> (Tried, Option<Means>) {
        let (controllers, means) = self.try_pairs(SensorKind::Rate);
        if means.is_some() {
            return (controllers, means);
        }
        let (state, events) = (self.reads.state.clone(), self.reads.events.clone());
        let set = state.works().then(|| self.host().rates(&self.reads));
        let tried = Tried { sensor_kind: SensorKind::Rate, state, events };
        (tried, set.map(Means::Counters))
    }

    /// An event that every core counts of its own, proved on the cores themselves.
    fn try_core_event(
        &self,
        which: impl Fn(&events::CoreEvents) -> &'static [&'static str],
        what: &str,
    ) -> CoreEvent {
        let nothing = |state| CoreEvent { counters: Vec::new(), events: Vec::new(), state };
        let Some(row) = CORES.iter().find(|row| row.processors.hold(&self.processor)) else {
            return nothing(State::Missing {
                why: format!("the tables know no event for {what} on {}", self.processor),
                way: "add a row to the event tables".into(),
            });
        };
        let host = self.host();
        let mut failed: Option<CoreEvent> = None;
        for terms in which(row) {
            let set = match host.of_cores(row.units, terms) {
                Ok(set) => set,
                Err(state) => return failed.unwrap_or_else(|| nothing(state)),
            };
            let trial = proof::Trial { hardware: &*self.hardware, cores: &self.cores, local: true };
            let events = set.events();
            match trial.counters(&set) {
                Ok(proof) => {
                    let state = State::Works { proof };
                    return CoreEvent { counters: set.counters, events, state };
                }
                Err(why) => {
                    let state = host.state(why);
                    // The first is the one that is meant; the others only stand in for it.
                    failed.get_or_insert(CoreEvent { counters: Vec::new(), events, state });
                }
            }
        }
        failed.unwrap_or_else(|| {
            nothing(State::Missing {
                why: format!("the tables know no event for {what}"),
                way: "add a row to the event tables".into(),
            })
        })
    }

    fn try_bytes(&self) -> (Tried, Option<Means>) {
        let sensor_kind = SensorKind::Mbm;
        let missing = |why: String, way: &str| {
            let state = State::Missing { why, way: way.to_owned() };
            (Tried { sensor_kind, state, events: Vec::new() }, None)
        };
        // A probe mounts nothing.
        if let Ok(None) = Info::read(&*self.hardware) {
            let way = "mount it: mount -t resctrl resctrl /sys/fs/resctrl";
            return missing("resctrl is there and not mounted".into(), way);
        }
        let mut bytes = match Bytes::open(&self.hardware, &self.cores) {
            Ok(bytes) => bytes,
            Err(error) => {
                let kind = error.kind();
                let way = if kind == io::ErrorKind::PermissionDenied {
                    "run as root"
                } else if kind == io::ErrorKind::Unsupported {
                    "it needs a processor with Intel RDT, AMD QoS or Arm MPAM, a kernel with \
                     resctrl, and no virtual machine in between"
                } else {
                    "see what else uses resctrl"
                };
                return missing(error.to_string(), way);
            }
        };
        let events = bytes.events();
        let trial = proof::Trial { hardware: &*self.hardware, cores: &self.cores, local: false };
        let state = match trial.bytes(&mut bytes) {
            Ok(proof) => State::Works { proof },
            Err(failed) => self.host().state(failed),
        };
        let means = state.works().then_some(Means::Bytes);
        (Tried { sensor_kind, state, events }, means)
    }

    fn try_chase(&self) -> (Tried, Option<Means>) {
        let usable = || chase::usable(&*self.hardware, &self.cores);
        // Where others take the core away at times, one trial may look as if it had been the load.
        let state = match usable().and_then(|_| usable()) {
            Ok(proof) => State::Works { proof },
            Err(why) => State::Refused { why },
        };
        let means = state.works().then_some(Means::Chase);
        (Tried { sensor_kind: SensorKind::Chase, state, events: Vec::new() }, means)
    }

    /// Why the tables have no row of this sensor for this processor.
    fn no_row(&self, sensor_kind: SensorKind) -> State {
        let Self { processor, .. } = self;
        let whose = match sensor_kind {
            SensorKind::Uncore | SensorKind::Offcore => Some(Vendor::Intel),
            SensorKind::Amd => Some(Vendor::Amd),
            SensorKind::Arm => Some(Vendor::Arm),
            SensorKind::Mbm
            | SensorKind::Chase
            | SensorKind::Rate
            | SensorKind::Faults
            | SensorKind::Replay => None,
        };
        if whose.is_some_and(|vendor| vendor != processor.vendor) {
            let why = format!("this is {processor}");
            return State::Missing { why, way: "other sensors are meant for it".into() };
        }
        let why = match events::absent(processor) {
            Some(why) if sensor_kind == SensorKind::Uncore => why.to_owned(),
            _ => format!("the tables have no row for {processor}"),
        };
        State::Missing { why, way: "lower sensors take its place".into() }
    }

    fn host(&self) -> Host<'_> {
        Host { hardware: &*self.hardware, cores: &self.cores, processor: &self.processor }
    }
}

/// The event by which the scheduler in the kernel can count reads: the one that all cores share,
/// where each of their meters signals by itself, which was tried.
fn overflows(reads: Option<EventCode>, meters: &[Box<dyn Meter>]) -> Option<EventCode> {
    let all_signal = !meters.is_empty() && meters.iter().all(|meter| meter.fd().is_some());
    reads.filter(|_| all_signal)
}

/// Does `work` where ordinary programs cannot interrupt it, nor the loads that it starts: those
/// inherit the lowest real-time priority. What others do on a core would be counted too, and would
/// look like a counter that moves by itself. Without the right to it, it is disturbed.
fn undisturbed<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let working = scope.spawn(|| {
            let _ = sched::set_fifo(0, 1, false);
            work()
        });
        working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests;
