//! A sensor made of counters.

use super::{EventSet, Role, Wanted};
use crate::host::hardware::{Count, Counter, Hardware, Scope};
use crate::host::os_code;
use crate::sense::{Reading, Sensor, SensorKind};
use maracas_core::{Duration, Instant};
use std::io;

/// From so many requests of others on, a counter that stands at zero is remarked on.
const MANY: u64 = 1_000_000;
/// A counter whose own time did not pass in so long was taken by another program.
const STOPPED: Duration = Duration::from_millis(1);
/// Of its time, in thousandths, a counter may miss without a remark: opening takes some.
const MISSED_MILLI: u64 = 10;

/// Occupancy and requests as several counters count them, summed up.
///
/// Counters that take turns are extrapolated, from reading to reading; the remark says so.
pub struct Counted {
    set: EventSet,
    counters: Vec<One>,
    sum: Reading,
    /// When it was read last; `None` = never.
    read_at: Option<Instant>,
    /// What came since the last sample of latency, where not every request is sampled.
    since: Since,
}

/// A counter of the sensor.
struct One {
    counter: Box<dyn Counter>,
    first: Count,
    last: Count,
    /// Counted in all, extrapolated.
    total: u64,
}

/// What was counted in a while.
#[derive(Clone, Copy, Default)]
struct Since {
    occupancy: u64,
    /// In cycles.
    less: u128,
    requests: u64,
    sampled: u64,
}

impl Counted {
    /// Opens all counters, which count from here on.
    ///
    /// # Errors
    /// The kernel's, with the event and the core on which it was to be counted.
    pub fn open(hardware: &dyn Hardware, set: &EventSet) -> io::Result<Self> {
        let mut counters = Vec::with_capacity(set.counters.len());
        for wanted in &set.counters {
            let opened = hardware.open(&wanted.code, Scope::Core(wanted.core));
            let mut counter = opened.map_err(|error| wanted.lost("counting", &error))?;
            let first = counter.read().map_err(|error| wanted.lost("reading", &error))?;
            counters.push(One { counter, first, last: first, total: 0 });
        }
        let sum = Reading { by_core: vec![0; set.cores], ..Reading::default() };
        Ok(Self { set: set.clone(), counters, sum, read_at: None, since: Since::default() })
    }

    /// What it is made of.
    pub fn event_set(&self) -> &EventSet {
        &self.set
    }

    /// The share of its time that the counter counted that was shared most, in thousandths.
    pub fn counted_milli(&self) -> u64 {
        self.counters.iter().map(One::counted_milli).min().unwrap_or(1000)
    }

    fn add(&mut self, role: Role, count: u64) {
        match role {
            Role::Occupancy => self.since.occupancy += count,
            Role::Less(cycles) => self.since.less += u128::from(count) * u128::from(cycles),
            Role::Sampled => self.since.sampled += count,
            Role::Requests => self.request(count),
            Role::RequestsOf(core) => {
                self.request(count);
                self.share(core, count);
            }
            Role::ShareOf(core) => self.share(core, count),
        }
    }
    fn request(&mut self, count: u64) {
        self.since.requests += count;
        self.sum.requests = self.sum.requests.saturating_add(count);
    }
    fn share(&mut self, core: usize, count: u64) {
        if let Some(sum) = self.sum.by_core.get_mut(core) {
            *sum = sum.saturating_add(count);
        }
    }

    /// Adds to the occupancy what was counted of it, or what samples say of it.
    fn settle(&mut self) {
        let Since { occupancy, less, requests, sampled } = self.since;
        let whole = (u128::from(occupancy) * u128::from(self.set.scale)).saturating_sub(less);
        let is_sampled = self.set.counters.iter().any(|wanted| wanted.role == Role::Sampled);
        let whole = match (is_sampled, sampled) {
            (false, _) => whole,
            // Nothing was sampled yet: it waits for the next reading.
            (true, 0) => return,
            (true, sampled) => whole * u128::from(requests) / u128::from(sampled),
        };
        let whole = u64::try_from(whole).unwrap_or(u64::MAX);
        self.sum.occupancy = self.sum.occupancy.saturating_add(whole);
        self.since = Since::default();
    }

