//! The effect of the background's reservation.

use super::{BACKGROUND, FOREGROUND, HARD, RUNS, ipc, model, setup};
use crate::figure::{Drawing, Figure, Line};
use crate::findings::{Cell, Findings, Table, Verdict, number};
use crate::{Error, Experiment, Kind, Lab, Setup, bars};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "memguard-reservation",
    title: "effect of reservation",
    summary: "Foregrounds with 1.0 GB/s on C0, lbm on C2 with 0.2 to 2.0 GB/s, hard \
              reservations; IPC over that alone with 1.0 GB/s.",
    source: "MemGuard slides, \"Isolation Effect of Reservation\": isolated while the sum is at \
             most r_min = 1.2 GB/s; the figure's values are not printed",
    kind: Kind::Predicts,
    free: "none of its own; the models of omnetpp and milc are ours",
    fitted: super::MODELS_FIT,
    run,
};

const PROGRAMS: [&str; 6] = ["lbm", "leslie3d", "libquantum", "bwaves", "omnetpp", "milc"];
/// lbm's reservation in MiB/s.
const SWEEP: [u32; 10] = [200, 400, 600, 800, 1000, 1200, 1400, 1600, 1800, 2000];
/// Why a program within its reservation loses by another one's.
const WHY_MILC: &str = "milc reads less than its reservation, so it is never regulated, and each \
                        of its reads waits longer for lbm's: a reservation is of bandwidth, not of \
                        latency. At 95 %, the bar that stood here before, it was isolated.";

/// Alone with 1.0 GB/s, then beside lbm with each reservation.
fn setups(program: &str) -> Vec<Setup> {
    let (foreground, lbm) = (model(program), model("lbm"));
    let both = [(FOREGROUND, foreground.as_str()), (BACKGROUND, lbm.as_str())];
    let one = |background: u32, programs: &[(u32, &str)]| {
        let params = format!("bandwidth = \"1000MiB/s, none, {background}MiB/s, none\"\n{HARD}");
        let what = format!("effect of reservation: {program}, background {background} MiB/s");
        let how = if programs.len() == 1 { "alone".into() } else { background.to_string() };
        setup(&format!("{program}-{how}"), &what, &params, programs)
    };
    let beside = SWEEP.iter().map(|background| one(*background, &both));
    [one(SWEEP[0], &both[..1])].into_iter().chain(beside).collect()
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let setups: Vec<_> = PROGRAMS.iter().flat_map(|program| setups(program)).collect();
    let runs = lab.run(&setups)?;
    let levels: Vec<Vec<f64>> = runs
        .chunks(SWEEP.len() + 1)
        .map(|runs| {
            let alone = ipc(&runs[0], FOREGROUND);
            runs[1..].iter().map(|run| ipc(run, FOREGROUND) / alone).collect()
        })
        .collect();
    let mut columns = vec!["lbm's reservation (GB/s)"];
    columns.extend(PROGRAMS);
    let mut table = Table::new("", "IPC over that alone with 1.0 GB/s", &columns);
    for (place, background) in SWEEP.iter().enumerate() {
        let mut row = vec![Cell::Number(f64::from(*background) / 1000.0, 1)];
        row.extend(levels.iter().map(|levels| Cell::Number(levels[place], 3)));
        table.row(row);
    }
    let line = |(name, levels): (&&str, &Vec<f64>)| {
        let along = SWEEP.iter().map(|background| f64::from(*background) / 1000.0);
        Line::new(*name, along.zip(levels.iter().copied()).collect())
    };
    Ok(Findings {
        notes: vec![RUNS.into(), "One GB/s is 1000 MiB/s here.".into()],
        tables: vec![table],
        figures: vec![Figure {
            name: String::new(),
            title: "Foreground at 1.0 GB/s beside lbm".into(),
            drawing: Drawing::Lines {
                along: "reservation of lbm (GB/s)".into(),
                logarithmic: false,
                share: false,
                left: "IPC over that alone at 1.0 GB/s".into(),
                right: None,
                lines: PROGRAMS.iter().zip(&levels).map(line).collect(),
            },
        }],
        verdicts: verdicts(&levels),
    })
}

fn verdicts(levels: &[Vec<f64>]) -> Vec<Verdict> {
    let least = |place: usize| levels.iter().map(|it| it[place]).fold(f64::INFINITY, f64::min);
    let first = least(0);
    let last = least(SWEEP.len() - 1);
    let falls = levels.iter().all(|it| it.windows(2).all(|pair| pair[1] <= pair[0] + 1e-3));
    let broken = |it: &&Vec<f64>| it[SWEEP.len() - 1] < bars::ISOLATED;
    vec![
        Verdict::new(
            "while the reservations sum to r_min every foreground is isolated (97 %)",
            first >= bars::ISOLATED,
            format!("least {} at 1.0 + 0.2 GB/s", number(first, 3)),
        )
        .because(WHY_MILC),
        Verdict::new(
            "beyond r_min isolation is no longer given",
            last < bars::ISOLATED,
            format!(
                "least {} at 1.0 + 2.0 GB/s, {} of {} below 97 %",
                number(last, 3),
                levels.iter().filter(broken).count(),
                levels.len()
            ),
        ),
        Verdict::new(
            "no foreground gains when the background's reservation grows",
            falls,
            "program by program",
        ),
    ]
}
