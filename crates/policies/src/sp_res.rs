//! Semi-partitioned reservations: partitioned EDF, under which a reservation that fits on no core
//! is split as by C=D, and reservations come and go while others run.
//!
//! # Paper
//! B. B. Brandenburg, M. Gul. "Global Scheduling Not Required: Simple, Near-Optimal Multiprocessor
//! Real-Time Scheduling with Semi-Partitioned Reservations." RTSS 2016.
//! # Model
//! Periodic or sporadic tasks, deadlines up to the period, each in a reservation (C, D, T) of its
//! own: it gets C for each job and no more, whatever it needs. Jobs do not suspend themselves.
//! # How it works
//! *Placing.* Reservations go, heaviest first, to the first core whose EDF test accepts them. One
//! that fits nowhere is split: a piece whose budget is its deadline on the core that takes most of
//! it so, the rest on another. Beside short periods such a piece can be no longer than what these
//! leave at once. So a job is also divided in time, into k equal parts (period transformation: L.
//! Sha, J. P. Lehoczky, R. Rajkumar, RTSS 1986) of which each is split alike: k = 1, 2, 4, ..., up
//! to as many shortest periods as D has; the least k that does is taken. Before the start, those
//! that found no place go first and all are placed again, until none is refused or those were
//! first.
//!
//! *Running.* Each core runs what has the earliest deadline, of a piece its window's end.
//!
//! *Joins.* No task moves for it: a newcomer is placed as above beside what is there or held.
//! Where only what is held is in its way, it waits for its answer.
//!
//! *Leaves.* What left is held on each of its cores until that core rests, that is until nothing on
//! it may run. A window from the last instant before a deadline at which no job released before was
//! pending that is due by then, to that deadline, holds no rest inside. So all that it holds is of
//! tasks that are there or held together, which the exact test of Zhang and Burns (2009) has
//! accepted as one set: no job is late. What left has made room, so the core rests in the end, an
//! idle one at once. A changed reservation is one that leaves and one that comes, at an instant at
//! which the task has no job. It may wait without end: what it changes is held beside it until its
//! cores rest at such an instant, and a core with little room left may never do so.
//! # Invariants
//! At each instant the test accepted, on each core, what is there or was there since its last rest.
//! Each core's run queue is that of EDF on one core, and no task stands on two. Overheads and late
//! decisions are not in the test: nothing is promised with them, nor on cores that are not whole.
//! # Where we differ from the paper
//! We follow its abstract, which names reservations, semi-partitioned scheduling, period
//! transformation and heuristics of placement: these heuristics, and how reservations come and go,
//! are ours. A reservation serves the jobs of one task here, not any programs. Parts of a job are
//! whole ticks, C rounded up and D down.

use crate::parts::bounds;
use crate::parts::exact::Exact;
use crate::parts::jobs::{self, Backlog};
use crate::parts::semi::Semi;
use crate::parts::split::{self, Cores, Piece, Placed};
use crate::parts::table::{Family, Table, Test};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::iter::successors;
use maracas_core::admission::{NotAdmitted, Verdict};
use maracas_core::contract::{Claims, Entry, Needs, Statistic, no_service_vcpus};
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{
    CoreId, Duration, Event, Instant, Plan, Policy, Reservation, System, Vcpu, VcpuId,
};

pub(crate) const ENTRY: Entry = Entry {
    name: "sp-res",
    paper: "Brandenburg and Gul, Global Scheduling Not Required: Simple, Near-Optimal \
            Multiprocessor Real-Time Scheduling with Semi-Partitioned Reservations, RTSS 2016",
    summary: "semi-partitioned reservations: C=D with shortened periods; tasks may come and go",
    params: &[ENFORCEMENT],
    needs: Needs { jobs: true, ..Needs::BUDGETS },
    // The verdict has the test that excludes misses. As a claim, of a policy that migrates, it
    // would say that nothing is missed up to full cores.
    claims: Claims { partitioned: false, work_conserving: false, no_miss_when_admitted: false },
    service_vcpus: no_service_vcpus,
    admit: |system, _| placed(system).verdict,
    fits: None,
    build,
};

const ENFORCEMENT: ParamSpec = ParamSpec {
    name: "enforcement",
    kind: Kind::Choice(&["precise"]),
    help: "whether jobs are cut when they overrun: always, at C, which is all that is reserved",
};

fn build(system: &System, _: &Params) -> Result<Box<dyn Policy>, Verdict> {
    let Placed { pieces, cores, verdict } = placed(system);
    if !verdict.accepted() {
        return Err(verdict);
    }
    let mut semi = Semi::by_deadline(system);
    for (vcpu, pieces) in pieces {
        semi.enter(&vcpu, pieces, Backlog::cut(&vcpu));
    }
    Ok(Box::new(SpRes {
        semi,
        room: Room { there: cores, held: Vec::new() },
        rules: Table::new(system, Family::Edf, Test::Qpa, |_, _| None),
        requests: Vec::new(),
        has_news: false,
        answers: Vec::new(),
    }))
}

