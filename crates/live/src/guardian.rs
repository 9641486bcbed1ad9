//! The process that restores the host when the runtime dies.
//!
//! Agents die with their process, but what they did to others does not: threads stay at real-time
//! priority, groups stay frozen, programs run on. The guardian is a process of its own (this
//! program, run again under a hidden word: a fork would carry the locks and the memory of a process
//! with threads), in the root of the control groups, in a session of its own, locked in memory, at
//! `SCHED_FIFO` 99. It sleeps until the runtime's pidfd says that it ended:
//! - after the goodbye byte it looks once whether something was overlooked, and leaves;
//! - without it, it demotes, thaws, kills, releases and removes ([`restore`]), and leaves. Cores
//!   get back what resource control held of their cache and bandwidth.
//!
//! Eight times a second it looks at the runtime and the agents' heartbeats. Where the runtime is
//! being killed, or a heart has not moved for a second while it lives (stopped by a signal, or an
//! agent that spins), every thread of the run is demoted, every group thawed and every core given
//! its bandwidth back, again and again until it has ended or the hearts beat. Nothing is killed: a
//! stopped runtime may go on, and what it promotes next is in the foreground again.
//!
//! Where the guardian dies, the runtime sees it ([`Guardian::watch`]) and starts another
//! ([`Guardian::revive`]), a few times; then it must end in order. Where both die, the next start
//! or `maracas clean` does the same repair ([`crate::clean`]). [`model`] is the protocol, searched.

pub mod model;
pub mod restore;

use crate::host::cgroup::Hierarchies;
use crate::host::{Identity, sched, sys};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The hidden word under which the program is a guardian: `maracas __guardian ...`. The rest of
/// its arguments go to [`main`].
pub const WORD: &str = "__guardian";

/// How often every agent must at least beat while it lives.
pub const BEAT: Duration = Duration::from_millis(100);

/// How often the guardian looks: four short wakes a second took 0.02 % of a core in a test, so
/// eight take 0.04 %. It bounds how long raised threads outlive a killed runtime.
const LOOK: Duration = Duration::from_millis(125);

/// How long a heart may stand still. The kernel's fair server alone takes real-time threads off a
/// core for 54 ms (live notes, 6); a second is twenty times that and ten missed beats.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often a dead guardian is replaced. What kills it four times will kill it again.
const LIVES: u32 = 4;

/// Above the agents (98), so that one that spins cannot keep the guardian away.
const PRIORITY: u8 = 99;

/// How long a new guardian may take to stand.
const STARTUP: Duration = Duration::from_secs(10);

const READY: u8 = b'r';
const GOODBYE: u8 = b'g';

/// The most agents that can be watched, one a core.
const HEARTS: usize = maracas_core::MAX_CORES;
/// A heart that is not watched: its agent has not begun yet.
const NOT_YET: u64 = 0;
/// A heart that is not watched: its agent has ended in order.
const AT_REST: u64 = u64::MAX;

/// What the guardian needs to know of a run.
#[derive(Clone, Debug)]
pub struct Charge {
    /// The runtime.
    pub run: Identity,
    /// What to remove at the end beside the control groups: the socket.
    pub files: Vec<PathBuf>,
}

/// The runtime's side of its guardian.
#[derive(Debug)]
pub struct Guardian {
    charge: Charge,
    program: PathBuf,
    arguments: Vec<OsString>,
    hearts: Hearts,
    lives: u32,
    child: Child,
    line: UnixStream,
    pidfd: OwnedFd,
}

impl Guardian {
    /// Starts this program again as guardian of `charge` and waits until it stands. To be called
    /// before anything else is done for the run: groups that are made later are found all the
    /// same, by the name of their run.
    ///
    /// # Errors
    /// Where the process cannot be started or does not come to stand within ten seconds.
    pub fn start(charge: Charge) -> io::Result<Self> {
        Self::start_as(charge, std::env::current_exe()?, vec![WORD.into()])
    }

