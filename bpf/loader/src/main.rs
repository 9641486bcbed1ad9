//! Loads the scheduler that is a BPF program and holds two budgets with it, for the lab.
//!
//! `maracas-bpf-loader OBJECT SECONDS`: on core 1 two VCPUs of 2 ms in 10 ms stand in the
//! foreground and a spinning third one in the background; beside them spins a program that belongs
//! to no VCPU. In the middle of each period one plan says what the two are to have in the next. It
//! prints what was delivered, how late budgets ended and how soon after their instants they began:
//! before all that for the first VCPU alone on a core that idles else, and after it what is left
//! for others when a VCPU may run without end. It is no part of `maracas run`.

mod layout;

use layout::{Cores, Event, Grant, Queue, Vcpus};
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, ProgramInput, RingBufferBuilder,
};
use std::cell::RefCell;
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
        [object, seconds] => run(object, seconds.parse()?),
        _ => Err("usage: maracas-bpf-loader OBJECT SECONDS".into()),
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

/// The scheduler, as long as it is attached.
struct Scheduler {
    object: Object,
    _link: Link,
    /// Which of the core's run queues is to be written next.
    spare: u32,
}

impl Scheduler {
    fn attach(object: &str, vcpus: u32) -> Result<Self> {
        let begun = Instant::now();
        let mut open = ObjectBuilder::default().open_file(object)?;
        let cores = std::thread::available_parallelism()?.get() as u32;
        for mut map in open.maps_mut() {
            if map.name() == ".rodata.sizes" {
                map.set_initial_value(&[cores.to_ne_bytes(), vcpus.to_ne_bytes()].concat())?;
            }
        }
        let mut object = open.load()?;
        let loaded = begun.elapsed();
        print_verified(&object);
        let link = object
            .maps_mut()
            .find(|map| map.name() == "maracas")
            .ok_or("the object has no scheduler")?
            .attach_struct_ops()?;
        println!(
            "load_ms {:.1} attach_ms {:.1}",
            loaded.as_secs_f64() * 1e3,
            (begun.elapsed() - loaded).as_secs_f64() * 1e3
        );
        Ok(Self { object, _link: link, spare: layout::FIRST_SPARE })
    }

    fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>> {
        let found = self.object.maps().find(|map| map.name().to_str() == Some(name));
        found.ok_or_else(|| format!("the object has no map {name}").into())
    }

    /// Runs one of the object's programs that answer user space, with 0 or more.
    fn call(&mut self, name: &str, argument: &mut [u8]) -> Result<u32> {
        let mut programs = self.object.progs_mut();
        let program = programs.find(|program| program.name() == name);
        let program = program.ok_or_else(|| format!("the object has no program {name}"))?;
        let input = ProgramInput { context_in: Some(argument), ..ProgramInput::default() };
        let answer = program.test_run(input)?.return_value;
        let error = || format!("{name}: error {}", answer as i32);
        if (answer as i32) < 0 { Err(error().into()) } else { Ok(answer) }
    }

    /// A thread belongs to a VCPU from now on.
    fn join(&mut self, thread: u32, vcpu: u32) -> Result<()> {
        self.call("join", &mut [thread.to_ne_bytes(), vcpu.to_ne_bytes()].concat()).map(drop)
    }

    /// Lets threads of a VCPU that have waited so long run for once; for good where it `leaves`.
    /// How many these are.
    fn tend(&mut self, vcpu: u32, leaves: bool, waited: Duration) -> Result<u32> {
        let mut argument = [vcpu.to_ne_bytes(), u32::from(leaves).to_ne_bytes()].concat();
        argument.extend((waited.as_nanos() as u64).to_ne_bytes());
        self.call("tend", &mut argument)
    }

    /// Sends the core another run queue.
    fn plan(&mut self, queue: &Queue) -> Result<()> {
        let key = (CORE * layout::QUEUES + self.spare).to_ne_bytes();
        self.map("queues")?.update(&key, queue.bytes(), MapFlags::ANY)?;
        self.spare = self.call("take", &mut CORE.to_ne_bytes())?;
        Ok(())
    }

