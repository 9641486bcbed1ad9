//! The next best where the host gives no events: the threads' own clocks, read at the earliest
//! exhaustion and every millisecond, by the core's own agent alone. The kernel updates the clock of
//! a thread that runs on another core at its tick only, every 1 to 10 ms: read from there, the
//! thread seems to stand still.
//!
//! A VCPU whose clocks moved since the last look is runnable. One whose clocks stood still while
//! the agent slept and no VCPU before it in the run queue took the core is taken as blocked. One
//! that is taken so by mistake loses time: its budget counts from when it seems to wake. So it
//! matters who had the core since the last look, also where that was reported and stopped since.
//! Segments are what was gained between two looks. They alone do not make the policy decide: it
//! gets them when there is something to decide.

use super::Core;
use crate::{Executor, Level};
use maracas_core::contract::{End, Grant, Mode, Refused, Segment, Usage};
use maracas_core::{Duration, Event, Instant};

/// Between two looks while anything may run: 1.5 % of a core for the agent, where a look takes it
/// 15 us.
const LOOK: Duration = Duration::from_millis(1);
/// Looking takes at most this part of the core, whatever a look takes on this host.
const LOOKS_APART: u64 = 50;
/// Asking the kernel which threads there are takes at most this part of it, and is not done with
/// every look: it is two files a VCPU, ten times as much as its clock.
const LISTINGS_APART: u64 = 100;
/// How long a new thread waits for the next listing, at least.
const LISTING: Duration = Duration::from_millis(4);
/// A VCPU that had the core for so long and stood still is blocked. Half a look: one sleep between
/// looks is long enough, one that was cut short is not.
const STILL: Duration = Duration::from_micros(500);
/// The same in the background, where threads of the host that are not ours take the core too: three
/// slices of the fair class (3 ms each, Documentation/scheduler/sched-design-CFS.rst), while no
/// VCPU of ours moves.
const STILL_BEHIND: Duration = Duration::from_millis(10);
/// With so many segments the policy is called, though nothing else happened: a tenth of their room.
const UNTOLD: usize = 400;
/// The last sixteen weigh most in what is taken for the cost of a look.
const WEIGHT: u64 = 16;

/// What is remembered from one look to the next.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// When the agent fell asleep.
    fell_asleep: Instant,
    /// For how long the agent slept since the last look. What it woke late is not in it: the core
    /// may have been taken from all VCPUs then.
    slept: Duration,
    /// What a look takes.
    cost: Duration,
    /// What listing all threads takes.
    listing: Duration,
    /// When they are listed again.
    list_at: Instant,
}

impl Looks {
    /// The agent falls asleep.
    pub(crate) fn sleeps(&mut self, now: Instant) {
        self.fell_asleep = now;
    }
    /// It woke from a sleep that was to end at `due`.
    #[inline]
    pub(crate) fn woke(&mut self, now: Instant, due: Instant) {
        self.slept += now.min(due).saturating_since(self.fell_asleep);
    }
    /// A look began then and ends now.
    pub(crate) fn looked(&mut self, begun: Instant, now: Instant) {
        smooth(&mut self.cost, now.saturating_since(begun));
    }
    /// A listing of all threads took so long.
    fn listed(&mut self, took: Duration, now: Instant) {
        smooth(&mut self.listing, took);
        self.list_at = now.saturating_add(LISTING.max(self.listing * LISTINGS_APART));
    }
    /// How far looks are apart.
    fn apart(&self) -> Duration {
        LOOK.max(self.cost * LOOKS_APART)
    }
}

/// Moves a mean towards what was seen.
fn smooth(mean: &mut Duration, seen: Duration) {
    let seen = seen.ticks();
    let next = if mean.is_zero() { seen } else { (mean.ticks() * (WEIGHT - 1) + seen) / WEIGHT };
    *mean = Duration::from_nanos(next);
}

