//! Whether jobs are done in time though they share memory, said before a run.
//!
//! A budget is time on a core; how much work is done in it depends on what else uses memory. So
//! budgets may all be kept and jobs be late. Here each job's work is turned into the time that it
//! takes at most beside the others ([`crate::memory::bound`]), and that is held against what the
//! policy gives:
//!
//! * A policy of VCPUs holds every budget, whatever jobs do: a job is in time where that time is
//!   within C.
//! * A policy of jobs is asked again whether it would admit the set with these times in place of C,
//!   each VCPU on the core where it is. One that cuts overruns is no exception: what earlier jobs
//!   left unused a later one may use, beyond C, at the cost of others. There a job must be within C
//!   besides.
//! * Where cores are limited in their reads (MemGuard), a core is open for at least as long in each
//!   period P as it takes to read its Q at the fastest: a periodic resource (Shin and Lee,
//!   "Periodic Resource Model for Compositional Real-Time Guarantees", RTSS 2003). It offers
//!   Theta = min(P, Q / fastest) in every P, so t of time bring at least Theta/P (t - 2(P -
//!   Theta)); what is asked for is raised accordingly before the policy is asked.
//!
//! * What limits others, MemGuard or a policy without surplus time, spares jobs a part of the time
//!   that they would need beside them (`jobs/limits.rs`).
//!
//! All of that says something only where the policy's own tests exclude misses of jobs that stay
//! within C; where they do not, nothing is known of any job. A job that is not said to be in time
//! need not be late: these are bounds. [`watch`] looks in the simulator whether it is.

mod limits;
mod watch;

pub use watch::{Seen, watch};

use crate::memory::bound::{Bound, bounds};
use limits::{Cores, limits};
use maracas_core::admission::{CoreVerdict, Regulation, Verdict};
use maracas_core::contract::Entry;
use maracas_core::memory::{DramModel, Memory};
use maracas_core::params::Params;
use maracas_core::{CoreId, CoreSet, Duration, Program, Reservation, Role, System, Vcpu, VcpuId};

/// What is said of one VCPU's jobs.
#[derive(Clone, PartialEq, Debug)]
pub struct Judged {
    /// Whose jobs.
    pub vcpu: VcpuId,
    /// Time that a job needs at most when it runs alone on an idle memory.
    pub alone: Duration,
    /// Time on its core that a job needs at most beside the others.
    pub needs: Duration,
    /// The same where nothing limited the others' reads or times.
    pub without_limits: Duration,
    /// Reads that a job does at most.
    pub reads: u64,
    /// C.
    pub promised: Duration,
    /// The program that the others slow down most, by its place among the run's, and by how much;
    /// `None` = none is slowed down.
    pub slowest: Option<(u32, Bound)>,
    /// What is certain.
    pub answer: Answer,
    /// What the simulator showed of its jobs, where it was asked ([`watch`]).
    pub seen: Option<Seen>,
}

/// What is certain of jobs before a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Every job is done by its deadline.
    InTime,
    /// A job may be late.
    MayBeLate,
    /// Jobs are late: the simulator shows some.
    Late,
    /// Nothing is known, for this reason.
    Unknown(&'static str),
}

impl Judged {
    /// Whether limits on others spare its jobs something.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.needs < self.without_limits
    }
}

/// The bounds are the law's.
const BY_REQUESTS: &str =
    "its memory is simulated request by request, for which there are no bounds";

