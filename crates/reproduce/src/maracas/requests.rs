//! What Figure 6 asks of a memory, and which of two models has it: the DRAM law, or DRAM request by
//! request.

use super::{TABLE_II, list, m_jump, on, program, table2};
use crate::figure::{Drawing, Figure, Line};
use crate::findings::{Cell, Findings, Table, Verdict, number, percent};
use crate::stats::relative;
use crate::{Error, Experiment, Kind, Lab, Run, Setup, bars};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "maracas-requests",
    title: "Figure 6 by two models of memory",
    summary: "Is it the memory that E1 of maracas-fig6 lacks? The procedure of Figures 5 and 6 by \
              the DRAM law, and with DRAM simulated request by request: banks, row buffers, bus \
              and queues, row hits first, clock by clock. Three m_jump are profiled by the delay \
              of task1 and task2; each point of the profile is a threshold of latency and of \
              traffic and says what is expected of task3 there. Then task1 and task2 have a delay \
              from 0 to 100 ns, and 0, 1, 2 and 3 cores are throttled for 30 s each. From these \
              states it follows for every threshold where rate-based and latency-based throttling \
              stop: at the first state below it.",
    source: "MARACAS, Figures 5 and 6 and Table II (section VI.B): E1 and E2 at 228 and 183 cycles \
             (rate-based below the expected, latency-based above), E3 at 157 (both below, \
             latency-based ahead), one delay",
    kind: Kind::Predicts,
    free: "request by request: the timings of DDR3-1333 9-9-9, queues of 32 reads and 32 writes, \
           and 25 ns that a core takes for each miss besides, all set beforehand; the points of \
           the profile",
    fitted: "by the law, to the nine numbers of Table II (maracas-table2): idle latency 29.2 ns \
             and service time 12.9 ns of the platform i5-2500k; in both, 10.5 instructions per \
             store of m_jump, a factor of all bars alike; request by request, nothing else",
    run,
};

/// The ways to tell how long reads take.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Model {
    Law,
    Requests,
}

const MODELS: [Model; 2] = [Model::Law, Model::Requests];

/// What a Sandy Bridge core and its ring take of a miss, outside the controller.
const CORE_SIDE: &str = "25ns";

impl Model {
    const fn word(self) -> &'static str {
        match self {
            Self::Law => "law",
            Self::Requests => "requests",
        }
    }
    const fn said(self) -> &'static str {
        match self {
            Self::Law => "by the law",
            Self::Requests => "request by request",
        }
    }
    const fn platform(self) -> &'static str {
        match self {
            Self::Law => "preset = \"i5-2500k\"\n",
            Self::Requests => "preset = \"i5-2500k\"\n\n[platform.dram]\nmodel = \"requests\"\n",
        }
    }
    fn m_jump(self, delay_ns: f64) -> String {
        match self {
            Self::Law => m_jump(delay_ns),
            Self::Requests => {
                let delay = format!("delay = \"{delay_ns}ns\"");
                format!("{{ model = \"m_jump\", think = \"{CORE_SIDE}\", {delay} }}")
            }
        }
    }
    fn setup(self, name: &str, params: &str, delay_ns: f64, seconds: u32) -> Setup {
        let what = format!("MARACAS, Figure 6 by {}: {name}.", self.word());
        let (slowed, full) = (self.m_jump(delay_ns), self.m_jump(0.0));
        let text = on(self.platform(), &what, params, seconds)
            + &program("task1", (20.0, 40.0), Some(0), &slowed)
            + &program("task2", (25.0, 50.0), Some(1), &slowed)
            + &program("task3", (30.0, 60.0), Some(2), &full);
        Setup::new(format!("{}-{name}", self.word()), text)
    }
}

/// Delays of the profile, in nanoseconds.
const PROFILE: [f64; 17] = [
    0.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0, 130.0, 160.0, 200.0, 300.0,
    500.0, 1000.0,
];
/// Delays under throttling.
const DELAYS: [f64; 11] = [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0];
/// How long each state lasts, and a profile's run, in seconds.
const STATE_S: u32 = 30;
const PROFILE_S: u32 = 60;

