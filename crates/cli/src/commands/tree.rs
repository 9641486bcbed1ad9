//! `maracas tree`: what an optimal scheduler made of a task set before it started.

use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output::{self, Pending};
use maracas_session::case::{Machine, Overrides};
use maracas_session::source::Source;
use maracas_session::{tree, verdict};
use std::io::Write as _;
use std::path::PathBuf;

/// Draw the reduction tree of RUN or the processor hierarchy of QPS
///
/// As text, as an SVG picture or as JSON. Exits 1 with the verdict where the policy refuses.
///
/// Example: maracas tree --taskset tasks.csv --cores 4 --policy run --svg tree.svg
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    overrides: Overrides,
    /// Write an SVG picture in place of text
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// The tree as JSON
    #[arg(long, conflicts_with = "svg")]
    json: bool,
}

pub(super) fn run(args: &Args) -> Outcome {
    let case = args.source.case(Machine::Sim, &args.overrides)?;
    let Ok(drawing) = tree::of(&case)? else { return verdict::refuse(&case, args.json) };
    if let Some(path) = &args.svg {
        let (what, file) = args.source.named()?;
        output::keep_apart(&[(what, file)], &[("--svg", path.clone())])?;
        let mut file = Pending::create(path)?;
        file.write_all(drawing.svg().as_bytes()).map_err(Failure::new)?;
        file.commit()?;
    } else if args.json {
        output::line(&format!("{:#}", drawing.to_json()))?;
    } else {
        output::print(&drawing.text())?;
    }
    Ok(Answer::Yes)
}
