//! Who decides: one decider for all cores, or one a group of cores, each for its own.
//!
//! Agents only try these locks. One that decides for its group holds the lock of all shared: it
//! excludes none but one that decides for all; and the lock of its group alone, which agents of
//! other groups never look at. One that decides for all holds that of all alone, and takes back
//! first what is lent to the deciders of the groups ([`maracas_live_core::Decider::take_back`]).
//!
//! Nothing is overlooked: what happened is said first ([`Deciders::tell`], [`Deciders::tell_all`]),
//! then the lock is tried, and the agent that held it looks at what was said after letting go.
//! While anything is said that concerns all cores, no agent begins to decide for its group; so the
//! last one that was at it finds the lock free.

use maracas_core::{CoreId, CoreSet, Instant};
use maracas_live_core::{Decider, Host};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{LockResult, Mutex, PoisonError, RwLock};

/// What decides, as far as this depends on it.
pub(crate) trait Decides {
    /// One look at everything, by the agent of `own`, which woke then. The agents of the cores that
    /// it names are to look next.
    fn round(&mut self, own: CoreId, woke: Option<Instant>) -> CoreSet;
    /// Whether what stands here can be lent to the deciders of the groups.
    fn can_lend(&mut self) -> bool;
    /// Lends to the decider of a group what stands here of it.
    fn lend(&mut self, own: &mut Self);
    /// Takes it back.
    fn take_back(&mut self, own: &mut Self);
}

impl<H: Host> Decides for Decider<H> {
    fn round(&mut self, own: CoreId, woke: Option<Instant>) -> CoreSet {
        Self::round(self, own, woke)
    }
    fn can_lend(&mut self) -> bool {
        Self::can_lend(self)
    }
    fn lend(&mut self, own: &mut Self) {
        Self::lend(self, own);
    }
    fn take_back(&mut self, own: &mut Self) {
        Self::take_back(self, own);
    }
}

/// What the lock holds.
struct Held<D> {
    /// Never locked: only an agent that holds all of this alone looks at it.
    all: Mutex<D>,
    /// One a group; none where the policy decides for all. Each is locked by agents of its group's
    /// cores alone.
    own: Box<[Mutex<D>]>,
    /// What stands in `all` is lent to these.
    is_lent: bool,
}

impl<D: Decides> Held<D> {
    /// The decider of all cores, with everything taken back.
    fn whole(&mut self) -> &mut D {
        let all = unpoisoned(self.all.get_mut());
        if std::mem::take(&mut self.is_lent) {
            self.own.iter_mut().for_each(|own| all.take_back(unpoisoned(own.get_mut())));
        }
        all
    }
    /// Lends to the deciders of the groups whatever can be.
    fn lend(&mut self) {
        let all = unpoisoned(self.all.get_mut());
        self.is_lent = !self.own.is_empty() && all.can_lend();
        if self.is_lent {
            self.own.iter_mut().for_each(|own| all.lend(unpoisoned(own.get_mut())));
        }
    }
}

/// What an agent that panicked has left is taken to pieces by the end of the run.
fn unpoisoned<T>(locked: LockResult<T>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}

/// Cores that decide together.
struct Group {
    cores: CoreSet,
    /// Something happened that a decision for them is to see.
    news: AtomicBool,
}

impl Group {
    fn has_news(&self) -> bool {
        self.news.load(Ordering::SeqCst)
    }
}

/// The deciders of a run.
pub(crate) struct Deciders<D> {
    held: RwLock<Held<D>>,
    /// Something happened that a decision for all cores is to see.
    unseen: AtomicBool,
    /// None where the policy decides for all.
    groups: Box<[Group]>,
    /// By core, the place of its group among these.
    group_of: Box<[usize]>,
    /// Groups decide alone. Set by the agent that holds the lock alone; for all others a hint.
    apart: AtomicBool,
}

