//! One connection to a runtime.

use crate::{Error, find};
use maracas_core::control::{
    FrameError, Frames, Gauges, Message, NewVcpu, Reply, Request, VERSION, VcpuState,
};
use maracas_core::{CoreId, Instant, Job, JobId, Reservation, VcpuId};
use std::io::{ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{io, mem};

/// How long a reply may take: the runtime itself waits at most five seconds for its agents.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is said of a runtime that does not know gauges.
const OLDER: &str = "this run is of an older version that shows no gauges; `maracas vcpu list` \
                     reports what each VCPU used";

/// What a runtime says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Greeting {
    /// Its process.
    pub pid: u32,
    /// The policy that it runs.
    pub policy: String,
    /// Instant zero of the run on the monotonic clock, in nanoseconds.
    pub origin: u64,
}

/// A connection over which a running system is asked and changed.
#[derive(Debug)]
pub struct Connection {
    path: PathBuf,
    stream: UnixStream,
    frames: Frames,
    greeting: Greeting,
}

impl Connection {
    /// Connects to the run that `MARACAS_SOCKET` names (set in programs that a run started), else
    /// to the only living run of this host.
    ///
    /// # Errors
    /// Where there is none or more than one, or as [`Connection::open_at`].
    pub fn open() -> Result<Self, Error> {
        Self::open_at(&find::socket()?)
    }

    /// Connects to the run whose process is `pid`.
    ///
    /// # Errors
    /// Where there is none, or as [`Connection::open_at`].
    pub fn open_run(pid: u32) -> Result<Self, Error> {
        Self::open_at(&find::socket_of(pid)?)
    }

    /// Connects to the run whose socket is `path`.
    ///
    /// # Errors
    /// No run serves it, the runtime refuses this user, or it speaks another version.
    pub fn open_at(path: &Path) -> Result<Self, Error> {
        let failed = |error| Error::Socket(path.to_path_buf(), error);
        let stream = UnixStream::connect(path).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        let greeting = Greeting { pid: 0, policy: String::new(), origin: 0 };
        let mut connection =
            Self { path: path.to_path_buf(), stream, frames: Frames::new(), greeting };
        let reply = connection.ask(&Request::Hello { version: VERSION })?;
        let Reply::Hello { pid, policy, origin, .. } = reply else { return Err(unexpected(reply)) };
        connection.greeting = Greeting { pid, policy, origin };
        Ok(connection)
    }

    /// What the runtime said of itself.
    pub const fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    /// The socket of the run.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a VCPU for threads of this user.
    ///
    /// # Errors
    /// [`Error::Refused`] with the admission numbers; [`Error::Said`] where the threads cannot be
    /// bound. Nothing was changed then.
    pub fn create(&mut self, new: &NewVcpu) -> Result<(VcpuId, CoreId), Error> {
        let reply = self.ask(&Request::Create(new.clone()))?;
        if let Reply::Created { vcpu, core } = reply {
            Ok((vcpu, core))
        } else {
            Err(unexpected(reply))
        }
    }

    /// Replaces the reservation of a VCPU.
    ///
    /// # Errors
    /// As [`Connection::create`]; the old reservation stays then.
    pub fn set(&mut self, vcpu: VcpuId, reservation: Reservation) -> Result<CoreId, Error> {
        let reply = self.ask(&Request::Set { vcpu, reservation })?;
        if let Reply::Created { core, .. } = reply { Ok(core) } else { Err(unexpected(reply)) }
    }

    /// Removes a VCPU. Threads that were bound to it go on as ordinary ones; programs that the run
    /// started on it are ended.
    ///
    /// # Errors
    /// Where there is no such VCPU.
    pub fn destroy(&mut self, vcpu: VcpuId) -> Result<(), Error> {
        let reply = self.ask(&Request::Destroy { vcpu })?;
        if let Reply::Done = reply { Ok(()) } else { Err(unexpected(reply)) }
    }

    /// All VCPUs, by number.
    ///
    /// # Errors
    /// Where the run is ending.
    pub fn list(&mut self) -> Result<Vec<VcpuState>, Error> {
        let reply = self.ask(&Request::List)?;
        if let Reply::Vcpus(list) = reply { Ok(list) } else { Err(unexpected(reply)) }
    }

    /// What the run does and did, as of a moment ago.
    ///
    /// # Errors
    /// Where the run is of a version that has no gauges, or shows none; where it has ended.
    pub fn gauges(&mut self) -> Result<Box<Gauges>, Error> {
        let reply = self.ask(&Request::Gauges)?;
        // An older runtime takes the question for noise.
        let is_older = |why: &str| why == FrameError::Malformed.to_string();
        match reply {
            Reply::Gauges(gauges) => Ok(gauges),
            Reply::Error(why) if is_older(&why) => Err(Error::Said(OLDER.into())),
            Reply::Error(_)
            | Reply::Hello { .. }
            | Reply::Created { .. }
            | Reply::Refused(_)
            | Reply::Done
            | Reply::Vcpus(_)
            | Reply::Job(_) => Err(unexpected(reply)),
        }
    }

