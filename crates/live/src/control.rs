//! The control socket: asking and changing a running system.
//!
//! One thread serves every client, at `SCHED_OTHER` with the best nice value. Not at real-time
//! priority: programs inside VCPUs may connect, and what they make it do would then be taken from
//! all reservations; even below the foreground, a thread that they keep busy leaves so
//! little to ordinary threads that the kernel's fair server takes the core from all real-time
//! threads. Admission leaves a tenth of every core, so it is never starved either. What must be
//! quick is the way of jobs (`gate`): releases go from the agents straight into the sockets, and
//! the end of a job, on which a global policy may wait to give the core to another, is read at a
//! priority above the foreground, once for each release and one request at a time. (Read at
//! `SCHED_OTHER` it was 3 ms late as a mean, beside builds on both cores.)
//!
//! A client is root or the starting user, by the kernel's word; another gets one refusal and is
//! disconnected. A program that a run started has the rights of its user, but no rights over its
//! neighbours: it may see the list and have its own jobs (`peer`). A client that sends half a
//! message is waited for without holding up others, one that sends nonsense gets an error and is
//! disconnected, one that does not read its replies is not read from. Changes are limited in rate
//! by user (`allowance`): what comes too soon waits, and only its sender with it.

mod allowance;
mod board;
mod connection;
mod gate;
mod peer;

use crate::clock::monotonic_ns;
use crate::host::cgroup::owner::Place;
use crate::host::run_directory::listen;
pub use crate::host::run_directory::{directory, socket_path};
use crate::host::{Identity, rights, sched, sys};
use crate::machine::{Handle, JobGate, Members, Refusal, Service, VcpuStatus};
use allowance::Allowances;
pub use board::Board;
use connection::{Connection, Next};
use gate::{Gate, Waiting, ring};
use maracas_core::control::{
    Gauges, Message, NewVcpu, Reply, Request, VERSION, VcpuState, check_reservation,
};
use maracas_core::{Arrival, CoreId, Duration, Instant, JobId, Reservation, Vcpu, VcpuId};
use maracas_live_core::priority;
use peer::Peer;
use rustix::process::setpriority_process;
use rustix::thread::gettid;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::{io, thread, time};

/// Clients at once that have no jobs. Beyond that the one that has been silent longest must leave.
const CLIENTS: usize = 64;
/// Clients at once that have the jobs of a VCPU: two descriptors each, of the 1024 that a process
/// may have everywhere.
const JOB_CLIENTS: usize = 256;
/// An answer of the agents about all VCPUs serves all clients that ask for a hundred times as long
/// as it took, so that one that asks without end costs them 1 % of a core on any host: 20 us each
/// time on a fast one, 200 us in the lab.
const SHARE: u64 = 100;
/// It does so for this long at least.
const FRESH: Duration = Duration::from_millis(2);
/// And no longer: an answer may take long because other work came first.
const STALE: Duration = Duration::from_millis(50);
/// New connections are accepted this often a turn.
const KNOCKS: usize = 16;

/// The first release comes no sooner after a request than this: by then the threads are bound. One
/// that is past by then is left out, so where that takes longer the first comes a period later.
const BINDING: Duration = Duration::from_millis(20);

/// What the socket gives access to: a [`Handle`], or a stand-in in tests.
pub trait Served: Send + 'static {
    /// As [`Handle::now`].
    fn now(&self) -> Instant;
    /// As [`Handle::create`].
    ///
    /// # Errors
    /// As there.
    fn create(&self, name: &str, vcpu: Vcpu, of: &Members) -> Result<(VcpuId, CoreId), Refusal>;
    /// As [`Handle::set`].
    ///
    /// # Errors
    /// As there.
    fn set(&self, vcpu: VcpuId, reservation: Reservation) -> Result<CoreId, Refusal>;
    /// As [`Handle::destroy`].
    ///
    /// # Errors
    /// As there.
    fn destroy(&self, vcpu: VcpuId) -> Result<(), Refusal>;
    /// As [`Handle::list`].
    ///
    /// # Errors
    /// As there.
    fn list(&self) -> Result<Vec<VcpuStatus>, Refusal>;
    /// A program says that its job was done at `at`.
    fn completed(&self, job: JobId, at: Instant);
}

