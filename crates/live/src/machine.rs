//! Machine 2: real commands on VCPUs of a stock Linux host, under any policy.

pub(crate) mod ask;
mod cores;
mod duty;
mod error;
pub mod handle;
pub(crate) mod jobs;
mod steer;
mod supervisor;
pub(crate) mod this_host;

pub use duty::capacity;
pub use error::Error;
pub use handle::{Handle, Members};
pub use jobs::JobGate;
pub use maracas_live_core::{Refusal, VcpuStatus};

pub use crate::setup::{CacheParts, Launch, Means, Setup, Steering, Throttle};

pub(crate) use steer::Palette;

use crate::agent::Agents;
use crate::clock::{self, Clock};
use crate::deciders::Deciders;
use crate::executor::{self, lock};
use crate::guardian::Guardian;
use crate::host::cgroup::{Hierarchies, Tree};
use crate::host::claim::{self, Claim, Unclaimed};
use crate::host::launch::{Exit, users};
use crate::host::platform::{Platform, last_core};
use crate::host::{HardwareCore, rights, sched, sys};
use crate::journal::{Drain, Header, Scribe};
use crate::kernel::KernelCores;
use crate::progress::Source;
use crate::sense::{Senses, VcpuEvents};
use cores::Cores;
use handle::Mailbox;
use jobs::Jobs;
use maracas_core::admission::NotAdmitted;
use maracas_core::contract::Statistic;
use maracas_core::journal::{Note, Record};
use maracas_core::{CoreId, Duration, Instant, Policy, Rate, VcpuId};
use maracas_live_core::priority;
use rustix::mm::{MlockAllFlags, mlockall, munlockall};
use rustix::thread::gettid;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::{fmt, io, thread};
use steer::Steered;
use supervisor::Supervisor;
use this_host::{Decider, Sampler, ThisHost};

/// A service of the machine's clients; dropping it ends it.
pub trait Service: fmt::Debug + Send {}

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
    pub statistics: Vec<Statistic>,
    /// What the host refused during the run, one sentence each.
    pub trouble: Vec<String>,
    /// Why the guardian ended the run, if it did; `trouble` says it too.
    pub ended: Option<String>,
    /// Time on the cores that the machine itself took: all agents, and the freeze threads.
    pub agents: Duration,
}

