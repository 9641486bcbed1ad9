//! `maracas profile`: the workload model of a program, measured.

mod curve;
mod events;
mod model;
mod phases;
#[cfg(test)]
mod tests;
mod text;

use curve::Knife;
use events::Counted;
use maracas_console::args;
use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output::{self, Bar};
use maracas_core::Duration;
use maracas_live::host::HardwareCore;
use maracas_live::host::hardware::{Load, ThisHardware};
use maracas_live::host::launch::{Command, Exit, Output, resolve};
use maracas_live::host::platform::Platform;
use maracas_live::profile::{self, Plan};
use model::{Machine, Model, Sums};
use serde_json::json;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration as Time, Instant};

/// Measure what a program does to memory, as a workload model for `maracas sim`
///
/// Runs it alone on one core, then again beside graded load on the other cores, and writes its
/// model as TOML: instructions and time between references to the last-level cache, misses, how
/// many are under way at once, its working set, its phases. A scenario takes the file as `memory =
/// "mine.toml"`. What the host does not count is left out, and the file says so. The program's own
/// output is shown only where the model goes to a file.
///
/// Example: maracas profile --output mine.toml -- ./mine --size 3
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The file for the model; without it, standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How long the program is measured alone, should it run so long; beside load a third of it
    #[arg(long, default_value = "10s", value_parser = args::positive, value_name = "TIME")]
    duration: Duration,
    /// Time between two readings of the counters: phases shorter than twice this are not seen
    #[arg(long, default_value = "100ms", value_parser = args::positive)]
    #[arg(value_name = "TIME")]
    interval: Duration,
    /// So much of the program's own time at its start is left out: loading, preparing
    #[arg(long, default_value = "0s", value_parser = args::duration, value_name = "TIME")]
    skip: Duration,
    /// Leave out the runs beside load
    #[arg(long)]
    alone: bool,
    /// The measurement as JSON on standard output
    #[arg(long)]
    json: bool,
    /// The program with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// What was found of a program.
struct Profiled {
    program: String,
    host: String,
    service: Time,
    /// How long its own misses took on average, in nanoseconds, where that was counted.
    own_latency_ns: Option<f64>,
    phases: Vec<Model>,
    working_set: Option<u64>,
    loads: Vec<Loaded>,
    /// One sentence each: what was not measured and why, what to know of what was.
    remarks: Vec<String>,
}

/// What a load made of it.
#[derive(Clone, Debug)]
struct Loaded {
    load: String,
    /// Latency of memory under this load alone.
    latency_ns: f64,
    /// Time per reference of the program beside it.
    each_ns: Option<f64>,
    /// Misses per reference beside it.
    ratio: Option<f64>,
}

/// Carries out `maracas profile`.
///
/// # Errors
/// Bad input, a program that cannot be run, or counters that cannot be had.
pub fn run(args: &Args) -> Outcome {
    let shows = args.output.is_some() && !args.json;
    let command = Command {
        argv: args.command.iter().map(Into::into).collect(),
        output: if shows { Output::Inherit } else { Output::Null },
        ..Command::default()
    };
    resolve(&command).map_err(Failure::new)?;
    let pending = output::Pending::maybe(args.output.as_ref())?;
    // Whenever this process dies, the guardian ends the program and removes its group.
    let _guarded = maracas_session::live::guard()?;
    let found = Bench::new(args, command)?.measure()?;
    let text = text::toml(&found);
    if let Some(mut file) = pending {
        let fail = |error| Failure::about("--output", error);
        std::io::Write::write_all(&mut file, text.as_bytes()).map_err(fail)?;
        file.commit()?;
        found.remarks.iter().for_each(|remark| output::note(remark));
    } else if !args.json {
        output::print(&text)?;
    }
    if args.json {
        output::line(&format!("{:#}", to_json(&found, &text)))?;
    }
    Ok(Answer::Yes)
}

/// What measuring needs to know.
struct Bench {
    command: Command,
    core: HardwareCore,
    /// The other cores, for load.
    others: Vec<HardwareCore>,
    counted: Counted,
    hardware: ThisHardware,
    interval: Time,
    skip: Time,
    alone: Time,
    loaded: bool,
    host: String,
    stop: std::sync::Arc<AtomicBool>,
}

