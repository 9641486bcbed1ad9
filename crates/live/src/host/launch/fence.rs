//! Closing the ways out of a VCPU: rights, files, signals, namespaces. Called between `fork` and
//! `execve`, so nothing here allocates once the [`Fence`] stands.

use crate::host::sys;
use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::{io, ptr};

/// The capabilities that a program started by root keeps, as numbers of `linux/capability.h`:
/// those that file, network and user handling of ordinary programs need (the usual set of
/// containers without `MKNOD`, with `IPC_LOCK`, since real-time programs lock their memory).
pub const KEPT: [u32; 13] = [
    0,  // CHOWN
    1,  // DAC_OVERRIDE
    3,  // FOWNER
    4,  // FSETID
    5,  // KILL, held by the signal scope
    6,  // SETGID
    7,  // SETUID
    10, // NET_BIND_SERVICE
    13, // NET_RAW
    14, // IPC_LOCK
    18, // SYS_CHROOT
    29, // AUDIT_WRITE
    31, // SETFCAP
];

/// The highest number ever given is 40 (CHECKPOINT_RESTORE); the kernel refuses what it lacks.
const CAPABILITIES: u32 = 64;

/// Below /proc: what changes the kernel itself and asks for no capability, only for root's number.
const KERNEL_FILES: [&CStr; 5] =
    [c"/proc/sys", c"/proc/sysrq-trigger", c"/proc/irq", c"/proc/bus", c"/proc/fs"];

const KEPT_BITS: u64 = {
    let (mut bits, mut at) = (0, 0);
    while at < KEPT.len() {
        bits |= 1 << KEPT[at];
        at += 1;
    }
    bits
};

/// What must be prepared before the fork.
pub(super) struct Fence {
    mounts: Vec<CString>,
    filter: Vec<libc::sock_filter>,
}

impl Fence {
    /// With the places where control groups are mounted.
    pub(super) fn new(mounts: &[PathBuf]) -> io::Result<Fence> {
        let outside = mounts.iter().filter(|mount| !mount.starts_with("/sys"));
        let mounts = outside.map(|mount| sys::c_path(mount)).collect::<io::Result<_>>()?;
        Ok(Fence { mounts, filter: call_filter() })
    }

    /// Gives the process mounts of its own in which everything below /sys, control groups among
    /// it, and the kernel's settings are read-only. Without `CAP_SYS_ADMIN` it cannot undo that.
    pub(super) fn close_files(&self) -> bool {
        // SAFETY: plain calls on strings that end in zero.
        unsafe {
            let private = libc::MS_REC | libc::MS_SLAVE;
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(ptr::null(), c"/".as_ptr(), ptr::null(), private, ptr::null()) == 0
                && read_only(c"/sys")
                && self.mounts.iter().all(|mount| read_only(mount))
                && KERNEL_FILES.iter().all(|path| shadow(path))
        }
    }

    /// Only processes that it started itself can be signalled, traced or inspected by it.
    /// Landlock's signal scope, ABI 6 (Linux 6.12).
    pub(super) fn close_signals(&self) -> bool {
        /// `struct landlock_ruleset_attr`.
        #[repr(C)]
        struct Ruleset {
            handled_access_fs: u64,
            handled_access_net: u64,
            scoped: u64,
        }
        const LANDLOCK_SCOPE_SIGNAL: u64 = 1 << 1;
        let rules =
            Ruleset { handled_access_fs: 0, handled_access_net: 0, scoped: LANDLOCK_SCOPE_SIGNAL };
        // SAFETY: a structure of our own; an older kernel refuses the field that it lacks.
        unsafe {
            let size = size_of::<Ruleset>();
            let set = libc::syscall(libc::SYS_landlock_create_ruleset, &raw const rules, size, 0);
            set >= 0 && libc::syscall(libc::SYS_landlock_restrict_self, set, 0) == 0
        }
    }

    /// No new user namespace: inside one it would hold every capability, could mount the control
    /// groups from its own group on, and so rewrite its cpuset. No limits of other processes.
    pub(super) fn close_calls(&self) -> bool {
        if self.filter.is_empty() {
            return false;
        }
        let program = libc::sock_fprog {
            len: self.filter.len() as u16,
            filter: self.filter.as_ptr().cast_mut(),
        };
        // SAFETY: the kernel copies the filter during the call.
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &program) == 0 }
    }
}

/// Tries the whole fence in a throw-away process: which of rights, files and signals close.
pub(in crate::host) fn trial(mounts: &[PathBuf]) -> io::Result<(bool, bool, bool)> {
    let fence = Fence::new(mounts)?;
    let child = super::fork(None, || {
        let files = fence.close_files();
        drop_bounding();
        drop_capabilities();
        // SAFETY: plain arguments; ends the throw-away process without running the parent's code.
        unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            let rights = rights_are_gone() && fence.close_calls();
            let signals = fence.close_signals();
            libc::_exit(i32::from(rights) | i32::from(files) << 1 | i32::from(signals) << 2)
        }
    })?;
    match super::wait(child.pid, 0)? {
        Some(super::Exit::Code(bits)) => Ok((bits & 1 != 0, bits & 2 != 0, bits & 4 != 0)),
        _ => Err(io::Error::other("the trial process was killed")),
    }
}

