//! Dynamic recolouring (section V.B).

use super::{MIGRATIONS, list, on};
use crate::bars;
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict, number, percent};
use crate::stats::relative;
use crate::{Error, Experiment, Kind, Lab, Run, Setup};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "maracas-recolor",
    title: "dynamic recolouring",
    summary: "A cache of 32 colours split evenly. On core 0 an mwalk of 2 MB of low criticality, \
              which its 1.5 MB cannot hold, on core 1 one of 1 MB of high criticality; on cores 2 \
              and 3 hogs come for 5 s and are gone for 5 s, for a minute. With colours as they are \
              given out at the start, and with idle cores lending theirs to low criticality \
              (recolor = low). Once with mwalks that are always busy, for their progress, once \
              with jobs of one size, for their timing.",
    source: "MARACAS, section V.B, last paragraph: dynamic colouring is too unpredictable for hard \
             real-time tasks and could be beneficial for those of low criticality; no numbers",
    kind: Kind::Predicts,
    free: "all parameters; a page costs 2 us to copy",
    fitted: super::PLATFORM_FIT,
    run,
};

const SECONDS: u32 = 60;
/// How long the hogs of cores 2 and 3 stay, and how long they are gone.
const VISIT_S: u32 = 5;
const RULES: [&str; 2] = ["off", "low"];

/// Busy mwalks, or mwalks with jobs of 12 ms at full speed in 20 ms of 100.
fn setup(rule: &str, jobs: bool) -> Setup {
    let kind = if jobs { "jobs" } else { "busy" };
    let what = format!("MARACAS, section V.B: recolouring {rule}, {kind} mwalks.");
    let params = format!("balance = \"vlb\"\nrecolor = \"{rule}\"\nbackground = \"off\"\n");
    let platform = "preset = \"i5-2500k\"\ncolors = [8, 8, 8, 8]\n";
    let mut text = on(platform, &what, &params, SECONDS);
    text += MIGRATIONS;
    let workload = if jobs { "kind = \"periodic\", cost = \"12ms\"" } else { "kind = \"busy\"" };
    for (core, name, kib, criticality) in [(0, "low", 2048, "low"), (1, "high", 1024, "high")] {
        text += &format!(
            "\n[[program]]\nname = \"{name}\"\nbudget = \"40ms\"\nperiod = \"100ms\"\ncore = \
             {core}\n criticality = \"{criticality}\"\nworkload = {{ {workload} }}\n memory = {{ \
             model = \"mwalk\", working_set = \"{kib}KiB\" }}\n"
        );
    }
    for visit in 0..SECONDS / (2 * VISIT_S) {
        for core in [2, 3] {
            let start = visit * 2 * VISIT_S;
            text += &format!(
                "\n[[program]]\nname = \"hog{core}-{visit}\"\nbudget = \"30ms\"\nperiod = \
                 \"100ms\"\n core = {core}\nstart = \"{start}s\"\nstop = \"{}s\"\n workload = {{ \
                 kind = \"busy\" }}\nmemory = \"hog\"\n",
                start + VISIT_S
            );
        }
    }
    Setup::new(format!("{kind}-{rule}"), text)
}

/// What a program came to: instructions in 1e9 and misses per reference when busy; mean and longest
/// response in ms and late jobs with jobs.
struct Fate {
    instructions: f64,
    misses: f64,
    response: [f64; 2],
    late: f64,
}

impl Fate {
    fn of(busy: &Run, jobs: &Run, name: &str) -> Self {
        let task = jobs.task(name);
        Self {
            instructions: busy.all(name).instructions as f64 / 1e9,
            misses: busy.all(name).miss_ratio().unwrap_or(0.0),
            response: [task.response_mean_ns / 1e6, task.response_max_ns as f64 / 1e6],
            late: task.misses as f64,
        }
    }
    /// The longest response over the mean one.
    fn unpredictable(&self) -> f64 {
        self.response[1] / self.response[0]
    }
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let setups: Vec<_> =
        RULES.iter().flat_map(|rule| [false, true].map(|jobs| setup(rule, jobs))).collect();
    let runs = lab.run(&setups)?;
    let fates = |name: &str| [0, 2].map(|at| Fate::of(&runs[at], &runs[at + 1], name));
    let (low, high) = (fates("low"), fates("high"));
    let mut table = Table::new(
        "",
        "One minute",
        &[
            "program and rule",
            "instructions (1e9)",
            "misses per reference (%)",
            "mean response (ms)",
            "longest response (ms)",
            "late jobs",
        ],
    );
    for (name, fates) in [("low criticality", &low), ("high criticality", &high)] {
        for (rule, fate) in RULES.iter().zip(fates) {
            table.row(vec![
                Cell::Text(format!("{name}, {rule}")),
                Cell::Number(fate.instructions, 2),
                Cell::Number(fate.misses * 100.0, 1),
                Cell::Number(fate.response[0], 2),
                Cell::Number(fate.response[1], 2),
                Cell::Number(fate.late, 0),
            ]);
        }
    }
    let bars = |value: fn(&Fate) -> f64| low.iter().chain(&high).map(value).collect::<Vec<f64>>();
    Ok(Findings {
        notes: Vec::new(),
        figures: vec![Figure {
            name: String::new(),
            title: "Recolouring: response times by criticality and rule".into(),
            drawing: Drawing::Bars {
                axis: "ms".into(),
                groups: ["low, off", "low, low", "high, off", "high, low"].map(String::from).into(),
                series: vec![
                    ("mean response".into(), bars(|it| it.response[0])),
                    ("longest response".into(), bars(|it| it.response[1])),
                ],
            },
        }],
        tables: vec![table],
        verdicts: verdicts(&low, &high),
    })
}

fn verdicts(low: &[Fate; 2], high: &[Fate; 2]) -> Vec<Verdict> {
    let [fixed, dynamic] = low;
    vec![
        Verdict::new(
            "recolouring at run time is beneficial for low criticality: it gets further",
            dynamic.instructions > fixed.instructions * (1.0 + bars::UNCHANGED),
            format!(
                "{}, misses {} %",
                percent(relative(dynamic.instructions, fixed.instructions)),
                list(&[fixed.misses * 100.0, dynamic.misses * 100.0], 1)
            ),
        ),
        Verdict::new(
            "its timing is less predictable: the longest response lies further above the mean",
            dynamic.unpredictable() > fixed.unpredictable() * (1.0 + bars::UNCHANGED),
            format!(
                "{} times the mean against {}",
                number(dynamic.unpredictable(), 2),
                number(fixed.unpredictable(), 2)
            ),
        ),
        Verdict::new(
            "even its longest response is no longer than with fixed colours",
            dynamic.response[1] <= fixed.response[1] * (1.0 + bars::UNCHANGED),
            format!("{} ms", list(&[fixed.response[1], dynamic.response[1]], 2)),
        )
        .because(
            "Pages that are copied to other colours are not in the cache there: the first jobs \
             after each recolouring read all of them from memory.",
        ),
        Verdict::new(
            "high criticality on another core loses nothing by it (2 %), and no job is late",
            relative(high[1].instructions, high[0].instructions) >= -bars::UNCHANGED
                && high.iter().all(|it| it.late == 0.0),
            format!(
                "{}, {} late jobs",
                percent(relative(high[1].instructions, high[0].instructions)),
                list(&[high[0].late, high[1].late], 0)
            ),
        ),
    ]
}
