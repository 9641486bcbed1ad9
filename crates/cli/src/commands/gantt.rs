//! `maracas gantt`: a schedule as a chart, from a journal or from a scenario that is simulated.

use super::sim;
use maracas_console::failure::{Answer, Failure, Outcome, bytes_of};
use maracas_console::output::{self, Pending};
use maracas_core::journal::Reader;
use maracas_core::{Duration, Instant};
use maracas_session::results;
use maracas_trace::gantt::{Chart, Rows, TextStyle};
use std::path::PathBuf;

/// Draw a schedule as text or SVG
///
/// Takes a journal, or a scenario, which is then simulated on time.
///
/// Example: maracas gantt run.journal --from 1s --to 1.1s --svg schedule.svg
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// A journal or a scenario
    file: PathBuf,
    /// Where the chart begins
    #[arg(long, value_name = "TIME", value_parser = maracas_console::args::duration)]
    from: Option<Duration>,
    /// Where the chart ends; without it, 100ms after its begin
    #[arg(long, value_name = "TIME", value_parser = maracas_console::args::duration)]
    to: Option<Duration>,
    /// Write an SVG picture in place of text
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// One row per core, not per VCPU
    #[arg(long)]
    cores: bool,
    /// ASCII characters only
    #[arg(long)]
    ascii: bool,
    /// Columns of a text chart; without it, those of the terminal
    #[arg(long, value_parser = clap::value_parser!(u16).range(20..=2000))]
    width: Option<u16>,
}

/// How much is drawn where no length is given: some periods of usual tasks.
const DEFAULT_SPAN: Duration = Duration::from_millis(100);

pub(super) fn run(args: &Args) -> Outcome {
    let from = Instant::ZERO.saturating_add(args.from.unwrap_or(Duration::ZERO));
    let to = args.to.map_or(from.saturating_add(DEFAULT_SPAN), |to| Instant::ZERO + to);
    if to <= from {
        return Err(Failure::new(format!("--to {to} must lie after --from {from}")));
    }
    output::leave_nothing_at_signals()?;
    let bytes = bytes_of(&args.file)?;
    let written: Vec<_> = args.svg.iter().map(|path| ("--svg", path.clone())).collect();
    output::keep_apart(&[(sim::what_is(&bytes), &args.file)], &written)?;
    let svg = Pending::maybe(args.svg.as_ref())?;
    let until = Some(to.saturating_since(Instant::ZERO));
    let journal = match sim::journal_of(&args.file, bytes, until)? {
        Ok(journal) => journal,
        Err(refused) => return Ok(refused),
    };
    let fail = |why: &dyn std::fmt::Display| Failure::about(args.file.display(), why);
    let (header, _) = Reader::open(&journal).map_err(|error| fail(&error))?;
    let scale = header.system.ticks_per_ns.max(1);
    let ticks = |at: Instant| Instant::from_ticks(at.ticks().saturating_mul(scale));
    let chart = Chart::from_journal(&journal, ticks(from), Some(ticks(to)))
        .map_err(|error| fail(&error))?;
    let end = Instant::from_ticks(chart.journal_end().ticks() / scale);
    if from >= end {
        return Err(fail(&format_args!("the journal ends at {end}; --from {from} is beyond")));
    }
    let rows = if args.cores { Rows::Cores } else { Rows::Vcpus };
    if let Some(mut file) = svg {
        chart.write_svg(rows, &mut file).map_err(Failure::new)?;
        file.commit()?;
        return Ok(Answer::Yes);
    }
    let width = args.width.or(results::style().width).unwrap_or(TextStyle::default().width);
    let mut text = Vec::new();
    chart
        .write_text(TextStyle { rows, width, ascii: args.ascii }, &mut text)
        .map_err(|error| fail(&error))?;
    output::print(&String::from_utf8_lossy(&text))?;
    Ok(Answer::Yes)
}
