//! An observer that holds MARACAS to the invariants of its two algorithms, found from events and
//! plans alone: what may use surplus time (Algorithm 1), and what moves where (Algorithm 2).

use crate::follow::Followed;
use maracas_core::contract::{Entry, Mode, Observer, Refused, Sample, Segment, ServiceRequest};
use maracas_core::dispatch::Readings;
use maracas_core::memory::CachePart;
use maracas_core::params::{Params, parse_fraction};
use maracas_core::{
    CoreId, Criticality, Duration, Event, Instant, Plan, Rate, Role, System, Vcpu, VcpuId,
};

/// Algorithm 1 once more, as short as it can be said: k, and the virtual times.
#[derive(Clone, Debug)]
struct Throttle {
    latency: Option<u64>,
    rate: Option<u64>,
    period: Duration,
    idle: Rate,
    min_requests: u64,
    hold: u64,
    k: usize,
    high: u64,
    calm: u64,
    /// By core.
    weights: Vec<u64>,
    vtimes: Vec<u128>,
    cleared: Instant,
    /// For which k * MEM_PERIOD a sample was last due, and when one last came.
    due: u64,
    came: Instant,
    waits: bool,
}

impl Throttle {
    fn new(entry: &Entry, params: &Params, cores: usize) -> Option<Self> {
        let spec = |name| entry.params.iter().find(|spec| spec.name == name);
        let whole = |name| spec(name).map_or(0, |spec| params.whole(spec));
        let word = params.choice(spec("throttle")?);
        if word == "off" || params.flag(spec("published")?) {
            return None;
        }
        Some(Self {
            latency: (word == "latency").then(|| whole("max_latency")),
            rate: (word == "rate").then(|| whole("max_requests")),
            period: params.time(spec("mem_period")?)?,
            idle: params.fraction(spec("idle_mem")?),
            min_requests: whole("min_requests"),
            hold: whole("hold"),
            k: 0,
            high: 0,
            calm: 0,
            weights: vec![0; cores],
            vtimes: vec![0; cores],
            cleared: Instant::ZERO,
            due: 0,
            came: Instant::ZERO,
            waits: false,
        })
    }

    fn sampled(&mut self, at: Instant, sample: &Sample) {
        if !std::mem::take(&mut self.waits) {
            return;
        }
        let elapsed = at.saturating_since(self.came).ticks().max(1);
        self.came = self.came.max(at);
        let scaled = |count: u64| {
            let product = u128::from(count) * u128::from(self.period.ticks());
            u64::try_from(product / u128::from(elapsed)).unwrap_or(u64::MAX)
        };
        self.weights = sample.by_core.iter().map(|requests| scaled(*requests)).collect();
        let now = self.weights.iter().fold(0, |sum: u64, m| sum.saturating_add(*m));
        self.vtimes.fill(0);
        self.cleared = at;
        let n = self.vtimes.len();
        let high = self.latency.is_some_and(|most| {
            scaled(sample.requests) >= self.min_requests
                && sample.requests > 0
                && u128::from(sample.occupancy) >= u128::from(most) * u128::from(sample.requests)
        }) || self.rate.is_some_and(|most| now >= most);
        self.high = if self.k > 0 { self.high.max(now) } else { self.high };
        let less = u128::from(now) * u128::from(self.idle.den())
            <= u128::from(self.high) * u128::from(self.idle.num());
        if high && self.k < n {
            self.high = if self.k == 0 { now } else { self.high };
            (self.k, self.calm) = (self.k + 1, 0);
        } else if !high && self.k > 0 && less {
            self.calm += 1;
            if self.calm > self.hold {
                (self.k, self.calm) = (self.k - 1, 0);
                self.high = if self.k == 0 { 0 } else { self.high };
            }
        } else {
            self.calm = 0;
        }
        if now == 0 {
            self.weights.fill(1);
        }
    }

    fn ran(&mut self, segment: &Segment) {
        let core = usize::from(segment.core.0);
        if segment.mode == Mode::Background && self.k > 0 {
            let after = segment.usage.service.min(segment.to.saturating_since(self.cleared));
            self.vtimes[core] += u128::from(after.ticks()) * u128::from(self.weights[core]);
        }
    }

    /// Exactly n - k cores may use surplus time: those with the least v.
    fn check(&self, now: Instant, plan: &Plan) -> Result<(), String> {
        let cores = (0..plan.cores() as u16).map(CoreId);
        let (open, closed): (Vec<_>, Vec<_>) =
            cores.partition(|core| plan.run_queue(*core).background_allowed);
        let k = self.k;
        if closed.len() != k {
            return Err(format!("at {now} {closed:?} are throttled, which is not k = {k}"));
        }
        let v = |core: &CoreId| self.vtimes[usize::from(core.0)];
        let (most, least) = (open.iter().map(v).max(), closed.iter().map(v).min());
        if let (Some(most), Some(least)) = (most, least)
            && most > least
        {
            return Err(format!("at {now} {closed:?} are throttled, v = {:?}", self.vtimes));
        }
        Ok(())
    }
}

