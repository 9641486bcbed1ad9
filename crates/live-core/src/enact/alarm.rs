//! When the agent of a core looks at it next: the one alarm of the core is the end of the agent's
//! own sleep.
//!
//! Meters only count. What may reach its limit is looked at when it can have reached it at the
//! earliest:
//! * what runs by the law: exactly then;
//! * what waits behind it in the foreground: not before [`Waking::grain`] has passed, since it runs
//!   only when the first one blocks, which nothing reports; up to eight times as long while looks
//!   find that it did not;
//! * what is believed blocked: not before [`Waking::unseen`] has passed, since nothing reports its
//!   wake either.
//!
//! So each of these may overrun its budget by as much, at most; what it overran is missing from its
//! next budget. No sleep is shorter than [`Waking::floor`], so that an agent never wakes again
//! before what it enforces could run, whatever a wake costs on this host.

use super::Core;
use crate::{Executor, Level, SilentJob, VcpuHandle, WakeCost};
use maracas_core::contract::Limit;
use maracas_core::{Duration, Instant};

/// How long an agent sleeps at most: 33 wakes a second are a thousandth of a core where a wake
/// takes 30 us. Thereby a neighbour that is stuck is noticed, and the guardian sees it live.
const PULSE: Duration = Duration::from_millis(30);
/// The shortest time, on a fast host, after which what waits behind another is looked at: a
/// twentieth of the smallest budget that is worth having (2 ms), 5 % of a core at 5 us a look.
const GRAIN: Duration = Duration::from_micros(100);
/// The same for what is believed blocked: 0.5 % of a core at 5 us a look.
const UNSEEN: Duration = Duration::from_millis(1);
/// How long a core may idle unseen after what ran there in the background has blocked, and how long
/// what woke without a budget may share the background unseen: at first, and eight times as long
/// while every such look finds the same; twice that where the agent wakes by then for another
/// reason.
const WATCH: Duration = Duration::from_millis(2);
/// How often that time is doubled.
const DOUBLINGS: u32 = 3;

/// What wakes of this core's agent cost, measured before the run and by every wake since.
#[derive(Clone, Copy, Debug)]
pub struct Waking {
    /// The median of how late it wakes.
    p50_ns: u64,
    /// What one wake in a hundred exceeds.
    p99_ns: u64,
    /// By how much a sleep is shorter than what is left of a budget, so that it ends just behind
    /// the budget's end: the wake itself takes longer. Below zero where what ran began so much
    /// later than the agent fell asleep.
    lead_ns: i64,
    /// The costs that were reported last.
    reported: WakeCost,
}

/// One in so many sleeps may end before the budget does. Such a budget is looked at again after
/// [`Waking::floor`], and ends so much late, which the next period lacks: both must stay below the
/// hundredth of the periods that may be off.
const EARLY: i64 = 400;
/// By how much the lead grows with each sleep that was long enough: four hundred of them, about a
/// second, are worth 20 us.
const STEP_NS: i64 = 50;

