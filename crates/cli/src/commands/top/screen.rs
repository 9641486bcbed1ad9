//! The terminal: taken, drawn on, and given back as it was, whatever happens.

use super::app::{App, Next};
use super::{Ended, Source, view};
use crate::failure::Failure;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the signals' flag is looked at: as soon as a hand expects.
const GLANCE: Duration = Duration::from_millis(100);

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
    let stop = crate::work::stop_flag()?;
    // A panic gives it back too, before it learns of.
    let mut terminal = ratatui::try_init().map_err(fail)?;
    let result = live(&mut terminal, source, app, interval, &stop);
    ratatui::restore();
    result.map_err(fail)
}

fn live(
    terminal: &mut DefaultTerminal,
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
        if std::mem::take(&mut is_new) {
            terminal.draw(|frame| view::draw(frame, app))?;
        }
        let left = due.saturating_duration_since(Instant::now());
        if !event::poll(if stands { GLANCE } else { left.min(GLANCE) })? {
            continue;
        }
        // Whatever it is, a new size too, is drawn.
        is_new = true;
        if let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
        {
            match app.key(key) {
                Next::Go => {}
                Next::Quit => return Ok(None),
                Next::Pause(paused) => source.pause(paused),
            }
        }
    }
    Ok(None)
}
