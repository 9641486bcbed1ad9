//! What the scheduler in the kernel cannot carry out is refused by name, with nothing begun.

mod common;

use common::{Scratch, expect_refusal, maracas, text};

/// A scenario of one core under maracas, with these parameters.
fn scenario(parameters: &str) -> String {
    format!(
        "version = 1\n[platform]\npreset = \"i5-2500k\"\ncores = 1\n\
         [policy]\nname = \"maracas\"\n{parameters}\n[run]\nduration = \"1s\"\n\
         [[program]]\nname = \"a\"\nbudget = \"1ms\"\nperiod = \"10ms\"\ncommand = [\"true\"]\n"
    )
}

#[test]
fn the_scheduler_in_the_kernel_refuses_what_it_does_not_do_on_any_host() {
    let scratch = Scratch::new();
    // Without a sensor no host knows latency.
    let blind = "throttle = \"latency\"\nmax_latency = 145\n[live]\nsense = \"off\"";
    scratch.write("blind.toml", scenario(blind));
    let words = ["run", "blind.toml", "--backend", "sched-ext"];
    let why = "--backend sched-ext cannot carry this out: ";
    expect_refusal("latency", &scratch, &words, why);
    expect_refusal("latency", &scratch, &words, "by latency, which no sensor knows here");
}

#[test]
fn check_leaves_the_room_that_the_backend_takes() {
    let scratch = Scratch::new();
    scratch.write("s.toml", scenario(""));
    let words = ["check", "s.toml", "--backend", "sched-ext"];
    expect_refusal("machine", &scratch, &words, "add --machine live");
    let output = maracas(scratch.path(), &[&words[..], &["--machine", "live"]].concat());
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(stdout.ends_with("admitted\n"), "{stdout}{stderr}");
    let is_known = stderr.contains("the thread that decides will take ");
    assert!(is_known != stderr.contains("was not measured"), "{stderr}");
    assert!(!stderr.contains("agents will take"), "{stderr}");
}

/// As the tests are built, by default.
#[cfg(not(feature = "sched-ext"))]
#[test]
fn a_build_without_it_says_how_to_build_it() {
    let scratch = Scratch::new();
    scratch.write("s.toml", scenario(""));
    let words = ["run", "s.toml", "--backend", "sched-ext"];
    expect_refusal("build", &scratch, &words, "a maracas that is built with --features sched-ext");
}