impl Waking {
    /// As measured before the run.
    pub fn new(cost: WakeCost) -> Self {
        let (p50_ns, p99_ns) = (cost.p50.ticks().max(1), cost.p99.ticks().max(1));
        Self { p50_ns, p99_ns, lead_ns: 0, reported: cost }
    }
    /// A sleep ended so late: moves both quantiles towards it, by so much that they settle where
    /// half, and a hundredth, of all wakes exceed them.
    #[inline]
    pub(crate) fn woke(&mut self, late: Duration) {
        let step = (self.p50_ns / 64).max(1);
        let above = late.ticks() > self.p50_ns;
        self.p50_ns = if above { self.p50_ns + step } else { (self.p50_ns - step).max(1) };
        // Ninety-nine steps down are worth one up.
        let step = (self.p99_ns / 512).max(1);
        let above = late.ticks() > self.p99_ns;
        self.p99_ns = if above { self.p99_ns + 99 * step } else { (self.p99_ns - step).max(1) };
        self.p99_ns = self.p99_ns.max(self.p50_ns);
    }
    /// The agent looked for the end of a budget, and so much of it was left, or overrun.
    #[inline]
    fn looked(&mut self, early: bool) {
        let least = -(self.p99_ns as i64);
        let step = if early { -STEP_NS * (EARLY - 1) } else { STEP_NS };
        self.lead_ns = (self.lead_ns + step).clamp(least, self.p50_ns as i64);
    }
    /// What a wake costs by now, where that was not reported yet: twice or half of what was.
    #[inline]
    pub fn news(&mut self) -> Option<WakeCost> {
        let now = self.cost();
        let differ = |a: Duration, b: Duration| a.ticks() > 2 * b.ticks();
        let news = differ(now.p50, self.reported.p50) || differ(self.reported.p50, now.p50);
        news.then(|| self.reported = now).map(|()| now)
    }
    /// What a wake costs by now.
    #[inline]
    pub fn cost(&self) -> WakeCost {
        let [p50, p99] = [self.p50_ns, self.p99_ns].map(Duration::from_nanos);
        WakeCost { p50, p99 }
    }
    /// No sleep is shorter: half of the time is then left for what the agent enforces.
    #[inline]
    pub fn floor(&self) -> Duration {
        Duration::from_nanos(2 * self.p50_ns)
    }
    /// How exactly the end of what waits behind another is looked for: a twentieth of the core goes
    /// to that at most.
    #[inline]
    pub fn grain(&self) -> Duration {
        GRAIN.max(Duration::from_nanos(20 * self.p50_ns))
    }
    /// The same for what is believed blocked: a fiftieth of the core.
    #[inline]
    pub fn unseen(&self) -> Duration {
        UNSEEN.max(Duration::from_nanos(50 * self.p50_ns))
    }
    /// How exactly the end of what waits behind another is looked for, after so many looks that
    /// found nothing new: while the first one goes on, the others are as good as blocked.
    #[inline]
    fn waiting(&self, quiet: u32) -> Duration {
        (self.grain() * (1 << quiet.min(DOUBLINGS))).min(self.unseen())
    }
    /// How often the background is watched while some of it waits, after so many times that found
    /// nothing new there: a fiftieth of the core.
    #[inline]
    pub fn watch(&self, quiet: u32) -> Duration {
        WATCH.max(Duration::from_nanos(50 * self.p50_ns)) * (1 << quiet.min(DOUBLINGS))
    }
    /// How often clocks and counters are read that nothing reports: a twentieth of the core.
    #[inline]
    pub(crate) fn polling(&self, wanted: Duration) -> Duration {
        wanted.max(self.grain())
    }
    /// How late an end of a budget must be to be worth a note of its own: seldom by definition.
    #[inline]
    pub(crate) fn notable(&self) -> Duration {
        GRAIN.max(Duration::from_nanos(4 * self.p99_ns))
    }
    /// After so long the births of a VCPU's threads may wake the agent once more: each costs it two
    /// wakes' worth, and they may take a fiftieth of the core.
    pub(crate) fn births(&self) -> Duration {
        Duration::from_nanos(100 * self.p50_ns)
    }
    /// `rest` of a budget from now: how long to sleep.
    #[inline]
    fn sleep(&self, rest: Duration) -> Duration {
        let ns = rest.ticks().saturating_add_signed(self.lead_ns.saturating_neg());
        Duration::from_nanos(ns).max(self.floor())
    }
}

/// How many looks in a row found nothing new.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Quiet {
    /// Of all looks.
    looks: u32,
    /// Of those that were there only to see whether what runs in the background still does,
    /// whatever the others found: these come with every period.
    watches: u32,
    /// The next look is one of those.
    is_watch: bool,
}

impl Quiet {
    /// The agent looked, and something had changed or not.
    #[inline]
    pub(super) fn looked(&mut self, news: bool) {
        let count = |before: u32| if news { 0 } else { before.saturating_add(1) };
        self.looks = count(self.looks);
        if self.is_watch {
            self.watches = count(self.watches);
        }
    }
}