    /// Like [`Guardian::start`] with another program, which must call [`main`] with what follows
    /// `arguments`.
    ///
    /// # Errors
    /// As [`Guardian::start`].
    pub fn start_as(
        charge: Charge,
        program: PathBuf,
        arguments: Vec<OsString>,
    ) -> io::Result<Self> {
        sys::keep_children();
        let hearts = Hearts::new()?;
        let (child, line, pidfd) = spawn(&charge, &program, &arguments, &hearts)?;
        Ok(Self { charge, program, arguments, hearts, lives: LIVES, child, line, pidfd })
    }

    /// The agents' hearts. Each agent calls [`Hearts::beat`] with its own number (below 128) at
    /// least every [`BEAT`], which costs a store, and [`Hearts::rest`] when it ends.
    pub fn hearts(&self) -> Hearts {
        self.hearts.clone()
    }

    /// Becomes readable when the guardian has died: then [`Guardian::revive`] is due.
    pub fn watch(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// The guardian's process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Starts another guardian in the place of one that died.
    ///
    /// # Errors
    /// Where it cannot be started, or four have died already: the run must end in order then.
    pub fn revive(&mut self) -> io::Result<()> {
        self.child.wait()?;
        if self.lives == 0 {
            let message = format!("the guardian died {} times; the run must end", LIVES + 1);
            return Err(io::Error::other(message));
        }
        self.lives -= 1;
        let fresh = spawn(&self.charge, &self.program, &self.arguments, &self.hearts)?;
        (self.child, self.line, self.pidfd) = fresh;
        Ok(())
    }

    /// Lets the guardian go: the run has ended in order and left nothing. Dropping it does the
    /// same.
    pub fn goodbye(self) {}
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // A guardian that is gone already needs no goodbye.
        let _ = self.line.write_all(&[GOODBYE]);
        let _ = self.child.wait();
    }
}

