//! The metrics endpoint of a run (`maracas run --metrics`): Prometheus asks, the latest gauges
//! answer.
//!
//! One ordinary thread, one request a connection. It reads what hangs on the run's board and never
//! asks the agents, so that no scrape, however often, takes anything from a reservation but some
//! of the time that ordinary threads have. HTTP stands here on a page of std: a crate for it would
//! bring a runtime of its own for one answer to one question.

mod exposition;
mod http;

use maracas_console::failure::Failure;
use maracas_console::output;
use maracas_core::control::Gauges;
use maracas_core::journal::Header;
use maracas_live::control::Board;
use maracas_trace::Metrics;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Mode;
use rustix::process::umask;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread;

/// What the endpoint's thread needs, several times over; all of it is locked into memory while a
/// run goes on.
const STACK: usize = 256 << 10;

/// The bytes of a socket's path: `sun_path` of unix(7) has 108, its closing zero included.
const LONGEST: usize = 107;

/// Shows on `board` what was counted so far. Sums never fall there: time that was taken for
/// throttled until a segment was reported stays so until there is more of it.
pub fn publish(board: &Board, counted: &Metrics, max_latency: Option<u64>) {
    let mut gauges = gauges(counted, max_latency);
    let before = board.latest();
    for (core, old) in gauges.cores.iter_mut().zip(before.iter().flat_map(|it| &it.cores)) {
        core.throttled = core.throttled.max(old.throttled);
    }
    board.publish(gauges);
}

/// The gauges of what was counted so far, with the threshold that the policy goes by, which the
/// counts do not know.
pub fn gauges(counted: &Metrics, max_latency: Option<u64>) -> Gauges {
    let mut gauges = counted.gauges();
    if let Some(memory) = &mut gauges.memory {
        memory.max_latency = max_latency;
    }
    gauges
}

/// The latency from which on the policy of a journal throttles cores, in cycles; `None` where it
/// does not go by latency.
pub fn max_latency(header: &Header) -> Option<u64> {
    let entry = maracas_policies::find(&header.policy)?;
    let spec = |name| entry.params.iter().find(|spec| spec.name == name);
    let by_latency = header.params.choice(spec("throttle")?) == "latency";
    by_latency.then_some(header.params.whole(spec("max_latency")?))
}

/// Where metrics are served: on this host, or nowhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A socket file, which only its owner and root can open.
    Unix(PathBuf),
    /// A port of the loopback interface, which every user of this host can ask.
    Loopback(SocketAddr),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err("names no socket; write unix:/path".into());
            }
            // The guardian, which may have to remove it, stands in another directory.
            let path = std::path::absolute(path).map_err(|error| error.to_string())?;
            if path.as_os_str().len() > LONGEST {
                return Err(format!(
                    "is longer than {LONGEST} bytes, the most that the path of a socket may have"
                ));
            }
            return Ok(Self::Unix(path));
        }
        let address: SocketAddr = text.parse().map_err(|_| {
            "is no address; write unix:/path, 127.0.0.1:PORT or [::1]:PORT".to_string()
        })?;
        if address.ip().is_loopback() {
            return Ok(Self::Loopback(address));
        }
        Err("would be open to other hosts; take unix:/path, 127.0.0.1:PORT or [::1]:PORT".into())
    }
}

impl Address {
    /// The file that is to be removed when the run has ended, however it ended.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Unix(path) => Some(path),
            Self::Loopback(_) => None,
        }
    }

    /// Makes sure that nothing is in the way, before the user is asked to remove what is there. A
    /// socket that no process serves any more, of a run that was killed with its guardian, is
    /// removed.
    ///
    /// # Errors
    /// Where there is something else, or a socket that is served.
    pub fn clear(&self) -> Result<(), Failure> {
        let Self::Unix(path) = self else { return Ok(()) };
        let fail = |why: &dyn std::fmt::Display| {
            Err(Failure::about(format_args!("--metrics {}", path.display()), why))
        };
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => match path.parent() {
                Some(folder) if !folder.is_dir() => fail(&"its directory is not there; make it"),
                Some(_) | None => Ok(()),
            },
            Err(error) => fail(&error),
            Ok(meta) if !meta.file_type().is_socket() => {
                fail(&"is there already and is no socket; name another path")
            }
            Ok(_) => match UnixStream::connect(path) {
                Ok(_) => fail(&"is served by another process; name another path"),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    fs::remove_file(path).or_else(|error| fail(&error))
                }
                Err(error) => fail(&error),
            },
        }
    }
}