impl<E: Executor> Core<E> {
    /// Chooses when to look next. What ends by the meters is counted from when they were read:
    /// while the agent sleeps and another one decides, a raised VCPU may have run on.
    pub(crate) fn plan_look(&mut self, now: Instant) {
        self.forget_look();
        (self.awaited, self.quiet.is_watch) = (None, false);
        let runs = self.look_at_foreground();
        if !runs {
            self.look_at_background(now);
        }
        self.look_by_clock(now);
        let mut has_received = false;
        for vcpu_handle in &self.vcpu_handles {
            let again = vcpu_handle.births.listen_again_at().min(vcpu_handle.retry.at());
            self.look_at = self.look_at.min(again);
            has_received |= vcpu_handle.has_just_received();
        }
        self.watch_memory(now);
        // Its meter was read once more while what was decided was carried out.
        if has_received {
            self.look_at = now;
        }
    }

    /// What was due is done.
    fn forget_look(&mut self) {
        #[cfg(feature = "faults")]
        if self.fault == Some(crate::Fault::MissingDisarm) {
            return;
        }
        self.look_at = Instant::NEVER;
    }

    /// Looks when a budget can be spent; whether something is believed to run on one.
    fn look_at_foreground(&mut self) -> bool {
        let mut first = None;
        for grant in &self.run_queue.foreground {
            let Some(vcpu_handle) =
                self.vcpu_handles.iter().find(|vcpu_handle| vcpu_handle.id == grant.vcpu)
            else {
                continue;
            };
            if !matches!(vcpu_handle.level, Level::Foreground(_)) {
                continue;
            }
            let runs = first.is_none() && vcpu_handle.is_runnable();
            if grant.until != Limit::NEVER || vcpu_handle.silent_job != SilentJob::None {
                let rest = vcpu_handle.rest(grant.until.0);
                let sleep = match (runs, vcpu_handle.is_runnable()) {
                    (true, _) => self.waking.sleep(rest),
                    (false, true) => rest.max(self.waking.waiting(self.quiet.looks)),
                    (false, false) => rest.max(self.waking.unseen()),
                };
                let at = vcpu_handle.settled_at.saturating_add(sleep);
                if at < self.look_at {
                    self.look_at = at;
                    self.awaited = runs.then_some(vcpu_handle.id);
                }
            }
            if runs {
                first = Some(vcpu_handle.id);
            }
        }
        first.is_some()
    }

    /// Looks when surplus time of what runs ends, and whether it still runs while others wait.
    fn look_at_background(&mut self, now: Instant) {
        let held = |vcpu_handle: &VcpuHandle<E::Handle>| {
            matches!(vcpu_handle.level, Level::Frozen | Level::Watched)
        };
        for grant in &self.run_queue.background {
            let Some(vcpu_handle) =
                self.vcpu_handles.iter().find(|vcpu_handle| vcpu_handle.id == grant.vcpu)
            else {
                continue;
            };
            if vcpu_handle.level == Level::Background
                && vcpu_handle.is_runnable()
                && grant.until != Limit::NEVER
            {
                // Ordinary threads of the host take some of this time: looked at as soon as the
                // turn can be over, some of it would be left, and another look needed.
                let sleep = vcpu_handle.rest(grant.until.0) + self.waking.grain();
                self.look_at = self.look_at.min(now.saturating_add(sleep));
            }
        }
        let waits = |vcpu_handle: &VcpuHandle<E::Handle>| {
            held(vcpu_handle) && !vcpu_handle.threads().is_empty()
        };
        if self.run_queue.background_allowed && self.vcpu_handles.iter().any(waits) {
            // The end of a slice, or the return of a budget, that comes soon after is as good a
            // time: most background lasts no longer.
            let watch = self.waking.watch(self.quiet.watches);
            self.quiet.is_watch = self.look_at.min(self.wake_at) > now.saturating_add(watch * 2);
            if self.quiet.is_watch {
                self.look_at = now.saturating_add(watch);
            }
        }
    }

