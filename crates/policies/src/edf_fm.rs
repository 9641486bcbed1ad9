//! EDF-fm: semi-partitioned EDF with bounded tardiness: a task that fits on no core has its jobs
//! divided among two, each of them whole on one, where they go before all that stays.
//!
//! # Paper
//! J. H. Anderson, V. Bud, U. C. Devi. "An EDF-based Scheduling Algorithm for Multiprocessor Soft
//! Real-Time Systems." ECRTS 2005.
//! # Model
//! Periodic or sporadic tasks with deadlines at the period's end, U <= m, no task that migrates
//! above half a core; jobs do not suspend themselves. All are there from the start.
//! # How it works
//! Tasks go, heaviest first, to the first core that has room. Where one finds none, all are placed
//! anew, one core after the other: a task that does not fit into the rest of a core gets that rest
//! as its share there, and what it needs beyond as its share of the next one. So at most two tasks
//! of a core migrate. Of the first k jobs of such a task its first core has f k, rounded up, where
//! f is the part of its rate that is its share there; the other core has the rest. On a core,
//! pending jobs of those that migrate run first, by deadline, then those of the others, by
//! deadline.
//! # Invariants
//! A job never migrates. A task that migrates is never late: with all of its jobs it and the other
//! one ask for no more than the core. How late the others are at most is in the verdict
//! ([`Shares::late`]).
//! # Where we differ from the paper
//! The paper places every set in the second way; here what has a packing by first fit is
//! partitioned EDF. Tasks above half a core may migrate where what migrates on each core still asks
//! for no more than all of it; of two orders, heaviest and lightest first, the first one is taken
//! in which that is so. A task that migrates is cut at C whatever `enforcement` says: a job that
//! needs more goes on in the next one's time.

use crate::parts::bounds::heaviest_first;
use crate::parts::jobs::{self, ENFORCEMENT};
use crate::parts::semi::{self, Turns};
use crate::parts::table::{Family, Table, Test};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use maracas_core::admission::{CoreVerdict, Measure, NotAdmitted, TestResult, Verdict};
use maracas_core::contract::{Claims, Entry, Needs, no_service_vcpus};
use maracas_core::params::Params;
use maracas_core::{CoreId, Duration, PPB, Policy, Rate, System, Vcpu, VcpuId, gcd};

/// Shares are whole numbers of one part in the least common denominator of all rates, where that is
/// at most this; else of this, rates rounded up.
const FINEST: u64 = 1 << 62;

pub(crate) const ENTRY: Entry = Entry {
    name: "edf-fm",
    paper: "Anderson, Bud and Devi, An EDF-based Scheduling Algorithm for Multiprocessor Soft \
            Real-Time Systems, ECRTS 2005",
    summary: "semi-partitioned EDF with bounded tardiness: a task that fits on no core has its \
              jobs divided among two",
    params: &[ENFORCEMENT],
    needs: Needs { jobs: true, ..Needs::BUDGETS },
    // Jobs may be late by as much as the verdict says.
    claims: Claims { partitioned: false, work_conserving: false, no_miss_when_admitted: false },
    service_vcpus: no_service_vcpus,
    admit,
    fits: None,
    build,
};

fn admit(system: &System, _: &Params) -> Verdict {
    judged(system).1
}

fn build(system: &System, params: &Params) -> Result<Box<dyn Policy>, Verdict> {
    let (shares, verdict) = judged(system);
    if !verdict.accepted() {
        return Err(verdict);
    }
    Ok(semi::build_in_turns(system, params, shares.whole, shares.turns))
}

fn judged(system: &System) -> (Shares, Verdict) {
    let table = Table::new(system, Family::Edf, Test::Capacity, |_, _| None);
    let mut refused = Vec::new();
    let mut possible = Vec::new();
    for vcpu in &system.vcpus {
        match table.malformed(vcpu).or_else(|| early(vcpu)) {
            Some(reason) => refused.push((vcpu.id, NotAdmitted { reason, closest: None })),
            None => possible.push(vcpu.clone()),
        }
    }
    heaviest_first(&mut possible);
    let mut shares = Shares::new(system, &possible);
    let ways: [(bool, bool); 3] = [(false, false), (true, false), (true, true)];
    for (in_turns, lightest_first) in ways {
        shares = Shares::new(system, &possible);
        shares.place(&possible, in_turns, lightest_first);
        if shares.left_over.is_empty() {
            break;
        }
    }
    refused.extend(shares.left_over.iter().map(|vcpu| (vcpu.id, does_not_fit(vcpu))));
    let cores = shares.cores().map(|core| shares.judged(core)).collect();
    let objections = jobs::objections(system);
    (shares, Verdict { cores, refused, objections, ..Verdict::default() })
}

/// Why EDF-fm says nothing of a task with such a deadline, if so.
fn early(vcpu: &Vcpu) -> Option<String> {
    let r = &vcpu.reservation;
    (r.deadline < r.period).then(|| {
        format!(
            "{} has D = {} before the end of its period T = {}, and EDF-fm is for implicit \
             deadlines; leave the deadline away, or use the policy c-d or edf-wm",
            vcpu.id, r.deadline, r.period
        )
    })
}

