//! `maracas vcpu`: asks and changes a running system over its control socket.

use maracas_client::{
    Connection, Error, Greeting, Members, NewVcpu, Reservation, VcpuId, VcpuState,
};
use maracas_console::args;
use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output;
use maracas_core::contract::Mode;
use maracas_core::{Arrival, CoreId, Duration};
use serde_json::json;
use std::path::PathBuf;

/// What to do with the VCPUs of the running system.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Vcpu {
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
    /// The core that it must be on
    #[arg(long)]
    core: Option<u16>,
    /// Its demand comes as jobs, one every period
    #[arg(long)]
    jobs: bool,
    /// The answer as JSON
    #[arg(long)]
    json: bool,
    /// The run that is meant, by its process, where several are alive
    #[arg(long, value_name = "PID")]
    run: Option<u32>,
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

pub(super) fn run(vcpu: &Vcpu) -> Outcome {
    // What is wrong with the words is said before any run is looked for.
    match vcpu {
        Vcpu::Create(args) => create(args),
        Vcpu::List(args) => list(args),
        Vcpu::Set(args) => set(args),
        Vcpu::Destroy(args) => {
            let mut connection = connect(args.run)?;
            let id = find(&mut connection, &args.vcpu)?.vcpu;
            connection.destroy(id).map_err(Failure::new)?;
            Ok(Answer::Yes)
        }
    }
}

/// Connects to the run of the process `run`, else to the one that is found.
fn connect(run: Option<u32>) -> Result<Connection, Failure> {
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
    let mut new = NewVcpu::new(budget, period, members);
    new.reservation = reservation(budget, period, deadline)?;
    new.name.clone_from(&args.name);
    new.pinned = args.core.map(CoreId);
    if args.jobs {
        new.arrival = Arrival::Periodic { offset: Duration::ZERO };
    }
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