    /// This core's agent falls asleep: now, and until when at the latest.
    pub fn sleep(&mut self) -> (Instant, Instant) {
        let now = self.exec.now();
        // They were read when it woke, and have stood still since.
        self.vcpu_handles.iter_mut().for_each(|vcpu_handle| vcpu_handle.settled_at = now);
        self.plan_look(now);
        let at = self.look_at.min(self.wake_at).max(now.saturating_add(self.waking.floor()));
        self.asleep_until = at.min(now.saturating_add(PULSE));
        #[cfg(feature = "faults")]
        if self.fault == Some(crate::Fault::PeriodicAlarm) && self.awaited.is_some() {
            let rest = self.look_at.saturating_since(now).ticks();
            self.asleep_until = now.saturating_add(Duration::from_nanos(rest / 8));
        }
        self.looks.sleeps(now);
        (now, self.asleep_until)
    }

    /// Another core's agent changed what is due here: wakes this core's own where it would sleep
    /// too long.
    pub fn set_alarm(&mut self) {
        if self.look_at.min(self.wake_at) < self.asleep_until {
            // It is reported once.
            self.asleep_until = Instant::ZERO;
            self.exec.wake_agent();
        }
    }

    /// This core's agent woke at `now`: learns how late, and whether the budget that it waited for
    /// has ended.
    pub(crate) fn woken(&mut self, now: Instant) {
        let due = std::mem::replace(&mut self.asleep_until, Instant::ZERO);
        self.looks.woke(now, if due == Instant::ZERO { now } else { due });
        // A call on behalf of another VCPU may have come before.
        if due == Instant::ZERO || now < due {
            return;
        }
        let late = now.saturating_since(due);
        self.waking.woke(late);
        // The end of a budget says by its meter how late it was.
        if self.awaited.is_none() {
            self.note_late(None, late);
        }
        let Some(awaited) = self.awaited.take().filter(|_| now >= self.look_at) else { return };
        let limit = self.run_queue.foreground.iter().find(|grant| grant.vcpu == awaited);
        let limit = limit.map(|grant| grant.until.0);
        let vcpu_handle = self.vcpu_handles.iter().find(|vcpu_handle| vcpu_handle.id == awaited);
        if let (Some(limit), Some(vcpu_handle)) = (limit, vcpu_handle) {
            let rest = vcpu_handle.rest(limit);
            // What did not run meanwhile says nothing of the sleep.
            if rest <= self.waking.cost().p99 * 2 {
                self.waking.looked(!rest.is_zero());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fake, core};
    use maracas_core::VcpuId;
    use maracas_core::contract::{Grant, Mode, RunQueue};
    use std::rc::Rc;

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    fn waking(p50: u64, p99: u64) -> Waking {
        Waking::new(WakeCost { p50: us(p50), p99: us(p99) })
    }

    /// Latenesses of 10 to 20 us, one in fifty of them 200 us.
    fn lateness(i: u64) -> Duration {
        if i % 50 == 49 { us(200) } else { us(10 + i * 7 % 11) }
    }

    #[test]
    fn costs_settle_at_the_quantiles_of_what_is_seen() {
        for (p50, p99) in [(1, 2), (15, 200), (300, 5000)] {
            let mut waking = waking(p50, p99);
            (0..20_000).for_each(|i| waking.woke(lateness(i)));
            let WakeCost { p50, p99 } = waking.cost();
            assert!((us(14)..=us(17)).contains(&p50), "{p50:?}");
            assert!((us(150)..=us(420)).contains(&p99), "{p99:?}");
        }
    }

    #[test]
    fn the_lead_settles_where_few_sleeps_are_too_short() {
        let mut waking = waking(15, 200);
        let (mut early, mut over) = (0, Duration::ZERO);
        for i in 0..20_000 {
            // What is awaited ends after 1 ms; the agent wakes as late as the host lets it.
            let slept = waking.sleep(us(1000)) + lateness(i);
            waking.looked(slept < us(1000));
            if i >= 10_000 && i % 50 != 49 {
                early += u32::from(slept < us(1000));
                over += slept.saturating_sub(us(1000));
            }
        }
        assert!((10..60).contains(&early), "{early} of 10,000: one in four hundred");
        assert!(
            over < us(15) * 10_000,
            "{over:?} too long in 10,000, with 200 us one in fifty times"
        );
    }

    #[test]
    fn no_sleep_is_shorter_than_two_wakes() {
        let mut waking = waking(27, 53);
        (0..1000).for_each(|_| waking.looked(false));
        assert_eq!(waking.sleep(us(5)), us(54));
        assert!(waking.sleep(us(500)) < us(500), "with the lead");
        assert_eq!(waking.polling(us(250)), us(540), "a twentieth of the core");
    }

    #[test]
    fn what_waits_behind_another_is_looked_at_ever_less() {
        let waking = waking(5, 20);
        let apart: Vec<_> = (0..6).map(|quiet| waking.waiting(quiet)).collect();
        assert_eq!(apart, [100, 200, 400, 800, 800, 800].map(us));
        let waking = self::waking(30, 100);
        assert_eq!(waking.waiting(0), us(600), "a twentieth of the core");
        assert_eq!(waking.waiting(9), us(1500), "no later than what is believed blocked");
    }

    #[test]
    fn what_changes_with_every_period_does_not_make_the_background_watched_more() {
        let mut quiet = Quiet::default();
        for is_watch in [true, false, true, false, true] {
            quiet.is_watch = is_watch;
            quiet.looked(!is_watch);
        }
        assert_eq!((quiet.looks, quiet.watches), (1, 3));
        quiet.looked(true);
        assert_eq!((quiet.looks, quiet.watches), (0, 0), "something there has changed");
    }

    /// A core on which one VCPU runs without a limit, in a job of a silent program that ends 1 ms
    /// from now; its agent has nothing else to decide.
    fn silent() -> Core<Fake> {
        let mut core = core(&Rc::default(), 1);
        let foreground = vec![Grant::new(VcpuId(0), Limit::NEVER)];
        let decided = core.exec.now();
        core.follow(&RunQueue { foreground, ..RunQueue::default() }, decided);
        core.act(None, decided, Core::judge);
        core.act(None, decided, Core::starts);
        core.drain();
        core.outbox.clear();
        core.stirred = false;
        let ends = core.vcpu_handles[0].meter(Mode::Foreground) + us(1000);
        core.vcpu_handles[0].silent_job = SilentJob::EndsAt(ends);
        core
    }

    fn looks(core: &mut Core<Fake>) -> bool {
        let now = core.exec.now();
        core.enforce(now, &[], false, None)
    }

    #[test]
    fn that_a_silent_programs_job_has_received_c_is_news_of_its_core_once() {
        let mut core = silent();
        core.vcpu_handles[0].handle.ran = us(999);
        assert!(!looks(&mut core), "it lacks a microsecond");
        core.vcpu_handles[0].handle.ran = us(1);
        assert!(looks(&mut core));
        assert!(core.vcpu_handles[0].has_received() && !looks(&mut core), "reported once");
    }

    #[test]
    fn no_agent_sleeps_on_where_c_was_received_after_its_look() {
        let mut core = silent();
        assert!(!looks(&mut core));
        // As it is read where a decision is carried out.
        core.vcpu_handles[0].handle.ran = us(1000);
        core.vcpu_handles[0].settle().expect("a meter");
        let (now, until) = core.sleep();
        assert_eq!(until, now + core.waking.floor());
        assert!(looks(&mut core), "and then it is news");
    }

    #[test]
    fn a_host_that_became_slower_is_reported_once() {
        let mut waking = waking(5, 20);
        assert_eq!(waking.news(), None);
        (0..2000).for_each(|_| waking.woke(us(30)));
        let news = waking.news().expect("six times as slow");
        assert!(news.p50 > us(10), "{news:?}");
        assert_eq!(waking.news(), None);
    }
}
