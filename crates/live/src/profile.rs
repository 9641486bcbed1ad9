//! One program, counted from outside: what a workload model is made from.
//!
//! The program runs in a group of its own on one core, and everything in that group is counted,
//! children included, from before its first instruction. Nothing is decided here about what the
//! counts mean; a caller that asks for events that the host does not count gets none of them.

use crate::host::HardwareCore;
use crate::host::cgroup::{Group, Hierarchies, Tree};
use crate::host::hardware::loads::time_on_core;
use crate::host::hardware::{Count, Counter, EventCode, Hardware, Load, Scope};
use crate::host::launch::{self, Child, Command, Exit};
use maracas_core::VcpuId;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

/// The kernel's clock of a task's time on a core, in nanoseconds, as an event
/// (`PERF_COUNT_SW_TASK_CLOCK` in include/uapi/linux/perf_event.h).
const TASK_CLOCK: EventCode = EventCode { unit: 1, config: 1, config1: 0, config2: 0 };
/// How much service the working set is looked at: what is used again within it belongs to the set.
const WINDOW: Duration = Duration::from_secs(1);
/// What runs beside a program has taken its memory after this.
const WARM: Duration = Duration::from_millis(500);
/// Numbers of the groups in which the program and its neighbours run; no scenario reaches them.
const GROUPS: u32 = u32::MAX - 64;

/// Which events are counted of a program; `None` where the host does not count them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Events {
    /// Instructions retired.
    pub instructions: Option<EventCode>,
    /// References to the last-level cache.
    pub references: Option<EventCode>,
    /// Reads of memory: references that it did not answer.
    pub reads: Option<EventCode>,
    /// Cycles in which misses were under way.
    pub waiting: Option<EventCode>,
    /// Sum over cycles of misses under way.
    pub occupancy: Option<EventCode>,
    /// Cycles on the core.
    pub cycles: Option<EventCode>,
    /// Misses under way that were answered by a nearer cache than the last-level one.
    pub nearer: Option<EventCode>,
}

/// What was counted in one interval.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Slice {
    /// Time on the core.
    pub service: Duration,
    /// As in [`Events`].
    pub instructions: Option<u64>,
    /// As in [`Events`].
    pub references: Option<u64>,
    /// As in [`Events`].
    pub reads: Option<u64>,
    /// As in [`Events`].
    pub waiting: Option<u64>,
    /// As in [`Events`]; this and the next two take turns, and are `None` where it is not theirs.
    pub occupancy: Option<u64>,
    /// As in [`Events`].
    pub cycles: Option<u64>,
    /// As in [`Events`].
    pub nearer: Option<u64>,
}

/// What a run of a program came to.
#[derive(Debug)]
pub struct Run {
    /// Its intervals, in order; the last may be shorter.
    pub slices: Vec<Slice>,
    /// How its first process ended by itself; `None` = it was ended by us.
    pub exit: Option<Exit>,
    /// Bytes of the pages that were touched in windows of a second of service, each with the
    /// service at which it began; none where the kernel does not say.
    pub touched: Vec<(Duration, u64)>,
    /// Counters had to take turns, so that counts are extrapolated.
    pub took_turns: bool,
}

/// How to run it.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The program.
    pub command: &'a Command,
    /// Where it runs.
    pub core: HardwareCore,
    /// What runs beside it, each on a core of its own.
    pub beside: &'a [(HardwareCore, Command)],
    /// What is counted.
    pub events: Events,
    /// The length of an interval.
    pub interval: Duration,
    /// So much of its service at the start is not looked at.
    pub skip: Duration,
    /// When it is ended, should it live so long: after this from the first interval on.
    pub most: Duration,
}

/// Runs a program as planned; `shown` learns of every interval. It and whatever it started have
/// ended when this returns, and so have its neighbours.
///
/// # Errors
/// Where it cannot be started, or the host has no groups to count by.
pub fn run(
    plan: &Plan<'_>,
    hardware: &dyn Hardware,
    stop: &AtomicBool,
    mut shown: impl FnMut(Duration),
) -> io::Result<Run> {
    beside(plan.beside, |tree| {
        let mut program = Started::new(tree, GROUPS, plan.command, plan.core)?;
        let result = program.count(plan, hardware, stop, &mut shown);
        program.end().and(result)
    })
}

/// Does known work on `core` so many times while `neighbours` run, and returns how long each took
/// of the core's time.
///
/// # Errors
/// Where they cannot be started or end by themselves, or the core cannot be used.
pub fn loads_beside(
    neighbours: &[(HardwareCore, Command)],
    core: HardwareCore,
    load: Load,
    times: usize,
) -> io::Result<Vec<Duration>> {
    beside(neighbours, |_| (0..times).map(|_| time_on_core(core, load)).collect())
}

