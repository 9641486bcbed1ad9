//! I/O activity (section VIII: future work).

use super::{TABLE_II, head, list, m_jump, program};
use crate::bars;
use crate::figure::{Drawing, Figure, Line};
use crate::findings::{Cell, Findings, Table, Verdict, number, percent};
use crate::stats::relative;
use crate::{Error, Experiment, Kind, Lab, Run, Setup};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "maracas-io",
    title: "I/O activity",
    summary: "On core 0 control has jobs of 2 to 2.5 ms in 3 of every 10 ms, an I/O VCPU of 1 in \
              10 ms handles what arrives for it (at random, 0.1 to 0.4 ms each), and batch, a \
              compress with 10 of 50 ms, has what is left; on cores 1 and 2 two m_jump with 20 of \
              100 ms. What arrives comes through memory, by a device whose traffic grows with the \
              number of arrivals, 200 kB each. From nothing to four times what the I/O VCPU's \
              bandwidth can handle, for a minute each, surplus time throttled by latency.",
    source: "MARACAS, section VIII: performance and predictability in the presence of I/O are \
             future work; section II.A: VCPUs for tasks and for system events are told apart; no \
             numbers",
    kind: Kind::Predicts,
    free: "all parameters; MAX_MEM_LAT is E2's, 183 cycles, MEM_PERIOD 2 s",
    fitted: super::M_JUMP_FIT,
    run,
};

const SECONDS: u32 = 60;
/// Mean time between arrivals in microseconds; 0 = nothing arrives. At 0.25 ms each the I/O VCPU
/// handles one in 2.5 ms.
const EVERY_US: [u32; 6] = [0, 10_000, 5_000, 2_500, 1_250, 625];
/// What comes through memory by arrival, in bytes.
const BYTES: f64 = 200_000.0;
/// C of the I/O VCPU.
const IO_MS: f64 = 1.0;

fn setup(every: u32) -> Setup {
    let what = format!("MARACAS, section VIII: something arrives every {every} us.");
    let params = format!("throttle = \"latency\"\nmax_latency = {}\n", TABLE_II[1].latency);
    let mut text = head(&what, &params, SECONDS);
    text += "\n[[program]]\nname = \"control\"\nbudget = \"3ms\"\nperiod = \"10ms\"\ncore = 0\n\
             workload = { kind = \"periodic\", cost = { uniform = [\"2ms\", \"2500us\"] } }\n";
    if every > 0 {
        let megabytes = BYTES / f64::from(every);
        text += &format!(
            "\n[[device]]\nname = \"disk\"\npattern = \"seq\"\nbandwidth = \"{megabytes}MB/s\"\n\
             writes = 1\noutstanding = 4\n\
             \n[[program]]\nname = \"interrupts\"\nkind = \"io\"\nbudget = \"{IO_MS}ms\"\n\
             period = \"10ms\"\ncore = 0\n[program.workload]\nkind = \"event-driven\"\n\
             every = {{ exponential = \"{every}us\" }}\n\
             cost = {{ uniform = [\"100us\", \"400us\"] }}\non_behalf = \"control\"\n"
        );
    }
    text += &program("batch", (10.0, 50.0), Some(0), "\"compress\"");
    text += &program("jump1", (20.0, 100.0), Some(1), &m_jump(0.0));
    text += &program("jump2", (20.0, 100.0), Some(2), &m_jump(0.0));
    Setup::new(format!("every-{every}us"), text)
}

/// What a run came to.
struct Outcome {
    late: f64,
    /// Mean and longest response of control, in ms.
    response: [f64; 2],
    /// Seconds of the I/O VCPU on its bandwidth and beyond.
    io_s: [f64; 2],
    /// batch: seconds on budget and beyond.
    batch_s: [f64; 2],
    /// Foreground instructions of the two m_jump in 1e8.
    jumps: f64,
    latency: f64,
}