/// A system that is ready to run.
pub struct Machine {
    setup: Setup,
    policy: Box<dyn Policy>,
    header: Header,
    mailbox: Arc<Mailbox>,
    cores: Cores,
    guardian: Option<Guardian>,
    server: Option<Box<dyn Service>>,
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
        mut policy: Box<dyn Policy>,
        header: Header,
    ) -> Result<Self, Error> {
        let host = |what| move |error| Error::Host(what, error);
        setup.check_duty(means.fifo)?;
        sys::keep_children();
        let last = last_core().filter(|_| means.kernel);
        let claims = claim::needed(&setup.cores, last).into_iter().map(Claim::take);
        let claims = claims.collect::<Result<Vec<_>, Unclaimed>>()?;
        let clock = Clock::start();
        let cores = Cores::open(&setup, means, &clock)?;
        let source = Source::of(&setup, means);
        let first = setup.vcpus().map(|(vcpu, _)| vcpu.id.0 + 1).max().unwrap_or(0);
        let steered = Steered::open(&setup)?;
        for core in cores.of_agents() {
            lock(core).exec.bandwidth_limiter.clone_from(&steered.bandwidth_limiter);
        }
        let hierarchies = Hierarchies::read().map_err(host("find the control groups"))?;
        // Last, since from here on something would be left behind.
        let tree = Tree::create(&hierarchies).map_err(host("create control groups"))?;
        let palette = Palette::of(&setup);
        let cores_of_host = setup.cores.clone();
        let alone = if !means.kernel && policy.apart().is_some() { setup.cores.len() } else { 0 };
        let mut mailbox = Mailbox::new(tree, cores_of_host, means, source, palette, clock, first)
            .map_err(host("create an eventfd"))?;
        mailbox.jobs = Jobs::new(alone).map_err(host("create an eventfd"))?;
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

    /// Puts the run under a guardian. It must have been started before [`Machine::new`], so that no
    /// instant is left at which a death would leave groups behind; it is dismissed last.
    #[must_use]
    pub fn guarded_by(mut self, guardian: Guardian) -> Self {
        guardian.agents_on(&self.setup.cores);
        self.guardian = Some(guardian);
        self
    }

    /// Ends this service with the run, before the guardian is dismissed: its socket is one of the
    /// things that the guardian would have to remove.
    #[must_use]
    pub fn served_by(mut self, server: impl Service + 'static) -> Self {
        self.server = Some(Box::new(server));
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
        if self.mailbox.means.kernel {
            // It counts what VCPUs read itself ([`Setup::counting`]).
            self.senses.vcpus = VcpuEvents::default();
        }
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
        let locked = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).is_ok();
        mailbox.clock.restart();
        let Senses { sensor, meters, vcpus, notes, .. } = senses;
        let mut meters = meters.into_iter();
        for core in cores.of_agents() {
            let mut core = lock(core);
            executor::sense(&mut core, meters.next(), vcpus);
            core.begin();
        }
        let (mut scribe, mut drain) = Scribe::new(&header);
        scribe.recorder.record(&host_note(mailbox.means));
        scribe.recorder.record(&mailbox.source.note());
        let programs = setup.programs.iter().map(|it| (it.name.as_str(), &it.command));
        scribe.recorder.record(&note(Note::Users(users(programs))));
        let lost = mailbox.in_tree(|tree| Ok(tree.remarks().to_vec())).unwrap_or_default();
        lost.into_iter().for_each(|text| scribe.recorder.record(&note(Note::Groups(text))));
        setup.duty_notes().for_each(|note| scribe.recorder.record(&note));
        let sensing =
            sensor.as_ref().map(|it| format!("{}: {}", it.sensor_kind().word(), it.describe()));
        let noted = notes.into_iter().map(|text| Note::Sense { vcpu: None, text });
        let noted = sensing.map(Note::Sensor).into_iter().chain(noted);
        noted.for_each(|said| scribe.recorder.record(&note(said)));
        let sampler = sensor.map(|sensor| Sampler::new(sensor, &setup));
        let host = ThisHost::new(cores.all(), Arc::clone(&mailbox), scribe, sampler);
        let mut all_agents = Agents::new(
            cores.of_agents(),
            deciders(policy, &setup, host, cores.kernel().is_none().then_some(&mut drain)),
            &mailbox,
            guardian.as_ref().map(Guardian::heartbeats),
        )
        .map_err(|error| Error::Host("create an eventfd", error))?;
        all_agents.wakeups.extend(cores.kernel().map(|kernel| Arc::clone(&kernel.wakeup)));
        // Programs are started here, by single acts that need more.
        let lowered = rights::lower();
        let closed = AtomicBool::new(false);
        let result = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                rights::drop_for_reader();
                drain.run(&closed, sink);
            });
            // The writer ends when this is said, so nothing may pass that by.
            let result = caught(|| {
                oversee(&all_agents, cores.kernel(), &setup, &mailbox, &mut guardian, vcpus)
            });
            closed.store(true, Ordering::Release);
            writer.thread().unpark();
            result
        });
        drop(lowered);
        if locked {
            let _ = munlockall();
        }
        drop(all_agents);
        drop((cores, steered));
        // Callers from here on get the answer that the system is ending.
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

/// The decider of all cores, and where the policy can do so one of each group of them, which has a
/// way of its own into the journal; not without `drain`: where the kernel carries the law out one
/// thread decides.
fn deciders(
    policy: Box<dyn Policy>,
    setup: &Setup,
    host: ThisHost,
    drain: Option<&mut Drain>,
) -> Deciders<Decider> {
    let mut all = Decider::new(policy, &setup.system, &setup.names, host);
    let own = drain.map(|drain| {
        all.of_groups(|of, group| of.of_group(group, drain.writer_of_group(group.first())))
    });
    let own = own.unwrap_or_default().into_iter();
    Deciders::new(all, own.filter_map(|own| Some((*own.group()?, own))).collect())
}

