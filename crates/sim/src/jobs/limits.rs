//! What limits others while a job runs, and for how long that is.
//!
//! MemGuard limits the reads of cores and of VCPUs in each of its periods
//! ([`maracas_core::admission::Regulation::most`]). Under `background = "off"` each VCPU runs on
//! its budget alone, and where its core is never closed it takes each in its own time. Nothing else
//! is a limit that can be counted on: surplus time is given away without one, and Algorithm 1 of
//! MARACAS takes it away only where latencies have been too high.
//!
//! # How long a job lasts
//! From its release to its end a job meets at most those periods of limits that its window meets.
//! The window is its deadline: what is not done by then is late anyway. Where all VCPUs of its core
//! are known, it is also no longer than the longest busy interval of that core, the least L that is
//! the sum of ceil(L/T) times what a job of each needs: under any policy that leaves no core idle
//! beside pending jobs. What jobs need depends on L in turn, so the least L is sought that holds
//! with what they need within it. It is sound for all of them at once: say that some job is the
//! first to run for longer than it is said to need. Until then all others kept to it, so the core
//! has been busy for no longer than L, and its release is no longer ago than that; so it has met no
//! more periods than were counted, and they let through no more than was counted.
//!
//! Under `maracas` a VCPU takes C at most. Its jobs never wait for budgets while none needs more
//! than C: what a job used of a chunk comes back one period after that could be used, which is when
//! the next job is released, and from then on as fast as it may be used.

use super::{Homes, asked, time_needed};
use crate::memory::bound::Bound;
use crate::memory::bound::limited::{Limit, Most};
use maracas_core::admission::{Readers, Regulation};
use maracas_core::contract::Entry;
use maracas_core::params::Params;
use maracas_core::{CoreId, CoreSet, Duration, Program, Role, System, Vcpu, VcpuId};

/// Steps after which the deadline is taken: many only where a core is all but full.
const STEPS: usize = 1_000;

/// What programs do at most, by MemGuard or without surplus time.
pub(super) fn limits(
    system: &System,
    programs: &[Program],
    places: &[CoreSet],
    (entry, params): (&Entry, &Params),
    regulation: Option<&Regulation>,
) -> Vec<Limit> {
    let those = |counts: &dyn Fn(usize) -> bool| {
        (0..programs.len()).filter(|at| counts(*at)).map(|at| at as u32).collect::<Vec<_>>()
    };
    let of_vcpu = |vcpu: VcpuId| those(&|at| programs[at].vcpu == vcpu);
    let reads = regulation.into_iter().flat_map(|limits| {
        limits.most.iter().map(|limit| Limit {
            period: limits.period,
            most: Most::Reads(limit.reads),
            programs: match &limit.whose {
                Readers::Cores(cores) => {
                    those(&|at| places[at].iter().all(|core| cores.contains(core)))
                }
                Readers::Vcpu(vcpu) => of_vcpu(*vcpu),
            },
        })
    });
    let surplus = entry.params.iter().find(|spec| spec.name == "background");
    let off = surplus.is_some_and(|spec| params.choice(spec) == "off");
    // On a core that is closed budgets are put off, and many are used at once when it opens.
    let is_limited = |core: CoreId| {
        let own = regulation.and_then(|limits| limits.reads.get(usize::from(core.0)));
        own.is_some_and(Option::is_some)
    };
    let is_closed =
        |vcpu: VcpuId| of_vcpu(vcpu).iter().any(|at| places[*at as usize].iter().any(is_limited));
    let counts = |vcpu: &&Vcpu| off && vcpu.role == Role::Main && !is_closed(vcpu.id);
    let budgets = system.vcpus.iter().filter(counts);
    let budgets = budgets.map(|vcpu| Limit {
        period: vcpu.reservation.period,
        most: Most::Time(vcpu.reservation.budget),
        programs: of_vcpu(vcpu.id),
    });
    reads.chain(budgets).filter(|limit| !limit.programs.is_empty()).collect()
}

/// What decides how long jobs last.
pub(super) struct Cores<'a> {
    pub(super) system: &'a System,
    pub(super) programs: &'a [Program],
    pub(super) bounds: &'a [Option<Bound>],
    pub(super) homes: &'a Homes,
    /// Whether each VCPU has C and no more, whatever its jobs need.
    pub(super) isolates: bool,
    pub(super) open: Option<&'a [Option<(Duration, Duration)>]>,
}

impl Cores<'_> {
    /// For how long a job of `vcpu` lasts at most, from its release to its end, or to its deadline.
    pub(super) fn window(&self, vcpu: &Vcpu) -> Duration {
        let deadline = vcpu.reservation.deadline;
        let busy = self.homes.home(vcpu.id).and_then(|core| self.longest_busy(core));
        busy.map_or(deadline, |busy| busy.min(deadline))
    }

    /// The longest interval for which `core` is busy; `None` where that is not known, or beyond all
    /// deadlines.
    fn longest_busy(&self, core: CoreId) -> Option<Duration> {
        let all = self.system.vcpus.iter();
        let there: Vec<&Vcpu> = all.filter(|vcpu| self.homes.home(vcpu.id) == Some(core)).collect();
        let last = there.iter().map(|vcpu| vcpu.reservation.deadline).max()?;
        if there.iter().any(|vcpu| vcpu.role != Role::Main) {
            return None;
        }
        let mut busy = Duration::from_ticks(1);
        for _ in 0..STEPS {
            let demand = there.iter().map(|vcpu| self.demand(vcpu, core, busy));
            let next = demand.fold(0, u64::saturating_add);
            let next = Duration::from_ticks(next);
            if next <= busy {
                return Some(busy);
            }
            if next >= last {
                return None;
            }
            busy = next;
        }
        None
    }

    /// What jobs of `vcpu` that are released within `busy` take of their core, in ticks.
    fn demand(&self, vcpu: &Vcpu, core: CoreId, busy: Duration) -> u64 {
        let (budget, period) = (vcpu.reservation.budget, vcpu.reservation.period);
        let window = busy.min(vcpu.reservation.deadline);
        let own = || self.programs.iter().filter(|program| program.vcpu == vcpu.id);
        let all_jobs = own().all(|program| program.workload.most().is_some());
        let needs = time_needed(vcpu, self.programs, self.bounds, window).filter(|_| all_jobs);
        let needs = needs.map_or(budget, |it| if self.isolates { it.min(budget) } else { it });
        let open = self.open.and_then(|open| open[usize::from(core.0)]);
        let each = asked(needs, open);
        let jobs = busy.ticks().div_ceil(period.ticks().max(1));
        each.ticks().saturating_mul(jobs)
    }
}