/// What the clocks of a VCPU handle read at the last look.
#[derive(Clone, Copy, Default, Debug)]
pub struct Motion {
    /// The meters, by mode.
    read_ns: [u64; 2],
    /// In which modes they moved since the look before.
    moved: [bool; 2],
    /// For how long they have stood still while the core was its own; `None` where it was set to
    /// something else since the last look.
    still: Option<Duration>,
}

impl Motion {
    /// The meters read so much now.
    fn look(&mut self, read_ns: [u64; 2]) {
        let before = std::mem::replace(&mut self.read_ns, read_ns);
        self.moved = [0, 1].map(|mode| read_ns[mode] > before[mode]);
    }
    /// Whether they moved since the look before, in either mode.
    fn has_moved(&self) -> bool {
        self.moved.contains(&true)
    }
    /// Its VCPU handle is set to something else.
    pub(crate) fn restart(&mut self) {
        self.still = None;
    }
    /// The agent slept so long; meanwhile a VCPU before it in the run queue had the core, if
    /// `is_taken`. Whether it is blocked, for all that can be seen.
    fn stands_still(&mut self, slept: Duration, is_taken: bool, mode: Mode) -> bool {
        let still = self.still.filter(|_| !self.has_moved() && !is_taken);
        let still = still.map_or(Duration::ZERO, |still| still + slept);
        self.still = Some(still);
        still
            >= match mode {
                Mode::Foreground => STILL,
                Mode::Background => STILL_BEHIND,
            }
    }
}

/// Whether the policy need not be called for its own sake.
const fn is_reading(event: &Event) -> bool {
    matches!(event, Event::Ran(Segment { end: End::Metered, .. }))
}

impl<E: Executor> Core<E> {
    /// This core's own agent looks at the clocks, which it has just read, where there are no
    /// events: which moved, which stood still, and what they gained.
    pub(crate) fn look_at_clocks(&mut self) {
        if self.means.events {
            return;
        }
        self.list_threads();
        let now = self.exec.now();
        for index in 0..self.vcpu_handles.len() {
            let vcpu_handle = &mut self.vcpu_handles[index];
            // Those that are frozen were not read with the others.
            let result =
                if vcpu_handle.level == Level::Frozen { vcpu_handle.settle() } else { Ok(()) };
            let id = vcpu_handle.id;
            let meter_ns = |mode| vcpu_handle.meter(mode).ticks();
            let read_ns = [Mode::Foreground, Mode::Background].map(meter_ns);
            vcpu_handle.motion.look(read_ns);
            if vcpu_handle.motion.has_moved() && !vcpu_handle.is_runnable() {
                vcpu_handle.suppose_runnable();
                self.stirred = true;
                self.outbox.push((now, Event::Woke { vcpu: id, on_behalf: None, exact: false }));
            }
            self.report(result, Refused::Sample);
        }
        self.find_blocked(now);
        self.report_clocks(now);
    }

    /// Reports to the policy what all VCPUs gained.
    pub(crate) fn report_clocks(&mut self, now: Instant) {
        for index in 0..self.vcpu_handles.len() {
            self.report_clock(index, self.vcpu_handles[index].mode(), End::Metered, now);
        }
    }