/// Judges the jobs of every VCPU that works on any. `verdict` is the policy's own on `system`.
#[must_use]
pub fn judge(
    system: &System,
    memory: &Memory,
    programs: &[Program],
    entry: &Entry,
    params: &Params,
    verdict: &Verdict,
) -> Vec<Judged> {
    let homes = Homes::of(system, entry, verdict);
    let places: Vec<CoreSet> = programs.iter().map(|it| homes.places(it.vcpu)).collect();
    let limits = limits(system, programs, &places, (entry, params), verdict.regulation.as_deref());
    let bounds = bounds(system, memory, programs, &places, &limits);
    let cuts = cuts(entry, params);
    let proven = is_proven(system, entry, verdict, None);
    let open = verdict.regulation.as_ref().map(|limits| {
        let open = |core: CoreId| open_share(core, limits, &places, &bounds, (system, memory));
        system.core_ids().map(open).collect::<Vec<_>>()
    });
    let isolates = !entry.needs.jobs;
    let open = open.as_deref();
    let cores = Cores { system, programs, bounds: &bounds, homes: &homes, isolates, open };
    let mut judged: Vec<Judged> =
        system.vcpus.iter().filter_map(|vcpu| needs(vcpu, &cores)).collect();
    let asked = raised(system, &judged, &homes, isolates, open);
    let again = asked.as_ref().map(|asked| (entry.admit)(asked, params));
    for one in &mut judged {
        let fits = |again: &Verdict| {
            // What stays on a core was asked again for that core, and others say nothing of it.
            let home = homes.home(one.vcpu);
            let placed = home.is_some() || is_placed_alike(verdict, again);
            placed && is_proven(system, entry, again, home) && admitted(again, one.vcpu, &homes)
        };
        let fits = again.as_ref().map_or(verdict.accepted(), fits);
        let vcpu = system.vcpu(one.vcpu);
        let by_requests = memory.dram.model == DramModel::Requests;
        let unbounded = by_requests.then_some(BY_REQUESTS);
        let beside = || disturbed(one.vcpu, system, programs, &homes, cuts);
        let beside = || if isolates { None } else { beside() };
        let unknown = || unknown(vcpu, one, &homes, programs, verdict).or_else(beside);
        one.answer = match unbounded.or_else(unknown) {
            Some(reason) => Answer::Unknown(reason),
            None if !proven => Answer::Unknown("this policy's test does not exclude misses"),
            None if fits && (!cuts || one.needs <= one.promised) => Answer::InTime,
            None => Answer::MayBeLate,
        };
    }
    judged
}

/// Whether by `verdict` no job is late that stays within its budget: the policy claims so of all
/// that it admits, or on every core a test accepts that says so, which is any but the sum of loads.
/// An I/O VCPU may inherit another's period, which only the test that decides has counted. Of one
/// core alone where `of` names it.
fn is_proven(system: &System, entry: &Entry, verdict: &Verdict, of: Option<CoreId>) -> bool {
    let inherits = system.vcpus.iter().any(|vcpu| vcpu.role == Role::Io);
    let proves = |core: &CoreVerdict| {
        let tests = core.tests.iter().take(if inherits { 1 } else { usize::MAX });
        core.vcpus.is_empty()
            || tests.into_iter().any(|result| result.accepted && result.test != "capacity")
    };
    let asked = || verdict.cores.iter().filter(|core| of.is_none() || core.core == of);
    let judged = asked().any(|core| !core.vcpus.is_empty());
    // What an optimal policy tests is the sum of loads, and that says all.
    let optimal = entry.claims.no_miss_when_admitted && !entry.claims.partitioned;
    optimal || judged && asked().all(proves)
}

/// Whether two verdicts put each VCPU in the same place, and none in several: what fits elsewhere
/// says nothing of where it runs. Of a VCPU that several cores share it is not said how.
fn is_placed_alike(verdict: &Verdict, again: &Verdict) -> bool {
    let places = |verdict: &Verdict| {
        let at = |it: &CoreVerdict| {
            let core = it.core;
            it.vcpus.iter().map(move |vcpu| (*vcpu, core)).collect::<Vec<_>>()
        };
        let mut places: Vec<_> = verdict.cores.iter().flat_map(at).collect();
        places.sort_unstable();
        places
    };
    let (places, others) = (places(verdict), places(again));
    places == others && places.windows(2).all(|two| two[0].0 != two[1].0)
}

/// Where VCPUs may run.
struct Homes {
    /// By VCPU, those that stay on one core.
    homes: Vec<(VcpuId, CoreId)>,
    all: CoreSet,
    /// Whether the policy moves VCPUs by service requests.
    moves: bool,
}

impl Homes {
    fn of(system: &System, entry: &Entry, verdict: &Verdict) -> Self {
        let moves = system.vcpus.iter().any(|vcpu| vcpu.role == Role::Migration);
        let stay = entry.claims.partitioned && !moves;
        let cores = verdict.cores.iter().filter(|_| stay);
        let homes = cores.flat_map(|it| {
            it.core.into_iter().flat_map(|core| it.vcpus.iter().map(move |vcpu| (*vcpu, core)))
        });
        Self { homes: homes.collect(), all: system.core_ids().collect(), moves }
    }
    fn home(&self, vcpu: VcpuId) -> Option<CoreId> {
        self.homes.iter().find(|(id, _)| *id == vcpu).map(|(_, core)| *core)
    }
    fn places(&self, vcpu: VcpuId) -> CoreSet {
        self.home(vcpu).map_or(self.all, |core| [core].into_iter().collect())
    }
}

