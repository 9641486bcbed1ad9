//! The simulated host as the state of a core asks it: what each call costs, and what is refused.

use super::cost::{LiveCall, beside, count, serve, serve_as};
use super::world::World;
use maracas_core::journal::Recolored;
use maracas_core::memory::CachePart;
use maracas_core::{CoreId, Instant, VcpuId};
use maracas_live_core::{Executor, Handle, Recoloring, Record};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

/// Refusals that a kernel may give: EPERM, EINTR, EAGAIN, EBUSY (errno-base.h).
const ERRORS: [i32; 4] = [1, 4, 11, 16];
/// No such thread (errno-base.h).
const ESRCH: i32 = 3;

/// What is made difficult.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveFaults {
    /// What a call costs, in nanoseconds.
    pub call: u64,
    /// What a wake takes at the median, in nanoseconds.
    pub wake: u64,
    /// One wake in so many is late by up to `late` nanoseconds; 0 = none.
    pub late_one_in: u64,
    /// By how much, at most.
    pub late: u64,
    /// One sleep in so many ends before its time; 0 = none.
    pub early_one_in: u64,
    /// One call in so many is refused; 0 = none.
    pub refuse_one_in: u64,
    /// For how long at most an action on the same VCPU is refused then, in nanoseconds.
    pub refuse_for: u64,
    /// One reading of records in so many has lost some; 0 = none.
    pub lose_one_in: u64,
    /// How long freezing takes at most, in nanoseconds.
    pub freeze: u64,
    /// One turn of a thread in so many makes another thread; 0 = none.
    pub fork_one_in: u64,
    /// Guardians act without a reason once in so many looks; 0 = never.
    pub relieve_one_in: u64,
    /// VCPUs are asked for, changed and ended while it runs, and programs killed.
    pub requests: bool,
    /// One in so many askers gives up soon; 0 = none.
    pub give_up_one_in: u64,
    /// What counts memory.
    pub meters: Meters,
    /// Memory can be sampled.
    pub samples: bool,
    /// The share of their time that slower cores have for programs, in thousandths.
    pub share_milli: u64,
    /// The runtime is killed at this call; 0 = never.
    pub kill_at: u64,
    /// The guardian is killed at this step of its repair; 0 = never.
    pub guardian_dies_at: u64,
    /// A core goes off line at this time, in nanoseconds; 0 = never.
    pub off_line_at: u64,
    /// It comes back after so long, unless its agent has noticed.
    pub off_line_for: u64,
    /// One agent in so many that decide for their own core is kept off it meanwhile; 0 = none.
    pub kept_one_in: u64,
    /// For how long at most, in nanoseconds.
    pub kept: u64,
}

/// What counts memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meters {
    /// Nothing.
    None,
    /// Counters of each VCPU.
    Vcpus,
    /// A monitor of each core, which is asked again and again.
    Cores,
    /// A monitor of each core that rings, and counters of each VCPU.
    Both,
}

impl LiveFaults {
    /// A quick host where nothing goes wrong.
    pub const NONE: Self = Self {
        call: 200,
        wake: 3_000,
        late_one_in: 0,
        late: 0,
        early_one_in: 0,
        refuse_one_in: 0,
        refuse_for: 0,
        lose_one_in: 0,
        freeze: 0,
        fork_one_in: 0,
        relieve_one_in: 0,
        requests: false,
        give_up_one_in: 0,
        meters: Meters::None,
        samples: false,
        share_milli: 1000,
        kill_at: 0,
        guardian_dies_at: 0,
        off_line_at: 0,
        off_line_for: 0,
        kept_one_in: 0,
        kept: 0,
    };
}

/// What all that is simulated shares.
pub(super) struct Shared {
    pub(super) world: RefCell<World>,
    pub(super) faults: LiveFaults,
    /// Cores are of several kinds: the progress of programs is counted.
    pub(super) is_uneven: bool,
    /// The core whose agent acts.
    pub(super) acting: Cell<usize>,
    pub(super) calls: Cell<u64>,
    /// The runtime was killed: nothing is carried out any more.
    pub(super) dead: Cell<bool>,
    /// Refusals that are to be reported to the policy, so far.
    pub(super) refused: Cell<u64>,
    /// Nothing is refused any more.
    pub(super) is_willing: Cell<bool>,
}