impl Served for Handle {
    fn now(&self) -> Instant {
        self.now()
    }
    fn create(&self, name: &str, vcpu: Vcpu, of: &Members) -> Result<(VcpuId, CoreId), Refusal> {
        self.create(name, vcpu, of)
    }
    fn set(&self, vcpu: VcpuId, reservation: Reservation) -> Result<CoreId, Refusal> {
        self.set(vcpu, reservation)
    }
    fn destroy(&self, vcpu: VcpuId) -> Result<(), Refusal> {
        self.destroy(vcpu)
    }
    fn list(&self) -> Result<Vec<VcpuStatus>, Refusal> {
        self.list()
    }
    fn completed(&self, job: JobId, at: Instant) {
        self.completed_at(job, at);
    }
}

/// The running server.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    gate: Arc<Gate>,
    stop: Arc<(AtomicBool, File)>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Server {
    /// Serves `run`, scheduled by `policy`, on [`socket_path`], with the gauges on `board`.
    ///
    /// # Errors
    /// Where the socket cannot be made, with its path.
    pub fn start(run: impl Served, policy: &str, board: Board) -> io::Result<Self> {
        Self::start_at(socket_path()?, run, policy, board)
    }

    fn start_at(path: PathBuf, run: impl Served, policy: &str, board: Board) -> io::Result<Self> {
        let named = |error| io::Error::other(format!("{}: {error}", path.display()));
        let listener = listen(&path).map_err(named)?;
        let gate = Arc::new(Gate::new()?);
        let stop = Arc::new((AtomicBool::new(false), gate::wakeup()?));
        let mut desk = Desk {
            run,
            policy: policy.to_string(),
            board,
            identity: Identity::own()?,
            allowed: peer::Allowed::here(),
            allowances: Allowances::default(),
            gate: Arc::clone(&gate),
            waiting: Waiting::default(),
            clients: Vec::new(),
            rest: Vec::new(),
            listed: None,
            turn: 0,
        };
        let (theirs, end) = (Arc::clone(&stop), path.clone());
        let (tell, reported) = sync_channel(1);
        let serve = move || {
            be_nice();
            rights::drop_for_server();
            let _ = tell.send(gettid().as_raw_nonzero().get());
            while !theirs.0.load(Ordering::Acquire) {
                desk.turn(&listener, &theirs.1);
            }
            desk.close();
            let _ = fs::remove_file(end);
        };
        let mut threads = vec![thread::Builder::new().name("control".into()).spawn(serve)?];
        let (theirs, hints) = (Arc::clone(&stop), Arc::clone(&gate));
        let usher = move || {
            let Ok(server) = reported.recv() else { return };
            let _ = sched::set_fifo(0, priority::RUNTIME, true);
            // An error leaves it with more rights than it needs, which it never uses.
            let _ = rights::keep(rights::Duty::Usher);
            let over = || theirs.0.load(Ordering::Acquire);
            hints.usher(theirs.1.as_raw_fd(), over, || hurry(server));
        };
        threads.push(thread::Builder::new().name("usher".into()).spawn(usher)?);
        Ok(Self { path, gate, stop, threads })
    }

    /// The socket, for `MARACAS_SOCKET` of started programs.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What wakes programs at job releases: for [`Handle::set_gate`].
    pub fn gate(&self) -> Arc<dyn JobGate> {
        Arc::clone(&self.gate) as Arc<dyn JobGate>
    }

    /// Job releases that reached no program so far.
    pub fn lost_releases(&self) -> u64 {
        self.gate.lost()
    }
}

/// Ends the service and removes the socket.
impl Service for Server {}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.0.store(true, Ordering::Release);
        ring(&self.stop.1);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Says why a client is refused; a socket so new takes the whole sentence, or it is lost.
fn say(stream: &UnixStream, refusal: String) {
    let mut frame = Vec::new();
    if Reply::Error(refusal).write(&mut frame).is_ok() && stream.set_nonblocking(true).is_ok() {
        let _ = io::Write::write(&mut &*stream, &frame);
    }
}

/// Lets the server's thread, 0 = the calling one, go before the foreground.
fn hurry(server: i32) {
    // Refused where nothing is real-time either.
    let _ = sched::set_fifo(server, priority::RUNTIME, true);
}

/// An ordinary thread again.
fn step_back() {
    let _ = sched::set_other(0);
}

fn be_nice() {
    // `None` is the calling thread. Without the right nothing changes.
    let _ = setpriority_process(None, -20);
}