/// Acts while `neighbours` run.
fn beside<T>(
    neighbours: &[(HardwareCore, Command)],
    act: impl FnOnce(&Tree) -> io::Result<T>,
) -> io::Result<T> {
    let tree = Tree::create(&Hierarchies::read()?)?;
    let mut started = Vec::new();
    let result = neighbours.iter().enumerate().try_for_each(|(place, (core, command))| {
        started.push(Started::new(&tree, GROUPS + 1 + place as u32, command, *core)?);
        Ok(())
    });
    let result = result.and_then(|()| {
        started.iter_mut().try_for_each(|other| other.child.release())?;
        if !started.is_empty() {
            thread::sleep(WARM);
        }
        let done = act(&tree)?;
        match started.iter().find_map(|other| other.child.try_wait().transpose()) {
            None => Ok(done),
            Some(ended) => Err(ended.map_or_else(
                |error| error,
                |exit| io::Error::other(format!("the load beside it ended by itself ({exit:?})")),
            )),
        }
    });
    let ended = started.into_iter().map(Started::end).fold(Ok(()), io::Result::and);
    let removed = tree.remove();
    let result = result?;
    ended.and(removed).map(|()| result)
}

/// A program in its group.
struct Started {
    group: Group,
    child: Child,
}

impl Started {
    fn new(tree: &Tree, id: u32, command: &Command, core: HardwareCore) -> io::Result<Self> {
        let group = tree.vcpu(VcpuId(id))?;
        match launch::spawn(command, &group, core) {
            Ok(child) => Ok(Self { group, child }),
            Err(error) => {
                group.remove()?;
                Err(error)
            }
        }
    }

    /// Ends whatever is in the group.
    fn end(self) -> io::Result<()> {
        let killed = self.group.kill();
        // Collected already where it ended by itself.
        let _ = self.child.wait();
        killed.and(self.group.remove())
    }

    fn count(
        &mut self,
        plan: &Plan<'_>,
        hardware: &dyn Hardware,
        stop: &AtomicBool,
        shown: &mut dyn FnMut(Duration),
    ) -> io::Result<Run> {
        let mut counters = Counters::open(plan, hardware, &self.group)?;
        let (mut exit, mut skipped, mut service) = (None, Duration::ZERO, Duration::ZERO);
        let (mut slices, mut touched) = (Vec::new(), Touched::default());
        self.child.release()?;
        let mut begin = Instant::now();
        touched.forget(&self.group, service);
        while !stop.load(Ordering::Relaxed) && begin.elapsed() < plan.most {
            thread::sleep(plan.interval.min(plan.most.saturating_sub(begin.elapsed())));
            // Before its counters are read: what it does afterwards is counted next time.
            let over = self.is_over(&mut exit)?;
            let slice = counters.slice()?;
            if skipped < plan.skip {
                skipped += slice.service;
                // One that never gets on does not hold us up for ever.
                if !slice.service.is_zero() {
                    begin = Instant::now();
                }
                touched.forget(&self.group, service);
            } else {
                service += slice.service;
                slices.push(slice);
                touched.look_after(&self.group, service);
                counters.take_turns(plan, hardware, &self.group);
            }
            if over {
                break;
            }
            shown(begin.elapsed());
        }
        if let Some(error) = self.child.failure() {
            return Err(error);
        }
        touched.look(&self.group);
        Ok(Run { slices, exit, touched: touched.windows, took_turns: counters.took_turns })
    }

    /// Whether it and all that it started have ended; `exit` keeps how its first process did.
    fn is_over(&self, exit: &mut Option<Exit>) -> io::Result<bool> {
        if exit.is_none() {
            *exit = self.child.try_wait()?;
        }
        Ok(exit.is_some() && !self.group.is_populated()?)
    }
}

/// The counters of a group and what they read last.
///
/// No more than five of the hardware's are open at a time: processors have six or more, of which a
/// watchdog or a hypervisor may hold one (seen in a guest: the sixth stands still and says
/// nothing). So some of our events take turns, by whole intervals.
struct Counters {
    service: (Box<dyn Counter>, Count),
    /// In the order of [`Counters::events`].
    others: [Option<(Box<dyn Counter>, Count)>; EVENTS],
    /// Which of those that take turns is open.
    turn: usize,
    took_turns: bool,
}

/// How many events are known.
const EVENTS: usize = 7;
/// From this one on they take turns.
const TURNS: usize = 4;

impl Counters {
    const fn events(of: &Events) -> [Option<EventCode>; EVENTS] {
        let Events { instructions, references, reads, waiting, occupancy, cycles, nearer } = *of;
        [instructions, references, reads, waiting, occupancy, cycles, nearer]
    }

