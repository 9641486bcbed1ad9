//! What live tests measure of the host, so that they can demand of it what it can give: the cost
//! of a wake, the time that a hypervisor took, and interrupts of the timers. Included by path.
#![allow(dead_code, reason = "every test binary uses its part")]

use maracas_live::host::costs::{self, WakeCost};
use maracas_live::host::platform::Platform;
use maracas_live::host::probe::freezer_calls;
use maracas_live::host::{HardwareCore, sched};
use maracas_live::migration;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

/// The part of its budget by which a mean may be off, without stolen time.
pub(crate) const MEAN_ERROR: f64 = 0.005;
/// The part of its budget by which the median period may be off: beyond, periods are not budgets
/// any more, whatever their mean.
const MEDIAN_PART: f64 = 0.15;
/// The same in wakes of this host: a period has one at its begin and one at its end, each with a
/// decision.
const MEDIAN_WAKES: f64 = 10.0;
/// Wakes of this host that a reaction of an agent may take in the median: it wakes, decides, wakes
/// another, and threads are moved between.
const REACTION_WAKES: f64 = 40.0;
/// What a reaction may take on any host: wakes that were measured alone cost more beside builds. An
/// ordinary thread in the chain would make it milliseconds.
const REACTION_NS: f64 = 500_000.0;
/// Less stolen time than this part of a run is not worth a report.
const STOLEN: f64 = 0.01;
/// How long a measured cost holds for other test processes.
const FRESH: Duration = Duration::from_secs(60);

/// What a wake costs on this host: the largest of all cores. Measured once a process, by threads at
/// an agent's priority; to be called while this test has its turn.
pub(crate) fn wake() -> WakeCost {
    static ONCE: OnceLock<WakeCost> = OnceLock::new();
    *ONCE.get_or_init(|| {
        let dir = option_env!("CARGO_TARGET_TMPDIR").map_or_else(env::temp_dir, PathBuf::from);
        let file = dir.join("wake-cost");
        if let Some(cost) = read(&file) {
            return cost;
        }
        let cores = Platform::detect().expect("the platform is readable").cores;
        let of = |core: &HardwareCore| costs::wake(*core, true).expect("a thread may be raised");
        let all: Vec<_> = cores.iter().map(of).collect();
        let p50 = all.iter().map(|cost| cost.p50).max().expect("a core");
        let p99 = all.iter().map(|cost| cost.p99).max().expect("a core");
        // Others measure themselves where it cannot be written.
        let _ = fs::create_dir_all(&dir);
        let _ = fs::write(&file, format!("{} {}", p50.ticks(), p99.ticks()));
        WakeCost { p50, p99 }
    })
}

/// The cost that another test process measured a moment ago.
fn read(file: &PathBuf) -> Option<WakeCost> {
    let written = fs::metadata(file).ok()?.modified().ok()?;
    written.elapsed().ok().filter(|age| *age < FRESH)?;
    let text = fs::read_to_string(file).ok()?;
    let words: Vec<_> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [p50, p99] = words[..] else { return None };
    let [p50, p99] = [p50, p99].map(maracas_core::Duration::from_nanos);
    Some(WakeCost { p50, p99 })
}

/// The median of a wake, in nanoseconds.
fn wake_ns() -> f64 {
    wake().p50.ticks() as f64
}

/// How far the median period may be off a budget, both in nanoseconds.
pub(crate) fn median_error(budget_ns: f64) -> f64 {
    (budget_ns * MEDIAN_PART).max(wake_ns() * MEDIAN_WAKES)
}

/// How long a reaction of an agent may take in the median, in nanoseconds.
pub(crate) fn reaction_ns() -> f64 {
    (wake_ns() * REACTION_WAKES).max(REACTION_NS)
}

/// How long a reaction may take in the median where it moves a VCPU to another core: that much, and
/// what such a move takes here, in nanoseconds. Measured once a process, by `maracas run`'s own
/// means; to be called while nothing runs.
pub(crate) fn moving_reaction_ns() -> f64 {
    static ONCE: OnceLock<f64> = OnceLock::new();
    let moved = ONCE.get_or_init(|| {
        let cores = Platform::detect().expect("the platform is readable").cores;
        let costs = migration::measure(&cores).expect("a VCPU may be moved");
        costs.put.p50.ticks() as f64
    });
    reaction_ns() + moved
}