/// The server's thread at work.
struct Desk<R> {
    run: R,
    policy: String,
    board: Board,
    identity: Identity,
    allowed: peer::Allowed,
    /// How many changes each user may still ask for.
    allowances: Allowances,
    gate: Arc<Gate>,
    waiting: Waiting,
    clients: Vec<Connection>,
    /// Clients whose requests were interrupted, since a job of another was in a hurry.
    rest: Vec<RawFd>,
    /// The last answer of the agents about all VCPUs, and until when it serves.
    listed: Option<(Instant, Vec<VcpuStatus>)>,
    /// Counts turns: which client was served last, and when.
    turn: u64,
}

impl<R: Served> Desk<R> {
    /// Waits for something to do, and does it.
    fn turn(&mut self, listener: &UnixListener, stop: &File) {
        let entry = |fd: RawFd, events| libc::pollfd { fd, events, revents: 0 };
        let mut set = vec![
            entry(stop.as_raw_fd(), libc::POLLIN),
            entry(self.gate.wakeup().as_raw_fd(), libc::POLLIN),
            // What cannot be let in waits in the socket's queue.
            entry(if self.is_full() { -1 } else { listener.as_fd().as_raw_fd() }, libc::POLLIN),
        ];
        let fixed = set.len();
        for client in &self.clients {
            let waits = client.slot().is_some_and(|vcpu| self.waiting.any(vcpu));
            // One whose request waits for its time is not looked at: poll takes no notice of -1.
            let fd = if client.due().is_some() { -1 } else { client.as_raw_fd() };
            set.push(entry(fd, client.events(waits)));
        }
        step_back();
        // A hint that came since: the one that raised this thread had no effect.
        if self.gate.is_hinted() {
            hurry(0);
        }
        let patience = if self.rest.is_empty() { self.patience() } else { 0 };
        // An interruption only costs a turn.
        let _ = sys::poll(&mut set, patience);
        self.turn += 1;
        let urgent = self.gate.take_hint();
        if set[1].revents != 0 && !urgent {
            self.collect();
        }
        let served = |(entry, client): &(&libc::pollfd, &Connection)| {
            entry.revents != 0 && (client.slot().is_some() || !urgent)
        };
        let pairs = set[fixed..].iter().zip(&self.clients).filter(served);
        let mut ready: Vec<RawFd> = pairs.map(|(entry, _)| entry.fd).collect();
        if !urgent {
            ready.extend(self.due());
            self.rest.retain(|socket| !ready.contains(socket));
            ready.append(&mut self.rest);
        }
        for socket in ready {
            self.attend(socket, urgent);
        }
        if set[2].revents != 0 && !urgent {
            self.admit(listener);
        }
    }

