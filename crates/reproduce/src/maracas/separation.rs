//! No separation of foreground and background (section VIII: future work).

use super::{head, list, m_jump, program};
use crate::bars;
use crate::figure::{Drawing, Figure, Line};
use crate::findings::{Cell, Findings, Table, Verdict, percent};
use crate::stats::relative;
use crate::{Error, Experiment, Kind, Lab, Run, Setup};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "maracas-separation",
    title: "no separation of foreground and background",
    summary: "On each of four cores one control with jobs of 15 ms every 100 ms, a walk through 1 \
              MB, and one to eight busy programs, every second of which is an m_jump and the \
              others compress. Under MARACAS control has 25 of 100 ms and the others 2 each, \
              surplus time is shared fairly, and throttled by latency or not; without any \
              separation all take turns of 10 ms, or of 4 ms (round-robin). One minute each.",
    source: "MARACAS, section VIII: a comparison with techniques that have no such separation is \
             future work; no numbers",
    kind: Kind::Predicts,
    free: "all parameters; MAX_MEM_LAT is the paper's 180 cycles",
    fitted: super::M_JUMP_FIT,
    run,
};

const SECONDS: u32 = 60;
/// Busy programs on each core.
const OTHERS: [u32; 5] = [1, 2, 4, 6, 8];
/// What is compared: its name, and how the policy is told.
const WAYS: [(&str, &str); 4] = [
    ("maracas, throttled", "throttle = \"latency\"\nmax_latency = 180\n"),
    ("maracas", "throttle = \"watch\"\n"),
    ("turns of 10 ms", "quantum = \"10ms\"\n"),
    ("turns of 4 ms", "quantum = \"4ms\"\n"),
];
/// Which of these separate.
const SEPARATE: usize = 2;

fn setup(others: u32, way: usize) -> Setup {
    let (name, params) = WAYS[way];
    let what = format!("MARACAS, section VIII: {name}, {others} busy programs a core.");
    let mut text = head(&what, params, SECONDS);
    if way >= SEPARATE {
        text = text.replace("name = \"maracas\"", "name = \"round-robin\"");
    }
    for core in 0..4 {
        let walk = "{ model = \"mwalk\", working_set = \"1MiB\" }";
        let control = program(&format!("control{core}"), (25.0, 100.0), Some(core), walk);
        let jobs = "workload = { kind = \"periodic\", cost = \"15ms\" }";
        text += &control.replace("workload = { kind = \"busy\" }", jobs);
        for other in 0..others {
            let memory = if other % 2 == 0 { m_jump(0.0) } else { "\"compress\"".into() };
            text += &program(&format!("busy{core}-{other}"), (2.0, 100.0), Some(core), &memory);
        }
    }
    Setup::new(format!("{others}-{}", name.replace([',', ' '], "-")), text)
}

/// What a run came to, over all cores.
struct Outcome {
    late: f64,
    jobs: f64,
    /// Longest response of any control and the mean of all, in ms.
    longest: f64,
    mean: f64,
    /// Instructions of the busy programs, in 1e9.
    busy: f64,
}

