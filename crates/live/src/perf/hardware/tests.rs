//! With real counters, where the host has some.

use super::*;
use crate::host::hardware::{Hardware, Load, ThisHardware};
use crate::host::{HardwareCore, sched};
use std::time::{Duration, Instant};

/// Instructions, as the kernel translates them for every core's monitor.
const INSTRUCTIONS: EventCode = EventCode { unit: 0, config: 1, config1: 0, config2: 0 };
/// A loop of registers does at least so many in a millisecond.
const A_MS: u64 = 100_000;

fn open_or_say(scope: Scope<'_>) -> Option<Box<dyn Counter>> {
    match hardware(&INSTRUCTIONS, scope) {
        Ok(counter) => Some(counter),
        Err(error) => {
            crate::host::tests::refused(&error, "a PMU");
            None
        }
    }
}

fn gain(counter: &mut dyn Counter, work: impl FnOnce()) -> u64 {
    let before = counter.read().unwrap();
    work();
    counter.read().unwrap().since(&before)
}

fn compute(ms: u64) {
    let core = sched::affinity_of(0).unwrap()[0];
    ThisHardware.load(core, Load::Compute(Duration::from_millis(ms))).unwrap();
}

#[test]
fn a_core_is_counted_whatever_runs_there() {
    let core = sched::affinity_of(0).unwrap()[0];
    let Some(mut counter) = open_or_say(Scope::Core(core)) else { return };
    let counted = gain(&mut *counter, || compute(5));
    assert!(counted > 5 * A_MS, "{counted}");
    assert_eq!(counter.fd(), None);
    assert_eq!(counter.arm(1).unwrap_err().kind(), io::ErrorKind::Unsupported);
    let begun = Instant::now();
    (0..1000).for_each(|_| _ = counter.read().unwrap());
    eprintln!("a read takes {:?}", begun.elapsed() / 1000);
}

#[test]
fn a_thread_is_counted_alone_and_a_process_with_its_children() {
    let Some(mut alone) = open_or_say(Scope::ThisThread) else { return };
    let others = gain(&mut *alone, || compute(20));
    let own = gain(&mut *alone, || (0..A_MS * 20).for_each(|i| _ = std::hint::black_box(i)));
    assert!(own > A_MS * 20, "{own}");
    assert!(others < own, "another thread's 20 ms do not count: {others}");

    let script = "read go; i=0; while [ $i -lt 10000 ]; do i=$((i+1)); done; \
                  (while [ $i -gt 0 ]; do i=$((i-1)); done)";
    let mut shell = std::process::Command::new("sh")
        .args(["-c", script])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let process = open_or_say(Scope::Process(shell.id()));
    // The end of its input lets it go.
    drop(shell.stdin.take());
    shell.wait().unwrap();
    let Some(mut process) = process else { return };
    let counted = process.read().unwrap().value;
    // Two loops of 10,000 rounds, each of a shell's many instructions.
    assert!(counted > 2_000_000, "{counted}");
}

/// Whether `fd` becomes readable within so many milliseconds.
fn waits(fd: RawFd, ms: i32) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure of our own.
    unsafe { libc::poll(&raw mut poll, 1, ms) == 1 && poll.revents & libc::POLLIN != 0 }
}

#[test]
fn an_alarm_comes_when_its_number_is_reached_and_not_after_disarming() {
    let core = sched::affinity_of(0).unwrap()[0];
    let Some(mut counter) = open_or_say(Scope::AlarmedCore(core)) else { return };
    let fd = counter.fd().unwrap();
    assert_eq!(counter.alarmed_at_ns(), None);
    assert!(!waits(fd, 0), "nothing was armed");
    const REST: u64 = 3_000_000;
    for _ in 0..20 {
        let before = counter.read().unwrap();
        counter.arm(REST).unwrap();
        let busy = std::thread::spawn(|| compute(30));
        assert!(waits(fd, 10_000), "no alarm though {REST} instructions were counted");
        let counted = counter.read().unwrap().since(&before);
        counter.disarm().unwrap();
        busy.join().unwrap();
        assert!(counted >= REST, "{counted}");
        // What is left of the alarm is taken, and none comes after it.
        waits(fd, 0);
        compute(2);
        assert!(!waits(fd, 0), "disarmed, it does not signal any more");
    }
    let at_ns = counter.alarmed_at_ns();
    assert!(at_ns.is_some_and(|at| at > 0), "{at_ns:?}");
}

#[test]
fn counters_beyond_the_hardware_take_turns_but_one_with_an_alarm_does_not() {
    let core = sched::affinity_of(0).unwrap()[0];
    // More than any core has.
    const MANY: usize = 24;
    let many: Option<Vec<_>> = (0..MANY).map(|_| open_or_say(Scope::Core(core))).collect();
    let (Some(mut many), Some(mut alarmed)) = (many, open_or_say(Scope::AlarmedCore(core))) else {
        return;
    };
    let before: Vec<_> = many.iter_mut().map(|counter| counter.read().unwrap()).collect();
    let alarmed_before = alarmed.read().unwrap();
    compute(100);
    let after: Vec<_> = many.iter_mut().map(|counter| counter.read().unwrap()).collect();
    let alarmed_after = alarmed.read().unwrap();
    assert!(!alarmed_after.took_turns(&alarmed_before));
    let pairs = || before.iter().zip(&after);
    assert!(pairs().any(|(before, after)| after.took_turns(before)));
    let whole = alarmed_after.since(&alarmed_before);
    let mut counts: Vec<_> = pairs().map(|(before, after)| after.since(before)).collect();
    counts.sort_unstable();
    // Others come and go, so that one turn is not like the next.
    let median = counts[MANY / 2];
    assert!(whole / 3 < median && median < whole * 3, "{counts:?}, of {whole}");
}