fn does_not_fit(vcpu: &Vcpu) -> NotAdmitted {
    let r = &vcpu.reservation;
    let reason = format!(
        "{} ({} every {}) fits on no core, and its jobs cannot be divided among two; lower a \
         budget, lengthen a period or add cores",
        vcpu.id, r.budget, r.period
    );
    NotAdmitted { reason, closest: None }
}

/// What a task asks of a core.
struct Share {
    vcpu: VcpuId,
    budget: Duration,
    /// Its rate, and its share of this core.
    rate: u128,
    share: u128,
}

impl Share {
    fn migrates(&self) -> bool {
        self.share < self.rate
    }
}

/// Which task has how much of which core.
struct Shares {
    /// All of a core; shares are parts of it.
    one: u128,
    /// What of it may be given away.
    capacity: u128,
    on: Vec<Vec<Share>>,
    whole: Vec<(Vcpu, CoreId)>,
    turns: Vec<(Vcpu, Turns)>,
    left_over: Vec<Vcpu>,
}

impl Shares {
    fn new(system: &System, vcpus: &[Vcpu]) -> Self {
        let rates = vcpus.iter().map(|vcpu| vcpu.reservation.utilization());
        let mut dens = rates.chain([system.capacity]).map(Rate::den);
        let with = |one: u64, den: u64| (one / gcd(one, den)).checked_mul(den);
        let common = dens.try_fold(1, with);
        let one = u128::from(common.filter(|one| *one <= FINEST).unwrap_or(FINEST));
        let capacity = &system.capacity;
        Self {
            one,
            capacity: one * u128::from(capacity.num()) / u128::from(capacity.den()),
            on: system.cores.iter().map(|_| Vec::new()).collect(),
            whole: Vec::new(),
            turns: Vec::new(),
            left_over: Vec::new(),
        }
    }
    fn cores(&self) -> impl Iterator<Item = CoreId> + use<> {
        (0..self.on.len() as u16).map(CoreId)
    }
    fn rate(&self, vcpu: &Vcpu) -> u128 {
        let rate = vcpu.reservation.utilization();
        (u128::from(rate.num()) * self.one).div_ceil(u128::from(rate.den()))
    }
    fn room(&self, core: CoreId) -> u128 {
        let used: u128 = self.on[core.0 as usize].iter().map(|it| it.share).sum();
        self.capacity.saturating_sub(used)
    }
    /// Whether another task of that rate may migrate to and from a core.
    fn may_migrate(&self, core: CoreId, rate: u128) -> bool {
        let here = self.on[core.0 as usize].iter().filter(|it| it.migrates());
        here.map(|it| it.rate).sum::<u128>() + rate <= self.one
    }
    fn give(&mut self, vcpu: &Vcpu, core: CoreId, share: u128) {
        let (id, budget, rate) = (vcpu.id, vcpu.reservation.budget, self.rate(vcpu));
        self.on[core.0 as usize].push(Share { vcpu: id, budget, rate, share });
    }

    /// Those that demand a core go first; then the others, whole to the first core with room, or
    /// one core after the other.
    fn place(&mut self, vcpus: &[Vcpu], in_turns: bool, lightest_first: bool) {
        let (pinned, mut free): (Vec<&Vcpu>, Vec<&Vcpu>) =
            vcpus.iter().partition(|vcpu| vcpu.pinned.is_some());
        if lightest_first {
            free.reverse();
        }
        let mut next = CoreId(0);
        for vcpu in pinned.into_iter().chain(free) {
            let rate = self.rate(vcpu);
            let mut cores = self.cores().filter(|core| vcpu.pinned.is_none_or(|pin| pin == *core));
            let host = match vcpu.pinned.is_none() && in_turns {
                true => Some(next).filter(|core| self.room(*core) >= rate),
                false => cores.find(|core| self.room(*core) >= rate),
            };
            if let Some(core) = host {
                self.give(vcpu, core, rate);
                self.whole.push((vcpu.clone(), core));
            } else if vcpu.pinned.is_some() || !in_turns || !self.divide(vcpu, &mut next) {
                self.left_over.push(vcpu.clone());
            }
        }
    }

    /// Gives a task what is left of core `next`, and the rest of its rate on the one behind it,
    /// which is next then.
    fn divide(&mut self, vcpu: &Vcpu, next: &mut CoreId) -> bool {
        let (rate, first, then) = (self.rate(vcpu), *next, CoreId(next.0 + 1));
        if usize::from(then.0) >= self.on.len() {
            return false;
        }
        *next = then;
        let share = self.room(first);
        if share == 0 && self.room(then) >= rate {
            self.give(vcpu, then, rate);
            self.whole.push((vcpu.clone(), then));
            return true;
        }
        let fits = share > 0 && share < rate && self.room(then) >= rate - share;
        if !fits || ![first, then].iter().all(|core| self.may_migrate(*core, rate)) {
            return false;
        }
        self.give(vcpu, first, share);
        self.give(vcpu, then, rate - share);
        self.turns.push((vcpu.clone(), Turns { cores: [first, then], share, of: rate }));
        true
    }

