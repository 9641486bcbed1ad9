//! Algorithm 1 as printed against Algorithm 1 repaired (section IV, algorithms.md G.2).

use super::fig6::DELAY_NS;
use super::{TABLE_II, head, list, three_m_jumps};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict, number};
use crate::{Error, Experiment, Kind, Lab, Run, Setup};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "maracas-printed",
    title: "Algorithm 1 as printed",
    summary: "Case E1 of Figure 6 by latency, where one throttled core is enough, for five \
              minutes: by the pseudocode as printed, whose comparison counts ties against every \
              core, and by the repaired one, whose order is strict.",
    source: "MARACAS, Algorithm 1, lines 39 to 51 (section IV); no numbers",
    kind: Kind::Predicts,
    free: "the delay of task1 and task2, as in maracas-fig6",
    fitted: super::M_JUMP_FIT,
    run,
};

const VARIANTS: [(&str, bool); 2] = [("repaired", false), ("as printed", true)];
const TASKS: [&str; 3] = ["task1", "task2", "task3"];

fn setup(name: &str, published: bool) -> Setup {
    let what = format!("MARACAS, Algorithm 1 {name}: case E1 of Figure 6.");
    let latency = TABLE_II[0].latency;
    let params =
        format!("throttle = \"latency\"\nmax_latency = {latency}\npublished = {published}\n");
    let text = head(&what, &params, 300) + &three_m_jumps(DELAY_NS);
    Setup::new(name.replace(' ', "-"), text)
}

/// Surplus seconds that each task had.
fn surplus(run: &Run) -> Vec<f64> {
    TASKS.iter().map(|name| run.task(name).background_ns as f64 / 1e9).collect()
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let runs = lab.run(&VARIANTS.map(|(name, published)| setup(name, published)))?;
    let columns = [
        "Algorithm 1",
        "cores to throttle, at most",
        "surplus task1 (s)",
        "task2 (s)",
        "task3 (s)",
        "throttled (s)",
        "latency (cycles)",
    ];
    let mut table =
        Table::new("", "Five minutes, of which 150 s are surplus on each core", &columns);
    for ((name, _), run) in VARIANTS.iter().zip(&runs) {
        let most = run.statistic("throttled cores at most") as f64;
        let mut row = vec![Cell::text(*name), Cell::Number(most, 0)];
        row.extend(surplus(run).into_iter().map(|seconds| Cell::Number(seconds, 1)));
        row.extend([Cell::Number(run.throttled_s(), 1), Cell::Number(run.latency(), 1)]);
        table.row(row);
    }
    let (repaired, printed) = (surplus(&runs[0]), surplus(&runs[1]));
    let one = |run: &Run| run.statistic("throttled cores at most") == 1;
    Ok(Findings {
        notes: Vec::new(),
        tables: vec![table],
        verdicts: vec![
            Verdict::new(
                "both come to throttle one core",
                runs.iter().all(one),
                list(&[0, 1].map(|it| runs[it].statistic("throttled cores at most") as f64), 0),
            ),
            Verdict::new(
                "as printed, that takes nearly all surplus time of every core",
                printed.iter().all(|seconds| *seconds < 0.05 * 150.0),
                format!("{} of 150 s are left", list(&printed, 1)),
            ),
            Verdict::new(
                "repaired, every core keeps a part of it, the one with most requests the least",
                repaired[2] > 0.2 * 150.0 && repaired[..2].iter().all(|it| *it > repaired[2]),
                format!(
                    "{} of 150 s; {} s throttled",
                    list(&repaired, 1),
                    number(runs[0].throttled_s(), 0)
                ),
            ),
        ],
        figures: vec![Figure {
            name: String::new(),
            title: "Surplus time with one core to throttle".into(),
            drawing: Drawing::Bars {
                axis: "surplus time (s of 150)".into(),
                groups: TASKS.map(String::from).to_vec(),
                series: vec![("repaired".into(), repaired), ("as printed".into(), printed)],
            },
        }],
    })
}
