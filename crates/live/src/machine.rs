//! Machine 2: real commands on VCPUs of a stock Linux host, under any policy.

pub(crate) mod ask;
pub(crate) mod brain;
mod claim;
mod duty;
pub mod handle;
mod keeper;
mod progress;
mod steer;

pub use duty::capacity;
pub use handle::{Handle, JobGate, Members, Refusal, VcpuStatus};
pub(crate) use progress::{Progress, Source};
pub(crate) use steer::Colors;
pub(crate) use steer::Palette;

use crate::agent::{Council, lock};
use crate::clock::Clock;
use crate::control::Server;
use crate::executor::{self, Core};
use crate::guardian::Guardian;
use crate::host::cgroup::{Hierarchies, Tree};
use crate::host::costs::{self, WakeCost};
use crate::host::launch::{Command, Exit, users};
use crate::host::platform::Platform;
use crate::host::probe::{Capabilities, Capability, EVENTS};
use crate::host::{HardwareCore, rights, sched, sys};
use crate::journal::{Header, Ring, Scribe};
use crate::sense::{Senses, VcpuEvents};
use brain::Brain;
use claim::Claim;
pub(crate) use claim::forget as forget_claims;
use handle::Mailbox;
use keeper::Keeper;
use maracas_core::admission::NotAdmitted;
use maracas_core::contract::Figure;
use maracas_core::journal::{Note, Record};
use maracas_core::{CoreId, Duration, Instant, Policy, Rate, System, Vcpu, VcpuId};
use maracas_live_core::priority;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io, thread};
use steer::Steered;

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
    /// VCPUs that come later, with their names: the policy is asked about each when its first
    /// program is to start, and what it refuses is not started.
    pub later: Vec<(String, Vcpu)>,
    /// What runs on them.
    pub programs: Vec<Launch>,
    /// When the run ends; `None` = when the last program has ended or [`Handle::stop`] is called.
    pub duration: Option<Duration>,
    /// Stays for VCPUs that others create when its own programs, if any, have ended.
    pub serve: bool,
    /// The share of its time in which each core runs programs, by its `CoreId`: below one, it is
    /// slowed down by a duty cycle to stand for a slower core: all of its programs' time, budgets
    /// among it, is then the slower core's. Empty = no core is; reservations may take the least
    /// [`capacity`] of all.
    pub duty: Vec<Rate>,
    /// By what memory is steered.
    pub steering: Steering,
}

/// By what the machine steers shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Steering {
    /// How a core loses its surplus time.
    pub throttle: Throttle,
    /// How the last-level cache is split by [`maracas_core::Core::colors`].
    pub cache: CacheParts,
    /// Cycles per microsecond in which a policy's samples count occupancy, whatever clock the
    /// sensor has; 0 = the sensor's own.
    pub cycles_per_us: u64,
}

/// How a core loses its surplus time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Throttle {
    /// Its background is frozen (control groups).
    #[default]
    Freezer,
    /// Its background goes on, with its bandwidth lowered as far as the hardware can (resctrl MBA).
    Mba,
}

/// How the last-level cache is split.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum CacheParts {
    /// Not at all.
    #[default]
    Whole,
    /// By ways (resctrl, CAT): bit n of a core's colours is way n.
    Ways,
    /// By page colours, for programs that use the client library or have it preloaded: bit n of a
    /// core's colours is colour n of so many.
    Colors(u32),
}

impl Setup {
    /// All VCPUs of the setup with their names: the first ones, then the later ones.
    fn vcpus(&self) -> impl Iterator<Item = (&Vcpu, Option<&str>)> {
        let names = self.names.iter().map(|name| Some(name.as_str()));
        let first = self.system.vcpus.iter().zip(names.chain(std::iter::repeat(None)));
        first.chain(self.later.iter().map(|(name, vcpu)| (vcpu, Some(name.as_str()))))
    }
}

