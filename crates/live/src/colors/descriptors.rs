//! The descriptor server: a socket beside the page at which a process gets descriptors of itself.
//!
//! The kernel shows page frame numbers to a process for which `/proc/PID/pagemap` was opened by a
//! process with `CAP_SYS_ADMIN`, and lets a process take pages away from system calls that use them
//! if it has `/dev/userfaultfd` open. The runtime has those rights and its programs do not, so it
//! opens both for them. A process gets its own pagemap and no other's, named by the kernel's word
//! for the peer, and only if it is in the control group of the descriptor server's VCPU, which it
//! cannot leave. It is held from before it is looked at until its pagemap is open (`held`).

use crate::control::vcpu_of;
use crate::host::held::Held;
use crate::host::{Identity, rights};
use maracas_core::VcpuId;
use maracas_core::control::color_page::{DESCRIPTORS_PAGEMAP, DESCRIPTORS_USERFAULTFD};
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, mem, ptr, thread};

/// Enough for a thread that makes a few calls; the runtime's memory is locked.
const STACK: usize = 128 << 10;

/// The users that may enter.
type Admitted = Arc<Mutex<BTreeSet<u32>>>;

/// The socket and the thread behind it, both gone when dropped.
#[derive(Debug)]
pub(super) struct DescriptorServer {
    path: PathBuf,
    listener: UnixListener,
    admitted: Admitted,
    supervisor: Option<thread::JoinHandle<()>>,
}

impl DescriptorServer {
    /// Opens the descriptor server of `vcpu` to root and to this process' user.
    pub(super) fn open(path: PathBuf, vcpu: VcpuId) -> io::Result<Self> {
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        // Any process may connect; which one is served is decided by what the kernel says of it.
        fs::set_permissions(&path, Permissions::from_mode(0o666))?;
        // SAFETY: cannot fail.
        let own = unsafe { libc::geteuid() };
        let admitted = Admitted::new(Mutex::new(BTreeSet::from([0, own])));
        let run = Identity::own()?;
        let (theirs, guests) = (listener.try_clone()?, Arc::clone(&admitted));
        let keep = move || {
            // The creating thread may be real-time; what programs ask for is not.
            let _ = crate::host::sched::set_other(0);
            // An error leaves it with more rights than it needs, which it never uses.
            let _ = rights::keep(rights::Duty::Descriptors);
            let device = File::options().read(true).write(true).open("/dev/userfaultfd").ok();
            while let Ok((stream, _)) = theirs.accept() {
                // A process that is refused, or went away, sees the end of the stream.
                let _ = serve(&stream, (run, vcpu), &guests, device.as_ref());
            }
        };
        let builder = thread::Builder::new().name("colors".into()).stack_size(STACK);
        let supervisor = Some(builder.spawn(keep)?);
        Ok(Self { path, listener, admitted, supervisor })
    }

    /// Lets processes of a user in.
    pub(super) fn admit(&self, user: u32) {
        self.admitted.lock().unwrap_or_else(PoisonError::into_inner).insert(user);
    }
}

impl Drop for DescriptorServer {
    fn drop(&mut self) {
        // Ends the wait in `accept`, whatever became of the path.
        // SAFETY: a descriptor of our own.
        unsafe { libc::shutdown(self.listener.as_raw_fd(), libc::SHUT_RDWR) };
        if let Some(supervisor) = self.supervisor.take() {
            let _ = supervisor.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

fn serve(
    stream: &UnixStream,
    (run, vcpu): (Identity, VcpuId),
    admitted: &Admitted,
    device: Option<&File>,
) -> io::Result<()> {
    let (peer, user) = Held::peer(stream)?;
    let known = admitted.lock().unwrap_or_else(PoisonError::into_inner).contains(&user);
    if !known || vcpu_of(&peer.read("cgroup")?, run) != Some(vcpu) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // None where the kernel shows no process' frames.
    let pagemap = peer.by_number(|pid| Ok(File::open(format!("/proc/{pid}/pagemap")).ok()))?;
    let what = pagemap.as_ref().map_or(0, |_| DESCRIPTORS_PAGEMAP)
        | device.map_or(0, |_| DESCRIPTORS_USERFAULTFD);
    let given: Vec<RawFd> = pagemap.iter().chain(device).map(AsRawFd::as_raw_fd).collect();
    send(stream, what, &given)
}

/// Room for the two descriptors of a message, aligned as the kernel wants it.
#[repr(align(8))]
struct Room([u8; 64]);

/// Sends a byte and descriptors without waiting.
fn send(stream: &UnixStream, byte: u8, given: &[RawFd]) -> io::Result<()> {
    let bytes = mem::size_of_val(given);
    let mut room = Room([0; 64]);
    let mut part = libc::iovec { iov_base: (&raw const byte).cast_mut().cast(), iov_len: 1 };
    // SAFETY: a plain structure of numbers and pointers.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    // SAFETY: two descriptors need 24 bytes of the room; the header lies in it.
    let sent = unsafe {
        if !given.is_empty() {
            message.msg_control = room.0.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(bytes as u32) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(bytes as u32) as _;
            ptr::copy_nonoverlapping(given.as_ptr().cast(), libc::CMSG_DATA(header), bytes);
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        libc::sendmsg(stream.as_raw_fd(), &raw const message, flags)
    };
    if sent == 1 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
