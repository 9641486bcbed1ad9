//! Real programs with enforced budgets. Assertions are on means and medians only: single late
//! periods are the host's (steal, unpreempted system calls), and are printed.

mod support;

use support::{Static, background, per_period, run, setup, shell, summary, system};

const SPIN: &str = "while :; do :; done";

/// Runs or says why not.
macro_rules! run_or_skip {
    ($setup:expr, $policy:expr) => {
        match run($setup, Box::new($policy)) {
            Ok(run) => run,
            Err(error) => {
                eprintln!("skipped: {error}");
                return;
            }
        }
    };
}

#[test]
fn two_spinning_programs_get_their_budgets_and_share_the_rest() {
    let system = system(1, &[(2_000, 10_000, 0), (3_000, 10_000, 0)]);
    let programs = vec![shell(0, SPIN), shell(1, SPIN)];
    let (records, outcome) = run_or_skip!(setup(&system, programs, 5), Static::new(&system));
    assert_eq!(outcome.trouble, [""; 0]);
    for (vcpu, budget_us) in [(0, 2_000.0), (1, 3_000.0)] {
        let (mean, p50, p99) = summary(&per_period(&records, &system, vcpu), budget_us);
        let share = background(&records, vcpu);
        eprintln!("vcpu{vcpu}: mean {mean:.1} us, |off| p50 {p50:.1} p99 {p99:.1}, bg {share:.3} s");
        assert!((mean / budget_us - 1.0).abs() < 0.005, "mean {mean} us of {budget_us} us");
        assert!(p50 < 30.0, "median error {p50} us");
    }
    let (first, second) = (background(&records, 0), background(&records, 1));
    assert!((first / second - 1.0).abs() < 0.1, "background {first} s and {second} s");
}
