//! What ran when: the lists that the page draws, gathered as the journal is read.

use super::pack::Pack;
use crate::follow::{JobTrack, Listener, Span, Wait};
use crate::metrics::{Found, Period};
use maracas_core::contract::{End, Mode, Sample};
use maracas_core::journal::Header;
use maracas_core::{Instant, VcpuId};
use serde_json::{Value, json};

/// An interval in nanoseconds, and what is said of it.
type Stretch = (u64, u64, u64);

/// The lists of one run; times in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    ticks_per_ns: u64,
    /// What ran on each core.
    cores: Vec<Vec<Stretch>>,
    vcpus: Vec<Lane>,
    /// When memory was sampled, its requests and the occupancy of its queue.
    samples: Vec<(u64, u64, u64)>,
}

/// What is known of one VCPU.
#[derive(Clone, Default, Debug)]
struct Lane {
    name: Option<String>,
    /// When it first had something to run, and when it exited last.
    first: Option<u64>,
    exited: Option<u64>,
    /// When it had nothing to run.
    idle: Vec<Stretch>,
    /// When a core's memory gate, or its own limit, kept it out, and the core.
    throttled: Vec<Stretch>,
    /// Release, deadline, completion (`None`: unfinished at the end), missed.
    jobs: Vec<(u64, u64, Option<u64>, bool)>,
}

impl Schedule {
    pub(super) fn new(header: &Header) -> Self {
        Self {
            ticks_per_ns: header.system.ticks_per_ns.max(1),
            cores: header.system.core_ids().map(|_| Vec::new()).collect(),
            vcpus: Vec::new(),
            samples: Vec::new(),
        }
    }
    /// An instant in nanoseconds.
    pub(super) const fn ns(&self, at: Instant) -> u64 {
        at.ticks() / self.ticks_per_ns
    }
    fn lane(&mut self, vcpu: VcpuId) -> &mut Lane {
        let index = vcpu.0 as usize;
        if self.vcpus.len() <= index {
            self.vcpus.resize_with(index + 1, Lane::default);
        }
        &mut self.vcpus[index]
    }

    /// What the page is told of the VCPUs beside the lists.
    pub(super) fn vcpus(&self) -> Value {
        let each = self.vcpus.iter().zip(0..).map(|(lane, id)| {
            let name = lane.name.clone().unwrap_or_else(|| VcpuId(id).to_string());
            json!({ "name": name, "first": lane.first, "exited": lane.exited })
        });
        each.collect()
    }

    /// Writes all lists in the order in which `page/data.js` reads them. Returns how long each is.
    pub(super) fn pack(mut self, periods: &[Vec<Period>], pack: &mut Pack) -> Value {
        let ticks_per_ns = self.ticks_per_ns;
        let mut counts = json!({
            "spans": lengths(&self.cores, Vec::len),
            "idle": lengths(&self.vcpus, |lane| lane.idle.len()),
            "throttled": lengths(&self.vcpus, |lane| lane.throttled.len()),
            "jobs": lengths(&self.vcpus, |lane| lane.jobs.len()),
            "periods": lengths(periods, Vec::len),
        });
        counts["samples"] = self.samples.len().into();
        self.cores.iter_mut().for_each(|core| stretches(core, pack));
        self.vcpus.iter_mut().for_each(|lane| stretches(&mut lane.idle, pack));
        self.vcpus.iter_mut().for_each(|lane| stretches(&mut lane.throttled, pack));
        for lane in &mut self.vcpus {
            lane.jobs.sort_unstable();
            let mut before = 0;
            for (release, deadline, completed, missed) in &lane.jobs {
                pack.put(release - before);
                pack.put(deadline - release);
                pack.put(completed.map_or(0, |at| at.saturating_sub(*release) + 1));
                pack.put(u64::from(*missed));
                before = *release;
            }
        }
        periods.iter().for_each(|periods| pack_periods(periods, ticks_per_ns, pack));
        let mut before = 0;
        for (at, requests, occupancy) in &self.samples {
            pack.put(at.saturating_sub(before));
            pack.put(*requests);
            pack.put(*occupancy);
            before = *at;
        }
        counts
    }
}

