//! The guardian's own side: what its process does from its start to its end.

use super::heartbeats::{Cause, Ending, Heartbeats};
use super::restore::{self, OnCore};
use super::stuck::{Act, LOOK, Patrol, Sight};
use super::{CALL, Charge, GOODBYE, READY, unwatched};
use crate::clock::monotonic_ns;
use crate::host::cgroup::{Hierarchies, Hierarchy};
use crate::host::hardware::{Counter, EventCode, Hardware, Scope, ThisHardware};
use crate::host::{HardwareCore, Identity, sched, sys};
use maracas_live_core::priority;
use rustix::mm::{MlockAllFlags, mlockall};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// Which cores are on line (Documentation/ABI/testing/sysfs-devices-system-cpu).
const ON_LINE: &str = "/sys/devices/system/cpu/online";

/// How often a runtime that is being killed is looked at: its threads end within milliseconds once
/// they have a core, and a look with what it demotes takes less than one.
const DYING_LOOK: Duration = Duration::from_millis(5);

/// Lines that may wait for the reader of standard error; more are lost.
const UNSAID_MOST: usize = 64;
/// How long the guardian waits at its end for a reader that takes nothing.
const READER: Duration = Duration::from_secs(1);

/// The stack of the thread that freezes, which is locked in memory: it makes system calls on
/// strings of a few hundred bytes.
const STACK: usize = 128 * 1024;

/// The guardian itself, given what follows [`WORD`](super::WORD) on its command line. Leaves when
/// the run has ended, with the host restored; says on standard error what it had to do.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let code = match guard(arguments.into_iter().collect()) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(restored)) => {
            say(&restored.to_string());
            ExitCode::SUCCESS
        }
        Err(error) => {
            say(&error.to_string());
            ExitCode::FAILURE
        }
    };
    finish_saying();
    code
}

/// Lines that were not written yet.
static UNSAID: AtomicUsize = AtomicUsize::new(0);

/// Says something on standard error, by a thread of its own: its reader may be stopped, as with
/// Ctrl-S, and what is to be done for a core waits for no reader. That none is there is no reason
/// to end.
fn say(what: &str) {
    static LINES: OnceLock<SyncSender<String>> = OnceLock::new();
    let lines = LINES.get_or_init(|| {
        let (lines, said) = sync_channel::<String>(UNSAID_MOST);
        let write = move || {
            for line in said {
                let _ = writeln!(io::stderr(), "maracas: guardian: {line}");
                UNSAID.fetch_sub(1, Ordering::Release);
            }
        };
        // Without the thread nothing is said.
        let _ = thread::Builder::new().name("says".into()).stack_size(STACK).spawn(write);
        lines
    });
    UNSAID.fetch_add(1, Ordering::Release);
    if lines.try_send(what.to_string()).is_err() {
        UNSAID.fetch_sub(1, Ordering::Release);
    }
}

/// Waits until all is said, or no reader takes it.
fn finish_saying() {
    let until = std::time::Instant::now() + READER;
    while UNSAID.load(Ordering::Acquire) > 0 && std::time::Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
}

fn guard(arguments: Vec<OsString>) -> io::Result<Option<restore::Restored>> {
    let usage = || io::Error::other("started by the runtime only");
    let mut words = arguments.into_iter();
    let mut word = || words.next().and_then(|word| word.into_string().ok()).ok_or_else(usage);
    let run = Identity::parse(&word()?).ok_or_else(usage)?;
    let memory: i32 = word()?.parse().map_err(|_| usage())?;
    let files = words.map(PathBuf::from).collect();
    // The runtime left this descriptor open for us, and nothing else here uses it.
    let heartbeats = Heartbeats::map(sys::inherited(memory)?)?;
    let hierarchies = Hierarchies::read()?;
    stand_apart(&hierarchies);
    // The kernel names a process after the file that is executed, and ours was `exe`.
    let _ = std::fs::write("/proc/self/comm", "maracas");
    let charge = Charge { run, files };
    let freezer = Freezer::start(heartbeats.clone());
    let mut watch = Watch {
        hierarchies,
        charge,
        heartbeats,
        patrol: Patrol::new(),
        freezer,
        events: Vec::new(),
        is_said: false,
    };
    // The line to the runtime is our standard input, which is a socket and goes both ways.
    let line = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    watch.stay(line)
}

