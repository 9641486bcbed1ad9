//! Global EDF: the `m` pending jobs with the earliest deadlines run, at most one of each task.
//!
//! # Paper
//! S. K. Dhall, C. L. Liu. "On a Real-Time Scheduling Problem." Operations Research 26(1), 1978,
//! DOI 10.1287/opre.26.1.127. Bounded tardiness: U. C. Devi, J. H. Anderson, "Tardiness Bounds
//! under Global EDF Scheduling on a Multiprocessor", RTSS 2005. Test `gfb`: J. Goossens, S. Funk,
//! S. Baruah, "Priority-Driven Scheduling of Periodic Task Systems on Multiprocessors", Real-Time
//! Systems 25, 2003. The other tests are cited in their files under `parts/global`.
//! # Model
//! Periodic or sporadic tasks, deadlines up to the period; a job may migrate at any instant and
//! does not suspend itself.
//! # How it works
//! A core's run queue is one slot. A selected job keeps its core; a newly selected one takes the
//! core where its task ran last if that is free, else the lowest free core. Equal deadlines: a
//! running job first, then the parameter `ties`.
//! # Invariants
//! No core is free while a job waits. No waiting job has an earlier deadline than a running one.
//! # Where we differ from the paper
//! Ties decide whether some sets miss, so their order is a parameter. Under the rule "most work
//! left first" a job's work is C: whether it will need less, a policy does not know. Only waiting
//! jobs are compared, and what those have received is known. All tests but `gfb` speak of one set:
//! under them others may come while the system runs, but after a leave nobody may, and nothing
//! changes.

use crate::parts::jobs::{self, Backlog, ByVcpu, ENFORCEMENT};
use crate::parts::queue::{Key, Queue};
use crate::parts::table::{Family, Granted, Table, Test, Use};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use maracas_core::admission::Verdict;
use maracas_core::contract::{Claims, Entry, Grant, Needs, no_service_vcpus};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{CoreId, CoreSet, Duration, Event, Instant, Plan, Policy, System, Vcpu, VcpuId};

const TIES: ParamSpec = ParamSpec {
    name: "ties",
    kind: Kind::Choice(&["index", "reverse-index", "shorter-period", "longer-period", MOST_WORK]),
    help: "which of two waiting jobs with equal deadlines goes first; a running job always does. \
           most-work-left = the one with the most left of C",
};
/// The rule whose order changes while a job waits anew.
const MOST_WORK: &str = "most-work-left";
const ADMISSION: ParamSpec = ParamSpec {
    name: "admission",
    kind: Kind::Choice(&["none", "gfb", "bak", "bcl", "ff-dbf", "rta"]),
    help: "none: any load up to the number of cores, tardiness is bounded (Devi and Anderson \
           2005); the others: only sets that provably miss nothing, by gfb (Goossens, Funk and \
           Baruah 2003), bak (Baker 2003), bcl (Bertogna, Cirinei and Lipari 2005), ff-dbf (Baruah \
           and others 2010), rta (Bertogna and Cirinei 2007)",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "g-edf",
    paper: "Dhall and Liu, On a Real-Time Scheduling Problem, Operations Research 1978",
    summary: "global EDF: the m pending jobs with the earliest deadlines run",
    params: &[TIES, ADMISSION, ENFORCEMENT],
    needs: Needs { jobs: true, ..Needs::BUDGETS },
    // Misses are excluded only with another `admission`; claims hold for the defaults.
    claims: Claims { partitioned: false, work_conserving: true, no_miss_when_admitted: false },
    service_vcpus: no_service_vcpus,
    admit,
    build,
};

fn admit(system: &System, params: &Params) -> Verdict {
    judged(system, params).1
}

fn build(system: &System, params: &Params) -> Result<Box<dyn Policy>, Verdict> {
    let (table, verdict) = judged(system, params);
    if !verdict.accepted() {
        return Err(verdict);
    }
    let mut tasks = ByVcpu::default();
    for vcpu in &system.vcpus {
        tasks.insert(vcpu.id, Task::new(vcpu, params));
    }
    Ok(Box::new(GEdf {
        params: params.clone(),
        precise: jobs::precise(params),
        by_work: params.choice(&TIES) == MOST_WORK,
        only_grows: !matches!(test(params), Test::Capacity | Test::Gfb),
        has_shrunk: false,
        table,
        tasks,
        waiting: Queue::default(),
        selected: Queue::default(),
        running: alloc::vec![None; system.cores.len()],
        free: system.core_ids().collect(),
        stale: CoreSet::EMPTY,
        changed: Vec::new(),
        coreless: Vec::new(),
    }))
}

