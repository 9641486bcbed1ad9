//! What the live tests of all crates share: skips that are said and counted, one live test at a
//! time on the host, and an end for tests that hang. Included by path, as it belongs to no room.
#![allow(dead_code, reason = "every test binary uses its part")]

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{env, process, thread};

/// Set to `required`, this variable turns skips into failures: for hosts that have everything.
const LIVE: &str = "MARACAS_LIVE";
/// The file, named by this variable, to which every skip adds a line. `cargo xtask ci` names it.
const SKIPS: &str = "MARACAS_SKIPS";

/// Says that the test that calls it is skipped, as this host has not what it needs. Only for what
/// was found missing before anything of the test ran: whatever goes wrong later is a failure.
///
/// `what` follows "needs", has no figures of this host in it and is the same wherever the same is
/// missing: skips are counted by it.
pub(crate) fn skip(what: &str) {
    let line = format!("skipped: needs {what}\n");
    let required = env::var_os(LIVE).is_some_and(|word| word == "required");
    assert!(!required, "{}: {LIVE}=required allows no skip", line.trim_end());
    // Past the test harness, which keeps to itself what passing tests print by macros.
    let _ = io::stderr().write_all(line.as_bytes());
    if let Some(path) = env::var_os(SKIPS) {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("{SKIPS}: {}: {error}", path.display()));
    }
}

/// Whether what the test needs is there; skips it where not.
pub(crate) fn needs(there: bool, what: &str) -> bool {
    if !there {
        skip(what);
    }
    there
}

/// What was found, or `None` after a skip. The error is printed beside, for people.
pub(crate) fn found<T, E: std::fmt::Display>(found: Result<T, E>, what: &str) -> Option<T> {
    let reported = found.inspect_err(|error| eprintln!("{what}: {error}"));
    if reported.is_err() {
        skip(what);
    }
    reported.ok()
}

/// Like [`found`] for what the kernel was asked for: its answer must be that it does not offer or
/// allow this. Whatever else goes wrong is a failure.
pub(crate) fn refused(error: &io::Error, what: &str) {
    use io::ErrorKind::{NotFound, OutOfMemory, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    let kinds = [NotFound, OutOfMemory, PermissionDenied, ReadOnlyFilesystem, Unsupported];
    let codes = [libc::ENODEV, libc::ENXIO, libc::ENOSYS, libc::EOPNOTSUPP];
    let code = error.raw_os_error().is_some_and(|code| codes.contains(&code));
    assert!(code || kinds.contains(&error.kind()), "{what}: {error}");
    eprintln!("{what}: {error}");
    skip(what);
}

/// The right to this host's cores, and an end to the test that has it.
pub(crate) struct Turn {
    // Over before the next one's turn.
    limit: Limit,
    lock: File,
}

impl Turn {
    /// Waits until no other live test runs on this host, of whatever process, user or checkout.
    /// `asked` is what the test's runs are to take in all; its [`Limit`] counts from here.
    pub(crate) fn wait(asked: Duration) -> Self {
        let lock = lock();
        Self { limit: Limit::of(asked), lock }
    }
}

/// One live test at a time: runs at the same time would take each other's budgets.
fn lock() -> File {
    let path = env::temp_dir().join("maracas-live-tests.lock");
    // Another user's file may be opened for reading only, and that is enough.
    let file = File::open(&path).or_else(|_| File::create(&path));
    let file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    file.lock().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    file
}

/// How much longer than asked a test may take: debug builds on slow hosts replay and simulate
/// what they ran, and both are beside the run itself.
const TIMES: u32 = 10;
/// What a test may take beside its runs: starts, ends, repairs by the guardian.
const BESIDE: Duration = Duration::from_secs(20);
/// After its limit a test is made to end: its runs are killed. It has so long for that.
const GRACE: Duration = Duration::from_secs(10);
/// Above the agents' priority, so that a core on which an agent spins does not keep it off.
const PRIORITY: i32 = 99;

/// Ends a test that hangs. After ten times the time asked and 20 s the [`rite`]s are called, and
/// the test fails; a test that goes on for another 10 s ends its process, with those that follow.
pub(crate) struct Limit {
    over: Option<Sender<()>>,
    watch: Option<JoinHandle<bool>>,
}

impl Limit {
    /// For a test whose runs are to take `asked` in all.
    pub(crate) fn of(asked: Duration) -> Self {
        let limit = asked * TIMES + BESIDE;
        let test = thread::current().name().unwrap_or("a test").to_string();
        let (over, ended) = channel();
        let watch = thread::spawn(move || watch(&test, limit, &ended));
        Self { over: Some(over), watch: Some(watch) }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        drop(self.over.take());
        let broken = self.watch.take().is_some_and(|watch| watch.join().unwrap_or(true));
        assert!(!broken || thread::panicking(), "the test's time limit was reached");
    }
}

/// Whether the limit was reached.
fn watch(test: &str, limit: Duration, ended: &Receiver<()>) -> bool {
    let top = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: a structure of our own. Where it is refused, nothing else is raised either.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &top) };
    let is_over = |within| ended.recv_timeout(within) != Err(RecvTimeoutError::Timeout);
    if is_over(limit) {
        return false;
    }
    say(&format!("time limit: {test} is not over after {limit:?}; its runs are killed\n"));
    call_rites(false);
    if is_over(GRACE) {
        return true;
    }
    say(&format!("time limit: {test} is stuck; this test process ends, with all that follow\n"));
    call_rites(true);
    // SAFETY: no handlers, which might wait for whatever is stuck.
    unsafe { libc::_exit(101) }
}

fn say(line: &str) {
    let _ = io::stderr().write_all(line.as_bytes());
}

type Act = Box<dyn FnMut(bool) + Send>;
static RITES: Mutex<(u64, Vec<(u64, Act)>)> = Mutex::new((0, Vec::new()));

/// Something that is done when a test has reached its limit, while this lives.
pub(crate) struct Rite(u64);

/// Has `act` called at the limit, with false, and before the process ends, with true.
pub(crate) fn rite(act: impl FnMut(bool) + Send + 'static) -> Rite {
    let mut rites = RITES.lock().unwrap_or_else(PoisonError::into_inner);
    rites.0 += 1;
    let number = rites.0;
    rites.1.push((number, Box::new(act)));
    Rite(number)
}

impl Drop for Rite {
    fn drop(&mut self) {
        let mut rites = RITES.lock().unwrap_or_else(PoisonError::into_inner);
        rites.1.retain(|(number, _)| *number != self.0);
    }
}

fn call_rites(last: bool) {
    let mut rites = RITES.lock().unwrap_or_else(PoisonError::into_inner);
    rites.1.iter_mut().for_each(|(_, act)| act(last));
}

/// Kills a child at the limit, unless this is dropped before.
pub(crate) fn kill_at_limit(child: &process::Child) -> Rite {
    // A descriptor, as the number may be another's by then.
    // SAFETY: plain arguments; the child was not waited for.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    assert!(fd >= 0, "pidfd_open: {}", io::Error::last_os_error());
    // SAFETY: a new descriptor that nothing else owns.
    let fd: std::os::fd::OwnedFd = unsafe { std::os::fd::FromRawFd::from_raw_fd(fd as i32) };
    rite(move |_| {
        let fd = std::os::fd::AsRawFd::as_raw_fd(&fd);
        // SAFETY: plain arguments. That it has ended already is no error.
        unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, fd, libc::SIGKILL, 0, 0);
        }
    })
}
