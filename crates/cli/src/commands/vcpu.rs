//! `maracas vcpu`: asks and changes a running system over its control socket.

use maracas_client::{
    Connection, Error, Greeting, Members, NewVcpu, Reservation, VcpuId, VcpuState,
};
use maracas_console::args;
use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output;
use maracas_core::contract::Mode;
use maracas_core::{Arrival, CoreId, Criticality, Duration, Role, Vcpu};
use serde_json::json;
use std::num::NonZero;
use std::path::PathBuf;

/// What to do with the VCPUs of the running system.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Action {
    /// Create a VCPU for a process that runs already
    ///
    /// Exits 1 with the numbers where it is not admitted.
    ///
    /// Example: maracas vcpu create --budget 2ms --period 10ms --pid 4711
    Create(Create),
    /// List the VCPUs
    ///
    /// Example: maracas vcpu list --json
    List(List),
    /// Change the budget or the period of a VCPU; what is not named stays
    ///
    /// Example: maracas vcpu set video --budget 5ms
    Set(Set),
    /// Remove a VCPU; programs that the run started on it are ended
    ///
    /// Example: maracas vcpu destroy video
    Destroy(Destroy),
}

/// (C, T, D).
#[derive(clap::Args, Debug)]
pub(crate) struct Promise {
    /// C
    #[arg(long, value_name = "TIME", value_parser = args::positive)]
    budget: Duration,
    /// T
    #[arg(long, value_name = "TIME", value_parser = args::positive)]
    period: Duration,
    /// D, at most T; T where it is left out
    #[arg(long, value_name = "TIME", value_parser = args::positive)]
    deadline: Option<Duration>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Create {
    #[command(flatten)]
    promise: Promise,
    /// The process whose threads run on it
    #[arg(long, conflicts_with = "tid")]
    pid: Option<u32>,
    /// The one thread that runs on it
    #[arg(long)]
    tid: Option<u32>,
    /// Its name; without it, the runtime chooses one
    #[arg(long, default_value = "")]
    name: String,
    #[command(flatten)]
    demands: Demands,
    /// The answer as JSON
    #[arg(long)]
    json: bool,
    /// The run that is meant, by its process, where several are alive
    #[arg(long, value_name = "PID")]
    run: Option<u32>,
}

/// What a scenario says of a VCPU beside its promise, by the same words.
#[derive(clap::Args, Debug)]
struct Demands {
    /// What it is for
    #[arg(long, value_enum, default_value_t = Kind::Main)]
    kind: Kind,
    /// Its demand comes as jobs: one every period, or with =sporadic at least a period apart
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "periodic")]
    jobs: Option<Jobs>,
    /// The first of its periodic jobs comes so long after it was created
    #[arg(long, value_name = "TIME", value_parser = args::duration, requires = "jobs")]
    offset: Option<Duration>,
    /// The core that it must be on
    #[arg(long)]
    core: Option<u16>,
    /// The least number of page colours that it needs of its core
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    colors: u32,
    /// Its share among equals, 1 to 10000
    #[arg(long, default_value_t = 1)]
    weight: u32,
    /// Memory bandwidth of its own, such as 200MB/s
    #[arg(long, value_parser = args::bandwidth)]
    bandwidth: Option<u64>,
    /// Low: others may take its page colours
    #[arg(long, value_enum, default_value_t = Level::High)]
    criticality: Level,
    /// The class of cores on which its budget is meant, by its number: 0 is the fastest
    #[arg(long, value_name = "NUMBER")]
    class: Option<u8>,
    /// How many times as fast its programs are on the first class as on the last, 1 to 1000
    #[arg(long, value_name = "TIMES", value_parser = args::speedup)]
    speedup: Option<u32>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kind {
    /// It runs programs
    Main,
    /// It serves the requests of other VCPUs
    Io,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Jobs {
    /// One every period
    Periodic,
    /// At least a period apart
    Sporadic,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Level {
    /// Its page colours stay
    High,
    /// Others may take its page colours
    Low,
}

impl Demands {
    /// `vcpu` with all this said of it.
    fn of(&self, vcpu: Vcpu) -> Result<Vcpu, Failure> {
        let arrival = match (self.jobs, self.offset) {
            (None, _) => Arrival::None,
            (Some(Jobs::Periodic), offset) => {
                Arrival::Periodic { offset: offset.unwrap_or_default() }
            }
            (Some(Jobs::Sporadic), None) => Arrival::Sporadic,
            (Some(Jobs::Sporadic), Some(_)) => {
                return Err(Failure::new("--offset is for periodic jobs, and these are sporadic"));
            }
        };
        Ok(Vcpu {
            arrival,
            role: match self.kind {
                Kind::Main => Role::Main,
                Kind::Io => Role::Io,
            },
            pinned: self.core.map(CoreId),
            colors: self.colors,
            weight: self.weight,
            bandwidth: self.bandwidth.and_then(NonZero::new),
            criticality: match self.criticality {
                Level::High => Criticality::High,
                Level::Low => Criticality::Low,
            },
            class: self.class,
            speedup_milli: self.speedup.and_then(NonZero::new),
            ..vcpu
        })
    }
}

#[derive(clap::Args, Debug)]
pub(crate) struct List {
    /// The list as JSON
    #[arg(long)]
    json: bool,
    /// The run that is meant, by its process, where several are alive
    #[arg(long, value_name = "PID")]
    run: Option<u32>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Set {
    /// The VCPU's name or number
    vcpu: String,
    /// C; without it, the present one
    #[arg(long, value_name = "TIME", value_parser = args::positive)]
    budget: Option<Duration>,
    /// T; without it, the present one
    #[arg(long, value_name = "TIME", value_parser = args::positive)]
    period: Option<Duration>,
    /// D, at most T; without it T where --period is given, else the present one
    #[arg(long, value_name = "TIME", value_parser = args::positive)]
    deadline: Option<Duration>,
    /// The answer as JSON
    #[arg(long)]
    json: bool,
    /// The run that is meant, by its process, where several are alive
    #[arg(long, value_name = "PID")]
    run: Option<u32>,
}

#[derive(clap::Args, Debug)]
pub(crate) struct Destroy {
    /// The VCPU's name or number
    vcpu: String,
    /// The run that is meant, by its process, where several are alive
    #[arg(long, value_name = "PID")]
    run: Option<u32>,
}

pub(super) fn run(action: &Action) -> Outcome {
    // What is wrong with the words is said before any run is looked for.
    match action {
        Action::Create(args) => create(args),
        Action::List(args) => list(args),
        Action::Set(args) => set(args),
        Action::Destroy(args) => {
            let mut connection = connect(args.run)?;
            let id = find(&mut connection, &args.vcpu)?.vcpu;
            connection.destroy(id).map_err(Failure::new)?;
            Ok(Answer::Yes)
        }
    }
}

/// Connects to the run of the process `run`, else to the one that is found.
pub(super) fn connect(run: Option<u32>) -> Result<Connection, Failure> {
    run.map_or_else(Connection::open, Connection::open_run).map_err(|error| match error {
        Error::SeveralRuns(paths) => {
            // A socket is named after its run's process: `<pid>-<start>.sock`.
            let pid = |path: &PathBuf| {
                let name = path.file_name()?.to_string_lossy().into_owned();
                Some(name.split_once('-')?.0.to_string())
            };
            let pids: Vec<_> = paths.iter().filter_map(pid).collect();
            let pids = pids.join(", ");
            Failure::new(format!("several runs are alive: {pids}; choose one with --run PID"))
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

fn reservation(
    budget: Duration,
    period: Duration,
    deadline: Option<Duration>,
) -> Result<Reservation, Failure> {
    let reservation = Reservation { budget, period, deadline: deadline.unwrap_or(period) };
    maracas_core::control::check_reservation(&reservation).map_err(Failure::new)?;
    Ok(reservation)
}

fn create(args: &Create) -> Outcome {
    let members = match (args.pid, args.tid) {
        (Some(pid), _) => Members::Process(pid),
        (None, Some(tid)) => Members::Thread(tid),
        (None, None) => return Err(Failure::new("name what runs on it: --pid or --tid")),
    };
    let Promise { budget, period, deadline } = args.promise;
    let reservation = reservation(budget, period, deadline)?;
    let vcpu = Vcpu { reservation, ..Vcpu::new(0, budget, period) };
    let new = NewVcpu { name: args.name.clone(), vcpu: args.demands.of(vcpu)?, members };
    new.check().map_err(Failure::new)?;
    let mut connection = connect(args.run)?;
    let created = connection.create(&new);
    answer(created, connection.greeting().pid, args.json)
}

fn set(args: &Set) -> Outcome {
    if args.budget.or(args.period).or(args.deadline).is_none() {
        return Err(Failure::new("name what changes: --budget, --period or --deadline"));
    }
    if let (Some(budget), Some(period)) = (args.budget, args.period) {
        reservation(budget, period, args.deadline)?;
    }
    let mut connection = connect(args.run)?;
    let state = find(&mut connection, &args.vcpu)?;
    let old = state.reservation;
    if old.is_none() && (args.budget.is_none() || args.period.is_none()) {
        let name = &state.name;
        let line = format!("{name} has no reservation; name both --budget and --period");
        return Err(Failure::new(line));
    }
    let kept = if args.period.is_none() { Some(old.deadline) } else { None };
    let new = reservation(
        args.budget.unwrap_or(old.budget),
        args.period.unwrap_or(old.period),
        args.deadline.or(kept),
    )?;
    let core = connection.set(state.vcpu, new);
    answer(core.map(|core| (state.vcpu, core)), connection.greeting().pid, args.json)
}

/// Shows what admission said.
fn answer(result: Result<(VcpuId, CoreId), Error>, run: u32, as_json: bool) -> Outcome {
    match result {
        Ok((vcpu, core)) => {
            output::line(&if as_json {
                let (vcpu, core) = (vcpu.0, core.0);
                json!({ "admitted": true, "vcpu": vcpu, "core": core, "pid": run }).to_string()
            } else {
                format!("admitted: {vcpu} on {core} in run {run}")
            })?;
            Ok(Answer::Yes)
        }
        Err(Error::Refused(refusal)) => {
            let numbers: Vec<_> = refusal
                .numbers
                .iter()
                .map(|number| {
                    json!({
                        "test": number.test,
                        "vcpu": number.vcpu.map(|vcpu| vcpu.0),
                        "value": number.value,
                        "bound": number.bound,
                        "accepted": number.accepted,
                    })
                })
                .collect();
            let text = &refusal.text;
            output::line(&if as_json {
                json!({ "admitted": false, "reason": text, "numbers": numbers, "pid": run })
                    .to_string()
            } else {
                format!("refused by run {run}: {text}")
            })?;
            Ok(Answer::No)
        }
        Err(error) => Err(Failure::new(error)),
    }
}

fn list(args: &List) -> Outcome {
    let mut connection = connect(args.run)?;
    let vcpus = connection.list().map_err(Failure::new)?;
    if args.json {
        let greeting = connection.greeting();
        let list: Vec<_> = vcpus.iter().map(state_json).collect();
        let json = json!({ "pid": greeting.pid, "policy": greeting.policy, "vcpus": list });
        output::line(&format!("{json:#}"))?;
        return Ok(Answer::Yes);
    }
    let width = vcpus.iter().map(|state| state.name.chars().count()).max().unwrap_or(0).max(4);
    let Greeting { pid, policy, .. } = connection.greeting();
    let mut text = format!("run {pid}, policy {policy}\n");
    text += &format!(
        "{:>4}  {:width$}  {:>16}  {:>6}  {:>7}  {:10}  {:>12}  {:>12}\n",
        "vcpu", "name", "C/T", "core", "threads", "mode", "foreground", "background"
    );
    for state in &vcpus {
        let Reservation { budget, period, .. } = state.reservation;
        let promise =
            if state.reservation.is_none() { "-".into() } else { format!("{budget}/{period}") };
        text += &format!(
            "{:>4}  {:width$}  {:>16}  {:>6}  {:>7}  {:10}  {:>12}  {:>12}\n",
            state.vcpu.0,
            state.name,
            promise,
            state.core.to_string(),
            state.threads,
            mode(state.mode),
            maracas_trace::table::time(state.foreground.ticks() as f64),
            maracas_trace::table::time(state.background.ticks() as f64),
        );
    }
    output::print(&text)?;
    Ok(Answer::Yes)
}

const fn mode(mode: Option<Mode>) -> &'static str {
    match mode {
        Some(Mode::Foreground) => "foreground",
        Some(Mode::Background) => "background",
        None => "held",
    }
}

fn state_json(state: &VcpuState) -> serde_json::Value {
    let Reservation { budget, period, deadline } = state.reservation;
    json!({
        "vcpu": state.vcpu.0,
        "name": state.name,
        "budget_ns": budget.ticks(),
        "period_ns": period.ticks(),
        "deadline_ns": deadline.ticks(),
        "core": state.core.0,
        "threads": state.threads,
        "mode": mode(state.mode),
        "foreground_ns": state.foreground.ticks(),
        "background_ns": state.background.ticks(),
    })
}

/// The VCPU of this name, else of this number.
fn find(connection: &mut Connection, word: &str) -> Result<VcpuState, Failure> {
    let vcpus = connection.list().map_err(Failure::new)?;
    let number: Option<u32> = word.parse().ok();
    let named = vcpus.iter().find(|state| state.name == word);
    let found = named.or_else(|| vcpus.iter().find(|state| Some(state.vcpu.0) == number));
    found.cloned().ok_or_else(|| {
        let near =
            maracas_console::failure::did_you_mean(word, vcpus.iter().map(|s| s.name.as_str()));
        Failure::new(format!("there is no VCPU \"{word}\"{near} (`maracas vcpu list` shows all)"))
    })
}