fn test(params: &Params) -> Test {
    match params.choice(&ADMISSION) {
        "gfb" => Test::Gfb,
        "bak" => Test::GlobalBak,
        "bcl" => Test::GlobalBcl,
        "ff-dbf" => Test::GlobalFfDbf,
        "rta" => Test::GlobalRta,
        _ => Test::Capacity,
    }
}

/// Why a set is not exchanged for another while it runs: jobs that the one delayed would meet the
/// other, and these tests speak of one set.
fn no_exchange(what: &str) -> String {
    format!("under this admission test {what} while the system runs; use admission = \"gfb\"")
}

fn judged(system: &System, params: &Params) -> (Table, Verdict) {
    let mut table = Table::new(system, Family::GlobalEdf, test(params), |_, _| None);
    let mut verdict = table.fill(system, false);
    verdict.objections = jobs::objections(system);
    (table, verdict)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Nowhere,
    Waiting(Key),
    On(CoreId),
}

struct Task {
    backlog: Backlog,
    tie: u64,
    /// C.
    budget: Duration,
    /// What its job has received, and when the job before it was complete.
    received: Duration,
    begun: Instant,
    place: Place,
    last: Option<CoreId>,
    /// Whether it stands in `changed`.
    changed: bool,
}

impl Task {
    fn new(vcpu: &Vcpu, params: &Params) -> Self {
        Self {
            backlog: Backlog::new(vcpu, params),
            tie: tie(vcpu, params),
            budget: vcpu.reservation.budget,
            received: Duration::ZERO,
            begun: Instant::ZERO,
            place: Place::Nowhere,
            last: None,
            changed: false,
        }
    }
}

impl Task {
    /// Brings its tie value in step with what its job has left.
    fn weigh(&mut self) {
        self.tie = u64::MAX - self.budget.saturating_sub(self.received).ticks();
    }
}

fn tie(vcpu: &Vcpu, params: &Params) -> u64 {
    let period = vcpu.reservation.period.ticks();
    match params.choice(&TIES) {
        "reverse-index" => u64::MAX - u64::from(vcpu.id.0),
        "shorter-period" => period,
        "longer-period" => u64::MAX - period,
        MOST_WORK => u64::MAX - vcpu.reservation.budget.ticks(),
        // Equal for all: the key's last field, the id, decides.
        _ => 0,
    }
}

/// The VCPU that runs on a core.
#[derive(Clone, Copy)]
struct Slot {
    key: Key,
    grant: Grant,
}

struct GEdf {
    params: Params,
    precise: bool,
    /// Whether the job with the most work left goes first among equal deadlines.
    by_work: bool,
    /// Whether its test speaks of one set, to which others may come and which is never exchanged.
    only_grows: bool,
    /// Whether a VCPU left.
    has_shrunk: bool,
    table: Table,
    tasks: ByVcpu<Task>,
    waiting: Queue,
    /// The jobs on cores, most urgent first.
    selected: Queue,
    /// The same by core.
    running: Vec<Option<Slot>>,
    free: CoreSet,
    /// Cores whose slot changed since the last decision.
    stale: CoreSet,
    /// Tasks whose backlog changed since the last decision.
    changed: Vec<VcpuId>,
    /// Jobs selected in this decision that have no core yet.
    coreless: Vec<Key>,
}