fn spawn(
    charge: &Charge,
    program: &PathBuf,
    arguments: &[OsString],
    hearts: &Hearts,
) -> io::Result<(Child, UnixStream, OwnedFd)> {
    let (mut line, theirs) = UnixStream::pair()?;
    let memory = hearts.0.file.as_raw_fd();
    let mut command = Command::new(program);
    command.args(arguments).arg(charge.run.to_string()).arg(memory.to_string());
    command.args(&charge.files).stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
    // SAFETY: only calls that are safe between fork and exec.
    unsafe {
        command.pre_exec(move || {
            // Out of reach of the terminal's signals and of kill(-group); the hearts come along.
            libc::setsid();
            if libc::fcntl(memory, libc::F_SETFD, 0) == -1 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
    let mut child = command.spawn()?;
    let pid = child.id() as i32;
    let pidfd = sys::pidfd_open(pid).map_err(|error| {
        end(&mut child);
        unwatched("it", &error)
    })?;
    // Raised from here: a thread that raises itself may be starved before it gets to it, and one
    // that starts as an ordinary thread beside a busy run took 300 ms to stand. Refused where we
    // are in a v1 cpu group, which it leaves first. Without the right to do so nothing else of the
    // run is at real-time priority either.
    let _ = sched::set_fifo(pid, PRIORITY, false);
    // The command keeps the guardian's end open, which would hide its end of file.
    drop(command);
    line.set_read_timeout(Some(STARTUP))?;
    let mut byte = [0];
    let heard = line.read_exact(&mut byte);
    if heard.is_err() || byte != [READY] {
        end(&mut child);
        return Err(io::Error::other("the guardian did not come to stand"));
    }
    let _ = sched::set_fifo(pid, PRIORITY, false);
    Ok((child, line, pidfd))
}

fn unwatched(whom: &str, error: &io::Error) -> io::Error {
    io::Error::other(format!("cannot watch {whom} (pidfd_open): {error}; see `maracas doctor`"))
}

/// Ends a guardian that does not stand.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// One counter an agent, in memory that runtime and guardian share.
#[derive(Clone, Debug)]
pub struct Hearts(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    file: File,
    counters: *const [AtomicU64; HEARTS],
}

// SAFETY: the mapping lives as long as this value and holds nothing but atomics.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped with this size by `Hearts::map`, and nobody refers to it any more.
        unsafe { libc::munmap(self.counters.cast_mut().cast(), size_of::<[AtomicU64; HEARTS]>()) };
    }
}

impl Hearts {
    fn new() -> io::Result<Self> {
        // SAFETY: a constant name; the new descriptor is owned by nobody else.
        let file = unsafe {
            let fd = libc::memfd_create(c"maracas hearts".as_ptr(), libc::MFD_CLOEXEC);
            if fd == -1 {
                return Err(io::Error::last_os_error());
            }
            File::from_raw_fd(fd)
        };
        file.set_len(size_of::<[AtomicU64; HEARTS]>() as u64)?;
        Self::map(file)
    }

    fn map(file: File) -> io::Result<Self> {
        let size = size_of::<[AtomicU64; HEARTS]>();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new shared mapping of a file that has this size.
        let counters = unsafe {
            let place = std::ptr::null_mut();
            libc::mmap(place, size, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if counters == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(Arc::new(Shared { file, counters: counters.cast() })))
    }

    fn counters(&self) -> &[AtomicU64; HEARTS] {
        // SAFETY: mapped until `Shared` is dropped, page-aligned, of this size.
        unsafe { &*self.0.counters }
    }

    /// The agent lives. A number beyond the most cores is not watched.
    pub fn beat(&self, agent: usize) {
        if let Some(counter) = self.counters().get(agent) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The agent sleeps now, until `due_ns` (monotonic) at the latest; `u64::MAX` = until woken.
    pub fn sleeps(&self, agent: usize, due_ns: u64) {
        let _ = due_ns;
        self.beat(agent);
    }

    /// The agent woke at `now_ns` (monotonic) and works.
    pub fn wakes(&self, agent: usize, now_ns: u64) {
        let _ = now_ns;
        self.beat(agent);
    }

    /// The agent ends in order and is not watched any more.
    pub fn rest(&self, agent: usize) {
        if let Some(counter) = self.counters().get(agent) {
            counter.store(AT_REST, Ordering::Relaxed);
        }
    }
}

/// The guardian itself, given what follows [`WORD`] on its command line. Leaves when the run has
/// ended, with the host restored; says on standard error what it had to do.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match guard(arguments.into_iter().collect()) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(restored)) => {
            let _ = writeln!(io::stderr(), "maracas: guardian: {restored}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "maracas: guardian: {error}");
            ExitCode::FAILURE
        }
    }
}

fn guard(arguments: Vec<OsString>) -> io::Result<Option<restore::Restored>> {
    let usage = || io::Error::other("started by the runtime only");
    let mut words = arguments.into_iter();
    let mut word = || words.next().and_then(|word| word.into_string().ok()).ok_or_else(usage);
    let run = Identity::parse(&word()?).ok_or_else(usage)?;
    let memory: i32 = word()?.parse().map_err(|_| usage())?;
    let files = words.map(PathBuf::from).collect();
    // SAFETY: the runtime left this descriptor open for us, and nobody else here uses it.
    let hearts = Hearts::map(unsafe { File::from_raw_fd(memory) })?;
    let hierarchies = Hierarchies::read()?;
    stand_apart(&hierarchies);
    let charge = Charge { run, files };
    let mut watch = Watch { hierarchies, charge, hearts, pulse: Pulse::new(Instant::now()) };
    // The line to the runtime is our standard input, which is a socket and goes both ways.
    // SAFETY: nobody else in this process uses standard input.
    let line = unsafe { UnixStream::from_raw_fd(0) };
    watch.stay(line)
}

/// Takes this process out of everything that may be taken down together with the runtime. What is
/// refused is left as it is: a guardian in a bad place is better than none.
fn stand_apart(hierarchies: &Hierarchies) {
    for hierarchy in hierarchies.v2.iter().chain(&hierarchies.v1) {
        // In the v1 cpu hierarchy only the root may be at real-time priority; elsewhere a scope
        // that is stopped takes everything in it along.
        let _ = std::fs::write(hierarchy.root.join("cgroup.procs"), "0");
    }
    // SAFETY: plain arguments.
    unsafe {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
        // The repair must not wait for a page that has to be read back from a disk.
        libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE);
    }
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
}

/// The guardian at work.
struct Watch {
    hierarchies: Hierarchies,
    charge: Charge,
    hearts: Hearts,
    pulse: Pulse,
}

