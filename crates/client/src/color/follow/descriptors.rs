//! Gets the rights to this process' own frames from the runtime.

use super::super::pagemap::Pagemap;
use super::super::userfault::Right;
use super::{Rights, words};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use std::{io, mem};

/// How long the runtime may take to answer; then the process' own rights must do.
const PATIENCE: Duration = Duration::from_secs(10);

/// Room for the descriptors of a message, aligned as the kernel wants it.
#[repr(align(8))]
struct Room([u8; 64]);

/// What the runtime gives, and what this process has by itself of what it does not give.
pub(super) fn knock(page: &Path) -> Rights {
    let mut path = page.as_os_str().to_os_string();
    path.push(words::DESCRIPTORS);
    let (pagemap, device) = connect(Path::new(&path))
        .and_then(|stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(receive(&stream))
        })
        .unwrap_or_default();
    let pagemap = pagemap.map_or_else(Pagemap::own, |file| Ok(Pagemap::given(file)));
    let right = device.map_or_else(Right::own, Right::Device);
    Rights { pagemap, right }
}

/// Connects, however often that is interrupted: a socket of this kind is connected at once or not
/// at all.
fn connect(path: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// The pagemap and the device, as far as they are sent.
fn receive(stream: &UnixStream) -> (Option<File>, Option<File>) {
    let (mut what, mut room) = (0_u8, Room([0; 64]));
    let mut part = libc::iovec { iov_base: (&raw mut what).cast(), iov_len: 1 };
    // SAFETY: a plain structure of numbers and pointers.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = room.0.as_mut_ptr().cast();
    message.msg_controllen = room.0.len() as _;
    let mut given = Vec::new();
    // SAFETY: the kernel fills what we point to, and makes descriptors that nothing else owns.
    unsafe {
        let flags = libc::MSG_CMSG_CLOEXEC;
        loop {
            let got = libc::recvmsg(stream.as_raw_fd(), &raw mut message, flags);
            // The wait is interrupted where the thread is frozen meanwhile, as surplus time is
            // every now and then.
            let interrupted = io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
            match got {
                1 => break,
                -1 if interrupted => {}
                _ => return (None, None),
            }
        }
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if !header.is_null() && (*header).cmsg_type == libc::SCM_RIGHTS {
            let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            for at in 0..bytes / size_of::<RawFd>() {
                given.push(File::from_raw_fd(data.add(at).read_unaligned()));
            }
        }
    }
    let mut given = given.into_iter();
    let pagemap = (what & words::DESCRIPTORS_PAGEMAP != 0).then(|| given.next()).flatten();
    let device = (what & words::DESCRIPTORS_USERFAULTFD != 0).then(|| given.next()).flatten();
    (pagemap, device)
}
