//! Memory-aware scheduling: while the bus is contended, some cores get no surplus time (MARACAS,
//! section IV, Algorithm 1).
//!
//! MONITOR reads the memory counters every MEM_PERIOD. The latency of a request, occupancy /
//! requests, decides whether one core more is throttled; the traffic, against the most seen since
//! throttling began, whether one less. IS_BG_SCHED says which: surplus time, weighted by a core's
//! memory requests, runs as a virtual time v, and the n - k cores with the least of it may use
//! more. Foreground is never throttled. n = cores, k = `num_throttle`.
//!
//! For given weights the shares of surplus time tend to min(1, y / m_i), with y such that they sum
//! to n - k. But m_i is counted while core i is throttled, as printed, and a core that ran less
//! weighs less next time: from period to period the shares swing about y / sqrt(r_i), with r_i its
//! requests per time that it runs.
//!
//! # Where we differ from the printed lines
//! `published = true` selects the printed text in rows 1, 2 and 7.
//!
//! | # | printed | problem | here | in |
//! |---|---|---|---|---|
//! | 1 | counts `v[cpu] <= v[self]` | all v are 0 first: none runs | (v, turn) | `not_bg_sched` |
//! | 2 | `else if` of line 12 | lowers k = n at high latency | never then | `monitor` |
//! | 3 | sets no `R_high` | text: most R since k = 0 | set by k++, max, clear | `monitor` |
//! | 4 | `occ / req`, `m / R_cur` | idle bus: divides by zero | 0; equal | `calc_weights` |
//! | 5 | m = 0 has weight 0 | always among the n - k | as printed | `calc_weights` |
//! | 6 | R falls by throttling | k may swing | `idle_mem`, `hold`, count | `step_up` |
//! | 7 | asked at entry only | the order changes later | every tick too | `close`, `tick` |
//! | 8 | one step each 2 s | all n cores take 2n s | `mem_period` | `order` |
//! | 9 | any number of requests | few are noise | `min_requests` | `is_contended` |
//! | 10 | section I: rate threshold | another end than line 21 | line 21 | `is_less_traffic` |
//! | 11 | uncore events | do not know cores | m of the cores' counters | `monitor` |
//! | 12 | "a dedicated VCPU" | which, where? | core 0, above RM order | `service_vcpu` |
//! | 13 | a newcomer's BGT | from 0 it takes all surplus | its core's least | `seed_newcomers` |
//! | 14 | counts of a MEM_PERIOD | a sample is late, or none came | scaled to one | `monitor` |

use super::time;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use maracas_core::admission::Objection;
use maracas_core::contract::{Mode, Refused, Sample, Segment, Statistic};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{CoreId, CoreSet, Duration, Event, Instant, Rate, Role, System, Vcpu, VcpuId};

pub(super) const THROTTLE: ParamSpec = ParamSpec {
    name: "throttle",
    kind: Kind::Choice(&["off", "watch", "latency", "rate"]),
    help: "what makes cores lose their surplus time (MARACAS, Algorithm 1): off = nothing, watch = \
           nothing, but memory is sampled for the report, latency = requests that wait \
           max_latency, rate = max_requests of the cores in a mem_period",
};

pub(super) const MAX_LATENCY: ParamSpec = ParamSpec {
    name: "max_latency",
    kind: Kind::Whole(180, 1, 1_000_000),
    help: "MAX_MEM_LAT: mean cycles that a memory request waits from which on cores are \
           throttled; 180 is the paper's in the canny experiment (section VI)",
};

pub(super) const MAX_REQUESTS: ParamSpec = ParamSpec {
    name: "max_requests",
    kind: Kind::Whole(0, 0, 1_000_000_000_000),
    help: "memory requests of all cores in a mem_period from which on cores are throttled, for \
           throttle = rate; devices are not seen (MARACAS, section VI: Table II gives it as \
           traffic)",
};

pub(super) const MEM_PERIOD: ParamSpec = ParamSpec {
    name: "mem_period",
    kind: Kind::Time("2s"),
    help: "MEM_PERIOD: how often memory is sampled; 2s is the paper's trade-off (section VI)",
};

pub(super) const IDLE_MEM: ParamSpec = ParamSpec {
    name: "idle_mem",
    kind: Kind::Fraction(1, 2),
    help: "IDLE_MEM: share of the most traffic since throttling began at which one core less is \
           throttled, 0 to 1; the paper names no value, 1/2 is ours",
};