impl Policy for GEdf {
    fn on_event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Released(job) => self.change(job.id.vcpu, |task| task.backlog.release(job)),
            Event::Completed(id) => {
                let by_work = self.by_work;
                self.change(id.vcpu, |task| {
                    task.backlog.complete(*id);
                    if by_work {
                        (task.received, task.begun) = (Duration::ZERO, at);
                        task.weigh();
                    }
                });
            }
            // Only enforcement and one rule for ties look at what was consumed.
            Event::Ran(segment) if self.precise || self.by_work => {
                let by_work = self.by_work;
                self.change(segment.vcpu, |task| {
                    task.backlog.charge(segment.usage.service);
                    if by_work {
                        // The segment may have begun with the job before.
                        task.received += segment.to.saturating_since(segment.from.max(task.begun));
                        task.weigh();
                    }
                });
            }
            Event::Arrived(vcpu) => {
                let fixed = self.only_grows && self.has_shrunk;
                if let Some(reason) = jobs::objection(vcpu) {
                    self.table.refuse(vcpu.id, reason);
                } else if fixed {
                    self.table.refuse(vcpu.id, no_exchange("nothing may come after a leave"));
                } else if self.table.arrive(vcpu, at).is_some() {
                    self.tasks.insert(vcpu.id, Task::new(vcpu, &self.params));
                }
            }
            Event::Changed(vcpu) if self.only_grows => {
                self.table.refuse(vcpu.id, no_exchange("no reservation may change"));
            }
            Event::Changed(vcpu) => self.table.ask(vcpu, at),
            Event::Left(vcpu) => {
                self.has_shrunk = true;
                self.table.leave(*vcpu, at, self.in_use(*vcpu));
                if let Some(task) = self.tasks.remove(*vcpu) {
                    self.withdraw(task.place);
                }
            }
            Event::Ran(_)
            | Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::ServiceDone(_)
            | Event::Failed { .. } => {}
        }
    }

    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        if !self.table.is_settled() {
            self.retry(now);
        }
        self.table.reply(plan);
        while let Some(vcpu) = self.changed.pop() {
            self.update(vcpu);
        }
        self.select();
        while let Some(core) = self.stale.pop_first() {
            let grant = self.running[core.0 as usize].map(|slot| slot.grant);
            if plan.run_queue(core).foreground.first() != grant.as_ref() {
                let run_queue = &mut plan.run_queue_mut(core).foreground;
                run_queue.clear();
                run_queue.extend(grant);
            }
        }
        plan.wake = self.table.next();
    }
}

impl GEdf {
    /// What of the reservation of `vcpu` counts if it leaves or changes.
    fn in_use(&self, vcpu: VcpuId) -> Use {
        self.tasks.get(vcpu).map_or(Use::NONE, |task| task.backlog.in_use())
    }
    /// Admits, and changes, the VCPUs that waited for it and need not any longer.
    fn retry(&mut self, now: Instant) {
        let tasks = &self.tasks;
        let in_use = |id| tasks.get(id).map_or(Use::NONE, |task| task.backlog.in_use());
        for Granted { vcpu, is_change, .. } in self.table.retry(now, |_, id| in_use(id)) {
            if is_change {
                self.become_as(&vcpu);
            } else {
                self.tasks.insert(vcpu.id, Task::new(&vcpu, &self.params));
            }
        }
    }
    /// From the next release on it has this reservation.
    fn become_as(&mut self, vcpu: &Vcpu) {
        let budget = vcpu.reservation.budget;
        let (tie, by_work) = (tie(vcpu, &self.params), self.by_work);
        self.change(vcpu.id, |task| {
            task.backlog.set_budget(budget);
            (task.tie, task.budget) = (tie, budget);
            if by_work {
                task.weigh();
            }
        });
    }

    #[inline]
    fn change(&mut self, vcpu: VcpuId, act: impl FnOnce(&mut Task)) {
        let Some(task) = self.tasks.get_mut(vcpu) else { return };
        act(task);
        if !task.changed {
            task.changed = true;
            self.changed.push(vcpu);
        }
    }

    fn withdraw(&mut self, place: Place) {
        match place {
            Place::Nowhere => {}
            Place::Waiting(key) => {
                self.waiting.remove(key);
            }
            Place::On(core) => {
                if let Some(slot) = self.running[core.0 as usize].take() {
                    self.selected.remove(slot.key);
                }
                self.free.insert(core);
                self.stale.insert(core);
            }
        }
    }

