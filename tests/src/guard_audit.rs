//! An observer that holds MemGuard to its invariants (algorithms.md D.7), found from events and
//! plans alone, where decisions come on time.

use crate::follow::Followed;
use maracas_core::contract::{Entry, MemoryLimit, Observer};
use maracas_core::dispatch::next;
use maracas_core::memory::LINE_BYTES;
use maracas_core::params::{Params, parse_bandwidth};
use maracas_core::{CoreId, Duration, Event, Instant, Plan, System};

/// One regulated core.
#[derive(Clone, Copy, Debug)]
struct Core {
    /// Q: its budget in a period, which may rise where budgets follow the utilization.
    quota: u64,
    /// Q as it was promised.
    promised: u64,
    /// Whether it donates and reclaims.
    soft: bool,
    /// Its meter now, and when the period began.
    meter: u64,
    base: u64,
    /// q: what the plan lets it use; `None` = as much as it likes.
    allotted: Option<u64>,
    /// Whether the last plan left it closed.
    throttled: bool,
}

impl Core {
    const fn used(&self) -> u64 {
        self.meter - self.base
    }
    fn has_used_up(&self) -> bool {
        self.used() >= self.quota && self.allotted.is_some_and(|allotted| self.used() >= allotted)
    }
}

/// What the end of the spare bandwidth is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Spare {
    Off,
    Share,
    Proportional,
}

/// Checks every event and plan of a run of `memguard+...`; keeps the first thing that is wrong.
#[derive(Clone, Debug)]
pub struct GuardAudit {
    cores: Vec<Option<Core>>,
    period: Duration,
    spare: Spare,
    q_min: u64,
    /// Whether budgets follow the utilization of the memory controller.
    follows: bool,
    next: Instant,
    /// G: donated and not reclaimed.
    pool: u64,
    /// A core donated too much and got it back all the same.
    underrun: bool,
    followed: Followed,
    /// By VCPU that has a budget of its own: that, the number of the period, and its reads there.
    vcpus: Vec<Option<(u64, u64, u64)>>,
    wrong: Option<String>,
}

/// The parameters of a policy, by name.
struct Given<'a>(&'a Entry, &'a Params, usize);

impl Given<'_> {
    fn word(&self, name: &str) -> String {
        let spec = self.0.params.iter().find(|spec| spec.name == name);
        spec.map_or_else(String::new, |spec| self.1.choice(spec).to_owned())
    }
    /// A list of one item for each core.
    fn each(&self, name: &str) -> Vec<String> {
        let spec = self.0.params.iter().find(|spec| spec.name == name);
        let items = spec.map(|spec| self.1.list(spec)).unwrap_or_default();
        if items.len() == 1 { vec![items[0].clone(); self.2] } else { items }
    }
}

impl GuardAudit {
    /// An auditor of a run of `entry`, whose parameters `build` accepted; `None` where it reserves
    /// nothing.
    #[must_use]
    pub fn new(entry: &Entry, params: &Params, system: &System) -> Option<Self> {
        let given = Given(entry, params, system.cores.len());
        let spec = |name| entry.params.iter().find(|spec| spec.name == name);
        let period = params.time(spec("period")?)?;
        let requests = |bandwidth: u64| {
            let bytes = u128::from(bandwidth) * u128::from(period.ticks());
            (bytes / (u128::from(LINE_BYTES) * 1_000_000_000)) as u64
        };
        let bytes = |text: &String| parse_bandwidth(text).unwrap_or(0);
        let weights: Vec<u64> =
            given.each("weights").iter().map(|weight| weight.parse().unwrap_or(0)).collect();
        let all: u64 = weights.iter().sum();
        let r_min = given.each("r_min").first().map_or(0, bytes);
        let share = |weight: &u64| u128::from(r_min) * u128::from(*weight) / u128::from(all.max(1));
        let mut bandwidths: Vec<u64> = given.each("bandwidth").iter().map(bytes).collect();
        if bandwidths.is_empty() {
            bandwidths = weights.iter().map(|weight| share(weight) as u64).collect();
        }
        bandwidths.resize(system.cores.len(), 0);
        let (kinds, reclaim) = (given.each("reservation"), params.flag(spec("reclaim")?));
        let follows = given.word("regulate") == "utilization";
        let core = |(at, bandwidth): (usize, &u64)| {
            let (quota, hard) = (requests(*bandwidth), kinds.get(at).is_some_and(|k| k == "hard"));
            let soft = reclaim && !hard && !follows;
            let (meter, base, allotted, throttled) = (0, 0, None, false);
            let promised = quota;
            let fresh = Core { quota, promised, soft, meter, base, allotted, throttled };
            (*bandwidth > 0).then_some(fresh)
        };
        let count = system.vcpus.iter().map(|vcpu| vcpu.id.0 as usize + 1).max().unwrap_or(0);
        let mut vcpus = vec![None; count];
        for vcpu in &system.vcpus {
            let quota = vcpu.bandwidth.map(|bandwidth| requests(bandwidth.get()).max(1));
            vcpus[vcpu.id.0 as usize] = quota.map(|quota| (quota, 0, 0));
        }
        let cores: Vec<_> = bandwidths.iter().enumerate().map(core).collect();
        if cores.iter().all(Option::is_none) && vcpus.iter().all(Option::is_none) {
            return None;
        }
        Some(Self {
            cores,
            period: period * system.ticks_per_ns,
            spare: match given.word("spare").as_str() {
                "share" => Spare::Share,
                "proportional" => Spare::Proportional,
                _ => Spare::Off,
            },
            q_min: params.whole(spec("q_min")?),
            follows,
            next: Instant::ZERO,
            pool: 0,
            underrun: false,
            followed: Followed::default(),
            vcpus,
            wrong: None,
        })
    }

