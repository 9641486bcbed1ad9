//! A process that is held: its descriptor is open from the first look at it to the last use.
//!
//! Numbers of processes are used again. While a descriptor of a process is open its number is still
//! used again, but the descriptor shows that the process has ended. So whatever was read or done by
//! the number was of that process, if the descriptor says afterwards that it lives.

use super::sys;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::{fs, io};

/// Of `asm-generic/socket.h`, where all hosts that we run on have it.
const SO_PEERPIDFD: i32 = 77;

/// A process with its descriptor.
#[derive(Debug)]
pub struct Held {
    pid: i32,
    fd: OwnedFd,
}

impl Held {
    /// The process that bears this number now.
    ///
    /// # Errors
    /// ESRCH where there is none.
    pub fn of(pid: i32) -> io::Result<Held> {
        Ok(Held { pid, fd: sys::pidfd_open(pid)? })
    }

    /// The process that connected a socket, and its user, by the kernel's word. The descriptor is
    /// the one that the kernel took at the connecting (Linux 6.5); an older kernel gives one for
    /// the number now, which is certain but for a number that was used again since.
    ///
    /// # Errors
    /// Where the process has ended.
    pub fn peer(stream: &UnixStream) -> io::Result<(Held, u32)> {
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        option(stream, libc::SO_PEERCRED, &mut peer)?;
        let mut fd: RawFd = -1;
        let fd = match option(stream, SO_PEERPIDFD, &mut fd) {
            // SAFETY: a new descriptor that nothing else owns.
            Ok(()) => unsafe { OwnedFd::from_raw_fd(fd) },
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
                sys::pidfd_open(peer.pid)?
            }
            Err(error) => return Err(error),
        };
        Ok((Held { pid: peer.pid, fd }, peer.uid))
    }

    /// Its number.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether it has not ended: then its number was its own up to now.
    pub fn is_alive(&self) -> bool {
        let mut end = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure of our own; a pidfd is readable once its process has ended.
        unsafe { libc::poll(&raw mut end, 1, 0) == 0 }
    }

    /// Does something by its number, and refuses what came of it where the process has ended by
    /// then: it may have been done to another.
    ///
    /// # Errors
    /// Those of the act; `NotFound` where the process has ended.
    pub fn by_number<T>(&self, act: impl FnOnce(i32) -> io::Result<T>) -> io::Result<T> {
        let done = act(self.pid);
        if self.is_alive() { done } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// The text of one of its files below `/proc`.
    ///
    /// # Errors
    /// `NotFound` where it has ended.
    pub fn read(&self, file: &str) -> io::Result<String> {
        self.by_number(|pid| fs::read_to_string(format!("/proc/{pid}/{file}")))
    }

    /// Refuses a thread that is not one of this process (any more).
    ///
    /// # Errors
    /// `NotFound`.
    pub fn has_thread(&self, tid: i32) -> io::Result<()> {
        self.by_number(|pid| fs::metadata(format!("/proc/{pid}/task/{tid}"))).map(drop)
    }
}

fn option<T>(stream: &UnixStream, name: i32, value: &mut T) -> io::Result<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    let (socket, into) = (stream.as_raw_fd(), std::ptr::from_mut(value).cast());
    // SAFETY: the kernel fills at most `length` bytes of a value of our own.
    let result = unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, name, into, &raw mut length) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn what_was_read_of_a_process_that_has_ended_is_not_believed() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let held = Held::of(child.id() as i32).unwrap();
        assert!(held.is_alive());
        let status = held.read("status").unwrap();
        assert!(status.contains(&format!("\nPid:\t{}\n", held.pid())), "{status}");
        assert!(held.has_thread(held.pid()).is_ok());
        assert!(held.has_thread(std::process::id() as i32).is_err(), "of another process");
        let ended = held.by_number(|pid| {
            assert_eq!(pid, child.id() as i32);
            child.kill()?;
            child.wait()
        });
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::NotFound, "it ended meanwhile");
        assert!(!held.is_alive());
        assert!(held.has_thread(held.pid()).is_err());
        assert!(Held::of(child.id() as i32).is_err());
    }

    #[test]
    fn the_peer_of_a_socket_is_the_process_that_connected_it() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let (held, _) = Held::peer(&ours).unwrap();
        assert_eq!(held.pid(), std::process::id() as i32);
        assert!(held.is_alive());
    }
}