    /// Brings the task's place in step with its backlog. A task's next job waits anew.
    fn update(&mut self, vcpu: VcpuId) {
        let Some(task) = self.tasks.get_mut(vcpu) else { return };
        task.changed = false;
        let wanted = task.backlog.deadline();
        let grant = Grant::new(vcpu, task.backlog.limit());
        let place = task.place;
        let present = match place {
            Place::Nowhere => None,
            Place::Waiting(key) => Some(key.deadline),
            Place::On(core) => self.running[core.0 as usize].map(|slot| slot.key.deadline),
        };
        if present == wanted {
            if let Place::Waiting(key) = place
                && key.tie != task.tie
            {
                let moved = Key { tie: task.tie, ..key };
                task.place = Place::Waiting(moved);
                self.waiting.remove(key);
                self.waiting.insert(moved);
            }
            if let Place::On(core) = place
                && let Some(slot) = &mut self.running[core.0 as usize]
                && slot.grant != grant
            {
                slot.grant = grant;
                self.stale.insert(core);
            }
            return;
        }
        task.place = match wanted {
            None => Place::Nowhere,
            Some(deadline) => Place::Waiting(Key { deadline, tie: task.tie, vcpu }),
        };
        if let Place::Waiting(key) = task.place {
            self.waiting.insert(key);
        }
        self.withdraw(place);
    }

    /// Selects the m most urgent jobs, then gives cores to the newly selected.
    fn select(&mut self) {
        let mut free = self.free.len();
        while free > 0
            && let Some(key) = self.waiting.pop()
        {
            self.coreless.push(key);
            free -= 1;
        }
        // Free cores are taken; from here on a waiting job must beat a running one. Jobs without
        // a core are more urgent than all that wait, so only slots are compared.
        while let (Some(first), Some(last)) = (self.waiting.first(), self.selected.last())
            && first.deadline < last.deadline
        {
            self.waiting.pop();
            self.coreless.push(first);
            self.displace(last);
        }
        self.assign_cores();
    }

    fn displace(&mut self, key: Key) {
        let Some(task) = self.tasks.get_mut(key.vcpu) else { return };
        let place = core::mem::replace(&mut task.place, Place::Waiting(key));
        self.waiting.insert(key);
        self.withdraw(place);
    }

    fn assign_cores(&mut self) {
        for turn in [Turn::LastCore, Turn::AnyCore] {
            let mut rest = 0;
            for i in 0..self.coreless.len() {
                let key = self.coreless[i];
                let Some(task) = self.tasks.get_mut(key.vcpu) else { continue };
                let core = match turn {
                    Turn::LastCore => task.last.filter(|core| self.free.contains(*core)),
                    Turn::AnyCore => self.free.iter().next(),
                };
                let Some(core) = core else {
                    self.coreless[rest] = key;
                    rest += 1;
                    continue;
                };
                task.place = Place::On(core);
                task.last = Some(core);
                let grant = Grant::new(key.vcpu, task.backlog.limit());
                self.running[core.0 as usize] = Some(Slot { key, grant });
                self.selected.insert(key);
                self.free.remove(core);
                self.stale.insert(core);
            }
            self.coreless.truncate(rest);
        }
        assert!(self.coreless.is_empty(), "{:?} selected without a core", self.coreless);
    }
}

#[derive(Clone, Copy)]
enum Turn {
    LastCore,
    AnyCore,
}

#[cfg(test)]
mod tests {
    use super::ENTRY;
    use crate::testing::periodic;
    use alloc::vec;
    use alloc::vec::Vec;
    use maracas_core::contract::decide;
    use maracas_core::{Event, Instant, VcpuId};

    /// algorithms.md C: the third task finishes at 23, after its deadline 22.
    #[test]
    fn dhall_effect() {
        let machine = periodic(&ENTRY, &[], 2, &[(2, 20), (2, 20), (21, 22)], 24);
        assert_eq!(machine.models[2].finished, [23]);
        assert_eq!(machine.models[2].misses, 1);
    }

    #[test]
    fn ties_go_by_the_parameter_but_never_against_a_running_job() {
        let schedule = |ties| {
            let set = [(3, 6), (1, 3), (1, 6)];
            periodic(&ENTRY, &[("ties", ties)], 1, &set, 6).schedule(0)
        };
        // At 3 vcpu1's second job is due at 6 as well, but another runs.
        assert_eq!(schedule("index"), "baaabc");
        assert_eq!(schedule("reverse-index"), "bcaaab");
        assert_eq!(schedule("shorter-period"), "baaabc");
        assert_eq!(schedule("longer-period"), "baaacb");
    }

