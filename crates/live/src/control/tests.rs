use super::*;
use crate::host::run_directory::{must_be_ours, open_to_all};
use maracas_core::control::{Frames, MAX_BODY};
use maracas_core::{Arrival, Duration, Job};
use std::env;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time;

/// Stands in for a running system; what was asked of it is kept for the test to read.
#[derive(Clone, Default)]
struct Fake(Arc<Reported>);

#[derive(Default)]
struct Reported {
    created: AtomicU32,
    arrivals: Mutex<Vec<Arrival>>,
    done: Mutex<Vec<(JobId, Instant)>>,
    /// What its clock shows beyond [`NOW`], and how much a list takes of that, in nanoseconds.
    passed_ns: AtomicU64,
    list_takes_ns: AtomicU64,
    listed: AtomicU32,
}

const NOW: Instant = Instant::from_ticks(5_000);

impl Served for Fake {
    fn now(&self) -> Instant {
        NOW + Duration::from_nanos(self.0.passed_ns.load(Ordering::SeqCst))
    }
    fn create(&self, name: &str, vcpu: Vcpu, of: &Members) -> Result<(VcpuId, CoreId), Refusal> {
        assert_eq!((name, of.tids.len()), ("camera", 1));
        if vcpu.colors > 0 {
            let reason = "no colours here".to_string();
            return Err(Refusal::NotAdmitted(maracas_core::admission::NotAdmitted {
                reason,
                closest: None,
            }));
        }
        self.0.arrivals.lock().unwrap().push(vcpu.arrival);
        Ok((VcpuId(self.0.created.fetch_add(1, Ordering::SeqCst)), CoreId(0)))
    }
    fn set(&self, vcpu: VcpuId, _: Reservation) -> Result<CoreId, Refusal> {
        Err(Refusal::Unknown(vcpu))
    }
    fn destroy(&self, _: VcpuId) -> Result<(), Refusal> {
        Ok(())
    }
    fn list(&self) -> Result<Vec<VcpuStatus>, Refusal> {
        let takes_ns = self.0.list_takes_ns.load(Ordering::SeqCst);
        self.0.passed_ns.fetch_add(takes_ns, Ordering::SeqCst);
        self.0.listed.fetch_add(1, Ordering::SeqCst);
        let status = |id: u32| VcpuStatus {
            id: VcpuId(id),
            name: "x".repeat(200),
            reservation: Reservation::implicit(Duration::from_millis(1), Duration::from_millis(9)),
            core: CoreId(0),
            mode: None,
            foreground: Duration::ZERO,
            background: Duration::ZERO,
            threads: 1,
        };
        Ok((0..100).map(status).collect())
    }
    fn completed(&self, job: JobId, at: Instant) {
        self.0.done.lock().unwrap().push((job, at));
    }
}

#[test]
fn who_asks_without_end_costs_agents_a_hundredth_whatever_an_answer_takes() {
    let us = |n: u64| n * 1000;
    // On a fast host, in the lab, and behind other work: it takes so long, and serves for so long.
    for (takes, serves) in [(us(5), us(2000)), (us(200), us(20_000)), (us(3000), us(50_000))] {
        let (server, fake) = serve();
        fake.0.list_takes_ns.store(takes, Ordering::SeqCst);
        let mut caller = Caller::new(&server);
        let mut listed = |after: u64| {
            fake.0.passed_ns.fetch_add(after, Ordering::SeqCst);
            assert!(matches!(caller.ask(&Request::List), Some(Reply::Vcpus(_))));
            fake.0.listed.load(Ordering::SeqCst)
        };
        let counts = [listed(0), listed(0), listed(serves - 1), listed(1), listed(serves - 1)];
        assert_eq!(counts, [1, 1, 1, 2, 2], "{takes} ns");
    }
}

/// A server of its own for each test, in a directory of its own.
fn serve() -> (Server, Fake) {
    serve_with(Board::default())
}

