//! Loads the scheduler that is a BPF program and holds two budgets with it, for the lab.
//!
//! `maracas-bpf-loader OBJECT SECONDS`: on core 1 two VCPUs of 2 ms in 10 ms stand in the
//! foreground and a spinning third one in the background; beside them spins a program that belongs
//! to no VCPU. In the middle of each period one plan says what the two are to have in the next. It
//! prints what was delivered, how late budgets ended and how soon after their instants they began:
//! before all that for the first VCPU alone on a core that idles else, and after it what is left
//! for others when a VCPU may run without end. It is no part of `maracas run`.
//!
//! `maracas-bpf-loader memory OBJECT SECONDS`: see [`memory`].
//! `maracas-bpf-loader slots OBJECT`: see [`slots`]; so `elsewhere` and `woken`.

mod elsewhere;
mod memory;
mod slots;
mod woken;

use maracas_kernel::{Event, Grant, Happened, Queue, Scheduler};
use std::error::Error;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The core that the budgets are held on; the loader runs on others.
const CORE: u32 = 1;
/// Budget and period of the two.
const BUDGET_NS: u64 = 2_000_000;
const PERIOD_NS: u64 = 10_000_000;
/// Periods in which the first VCPU is alone.
const ALONE: u64 = 100;
/// The VCPUs that have one.
const BUDGETED: u32 = 2;
/// Above what it starts, and above the kernel's own threads that a plan may wait for.
const PRIORITY: i32 = 50;
/// How long a VCPU may run without end.
const WITHOUT_END: Duration = Duration::from_secs(3);
/// A segment that begins so long before a period counts as that period's.
const EARLY_NS: u64 = 500_000;
/// Time in which something happens that needs no budget.
const SHORT: Duration = Duration::from_millis(300);
/// The watchdog allows 20 s (`timeout_ms` in maracas.bpf.c).
const WATCHED_S: u64 = 25;
const TENDED_S: u64 = 5;
/// Periods at the beginning that are not judged: the margin settles.
const WARM: usize = 20;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["spin"] => spin(false),
        ["spin", "confined"] => spin(true),
        ["fault", pause_ns] => memory::fault(pause_ns.parse()?),
        ["memory", object, seconds] => memory::run(object, seconds.parse()?),
        ["slots", object] => slots::run(object),
        ["elsewhere", object] => elsewhere::run(object),
        ["wake"] => woken::wake(),
        ["answer"] => woken::answer(),
        ["woken", object] => woken::run(object),
        [object, seconds] => run(object, seconds.parse()?),
        _ => {
            Err("usage: maracas-bpf-loader [memory] OBJECT SECONDS, or slots, elsewhere or woken \
                  OBJECT"
                .into())
        }
    }
}

/// Waits until it is told, and computes for ever, on the core of the VCPUs where it is confined.
fn spin(is_confined: bool) -> ! {
    if is_confined {
        // SAFETY: a set of our own, all zero bits of which are a set without cores.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(CORE as usize, &mut set);
            libc::sched_setaffinity(0, size_of_val(&set), &set);
        }
    }
    let _ = std::io::stdin().read(&mut [0]);
    loop {
        std::hint::black_box(0);
    }
}

/// Programs that end with the loader.
struct Programs(Vec<Child>);

impl Drop for Programs {
    fn drop(&mut self) {
        for program in &mut self.0 {
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

/// `LAW_LIMIT_REACHED`.
const LIMIT_REACHED: u32 = 3;

/// The scheduler, loaded and attached.
fn attach(object: &str, vcpus: u32) -> Result<Scheduler> {
    let scheduler = Scheduler::attach(Some(&std::fs::read(object)?), vcpus)?;
    for (name, instructions) in scheduler.verified() {
        println!("verified {name} {instructions}");
    }
    let [load_ms, attach_ms] = scheduler.took().map(|took| took.as_secs_f64() * 1e3);
    println!("load_ms {load_ms:.1} attach_ms {attach_ms:.1}");
    Ok(scheduler)
}

/// What a VCPU had on its budget, in nanoseconds.
fn foreground(scheduler: &Scheduler, vcpu: u32) -> u64 {
    scheduler.vcpu(vcpu).meters[0]
}

/// What threads that belong to no VCPU had of the core, in nanoseconds.
fn others(scheduler: &Scheduler) -> Result<u64> {
    Ok(scheduler.core(CORE)?.others)
}

/// CLOCK_MONOTONIC in nanoseconds.
fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a structure of our own, which the call fills.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The end of a VCPU's segment on its budget, if the event is one: when it began, how far past its
/// limit the meter was (less than 0 = before it), and whether the budget ended it.
fn end_of(event: &Event, of: u32) -> Option<(u64, i64, bool)> {
    match event.what {
        Happened::Ran { from, mode: 0, meter, until, end, .. } if event.vcpu == of => {
            Some((from, meter as i64 - until as i64, end == LIMIT_REACHED))
        }
        Happened::Ran { .. } | Happened::Woke | Happened::Spent => None,
    }
}

/// The loader's plans must not wait for what it starts.
fn raise() -> Result<()> {
    let param = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: a structure of our own, read by the call.
    let done = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &param)
    };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().into()) }
}