/// Lines of a chase that measures the latency of memory: some 5 ms.
const CHASE: u64 = 40_000;
/// Chases of which the middle one counts: what others do meanwhile, they do beside the program too.
const CHASES: usize = 5;

impl Bench {
    fn new(args: &Args, command: Command) -> Result<Self, Failure> {
        let platform = Platform::detect().map_err(|error| Failure::about("this host", error))?;
        let Some((core, others)) = platform.cores.split_last() else {
            return Err(Failure::new("no core may be used; widen the affinity of this shell"));
        };
        let (interval, alone) = (args.interval.ticks(), args.duration.ticks());
        if interval * 3 > alone {
            return Err(Failure::new(format!(
                "--interval {} leaves fewer than three readings in --duration {}; lower it",
                args.interval, args.duration
            )));
        }
        Ok(Self {
            command,
            core: *core,
            others: others.to_vec(),
            counted: Counted::of(&ThisHardware, *core).map_err(Failure::new)?,
            hardware: ThisHardware,
            interval: Time::from_nanos(interval),
            skip: Time::from_nanos(args.skip.ticks()),
            alone: Time::from_nanos(alone),
            loaded: !args.alone,
            host: platform.to_string(),
            stop: maracas_console::signals::stop_flag()?,
        })
    }

    fn measure(&self) -> Result<Profiled, Failure> {
        let latency_ns = self.latency(&[])?;
        let (run, service) = self.count("alone", &[], self.skip, self.alone)?;
        let mut divided = phases::divide(&run.slices);
        let whole = sums_of(&run);
        // Too short a phase may have had no turn of the occupancy: the whole run is nearest.
        for phase in &mut divided.cycle {
            phase.sums.outstanding = phase.sums.outstanding.or(whole.outstanding);
        }
        let cache_bytes = events::cache_bytes(self.core);
        let machine =
            Machine { latency_ns: Some(latency_ns), cache_bytes, hits: self.counted.hits };
        let mut remarks = self.counted.missing.clone();
        remarks.push(format!(
            "Memory answered in {latency_ns:.0} ns with nothing else beside it (pointer chase)."
        ));
        if run.took_turns {
            remarks.push("Counters took turns: counts are extrapolated.".to_string());
        }
        let skip = self.skip + divided.start;
        if !skip.is_zero() {
            let seconds = skip.as_secs_f64();
            remarks.push(format!("The first {seconds:.1} s of its time, its start, are left out."));
        }
        let working_set = working_set(&run.touched, divided.start);
        let points = self.points(&machine, &divided.cycle, skip, &mut remarks)?;
        let modelled = |phase| model::model(phase, &machine, working_set, &points);
        let mut phases: Vec<Model> = divided.cycle.iter().filter_map(modelled).collect();
        if !phases.iter().any(Model::uses_memory) {
            phases.clear();
        }
        let own_latency_ns = phases.iter().filter(|p| p.uses_memory()).find_map(|p| p.latency_ns);
        if let Some(latency_ns) = own_latency_ns {
            remarks.push(format!("Its own misses took {latency_ns:.0} ns."));
        }
        let loads = if self.loaded { self.loads(skip)? } else { Vec::new() };
        self.fit(&mut phases, &divided.cycle, latency_ns, &loads, &mut remarks);
        remarks.extend(loads.iter().map(said));
        let (program, host) = (self.shown(), self.host.clone());
        Ok(Profiled { program, host, service, own_latency_ns, phases, working_set, loads, remarks })
    }