impl Shared {
    /// The time; asking for it takes some.
    pub(super) fn now(&self) -> Instant {
        let mut world = self.world.borrow_mut();
        world.now += 30;
        Instant::from_ticks(world.now)
    }
    /// Does what need not be reported to the policy when it is refused.
    pub(super) fn unreported(&self, act: impl FnOnce()) {
        let refused = self.refused.get();
        act();
        self.refused.set(refused);
    }
    /// A call begins: it takes its time. Whether the runtime lives to see it carried out.
    fn call(&self) -> bool {
        let calls = self.calls.get() + 1;
        self.calls.set(calls);
        if self.faults.kill_at != 0 && calls >= self.faults.kill_at {
            self.dead.set(true);
        }
        let mut world = self.world.borrow_mut();
        let most = self.faults.call.max(1) * 2;
        let cost = world.dice.between(1, most);
        world.now += cost;
        !self.dead.get()
    }
    /// An action on a group: once it is refused, so are all for some time.
    fn may_act(&self, group: usize) -> io::Result<bool> {
        let until = self.world.borrow().groups[group].refused_until;
        let now = self.world.borrow().now;
        if !self.is_willing.get() && now < until && !self.dead.get() {
            self.call();
            self.refused.set(self.refused.get() + 1);
            return Err(io::Error::from_raw_os_error(ERRORS[0]));
        }
        let may = self.may();
        let mut world = self.world.borrow_mut();
        if may.is_err() {
            let lasts = world.dice.between(0, self.faults.refuse_for);
            world.groups[group].refused_until = now + lasts;
        }
        may
    }
    /// A call that may be refused.
    pub(super) fn may(&self) -> io::Result<bool> {
        let lives = self.call();
        let mut world = self.world.borrow_mut();
        let one_in = self.faults.refuse_one_in;
        if lives && one_in != 0 && !self.is_willing.get() && world.dice.one_in(one_in) {
            self.refused.set(self.refused.get() + 1);
            return Err(io::Error::from_raw_os_error(world.dice.pick(&ERRORS)));
        }
        Ok(lives)
    }
}

/// One core of it.
pub(super) struct SimCore {
    pub(super) shared: Rc<Shared>,
    pub(super) core: usize,
}

impl Executor for SimCore {
    type Handle = SimVcpu;
    type Site = ();

    fn now(&self) -> Instant {
        serve(LiveCall::Clock, || self.shared.now())
    }
    fn site(&self) {}
    fn next_record(&mut self) -> Option<Record> {
        beside(|| {
            let mut world = self.shared.world.borrow_mut();
            world.bring(self.core);
            let lose = self.shared.faults.lose_one_in;
            let records = &world.cpus[self.core].records;
            if lose != 0 && records.len() > 4 && world.dice.one_in(lose) {
                let most = world.cpus[self.core].records.len() as u64 - 1;
                let count = world.dice.between(1, most) as usize;
                let last = world.cpus[self.core].records.drain(..count).next_back();
                return last.map(|last| Record::Lost { at: last.at() });
            }
            world.cpus[self.core].records.pop_front()
        })
    }
    fn wake_agent(&self) {
        serve(LiveCall::Other, || {
            let mut world = self.shared.world.borrow_mut();
            let now = world.now;
            world.cpus[self.core].called.get_or_insert(now);
        });
    }
    fn listen(&mut self, _: VcpuId, handle: &mut SimVcpu, to: bool) -> io::Result<()> {
        serve(LiveCall::Other, || {
            if self.shared.call() {
                self.shared.world.borrow_mut().groups[handle.group].listened = to;
            }
            Ok(())
        })
    }
    fn freeze(&mut self, handle: &SimVcpu, frozen: bool) {
        serve(LiveCall::Freezer, || {
            handle.freeze(frozen);
        })
    }
    fn has_monitor(&self) -> bool {
        matches!(self.shared.faults.meters, Meters::Cores | Meters::Both)
    }
    fn monitor_read(&mut self, _: Instant) -> io::Result<u64> {
        serve(LiveCall::Other, || {
            self.shared.may()?;
            let mut world = self.shared.world.borrow_mut();
            world.bring(self.core);
            Ok(world.monitor(self.core))
        })
    }
    fn monitor_arm(&mut self, limit: Option<u64>) -> io::Result<()> {
        serve(LiveCall::Other, || {
            if self.monitor_rings() && self.shared.call() {
                let mut world = self.shared.world.borrow_mut();
                world.bring(self.core);
                world.cpus[self.core].armed = limit.unwrap_or(u64::MAX);
            }
            Ok(())
        })
    }
    fn monitor_rings(&self) -> bool {
        self.shared.faults.meters == Meters::Both
    }
}

