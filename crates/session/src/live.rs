//! A case on the live machine: what is prepared, watched and said around [`maracas_live`].

mod alarms;
pub mod backend;
pub mod senses;
pub mod steering;
#[cfg(test)]
mod tests;
mod users;

use crate::case::{Case, host_cores};
use crate::cores;
use crate::metrics;
use crate::results::{Drawn, Files, Unwritten};
use crate::view::View;
use alarms::Alarms;
use maracas_console::failure::Failure;
use maracas_console::output::{self, Pending};
use maracas_core::contract::{Policy, Statistic};
use maracas_core::journal::{Note, Reader, Record, Recorder};
use maracas_core::{Duration, Instant, Vcpu, VcpuId};
use maracas_live::control::{Board, Server};
use maracas_live::guardian::{Charge, Guardian};
use maracas_live::host::Identity;
use maracas_live::host::classes::Detected;
use maracas_live::host::launch::{Command, Exit, Output, resolve};
use maracas_live::host::platform::{Platform, throttling_us};
use maracas_live::host::probe::{Capabilities, Support};
use maracas_live::sense::Senses;
use maracas_live::{Handle, Launch, Machine, Means, Outcome, Setup};
use maracas_scenario::{Output as Destination, ProgramSpec, Scenario};
use maracas_trace::report::{ProgramReport, Run};
use maracas_trace::{Metrics, Report, perfetto};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{thread, time};

/// What the host must offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Require {
    /// Whatever it offers; fallbacks are named
    Any,
    /// Everything; a missing capability is an error
    Full,
}

/// What measures how far programs got, for policies that need it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Progress {
    /// Instructions, where all cores count them; else what programs count themselves
    Instructions,
    /// What programs count themselves (`maracas_progress`), everywhere
    Own,
}

/// What is to be run.
///
/// # Errors
/// Where a program has no command or cannot be found, or the host's cores cannot be read.
pub fn setup(case: &Case, duration: Option<Duration>) -> Result<Setup, Failure> {
    let scenario = case.scenario.as_ref().ok_or_else(|| Failure::new("a scenario is needed"))?;
    let preload = steering::preload(case).flatten();
    let programs = scenario.programs.iter();
    let programs: Result<Vec<_>, _> =
        programs.map(|program| launch(scenario, program, preload.as_deref())).collect();
    let platform = Platform::detect().map_err(|error| Failure::about("this host", error))?;
    let (count, scheduled) = (case.start.cores.len(), |vcpu: &Vcpu| !case.is_at_start(vcpu.id));
    let later = case.system.vcpus.iter().filter(|vcpu| scheduled(vcpu));
    if platform.cores.len() < count {
        let usable = host_cores()?;
        return Err(Failure::new(format!("{count} cores are asked for; {usable} may be used")));
    }
    Ok(Setup {
        system: case.start.clone(),
        cores: platform.cores[..count].to_vec(),
        names: case.start.vcpus.iter().map(|vcpu| case.name(vcpu.id)).collect(),
        later: later.map(|vcpu| (case.name(vcpu.id), vcpu.clone())).collect(),
        programs: programs?,
        duration,
        serve: scenario.run.serve,
        duty: Vec::new(),
        steering: steering::of(case),
        counting: None,
    })
}

/// Puts the cores of a scenario with classes on the host's own fast and slow ones or, where it has
/// no such ones and with `emulate`, on equal ones that are slowed down. What is emulated, in a
/// sentence.
///
/// # Errors
/// Where the host has no such cores; where there is nothing to emulate.
pub fn place(case: &Case, setup: &mut Setup, emulate: bool) -> Result<Option<String>, Failure> {
    let classes = case.scenario.as_ref().map_or(0, |scenario| scenario.platform.classes.len());
    if emulate && classes < 2 {
        let why = "--emulate has nothing to slow down; add [[platform.class]], or leave it out";
        return Err(Failure::about(&case.file, why));
    }
    if classes < 2 {
        return Ok(None);
    }
    let platform = Platform::detect().map_err(|error| Failure::about("this host", error))?;
    let (host, system) = (Detected::of_host(&platform.cores).classes, &case.start);
    let natural = cores::natural(system, &host);
    let slowed = |why| if emulate { cores::emulated(system, &host) } else { Err(why) };
    let placement = natural.or_else(slowed).map_err(|why| Failure::about(&case.file, why))?;
    let emulation = placement.emulation();
    (setup.cores, setup.duty) = (placement.cores, placement.duty);
    Ok(emulation)
}

