//! Which process asks, and what belongs to it.

use super::allowance::MOST_THREADS;
use crate::host::Identity;
use crate::host::cgroup::owner::{Place, placed};
use crate::host::held::Held;
use crate::machine::Members;
use maracas_core::JobId;
use maracas_core::control::{Members as Asked, Request};
use rustix::process::getuid;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::{env, fs, io};

/// The process at the other end of a socket.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) user: u32,
    pub(super) place: Place,
    held: Arc<Held>,
}

impl Peer {
    /// As the kernel vouches for it: the user that connected, and the group in which its process is
    /// now.
    ///
    /// # Errors
    /// When the process has ended, so that its group is unknown.
    pub(super) fn of(stream: &UnixStream, run: Identity) -> io::Result<Peer> {
        let (held, user) = Held::peer(stream)?;
        let place = Place::of(&held.read("cgroup")?, run);
        Ok(Peer { user, place, held: Arc::new(held) })
    }

    /// Whether the process that connected lives: the kernel does not vouch for one to which it
    /// passed its connection on.
    pub(super) fn is_there(&self) -> bool {
        self.held.is_alive()
    }

    /// Finds the threads that it names.
    ///
    /// # Errors
    /// Those of [`members`]; and where it names threads by the numbers of another pid namespace,
    /// which here are those of other threads.
    pub(super) fn members(&self, asked: Asked, run: Identity) -> Result<Members, String> {
        let theirs = self.held.read("status").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/status").unwrap_or_default();
        if namespaces(&theirs) != namespaces(&own) {
            return Err("the process that asks is in another pid namespace than the run, and its \
                        numbers of threads mean others here; ask from the run's"
                .into());
        }
        members(asked, self.user, run)
    }
}

/// In how many nested pid namespaces a process is, by its `/proc/<pid>/status`; `None` before
/// Linux 4.1.
fn namespaces(status: &str) -> Option<usize> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    Some(line.split_whitespace().count())
}

impl Place {
    /// What a program that a run started may ask: to be greeted, the list, the gauges, and its own
    /// jobs.
    ///
    /// # Errors
    /// The refusal of anything else.
    pub(super) fn may(self, request: &Request) -> Result<(), String> {
        let Place::Inside(own) = self else { return Ok(()) };
        let what = match request {
            Request::Hello { .. } | Request::List | Request::Gauges => return Ok(()),
            Request::Jobs { vcpu } | Request::JobDone { job: JobId { vcpu, .. }, .. } => {
                if own == Some(*vcpu) {
                    return Ok(());
                }
                format!("have the jobs of {vcpu}")
            }
            Request::Create(_) => "create VCPUs".to_string(),
            Request::Set { vcpu, .. } => format!("change {vcpu}"),
            Request::Destroy { vcpu } => format!("destroy {vcpu}"),
        };
        let whose = own.map_or("another run".to_string(), |own| own.to_string());
        Err(format!("a program that was started on {whose} may not {what}; ask from outside"))
    }
}

/// Which users may ask: root and the starting user. Under sudo that is the caller of sudo.
#[derive(Clone, Debug)]
pub(super) struct Allowed(Vec<u32>);

impl Allowed {
    pub(super) fn here() -> Self {
        let own = getuid().as_raw();
        let mut users = vec![0, own];
        if own == 0 {
            let caller = env::var("SUDO_UID").ok().and_then(|uid| uid.parse::<u32>().ok());
            users.extend(caller);
        }
        Self(users)
    }

    /// A program that this run started may come in whatever its user is, since its place says what
    /// it may ask.
    ///
    /// # Errors
    /// The refusal, for a user that is none of them.
    pub(super) fn check(&self, peer: &Peer) -> Result<(), String> {
        let uid = peer.user;
        if self.0.contains(&uid) || matches!(peer.place, Place::Inside(Some(_))) {
            return Ok(());
        }
        Err(format!("user {uid} may not control this run; ask as root or as the starting user"))
    }
}

/// Finds the threads that a request names, if they are the asking user's and free to be bound.
///
/// # Errors
/// One sentence: no such thread, another user's, or one that runs on a VCPU as a whole.
fn members(asked: Asked, uid: u32, run: Identity) -> Result<Members, String> {
    let number = match asked {
        Asked::Thread(tid) => tid,
        Asked::Process(pid) => pid,
    };
    let missing = |_| format!("there is no thread {number}");
    let status = fs::read_to_string(format!("/proc/{number}/status")).map_err(missing)?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<i64>().ok()
    };
    let Some(pid) = field("Tgid:") else { return Err(format!("there is no thread {number}")) };
    let pid = pid as i32;
    // From here to the last move it is held. What was read before may be another's by now, so it
    // is read again.
    let held = Held::of(pid).map_err(missing)?;
    let status = held.read(&format!("task/{number}/status")).or_else(|_| held.read("status"));
    let status = status.map_err(missing)?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<i64>().ok()
    };
    let Some(owner) = field("Uid:") else { return Err(format!("there is no thread {number}")) };
    if pid == run.pid || field("PPid:") == Some(i64::from(run.pid)) && names(pid, run) {
        return Err(format!("process {pid} is the runtime or its guardian and needs no VCPU"));
    }
    if uid != 0 && owner != i64::from(uid) {
        return Err(format!("thread {number} is not user {uid}'s; only its owner or root may ask"));
    }
    let groups = held.read("cgroup").map_err(missing)?;
    free(&groups, run).map_err(|why| format!("process {pid} {why}"))?;
    let tids = match asked {
        Asked::Thread(tid) => vec![tid as i32],
        Asked::Process(_) => held.by_number(threads).map_err(missing)?,
    };
    if tids.len() > MOST_THREADS {
        let count = tids.len();
        return Err(format!(
            "process {pid} has {count} threads; at most {MOST_THREADS} are bound at once, so name \
             the threads one by one"
        ));
    }
    Ok(Members { pid, tids, held: Some(Arc::new(held)) })
}

