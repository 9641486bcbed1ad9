//! Fairness on uneven cores: what acfs, max-fair, max-perf, min-fair and similar-min-fair have in
//! common. A rule says which share of the fast cores each thread must have; here it gets it, beside
//! the VCPU reservations.
//!
//! # Paper
//! C. Kim, J. Huh. "Fairness-oriented OS Scheduling Support for Multicore Systems." ICS 2016;
//! "Implementation on Linux Kernel" of its slides: rounds, swaps, 30 ms, 2 s.
//! # Model
//! N_f fast and N_s slow cores, or cores of up to eight classes; threads, here VCPUs, that run,
//! block and wake as they like, with jobs or without. A VCPU may have a reservation (C, T), with C
//! meant as time on a class of cores, or none.
//! # How it works
//! *Guarantee.* A VCPU with a reservation has a home core, packed at admission, and is a sporadic
//! server there, in rate-monotonic order (`guarantee.rs`). While it has budget and something to run
//! it stands at home, in the foreground.
//!
//! *Surplus.* Each core has a slot for surplus time, in the background, so that it runs while
//! no thread on a budget does (`slots.rs`). Its owner keeps it over short sleeps and while it runs
//! on its budget at home; a guest has it meanwhile. Idle slots are taken at once by those that
//! wait, and idle fast ones, a millisecond later, by those on slow cores.
//!
//! *Rounds.* What a VCPU receives on each class, on budget or not, is held against its shares of
//! what all receive (`rounds.rs`). At a *look*, with all meters read, whatever is ahead on its
//! class changes places with whatever is behind there, where their leads differ by a good part of a
//! round. The next look is when the next pair will be so far apart, at the present rates; after a
//! round at the latest; never, until something changes, where no pair will.
//!
//! *Updates.* Every 2 s the speedups are estimated anew (`estimate.rs`) and the rule says the
//! shares of all that were runnable meanwhile. When VCPUs come, go, or wake that were left out, it
//! says them anew with the speedups as known. A VCPU that demands a core has its share of all cores
//! there.
//! # Invariants
//! Every VCPU stands on exactly one core's run queue: at home while it sleeps or has budget, where
//! it sits, or where it was last while it waits. One owner and one guest a slot, one slot an owner.
//! No core idles while an unpinned runnable VCPU without budget waits. The leads of all VCPUs on a
//! class sum to zero; with steady shares of threads that are always runnable, none exceeds a round.
//! Chunks of a server sum to C; only foreground service is charged.
//! # What is not promised
//! Rules say shares for all that were there in an interval, as if no thread slept and no budget or
//! pin took more of a class than its share. While some sleep, the others have more, in proportion
//! to their shares, which is not what the rule would say for the others alone; where budgets take
//! more, the others have less. So min-fair's target is kept by threads that are always runnable
//! and have no such neighbours: beside threads that slept for up to 50 ms at a time, 41 of 655 in
//! random systems came below 0.845 of 0.85, down to 0.73. A speedup that a program pretends, by
//! what it counts, changes its own share within the bounds of the rule: the required shares of
//! others, and budgets, depend on nothing that it says.
//! # Where we differ from the paper
//! It has two classes; more are ours (`shares.rs`). It knows no reservations. Leads are counted in
//! time, not in rounds of f * 30 ms, which are short for small f, and threads change places at 4/5
//! of a round. Counters are not set to zero at an update: what a thread is ahead stays with it, so
//! that the error is a round over a whole run, not in every 2 s. Sleepers wake with the lead that
//! they had, at most two rounds: there is no credit for sleep. A thread that wakes stands before
//! the one that sits on its core until the next decision, so that machines which see a wake only
//! when it is switched in see it at once. I/O VCPUs are sporadic servers like others here, though
//! admitted with what PIBS servers may consume.

pub(crate) mod acfs;
mod estimate;
mod guarantee;
pub(crate) mod max_fair;
pub(crate) mod max_perf;
pub(crate) mod min_fair;
mod rounds;
mod shares;
pub(crate) mod similar_min_fair;
mod slots;
mod thread;

