//! The manager: which sets are in QPS mode, how their items are split, and their budgets.
//!
//! A set is in QPS mode while all its items are active. Its windows reach from deadline to deadline
//! of its items; all instants are nominal, however late the decision.

use super::hierarchy::Hierarchy;
use super::offline::{Item, RESERVE};
use super::{BOTH, Class, Member, News, Phase, Split, Window};
use maracas_core::Instant;

impl Hierarchy {
    /// Brings the budgets, modes and windows of the touched sets up to `now`, hosted sets before
    /// their hosts, which they may touch.
    pub(super) fn manage(&mut self, now: Instant) {
        let mut from = 0;
        while let Some(set) = self.agenda.touched(from) {
            from = set + 1;
            self.charge(set, now);
            let own = &self.sets[set];
            if own.excess > 0 && own.window.as_ref().is_none_or(|window| window.end <= now) {
                self.renew(set, now);
            }
        }
    }

    /// Charges the time since a set was last looked at to the budget that ran in it.
    pub(super) fn charge(&mut self, set: usize, now: Instant) {
        let own = &mut self.sets[set];
        let elapsed = now.saturating_since(own.synced);
        own.synced = own.synced.max(now);
        let Some(window) = &mut own.window else { return };
        let Some(budget) = window.phase.budget().filter(|_| !elapsed.is_zero()) else { return };
        window.left[budget] -= elapsed.ticks() as i64;
        if window.phase.is_parallel() && window.left[BOTH] <= 0 {
            self.requeue_master(set);
        }
    }

    /// A major set has no window, or its window has ended: opens the next one, or goes by EDF.
    fn renew(&mut self, set: usize, now: Instant) {
        let ended = self.sets[set].window.take();
        if let Some(window) = &ended {
            self.counts.short_windows += u64::from(window.left != [0; 3]);
        }
        let Some((latest_release, deadline)) = self.outlook(set, now) else {
            if ended.is_some() {
                self.counts.mode_changes += 1;
                self.unsplit(set);
                self.requeue_master(set);
            }
            return;
        };
        // All items were active all the time, or the last one became so after the window's end.
        let window = match ended {
            Some(window) if latest_release <= window.end => {
                let start = window.end;
                Window { start, end: deadline, ..window }
            }
            _ => {
                self.counts.mode_changes += 1 + u64::from(ended.is_some());
                let load_of_a = self.split(set, latest_release);
                Window {
                    start: latest_release,
                    end: deadline,
                    load_of_a,
                    left: [0; 3],
                    last: None,
                    phase: Phase::Waiting,
                }
            }
        };
        self.open(set, window);
    }

    /// Budgets for a new window: classes A and B each alone, and both in parallel. Together the
    /// first two and the last fill the set's core exactly; where budgets are no whole ticks, class
    /// B bears the rounding (algorithms.md A.6).
    fn open(&mut self, set: usize, mut window: Window) {
        let (from, to) = (window.start, window.end);
        let (both, exact) = self.grid.service(self.sets[set].excess, from, to);
        let (whole_core, _) = self.grid.service(self.grid.capacity, from, to);
        let (load_of_a, exact_a) = self.grid.service(window.load_of_a, from, to);
        let [whole_core, load_of_a, both] =
            [whole_core, load_of_a, both].map(|service| service.ticks() as i64);
        // Rounding may give a class less than both in parallel bring it: it owes the rest to later
        // windows, where a limit at zero would let the difference add up.
        let a = load_of_a - both;
        let b = whole_core - both - a;
        let length = (to - from).ticks() as i64;
        let bearable = length.max(RESERVE.ticks() as i64);
        let overload = window.left.iter().any(|left| left.abs() > bearable);
        for (left, budget) in window.left.iter_mut().zip([a, b, both]) {
            // What late decisions shifted is given up where a window cannot make it good; what
            // rounding did never is.
            *left = if overload { 0 } else { *left } + budget;
        }
        self.counts.windows += 1;
        self.counts.rounded_windows += u64::from(!(exact && exact_a));
        self.sets[set].window = Some(window);
        self.requeue_master(set);
    }

    /// The latest release and the earliest deadline of the items, where all are active.
    fn outlook(&self, set: usize, now: Instant) -> Option<(Instant, Instant)> {
        let mut outlook = (Instant::ZERO, Instant::NEVER);
        for member in &self.sets[set].members {
            let (release, deadline) = self.activity(member)?;
            if deadline <= now {
                return None;
            }
            outlook = (outlook.0.max(release), outlook.1.min(deadline));
        }
        Some(outlook)
    }

    /// When the item's present job was released and is due. A master's job is its set's window.
    fn activity(&self, member: &Member) -> Option<(Instant, Instant)> {
        match member.item {
            Item::Task(_) => self.task(member.slot).map(|task| (task.release, task.deadline)),
            Item::Master(guest) => {
                self.sets[guest].window.as_ref().map(|window| (window.start, window.end))
            }
        }
    }

    /// Divides the items of a set that enters QPS mode at `now` into two classes, and says what
    /// class A asks for.
    ///
    /// Only the items that begin a job right now are sure to have had their fluid share; of the
    /// others only all together, because they had a core to themselves. So those are never parted
    /// (algorithms.md B.4). Where all begin together, any split will do.
    fn split(&mut self, set: usize, now: Instant) -> u64 {
        let fresh =
            |own: &Self, member: &Member| own.activity(member).is_some_and(|(from, _)| from == now);
        let all = self.sets[set].members.iter().all(|member| fresh(self, member));
        let (mut load, mut count) = (0, 0);
        let half = self.sets[set].rate.div_ceil(2);
        let last = self.sets[set].members.len() - 1;
        self.sets[set].news = News::Other;
        for place in 0..=last {
            let member = self.sets[set].members[place];
            let in_a = match self.manner.split {
                Split::Halves if all => load < half && place < last,
                Split::Single if all => count < 1,
                Split::Halves | Split::Single => fresh(self, &member),
                Split::Fixed => load < half && place < last,
            };
            if in_a {
                load += member.rate;
                count += 1;
            }
            self.set_class(set, &member, if in_a { Class::A } else { Class::B });
        }
        load
    }

    /// Has a set go by EDF: all its items are of class A.
    fn unsplit(&mut self, set: usize) {
        self.sets[set].news = News::Other;
        for place in 0..self.sets[set].members.len() {
            let member = self.sets[set].members[place];
            self.set_class(set, &member, Class::A);
        }
    }

    /// Says in which class of a set an item is, to the item and to its entry in the queue.
    fn set_class(&mut self, set: usize, member: &Member, class: Class) {
        match member.item {
            Item::Task(_) => {
                if let Some(Some(task)) = self.tasks.get_mut(member.slot as usize) {
                    task.class = class;
                }
            }
            Item::Master(guest) => self.sets[guest].class = class,
        }
        self.sets[set].queue.set_class(member.item, class);
    }
}