/// Takes this process out of everything that may be taken down together with the runtime. What is
/// refused is left as it is: a guardian in a bad place is better than none.
fn stand_apart(hierarchies: &Hierarchies) {
    // To be moved takes a grace period of the kernel's even where it changes nothing: 100 to 600 ms
    // beside a busy run, in which no signal ends the process.
    let elsewhere = |hierarchy: &&Hierarchy| !hierarchy.is_at_root;
    for hierarchy in hierarchies.v2.iter().chain(&hierarchies.v1).filter(elsewhere) {
        // In the v1 cpu hierarchy only the root may be at real-time priority; elsewhere a scope
        // that is stopped takes everything in it along.
        let _ = fs::write(hierarchy.root.join("cgroup.procs"), "0");
    }
    let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE];
    signals.into_iter().for_each(sys::ignore);
    // The repair must not wait for a page that has to be read back from a disk.
    let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE);
    let _ = fs::write("/proc/self/oom_score_adj", "-1000");
}

/// A thread that freezes the groups of stuck cores: freezing waits for a lock of the whole host,
/// which one that is stuck may hold, and the guardian must be able to end the run all the same.
struct Freezer {
    orders: Option<Sender<(usize, OnCore)>>,
    is_busy: Arc<AtomicBool>,
}

impl Freezer {
    fn start(heartbeats: Heartbeats) -> Self {
        let (orders, posted) = channel::<(usize, OnCore)>();
        let is_busy = Arc::new(AtomicBool::new(false));
        let busy = Arc::clone(&is_busy);
        let freeze = move || {
            // Refused where nothing is at real-time priority.
            let _ = sched::set_fifo(0, priority::GUARDIAN, false);
            while let Ok((agent, on_core)) = posted.recv() {
                on_core.freeze();
                heartbeats.ends_relief(agent);
                busy.store(false, Ordering::Release);
            }
        };
        let builder = thread::Builder::new().name("freezer".into()).stack_size(STACK);
        // Without the thread the cores' programs are demoted only.
        let orders = builder.spawn(freeze).is_ok().then_some(orders);
        Self { orders, is_busy }
    }

    /// Whether an order would be begun at once.
    fn is_free(&self) -> bool {
        !self.is_busy.load(Ordering::Acquire)
    }

    /// Freezes soon, and says then that the relief of this agent's core has ended.
    fn post(&self, agent: usize, on_core: OnCore, heartbeats: &Heartbeats) {
        self.is_busy.store(true, Ordering::Release);
        let orders = self.orders.as_ref();
        if orders.is_none_or(|orders| orders.send((agent, on_core)).is_err()) {
            self.is_busy.store(false, Ordering::Release);
            heartbeats.ends_relief(agent);
        }
    }

