//! Proofs: what a known load must do to a sensor, or it is not believed.
//!
//! # The bounds
//! A load reads so many lines, each from memory, on a core of ours: one at a time (a chase) where
//! the core has counters of its own, else many at a time (a scatter), to stand out from others. Of
//! them a sensor must see a third at least (some are found in caches, and a unit may count pairs of
//! lines as one) and eight times as many at most (translations, prefetches, halves of a line).
//! While the core computes in registers instead, a sensor of that core must stand nearly still: at
//! most a quarter of it. A request takes 10 ns to 10 us.
//!
//! No other program is kept off the machine meanwhile. Of a core's own counter the least disturbed
//! trials count: the shortest load, the stillest quiet. What all share counts all traffic, which on
//! a busy machine is more than the load and never the same: each load is held against the quiet
//! time just before it, and of these differences all but an eighth must be as they must. One of
//! four may be right by chance; that of sixteen fourteen are, is none.

use crate::host::hardware::{EventCode, Hardware, Load};
use crate::host::{HardwareCore, sched};
use crate::sense::sensors::{Bytes, Counted, EventSet, Role};
use crate::sense::{Cores, Reading, Sensor};
use maracas_core::Instant;
use std::time::{Duration, Instant as Time};
use std::{io, thread};

/// Lines of a chase: 2 to 4 ms.
const CHASED: u64 = 20_000;
/// Lines of a scatter: 1 to 3 ms.
const SCATTERED: u64 = 200_000;
/// How long the core computes between loads.
const QUIET: Duration = Duration::from_millis(2);
/// Pairs of a quiet time and a load before it is believed, and before it is given up: of a core's
/// own counters, and of what others move too.
const OWN_ROUNDS: std::ops::RangeInclusive<usize> = 2..=8;
const SHARED_ROUNDS: std::ops::RangeInclusive<usize> = 4..=16;
/// Of the differences to what others do, one in so many may be anything.
const SPARED: usize = 8;
/// Times that a latency is tried.
const LATENCY_TRIALS: usize = 2;
/// The longest pause between two pairs, in milliseconds.
const LONGEST_PAUSE: usize = 8;
/// So many cores are tried at least; others of the same kind are taken to be like them.
const CORES: usize = 4;
/// The part of a load's lines that must be seen, and how many times as many may be.
const LEAST: u64 = 3;
const MOST: u64 = 8;
/// The part of a load's count that may be seen in a quiet time.
const STILL: u64 = 4;
/// What a request of memory may take, in nanoseconds.
const LATENCIES: std::ops::RangeInclusive<u64> = 10..=10_000;
/// A counter must count this share of its time, in thousandths, to be exact.
const SHARE: u64 = 950;

/// Why a trial failed.
pub(super) enum Failed {
    /// It did not move as it must: the numbers.
    Moved(String),
    /// It could not be tried.
    Error(io::Error),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Error(error)
    }
}

/// A trial of a sensor on the cores of a run.
pub(super) struct Trial<'a> {
    pub(super) hardware: &'a dyn Hardware,
    pub(super) cores: &'a Cores,
    /// Every core has a counter of its own, which must distinguish it from the others.
    pub(super) local: bool,
}

/// What a sensor counted while a load ran.
#[derive(Clone, Copy, Default)]
struct Moved {
    requests: u64,
    occupancy: u64,
    took: Duration,
}

impl Moved {
    /// What it would have been in `time`.
    fn within(&self, time: Duration) -> u64 {
        let whole = u128::from(self.requests) * time.as_nanos();
        (whole / self.took.as_nanos().max(1)) as u64
    }
}

/// A latency as the sensor counts it, and as the chase itself felt it.
pub(super) struct Known {
    counted: u64,
    felt_ns: u64,
}

impl Known {
    /// Whether what was counted is rather in cycles of such a clock than in nanoseconds.
    pub(super) fn is_cycles(&self, cycles_per_us: u64) -> bool {
        let cycles_ns = self.counted * 1000 / cycles_per_us;
        cycles_ns.abs_diff(self.felt_ns) < self.counted.abs_diff(self.felt_ns)
    }
}