/// What the host lets the machine do. Each thing that is missing has its next best.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Means {
    /// Foreground by `SCHED_FIFO`. Without it all is `SCHED_OTHER`, and the machine stops and
    /// continues programs so that only the one runs that the law names: errors of milliseconds.
    pub fifo: bool,
    /// Groups can be frozen. Without it the background is left to the kernel's fair class or, where
    /// there is no FIFO either, programs are stopped by signals.
    pub freezer: bool,
    /// Counters of VCPUs' time and switch records. Without them the threads' clocks are read at
    /// the earliest exhaustion and every millisecond, and blocks and wakes are guessed from their
    /// standing still.
    pub events: bool,
    /// Instructions may be counted as the programs' progress, on uneven cores; whether every core
    /// does count them is tried. Without, programs may count their own
    /// ([`PROGRESS_VARIABLE`](maracas_core::control::PROGRESS_VARIABLE)), which says more of those
    /// that spin while they wait.
    pub instructions: bool,
}

impl Means {
    /// All of it.
    pub const FULL: Self = Self { fifo: true, freezer: true, events: true, instructions: true };

    /// What of it the state of a core depends on.
    pub(crate) const fn of_a_core(self) -> maracas_live_core::Means {
        let Self { fifo, freezer, events, .. } = self;
        maracas_live_core::Means { fifo, freezer, events }
    }
    /// What the probe found.
    pub fn of(found: &Capabilities) -> Self {
        Self {
            fifo: found.has(Capability::Fifo),
            freezer: found.has(Capability::Freezer),
            events: EVENTS.into_iter().all(|event| found.has(event)),
            instructions: true,
        }
    }
}

/// How a run went.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How long it took.
    pub duration: Duration,
    /// How every program ended; `None` where it was ended by us at the end of the run.
    pub programs: Vec<(String, Option<Exit>)>,
    /// VCPUs that the policy refused when they arrived, and why; their programs were not started.
    pub refused: Vec<(VcpuId, NotAdmitted)>,
    /// VCPUs with jobs of which no program ever reported an end: every one of their jobs was taken
    /// to end when it had received C, and with the next release at the latest.
    pub silent: Vec<VcpuId>,
    /// What the policy counted of its own doings.
    pub figures: Vec<Figure>,
    /// What the host refused during the run, one sentence each.
    pub trouble: Vec<String>,
    /// Why the guardian ended the run, if it did; `trouble` says it too.
    pub ended: Option<String>,
    /// Time on the cores that the machine itself took: all agents, and who freezes for them.
    pub agents: Duration,
}