/// What a steady run reads: traffic in GB of five minutes, latency in cycles, task3's foreground
/// instructions of five minutes in 1e8.
#[derive(Clone, Copy, Default)]
struct Reading {
    traffic: f64,
    latency: f64,
    task3: f64,
}

impl Reading {
    /// Of `run`, less what was read by the end of a shorter one.
    fn between(run: &Run, before: Option<&Run>) -> Self {
        let sums = |run: &Run| {
            let [traffic, latency, task3] = table2::profile(run);
            [traffic, latency * traffic, task3, run.seconds()]
        };
        let (now, then) = (sums(run), before.map_or([0.0; 4], sums));
        let [traffic, waited, task3, seconds] = [0, 1, 2, 3].map(|at| now[at] - then[at]);
        let scale = 300.0 / seconds;
        Self { traffic: traffic * scale, latency: waited / traffic, task3: task3 * scale }
    }
}

/// By increasing traffic.
struct Profile(Vec<Reading>);

impl Profile {
    fn at(&self, traffic: f64) -> Reading {
        let of = |value: fn(&Reading) -> f64| {
            let line: Vec<(f64, f64)> = self.0.iter().map(|it| (it.traffic, value(it))).collect();
            super::fig5::interpolated(&line, traffic)
        };
        Reading { traffic, latency: of(|it| it.latency), task3: of(|it| it.task3) }
    }
}

/// What a threshold shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shows {
    /// Rate-based below the expected, latency-based above: E1 and E2.
    First,
    /// Both below, latency-based ahead: E3.
    Third,
}

/// One delay: its states by number of throttled cores.
struct Throttled {
    states: [Reading; 4],
    first: Vec<f64>,
    third: Vec<f64>,
}

impl Throttled {
    /// Every threshold of the profile at which something is throttled at all, one GB apart.
    fn new(states: [Reading; 4], profile: &Profile) -> Self {
        let mut it = Self { states, first: Vec::new(), third: Vec::new() };
        let least = profile.0.first().map_or(0.0, |least| least.traffic);
        let mut traffic = it.states[0].traffic;
        while traffic >= least {
            let point = profile.at(traffic);
            match it.shows(point) {
                Some(Shows::First) => it.first.push(point.latency),
                Some(Shows::Third) => it.third.push(point.latency),
                None => {}
            }
            traffic -= 1.0;
        }
        it
    }
    fn shows(&self, threshold: Reading) -> Option<Shows> {
        let stop = |below: &dyn Fn(&Reading) -> bool| {
            let found = self.states.iter().find(|state| below(state));
            found.unwrap_or(&self.states[3]).task3
        };
        let rate = stop(&|state| state.traffic < threshold.traffic);
        let latency = stop(&|state| state.latency < threshold.latency);
        let expected = threshold.task3;
        if rate < expected && expected < latency {
            Some(Shows::First)
        } else if latency < expected && rate < latency {
            Some(Shows::Third)
        } else {
            None
        }
    }
}

/// One model.
struct Study {
    profile: Profile,
    throttled: Vec<Throttled>,
}

