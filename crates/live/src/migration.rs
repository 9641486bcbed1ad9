//! What moving a VCPU costs on this host, measured: the terms of C_m (MARACAS, section V).
//!
//! Throw-away processes are moved from core to core as the machine moves a VCPU for a service
//! request, by the same code: its VCPU handle leaves one core and takes its slot on another one
//! where it never was. It is done by a thread at the priority of the machine's agents, on the core
//! that is left. Every try is made cold, since moves are rare: between two of them everything else
//! runs, and what a move needs of the kernel and of us is in no cache any more. That doubles what
//! it takes.

use crate::clock::Clock;
use crate::executor::vcpu::Made;
use crate::executor::{self, Core};
use crate::host::cgroup::{Group, Hierarchies, Tree};
use crate::host::costs::WakeCost;
use crate::host::launch::{Forked, fork};
use crate::host::{HardwareCore, os_code, sched, sys};
use crate::progress::{Progress, Source};
use crate::setup::Means;
use maracas_core::contract::{End, Grant, Limit};
use maracas_core::{CoreId, Duration, VcpuId};
use maracas_live_core::priority;
use rustix::process::{Pid, Signal, WaitOptions, set_parent_process_death_signal, waitpid};
use std::sync::Arc;
use std::{hint, io, thread, time};

/// Of the processes that are moved, while they are raised: any below ours.
const RAISED: u8 = 1;
/// Tries of each kind: few, since making them cold takes longer than they do.
const TRIES: usize = 20;
/// How many threads the moved groups have: the least, and more than most programs.
const THREADS: [usize; 2] = [1, 4];
/// Between two tries. Other programs on these cores lose no more than a move at a time, and agents
/// too wake up cold.
const REST: time::Duration = time::Duration::from_micros(200);
/// A budget that is not used up meanwhile.
const BUDGET: Duration = Duration::from_secs(1);
/// What is read before each try, so that nothing of ours is left in the caches: more than most last
/// levels hold. Where they hold more, moves are measured as faster than they can be.
const CHILL_BYTES: usize = 48 << 20;
/// A VCPU number that no scenario reaches.
const NO_VCPU: VcpuId = VcpuId(u32::MAX - 1);

/// How long something took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spread {
    /// How often it was tried.
    pub tries: usize,
    /// The median.
    pub p50: Duration,
    /// What 19 of 20 tries did not exceed, of those that were not left out: more tries would show
    /// the host's other load.
    pub p95: Duration,
    /// How many tries were left out as another's doing ([`Spread::of`]).
    pub left_out: usize,
    /// The longest of all.
    pub max: Duration,
}

/// A try that takes longer than this many medians is another's doing. Tries of one kind differ by a
/// factor of two; a slice that a hypervisor takes is a hundred times as long as a move, and its
/// count in `/proc/stat` goes in steps of 10 ms, by which a slice of 3 ms is seen or not.
const BEYOND: u64 = 4;
/// Where more than one in so many would be left out, they are no exception, and all tries count.
const EXCEPTIONS: usize = 4;

impl Spread {
    /// Of these tries, in nanoseconds, by nearest rank; `None` of none. Tries that took more than
    /// four medians are left out of the 95th percentile, unless they are more than a quarter.
    pub fn of(mut tries_ns: Vec<u64>) -> Option<Self> {
        tries_ns.sort_unstable();
        let at = |tries: &[u64], percent: usize| {
            let rank = (tries.len() * percent).div_ceil(100).saturating_sub(1);
            tries.get(rank).copied().map(Duration::from_nanos)
        };
        let p50 = at(&tries_ns, 50)?;
        let most = p50.ticks().saturating_mul(BEYOND);
        let ordinary = tries_ns.partition_point(|ns| *ns <= most);
        let rare = (tries_ns.len() - ordinary) * EXCEPTIONS <= tries_ns.len();
        let counted = if rare { &tries_ns[..ordinary] } else { &tries_ns[..] };
        let left_out = tries_ns.len() - counted.len();
        let (p95, max) = (at(counted, 95)?, at(&tries_ns, 100)?);
        Some(Self { tries: tries_ns.len(), p50, p95, left_out, max })
    }
}

/// What a move consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// Reaching another core's queue: raising a thread there (E_lock).
    pub lock: Spread,
    /// Taking a VCPU from one core to another (E_struct): the worse of groups of one thread and of
    /// four.
    pub put: Spread,
}

