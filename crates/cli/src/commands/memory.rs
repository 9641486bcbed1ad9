//! `maracas memory`: what a static mix of requestors gets from one memory.

use maracas_console::failure::{Answer, Failure, LARGEST, Outcome, bytes_of};
use maracas_console::output;
use maracas_scenario::mix::Mix;
use maracas_session::memory::{self, Answered};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Solve a static mix of memory requestors: reads per second, latency and occupancy of each
///
/// FILE.toml holds a `[platform]` as scenarios do and a `[[requestor]]` with `pattern`,
/// `outstanding`, `think` and `writebacks` for each. With --json a JSON file (or - for standard
/// input) is read and JSON is written:
/// {"preset": "ddr3-1333", "requestors": [{"pattern": "jump", "W": 2, "Z_ns": 3.1, "wb": 0}]} gives
/// {"requestors": [{"read_Mps", "read_lat_ns", "occupancy"}], "total_GBps", "read_lat_ns"}, and a
/// list of such a list. GB = 1e9 bytes; total_GBps counts reads and writes of 64 bytes; read_lat_ns
/// is the mean over reads, from the controller to the last data. The table ends with r_min, the
/// bandwidth that MemGuard may reserve, as it follows from the platform's timings.
///
/// Example: maracas memory mix.toml
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The mix: TOML, or with --json JSON (- = standard input)
    file: PathBuf,
    /// JSON in and out; a file that ends in .toml is read as TOML all the same
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Outcome {
    let is_toml = args.file.extension().is_some_and(|extension| extension == "toml");
    let is_json = args.file.extension().is_some_and(|extension| extension == "json");
    if !args.json && (is_json || args.file == Path::new("-")) {
        return Err(Failure::about(args.file.display(), "JSON is read with --json; add it"));
    }
    if !args.json || is_toml {
        let mix = Mix::read(&args.file).map_err(Failure::new)?;
        let answer = Answered::of(&mix);
        if args.json {
            output::line(&answer.json().to_string())?;
        } else {
            output::print(&answer.text(&mix))?;
        }
        return Ok(Answer::Yes);
    }
    let (name, bytes) = if args.file == Path::new("-") {
        ("standard input".to_string(), from_stdin()?)
    } else {
        (args.file.display().to_string(), bytes_of(&args.file)?)
    };
    let answer = memory::answer(&bytes).map_err(|why| Failure::about(name, why))?;
    output::line(&answer.to_string())?;
    Ok(Answer::Yes)
}

/// All of standard input.
///
/// # Errors
/// Where it cannot be read or never ends.
fn from_stdin() -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let input = std::io::stdin().lock();
    let read = input.take(LARGEST.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| Failure::about("standard input", error))?;
    if bytes.len() as u64 > LARGEST {
        let gib = LARGEST >> 30;
        return Err(Failure::about("standard input", format_args!("is larger than {gib} GiB")));
    }
    Ok(bytes)
}
