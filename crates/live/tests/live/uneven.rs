//! A core that is slowed down by a duty cycle, and background that changes places.

use crate::support::bounds::needs;
use crate::support::witness::repeated;
use crate::support::{
    SPIN, Static, background, replays, run, run_with, setup, shell, system, try_run,
};
use maracas_core::contract::{Grant, Limit, Mode};
use maracas_core::control::PROGRESS_VARIABLE;
use maracas_core::journal::{Note, Record};
use maracas_core::{CoreId, Duration, Event, Instant, Plan, Policy, Rate, System, Vcpu, VcpuId};
use maracas_live::host::HardwareCore;
use maracas_live::host::hardware::{EventCode, Hardware, Load, ThisHardware};
use maracas_live::host::launch::Output;
use maracas_live::sense::{Senses, meter};
use maracas_live::{Launch, Means};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time;

/// How long the two change places.
const ROUND: Duration = Duration::from_millis(20);

/// How far apart the reports of the same work on two cores may be: a piece in which the VCPU moves
/// counts where it ends, one in a hundred or so.
const APART: f64 = 0.05;

/// VCPUs without reservations, one on each core, which all move to the next core every round; they
/// stay where they are where no round is given.
pub(crate) struct Ring {
    pub(crate) vcpus: u16,
    pub(crate) round: Option<Duration>,
}

impl Policy for Ring {
    fn on_event(&mut self, _at: Instant, _event: &Event) {}
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        let cores = plan.cores() as u16;
        let turn = self.round.map_or(0, |round| now.ticks() / round.ticks());
        for core in (0..cores).map(CoreId) {
            plan.run_queue_mut(core).background.clear();
        }
        for vcpu in 0..self.vcpus {
            let core = CoreId(((u64::from(vcpu) + turn) % u64::from(cores)) as u16);
            let grant = Grant::new(VcpuId(u32::from(vcpu)), Limit::NEVER);
            plan.run_queue_mut(core).background.push(grant);
        }
        plan.wake = self.round.map_or(Instant::NEVER, |round| Instant::ZERO + round * (turn + 1));
        plan.wake_metered = true;
    }
}

pub(crate) fn best_effort(cores: usize, vcpus: u32) -> System {
    let mut system = system(cores, &[]);
    system.vcpus = (0..vcpus).map(Vcpu::best_effort).collect();
    system
}