/// Measures it between neighbours among `cores`. Takes about 0.3 s; nothing is left.
///
/// # Errors
/// Where there are fewer than two cores, or the host refuses a step: real-time priority, control
/// groups.
pub fn measure(cores: &[HardwareCore]) -> io::Result<Costs> {
    if cores.len() < 2 {
        let why = "nothing moves on a single core";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    sys::keep_children();
    let tree = Tree::create(&Hierarchies::read()?)?;
    // In a thread of its own, whose priority and core are its own affair.
    let measured = thread::scope(|scope| {
        let measuring = scope.spawn(|| {
            sched::set_fifo(0, priority::AGENT, true)?;
            all(&tree, cores)
        });
        measuring.join().unwrap_or_else(|_| Err(io::Error::other("the measuring thread died")))
    });
    let removed = match tree.remove() {
        // A tree of this process that is in use stays.
        Err(error) if os_code(&error) == Some(libc::EBUSY) => Ok(()),
        result => result,
    };
    let costs = measured?;
    removed.map(|()| costs)
}

fn all(tree: &Tree, cores: &[HardwareCore]) -> io::Result<Costs> {
    let (mut lock, mut put) = (None, None);
    for threads in THREADS {
        let group = Arc::new(tree.vcpu(NO_VCPU)?);
        let measured = Crew::start(&group, threads).and_then(|crew| {
            if lock.is_none() {
                lock = Spread::of(crew.raises(cores)?);
            }
            crew.moves(cores)
        });
        // Whatever came of it, nothing is left.
        Arc::into_inner(group).map_or(Ok(()), Group::remove)?;
        put = put.into_iter().chain(Spread::of(measured?)).max_by_key(|it: &Spread| it.p95);
    }
    let none = || io::Error::other("nothing was measured");
    Ok(Costs { lock: lock.ok_or_else(none)?, put: put.ok_or_else(none)? })
}

/// Spinning processes of one thread each, in one group; killed and collected when dropped.
struct Crew {
    group: Arc<Group>,
    pids: Vec<i32>,
}

impl Crew {
    fn start(group: &Arc<Group>, members: usize) -> io::Result<Self> {
        let mut crew = Self { group: Arc::clone(group), pids: Vec::new() };
        for _ in 0..members {
            let Forked { pid, .. } = fork(group.dir_fd(), || {
                // A system call alone; it ends with the thread that started it.
                let _ = set_parent_process_death_signal(Some(Signal::KILL));
                // Without a pause in the loop: in a virtual machine that hands the core over.
                loop {
                    hint::black_box(());
                }
            })?;
            crew.pids.push(pid);
            // Not by itself: it would hold the lock that confining a group takes while its
            // fellows keep it off the core (4 to 27 ms were measured).
            group.add_process(pid)?;
        }
        Ok(crew)
    }

    /// How long it takes to raise a thread that runs on another core, in nanoseconds.
    fn raises(&self, cores: &[HardwareCore]) -> io::Result<Vec<u64>> {
        let pid = *self.pids.first().ok_or(io::ErrorKind::NotFound)?;
        let (mut tries, mut chill) = (Vec::with_capacity(TRIES), Chill::new());
        for round in 0..TRIES {
            let (here, there) = neighbours(cores, round);
            sched::set_affinity(0, here)?;
            self.group.confine(there)?;
            chill.rest();
            let begun = time::Instant::now();
            sched::set_fifo(pid, RAISED, true)?;
            tries.push(begun.elapsed().as_nanos() as u64);
            sched::set_other(pid)?;
        }
        Ok(tries)
    }

    /// How long moves take, in nanoseconds.
    fn moves(&self, cores: &[HardwareCore]) -> io::Result<Vec<u64>> {
        let (means, mut places) = open(cores, self.group.dir_fd().is_some())?;
        let (mut tries, mut chill) = (Vec::with_capacity(TRIES), Chill::new());
        for round in 0..TRIES {
            let (from, to) = (round % cores.len(), (round + 1) % cores.len());
            sched::set_affinity(0, cores[from])?;
            self.group.confine(cores[from])?;
            let source = &mut places[from];
            self.put(source, means);
            // As most VCPUs are most of the time.
            let frozen = self.group.freeze().is_ok();
            chill.rest();
            let begun = time::Instant::now();
            if frozen {
                self.group.thaw()?;
            }
            let vcpu_handle = source.detach(NO_VCPU, End::Moved);
            if let Some(mut vcpu_handle) = vcpu_handle {
                let sits = vcpu_handle.sit(places[to].place());
                places[to].attach(vcpu_handle, sits);
            }
            tries.push(begun.elapsed().as_nanos() as u64);
            // From now on it has never been anywhere.
            drop(places[to].detach(NO_VCPU, End::Moved));
            for place in [from, to] {
                places[place].outbox.clear();
                places[place].trouble.take().map_or(Ok(()), Err)?;
            }
        }
        Ok(tries)
    }

    /// Puts it on a core, on its budget.
    fn put(&self, core: &mut Core, means: Means) {
        let progress = Progress::new(Source::None, None);
        let (group, root) = (Arc::clone(&self.group), self.pids.first().copied());
        let name = String::new();
        let mut vcpu_handle = Made {
            id: NO_VCPU,
            name,
            group,
            confined: core.exec.hardware,
            root,
            means,
            progress,
            clock: core.exec.clock.clone(),
        }
        .vcpu_handle();
        let sits = vcpu_handle.sit(core.place());
        core.attach(vcpu_handle, sits);
        core.rescan(0);
        core.run_queue.foreground = vec![Grant::new(NO_VCPU, Limit(BUDGET))];
        core.judge();
        core.stops();
        core.starts();
    }
}

/// The cores as agents have them, and by what means.
fn open(cores: &[HardwareCore], grouped: bool) -> io::Result<(Means, Vec<Core>)> {
    let clock = Clock::start();
    let all = |means: Means| {
        let open = |(id, core): (usize, &HardwareCore)| {
            executor::open(CoreId(id as u16), *core, clock.clone(), means, WakeCost::LEAST)
        };
        let cores: io::Result<Vec<_>> = cores.iter().enumerate().map(open).collect();
        cores.map(|cores| (means, cores))
    };
    let means = Means { instructions: false, ..Means::FULL };
    match all(Means { events: grouped, ..means }) {
        Err(_) if grouped => all(Means { events: false, ..means }),
        opened => opened,
    }
}

/// Lets others have the core, and takes us out of its caches.
struct Chill {
    bytes: Vec<u8>,
    sum: u64,
}

impl Chill {
    fn new() -> Self {
        Self { bytes: vec![1; CHILL_BYTES], sum: 0 }
    }
    fn rest(&mut self) {
        const LINE: usize = 64;
        thread::sleep(REST);
        let lines = self.bytes.iter().step_by(LINE);
        self.sum = hint::black_box(self.sum + lines.map(|byte| u64::from(*byte)).sum::<u64>());
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for pid in &self.pids {
            // Cannot fail for a child of ours that has not been collected.
            let _ = sys::kill(*pid, libc::SIGKILL);
            let _ = waitpid(Pid::from_raw(*pid), WaitOptions::empty());
        }
    }
}

/// From where to where the move of this number goes: round and round.
fn neighbours(cores: &[HardwareCore], round: usize) -> (HardwareCore, HardwareCore) {
    (cores[round % cores.len()], cores[(round + 1) % cores.len()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::platform::Platform;
    use crate::host::tests::{can, is_root, turn};

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let ns = Duration::from_nanos;
        let spread = Spread::of((1..=20).rev().collect()).unwrap();
        let whole = Spread { tries: 20, p50: ns(10), p95: ns(19), left_out: 0, max: ns(20) };
        assert_eq!(spread, whole);
        let one = Spread::of(vec![7]).unwrap();
        assert_eq!((one.p50, one.p95, one.max), (ns(7), ns(7), ns(7)));
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn one_stolen_slice_does_not_make_moves_dear() {
        let ns = Duration::from_nanos;
        // Microseconds around 390, and a slice of 11.5 ms that fell on some.
        let tries = |stolen: usize| {
            let usual = (0..20 - stolen as u64).map(|n| 380_000 + n * 1000);
            usual.chain(vec![11_500_000; stolen]).collect::<Vec<u64>>()
        };
        let spread = |stolen| Spread::of(tries(stolen)).unwrap();
        assert_eq!((spread(0).p95, spread(0).left_out), (ns(398_000), 0));
        assert_eq!((spread(1).p95, spread(1).left_out), (ns(398_000), 1));
        assert_eq!(spread(1).max, ns(11_500_000), "it is not hidden");
        assert_eq!((spread(5).p95, spread(5).left_out), (ns(394_000), 5));
        assert_eq!((spread(6).p95, spread(6).left_out), (ns(11_500_000), 0), "it is usual here");
        // Just four medians are a try like others.
        let edge = Spread::of([vec![100; 19], vec![400]].concat()).unwrap();
        assert_eq!((edge.left_out, edge.max), (0, ns(400)));
        let beyond = Spread::of([vec![100; 19], vec![401]].concat()).unwrap();
        assert_eq!((beyond.left_out, beyond.p95), (1, ns(100)));
    }

    #[test]
    fn moves_go_round_all_cores() {
        let cores = [3, 5, 8].map(HardwareCore);
        let all: Vec<_> = (0..4).map(|round| neighbours(&cores, round)).collect();
        let pair = |from, to| (HardwareCore(from), HardwareCore(to));
        assert_eq!(all, [pair(3, 5), pair(5, 8), pair(8, 3), pair(3, 5)]);
        let refused = measure(&cores[..1]).unwrap_err().to_string();
        assert_eq!(refused, "nothing moves on a single core");
    }

    #[test]
    fn a_host_shows_what_its_moves_cost() {
        let cores = Platform::detect().unwrap().cores;
        if !can("migration costs", is_root() && cores.len() > 1, "root and two cores") {
            return;
        }
        let _turn = turn();
        let begun = time::Instant::now();
        let costs = match measure(&cores) {
            Ok(costs) => costs,
            Err(error) => return crate::host::tests::refused(&error, "moves to be measured"),
        };
        eprintln!("{costs:?} in {:?}", begun.elapsed());
        let ms = Duration::from_millis;
        for spread in [costs.lock, costs.put] {
            assert_eq!(spread.tries, TRIES);
            assert!(!spread.p50.is_zero() && spread.p50 <= spread.p95, "{spread:?}");
            assert!(spread.p50 < ms(5), "{spread:?}");
        }
        assert!(costs.lock.p50 < costs.put.p50, "{costs:?}");
    }
}