/// One program as the live machine takes it.
fn launch(
    scenario: &Scenario,
    program: &ProgramSpec,
    preload: Option<&Path>,
) -> Result<Launch, Failure> {
    let given = program.command.as_ref().ok_or_else(|| {
        let name = &program.name;
        let why =
            format!("{name} has no command and exists in simulation only; add command = [..]");
        Failure::new(scenario.at_program(program, why))
    })?;
    let mut command = Command {
        argv: given.argv.iter().map(Into::into).collect(),
        dir: given.dir.clone(),
        env: given.env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        output: match &given.output {
            Destination::Inherit => Output::Inherit,
            Destination::Null => Output::Null,
            Destination::File(path) => Output::File(path.clone()),
        },
        ..Command::default()
    };
    users::assign(scenario, given, &mut command)?;
    preload.iter().for_each(|library| steering::load_first(&mut command, library));
    resolve(&command)
        .map_err(|error| Failure::new(scenario.at_program(program, error.to_string())))?;
    let (name, vcpu) = (program.name.clone(), program.vcpu);
    Ok(Launch { name, vcpu, command, start: program.start, stop: program.stop })
}

/// Cleans up after dead runs and looks at what the host offers: what the machine may use.
///
/// # Errors
/// Where `require` asks for more than there is.
pub fn prepare(
    case: &Case,
    setup: &Setup,
    require: Require,
    talks: bool,
) -> Result<Means, Failure> {
    let cleaned = maracas_live::clean::clean();
    let mut cleaned =
        cleaned.map_err(|error| Failure::about("cleaning up after dead runs", error))?;
    // Runs beside this one are not reported here; one on the same cores is an error of the
    // machine's own.
    cleaned.living.clear();
    if talks && !cleaned.is_empty() {
        cleaned.to_string().lines().for_each(output::note);
    }
    let found = Capabilities::probe(&setup.cores)
        .map_err(|error| Failure::about("this host cannot be probed", error))?;
    let missing: Vec<_> = found.missing().collect();
    if require == Require::Full && (found.support() != Support::Full || !missing.is_empty()) {
        let (support, missing) = (found.support(), missing.join("; "));
        return Err(Failure::new(format!("--require full: this host offers {support}; {missing}")));
    }
    if found.support() == Support::SimulationOnly {
        let missing = missing.join("; ");
        return Err(Failure::new(format!("this host can only simulate: {missing}")));
    }
    if talks {
        missing.iter().for_each(|line| output::note(line));
        users::remarks(setup).iter().for_each(|line| output::note(line));
        if let Some((runtime, period)) = Platform::detect().ok().and_then(|it| throttling_us(&it)) {
            output::note(&format!(
                "real-time threads, and budgets with them, are stopped after {runtime} of each \
                 {period} us; write {} or more into /proc/sys/kernel/sched_rt_runtime_us, or -1",
                period / 20 * 19
            ));
        }
    }
    let needs = case.entry.needs;
    if needs.visible_wakes && talks {
        let name = case.entry.name;
        output::note(&format!("{name} needs visible wakes; here they are seen at switch-in"));
    }
    Ok(Means::of(&found))
}

/// What is said on standard error while a run goes on, and how it is judged.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Progress and notes.
    pub talks: bool,
    /// What breaks promises, when it happens.
    pub warns: bool,
    /// Periods that stolen time spoiled count as broken promises.
    pub strict: bool,
}