/// Why a run could not begin, or ended early.
#[derive(Debug)]
pub enum Error {
    /// The host refused something without which nothing runs: what, and its answer.
    Host(&'static str, io::Error),
    /// Another run manages this core, that of this process if it is known: neither could keep what
    /// it promises.
    Taken(HardwareCore, Option<u32>),
    /// A core cannot be slowed down so: one sentence.
    Duty(String),
    /// A program could not be started.
    Start(String, io::Error),
    /// An agent panicked; all threads were released.
    Panicked(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(what, error) => write!(f, "cannot {what}: {error}; see `maracas doctor`"),
            Self::Taken(core, Some(run)) => {
                write!(f, "core {core} is managed by run {run}; end it first")
            }
            Self::Taken(core, None) => {
                write!(f, "core {core} is managed by another run; end it first")
            }
            Self::Duty(why) => f.write_str(why),
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
    guardian: Option<Guardian>,
    server: Option<Server>,
    /// What is sensed of memory.
    senses: Senses,
    steered: Steered,
    /// Held as long as the run lasts, and let go by the kernel however it ends.
    claims: Vec<Claim>,
}

impl Machine {
    /// Takes hold of the cores and control groups of a host that lets us do everything; runs
    /// nothing yet.
    ///
    /// # Errors
    /// Where the host lacks what the machine stands on.
    pub fn new(setup: Setup, policy: Box<dyn Policy>, header: Header) -> Result<Self, Error> {
        Self::with_means(setup, Means::FULL, policy, header)
    }

    /// Like [`Machine::new`], with the next best of what the host does not let us do.
    ///
    /// # Errors
    /// As [`Machine::new`].
    pub fn with_means(
        setup: Setup,
        means: Means,
        policy: Box<dyn Policy>,
        header: Header,
    ) -> Result<Self, Error> {
        let host = |what| move |error| Error::Host(what, error);
        setup.check_duty(means.fifo)?;
        sys::keep_children();
        let claims: Result<_, _> = setup.cores.iter().map(|core| Claim::take(*core)).collect();
        let claims = claims?;
        let clock = Clock::start();
        let wakes = measure_wakes(&setup.cores, means.fifo).map_err(host("measure a wake"))?;
        let open = |(id, core): (usize, &HardwareCore)| {
            let (cost, id) = (wakes[id], CoreId(id as u16));
            let mut core = executor::open(id, *core, clock.clone(), means, cost)?;
            core.share = setup.share(id);
            Ok(Mutex::new(core))
        };
        let cores: Result<Vec<_>, _> = setup.cores.iter().enumerate().map(open).collect();
        let cores = cores.map_err(host("record context switches (CAP_PERFMON)"))?;
        let source = Source::of(&setup, means);
        let first = setup.vcpus().map(|(vcpu, _)| vcpu.id.0 + 1).max().unwrap_or(0);
        let steered = Steered::open(&setup)?;
        for core in &cores {
            lock(core).exec.valve.clone_from(&steered.valve);
        }
        let hierarchies = Hierarchies::read().map_err(host("find the control groups"))?;
        // Last, since from here on something would be left behind.
        let tree = Tree::create(&hierarchies).map_err(host("create control groups"))?;
        let palette = Palette::of(&setup);
        let cores_of_host = setup.cores.clone();
        let mailbox = Mailbox::new(tree, cores_of_host, means, source, palette, clock, first)
            .map_err(host("create an eventfd"))?;
        let mailbox = Arc::new(mailbox);
        let (guardian, server, senses) = (None, None, Senses::default());
        Ok(Self {
            setup,
            policy,
            header,
            mailbox,
            cores,
            guardian,
            server,
            senses,
            steered,
            claims,
        })
    }

    /// Gives back what was taken hold of, for a system that is not run after all.
    ///
    /// # Errors
    /// Where a control group cannot be removed.
    pub fn abandon(self) -> io::Result<()> {
        self.mailbox.close();
        let removed = self.mailbox.remove_tree();
        drop(self.server);
        drop((self.cores, self.steered));
        drop(self.guardian);
        removed
    }

    /// Puts the run under a guardian. It must have been started before [`Machine::new`], so that
    /// no instant is left at which a death would leave groups behind; it is told goodbye last.
    #[must_use]
    pub fn guarded_by(mut self, guardian: Guardian) -> Self {
        guardian.agents_on(&self.setup.cores);
        self.guardian = Some(guardian);
        self
    }

    /// Ends this service with the run, before the guardian hears goodbye: its socket is one of the
    /// things that the guardian would have to remove.
    #[must_use]
    pub fn served_by(mut self, server: Server) -> Self {
        self.server = Some(server);
        self
    }

    /// Senses memory with these: samples are answered by the sensor, allowances are held against
    /// the meters, and of every VCPU is counted what [`Senses::vcpus`] names. What no policy asks
    /// for is better left out of that, since counting costs at every dispatch; but with meters of
    /// real cores VCPUs should be counted too, or what the machine itself reads counts as theirs.
    /// Without senses, samples are refused and nothing is metered.
    #[must_use]
    pub fn sensing(mut self, senses: Senses) -> Self {
        self.senses = senses;
        self
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
        let Self { setup, policy, header, mailbox, cores, mut guardian, .. } = self;
        let (server, senses, steered, claims) =
            (self.server, self.senses, self.steered, self.claims);
        // Page faults in an agent would be delays; where memory cannot be locked it runs without.
        // SAFETY: plain arguments.
        let locked = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } == 0;
        let ring = Ring::new();
        mailbox.clock.restart();
        let Senses { sensor, meters, vcpus, notes } = senses;
        let mut meters = meters.into_iter();
        for core in &cores {
            let mut core = lock(core);
            executor::sense(&mut core, meters.next(), vcpus);
            core.begin();
        }
        let mut scribe = Scribe::new(&header, &ring);
        scribe.recorder.record(&host_note());
        scribe.recorder.record(&mailbox.source.note());
        let programs = setup.programs.iter().map(|it| (it.name.as_str(), &it.command));
        scribe.recorder.record(&note(Note::Users(users(programs))));
        let lost = mailbox.in_tree(|tree| Ok(tree.remarks().to_vec())).unwrap_or_default();
        lost.into_iter().for_each(|text| scribe.recorder.record(&note(Note::Groups(text))));
        setup.duty_notes().for_each(|note| scribe.recorder.record(&note));
        let sensing = sensor.as_ref().map(|it| format!("{}: {}", it.rung().word(), it.describe()));
        let noted = notes.into_iter().map(|text| Note::Sense { vcpu: None, text });
        let noted = sensing.map(Note::Sensor).into_iter().chain(noted);
        noted.for_each(|said| scribe.recorder.record(&note(said)));
        let mut brain = Brain::new(policy, &setup.system, &setup.names, scribe, &cores, &mailbox);
        brain.sense(sensor, &setup);
        let council =
            Council::new(&cores, brain, mailbox.bell(), guardian.as_ref().map(Guardian::hearts))
                .map_err(|error| Error::Host("create an eventfd", error))?;
        // Programs are started here, by single acts that need more.
        let lowered = rights::lower();
        let result = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                rights::drop_for_reader();
                ring.drain(sink);
            });
            // The writer ends with the ring, so nothing may pass that by.
            let result = caught(|| oversee(&council, &setup, &mailbox, &mut guardian, vcpus));
            ring.close();
            writer.thread().unpark();
            result
        });
        drop(lowered);
        if locked {
            // SAFETY: no arguments.
            unsafe { libc::munlockall() };
        }
        drop(council);
        drop(cores);
        drop(steered);
        // Whoever asks from here on hears that the system is ending.
        mailbox.close();
        drop(server);
        let removed = mailbox.remove_tree();
        drop(guardian);
        drop(claims);
        let mut outcome = result?;
        outcome.trouble.extend(removed.err().map(|error| error.to_string()));
        Ok(outcome)
    }
}

