use super::*;
use std::sync::atomic::AtomicU64;
use std::thread;

/// What was said to be decided, by core: how often, and how often that was seen.
struct Said {
    asked: Box<[AtomicU64]>,
    seen: Box<[AtomicU64]>,
}

/// Sees what was said, of a group of cores or of all. Nothing protects it but [`Deciders`].
struct Sees<'a> {
    said: &'a Said,
    own: Option<CoreSet>,
    /// To how many groups what stands here is lent; of a group whether it was lent to.
    lent: usize,
    rounds: u64,
    /// It decides for all again and again before it lends.
    settles: u64,
}

impl Decides for Sees<'_> {
    fn round(&mut self, own: CoreId, _: Option<Instant>) -> CoreSet {
        self.rounds += 1;
        assert!(self.own.is_none_or(|cores| cores.contains(own) && self.lent == 1));
        assert!(self.own.is_some() || self.lent == 0, "it decides for all with nothing lent");
        let all = 0..self.said.asked.len();
        let is_own =
            |core: &usize| self.own.is_none_or(|cores| cores.contains(CoreId(*core as u16)));
        for core in all.filter(is_own) {
            let asked = self.said.asked[core].load(Ordering::SeqCst);
            self.said.seen[core].store(asked, Ordering::SeqCst);
        }
        CoreSet::EMPTY
    }
    fn can_lend(&mut self) -> bool {
        self.rounds.is_multiple_of(self.settles)
    }
    fn lend(&mut self, own: &mut Self) {
        (self.lent, own.lent) = (self.lent + 1, own.lent + 1);
    }
    fn take_back(&mut self, own: &mut Self) {
        (self.lent, own.lent) = (self.lent - 1, own.lent - 1);
    }
}

/// Agents as those of the live machine, of which each is woken by a flag.
fn agent(deciders: &Deciders<Sees<'_>>, core: CoreId, wakeups: &[AtomicBool]) {
    for _ in 0..4 {
        let Some(called) = deciders.round(core, None) else { return };
        called.iter().for_each(|it| wakeups[usize::from(it.0)].store(true, Ordering::SeqCst));
    }
    if let Some(heir) = deciders.heir(core, wakeups.len()) {
        wakeups[usize::from(heir.0)].store(true, Ordering::SeqCst);
    }
}

/// Each agent says and decides so often, one in `one_in` times for all cores. Of so many groups,
/// each has every so many-th core.
fn play((cores, groups): (usize, u16), times: u64, one_in: u64, settles: u64) {
    let count = || (0..cores).map(|_| AtomicU64::new(0)).collect();
    let said = Said { asked: count(), seen: count() };
    let sees = |own| Sees { said: &said, own, lent: 0, rounds: 0, settles };
    let group = |first| (0..cores as u16).skip(first).step_by(groups.into()).map(CoreId).collect();
    let own = (0..usize::from(groups)).map(group).map(|group| (group, sees(Some(group)))).collect();
    let deciders = Deciders::new(sees(None), own);
    let wakeups: Vec<_> = (0..cores).map(|_| AtomicBool::new(false)).collect();
    thread::scope(|scope| {
        for core in (0..cores as u16).map(CoreId) {
            let (deciders, wakeups, said) = (&deciders, &wakeups, &said);
            scope.spawn(move || {
                for time in 1..=times {
                    said.asked[usize::from(core.0)].fetch_add(1, Ordering::SeqCst);
                    match time.is_multiple_of(one_in) {
                        true => deciders.tell_all(),
                        false => deciders.tell(core),
                    }
                    agent(deciders, core, wakeups);
                }
            });
        }
    });
    // All sleep; those that were woken meanwhile look once more, until none is.
    while let Some(core) = wakeups.iter().position(|it| it.swap(false, Ordering::SeqCst)) {
        agent(&deciders, CoreId(core as u16), &wakeups);
    }
    let numbers =
        |of: &[AtomicU64]| -> Vec<_> { of.iter().map(|it| it.load(Ordering::SeqCst)).collect() };
    assert_eq!(numbers(&said.seen), numbers(&said.asked), "nothing is overlooked");
    deciders.end(|all, is_poisoned| assert!(all.lent == 0 && !is_poisoned));
}

#[test]
fn whatever_is_said_is_decided() {
    for (one_in, settles) in [(u64::MAX, 1), (1, 1), (7, 1), (7, 3), (100, 2)] {
        play((2, 2), 20_000, one_in, settles);
        play((2, 1), 20_000, one_in, settles);
        play((5, 5), 4_000, one_in, settles);
        play((5, 2), 4_000, one_in, settles);
    }
}
