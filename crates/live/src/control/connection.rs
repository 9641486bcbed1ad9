//! One client's connection: bytes in, frames out, never waiting for either.

use super::peer::Peer;
use crate::host::sys;
use maracas_core::VcpuId;
use maracas_core::control::{FrameError, Frames, Message, Reply, Request};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// What one read takes in.
const PIECE: usize = 4096;

/// A connected client.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    peer: Peer,
    frames: Frames,
    /// Replies that the socket did not take yet.
    unsent: Vec<u8>,
    greeted: bool,
    slot: Option<VcpuId>,
    observed: u64,
    /// Only its last reply is still to be sent.
    leaving: bool,
    /// A request that waits for its time, and for when.
    parked: Option<(Instant, Request)>,
}

/// What a client has for us.
#[derive(Debug)]
pub(super) enum Next {
    /// Nothing yet.
    Nothing,
    /// It has left, or been served its last.
    Gone,
    /// Bytes that are no request.
    Nonsense(FrameError),
    /// A request.
    Request(Request),
}

impl Connection {
    pub(super) fn new(stream: UnixStream, peer: Peer, turn: u64) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            peer,
            frames: Frames::new(),
            unsent: Vec::new(),
            greeted: false,
            slot: None,
            observed: turn,
            leaving: false,
            parked: None,
        })
    }

    pub(super) const fn peer(&self) -> &Peer {
        &self.peer
    }
    pub(super) const fn greeted(&self) -> bool {
        self.greeted
    }
    pub(super) const fn greet(&mut self) {
        self.greeted = true;
    }
    /// The VCPU whose jobs this connection is for.
    pub(super) const fn slot(&self) -> Option<VcpuId> {
        self.slot
    }
    /// The turn in which it was served last.
    pub(super) const fn observed(&self) -> u64 {
        self.observed
    }
    pub(super) const fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Becomes the connection for a VCPU's jobs; refused while replies are unsent, since releases
    /// are sent past them.
    pub(super) fn sit(&mut self, vcpu: VcpuId) -> bool {
        let free = self.unsent.is_empty() && !self.leaving;
        if free {
            self.slot = Some(vcpu);
        } else {
            self.leaving = true;
        }
        free
    }

    /// No further request is taken; the connection closes when its replies are sent.
    pub(super) const fn linger(&mut self) {
        self.leaving = true;
    }

    /// Puts a request off; nothing more is read before it was taken.
    pub(super) fn park(&mut self, request: Request, until: Instant) {
        self.parked = Some((until, request));
    }

    /// When its request is to be taken that was put off, if one was.
    pub(super) fn due(&self) -> Option<Instant> {
        self.parked.as_ref().map(|(until, _)| *until)
    }

    /// What to wait for: a client that does not read is not read from.
    pub(super) const fn events(&self, releases_wait: bool) -> i16 {
        let out = if releases_wait { libc::POLLOUT } else { 0 };
        if !self.unsent.is_empty() || self.leaving { libc::POLLOUT } else { libc::POLLIN | out }
    }

    /// Sends what it can of a reply now and keeps the rest.
    pub(super) fn reply(&mut self, reply: &Reply) {
        if let Err(error) = reply.write(&mut self.unsent) {
            // Only a list can be too long.
            let _ = Reply::Error(error.to_string()).write(&mut self.unsent);
        }
        self.send();
    }

    fn send(&mut self) {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(0) => break,
                Ok(sent) => _ = self.unsent.drain(..sent),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.unsent.clear();
                    self.leaving = true;
                }
            }
        }
    }

    /// Whether the other end is closed.
    fn is_hung_up(&self) -> bool {
        let fd = self.stream.as_raw_fd();
        let mut entry = [libc::pollfd { fd, events: libc::POLLRDHUP, revents: 0 }];
        // What cannot be asked is taken to be there.
        let _ = sys::poll(&mut entry, 0);
        entry[0].revents & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0
    }

    /// Sends what is unsent and gives the next request; in a turn of its own it may read one
    /// piece for it.
    pub(super) fn next(&mut self, turn: Option<u64>) -> Next {
        self.send();
        if !self.unsent.is_empty() {
            return Next::Nothing;
        }
        if self.leaving {
            return Next::Gone;
        }
        match self.parked.take_if(|(until, _)| *until <= Instant::now()) {
            // Its client may have given up meanwhile, and nothing was to be read that says so.
            Some(_) if self.is_hung_up() => return Next::Gone,
            Some((_, request)) => return Next::Request(request),
            None if self.parked.is_some() => return Next::Nothing,
            None => {}
        }
        match self.frames.take() {
            Ok(Some(request)) => return Next::Request(request),
            Ok(None) => {}
            Err(error) => return Next::Nonsense(error),
        }
        let Some(turn) = turn else { return Next::Nothing };
        let mut piece = [0; PIECE];
        match self.stream.read(&mut piece) {
            Ok(0) => return Next::Gone,
            Ok(length) => self.frames.extend(&piece[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Next::Nothing,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Next::Nothing,
            Err(_) => return Next::Gone,
        }
        self.observed = turn;
        match self.frames.take() {
            Ok(Some(request)) => Next::Request(request),
            Ok(None) => Next::Nothing,
            Err(error) => Next::Nonsense(error),
        }
    }
}

impl AsRawFd for Connection {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}