use crate::parts::sporadic::CHUNK_MIN;
use crate::parts::table::Table;
use crate::parts::test::FIXED_PRIORITIES;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use estimate::{Class, MOST_CLASSES};
use maracas_core::admission::{Objection, Verdict};
use maracas_core::contract::{Claims, Grant, Limit, Needs, Statistic};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{CoreId, Duration, Event, Instant, Plan, Policy, System, VcpuId};
use shares::{Places, Speeds, Speedup};
use slots::{Slots, Threads};
use thread::Thread;

const ROUND: ParamSpec = ParamSpec {
    name: "round",
    kind: Kind::Time("30ms"),
    help: "how far a thread may be ahead of its share of the fast or the slow cores, or behind it \
           (Kim and Huh 2016, slides: rounds of 30 ms)",
};
const UPDATE: ParamSpec = ParamSpec {
    name: "update",
    kind: Kind::Time("2s"),
    help: "how often speedups are estimated and shares computed anew (Kim and Huh 2016, slides: \
           2 s); at least two rounds, one on each class",
};

/// What all of them take; some take more.
pub(crate) const PARAMS: &[ParamSpec] = &[ROUND, UPDATE, CHUNK_MIN, FIXED_PRIORITIES];

/// What all of them need.
pub(crate) const NEEDS: Needs =
    Needs { budgets: false, progress: true, classes: 2, ..Needs::BUDGETS };

/// A VCPU on a budget waits at home for those before it there, though another core be idle.
pub(crate) const CLAIMS: Claims =
    Claims { partitioned: false, work_conserving: false, no_miss_when_admitted: false };

/// A rule: the share of fast cores of every thread at a cut, by the speedups as far as they are
/// known.
pub(crate) type Rule = fn(Places, &[Option<Speedup>], &Params) -> Vec<u64>;

/// How the shares of all threads are found.
#[derive(Clone, Copy)]
pub(crate) enum Sharing {
    /// By a rule that is asked at every cut; all threads have the same share of all cores.
    AtCuts(Rule),
    /// By a rule for two classes that weighs threads.
    ByWeight(fn(Places, &[acfs::Claim], &Params) -> Vec<[u64; 2]>),
}

pub(crate) fn admit(system: &System, params: &Params) -> Verdict {
    let objections = objections(system, params);
    if objections.is_empty() {
        return guarantee::placed(system, params).1;
    }
    Verdict { objections, ..Verdict::default() }
}

fn objections(system: &System, params: &Params) -> Vec<Objection> {
    let mut objections = Vec::new();
    let (round, update) = (params.time(&ROUND), params.time(&UPDATE));
    let round = round.unwrap_or_default();
    if round.is_zero() {
        let why = "is 0; give a time above 0, such as \"30ms\"";
        objections.push(Objection::to(ROUND.name, why));
    } else if update.is_none_or(|update| update < round * 2) {
        let update = update.unwrap_or_default();
        let least = round * 2;
        let why = format!("is {update}, less than two rounds of {round}; give {least} or more");
        objections.push(Objection::to(UPDATE.name, why));
    }
    let kinds = kinds(system);
    if !(2..=MOST_CLASSES).contains(&kinds.len()) {
        let kinds: Vec<String> =
            kinds.iter().map(|(class, n)| format!("{n} of class {class}")).collect();
        let why = format!(
            "it schedules cores of two to {MOST_CLASSES} classes, and these are {}; give the \
             platform so many classes of cores, or use maracas",
            kinds.join(" and ")
        );
        objections.push(why.into());
    }
    objections
}

/// The classes that have cores, the fastest first, and how many.
fn kinds(system: &System) -> Vec<(u8, usize)> {
    let count = |class: u8| system.cores.iter().filter(|core| core.class == class).count();
    let kinds = (0..=u8::MAX).map(|class| (class, count(class)));
    kinds.filter(|(_, cores)| *cores > 0).collect()
}