/// A spinning program that prints its processor time (`times` of the shell) when it is ended.
fn counting(vcpu: u32) -> (Launch, std::path::PathBuf) {
    let path = std::env::temp_dir().join(format!("maracas-times-{}-{vcpu}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let mut program = shell(vcpu, &format!("trap 'times; exit' TERM; {SPIN}"));
    program.command.output = Output::File(path.clone());
    (program, path)
}

/// The seconds that the shell of [`counting`] has had.
fn counted(path: &std::path::Path) -> f64 {
    let text = std::fs::read_to_string(path).expect("the program has printed its times");
    std::fs::remove_file(path).expect("the file is ours");
    // Minutes and seconds in user and in kernel mode, as 0m1.23s 0m0.01s.
    let line = text.lines().next().expect("a line of its own times");
    let seconds = |word: &str| {
        let (minutes, seconds) = word.trim_end_matches('s').split_once('m').expect("0m0.00s");
        let number = |text: &str| text.parse::<f64>().expect("a number");
        number(minutes) * 60.0 + number(seconds)
    };
    line.split_whitespace().map(seconds).sum()
}

/// What a VCPU was reported to have had on each core, in seconds.
fn by_core(records: &[Record], vcpu: u32) -> [f64; 2] {
    let mut service = [0.0; 2];
    for record in records {
        if let Record::Event { event: Event::Ran(segment), .. } = record
            && segment.vcpu == VcpuId(vcpu)
        {
            assert_eq!(segment.mode, Mode::Background, "none has a budget");
            service[usize::from(segment.core.0)] += segment.usage.service.ticks() as f64 / 1e9;
        }
    }
    service
}

/// Seconds between the end of a VCPU's last segment on one core and its first on the other.
fn moves(records: &[Record], vcpu: u32) -> Vec<f64> {
    let mut last: Option<(CoreId, Instant)> = None;
    let mut gaps = Vec::new();
    for record in records {
        if let Record::Event { event: Event::Ran(segment), .. } = record
            && segment.vcpu == VcpuId(vcpu)
        {
            if let Some((_, to)) = last.filter(|(core, _)| *core != segment.core) {
                gaps.push(segment.from.saturating_since(to).ticks() as f64 / 1e9);
            }
            last = Some((segment.core, segment.to));
        }
    }
    gaps.sort_by(f64::total_cmp);
    gaps
}

#[test]
fn two_in_the_background_change_places_every_round() {
    repeated(|| {
        let system = best_effort(2, 2);
        let (programs, files): (Vec<_>, Vec<_>) = (0..2).map(counting).unzip();
        let policy = || Ring { vcpus: 2, round: Some(ROUND) };
        let Some(ran) = run(setup(&system, programs, 4), Box::new(policy())) else { return };
        let records = ran.untroubled();
        assert!(replays(records, &mut policy(), 2), "a fresh policy decides the same");
        for vcpu in 0..2 {
            let (cores, gaps) = (by_core(records, vcpu), moves(records, vcpu));
            let (reported, raw) = (background(records, vcpu), counted(&files[vcpu as usize]));
            let quantile = |percent: usize| gaps[gaps.len() * percent / 100] * 1e6;
            eprintln!(
                "vcpu{vcpu}: reported {reported:.3} s ({cores:.3?} by core), \
 counted {raw:.3} s, {} moves, off \
             for p50 {:.0} us, p90 {:.0} us, p99 {:.0} us",
                gaps.len(),
                quantile(50),
                quantile(90),
                quantile(99)
            );
            assert!(gaps.len() > 100, "moved {} times in 4 s", gaps.len());
            assert!((reported / raw - 1.0).abs() < 0.1, "reported {reported} s of {raw} s");
            assert!(
                cores.iter().all(|had| *had > 0.05),
                "{cores:?} s in 4 s, beside what else runs"
            );
        }
    });
}

/// Half of the time, metered as all of it, by whatever meters.
fn run_with_half_a_duty(means: Means) {
    let system = best_effort(1, 1);
    let (program, file) = counting(0);
    let mut setup = setup(&system, vec![program], 4);
    setup.duty = vec![Rate::new(1, 2)];
    let policy = Box::new(Ring { vcpus: 1, round: None });
    let Some(ran) = run_with(setup, means, policy) else { return };
    let records = ran.untroubled();
    let (reported, raw) = (background(records, 0), counted(&file));
    let segments = records.iter().filter_map(|record| match record {
        Record::Event { event: Event::Ran(segment), .. } => Some(segment),
        Record::Event { .. } | Record::Planned(_) | Record::Gap(_) => None,
        Record::Note { .. } | Record::End(_) => None,
    });
    let spans = segments.map(|segment| segment.to.saturating_since(segment.from).ticks());
    let spanned = spans.sum::<u64>() as f64 / 1e9;
    eprintln!("counted {raw:.3} s, reported {reported:.3} s of the slower core, in {spanned:.3} s");
    assert!((reported / raw / 2.0 - 1.0).abs() < 0.1, "reported {reported} s for {raw} s");
    assert!(raw < 2.3, "{raw} s in 4 s");
    // Clocks show how long it ran and not how long others did meanwhile.
    let most = if means.events { 4.1 } else { raw * 1.1 };
    assert!(spanned < most, "segments overlap: {spanned} s where {most} s may be");
    let note = records.iter().any(|record| {
        matches!(record, Record::Note { note: Note::Emulated(text), .. }
            if text == "core0 runs programs 1/2 of the time")
    });
    assert!(note, "the journal says so");
}

#[test]
fn a_core_with_half_a_duty_gives_half_the_time_and_meters_it_as_the_whole() {
    repeated(|| {
        run_with_half_a_duty(Means::FULL);
        run_with_half_a_duty(Means { events: false, ..Means::FULL });
    });
}

#[test]
fn budgets_on_a_slowed_core_are_times_of_the_slower_one() {
    repeated(|| {
        // 60 % of the slower core: with its duty cycle, 80 % of the real one. Agents take a tenth
        // where wakes are dear, and above 95 % the kernel gives the core to ordinary threads for 50
        // ms.
        let system = system(1, &[(3_000, 10_000, 0), (3_000, 10_000, 0)]);
        let mut setup = setup(&system, vec![shell(0, SPIN), shell(1, SPIN)], 5);
        setup.duty = vec![Rate::new(1, 2)];
        let Some(ran) = run(setup, Box::new(Static::new(&system))) else { return };
        ran.untroubled();
        (0..2).for_each(|vcpu| ran.got_its_budget(vcpu, 0.01));
    });
}

#[test]
fn a_share_that_no_duty_cycle_gives_is_refused() {
    repeated(|| {
        let system = best_effort(1, 1);
        for (share, why) in [
            (Rate::new(1, 10), "it must be above 1/10"),
            (Rate::ZERO, "it must be above 1/10"),
            (Rate::new(3, 2), "a full core runs them 1"),
            (Rate::new(5_001, 10_007), "a fraction of numbers up to 1000"),
        ] {
            let mut setup = setup(&system, Vec::new(), 1);
            setup.duty = vec![share];
            let policy = Box::new(Ring { vcpus: 1, round: None });
            let Some(ran) = try_run(setup, Means::FULL, policy, Senses::default()) else { return };
            let refusal = ran.map(drop).unwrap_err();
            let text = refusal.to_string();
            assert!(text.starts_with("core0 cannot run programs") && text.contains(why), "{text}");
        }
    });
}

/// Names the file in which this test program, where it is set, counts its progress, for ever.
const COUNT: &str = "MARACAS_TEST_COUNT";

/// What a program that counts says of itself, in words of 8 bytes: how many pieces of work it has
/// finished on core 0 and on core 1, and nanoseconds of processor time that it had there.
const WORDS: usize = 4;

/// The words of a file, shared with all that map it.
fn words(path: &std::path::Path) -> &'static [AtomicU64] {
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).write(true).open(path).expect("it opens");
    let words = (file.metadata().expect("it has a length").len() / 8) as usize;
    let (access, null) = (libc::PROT_READ | libc::PROT_WRITE, std::ptr::null_mut());
    // SAFETY: a new mapping of whole words of the file, which stays as long as this process lives.
    unsafe {
        let page = libc::mmap(null, words * 8, access, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(page, libc::MAP_FAILED, "it can be mapped");
        std::slice::from_raw_parts(page.cast(), words)
    }
}

/// Adds one after every piece of the same work, wherever it is asked to count, and notes for itself
/// on which core that was.
fn count_for_ever(path: &std::path::Path) {
    let own = words(path);
    let progress = std::env::var(PROGRESS_VARIABLE).ok();
    let progress = progress.map(|path| &words(path.as_ref())[0]);
    let mut had = own_time();
    loop {
        (0..2_000_u64).for_each(|i| _ = std::hint::black_box(i));
        if let Some(progress) = progress {
            progress.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: no arguments.
        let core = unsafe { libc::sched_getcpu() } as usize;
        let (before, now) = (had, own_time());
        had = now;
        own[core].fetch_add(1, Ordering::Relaxed);
        own[core + 2].fetch_add((now - before).as_nanos() as u64, Ordering::Relaxed);
    }
}

/// What was reported that a VCPU gained on each core.
fn gains(records: &[Record], vcpu: u32) -> [f64; 2] {
    let mut gains = [0.0; 2];
    for record in records {
        if let Record::Event { event: Event::Ran(segment), .. } = record
            && segment.vcpu == VcpuId(vcpu)
        {
            gains[usize::from(segment.core.0)] += segment.usage.instructions as f64;
        }
    }
    gains
}

/// Two that count change places between a full core and one that is half of one.
fn count_on_uneven_cores(means: Means, source: &str) {
    let system = best_effort(2, 2);
    let name = "uneven::progress_is_reported_of_the_core_where_it_was_made";
    let file = |vcpu: u32| {
        let name = format!("maracas-counted-{}-{vcpu}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, [0; WORDS * 8]).expect("it can be written");
        path
    };
    let files = [0, 1].map(file);
    let program = |vcpu| {
        let mut program = shell(vcpu, "");
        let own = std::env::current_exe().expect("this program has a path");
        program.command.argv = vec![own.into(), "--exact".into(), name.into()];
        program.command.env.insert(COUNT.into(), files[vcpu as usize].clone().into());
        program
    };
    let policy = || Ring { vcpus: 2, round: Some(ROUND) };
    let mut setup = setup(&system, vec![program(0), program(1)], 4);
    setup.duty = vec![Rate::ONE, Rate::new(1, 2)];
    let Some(ran) = run_with(setup, means, Box::new(policy())) else { return };
    let records = ran.untroubled();
    assert!(replays(records, &mut policy(), 2), "a fresh policy decides the same");
    let is_reported = |record: &Record| {
        matches!(record, Record::Note { note: Note::Progress { vcpu: None, text }, .. }
            if text == source)
    };
    assert!(records.iter().any(is_reported), "the journal does not say that {source} were counted");
    for vcpu in 0..2 {
        let own = words(&files[vcpu as usize]);
        std::fs::remove_file(&files[vcpu as usize]).expect("it was there");
        let own = |word: usize| own[word].load(Ordering::Relaxed) as f64;
        let (service, gains) = (by_core(records, vcpu), gains(records, vcpu));
        let a_piece = [0, 1].map(|core| gains[core] / own(core));
        // Time of a core in a second of processor time: one on the full core, two on the half one.
        let time = [0, 1].map(|core| service[core] * 1e9 / own(core + 2));
        let (apart, ratio) = (a_piece[0] / a_piece[1] - 1.0, time[1] / time[0]);
        eprintln!(
            "vcpu{vcpu}: {service:.3?} s of the cores, {a_piece:.3?} {source} a piece there, \
             {time:.3?} s for a second"
        );
        // How fast a core is does not matter here: a host's cores are not served alike.
        assert!(apart.abs() < APART, "progress on core 0 and 1 is {apart:+.3} apart");
        assert!((ratio / 2.0 - 1.0).abs() < 2.0 * APART, "{ratio} times the time on the half core");
    }
}

/// The calling thread's own time on a processor (`clock_gettime(2)`).
fn own_time() -> time::Duration {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a structure of our own.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut at) };
    assert_eq!(result, 0, "it has a clock");
    time::Duration::new(at.tv_sec as u64, at.tv_nsec as u32)
}

/// Whether the hardware of both cores counts instructions, tried with a loop of registers.
fn instructions_are_counted() -> bool {
    // As the kernel names them (`perf_event_open(2)`): type 0, 1.
    let instructions = EventCode { unit: 0, config: 1, config1: 0, config2: 0 };
    let counts = |core: HardwareCore| {
        let mut meter = meter::open(&ThisHardware, &instructions, core).ok()?;
        let before = meter.read(Instant::ZERO).ok()?;
        ThisHardware.load(core, Load::Compute(time::Duration::from_millis(2))).ok()?;
        Some(meter.read(Instant::ZERO).ok()? > before)
    };
    [0, 1].map(HardwareCore).into_iter().all(|core| counts(core) == Some(true))
}

#[test]
fn progress_is_reported_of_the_core_where_it_was_made() {
    repeated(|| {
        if let Some(file) = std::env::var_os(COUNT) {
            return count_for_ever(file.as_ref());
        }
        if needs(instructions_are_counted(), "counters of instructions on the cores 0 and 1") {
            count_on_uneven_cores(Means::FULL, "instructions (PMU)");
        }
        let means = Means { instructions: false, ..Means::FULL };
        count_on_uneven_cores(means, "the programs' own counters");
    });
}
