//! `maracas top`: a running system, watched; or a recorded one.

mod app;
mod canvas;
mod history;
mod journal;
mod json;
mod keys;
mod rates;
mod screen;
mod text;
mod view;

use app::App;
use journal::Playback;
use maracas_client::{Connection, Error};
use maracas_console::args;
use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output;
use maracas_core::Duration;
use maracas_core::control::Gauges;
use rates::Rates;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration as Span;

/// Watch a running system: VCPUs, budgets, surplus time, memory, migrations
///
/// On a terminal a view that is drawn anew every second (`?` names its keys), elsewhere, or with
/// --once, one plain snapshot. Rates are of the last interval. docs/top.md says what is shown.
///
/// Example: maracas top
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The run that is meant, by its process, where several are alive
    #[arg(value_name = "PID", conflicts_with_all = ["socket", "journal"])]
    run: Option<u32>,
    /// The run that is meant, by its control socket
    #[arg(long, value_name = "PATH", conflicts_with = "journal")]
    socket: Option<PathBuf>,
    /// A recorded run in place of a living one: played on a terminal, else its end
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// How many times faster than it was a recorded run is played
    #[arg(long, value_name = "TIMES", default_value_t = 1, requires = "journal")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    speed: u32,
    /// One plain snapshot
    #[arg(long)]
    once: bool,
    /// One JSON document or, of a living run with --interval, one a line until it ends
    #[arg(long)]
    json: bool,
    /// Between two looks, and what rates are taken over; 1s where it is left out
    #[arg(long, value_name = "TIME", value_parser = args::positive)]
    interval: Option<Duration>,
}

/// Between two looks where no interval is given.
const INTERVAL: Duration = Duration::from_secs(1);

/// The shortest interval that makes sense: gauges change ten times a second.
const SHORTEST: Duration = Duration::from_millis(100);

/// Where gauges come from.
trait Source {
    /// What there is now. `Err(Ended)` where nothing more will come.
    ///
    /// # Errors
    /// What cannot be read any more.
    fn look(&mut self) -> Result<Box<Gauges>, Ended>;
    /// The watching was stopped or went on again.
    fn pause(&mut self, paused: bool);
    /// Whether the last state stays on the screen when nothing more comes.
    fn stays(&self) -> bool;
}

/// Why nothing more comes, in a few words.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Ended(String);

impl Source for Connection {
    fn look(&mut self) -> Result<Box<Gauges>, Ended> {
        self.gauges().map_err(|error| match error {
            Error::Socket(_, why) => Ended(why.to_string()),
            error @ (Error::NoRun
            | Error::NoSuchRun(_)
            | Error::SeveralRuns(_)
            | Error::Refused(_)
            | Error::Said(_)
            | Error::Frame(_)
            | Error::OutOfTurn(_)) => Ended(error.to_string()),
        })
    }
    fn pause(&mut self, _: bool) {}
    fn stays(&self) -> bool {
        false
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    let interval = args.interval.unwrap_or(INTERVAL);
    if interval < SHORTEST {
        let line = format!("--interval {interval} is too short; gauges change every {SHORTEST}");
        return Err(Failure::new(line));
    }
    let interval = Span::from_nanos(interval.ticks());
    let on_terminal = !args.once && !args.json && std::io::stdout().is_terminal();
    if let Some(path) = &args.journal {
        let bytes = maracas_console::failure::bytes_of(path)?;
        let fail = |error| Failure::about(path.display(), error);
        let mut playback = Playback::open(&bytes, args.speed).map_err(fail)?;
        if on_terminal {
            return watch(&mut playback, title_of(path), interval);
        }
        let reported = playback.finish();
        reported.iter().for_each(|why| output::note(&format!("{}: {why}", path.display())));
        let gauges = playback.gauges();
        return snapshot(args.json, &title_of(path), None, &gauges);
    }
    let mut connection = connect(args)?;
    let title = format!("run {}", connection.greeting().pid);
    let first = connection.gauges().map_err(Failure::new)?;
    if on_terminal {
        return watch(&mut connection, title, interval);
    }
    if args.json && args.interval.is_some() && !args.once {
        return lines(&mut connection, *first, interval);
    }
    // Rates need two looks; a run that ends between them has had its last one.
    std::thread::sleep(interval);
    match connection.look() {
        Ok(second) => snapshot(args.json, &title, Some(&first), &second),
        Err(_) => snapshot(args.json, &title, None, &first),
    }
}

fn title_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Connects to the run that is meant.
fn connect(args: &Args) -> Result<Connection, Failure> {
    let opened = match (&args.socket, args.run) {
        (Some(path), _) => Connection::open_at(path),
        (None, Some(pid)) => Connection::open_run(pid),
        (None, None) => Connection::open(),
    };
    opened.map_err(|error| match error {
        Error::SeveralRuns(paths) => {
            // A socket is named after its run's process: `<pid>-<start>.sock`.
            let names = paths.iter().filter_map(|path| path.file_name()?.to_str());
            let pids: Vec<_> = names.filter_map(|name| name.split('-').next()).collect();
            let pids = pids.join(", ");
            Failure::new(format!("several runs are alive: {pids}; choose one: maracas top PID"))
        }
        error @ (Error::NoRun
        | Error::NoSuchRun(_)
        | Error::Socket(..)
        | Error::Refused(_)
        | Error::Said(_)
        | Error::Frame(_)
        | Error::OutOfTurn(_)) => Failure::new(error),
    })
}

/// Prints how things are.
fn snapshot(as_json: bool, title: &str, before: Option<&Gauges>, now: &Gauges) -> Outcome {
    let rates = Rates::between(before, now);
    if as_json {
        output::line(&format!("{:#}", json::document(now, &rates)))?;
    } else {
        output::print(&text::snapshot(title, now, &rates))?;
    }
    Ok(Answer::Yes)
}

/// Prints a line of JSON every `interval` until the run ends.
fn lines(source: &mut impl Source, first: Gauges, interval: Span) -> Outcome {
    let mut before = first;
    loop {
        std::thread::sleep(interval);
        let Ok(now) = source.look() else { return Ok(Answer::Yes) };
        output::line(&json::document(&now, &Rates::between(Some(&before), &now)).to_string())?;
        before = *now;
    }
}

/// Shows the view until the user or the run ends it.
fn watch(source: &mut impl Source, title: String, interval: Span) -> Outcome {
    let mut app = App::new(title, output::colours());
    if let Some(Ended(why)) = screen::watch(source, &mut app, interval)? {
        output::note(&why);
    }
    Ok(Answer::Yes)
}