/// The class of each core, as fairness sees it.
fn sides(system: &System) -> Vec<Class> {
    let kinds = kinds(system);
    let side = |class| kinds.iter().position(|(kind, _)| *kind == class).unwrap_or_default();
    system.cores.iter().map(|core| side(core.class)).collect()
}

/// The speed of each class that has cores, in thousandths, the fastest first.
fn speeds(system: &System) -> Vec<u32> {
    let speed = |class: u8| system.classes.get(usize::from(class)).map(|class| class.speed_milli);
    kinds(system).iter().map(|(class, _)| speed(*class).unwrap_or(1000)).collect()
}

pub(crate) fn build(
    system: &System,
    params: &Params,
    rule: Rule,
) -> Result<Box<dyn Policy>, Verdict> {
    build_sharing(system, params, Sharing::AtCuts(rule))
}

pub(crate) fn build_sharing(
    system: &System,
    params: &Params,
    sharing: Sharing,
) -> Result<Box<dyn Policy>, Verdict> {
    let objections = objections(system, params);
    if !objections.is_empty() {
        return Err(Verdict { objections, ..Verdict::default() });
    }
    let (table, verdict) = guarantee::placed(system, params);
    if !verdict.accepted() {
        return Err(verdict);
    }
    let time = |spec| params.time(spec).unwrap_or_default() * system.ticks_per_ns;
    let (round, update, chunk_min) = (time(&ROUND), time(&UPDATE), time(&CHUNK_MIN));
    let mut policy = Uneven {
        sharing,
        params: params.clone(),
        times: Times { round, update, chunk_min },
        table,
        threads: Threads::new(),
        slots: Slots::new(&sides(system), speeds(system), round),
        look: Instant::ZERO,
        next_update: Instant::ZERO + update,
        is_stale: true,
        is_unsettled: true,
        updates: 0,
        drafts: system.cores.iter().map(|_| Draft::default()).collect(),
    };
    for vcpu in &system.vcpus {
        policy.enter(vcpu, Instant::ZERO);
    }
    Ok(Box::new(policy))
}

/// [`admit`] for a rule with a target.
pub(crate) fn admit_target(system: &System, params: &Params) -> Verdict {
    match shares::target_objection(params) {
        Some(why) => Verdict { objections: alloc::vec![why], ..Verdict::default() },
        None => admit(system, params),
    }
}

/// [`build`] for a rule with a target.
pub(crate) fn build_target(
    system: &System,
    params: &Params,
    rule: Rule,
) -> Result<Box<dyn Policy>, Verdict> {
    match shares::target_objection(params) {
        Some(why) => Err(Verdict { objections: alloc::vec![why], ..Verdict::default() }),
        None => build(system, params, rule),
    }
}

/// The times that the user chose, in ticks.
#[derive(Clone, Copy)]
struct Times {
    round: Duration,
    update: Duration,
    chunk_min: Duration,
}

/// The scheduler behind all of them.
struct Uneven {
    sharing: Sharing,
    params: Params,
    times: Times,
    table: Table,
    threads: Threads,
    slots: Slots,
    /// When leads are settled next.
    look: Instant,
    next_update: Instant,
    /// Whether a thread without shares is there, or one that had some is gone.
    is_stale: bool,
    /// Whether something happened since the last look that may change what sits where.
    is_unsettled: bool,
    updates: u64,
    /// Room for the run queues being made, by core.
    drafts: Vec<Draft>,
}

/// One core's run queue being made.
#[derive(Clone, Default, Debug)]
struct Draft {
    foreground: Vec<((Duration, VcpuId), Grant)>,
    background: Vec<((Rank, i64, VcpuId), Grant)>,
}

/// The order of a core's background.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Rank {
    /// As far as is known, it has nothing to run.
    Sleeps,
    /// It has the slot.
    Sits,
    /// It runs if all before it block, until the next decision.
    Waits,
    /// It has budget left.
    InBudget,
}

