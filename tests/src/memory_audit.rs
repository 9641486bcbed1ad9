//! An observer that holds what is counted of memory, and what is done about it, to what every
//! policy and the simulator must keep. It knows events and plans alone.

use maracas_core::contract::{End, MemoryLimit, Observer, Sample, Segment, Usage};
use maracas_core::memory::{LINE_BYTES, Memory, Profile};
use maracas_core::{
    CoreId, Cost, Duration, Event, Instant, Pace, Plan, Program, Role, VcpuId, Workload,
};
use maracas_sim::{Outcome, Subject};

/// A memory meter, and what it was held against and when.
#[derive(Clone, Debug)]
struct Meter {
    reading: u64,
    /// Limits in force, each from an instant on; the first is from before anything that is still to
    /// be reported.
    limits: Vec<(Instant, u64)>,
}

impl Meter {
    fn new() -> Self {
        Self { reading: 0, limits: vec![(Instant::ZERO, u64::MAX)] }
    }
    fn now(&self) -> u64 {
        self.limits.last().map_or(u64::MAX, |limit| limit.1)
    }
    fn set(&mut self, now: Instant, limit: u64) {
        if self.now() != limit {
            self.limits.retain(|(from, _)| *from != now);
            self.limits.push((now, limit));
        }
    }
    /// The furthest limit in force between two instants.
    fn furthest(&self, from: Instant, to: Instant) -> u64 {
        let ends = self.limits.iter().skip(1).map(|limit| limit.0).chain([Instant::NEVER]);
        let spans = self.limits.iter().zip(ends).filter(|(limit, end)| limit.0 < to && *end > from);
        spans.map(|(limit, _)| limit.1).max().unwrap_or(u64::MAX)
    }
    /// Nothing before `to` is asked for any more.
    fn forget(&mut self, to: Instant) {
        while self.limits.len() > 1 && self.limits[1].0 <= to {
            self.limits.remove(0);
        }
    }
}

/// One core.
#[derive(Clone, Debug)]
struct Core {
    meter: Meter,
    requests: u64,
    /// The allowance that was reported as spent and has not been raised since.
    reported: Option<u64>,
    /// Since when it is closed.
    closed: Option<Instant>,
    /// Requests that samples reported.
    sampled: u64,
}

/// One VCPU.
#[derive(Clone, Debug)]
struct Known {
    meter: Meter,
    used: Usage,
    completed: u64,
    carries: bool,
}

/// Checks counters, memory meters, limits, allowances and samples; keeps the first thing that is
/// wrong.
#[derive(Clone, Debug)]
pub struct MemoryAudit<'a> {
    memory: Option<&'a Memory>,
    programs: &'a [Program],
    /// How fast programs that touch no memory progress, by program.
    paces: &'a [Option<Pace>],
    /// Cores of uneven speed, and programs with paces, count instructions without a memory too.
    even: bool,
    ns: u64,
    cores: Vec<Core>,
    known: Vec<Known>,
    sampled: u64,
    wrong: Option<String>,
}

impl<'a> MemoryAudit<'a> {
    /// An auditor of a run of this.
    #[must_use]
    pub fn new(subject: &Subject<'a>) -> Self {
        let Subject { system, programs, memory, paces, .. } = *subject;
        let count = system.vcpus.iter().map(|vcpu| vcpu.id.0 as usize + 1).max().unwrap_or(0);
        let core =
            Core { meter: Meter::new(), requests: 0, reported: None, closed: None, sampled: 0 };
        let known =
            Known { meter: Meter::new(), used: Usage::default(), completed: 0, carries: false };
        let mut known = vec![known; count];
        for vcpu in &system.vcpus {
            known[vcpu.id.0 as usize].carries =
                matches!(vcpu.role, Role::Monitor | Role::Migration);
        }
        let (ns, cores) = (system.ticks_per_ns, vec![core; system.cores.len()]);
        let even = system.is_even() && paces.iter().all(Option::is_none);
        Self { memory, programs, paces, even, ns, cores, known, sampled: 0, wrong: None }
    }

