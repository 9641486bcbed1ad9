//! As much of HTTP/1.1 (RFC 9112) as a scrape needs: `GET` and `HEAD` of `/metrics`, one request a
//! connection.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The most bytes of a request's head. Prometheus sends some hundreds; servers at large allow this.
const HEAD_MOST: usize = 8 << 10;

/// How long a client may take to ask, and again to read the answer: others wait meanwhile. A fifth
/// of the ten seconds in which a scrape must be answered by default.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most that is read of what a refused client goes on sending, so that the answer reaches it:
/// closing with bytes unread resets the connection.
const DRAIN_MOST: usize = 256 << 10;

/// The media type of OpenMetrics 1.0.
pub(super) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A connected client.
pub(super) trait Client: Read + Write {
    /// From here on reads and writes take so long at most.
    fn set_patience(&self, patience: Duration) -> io::Result<()>;
    /// Nothing more will be written.
    fn end_writing(&self) -> io::Result<()>;
}

macro_rules! client {
    ($($type:ty),*) => {$(
        impl Client for $type {
            fn set_patience(&self, patience: Duration) -> io::Result<()> {
                self.set_nonblocking(false)?;
                self.set_read_timeout(Some(patience))?;
                self.set_write_timeout(Some(patience))
            }
            fn end_writing(&self) -> io::Result<()> {
                self.shutdown(Shutdown::Write)
            }
        }
    )*};
}
client!(UnixStream, TcpStream);

/// What comes of one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    Timeout,
    HeadTooLarge,
    Unavailable,
    Version,
}

impl Status {
    const fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::Timeout => "408 Request Timeout",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::Unavailable => "503 Service Unavailable",
            Self::Version => "505 HTTP Version Not Supported",
        }
    }
}

/// Answers one request with what `page` gives.
///
/// # Errors
/// Where the client is gone.
pub(super) fn serve(
    client: &mut impl Client,
    page: impl FnOnce() -> Option<String>,
) -> io::Result<()> {
    let asked = head(client)?.and_then(|head| target(&head));
    let (status, body, with_body) = match asked {
        Err(status) => (status, None, true),
        Ok(method) => match page() {
            None => (Status::Unavailable, None, true),
            Some(page) => (Status::Ok, Some(page), method == Method::Get),
        },
    };
    client.set_patience(PATIENCE)?;
    client.write_all(answer(status, body, with_body).as_bytes())?;
    client.end_writing()?;
    drain(client);
    Ok(())
}

/// Reads until the empty line that ends a request's head.
fn head(client: &mut impl Client) -> io::Result<Result<Vec<u8>, Status>> {
    let deadline = Instant::now() + PATIENCE;
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Err(Status::Timeout));
        }
        client.set_patience(left)?;
        match client.read(&mut piece) {
            Ok(0) => return Ok(Err(Status::BadRequest)),
            Ok(length) => head.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) => return Ok(Err(Status::Timeout)),
            Err(error) => return Err(error),
        }
        let end = head.windows(4).position(|four| four == b"\r\n\r\n");
        if end.unwrap_or(head.len()) > HEAD_MOST {
            return Ok(Err(Status::HeadTooLarge));
        }
        if let Some(end) = end {
            head.truncate(end);
            return Ok(Ok(head));
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// How the metrics are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Method {
    Get,
    Head,
}

/// Understands the request line.
fn target(head: &[u8]) -> Result<Method, Status> {
    let head = std::str::from_utf8(head).map_err(|_| Status::BadRequest)?;
    let line = head.split("\r\n").next().unwrap_or_default();
    let words: Vec<_> = line.split(' ').collect();
    let [method, target, version] = words[..] else { return Err(Status::BadRequest) };
    let is_word = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphabetic());
    if !is_word || !version.starts_with("HTTP/") || !target.starts_with('/') {
        return Err(Status::BadRequest);
    }
    if !version.starts_with("HTTP/1.") {
        return Err(Status::Version);
    }
    if target.split('?').next() != Some("/metrics") {
        return Err(Status::NotFound);
    }
    match method {
        "GET" => Ok(Method::Get),
        "HEAD" => Ok(Method::Head),
        _ => Err(Status::MethodNotAllowed),
    }
}

fn answer(status: Status, body: Option<String>, with_body: bool) -> String {
    let media_type = if body.is_some() { MEDIA_TYPE } else { "text/plain; charset=utf-8" };
    let body = body.unwrap_or_else(|| format!("{}; GET /metrics is served\n", status.line()));
    let allow = if status == Status::MethodNotAllowed { "Allow: GET, HEAD\r\n" } else { "" };
    let (line, length) = (status.line(), body.len());
    let head = format!(
        "HTTP/1.1 {line}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n{allow}\
         Connection: close\r\n\r\n"
    );
    if with_body { head + &body } else { head }
}

/// Reads what the client still sends, until it closes or has been waited for long enough.
fn drain(client: &mut impl Client) {
    let deadline = Instant::now() + PATIENCE;
    let (mut seen, mut piece) = (0, [0; 1024]);
    while seen < DRAIN_MOST {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || client.set_patience(left).is_err() {
            return;
        }
        match client.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(length) => seen += length,
        }
    }
}
