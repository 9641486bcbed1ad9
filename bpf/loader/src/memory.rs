//! Holds a core to an allowance of reads, with page faults in their place.
//!
//! Two VCPUs that fault pages without end have a core each, and each core an allowance a period, as
//! MemGuard gives it: the one of core 1 is far below what its VCPU faults, that of core 0 above.
//! It prints by how much core 1 went beyond, how soon it closed, and that core 0 never did.

use super::{Programs, Result, monotonic, raise, sleep_until, spinner, tell};
use maracas_kernel::{Event, Grant, Happened, Queue, Reads, Scheduler};
use std::io::Read;

/// Page faults after which an event overflows.
const CHUNK: u64 = 8;
/// MemGuard's period in the paper is 1 ms; a fault takes some microseconds here, two tenths of
/// which a core may have.
const PERIOD_NS: u64 = 10_000_000;
/// What the VCPU of core 0 may fault in a period, which it never does, and that of core 1: about
/// half of what it does where nothing stops it (measured: 170 to 210).
const ALLOWANCES: [u64; 2] = [1_000_000, 100];
/// The core of each VCPU is the one of its number.
const CORES: [u32; 2] = [0, 1];
/// `LAW_MEMORY_SPENT`.
const MEMORY_SPENT: u32 = 4;
/// What the last VCPU may fault in all, when it is its own limit that ends it.
const OWN: u64 = 160;
/// Pages of what is faulted again and again.
const PAGES: usize = 256;

/// Waits until it is told, and faults a page every `pause_ns` for ever, as fast as it can where
/// that is 0.
pub(super) fn fault(pause_ns: u64) -> Result<()> {
    // SAFETY: a question about this system.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let (length, none) = (PAGES * page, std::ptr::null_mut());
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let base = unsafe { libc::mmap(none, length, protection, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error().into());
    }
    // One page at a time: a large one would be one fault.
    // SAFETY: the mapping is our own.
    unsafe { libc::madvise(base, length, libc::MADV_NOHUGEPAGE) };
    let _ = std::io::stdin().read(&mut [0]);
    loop {
        for offset in (0..length).step_by(page) {
            // SAFETY: a byte of the mapping.
            unsafe { base.cast::<u8>().add(offset).write_volatile(1) };
            let until = monotonic() + pause_ns;
            while pause_ns > 0 && monotonic() < until {}
        }
        // SAFETY: the mapping is our own, and nothing refers to what is in it.
        unsafe { libc::madvise(base, length, libc::MADV_DONTNEED) };
    }
}

/// What was seen.
#[derive(Default)]
struct Seen {
    /// By how much the core's meter went beyond each allowance.
    beyond: Vec<u64>,
    /// From the begin of a period until its core closed, in nanoseconds.
    closed_ns: Vec<u64>,
    /// Segments of the VCPU that began while its core was closed.
    ran_closed: usize,
    /// What its segments read, by meters.
    read: u64,
    /// Periods in which the other core closed.
    neighbour: usize,
}

/// One period, up to its end: what happened in it.
fn period(scheduler: &mut Scheduler, begin: u64, seen: &mut Seen) -> Result<()> {
    let mut allowances = [0; 2];
    for (core, more) in CORES.into_iter().zip(ALLOWANCES) {
        let allowance = scheduler.core(core)?.reads + more;
        allowances[core as usize] = allowance;
        let mut queue = Queue::new(allowance, true);
        assert!(queue.push_foreground(Grant::new(core, u64::MAX)), "it has room for one");
        scheduler.send(core, &queue)?;
    }
    sleep_until(begin + PERIOD_NS);
    let reads = scheduler.core(1)?.reads;
    seen.beyond.push(reads.saturating_sub(allowances[1]));
    let mut closed = None;
    while let Some(Event { core, vcpu, at, what }) = scheduler.next_event()? {
        match (what, core) {
            (Happened::Spent, 1) => closed = Some(at),
            (Happened::Spent, _) => seen.neighbour += 1,
            (Happened::Ran { from, reads, .. }, 1) if vcpu == 1 => {
                seen.ran_closed += usize::from(closed.is_some_and(|closed| from > closed));
                seen.read = reads;
            }
            (Happened::Ran { .. } | Happened::Woke, _) => {}
        }
    }
    seen.closed_ns.extend(closed.map(|at| at.saturating_sub(begin)));
    Ok(())
}

/// The whole of it.
pub(super) fn run(object: &str, seconds: f64) -> Result<()> {
    let mut programs = Programs(Vec::new());
    let reads = Reads::page_faults(CHUNK);
    let bytes = std::fs::read(object)?;
    let mut scheduler = Scheduler::attach_counting(Some(&bytes), 2, &reads, &CORES)?;
    for (name, instructions) in scheduler.verified() {
        println!("verified {name} {instructions}");
    }
    for (core, pause_ns) in CORES.into_iter().zip(["100000", "0"]) {
        scheduler.settle(core, core)?;
        programs.0.push(spinner(&["fault", pause_ns])?);
        scheduler.join(programs.0[core as usize].id() as i32, core)?;
    }
    raise()?;
    tell(&mut programs.0)?;
    let (mut seen, begun) = (Seen::default(), monotonic());
    let periods = (seconds * 1e9) as u64 / PERIOD_NS;
    for number in 0..periods {
        period(&mut scheduler, begun + PERIOD_NS * number, &mut seen)?;
    }
    let took = monotonic() - begun;
    let had = scheduler.vcpu(0);
    let neighbour = (had.meters[0] as f64 / took as f64, had.reads);
    let most = seen.beyond.iter().max().copied().unwrap_or(0);
    seen.closed_ns.sort_unstable();
    let closed = seen.closed_ns.len();
    let median = seen.closed_ns.get(closed / 2).copied().unwrap_or(0);
    println!("periods {periods} closed {closed} beyond_max {most} chunk {CHUNK}");
    println!("closed_after_us {:.1} ran_closed {}", median as f64 / 1e3, seen.ran_closed);
    let (core, vcpu) = (scheduler.core(1)?.reads, scheduler.vcpu(1).reads);
    println!("core {core} vcpu {vcpu} allowed {}", ALLOWANCES[1] * periods);
    let (share, read) = neighbour;
    println!("neighbour share {share:.3} read {read} closed {}", seen.neighbour);
    println!("own_limit {}", own_limit(&mut scheduler)?);
    scheduler.check()?;
    Ok(())
}

/// A limit of the VCPU's own ends it: whether it says so, and how much it read beyond.
fn own_limit(scheduler: &mut Scheduler) -> Result<String> {
    let until = scheduler.vcpu(1).reads + OWN;
    let mut queue = Queue::default();
    let grant = Grant { memory: until, ..Grant::new(1, u64::MAX) };
    assert!(queue.push_foreground(grant), "it has room for one");
    scheduler.send(1, &queue)?;
    sleep_until(monotonic() + 5 * PERIOD_NS);
    let mut spent = 0;
    while let Some(event) = scheduler.next_event()? {
        let is_end = matches!(event.what, Happened::Ran { end: MEMORY_SPENT, .. });
        spent += usize::from(event.vcpu == 1 && is_end);
    }
    let read = scheduler.vcpu(1).reads;
    Ok(format!("ends {spent} beyond {}", read as i64 - until as i64))
}
