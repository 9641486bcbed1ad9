//! One guest: an emulator, what it says on its serial line, and a limit of its time.

use super::fetch::Kernel;
use super::scenario::{Scenario, Work};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// What came out of a guest.
pub(super) struct Said {
    /// Its lines, without the terminal's control sequences.
    pub(super) lines: Vec<String>,
    /// From the emulator's start to its end.
    pub(super) wall: Duration,
    /// It was still running at its limit, and was ended.
    pub(super) is_late: bool,
}

/// The last line of `init.sh` before it switches the guest off.
const DONE: &str = "@@done";
/// How many times longer than its processor time a guest may take: guests share cores with each
/// other and with whatever else this machine does.
const WALL: u32 = 5;
/// The time in which each core of a guest has its turn, in us of the guest's. Measured with two
/// busy cores on 6.1: a wake of the other core takes 46 us at most, 10 to 17 us in the median, and
/// the emulator a quarter more processor time than without; with 20 us it is 29 us at most, and
/// two thirds more processor time.
const TURNS_US: u32 = 50;
/// The same where ends of budgets are judged to some microseconds: with the others one in twenty of
/// core 1's was 20 to 40 us late, as its timer rang in core 0's turn.
const SHORT_TURNS_US: u32 = 10;
/// How long a guest may take to switch itself off after it has said all. One that was suspended to
/// memory never does in this emulator.
const SWITCHING_OFF: Duration = Duration::from_secs(10);
/// How often the time of a guest is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Boots a guest and waits for its end or its limit. `observed` gets each line as it comes.
///
/// The limit is one of processor time, so that a loaded machine does not make a guest look hung. A
/// guest that hangs goes on using it: its clock jumps from timer to timer.
///
/// # Errors
/// Where the emulator does not start.
pub(super) fn boot(
    tree: &Path,
    kernel: &Kernel,
    initrd: &Path,
    scenario: &Scenario,
    mut observed: impl FnMut(&str),
) -> Result<Said, String> {
    let begin = Instant::now();
    let patience = Duration::from_secs(scenario.patience());
    let mut command = emulator(tree, kernel, initrd, scenario);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("the emulator: {error}"))?;
    let (send, receive) = mpsc::channel();
    let out = child.stdout.take().map(|out| Box::new(out) as Box<dyn Read + Send>);
    let err = child.stderr.take().map(|err| Box::new(err) as Box<dyn Read + Send>);
    for stream in [out, err].into_iter().flatten() {
        let send = send.clone();
        // It ends with the emulator.
        thread::spawn(move || {
            for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
                if send.send(plain(&String::from_utf8_lossy(&line))).is_err() {
                    return;
                }
            }
        });
    }
    drop(send);
    let mut said = Said { lines: Vec::new(), wall: Duration::ZERO, is_late: false };
    let mut done: Option<Instant> = None;
    loop {
        match receive.recv_timeout(LOOK) {
            Ok(line) => {
                observed(&line);
                if line == DONE {
                    done = Some(Instant::now());
                }
                said.lines.push(line);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if done.is_some_and(|done| done.elapsed() > SWITCHING_OFF) {
            let _ = child.kill();
            break;
        }
        if used(child.id()) > patience || begin.elapsed() > patience * WALL {
            said.is_late = true;
            let _ = child.kill();
            break;
        }
    }
    let _ = child.wait();
    said.wall = begin.elapsed();
    Ok(said)
}

/// The emulator's command. It runs from its own tree, by that tree's own loader. `-icount` makes
/// the guest's clock count instructions: with `sleep=off` idle time passes at once.
fn emulator(tree: &Path, kernel: &Kernel, initrd: &Path, scenario: &Scenario) -> Command {
    let libraries = tree.join("usr/lib/x86_64-linux-gnu");
    // So that nothing goes on when the lab itself is killed (util-linux, setpriv(1)).
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    command.arg(libraries.join("ld-linux-x86-64.so.2")).arg("--library-path").arg(&libraries);
    command.arg(tree.join("usr/bin/qemu-system-x86_64"));
    command.arg("-L").arg(tree.join("usr/share/qemu"));
    command.arg("-L").arg(tree.join("usr/share/seabios"));
    let icount = format!("shift={},align=off,sleep=off", scenario.shift);
    command.args(["-accel", "tcg,thread=single", "-icount", &icount, "-machine", "q35"]);
    command.args(["-cpu", "max", "-smp", &scenario.cores.to_string()]);
    // A buffer of packets on a network without a card: nothing but a timer of the emulator's, which
    // ends the turns of guest cores. They last until half of the time to the next timer, by which
    // wakes of the other core were up to 2 ms late.
    let turns = format!("filter-buffer,id=turns,netdev=none,interval={}", turns_us(scenario));
    command.args(["-netdev", "hubport,hubid=0,id=none", "-object", &turns]);
    command.args(["-m", &scenario.memory().to_string()]);
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    command.args(["-serial", "stdio"]).arg("-kernel").arg(&kernel.image);
    command.arg("-initrd").arg(initrd);
    command.args(["-append", "console=ttyS0 panic=-1 quiet mitigations=off"]);
    command
}

/// The turns of a guest's cores, in us of the guest's. In an hour they have as many instructions as
/// where one takes 2 ns: each turn costs the emulator some, and a slow host has few in 50 us.
fn turns_us(scenario: &Scenario) -> u32 {
    match scenario.work {
        Work::Hour => 2 * scenario.as_slow(TURNS_US),
        Work::SchedExt => SHORT_TURNS_US,
        Work::Quickstart(_) | Work::Tests | Work::KernelLive => TURNS_US,
    }
}

/// The processor time of a process (proc_pid_stat(5), fields 14 and 15; on x86 100 ticks a second).
fn used(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// A line without carriage returns and the escape sequences of the firmware.
fn plain(line: &str) -> String {
    let mut out = String::new();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => {
                // CSI sequences end with a letter, others have one more character (ECMA-48).
                if chars.next() == Some('[') {
                    chars.by_ref().find(char::is_ascii_alphabetic);
                }
            }
            '\r' => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{plain, used};
    use std::time::{Duration, Instant};

    #[test]
    fn processor_time_grows_while_a_process_computes() {
        let begin = used(std::process::id());
        let until = Instant::now() + Duration::from_secs(60);
        while used(std::process::id()) < begin + Duration::from_millis(30) {
            assert!(Instant::now() < until, "it stands at {begin:?}");
        }
        assert_eq!(used(0), Duration::ZERO);
    }

    #[test]
    fn control_sequences_are_taken_out() {
        assert_eq!(plain("\u{1b}c\u{1b}[?7l\u{1b}[2Jx\u{1b}[0my\r"), "xy");
        assert_eq!(plain("\u{1b}["), "");
    }
}