#[test]
fn the_shortest_alarm_is_no_storm() {
    let core = sched::affinity_of(0).unwrap()[0];
    let Some(mut counter) = open_or_say(Scope::AlarmedCore(core)) else { return };
    counter.arm(0).unwrap();
    // Instructions come a hundred times as often as misses.
    let begun = Instant::now();
    compute(20);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    counter.disarm().unwrap();
    waits(counter.fd().unwrap(), 0);
    compute(2);
    assert!(!waits(counter.fd().unwrap(), 0));
}

/// Faults of pages (`PERF_COUNT_SW_PAGE_FAULTS`): every kernel counts them, and they can be made.
const FAULTS: EventCode = EventCode { unit: 1, config: 2, config1: 0, config2: 0 };

/// Makes at least so many page faults on this core.
fn fault(count: u64) {
    let bytes = count as usize * page_bytes();
    let (kind, no_file) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1);
    // SAFETY: a new mapping of our own, each page of which is written to, and removed again. Small
    // pages, so that each faults by itself.
    unsafe {
        let null = std::ptr::null_mut();
        let base = libc::mmap(null, bytes, libc::PROT_READ | libc::PROT_WRITE, kind, no_file, 0);
        assert_ne!(base, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        libc::madvise(base, bytes, libc::MADV_NOHUGEPAGE);
        for page in 0..count as usize {
            base.cast::<u8>().add(page * page_bytes()).write_volatile(1);
        }
        libc::munmap(base, bytes);
    }
}

/// An alarm at page faults of this thread, so that no others count.
fn of_faults() -> Option<Alarmed> {
    let alarmed = Alarmed::open(&FAULTS, 0, -1);
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    if let Some(error) = alarmed.as_ref().err().filter(|error| refused(error)) {
        eprintln!("skipped: needs CAP_PERFMON: {error}");
        return None;
    }
    Some(alarmed.unwrap())
}

/// How many samples the alarm has made since it was opened; none of other kinds are expected.
fn samples(alarmed: &Alarmed) -> u64 {
    alarmed.ring.head() / SAMPLE
}

#[test]
fn an_alarm_fires_once_however_late_it_is_read() {
    let Some(mut alarmed) = of_faults() else { return };
    let before = alarmed.read().unwrap();
    fault(3000);
    assert_eq!((samples(&alarmed), alarmed.alarmed_at_ns()), (0, None), "nothing was armed");
    alarmed.arm(1000).unwrap();
    fault(900);
    assert_eq!(samples(&alarmed), 0, "it is not due");
    // A periodic one would fire nineteen times more.
    fault(20_000);
    assert!(waits(alarmed.fd().unwrap(), 0));
    assert_eq!(samples(&alarmed), 1);
    assert!(alarmed.alarmed_at_ns().is_some_and(|at| at > 0));
    let counted = alarmed.read().unwrap().since(&before);
    assert!(counted > 23_000, "the meter goes on: {counted}");
    // It was not read in between, and it fires once more.
    alarmed.arm(1000).unwrap();
    fault(20_000);
    assert_eq!(samples(&alarmed), 2);
}

#[test]
fn an_alarm_that_is_set_again_and_again_has_one_overflow() {
    let Some(mut alarmed) = of_faults() else { return };
    for rest in [5000, 3000, 600, 4000, 1000, 2000] {
        alarmed.arm(rest).unwrap();
        fault(100);
    }
    assert_eq!(samples(&alarmed), 0, "each time it was put off");
    fault(20_000);
    assert_eq!(samples(&alarmed), 1, "what was not used before adds nothing");
}

#[test]
fn a_disarmed_alarm_keeps_its_overflow_for_the_next_time() {
    let Some(mut alarmed) = of_faults() else { return };
    alarmed.disarm().unwrap();
    for round in 1..4 {
        alarmed.arm(1000).unwrap();
        alarmed.disarm().unwrap();
        fault(5000);
        assert_eq!(samples(&alarmed), round - 1, "it was disarmed before it was due");
        alarmed.arm(1000).unwrap();
        fault(5000);
        assert_eq!(samples(&alarmed), round);
        // Now there is nothing to take away.
        alarmed.disarm().unwrap();
        fault(5000);
        assert_eq!(samples(&alarmed), round);
    }
    assert!(waits(alarmed.fd().unwrap(), 0));
    assert!(!waits(alarmed.fd().unwrap(), 0), "every signal was read");
}

#[test]
fn a_group_is_counted_on_its_core() {
    use crate::host::cgroup::{Hierarchies, Tree};
    use crate::host::launch::{self, Command, Output};
    let _turn = crate::host::tests::turn();
    let made = Hierarchies::read()
        .and_then(|hierarchies| Tree::create(&hierarchies))
        .and_then(|tree| Ok((tree.vcpu(maracas_core::VcpuId(0))?, tree)));
    let (group, tree) = match made {
        Ok(made) => made,
        Err(error) => return crate::host::tests::refused(&error, "control groups"),
    };
    let dir = group.dir_fd().unwrap();
    let counter = open_or_say(Scope::Group(dir, HardwareCore(0)));
    let argv = ["sh", "-c", "while :; do :; done"].map(Into::into).to_vec();
    let command = Command { argv, output: Output::Null, ..Command::default() };
    let mut child = launch::spawn(&command, &group, HardwareCore(0)).unwrap();
    child.release().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let counted = counter.map(|mut counter| counter.read().unwrap().value);
    group.kill().unwrap();
    child.wait().unwrap();
    group.remove().unwrap();
    tree.remove().unwrap();
    assert!(counted.is_none_or(|counted| counted > A_MS), "{counted:?}");
}
