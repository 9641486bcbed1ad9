//! `maracas bench colors`: page colours on this host, from the frames to a running program.
//!
//! A buffer of chosen colours is built and looked at frame by frame; pages of one colour are held
//! against pages of all, so that the conflict in the cache shows; a program without any rights is
//! recoloured by orders while it runs, hashes its memory before and after, and is looked at from
//! outside; and what a page costs is measured.

mod access;
mod program;
mod report;

use super::measured_core;
use access::Conflict;
use maracas_client::color::{
    Buffer, CacheColors, ColorSet, Error, Indexing, Means, Pagemap, Report, caches, recolor,
};
use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output;
use program::Orders;
use std::ops::Range;
use std::time::Instant;

/// Measure page colours: buffers of chosen colours, conflicts, recolouring and what a page costs
///
/// Needs visible page frames (CAP_SYS_ADMIN) and, to recolour programs, Linux 6.8. Exits 1 where a
/// frame has a wrong colour (more than 1 % of them: the kernel moves some itself) or where a
/// program's content changed. Whether colours are real on this host shows in the conflict: caches
/// that hash addresses have none. Takes some seconds and 256 MiB.
///
/// Example: maracas bench colors --json
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The result as JSON
    #[arg(long)]
    json: bool,
    /// Be the program that is recoloured
    #[arg(long, hide = true)]
    program: bool,
}

/// Bytes of the buffer that is verified, and of each that is measured.
const BYTES: usize = 4 << 20;
/// Pages of one recolouring that is measured.
const WINDOW: usize = 64;
/// How many of them.
const WINDOWS: usize = 200;
/// Pages in wrong frames are borne up to this part: compaction moves some between the moving and
/// the looking.
const BORNE: usize = 100;

/// Everything that was measured.
struct Measured {
    host: String,
    cache: CacheColors,
    set: ColorSet,
    buffer: Report,
    conflicts: Vec<Conflict>,
    /// Whether they show that colours are real on this host.
    conflict_is_seen: bool,
    orders: Result<Orders, String>,
    costs: Vec<Cost>,
}

/// What a page costs, in nanoseconds.
struct Cost {
    what: &'static str,
    pages: usize,
    result: Result<Spread, String>,
}

/// How times are spread.
#[derive(Clone, Copy)]
struct Spread {
    p50: f64,
    p99: f64,
    /// Pages that were looked at for each that was kept; 0 where none was sought.
    seen: f64,
    /// The longest time for which a page was away from its program.
    longest: f64,
}

impl Measured {
    fn holds(&self) -> bool {
        let orders = self.orders.as_ref().map_or(true, Orders::hold);
        is_right(&self.buffer) && orders
    }
}

/// Whether as good as every page lies where it was to lie.
fn is_right(report: &Report) -> bool {
    report.unseen == 0 && report.wrong * BORNE <= report.pages
}

/// Measures everything.
pub fn colors(args: &Args) -> Outcome {
    if args.program {
        return program::be();
    }
    let measured = measure(!args.json)?;
    if args.json {
        output::line(&report::to_json(&measured))?;
    } else {
        output::print(&report::text(&measured))?;
    }
    Ok(if measured.holds() { Answer::Yes } else { Answer::No })
}

fn measure(talks: bool) -> Result<Measured, Failure> {
    let core = measured_core()?;
    let say = |what: &str| {
        if talks {
            output::note(what);
        }
    };
    let cache = colored_cache(core)?;
    let colors = (cache.colors as u32).min(64);
    // Every fourth colour: frames are found soon, and a wrong one would show.
    let mask = (0..colors).step_by(4).fold(0, |mask, color| mask | 1 << color);
    let set = ColorSet::new(mask, colors).map_err(failed)?;
    say("a buffer of chosen colours");
    let buffer = Buffer::of_colors(BYTES, set).map_err(failed)?.verify().map_err(failed)?;
    say("pages of one colour against pages of all");
    super::target::pin(None, core)?;
    let conflicts = access::measure(&cache, colors)?;
    super::target::unpin(std::process::id())?;
    let conflict_is_seen = access::is_seen(&conflicts, &cache, colors);
    say("a program that is recoloured while it runs");
    let orders = program::order(colors).map_err(|failure| match failure {
        Failure::Bad(why) => why,
        Failure::OutputClosed => "the output was closed".to_string(),
    });
    say("what a page costs");
    let uname = rustix::system::uname();
    let host =
        format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy());
    let costs = vec![build(Means::Move, set), build(Means::Remap, set), move_in_use(set)];
    Ok(Measured { host, cache, set, buffer, conflicts, conflict_is_seen, orders, costs })
}

