//! Who asks, and what is his.

use crate::host::Identity;
use crate::machine::Members;
use maracas_core::control::Members as Asked;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::{env, fs, io};

/// The user at the other end of a socket, as the kernel vouches for him.
pub(super) fn user_of(stream: &UnixStream) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel fills at most `length` bytes of a structure of our own.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(peer.uid) }
}

/// Who may ask: root and the starting user. Under sudo that is whoever called it.
#[derive(Clone, Debug)]
pub(super) struct Allowed(Vec<u32>);

impl Allowed {
    pub(super) fn here() -> Self {
        // SAFETY: cannot fail.
        let own = unsafe { libc::getuid() };
        let mut users = vec![0, own];
        if own == 0 {
            let caller = env::var("SUDO_UID").ok().and_then(|uid| uid.parse::<u32>().ok());
            users.extend(caller);
        }
        Self(users)
    }

    /// # Errors
    /// The refusal, for a user who is none of them.
    pub(super) fn check(&self, uid: u32) -> Result<(), String> {
        if self.0.contains(&uid) {
            return Ok(());
        }
        Err(format!("user {uid} may not control this run; ask as root or as the starting user"))
    }
}

/// Finds the threads that a request names, if they are the asking user's and free to be bound.
///
/// # Errors
/// One sentence: no such thread, another user's, or one that runs on a VCPU as a whole.
pub(super) fn members(asked: Asked, uid: u32, run: Identity) -> Result<Members, String> {
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
    let (Some(pid), Some(owner)) = (field("Tgid:"), field("Uid:")) else {
        return Err(format!("there is no thread {number}"));
    };
    let pid = pid as i32;
    if uid != 0 && owner != i64::from(uid) {
        return Err(format!("thread {number} is not user {uid}'s; only its owner or root may ask"));
    }
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).map_err(missing)?;
    free(&groups, run).map_err(|why| format!("process {pid} {why}"))?;
    let tids = match asked {
        Asked::Thread(tid) => vec![tid as i32],
        Asked::Process(_) => threads(pid).map_err(missing)?,
    };
    Ok(Members { pid, tids })
}

/// Whether a process in these groups (`/proc/<pid>/cgroup`) may get VCPUs of `run` for its threads.
fn free(groups: &str, run: Identity) -> Result<(), String> {
    for line in groups.lines() {
        let mut parts = line.split('/').skip_while(|part| *part != "maracas").skip(1);
        let (Some(owner), Some(group)) = (parts.next().and_then(Identity::parse), parts.next())
        else {
            continue;
        };
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

    #[test]
    fn processes_of_runs_are_told_from_free_ones() {
        let run = Identity { pid: 4711, start: 88123 };
        let groups = |path: &str| format!("4:cpuset:/\n0::{path}\n");
        assert_eq!(free(&groups("/user.slice/x.scope"), run), Ok(()));
        assert_eq!(free(&groups("/maracas/4711-88123/client-12-5/vcpu-4"), run), Ok(()));
        let started = free(&groups("/maracas/4711-88123/vcpu-3"), run).unwrap_err();
        assert!(started.contains("started on vcpu3"), "{started}");
        let foreign = free(&groups("/a/maracas/99-1/client-12-5"), run).unwrap_err();
        assert!(foreign.contains("process 99"), "{foreign}");
    }

    #[test]
    fn threads_of_others_are_refused() {
        let run = Identity { pid: 1, start: 0 };
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