/// Periods in which the first few VCPUs get their budgets back.
struct Span {
    vcpus: u32,
    periods: u64,
    /// When the first begins, in nanoseconds of CLOCK_MONOTONIC.
    begin: u64,
    /// What their meters read then.
    meters: Vec<u64>,
    /// Whether the last VCPU may use surplus time.
    has_background: bool,
}

impl Span {
    /// The next `periods` periods of the first `vcpus` VCPUs.
    fn new(scheduler: &Scheduler, vcpus: u32, periods: u64) -> Result<Self> {
        Ok(Self {
            vcpus,
            periods,
            begin: monotonic() + PERIOD_NS,
            meters: (0..vcpus).map(|vcpu| foreground(scheduler, vcpu)).collect(),
            has_background: vcpus == BUDGETED,
        })
    }

    /// When a period begins.
    const fn due(&self, period: u64) -> u64 {
        self.begin + PERIOD_NS * period
    }

    /// The run queue in the period before number `next`, with what comes then.
    fn queue(&self, next: u64) -> Queue {
        let mut queue = Queue::default();
        let mut has_room = true;
        for (vcpu, meter) in (0..self.vcpus).zip(&self.meters) {
            has_room &= queue.push_foreground(Grant::new(vcpu, meter + BUDGET_NS * next));
            let ahead = Grant::new(vcpu, meter + BUDGET_NS * (next + 1));
            has_room &= queue.push_foreground(ahead.ahead(self.due(next)));
        }
        if self.has_background {
            has_room &= queue.push_background(Grant::new(BUDGETED, u64::MAX));
        }
        assert!(has_room, "a run queue has room for five entries");
        queue
    }

    /// Sends plan after plan, each half a period before it counts, up to the last period's end.
    /// What happened meanwhile.
    fn run(&self, scheduler: &mut Scheduler) -> Result<Vec<Event>> {
        let mut observed = Vec::new();
        for next in 0..self.periods {
            scheduler.send(CORE, &self.queue(next))?;
            sleep_until(self.due(next) + PERIOD_NS / 2);
            observed.extend(std::iter::from_fn(|| scheduler.next_event().transpose()).flatten());
        }
        sleep_until(self.due(self.periods));
        while let Some(event) = scheduler.next_event()? {
            observed.push(event);
        }
        Ok(observed)
    }

    /// Prints what was delivered, how late budgets ended, and how soon the first began.
    fn report(&self, events: &[Event], scheduler: &Scheduler, name: &str) -> Result<()> {
        for (vcpu, before) in (0..self.vcpus).zip(&self.meters) {
            let own = || {
                let segments = events.iter().filter_map(move |event| end_of(event, vcpu));
                segments.filter(|(from, ..)| from + EARLY_NS >= self.begin)
            };
            let ends = own().filter(|(.., is_limit)| *is_limit).map(|(_, over, _)| over).collect();
            let starts = (0..self.periods).filter_map(|period| {
                let (first, ..) = own().find(|(from, ..)| from + EARLY_NS >= self.due(period))?;
                Some(first as i64 - self.due(period) as i64)
            });
            let had = (foreground(scheduler, vcpu) - before) as f64;
            let mean = had / self.periods as f64 / BUDGET_NS as f64;
            let ends = quantiles(ends);
            print!("{name} {vcpu} delivered/C {mean:.5} end_us {ends}");
            if vcpu == 0 {
                print!(" start_us {}", quantiles(starts.collect()));
            }
            println!();
        }
        Ok(())
    }
}

/// Sleeps until an instant of CLOCK_MONOTONIC.
fn sleep_until(at: u64) {
    std::thread::sleep(Duration::from_nanos(at.saturating_sub(monotonic())));
}

/// Starts a program that waits until it is told to spin.
fn spinner(words: &[&str]) -> Result<Child> {
    let own = std::env::current_exe()?;
    Ok(Command::new(own).args(words).stdin(Stdio::piped()).spawn()?)
}

fn tell(programs: &mut [Child]) -> Result<()> {
    for program in programs {
        program.stdin.as_mut().ok_or("no input")?.write_all(b"x")?;
    }
    Ok(())
}