    /// Freezes nothing more, and waits for what is being frozen: the repair thaws, and takes the
    /// same lock.
    fn end(&mut self) {
        self.orders = None;
        while !self.is_free() {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// What counts the time of a core (`PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_CPU_CLOCK`;
/// include/uapi/linux/perf_event.h).
const CORE_CLOCK: EventCode = EventCode { unit: 1, config: 0, config1: 0, config2: 0 };

/// An event of a core: the kernel drops it for good when the core goes off line
/// (`perf_event_exit_cpu`), as it drops those by which agents meter.
struct CoreEvent {
    counter: Box<dyn Counter>,
    seen_ns: u64,
}

impl CoreEvent {
    fn open(core: HardwareCore) -> io::Result<Self> {
        let counter = ThisHardware.open(&CORE_CLOCK, Scope::Core(core))?;
        Ok(Self { counter, seen_ns: 0 })
    }
    /// Whether no time of it has passed since it was looked at last.
    fn stands_still(&mut self) -> bool {
        let Ok(count) = self.counter.read() else { return false };
        std::mem::replace(&mut self.seen_ns, count.wanted_ns) == count.wanted_ns
    }
}

/// The guardian at work.
struct Watch {
    hierarchies: Hierarchies,
    charge: Charge,
    heartbeats: Heartbeats,
    patrol: Patrol,
    freezer: Freezer,
    /// The event of each agent's core; `None` = it may not be counted.
    events: Vec<Option<CoreEvent>>,
    /// Why the run ends has been said.
    is_said: bool,
}

impl Watch {
    fn stay(&mut self, mut line: UnixStream) -> io::Result<Option<restore::Restored>> {
        let pidfd = match sys::pidfd_open(self.charge.run.pid) {
            Ok(pidfd) => Some(pidfd),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => None,
            // It may live: a guardian that cannot watch it must neither go on nor touch it.
            Err(error) => return Err(unwatched("the runtime", &error)),
        };
        // Gone already, or the number belongs to another process by now.
        let alive = pidfd.is_some() && self.charge.run.is_alive();
        // A runtime that has died meanwhile cannot receive it, and needs the repair all the more.
        let _ = line.write_all(&[READY]);
        let Some(pidfd) = pidfd.filter(|_| alive) else { return self.restore() };
        let mut goodbye = false;
        let (mut observed, mut is_doomed) = (Some(line), false);
        loop {
            let fds = [pidfd.as_raw_fd(), observed.as_ref().map_or(-1, AsRawFd::as_raw_fd)];
            let [ended, spoken] = poll(fds, if is_doomed { DYING_LOOK } else { LOOK })?;
            if spoken {
                let mut byte = [0];
                let read = observed.as_mut().map_or(Ok(0), |line| line.read(&mut byte));
                goodbye |= matches!(read, Ok(1)) && byte == [GOODBYE];
                // The end of the line alone means nothing: only the pidfd knows of life and death.
                if !matches!(read, Ok(1)) {
                    observed = None;
                }
            }
            if goodbye {
                // It says that nothing is left; what it overlooked is put right all the same.
                return Ok(self.restore()?.filter(restore::Restored::touched_anyone));
            }
            is_doomed = self.charge.run.is_doomed();
            // It is over before its descriptor says so, which waits until all its files are closed.
            if ended || is_doomed && !self.charge.run.is_alive() {
                return self.restore();
            }
            // A runtime that is being killed does not end before its ordinary threads get a core
            // to end on, and what it left raised may hold all of them for a second.
            if is_doomed {
                restore::relieve(&self.hierarchies, self.charge.run);
            } else {
                self.look(&pidfd, observed.as_mut());
            }
        }
    }

    /// Looks at the agents, and does what must be done for those that are stuck.
    fn look(&mut self, runtime: &OwnedFd, mut line: Option<&mut UnixStream>) {
        if let Some(why) = self.heartbeats.ending().filter(|_| !self.is_said) {
            self.is_said = true;
            say(&format!("{why}; the run ends"));
        }
        let off_line = self.off_line().or_else(|| self.was_off_line());
        let sight = Sight { is_stopped: self.charge.run.is_stopped(), off_line };
        for act in self.patrol.look(&self.heartbeats, monotonic_ns(), sight) {
            match act {
                Act::Relieve { agent, stuck, first } => self.relieve(agent, stuck, first),
                Act::RelieveAll => restore::relieve(&self.hierarchies, self.charge.run),
                Act::Ask(why) => {
                    self.heartbeats.ask_end(&why);
                    self.is_said = true;
                    say(&format!("{why}; asked the run to end"));
                    // It sees the reason in the memory; the byte wakes it.
                    let _ = line.as_mut().map(|line| line.write_all(&[CALL]));
                    if why.cause == Cause::Stopped {
                        // Nothing that is stopped can end in order.
                        sys::signal(runtime, libc::SIGCONT);
                    }
                }
                Act::Kill(why) => {
                    say(&format!("{}; killed the run", reported_late(&why)));
                    sys::signal(runtime, libc::SIGKILL);
                }
            }
        }
    }

    fn relieve(&mut self, agent: usize, stuck: Duration, first: bool) {
        if first {
            say(&format!(
                "core{agent}'s agent has been stuck for {stuck:.1?}; took its VCPUs down until it \
                 is back"
            ));
        }
        self.heartbeats.begins_relief(agent, stuck);
        let core = self.heartbeats.core(agent);
        let on_core = restore::relieve_core(&self.hierarchies, self.charge.run, core);
        if self.freezer.is_free() {
            self.freezer.post(agent, on_core, &self.heartbeats);
        } else {
            self.heartbeats.ends_relief(agent);
        }
    }

    /// An agent whose core is not on line.
    fn off_line(&self) -> Option<usize> {
        let list = fs::read_to_string(ON_LINE).ok()?;
        let is_off = |agent: &usize| {
            let core = self.heartbeats.core(*agent);
            core.is_some_and(|core| names(&list, core) == Some(false))
        };
        (0..self.heartbeats.agents()).find(is_off)
    }

    /// An agent whose core was off line since the guardian's first look and may be on line again,
    /// as after a suspension of the host, where no process can look in between.
    fn was_off_line(&mut self) -> Option<usize> {
        for agent in 0..self.heartbeats.agents() {
            let core = self.heartbeats.core(agent)?;
            if agent == self.events.len() {
                self.events.push(CoreEvent::open(core).ok());
            }
            let event = self.events.get_mut(agent)?;
            if event.as_mut().is_some_and(CoreEvent::stands_still) {
                return Some(agent);
            }
        }
        None
    }

    fn restore(&mut self) -> io::Result<Option<restore::Restored>> {
        // What is being frozen waits for a lock, and its holder perhaps for a core that something
        // raised has: that is lowered first, which takes no lock.
        if !self.freezer.is_free() {
            restore::relieve(&self.hierarchies, self.charge.run);
        }
        self.freezer.end();
        let restored = restore::restore(&self.hierarchies, &self.charge)?;
        Ok(Some(restored).filter(restore::Restored::touched_anything))
    }
}

/// Why a run is killed that was asked to end before.
fn reported_late(why: &Ending) -> String {
    match why.cause {
        Cause::OffLine | Cause::Away | Cause::Overdue => {
            format!("{why}; the run did not end when asked")
        }
        Cause::Late | Cause::Stopped => why.to_string(),
    }
}

/// Whether a list such as `0-2,5` names a core; `None` where it is no such list.
fn names(list: &str, core: HardwareCore) -> Option<bool> {
    let mut named = false;
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        named |= (first..=last).contains(&core.0);
    }
    Some(named)
}

/// Waits until one of two descriptors is readable or at its end, or `timeout` has passed. A
/// descriptor of -1 never is.
fn poll(fds: [i32; 2], timeout: Duration) -> io::Result<[bool; 2]> {
    let mut set = fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    match sys::poll(&mut set, timeout.as_millis() as i32) {
        Ok(_) => Ok(set.map(|entry| entry.revents != 0)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok([false; 2]),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::hardware::Count;

    #[test]
    fn a_list_of_cores_is_read() {
        let named = |list: &str, core: u32| names(list, HardwareCore(core));
        assert_eq!(named("0-2,5\n", 2), Some(true));
        assert_eq!(named("0-2,5\n", 3), Some(false));
        assert_eq!(named("0\n", 0), Some(true));
        assert_eq!(named("0-2,5\n", 5), Some(true));
        assert_eq!(named("", 0), None, "a file that says nothing accuses no core");
        assert_eq!(named("0-x", 0), None);
    }

    /// A clock that a core keeps as long as it is on line.
    struct Clock(u64);

    impl Counter for Clock {
        fn read(&mut self) -> io::Result<Count> {
            Ok(Count { wanted_ns: self.0, ..Count::default() })
        }
        fn arm(&mut self, _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn disarm(&mut self) -> io::Result<()> {
            Ok(())
        }
        fn fd(&self) -> Option<i32> {
            None
        }
    }

    #[test]
    fn a_core_that_was_off_line_is_known_by_its_event() {
        let event = |at: u64| CoreEvent { counter: Box::new(Clock(at)), seen_ns: 5 };
        assert!(!event(6).stands_still());
        let mut dropped = event(5);
        assert!(dropped.stands_still() && dropped.stands_still());
        // One of this host's cores, which is on line.
        let core = sched::affinity_of(0).expect("this thread runs somewhere")[0];
        match CoreEvent::open(core) {
            Ok(mut event) => (0..5).for_each(|_| {
                assert!(!event.stands_still());
                // More than the tick of a host without a finer clock.
                thread::sleep(LOOK / 5);
            }),
            Err(error) => crate::host::tests::refused(&error, "events of whole cores"),
        }
    }

    #[test]
    fn a_core_off_line_that_did_not_end_the_run_is_said() {
        let lasted = Duration::from_secs(5);
        let why = Ending { cause: Cause::OffLine, agent: 1, lasted };
        let text = "core1 has been taken off line; the run did not end when asked";
        assert_eq!(reported_late(&why), text);
    }
}
