//! The descriptor server: a socket beside the page at which a process gets descriptors of itself.
//!
//! The kernel shows page frame numbers to a process for which `/proc/PID/pagemap` was opened by a
//! process with `CAP_SYS_ADMIN`, and lets a process take pages away from system calls that use them
//! if it has `/dev/userfaultfd` open. The runtime has those rights and its programs do not, so it
//! opens both for them. A process gets its own pagemap and no other's, named by the kernel's word
//! for the peer, and only if it is in the control group of the descriptor server's VCPU, which it
//! cannot leave. It is held from before it is looked at until its pagemap is open (`held`).

use crate::host::cgroup::owner::vcpu_of;
use crate::host::held::Held;
use crate::host::{Identity, rights};
use maracas_core::VcpuId;
use maracas_core::control::color_page::{DESCRIPTORS_PAGEMAP, DESCRIPTORS_USERFAULTFD};
use rustix::net::{
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, sendmsg, shutdown,
};
use rustix::process::geteuid;
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, thread};

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
        let own = geteuid().as_raw();
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
        let _ = shutdown(&self.listener, Shutdown::Both);
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
    let given: Vec<BorrowedFd<'_>> = pagemap.iter().chain(device).map(AsFd::as_fd).collect();
    send(stream, what, &given)
}

/// Sends a byte and at most two descriptors without waiting.
fn send(stream: &UnixStream, byte: u8, given: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut message = SendAncillaryBuffer::new(&mut room);
    if !given.is_empty() {
        message.push(SendAncillaryMessage::ScmRights(given));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(stream, &[io::IoSlice::new(&[byte])], &mut message, flags)?;
    Ok(())
}