fn study(lab: &Lab<'_>, model: Model) -> Result<Study, Error> {
    let watch = "throttle = \"watch\"\n";
    let one = |delay| model.setup(&format!("profile-{delay}ns"), watch, delay, PROFILE_S);
    let runs = lab.run(&PROFILE.map(one))?;
    let mut profile: Vec<Reading> = runs.iter().map(|run| Reading::between(run, None)).collect();
    profile.sort_by(|a, b| a.traffic.total_cmp(&b.traffic));
    let profile = Profile(profile);
    // One core more at the end of each state; the last run has them all.
    let params = format!("throttle = \"latency\"\nmax_latency = 1\nmem_period = \"{STATE_S}s\"\n");
    let state = |delay: f64, cores: u32| {
        let name = format!("delay-{delay}ns-{cores}-throttled");
        model.setup(&name, &params, delay, STATE_S * (cores + 1))
    };
    let setups: Vec<_> =
        DELAYS.iter().flat_map(|delay| (0..4).map(|cores| state(*delay, cores))).collect();
    let runs = lab.run(&setups)?;
    let throttled = runs.chunks(4).map(|runs| {
        let before = |cores: usize| cores.checked_sub(1).map(|before| &runs[before]);
        let states = [0, 1, 2, 3].map(|cores| Reading::between(&runs[cores], before(cores)));
        Throttled::new(states, &profile)
    });
    let throttled = throttled.collect();
    Ok(Study { profile, throttled })
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let studies = MODELS.iter().map(|model| study(lab, *model)).collect::<Result<Vec<_>, _>>()?;
    let both = || MODELS.iter().zip(&studies);
    let mut tables: Vec<Table> = both().map(|(model, it)| states_table(*model, it)).collect();
    tables.push(windows_table(&studies));
    Ok(Findings {
        notes: vec![
            "A write counts as long as its program's reads in both. With one idle core and three \
             throttled, of four, no surplus time is left."
                .into(),
        ],
        figures: both().map(|(model, it)| figure(*model, it)).collect(),
        tables,
        verdicts: verdicts(&studies),
    })
}

/// The delays that the table of states shows.
const SHOWN: [f64; 4] = [0.0, 20.0, 40.0, 60.0];

fn states_table(model: Model, study: &Study) -> Table {
    let columns = [
        "delay (ns) and throttled cores",
        "traffic (GB)",
        "latency (cycles)",
        "task3 (1e8)",
        "latency of the profile at this traffic",
        "task3 of the profile there",
        "latency over the profile's",
    ];
    let title = format!("States under throttling, {}", model.said());
    let mut table = Table::new(model.word(), &title, &columns);
    for (delay, it) in DELAYS.iter().zip(&study.throttled).filter(|it| SHOWN.contains(it.0)) {
        for (cores, state) in it.states.iter().enumerate() {
            let profile = study.profile.at(state.traffic);
            table.row(vec![
                Cell::Text(format!("{delay} ns, {cores}")),
                Cell::Number(state.traffic, 0),
                Cell::Number(state.latency, 1),
                Cell::Number(state.task3, 1),
                Cell::Number(profile.latency, 1),
                Cell::Number(profile.task3, 1),
                Cell::Text(percent(relative(state.latency, profile.latency))),
            ]);
        }
    }
    table
}

/// From the lowest to the highest, in cycles.
fn span(found: &[f64]) -> Option<(f64, f64)> {
    let low = found.iter().copied().min_by(f64::total_cmp)?;
    let high = found.iter().copied().max_by(f64::total_cmp)?;
    Some((low, high))
}

fn windows_table(studies: &[Study]) -> Table {
    let columns = [
        "delay (ns)",
        "law: E1, E2",
        "law: E3",
        "request by request: E1, E2",
        "request by request: E3",
    ];
    let title = "Thresholds that show the cases, in cycles, from the lowest to the highest";
    let mut table = Table::new("windows", title, &columns);
    let said = |found: &[f64]| {
        let span = span(found).map(|(low, high)| [number(low, 0), number(high, 0)].join(" to "));
        Cell::Text(span.unwrap_or_else(|| "none".into()))
    };
    for (place, delay) in DELAYS.iter().enumerate() {
        let mut row = vec![Cell::Number(*delay, 0)];
        for study in studies {
            row.extend([said(&study.throttled[place].first), said(&study.throttled[place].third)]);
        }
        table.row(row);
    }
    table
}

fn figure(model: Model, study: &Study) -> Figure {
    let profile = study.profile.0.iter().map(|it| (it.traffic, it.latency)).collect();
    let mut lines = vec![Line::new("profile", profile)];
    for (delay, it) in DELAYS.iter().zip(&study.throttled).filter(|it| SHOWN.contains(it.0)) {
        let states = it.states.iter().rev().map(|it| (it.traffic, it.latency)).collect();
        lines.push(Line::new(format!("throttled, {delay} ns"), states));
    }
    Figure {
        name: model.word().into(),
        title: format!("Latency by traffic, not throttled and throttled, {}", model.said()),
        drawing: Drawing::Lines {
            along: "traffic (GB in 5 min)".into(),
            logarithmic: false,
            share: false,
            left: "latency (cycles)".into(),
            right: None,
            lines,
        },
    }
}