    /// The state of all cores.
    fn cores(&self) -> Result<Cores> {
        Ok(Cores(self.whole(".bss.cores")?))
    }

    /// The state of all VCPUs.
    fn vcpus(&self) -> Result<Vcpus> {
        Ok(Vcpus(self.whole(".bss.vcpus")?))
    }

    /// Reads a map that has one value.
    fn whole(&self, name: &str) -> Result<Vec<u8>> {
        let value = self.map(name)?.lookup(&0u32.to_ne_bytes(), MapFlags::ANY)?;
        value.ok_or_else(|| format!("the map {name} is empty").into())
    }
}

/// Says how many instructions the verifier went through, program by program.
fn print_verified(object: &Object) {
    let names: Vec<_> = object.progs().map(|program| program.name().to_owned()).collect();
    for program in ProgInfoIter::default() {
        if names.iter().any(|name| name.as_encoded_bytes() == program.name.as_bytes()) {
            println!("verified {} {}", program.name.to_string_lossy(), program.verified_insns);
        }
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
        let meters = scheduler.vcpus()?;
        Ok(Self {
            vcpus,
            periods,
            begin: layout::monotonic() + PERIOD_NS,
            meters: (0..vcpus).map(|vcpu| meters.foreground(vcpu)).collect(),
            has_background: vcpus == BUDGETED,
        })
    }

    /// When a period begins.
    const fn due(&self, period: u64) -> u64 {
        self.begin + PERIOD_NS * period
    }

    /// The run queue in the period before number `next`, with what comes then.
    fn queue(&self, next: u64) -> Queue {
        let mut queue = Queue::new();
        for (vcpu, meter) in (0..self.vcpus).zip(&self.meters) {
            queue.push_foreground(Grant::new(vcpu, meter + BUDGET_NS * next));
            let ahead = Grant::new(vcpu, meter + BUDGET_NS * (next + 1));
            queue.push_foreground(ahead.ahead(self.due(next)));
        }
        if self.has_background {
            queue.push_background(Grant::new(BUDGETED, u64::MAX));
        }
        queue
    }

    /// Sends plan after plan, each half a period before it counts, up to the last period's end.
    fn run(&self, scheduler: &mut Scheduler, between: impl Fn() -> Result<()>) -> Result<()> {
        for next in 0..self.periods {
            scheduler.plan(&self.queue(next))?;
            sleep_until(self.due(next) + PERIOD_NS / 2);
            between()?;
        }
        sleep_until(self.due(self.periods));
        between()
    }

    /// Prints what was delivered, how late budgets ended, and how soon the first began.
    fn report(&self, events: &[Event], meters: &Vcpus, name: &str) {
        for (vcpu, before) in (0..self.vcpus).zip(&self.meters) {
            let own = || {
                let is_own = move |event: &&Event| event.is_foreground_of(vcpu);
                events.iter().filter(is_own).filter(|event| event.from + EARLY_NS >= self.begin)
            };
            let ends = own().filter(|event| event.is_limit()).map(Event::overrun).collect();
            let starts = (0..self.periods).filter_map(|period| {
                let first = own().find(|event| event.from + EARLY_NS >= self.due(period))?;
                Some(first.from as i64 - self.due(period) as i64)
            });
            let had = (meters.foreground(vcpu) - before) as f64;
            let mean = had / self.periods as f64 / BUDGET_NS as f64;
            let ends = quantiles(ends);
            print!("{name} {vcpu} delivered/C {mean:.5} end_us {ends}");
            if vcpu == 0 {
                print!(" start_us {}", quantiles(starts.collect()));
            }
            println!();
        }
    }
}

