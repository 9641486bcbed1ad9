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
    assert_eq!(
        super::identity::start_of(&stat("R", 0, 0)),
        Some(99),
        "field 22 stands where it should"
    );
    assert!(!super::identity::is_killed(&stat("R", 0x40_0140, 1 << 14)), "SIGTERM may be handled");
    assert!(super::identity::is_killed(&stat("R", 0x40_0140, 1 << 8)), "SIGKILL waits");
    assert!(!super::identity::is_exiting(&stat("R", 0x40_0140, 0)));
    assert!(super::identity::is_exiting(&stat("R", 0x40_0144, 0)), "it is on its way out");
    assert!(super::identity::is_exiting(&stat("Z", 0, 0)), "it has ended");
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let identity = super::Identity::of(child.id() as i32).unwrap();
    assert!(!identity.is_doomed());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(identity.is_doomed());
}

#[test]
fn a_process_lives_while_one_of_its_threads_does() {
    let stat = |flags: u64| format!("7 (a) R 1 1 1 0 -1 {flags} 0");
    assert!(
        !super::identity::is_exiting(&stat(0x40_0140))
            && super::identity::is_exiting(&stat(0x40_0144))
    );
    // Its first thread ends, the second goes on until it is killed.
    let process = crate::host::launch::fork(None, || {
        // SAFETY: system calls only; the second thread has a stack of its own, and waits.
        unsafe {
            let flags = libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND;
            let stack = libc::mmap(
                std::ptr::null_mut(),
                1 << 16,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            let top = stack.cast::<u8>().add(1 << 16).cast();
            libc::clone(waits, top, flags, std::ptr::null_mut());
            libc::syscall(libc::SYS_exit, 0);
        }
    });
    let pid = process.unwrap().pid;
    let identity = super::Identity::of(pid).unwrap();
    let first = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    while !super::identity::is_exiting(&first()) {
        std::thread::yield_now();
    }
    assert!(identity.is_alive() && !identity.is_doomed(), "its second thread waits");
    // SAFETY: our own child.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    crate::host::launch::wait(pid, 0).unwrap();
    assert!(!identity.is_alive());
}

extern "C" fn waits(_: *mut libc::c_void) -> i32 {
    loop {
        // SAFETY: no arguments.
        unsafe { libc::pause() };
    }
}
