//! The terminal: taken, drawn on, and given back as it was, whatever happens.

use super::app::{App, Next};
use super::canvas::Canvas;
use super::keys::keys;
use super::{Ended, Source, view};
use maracas_console::failure::Failure;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::stdout;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the signals' flag and the terminal's size are looked at: as soon as a hand expects.
const GLANCE: Duration = Duration::from_millis(100);

/// Begins and ends the alternate screen, and hides and shows the cursor (xterm's `ctlseqs`).
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Shows `source` until the user quits, a signal comes, or nothing more comes, and why then.
///
/// # Errors
/// Where the terminal cannot be taken or drawn on.
pub(super) fn watch(
    source: &mut impl Source,
    app: &mut App,
    interval: Duration,
) -> Result<Option<Ended>, Failure> {
    let fail = |error: io::Error| Failure::about("the terminal", error);
    let stop = maracas_console::signals::stop_flag()?;
    let mut terminal = Terminal::take().map_err(fail)?;
    let result = live(&mut terminal, source, app, interval, &stop);
    drop(terminal);
    result.map_err(fail)
}

/// A terminal whose keys come as they are pressed and whose screen is ours.
struct Terminal {
    before: Termios,
    input: File,
    /// The size that was drawn for.
    size: (usize, usize),
}

impl Terminal {
    fn take() -> io::Result<Self> {
        let stdin = io::stdin();
        let input = if stdin.is_terminal() {
            File::from(stdin.as_fd().try_clone_to_owned()?)
        } else {
            File::open("/dev/tty")?
        };
        let before = tcgetattr(stdout())?;
        let mut raw = before.clone();
        raw.make_raw();
        // A panic gives it back too, before it is reported.
        let (hook, modes) = (std::panic::take_hook(), before.clone());
        std::panic::set_hook(Box::new(move |info| {
            give_back(&modes);
            hook(info);
        }));
        tcsetattr(stdout(), OptionalActions::Now, &raw)?;
        let terminal = Self { before, input, size: (0, 0) };
        send(ENTER)?;
        Ok(terminal)
    }

    /// Whether it has another size than was drawn for.
    fn is_resized(&mut self) -> io::Result<bool> {
        let size = tcgetwinsize(stdout())?;
        let size = (usize::from(size.ws_col), usize::from(size.ws_row));
        Ok(std::mem::replace(&mut self.size, size) != size)
    }

    fn draw(&self, app: &App) -> io::Result<()> {
        let mut canvas = Canvas::new(self.size);
        view::draw(&mut canvas, app);
        send(&canvas.bytes())
    }

    /// The bytes of keys that are pressed within `patience`; `None` where no more can come.
    fn pressed(&mut self, patience: Duration) -> io::Result<Option<Vec<u8>>> {
        let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
        let mut set = [PollFd::new(&self.input, PollFlags::IN)];
        match poll(&mut set, Some(&patience)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Some(Vec::new())),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = vec![0; 256];
        let length = self.input.read(&mut bytes)?;
        bytes.truncate(length);
        Ok((length > 0).then_some(bytes))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The hook did it before.
        if !std::thread::panicking() {
            give_back(&self.before);
        }
    }
}

fn give_back(before: &Termios) {
    let _ = send(LEAVE);
    let _ = tcsetattr(stdout(), OptionalActions::Now, before);
}

fn send(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

fn live(
    terminal: &mut Terminal,
    source: &mut impl Source,
    app: &mut App,
    interval: Duration,
    stop: &AtomicBool,
) -> io::Result<Option<Ended>> {
    let (mut due, mut is_new) = (Instant::now(), true);
    while !stop.load(Ordering::Relaxed) {
        let stands = app.paused || app.ended.is_some();
        if !stands && Instant::now() >= due {
            match source.look() {
                Ok(gauges) => app.update(*gauges),
                Err(Ended(why)) if source.stays() => app.ended = Some(why),
                Err(ended) => return Ok(Some(ended)),
            }
            (due, is_new) = (Instant::now() + interval, true);
        }
        if terminal.is_resized()? | std::mem::take(&mut is_new) {
            terminal.draw(app)?;
        }
        let left = due.saturating_duration_since(Instant::now());
        let patience = if stands { GLANCE } else { left.min(GLANCE) };
        let Some(bytes) = terminal.pressed(patience)? else { return Ok(None) };
        for key in keys(&bytes) {
            is_new = true;
            match app.key(key) {
                Next::Go => {}
                Next::Quit => return Ok(None),
                Next::Pause(paused) => source.pause(paused),
            }
        }
    }
    Ok(None)
}
