//! The on-line phase of one subsystem: which servers of level 0 are selected, and until when.
//!
//! The deadline of a server is known when its window opens: that of a sporadic task's job that
//! comes within a window counts from the next one on. So the virtual schedule is known too:
//! [`Subsystem::advance`] goes through its nominal instants up to now. A late decision thus shifts
//! what runs, and never a budget.

#[cfg(test)]
mod tests;

use super::reduce::Task;
use crate::tree;
use alloc::vec::Vec;
use core::hint::select_unpredictable;
use core::ops::Range;
use maracas_core::{Instant, Rate};

/// The urgency of a dual without budget: less than any deadline.
const SPENT: u64 = u64::MAX;

/// A server of the tree, merged with its dual in the level above (the root has none).
#[derive(Clone, Debug)]
struct Node {
    /// The nodes whose duals it serves, in the order in which they were packed; none at level 0.
    children: Range<usize>,
    /// The rate of its dual.
    dual: Rate,
    /// The end of its window, and its dual's.
    deadline: u64,
    /// Until its dual has run this long since the start, it has budget in this window. A reading
    /// of a meter like [`maracas_core::contract::Limit`]: rounding never adds up.
    limit: u64,
    /// How long its dual has run since the start, up to its parent's `since`.
    used: u64,
    /// Whether it runs. Its dual runs exactly when it does not, as far as their parent runs.
    on: bool,
    /// At level 0: the places of its tasks.
    tasks: Range<usize>,
}

/// What a server above level 0 picked.
#[derive(Clone, Debug)]
struct Pick {
    /// The node whose dual it picked last.
    picked: Option<usize>,
    /// The one of its children that does not run: what it picked last, while it runs itself.
    rests: Option<usize>,
    /// Up to when the dual of that one is charged.
    since: u64,
    /// When what it picked has spent its budget; the instant itself, where its window opens or it
    /// begins or ceases to run; else never.
    until: u64,
}

/// The next release of a periodic task, at which its current job, or the dummy job before its
/// offset, has its deadline; the deadline of the last job of a sporadic one, while it lies ahead.
#[derive(Clone, Copy, Debug)]
struct Release {
    next: u64,
    period: u64,
    /// Of a sporadic task: its server's windows end at all multiples of it.
    window: Option<u64>,
}

impl Release {
    /// Goes on to `at`, and says when the task has the server's window end.
    fn pass(&mut self, at: u64) -> u64 {
        if self.next <= at {
            self.next = self.window.map_or(at.saturating_add(self.period), |_| u64::MAX);
        }
        self.window.map_or(self.next, |window| {
            self.next.min((at / window).saturating_add(1).saturating_mul(window))
        })
    }
}

/// The virtual schedule of one subsystem whose tree was reduced at least once.
#[derive(Clone, Debug)]
pub(super) struct Subsystem {
    /// Breadth first: the root, and at last the servers of level 0.
    nodes: Vec<Node>,
    /// By node: the deadline of its dual while that has budget, as far as it is charged, else
    /// [`SPENT`].
    urgencies: Vec<u64>,
    /// Of the nodes above level 0.
    picks: Vec<Pick>,
    first_leaf: usize,
    releases: Vec<Release>,
    /// How many servers of level 0 are to run at any instant, and how many do.
    cores: usize,
    running: usize,
    /// The servers of level 0 that began to run or ceased to, by their places among these, since
    /// [`Subsystem::forget_changed`].
    changed: Vec<usize>,
    /// Whether every budget is a whole number of ticks.
    exact: bool,
    /// Up to when servers are selected.
    clock: u64,
    /// When the next window opens or the next budget is spent.
    next: u64,
}