    /// Points of the miss curve, the whole cache among them; none where the cache cannot be cut, or
    /// the program changes its ways: whose misses they were would not be known.
    fn points(
        &self,
        machine: &Machine,
        phases: &[phases::Phase],
        skip: Time,
        remarks: &mut Vec<String>,
    ) -> Result<Vec<(u64, f64)>, Failure> {
        let ([phase], Some(cache_bytes)) = (phases, machine.cache_bytes) else {
            remarks.push("The miss curve has one point for each phase.".to_string());
            return Ok(Vec::new());
        };
        let knife = match Knife::of(self.core) {
            Ok(knife) => knife,
            Err(why) => {
                remarks.push(format!("The miss curve has one point: {why}."));
                return Ok(Vec::new());
            }
        };
        let mut points = Vec::new();
        for part in &knife.parts {
            let (_ways, bytes) = knife.cut(*part, cache_bytes).map_err(Failure::new)?;
            let (run, _) = self.count("with less cache", &[], skip, self.alone / 3)?;
            points.extend(sums_of(&run).miss_ratio().map(|ratio| (bytes, ratio)));
        }
        points.extend(phase.sums.miss_ratio().map(|ratio| (cache_bytes, ratio)));
        Ok(points)
    }

    /// Takes W from the runs beside load where it was not counted.
    fn fit(
        &self,
        models: &mut [Model],
        phases: &[phases::Phase],
        idle_ns: f64,
        loads: &[Loaded],
        remarks: &mut Vec<String>,
    ) {
        if self.counted.events.waiting.is_some() || models.is_empty() {
            return;
        }
        let mut sums = Sums::default();
        phases.iter().for_each(|phase| sums.add(&phase.sums));
        let (Some(references), Some(ratio)) = (sums.references_or_reads(), sums.miss_ratio())
        else {
            return;
        };
        let mut points = vec![(idle_ns, sums.service_ns / references)];
        points.extend(loads.iter().filter_map(|load| Some((load.latency_ns, load.each_ns?))));
        match model::fitted_outstanding(&points, ratio) {
            Some(outstanding) => {
                models.iter_mut().for_each(|model| model.outstanding = Some(outstanding));
                remarks.push("`outstanding` is fitted to the runs beside load.".to_string());
            }
            None => remarks.push(
                "`outstanding` is not measured: no counter, and load moved the latency by less \
                 than a tenth."
                    .to_string(),
            ),
        }
    }

    /// The runs beside graded load: one core of it with pauses, one without, all other cores.
    fn loads(&self, skip: Time) -> Result<Vec<Loaded>, Failure> {
        let mut grades = vec![(1, 400), (1, 0)];
        if self.others.len() > 1 {
            grades.push((self.others.len(), 0));
        }
        grades.retain(|(cores, _)| *cores <= self.others.len());
        let each = grades.into_iter().map(|(cores, delay)| {
            let beside: Vec<_> =
                self.others[..cores].iter().map(|core| (*core, flood(delay))).collect();
            let latency_ns = self.latency(&beside)?;
            let (run, _) = self.count("beside load", &beside, skip, self.alone / 3)?;
            let sums = sums_of(&run);
            let references = sums.references_or_reads();
            Ok(Loaded {
                load: format!("m_jump --delay {delay} on {cores} of the other cores"),
                latency_ns,
                each_ns: references.map(|references| sums.service_ns / references),
                ratio: sums.miss_ratio(),
            })
        });
        each.collect()
    }

    /// The latency of memory on the program's core beside a load, in nanoseconds.
    fn latency(&self, beside: &[(HardwareCore, Command)]) -> Result<f64, Failure> {
        let chase = Load::Chase { lines: CHASE };
        let times = profile::loads_beside(beside, self.core, chase, CHASES);
        let mut times = times.map_err(|error| Failure::about("the latency of memory", error))?;
        times.sort_unstable();
        Ok(times[CHASES / 2].as_nanos() as f64 / CHASE as f64)
    }