fn run(object: &str, seconds: f64) -> Result<()> {
    let vcpus = BUDGETED + 1;
    // They end after the scheduler: what has no budget left cannot run to its end under it.
    let mut programs = Programs(Vec::new());
    let mut scheduler = attach(object, vcpus)?;
    for vcpu in 0..vcpus {
        scheduler.settle(vcpu, CORE)?;
        programs.0.push(spinner(&["spin"])?);
        scheduler.join(programs.0[vcpu as usize].id() as i32, vcpu)?;
    }
    programs.0.push(spinner(&["spin", "confined"])?);
    raise()?;

    let alone = Span::new(&scheduler, 1, ALONE)?;
    tell(&mut programs.0[..1])?;
    let observed = alone.run(&mut scheduler)?;
    alone.report(&observed, &scheduler, "alone")?;

    let periods = (seconds * 1e9) as u64 / PERIOD_NS;
    let span = Span::new(&scheduler, BUDGETED, periods)?;
    tell(&mut programs.0[1..])?;
    let (before, begun) = (others(&scheduler)?, Instant::now());
    let observed = span.run(&mut scheduler)?;
    let (core, ran) = (scheduler.core(CORE)?, begun.elapsed().as_nanos() as f64);
    span.report(&observed, &scheduler, "vcpu")?;
    let others = (core.others - before) as f64 / ran;
    let background = scheduler.vcpu(BUDGETED).meters[1] as f64 / ran;
    println!("others {others:.4} background {background:.4}");
    println!("margin_us {:.1}", core.margin as f64 / 1e3);
    println!("without_end_others {:.4}", without_end(&mut scheduler)?);
    without_budget(&mut scheduler, &mut programs.0[..BUDGETED as usize])?;
    // What belongs to no VCPU would only keep the core busy.
    programs.0.pop().map_or(Ok(()), |mut program| program.kill())?;
    watched(&mut scheduler)?;
    scheduler.check()?;
    Ok(())
}

/// What becomes of two VCPUs that have no budget at all: the thread of the first is tended, that of
/// the second is killed, and ends when its VCPU leaves.
fn without_budget(scheduler: &mut Scheduler, programs: &mut [Child]) -> Result<()> {
    let [tended, killed] = programs else { return Err("two programs are needed".into()) };
    scheduler.send(CORE, &Queue::default())?;
    std::thread::sleep(SHORT);
    let (begin, meter) = (preemptions(tended.id())?, foreground(scheduler, 0));
    std::thread::sleep(SHORT);
    let waits = preemptions(tended.id())? == begin;
    let threads = scheduler.tend(0, false, SHORT / 2)?;
    std::thread::sleep(SHORT);
    let ran = threads == 1 && preemptions(tended.id())? > begin;
    let charged = foreground(scheduler, 0) - meter;
    println!("without_budget waits {waits} tended {ran} charged_ns {charged}");
    killed.kill()?;
    std::thread::sleep(SHORT);
    let waits = killed.try_wait()?.is_none();
    scheduler.tend(1, true, Duration::ZERO)?;
    std::thread::sleep(SHORT);
    println!("killed waits {waits} left_ends {}", killed.try_wait()?.is_some());
    Ok(())
}

/// Whether the kernel leaves the scheduler in place though threads of two VCPUs have no budget for
/// longer than its watchdog allows.
fn watched(scheduler: &mut Scheduler) -> Result<()> {
    for _ in 0..WATCHED_S / TENDED_S {
        std::thread::sleep(Duration::from_secs(TENDED_S));
        for vcpu in [0, BUDGETED] {
            scheduler.tend(vcpu, false, Duration::from_secs(TENDED_S) / 2)?;
        }
    }
    let state = std::fs::read_to_string("/sys/kernel/sched_ext/state")?;
    println!("tended_for_s {WATCHED_S} state {}", state.trim());
    Ok(())
}

/// How often a process was taken off a core though it could have gone on.
fn preemptions(process: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    Ok(line.ok_or("no count of switches")?.trim().parse()?)
}

/// What others have of the core when a VCPU may run there without end.
fn without_end(scheduler: &mut Scheduler) -> Result<f64> {
    let mut queue = Queue::default();
    assert!(queue.push_foreground(Grant::new(0, u64::MAX)), "it has room for one");
    let (before, begun) = (others(scheduler)?, Instant::now());
    scheduler.send(CORE, &queue)?;
    std::thread::sleep(WITHOUT_END);
    let ran = others(scheduler)? - before;
    Ok(ran as f64 / begun.elapsed().as_nanos() as f64)
}

/// Number, median, 99th percentile and largest in microseconds, without the first few.
fn quantiles(values: Vec<i64>) -> String {
    let mut values: Vec<i64> = values.into_iter().skip(WARM).collect();
    values.sort_unstable();
    let at = |permille: usize| {
        let place = (values.len() * permille / 1000).min(values.len().saturating_sub(1));
        values.get(place).map_or(f64::NAN, |value| *value as f64 / 1e3)
    };
    format!("n {} p50 {:.1} p99 {:.1} max {:.1}", values.len(), at(500), at(990), at(1000))
}