impl Subsystem {
    /// The subsystem at the start, before anything is selected. `task` finds a task.
    pub(super) fn new<'a>(
        subsystem: &tree::Subsystem,
        exact: bool,
        task: impl Fn(maracas_core::VcpuId) -> &'a Task,
    ) -> Self {
        let mut shown: Vec<&tree::Node> = alloc::vec![&subsystem.root];
        let (mut nodes, mut releases) = (Vec::new(), Vec::new());
        let mut first_leaf = 0;
        while nodes.len() < shown.len() {
            let node = shown[nodes.len()];
            let from = (shown.len(), releases.len());
            if node.level == 0 {
                releases.extend(node.tasks().into_iter().map(|vcpu| {
                    let Task { offset, period, window, .. } = *task(vcpu);
                    Release { next: offset, period, window }
                }));
            } else {
                shown.extend(node.children.iter().flat_map(|dual| &dual.children));
                first_leaf = nodes.len() + 1;
            }
            nodes.push(Node {
                children: from.0..shown.len(),
                dual: Rate::new(node.rate.den() - node.rate.num(), node.rate.den()),
                deadline: 0,
                limit: 0,
                used: 0,
                on: true,
                tasks: from.1..releases.len(),
            });
        }
        // Before anything is picked all leaves run.
        let (cores, running) = (subsystem.cores.len(), nodes.len() - first_leaf);
        let changed = (0..running).collect();
        let urgencies = alloc::vec![SPENT; nodes.len()];
        let begin = Pick { picked: None, rests: None, since: 0, until: 0 };
        let picks = alloc::vec![begin; first_leaf];
        let (clock, next) = (0, 0);
        Self {
            nodes,
            urgencies,
            picks,
            first_leaf,
            releases,
            cores,
            running,
            changed,
            exact,
            clock,
            next,
        }
    }

    /// The next instant at which [`Subsystem::advance`] has something to do.
    pub(super) const fn next(&self) -> Instant {
        Instant::from_ticks(self.next)
    }
    /// Whether a server of level 0 is selected, by its place in the order of the tree.
    pub(super) fn is_selected(&self, leaf: usize) -> bool {
        self.nodes[self.first_leaf + leaf].on
    }
    /// The servers of level 0 of which this may have changed since [`Subsystem::forget_changed`],
    /// in the order of the tree.
    pub(super) fn changed(&self) -> &[usize] {
        &self.changed
    }
    /// Forgets what changed so far.
    pub(super) fn forget_changed(&mut self) {
        self.changed.clear();
    }

    /// A job of the sporadic task at `place`, in the order of the tree, is due at `deadline`.
    pub(super) fn release(&mut self, place: usize, deadline: Instant) {
        self.releases[place].next = deadline.ticks();
    }

    /// Goes on to `now`; whether anything else may be selected than before.
    pub(super) fn advance(&mut self, now: Instant) -> bool {
        while self.next <= now.ticks() && self.next != u64::MAX {
            self.clock = self.next;
            if self.nodes[0].deadline == self.clock {
                self.open_window(0);
            }
            self.select();
        }
        // Where it went through several instants, some may be there twice and in another order.
        if !self.changed.is_sorted_by(|one, next| one < next) {
            self.changed.sort_unstable();
            self.changed.dedup();
        }
        !self.changed.is_empty()
    }

    /// RUN's rule for deadlines and budgets: every server whose deadline is now gets the earliest
    /// of its clients' next deadlines, and its dual the budget for the time until then. None of its
    /// clients has an earlier deadline than its own, so those whose deadline is now are below it.
    fn open_window(&mut self, place: usize) {
        let at = self.clock;
        let Node { children, tasks, .. } = &self.nodes[place];
        let (children, tasks) = (children.clone(), tasks.clone());
        let deadline = if place < self.first_leaf {
            self.charge(place);
            self.picks[place].until = at;
            let mut earliest = u64::MAX;
            for child in children {
                if self.nodes[child].deadline == at {
                    self.open_window(child);
                }
                earliest = earliest.min(self.nodes[child].deadline);
            }
            earliest
        } else {
            let tasks = self.releases[tasks].iter_mut();
            tasks.fold(u64::MAX, |earliest, task| earliest.min(task.pass(at)))
        };
        let node = &mut self.nodes[place];
        assert!(
            !self.exact || node.limit == node.used,
            "node {place} used {} of {} when its window closes at {at}",
            node.used,
            node.limit
        );
        node.deadline = deadline;
        node.limit = share(node.dual, deadline);
        let has_budget = node.used < node.limit;
        self.urgencies[place] = if has_budget { deadline.min(SPENT - 1) } else { SPENT };
    }

    /// What a server picked ran since it was charged last.
    fn charge(&mut self, server: usize) {
        let pick = &mut self.picks[server];
        let time = self.clock - pick.since;
        pick.since = self.clock;
        if let Some(child) = pick.rests {
            let node = &mut self.nodes[child];
            node.used += time;
            if node.used >= node.limit {
                self.urgencies[child] = SPENT;
            }
        }
    }

    /// SELECT from the root down: a running server picks one of its duals, whose primal rests; all
    /// other primals run, and all under a server that does not run. A server whose window did not
    /// open, that runs as before, and of whose pick the budget lasts, would pick the same again.
    fn select(&mut self) {
        let mut next = self.nodes[0].deadline;
        for server in 0..self.first_leaf {
            if self.picks[server].until <= self.clock {
                self.pick_anew(server);
            }
            next = next.min(self.picks[server].until);
        }
        let running = self.running;
        assert_eq!(running, self.cores, "servers selected for so many cores at {}", self.clock);
        self.next = next;
    }

    /// A server picks anew, or ceases to serve as it runs no more.
    fn pick_anew(&mut self, server: usize) {
        self.charge(server);
        let rests = self.nodes[server].on.then(|| self.first_of(server));
        let pick = &mut self.picks[server];
        pick.until = u64::MAX;
        if let Some(child) = rests {
            pick.picked = rests;
            let Node { limit, used, .. } = self.nodes[child];
            // The last one picked goes on where rounding leaves no task a budget.
            if used < limit {
                pick.until = self.clock.saturating_add(limit - used);
            }
        }
        match (core::mem::replace(&mut pick.rests, rests), rests) {
            (Some(rested), Some(rests)) if rested == rests => {}
            (Some(rested), Some(rests)) => {
                self.toggle(rested.min(rests));
                self.toggle(rested.max(rests));
            }
            (None, Some(node)) | (Some(node), None) => self.toggle(node),
            (None, None) => {}
        }
    }

    /// A node that rested runs again, or one that ran rests.
    fn toggle(&mut self, node: usize) {
        let on = !self.nodes[node].on;
        self.nodes[node].on = on;
        if let Some(leaf) = node.checked_sub(self.first_leaf) {
            self.running = if on { self.running + 1 } else { self.running - 1 };
            self.changed.push(leaf);
        } else {
            self.picks[node].until = self.clock;
        }
    }

    /// EDF among the duals with budget; equal deadlines: the one picked last, then in the order
    /// of the tree.
    fn first_of(&self, server: usize) -> usize {
        let (children, picked) = (&self.nodes[server].children, self.picks[server].picked);
        let (mut best, mut least) = (children.start, SPENT);
        for (child, urgency) in children.clone().zip(&self.urgencies[children.clone()]) {
            // Without a branch: which one is first cannot be predicted.
            best = select_unpredictable(*urgency < least, child, best);
            least = least.min(*urgency);
        }
        assert!(least != SPENT || !self.exact, "server {server} has no dual with budget left");
        picked.filter(|picked| self.urgencies[*picked] == least).unwrap_or(best)
    }
}

/// The time that `rate` is due by `instant`, rounded down.
fn share(rate: Rate, instant: u64) -> u64 {
    let (num, den) = (rate.num(), rate.den());
    match num.checked_mul(instant) {
        Some(product) => product / den,
        // A rate is at most 1, so the quotient fits.
        None => (u128::from(num) * u128::from(instant) / u128::from(den)) as u64,
    }
}