/// One VCPU of it.
pub(super) struct SimVcpu {
    pub(super) shared: Rc<Shared>,
    pub(super) group: usize,
    core: Option<usize>,
    seen: Vec<u64>,
    /// What it had before it was attached.
    before: Vec<u64>,
    /// Reads that were reported, by core.
    read: Vec<u64>,
    /// Progress that was reported.
    gained: u64,
    /// Its meter was read last by the agent of the core where it sits.
    is_on_page: bool,
    /// When its programs have recoloured their pages.
    colored_at: Cell<u64>,
    error: Cell<i32>,
}

impl SimVcpu {
    pub(super) fn new(shared: Rc<Shared>, group: usize) -> Self {
        let seen = vec![0; shared.world.borrow().cpus.len()];
        let (before, read) = (seen.clone(), seen.clone());
        let (core, gained, is_on_page) = (None, 0, false);
        let (colored_at, error) = (Cell::new(0), Cell::new(0));
        Self { shared, group, core, seen, before, read, gained, is_on_page, colored_at, error }
    }
    /// Whether a freeze was refused that its core has not learned of.
    pub(super) const fn is_refused(&self) -> bool {
        self.error.get() != 0
    }
    /// What it had where it sits and was not read, in the time of its meters.
    pub(super) fn unread(&self, world: &World) -> u64 {
        let Some(core) = self.core else { return 0 };
        world.stretched(core, world.groups[self.group].counted[core] - self.seen[core])
    }
    /// What it had since it was attached, in the time of its meters.
    pub(super) fn had(&self) -> u64 {
        let mut world = self.shared.world.borrow_mut();
        world.bring_all();
        let counted = &world.groups[self.group].counted;
        let own = counted.iter().zip(&self.before).enumerate();
        own.map(|(core, (now, before))| world.stretched(core, now - before)).sum()
    }
    /// What it had where it sits since it was last read.
    fn count_service(&mut self) -> io::Result<u64> {
        self.shared.may()?;
        let Some(core) = self.core else { return Ok(0) };
        let mut world = self.shared.world.borrow_mut();
        world.bring(core);
        let counted = world.groups[self.group].counted[core];
        Ok(counted - std::mem::replace(&mut self.seen[core], counted))
    }
    fn count_memory(&mut self) -> (u64, u64) {
        let Some(core) = self.core else { return (0, 0) };
        let mut world = self.shared.world.borrow_mut();
        world.bring(core);
        let all = world.reads(self.group, core);
        let reads = all - std::mem::replace(&mut self.read[core], all);
        (reads, 2 * reads)
    }
    /// Asks the freezer, which acts some time later.
    pub(super) fn freeze(&self, frozen: bool) {
        match self.shared.may_act(self.group) {
            Ok(true) => {
                let mut world = self.shared.world.borrow_mut();
                let after = world.dice.between(0, self.shared.faults.freeze);
                world.ask_freezer(self.group, frozen, after);
            }
            Ok(false) => {}
            Err(error) => {
                // It stays as it was, which is reported when it is asked for.
                self.error.set(error.raw_os_error().unwrap_or(1));
                self.shared.refused.set(self.shared.refused.get() - 1);
            }
        }
    }
}

impl Handle for SimVcpu {
    type Site = ();

