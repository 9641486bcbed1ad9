//! What the live machine costs: what it asks the host for, counted; and the code of the machine
//! kept apart from that of the host, so that callgrind can count its instructions
//! (`tests/tests/live_cost.rs`) and a clock can take its time (`tests/benches/live_decision.rs`).

use super::LiveCase;
use super::rig::{Played, Rig};
use super::world::Program;
use maracas_core::contract::Entry;
use maracas_core::{Duration, Rate, System, Vcpu};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Instant;

/// What a machine asks the host for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LiveCall {
    /// The clock: no system call on most hosts.
    Clock,
    /// The meter of a VCPU that has run since it was last read, or a counter.
    Meter,
    /// The meter of one that has not since it was read on the core where it sits, which its event's
    /// page says: no system call where the kernel renews that page when the VCPU comes on a core.
    Page,
    /// The level of a thread.
    Level,
    /// Freezing and thawing, which another thread carries out.
    Freezer,
    /// The threads of a VCPU.
    List,
    /// Whatever else is a system call: to move, to listen, to read and set a memory monitor.
    Other,
}

impl LiveCall {
    /// Each, by its number.
    pub const ALL: [Self; 7] =
        [Self::Clock, Self::Meter, Self::Page, Self::Level, Self::Freezer, Self::List, Self::Other];
}

thread_local! {
    /// The machine is at work.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// What it asked for, by kind.
    static CALLS: [Cell<u64>; LiveCall::ALL.len()] =
        const { [const { Cell::new(0) }; LiveCall::ALL.len()] };
    /// The machine's time, where that is taken.
    static TIME: Cell<Option<Time>> = const { Cell::new(None) };
    /// What is walked through before an agent wakes.
    static WALKED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// How long the machine was at work.
#[derive(Clone, Copy)]
struct Time {
    /// Since when it is, if it is.
    since: Instant,
    ns: u64,
    /// How often it began, or went on after the host.
    spans: u64,
}

impl Time {
    fn new() -> Self {
        Self { since: Instant::now(), ns: 0, spans: 0 }
    }
    /// The machine begins, or goes on.
    fn begin() {
        if let Some(time) = TIME.get() {
            TIME.set(Some(Self { since: Instant::now(), ..time }));
        }
    }
    /// It ends, or the host is at work.
    fn end() {
        if let Some(mut time) = TIME.get() {
            time.ns += time.since.elapsed().as_nanos() as u64;
            time.spans += 1;
            TIME.set(Some(time));
        }
    }
    /// What taking it costs for each time that the machine begins, in nanoseconds: the least mean
    /// of some, as others were interrupted.
    fn cost() -> f64 {
        let mean = |_| {
            TIME.set(Some(Self::new()));
            (0..10_000).for_each(|_| {
                Self::begin();
                Self::end();
            });
            TIME.take().map_or(0.0, |time| time.ns as f64 / time.spans as f64)
        };
        (0..10).map(mean).fold(f64::INFINITY, f64::min)
    }
}

/// An agent wakes: programs of others had its core meanwhile.
pub(super) fn wakes() {
    WALKED.with_borrow_mut(|walked| walked.iter_mut().step_by(8).for_each(|word| *word += 1));
}

/// The machine, whose time counts.
pub(super) fn machine<T>(work: impl FnOnce() -> T) -> T {
    INSIDE.set(true);
    Time::begin();
    let done = at_work(work);
    Time::end();
    INSIDE.set(false);
    done
}

/// The machine at work; callgrind is told this name.
#[inline(never)]
fn at_work<T>(work: impl FnOnce() -> T) -> T {
    work()
}

/// What the host does beside the machine: what callgrind counts in functions of this name is not
/// the machine's.
#[inline(never)]
pub(super) fn beside<T>(work: impl FnOnce() -> T) -> T {
    if !INSIDE.get() {
        return work();
    }
    Time::end();
    let done = work();
    Time::begin();
    done
}

/// Counts a call.
pub(super) fn count(call: LiveCall) {
    CALLS.with(|calls| {
        let calls = &calls[call as usize];
        calls.set(calls.get() + 1);
    });
}

/// Does what the machine asks for, and counts it unless the machine begins or ends.
pub(super) fn serve<T>(call: LiveCall, work: impl FnOnce() -> T) -> T {
    serve_as(|| (Some(call), work()))
}

/// The same where what is done says what kind of call that was; none, where a host has nothing to
/// ask.
pub(super) fn serve_as<T>(work: impl FnOnce() -> (Option<LiveCall>, T)) -> T {
    beside(|| {
        let (call, done) = work();
        call.filter(|_| INSIDE.get()).into_iter().for_each(count);
        done
    })
}

/// What was asked for on this thread since this was last called.
pub(super) fn take_calls() -> [u64; LiveCall::ALL.len()] {
    CALLS.with(|calls| calls.each_ref().map(|count| count.replace(0)))
}

impl LiveCase {
    /// Programs that never block, or jobs of nine tenths of each budget where the policy is for
    /// jobs, on a host where nothing goes wrong, for so many nanoseconds. `reservations` are
    /// budgets and periods.
    #[must_use]
    pub fn steady(
        entry: &'static Entry,
        cores: usize,
        reservations: &[(Duration, Duration)],
        until: u64,
    ) -> Self {
        let vcpu = |(id, (budget, period)): (u32, &(Duration, Duration))| {
            let vcpu = Vcpu::new(id, *budget, *period);
            if entry.needs.jobs { vcpu.periodic() } else { vcpu }
        };
        let vcpus: Vec<Vcpu> = (0..).zip(reservations).map(vcpu).collect();
        let program = |vcpu: &Vcpu| match entry.needs.jobs {
            true => Program::Jobs { work: vcpu.reservation.budget.ticks() * 9 / 10 },
            false => Program::Busy,
        };
        let programs: BTreeMap<_, _> = vcpus.iter().map(|it| (it.id, program(it))).collect();
        let mut base = System::new(cores, vcpus);
        base.capacity = Rate::new(9, 10);
        let (faults, requests) = (super::LiveFaults::NONE, Vec::new());
        Self { entry, base, faults, until, seed: 1, fault: None, programs, requests }
    }

    /// Plays it, with no second policy held against the first, and says what the machine asked for
    /// between its start and its end, by [`LiveCall`]; `None` where the policy refuses the system.
    ///
    /// # Errors
    /// What was wrong.
    pub fn cost(&self) -> Result<Option<(Played, [u64; LiveCall::ALL.len()])>, String> {
        let Some(policy) = self.policy() else { return Ok(None) };
        take_calls();
        let played = Rig::new(self, policy, None).play()?;
        Ok(Some((played, take_calls())))
    }

    /// Plays it, as [`LiveCase::cost`], and says how long policy and machine took a decision on
    /// this host, in nanoseconds, without what they asked the simulated one for and without what
    /// reading the clock around that takes. Before an agent wakes so many bytes are walked through,
    /// so that the near caches hold nothing of the machine.
    ///
    /// # Errors
    /// What was wrong.
    pub fn time(&self, walked_bytes: usize) -> Result<Option<f64>, String> {
        let Some(policy) = self.policy() else { return Ok(None) };
        let cost = Time::cost();
        WALKED.set(vec![0; walked_bytes / size_of::<u64>()]);
        let rig = Rig::new(self, policy, None);
        TIME.set(Some(Time::new()));
        let played = rig.play();
        let time = TIME.take();
        WALKED.take();
        let decisions = played?.decisions as f64;
        Ok(time.map(|time| (time.ns as f64 - cost * time.spans as f64) / decisions))
    }
}