impl Policy for Uneven {
    fn on_event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Ran(segment) => {
                let side = self.slots.side(segment.core);
                self.with(segment.vcpu, |thread| thread.ran(segment, side));
            }
            Event::Released(job) => self.with(job.id.vcpu, |thread| thread.release(job)),
            Event::Completed(id) => self.with(id.vcpu, |thread| thread.complete(*id)),
            // An inexact wake comes with the later instant of the switch: budgets then come back
            // later, never earlier.
            Event::Woke { vcpu, .. } => self.with(*vcpu, |thread| thread.wake(at)),
            Event::Arrived(vcpu) => self.arrive(vcpu, at),
            Event::Changed(vcpu) => self.change(vcpu, at),
            Event::Left(vcpu) => self.leave(*vcpu, at),
            Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::ServiceDone(_)
            | Event::Failed { .. } => {}
        }
    }

    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        if plan.wake_metered && plan.wake <= now {
            self.set_in(now);
        }
        let mut replenished = self.replenish(now);
        while !self.table.is_settled() && self.retry(now) {
            replenished = self.replenish(now);
        }
        self.table.reply(plan);
        self.is_unsettled |= self.slots.fill(&mut self.threads, now);
        let mut ascent = self.slots.ascend(&mut self.threads, now);
        if self.is_unsettled {
            // Budgets and sleepers change which thread is ahead of which within a round; what waits
            // may be behind already.
            let looks = if self.slots.has_waiting(&self.threads) { 8 } else { 1 };
            let wait = Duration::from_ticks((self.times.round.ticks() / looks).max(1));
            self.look = self.look.min(now.saturating_add(wait));
        }
        if self.is_stale || self.look <= now {
            self.look(now);
            ascent = self.slots.ascend(&mut self.threads, now);
        }
        self.stand(now, plan);
        plan.wake = replenished.min(self.look).min(ascent).min(self.table.next());
        let is_changing = self.is_changing();
        if is_changing {
            plan.wake = now.saturating_add(Duration::from_ticks(1));
        }
        plan.wake_metered = plan.wake == self.look || is_changing;
    }

    fn statistics(&self) -> Vec<Statistic> {
        let statistic = |name, vcpu, value| Statistic { name, core: None, vcpu, value };
        let of_thread = |thread: &Thread| {
            let speedup = thread.estimator.speeds(&self.slots.speeds).map(Speeds::milli);
            let speedup = speedup.map(|milli| statistic("speedup milli", Some(thread.id), milli));
            let share = u128::from(thread.account.share(0)) * 1_000_000;
            let whole = u128::from(thread.account.whole().max(1));
            let share = statistic("fast share ppm", Some(thread.id), (share / whole) as u64);
            speedup.into_iter().chain([share])
        };
        let all =
            [statistic("swaps", None, self.slots.swaps), statistic("updates", None, self.updates)];
        self.threads.values().flat_map(of_thread).chain(all).collect()
    }
}

impl Uneven {
    fn with(&mut self, vcpu: VcpuId, act: impl FnOnce(&mut Thread)) {
        let Some(thread) = self.threads.get_mut(&vcpu) else { return };
        let (was_runnable, was_out) = (thread.runnable(), thread.account.is_left_out());
        act(thread);
        self.is_unsettled |= thread.runnable() != was_runnable;
        self.is_stale |= was_out && !thread.account.is_left_out();
    }

    /// Settles the leads, computes shares anew where that is due, and lets threads change places.
    fn look(&mut self, now: Instant) {
        let mut accounts: Vec<_> = self.threads.values_mut().map(|it| &mut it.account).collect();
        // Two rounds: more than any thread is ahead of steady shares, and soon made good.
        rounds::settle(&mut accounts, now, self.times.round * 2);
        if self.next_update <= now {
            for thread in self.threads.values_mut() {
                thread.estimator.close_interval();
                thread.account.close_interval();
            }
            self.updates += 1;
            let late = now.saturating_since(self.next_update).ticks() / self.times.update.ticks();
            self.next_update += self.times.update * (late + 1);
            self.is_stale = true;
        }
        if core::mem::take(&mut self.is_stale) {
            self.share();
        }
        let next = self.slots.balance(&mut self.threads, now);
        self.look = next.min(self.next_update);
        self.is_unsettled = false;
    }