/// Limits what any later program can hold, whatever its file or user says.
pub(super) fn drop_bounding() {
    for capability in (0..CAPABILITIES).filter(|number| !KEPT.contains(number)) {
        // Refused where we may not drop it, or where the kernel does not know it;
        // `rights_are_gone` looks at the result.
        // SAFETY: plain arguments.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
}

/// Gives up every capability that is not kept, now and for the programs to come.
pub(super) fn drop_capabilities() -> libc::c_long {
    let mut words = capabilities();
    for (at, word) in words.iter_mut().enumerate() {
        let kept = (KEPT_BITS >> (32 * at)) as u32;
        word.effective &= kept;
        word.permitted &= kept;
        word.inheritable = 0;
    }
    // SAFETY: header and words are as version 3 of the call defines them.
    unsafe {
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        libc::syscall(libc::SYS_capset, &raw const HEADER, words.as_ptr())
    }
}

/// Whether nothing beyond the kept capabilities is in reach.
pub(super) fn rights_are_gone() -> bool {
    let held = capabilities().iter().enumerate().any(|(at, word)| {
        let kept = (KEPT_BITS >> (32 * at)) as u32;
        (word.permitted | word.effective | word.inheritable) & !kept != 0
    });
    // no_new_privs keeps a user other than root from the bounding set, so it need not be cut.
    // SAFETY: plain arguments.
    let root = unsafe { libc::geteuid() } == 0;
    let reachable = (0..CAPABILITIES).filter(|number| !KEPT.contains(number));
    let mut reachable = reachable
        .filter(|number| unsafe { libc::prctl(libc::PR_CAPBSET_READ, *number, 0, 0, 0) } == 1);
    !held && (!root || reachable.next().is_none())
}

/// `struct __user_cap_header_struct`, version 3, the calling process.
#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

static HEADER: Header = Header { version: 0x2008_0522, pid: 0 };

/// `struct __user_cap_data_struct`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Word {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

fn capabilities() -> [Word; 2] {
    let mut words = [Word::default(); 2];
    // SAFETY: version 3 fills two words.
    unsafe { libc::syscall(libc::SYS_capget, &raw const HEADER, words.as_mut_ptr()) };
    words
}

/// Makes a mount and all below it read-only, in this process' view.
unsafe fn read_only(path: &CStr) -> bool {
    // SAFETY: strings and structures of our own.
    unsafe {
        let mut attributes: libc::mount_attr = std::mem::zeroed();
        attributes.attr_set = libc::MOUNT_ATTR_RDONLY;
        let recursive = libc::AT_RECURSIVE;
        let size = size_of::<libc::mount_attr>();
        let here = libc::AT_FDCWD;
        let number = libc::SYS_mount_setattr;
        libc::syscall(number, here, path.as_ptr(), recursive, &raw const attributes, size) == 0
    }
}

/// Lays a read-only view of a path over the path itself. A path that is not there needs none.
unsafe fn shadow(path: &CStr) -> bool {
    // SAFETY: strings of our own.
    unsafe {
        let bind = libc::MS_BIND | libc::MS_REC;
        if libc::mount(path.as_ptr(), path.as_ptr(), ptr::null(), bind, ptr::null()) != 0 {
            return io::Error::last_os_error().raw_os_error() == Some(libc::ENOENT);
        }
        read_only(path)
    }
}

/// `AUDIT_ARCH_*` of `linux/audit.h` with the numbers of `clone`, `unshare`, `prlimit64` there.
#[cfg(target_arch = "x86_64")]
const CALLS: [(u32, [u32; 3]); 2] = [(0xC000_003E, [56, 272, 302]), (0x4000_0003, [120, 310, 340])];
#[cfg(target_arch = "aarch64")]
const CALLS: [(u32, [u32; 3]); 2] = [(0xC000_00B7, [220, 97, 261]), (0x4000_0028, [120, 337, 369])];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const CALLS: [(u32, [u32; 3]); 0] = [];

/// Refuses `CLONE_NEWUSER`, and `prlimit` on any process but the caller: the limits of the runtime
/// are its own user's to lower, even to its death. `clone3` hides its flags behind a pointer, so
/// it is "not implemented" and the C library falls back to `clone`. Every other call passes.
fn call_filter() -> Vec<libc::sock_filter> {
    // seccomp_data: nr at 0, arch at 4, the low half of the first argument at 16.
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    /// The same number on every architecture.
    const CLONE3: u32 = 435;
    /// x32 calls are x86-64 calls with this bit.
    const X32: u32 = 0x4000_0000;
    let op = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let refuse = |errno: i32| libc::SECCOMP_RET_ERRNO | errno as u32;
    let mut filter = Vec::new();
    for (arch, [clone, unshare, prlimit]) in CALLS {
        filter.extend([
            op(LOAD, 0, 0, 4),
            op(EQUAL, 0, 13, arch),
            op(LOAD, 0, 0, 0),
            op(AND, 0, 0, !X32),
            op(EQUAL, 8, 0, CLONE3),
            op(EQUAL, 2, 0, clone),
            op(EQUAL, 1, 0, unshare),
            op(EQUAL, 2, 6, prlimit),
            op(LOAD, 0, 0, 16),
            op(ANY_BIT, 2, 4, libc::CLONE_NEWUSER as u32),
            op(LOAD, 0, 0, 16),
            op(EQUAL, 2, 0, 0),
            op(RETURN, 0, 0, refuse(libc::EPERM)),
            op(RETURN, 0, 0, refuse(libc::ENOSYS)),
            op(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        ]);
    }
    if !filter.is_empty() {
        filter.push(op(RETURN, 0, 0, refuse(libc::ENOSYS)));
    }
    filter
}