/// What jobs of `vcpu` need at most; `None` where it has none.
fn needs(vcpu: &Vcpu, cores: &Cores<'_>) -> Option<Judged> {
    let Cores { programs, bounds, .. } = *cores;
    let ticks_per_s = u128::from(cores.system.ticks_per_ns) * 1_000_000_000;
    let needs = time_needed(vcpu, programs, bounds, cores.window(vcpu))?;
    let (mut alone, mut without_limits, mut reads) = (Duration::ZERO, Duration::ZERO, 0);
    let mut slowest = None;
    for (place, work) in works(vcpu, programs) {
        let bound = bounds[place].as_ref();
        alone += work;
        without_limits += bound.map_or(work, |bound| bound.time_for(work));
        let per_s = bound.map_or(0, |bound| bound.reads_per_s_of_work);
        reads += (u128::from(per_s) * u128::from(work.ticks())).div_ceil(ticks_per_s) as u64;
        let slower = |old: &(u32, Bound), new: &Bound| new.slowdown_ppm > old.1.slowdown_ppm;
        if let Some(bound) = bound
            && slowest.as_ref().is_none_or(|old| slower(old, bound))
        {
            slowest = Some((place as u32, bound.clone()));
        }
    }
    let (vcpu, promised) = (vcpu.id, vcpu.reservation.budget);
    let answer = Answer::MayBeLate;
    Some(Judged {
        vcpu,
        alone,
        needs,
        without_limits,
        reads,
        promised,
        slowest,
        answer,
        seen: None,
    })
}

/// The time that a job of `vcpu` needs at most where it lasts for `window`; `None` where it has no
/// jobs.
fn time_needed(
    vcpu: &Vcpu,
    programs: &[Program],
    bounds: &[Option<Bound>],
    window: Duration,
) -> Option<Duration> {
    let takes = |(place, work): (usize, Duration)| {
        bounds[place].as_ref().map_or(work, |bound| bound.time_within(work, window))
    };
    let ticks = works(vcpu, programs).map(takes).map(Duration::ticks).reduce(u64::saturating_add);
    ticks.map(Duration::from_ticks)
}

/// The programs of `vcpu` that have jobs, by place, and the work of each.
fn works(vcpu: &Vcpu, programs: &[Program]) -> impl Iterator<Item = (usize, Duration)> {
    let own = programs.iter().enumerate().filter(move |(_, program)| program.vcpu == vcpu.id);
    own.filter_map(|(place, program)| Some((place, program.workload.most()?)))
}

/// Whether a job that overruns C is cut there. The policies of VCPUs do so always, those of jobs
/// unless a parameter says otherwise.
#[must_use]
pub fn cuts(entry: &Entry, params: &Params) -> bool {
    let Some(spec) = entry.params.iter().find(|spec| spec.name == "enforcement") else {
        return !entry.needs.jobs;
    };
    params.choice(spec) != "none"
}

/// For what share of each period a core is open at least, and for how long it may be closed in a
/// row: (Theta, P), `None` where it is never closed.
fn open_share(
    core: CoreId,
    limits: &Regulation,
    places: &[CoreSet],
    bounds: &[Option<Bound>],
    (system, memory): (&System, &Memory),
) -> Option<(Duration, Duration)> {
    let reads = limits.reads.get(usize::from(core.0)).copied().flatten()?;
    let own = (0..).zip(places.iter().zip(bounds)).filter(|(_, (own, _))| own.contains(core));
    let writes = limits.meters.counts.has_writes();
    // Requests a second, in thousandths.
    let fastest = own
        .filter_map(|(place, (_, bound))| Some((place, bound.as_ref()?)))
        .map(|(place, bound)| {
            let written = if writes { most_written_milli(memory, place) } else { 0 };
            u128::from(bound.reads_per_s) * (1_000 + u128::from(written))
        })
        .max()?;
    // The last request before the core closes may be one that was counted a tick late.
    let ns = u128::from(reads.saturating_sub(1)) * 1_000_000_000_000 / fastest.max(1);
    let ticks = u64::try_from(ns).unwrap_or(u64::MAX).saturating_mul(system.ticks_per_ns);
    let open = Duration::from_ticks(ticks);
    (open < limits.period).then_some((open, limits.period))
}

/// Lines that a program writes back per read at most, in thousandths.
fn most_written_milli(memory: &Memory, program: usize) -> u64 {
    let profile = memory.programs.get(program).and_then(Option::as_ref);
    let phases = profile.into_iter().flat_map(|profile| &profile.phases);
    phases.map(|(_, use_)| use_.writebacks_milli).max().unwrap_or(0)
}