/// What a wake costs on each of the cores, measured on all at once.
fn measure_wakes(cores: &[HardwareCore], fifo: bool) -> io::Result<Vec<WakeCost>> {
    thread::scope(|scope| {
        let measure = |core: &HardwareCore| {
            let core = *core;
            scope.spawn(move || costs::wake(core, fifo))
        };
        let measuring: Vec<_> = cores.iter().map(measure).collect();
        let died = |_| io::Error::other("a measuring thread died");
        measuring.into_iter().map(|it| it.join().map_err(died)?).collect()
    })
}

/// On what it ran, for whoever reads the journal elsewhere.
fn host_note() -> Record {
    let text = Platform::detect().map_or_else(|error| error.to_string(), |host| host.to_string());
    note(Note::Host(text))
}

/// A note at the begin of the journal.
fn note(note: Note) -> Record {
    Record::Note { at: Instant::ZERO, note }
}

/// Starts the agents, keeps the programs, and takes everything down again.
fn oversee(
    council: &Council<'_>,
    setup: &Setup,
    mailbox: &Mailbox,
    guardian: &mut Option<Guardian>,
    counts: VcpuEvents,
) -> Result<Outcome, Error> {
    let mut keeper = Keeper::new(setup, mailbox, guardian.as_mut(), counts)?;
    let result = thread::scope(|scope| {
        let mut cores = setup.system.core_ids();
        // The scope waits for the agents, which nobody would stop any more after a panic.
        let result = caught(|| {
            cores.try_for_each(|core| start_agent(scope, council, mailbox, core))?;
            setup.system.core_ids().try_for_each(|core| slow_down(scope, council, setup, core))?;
            keeper.keep()
        });
        council.stop();
        result
    });
    // Whatever the agents did last: from here on nothing has real-time priority or is frozen.
    let mut trouble: Vec<String> = Vec::new();
    let brain = council.brain.lock();
    let poisoned = brain.is_err();
    let mut brain = brain.unwrap_or_else(PoisonError::into_inner);
    let agents = council.taken();
    let figures = if poisoned { Vec::new() } else { brain.finish(agents) };
    let silent = brain.silent();
    drop(brain);
    let duration = mailbox.clock.now().saturating_since(Instant::ZERO);
    for core in council.cores {
        let mut core = lock(core);
        trouble.extend(core.trouble.take().map(|error| format!("{}: {error}", core.id)));
        for mut body in core.bodies.drain(..) {
            trouble
                .extend(body.release().err().map(|error| format!("{}: {error}", body.handle.name)));
        }
        // Not before: the guardian sees to what is raised while nobody enforces.
        if let Some(hearts) = &council.hearts {
            hearts.rest(usize::from(core.id.0));
        }
    }
    mailbox.close();
    let refused = std::mem::take(&mut keeper.refused);
    let ended = keeper.ended_for();
    trouble.extend(ended.clone());
    let programs = keeper.end(&mut trouble);
    if poisoned {
        return Err(Error::Panicked("an agent panicked".to_string()));
    }
    result?;
    Ok(Outcome { duration, programs, refused, silent, figures, trouble, ended, agents })
}