    /// A VCPU that stood still though it could have run.
    fn find_blocked(&mut self, now: Instant) {
        let slept = std::mem::take(&mut self.looks.slept);
        let run_queue = std::mem::take(&mut self.run_queue);
        let mut is_taken = false;
        let (mut foreground, mut background) =
            (run_queue.foreground.iter(), run_queue.background.iter());
        let lists: [(&mut dyn Iterator<Item = &Grant>, Mode); 2] =
            [(&mut foreground, Mode::Foreground), (&mut background, Mode::Background)];
        for (grants, mode) in lists {
            // In the background all that are not frozen share the core.
            let shared = mode == Mode::Background;
            is_taken |= shared
                && self.vcpu_handles.iter().any(|vcpu_handle| vcpu_handle.motion.has_moved());
            // Where none is frozen nothing is gained by knowing.
            is_taken |= shared && self.being_started > 0;
            for grant in grants {
                let Some(index) = self.index(grant.vcpu) else { continue };
                let vcpu_handle = &mut self.vcpu_handles[index];
                // What was stopped just now had the core all the same.
                let before = is_taken;
                is_taken |= vcpu_handle.motion.moved[mode as usize];
                let may_run = matches!(vcpu_handle.level, Level::Foreground(_) | Level::Background);
                if !may_run || vcpu_handle.mode() != mode {
                    continue;
                }
                let is_still = vcpu_handle.motion.stands_still(slept, before, mode);
                if is_still && vcpu_handle.is_runnable() {
                    vcpu_handle.suppose_blocked();
                    self.stirred = true;
                    self.report_clock(index, mode, End::Blocked, now);
                }
            }
        }
        self.run_queue = run_queue;
    }

    /// Asks the kernel which threads there are, where that is due.
    fn list_threads(&mut self) {
        let begun = self.exec.now();
        if begun < self.looks.list_at {
            return;
        }
        for index in 0..self.vcpu_handles.len() {
            let result = self.vcpu_handles[index].rescan();
            self.report(result, Refused::Sample);
        }
        let now = self.exec.now();
        self.looks.listed(now.saturating_since(begun), now);
    }

    /// Reports what a VCPU handle gained in `mode` and the policy does not know yet.
    pub(crate) fn report_clock(&mut self, index: usize, mode: Mode, end: End, to: Instant) {
        let core = self.id;
        let vcpu_handle = &mut self.vcpu_handles[index];
        let service_ns = vcpu_handle.unreported_ns(mode);
        if service_ns == 0 && end != End::Blocked {
            return;
        }
        vcpu_handle.reported_ns[mode as usize] += service_ns;
        vcpu_handle.last_reported = Some(self.outbox.len());
        let from = vcpu_handle.began(to, service_ns);
        let usage = Usage { service: Duration::from_nanos(service_ns), ..Usage::default() };
        let segment = Segment { vcpu: vcpu_handle.id, core, mode, from, to, usage, end };
        self.outbox.push((to, Event::Ran(segment)));
    }

    /// Whether the policy is to be given events, or wants to be asked.
    pub(super) fn has_news(&mut self, now: Instant) -> bool {
        let reported = !self.has_tidings() && self.tracker.changes.is_empty();
        let handles = self.vcpu_handles.iter_mut();
        let received = handles.fold(false, |news, handle| handle.report_received() | news);
        !reported || received || self.stirred || self.is_spent() || self.wake_at <= now
    }

    /// Whether what happened here must be reported now.
    pub(crate) fn has_tidings(&self) -> bool {
        let is_news = |event: &Event| self.means.events || !is_reading(event);
        self.outbox.len() >= UNTOLD || self.outbox.iter().any(|(_, event)| is_news(event))
    }

