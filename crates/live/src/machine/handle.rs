//! How a running system is asked and changed from other threads.
//!
//! Every call becomes a request in a mailbox that the agents empty at their next decision; the
//! calling thread waits for the answer. The agents only ever try the mailbox's lock, so a caller
//! that is preempted while it holds it delays only itself.

use super::ask::{Reply, Silence, question};
use super::jobs::{JobGate, Jobs};
use super::steer::Palette;
use super::this_host::ThisHost;
use crate::clock::Clock;
use crate::executor::VcpuHandle;
use crate::executor::vcpu::Made;
use crate::host::cgroup::{Client, Group, Tree};
use crate::host::launch::User;
use crate::host::wait::Wakeup;
use crate::host::{HardwareCore, Identity, sched};
use crate::progress::{Page, Progress, Source};
use crate::setup::Means;
use maracas_core::{CoreId, Instant, JobId, Reservation, Vcpu, VcpuId};
use maracas_live_core::{Refusal, VcpuStatus};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, time};

/// How long a caller waits for the agents, which answer within milliseconds while they live.
const PATIENCE: time::Duration = time::Duration::from_secs(5);

/// Which threads of which process ask for a VCPU.
#[derive(Clone, Debug)]
pub struct Members {
    /// The process.
    pub pid: i32,
    /// The threads to be bound.
    pub tids: Vec<i32>,
    /// The process, held since it was checked; `None` = whichever bears the number at the move.
    pub held: Option<Arc<crate::host::held::Held>>,
}

impl Members {
    /// Refuses a thread that is not one of the process (any more).
    fn check(&self, tid: i32) -> io::Result<()> {
        self.held.as_ref().map_or(Ok(()), |held| held.has_thread(tid))
    }
}

/// One request to the decider.
pub(crate) type Request = maracas_live_core::Request<ThisHost>;

/// Nothing is frozen or moved as long as this lives, or until that has lasted for two seconds.
pub(super) struct Held<'a> {
    mailbox: &'a Mailbox,
    number: u64,
    /// On which core the VCPU is.
    core: CoreId,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.mailbox.post(Request::Unhold(self.number));
    }
}

/// Where requests wait for the agents, and what threads beside the agents share.
pub(crate) struct Mailbox {
    queue: Mutex<Vec<Request>>,
    wakeup: Wakeup,
    pub(crate) jobs: Jobs,
    next_id: AtomicU32,
    next_hold: AtomicU64,
    stopping: AtomicBool,
    /// The agents are gone.
    closed: AtomicBool,
    /// Wakes the supervisor of the programs.
    pub(super) supervisor: Wakeup,
    pub(crate) clock: Clock,
    /// Until the run's end, which handles may outlive.
    tree: Mutex<Option<Tree>>,
    /// The kernel's number of each core.
    pub(crate) cores: Vec<HardwareCore>,
    pub(crate) means: Means,
    /// What is counted as progress.
    pub(super) source: Source,
    /// Of which colours pages are to be.
    pub(super) palette: Palette,
    /// Foreign processes that were taken in, by process number, and the groups inside them.
    clients: Mutex<BTreeMap<i32, Client>>,
    bound: Mutex<BTreeMap<VcpuId, (i32, Arc<Group>)>>,
    gone: Mutex<Gone>,
}

/// VCPUs that ended.
#[derive(Default)]
struct Gone {
    /// Whose programs the supervisor is to end.
    ended: Vec<VcpuId>,
    /// Whose end no thread waits for.
    left: Vec<(VcpuId, Option<Box<VcpuHandle>>)>,
}