/// Runs to the end of the duration, of the programs, or until SIGINT or SIGTERM. The report, and
/// what could not be written.
///
/// # Errors
/// As [`carry_out`].
pub fn run(
    case: &Case,
    setup: Setup,
    means: Means,
    policy: Box<dyn Policy>,
    guarded: Guarded,
    files: Files,
    manner: Manner,
) -> Result<(Report, Unwritten), Failure> {
    let (stop, asked) = (maracas_console::signals::stop_flag()?, setup.duration);
    let mut stream = Stream::new(case, files, manner, guarded.board.clone());
    let sink = |piece: &[u8]| stream.take(piece);
    let (outcome, lasted) = carry_out(case, setup, means, policy, guarded, &stop, sink)?;
    let progress = std::mem::take(&mut stream.progress);
    let run = Run {
        asked_ns: asked.map(Duration::ticks),
        lasted_ns: lasted.as_nanos() as u64,
        programs: outcome.programs.iter().map(program).collect(),
        trouble: outcome.trouble.clone(),
        ended: outcome.ended.clone(),
    };
    let end = Instant::ZERO + outcome.duration;
    let (report, unwritten) = stream.finish(end, &outcome.statistics, &run);
    for (vcpu, why) in &outcome.refused {
        output::note(&format!("{} was refused when it arrived: {why}", case.name(*vcpu)));
    }
    if manner.talks {
        explain(case, &outcome);
        report_progress(case, &progress);
    }
    Ok((report, unwritten))
}

/// How a program ended, as in the report.
fn program((name, exit): &(String, Option<Exit>)) -> ProgramReport {
    let (code, signal) = match exit {
        Some(Exit::Code(code)) => (Some(*code), None),
        Some(Exit::Signal(signal)) => (None, Some(*signal)),
        None => (None, None),
    };
    ProgramReport { name: name.clone(), code, signal }
}

/// Runs to the end of the duration, of the programs, or until `stop` is raised; the journal goes
/// to `sink`. How it went, and how long it took from the begin until the host was as before.
///
/// # Errors
/// Where the host refuses what the machine stands on, or a program cannot be started.
pub fn carry_out(
    case: &Case,
    mut setup: Setup,
    means: Means,
    policy: Box<dyn Policy>,
    guarded: Guarded,
    stop: &AtomicBool,
    sink: impl FnMut(&[u8]) + Send,
) -> Result<(Outcome, time::Duration), Failure> {
    let Guarded { guardian, socket, senses, board } = guarded;
    for program in &mut setup.programs {
        let variable = maracas_core::control::SOCKET_VARIABLE;
        program.command.env.insert(variable.into(), socket.clone().into());
        let variable = maracas_core::control::VCPU_VARIABLE;
        program.command.env.insert(variable.into(), program.vcpu.0.to_string().into());
    }
    let machine = Machine::with_means(setup, means, policy, case.header());
    let machine = machine.map_err(Failure::new)?.guarded_by(guardian).sensing(senses);
    let handle = machine.handle();
    let machine = match Server::start(handle.clone(), case.entry.name, board) {
        Ok(server) => {
            handle.set_gate(server.gate());
            machine.served_by(server)
        }
        Err(error) => {
            // That nothing could be served is what is to be said.
            let _ = machine.abandon();
            return Err(Failure::about("the control socket", error));
        }
    };
    let (over, began) = (AtomicBool::new(false), time::Instant::now());
    let outcome = thread::scope(|scope| {
        scope.spawn(|| heed(stop, &over, &handle));
        let outcome = machine.run(sink);
        over.store(true, Ordering::Relaxed);
        outcome
    });
    let lasted = began.elapsed();
    outcome.map(|outcome| (outcome, lasted)).map_err(Failure::new)
}

/// What stands around a run: a guardian that is there before anything is done to the host, so that
/// whenever this process dies it puts everything right and removes the socket; and the senses.
pub struct Guarded {
    /// The process that restores the host should this one die.
    pub guardian: Guardian,
    socket: PathBuf,
    senses: Senses,
    /// Where the run shows its gauges.
    pub board: Board,
}

impl Guarded {
    /// Memory is sensed by these.
    #[must_use]
    pub fn sensing(mut self, senses: Senses) -> Self {
        self.senses = senses;
        self
    }
}

/// Starts the guardian of this process.
///
/// # Errors
/// Where it cannot be started.
pub fn guard() -> Result<Guarded, Failure> {
    guard_with(None)
}

