//! The process that restores the host when the runtime dies.
//!
//! Agents die with their process, but what they did to others does not: threads stay at real-time
//! priority, groups stay frozen, programs run on. The guardian is a process of its own (this
//! program, run again under a hidden word: a fork would carry the locks and the memory of a process
//! with threads), in the root of the control groups, in a session of its own, locked in memory, at
//! `SCHED_FIFO` 99. It sleeps until the runtime's pidfd says that it ended or, where it is being
//! killed, until all its threads are on their way out ([`Identity::is_alive`]): the kernel closes
//! its files after that, on PREEMPT_RT in 16 ms for each counter. Then,
//! - after the goodbye byte it looks once whether something was overlooked, and leaves;
//! - without it, it demotes, thaws, kills, releases and removes ([`restore`]), and leaves. Cores
//!   get back what resource control held of their cache and bandwidth.
//!
//! Eight times a second it looks at the runtime and at what each agent is at ([`heartbeats`],
//! [`stuck`]). Time is counted in looks, so that a pause of the whole machine makes no agent look
//! stuck:
//! - where the runtime is being killed, every thread of the run is demoted, every group thawed and
//!   every core given its bandwidth back, until it has ended;
//! - where two looks see an agent in one and the same lateness, the VCPUs of *its core* are demoted
//!   and frozen, again at each look until it moves. The agent learns of that when it wakes
//!   ([`Heartbeats::reliefs`]) and sets all of it anew; other cores are not touched;
//! - after three seconds, or where a managed core is off line, the run is asked to end in order;
//!   one that is stopped by a signal is continued for that;
//! - after five seconds, or where it has not ended five seconds after it was asked, it is killed,
//!   and the host restored as after any death. Each of these is said on standard error.
//!
//! Where the kernel carries the law out, one thread decides for all cores and is watched as the
//! first agent is; no core is relieved then, since budgets are held without it.
//!
//! Where the guardian dies, the runtime sees it ([`Guardian::watch`]) and starts another
//! ([`Guardian::revive`]), a few times; then it must end in order. Where both die, the next start
//! or `maracas clean` does the same repair ([`crate::clean`]). [`maracas_live_core::protocol`] is
//! the protocol, searched.

pub mod heartbeats;
pub mod restore;
pub mod stuck;
mod watch;

pub use heartbeats::{Cause, Ending, Heartbeats};
pub use watch::main;

use crate::host::{HardwareCore, Identity, sched, sys};
use maracas_live_core::priority;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The hidden word under which the program is a guardian: `maracas __guardian ...`. The rest of
/// its arguments go to [`main()`].
pub const WORD: &str = "__guardian";

/// Within which time an agent that only beats must beat again.
pub const BEAT: Duration = Duration::from_millis(100);

/// How often a dead guardian is replaced. What kills it four times will kill it again.
const LIVES: u32 = 4;

/// How long a new guardian may take to stand.
const STARTUP: Duration = Duration::from_secs(10);

const READY: u8 = b'r';
const GOODBYE: u8 = b'g';
/// The guardian's word that the run must end ([`Heartbeats::ending`] says why).
const CALL: u8 = b'c';

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
    heartbeats: Heartbeats,
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
        // Not by its path: at a later start another version may lie there.
        Self::start_as(charge, "/proc/self/exe".into(), vec![WORD.into()])
    }

    /// Like [`Guardian::start`] with another program, which must call [`main()`] with what follows
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
        let heartbeats = Heartbeats::new()?;
        let (child, line, pidfd) = spawn(&charge, &program, &arguments, &heartbeats)?;
        Ok(Self { charge, program, arguments, heartbeats, lives: LIVES, child, line, pidfd })
    }

    /// The agents' heartbeats. Each agent calls [`Heartbeats::sleeps`] before it sleeps and
    /// [`Heartbeats::wakes`] when it woke, with its own number (below 128). [`Heartbeats::rest`] is
    /// for the thread that has released the VCPUs of its core.
    pub fn heartbeats(&self) -> Heartbeats {
        self.heartbeats.clone()
    }

    /// The agents are on these cores, in the order of their numbers. Where this is not given, a
    /// relief takes down the VCPUs of all cores, and a core that goes off line is not noticed.
    pub fn agents_on(&self, cores: &[HardwareCore]) {
        self.heartbeats.watch(cores);
    }

    /// Becomes readable when the guardian wants the run to end ([`Guardian::ending`]), or has died.
    pub fn call(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }

    /// Why the guardian, or an agent, wants the run to end, if it does. A run that does not end
    /// within five seconds is killed.
    pub fn ending(&self) -> Option<Ending> {
        self.heartbeats.ending()
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
        let fresh = spawn(&self.charge, &self.program, &self.arguments, &self.heartbeats)?;
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
    heartbeats: &Heartbeats,
) -> io::Result<(Child, UnixStream, OwnedFd)> {
    let (mut line, theirs) = UnixStream::pair()?;
    let memory = heartbeats.fd();
    let mut command = Command::new(program);
    let own_name = std::env::args_os().next();
    command.arg0(own_name.as_deref().unwrap_or(program.as_os_str()));
    command.args(arguments).arg(charge.run.to_string()).arg(memory.to_string());
    command.args(&charge.files).stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
    // Out of reach of the terminal's signals and of kill(-group); the heartbeats come along.
    // Beside a busy run an ordinary process waits for its turn to start the program.
    sys::start_apart(&mut command, priority::GUARDIAN, memory);
    // Nor may it wait for its turn before it can raise itself: that is most of what another
    // guardian takes beside a busy run.
    let mut child = sched::with_children_alike(|| command.spawn())?;
    let pid = child.id() as i32;
    let pidfd = sys::pidfd_open(pid).map_err(|error| {
        end(&mut child);
        unwatched("it", &error)
    })?;
    // Raised from here: a thread that raises itself may be starved before it gets to it, and one
    // that starts as an ordinary thread beside a busy run took 300 ms to stand. Refused where we
    // are in a v1 cpu group, which it leaves first. Without the right to do so nothing else of the
    // run is at real-time priority either.
    let _ = sched::set_fifo(pid, priority::GUARDIAN, false);
    // The command keeps the guardian's end open, which would hide its end of file.
    drop(command);
    line.set_read_timeout(Some(STARTUP))?;
    let mut byte = [0];
    let observed = line.read_exact(&mut byte);
    if observed.is_err() || byte != [READY] {
        end(&mut child);
        return Err(io::Error::other("the guardian did not come to stand"));
    }
    let _ = sched::set_fifo(pid, priority::GUARDIAN, false);
    Ok((child, line, pidfd))
}

fn unwatched(what: &str, error: &io::Error) -> io::Error {
    io::Error::other(format!("cannot watch {what} (pidfd_open): {error}; see `maracas doctor`"))
}

/// Ends a guardian that does not stand.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}
