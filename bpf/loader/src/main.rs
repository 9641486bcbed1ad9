//! Loads the scheduler that is a BPF program and holds two budgets with it, for the lab.
//!
//! `maracas-bpf-loader OBJECT SECONDS`: on core 1 two VCPUs of 2 ms in 10 ms stand in the
//! foreground and a spinning third one in the background; beside them spins a program that belongs
//! to no VCPU. Each period the two get their budgets back by one plan. It prints what was delivered
//! and how late budgets ended, then what is left for others when a VCPU may run without end. It is
//! no part of `maracas run`.

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
const PERIOD: Duration = Duration::from_millis(10);
/// The VCPUs that have one.
const BUDGETED: u32 = 2;
/// Above what it starts, and above the kernel's own threads that a plan may wait for.
const PRIORITY: i32 = 50;
/// How long a VCPU may run without end.
const WITHOUT_END: Duration = Duration::from_secs(3);
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
    /// Which of the core's run queues it does not follow.
    other: u32,
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
        Ok(Self { object, _link: link, other: 1 })
    }

    fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>> {
        let found = self.object.maps().find(|map| map.name().to_str() == Some(name));
        found.ok_or_else(|| format!("the object has no map {name}").into())
    }

    /// Runs one of the object's programs that answer user space.
    fn call(&mut self, name: &str, argument: &mut [u8]) -> Result<()> {
        let mut programs = self.object.progs_mut();
        let program = programs.find(|program| program.name() == name);
        let program = program.ok_or_else(|| format!("the object has no program {name}"))?;
        let input = ProgramInput { context_in: Some(argument), ..ProgramInput::default() };
        let answer = program.test_run(input)?.return_value as i32;
        if answer == 0 { Ok(()) } else { Err(format!("{name}: error {answer}").into()) }
    }

    /// A thread belongs to a VCPU from now on.
    fn join(&mut self, thread: u32, vcpu: u32) -> Result<()> {
        self.call("join", &mut [thread.to_ne_bytes(), vcpu.to_ne_bytes()].concat())
    }

    /// Sends the core another run queue.
    fn plan(&mut self, queue: &Queue) -> Result<()> {
        let key = (CORE * 2 + self.other).to_ne_bytes();
        self.map("queues")?.update(&key, queue.bytes(), MapFlags::ANY)?;
        self.other ^= 1;
        self.call("take", &mut CORE.to_ne_bytes())
    }

    /// The state of all cores.
    fn cores(&self) -> Result<Cores> {
        Ok(Cores(self.whole(".bss.cores")?))
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

/// The run queue in the period that begins now, `periods` after the first.
fn queue(periods: u64) -> Queue {
    let mut queue = Queue::new();
    for vcpu in 0..BUDGETED {
        queue.push_foreground(Grant::new(vcpu, BUDGET_NS * (periods + 1)));
    }
    queue.push_background(Grant::new(BUDGETED, u64::MAX));
    queue
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
        let own = std::env::current_exe()?;
        programs.0.push(Command::new(own).arg("spin").stdin(Stdio::piped()).spawn()?);
        scheduler.join(programs.0[vcpu as usize].id(), vcpu)?;
    }
    let own = std::env::current_exe()?;
    programs.0.push(Command::new(own).args(["spin", "confined"]).stdin(Stdio::piped()).spawn()?);
    raise()?;
    let observed = RefCell::new(Vec::new());
    let mut ring = RingBufferBuilder::new();
    let events = MapHandle::try_from(&scheduler.map("events")?)?;
    ring.add(&events, |bytes| {
        observed.borrow_mut().extend(Event::read(bytes));
        0
    })?;
    let ring = ring.build()?;
    scheduler.plan(&queue(0))?;
    for program in &mut programs.0 {
        program.stdin.as_mut().ok_or("no input")?.write_all(b"x")?;
    }
    let periods = (seconds / PERIOD.as_secs_f64()) as u64;
    let before = scheduler.cores()?;
    let mut releases = Vec::new();
    let begun = Instant::now();
    for period in 1..=periods {
        let due = begun + PERIOD * period as u32;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        releases.push(layout::monotonic());
        if period < periods {
            scheduler.plan(&queue(period))?;
        }
        ring.consume()?;
    }
    let meters = Vcpus(scheduler.whole(".bss.vcpus")?);
    report(&observed.borrow(), &meters, &releases, periods);
    let (cores, ran) = (scheduler.cores()?, begun.elapsed().as_nanos() as f64);
    let others = (cores.others(CORE) - before.others(CORE)) as f64 / ran;
    let background = meters.background(BUDGETED) as f64 / ran;
    println!("others {others:.4} background {background:.4}");
    println!("margin_us {:.1}", cores.margin(CORE) as f64 / 1e3);
    println!("without_end_others {:.4}", without_end(&mut scheduler)?);
    let ending = scheduler.whole(".bss.ending")?;
    println!("lost {}", u64::from_ne_bytes(ending[..8].try_into()?));
    Ok(())
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

/// Prints what was delivered, how late budgets ended, and how soon they began.
fn report(events: &[Event], meters: &Vcpus, releases: &[u64], periods: u64) {
    for vcpu in 0..BUDGETED {
        let own = || events.iter().filter(move |event| event.is_foreground_of(vcpu));
        let ends = own().filter(|event| event.is_limit()).map(Event::overrun);
        let starts = releases.iter().filter_map(|at| {
            let first = own().find(|event| event.from >= *at)?;
            Some((first.from - at) as i64)
        });
        let mean = meters.foreground(vcpu) as f64 / periods as f64 / BUDGET_NS as f64;
        let [ends, starts] = [ends.collect(), starts.collect()].map(quantiles);
        println!("vcpu {vcpu} delivered/C {mean:.5} end_us {ends} start_us {starts}");
    }
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