fn serve_with(board: Board) -> (Server, Fake) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::SeqCst);
    let name = format!("maracas-control-{}-{number}.sock", std::process::id());
    let fake = Fake::default();
    let path = env::temp_dir().join(name);
    (Server::start_at(path, fake.clone(), "p-edf", board).unwrap(), fake)
}

struct Caller {
    stream: UnixStream,
    frames: Frames,
}

impl Caller {
    fn silent(server: &Server) -> Self {
        let stream = UnixStream::connect(server.path()).unwrap();
        stream.set_read_timeout(Some(time::Duration::from_secs(10))).unwrap();
        Self { stream, frames: Frames::new() }
    }
    fn new(server: &Server) -> Self {
        let mut caller = Self::silent(server);
        let reply = caller.ask(&Request::Hello { version: VERSION });
        assert!(matches!(reply, Some(Reply::Hello { version: VERSION, .. })), "{reply:?}");
        caller
    }
    fn say(&mut self, request: &Request) {
        let mut frame = Vec::new();
        request.write(&mut frame).unwrap();
        self.stream.write_all(&frame).unwrap();
    }
    /// The next reply, or `None` where the server has closed.
    fn receive(&mut self) -> Option<Reply> {
        let mut piece = [0; 4096];
        loop {
            if let Some(reply) = self.frames.take().unwrap() {
                return Some(reply);
            }
            match self.stream.read(&mut piece) {
                Ok(0) | Err(_) => return None,
                Ok(length) => self.frames.extend(&piece[..length]),
            }
        }
    }
    fn ask(&mut self, request: &Request) -> Option<Reply> {
        self.say(request);
        self.receive()
    }
    fn error(&mut self, request: &Request) -> String {
        match self.ask(request) {
            Some(Reply::Error(why)) => why,
            other => panic!("{request:?} was answered by {other:?}"),
        }
    }
}

fn camera() -> NewVcpu {
    // Another user, since the runtime itself is refused.
    let members = maracas_core::control::Members::Thread(std::os::unix::process::parent_id());
    let new = NewVcpu::new(Duration::from_millis(2), Duration::from_millis(10), members);
    NewVcpu { name: "camera".into(), ..new }
}

fn job(vcpu: u32, index: u32) -> Job {
    let id = JobId { vcpu: VcpuId(vcpu), index };
    Job { id, release: Instant::ZERO, deadline: NOW }
}

#[test]
fn requests_are_answered_in_order() {
    let (server, _) = serve();
    let mut caller = Caller::new(&server);
    // All at once, in one write: no answer may be waited for that is already there.
    let mut refused = camera();
    refused.vcpu.colors = 1;
    let mut bytes = Vec::new();
    for request in [Request::Create(camera()), Request::Create(refused), Request::List] {
        request.write(&mut bytes).unwrap();
    }
    caller.stream.write_all(&bytes).unwrap();
    let created = Reply::Created { vcpu: VcpuId(0), core: CoreId(0) };
    assert_eq!(caller.receive(), Some(created));
    let Some(Reply::Refused(why)) = caller.receive() else { panic!("no refusal") };
    assert_eq!(why.text, "no colours here");
    assert!(matches!(caller.receive(), Some(Reply::Vcpus(list)) if list.len() == 100));
    let zero = Reservation::implicit(Duration::ZERO, Duration::ZERO);
    let why = caller.error(&Request::Set { vcpu: VcpuId(0), reservation: zero });
    assert!(why.contains("period 0"), "{why}");
    let fine = camera().vcpu.reservation;
    let why = caller.error(&Request::Set { vcpu: VcpuId(7), reservation: fine });
    assert!(why.contains("no vcpu7"), "{why}");
    let path = server.path().to_path_buf();
    drop(server);
    assert_eq!(caller.receive(), None, "the end of the server must be seen");
    assert!(!path.exists(), "the socket must be removed");
}