/// Places all, those first for which there was no place before.
fn placed(system: &System) -> Placed {
    let mut order = split::heaviest(system);
    let mut placed = split::place(system, &order, divided);
    let asked = bounds::total(&system.vcpus, bounds::demand);
    let given = Exact::from(system.capacity).times(Exact::whole(system.cores.len() as u128));
    let mut first: Vec<VcpuId> = Vec::new();
    while let Some(&(refused, _)) = placed.verdict.refused.first() {
        let place = order.iter().position(|vcpu| vcpu.id == refused).unwrap_or_default();
        if asked > given || first.contains(&refused) {
            break;
        }
        first.push(refused);
        order[..=place].rotate_right(1);
        placed = split::place(system, &order, divided);
    }
    placed
}

/// C=D for a job's equal parts, of which there are as few as can be.
fn divided(cores: &Cores, vcpu: &Vcpu) -> Option<Vec<Piece>> {
    let there = cores.ids().flat_map(|core| cores.on(core));
    let shortest = there.map(|it| it.reservation.period.ticks()).min()?.max(1);
    let most = (vcpu.reservation.deadline.ticks() / shortest).max(1);
    let doubled = successors(Some(1), |k| (*k < most).then(|| most.min(k * 2)));
    doubled.filter_map(|k| part(vcpu, k)).find_map(|it| split::without_spare_time(cores, &it))
}

/// One of `k` equal parts of each job, as a task.
fn part(vcpu: &Vcpu, k: u64) -> Option<Vcpu> {
    if k == 1 {
        return Some(vcpu.clone());
    }
    let Reservation { budget, deadline, .. } = vcpu.reservation;
    let budget = Duration::from_ticks(budget.ticks().div_ceil(k));
    let window = Duration::from_ticks(deadline.ticks() / k);
    let reservation = Reservation { budget, period: window, deadline: window };
    (budget <= window).then(|| Vcpu { reservation, ..vcpu.clone() })
}

/// What is given away of the cores.
#[derive(Clone, Debug)]
struct Room {
    /// What is there.
    there: Cores,
    /// What left and counts until its core rests.
    held: Vec<(CoreId, Vcpu)>,
}

impl Room {
    /// Where `vcpu` can go beside all that counts.
    fn pieces(&self, vcpu: &Vcpu) -> Option<Vec<Piece>> {
        let mut all = self.there.clone();
        self.held.iter().for_each(|(core, vcpu)| all.add(*core, vcpu.clone()));
        all.pieces(vcpu, divided)
    }
    /// Whether `vcpu` could be there if nothing were held.
    fn has_for(&self, vcpu: &Vcpu) -> bool {
        self.there.pieces(vcpu, divided).is_some()
    }
    /// Holds what `vcpu` has, and takes it away.
    fn leave(&mut self, vcpu: VcpuId) {
        self.held.append(&mut self.there.take(vcpu));
    }
    /// Frees what is held on cores that rest; whether anything was.
    fn free(&mut self, semi: &Semi) -> bool {
        let before = self.held.len();
        self.held.retain(|(core, _)| !semi.rests(*core));
        self.held.len() < before
    }
}

/// Something that a task asks for.
#[derive(Debug)]
struct Request {
    vcpu: Vcpu,
    is_change: bool,
}

/// What came of asking.
enum Answer {
    Yes(CoreId),
    No(NotAdmitted),
    Waits,
}

struct SpRes {
    semi: Semi,
    room: Room,
    /// Says what no core could ever take.
    rules: Table,
    /// In the order in which they came.
    requests: Vec<Request>,
    /// Whether something was asked for or freed since the requests were looked at.
    has_news: bool,
    /// Answers that the next plan is to give.
    answers: Vec<(VcpuId, Result<CoreId, NotAdmitted>)>,
}

impl Policy for SpRes {
    fn on_event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Arrived(vcpu) => self.ask(vcpu, false),
            Event::Changed(vcpu) => self.ask(vcpu, true),
            Event::Left(vcpu) => {
                self.requests.retain(|request| request.vcpu.id != *vcpu);
                self.room.leave(*vcpu);
                self.has_news = true;
                self.semi.on_event(at, event);
            }
            Event::Ran(_)
            | Event::Released(_)
            | Event::Completed(_)
            | Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::ServiceDone(_)
            | Event::Failed { .. } => self.semi.on_event(at, event),
        }
    }

    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        self.semi.plan(now, plan);
        self.has_news |= self.room.free(&self.semi);
        if self.may_answer() {
            self.answer();
            self.semi.plan(now, plan);
        }
        for (vcpu, answer) in self.answers.drain(..) {
            plan.answer(vcpu, answer);
        }
    }

    fn statistics(&self) -> Vec<Statistic> {
        self.semi.statistics()
    }
}