pub(super) const MIN_REQUESTS: ParamSpec = ParamSpec {
    name: "min_requests",
    kind: Kind::Whole(0, 0, 1_000_000_000_000),
    help: "requests in a mem_period below which their latency does not count; 0 is the paper's",
};

pub(super) const HOLD: ParamSpec = ParamSpec {
    name: "hold",
    kind: Kind::Whole(0, 0, 1_000_000),
    help: "periods in a row that must have had little traffic before one core less is throttled; \
           0 is the paper's",
};

pub(super) const MONITOR_BUDGET: ParamSpec = ParamSpec {
    name: "monitor_budget",
    kind: Kind::Time("50us"),
    help: "C of the VCPU that samples memory, every half mem_period, on core 0; what a sample \
           costs must fit. 50us is ours, several times what reading a dozen counters takes",
};

pub(super) const PUBLISHED: ParamSpec = ParamSpec {
    name: "published",
    kind: Kind::Flag(false),
    help: "true = Algorithm 1 as printed, ties and all: it throttles every core as soon as it \
           throttles one",
};

/// How often IS_BG_SCHED is asked again: a tick of 1 ms, ours; the paper asks at entry only. Shares
/// of a MEM_PERIOD of 2 s come out within a thousandth.
const TICK: Duration = Duration::from_millis(1);

/// What is wrong with the parameters, or missing in the system for them.
pub(super) fn objections(system: &System, params: &Params) -> Vec<Objection> {
    let mut objections = Vec::new();
    let mut object = |spec: &ParamSpec, why: String| {
        objections.push(Objection::to(spec.name, why));
    };
    let word = params.choice(&THROTTLE);
    if word == "off" {
        return Vec::new();
    }
    let budget = params.time(&MONITOR_BUDGET).unwrap_or_default();
    let period = params.time(&MEM_PERIOD).unwrap_or_default();
    if period.is_zero() {
        object(&MEM_PERIOD, "is 0; give a time above 0, such as \"2s\"".into());
    } else if budget.is_zero() {
        object(&MONITOR_BUDGET, "is 0; give a time above 0, such as \"50us\"".into());
    } else if budget > half(period) {
        let why = format!("is {budget}, more than half of mem_period = {period}; lower it");
        object(&MONITOR_BUDGET, why);
    }
    if params.fraction(&IDLE_MEM) > Rate::ONE {
        let idle_mem = params.fraction(&IDLE_MEM);
        object(&IDLE_MEM, format!("is {idle_mem}; give a fraction from 0 to 1"));
    }
    if word == "rate" && params.whole(&MAX_REQUESTS) == 0 {
        let why = "= rate needs max_requests above 0: requests of all cores in a mem_period";
        object(&THROTTLE, why.into());
    }
    if system.vcpus.iter().all(|vcpu| vcpu.role != Role::Monitor) {
        let why = format!(
            "= {word} needs a VCPU of role monitor to carry the samples; add the \
 policy's service VCPUs \
             to the system, or set throttle = off"
        );
        object(&THROTTLE, why);
    }
    objections
}

/// Row 12: the VCPU whose time MONITOR takes, on core 0, above the RM order, never in background.
/// Its period is half of MEM_PERIOD, so that what a sample used is back before the next one even
/// where a decision came late.
pub(super) fn service_vcpu(system: &System, params: &Params, id: VcpuId) -> Option<Vcpu> {
    if params.choice(&THROTTLE) == "off" {
        return None;
    }
    let budget = time(system, params, &MONITOR_BUDGET).unwrap_or_default();
    let period = half(time(system, params, &MEM_PERIOD).unwrap_or_default());
    let vcpu = Vcpu::new(id.0, budget, period);
    Some(Vcpu { role: Role::Monitor, pinned: Some(CoreId(0)), ..vcpu })
}

const fn half(period: Duration) -> Duration {
    Duration::from_ticks(period.ticks() / 2)
}

/// MONITOR's instants and answers: when memory is sampled, and which sample counts.
#[derive(Debug)]
pub(super) struct Monitor {
    service_vcpu: VcpuId,
    period: Duration,
    /// The next k * MEM_PERIOD, nominal.
    next: Instant,
    /// When the last sample came.
    sampled: Instant,
    /// Whether the last order is unanswered.
    waiting: bool,
    samples: u64,
    failed: u64,
    throttle: Throttle,
}