/// The running endpoint. Dropped, it ends, and its socket file is removed.
pub struct Endpoint {
    address: Address,
    /// Closed, it ends the thread. Nothing waits for that: a slow client must not delay the end of
    /// a run.
    _stop: UnixStream,
}

impl Endpoint {
    /// Serves the gauges on `board` at `address`, which must be [clear](Address::clear).
    ///
    /// # Errors
    /// Where the address cannot be had.
    pub fn open(address: &Address, board: Board) -> Result<Self, Failure> {
        let fail = |error: io::Error| {
            let asked = match address {
                Address::Unix(path) => path.display().to_string(),
                Address::Loopback(address) => address.to_string(),
            };
            Failure::about(format_args!("--metrics {asked}"), error)
        };
        let listener = Listener::open(address).map_err(fail)?;
        let address = listener.address(address).map_err(fail)?;
        let (_stop, stopped) = UnixStream::pair().map_err(fail)?;
        let serve = move || {
            maracas_live::host::rights::drop_for_reader();
            while listener.wait(&stopped) {
                listener.serve_one(&board);
            }
        };
        let builder = thread::Builder::new().name("metrics".into()).stack_size(STACK);
        builder.spawn(serve).map_err(fail)?;
        Ok(Self { address, _stop })
    }

    /// Says where the metrics are, on standard error.
    pub fn announce(&self) {
        output::note(&match &self.address {
            Address::Unix(path) => format!("metrics at unix:{}", path.display()),
            Address::Loopback(address) => format!("metrics at http://{address}/metrics"),
        });
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if let Some(path) = self.address.file() {
            let _ = fs::remove_file(path);
        }
    }
}

/// Where requests come in.
enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    fn open(address: &Address) -> io::Result<Self> {
        let listener = match address {
            Address::Unix(path) => {
                // The mask, since a mode that is set afterwards leaves a moment for others.
                let before = umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
                let listener = UnixListener::bind(path);
                umask(before);
                Self::Unix(listener?)
            }
            Address::Loopback(address) => Self::Tcp(TcpListener::bind(address)?),
        };
        match &listener {
            Self::Unix(listener) => listener.set_nonblocking(true)?,
            Self::Tcp(listener) => listener.set_nonblocking(true)?,
        }
        Ok(listener)
    }

    /// The same address with the port that the kernel chose, where it was asked to.
    fn address(&self, asked: &Address) -> io::Result<Address> {
        match self {
            Self::Unix(_) => Ok(asked.clone()),
            Self::Tcp(listener) => listener.local_addr().map(Address::Loopback),
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }

    /// Waits for a client; false when it is time to end.
    fn wait(&self, stopped: &UnixStream) -> bool {
        let own = self.as_fd();
        loop {
            let interest = PollFlags::IN;
            let mut set = [PollFd::new(&own, interest), PollFd::new(stopped, interest)];
            match poll(&mut set, None) {
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
                Ok(_) => return set[1].revents().is_empty(),
            }
        }
    }

    /// One client, one request. A client that leaves in the middle gets no report.
    fn serve_one(&self, board: &Board) {
        let page = || board.latest().map(|gauges| exposition::page(&gauges));
        let _ = match self {
            Self::Unix(listener) => {
                listener.accept().and_then(|(mut stream, _)| http::serve(&mut stream, page))
            }
            Self::Tcp(listener) => {
                listener.accept().and_then(|(mut stream, _)| http::serve(&mut stream, page))
            }
        };
    }
}

#[cfg(test)]
mod tests;