    /// The verdict on the whole run.
    ///
    /// # Errors
    /// The first thing that was wrong.
    pub fn verdict(self) -> Result<(), String> {
        self.wrong.map_or(Ok(()), Err)
    }

    fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.wrong.is_none() {
            self.wrong = Some(what());
        }
    }

    fn regulated(&self) -> impl Iterator<Item = (CoreId, &Core)> {
        (0..).map(CoreId).zip(&self.cores).filter_map(|(id, core)| Some((id, core.as_ref()?)))
    }

    /// A period ends: no VCPU used more than it was allotted, nor all together more than all had.
    fn end_period(&mut self, now: Instant) {
        let (cores, pool) = (self.cores.clone(), self.pool);
        let sharing = self.regulated().any(|(_, core)| core.allotted.is_none());
        let (mut used, mut quotas) = (0, 0);
        for (id, core) in cores.iter().enumerate() {
            let Some(core) = core else { continue };
            (used, quotas) = (used + core.used(), quotas + core.quota);
            let within = core.allotted.is_none_or(|allotted| core.used() <= allotted);
            // D.7, 1: without reclaim q is Q.
            let hard = core.soft || core.allotted.is_none_or(|allotted| allotted == core.quota);
            self.must(within && hard, || format!("core{id} at {now}: {core:?}"));
        }
        // D.7, 2.
        let (underrun, first) = (self.underrun, now == Instant::ZERO);
        self.must(sharing || underrun || first || used <= quotas, || {
            format!("at {now} {used} of {quotas} were used, pool {pool}: {cores:?}")
        });
    }

    /// A period begins: what a core does not get is donated.
    fn begin_period(&mut self, now: Instant, plan: &Plan) {
        (self.pool, self.underrun) = (0, false);
        for id in 0..self.cores.len() {
            let allowance = plan.run_queue(CoreId(id as u16)).allowance;
            let Some(core) = &mut self.cores[id] else { continue };
            core.base = core.meter;
            let bounded = Some(allowance).filter(|it| *it != MemoryLimit::NEVER);
            core.allotted = bounded.and_then(|it| it.0.checked_sub(core.base));
            let allotted = core.allotted.unwrap_or(0);
            if self.follows {
                core.quota = core.promised.max(allotted);
            }
            let core = *core;
            self.pool += core.quota.saturating_sub(allotted);
            let least = if core.soft { 1.min(core.quota) } else { core.quota };
            self.must((least..=core.quota).contains(&allotted), || {
                format!("core{id} begins its period at {now} with {core:?}")
            });
        }
    }

    /// Whether all active cores are throttled, one of them at least, when those that used what
    /// they were allotted have taken from the pool what they can.
    fn spare_is_due(&self, now: Instant, plan: &Plan) -> bool {
        let idle = |core: CoreId| next(plan.run_queue(core), now, 0, &self.followed).is_none();
        let (mut pool, mut throttled, mut others) = (self.pool, 0, 0);
        for (id, core) in self.regulated() {
            let closed = core.has_used_up() && (core.throttled || !core.soft || pool == 0);
            if closed {
                throttled += 1;
                continue;
            }
            if core.soft && core.allotted.is_some_and(|allotted| core.used() >= allotted) {
                let wanted = if core.used() < core.quota {
                    core.quota - core.allotted.unwrap_or(0)
                } else {
                    self.q_min
                };
                pool -= wanted.min(pool);
            }
            others += u32::from(!idle(id));
        }
        // A core without a reservation never uses one up: while it is active nothing is to spare.
        let free = (0..).map(CoreId).zip(&self.cores).filter(|(_, core)| core.is_none());
        others += free.filter(|(id, _)| !idle(*id)).count() as u32;
        throttled > 0 && others == 0
    }

    /// Within a period an allotment grows by what is in the pool, or to Q where that is empty
    /// (underrun); and only where it is used up.
    fn regulate(&mut self, now: Instant, plan: &Plan) {
        for id in 0..self.cores.len() {
            let allowance = plan.run_queue(CoreId(id as u16)).allowance;
            let Some(core) = self.cores[id] else { continue };
            let (Some(before), false) = (core.allotted, allowance == MemoryLimit::NEVER) else {
                continue;
            };
            let allotted = allowance.0.saturating_sub(core.base);
            if allotted == before {
                continue;
            }
            let more = allotted.saturating_sub(before);
            let (pool, used, Core { quota, soft, .. }) = (self.pool, core.used(), core);
            let reclaimed = soft
                && more <= pool
                && more > 0
                && if used < quota { allotted <= quota } else { more <= self.q_min };
            let underrun = soft && pool == 0 && used < quota && allotted == quota;
            self.must(used >= before && (reclaimed || underrun), || {
                format!("core{id} at {now} gets {allotted}, pool {pool}: {core:?}")
            });
            if reclaimed {
                self.pool -= more;
            }
            self.underrun |= underrun;
            self.cores[id] = Some(Core { allotted: Some(allotted), ..core });
        }
    }

    /// What is closed now has used its budget (D.7, 3), and no other VCPU is closed.
    fn check_closed(&mut self, now: Instant, plan: &Plan) {
        for id in 0..self.cores.len() {
            let core = CoreId(id as u16);
            let allowance = plan.run_queue(core).allowance;
            let right = match &self.cores[id] {
                None => allowance == MemoryLimit::NEVER,
                Some(core) => !allowance.is_reached(core.meter) || core.used() >= core.quota,
            };
            if let Some(core) = &mut self.cores[id] {
                core.throttled = allowance.is_reached(core.meter);
            }
            let state = self.cores[id];
            self.must(right, || format!("{core} has allowance {allowance:?} at {now}: {state:?}"));
        }
    }
}