/// Whether a process in these groups (`/proc/<pid>/cgroup`) may get VCPUs of `run` for its threads.
fn free(groups: &str, run: Identity) -> Result<(), String> {
    for (owner, group) in placed(groups) {
        if owner != run {
            return Err(format!("belongs to the run of process {}; end that first", owner.pid));
        }
        if !group.starts_with("client-") {
            return Err(format!(
                "was started on {} as a whole; VCPUs of their own are for threads of programs \
                 that were started outside of the run",
                group.replace('-', "")
            ));
        }
    }
    Ok(())
}

/// Whether a process bears a run's identity among its arguments, as guardians do.
fn names(pid: i32, run: Identity) -> bool {
    let arguments = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    arguments.split('\0').any(|argument| argument == run.to_string())
}

/// What to call a VCPU that was given no name: its program and its first thread's number.
pub(super) fn name_of(members: &Members) -> String {
    let tid = members.tids.first().copied().unwrap_or(members.pid);
    let program = fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
    let kept = program.chars().filter(|c| !c.is_control() && *c != '/').collect::<String>();
    format!("{kept}-{tid}")
}

fn threads(pid: i32) -> io::Result<Vec<i32>> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::VcpuId;

    #[test]
    fn numbers_of_another_namespace_are_told_apart() {
        let status = |line: &str| format!("Name:\tx\nTgid:\t7\n{line}Uid:\t0\t0\t0\t0\n");
        assert_eq!(namespaces(&status("NSpid:\t7\n")), Some(1));
        assert_eq!(namespaces(&status("NSpid:\t4711\t7\n")), Some(2));
        assert_eq!(namespaces(&status("")), None);
    }

    #[test]
    fn processes_of_runs_are_reported_from_free_ones() {
        let run = Identity { pid: 4711, start: 88123, namespace: None };
        let groups = |path: &str| format!("4:cpuset:/\n0::{path}\n");
        assert_eq!(free(&groups("/user.slice/x.scope"), run), Ok(()));
        assert_eq!(free(&groups("/maracas/4711-88123/client-12-5/vcpu-4"), run), Ok(()));
        let started = free(&groups("/maracas/4711-88123/vcpu-3"), run).unwrap_err();
        assert!(started.contains("started on vcpu3"), "{started}");
        let foreign = free(&groups("/a/maracas/99-1/client-12-5"), run).unwrap_err();
        assert!(foreign.contains("process 99"), "{foreign}");
    }

    #[test]
    fn programs_inside_may_ask_for_their_own_jobs_and_no_more() {
        let run = Identity { pid: 4711, start: 88123, namespace: None };
        let place = |path: &str| Place::of(&format!("4:cpuset:/\n0::{path}\n"), run);
        assert_eq!(place("/maracas/4711-88123/client-12-5/vcpu-4"), Place::Outside);
        assert_eq!(place("/maracas/x.scope"), Place::Outside);
        assert_eq!(place("/maracas/9-1/vcpu-4"), Place::Inside(None), "of another run");
        let inside = place("/maracas/a/maracas/4711-88123/vcpu-3/made-by-it");
        assert_eq!(inside, Place::Inside(Some(VcpuId(3))));
        let vcpu = |vcpu: u32| Request::Jobs { vcpu: VcpuId(vcpu) };
        for request in [Request::Hello { version: 1 }, Request::List, Request::Gauges, vcpu(3)] {
            assert_eq!(inside.may(&request), Ok(()));
        }
        let destroy = Request::Destroy { vcpu: VcpuId(4) };
        for request in [vcpu(4), destroy.clone(), Request::Destroy { vcpu: VcpuId(3) }] {
            let why = inside.may(&request).unwrap_err();
            assert!(why.starts_with("a program that was started on vcpu3 may not"), "{why}");
            assert_eq!(Place::Outside.may(&request), Ok(()));
        }
        assert!(Place::Inside(None).may(&vcpu(3)).is_err());
    }

    #[test]
    fn threads_of_others_are_refused() {
        let run = Identity::own().unwrap();
        let why = members(Asked::Process(std::process::id()), 0, run).unwrap_err();
        assert!(why.contains("the runtime or its guardian"), "{why}");
        let run = Identity { pid: i32::MAX, start: 0, namespace: None };
        let own = std::process::id();
        let why = members(Asked::Thread(u32::MAX), 0, run).unwrap_err();
        assert!(why.contains("no thread"), "{why}");
        let why = members(Asked::Process(1), 65_534, run).unwrap_err();
        assert!(why.contains("not user 65534's"), "{why}");
        let mine = members(Asked::Process(own), 0, run).unwrap();
        assert_eq!(mine.pid, own as i32);
        assert!(name_of(&Members { tids: vec![], ..mine.clone() }).ends_with(&format!("-{own}")));
        assert!(mine.tids.contains(&(own as i32)));
    }
}