impl Monitor {
    /// `None` where nothing is sampled. The parameters met no objection.
    pub(super) fn chosen(system: &System, params: &Params) -> Option<Self> {
        let metric = match params.choice(&THROTTLE) {
            "watch" => Metric::None,
            "latency" => Metric::Latency(params.whole(&MAX_LATENCY)),
            "rate" => Metric::Rate(params.whole(&MAX_REQUESTS)),
            _ => return None,
        };
        let service_vcpu = system.vcpus.iter().find(|vcpu| vcpu.role == Role::Monitor)?.id;
        let period = time(system, params, &MEM_PERIOD)?;
        Some(Self {
            service_vcpu,
            period,
            next: Instant::ZERO.saturating_add(period),
            sampled: Instant::ZERO,
            waiting: false,
            samples: 0,
            failed: 0,
            throttle: Throttle {
                min_requests: params.whole(&MIN_REQUESTS),
                hold: params.whole(&HOLD),
                published: params.flag(&PUBLISHED),
                tick: TICK * system.ticks_per_ns,
                ..Throttle::new(metric, params.fraction(&IDLE_MEM), system.cores.len())
            },
        })
    }

    /// When the next sample is due.
    pub(super) const fn next(&self) -> Instant {
        self.next
    }

    /// Which VCPU to send for a sample now: once for each k * MEM_PERIOD; those passed unasked, or
    /// while the last one is still on its way, are skipped.
    pub(super) fn order(&mut self, now: Instant) -> Option<VcpuId> {
        if now < self.next {
            return None;
        }
        let next = (now.ticks() / self.period.ticks() + 1).saturating_mul(self.period.ticks());
        self.next = Instant::from_ticks(next);
        let goes = !self.waiting;
        self.waiting = true;
        goes.then_some(self.service_vcpu)
    }

    /// Learns from the answers to orders, and from what ran in the background. An answer that no
    /// order waits for is a repeated one and changes nothing, nor does a failure.
    pub(super) fn on_event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Sampled(sample) if self.waiting => {
                self.waiting = false;
                self.samples += 1;
                // Row 14: after failures the counters hold more than one period, after a late
                // sample less.
                let elapsed = at.saturating_since(self.sampled).max(Duration::from_ticks(1));
                self.sampled = self.sampled.max(at);
                self.throttle.monitor(at, sample, Rate::of(self.period, elapsed));
            }
            Event::Failed { what: Refused::Sample, .. } if self.waiting => {
                self.waiting = false;
                self.failed += 1;
            }
            Event::Ran(segment) => self.throttle.ran(segment),
            Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::Failed { .. }
            | Event::Released(_)
            | Event::Completed(_)
            | Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Arrived(_)
            | Event::Left(_)
            | Event::Changed(_)
            | Event::ServiceDone(_) => {}
        }
    }

    /// Which cores are throttled while those in `background` are in background mode, and when to
    /// ask again with the meters of what runs.
    pub(super) fn close(&mut self, background: &CoreSet, now: Instant) -> (&CoreSet, Instant) {
        self.throttle.close(background);
        let tick = self.throttle.tick(now);
        (&self.throttle.closed, tick)
    }
    /// Whether the surplus time of `core` is withheld, as last decided.
    pub(super) const fn is_closed(&self, core: CoreId) -> bool {
        self.throttle.closed.contains(core)
    }

    /// What was counted.
    pub(super) fn statistics(&self) -> Vec<Statistic> {
        let throttle = &self.throttle;
        let statistics = [
            ("samples", self.samples),
            ("failed samples", self.failed),
            ("throttled cores", throttle.num_throttle as u64),
            ("throttled cores at most", throttle.most as u64),
            ("throttle steps up", throttle.ups),
            ("throttle steps down", throttle.downs),
            ("throttle oscillations", throttle.oscillations),
        ];
        statistics.map(|(name, value)| Statistic { name, core: None, vcpu: None, value }).into()
    }
}

fn scaled(count: u64, scale: Rate) -> u64 {
    let product = u128::from(count) * u128::from(scale.num()) / u128::from(scale.den());
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// What stands for contention.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Metric {
    /// Nothing: samples are for the report alone.
    None,
    /// Mean cycles that a request waits.
    Latency(u64),
    /// Requests of the cores in a MEM_PERIOD.
    Rate(u64),
}