/// The same with one more file to remove however the run ends.
///
/// # Errors
/// As [`guard`].
pub fn guard_with(file: Option<&Path>) -> Result<Guarded, Failure> {
    let socket = maracas_live::control::socket_path()
        .map_err(|error| Failure::about("the control socket", error))?;
    let files = [socket.as_path()].into_iter().chain(file).map(Path::to_path_buf).collect();
    let guardian = Identity::own()
        .and_then(|run| Guardian::start(Charge { run, files }))
        .map_err(|error| Failure::about("the guardian cannot be started", error))?;
    Ok(Guarded { guardian, socket, senses: Senses::default(), board: Board::default() })
}

/// Ends the run in order when the stop flag is raised.
fn heed(stop: &AtomicBool, over: &AtomicBool, handle: &Handle) {
    // Twenty looks a second: soon enough for a hand on Ctrl-C, nothing on the cores' budgets.
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(50);
    maracas_live::host::rights::drop_for_reader();
    while !over.load(Ordering::Relaxed) {
        if stop.load(Ordering::Relaxed) {
            handle.stop();
            return;
        }
        thread::sleep(PAUSE);
    }
}

/// Says what users would want to know beside the table.
fn explain(case: &Case, outcome: &Outcome) {
    for vcpu in &outcome.silent {
        let name = case.name(*vcpu);
        output::note(&format!(
            "{name} never reported the end of a job (maracas-client does); each was taken to last \
             until the next release"
        ));
    }
}

/// Says what counted progress, and for which VCPUs there was none, where the policy needs it.
fn report_progress(case: &Case, notes: &[(Option<VcpuId>, String)]) {
    if !case.entry.needs.progress {
        return;
    }
    for (vcpu, text) in notes {
        output::note(&match vcpu {
            None => format!("progress was counted by {text}"),
            Some(vcpu) if text == "counted nothing" => format!(
                "{} counted no progress, so that its speedup stayed unknown (docs/uneven.md says \
                 how programs count)",
                case.name(*vcpu)
            ),
            Some(vcpu) => format!("progress of {}: {text}", case.name(*vcpu)),
        });
    }
}

/// The journal's bytes, for the files that are made of them.
struct Kept {
    journal: Option<Pending>,
    /// The lists and the trace in order, and the journal that they are drawn from.
    drawn: Option<(Drawn, Vec<u8>)>,
    /// Writes what the journal gets beside what the machine writes.
    recorder: Recorder,
}

impl Kept {
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some((_, kept)) = &mut self.drawn {
            kept.extend_from_slice(bytes);
        }
        self.journal.as_mut().map_or(Ok(()), |journal| journal.write_all(bytes))
    }
    fn encoded(&mut self, record: &Record) -> Vec<u8> {
        self.recorder.record(record);
        std::mem::take(self.recorder.bytes())
    }
    /// Puts the files in their places; what could not be written.
    fn finish(self) -> Vec<Failure> {
        let journal = self.journal.map(Pending::commit).and_then(Result::err);
        let drawn = self.drawn.map_or_else(Vec::new, |(drawn, kept)| drawn.write(&kept));
        journal.into_iter().chain(drawn).collect()
    }
}

/// Takes in the journal as it comes: metrics always, files where they are asked for, a view while
/// it goes on.
struct Stream {
    metrics: Metrics,
    trace: Option<perfetto::Writer<Pending>>,
    kept: Kept,
    view: Option<View>,
    /// Says what breaks promises.
    alarms: Option<Alarms>,
    /// Where gauges are shown after every piece, and the latency that they are held against.
    board: Board,
    max_latency: Option<u64>,
    /// What the journal says of progress: of the run, and of VCPUs.
    progress: Vec<(Option<VcpuId>, String)>,
    /// What the first piece begins with: the journal's magic and header.
    prefix: Vec<u8>,
    /// Whether the journal is to say that stolen periods are judged too.
    strict: bool,
    end: Option<Instant>,
    unwritten: Unwritten,
}