/// The system with budgets as jobs need them beside each other, every VCPU on its core; `None`
/// where that is the system itself.
fn raised(
    system: &System,
    judged: &[Judged],
    homes: &Homes,
    isolates: bool,
    open: Option<&[Option<(Duration, Duration)>]>,
) -> Option<System> {
    let mut raised = system.clone();
    let mut differs = false;
    for vcpu in &mut raised.vcpus {
        let Reservation { budget, .. } = vcpu.reservation;
        let own = judged.iter().find(|one| one.vcpu == vcpu.id).filter(|_| !isolates);
        let needs = own.map_or(budget, |one| one.needs.max(budget));
        let home = homes.home(vcpu.id);
        let open = home.and_then(|core| open.and_then(|open| open[usize::from(core.0)]));
        let needs = asked(needs, open);
        differs |= needs != budget;
        // A budget above the deadline is refused by every test; there is nothing to add then.
        vcpu.reservation.budget = needs.min(vcpu.reservation.deadline + Duration::from_ticks(1));
        vcpu.pinned = home.or(vcpu.pinned);
    }
    differs.then_some(raised)
}

/// What must be asked of a core for so much time on it, where it is open only for a part of each
/// period: (Theta, P).
fn asked(needs: Duration, open: Option<(Duration, Duration)>) -> Duration {
    let Some((open, period)) = open else { return needs };
    let stretched = u128::from(needs.ticks()) * u128::from(period.ticks());
    let stretched = stretched.div_ceil(u128::from(open.ticks().max(1)));
    let stretched = u64::try_from(stretched).unwrap_or(u64::MAX / 4).min(u64::MAX / 4);
    Duration::from_ticks(stretched) + (period - open) * 2
}

/// Whether a verdict admits `vcpu` and all others on its core: one that is refused would run there
/// all the same.
fn admitted(verdict: &Verdict, vcpu: VcpuId, homes: &Homes) -> bool {
    let home = homes.home(vcpu);
    let disturbs = |other: VcpuId| home.is_none() || homes.home(other) == home;
    verdict.objections.is_empty() && !verdict.refused.iter().any(|(other, _)| disturbs(*other))
}

/// Why nothing can be said of the jobs of `vcpu` under a policy of jobs, by what may share its
/// core: its tests count a neighbour as C, whatever that does.
fn disturbed(
    vcpu: VcpuId,
    system: &System,
    programs: &[Program],
    homes: &Homes,
    cuts: bool,
) -> Option<&'static str> {
    let home = homes.home(vcpu);
    let beside = |other: &&Vcpu| {
        let there = homes.home(other.id);
        other.id != vcpu && (home.is_none() || there.is_none() || there == home)
    };
    system.vcpus.iter().filter(beside).find_map(|other| {
        if other.bandwidth.is_some() {
            return Some("beside it jobs wait for a bandwidth of their own, and then run at once");
        }
        (!cuts && has_endless(other.id, programs))
            .then_some("beside it a program never ends its job")
    })
}

/// Whether a program of `vcpu` never ends.
fn has_endless(vcpu: VcpuId, programs: &[Program]) -> bool {
    let mut own = programs.iter().filter(|program| program.vcpu == vcpu);
    own.any(|program| program.workload.most().is_none())
}

/// Why nothing can be said of these jobs, if that is so.
fn unknown(
    vcpu: Option<&Vcpu>,
    judged: &Judged,
    homes: &Homes,
    programs: &[Program],
    verdict: &Verdict,
) -> Option<&'static str> {
    if has_endless(judged.vcpu, programs) {
        return Some("another program of its VCPU takes its time too");
    }
    if programs.iter().any(|program| {
        program.depart != maracas_core::Instant::NEVER
            || program.arrive != maracas_core::Instant::ZERO
    }) {
        return Some("programs come and go");
    }
    if homes.moves {
        return Some("balancing may move it, and a move may make a job late");
    }
    if !verdict.tolerance.is_zero() {
        return Some("its budgets are rounded to ticks, by which a job may be late");
    }
    let limits = verdict.regulation.as_ref()?;
    if vcpu.is_some_and(|vcpu| vcpu.bandwidth.is_some()) {
        return Some("it has a bandwidth of its own, at which it waits for the next period");
    }
    let limited = limits.reads.iter().any(Option::is_some);
    (limited && homes.home(judged.vcpu).is_none())
        .then_some("it moves between cores whose bandwidth is limited")
}