fn lengths<T>(of: &[T], length: impl Fn(&T) -> usize) -> Vec<usize> {
    of.iter().map(length).collect()
}

/// Intervals by their beginnings: from the end of the one before, length, what is said.
fn stretches(list: &mut [Stretch], pack: &mut Pack) {
    list.sort_unstable();
    let mut before = 0;
    for (from, to, said) in list.iter() {
        pack.put_signed(*from as i64 - before as i64);
        pack.put(to - from);
        pack.put(*said);
        before = *to;
    }
}

/// Periods by their starts, lengths and budgets as differences to the one before.
fn pack_periods(periods: &[Period], ticks_per_ns: u64, pack: &mut Pack) {
    let (mut before, mut last, mut budget) = (0, 0, 0);
    for it in periods {
        let ns = |ticks: u64| (ticks / ticks_per_ns) as i64;
        let (start, length, promised) =
            (ns(it.start.ticks()), ns(it.period.ticks()), ns(it.budget));
        pack.put_signed(start - before);
        pack.put_signed(length - last);
        pack.put_signed(promised - budget);
        pack.put_signed(ns(it.delivered) - promised);
        pack.put(match it.found {
            Found::Kept => 0,
            Found::NoDemand => 1,
            Found::Held => 2,
            Found::Short => 3,
            Found::Over => 4,
            Found::Stolen => 5,
        });
        (before, last, budget) = (start + length, length, promised);
    }
}

impl Listener for Schedule {
    fn named(&mut self, vcpu: VcpuId, name: &str) {
        self.lane(vcpu).name = Some(name.into());
    }
    fn woke(&mut self, vcpu: VcpuId, at: Instant) {
        let at = self.ns(at);
        self.lane(vcpu).first.get_or_insert(at);
    }
    fn span(&mut self, span: &Span) {
        let (from, to) = (self.ns(span.from), self.ns(span.to));
        let mode = match span.mode {
            Mode::Foreground => 0,
            Mode::Background => 1,
        };
        let end = match span.end {
            End::Preempted => 0,
            End::LimitReached => 1,
            End::Blocked => 2,
            End::MemorySpent => 3,
            End::Moved => 4,
            End::Exited => 5,
            End::Metered => 6,
        };
        let core = usize::from(span.core.0);
        if self.cores.len() <= core {
            self.cores.resize_with(core + 1, Vec::new);
        }
        self.cores[core].push((from, to, u64::from(span.vcpu.0) << 4 | mode << 3 | end));
        self.lane(span.vcpu).exited = (span.end == End::Exited).then_some(to);
    }
    fn wait(&mut self, wait: &Wait) {
        let (from, to) = (self.ns(wait.from), self.ns(wait.to));
        if let Some(core) = wait.throttled {
            self.lane(wait.vcpu).throttled.push((from, to, u64::from(core.0)));
        }
    }
    fn idle(&mut self, vcpu: VcpuId, from: Instant, to: Instant) {
        let (from, to) = (self.ns(from), self.ns(to));
        self.lane(vcpu).idle.push((from, to, 0));
    }
    fn job(&mut self, job: &JobTrack, end: Option<Instant>) {
        let known_until = end.or(job.completed).unwrap_or(job.begin);
        let (release, deadline) = (self.ns(job.job.release), self.ns(job.job.deadline));
        let completed = job.completed.map(|at| self.ns(at));
        let missed = job.missed(known_until);
        self.lane(job.job.id.vcpu).jobs.push((release, deadline, completed, missed));
    }
    fn sampled(&mut self, at: Instant, sample: &Sample) {
        let at = self.ns(at);
        self.samples.push((at, sample.requests, sample.occupancy));
    }
}