    /// How late the jobs of those that stay on a core are at most, no job asking for more than C.
    ///
    /// Let such a job be due at d, and let b be the last instant before d at which nothing is
    /// pending that goes before it. Of a task that migrates, with rate u, share s here and f = s/u,
    /// the jobs released in a time t are at most t/T + 1, and of n in a row fewer than f n + 1 are
    /// this core's: they ask for less than s t + C (f + 1). Let S be the sum of s and M that of
    /// C (f + 1). The others ask for at most 1 - S of [b, d). So by b + t all of it is done where
    /// (1 - S)(d - b) + S t + M <= t, which holds from d + M / (1 - S) on.
    fn late(&self, core: CoreId) -> Duration {
        let moving = self.on[core.0 as usize].iter().filter(|it| it.migrates());
        let (mut work, mut rest) = (0, self.one);
        for it in moving {
            work += (u128::from(it.budget.ticks()) * (it.share + it.rate)).div_ceil(it.rate);
            rest = rest.saturating_sub(it.share);
        }
        let late = work.checked_mul(self.one).map_or(u128::MAX, |all| all.div_ceil(rest.max(1)));
        Duration::from_ticks(u64::try_from(late).unwrap_or(u64::MAX))
    }

    fn judged(&self, core: CoreId) -> CoreVerdict {
        let here = &self.on[core.0 as usize];
        let ppb = |part: u128| u128::from(PPB) * part;
        let used = self.capacity - self.room(core);
        let value = ppb(used).div_ceil(self.one) as u64;
        let measure = Measure::Ratio { value, bound: (ppb(self.capacity) / self.one) as u64 };
        let late = self.late(core);
        let of = |it: &Share| (it.vcpu, if it.migrates() { Duration::ZERO } else { late });
        let tardiness = Measure::Tardiness(here.iter().map(of).collect());
        let tests = alloc::vec![
            TestResult { test: "capacity", measure, accepted: true },
            TestResult { test: "tardiness", measure: tardiness, accepted: late.is_zero() },
        ];
        CoreVerdict { core: Some(core), vcpus: here.iter().map(|it| it.vcpu).collect(), tests }
    }
}

#[cfg(test)]
mod tests {
    use super::ENTRY;
    use crate::testing::{periodic, with};
    use alloc::vec::Vec;
    use maracas_core::admission::Measure;
    use maracas_core::{Duration, System, Vcpu};

    /// Five of 2/5 on two cores: of the third, half of the jobs are each core's, the first one on
    /// core 0. It goes first there, so that b waits.
    #[test]
    fn jobs_of_a_task_on_two_cores_are_whole_on_one_of_them() {
        let machine = periodic(&ENTRY, &[], 2, &[(2, 5); 5], 20);
        assert_eq!(machine.schedule(0), "ccaabbaabb".repeat(2));
        assert_eq!((machine.models[1].misses, machine.models[2].misses), (2, 0));
    }

    #[test]
    fn what_fits_whole_does_not_migrate() {
        let machine = periodic(&ENTRY, &[], 2, &[(3, 6); 4], 12);
        assert_eq!(machine.schedule(0), "aaabbbaaabbb");
        assert_eq!(machine.schedule(1), "cccdddcccddd");
    }

    /// C (f + 1) = 3 of which the core without the share of 1/5 does 4/5 a tick.
    #[test]
    fn the_verdict_says_how_late_jobs_are() {
        let ticks = Duration::from_ticks;
        let vcpus = (0..5).map(|id| Vcpu::new(id, ticks(2), ticks(5)).periodic()).collect();
        let verdict = (ENTRY.admit)(&System::new(2, vcpus), &with(&[]));
        let late: Vec<Vec<_>> = (verdict.cores.iter())
            .map(|core| match &core.tests[1].measure {
                Measure::Tardiness(list) => list.iter().map(|(id, t)| (id.0, t.ticks())).collect(),
                Measure::Ratio { .. } | Measure::Responses(_) => Vec::new(),
            })
            .collect();
        assert_eq!(late, [[(0, 4), (1, 4), (2, 0)], [(2, 0), (3, 4), (4, 4)]]);
    }

    #[test]
    fn what_cannot_be_divided_is_refused() {
        let ticks = Duration::from_ticks;
        let admits = |list: &[(u64, u64)], cores| {
            let vcpu =
                |(id, (c, t)): (u32, &(u64, u64))| Vcpu::new(id, ticks(*c), ticks(*t)).periodic();
            let vcpus = (0..).zip(list).map(vcpu).collect();
            (ENTRY.admit)(&System::new(cores, vcpus), &with(&[])).accepted()
        };
        assert!(admits(&[(1, 2); 6], 3) && !admits(&[(1, 2), (1, 2), (1, 2), (1, 2), (1, 2)], 2));
        // Two of 3/4 would migrate on the core between.
        assert!(admits(&[(2, 3); 3], 2) && !admits(&[(3, 4); 4], 3));
    }
}
