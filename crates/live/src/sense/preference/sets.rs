//! From rows of the event tables to counters of this host.

use super::proof::{Failed, Here, Trial};
use super::{CoreEvent, State};
use crate::host::HardwareCore;
use crate::host::hardware::{Hardware, Load, Scope};
use crate::sense::events::{CORES, Clock, Pair, Processor};
use crate::sense::sensors::{EventSet, Role, Wanted};
use crate::sense::sysfs::{self, Reach, Unit};
use crate::sense::{Cores, SensorKind};
use std::io;
use std::path::Path;
use std::time::Duration;

/// How long a clock is counted: a hundredth of it is 20 us, as much as two readings take.
const CLOCK_TIME: Duration = Duration::from_millis(2);
/// How often.
const CLOCK_TRIALS: usize = 4;
/// Slower and faster clocks than any that is built, in cycles per microsecond.
const CLOCKS: std::ops::RangeInclusive<u64> = 50..=10_000;

/// What sets are made from.
pub(super) struct Host<'a> {
    pub(super) hardware: &'a dyn Hardware,
    pub(super) cores: &'a Cores,
    pub(super) processor: &'a Processor,
}

/// A clock of this host.
pub(super) enum Ticks {
    /// Counted by this event.
    Event(Wanted),
    /// By this event or in nanoseconds.
    EventOrNanoseconds(Wanted),
    /// There is nothing to be counted in it.
    Nothing,
}

