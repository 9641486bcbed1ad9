//! `maracas convert`: task sets from one format to another.

use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output::{self, Pending};
use maracas_core::{Arrival, Duration};
use maracas_scenario::formats::{self, Format, Style};
use maracas_scenario::taskset::TaskSet;
use maracas_session::source;
use std::io::Write;
use std::path::PathBuf;

/// Read a task set in one format and write it in another
///
/// What the file says that a task set cannot mean, and what the other format cannot say, is printed
/// on standard error; docs/formats.md has every key.
///
/// Example: maracas convert workload.json --to csv -o tasks.csv
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The task set: CSV, or what rt-app, SimSo or SchedCAT read
    file: PathBuf,
    /// Its format, where its name and its beginning mislead
    #[arg(long, value_name = "FORMAT", value_parser = source::format())]
    from: Option<Format>,
    /// The format to write
    #[arg(long, value_name = "FORMAT", value_parser = source::format())]
    to: Format,
    /// Write into a file, not to standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Make all tasks periodic, from the start on, or sporadic
    #[arg(long, value_enum)]
    jobs: Option<Jobs>,
    /// For rt-app: threads of SCHED_DEADLINE, each with its reservation
    #[arg(long)]
    deadline_class: bool,
}

/// How jobs come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Jobs {
    /// One every period
    Periodic,
    /// A period apart at least
    Sporadic,
}

impl Jobs {
    /// Makes the jobs of all tasks come so. What that changed in the set, in sentences: that it did
    /// first, then what was lost; none where all came so.
    fn given(self, set: &mut TaskSet) -> Vec<String> {
        let (before, mut lost) = (set.tasks.clone(), 0);
        for task in &mut set.tasks {
            task.arrival = match (self, task.arrival) {
                (Self::Sporadic, arrival) => {
                    let late = matches!(arrival, Arrival::Periodic { offset } if !offset.is_zero());
                    lost += usize::from(late);
                    Arrival::Sporadic
                }
                (Self::Periodic, Arrival::Sporadic | Arrival::None) => {
                    Arrival::Periodic { offset: Duration::ZERO }
                }
                (Self::Periodic, arrival @ Arrival::Periodic { .. }) => arrival,
            };
        }
        if set.tasks == before {
            return Vec::new();
        }
        let word = match self {
            Self::Periodic => "periodic",
            Self::Sporadic => "sporadic",
        };
        let changed = format!("--jobs {word}");
        let lost = (lost > 0).then(|| {
            let offsets = if lost == 1 { "1 offset".into() } else { format!("{lost} offsets") };
            format!("{offsets} lost: nothing is known of a sporadic task's first job")
        });
        [changed].into_iter().chain(lost).collect()
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    if args.deadline_class && args.to != Format::RtApp {
        let why = format!("--deadline-class is for --to rt-app, not for {}; drop it", args.to);
        return Err(Failure::new(why));
    }
    let written: Vec<_> = args.output.iter().map(|path| ("--output", path.clone())).collect();
    output::keep_apart(&[("task set", &args.file)], &written)?;
    let about = |text: &str| output::note(&format!("{}: {text}", args.file.display()));
    let mut set = formats::read(&args.file, args.from).map_err(Failure::new)?;
    set.notes.iter().for_each(|note| about(note));
    let mut changes = args.jobs.map_or_else(Vec::new, |jobs| jobs.given(&mut set));
    changes.iter().skip(1).for_each(|lost| about(lost));
    let style = Style { deadline_class: args.deadline_class };
    let write = |set: &TaskSet| {
        let written = formats::write(set, args.to, style);
        written.map_err(|why| Failure::about(args.file.display(), why))
    };
    let mut file = write(&set)?;
    let in_format = |what: &String| format!("in {}: {what}", args.to);
    file.additions.iter().chain(&file.losses).for_each(|what| about(&in_format(what)));
    changes.extend(file.losses.iter().map(in_format));
    // The head says how the set was drawn: no longer the whole of it where that was changed.
    if !set.origin.is_empty() && !changes.is_empty() {
        set.origin.extend(changes.iter().map(|change| format!("converted: {change}")));
        file = write(&set)?;
    }
    let Some(path) = &args.output else {
        output::print(&file.text)?;
        return Ok(Answer::Yes);
    };
    output::leave_nothing_at_signals()?;
    let mut out = Pending::create(path)?;
    out.write_all(file.text.as_bytes()).map_err(Failure::new)?;
    out.commit()?;
    Ok(Answer::Yes)
}