#[test]
fn a_client_counts_its_offset_from_now() {
    let (server, fake) = serve();
    fake.0.passed_ns.store(2_000, Ordering::SeqCst);
    let mut caller = Caller::new(&server);
    for ms in [0, 30] {
        let mut new = camera();
        new.vcpu.arrival = Arrival::Periodic { offset: Duration::from_millis(ms) };
        let created = caller.ask(&Request::Create(new));
        assert!(matches!(created, Some(Reply::Created { .. })), "{created:?}");
    }
    let seen = [20_007_000, 30_007_000].map(Duration::from_nanos);
    let seen = seen.map(|offset| Arrival::Periodic { offset });
    assert_eq!(*fake.0.arrivals.lock().unwrap(), seen);
}

#[test]
fn what_waits_for_a_client_that_left_is_not_done() {
    let (server, fake) = serve();
    let created = || fake.0.created.load(Ordering::SeqCst);
    let mut caller = Caller::new(&server);
    let mut bytes = Vec::new();
    // Twenty at once, and ten a second.
    (0..100).for_each(|_| Request::Create(camera()).write(&mut bytes).unwrap());
    caller.stream.write_all(&bytes).unwrap();
    (0..20).for_each(|_| assert!(matches!(caller.receive(), Some(Reply::Created { .. }))));
    drop(caller);
    let before = created();
    thread::sleep(time::Duration::from_secs(1));
    assert!(created() <= before + 1, "{} more were created", created() - before);
}

#[test]
fn gauges_are_the_latest_that_were_published() {
    let board = Board::default();
    let (server, _) = serve_with(board.clone());
    let mut caller = Caller::new(&server);
    assert_eq!(caller.error(&Request::Gauges), "this run shows no gauges");
    for decisions in [3, 4] {
        let gauges = Gauges { decisions, policy: "p-edf".into(), ..Gauges::default() };
        board.publish(gauges.clone());
        assert_eq!(caller.ask(&Request::Gauges), Some(Reply::Gauges(Box::new(gauges))));
    }
}

#[test]
fn nonsense_is_answered_and_shut_out() {
    let (server, _) = serve();
    let why = Caller::silent(&server).error(&Request::List);
    assert_eq!(why, "say hello first");
    let why = Caller::silent(&server).error(&Request::Hello { version: 99 });
    assert!(why.contains("version 99"), "{why}");
    for bytes in [&u32::MAX.to_le_bytes()[..], &[3, 0, 0, 0, 200, 200, 200], &[0, 0, 0, 0]] {
        let mut caller = Caller::silent(&server);
        caller.stream.write_all(bytes).unwrap();
        assert!(matches!(caller.receive(), Some(Reply::Error(_))), "{bytes:?}");
        assert_eq!(caller.receive(), None, "{bytes:?} must end the connection");
    }
    Caller::new(&server);
}

#[test]
fn half_messages_and_slow_readers_hold_up_no_other() {
    let (server, _) = serve();
    let mut half = Caller::silent(&server);
    half.stream.write_all(&(MAX_BODY as u32).to_le_bytes()).unwrap();
    half.stream.write_all(&[7; 100]).unwrap();
    // Never reads; each answer has 20 kB.
    let mute = Caller::new(&server);
    mute.stream.set_nonblocking(true).unwrap();
    let mut frame = Vec::new();
    Request::List.write(&mut frame).unwrap();
    let mut asked = 0;
    let end = time::Instant::now() + time::Duration::from_millis(300);
    while time::Instant::now() < end && asked < 100_000 {
        asked += usize::from((&mute.stream).write_all(&frame).is_ok());
    }
    assert!(asked < 100_000, "the server read on although its answers were not read");
    let mut caller = Caller::new(&server);
    for _ in 0..10 {
        assert!(matches!(caller.ask(&Request::List), Some(Reply::Vcpus(_))));
    }
}