    fn count(
        &self,
        what: &'static str,
        beside: &[(HardwareCore, Command)],
        skip: Time,
        most: Time,
    ) -> Result<(profile::Run, Time), Failure> {
        let (mut bar, begin) = (Bar::new(what), Instant::now());
        let plan = Plan {
            command: &self.command,
            core: self.core,
            beside,
            events: self.counted.events,
            interval: self.interval,
            skip,
            most,
        };
        let shown = |elapsed: Time| {
            bar.show(elapsed.as_secs_f64() / most.as_secs_f64(), begin.elapsed());
        };
        let run = profile::run(&plan, &self.hardware, &self.stop, shown);
        bar.clear();
        let run = run.map_err(|error| Failure::about(self.shown(), error))?;
        if self.stop.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Failure::new("interrupted; the program was ended"));
        }
        match run.exit {
            Some(Exit::Code(code)) if code != 0 => {
                return Err(Failure::about(self.shown(), format!("ended with code {code}")));
            }
            Some(Exit::Signal(signal)) => {
                return Err(Failure::about(self.shown(), format!("ended by signal {signal}")));
            }
            Some(Exit::Code(_)) | None => {}
        }
        let service: Time = run.slices.iter().map(|slice| slice.service).sum();
        // Of one interval nothing can be said of phases, and its start is most of it; so it is of a
        // program that only sleeps.
        if run.slices.len() < 3 || service < self.interval {
            return Err(Failure::about(self.shown(), self.too_short(service, skip)));
        }
        Ok((run, service))
    }

    fn too_short(&self, ran: Time, skip: Time) -> String {
        let (ran_ms, interval_ms) = (ran.as_secs_f64() * 1e3, self.interval.as_millis());
        let after = match skip.is_zero() {
            true => String::new(),
            false => format!(" after the first {:.1} s", skip.as_secs_f64()),
        };
        format!(
            "was on the core for {ran_ms:.0} ms only{after}, and three intervals of \
             {interval_ms} ms are needed; give it more to do, or lower --interval"
        )
    }

    fn shown(&self) -> String {
        let words = self.command.argv.iter().map(|word| word.to_string_lossy());
        words.collect::<Vec<_>>().join(" ")
    }
}

/// The most bytes that were touched in a window. The first is the program's preparing for what it
/// does, as is what begins before `start`, and counts only where nothing else was seen.
fn working_set(windows: &[(Time, u64)], start: Time) -> Option<u64> {
    let later = windows.iter().skip(1).filter(|(begun, _)| *begun >= start);
    let most = later.map(|(_, bytes)| *bytes).max();
    most.or_else(|| windows.iter().map(|(_, bytes)| *bytes).max())
}

fn sums_of(run: &profile::Run) -> Sums {
    let mut sums = Sums::default();
    run.slices.iter().for_each(|slice| sums.add(&Sums::of(slice)));
    sums
}

/// The program that loads memory: the paper's (MARACAS, section VI.B).
fn flood(delay: u32) -> Command {
    let argv = ["maracas", "work", "m_jump", "--quiet", "--delay"].map(Into::into);
    let argv = argv.into_iter().chain([delay.to_string().into()]).collect();
    Command { argv, output: Output::Null, ..Command::default() }
}

fn said(load: &Loaded) -> String {
    let each =
        load.each_ns.map_or(String::new(), |each_ns| format!(", {each_ns:.1} ns a reference"));
    let misses = load.ratio.map_or(String::new(), |r| format!(", {:.1} % miss", r * 100.0));
    format!("Beside {}: latency {:.0} ns{each}{misses}.", load.load, load.latency_ns)
}

fn to_json(found: &Profiled, toml: &str) -> serde_json::Value {
    let phase = |model: &Model| {
        json!({
            "run_us": model.run.as_micros() as u64,
            "references_per_us": model.rate,
            "miss_ratio": model.ratio,
            "instructions": model.instructions,
            "think_ns": model.think_ns,
            "outstanding": model.outstanding,
            "latency_ns": model.latency_ns,
        })
    };
    let load = |load: &Loaded| {
        json!({
            "load": load.load,
            "latency_ns": load.latency_ns,
            "ns_per_reference": load.each_ns,
            "miss_ratio": load.ratio,
        })
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "program": found.program,
        "host": found.host,
        "service_s": found.service.as_secs_f64(),
        "working_set_bytes": found.working_set,
        "own_latency_ns": found.own_latency_ns,
        "phases": found.phases.iter().map(phase).collect::<Vec<_>>(),
        "loads": found.loads.iter().map(load).collect::<Vec<_>>(),
        "remarks": found.remarks,
        "toml": toml,
    })
}
