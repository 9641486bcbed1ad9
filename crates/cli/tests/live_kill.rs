//! Whatever is killed, and whenever: no thread stays at real-time priority, no group stays frozen,
//! and nothing of the run is left on the host.
//!
//! Needs a host where budgets are enforced in full (`maracas doctor`). The runtime is killed at 12
//! random instants, the guardian at 4 and both at 6; 50, 20 and 20 with `MARACAS_ACCEPTANCE=full`.
//! The instants are drawn from a seed, `MARACAS_SEED`, and lie before, at and after the start.

mod common;
mod live;

use common::text;
use live::host::{self, Leftovers, a_run_lives};
use live::measure::Above;
use live::witness::repeated;
use live::{Run, Stage, median, sized, until};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a repair may take, as a median, in milliseconds.
const REPAIR_MS: f64 = 200.0;
/// The same in times of a start of this program on an idle host, where that is longer: a repair is
/// as many calls of the kernel, on each of a dozen groups and their threads, and what kills a
/// program is much of what starts one. In the lab, whose slow host takes four times as long for
/// everything, a start takes 19 and 78 ms, and a repair 62 to 95 and 332 to 386 ms. Another
/// guardian is this program started again beside a busy run, moved out of its groups and locked in
/// memory.
const STARTS: f64 = 10.0;
/// How long any repair may take on a host that is as busy as it likes.
const PATIENCE: Duration = Duration::from_secs(5);
/// How far looks for another guardian are apart, which are made above all agents: each reads a file
/// of every thread of the run, up to a millisecond on a slow host. Beside a run that uses nine
/// tenths of its cores the kernel would take the cores from all of them (sched_rt_runtime_us).
const LOOKS_APART: Duration = Duration::from_millis(10);
/// The latest kill: by then everything has started and the late comers have come, on a host where a
/// run has its socket after a third of that. Elsewhere it is three times what that takes.
const LATEST: Duration = Duration::from_millis(1200);

/// Budgets and background of five programs on two cores: one forks all the time, one has threads,
/// one ignores SIGTERM, two come and go. Groups are frozen and thawed every 2 ms.
const RESERVATIONS: &str = r#"
version = 1
[platform]
cores = 2
[policy]
name = "maracas"
background = "fair"
background_slice = "2ms"
[[program]]
name = "forks"
command = ["sh", "-c", "while :; do /bin/true; done"]
output = "null"
budget = "2ms"
period = "10ms"
core = 0
[[program]]
name = "stubborn"
command = ["sh", "-c", "trap '' TERM; while :; do :; done"]
output = "null"
budget = "1ms"
period = "5ms"
core = 0
[[program]]
name = "threads"
command = ["maracas", "work", "spin", "--threads", "4"]
output = "null"
budget = "4ms"
period = "20ms"
core = 1
[[program]]
name = "comes"
command = ["maracas", "work", "spin"]
output = "null"
budget = "2ms"
period = "10ms"
core = 1
start = "300ms"
[[program]]
name = "goes"
command = ["sh", "-c", "trap '' TERM; while :; do :; done"]
output = "null"
budget = "2ms"
period = "20ms"
start = "150ms"
stop = "450ms"
"#;

/// Three jobs on two cores under global EDF: they migrate all the time. Together they take 0.43 of
/// each core, which leaves room for agents whose decisions are measured to cost half a millisecond:
/// each of many runs measures that anew, and none is to be refused.
const MIGRATIONS: &str = r#"
version = 1
[platform]
cores = 2
[policy]
name = "g-edf"
[[program]]
name = "one"
command = ["maracas", "work", "spin", "--threads", "2"]
output = "null"
budget = "1500us"
period = "5ms"
jobs = "periodic"
[[program]]
name = "two"
command = ["sh", "-c", "trap '' TERM; while :; do :; done"]
output = "null"
budget = "2ms"
period = "7ms"
jobs = "periodic"
[[program]]
name = "three"
command = ["sh", "-c", "while :; do /bin/true; done"]
output = "null"
budget = "3ms"
period = "11ms"
jobs = "periodic"
"#;