#[test]
fn the_client_silent_longest_makes_room() {
    let (server, _) = serve();
    let mut callers: Vec<Caller> = (0..CLIENTS).map(|_| Caller::new(&server)).collect();
    let jobs = callers[0].ask(&Request::Jobs { vcpu: VcpuId(5) });
    assert_eq!(jobs, Some(Reply::Done));
    let mut one = Caller::new(&server);
    let list = callers[1].ask(&Request::List);
    assert!(matches!(list, Some(Reply::Vcpus(_))), "one with jobs takes the place of no other");
    Caller::new(&server);
    assert_eq!(callers[2].receive(), None, "the oldest without jobs must leave");
    assert!(matches!(one.ask(&Request::List), Some(Reply::Vcpus(_))));
    server.gate().release(&job(5, 0));
    assert_eq!(callers[0].receive(), Some(Reply::Job(job(5, 0))), "one with jobs stays");
}

#[test]
fn releases_come_in_order_before_and_after_the_program_does() {
    let (server, fake) = serve();
    let gate = server.gate();
    (0..10).for_each(|index| gate.release(&job(5, index)));
    let mut caller = Caller::new(&server);
    assert_eq!(caller.ask(&Request::Jobs { vcpu: VcpuId(5) }), Some(Reply::Done));
    (10..20).for_each(|index| gate.release(&job(5, index)));
    for index in 0..20 {
        assert_eq!(caller.receive(), Some(Reply::Job(job(5, index))));
    }
    gate.release(&job(6, 0));
    caller.say(&Request::JobDone { job: job(5, 0).id, at: Instant::from_ticks(7) });
    caller.say(&Request::JobDone { job: job(5, 1).id, at: Instant::NEVER });
    let why = caller.error(&Request::List);
    assert!(why.contains("for the jobs of vcpu5 alone"), "{why}");
    let done = fake.0.done.lock().unwrap().clone();
    // A time that has not come yet is taken for now.
    assert_eq!(done, [(job(5, 0).id, Instant::from_ticks(7)), (job(5, 1).id, NOW)]);
    assert_eq!(server.lost_releases(), 0);
}

#[test]
fn a_full_socket_delays_releases_and_never_the_agent() {
    let (server, _) = serve();
    let gate = server.gate();
    let mut caller = Caller::new(&server);
    assert_eq!(caller.ask(&Request::Jobs { vcpu: VcpuId(1) }), Some(Reply::Done));
    let start = time::Instant::now();
    (0..5_000).for_each(|index| gate.release(&job(1, index)));
    assert!(start.elapsed() < time::Duration::from_secs(5), "releasing must not wait");
    let mut last = None;
    caller.stream.set_read_timeout(Some(time::Duration::from_millis(500))).unwrap();
    while let Some(Reply::Job(job)) = caller.receive() {
        assert!(last < Some(job.id.index), "{} came after {last:?}", job.id.index);
        last = Some(job.id.index);
    }
    assert!(last > Some(100), "only {last:?} came");
}

#[test]
fn another_user_reads_one_refusal() {
    // SAFETY: cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return crate::host::tests::skip("root, to become another user");
    }
    let (server, _) = serve();
    let mut full: Vec<Caller> = (0..CLIENTS).map(|_| Caller::new(&server)).collect();
    let path = server.path().to_path_buf();
    let mut command = Command::new("true");
    command.stdout(Stdio::piped());
    // SAFETY: system calls on buffers of the stack.
    unsafe {
        command.pre_exec(move || {
            if libc::setgid(65_534) != 0 || libc::setuid(65_534) != 0 {
                return Err(io::Error::last_os_error());
            }
            let mut stream = UnixStream::connect(&path)?;
            let mut piece = [0; 512];
            let length = stream.read(&mut piece)?;
            // Shut out: nothing follows, whatever is asked.
            let _ = stream.write_all(&[1, 0, 0, 0, 4]);
            let rest = stream.read(&mut [0; 8]).unwrap_or(0);
            assert_eq!(rest, 0);
            libc::write(1, piece.as_ptr().cast(), length);
            Ok(())
        });
    }
    let output = command.output().unwrap();
    let Ok(Reply::Error(why)) = Reply::read(&output.stdout[4..]) else { panic!("{output:?}") };
    let expected = "user 65534 may not control this run; ask as root or as the starting user";
    assert_eq!(why, expected);
    let first = full[0].ask(&Request::List);
    assert!(matches!(first, Some(Reply::Vcpus(_))), "no client leaves for one that is refused");
}