    /// Does at the agents' side what takes a lock that they take too (`gate`).
    fn at_once<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        hurry(0);
        let done = act(self);
        if !self.gate.is_hinted() {
            step_back();
        }
        done
    }

    fn collect(&mut self) {
        self.at_once(|Self { clients, waiting, gate, .. }| {
            waiting.collect(gate, |vcpu| {
                clients.iter().find(|c| c.slot() == Some(vcpu)).map(AsRawFd::as_raw_fd)
            });
        });
    }

    /// Accepts new clients, or says to them why not; refused ones leave at once and take no other
    /// client's place. A few a turn, so that a process which connects all the time does not keep
    /// the others waiting.
    fn admit(&mut self, listener: &UnixListener) {
        for _ in 0..KNOCKS {
            if self.gate.is_hinted() || self.is_full() {
                return;
            }
            let Ok((stream, _)) = listener.accept() else { return };
            let peer = Peer::of(&stream, self.identity);
            let peer = peer.map_err(|_| "the client must live until it is answered".to_string());
            let peer = peer.and_then(|peer| self.allowed.check(&peer).map(|()| peer));
            let peer = match peer {
                Ok(peer) => peer,
                Err(refusal) => {
                    say(&stream, refusal);
                    continue;
                }
            };
            let Ok(client) = Connection::new(stream, peer, self.turn) else { continue };
            if let Some(socket) = self.surplus() {
                self.dismiss(socket);
            }
            self.clients.push(client);
        }
    }

    fn has_room(&self) -> bool {
        self.clients.iter().filter(|client| client.slot().is_none()).count() < CLIENTS
    }

    /// Whether no client can be let in: those that are there wait for their time.
    fn is_full(&self) -> bool {
        !self.has_room() && self.surplus().is_none()
    }

    /// Who leaves for another one, where there is no room: the client that has been silent longest,
    /// of programs inside first, so that they cannot keep others out. None whose request waits for
    /// its time, and none with jobs.
    fn surplus(&self) -> Option<RawFd> {
        let silent =
            |client: &&Connection| (client.peer().place == Place::Outside, client.observed());
        let idle = |client: &&Connection| client.slot().is_none() && client.due().is_none();
        let longest = || self.clients.iter().filter(idle).min_by_key(silent);
        if self.has_room() { None } else { longest().map(AsRawFd::as_raw_fd) }
    }

    fn dismiss(&mut self, socket: RawFd) {
        let Some(at) = self.clients.iter().position(|c| c.as_raw_fd() == socket) else { return };
        match self.clients[at].slot() {
            Some(vcpu) => self.at_once(|desk| {
                desk.waiting.free_slot(&desk.gate, vcpu);
                desk.clients.remove(at);
            }),
            None => _ = self.clients.remove(at),
        }
    }

    fn close(&mut self) {
        while let Some(client) = self.clients.first() {
            self.dismiss(client.as_raw_fd());
        }
    }

    /// Serves one client: what one read brings, so that no client keeps the others waiting. Above
    /// the foreground, or where that is wanted meanwhile, one request: a program may have sent
    /// hundreds.
    fn attend(&mut self, socket: RawFd, urgent: bool) {
        let mut read = true;
        loop {
            if self.gate.is_hinted() && !urgent || urgent && !read {
                if !self.rest.contains(&socket) {
                    self.rest.push(socket);
                }
                return;
            }
            // A request may make any client leave, this one too.
            let at = self.clients.iter().position(|client| client.as_raw_fd() == socket);
            let Some(at) = at else { return };
            if let Some(vcpu) = self.clients[at].slot() {
                if self.waiting.any(vcpu) {
                    self.at_once(|desk| desk.waiting.flush(&desk.gate, vcpu, socket));
                }
                if !read && self.gate.has_credit(vcpu) {
                    self.at_once(|desk| desk.gate.await_hint(vcpu, socket));
                }
            }
            let reply = match self.clients[at].next(read.then_some(self.turn)) {
                Next::Nothing => return,
                Next::Gone => return self.dismiss(socket),
                Next::Nonsense(why) => {
                    self.clients[at].linger();
                    Some(Reply::Error(why.to_string()))
                }
                Next::Request(request) => match self.must_wait(at, &request) {
                    Some(until) => return self.clients[at].park(request, until),
                    None => self.answer(at, request),
                },
            };
            if let Some(reply) = reply {
                let client = self.clients.iter_mut().find(|client| client.as_raw_fd() == socket);
                client.into_iter().for_each(|client| client.reply(&reply));
            }
            read = false;
        }
    }

    fn answer(&mut self, at: usize, request: Request) -> Option<Reply> {
        let client = &mut self.clients[at];
        let (peer, slot) = (client.peer().clone(), client.slot());
        if let Request::Hello { version } = request {
            return Some(self.hello(at, version));
        }
        if !client.greeted() {
            client.linger();
            return Some(Reply::Error("say hello first".into()));
        }
        if let Err(refusal) = peer.place.may(&request) {
            return Some(Reply::Error(refusal));
        }
        if let Request::JobDone { job, at: when } = request {
            if slot == Some(job.vcpu) {
                // Whatever else it sends wakes no agent.
                if self.gate.is_owed(job) {
                    self.run.completed(job, when.min(self.run.now()));
                }
                return None;
            }
            client.linger();
            return Some(Reply::Error(format!("{} is not this connection's VCPU", job.vcpu)));
        }
        if let Some(vcpu) = slot {
            client.linger();
            return Some(Reply::Error(format!("this connection is for the jobs of {vcpu} alone")));
        }
        if !matches!(request, Request::List | Request::Jobs { .. } | Request::Gauges) {
            if !peer.is_there() {
                client.linger();
                let why = "the process that connected has ended, and no other may change things \
                           in its name; connect anew";
                return Some(Reply::Error(why.into()));
            }
            self.listed = None;
        }
        Some(match request {
            Request::Hello { .. } | Request::JobDone { .. } => Reply::Done,
            Request::Create(new) => self.create(&new, &peer),
            Request::Set { vcpu, reservation } => self.set(vcpu, reservation),
            Request::Destroy { vcpu } => match self.run.destroy(vcpu) {
                Ok(()) => Reply::Done,
                Err(refusal) => refused(&refusal),
            },
            Request::List => match self.list() {
                Ok(list) => Reply::Vcpus(list.iter().map(state).collect()),
                Err(refusal) => refused(&refusal),
            },
            Request::Jobs { vcpu } => return self.jobs(at, vcpu),
            Request::Gauges => match self.board.latest() {
                Some(gauges) => Reply::Gauges(Box::new(Gauges::clone(&gauges))),
                None => Reply::Error("this run shows no gauges".into()),
            },
        })
    }

    /// All VCPUs, as of a moment ago.
    fn list(&mut self) -> Result<&[VcpuStatus], Refusal> {
        let asked = self.run.now();
        let list = match self.listed.take() {
            Some((until, list)) if asked < until => (until, list),
            Some(_) | None => {
                let list = self.run.list()?;
                let answered = self.run.now();
                let serves = (answered.saturating_since(asked) * SHARE).clamp(FRESH, STALE);
                (answered.saturating_add(serves), list)
            }
        };
        Ok(&self.listed.insert(list).1)
    }

    fn hello(&mut self, at: usize, version: u32) -> Reply {
        if version != VERSION {
            self.clients[at].linger();
            return Reply::Error(format!(
                "version {version} was asked for, this run speaks version {VERSION}; \
                 use the client that came with it"
            ));
        }
        self.clients[at].greet();
        let origin = monotonic_ns().saturating_sub(self.run.now().ticks());
        let pid = self.identity.pid.unsigned_abs();
        Reply::Hello { version: VERSION, pid, policy: self.policy.clone(), origin }
    }

    fn create(&mut self, new: &NewVcpu, peer: &Peer) -> Reply {
        let checked = new.check().and_then(|()| peer.members(new.members, self.identity));
        let members = match checked {
            Ok(members) => members,
            Err(why) => return Reply::Error(why),
        };
        self.allowances.moved(peer.user, members.tids.len(), time::Instant::now());
        let name = if new.name.is_empty() { peer::name_of(&members) } else { new.name.clone() };
        let mut vcpu = new.vcpu.clone();
        // A client counts from now, the run from its start.
        if let Arrival::Periodic { offset } = &mut vcpu.arrival {
            *offset = self.run.now().saturating_add((*offset).max(BINDING)) - Instant::ZERO;
        }
        match self.run.create(&name, vcpu, &members) {
            Ok((vcpu, core)) => Reply::Created { vcpu, core },
            Err(refusal) => refused(&refusal),
        }
    }

    fn set(&self, vcpu: VcpuId, reservation: Reservation) -> Reply {
        if let Err(why) = check_reservation(&reservation) {
            return Reply::Error(why);
        }
        match self.run.set(vcpu, reservation) {
            Ok(core) => Reply::Created { vcpu, core },
            Err(refusal) => refused(&refusal),
        }
    }

    /// The connection becomes the one for a VCPU's jobs; an older one must leave.
    fn jobs(&mut self, at: usize, vcpu: VcpuId) -> Option<Reply> {
        match self.list() {
            Ok(list) if list.iter().any(|status| status.id == vcpu) => {}
            Ok(_) => return Some(refused(&Refusal::Unknown(vcpu))),
            Err(refusal) => return Some(refused(&refusal)),
        }
        let socket = self.clients[at].as_raw_fd();
        let before = self.clients.iter().find(|client| client.slot() == Some(vcpu));
        if let Some(before) = before.map(AsRawFd::as_raw_fd) {
            self.dismiss(before);
        }
        if self.clients.iter().filter(|client| client.slot().is_some()).count() >= JOB_CLIENTS {
            let why = format!("{JOB_CLIENTS} programs have jobs of this run, which is the most");
            return Some(Reply::Error(why));
        }
        let client = self.clients.iter_mut().find(|client| client.as_raw_fd() == socket)?;
        // The answer first, since releases follow at once and are sent past the replies.
        client.reply(&Reply::Done);
        if client.sit(vcpu) {
            hurry(0);
            self.waiting.slot(&self.gate, vcpu, client.stream());
            step_back();
        }
        None
    }
}

fn refused(refusal: &Refusal) -> Reply {
    match refusal {
        Refusal::NotAdmitted(why) => Reply::Refused(why.into()),
        Refusal::Unknown(_) | Refusal::Host(_) | Refusal::Ending => {
            Reply::Error(refusal.to_string())
        }
    }
}

fn state(status: &VcpuStatus) -> VcpuState {
    VcpuState {
        vcpu: status.id,
        name: status.name.clone(),
        reservation: status.reservation,
        core: status.core,
        threads: u32::try_from(status.threads).unwrap_or(u32::MAX),
        mode: status.mode,
        foreground: status.foreground,
        background: status.background,
    }
}

#[cfg(test)]
#[allow(unsafe_code, reason = "processes of its own, which make system calls alone")]
mod tests;
