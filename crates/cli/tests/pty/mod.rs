//! A terminal for tests: the binary at one end, the test with its hands on the keys at the other.
#![allow(dead_code, reason = "every test binary uses its part")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Begins and ends the alternate screen (xterm's control sequences).
pub(crate) const ENTERS: &str = "\x1b[?1049h";
pub(crate) const LEAVES: &str = "\x1b[?1049l";

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The binary on a terminal of 80 columns and 24 rows.
pub(crate) struct Terminal {
    master: File,
    slave: OwnedFd,
    child: Child,
    seen: Vec<u8>,
    before: libc::termios,
}

impl Terminal {
    /// Starts `maracas` with these words in `directory`.
    pub(crate) fn start(directory: &Path, words: &[&str], env: &[(&str, &str)]) -> Self {
        let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let (mut master, mut slave) = (-1, -1);
        let null = std::ptr::null_mut();
        // SAFETY: two numbers of our own are filled in; the size is read.
        let made =
            unsafe { libc::openpty(&raw mut master, &raw mut slave, null, null.cast(), &size) };
        assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: new descriptors that nothing else owns.
        let (master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        let end = || slave.try_clone().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_maracas"));
        command.args(words).current_dir(directory).env("TERM", "xterm-256color");
        command.env_remove("NO_COLOR").env_remove("MARACAS_SOCKET").envs(env.iter().copied());
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: two system calls on the standard input.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                if libc::ioctl(0, libc::TIOCSCTTY, 0) == 0 { Ok(()) } else { Err(last_error()) }
            });
        }
        // SAFETY: plain arguments.
        unsafe { libc::fcntl(master.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        let before = modes(&slave);
        Self { master, slave, child: command.spawn().unwrap(), seen: Vec::new(), before }
    }

    /// Everything that was written to the terminal so far.
    pub(crate) fn seen(&mut self) -> String {
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = self.master.read(&mut piece) {
            self.seen.extend_from_slice(&piece[..length]);
        }
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// Waits until this has been written: one word, since what stood there before is not written
    /// again.
    pub(crate) fn shows(&mut self, text: &str) {
        let begin = Instant::now();
        while !self.seen().contains(text) {
            assert!(begin.elapsed() < PATIENCE, "no {text} in {:?}", self.seen());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: plain arguments; the child was not waited for.
        unsafe { libc::kill(self.child.id().cast_signed(), signal) };
    }

    /// Waits for the end, which must leave the terminal as it was; what was written, too.
    pub(crate) fn ends(mut self) -> (ExitStatus, String) {
        let begin = Instant::now();
        let status = loop {
            // What is written must be read, or the child would wait for us.
            self.seen();
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begin.elapsed() < PATIENCE, "it goes on: {:?}", self.seen());
            std::thread::sleep(Duration::from_millis(10));
        };
        let (before, after) = (self.before, modes(&self.slave));
        assert_eq!((before.c_lflag, before.c_iflag), (after.c_lflag, after.c_iflag), "modes");
        let seen = self.seen();
        let (enters, leaves) = (seen.matches(ENTERS).count(), seen.matches(LEAVES).count());
        assert_eq!(enters, leaves, "the screen is given back: {seen:?}");
        (status, seen)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn last_error() -> std::io::Error {
    std::io::Error::last_os_error()
}

fn modes(terminal: &OwnedFd) -> libc::termios {
    // SAFETY: the kernel fills the structure that we give, of which all zeros is a value.
    unsafe {
        let mut modes: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), &raw mut modes), 0);
        modes
    }
}