#[test]
fn a_directory_is_opened_to_all_and_never_shut() {
    let own = env::temp_dir().join(format!("maracas-open-{}", std::process::id()));
    fs::create_dir(&own).unwrap();
    for (before, after) in [(0o700, 0o755), (0o755, 0o755), (0o1777, 0o1777)] {
        fs::set_permissions(&own, Permissions::from_mode(before)).unwrap();
        open_to_all(&own).unwrap();
        assert_eq!(fs::metadata(&own).unwrap().permissions().mode() & 0o7777, after);
    }
    fs::remove_dir(&own).unwrap();
}

#[test]
fn a_directory_below_tmp_must_be_ours_alone() {
    use std::os::unix::fs::symlink;
    let own = env::temp_dir().join(format!("maracas-ours-{}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&own).unwrap();
    assert!(must_be_ours(&own).is_ok());
    let link = own.join("link");
    symlink(&own, &link).unwrap();
    assert!(must_be_ours(&link).is_err());
    fs::set_permissions(&own, Permissions::from_mode(0o755)).unwrap();
    assert!(must_be_ours(&own).unwrap_err().to_string().contains("XDG_RUNTIME_DIR"));
    fs::remove_dir_all(&own).unwrap();
}

#[test]
fn changes_of_one_user_are_limited_in_rate_and_hold_up_no_other() {
    let (server, fake) = serve();
    let mut caller = Caller::new(&server);
    let mut bytes = Vec::new();
    (0..25).for_each(|_| Request::Create(camera()).write(&mut bytes).unwrap());
    let begin = time::Instant::now();
    caller.stream.write_all(&bytes).unwrap();
    for index in 0..20 {
        let created = Reply::Created { vcpu: VcpuId(index), core: CoreId(0) };
        assert_eq!(caller.receive(), Some(created), "twenty at once");
    }
    // Another connection of the same user may look, and waits for its changes like the first.
    let mut other = Caller::new(&server);
    assert!(matches!(other.ask(&Request::List), Some(Reply::Vcpus(_))));
    for _ in 20..25 {
        assert!(matches!(caller.receive(), Some(Reply::Created { .. })));
    }
    let took = begin.elapsed();
    assert!(took >= time::Duration::from_millis(490), "five came within {took:?}");
    assert_eq!(other.ask(&Request::Destroy { vcpu: VcpuId(0) }), Some(Reply::Done));
    let took = begin.elapsed();
    assert!(took >= time::Duration::from_millis(590), "six came within {took:?}");
    assert_eq!(fake.0.created.load(Ordering::SeqCst), 25);
}

#[test]
fn a_client_that_waits_for_its_time_can_leave() {
    let (server, _) = serve();
    let mut caller = Caller::new(&server);
    (0..30).for_each(|_| caller.say(&Request::Destroy { vcpu: VcpuId(0) }));
    (0..20).for_each(|_| assert_eq!(caller.receive(), Some(Reply::Done)));
    drop(caller);
    let mut other = Caller::new(&server);
    assert!(matches!(other.ask(&Request::List), Some(Reply::Vcpus(_))));
    assert_eq!(other.ask(&Request::Destroy { vcpu: VcpuId(0) }), Some(Reply::Done));
}

#[test]
fn a_connection_changes_nothing_once_its_process_has_ended() {
    let (server, fake) = serve();
    let path = server.path().to_path_buf();
    // The child connects, is greeted, and leaves the connection to us.
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = Command::new("true");
    let (passed, mut hello) = (theirs.as_raw_fd(), Vec::new());
    Request::Hello { version: VERSION }.write(&mut hello).unwrap();
    // SAFETY: system calls, on values that the parent made.
    unsafe {
        command.pre_exec(move || {
            let mut stream = UnixStream::connect(&path)?;
            stream.write_all(&hello)?;
            let (mut length, mut reply) = ([0; 4], [0; 512]);
            stream.read_exact(&mut length)?;
            stream.read_exact(&mut reply[..u32::from_le_bytes(length) as usize])?;
            send_descriptor(passed, stream.as_raw_fd())
        });
    }
    assert!(command.status().unwrap().success());
    let stream = receive_descriptor(&ours);
    stream.set_read_timeout(Some(time::Duration::from_secs(10))).unwrap();
    let mut heir = Caller { stream, frames: Frames::new() };
    let why = heir.error(&Request::Destroy { vcpu: VcpuId(0) });
    assert!(why.contains("has ended"), "{why}");
    assert_eq!(fake.0.created.load(Ordering::SeqCst), 0);
}

/// Room for a message with one descriptor.
#[repr(align(8))]
struct Room([u8; 64]);

/// The message with one byte and room for a descriptor.
unsafe fn message(part: &mut libc::iovec, room: &mut Room) -> libc::msghdr {
    // SAFETY: a plain structure of numbers and pointers.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (part, 1);
    message.msg_control = room.0.as_mut_ptr().cast();
    // SAFETY: arithmetic.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(4) } as _;
    message
}

fn send_descriptor(line: i32, given: i32) -> io::Result<()> {
    let (mut byte, mut room) = (0_u8, Room([0; 64]));
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: everything lies on this stack; one descriptor fits the room.
    let sent = unsafe {
        let message = message(&mut part, &mut room);
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(header).cast::<i32>().write_unaligned(given);
        libc::sendmsg(line, &raw const message, 0)
    };
    if sent == 1 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn receive_descriptor(line: &UnixStream) -> UnixStream {
    let (mut byte, mut room) = (0_u8, Room([0; 64]));
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: everything lies on this stack; the descriptor is new and not shared.
    unsafe {
        let mut message = message(&mut part, &mut room);
        assert_eq!(libc::recvmsg(line.as_raw_fd(), &raw mut message, 0), 1);
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        assert!(!header.is_null());
        let given = libc::CMSG_DATA(header).cast::<i32>().read_unaligned();
        std::os::fd::FromRawFd::from_raw_fd(given)
    }
}

#[test]
fn the_servers_threads_keep_few_rights() {
    // SAFETY: cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: needs root, which has rights to give up");
        return;
    }
    let (server, _) = serve();
    let mut caller = Caller::new(&server);
    assert!(matches!(caller.ask(&Request::List), Some(Reply::Vcpus(_))));
    // Other tests have servers of their own, which keep as few; SYS_PTRACE (19), SETUID (7)
    // and DAC_OVERRIDE (1) are none of them. An usher may not have come so far yet.
    let forbidden = 1 << 19 | 1 << 7 | 1 << 1;
    let rights = |name: &str| -> Vec<u64> {
        let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
        let tasks = tasks.filter(|task| {
            let comm = fs::read_to_string(task.path().join("comm"));
            comm.is_ok_and(|comm| comm.trim() == name)
        });
        tasks
            .filter_map(|task| {
                let status = fs::read_to_string(task.path().join("status")).ok()?;
                let line = status.lines().find_map(|line| line.strip_prefix("CapPrm:"))?;
                u64::from_str_radix(line.trim(), 16).ok()
            })
            .collect()
    };
    let end = time::Instant::now() + time::Duration::from_secs(10);
    let few = |name: &str| {
        let found = rights(name);
        !found.is_empty() && found.iter().all(|held| held & forbidden == 0)
    };
    while !(few("control") && few("usher")) {
        let seen = (rights("control"), rights("usher"));
        assert!(time::Instant::now() < end, "rights of the threads: {seen:x?}");
        std::thread::sleep(time::Duration::from_millis(5));
    }
}