impl<D: Decides> Deciders<D> {
    /// The decider of all cores, and one for each group of them or none.
    pub(crate) fn new(all: D, own: Vec<(CoreSet, D)>) -> Self {
        let (cores, own): (Vec<_>, Vec<_>) = own.into_iter().unzip();
        let count = cores.iter().map(CoreSet::len).sum::<usize>() as u16;
        let of = |core| cores.iter().position(|group| group.contains(CoreId(core)));
        let group_of = (0..count).filter_map(of).collect();
        let group = |cores| Group { cores, news: AtomicBool::new(false) };
        let groups = cores.iter().copied().map(group).collect();
        let own = own.into_iter().map(Mutex::new).collect();
        let held = RwLock::new(Held { all: Mutex::new(all), own, is_lent: false });
        let (unseen, apart) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { held, unseen, groups, group_of, apart }
    }
    fn group(&self, core: CoreId) -> Option<&Group> {
        self.groups.get(*self.group_of.get(usize::from(core.0))?)
    }

    /// Something happened on `core` that is to be decided.
    pub(crate) fn tell(&self, core: CoreId) {
        match self.group(core) {
            Some(group) if self.apart.load(Ordering::SeqCst) => {
                group.news.store(true, Ordering::SeqCst);
            }
            _ => self.tell_all(),
        }
    }
    /// Something happened that concerns all cores.
    pub(crate) fn tell_all(&self) {
        self.unseen.store(true, Ordering::SeqCst);
    }
    /// Whose agent is to go on with what was said, where that of `core` does not.
    pub(crate) fn heir(&self, core: CoreId, cores: usize) -> Option<CoreId> {
        fence(Ordering::SeqCst);
        if self.unseen.load(Ordering::SeqCst) {
            return Some(CoreId(((usize::from(core.0) + 1) % cores) as u16));
        }
        let group = self.group(core).filter(|group| group.has_news())?;
        group.cores.iter().find(|other| *other > core).or(group.cores.first())
    }

    /// One decision by the agent of `core`, which woke then, where there is anything to decide and
    /// no other is at it: that one will look again. The agents that it names are to be woken.
    pub(crate) fn round(&self, core: CoreId, woke: Option<Instant>) -> Option<CoreSet> {
        // What was let go of, and what is looked at now, stand on two sides of it.
        fence(Ordering::SeqCst);
        if self.unseen.load(Ordering::SeqCst) {
            self.round_for_all(core, woke)
        } else if self.group(core).is_some_and(Group::has_news) {
            self.round_alone(core, woke)
        } else {
            None
        }
    }

    fn round_alone(&self, core: CoreId, woke: Option<Instant>) -> Option<CoreSet> {
        // An agent that holds it alone looks at the news of all groups after letting go; it is
        // poisoned where one panicked, and the run is ending.
        let held = self.held.try_read().ok()?;
        if !held.is_lent {
            drop(held);
            self.tell_all();
            return self.round_for_all(core, woke);
        }
        let group = *self.group_of.get(usize::from(core.0))?;
        // The agent of another core of the group that holds it looks at its news after letting go.
        let mut own = held.own[group].try_lock().ok()?;
        self.groups[group].news.store(false, Ordering::SeqCst);
        let called = own.round(core, woke);
        called.iter().for_each(|core| self.tell(core));
        Some(called)
    }

    fn round_for_all(&self, core: CoreId, woke: Option<Instant>) -> Option<CoreSet> {
        let mut held = self.held.try_write().ok()?;
        self.unseen.store(false, Ordering::SeqCst);
        self.groups.iter().for_each(|group| group.news.store(false, Ordering::SeqCst));
        let mut called = held.whole().round(core, woke);
        match called.is_empty() {
            true => held.lend(),
            false => self.tell_all(),
        }
        self.apart.store(held.is_lent, Ordering::SeqCst);
        drop(held);
        fence(Ordering::SeqCst);
        // Agents of theirs found the lock taken; any of them will do.
        let with_news = self.groups.iter().filter(|group| group.has_news());
        with_news.filter_map(|group| group.cores.first()).for_each(|core| called.insert(core));
        Some(called)
    }

    /// Gives `act` the decider of all cores, which has taken everything back, once no agent lives
    /// any more; and whether an agent panicked while it decided.
    pub(crate) fn end<T>(&self, act: impl FnOnce(&mut D, bool) -> T) -> T {
        let mut held = unpoisoned(self.held.write());
        let is_poisoned = self.held.is_poisoned() || held.own.iter().any(Mutex::is_poisoned);
        act(held.whole(), is_poisoned)
    }
}

#[cfg(test)]
mod rate;
#[cfg(test)]
mod tests;
