//! A thread of no VCPU that is woken by one of a VCPU does not come before other VCPUs.
//!
//! On core 1 the first VCPU writes a byte into a pipe and sleeps, by turns, and the second one
//! spins; both may run without end. The writes wake a program of no VCPU synchronously, which may
//! run on core 0 too, where nothing else does, and spins for half of the time to the next. In each
//! round it is first had run on core 1 alone, without the second VCPU, as it then is where it was
//! last. It prints which share of core 1 threads of no VCPU had in the rest of all rounds.

use super::elsewhere::confine;
use super::{BUDGETED, CORE, Programs, Result, attach, others, raise, spinner, tell};
use maracas_kernel::{Grant, Queue};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long the first VCPU sleeps, and how long what it wakes spins each time: less than a turn.
const SLEEP: Duration = Duration::from_millis(2);
const SPIN: Duration = Duration::from_micros(900);
/// Rounds, and how long the two parts of one are.
const ROUNDS: usize = 60;
const ALONE: Duration = Duration::from_millis(7);
const WATCHED: Duration = Duration::from_millis(14);

/// Waits until it is told, and writes a byte again and again.
pub(super) fn wake() -> Result<()> {
    let _ = std::io::stdin().read(&mut [0]);
    loop {
        let mut pipe = std::io::stdout();
        pipe.write_all(b"x")?;
        pipe.flush()?;
        std::thread::sleep(SLEEP);
    }
}

/// Spins for a while after each byte.
pub(super) fn answer() -> Result<()> {
    let mut pipe = std::io::stdin();
    while pipe.read(&mut [0])? > 0 {
        let begun = Instant::now();
        while begun.elapsed() < SPIN {}
    }
    Ok(())
}

pub(super) fn run(object: &str) -> Result<()> {
    let own = std::env::current_exe()?;
    let mut writer = Command::new(&own);
    let mut writer = writer.arg("wake").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let pipe = writer.stdout.take().ok_or("no output")?;
    let mut programs = Programs(vec![writer, spinner(&["spin"])?]);
    programs.0.push(Command::new(own).arg("answer").stdin(pipe).spawn()?);
    let [writer, spins, answers] = [0, 1, 2].map(|at: usize| programs.0[at].id());
    let mut scheduler = attach(object, BUDGETED)?;
    for (vcpu, process) in [(0, writer), (1, spins)] {
        scheduler.settle(vcpu, CORE)?;
        scheduler.join(process as i32, vcpu)?;
    }
    raise()?;
    tell(&mut programs.0[..2])?;
    let (mut ran, mut watched) = (0, Duration::ZERO);
    for _ in 0..ROUNDS {
        scheduler.send(CORE, &queue(1))?;
        confine(answers, &[CORE])?;
        std::thread::sleep(ALONE);
        confine(answers, &[0, CORE])?;
        scheduler.send(CORE, &queue(BUDGETED))?;
        let (before, begun) = (others(&scheduler)?, Instant::now());
        std::thread::sleep(WATCHED);
        ran += others(&scheduler)? - before;
        watched += begun.elapsed();
    }
    println!("woken_others {:.4}", ran as f64 / watched.as_nanos() as f64);
    scheduler.check()?;
    Ok(())
}

/// The first VCPUs may run without end.
fn queue(vcpus: u32) -> Queue {
    let mut queue = Queue::default();
    let has_room = (0..vcpus).all(|vcpu| queue.push_foreground(Grant::new(vcpu, u64::MAX)));
    assert!(has_room, "it has room for two");
    queue
}