impl Trial<'_> {
    /// Holds a sensor of counters against the loads. The proof is a sentence.
    pub(super) fn counters(&self, set: &EventSet) -> Result<String, Failed> {
        let mut reported = Vec::new();
        for place in self.tried(Some(set)) {
            // A core's own counters alone: what others do meanwhile is not its latency.
            let mut own = set.clone();
            if self.local {
                own.counters.retain(|wanted| wanted.core == self.cores[place].1);
            }
            let mut counted = Counted::open(self.hardware, &own)?;
            let waits = own.counters.iter().any(|wanted| wanted.role == Role::Occupancy);
            reported.push(self.core(&mut counted, place, waits)?);
            let share = counted.counted_milli();
            if share < SHARE {
                return Err(Failed::Moved(format!(
                    "it counts {} % of the time alone and takes turns with another program's \
                     events; end other users of the counters (perf, the NMI watchdog: \
                     kernel.nmi_watchdog=0)",
                    share / 10
                )));
            }
        }
        summary(reported, &mut Counted::open(self.hardware, set)?)
    }

    /// Holds the bytes of the last-level caches against the loads.
    pub(super) fn bytes(&self, bytes: &mut Bytes) -> Result<String, Failed> {
        let places = self.tried(None).into_iter();
        let reported = places.map(|place| self.core(bytes, place, false));
        let reported = reported.collect::<Result<Vec<_>, _>>()?;
        summary(reported, bytes)
    }

    /// The cores that are tried, by their places: what all share is tried from one, of what each
    /// has for itself one of every kind and then the first ones.
    fn tried(&self, set: Option<&EventSet>) -> Vec<usize> {
        let Some(set) = set.filter(|_| self.local) else { return vec![0] };
        let kind = |place: usize| -> Vec<EventCode> {
            let own = set.counters.iter().filter(|it| it.core == self.cores[place].1);
            own.map(|wanted| wanted.code).collect()
        };
        let is_new = |place: &usize| (0..*place).all(|before| kind(before) != kind(*place));
        let all = 0..self.cores.len();
        let mut tried: Vec<_> = all.clone().filter(is_new).collect();
        let rest: Vec<_> = all.filter(|place| !tried.contains(place)).collect();
        tried.extend(rest.into_iter().take(CORES.saturating_sub(tried.len())));
        tried
    }

    /// Tries it on one core until the trials agree with what must be, or there were enough.
    fn core(&self, sensor: &mut dyn Sensor, place: usize, waits: bool) -> Result<String, Failed> {
        let core = self.cores[place].1;
        // A thread that goes to a core that another keeps does not come back.
        self.hardware.load(core, Load::Compute(Duration::ZERO))?;
        let _here = Here::go(core);
        let (lines, load) = match self.local {
            true => (CHASED, Load::Chase { lines: CHASED }),
            false => (SCATTERED, Load::Scatter { lines: SCATTERED }),
        };
        // The first load prepares its memory, and the core wakes up.
        self.moved(sensor, place, core, Load::Chase { lines: CHASED / 10 })?;
        let mut trials = Trials { core, lines, local: self.local, quiets: vec![], loads: vec![] };
        let rounds = if self.local { OWN_ROUNDS } else { SHARED_ROUNDS };
        for round in 1..=*rounds.end() {
            trials.quiets.push(self.moved(sensor, place, core, Load::Compute(QUIET))?);
            trials.loads.push(self.moved(sensor, place, core, load)?);
            match trials.judge(waits.then(|| sensor.cycles_per_us())) {
                Ok(proof) if rounds.contains(&round) => return Ok(proof),
                Ok(_) => {}
                Err(why) if round == *rounds.end() => return Err(Failed::Moved(why)),
                // What disturbed it may be over soon.
                Err(_) => thread::sleep(Duration::from_millis(round.min(LONGEST_PAUSE) as u64)),
            }
        }
        Err(Failed::Moved("it was not tried".into()))
    }

    fn moved(
        &self,
        sensor: &mut dyn Sensor,
        place: usize,
        core: HardwareCore,
        load: Load,
    ) -> Result<Moved, Failed> {
        let (mut before, mut after) = (Reading::default(), Reading::default());
        sensor.read(Instant::ZERO, &mut before)?;
        let took = self.hardware.load(core, load)?;
        sensor.read(Instant::ZERO, &mut after)?;
        let of = |reading: &Reading| match self.local {
            true => reading.by_core.get(place).copied().unwrap_or(0),
            false => reading.requests,
        };
        let requests = of(&after).saturating_sub(of(&before));
        let occupancy = after.occupancy.saturating_sub(before.occupancy);
        Ok(Moved { requests, occupancy, took })
    }

    /// The latency that a chase has by the sensor's own clock.
    pub(super) fn latency(&self, set: &EventSet) -> Result<Known, Failed> {
        let mut counted = Counted::open(self.hardware, set)?;
        let core = self.cores[0].1;
        self.moved(&mut counted, 0, core, Load::Chase { lines: CHASED / 10 })?;
        let mut best: Option<Moved> = None;
        for _ in 0..LATENCY_TRIALS {
            let moved = self.moved(&mut counted, 0, core, Load::Chase { lines: CHASED })?;
            best = best.filter(|best| best.took <= moved.took).or(Some(moved));
        }
        let Moved { requests, occupancy, took } = best.unwrap_or_default();
        let felt_ns = took.as_nanos() as u64 / CHASED;
        Ok(Known { counted: occupancy / requests.max(1), felt_ns })
    }
}

/// What was counted on a core in quiet times and under loads.
struct Trials {
    core: HardwareCore,
    /// Lines of a load.
    lines: u64,
    local: bool,
    quiets: Vec<Moved>,
    loads: Vec<Moved>,
}