impl Mailbox {
    pub(crate) fn new(
        tree: Tree,
        cores: Vec<HardwareCore>,
        means: Means,
        source: Source,
        palette: Palette,
        clock: Clock,
        first_id: u32,
    ) -> io::Result<Self> {
        Ok(Self {
            queue: Mutex::new(Vec::with_capacity(64)),
            wakeup: Wakeup::new()?,
            jobs: Jobs::new(0)?,
            next_id: AtomicU32::new(first_id),
            next_hold: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            supervisor: Wakeup::new()?,
            clock,
            tree: Mutex::new(Some(tree)),
            cores,
            means,
            source,
            palette,
            clients: Mutex::default(),
            bound: Mutex::default(),
            gone: Mutex::default(),
        })
    }
    /// Puts a request in and rings. A late one is dropped, and with it the way of its answer.
    pub(crate) fn post(&self, request: Request) {
        self.post_all([request]);
    }
    /// The same for several, which are answered at one instant.
    pub(super) fn post_all(&self, requests: impl IntoIterator<Item = Request>) {
        let mut queue = lock(&self.queue);
        if !self.closed.load(Ordering::Acquire) {
            queue.extend(requests);
            drop(queue);
            self.wakeup.ring();
        }
    }
    /// Makes something in the run's control groups.
    pub(super) fn in_tree<T>(&self, make: impl FnOnce(&Tree) -> io::Result<T>) -> io::Result<T> {
        let tree = lock(&self.tree);
        make(tree.as_ref().ok_or_else(|| io::Error::other(Refusal::Ending))?)
    }
    /// Removes the run's control groups, which must be empty.
    pub(super) fn remove_tree(&self) -> io::Result<()> {
        lock(&self.tree).take().map_or(Ok(()), Tree::remove)
    }
    /// Posts a request and waits for its answer. One that is not answered in time is withdrawn:
    /// whatever becomes of it is undone by the answering side.
    fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, Refusal> {
        let (reply, answer) = question();
        self.post(request(reply));
        answer.wait(PATIENCE).map_err(|silence| match silence {
            Silence::Over => Refusal::Ending,
            Silence::Late => Refusal::Host(format!(
                "the agents have not answered for {PATIENCE:?}, a core may be stuck; the request \
                 was withdrawn"
            )),
        })
    }
    /// Asks the policy about a VCPU that arrives: the core where it begins.
    pub(super) fn arrive(&self, name: &str, vcpu: &Vcpu) -> Result<CoreId, Refusal> {
        let (name, vcpu) = (name.to_string(), vcpu.clone());
        self.ask(|reply| Request::Create { name, vcpu, reply })?
    }
    /// Lets nothing be frozen or moved.
    fn hold(&self, id: VcpuId) -> Result<Held<'_>, Refusal> {
        let number = self.next_hold.fetch_add(1, Ordering::Relaxed);
        let core = self.ask(|reply| Request::Hold { id, number, reply })?;
        Ok(Held { mailbox: self, number, core })
    }
    /// Changes control groups for `id`, given its core, while nothing is frozen.
    pub(super) fn held<T>(&self, id: VcpuId, act: impl FnOnce(CoreId) -> T) -> Result<T, Refusal> {
        let held = self.hold(id)?;
        Ok(act(held.core))
    }
    /// The file in which programs of `user` may count the progress of a VCPU, if they are to.
    pub(super) fn page(&self, id: VcpuId, user: Option<User>) -> io::Result<Option<Page>> {
        (self.source == Source::Own).then(|| Page::create(id, user)).transpose()
    }
    /// Takes all requests; `false` where a caller holds the lock now (it will ring).
    pub(crate) fn take(&self, into: &mut Vec<Request>) -> bool {
        match self.queue.try_lock() {
            Ok(mut queue) => {
                into.append(&mut queue);
                true
            }
            Err(_) => false,
        }
    }
    /// What rings at each request.
    pub(crate) const fn wakeup(&self) -> &Wakeup {
        &self.wakeup
    }
    /// Asks the supervisor to end the run.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.supervisor.ring();
    }
    /// Whether the end was asked for.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
    /// Drops the requests that will not be answered any more: their callers get
    /// [`Refusal::Ending`], and so do later ones.
    pub(crate) fn close(&self) {
        self.stopping.store(true, Ordering::Release);
        let mut queue = lock(&self.queue);
        self.closed.store(true, Ordering::Release);
        queue.clear();
    }
}