/// The farthest cache whose colours are plain: what can be shown on every host that has one.
fn colored_cache(core: usize) -> Result<CacheColors, Failure> {
    let caches =
        caches(core as u32).map_err(|error| Failure::about("this host's caches", error))?;
    let plain = |cache: &&CacheColors| cache.colors > 1 && cache.indexing != Indexing::Hashed;
    let found = caches.iter().rev().find(plain).or(caches.iter().rfind(|cache| cache.colors > 1));
    found.cloned().ok_or_else(|| Failure::new("no cache of this host has page colours"))
}

/// For users: one line.
fn failed(error: Error) -> Failure {
    match error {
        Error::Hidden => {
            Failure::new("bench colors needs visible page frames (CAP_SYS_ADMIN); run it as root")
        }
        error @ (Error::NoSuchSet { .. }
        | Error::NoMove(_)
        | Error::NotFound { .. }
        | Error::Mappings { .. }
        | Error::System(..)) => Failure::new(error),
    }
}

/// What a page of a new buffer costs, all the pages that are not kept included.
fn build(means: Means, set: ColorSet) -> Cost {
    let (what, pages) = match means {
        Means::Move => ("new, moved together", BYTES / 4096),
        Means::Remap => ("new, mapped together", BYTES / 4096),
    };
    let once = || {
        let began = Instant::now();
        let buffer = Buffer::by(means, BYTES, set)?;
        let nanos = began.elapsed().as_nanos() as f64 / pages as f64;
        Ok((nanos, buffer.seen() as f64 / pages as f64))
    };
    let runs: Result<Vec<(f64, f64)>, Error> = (0..9).map(|_| once()).collect();
    let result = runs.map_err(|error| error.to_string()).map(|runs| {
        let times = runs.iter().map(|run| run.0).collect();
        let seen = runs.iter().map(|run| run.1).sum::<f64>() / runs.len() as f64;
        spread(times, seen, 0.0)
    });
    Cost { what, pages, result }
}

/// What a page costs that is moved under a program's hands, in windows of a large piece of memory.
fn move_in_use(set: ColorSet) -> Cost {
    let mut memory = vec![1_u8; 2 * WINDOW * 4096];
    let start = (memory.as_mut_ptr() as usize).next_multiple_of(4096);
    let window: Range<usize> = start..start + WINDOW * 4096;
    let (mut times, mut longest, mut moved) = (Vec::new(), 0_u64, 0);
    let others = ColorSet::new(!set.mask() & (u64::MAX >> (64 - set.colors())), set.colors());
    let result = others.and_then(|others| {
        for turn in 0..WINDOWS {
            let done = recolor(window.clone(), if turn % 2 == 0 { set } else { others })?;
            if done.pages > 0 {
                times.push(done.nanos as f64 / done.pages as f64);
            }
            longest = longest.max(done.longest_nanos);
            moved += done.pages as usize;
        }
        Ok(())
    });
    let result = match result {
        Ok(()) if times.is_empty() => Err("no page had to be moved".to_string()),
        Ok(()) => Ok(spread(times, 0.0, longest as f64)),
        Err(error) => Err(error.to_string()),
    };
    Cost { what: "moved while in use", pages: moved, result }
}

fn spread(mut times: Vec<f64>, seen: f64, longest: f64) -> Spread {
    times.sort_by(f64::total_cmp);
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    Spread { p50: at(50), p99: at(99), seen, longest }
}

/// The colours of a piece of another process' memory.
fn look(pid: u32, range: Range<usize>, set: ColorSet) -> Result<Report, Failure> {
    Pagemap::of(pid).and_then(|pagemap| pagemap.verify(range, set)).map_err(failed)
}

#[cfg(test)]
mod tests;