impl Observer for GuardAudit {
    fn event(&mut self, _: Instant, event: &Event) {
        self.followed.event(event);
        let Event::Ran(segment) = event else { return };
        if let Some(core) = &mut self.cores[usize::from(segment.core.0)] {
            core.meter += segment.usage.metered();
        }
        let period = self.period.ticks();
        let Some(Some((quota, number, reads))) = self.vcpus.get_mut(segment.vcpu.0 as usize) else {
            return;
        };
        let now = segment.from.ticks() / period;
        if *number != now {
            (*number, *reads) = (now, 0);
        }
        *reads += segment.usage.metered();
        let (quota, reads) = (*quota, *reads);
        let cut = segment.to.ticks() <= (now + 1) * period;
        self.must(cut && reads <= quota, || {
            format!("{} read {reads} of {quota} in period {now}: {segment:?}", segment.vcpu)
        });
    }

    fn planned(&mut self, now: Instant, plan: &Plan) {
        if self.regulated().next().is_none() {
            return;
        }
        let share =
            self.regulated().all(|(id, _)| plan.run_queue(id).allowance == MemoryLimit::NEVER);
        let due = self.spare_is_due(now, plan);
        if now >= self.next || self.spare == Spare::Proportional && due {
            self.end_period(now);
            self.next = now + self.period;
            self.begin_period(now, plan);
        } else if share {
            let begins = self.regulated().any(|(_, core)| core.allotted.is_some());
            // D.7, 5.
            self.must(!begins || self.spare == Spare::Share && due, || {
                format!("nothing is regulated from {now} on, while some core has budget left")
            });
            self.cores.iter_mut().flatten().for_each(|core| core.allotted = None);
        } else {
            self.must(self.spare != Spare::Share || !due, || {
                format!("all budgets are used at {now}, yet cores stay closed")
            });
            let shared = self.regulated().any(|(_, core)| core.allotted.is_none());
            self.must(!shared, || format!("sharing ended at {now}, before the period did"));
            self.regulate(now, plan);
        }
        self.check_closed(now, plan);
    }
}
