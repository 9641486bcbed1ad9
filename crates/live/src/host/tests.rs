//! Live tests share one tree a process, so they take turns; each says why it is skipped.

mod groups;

use std::sync::{Mutex, MutexGuard, PoisonError};

static TURN: Mutex<()> = Mutex::new(());

/// The right to touch the host's groups, one test at a time.
pub(super) fn turn() -> MutexGuard<'static, ()> {
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
pub(super) fn is_root() -> bool {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() == 0 }
}