/// On what it ran and by what, for a reader of the journal elsewhere.
fn host_note(means: Means) -> Record {
    let text = Platform::detect().map_or_else(|error| error.to_string(), |host| host.to_string());
    let by = if means.kernel { "; by the scheduler in the kernel (sched_ext)" } else { "" };
    note(Note::Host(text + by))
}

/// A note at the begin of the journal.
fn note(note: Note) -> Record {
    Record::Note { at: Instant::ZERO, note }
}

/// Starts the agents, keeps the programs, and takes everything down again.
fn oversee(
    all_agents: &Agents<'_>,
    kernel: Option<&KernelCores>,
    setup: &Setup,
    mailbox: &Mailbox,
    guardian: &mut Option<Guardian>,
    counts: VcpuEvents,
) -> Result<Outcome, Error> {
    let mut supervisor = Supervisor::new(setup, mailbox, guardian.as_mut(), counts)?;
    let result = thread::scope(|scope| {
        // The scope waits for the agents, which nothing would stop any more after a panic.
        let result = caught(|| {
            match kernel {
                Some(kernel) => start_decider(scope, all_agents, mailbox, kernel)?,
                None => start_agents(scope, all_agents, mailbox, setup)?,
            }
            supervisor.keep()
        });
        all_agents.stop();
        result
    });
    // Whatever the agents did last: from here on nothing has real-time priority or is frozen.
    let mut trouble: Vec<String> = Vec::new();
    let agents = all_agents.taken();
    let (statistics, silent, poisoned) = all_agents.deciders.end(|decider, poisoned| {
        let statistics = if poisoned { Vec::new() } else { decider.finish(agents) };
        (statistics, decider.silent(), poisoned)
    });
    let duration = mailbox.clock.now().saturating_since(Instant::ZERO);
    // Closed when all are released: closing waits for the kernel, and what is raised runs on.
    let mut released = Vec::new();
    for core in all_agents.cores {
        let mut core = lock(core);
        trouble.extend(core.trouble.take().map(|error| format!("{}: {error}", core.id)));
        for mut vcpu_handle in core.vcpu_handles.drain(..) {
            let refused = vcpu_handle.release().err();
            trouble.extend(refused.map(|error| format!("{}: {error}", vcpu_handle.handle.name)));
            released.push(vcpu_handle);
        }
        // Not before: the guardian sees to what is raised while nothing enforces.
        if let Some(heartbeats) = &all_agents.heartbeats {
            heartbeats.rest(usize::from(core.id.0));
        }
    }
    if let Some(kernel) = kernel {
        // What is left without a budget could not end under it.
        let (vcpu_handles, refused) = kernel.release();
        released.extend(vcpu_handles);
        trouble.extend(refused.map(|error| error.to_string()));
    }
    mailbox.close();
    let refused = std::mem::take(&mut supervisor.refused);
    let ended = supervisor.ended_for();
    trouble.extend(ended.clone());
    let programs = supervisor.end(released, &mut trouble);
    if poisoned {
        return Err(Error::Panicked("an agent panicked".to_string()));
    }
    result?;
    Ok(Outcome { duration, programs, refused, silent, statistics, trouble, ended, agents })
}

/// Makes an error of a panic, so that what must follow does follow.
fn caught<T>(act: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        Err(Error::Panicked(text.to_string()))
    })
}

/// Starts the agents of all cores, and the threads that make slower ones of some.
fn start_agents<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    all_agents: &'scope Agents<'_>,
    mailbox: &'scope Mailbox,
    setup: &Setup,
) -> Result<(), Error> {
    let started = setup
        .system
        .core_ids()
        .map(|core| start_agent(scope, all_agents, mailbox, core).map(|threads| (core, threads)));
    let started: Vec<_> = started.collect::<Result<_, _>>()?;
    started
        .into_iter()
        .try_for_each(|(core, threads)| slow_down(scope, all_agents, setup, core, threads))
}

