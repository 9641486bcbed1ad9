//! The effect of r_min on four cores.

use super::{HARD, RUNS, ipc, model, read_gb, rmin, setup};
use crate::figure::{Drawing, Figure, Line};
use crate::findings::{Cell, Findings, Table, Verdict, number};
use crate::{Error, Experiment, Kind, Lab, Run, bars};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "memguard-rmin-sweep",
    title: "effect of r_min on four cores",
    summary: "Four cores share r_min evenly by hard reservations, r_min from 0.4 to 4.8 GB/s: \
              libquantum beside three lbm, and four programs that read one bank. Isolation is the \
              first one's IPC over its IPC alone with the same reservation; throughput is what \
              all read.",
    source: "MemGuard slides, \"Effect of r_min\" (isolation and throughput, 4 core \
             configuration); no numbers printed",
    kind: Kind::Predicts,
    free: "programs, equal shares and the range of r_min, which the slides' text does not give",
    fitted: super::MODELS_FIT,
    run,
};

/// r_min in MiB/s.
const SWEEP: [u32; 12] = [400, 800, 1000, 1200, 1400, 1600, 2000, 2400, 2800, 3200, 4000, 4800];
const CORES: u32 = 4;

/// One r_min: isolation and throughput in GB/s.
#[derive(Clone, Copy)]
struct Point {
    r_min: f64,
    isolation: f64,
    throughput: f64,
}

impl Point {
    fn of(r_min: u32, pair: &[Run]) -> Self {
        Self {
            r_min: f64::from(r_min) / 1000.0,
            isolation: ipc(&pair[1], 0) / ipc(&pair[0], 0),
            throughput: (0..CORES).map(|core| read_gb(&pair[1], core)).sum(),
        }
    }
}

/// The sweep with `first` on core 0 beside three of `other`.
fn sweep(lab: &Lab<'_>, name: &str, first: &str, other: &str) -> Result<Vec<Point>, Error> {
    let programs = [(0, first), (1, other), (2, other), (3, other)];
    let mut setups = Vec::new();
    for r_min in SWEEP {
        let params = format!("r_min = \"{r_min}MiB/s\"\nweights = [1, 1, 1, 1]\n{HARD}");
        let what = |how: &str| format!("effect of r_min: {name} {how}, r_min {r_min} MiB/s");
        let file = |how: &str| format!("{name}-{r_min}-{how}");
        setups.push(setup(&file("alone"), &what("alone"), &params, &programs[..1]));
        setups.push(setup(&file("four"), &what("on four cores"), &params, &programs));
    }
    let runs = lab.run(&setups)?;
    Ok(SWEEP.iter().zip(runs.chunks(2)).map(|(r_min, pair)| Point::of(*r_min, pair)).collect())
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let mix = sweep(lab, "spec", &model("libquantum"), &model("lbm"))?;
    let worst = sweep(lab, "one-bank", &rmin::worst(), &rmin::worst())?;
    let columns = [
        "r_min (GB/s)",
        "isolation of libquantum",
        "throughput, lbm beside it (GB/s)",
        "isolation on one bank",
        "throughput of one bank (GB/s)",
    ];
    let mut table = Table::new("", "Four cores, an equal share each", &columns);
    for (mix, worst) in mix.iter().zip(&worst) {
        table.row(vec![
            Cell::Number(mix.r_min, 1),
            Cell::Number(mix.isolation, 3),
            Cell::Number(mix.throughput, 2),
            Cell::Number(worst.isolation, 3),
            Cell::Number(worst.throughput, 2),
        ]);
    }
    let line = |name: &str, points: &[Point], value: fn(&Point) -> f64| {
        Line::new(name, points.iter().map(|point| (point.r_min, value(point))).collect())
    };
    let drawing = Drawing::Lines {
        along: "r_min (GB/s)".into(),
        logarithmic: false,
        share: false,
        left: "isolation".into(),
        right: Some("throughput (GB/s)".into()),
        lines: vec![
            line("isolation, libquantum", &mix, |it| it.isolation),
            line("isolation, one bank", &worst, |it| it.isolation),
            line("throughput, libquantum", &mix, |it| it.throughput).on_the_right(),
            line("throughput, one bank", &worst, |it| it.throughput).on_the_right(),
        ],
    };
    Ok(Findings {
        notes: vec![
            RUNS.into(),
            "One GB/s of r_min is 1000 MiB/s here, throughput is in 1e9 bytes.".into(),
        ],
        tables: vec![table],
        figures: vec![Figure {
            name: String::new(),
            title: "Effect of r_min on four cores".into(),
            drawing,
        }],
        verdicts: verdicts(&mix, &worst),
    })
}

/// The greatest r_min up to which all are isolated, in GB/s.
fn holds_up_to(points: &[Point]) -> f64 {
    let isolated = points.iter().take_while(|point| point.isolation >= bars::ISOLATED);
    isolated.last().map_or(0.0, |point| point.r_min)
}

fn verdicts(mix: &[Point], worst: &[Point]) -> Vec<Verdict> {
    let (mixed, one_bank) = (holds_up_to(mix), holds_up_to(worst));
    let last = |points: &[Point]| points[points.len() - 1].isolation;
    let falls = |points: &[Point]| {
        points.windows(2).all(|pair| pair[1].isolation <= pair[0].isolation + 1e-3)
    };
    let rises = |points: &[Point]| {
        points.windows(2).all(|pair| pair[1].throughput >= pair[0].throughput - 1e-3)
    };
    vec![
        Verdict::new(
            "SPEC programs are isolated (97 %) at r_min = 1.2 GB/s",
            mixed >= 1.2,
            format!("up to {} GB/s", number(mixed, 1)),
        ),
        Verdict::new(
            "programs on one bank are isolated up to what one bank serves, not at 1.2 GB/s",
            (1.0..1.2).contains(&one_bank),
            format!("up to {} GB/s", number(one_bank, 1)),
        ),
        Verdict::new(
            "the greater r_min, the less isolation and the more throughput",
            falls(mix) && falls(worst) && rises(mix) && rises(worst),
            format!("isolation {} and {} at the end", number(last(mix), 2), number(last(worst), 2)),
        ),
    ]
}