    /// The verdict on the whole run.
    ///
    /// # Errors
    /// The first thing that was wrong.
    pub fn verdict(mut self, outcome: &Outcome) -> Result<(), String> {
        for id in 0..self.known.len() as u32 {
            self.check_vcpu(VcpuId(id));
        }
        match (&outcome.memory, self.memory) {
            (Some(totals), Some(memory)) => {
                let cores: Vec<u64> = self.cores.iter().map(|core| core.requests).collect();
                let sum: u64 = cores.iter().sum();
                let reads: u64 = self.known.iter().map(|known| known.used.reads).sum();
                let devices = !memory.devices.is_empty();
                self.must(cores == totals.by_core, || {
                    format!("segments sum up to {cores:?} requests, controller: {totals:?}")
                });
                self.must(totals.reads + totals.writes == totals.requests, || {
                    format!("{totals:?} do not sum up")
                });
                let whole = |all, part| if devices { all >= part } else { all == part };
                self.must(whole(totals.requests, sum) && whole(totals.reads, reads), || {
                    format!("{reads} reads, {sum} requests in segments, controller: {totals:?}")
                });
                let end = outcome.end - Instant::ZERO;
                self.check_bus(memory, totals.requests, end);
                let sampled: Vec<u64> = self.cores.iter().map(|core| core.sampled).collect();
                let more = sampled.iter().zip(&cores).any(|(sampled, all)| sampled > all);
                let all = self.sampled;
                self.must(!more && all <= totals.requests, || {
                    format!("samples reported {sampled:?} and {all}, {totals:?}")
                });
            }
            (None, None) => {
                let counted = self.known.iter().any(|known| {
                    let Usage { service, instructions, .. } = known.used;
                    let instructions = if self.even { 0 } else { instructions };
                    known.used != Usage { service, instructions, ..Usage::default() }
                });
                self.must(!counted, || "counters move without a memory".into());
            }
            (totals, _) => self.must(false, || format!("memory totals: {totals:?}")),
        }
        self.wrong.map_or(Ok(()), Err)
    }

    fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.wrong.is_none() {
            self.wrong = Some(what());
        }
    }

    /// No more run queues go over the bus than there is time for.
    fn check_bus(&mut self, memory: &Memory, requests: u64, time: Duration) {
        let dram = &memory.dram;
        let busy = u128::from(requests) * u128::from(dram.burst_ps());
        let time_ps = u128::from(time.ticks()) * 1_000 / u128::from(self.ns);
        let room = time_ps * u128::from(dram.channels) + 100_000;
        self.must(busy <= room, || {
            let bytes = requests * LINE_BYTES;
            format!("{bytes} bytes in {time} take the bus {busy} ps of {room}")
        });
    }

    /// Each request stands in the queue for as long as it is on the bus, at least. What comes just
    /// before a sample stands there after it.
    fn check_queue(&mut self, at: Instant, sample: &Sample, memory: &Memory) {
        let requestors = self.cores.len() + memory.devices.len();
        let queued = u128::from(sample.requests).saturating_sub(16 * requestors as u128);
        let least = queued * u128::from(memory.dram.burst_ps());
        let stood = u128::from(sample.occupancy + 1) * 1_000_000;
        self.must(least * u128::from(memory.cycles_per_us) <= stood, || {
            format!("requests are on the bus for {least} ps, and yet {sample:?} at {at}")
        });
    }

    /// At most so many instructions a second does a program that touches no memory: by its pace, or
    /// one in a nanosecond on the fastest of uneven cores.
    fn ips(&self, program: usize) -> u128 {
        let pace = self.paces.get(program).and_then(Option::as_ref);
        let phases = pace.map(|pace| pace.phases.iter().flat_map(|phase| &phase.ips));
        let nominal = if self.even { 0 } else { 1_000_000_000 };
        u128::from(phases.map_or(nominal, |ips| ips.copied().max().unwrap_or(0)))
    }

    /// What a VCPU used against what its programs can: progress never exceeds time.
    fn check_vcpu(&mut self, vcpu: VcpuId) {
        let Known { used, completed, .. } = self.known[vcpu.0 as usize].clone();
        let own: Vec<usize> =
            (0..self.programs.len()).filter(|at| self.programs[*at].vcpu == vcpu).collect();
        if let [only] = own[..]
            && let Workload::Periodic { cost: Cost::Fixed(cost) } = self.programs[only].workload
        {
            self.must(used.service >= cost * completed, || {
                format!("{vcpu} did {completed} jobs of {cost} in {}", used.service)
            });
        }
        let Some(memory) = self.memory else { return };
        let of = |at: &usize| memory.programs.get(*at).and_then(Option::as_ref);
        let profiles: Vec<&Profile> = own.iter().filter_map(of).collect();
        let uses = || profiles.iter().flat_map(|profile| &profile.phases).map(|phase| &phase.1);
        let slack = profiles.len() as u128;
        let time_ps = u128::from(used.service.ticks()) * 1_000 / u128::from(self.ns);
        let (references, reads) = (u128::from(used.references), u128::from(used.reads));
        let least = |of: fn(&maracas_core::memory::MemoryUse) -> u64| {
            u128::from(uses().map(of).min().unwrap_or(0))
        };
        let most = |of: fn(&maracas_core::memory::MemoryUse) -> u64| {
            u128::from(uses().map(of).max().unwrap_or(0))
        };
        let think = least(|use_| use_.think_ps);
        let (few, many) = (least(|use_| use_.instructions_milli), most(|u| u.instructions_milli));
        let writebacks = most(|use_| use_.writebacks_milli);
        let milli = |count: u64| u128::from(count) * 1_000;
        let others = own.iter().filter(|at| of(at).is_none());
        let others = others.map(|at| time_ps * self.ips(*at) / 1_000_000_000 + 1_000).max();
        let others = others.unwrap_or(0);
        // A count lags behind by less than one a program, and a rate errs by 2^-49 a tick.
        let holds = references.saturating_sub(slack) * think <= time_ps + time_ps / 1_000_000_000
            && milli(used.instructions) <= (references + slack) * many + slack + others
            && references.saturating_sub(slack) * few <= milli(used.instructions) + slack * 1_000
            && milli(used.writes) <= (reads + slack) * writebacks + slack;
        self.must(holds, || format!("{vcpu} did {used:?} with {:?}", uses().collect::<Vec<_>>()));
    }

    fn ran(&mut self, segment: &Segment) {
        let Segment { vcpu, core, from, to, usage, end, .. } = *segment;
        let own = &mut self.cores[core.0 as usize];
        own.meter.reading += usage.metered();
        own.requests += usage.reads + usage.writes;
        let (meter, allowance) = (own.meter.reading, own.meter.furthest(from, to));
        let closed = own.closed.filter(|closed| *closed <= from);
        own.meter.forget(to);
        self.must(closed.is_none(), || {
            format!("{core} is closed since {closed:?}, yet {segment:?}")
        });
        self.must(usage.metered() == 0 || meter <= allowance, || {
            format!("{core} read up to {meter} of {allowance}: {segment:?}")
        });
        let known = &mut self.known[vcpu.0 as usize];
        known.used.add(&usage);
        known.meter.reading += usage.metered();
        let (meter, limit, last) =
            (known.meter.reading, known.meter.furthest(from, to), known.meter.now());
        known.meter.forget(to);
        let (used, carries) = (known.used, known.carries);
        self.must(usage.metered() == 0 || meter <= limit, || {
            format!("{vcpu} read up to {meter} of {limit}: {segment:?}")
        });
        self.must(end != End::MemorySpent || meter >= last, || {
            format!("{segment:?} ended at {meter} of {last}")
        });
        // Hits are what is left.
        self.must(used.reads <= used.references, || format!("{vcpu} missed more than it asked"));
        let silent = usage == Usage { service: usage.service, ..Usage::default() };
        self.must(!carries || silent, || format!("a service request used memory: {segment:?}"));
    }

    fn spent(&mut self, at: Instant, core: CoreId) {
        let own = &mut self.cores[core.0 as usize];
        let (meter, allowance, reported) = (own.meter.reading, own.meter.now(), own.reported);
        own.reported = Some(allowance);
        own.closed = own.closed.or(Some(at));
        self.must(meter >= allowance && reported != Some(allowance), || {
            format!("at {at} {core} read {meter} of {allowance}, reported {reported:?}")
        });
    }
}