/// Algorithm 1.
#[derive(Clone, Debug)]
struct Throttle {
    metric: Metric,
    idle_mem: Rate,
    min_requests: u64,
    hold: u64,
    published: bool,
    tick: Duration,
    /// k.
    num_throttle: usize,
    /// R_high: the largest R_cur since throttling began.
    r_high: u64,
    /// By core, m_i; the common divisor R_cur is left out, for only the order of v matters.
    mem_weight: Vec<u64>,
    /// By core, v_i: ticks of background times weight, since `cleared`.
    bg_vtime: Vec<u128>,
    cleared: Instant,
    /// Which core comes first among equals; moves on by one each MEM_PERIOD.
    turn: usize,
    /// Periods in a row with little traffic.
    calm: u64,
    /// Which cores are throttled, as last asked, and which were then in background mode.
    closed: CoreSet,
    background: CoreSet,
    /// Room for the cores in the order of v.
    order: Vec<(u128, usize, usize)>,
    /// Whether since then MONITOR came, or v moved.
    monitored: bool,
    ran: bool,
    most: usize,
    ups: u64,
    downs: u64,
    oscillations: u64,
    /// Whether the last step was down.
    fell: bool,
}

impl Throttle {
    fn new(metric: Metric, idle_mem: Rate, cores: usize) -> Self {
        Self {
            metric,
            idle_mem,
            min_requests: 0,
            hold: 0,
            published: false,
            tick: TICK,
            num_throttle: 0,
            r_high: 0,
            mem_weight: alloc::vec![0; cores],
            bg_vtime: alloc::vec![0; cores],
            cleared: Instant::ZERO,
            turn: 0,
            calm: 0,
            closed: CoreSet::EMPTY,
            background: CoreSet::EMPTY,
            order: Vec::new(),
            monitored: false,
            ran: false,
            most: 0,
            ups: 0,
            downs: 0,
            oscillations: 0,
            fell: false,
        }
    }
    const fn cores(&self) -> usize {
        self.bg_vtime.len()
    }

    /// MONITOR, with what was counted until `at`; `scale` times that makes a MEM_PERIOD.
    fn monitor(&mut self, at: Instant, sample: &Sample, scale: Rate) {
        // Algorithm 1, lines 2 and 3. Row 11: m_i is what core i's own counters saw.
        let m = |core: usize| sample.by_core.get(core).map_or(0, |m| scaled(*m, scale));
        for core in 0..self.cores() {
            self.mem_weight[core] = m(core);
        }
        let r_cur = self.mem_weight.iter().fold(0, |sum: u64, m| sum.saturating_add(*m));
        self.bg_vtime.fill(0);
        self.cleared = self.cleared.max(at);
        self.turn = (self.turn + 1) % self.cores();
        self.monitored = true;
        // Row 3: the largest R_cur since throttling began.
        if self.num_throttle > 0 {
            self.r_high = self.r_high.max(r_cur);
        }
        // Algorithm 1, lines 4 to 15. Row 2: high latency never lowers k. Row 8: one step a period.
        let contended = self.is_contended(sample, r_cur, scale);
        if contended && self.num_throttle < self.cores() {
            self.step_up(r_cur);
        } else if (self.published || !contended)
            && self.num_throttle > 0
            && self.is_less_traffic(r_cur)
        {
            self.calm += 1;
            // Row 6: traffic may be less only because we throttle.
            if self.calm > self.hold {
                self.step_down();
            }
        } else {
            self.calm = 0;
        }
        // Algorithm 1, lines 16 to 18.
        if self.num_throttle > 0 {
            self.calc_weights(r_cur);
        }
    }

    /// Whether the metric reaches its limit. Row 4: latency is 0 on an idle bus. Row 9: too few
    /// requests have none that counts.
    fn is_contended(&self, sample: &Sample, r_cur: u64, scale: Rate) -> bool {
        match self.metric {
            Metric::None => false,
            Metric::Latency(max) => {
                scaled(sample.requests, scale) >= self.min_requests && sample.latency_reaches(max)
            }
            Metric::Rate(max) => r_cur >= max,
        }
    }

    /// IS_LESS_TRAFFIC, lines 20 to 26: R_cur <= R_high IDLE_MEM. Row 10: no other threshold.
    fn is_less_traffic(&self, r_cur: u64) -> bool {
        let left = u128::from(r_cur) * u128::from(self.idle_mem.den());
        left <= u128::from(self.r_high) * u128::from(self.idle_mem.num())
    }