/// Three workers under RUN: one of them continues on the other core with each of its jobs, and is
/// taken from its core while it has more to run. Two of them are more than a core has for programs,
/// 0.9 of it at most, and so RUN does not pack them.
const WORKERS: &str = r#"
version = 1
[platform]
cores = 2
[policy]
name = "run"
[[program]]
name = "one"
command = ["maracas", "work", "periodic", "--cost", "4100us"]
output = "null"
budget = "4600us"
period = "10ms"
jobs = "periodic"
[[program]]
name = "two"
command = ["maracas", "work", "spin", "--threads", "2"]
output = "null"
budget = "4600us"
period = "10ms"
jobs = "periodic"
[[program]]
name = "three"
command = ["sh", "-c", "trap '' TERM; while :; do :; done"]
output = "null"
budget = "4600us"
period = "10ms"
jobs = "periodic"
"#;

const SCENARIOS: [&str; 3] = ["reservations.toml", "migrations.toml", "workers.toml"];

/// Draws the instants: xorshift64 (G. Marsaglia, 2003), so that a seed gives them again.
struct Dice {
    state: u64,
    latest: Duration,
    /// Runs that were refused so far.
    refused: usize,
}

impl Dice {
    fn new(stage: &Stage, test: u64) -> Self {
        let seed = std::env::var("MARACAS_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed: u64 = seed.unwrap_or(20);
        eprintln!("MARACAS_SEED={seed}");
        let begun = Instant::now();
        stage.start(&[SCENARIOS[0], "--json", "--duration", "60s"], &[]).socket();
        let latest = LATEST.max(begun.elapsed() * 3);
        eprintln!("kills within {latest:?}");
        Self { state: (seed << 8 | test) + 1, latest, refused: 0 }
    }
    fn below(&mut self, bound: Duration) -> Duration {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        Duration::from_micros(self.state % bound.as_micros() as u64)
    }
    /// When to kill: every third time while the run starts.
    fn instant(&mut self, round: usize) -> Duration {
        let bound = if round.is_multiple_of(3) { self.latest / 6 } else { self.latest };
        self.below(bound)
    }
}

/// The stage for so many rounds: each run lives for a second or two, and is cleaned up after.
fn enter(rounds: usize) -> Option<Stage> {
    let stage = Stage::enter(2, 2 * rounds as u64)?;
    for (name, text) in SCENARIOS.into_iter().zip([RESERVATIONS, MIGRATIONS, WORKERS]) {
        stage.admitted(name, text);
    }
    Some(stage)
}

/// How many runs of a test may be refused before they are killed. Each run measures what agents
/// cost, and a host that takes a core away meanwhile makes that dear: of up to fifty runs of what
/// was admitted at first some meet such an instant. Where more are refused, admission is at fault.
const REFUSALS: usize = 3;

/// A run that is as old as `when`; the scenarios take turns, whichever third is killed early. Where
/// another's run has the cores, it is waited for.
fn run_until(stage: &Stage, dice: &mut Dice, round: usize, duration: &str, when: Duration) -> Run {
    loop {
        let file = SCENARIOS[(round + round / 3) % SCENARIOS.len()];
        let mut run = stage.start(&[file, "--json", "--duration", duration], &[]);
        run.at(when);
        if !run.is_over() {
            return run;
        }
        let printed = run.printed();
        if printed.contains("\"verdict\": \"refused\"") {
            dice.refused += 1;
            assert!(dice.refused <= REFUSALS, "{} runs are refused: {printed}", dice.refused);
            eprintln!("round {round}: {file} is refused: {printed}\nonce more");
            continue;
        }
        assert!(run.said().contains("is managed by"), "{}{printed}", run.said());
        until(Duration::from_secs(60), || !a_run_lives());
    }
}

/// What the repairs took and what they found.
#[derive(Default)]
struct Tally {
    repairs: Vec<f64>,
    unguarded: usize,
    raised: usize,
    frozen: usize,
}

impl Tally {
    fn note(&mut self, left: &Leftovers) {
        self.raised += left.real_time.len();
        self.frozen += left.frozen.len();
    }
    fn print(&mut self, victim: &str) {
        let count = self.repairs.len();
        let middle = median(&mut self.repairs);
        let longest = self.repairs.last().copied().unwrap_or(f64::NAN);
        let late = self.repairs.iter().filter(|took| **took > REPAIR_MS).count();
        eprintln!(
            "{victim} killed {count} times: nothing left after {middle:.1} ms (median), \
             {longest:.1} ms (longest), {late} times after more than {REPAIR_MS} ms; {} raised \
             threads and {} frozen groups were seen on the way; {} kills came before a guardian \
             stood",
            self.raised, self.frozen, self.unguarded
        );
    }
}

/// Waits until nothing is left; how long that took, in milliseconds.
///
/// A look at all processes takes tens of milliseconds where system calls are slow, and would be
/// most of what is measured. So first what a repair does last is waited for, the end of groups and
/// files and of the guardian itself; only where the look that follows finds something left has it
/// taken longer.
fn cleared(run: &Run, guardian: Option<u32>, since: Instant, why: &str) -> f64 {
    let ended = || guardian.is_none_or(host::has_ended);
    until(PATIENCE, || run.host.groups().is_empty() && run.host.files().is_empty() && ended());
    let took = since.elapsed();
    let ms = |took: Duration| took.as_secs_f64() * 1e3;
    if run.host.leftovers().none() {
        return ms(took);
    }
    let clear = until(PATIENCE, || run.host.leftovers().none());
    assert!(clear.is_some(), "{why}: {:#?}\n{}", run.host.leftovers(), run.said());
    ms(since.elapsed())
}

#[test]
fn a_killed_runtime_leaves_nothing() {
    repeated(|| {
        let rounds = sized(50, 12);
        let Some(stage) = enter(rounds) else { return };
        let most = REPAIR_MS.max(STARTS * start_ms(&stage));
        let (mut dice, mut tally) = (Dice::new(&stage, 1), Tally::default());
        for round in 0..rounds {
            let when = dice.instant(round);
            let mut run = run_until(&stage, &mut dice, round, "60s", when);
            // A guardian may be done before a look at all processes is, and may come during one.
            let stood = run.host.guardian();
            run.kill();
            let since = Instant::now();
            let guardian = stood.or_else(|| run.host.guardian()).map(|guardian| guardian.pid);
            let guarded = guardian.is_some();
            let why = format!("round {round}, killed after {when:?}, guarded: {guarded}");
            tally.note(&run.host.leftovers());
            if guarded {
                // The runtime itself harms nothing any more, though the kernel may still close its
                // counters: on PREEMPT_RT for 16 ms each.
                let took = cleared(&run, guardian, since, &why);
                eprintln!("{why}: {took:.1} ms");
                tally.repairs.push(took);
                run.reap();
            } else {
                run.reap();
                // Too early for a guardian: then nothing was raised or frozen yet, and a guardian
                // that was just being started leaves by itself.
                std::thread::sleep(Duration::from_millis(200));
                let left = run.host.leftovers();
                assert!(left.real_time.is_empty() && left.processes.is_empty(), "{why}: {left:?}");
                clean(&stage);
                cleared(&run, None, since, &why);
                tally.unguarded += 1;
            }
        }
        tally.print("runtime");
        let middle = median(&mut tally.repairs);
        assert!(middle < most, "{middle} ms of {most}");
    });
}

#[test]
fn a_killed_guardian_is_replaced_and_the_run_ends_in_order() {
    repeated(|| {
        let rounds = sized(20, 4);
        let Some(stage) = enter(rounds) else { return };
        let started = start_ms(&stage);
        // Without optimization the program is 90 MB, which are locked in memory.
        let most = if cfg!(debug_assertions) { 5.0 * REPAIR_MS } else { REPAIR_MS };
        let most = most.max(STARTS * started);
        let (mut dice, mut replaced, mut refused) = (Dice::new(&stage, 2), Vec::new(), 0);
        for round in 0..rounds {
            // It goes on after the latest kill, so that another guardian is seen though it is late.
            let duration = format!("{}ms", dice.latest.as_millis() + 3 * most as u128);
            let when = dice.instant(round);
            let mut run = run_until(&stage, &mut dice, round, &duration, when);
            // A look at all processes would keep a slow core busy while the run measures its costs.
            let mut stood = None;
            until(PATIENCE, || {
                std::thread::sleep(LOOKS_APART);
                stood = run.host.guardian_beside();
                stood.is_some() || run.is_over()
            });
            // Every other time the run has begun, however long its start takes on this host.
            if !round.is_multiple_of(2) {
                run.socket();
            }
            let guardian =
                stood.unwrap_or_else(|| panic!("no guardian; {}{}", run.said(), run.printed()));
            // An ordinary thread waits for its turn beside a busy run, and would see it late.
            let above = Above::all().expect("the right to SCHED_FIFO, as a run has");
            kill(guardian.pid);
            let since = Instant::now();
            let mut new = false;
            until(PATIENCE, || {
                std::thread::sleep(LOOKS_APART);
                new = run.host.guardian_beside().is_some_and(|new| new.pid != guardian.pid);
                new || run.is_over()
            });
            let took_ms = since.elapsed().as_secs_f64() * 1e3;
            drop(above);
            if new {
                replaced.push(took_ms);
                run.finish();
            } else {
                // One that was killed before it stood: the run never began, and says why.
                assert!(run.said().contains("guardian"), "round {round}: {}", run.said());
                refused += 1;
            }
            cleared(&run, None, Instant::now(), "after the orderly end");
        }
        let (count, middle) = (replaced.len(), median(&mut replaced));
        let longest = replaced.last().unwrap();
        eprintln!(
            "guardian killed {count} times: another after {middle:.1} ms (median), {longest:.1} ms \
         (longest); {refused} times before it stood, and the run did not begin"
        );
        assert!(middle < most, "{middle} ms of {most}");
    });
}

#[test]
fn after_runtime_and_guardian_are_killed_clean_leaves_nothing() {
    repeated(|| {
        let rounds = sized(20, 6);
        let Some(stage) = enter(rounds) else { return };
        let (mut dice, mut tally) = (Dice::new(&stage, 3), Tally::default());
        for round in 0..rounds {
            let when = dice.instant(round);
            let mut run = run_until(&stage, &mut dice, round, "60s", when);
            // The guardian first, every second time; a new one that the runtime starts goes too.
            let guardian = run.host.guardian().map(|guardian| guardian.pid);
            let first = round.is_multiple_of(2);
            guardian.filter(|_| first).into_iter().for_each(kill);
            run.kill();
            guardian.filter(|_| !first).into_iter().for_each(kill);
            while let Some(guardian) = run.host.guardian() {
                kill(guardian.pid);
            }
            tally.note(&run.host.leftovers());
            let since = Instant::now();
            clean(&stage);
            let why = format!("round {round}, killed after {when:?}, guardian first: {first}");
            tally.repairs.push(cleared(&run, None, since, &why));
            run.reap();
        }
        tally.print("runtime and guardian");
        assert!(tally.raised + tally.frozen > 0, "no kill fell where it matters");
    });
}

#[test]
fn clean_does_not_touch_a_run_of_another_pid_namespace() {
    let Some(stage) = Stage::enter(1, 4) else { return };
    let scenario = "version = 1\n[platform]\ncores = 1\n[[program]]\nname = \"spin\"\n\
        command = [\"maracas\", \"work\", \"spin\"]\noutput = \"null\"\nbudget = \"4ms\"\n\
        period = \"20ms\"\nworkload = { kind = \"busy\" }\n";
    stage.admitted("apart.toml", scenario);
    let run = Command::new("unshare")
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
        .args([env!("CARGO_BIN_EXE_maracas"), "run", "apart.toml"])
        .args(["--duration", "3s", "--json"])
        .current_dir(stage.scratch.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = || text(&stage.maracas(&["clean"]).stdout);
    let apart = "of another pid namespace, not touched";
    let seen = until(Duration::from_secs(2), || said().contains(apart));
    let output = run.wait_with_output().unwrap();
    let why = text(&output.stderr);
    assert!(seen.is_some(), "{why}");
    // Its program ran to the end, whatever the host took of its budget.
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&why);
    let code = if report["promise"]["kept"] == true { 0 } else { live::BROKEN };
    assert_eq!(output.status.code(), Some(code), "{why}");
    let delivered = &report["tasks"][0]["delivered"];
    assert!(delivered["periods"].as_u64() > Some(20), "{report}");
    assert_eq!(said(), "nothing to clean\n");
}

/// How long this program takes to start and end while nothing runs, the median in milliseconds.
fn start_ms(stage: &Stage) -> f64 {
    let start = |_| {
        let begun = Instant::now();
        assert_eq!(stage.maracas(&["--version"]).status.code(), Some(0));
        begun.elapsed().as_secs_f64() * 1e3
    };
    let started = median(&mut (0..5).map(start).collect::<Vec<_>>());
    eprintln!("a start of this program takes {started:.1} ms");
    started
}

fn clean(stage: &Stage) {
    let output = stage.maracas(&["clean"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

fn kill(pid: u32) {
    // SAFETY: plain arguments. That it has ended already is no error.
    unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
}