impl Watch {
    fn stay(&mut self, mut line: UnixStream) -> io::Result<Option<restore::Restored>> {
        let pidfd = match sys::pidfd_open(self.charge.run.pid) {
            Ok(pidfd) => Some(pidfd),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => None,
            // It may live: whoever cannot watch it must neither stand here nor touch it.
            Err(error) => return Err(unwatched("the runtime", &error)),
        };
        // Gone already, or the number is somebody else's by now.
        let alive = pidfd.is_some() && self.charge.run.is_alive();
        // A runtime that has died meanwhile cannot hear it, and needs us all the more.
        let _ = line.write_all(&[READY]);
        let Some(pidfd) = pidfd.filter(|_| alive) else { return self.restore() };
        let mut goodbye = false;
        let mut heard = Some(line);
        loop {
            let fds = [pidfd.as_raw_fd(), heard.as_ref().map_or(-1, AsRawFd::as_raw_fd)];
            let [ended, spoken] = poll(fds, LOOK)?;
            if spoken {
                let mut byte = [0];
                let read = heard.as_mut().map_or(Ok(0), |line| line.read(&mut byte));
                goodbye |= matches!(read, Ok(1)) && byte == [GOODBYE];
                // The end of the line alone means nothing: only the pidfd knows of life and death.
                if !matches!(read, Ok(1)) {
                    heard = None;
                }
            }
            if goodbye {
                // It says that nothing is left; what it overlooked is put right all the same.
                return Ok(self.restore()?.filter(restore::Restored::touched_anyone));
            }
            if ended {
                return self.restore();
            }
            // A runtime that is being killed does not end before its ordinary threads get a core
            // to end on, and what it left raised may hold all of them for a second.
            let stopped = self.pulse.stopped(self.hearts.counters(), Instant::now());
            if stopped || self.charge.run.is_doomed() {
                restore::relieve(&self.hierarchies, self.charge.run);
            }
        }
    }

    fn restore(&self) -> io::Result<Option<restore::Restored>> {
        let restored = restore::restore(&self.hierarchies, &self.charge)?;
        Ok(Some(restored).filter(restore::Restored::touched_anything))
    }
}

/// What each heart had counted when it was last seen to have moved, and when that was.
struct Pulse([(u64, Instant); HEARTS]);

impl Pulse {
    const fn new(now: Instant) -> Self {
        Self([(NOT_YET, now); HEARTS])
    }

    /// Whether some agent's heart has stood still for too long.
    fn stopped(&mut self, counters: &[AtomicU64; HEARTS], now: Instant) -> bool {
        let mut stopped = false;
        for (counter, (seen, since)) in counters.iter().zip(&mut self.0) {
            let count = counter.load(Ordering::Relaxed);
            if count != *seen || count == NOT_YET || count == AT_REST {
                (*seen, *since) = (count, now);
            }
            stopped |= now.duration_since(*since) > PATIENCE;
        }
        stopped
    }
}

/// Waits until one of two descriptors is readable or at its end, or `timeout` has passed. A
/// descriptor of -1 never is.
fn poll(fds: [i32; 2], timeout: Duration) -> io::Result<[bool; 2]> {
    let mut set = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    // SAFETY: the array is ours and has two entries.
    let ready = unsafe { libc::poll(set.as_mut_ptr(), 2, timeout.as_millis() as i32) };
    if ready == -1 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted {
            Ok([false; 2])
        } else {
            Err(error)
        };
    }
    Ok(set.map(|entry| entry.revents != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_heart_is_looked_at_for_itself() {
        let hearts = Hearts::new().unwrap();
        let begin = Instant::now();
        let mut pulse = Pulse::new(begin);
        let mut stopped = |look: u32| pulse.stopped(hearts.counters(), begin + LOOK * look);
        hearts.beat(0);
        hearts.beat(1);
        // At no look have both moved, and yet both beat.
        for look in 1..40 {
            hearts.beat(look as usize % 2);
            assert!(!stopped(look), "{look}");
        }
        for look in 40..60 {
            hearts.beat(1);
            // The first was seen to move at look 38; a second are eight looks.
            assert_eq!(stopped(look), look > 46, "{look}");
        }
        hearts.rest(0);
        assert!(!stopped(60), "an agent that has ended is not waited for");
    }
}