impl Observer for MemoryAudit<'_> {
    fn event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Ran(segment) => self.ran(segment),
            Event::AllowanceSpent { core } => self.spent(at, *core),
            Event::Completed(id) => self.known[id.vcpu.0 as usize].completed += 1,
            Event::Sampled(sample) => {
                self.sampled += sample.requests;
                for (core, requests) in self.cores.iter_mut().zip(&sample.by_core) {
                    core.sampled += requests;
                }
                let devices = self.memory.is_some_and(|memory| !memory.devices.is_empty());
                let (all, cores) = (sample.requests, sample.by_cores());
                self.must(if devices { all >= cores } else { all == cores }, || {
                    format!("{sample:?} at {at}")
                });
                if let Some(memory) = self.memory {
                    self.check_queue(at, sample, memory);
                }
            }
            Event::Released(_)
            | Event::Woke { .. }
            | Event::Arrived(_)
            | Event::Left(_)
            | Event::Changed(_)
            | Event::Utilized { .. }
            | Event::ServiceDone(_)
            | Event::Failed { .. } => {}
        }
    }

    fn planned(&mut self, now: Instant, plan: &Plan) {
        for id in 0..self.cores.len() {
            let (core, run_queue) = (CoreId(id as u16), plan.run_queue(CoreId(id as u16)));
            let own = &mut self.cores[id];
            let (meter, before, reported) = (own.meter.reading, own.meter.now(), own.reported);
            own.meter.set(now, run_queue.allowance.0);
            if !run_queue.allowance.is_reached(meter) {
                (own.reported, own.closed) = (None, None);
            }
            self.must(meter < before || before == u64::MAX || reported == Some(before), || {
                format!("at {now} it was not reported that {core} read {meter} of {before}")
            });
        }
        for core in plan.dirty().iter() {
            let run_queue = plan.run_queue(core);
            for grant in run_queue.foreground.iter().chain(&run_queue.background) {
                let lists = run_queue.foreground.iter().chain(&run_queue.background);
                let limits =
                    lists.filter(|other| other.vcpu == grant.vcpu).map(|other| other.memory);
                if let Some(known) = self.known.get_mut(grant.vcpu.0 as usize) {
                    known.meter.set(now, limits.max().unwrap_or(MemoryLimit::NEVER).0);
                }
            }
        }
    }
}