    /// Chooses when to read the clocks again, if nothing is due before.
    pub(crate) fn look_by_clock(&mut self, now: Instant) {
        if !self.means.events && !self.vcpu_handles.is_empty() {
            let apart = self.waking.polling(self.looks.apart());
            self.look_at = self.look_at.min(now.saturating_add(apart));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Means;
    use crate::fake::{Fake, Script, core_with};
    use maracas_core::VcpuId;
    use maracas_core::contract::{Limit, RunQueue};
    use std::rc::Rc;

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn who_stood_still_on_a_core_of_its_own_is_blocked() {
        let mut motion = Motion::default();
        let still = |motion: &mut Motion, slept, is_taken| {
            motion.stands_still(us(slept), is_taken, Mode::Foreground)
        };
        assert!(!still(&mut motion, 900, false), "it was set to run meanwhile");
        assert!(!still(&mut motion, 400, false));
        assert!(still(&mut motion, 400, false), "800 us in two sleeps");
        assert!(!motion.stands_still(us(900), false, Mode::Background), "others of the host may");
        assert!(!still(&mut motion, 900, true), "another before it had the core");
        assert!(!still(&mut motion, 400, false), "what was before does not count");
        motion.look([0, 1]);
        assert!(!still(&mut motion, 900, false));
        motion.look([0, 1]);
        motion.restart();
        assert!(!still(&mut motion, 900, false));
    }

    /// The agent sleeps for a millisecond, and `ran` says how much of it each VCPU had.
    fn look(core: &mut Core<Fake>, script: &Script, ran: [u64; 2]) {
        core.sleep();
        script.pass(us(1000));
        for (vcpu_handle, ran) in core.vcpu_handles.iter_mut().zip(ran) {
            vcpu_handle.handle.ran = us(ran);
        }
        core.enforce(core.exec.now(), &[], false, None);
    }

    /// Two VCPUs on a host without events, both with so much budget; the first goes before.
    fn pair(script: &Rc<Script>, budgets: [u64; 2]) -> Core<Fake> {
        let mut core = core_with(script, 2, Means { events: false, ..Means::FULL });
        let grant = |(id, budget)| Grant::new(VcpuId(id), Limit(us(budget)));
        let foreground = (0..).zip(budgets).map(grant).collect();
        let run_queue = RunQueue { foreground, ..RunQueue::default() };
        core.follow(&run_queue, core.exec.now());
        core.judge();
        core.stops();
        core.starts();
        core
    }

    #[test]
    fn who_waits_for_one_that_is_stopped_at_its_limit_is_not_blocked() {
        let script = Rc::default();
        let mut core = pair(&script, [2000, 3000]);
        look(&mut core, &script, [1000, 0]);
        look(&mut core, &script, [1000, 0]);
        assert!(!matches!(core.vcpu_handles[0].level, Level::Foreground(_)), "it is spent");
        assert!(core.vcpu_handles[1].is_runnable(), "the first had the core");
        look(&mut core, &script, [0, 0]);
        assert!(!core.vcpu_handles[1].is_runnable(), "nobody had the core");
    }

    #[test]
    fn what_was_reported_between_two_looks_has_run_all_the_same() {
        let script = Rc::default();
        let mut core = pair(&script, [9000, 9000]);
        look(&mut core, &script, [1000, 0]);
        core.sleep();
        script.pass(us(900));
        core.vcpu_handles[0].handle.ran = us(900);
        core.meter_running();
        look(&mut core, &script, [0, 0]);
        assert!(core.vcpu_handles.iter().all(|it| it.is_runnable()), "900 us are half a look");
    }

    #[test]
    fn sleep_that_was_overslept_does_not_count() {
        let mut looks = Looks::default();
        let at = |n| Instant::ZERO + us(n);
        looks.sleeps(at(1000));
        looks.woke(at(9000), at(1300));
        assert_eq!(looks.slept, us(300));
        looks.sleeps(at(9000));
        looks.woke(at(9100), at(9300));
        assert_eq!(looks.slept, us(400));
    }

    #[test]
    fn looks_and_listings_are_as_far_apart_as_they_cost() {
        let mut looks = Looks::default();
        assert_eq!(looks.apart(), LOOK);
        let at = |n| Instant::ZERO + us(n);
        (0..100).for_each(|_| looks.looked(at(0), at(15)));
        assert_eq!(looks.apart(), LOOK);
        (0..100).for_each(|_| looks.looked(at(0), at(300)));
        assert!(looks.apart() > us(14_500), "{:?}", looks.apart());
        looks.listed(us(10), at(0));
        assert_eq!(looks.list_at, Instant::ZERO + LISTING);
        (0..100).for_each(|_| looks.listed(us(400), at(0)));
        assert!(looks.list_at > at(38_000), "{:?}", looks.list_at);
    }
}
