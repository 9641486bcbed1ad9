//! Agents that do not come to run: the runtime is stopped with budgets nearly spent, or another
//! thread takes a core from its agent. No interrupts storm, neighbours lose nothing, the guardian
//! relieves the core and, where nothing goes on, ends the run with the reason.
//!
//! Needs a host where budgets are enforced in full (`maracas doctor`).

mod common;
mod live;

use live::bounds::skip;
use live::measure::{Above, Thief, timer_interrupts};
use live::witness::repeated;
use live::{Run, Stage, until};
use maracas_live::host::platform::Platform;
use std::thread;
use std::time::{Duration, Instant};

/// How often a core's timer may fire while nothing of the runtime runs: twice what the fastest
/// tick of a kernel takes (1000 Hz). Alarms that repeat at the rest of a budget fire up to 100,000
/// times a second.
const STORM: f64 = 2000.0;
/// How long the runtime is stopped in each round: not long enough to be relieved.
const STOPPED: Duration = Duration::from_millis(200);
/// Rounds: in each, one of a core's budgets is running with a third of a chance.
const ROUNDS: u32 = 8;
/// So long after a stop no program may be raised any more: 250 ms, and two looks for slow hosts.
const RELIEVED: Duration = Duration::from_millis(1000);
/// So long after a stop the run has ended.
const ENDED: Duration = Duration::from_secs(8);

/// A spinning program on a core.
fn program(name: &str, core: usize, budget: &str, period: &str) -> String {
    format!(
        "[[program]]\nname = \"{name}\"\ncommand = [\"maracas\", \"work\", \"spin\"]\n\
         output = \"null\"\nbudget = \"{budget}\"\nperiod = \"{period}\"\ncore = {core}\n"
    )
}

fn scenario(programs: &[String]) -> String {
    let head = "version = 1\n[platform]\ncores = 2\n[policy]\nname = \"maracas\"\n";
    format!("{head}background = \"off\"\n{}", programs.concat())
}

fn signal(run: &Run, signal: i32) {
    // SAFETY: plain arguments; the child was not waited for.
    assert_eq!(unsafe { libc::kill(run.pid().cast_signed(), signal) }, 0);
}

/// Programs of the run at real-time priority: neither the runtime nor its guardian.
fn raised(run: &Run) -> Vec<(u32, Vec<(u32, u32)>)> {
    let mut all = run.host.processes();
    all.retain(|process| process.pid != run.pid() && !process.is_guardian());
    let policies = all.iter().map(|process| (process.pid, process.policies()));
    policies.filter(|(_, of)| of.iter().any(|(policy, _)| *policy != 0)).collect()
}

#[test]
fn a_stopped_runtime_makes_no_storm_and_is_ended_by_its_guardian() {
    repeated(|| {
        let Some(stage) = Stage::enter(2, 15) else { return };
        if timer_interrupts().is_none() {
            return skip("the line LOC in /proc/interrupts");
        }
        // Four budgets of 400 us one after the other, so that what is left of one is little
        // whenever the runtime is stopped while it runs.
        let small = |number: usize| program(&format!("p{number}"), number % 2, "400us", "5ms");
        let programs: Vec<_> = (0..8).map(small).collect();
        stage.admitted("stopped.toml", &scenario(&programs));
        let mut run = stage.start(&["stopped.toml", "--json", "--duration", "30s"], &[]);
        run.socket();
        run.at(Duration::from_millis(1500));
        // Programs of a stopped runtime are never lowered: this thread must come before them.
        let _above = Above::all().expect("the right to SCHED_FIFO, as a run has");
        let mut worst = 0.0_f64;
        for round in 0..ROUNDS {
            signal(&run, libc::SIGSTOP);
            let (begin, before) = (Instant::now(), timer_interrupts().unwrap());
            thread::sleep(STOPPED);
            let after = timer_interrupts().unwrap();
            let seconds = begin.elapsed().as_secs_f64();
            signal(&run, libc::SIGCONT);
            let rates = after.iter().zip(&before).map(|(after, before)| (after - before) as f64);
            worst = rates.map(|count| count / seconds).fold(worst, f64::max);
            // Not in step with the periods.
            thread::sleep(Duration::from_micros(150_000 + u64::from(round) * 700));
        }
        eprintln!("timer interrupts of a core while the runtime was stopped: {worst:.0} a second");
        assert!(worst < STORM, "{worst} timer interrupts a second");
        assert!(!run.is_over(), "it ended though it was stopped for a moment only: {}", run.said());

        signal(&run, libc::SIGSTOP);
        let stopped = Instant::now();
        thread::sleep(RELIEVED);
        assert_eq!(raised(&run), [], "raised {:?} after the stop", stopped.elapsed());
        let ended = until(ENDED.saturating_sub(stopped.elapsed()), || run.is_over());
        assert!(ended.is_some(), "the run stands still: {}", run.said());
        eprintln!("ended {:?} after the stop: {}", stopped.elapsed(), run.said().trim_end());
        let gone = until(Duration::from_secs(2), || run.host.leftovers().none());
        assert!(gone.is_some(), "{:#?}", run.host.leftovers());
        assert!(run.said().contains("guardian"), "no reason: {}", run.said());
    });
}

#[test]
fn a_stuck_agent_costs_other_cores_nothing() {
    repeated(|| {
        let Some(stage) = Stage::enter(2, 5) else { return };
        let programs = [
            program("here", 0, "3ms", "10ms"),
            program("beside", 0, "2ms", "20ms"),
            program("there", 1, "2ms", "10ms"),
            program("far", 1, "4ms", "20ms"),
        ];
        stage.scratch.write("stuck.toml", scenario(&programs));
        let mut run = stage.start(&["stuck.toml", "--json", "--duration", "5s"], &[]);
        run.at(Duration::from_millis(2000));
        // Once, longer than a neighbour and the guardian wait.
        let core = Platform::detect().unwrap().cores[0];
        let thief = Thief::spin(core, Duration::from_millis(400), Duration::from_secs(60));
        run.at(Duration::from_millis(3500));
        drop(thief);
        let report = run.report();
        for name in ["there", "far"] {
            report.task(name).got_its_budget();
        }
        // The core is its agent's again after the theft of 8 % of the run. What the hypervisor took
        // may be missing from a budget, and never adds to one.
        for (name, part) in [("here", 0.3), ("beside", 0.1)] {
            let (had, promised) = (report.task(name).ns("foreground_ns"), part * 5e9);
            eprintln!("{name} had {:.3} of what was promised", had / promised);
            assert!(had > 0.8 * report.left(0) * promised, "{name} had {had} ns of {promised}");
            assert!(had < 1.02 * promised, "{name} had {had} ns of {promised}");
        }
        let lasted = report.0["duration_ns"].as_f64().unwrap() / 1e9;
        assert!((4.9..6.0).contains(&lasted), "5 s took {lasted} s");
        assert!(run.host.leftovers().none(), "{:?}", run.host.leftovers());
    });
}
