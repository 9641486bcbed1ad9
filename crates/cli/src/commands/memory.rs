//! `maracas memory`: what a static mix of requestors gets from one memory.

use maracas_console::failure::{Answer, Failure, Outcome, bytes_of};
use maracas_console::output::{self, Paint, paint};
use maracas_core::memory::Dram;
use maracas_scenario::mix::{Mix, pattern_word};
use maracas_sim::memory::dram::{self, Law, Requestor, Solved};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

mod input;
mod strict;

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
        let requestors = requestors(&mix);
        let answer = Answered::to(&mix.memory.dram, &requestors);
        if args.json {
            output::line(&answer.json().to_string())?;
        } else {
            output::print(&answer.text(&mix))?;
        }
        return Ok(Answer::Yes);
    }
    let (name, bytes) = if args.file == Path::new("-") {
        ("standard input".to_string(), input::from_stdin()?)
    } else {
        (args.file.display().to_string(), bytes_of(&args.file)?)
    };
    let answer = input::answer(&bytes).map_err(|why| Failure::about(name, why))?;
    output::line(&answer.to_string())?;
    Ok(Answer::Yes)
}

fn requestors(mix: &Mix) -> Vec<Requestor> {
    let milli = |n: u64| n as f64 / 1e3;
    let each = mix.requestors.iter().map(|one| Requestor {
        pattern: one.pattern,
        outstanding: milli(one.outstanding_milli),
        think_ns: milli(one.think_ps),
        writebacks: milli(one.writebacks_milli),
    });
    each.collect()
}

/// What a mix comes to.
struct Answered {
    each: Vec<Solved>,
    /// GB/s, reads and writes.
    total: f64,
    /// Mean over reads, ns.
    latency: f64,
}

impl Answered {
    fn to(memory: &Dram, requestors: &[Requestor]) -> Self {
        let mut each = Vec::new();
        Law::new(memory).solve(requestors, &mut each);
        // A sum of nothing is -0.
        let total = dram::bytes_per_ns(requestors, &each) + 0.0;
        let latency = dram::mean_read_latency_ns(&each);
        Self { each, total, latency }
    }

    fn json(&self) -> Value {
        let each = |one: &Solved| {
            json!({
                "read_Mps": one.reads_per_ns * 1e3,
                "read_lat_ns": one.latency_ns,
                "occupancy": one.occupancy,
            })
        };
        json!({
            "requestors": self.each.iter().map(each).collect::<Vec<_>>(),
            "total_GBps": self.total,
            "read_lat_ns": self.latency,
        })
    }

    fn text(&self, mix: &Mix) -> String {
        let head = format!(
            "{:>3}  {:<7}  {:>6}  {:>9}  {:>5}  {:>9}  {:>9}  {:>9}",
            "", "pattern", "W", "Z ns", "wb", "Mreads/s", "latency", "occupancy"
        );
        let mut text = paint(Paint::Strong, &head) + "\n";
        let requestors = requestors(mix);
        for (number, (one, solved)) in requestors.iter().zip(&self.each).enumerate() {
            text += &format!(
                "{:>3}  {:<7}  {:>6}  {:>9}  {:>5}  {:>9.2}  {:>6.1} ns  {:>9.2}\n",
                number + 1,
                pattern_word(one.pattern),
                one.outstanding,
                one.think_ns,
                one.writebacks,
                solved.reads_per_ns * 1e3,
                solved.latency_ns,
                solved.occupancy,
            );
        }
        let cycles = self.latency * mix.memory.cycles_per_us as f64 / 1e3;
        text += &format!(
            "total {:.2} GB/s, reads and writes; mean read latency {:.1} ns ({cycles:.0} cycles)\n",
            self.total, self.latency
        );
        let r_min = mix.memory.dram.guaranteed_bandwidth() / 1_000_000;
        text + &format!("r_min {r_min}MB/s from the timings: all requests new rows of one bank\n")
    }
}