    /// CALC_WEIGHTS, lines 27 to 31: m_i / R_cur, of which m_i alone is kept. Row 4: equal where
    /// no VCPU uses memory. Row 5: a core that does not stays at v = 0, first in the order, and
    /// causes no traffic.
    fn calc_weights(&mut self, r_cur: u64) {
        if r_cur == 0 {
            self.mem_weight.fill(1);
        }
    }

    fn step_up(&mut self, r_cur: u64) {
        if self.num_throttle == 0 {
            self.r_high = r_cur;
        }
        self.num_throttle += 1;
        self.calm = 0;
        self.ups += 1;
        self.most = self.most.max(self.num_throttle);
        self.oscillations += u64::from(self.fell);
        self.fell = false;
    }
    fn step_down(&mut self) {
        self.num_throttle -= 1;
        self.calm = 0;
        self.downs += 1;
        self.fell = true;
        if self.num_throttle == 0 {
            self.r_high = 0;
        }
    }

    /// A segment in the background moves its core's v, by the part after v was cleared.
    fn ran(&mut self, segment: &Segment) {
        let core = segment.core.0 as usize;
        if segment.mode == Mode::Foreground || self.num_throttle == 0 || core >= self.cores() {
            return;
        }
        let elapsed = segment.usage.service.min(segment.to.saturating_since(self.cleared));
        let grown = u128::from(elapsed.ticks()) * u128::from(self.mem_weight[core]);
        self.bg_vtime[core] = self.bg_vtime[core].saturating_add(grown);
        self.ran = true;
    }

    /// IS_BG_SCHED, lines 32 to 52, asked for all cores: those that may not use surplus time. What
    /// one core may depends on the v of all, so this is linear in the cores.
    fn not_bg_sched(&mut self) -> CoreSet {
        let cores = self.cores();
        let ids = (0..cores as u16).map(CoreId);
        if self.num_throttle == 0 {
            return CoreSet::EMPTY;
        }
        if self.num_throttle >= cores {
            return ids.collect();
        }
        let most = cores - self.num_throttle;
        // Lines 42 and 43: which others go before a core. Row 1: of equals, what has the turn.
        if self.published {
            let mut sorted = self.bg_vtime.clone();
            sorted.sort_unstable();
            let others = |v: u128| sorted.partition_point(|other| *other <= v) - 1;
            return ids.filter(|core| others(self.bg_vtime[core.0 as usize]) >= most).collect();
        }
        let turn = |core: usize| (core + cores - self.turn) % cores;
        self.order.clear();
        self.order.extend((0..cores).map(|core| (self.bg_vtime[core], turn(core), core)));
        self.order.select_nth_unstable(most);
        self.order[most..].iter().map(|(_, _, core)| CoreId(*core as u16)).collect()
    }

    /// Asks IS_BG_SCHED; those in `background` are in background mode. Row 7: as printed a core
    /// asks when it enters that mode; we let all ask whenever the answer may be another. Once
    /// MONITOR has changed k and v, all ask in either case: else those that are in background mode
    /// just then would go on by k and v of the period before.
    fn close(&mut self, background: &CoreSet) {
        let entered = |core: &CoreId| !self.background.contains(*core);
        if self.monitored || self.ran && !self.published {
            self.closed = self.not_bg_sched();
        } else if self.published && background.iter().any(|core| entered(&core)) {
            let entered: CoreSet = background.iter().filter(entered).collect();
            let closed = self.not_bg_sched();
            for core in entered.iter() {
                self.closed.remove(core);
            }
            let kept = entered.iter().filter(|core| closed.contains(*core));
            kept.for_each(|core| self.closed.insert(core));
        }
        if self.background != *background {
            self.background = *background;
        }
        (self.monitored, self.ran) = (false, false);
    }

    /// When v must be looked at again, with what runs now: the next tick, where some core uses
    /// surplus time and some core is kept from it.
    fn tick(&self, now: Instant) -> Instant {
        let some = self.num_throttle > 0 && self.num_throttle < self.cores();
        let uses = self.background.iter().any(|core| !self.closed.contains(core));
        if self.published || !some || !uses {
            return Instant::NEVER;
        }
        let tick = self.tick.ticks();
        Instant::from_ticks((now.ticks() / tick + 1).saturating_mul(tick))
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