    /// Turns the connection into the one that learns of the job releases of `vcpu`. Of two that ask
    /// for the same VCPU the later one gets them.
    ///
    /// # Errors
    /// Where there is no such VCPU.
    pub fn jobs(mut self, vcpu: VcpuId) -> Result<Jobs, Error> {
        let reply = self.ask(&Request::Jobs { vcpu })?;
        if reply != Reply::Done {
            return Err(unexpected(reply));
        }
        // A release may be an hour away.
        let unlimited = self.stream.set_read_timeout(None);
        unlimited.map_err(|error| self.failed(error))?;
        Ok(Jobs { connection: self, vcpu, begun: None })
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, Error> {
        // A runtime that shuts us out may have closed already; what it said can still be read.
        let sent = self.send(request);
        match self.receive() {
            Err(Error::Socket(path, error)) => {
                Err(sent.err().unwrap_or(Error::Socket(path, error)))
            }
            reply => reply,
        }
    }

    fn send(&mut self, request: &Request) -> Result<(), Error> {
        let mut frame = Vec::new();
        request.write(&mut frame)?;
        let mut rest = frame.as_slice();
        while !rest.is_empty() {
            // Not by `write`: in a C program the end of the run would be its end by SIGPIPE.
            let (fd, flags) = (self.stream.as_raw_fd(), libc::MSG_NOSIGNAL);
            // SAFETY: the buffer is ours and as long as we say.
            let sent = unsafe { libc::send(fd, rest.as_ptr().cast(), rest.len(), flags) };
            match usize::try_from(sent) {
                Ok(sent) => rest = &rest[sent..],
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != ErrorKind::Interrupted {
                        return Err(self.failed(error));
                    }
                }
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Reply, Error> {
        let mut piece = [0; 4096];
        loop {
            if let Some(reply) = self.frames.take()? {
                return Ok(reply);
            }
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(self.failed(ErrorKind::UnexpectedEof.into())),
                Ok(length) => self.frames.extend(&piece[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    fn failed(&self, error: io::Error) -> Error {
        let kind = error.kind();
        let said = if kind == ErrorKind::WouldBlock {
            io::Error::other("the runtime does not answer")
        } else if matches!(
            kind,
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
        ) {
            io::Error::other("the run has ended")
        } else {
            error
        };
        Error::Socket(self.path.clone(), said)
    }
}

/// The job releases of one VCPU.
#[derive(Debug)]
pub struct Jobs {
    connection: Connection,
    vcpu: VcpuId,
    begun: Option<JobId>,
}

impl Jobs {
    /// Waits for the next job; a job that was begun and not reported done is reported done first.
    /// Jobs come in order; where the program is late they are there at once.
    ///
    /// # Errors
    /// Where the run has ended.
    pub fn wait(&mut self) -> Result<Job, Error> {
        if self.begun.is_some() {
            self.done()?;
        }
        let reply = self.connection.receive()?;
        let Reply::Job(job) = reply else { return Err(unexpected(reply)) };
        self.begun = Some(job.id);
        Ok(job)
    }

    /// Says that the job which [`Jobs::wait`] gave has received all its service.
    ///
    /// # Errors
    /// Where no job was begun or the run has ended.
    pub fn done(&mut self) -> Result<(), Error> {
        let job = mem::take(&mut self.begun).ok_or(Error::OutOfTurn("no job was begun"))?;
        let at = self.now();
        self.connection.send(&Request::JobDone { job, at })
    }

    /// The VCPU.
    pub const fn vcpu(&self) -> VcpuId {
        self.vcpu
    }

    /// The present instant, as releases and deadlines count it.
    pub fn now(&self) -> Instant {
        let now = crate::clock::monotonic_ns();
        Instant::from_ticks(now.saturating_sub(self.connection.greeting.origin))
    }
}

fn unexpected(reply: Reply) -> Error {
    match reply {
        Reply::Refused(refusal) => Error::Refused(refusal),
        Reply::Error(why) => Error::Said(why),
        Reply::Hello { .. }
        | Reply::Created { .. }
        | Reply::Done
        | Reply::Vcpus(_)
        | Reply::Job(_)
        | Reply::Gauges(_) => Error::Said("the runtime answered something else than asked".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixListener;
    use std::thread;

    /// Asks a runtime for its gauges that answers a hello, and then so.
    fn asked(number: u32, answer: Reply) -> Result<Box<Gauges>, Error> {
        let name = format!("maracas-gauges-{}-{number}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&path).unwrap();
        let runtime = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let hello = Reply::Hello { version: VERSION, pid: 7, policy: "p".into(), origin: 0 };
            let (mut frames, mut answers) = (Frames::new(), [answer, hello].to_vec());
            let mut piece = [0; 64];
            while let Some(answer) = answers.pop() {
                let length = stream.read(&mut piece).unwrap();
                frames.extend(&piece[..length]);
                assert!(frames.take::<Request>().unwrap().is_some());
                let mut frame = Vec::new();
                answer.write(&mut frame).unwrap();
                stream.write_all(&frame).unwrap();
            }
        });
        let gauges = Connection::open_at(&path).unwrap().gauges();
        runtime.join().unwrap();
        std::fs::remove_file(&path).unwrap();
        gauges
    }

    #[test]
    fn a_runtime_without_gauges_is_reported_as_such() {
        let gauges = Gauges { decisions: 3, ..Gauges::default() };
        let known = asked(0, Reply::Gauges(Box::new(gauges.clone()))).unwrap();
        assert_eq!(*known, gauges);
        let older = asked(1, Reply::Error(FrameError::Malformed.to_string())).unwrap_err();
        assert!(older.to_string().contains("older version"), "{older}");
        let none = asked(2, Reply::Error("this run shows no gauges".into())).unwrap_err();
        assert_eq!(none.to_string(), "this run shows no gauges");
        let odd = asked(3, Reply::Done).unwrap_err();
        assert!(odd.to_string().contains("something else"), "{odd}");
    }
}