impl Mailbox {
    /// Ends a VCPU and lets its threads go.
    pub(super) fn destroy(&self, id: VcpuId) -> Result<(), Refusal> {
        let live = self.ask(|reply| Request::Destroy { id, reply })??;
        // Moving threads holds locks of the kernel that freezing takes.
        let _held = self.hold(id);
        self.dismiss(id, live)
    }
    /// Ends a VCPU soon, and waits for nothing: the supervisor lets its threads go.
    pub(crate) fn discard(&self, id: VcpuId) {
        self.post(Request::Destroy { id, reply: Reply::unattended() });
    }
    /// Takes over, from the agents, what is left of a VCPU whose end no thread waits for.
    pub(super) fn leave(&self, id: VcpuId, live: Option<Box<VcpuHandle>>) {
        lock(&self.gone).left.push((id, live));
        self.supervisor.ring();
    }
    /// Lets the threads of the VCPUs go that were left so. What is refused the run's end tries
    /// again.
    pub(crate) fn clear_away(&self) {
        let left = std::mem::take(&mut lock(&self.gone).left);
        for (id, live) in left {
            let is_guest = lock(&self.bound).contains_key(&id);
            let _held = is_guest.then(|| self.hold(id));
            let _ = self.dismiss(id, live);
        }
    }
    /// Lets the threads of a VCPU that ended go where they came from, their process too if that
    /// was its last one; where the runtime started them, its supervisor ends them.
    fn dismiss(&self, id: VcpuId, live: Option<Box<VcpuHandle>>) -> Result<(), Refusal> {
        if let Some(mut live) = live {
            live.release()?;
        }
        let mut clients = lock(&self.clients);
        let mut bound = lock(&self.bound);
        let Some((pid, group)) = bound.remove(&id) else {
            lock(&self.gone).ended.push(id);
            self.supervisor.ring();
            return Ok(());
        };
        let last = bound.values().all(|(other, _)| *other != pid);
        drop(bound);
        if let Some(client) = clients.get(&pid) {
            client.dismiss(&group)?;
        }
        if last && let Some(client) = clients.remove(&pid) {
            client.release()?;
        }
        Ok(())
    }
    /// Whether threads of foreign processes are bound.
    pub(super) fn has_guests(&self) -> bool {
        !lock(&self.bound).is_empty()
    }
    /// Ends the VCPUs whose foreign threads have all ended.
    pub(super) fn end_deserted(&self) {
        let is_empty = |group: &Group| group.is_populated().is_ok_and(|populated| !populated);
        let bound = lock(&self.bound);
        let empty = bound.iter().filter(|(_, (_, group))| is_empty(group));
        let empty: Vec<_> = empty.map(|(id, _)| *id).collect();
        drop(bound);
        for id in empty {
            // Another caller may have ended it meanwhile; what is left, the run's end removes.
            let _ = self.destroy(id);
        }
    }
    /// VCPUs that were ended on request and whose programs the supervisor is to end.
    pub(crate) fn ended(&self) -> Vec<VcpuId> {
        std::mem::take(&mut lock(&self.gone).ended)
    }
    /// Lets all foreign processes go; the agents are gone already.
    pub(super) fn dismiss_all(&self) -> Result<(), Refusal> {
        self.clear_away();
        let bound: Vec<_> = lock(&self.bound).keys().copied().collect();
        bound.into_iter().try_for_each(|id| self.dismiss(id, None))?;
        while let Some((_, client)) = lock(&self.clients).pop_first() {
            client.release()?;
        }
        Ok(())
    }
}

/// Asks and changes a running system, from any thread but an agent. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    mailbox: Arc<Mailbox>,
}

impl Handle {
    pub(crate) const fn new(mailbox: Arc<Mailbox>) -> Self {
        Self { mailbox }
    }

    /// Time since the run's start.
    pub fn now(&self) -> Instant {
        self.mailbox.clock.now()
    }

    /// Creates a VCPU and binds `members` to it. `vcpu.id` is ignored: the machine gives the next
    /// number, which is never used again.
    ///
    /// # Errors
    /// [`Refusal::NotAdmitted`] with the policy's numbers; [`Refusal::Host`] where the threads
    /// cannot be moved into a group (nothing is left behind then).
    pub fn create(
        &self,
        name: &str,
        vcpu: Vcpu,
        members: &Members,
    ) -> Result<(VcpuId, CoreId), Refusal> {
        let id = VcpuId(self.mailbox.next_id.fetch_add(1, Ordering::Relaxed));
        let core = self.mailbox.arrive(name, &Vcpu { id, ..vcpu })?;
        let hardware = self.mailbox.cores[usize::from(core.0)];
        match self.mailbox.held(id, |_| self.bind(id, members, hardware)).and_then(|bound| bound) {
            Ok(group) => {
                let (name, means) = (name.to_string(), self.mailbox.means);
                // A bound thread may count too, if it finds the file by the name of its VCPU.
                let page = self.mailbox.page(id, user_of(members.pid)).ok().flatten();
                let progress = Progress::new(self.mailbox.source, page);
                let live = Made {
                    id,
                    name,
                    group,
                    confined: hardware,
                    root: None,
                    means,
                    progress,
                    clock: self.mailbox.clock.clone(),
                }
                .vcpu_handle();
                self.mailbox.post(Request::Attach(Box::new(live)));
                // From now on the supervisor looks whether the threads live.
                self.mailbox.supervisor.ring();
                Ok((id, core))
            }
            Err(refusal) => {
                self.mailbox.discard(id);
                Err(refusal)
            }
        }
    }

    /// Replaces (C, T, D) of a VCPU.
    ///
    /// # Errors
    /// Where it is unknown or the policy refuses; the old reservation stays then.
    pub fn set(&self, id: VcpuId, reservation: Reservation) -> Result<CoreId, Refusal> {
        self.ask(|reply| Request::Set { id, reservation, reply })?
    }

    /// Ends a VCPU: threads of foreign processes go back where they came from, programs that the
    /// runtime started are killed.
    ///
    /// # Errors
    /// Where it is unknown.
    pub fn destroy(&self, id: VcpuId) -> Result<(), Refusal> {
        self.mailbox.destroy(id)
    }

    /// All VCPUs, by increasing id.
    ///
    /// # Errors
    /// [`Refusal::Ending`] where there will be no answer any more.
    pub fn list(&self) -> Result<Vec<VcpuStatus>, Refusal> {
        self.ask(|reply| Request::List { reply })
    }

