//! Machine 2: real commands on VCPUs of a stock Linux host, under any policy.

pub(crate) mod brain;
mod demand;
pub mod handle;
mod keeper;
pub(crate) mod vcpu;

pub use handle::{Handle, JobGate, Members, Refusal, VcpuStatus};

use crate::agent::{Council, lock};
use crate::clock::Clock;
use crate::enact::Core;
use crate::host::cgroup::{Hierarchies, Tree};
use crate::host::launch::{Command, Exit};
use crate::host::{HardwareCore, sched};
use crate::journal::{Header, Ring, Scribe};
use brain::Brain;
use handle::Mailbox;
use keeper::Keeper;
use maracas_core::{CoreId, Duration, Instant, Policy, System, VcpuId};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io, thread};

/// The agents' real-time priority: above all programs, below the guardian (99).
const AGENT_PRIORITY: u8 = 98;

/// One command that is to run on a VCPU.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Its name, for the outcome.
    pub name: String,
    /// The VCPU that pays for it; several programs may share one.
    pub vcpu: VcpuId,
    /// What to start.
    pub command: Command,
    /// When it is started.
    pub start: Instant,
    /// When it is told to end; [`Instant::NEVER`] = at the run's end.
    pub stop: Instant,
}

/// What is to be run, and on which cores.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Platform and first VCPUs, as the policy was built for them.
    pub system: System,
    /// The kernel's number of each core, by its `CoreId`.
    pub cores: Vec<HardwareCore>,
    /// Names of the first VCPUs, by their place in `system.vcpus`.
    pub names: Vec<String>,
    /// What runs on them.
    pub programs: Vec<Launch>,
    /// When the run ends; `None` = when the last program has ended or [`Handle::stop`] is called.
    pub duration: Option<Duration>,
}

/// How a run went.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How long it took.
    pub duration: Duration,
    /// How every program ended; `None` where it was ended by us at the end of the run.
    pub programs: Vec<(String, Option<Exit>)>,
    /// VCPUs with jobs of which no program ever reported an end: each was taken as runnable in
    /// every one of its jobs until the next release.
    pub silent: Vec<VcpuId>,
    /// What the host refused during the run, one sentence each.
    pub trouble: Vec<String>,
}

/// Why a run could not begin, or ended early.
#[derive(Debug)]
pub enum Error {
    /// The host refused something without which nothing runs: what, and its answer.
    Host(&'static str, io::Error),
    /// A program could not be started.
    Start(String, io::Error),
    /// An agent panicked; all threads were released.
    Panicked(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(what, error) => write!(f, "cannot {what}: {error}; see `maracas doctor`"),
            Self::Start(name, error) => write!(f, "program \"{name}\" cannot be started: {error}"),
            Self::Panicked(why) => write!(f, "the runtime failed and released everything: {why}"),
        }
    }
}
impl std::error::Error for Error {}

/// A system that is ready to run.
pub struct Machine {
    setup: Setup,
    policy: Box<dyn Policy>,
    header: Header,
    mailbox: Arc<Mailbox>,
    cores: Vec<Mutex<Core>>,
}

impl Machine {
    /// Takes hold of the cores and control groups; runs nothing yet.
    ///
    /// # Errors
    /// Where the host lacks what the machine stands on.
    pub fn new(setup: Setup, policy: Box<dyn Policy>, header: Header) -> Result<Self, Error> {
        let host = |what| move |error| Error::Host(what, error);
        let hierarchies = Hierarchies::read().map_err(host("find the control groups"))?;
        let tree = Tree::create(&hierarchies).map_err(host("create control groups"))?;
        let clock = Clock::start();
        let first = setup.system.vcpus.iter().map(|vcpu| vcpu.id.0 + 1).max().unwrap_or(0);
        let mailbox = Mailbox::new(tree, clock, first).map_err(host("create an eventfd"))?;
        let cores: Result<Vec<_>, _> = setup
            .cores
            .iter()
            .enumerate()
            .map(|(id, core)| Core::open(CoreId(id as u16), *core, clock).map(Mutex::new))
            .collect();
        let cores = cores.map_err(host("record context switches (CAP_PERFMON)"))?;
        Ok(Self { setup, policy, header, mailbox: Arc::new(mailbox), cores })
    }