/// By how much the latency with one throttled core is off the profile's, at the delays up to the
/// one of maracas-fig6.
fn off_the_profile(study: &Study) -> Vec<f64> {
    let heavy = DELAYS.iter().zip(&study.throttled).filter(|it| *it.0 <= super::fig6::DELAY_NS);
    let off = heavy.map(|(_, it)| {
        let state = it.states[1];
        relative(state.latency, study.profile.at(state.traffic).latency)
    });
    off.collect()
}

/// The highest over the lowest threshold of E1's and E2's kind at one delay, the most of any delay.
fn widest(study: &Study) -> f64 {
    let ratio = |it: &Throttled| span(&it.first).map_or(0.0, |(low, high)| high / low);
    study.throttled.iter().map(ratio).fold(0.0, f64::max)
}

fn verdicts(studies: &[Study]) -> Vec<Verdict> {
    let [law, requests] = studies else { return Vec::new() };
    let shown = |study: &Study| {
        let off = off_the_profile(study);
        off.iter().map(|it| percent(*it)).collect::<Vec<_>>().join(", ")
    };
    let delays = |study: &Study, of: fn(&Throttled) -> &Vec<f64>| {
        let some = DELAYS.iter().zip(&study.throttled).filter(|(_, it)| !of(it).is_empty());
        let some: Vec<f64> = some.map(|(delay, _)| *delay).collect();
        if some.is_empty() { "none".into() } else { format!("{} ns", list(&some, 0)) }
    };
    let both = |study: &Study| {
        study.throttled.iter().any(|it| {
            let above = |(low, _): (f64, f64)| it.third.iter().any(|third| *third < low);
            span(&it.first).is_some_and(above)
        })
    };
    let apart = TABLE_II[0].latency / TABLE_II[1].latency;
    vec![
        Verdict::new(
            "request by request, a throttled memory answers no sooner than an unthrottled one at \
             the same traffic (2 %, one core of four, delays to 60 ns)",
            off_the_profile(requests).iter().all(|off| *off >= -bars::UNCHANGED),
            shown(requests),
        )
        .because(WHY_SOONER),
        Verdict::new(
            "by the law neither",
            off_the_profile(law).iter().all(|off| *off >= -bars::UNCHANGED),
            shown(law),
        )
        .because(WHY_SOONER),
        Verdict::new(
            "request by request, one delay shows a threshold of E1's and E2's kind and one of E3's \
             below it",
            both(requests),
            format!(
                "E1, E2 at delays of {}; E3 at {}",
                delays(requests, |it| &it.first),
                delays(requests, |it| &it.third)
            ),
        ),
        Verdict::new(
            "request by request, thresholds of E1's and E2's kind lie as far apart at one delay as \
             228 and 183 cycles",
            widest(requests) >= apart,
            format!(
                "the highest is at most {} times the lowest, by the law {} times; in the paper {}",
                number(widest(requests), 3),
                number(widest(law), 3),
                number(apart, 3)
            ),
        )
        .because(WHY_APART),
    ]
}

const WHY_SOONER: &str = "Two programs at full speed meet less often in the queues than three of \
                          which two are slowed, at the same traffic, the more so the fuller the \
                          bus.";
const WHY_APART: &str = "This is what E1 lacks, and it is not the memory: rate-based throttling \
                         stops with one core throttled and latency-based goes on to the second \
                         only where the threshold lies between the expected progress of these two \
                         states, a few percent of it. E1 and E2 at one delay need two such steps, \
                         or finer ones than whole cores. Ruled out besides: the delay, IDLE_MEM, \
                         MEM_PERIOD and the lines as printed (maracas-fig6); row hits, reordering \
                         and banks (here). What remains is how the paper's rate-based throttling \
                         was built, of which it says nothing, and a rate that never throttles \
                         gives its bars.";