/// Checks every event and plan of a run of `maracas`; keeps the first thing that is wrong.
#[derive(Clone)]
pub struct MaracasAudit {
    entry: &'static Entry,
    params: Params,
    system: System,
    followed: Followed,
    throttle: Option<Throttle>,
    homes: Vec<Option<CoreId>>,
    /// Threshold of an imbalance.
    imbalance: Rate,
    away: Option<(VcpuId, ServiceRequest)>,
    moved: Option<VcpuId>,
    /// The last move: which VCPU, from where to where, and after how many changes it was decided.
    last: Option<(VcpuId, CoreId, CoreId, u64)>,
    /// How often anything changed that a move is decided on.
    changes: u64,
    /// Which VCPUs woke since the last decision, and by core how many did that no move answered
    /// yet: a migration VCPU that rests handles them later.
    wakers: Vec<VcpuId>,
    woken: Vec<u64>,
    wrong: Option<String>,
}

impl MaracasAudit {
    /// An auditor of a run on `system`, service VCPUs included.
    #[must_use]
    pub fn new(entry: &'static Entry, params: &Params, system: &System) -> Self {
        let given = params.iter().find(|(name, _)| *name == "imbalance");
        let imbalance = given.and_then(|(_, value)| match value {
            maracas_core::params::Value::Text(text) => parse_fraction(text),
            maracas_core::params::Value::Whole(_) | maracas_core::params::Value::Flag(_) => None,
        });
        Self {
            entry,
            params: params.clone(),
            system: system.clone(),
            followed: Followed::default(),
            throttle: Throttle::new(entry, params, system.cores.len()),
            homes: Vec::new(),
            imbalance: imbalance.unwrap_or(Rate::ZERO),
            away: None,
            moved: None,
            last: None,
            changes: 0,
            wakers: Vec::new(),
            woken: vec![0; system.cores.len()],
            wrong: None,
        }
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

    fn vcpu(&self, id: VcpuId) -> Option<&Vcpu> {
        self.system.vcpus.iter().find(|vcpu| vcpu.id == id)
    }
    fn home(&self, vcpu: VcpuId) -> Option<CoreId> {
        self.homes.get(vcpu.0 as usize).copied().flatten()
    }

    /// Runnable VCPUs with programs on `core`, but for `without`, and with `with`.
    fn slack(&self, core: CoreId, without: Option<VcpuId>, with: Option<VcpuId>) -> Slack {
        let counts = |vcpu: &&Vcpu| {
            let here = self.home(vcpu.id) == Some(core) && self.followed.runnable(vcpu.id);
            let runs = matches!(vcpu.role, Role::Main | Role::Io);
            with == Some(vcpu.id) || here && runs && without != Some(vcpu.id)
        };
        Slack::of(self.system.vcpus.iter().filter(counts))
    }

    /// A move is decided on: it must even out the two cores, and be possible.
    fn check_move(
        &mut self,
        now: Instant,
        service_vcpu: VcpuId,
        vcpu: VcpuId,
        to: CoreId,
        colors: Option<CachePart>,
    ) {
        let (Some(src), Some(moved)) = (self.home(vcpu), self.vcpu(vcpu).cloned()) else {
            return self.must(false, || format!("{vcpu} is to move at {now}, but is nowhere"));
        };
        if src == to {
            return self.check_recoloring(now, &moved, src, colors);
        }
        let own = self.vcpu(service_vcpu).is_some_and(|service_vcpu| {
            service_vcpu.role == Role::Migration && service_vcpu.pinned == Some(src)
        });
        let part = self.system.cores[usize::from(to.0)].colors;
        let enough = part.is_none_or(|part| part.get().count_ones() >= moved.colors);
        let free = moved.pinned.is_none() && matches!(moved.role, Role::Main | Role::Io);
        self.must(own && enough && free && part == colors, || {
            format!(
                "{service_vcpu} is to move {moved:?} from {src} to {to} at {now}, \
 colours {colors:?}"
            )
        });
        let (from, dst) = (self.slack(src, None, None), self.slack(to, None, None));
        let (less, more) = (self.slack(src, Some(vcpu), None), self.slack(to, None, Some(vcpu)));
        let evens = from.below(dst, self.imbalance) && more.distance_is_less(less, from, dst);
        self.must(evens && less.count > 0 && self.followed.runnable(vcpu), || {
            format!("{vcpu} moves at {now} from {src} {from:?} to {to} {dst:?}: {less:?}, {more:?}")
        });
        self.check_activation(now, vcpu, src);
        let (changes, last) = (self.changes, self.last);
        self.must(last != Some((vcpu, to, src, changes)), || {
            format!("{vcpu} moves back to {to} at {now}, and nothing happened meanwhile")
        });
        self.last = Some((vcpu, src, to, changes));
    }

    /// Pages are recoloured without a migration for VCPUs of low criticality alone, and on top of
    /// their core's colours with those of cores that have no VCPUs; or back to their core's.
    fn check_recoloring(
        &mut self,
        now: Instant,
        vcpu: &Vcpu,
        core: CoreId,
        colors: Option<CachePart>,
    ) {
        let bits = |part: Option<CachePart>| part.map_or(0, CachePart::get);
        let of = |core: CoreId| bits(self.system.cores[usize::from(core.0)].colors);
        let is_idle = |core: &CoreId| {
            let mut others = self.system.vcpus.iter();
            let runs = |vcpu: &Vcpu| matches!(vcpu.role, Role::Main | Role::Io);
            !others.any(|vcpu| runs(vcpu) && self.home(vcpu.id) == Some(*core))
        };
        let lent = self.system.core_ids().filter(is_idle).fold(0, |mask, core| mask | of(core));
        let (own, colors) = (of(core), bits(colors));
        let may = vcpu.criticality == Criticality::Low || colors == own;
        let right = may && own & !colors == 0 && colors & !(own | lent) == 0;
        self.must(right, || {
            format!(
                "{vcpu:?} on {core} gets colours {colors:x} at {now}, own {own:x}, lent {lent:x}"
            )
        });
    }

    /// A wake activates the migration VCPU of its own core, a block or an end that of the core with
    /// the least slack; one that may move several goes on.
    fn check_activation(&mut self, now: Instant, vcpu: VcpuId, src: CoreId) {
        let slack = self.slack(src, None, None);
        let fullest = self
            .system
            .core_ids()
            .all(|core| !self.slack(core, None, None).below(slack, Rate::ZERO));
        let goes_on = self.last.is_some_and(|(_, from, ..)| from == src);
        let woken = self.woken.clone();
        let woke = woken[usize::from(src.0)] > 0;
        if woke {
            self.woken[usize::from(src.0)] -= 1;
        }
        self.must(fullest || goes_on || woke, || {
            format!("{vcpu} moves at {now} from {src} {slack:?}, though only {woken:?} woke")
        });
    }

    /// Every core is admissible as the VCPUs now stand.
    fn check_admissible(&mut self, now: Instant) {
        let mut system = self.system.clone();
        system.vcpus.retain(|vcpu| self.home(vcpu.id).is_some());
        for vcpu in &mut system.vcpus {
            vcpu.pinned = self.home(vcpu.id);
        }
        let verdict = (self.entry.admit)(&system, &self.params);
        self.must(verdict.accepted(), || format!("at {now} a core is overloaded: {verdict:?}"));
    }

    fn check_lines(&mut self, now: Instant, plan: &Plan) {
        for place in 0..self.system.vcpus.len() {
            let (id, role) = (self.system.vcpus[place].id, self.system.vcpus[place].role);
            let Some(core) = self.home(id) else { continue };
            let run_queue = plan.run_queue(core);
            let stands = run_queue.foreground.iter().any(|grant| grant.vcpu == id);
            let carries = matches!(role, Role::Monitor | Role::Migration);
            let surplus = run_queue.background.iter().any(|grant| grant.vcpu == id);
            self.must(stands && !(carries && surplus), || {
                format!("at {now} {id} ({role:?}) has no place on {core}: {run_queue:?}")
            });
        }
    }
}

impl Observer for MaracasAudit {
    fn event(&mut self, at: Instant, event: &Event) {
        let before = self.followed.changes;
        self.followed.event(event);
        let service_vcpu = |id: &VcpuId| {
            let vcpu = self.vcpu(*id);
            vcpu.is_some_and(|vcpu| matches!(vcpu.role, Role::Monitor | Role::Migration))
        };
        let of_service_vcpu = match event {
            Event::Ran(segment) => service_vcpu(&segment.vcpu),
            Event::Woke { vcpu, .. } => service_vcpu(vcpu),
            Event::Released(_)
            | Event::Completed(_)
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::Arrived(_)
            | Event::Left(_)
            | Event::Changed(_)
            | Event::ServiceDone(_)
            | Event::Failed { .. } => false,
        };
        if !of_service_vcpu && self.followed.changes != before {
            self.changes += 1;
            let woke = match event {
                Event::Woke { vcpu, .. } => Some(*vcpu),
                Event::Released(job) => Some(job.id.vcpu),
                Event::Ran(segment) => Some(segment.vcpu),
                Event::Completed(_)
                | Event::AllowanceSpent { .. }
                | Event::Sampled(_)
                | Event::Utilized { .. }
                | Event::Arrived(_)
                | Event::Left(_)
                | Event::Changed(_)
                | Event::ServiceDone(_)
                | Event::Failed { .. } => None,
            };
            self.wakers.extend(woke.filter(|vcpu| self.followed.runnable(*vcpu)));
        }
        match event {
            Event::Ran(segment) => self.throttle.iter_mut().for_each(|one| one.ran(segment)),
            Event::Sampled(sample) => {
                self.throttle.iter_mut().for_each(|one| one.sampled(at, sample));
            }
            Event::ServiceDone(service_request) => {
                self.away = None;
                if let ServiceRequest::Move { vcpu, .. } = service_request {
                    self.moved = Some(*vcpu);
                }
            }
            Event::Failed { what, .. } => {
                self.away = None;
                // It counts as an event: what could not be moved then may be moved now.
                self.changes += 1;
                if let (Refused::Sample, Some(throttle)) = (what, &mut self.throttle) {
                    throttle.waits = false;
                }
            }
            Event::Arrived(_) | Event::Left(_) | Event::Changed(_) => self.changes += 1,
            Event::Released(_)
            | Event::Completed(_)
            | Event::Woke { .. }
            | Event::Utilized { .. }
            | Event::AllowanceSpent { .. } => {}
        }
    }