    /// How to ask and change the system while it runs.
    pub fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.mailbox))
    }

    /// Runs to the end. `sink` gets the journal, whole records at a time, on a thread of its own
    /// that is not real-time. Whatever happens, every thread is released and every program ended
    /// before this returns.
    ///
    /// # Errors
    /// Where a program could not be started or the runtime failed.
    pub fn run(self, sink: impl FnMut(&[u8]) + Send) -> Result<Outcome, Error> {
        let Self { setup, policy, header, mailbox, cores } = self;
        // Page faults in an agent would be delays; where memory cannot be locked it runs without.
        // SAFETY: plain arguments.
        let locked = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } == 0;
        let ring = Ring::new();
        let scribe = Scribe::new(&header, &ring);
        let brain = Brain::new(policy, &setup.system, &setup.names, scribe, &cores, &mailbox);
        let council = Council::new(&cores, brain, mailbox.bell())
            .map_err(|error| Error::Host("create an eventfd", error))?;
        let result = thread::scope(|scope| {
            let writer = scope.spawn(|| ring.drain(sink));
            let result = oversee(&council, &setup, &mailbox);
            ring.close();
            writer.thread().unpark();
            result
        });
        if locked {
            // SAFETY: no arguments.
            unsafe { libc::munlockall() };
        }
        drop(council);
        drop(cores);
        let removed = Arc::into_inner(mailbox).map(|mailbox| mailbox.tree.remove());
        let mut outcome = result?;
        outcome.trouble.extend(removed.and_then(Result::err).map(|error| error.to_string()));
        Ok(outcome)
    }
}

/// Starts the agents, keeps the programs, and takes everything down again.
fn oversee(council: &Council<'_>, setup: &Setup, mailbox: &Mailbox) -> Result<Outcome, Error> {
    let mut keeper = Keeper::new(setup, mailbox)?;
    let result = thread::scope(|scope| {
        let mut cores = setup.system.core_ids();
        let started = cores.try_for_each(|core| start_agent(scope, council, mailbox, core));
        let result = started.and_then(|()| keeper.keep());
        council.stop();
        result
    });
    // Whatever the agents did last: from here on nothing has real-time priority or is frozen.
    let mut trouble: Vec<String> = Vec::new();
    let brain = council.brain.lock();
    let poisoned = brain.is_err();
    let mut brain = brain.unwrap_or_else(PoisonError::into_inner);
    if !poisoned {
        brain.finish();
    }
    let silent = brain.silent();
    drop(brain);
    let duration = mailbox.clock.now().saturating_since(Instant::ZERO);
    for core in council.cores {
        let mut core = lock(core);
        trouble.extend(core.trouble.take().map(|error| format!("{}: {error}", core.id)));
        for mut body in core.bodies.drain(..) {
            trouble.extend(body.release().err().map(|error| format!("{}: {error}", body.name)));
        }
    }
    mailbox.close();
    let programs = keeper.end(&mut trouble);
    result?;
    if poisoned {
        return Err(Error::Panicked("an agent panicked".to_string()));
    }
    Ok(Outcome { duration, programs, silent, trouble })
}

/// Starts the agent of `core`. Its creator raises it: a thread that raises itself from
/// `SCHED_OTHER` was seen starved for 700 ms before it got so far.
fn start_agent<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    council: &'scope Council<'_>,
    mailbox: &'scope Mailbox,
    core: CoreId,
) -> Result<(), Error> {
    let host = |error| Error::Host("start a real-time thread (CAP_SYS_NICE)", error);
    let (tid_sender, tid) = sync_channel(1);
    let (go, may_go) = sync_channel::<()>(1);
    let agent = thread::Builder::new().name(format!("maracas-{core}"));
    let spawned = agent.spawn_scoped(scope, move || {
        // SAFETY: no arguments.
        let _ = tid_sender.send(unsafe { libc::gettid() });
        if may_go.recv().is_err() {
            return;
        }
        let lived = catch_unwind(AssertUnwindSafe(|| council.live(core)));
        if !matches!(lived, Ok(Ok(()))) {
            mailbox.stop();
        }
    });
    spawned.map_err(host)?;
    let tid = tid.recv().map_err(|_| host(io::ErrorKind::BrokenPipe.into()))?;
    let hardware = lock(&council.cores[core.0 as usize]).hardware;
    sched::set_fifo(tid, AGENT_PRIORITY, true).map_err(host)?;
    sched::set_affinity(tid, hardware).map_err(host)?;
    let _ = go.send(());
    Ok(())
}