    /// The program says that it received all the service that this job needs. Wrong or repeated
    /// ids are ignored.
    pub fn completed(&self, job: JobId) {
        self.completed_at(job, self.now());
    }

    /// Like [`Handle::completed`], with the instant at which the program said so.
    pub fn completed_at(&self, job: JobId, at: Instant) {
        if !self.mailbox.jobs.put(job, at) {
            self.mailbox.post(Request::Completed { job, at });
        }
    }

    /// Binds one more thread to a VCPU that [`Handle::create`] made.
    ///
    /// # Errors
    /// Where the VCPU is unknown or the thread cannot be moved.
    pub fn adopt_thread(&self, id: VcpuId, tid: i32) -> Result<(), Refusal> {
        self.mailbox.held(id, |core| {
            let bound = lock(&self.mailbox.bound);
            let (_, group) = bound.get(&id).ok_or(Refusal::Unknown(id))?;
            group.add_thread(tid)?;
            // Without a cpuset that is done thread by thread.
            group.confine(self.mailbox.cores[usize::from(core.0)]).map_err(Refusal::from)
        })??;
        self.mailbox.post(Request::Rescan(id));
        Ok(())
    }

    /// Sets what wakes the programs at job releases from now on, once.
    pub fn set_gate(&self, gate: Arc<dyn JobGate>) {
        let _ = self.mailbox.jobs.gate.set(gate);
    }

    /// Asks the run to end in order, as at the end of its duration.
    pub fn stop(&self) {
        self.mailbox.stop();
    }

    /// Moves the members into a new group. Their process is taken in with its first VCPU.
    fn bind(
        &self,
        id: VcpuId,
        members: &Members,
        core: HardwareCore,
    ) -> Result<Arc<Group>, Refusal> {
        let pid = members.pid;
        let mut clients = lock(&self.mailbox.clients);
        members.check(pid)?;
        if self.mailbox.means.fifo && !self.mailbox.means.kernel {
            may_be_real_time(pid)?;
        }
        let process = Identity::of(pid)?;
        // One that ended while it had no VCPU: the number is another's now.
        if clients.get(&pid).is_some_and(|client| client.process() != process) {
            clients.remove(&pid).map_or(Ok(()), Client::release)?;
        }
        let client = match clients.entry(pid) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(self.mailbox.in_tree(|tree| tree.adopt(pid))?),
        };
        let bound = bind_threads(client, id, members, core);
        let mut all = lock(&self.mailbox.bound);
        match bound {
            Ok(group) => {
                let group = Arc::new(group);
                all.insert(id, (pid, Arc::clone(&group)));
                Ok(group)
            }
            Err(refusal) => {
                // A process whose first VCPU this was goes back where it came from.
                let has_others = all.values().any(|(other, _)| *other == pid);
                if !has_others && let Some(client) = clients.remove(&pid) {
                    client.release()?;
                }
                Err(refusal)
            }
        }
    }

    fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, Refusal> {
        self.mailbox.ask(request)
    }
}

/// Makes the group of a VCPU in that of its process, on `core`, and moves the members there. Where
/// that fails none is left there.
fn bind_threads(
    client: &Client,
    id: VcpuId,
    members: &Members,
    core: HardwareCore,
) -> Result<Group, Refusal> {
    let group = client.vcpu(id)?;
    // Threads are moved by their numbers. Whose a number was when it was moved is certain if it is
    // one of the held process before and after; what was not is let go at once.
    let bind = |tid: &i32| {
        members.check(*tid)?;
        group.add_thread(*tid)?;
        members.check(*tid)
    };
    let moved = group.confine(core).and_then(|()| members.tids.iter().try_for_each(bind));
    // Without a cpuset that is done thread by thread.
    if let Err(error) = moved.and_then(|()| group.confine(core)) {
        client.dismiss(&group)?;
        return Err(error.into());
    }
    Ok(group)
}

/// Refuses a process that the kernel would kill once its threads are real-time.
fn may_be_real_time(pid: i32) -> io::Result<()> {
    let Some(us) = sched::realtime_limit_us(pid) else { return Ok(()) };
    Err(io::Error::other(format!(
        "process {pid} is killed where a real-time thread of it does not sleep for {us} us \
         (RLIMIT_RTTIME), and on a budget it would be one; first: prlimit --pid {pid} \
         --rttime=unlimited"
    )))
}

/// Whose a process is.
fn user_of(pid: i32) -> Option<User> {
    let owner = std::fs::metadata(format!("/proc/{pid}")).ok()?;
    Some(User { uid: owner.uid(), gid: owner.gid() })
}

/// A poisoned lock only says that another thread panicked; what these locks guard is whole then.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
