//! Live tests share one tree a process and all the cores, so they take turns.

#[path = "../../../../tests/shared/bounds.rs"]
mod bounds;
mod groups;

use bounds::{Turn, needs};
pub(crate) use bounds::{refused, skip};
use std::time::Duration;

/// No test here works for longer than this on a quick host; the limit is ten times that and 20 s.
const LONGEST: Duration = Duration::from_secs(4);

/// The right to touch the host's groups and cores, one test at a time.
pub(crate) fn turn() -> Turn {
    Turn::wait(LONGEST)
}

/// Whether a live test can run, which is skipped where not.
pub(crate) fn can(_test: &str, condition: bool, what: &str) -> bool {
    needs(condition, what)
}

/// Whether we are root, without which hardly anything here can be tried.
pub(crate) fn is_root() -> bool {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn a_process_is_doomed_from_its_sigkill_on() {
    let stat = |state: &str, flags: u64, signals: u64| {
        let middle = "0 ".repeat(12);
        format!("7 (a) b) {state} 1 1 1 0 -1 {flags} {middle}99 {}{signals} 0 0", "0 ".repeat(8))
    };
    assert_eq!(super::start_of(&stat("R", 0, 0)), Some(99), "field 22 stands where it should");
    assert!(!super::is_doomed(&stat("R", 0x40_0140, 1 << 14)), "SIGTERM may be handled");
    assert!(super::is_doomed(&stat("R", 0x40_0140, 1 << 8)), "SIGKILL waits");
    assert!(super::is_doomed(&stat("R", 0x40_0144, 0)), "it is on its way out");
    assert!(super::is_doomed(&stat("Z", 0, 0)), "its first thread has ended");
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let identity = super::Identity::of(child.id() as i32).unwrap();
    assert!(!identity.is_doomed());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(identity.is_doomed());
}