    /// Counters that took turns with another program's.
    fn sharing(&self) -> Option<String> {
        let pairs = || self.counters.iter().zip(&self.set.counters);
        let shared = |one: &One| one.counted_milli() < 1000 - MISSED_MILLI;
        let (one, wanted) =
            pairs().filter(|(one, _)| shared(one)).min_by_key(|(one, _)| one.counted_milli())?;
        let percent = one.counted_milli() / 10;
        let several = pairs().filter(|(one, _)| shared(one)).count();
        Some(format!(
            "{several} of {} counters took turns with another program's, {wanted} counted \
             {percent} % of its time: what it counts is extrapolated",
            self.counters.len()
        ))
    }

    /// Counters that stand at zero although others that are asked on the same core counted much. A
    /// core's share of all requests may well be nothing.
    fn standing(&self) -> Option<String> {
        let pairs = || {
            let all = self.counters.iter().zip(&self.set.counters);
            all.filter(|(_, wanted)| !matches!(wanted.role, Role::ShareOf(_)))
        };
        let beside = |one: &Wanted| {
            let near = pairs().filter(|(_, other)| other.core == one.core);
            near.map(|(other, _)| other.total).max().unwrap_or(0)
        };
        let mut still = pairs().filter(|(one, _)| one.total == 0).map(|(_, wanted)| wanted);
        let first = still.find(|wanted| beside(wanted) >= MANY)?;
        Some(format!("{first} stands at 0 although others there counted {}", beside(first)))
    }
}

impl One {
    fn counted_milli(&self) -> u64 {
        let wanted = self.last.wanted_ns.saturating_sub(self.first.wanted_ns);
        let counted = self.last.counted_ns.saturating_sub(self.first.counted_ns);
        let share = u128::from(counted) * 1000 / u128::from(wanted.max(1));
        if wanted == 0 { 1000 } else { share.min(1000) as u64 }
    }
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of core {}", self.name, self.core)
    }
}

impl Wanted {
    /// An error of the kernel as a sentence: what could not be done, and what that means.
    pub(in crate::sense) fn lost(&self, doing: &str, error: &io::Error) -> io::Error {
        let meaning = match os_code(error) {
            Some(libc::EPERM | libc::EACCES) => ": the right to count is not, or no longer, ours",
            Some(libc::ENODEV) => ": its core or its unit is off line",
            Some(libc::ENOENT | libc::EOPNOTSUPP) => ": there is no such event here",
            Some(libc::EBUSY) => ": another program holds all counters",
            _ => "",
        };
        // The words of the kernel alone: what it was about stands here.
        let said = os_code(error)
            .map_or(error.to_string(), |code| io::Error::from_raw_os_error(code).to_string());
        io::Error::new(error.kind(), Lost { text: format!("{doing} {self}: {said}{meaning}") })
    }
}

/// A sentence as an error.
#[derive(Debug)]
struct Lost {
    text: String,
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Lost {}

impl Sensor for Counted {
    fn sensor_kind(&self) -> SensorKind {
        self.set.sensor_kind
    }
    fn describe(&self) -> String {
        let EventSet { sensor_kind, meaning, .. } = &self.set;
        let meaning = if meaning.is_empty() { String::new() } else { format!(" ({meaning})") };
        let (events, counters) = (self.set.events().join(" "), self.counters.len());
        let plural = if counters == 1 { "" } else { "s" };
        format!("{sensor_kind}{meaning}: {events}, {counters} counter{plural}")
    }
    fn cycles_per_us(&self) -> u64 {
        self.set.cycles_per_us
    }
    fn read(&mut self, now: Instant, into: &mut Reading) -> io::Result<()> {
        let before = self.read_at.replace(now);
        let due = before.is_some_and(|before| now.saturating_since(before) >= STOPPED);
        for place in 0..self.counters.len() {
            let one = &mut self.counters[place];
            let wanted = &self.set.counters[place];
            let count = one.counter.read().map_err(|error| wanted.lost("reading", &error))?;
            let gained = count.since(&one.last);
            // The kernel goes on to answer for a core that went off line: with its last count.
            if due && count.wanted_ns == one.last.wanted_ns {
                return Err(wanted.lost("reading", &io::Error::from_raw_os_error(libc::ENODEV)));
            }
            one.last = count;
            one.total = one.total.saturating_add(gained);
            let role = wanted.role;
            self.add(role, gained);
        }
        self.settle();
        into.clone_from(&self.sum);
        Ok(())
    }
    fn remark(&self) -> Option<String> {
        let said: Vec<_> = self.sharing().into_iter().chain(self.standing()).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
}