    #[test]
    fn a_selected_job_takes_its_last_core_where_that_is_free() {
        // At 4 vcpu2 is displaced from core0, where vcpu0 ran last. At 8 all are due at 12, and
        // vcpu2 runs: vcpu0 must take the free core1, and vcpu1 waits.
        let machine = periodic(&ENTRY, &[], 2, &[(1, 4), (1, 4), (9, 12)], 12);
        assert_eq!(machine.schedule(0), "acccacccccc.");
        assert_eq!(machine.schedule(1), "b...b...ab..");
    }

    /// Five jobs on two cores that are all due at 4, one of them needs all of that time: it is in
    /// time only where the most work left decides.
    #[test]
    fn ties_decide_what_misses() {
        let set = [(1, 4), (1, 4), (4, 4), (1, 4), (1, 4)];
        for (ties, schedule, misses) in [
            ("index", ["accc", "bde."], 1),
            ("reverse-index", ["eccc", "dba."], 1),
            ("shorter-period", ["accc", "bde."], 1),
            ("longer-period", ["accc", "bde."], 1),
            ("most-work-left", ["cccc", "abde"], 0),
        ] {
            let machine = periodic(&ENTRY, &[("ties", ties)], 2, &set, 5);
            for (core, schedule) in schedule.into_iter().enumerate() {
                assert_eq!(machine.schedule(core)[..4], *schedule, "{ties}");
            }
            assert_eq!(machine.models[2].misses, misses, "{ties}");
        }
    }

    /// What a preempted job has received counts: of 4 task 0 has one left when it waits again, and
    /// task 1 has two of two.
    #[test]
    fn the_most_work_left_is_counted_without_what_was_done() {
        let set = [(4, 12), (2, 12), (2, 6)];
        let vcpus = (0..).zip(set).map(|(id, (c, t))| {
            let ticks = maracas_core::Duration::from_ticks;
            maracas_core::Vcpu::new(id, ticks(c), ticks(t)).periodic()
        });
        let system = maracas_core::System::new(1, vcpus.collect());
        let params = crate::testing::with(&[("ties", "most-work-left")]);
        let manners = crate::testing::Manners::PERFECT;
        let mut machine = crate::testing::Machine::new(&ENTRY, &params, &system, manners);
        machine.release(0, 4, 12);
        machine.release(1, 2, 12);
        for now in 0..8 {
            if now == 3 {
                machine.release(2, 2, 9);
            }
            machine.tick();
        }
        assert_eq!(machine.schedule(0), "aaaccbba");
    }

    #[test]
    fn the_most_work_left_is_found_on_a_hostile_machine_too() {
        for seed in 0..120 {
            let params = [("ties", "most-work-left"), ("enforcement", "precise")];
            crate::hostile::try_hard(&ENTRY, &params[..1 + seed as usize % 2], seed);
        }
    }

    /// The tests beyond GFB speak of one set: it may grow, but is not exchanged for another.
    #[test]
    fn under_a_test_of_one_set_none_comes_after_a_leave() {
        let ticks = maracas_core::Duration::from_ticks;
        let vcpu = |id| maracas_core::Vcpu::new(id, ticks(1), ticks(10)).periodic();
        for (admission, late) in [("gfb", true), ("bak", false), ("rta", false)] {
            let system = maracas_core::System::new(2, (0..2).map(vcpu).collect());
            let params = crate::testing::with(&[("admission", admission)]);
            let mut policy = (ENTRY.build)(&system, &params).expect("it fits");
            let mut plan = maracas_core::Plan::new(2);
            let mut tell = |event| {
                policy.on_event(Instant::ZERO, &event);
                decide(&mut *policy, Instant::ZERO, &mut plan);
                plan.verdicts().iter().map(|(id, verdict)| (id.0, verdict.is_ok())).collect()
            };
            let verdicts = [
                Event::Arrived(vcpu(2)),
                Event::Changed(vcpu(1)),
                Event::Left(VcpuId(0)),
                Event::Arrived(vcpu(3)),
            ];
            let verdicts: Vec<Vec<(u32, bool)>> = verdicts.map(&mut tell).into();
            let expected = [vec![(2, true)], vec![(1, late)], vec![], vec![(3, late)]];
            assert_eq!(verdicts, expected, "{admission}");
        }
    }
}
