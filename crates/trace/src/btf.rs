//! A trace in the Best Trace Format, which Eclipse Trace Compass and tools for timing analysis of
//! cars' control units read.
//!
//! Written after version 2.1.3 of its specification (Timing-Architects, Eclipse Auto IWG) and as
//! Trace Compass reads it: seven columns, `time,source,instance,type,target,instance,event`, times
//! in nanoseconds since the start of the run. A VCPU is a task (`T`), its job N the instance N + 1;
//! the instance 0 is its time outside jobs. A core is `Core_N`, and `STI_NAME` stands for what
//! releases jobs. The states follow the format's chart of processes:
//!
//! | event | when |
//! |---|---|
//! | `activate` | the job is released; outside jobs: the VCPU first had something to run |
//! | `start`, `resume` | it is put on a core, for the first time or again |
//! | `preempt` | it is taken from the core and has more to run |
//! | `wait`, `release` | it blocks before it is over; it has something to run again |
//! | `terminate` | it is over |

use crate::TraceError;
use crate::steps::{Before, Step, Steps, What};
use std::io::Write;

/// Of the format. Trace Compass shows it and no reader that we know asks for one.
const VERSION: &str = "2.1.3";

/// Writes the trace of a whole journal. Returns what of it the format cannot say, a sentence each.
///
/// # Errors
/// Where the journal cannot be read or `out` cannot be written.
pub fn from_journal(journal: &[u8], mut out: impl Write) -> Result<Vec<String>, TraceError> {
    let run = Steps::of(journal)?;
    let creator = env!("CARGO_PKG_VERSION");
    // A date is expected. Readers add it to the times, which begin at 0 here, and a real one would
    // make two traces of one journal differ.
    writeln!(out, "#version {VERSION}\n#creator maracas {creator}")?;
    writeln!(out, "#creationDate 1970-01-01T00:00:00Z\n#timeScale ns")?;
    let names: Vec<String> = run.tasks.iter().map(|task| plain(&task.name)).collect();
    for step in &run.steps {
        write_step(&mut out, &run, step, &names[step.vcpu.0 as usize])?;
    }
    out.flush()?;
    let changed = run.tasks.iter().zip(&names).filter(|(task, name)| task.name != **name);
    let changed: Vec<&str> = changed.map(|(_, name)| name.as_str()).collect();
    let remark = || format!("BTF has no commas in names; written as {}", changed.join(", "));
    Ok((!changed.is_empty()).then(remark).into_iter().collect())
}

fn write_step(out: &mut impl Write, run: &Steps, step: &Step, name: &str) -> std::io::Result<()> {
    let (time, job, core) = (run.ns(step.at.ticks()), step.job, step.core.0);
    let mut on_core = |event| writeln!(out, "{time},Core_{core},0,T,{name},{job},{event}");
    match step.what {
        What::Activated { .. } => {
            writeln!(out, "{time},STI_{name},{job},T,{name},{job},activate")
        }
        What::Woke => on_core("release"),
        What::On { first: true, .. } => on_core("start"),
        What::On { first: false, .. } => on_core("resume"),
        What::Off { blocked: true, .. } => on_core("wait"),
        What::Off { blocked: false, .. } => on_core("preempt"),
        What::Over { .. } => on_core("terminate"),
        // A job ends on a core, says the chart; so it comes back for no time.
        What::OverOff { before, .. } => {
            match before {
                Before::New => on_core("start")?,
                Before::Ready => on_core("resume")?,
                Before::Blocked => {
                    on_core("release")?;
                    on_core("resume")?;
                }
            }
            on_core("terminate")
        }
    }
}

/// A name without what ends a column or a line, or begins a comment.
fn plain(name: &str) -> String {
    name.replace(|c: char| c == ',' || c == '#' || c.is_control(), "_")
}