/// Sleeps until an instant of CLOCK_MONOTONIC.
fn sleep_until(at: u64) {
    std::thread::sleep(Duration::from_nanos(at.saturating_sub(layout::monotonic())));
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
    let mut scheduler = Scheduler::attach(object, vcpus)?;
    let mut homes = vec![0; layout::VCPUS * 4];
    for vcpu in 0..vcpus as usize {
        homes[4 * vcpu..4 * vcpu + 4].copy_from_slice(&CORE.to_ne_bytes());
    }
    scheduler.map(".bss.homes")?.update(&0u32.to_ne_bytes(), &homes, MapFlags::ANY)?;
    for vcpu in 0..vcpus {
        programs.0.push(spinner(&["spin"])?);
        scheduler.join(programs.0[vcpu as usize].id(), vcpu)?;
    }
    programs.0.push(spinner(&["spin", "confined"])?);
    raise()?;
    let observed = RefCell::new(Vec::new());
    let mut ring = RingBufferBuilder::new();
    let events = MapHandle::try_from(&scheduler.map("events")?)?;
    ring.add(&events, |bytes| {
        observed.borrow_mut().extend(Event::read(bytes));
        0
    })?;
    let ring = ring.build()?;
    let between = || ring.consume().map_err(Into::into);

    let alone = Span::new(&scheduler, 1, ALONE)?;
    tell(&mut programs.0[..1])?;
    alone.run(&mut scheduler, between)?;
    alone.report(&observed.take(), &scheduler.vcpus()?, "alone");

    let periods = (seconds * 1e9) as u64 / PERIOD_NS;
    let span = Span::new(&scheduler, BUDGETED, periods)?;
    tell(&mut programs.0[1..])?;
    let (before, begun) = (scheduler.cores()?, Instant::now());
    span.run(&mut scheduler, between)?;
    let (cores, ran) = (scheduler.cores()?, begun.elapsed().as_nanos() as f64);
    let meters = scheduler.vcpus()?;
    span.report(&observed.borrow(), &meters, "vcpu");
    let others = (cores.others(CORE) - before.others(CORE)) as f64 / ran;
    let background = meters.background(BUDGETED) as f64 / ran;
    println!("others {others:.4} background {background:.4}");
    println!("margin_us {:.1}", cores.margin(CORE) as f64 / 1e3);
    println!("without_end_others {:.4}", without_end(&mut scheduler)?);
    without_budget(&mut scheduler, &mut programs.0[..BUDGETED as usize])?;
    // What belongs to no VCPU would only keep the core busy.
    programs.0.pop().map_or(Ok(()), |mut program| program.kill())?;
    watched(&mut scheduler)?;
    let ending = scheduler.whole(".bss.ending")?;
    println!("lost {}", u64::from_ne_bytes(ending[..8].try_into()?));
    Ok(())
}

/// What becomes of two VCPUs that have no budget at all: the thread of the first is tended, that of
/// the second is killed, and ends when its VCPU leaves.
fn without_budget(scheduler: &mut Scheduler, programs: &mut [Child]) -> Result<()> {
    let [tended, killed] = programs else { return Err("two programs are needed".into()) };
    scheduler.plan(&Queue::new())?;
    std::thread::sleep(SHORT);
    let (begin, meter) = (preemptions(tended.id())?, scheduler.vcpus()?.foreground(0));
    std::thread::sleep(SHORT);
    let waits = preemptions(tended.id())? == begin;
    let threads = scheduler.tend(0, false, SHORT / 2)?;
    std::thread::sleep(SHORT);
    let ran = threads == 1 && preemptions(tended.id())? > begin;
    let charged = scheduler.vcpus()?.foreground(0) - meter;
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
    let mut queue = Queue::new();
    queue.push_foreground(Grant::new(0, u64::MAX));
    let (before, begun) = (scheduler.cores()?, Instant::now());
    scheduler.plan(&queue)?;
    std::thread::sleep(WITHOUT_END);
    let ran = scheduler.cores()?.others(CORE) - before.others(CORE);
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
