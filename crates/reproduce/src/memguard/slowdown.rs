//! Slowdown with one co-runner.

use super::{BACKGROUND, FOREGROUND, RUNS, ipc, model, read_gb, setup};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict, number, percent};
use crate::stats::relative;
use crate::{Error, Experiment, Kind, Lab, Setup, bars};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "memguard-slowdown",
    title: "interference between two cores",
    summary: "Five SPEC programs on C0 alone and beside lbm on C2, which has another cache; \
              nothing is reserved.",
    source: "MemGuard slides, \"Inter-Core Memory Interference\"; of the bars only the axis up to \
             2.2 and \"up to 2x\" are printed",
    kind: Kind::Calibrates,
    free: "four fitted to the four bandwidths: `think` of lbm, leslie3d, libquantum and bwaves; \
           three set by hand with slowdowns of up to 2 in view: `outstanding` of lbm, leslie3d and \
           libquantum; all else of the models, and all of omnetpp, is ours",
    fitted: "",
    run,
};

/// The slides' axis with what each reads alone, in GB/s.
const PROGRAMS: [(&str, Option<f64>); 5] = [
    ("lbm", Some(1.6)),
    ("leslie3d", Some(1.5)),
    ("libquantum", Some(1.5)),
    ("bwaves", Some(1.4)),
    ("omnetpp", None),
];

/// "Up to 2x on 2 cores" (slides).
const WORST: f64 = 2.0;

fn setups(program: &str) -> [Setup; 2] {
    let (foreground, background) = (model(program), model("lbm"));
    let both = [(FOREGROUND, foreground.as_str()), (BACKGROUND, background.as_str())];
    let what = |how: &str| format!("slowdown: {program} {how}");
    [
        setup(&format!("{program}-alone"), &what("alone"), "", &both[..1]),
        setup(&format!("{program}-lbm"), &what("beside lbm"), "", &both),
    ]
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let setups: Vec<_> = PROGRAMS.iter().flat_map(|(name, _)| setups(name)).collect();
    let runs = lab.run(&setups)?;
    let mut alone = Table::comparison("", "Read alone (GB/s)", "program");
    let mut table = Table::new(
        "slowdown",
        "Beside lbm",
        &["program", "slowdown of the program", "lbm reads (GB/s)"],
    );
    let (mut bandwidths, mut slowdowns) = (Vec::new(), Vec::new());
    for ((name, published), pair) in PROGRAMS.iter().zip(runs.chunks(2)) {
        let bandwidth = read_gb(&pair[0], FOREGROUND);
        let slowdown = ipc(&pair[0], FOREGROUND) / ipc(&pair[1], FOREGROUND);
        alone.compare(*name, bandwidth, *published, 2);
        table.row(vec![
            Cell::text(*name),
            Cell::Number(slowdown, 2),
            Cell::Number(read_gb(&pair[1], BACKGROUND), 2),
        ]);
        bandwidths.push(bandwidth);
        slowdowns.push(slowdown);
    }
    Ok(Findings {
        notes: vec![RUNS.into()],
        figures: vec![Figure {
            name: String::new(),
            title: "Slowdown beside lbm on another cache".into(),
            drawing: Drawing::Bars {
                axis: "runtime slowdown".into(),
                groups: PROGRAMS.map(|(name, _)| name.to_string()).to_vec(),
                series: vec![("beside lbm".into(), slowdowns.clone())],
            },
        }],
        tables: vec![alone, table],
        verdicts: verdicts(&bandwidths, &slowdowns),
    })
}

fn verdicts(bandwidths: &[f64], slowdowns: &[f64]) -> Vec<Verdict> {
    let published = PROGRAMS.iter().zip(bandwidths);
    let off = published.filter_map(|((_, it), ours)| it.map(|it| relative(*ours, it).abs()));
    let off = off.fold(0.0, f64::max);
    let worst = slowdowns.iter().copied().fold(1.0, f64::max);
    let most = slowdowns.iter().position(|it| *it == worst).unwrap_or(0);
    vec![
        Verdict::new(
            "the four published bandwidths are within 3 %",
            off <= bars::FITTED,
            format!("largest difference {}", percent(off)),
        ),
        Verdict::new(
            "one co-runner slows a program down up to 2 times, within 10 %",
            relative(worst, WORST).abs() <= bars::NEAR,
            format!("{} times, {}", number(worst, 2), PROGRAMS[most].0),
        ),
        Verdict::new(
            "slowdown is not proportional to bandwidth: what reads most is not slowed most",
            slowdowns[0] < worst,
            format!("lbm {} times", number(slowdowns[0], 2)),
        ),
    ]
}