/// Makes an error of a panic, so that what must follow does follow.
fn caught<T>(act: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        Err(Error::Panicked(text.to_string()))
    })
}

/// What the calling thread has taken of its core.
fn own_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure that we give.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Starts the agent and the brake thread of `core`.
fn start_agent<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    council: &'scope Council<'_>,
    mailbox: &'scope Mailbox,
    core: CoreId,
) -> Result<(), Error> {
    let own = lock(&council.cores[usize::from(core.0)]);
    let (hardware, brakes) = (own.exec.hardware, Arc::clone(&own.exec.brakes));
    drop(own);
    let priority = mailbox.means.fifo.then_some(priority::AGENT);
    let brake = move || {
        brakes.live();
        council.took(own_time());
    };
    start_real_time(scope, format!("brake-{core}"), hardware, priority, brake)?;
    let agent = move || {
        let lived = catch_unwind(AssertUnwindSafe(|| council.live(core)));
        if !matches!(lived, Ok(Ok(()))) {
            mailbox.stop();
        }
        council.took(own_time());
    };
    start_real_time(scope, format!("agent-{core}"), hardware, priority, agent)
}

/// Starts the thread that makes a slower one of `core`, where the setup says so.
fn slow_down<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    council: &'scope Council<'_>,
    setup: &Setup,
    core: CoreId,
) -> Result<(), Error> {
    let share = setup.share(core);
    if share == Rate::ONE {
        return Ok(());
    }
    let own = lock(&council.cores[usize::from(core.0)]);
    let (hardware, clock) = (own.exec.hardware, own.exec.clock.clone());
    let cost = own.waking.cost().p50;
    drop(own);
    let spin = move || duty::live(share, hardware, &clock, cost, &council.halt);
    start_real_time(scope, format!("slow-{core}"), hardware, Some(priority::SLOWING), spin)
}

/// Starts a real-time thread on a core. Its creator raises it: a thread that raises itself from
/// `SCHED_OTHER` was seen starved for 700 ms before it got so far.
fn start_real_time<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    name: String,
    core: HardwareCore,
    priority: Option<u8>,
    live: impl FnOnce() + Send + 'scope,
) -> Result<(), Error> {
    let host = |error| Error::Host("start a real-time thread (CAP_SYS_NICE)", error);
    let (tid_sender, tid) = sync_channel(1);
    let (go, may_go) = sync_channel::<()>(1);
    let spawned = thread::Builder::new().name(name).spawn_scoped(scope, move || {
        // SAFETY: no arguments.
        let _ = tid_sender.send(unsafe { libc::gettid() });
        rights::drop_for_agents();
        if may_go.recv().is_ok() {
            live();
        }
    });
    spawned.map_err(host)?;
    let tid = tid.recv().map_err(|_| host(io::ErrorKind::BrokenPipe.into()))?;
    if let Some(priority) = priority {
        sched::set_fifo(tid, priority, true).map_err(host)?;
    }
    sched::set_affinity(tid, core).map_err(host)?;
    let _ = go.send(());
    Ok(())
}
