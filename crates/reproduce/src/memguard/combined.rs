//! MemGuard around MARACAS: a least bandwidth for the foreground, latency throttling for the
//! background.

use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict, number};
use crate::{Error, Experiment, Kind, Lab, Run, Setup};
use maracas_core::memory::LINE_BYTES;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "memguard-maracas",
    title: "MemGuard and MARACAS together",
    summary: "On the MARACAS paper's machine four m_jump run for a minute: control with C = 30 \
              every 60 ms on C0, flood with all of C1, two with C = 5 every 100 ms and all \
              surplus time on C2 and C3. MemGuard reserves 1.0 GB/s for C0 and 0.1 GB/s for C1, \
              hard; MARACAS throttles surplus time at a mean latency of 180 cycles; either, both \
              and none.",
    source: "neither paper: ours, for minimum bandwidth and latency control at once",
    kind: Kind::Predicts,
    free: "all but the 180 cycles, which are MARACAS's (section VI.B); other limits are shown",
    fitted: crate::maracas::M_JUMP_FIT,
    run,
};

const SECONDS: u32 = 60;
/// Control's reservation in bytes per second.
const RESERVED: f64 = 1e9;
/// C / T of control: what it is due is this part of its core's reservation.
const CONTROL: f64 = 0.5;
/// MAX_MEM_LAT in cycles: the one that is judged, which is MARACAS's (section VI.B), and those that
/// are tried too.
const LIMIT: f64 = 180.0;
const LIMITS: [f64; 5] = [160.0, 170.0, LIMIT, 200.0, 220.0];

fn setup(guard: bool, throttle: bool, limit: f64) -> Setup {
    let reserved = "bandwidth = \"1000MB/s, 100MB/s, none, none\"\nreservation = \"hard\"\n";
    let reserved = if guard { reserved } else { "" };
    let throttle = if throttle { "latency" } else { "watch" };
    let with = if guard { "reserved" } else { "free" };
    let mut text = format!(
        "# MemGuard around MARACAS: {with}, throttle {throttle}.\nversion = 1\n\n[platform]\n\
         preset = \"i5-2500k\"\n\n[policy]\nname = \"memguard+maracas\"\n{reserved}throttle = \
         \"{throttle}\"\nmax_latency = {limit}\n\n[run]\nduration = \"{SECONDS}s\"\n"
    );
    let programs = [("control", 30, 60), ("flood", 100, 100), ("log2", 5, 100), ("log3", 5, 100)];
    for (core, (name, budget, period)) in programs.into_iter().enumerate() {
        text += &format!(
            "\n[[program]]\nname = \"{name}\"\nbudget = \"{budget}ms\"\nperiod = \"{period}ms\"\n\
             core = {core}\nworkload = {{ kind = \"busy\" }}\nmemory = \"m_jump\"\n"
        );
    }
    Setup::new(format!("{with}-{throttle}-{limit}"), text)
}

/// One combination.
struct Outcome {
    /// What control read in the foreground, over all time, in 1e9 bytes per second.
    control: f64,
    /// Mean latency of all requests, in cycles.
    latency: f64,
    /// Instructions of the two in surplus time, in 1e9.
    background: f64,
    /// What flood read, in 1e9 bytes per second.
    flood: f64,
}

impl Outcome {
    fn of(run: &Run) -> Self {
        let gb = |misses: u64| (misses * LINE_BYTES) as f64 / 1e9 / run.seconds();
        let surplus = ["log2", "log3"].map(|name| run.background(name).instructions);
        Self {
            control: gb(run.foreground("control").misses),
            latency: run.latency(),
            background: surplus.iter().sum::<u64>() as f64 / 1e9,
            flood: gb(run.all("flood").misses),
        }
    }
    /// Whether control got what it is due.
    fn has_bandwidth(&self) -> bool {
        self.control * 1e9 >= RESERVED * CONTROL
    }
    fn has_latency(&self, limit: f64) -> bool {
        self.latency < limit
    }
    fn row(&self, name: String) -> Vec<Cell> {
        let values = [(self.control, 3), (self.latency, 1), (self.flood, 3), (self.background, 2)];
        let values = values.map(|(value, decimals)| Cell::Number(value, decimals));
        [Cell::Text(name)].into_iter().chain(values).collect()
    }
}