impl Host<'_> {
    /// The counters that a row means here, but for the clock, which comes beside it.
    pub(super) fn pair(&self, row: &Pair, reads: &CoreEvent) -> Result<(EventSet, Ticks), State> {
        let units = self.units(row.units)?;
        let mut counters = Vec::new();
        if row.reach == Reach::Core {
            for place in 0..self.cores.len() {
                let unit = self.unit_of(&units, self.cores[place].1, row.units)?;
                self.add_events(&mut counters, row, unit, self.cores[place].1, Some(place))?;
            }
        } else {
            let managed: Vec<_> = self.cores.iter().map(|(_, core)| *core).collect();
            for unit in &units {
                for slot in sysfs::slots(self.hardware, unit, &managed, row.reach) {
                    self.add_events(&mut counters, row, unit, slot, None)?;
                }
            }
            // What all share cannot distinguish cores: their own reads do.
            let numbered = reads.counters.iter().cloned().enumerate();
            counters
                .extend(numbered.map(|(place, own)| Wanted { role: Role::ShareOf(place), ..own }));
        }
        let clock = self.clock(row, &units)?;
        let Pair { sensor_kind, scale, meaning, .. } = *row;
        let cores = self.cores.len();
        Ok((EventSet { sensor_kind, counters, scale, cycles_per_us: 1000, cores, meaning }, clock))
    }

    /// One event that every core counts of its own.
    pub(super) fn of_cores(&self, units: &[&str], terms: &str) -> Result<EventSet, State> {
        let found = self.units(units)?;
        let mut counters = Vec::new();
        for (place, (_, core)) in self.cores.iter().enumerate() {
            let unit = self.unit_of(&found, *core, units)?;
            counters.push(wanted(unit, terms, Role::RequestsOf(place), *core)?);
        }
        Ok(self.rate(counters))
    }

    /// The cores' reads summed up, as they were proved.
    pub(super) fn rates(&self, reads: &CoreEvent) -> EventSet {
        self.rate(reads.counters.clone())
    }

    fn rate(&self, counters: Vec<Wanted>) -> EventSet {
        let cores = self.cores.len();
        EventSet {
            sensor_kind: SensorKind::Rate,
            counters,
            scale: 1,
            cycles_per_us: 1000,
            cores,
            meaning: "",
        }
    }

    fn add_events(
        &self,
        counters: &mut Vec<Wanted>,
        row: &Pair,
        unit: &Unit,
        core: HardwareCore,
        place: Option<usize>,
    ) -> Result<(), State> {
        let requests = place.map_or(Role::Requests, Role::RequestsOf);
        let all = [
            (row.occupancy, Role::Occupancy),
            (row.sampled, Role::Sampled),
            (row.requests, requests),
        ];
        for (events, role) in all {
            for terms in events {
                counters.push(wanted(unit, terms, role, core)?);
            }
        }
        for (terms, cycles) in row.less {
            counters.push(wanted(unit, terms, Role::Less(*cycles), core)?);
        }
        Ok(())
    }

    /// The units of these names, as this host has them.
    fn units(&self, wanted: &[&str]) -> Result<Vec<Unit>, State> {
        let names = sysfs::names(self.hardware);
        let meant = |name: &&String| wanted.iter().any(|wanted| sysfs::means(wanted, name));
        let units = names.iter().filter(meant).map(|name| Unit::read(self.hardware, name));
        let units: Result<Vec<_>, _> = units.collect();
        let units = units.map_err(|why| State::Refused { why })?;
        if units.is_empty() { Err(self.no_unit(wanted)) } else { Ok(units) }
    }

    fn unit_of<'u>(
        &self,
        units: &'u [Unit],
        core: HardwareCore,
        wanted: &[&str],
    ) -> Result<&'u Unit, State> {
        let own = |unit: &&Unit| unit.cores.as_ref().is_none_or(|cores| cores.contains(&core));
        units.iter().find(own).ok_or_else(|| State::Missing {
            why: format!("core {core} belongs to none of the units {}", wanted.join(", ")),
            way: "manage cores of the other kind alone".into(),
        })
    }

    fn no_unit(&self, wanted: &[&str]) -> State {
        let why = format!("this kernel shows no unit {}", wanted.join(" or "));
        let way = if self.processor.virtual_machine {
            "a virtual machine has what its host passes on: use bare metal, or have the host pass \
             its counters on"
        } else if wanted.iter().any(|name| name.starts_with("amd_")) {
            "load the module amd_uncore (PERF_EVENTS_AMD_UNCORE; memory controllers from Linux 6.9)"
        } else if wanted.iter().any(|name| name.starts_with("uncore_")) {
            "load the module intel_uncore (PERF_EVENTS_INTEL_UNCORE), of a kernel that knows this \
             processor"
        } else {
            "use a kernel with the driver of this processor's counters"
        };
        State::Missing { why, way: way.into() }
    }

    /// The clock of a row.
    fn clock(&self, row: &Pair, units: &[Unit]) -> Result<Ticks, State> {
        // What it adds to does not matter: it is counted once, alone.
        let event = |unit: &Unit, terms, core| wanted(unit, terms, Role::Requests, core);
        let core = self.cores[0].1;
        match row.clock {
            Clock::None => return Ok(Ticks::Nothing),
            Clock::Own(terms) => {
                // There is a unit: `units` refuses to be empty.
                let slot = self.slot(&units[0], row.reach);
                return event(&units[0], terms, slot).map(Ticks::Event);
            }
            Clock::Of(name, terms) => {
                let unit = Unit::read(self.hardware, name);
                let unit = unit.map_err(|why| State::Refused { why })?;
                return event(&unit, terms, self.slot(&unit, row.reach)).map(Ticks::Event);
            }
            Clock::Core | Clock::NanosecondsOrCore => {}
        }
        let cores = CORES.iter().find(|cores| cores.processors.hold(self.processor));
        let cores = cores.ok_or_else(|| State::Refused {
            why: format!("the tables know no cycles of the cores of {}", self.processor),
        })?;
        let units = self.units(cores.units)?;
        let unit = self.unit_of(&units, core, cores.units)?;
        let cycles = event(unit, cores.cycles, core)?;
        Ok(match row.clock {
            Clock::NanosecondsOrCore => Ticks::EventOrNanoseconds(cycles),
            Clock::None | Clock::Own(_) | Clock::Of(..) | Clock::Core => Ticks::Event(cycles),
        })
    }

    fn slot(&self, unit: &Unit, reach: Reach) -> HardwareCore {
        let managed: Vec<_> = self.cores.iter().map(|(_, core)| *core).collect();
        let slots = sysfs::slots(self.hardware, unit, &managed, reach);
        slots.first().copied().unwrap_or(self.cores[0].1)
    }

    /// Finds out how fast the set's clock goes.
    pub(super) fn set_clock(&self, set: &mut EventSet, clock: &Ticks) -> Result<(), State> {
        let (event, or_nanoseconds) = match clock {
            Ticks::Nothing => return Ok(()),
            Ticks::Event(event) => (event, false),
            Ticks::EventOrNanoseconds(event) => (event, true),
        };
        let cycles = self.count_clock(event);
        let cycles = cycles.map_err(|error| self.state(Failed::Error(error)))?;
        if !CLOCKS.contains(&cycles) {
            let why = format!("its clock, {event}, went {cycles} cycles a microsecond");
            return Err(State::Refused { why });
        }
        set.cycles_per_us = cycles;
        if or_nanoseconds {
            let trial = Trial { hardware: self.hardware, cores: self.cores, local: false };
            let known = trial.latency(set).map_err(|failed| self.state(failed))?;
            if !known.is_cycles(cycles) {
                set.cycles_per_us = 1000;
            }
        }
        Ok(())
    }

    /// Cycles per microsecond, counted while the core computes, so that its own clock does not
    /// stop: the most of some trials, since a hypervisor that takes the core away stops it too.
    fn count_clock(&self, clock: &Wanted) -> io::Result<u64> {
        let opened = self.hardware.open(&clock.code, Scope::Core(clock.core));
        let mut counter = opened.map_err(|error| clock.lost("counting", &error))?;
        let mut read = || counter.read().map_err(|error| clock.lost("reading", &error));
        // A unit may be asked on a core that is not ours; its clock does not stop.
        let managed = self.cores.iter().map(|(_, core)| *core).find(|core| *core == clock.core);
        let core = managed.unwrap_or(self.cores[0].1);
        self.hardware.load(core, Load::Compute(Duration::ZERO))?;
        let _here = Here::go(core);
        let mut most = 0;
        for _ in 0..CLOCK_TRIALS {
            let before = read()?;
            self.hardware.load(core, Load::Compute(CLOCK_TIME))?;
            let after = read()?;
            let ns = after.wanted_ns.saturating_sub(before.wanted_ns);
            let cycles = u128::from(after.since(&before)) * 1000 / u128::from(ns.max(1));
            most = most.max(u64::try_from(cycles).unwrap_or(u64::MAX));
        }
        Ok(most)
    }

    /// What a failed trial means for users.
    pub(super) fn state(&self, failed: Failed) -> State {
        let error = match failed {
            Failed::Moved(why) => return State::Refused { why },
            Failed::Error(error) => error,
        };
        let (kind, why) = (error.kind(), error.to_string());
        if kind == io::ErrorKind::PermissionDenied {
            return State::Missing { why, way: self.rights() };
        }
        if kind == io::ErrorKind::OutOfMemory {
            let way =
                "give it more, in the host or in its control group: the counter was not tried";
            return State::Missing { why, way: way.into() };
        }
        if [io::ErrorKind::NotFound, io::ErrorKind::Unsupported].contains(&kind) {
            let way = if self.processor.virtual_machine {
                "the virtual machine does not pass it on: use bare metal"
            } else {
                "this processor or kernel does not have it"
            };
            return State::Missing { why, way: way.into() };
        }
        State::Refused { why }
    }

    fn rights(&self) -> String {
        let path = Path::new("/proc/sys/kernel/perf_event_paranoid");
        let paranoid = self.hardware.read(path).unwrap_or_default();
        let now = match paranoid.trim() {
            "" => String::new(),
            level => format!(" (it is {level})"),
        };
        format!("give CAP_PERFMON, or set kernel.perf_event_paranoid to 0{now}")
    }
}

fn wanted(unit: &Unit, terms: &str, role: Role, core: HardwareCore) -> Result<Wanted, State> {
    let code = unit.encode(terms).map_err(|why| State::Refused { why })?;
    Ok(Wanted { role, code, core, name: format!("{}/{terms}/", unit.name) })
}