impl Stream {
    fn new(case: &Case, files: Files, manner: Manner, board: Board) -> Self {
        let header = case.header();
        let mut recorder = Recorder::new(&header);
        let stream = Self {
            metrics: Metrics::new(&header),
            trace: files.trace.map(|file| perfetto::Writer::new(&header, file)),
            view: manner.talks.then(View::new),
            alarms: manner.warns.then(Alarms::default),
            board,
            max_latency: metrics::max_latency(&header),
            progress: Vec::new(),
            prefix: std::mem::take(recorder.bytes()),
            kept: Kept {
                journal: files.journal,
                drawn: files.drawn.map(|drawn| (drawn, Vec::new())),
                recorder,
            },
            strict: manner.strict,
            end: None,
            unwritten: Unwritten::default(),
        };
        stream.publish();
        stream
    }

    /// Shows what was counted so far to its readers.
    fn publish(&self) {
        metrics::publish(&self.board, &self.metrics, self.max_latency);
    }

    /// Bytes of the journal, for the files that are made of it.
    fn keep(&mut self, bytes: &[u8]) {
        if let Err(error) = self.kept.take(bytes) {
            self.kept.journal = None;
            self.lose(Failure::new(error));
        }
    }

    /// Gives a file up, on whose line the view stands no longer.
    fn lose(&mut self, failure: Failure) {
        self.view.iter_mut().for_each(View::clear);
        self.unwritten.lose(failure);
    }

    /// Adds a note of the command's own to the journal.
    fn add(&mut self, at: Instant, note: Note) {
        let record = Record::Note { at, note };
        let bytes = self.kept.encoded(&record);
        self.keep(&bytes);
        self.metrics.record(&record);
    }

    fn take(&mut self, piece: &[u8]) {
        // The first piece begins with the header, which is not news.
        let prefix = std::mem::take(&mut self.prefix);
        let records = piece.strip_prefix(&prefix[..]).unwrap_or(piece);
        if !prefix.is_empty() {
            self.keep(&prefix);
            if self.strict {
                self.add(Instant::ZERO, Note::Strict);
            }
        }
        for record in Reader::piece(records) {
            match record {
                Ok(record) => self.record(&record),
                Err(error) => {
                    // What is made of it would not be whole.
                    (self.kept.journal, self.kept.drawn, self.trace) = (None, None, None);
                    self.lose(Failure::about("the live journal", error));
                    return;
                }
            }
        }
        // The end record waits until the run as a whole can be told of.
        let end = self.end.map(|at| self.kept.encoded(&Record::End(at))).unwrap_or_default();
        self.keep(records.strip_suffix(&end[..]).unwrap_or(records));
        self.publish();
        if let Some(view) = &mut self.view {
            view.refresh(&self.metrics);
        }
    }

    fn record(&mut self, record: &Record) {
        if let Some(end) = self.metrics.record(record) {
            self.end = Some(end);
        }
        if let Some(trace) = &mut self.trace {
            trace.record(record);
        }
        if let Some(error) = self.trace.as_mut().and_then(perfetto::Writer::failure) {
            self.trace = None;
            self.lose(Failure::new(error));
        }
        if let Some(view) = &mut self.view {
            view.saw(record);
        }
        if let Record::Note { at, note } = record {
            if let Note::Progress { vcpu, text } = note {
                self.progress.push((*vcpu, text.clone()));
            }
            let line = self.alarms.as_mut().and_then(|alarms| alarms.line(*at, note));
            if let Some(line) = line {
                self.view.iter_mut().for_each(View::clear);
                output::note(&line);
            }
        }
    }

    fn finish(mut self, end: Instant, statistics: &[Statistic], run: &Run) -> (Report, Unwritten) {
        if let Some(view) = &mut self.view {
            view.clear();
        }
        let at = self.end.unwrap_or(end);
        self.add(at, run.note());
        if let Some(end) = self.end {
            let bytes = self.kept.encoded(&Record::End(end));
            self.keep(&bytes);
        }
        self.unwritten.extend(self.kept.finish());
        self.metrics.statistics(statistics);
        if let Some(trace) = self.trace {
            let file = trace.finish(at).map_err(Failure::new);
            self.unwritten.extend(file.and_then(Pending::commit).err());
        }
        (self.metrics.report(at), self.unwritten)
    }
}