    fn set_level(&mut self, tid: i32, level: u8) -> io::Result<()> {
        serve(LiveCall::Level, || {
            if !self.shared.may_act(self.group)? {
                return Ok(());
            }
            match self.shared.world.borrow_mut().set_level(tid, level) {
                true => Ok(()),
                false => Err(io::Error::from_raw_os_error(ESRCH)),
            }
        })
    }
    fn list(&mut self, tids: &mut Vec<i32>) -> io::Result<(Instant, Instant)> {
        serve(LiveCall::List, || {
            self.shared.may()?;
            let mut world = self.shared.world.borrow_mut();
            world.bring_all();
            let begun = Instant::from_ticks(world.now);
            tids.clear();
            let own = |(_, it): &(usize, &super::world::Thread)| it.group == self.group && !it.gone;
            tids.extend(world.threads.iter().enumerate().filter(own).map(|(at, _)| World::tid(at)));
            world.now += 30;
            Ok((begun, Instant::from_ticks(world.now)))
        })
    }
    fn ran(&mut self) -> io::Result<u64> {
        serve_as(|| {
            let ran = self.count_service();
            let is_on_page = matches!(ran, Ok(0)) && self.is_on_page;
            self.is_on_page = self.core == Some(self.shared.acting.get());
            (Some(if is_on_page { LiveCall::Page } else { LiveCall::Meter }), ran)
        })
    }
    fn go(&mut self, core: CoreId, (): ()) -> io::Result<bool> {
        serve(LiveCall::Other, || {
            let to = usize::from(core.0);
            let lives = self.shared.may_act(self.group)?;
            let mut world = self.shared.world.borrow_mut();
            if self.core.is_none() {
                // Its counters are opened: what it had before is on none of them.
                world.bring_all();
                self.seen.clone_from(&world.groups[self.group].counted);
                self.before.clone_from(&self.seen);
                let reads = (0..world.cpus.len()).map(|core| world.reads(self.group, core));
                self.read = reads.collect();
            }
            let moved = world.groups[self.group].core != to;
            if moved && lives {
                world.confine(self.group, to);
            }
            Ok(moved)
        })
    }
    fn arrive(&mut self, core: CoreId) {
        self.core = Some(usize::from(core.0));
    }
    fn refusal(&self) -> io::Result<()> {
        match self.error.replace(0) {
            0 => Ok(()),
            error => {
                self.shared.refused.set(self.shared.refused.get() + 1);
                Err(io::Error::from_raw_os_error(error))
            }
        }
    }
    fn forget_freezer(&self) {}
    fn thaw_now(&self) -> io::Result<()> {
        serve(LiveCall::Freezer, || {
            if self.shared.call() {
                self.shared.world.borrow_mut().ask_freezer(self.group, false, 0);
            }
            Ok(())
        })
    }

    fn progress(&mut self) -> u64 {
        serve_as(|| {
            let world = self.shared.world.borrow();
            let it = &world.groups[self.group];
            let all = it.counted.iter().sum::<u64>() * it.speed;
            let gained = all - std::mem::replace(&mut self.gained, all);
            (self.shared.is_uneven.then_some(LiveCall::Meter), gained)
        })
    }
    fn memory(&mut self) -> (u64, u64) {
        let is_counted = matches!(self.shared.faults.meters, Meters::Vcpus | Meters::Both);
        // One counter for reads, one for references.
        let counter = is_counted.then_some(LiveCall::Meter);
        serve_as(|| {
            counter.into_iter().for_each(count);
            (counter, self.count_memory())
        })
    }
    fn recolor(&mut self, _: CachePart) -> io::Result<Recoloring> {
        serve(LiveCall::Other, || {
            self.shared.call();
            let mut world = self.shared.world.borrow_mut();
            let now = world.now;
            self.colored_at.set(now + world.dice.between(1_000, 5_000_000));
            Ok(world.dice.pick(&[Recoloring::None, Recoloring::Later, Recoloring::Begun]))
        })
    }
    fn recolored(&mut self) -> Option<Recolored> {
        beside(|| {
            let now = self.shared.world.borrow().now;
            let done = Recolored { pages: 1, took_ns: 1, left: 0, error: None };
            (self.colored_at.get() <= now).then_some(done)
        })
    }
}