    /// Asks the rule for the shares of all that take part.
    fn share(&mut self) {
        let takes_part = |thread: &&Thread| !thread.account.is_left_out();
        let threads: Vec<&Thread> = self.threads.values().filter(takes_part).collect();
        let classes = self.slots.speeds.len();
        let cores: Vec<usize> = (0..classes).map(|class| self.slots.count(class)).collect();
        let places =
            Places::of(threads.len(), &cores).sampling(self.times.round, self.times.update);
        let speeds = threads.iter().map(|thread| thread.estimator.speeds(&self.slots.speeds));
        let speeds: Vec<_> = speeds.collect();
        let shares = match self.sharing {
            Sharing::AtCuts(rule) => shares::by_class(rule, places, classes, &speeds, &self.params),
            Sharing::ByWeight(rule) => {
                let weights = threads.iter().map(|thread| thread.weight);
                let claim = |(speeds, weight)| acfs::Claim::new(speeds, &self.slots.speeds, weight);
                let claims: Vec<_> = speeds.into_iter().zip(weights).map(claim).collect();
                rule(places, &claims, &self.params).into_iter().map(shares::of_two).collect()
            }
        };
        let slots = &self.slots;
        let sharing = self.threads.values_mut().filter(|thread| !thread.account.is_left_out());
        for (thread, mut shares) in sharing.zip(shares) {
            // A thread that demands a core has its share of the cores there, whatever the rule
            // says.
            if let Some(class) = thread.pinned.map(|core| slots.side(core)) {
                let all = shares.iter().sum();
                shares = [0; MOST_CLASSES];
                shares[class] = all;
            }
            thread.account.set_shares(shares, places.whole());
        }
    }

    /// Writes the run queue of every core.
    fn stand(&mut self, now: Instant, plan: &mut Plan) {
        for draft in &mut self.drafts {
            draft.foreground.clear();
            draft.background.clear();
        }
        for thread in self.threads.values() {
            let core = thread.place;
            let draft = &mut self.drafts[core.0 as usize];
            let at_home = thread.guarantee.as_ref().filter(|it| it.home == core);
            if let Some((guarantee, grant)) = at_home.zip(thread.budget_grant(now)) {
                draft.foreground.push((guarantee.urgency, grant));
            }
            let rank = match (thread.runnable(), thread.in_budget) {
                (false, _) => Rank::Sleeps,
                (true, true) => Rank::InBudget,
                (true, false) if self.slots.has(core, thread.id) => Rank::Sits,
                (true, false) => Rank::Waits,
            };
            let lead =
                if rank == Rank::Waits { thread.account.lead(self.slots.side(core)) } else { 0 };
            let grant = Grant::new(thread.id, Limit::NEVER);
            draft.background.push(((rank, lead, thread.id), grant));
        }
        for (core, draft) in (0..).map(CoreId).zip(&mut self.drafts) {
            draft.foreground.sort_unstable_by_key(|(key, _)| *key);
            draft.background.sort_unstable_by_key(|(key, _)| *key);
            let foreground = draft.foreground.iter().map(|(_, grant)| *grant);
            if !plan.run_queue(core).foreground.iter().copied().eq(foreground.clone()) {
                let run_queue = &mut plan.run_queue_mut(core).foreground;
                run_queue.clear();
                run_queue.extend(foreground);
            }
            let background = draft.background.iter().map(|(_, grant)| *grant);
            if !plan.run_queue(core).background.iter().copied().eq(background.clone()) {
                let run_queue = &mut plan.run_queue_mut(core).background;
                run_queue.clear();
                run_queue.extend(background);
            }
        }
    }
}

#[cfg(test)]
mod tests;
