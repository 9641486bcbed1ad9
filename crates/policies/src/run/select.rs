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
use core::ops::Range;
use maracas_core::{Instant, Rate};

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
    /// How long its dual has run since the start.
    used: u64,
    /// Whether it runs. Its dual runs exactly when it does not, as far as their parent runs.
    on: bool,
    /// The node whose dual it picked last.
    picked: Option<usize>,
    /// The one of its children that does not run: what it picked last, while it runs itself.
    rests: Option<usize>,
    /// At level 0: the places of its tasks.
    tasks: Range<usize>,
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
    first_leaf: usize,
    releases: Vec<Release>,
    /// How many servers of level 0 are to run at any instant, and how many do.
    cores: usize,
    running: usize,
    /// The servers of level 0 that began to run or ceased to, by their places among these, since
    /// [`Subsystem::take_changed`] last asked.
    changed: Vec<usize>,
    /// Whether every budget is a whole number of ticks.
    exact: bool,
    /// Up to when duals are charged.
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
                picked: None,
                rests: None,
                tasks: from.1..releases.len(),
            });
        }
        // Before anything is picked all leaves run.
        let (cores, running) = (subsystem.cores.len(), nodes.len() - first_leaf);
        let changed = (0..running).collect();
        Self { nodes, first_leaf, releases, cores, running, changed, exact, clock: 0, next: 0 }
    }

    /// The next instant at which [`Subsystem::advance`] has something to do.
    pub(super) const fn next(&self) -> Instant {
        Instant::from_ticks(self.next)
    }
    /// Whether a server of level 0 is selected, by its place in the order of the tree.
    pub(super) fn is_selected(&self, leaf: usize) -> bool {
        self.nodes[self.first_leaf + leaf].on
    }
    /// Adds to `changed`, in the order of the tree, the servers of level 0 of which this may have
    /// changed since it was last asked.
    pub(super) fn take_changed(&mut self, changed: &mut Vec<usize>) {
        // Of a parent, what runs again comes before what rests; late decisions may repeat one.
        if !self.changed.is_sorted_by(|one, next| one < next) {
            self.changed.sort_unstable();
            self.changed.dedup();
        }
        changed.append(&mut self.changed);
    }

    /// A job of the sporadic task at `place`, in the order of the tree, is due at `deadline`.
    pub(super) fn release(&mut self, place: usize, deadline: Instant) {
        self.releases[place].next = deadline.ticks();
    }

    /// Goes on to `now`; whether anything else may be selected than before.
    pub(super) fn advance(&mut self, now: Instant) -> bool {
        while self.next <= now.ticks() && self.next != u64::MAX {
            let at = self.next;
            self.charge(at);
            if self.nodes[0].deadline == at {
                self.open_windows(at);
            }
            self.select();
        }
        !self.changed.is_empty()
    }

    /// Every picked dual of a running server ran since the last instant.
    fn charge(&mut self, at: u64) {
        let time = at - self.clock;
        self.clock = at;
        for server in 0..self.first_leaf {
            if let Node { on: true, picked: Some(child), .. } = self.nodes[server] {
                self.nodes[child].used += time;
            }
        }
    }

    /// RUN's rule for deadlines and budgets: every server whose deadline is `at` gets the earliest
    /// of its clients' next deadlines, and its dual the budget for the time until then.
    fn open_windows(&mut self, at: u64) {
        for place in (0..self.nodes.len()).rev() {
            if self.nodes[place].deadline != at {
                continue;
            }
            let Node { ref children, ref tasks, limit, used, .. } = self.nodes[place];
            assert!(
                !self.exact || limit == used,
                "node {place} used {used} of {limit} when its window closes at {at}"
            );
            let deadline = if place < self.first_leaf {
                self.nodes[children.clone()].iter().map(|child| child.deadline).min()
            } else {
                self.releases[tasks.clone()].iter_mut().map(|task| task.pass(at)).min()
            };
            let node = &mut self.nodes[place];
            node.deadline = deadline.unwrap_or(u64::MAX);
            node.limit = share(node.dual, node.deadline);
        }
    }

    /// SELECT from the root down: a running server picks one of its duals, whose primal rests; all
    /// other primals run, and all under a server that does not run.
    fn select(&mut self) {
        let mut next = self.nodes[0].deadline;
        for server in 0..self.first_leaf {
            let rests = self.nodes[server].on.then(|| self.pick(server));
            if let Some(child) = rests {
                self.nodes[server].picked = rests;
                let Node { limit, used, .. } = self.nodes[child];
                // The last one picked goes on where rounding leaves no task a budget.
                let left = if limit > used { limit - used } else { u64::MAX };
                next = next.min(self.clock.saturating_add(left));
            }
            let rested = core::mem::replace(&mut self.nodes[server].rests, rests);
            if rested != rests {
                rested.into_iter().for_each(|child| self.set_on(child, true));
                rests.into_iter().for_each(|child| self.set_on(child, false));
            }
        }
        let running = self.running;
        assert_eq!(running, self.cores, "servers selected for so many cores at {}", self.clock);
        self.next = next;
    }

    /// A node begins to run or ceases to.
    fn set_on(&mut self, node: usize, on: bool) {
        self.nodes[node].on = on;
        if let Some(leaf) = node.checked_sub(self.first_leaf) {
            self.running = if on { self.running + 1 } else { self.running - 1 };
            self.changed.push(leaf);
        }
    }

    /// EDF among the duals with budget; equal deadlines: the one picked last, then in the order
    /// of the tree.
    fn pick(&self, server: usize) -> usize {
        let Node { ref children, picked, .. } = self.nodes[server];
        let mut best: Option<usize> = None;
        for child in children.clone() {
            let Node { deadline, limit, used, .. } = self.nodes[child];
            let beats = |best: usize| {
                let other = self.nodes[best].deadline;
                deadline < other || deadline == other && picked == Some(child)
            };
            if used < limit && best.is_none_or(beats) {
                best = Some(child);
            }
        }
        assert!(best.is_some() || !self.exact, "server {server} has no dual with budget left");
        best.or(picked).unwrap_or(children.start)
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