impl SpRes {
    fn ask(&mut self, vcpu: &Vcpu, is_change: bool) {
        self.requests.push(Request { vcpu: vcpu.clone(), is_change });
        self.has_news = true;
    }
    /// Whether some request may have an answer that it had not before.
    fn may_answer(&self) -> bool {
        let is_idle = |it: &Request| it.is_change && self.semi.is_idle(it.vcpu.id);
        !self.requests.is_empty() && (self.has_news || self.requests.iter().any(is_idle))
    }
    /// Answers what can be answered; what one gives up may be room for another.
    fn answer(&mut self) {
        self.has_news = false;
        let mut before = usize::MAX;
        while self.requests.len() < before {
            before = self.requests.len();
            for request in core::mem::take(&mut self.requests) {
                let id = request.vcpu.id;
                // Requests of one task are answered in their order.
                let is_next = self.requests.iter().all(|it| it.vcpu.id != id);
                let answer = if is_next { self.consider(&request) } else { Answer::Waits };
                match answer {
                    Answer::Yes(core) => self.answers.push((id, Ok(core))),
                    Answer::No(why) => self.answers.push((id, Err(why))),
                    Answer::Waits => self.requests.push(request),
                }
            }
        }
    }
    fn consider(&mut self, Request { vcpu, is_change }: &Request) -> Answer {
        if let Some(reason) = self.objection(vcpu, *is_change) {
            return Answer::No(NotAdmitted { reason, closest: None });
        }
        if *is_change {
            return self.change(vcpu);
        }
        if let Some(pieces) = self.room.pieces(vcpu) {
            return self.enter(vcpu, pieces, Backlog::cut(vcpu));
        }
        if self.room.has_for(vcpu) {
            return Answer::Waits;
        }
        Answer::No(self.room.there.refusal(vcpu))
    }
    /// Why this can never be, if so.
    fn objection(&self, vcpu: &Vcpu, is_change: bool) -> Option<String> {
        let id = vcpu.id;
        let known = match (is_change, self.room.there.have(id)) {
            (true, false) => Some(format!("{id} is not admitted, so nothing can change")),
            (false, true) => Some(format!("{id} is admitted already; use a new id")),
            (true, true) | (false, false) => None,
        };
        known.or_else(|| jobs::objection(vcpu)).or_else(|| self.rules.malformed(vcpu))
    }
    /// Lets the old reservation go and a new one come, if nothing is to be done for the old one.
    fn change(&mut self, vcpu: &Vcpu) -> Answer {
        let mut room = self.room.clone();
        room.leave(vcpu.id);
        if !room.has_for(vcpu) {
            return Answer::No(room.there.refusal(vcpu));
        }
        if !self.semi.is_idle(vcpu.id) {
            return Answer::Waits;
        }
        room.free(&self.semi);
        let Some(pieces) = room.pieces(vcpu) else { return Answer::Waits };
        let Some(mut backlog) = self.semi.leave(vcpu.id) else { return Answer::Waits };
        backlog.set_budget(vcpu.reservation.budget);
        self.room = room;
        self.enter(vcpu, pieces, backlog)
    }
    fn enter(&mut self, vcpu: &Vcpu, pieces: Vec<Piece>, backlog: Backlog) -> Answer {
        self.room.there.put(vcpu, &pieces);
        let core = pieces.first().map_or(CoreId(0), |piece| piece.core);
        self.semi.enter(vcpu, pieces, backlog);
        Answer::Yes(core)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::periodic;

    /// Three tasks of two thirds on two cores: of the third, what the first leaves goes ahead of
    /// it, and the rest, (4, 8, 12), is due before the second.
    #[test]
    fn what_fits_nowhere_is_split_as_by_c_d() {
        let machine = periodic(&ENTRY, &[], 2, &[(8, 12), (8, 12), (8, 12)], 24);
        assert_eq!(machine.schedule(0), "ccccaaaaaaaaccccaaaaaaaa");
        assert_eq!(machine.schedule(1), "bbbbbbbbccccbbbbbbbbcccc");
        assert!(machine.models.iter().all(|model| model.misses == 0));
    }

    /// Two cores have 3 ticks of each 10 left. A piece of (60, 100) without spare time has at most
    /// 3 of 100; of a tenth of it, (6, 10), it has 3 of 10, and the rest fits on the other core.
    #[test]
    fn beside_short_periods_a_long_one_is_shortened() {
        let tasks = [(7, 10), (7, 10), (60, 100)];
        let machine = periodic(&ENTRY, &[], 2, &tasks, 200);
        assert_eq!(&machine.schedule(0)[..20], "cccaaaaaaacccaaaaaaa");
        assert_eq!(&machine.schedule(1)[..20], "bbbbbbbcccbbbbbbbccc");
        assert!(machine.models.iter().all(|model| model.misses == 0));
        let vcpu = |(id, &(budget, period)): (usize, &(u64, u64))| {
            let ticks = Duration::from_ticks;
            Vcpu::new(id as u32, ticks(budget), ticks(period)).periodic()
        };
        let system = System::new(2, tasks.iter().enumerate().map(vcpu).collect());
        let c_d = crate::find("c-d").unwrap();
        assert!(!(c_d.admit)(&system, &Params::new()).accepted());
    }
}