/// Starts the one thread that decides where the kernel carries the law out.
fn start_decider<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    all_agents: &'scope Agents<'_>,
    mailbox: &'scope Mailbox,
    kernel: &'scope KernelCores,
) -> Result<(), Error> {
    let priority = mailbox.means.fifo.then_some(priority::AGENT);
    let decider = move || {
        let lived = catch_unwind(AssertUnwindSafe(|| kernel.live(all_agents)));
        if !matches!(lived, Ok(true)) {
            mailbox.stop();
        }
        all_agents.took(Duration::from_nanos(clock::thread_ns()));
    };
    start_real_time(scope, "decider".to_string(), None, priority, decider).map(drop)
}

/// Starts the agent and the freeze thread of `core`; their numbers.
fn start_agent<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    all_agents: &'scope Agents<'_>,
    mailbox: &'scope Mailbox,
    core: CoreId,
) -> Result<[i32; 2], Error> {
    let own = lock(&all_agents.cores[usize::from(core.0)]);
    let (hardware, freeze_queue) = (own.exec.hardware, Arc::clone(&own.exec.freeze_queue));
    drop(own);
    let priority = mailbox.means.fifo.then_some(priority::AGENT);
    let freeze_thread = move || {
        freeze_queue.run();
        all_agents.took(Duration::from_nanos(clock::thread_ns()));
    };
    let freeze = format!("freeze-{core}");
    let freeze = start_real_time(scope, freeze, Some(hardware), priority, freeze_thread)?;
    let agent = move || {
        let lived = catch_unwind(AssertUnwindSafe(|| all_agents.live(core)));
        if !matches!(lived, Ok(Ok(()))) {
            mailbox.stop();
        }
        all_agents.took(Duration::from_nanos(clock::thread_ns()));
    };
    let agent = start_real_time(scope, format!("agent-{core}"), Some(hardware), priority, agent)?;
    Ok([freeze, agent])
}

/// Starts the thread that makes a slower one of `core`, where the setup says so. `above` are the
/// threads of ours that take the core from it.
fn slow_down<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    all_agents: &'scope Agents<'_>,
    setup: &Setup,
    core: CoreId,
    above: [i32; 2],
) -> Result<(), Error> {
    let share = setup.share(core);
    if share == Rate::ONE {
        return Ok(());
    }
    let own = lock(&all_agents.cores[usize::from(core.0)]);
    let (hardware, clock) = (own.exec.hardware, own.exec.clock.clone());
    let cost = own.waking.cost().p50;
    drop(own);
    let taken = move || {
        let each = above.into_iter().filter_map(sys::own_thread_ns);
        Duration::from_nanos(each.sum())
    };
    let spin = move || duty::live(share, hardware, &clock, cost, taken, &all_agents.halt);
    let (name, priority) = (format!("slow-{core}"), Some(priority::SLOWING));
    start_real_time(scope, name, Some(hardware), priority, spin).map(drop)
}

/// Starts a real-time thread on a core, or on any; its number. Its creator raises it: a thread that
/// raises itself from `SCHED_OTHER` was seen starved for 700 ms before it got so far.
fn start_real_time<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    name: String,
    core: Option<HardwareCore>,
    priority: Option<u8>,
    live: impl FnOnce() + Send + 'scope,
) -> Result<i32, Error> {
    let host = |error| Error::Host("start a real-time thread (CAP_SYS_NICE)", error);
    let (tid_sender, tid) = sync_channel(1);
    let (go, may_go) = sync_channel::<()>(1);
    let spawned = thread::Builder::new().name(name).spawn_scoped(scope, move || {
        let _ = tid_sender.send(gettid().as_raw_nonzero().get());
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
    core.map_or(Ok(()), |core| sched::set_affinity(tid, core)).map_err(host)?;
    let _ = go.send(());
    Ok(tid)
}