    fn planned(&mut self, now: Instant, plan: &Plan) {
        for &vcpu in plan.rehomed() {
            let index = vcpu.0 as usize;
            self.homes.resize(self.homes.len().max(index + 1), None);
            self.homes[index] = plan.home(vcpu);
        }
        for vcpu in std::mem::take(&mut self.wakers) {
            self.home(vcpu).into_iter().for_each(|core| self.woken[usize::from(core.0)] += 1);
        }
        if self.moved.take().is_some() {
            self.check_admissible(now);
        }
        if let (None, Some((service_vcpu, service_request))) = (self.away, plan.service_request) {
            self.away = plan.service_request;
            if let ServiceRequest::Move { vcpu, to, colors } = service_request {
                self.check_move(now, service_vcpu, vcpu, to, colors);
            }
        }
        if let Some(throttle) = &mut self.throttle {
            let due = now.ticks() / throttle.period.ticks();
            // The monitor goes at once, or as soon as a migration is done.
            let sent = due == throttle.due || plan.service_request.is_some();
            throttle.waits |= due > throttle.due;
            throttle.due = due;
            let checked = throttle.check(now, plan);
            self.must(sent, || format!("memory is not sampled at {now}"));
            if let Err(why) = checked {
                self.must(false, || why);
            }
        }
        self.check_lines(now, plan);
    }
}

/// Slack per VCPU: (1 - sum of U) / count, in whole parts.
#[derive(Clone, Copy, Debug)]
struct Slack {
    /// 1 - sum of U, in parts of `WHOLE`.
    left: i128,
    count: i128,
}

/// Every period of a random system divides this: see `generate`.
const COMMON: u128 = 840_000_000;
const WHOLE: i128 = (COMMON * COMMON) as i128;

impl Slack {
    fn of<'a>(vcpus: impl Iterator<Item = &'a Vcpu>) -> Self {
        vcpus.fold(Self { left: WHOLE, count: 0 }, |slack, vcpu| {
            let r = &vcpu.reservation;
            let u = u128::from(r.budget.ticks()) * COMMON / u128::from(r.period.ticks());
            // An I/O VCPU may consume (2 - U) U.
            let asked = if vcpu.role == Role::Io { (2 * COMMON - u) * u } else { u * COMMON };
            Self { left: slack.left - asked as i128, count: slack.count + 1 }
        })
    }
    /// Less than `other` by more than `threshold`.
    fn below(self, other: Self, threshold: Rate) -> bool {
        if other.count == 0 || self.count == 0 {
            return self.count > 0;
        }
        let more = other.left * self.count - self.left * other.count;
        let (num, den) = (i128::from(threshold.num()), i128::from(threshold.den()));
        more * den > num * WHOLE * self.count * other.count
    }
    /// |self - other| < |a - b|, where an empty core is infinitely far from any other.
    fn distance_is_less(self, other: Self, a: Self, b: Self) -> bool {
        if a.count == 0 || b.count == 0 {
            return true;
        }
        let distance = |x: Self, y: Self| (x.left * y.count - y.left * x.count).abs();
        // Both sides are at most 2 WHOLE n; n^2 more stays far below 127 bits.
        distance(self, other) * a.count * b.count < distance(a, b) * self.count * other.count
    }
}