    fn open(plan: &Plan<'_>, hardware: &dyn Hardware, group: &Group) -> io::Result<Self> {
        let mut others = [const { None }; EVENTS];
        let events = Self::events(&plan.events);
        for (event, other) in events.into_iter().zip(&mut others).take(TURNS + 1) {
            // One that is refused is left out, as one that there is not.
            *other = event.and_then(|event| open(event, plan, hardware, group).ok());
        }
        let service = open(TASK_CLOCK, plan, hardware, group)?;
        Ok(Self { service, others, turn: TURNS, took_turns: false })
    }

    /// Closes the one whose turn it was and opens the next.
    fn take_turns(&mut self, plan: &Plan<'_>, hardware: &dyn Hardware, group: &Group) {
        let events = Self::events(&plan.events);
        let after = (self.turn + 1..EVENTS).chain(TURNS..self.turn);
        let next = after.into_iter().find_map(|place| Some((place, events[place]?)));
        if let Some((place, event)) = next {
            // Closed first: both at once are one too many.
            self.others[self.turn] = None;
            self.others[place] = open(event, plan, hardware, group).ok();
            self.turn = place;
        }
    }

    fn slice(&mut self) -> io::Result<Slice> {
        let (service, _) = gain(&mut self.service)?;
        let mut gained = [None; EVENTS];
        for (into, counter) in gained.iter_mut().zip(&mut self.others) {
            if let Some(counter) = counter {
                let (value, took_turns) = gain(counter)?;
                self.took_turns |= took_turns;
                *into = Some(value);
            }
        }
        let [instructions, references, reads, waiting, occupancy, cycles, nearer] = gained;
        let service = Duration::from_nanos(service);
        Ok(Slice { service, instructions, references, reads, waiting, occupancy, cycles, nearer })
    }
}

fn open(
    event: EventCode,
    plan: &Plan<'_>,
    hardware: &dyn Hardware,
    group: &Group,
) -> io::Result<(Box<dyn Counter>, Count)> {
    let dir = group.dir_fd().ok_or_else(|| {
        io::Error::new(io::ErrorKind::Unsupported, "programs are counted by cgroup v2 groups")
    })?;
    Ok((hardware.open(&event, Scope::Group(dir, plan.core))?, Count::default()))
}

/// What was counted since it was asked last, and whether that is extrapolated.
fn gain((counter, before): &mut (Box<dyn Counter>, Count)) -> io::Result<(u64, bool)> {
    let now = counter.read()?;
    let gained = (now.since(before), now.took_turns(before));
    *before = now;
    Ok(gained)
}

/// Which pages processes touch, by the marks that the hardware sets (proc_pid_clear_refs(5)).
#[derive(Default)]
struct Touched {
    pids: Vec<i32>,
    /// Service when all marks were taken away.
    begun: Duration,
    windows: Vec<(Duration, u64)>,
}

impl Touched {
    /// Takes all marks away, at so much service.
    fn forget(&mut self, group: &Group, service: Duration) {
        self.begun = service;
        self.pids.clear();
        // Without the list nothing is looked at.
        if group.processes(&mut self.pids).is_ok() {
            for pid in &self.pids {
                let _ = fs::write(file(*pid, "clear_refs"), "1");
            }
        }
    }
    /// Ends a window that is over.
    fn look_after(&mut self, group: &Group, service: Duration) {
        if service.saturating_sub(self.begun) >= WINDOW {
            self.look(group);
            self.forget(group, service);
        }
    }
    /// Adds up what bears a mark now.
    fn look(&mut self, group: &Group) {
        self.pids.clear();
        if group.processes(&mut self.pids).is_err() {
            return;
        }
        let rollup = |pid: &i32| fs::read_to_string(file(*pid, "smaps_rollup")).ok();
        let touched: Vec<u64> =
            self.pids.iter().filter_map(|pid| referenced(&rollup(pid)?)).collect();
        if !touched.is_empty() {
            self.windows.push((self.begun, touched.iter().sum()));
        }
    }
}

fn file(pid: i32, name: &str) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join(name)
}

/// The line `Referenced:   1234 kB` of a `smaps_rollup`, in bytes.
fn referenced(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Referenced:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_referenced_bytes_are_found_in_the_kernel_s_list() {
        let text =
            "55d0-7ffc ---p 00000000 00:00 0 [rollup]\nRss:    900 kB\nReferenced:    12 kB\n";
        assert_eq!(referenced(text), Some(12 << 10));
        assert_eq!(referenced("Rss: 3 kB\n"), None);
        assert_eq!(referenced("Referenced: many kB\n"), None);
    }
}