impl Outcome {
    fn of(run: &Run, arrives: bool) -> Self {
        let seconds = |name: &str| {
            let task = run.task(name);
            [task.foreground_ns as f64 / 1e9, task.background_ns as f64 / 1e9]
        };
        let control = run.task("control");
        let jumps = ["jump1", "jump2"].map(|name| run.foreground(name).instructions as f64 / 1e8);
        Self {
            late: control.misses as f64,
            response: [control.response_mean_ns / 1e6, control.response_max_ns as f64 / 1e6],
            io_s: if arrives { seconds("interrupts") } else { [0.0; 2] },
            batch_s: seconds("batch"),
            jumps: jumps.iter().sum(),
            latency: run.latency(),
        }
    }
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let runs = lab.run(&EVERY_US.map(setup))?;
    let all: Vec<Outcome> =
        runs.iter().zip(EVERY_US).map(|(run, every)| Outcome::of(run, every > 0)).collect();
    let mut table = Table::new(
        "",
        "One minute by arrivals",
        &[
            "arrivals a second",
            "control: late jobs",
            "mean response (ms)",
            "longest (ms)",
            "I/O on its bandwidth (s)",
            "beyond (s)",
            "batch on budget (s)",
            "surplus (s)",
            "m_jump, foreground (1e8)",
            "latency (cycles)",
        ],
    );
    for (every, it) in EVERY_US.iter().zip(&all) {
        table.row(vec![
            Cell::Number(rate(*every), 0),
            Cell::Number(it.late, 0),
            Cell::Number(it.response[0], 2),
            Cell::Number(it.response[1], 2),
            Cell::Number(it.io_s[0], 2),
            Cell::Number(it.io_s[1], 2),
            Cell::Number(it.batch_s[0], 2),
            Cell::Number(it.batch_s[1], 2),
            Cell::Number(it.jumps, 1),
            Cell::Number(it.latency, 1),
        ]);
    }
    let points = |of: fn(&Outcome) -> f64| -> Vec<(f64, f64)> {
        EVERY_US.iter().map(|every| rate(*every)).zip(all.iter().map(of)).collect()
    };
    Ok(Findings {
        notes: Vec::new(),
        tables: vec![table],
        figures: vec![Figure {
            name: String::new(),
            title: "I/O activity: control's response and what batch has left".into(),
            drawing: Drawing::Lines {
                along: "arrivals a second".into(),
                logarithmic: false,
                share: false,
                left: "longest response of control (ms)".into(),
                right: Some("surplus time of batch (s)".into()),
                lines: vec![
                    Line::new("longest response", points(|it| it.response[1])),
                    Line::new("batch, surplus", points(|it| it.batch_s[1])).on_the_right(),
                ],
            },
        }],
        verdicts: verdicts(&all),
    })
}

/// Arrivals a second.
fn rate(every_us: u32) -> f64 {
    if every_us == 0 { 0.0 } else { 1e6 / f64::from(every_us) }
}

fn verdicts(all: &[Outcome]) -> Vec<Verdict> {
    let (quiet, most) = (&all[0], &all[all.len() - 1]);
    let longest: Vec<f64> = all.iter().map(|it| it.response[1]).collect();
    let budgets: Vec<f64> = all.iter().map(|it| it.batch_s[0]).collect();
    let bandwidth = IO_MS / 10.0 * f64::from(SECONDS);
    let jumps = all.iter().map(|it| relative(it.jumps, quiet.jumps)).fold(0.0, f64::min);
    vec![
        Verdict::new(
            "no job of control is late, however much arrives",
            all.iter().all(|it| it.late == 0.0),
            format!("{} late", list(&all.iter().map(|it| it.late).collect::<Vec<_>>(), 0)),
        ),
        Verdict::new(
            "its longest response grows by no more than the I/O VCPU's C, 1 ms",
            longest.iter().all(|it| *it <= longest[0] + IO_MS),
            format!("{} ms", list(&longest, 2)),
        )
        .because(
            "A bandwidth of C / T is not C at a time: of what came back at the end of one period \
             and the start of the next, two C may be used in a row.",
        ),
        Verdict::new(
            "batch keeps its budget (2 %), and I/O beyond its bandwidth takes surplus time alone",
            budgets.iter().all(|it| relative(*it, budgets[0]).abs() <= bars::UNCHANGED)
                && most.io_s[0] <= bandwidth * (1.0 + bars::UNCHANGED)
                && most.io_s[1] > 0.0,
            format!(
                "{} s; I/O {} s of {} on its bandwidth, {} beyond",
                list(&budgets, 2),
                number(most.io_s[0], 2),
                number(bandwidth, 0),
                number(most.io_s[1], 2)
            ),
        ),
        Verdict::new(
            "its traffic costs the foreground on other cores nothing (2 %), by latency throttling",
            jumps >= -bars::UNCHANGED,
            format!("m_jump's foreground at worst {}", percent(jumps)),
        )
        .because(
            "Throttling takes surplus time from cores; a device has none to lose, and what it adds \
             to the latency beyond that stays.",
        ),
    ]
}