impl Trials {
    /// Whether the least disturbed of them moved as they must.
    fn judge(&self, clock: Option<u64>) -> Result<String, String> {
        let load = self.loads.iter().min_by_key(|load| load.took).copied().unwrap_or_default();
        let quiet = self.quiets.iter().map(|quiet| quiet.within(load.took));
        let stillest = quiet.min().unwrap_or(0);
        let Self { core, lines, .. } = self;
        let what = format!("{lines} lines were read from memory on core {core}");
        if self.loads.iter().all(|load| load.requests == 0) {
            return Err(format!("it stood still while {what}"));
        }
        if self.local {
            self.within_bounds(load.requests, stillest, &what)?;
            self.is_still(load.requests, stillest, &what)?;
        } else {
            self.beyond_others(&what)?;
        }
        let waited = clock.map(|clock| self.waited(&load, clock, &what)).transpose()?;
        let (requests, us, waited) =
            (load.requests, load.took.as_micros(), waited.unwrap_or_default());
        Ok(format!(
            "{lines} lines read from memory on core {core} in {us} us were {requests} \
             requests{waited}, and {stillest} in that time without"
        ))
    }

    /// Whether all but a few loads moved it by what was read, beyond the quiet time before each.
    fn beyond_others(&self, what: &str) -> Result<(), String> {
        let pairs = self.loads.iter().zip(&self.quiets);
        let mut pairs: Vec<(u64, u64)> =
            pairs.map(|(load, quiet)| (load.requests, quiet.within(load.took))).collect();
        pairs.sort_unstable_by_key(|(load, quiet)| i128::from(*load) - i128::from(*quiet));
        let spared = pairs.len() / SPARED;
        for (load, quiet) in
            [pairs.get(spared), pairs.iter().nth_back(spared)].into_iter().flatten()
        {
            self.within_bounds(*load, *quiet, what)?;
        }
        Ok(())
    }

    /// Whether it counted what was read and not much else, beyond what it counts without.
    fn within_bounds(&self, requests: u64, noise: u64, what: &str) -> Result<(), String> {
        let (least, most) = (self.lines / LEAST, self.lines * MOST);
        if requests.saturating_sub(noise) < least {
            let mut why = format!("it counted {requests} while {what}: at least {least} are due");
            if noise > 0 {
                why += &format!(" beyond the {noise} that it counts in that time without");
            }
            return Err(why);
        }
        if requests.saturating_sub(noise) > most {
            return Err(format!("it counted {requests} while {what}: at most {most} may be"));
        }
        Ok(())
    }

    /// Whether it stands nearly still while the core computes.
    fn is_still(&self, requests: u64, stillest: u64, what: &str) -> Result<(), String> {
        let (core, still) = (self.core, requests / STILL);
        if stillest <= still {
            return Ok(());
        }
        Err(format!(
            "it counted {stillest} while core {core} computed in registers and {requests} while \
             {what} in the same time: at most {still} may be"
        ))
    }

    /// How long its requests waited, where that may be.
    fn waited(&self, load: &Moved, cycles_per_us: u64, what: &str) -> Result<String, String> {
        let Moved { requests, occupancy, .. } = *load;
        if occupancy == 0 {
            return Err(format!("its occupancy stood still while {what}"));
        }
        let ns = u128::from(occupancy) * 1000 / u128::from(cycles_per_us.max(1));
        let ns = (ns / u128::from(requests.max(1))) as u64;
        if LATENCIES.contains(&ns) {
            return Ok(format!(" of {ns} ns at {cycles_per_us} cycles a us"));
        }
        Err(format!(
            "it counted {requests} requests of {ns} ns each ({occupancy} cycles at \
             {cycles_per_us} a us) while {what}"
        ))
    }
}

/// While it lives, the calling thread is on a core. A load there then begins and ends without a
/// moment for others, whose misses would be counted too.
pub(super) struct Here {
    before: Option<Vec<HardwareCore>>,
}

impl Here {
    pub(super) fn go(core: HardwareCore) -> Self {
        // Where it cannot go there it only is disturbed more.
        let before = sched::affinity_of(0).ok();
        Self { before: before.filter(|_| sched::set_affinity(0, core).is_ok()) }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = sched::set_affinities(0, before);
        }
    }
}

/// The first core's proof with what is to be said of the others and of the whole.
fn summary(reported: Vec<String>, sensor: &mut dyn Sensor) -> Result<String, Failed> {
    let start = Time::now();
    sensor.read(Instant::ZERO, &mut Reading::default())?;
    let cost = start.elapsed().as_nanos().div_ceil(1000);
    let others = match reported.len() {
        0 | 1 => String::new(),
        more => format!(", likewise on {} more", more - 1),
    };
    let first = reported.into_iter().next().unwrap_or_default();
    Ok(format!("{first}{others}; a reading takes {cost} us"))
}