/// What a decision of an agent takes of a core on this host, in nanoseconds: a timed wake, a freeze
/// and a thaw with the switches to the thread that does them, and as much again for the rest. It is
/// reckoned here once more, from what the host costs alone, so that agents that become dearer do
/// not give tests more time. To be called while nothing runs.
pub(crate) fn decision_ns() -> f64 {
    static ONCE: OnceLock<f64> = OnceLock::new();
    *ONCE.get_or_init(|| {
        let cores = Platform::detect().expect("the platform is readable").cores;
        let costs = costs::measure(&costs::few(&cores)).expect("threads may be raised");
        let freezer = freezer_calls(&cores).ok().flatten().unwrap_or_default();
        2.0 * (costs.taken + freezer + costs.switch * 4).ticks() as f64
    })
}

/// The larger of a time that fast hosts keep and so many wakes of this one, in nanoseconds.
pub(crate) fn at_least_wakes(fast_ns: f64, wakes: f64) -> f64 {
    fast_ns.max(wakes * wake_ns())
}

/// What a hypervisor has taken from every core so far, by the core's number.
pub(crate) struct Steal {
    at: Instant,
    ns: Vec<u64>,
}

impl Steal {
    /// Until now: the eighth number of each core in `/proc/stat`, in hundredths of a second
    /// (`proc_stat(5)`).
    pub(crate) fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").expect("readable");
        let core = |line: &str| -> Option<(usize, u64)> {
            let mut words = line.strip_prefix("cpu")?.split_whitespace();
            let number = words.next()?.parse().ok().filter(|_| !line.starts_with("cpu "))?;
            Some((number, words.nth(7)?.parse::<u64>().ok()? * 10_000_000))
        };
        let cores: Vec<_> = text.lines().filter_map(core).collect();
        let mut ns = vec![0; cores.iter().map(|(core, _)| core + 1).max().unwrap_or(0)];
        cores.into_iter().for_each(|(core, stolen)| ns[core] = stolen);
        Self { at: Instant::now(), ns }
    }
    /// Which part of the time since then was stolen from each core.
    pub(crate) fn parts(&self) -> Vec<f64> {
        let now = Self::now();
        let length = now.at.duration_since(self.at).as_nanos().max(1) as f64;
        let before = self.ns.iter().chain(std::iter::repeat(&0));
        now.ns
            .iter()
            .zip(before)
            .map(|(to, from)| to.saturating_sub(*from) as f64 / length)
            .collect()
    }
}

/// How far a mean may be off where it may be off by `within` on a host of its own: wider by exactly
/// the part of the run that was stolen from these cores, which is said.
pub(crate) fn widened(within: f64, parts: &[f64], cores: &[usize]) -> f64 {
    let of = |core: &usize| parts.get(*core).copied().unwrap_or(0.0);
    let stolen = cores.iter().map(of).fold(0.0, f64::max);
    if stolen <= STOLEN {
        return within;
    }
    eprintln!(
        "the hypervisor stole {:.1} % of core {cores:?}: a mean may be off by {:.2} %",
        stolen * 100.0,
        (within + stolen) * 100.0
    );
    within + stolen
}

/// Interrupts of each core's own timer so far, in the order of the cores that are on line; `None`
/// where the kernel does not count them under this name.
pub(crate) fn timer_interrupts() -> Option<Vec<u64>> {
    let text = fs::read_to_string("/proc/interrupts").ok()?;
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("LOC:"))?;
    Some(line.split_whitespace().map_while(|word| word.parse().ok()).collect())
}

/// Raises the calling thread above all agents, so that it runs while one of them spins or programs
/// of a stopped runtime never end. Lowered again when dropped.
pub(crate) struct Above;

impl Above {
    /// As high as a guardian.
    pub(crate) fn all() -> io::Result<Self> {
        sched::set_fifo(0, 99, true).map(|()| Self)
    }
}

impl Drop for Above {
    fn drop(&mut self) {
        // A thread may always lower itself.
        let _ = sched::set_other(0);
    }
}

/// Something that takes a core from its agent: a spinning thread above all agents.
pub(crate) struct Thief {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Thief {
    /// Spins on `core` for `busy` of every `period`, from now on until it is dropped; not longer
    /// than a minute, whatever becomes of the test.
    pub(crate) fn spin(core: HardwareCore, busy: Duration, period: Duration) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (done, reported) = (Arc::clone(&over), mpsc::channel());
        let (ready, is_ready) = reported;
        let thread = thread::spawn(move || {
            let raised = sched::set_affinity(0, core).and_then(|()| sched::set_fifo(0, 99, true));
            ready.send(raised).expect("a thread waits");
            let begun = Instant::now();
            let mut round = begun;
            while !done.load(Ordering::Acquire) && begun.elapsed() < Duration::from_secs(60) {
                while round.elapsed() < busy {
                    std::hint::spin_loop();
                }
                round += period;
                // Until then, or until it is over.
                thread::park_timeout(round.saturating_duration_since(Instant::now()));
            }
        });
        is_ready.recv().expect("it lives").expect("a thread may be raised");
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Thief {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