impl Outcome {
    fn of(run: &Run) -> Self {
        let of = |kind: &str| {
            let kind = kind.to_string();
            run.report.tasks.iter().filter(move |task| task.name.starts_with(&kind))
        };
        let busy = of("busy").map(|task| run.all(&task.name).instructions as f64 / 1e9);
        Self {
            late: of("control").map(|task| task.misses as f64).sum(),
            jobs: of("control").map(|task| task.jobs as f64).sum(),
            longest: of("control")
                .map(|task| task.response_max_ns as f64 / 1e6)
                .fold(0.0, f64::max),
            mean: of("control").map(|task| task.response_mean_ns / 1e6).sum::<f64>() / 4.0,
            busy: busy.sum(),
        }
    }
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let setups: Vec<_> =
        OTHERS.iter().flat_map(|others| (0..WAYS.len()).map(|way| setup(*others, way))).collect();
    let all: Vec<Outcome> = lab.run(&setups)?.iter().map(Outcome::of).collect();
    let rows: Vec<&[Outcome]> = all.chunks(WAYS.len()).collect();
    let mut table = Table::new(
        "",
        "One minute, four cores",
        &[
            "busy programs a core, and how",
            "late jobs (%)",
            "mean response (ms)",
            "longest response (ms)",
            "busy programs (1e9 instructions)",
        ],
    );
    for (others, row) in OTHERS.iter().zip(&rows) {
        for ((name, _), it) in WAYS.iter().zip(*row) {
            table.row(vec![
                Cell::Text(format!("{others}, {name}")),
                Cell::Number(100.0 * it.late / it.jobs.max(1.0), 1),
                Cell::Number(it.mean, 2),
                Cell::Number(it.longest, 1),
                Cell::Number(it.busy, 1),
            ]);
        }
    }
    let line = |way: usize| {
        let points = OTHERS.iter().zip(&rows).map(|(n, row)| (f64::from(*n), row[way].longest));
        Line::new(WAYS[way].0, points.collect())
    };
    Ok(Findings {
        notes: Vec::new(),
        tables: vec![table],
        figures: vec![Figure {
            name: String::new(),
            title: "Longest response with and without separation".into(),
            drawing: Drawing::Lines {
                along: "busy programs on each core".into(),
                logarithmic: false,
                share: false,
                left: "longest response of control (ms)".into(),
                right: None,
                lines: (0..WAYS.len()).map(line).collect(),
            },
        }],
        verdicts: verdicts(&rows),
    })
}

fn verdicts(rows: &[&[Outcome]]) -> Vec<Verdict> {
    let late = |way: usize| rows.iter().map(|row| row[way].late).collect::<Vec<f64>>();
    let from = |way: usize| {
        let place = rows.iter().position(|row| row[way].late > 0.0);
        place.map_or("none".into(), |place| format!("{} busy programs on", OTHERS[place]))
    };
    // Where turns keep all deadlines too, what do the others have?
    let fair = rows.iter().filter(|row| row[2].late == 0.0);
    let costs: Vec<f64> = fair.map(|row| relative(row[1].busy, row[2].busy)).collect();
    let mean = |way: usize| rows.iter().map(|row| row[way].mean).collect::<Vec<f64>>();
    vec![
        Verdict::new(
            "with separation no job is late, throttled or not",
            (0..SEPARATE).all(|way| late(way).iter().all(|it| *it == 0.0)),
            format!("{} and {} late", list(&late(0), 0), list(&late(1), 0)),
        ),
        Verdict::new(
            "without it jobs are late when enough others run, by long turns and by short ones",
            (SEPARATE..WAYS.len()).all(|way| late(way).iter().any(|it| *it > 0.0)),
            format!("turns of 10 ms: from {}; of 4 ms: from {}", from(2), from(3)),
        ),
        Verdict::new(
            "where turns of 10 ms keep all deadlines too, separation costs the others nothing (2 \
             %)",
            !costs.is_empty() && costs.iter().all(|it| *it >= -bars::UNCHANGED),
            costs.iter().map(|it| percent(*it)).collect::<Vec<_>>().join(", "),
        )
        .because(
            "With surplus time shared fairly every busy program has the same time beyond its \
             budget, whatever control leaves; turns give what control leaves to the program that \
             is next.",
        ),
        Verdict::new(
            "throttling, which needs surplus time to take away, shortens control's mean response",
            mean(0)
                .iter()
                .zip(mean(1))
                .all(|(with, without)| *with < without * (1.0 - bars::UNCHANGED)),
            format!("{} against {} ms", list(&mean(0), 2), list(&mean(1), 2)),
        )
        .because(
            "control's walk fits in the cache and reads memory only to fill it again: what it \
             waits for there is a hundredth of its time, and all that throttling can shorten. What \
             it costs the others is in the table.",
        ),
    ]
}
