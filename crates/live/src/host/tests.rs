//! Live tests share one tree a process, so they take turns; each says why it is skipped.

mod groups;

use std::sync::{Mutex, MutexGuard, PoisonError};

static TURN: Mutex<()> = Mutex::new(());

/// The right to touch the host's groups, one test at a time.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a live test can run; says on standard error why not.
pub(super) fn can(test: &str, condition: bool, needs: &str) -> bool {
    if !condition {
        eprintln!("{test}: skipped: needs {needs}");
    }
    condition
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
