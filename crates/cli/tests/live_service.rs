//! A run without programs of its own: threads of foreign processes ask for VCPUs while it stays.
//!
//! Needs a host where budgets are enforced in full (`maracas doctor`).

mod common;
mod live;

use common::{repository, text};
use live::measure::{Steal, widened};
use live::witness::repeated;
use live::{Run, Stage, until};
use maracas_client as client;
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// Under this variable this test program plays a client; its value says which.
const PART: &str = "MARACAS_SERVICE_CLIENT";

/// The run of the example, until it is asked to end.
fn serve(stage: &Stage) -> Run {
    let file = repository().join("examples/service.toml");
    let run = stage.start(&[file.to_str().unwrap(), "--json"], &[]);
    run.socket();
    run
}

fn client_of(run: &Run, part: &str, test: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("MARACAS_SOCKET", run.socket())
        .env(PART, part)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn ended_well(child: Child) {
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stdout));
    eprint!("{said}");
}

fn end(run: &Run) {
    // SAFETY: plain arguments; the child was not waited for.
    assert_eq!(unsafe { libc::kill(run.pid() as i32, libc::SIGTERM) }, 0);
}

/// The VCPUs that the run knows.
fn listed(run: &Run) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_maracas"))
        .args(["vcpu", "list", "--json"])
        .env("MARACAS_SOCKET", run.socket())
        .output()
        .unwrap();
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    list["vcpus"].as_array().unwrap().clone()
}

#[test]
fn a_foreign_thread_gets_a_vcpu_of_an_empty_run() {
    repeated(|| {
        const TEST: &str = "a_foreign_thread_gets_a_vcpu_of_an_empty_run";
        if env::var_os(PART).is_some() {
            // Not the first thread: the others stay what they are.
            return thread::spawn(bind_burn_and_leave).join().unwrap();
        }
        let Some(stage) = Stage::enter(2, 5) else { return };
        let mut run = serve(&stage);
        assert_eq!(listed(&run), [] as [Value; 0]);
        let client = client_of(&run, "burn", TEST);
        assert!(until(Duration::from_secs(5), || !listed(&run).is_empty()).is_some());
        thread::sleep(Duration::from_millis(200));
        let used = || {
            let list = listed(&run);
            (Instant::now(), list[0]["foreground_ns"].as_f64().unwrap())
        };
        let ((begin, first), stolen) = (used(), Steal::now());
        thread::sleep(Duration::from_millis(1_500));
        let (after, last) = used();
        let share = (last - first) / (after - begin).as_nanos() as f64;
        eprintln!("by the list it had {:.3} of a core in the foreground, 0.2 promised", share);
        let within = widened(0.05, &stolen.parts(), &[0, 1]);
        assert!((share / 0.2 - 1.0).abs() < within, "{share}");
        ended_well(client);
        assert_eq!(listed(&run), [] as [Value; 0], "it left");
        end(&run);
        let report = run.report();
        assert_eq!(report.tasks().len(), 1, "{}", report.0);
        report.tasks()[0].got_its_budget();
        assert!(run.host.leftovers().none(), "{:?}", run.host.leftovers());
    });
}

/// The client: binds itself, burns, looks in which mode it is, and goes back.
fn bind_burn_and_leave() {
    let ms = client::Duration::from_millis;
    let before = place();
    client::vcpu_create(ms(2), ms(10), 0).unwrap();
    assert_ne!(place(), before, "it is in a group of its own");
    let (begin, mut foreground, mut background) = (Instant::now(), 0_u64, 0_u64);
    while begin.elapsed() < Duration::from_secs(3) {
        match client::mode() {
            client::Mode::Foreground => foreground += 1,
            client::Mode::Background => background += 1,
        }
    }
    client::vcpu_destroy().unwrap();
    eprintln!("{foreground} looks in the foreground, {background} in the background");
    assert!(foreground > 100 && background > 100);
    assert_eq!(place(), before, "it is where it came from, as it was");
}

#[test]
fn a_bound_thread_outlives_the_run() {
    repeated(|| {
        const TEST: &str = "a_bound_thread_outlives_the_run";
        if env::var_os(PART).is_some() {
            let (ms, before) = (client::Duration::from_millis, place());
            client::vcpu_create(ms(2), ms(10), 0).unwrap();
            let begin = Instant::now();
            // The run ends after half a second, and with it what it did to this thread.
            while place() != before {
                assert!(begin.elapsed() < Duration::from_secs(3), "still at {:?}", place());
            }
            eprintln!("back after {:.3} s", begin.elapsed().as_secs_f64());
            client::vcpu_destroy().unwrap_err();
            return;
        }
        let Some(stage) = Stage::enter(2, 2) else { return };
        let mut run = serve(&stage);
        let client = client_of(&run, "stay", TEST);
        assert!(until(Duration::from_secs(5), || !listed(&run).is_empty()).is_some());
        thread::sleep(Duration::from_millis(500));
        end(&run);
        run.report();
        ended_well(client);
        assert!(run.host.leftovers().none(), "{:?}", run.host.leftovers());
    });
}

/// The calling thread's groups, class and cores.
fn place() -> (String, i32, String) {
    let groups = fs::read_to_string("/proc/thread-self/cgroup").unwrap();
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let cores = status.lines().find(|line| line.starts_with("Cpus_allowed:")).unwrap();
    // SAFETY: plain argument; 0 means the calling thread.
    let class = unsafe { libc::sched_getscheduler(0) };
    (groups, class, cores.to_string())
}

#[test]
fn a_vcpu_ends_with_the_thread_that_asked_for_it() {
    repeated(|| {
        const TEST: &str = "a_vcpu_ends_with_the_thread_that_asked_for_it";
        if env::var_os(PART).is_some() {
            let ms = client::Duration::from_millis;
            let bound = thread::spawn(move || {
                client::vcpu_create(ms(2), ms(10), 0).unwrap();
                thread::sleep(Duration::from_millis(300));
            });
            bound.join().unwrap();
            // The process lives on without it.
            thread::sleep(Duration::from_millis(1_500));
            return;
        }
        let Some(stage) = Stage::enter(2, 4) else { return };
        let mut run = serve(&stage);
        let mut client = client_of(&run, "end", TEST);
        let came = until(Duration::from_secs(5), || !listed(&run).is_empty());
        let gone = until(Duration::from_secs(1), || listed(&run).is_empty());
        // Only what happens while the process lives counts.
        assert!(client.try_wait().unwrap().is_none(), "its VCPU outlived the thread");
        assert!(came.is_some() && gone.is_some(), "{:?}", listed(&run));
        ended_well(client);
        end(&run);
        run.report();
        assert!(run.host.leftovers().none(), "{:?}", run.host.leftovers());
    });
}