const COLUMNS: [&str; 5] = [
    "",
    "control, foreground (GB/s)",
    "mean latency (cycles)",
    "flood (GB/s)",
    "surplus time of the others (1e9 instructions)",
];

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let either = [(false, false), (false, true), (true, false), (true, true)];
    let mut setups: Vec<_> =
        either.iter().map(|(guard, throttle)| setup(*guard, *throttle, LIMIT)).collect();
    let others = LIMITS.iter().filter(|limit| **limit != LIMIT);
    setups.extend(others.map(|limit| setup(true, true, *limit)));
    let mut outcomes: Vec<Outcome> = lab.run(&setups)?.iter().map(Outcome::of).collect();
    let others = outcomes.split_off(either.len());
    let names = ["neither", "throttling", "reservation", "both"];
    let mut columns = COLUMNS;
    columns[0] = "what is on";
    let mut table = Table::new("", "One minute, throttling at 180 cycles", &columns);
    for (name, outcome) in names.iter().zip(&outcomes) {
        table.row(outcome.row((*name).into()));
    }
    columns[0] = "throttling at (cycles)";
    let mut limits = Table::new("limits", "Both, by limit", &columns);
    let both = &outcomes[3];
    let mut holding = Vec::new();
    let mut others = others.iter();
    for limit in LIMITS {
        let outcome = if limit == LIMIT { both } else { others.next().unwrap_or(both) };
        limits.row(outcome.row(number(limit, 0)));
        if outcome.has_bandwidth() && outcome.has_latency(limit) {
            holding.push(number(limit, 0));
        }
    }
    let bars = |value: fn(&Outcome) -> f64, of: f64| {
        outcomes.iter().map(|outcome| 100.0 * value(outcome) / of).collect()
    };
    Ok(Findings {
        notes: vec![
            "What control is due is C / T of its core's reservation, 0.5 GB/s over all time."
                .into(),
        ],
        figures: vec![Figure {
            name: String::new(),
            title: "MemGuard and MARACAS, alone and together".into(),
            drawing: Drawing::Bars {
                axis: "%".into(),
                groups: names.map(String::from).to_vec(),
                series: vec![
                    (
                        "control, % of what it is due".into(),
                        bars(|it| it.control * 1e9, RESERVED * CONTROL),
                    ),
                    ("latency, % of the limit".into(), bars(|it| it.latency, LIMIT)),
                ],
            },
        }],
        tables: vec![table, limits],
        verdicts: verdicts(&outcomes, &holding),
    })
}

fn verdicts(outcomes: &[Outcome], holding: &[String]) -> Vec<Verdict> {
    let [neither, throttled, reserved, both] = outcomes else { return Vec::new() };
    let shown =
        |it: &Outcome| format!("{} GB/s, {} cycles", number(it.control, 3), number(it.latency, 1));
    let holds = |it: &Outcome| it.has_bandwidth() && it.has_latency(LIMIT);
    vec![
        Verdict::new(
            "with both, the foreground has its bandwidth and latency stays below the limit",
            holds(both),
            shown(both),
        ),
        Verdict::new(
            "throttling alone gives neither: flood has no surplus time to lose",
            !throttled.has_bandwidth() && !throttled.has_latency(LIMIT),
            shown(throttled),
        ),
        Verdict::new(
            "reservation alone gives neither: surplus time floods the memory",
            !reserved.has_bandwidth() && !reserved.has_latency(LIMIT),
            shown(reserved),
        ),
        Verdict::new(
            "each is better than nothing, both are better than each",
            [throttled, reserved].into_iter().all(|it| {
                neither.control < it.control
                    && it.control < both.control
                    && it.latency < neither.latency
                    && both.latency < it.latency
            }),
            shown(neither),
        ),
        Verdict::new(
            "there are limits at which both hold",
            !holding.is_empty(),
            format!(
                "at {} of {} cycles",
                holding.join(", "),
                LIMITS.map(|it| number(it, 0)).join(", ")
            ),
        ),
    ]
}
