//! Figure 10: mwalk with different working sets (algorithms.md G.5, X7).

use super::fig9::{Case, SEEDS, foreground_ratio, landed, miss_ratio, setup};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict, number};
use crate::stats::Mean;
use crate::{Error, Experiment, Kind, Lab, Run};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "maracas-fig10",
    title: "mwalk with different working sets",
    summary: "The cache-aware case of Figure 9 with mwalk on arrays of 0.5, 1 and 2 MB, asking \
              for the 3, 6 and 11 colours that hold them.",
    source: "MARACAS, Figure 10 (section VI.D); of the bars only their order is printed",
    kind: Kind::Predicts,
    free: "the sets, as in maracas-fig9; the colours of 0.5 and 2 MB, which the paper does not \
           give, follow from 192 KB each as its 6 for 1 MB do",
    fitted: super::PLATFORM_FIT,
    run,
};

/// Array in KiB and colours asked for.
const SIZES: [(u32, u32); 3] = [(512, 3), (1024, 6), (2048, 11)];
/// Sets of the figure.
const SHOWN: usize = 10;

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let sets = lab.seeds(SEEDS);
    let setups: Vec<_> = (0..sets)
        .flat_map(|set| SIZES.map(|(kib, colors)| setup(set, Case::Colors(colors), kib)))
        .collect();
    let runs = lab.run(&setups)?;
    let columns = [
        "set",
        "0.5 MB (%)",
        "1 MB (%)",
        "2 MB (%)",
        "foreground 0.5 MB (%)",
        "foreground 1 MB (%)",
        "foreground 2 MB (%)",
        "core, 0.5 MB",
        "core, 1 MB",
        "core, 2 MB",
    ];
    let mut table =
        Table::new("", "LLC misses per reference of mwalk, and the cores that it ran on", &columns);
    for (set, three) in runs.chunks(3).enumerate() {
        let percent = |of: fn(&Run) -> f64| move |run| Cell::Number(of(run) * 100.0, 1);
        let mut row = vec![Cell::Text(format!("t{set}"))];
        row.extend(three.iter().map(percent(miss_ratio)));
        row.extend(three.iter().map(percent(foreground_ratio)));
        row.extend(three.iter().map(|run| Cell::Text(landed(run))));
        table.row(row);
    }
    let figure = |name: &str, what: &str, of: fn(&Run) -> f64| {
        let bars =
            |size: usize| runs.chunks(3).take(SHOWN).map(|it| of(&it[size]) * 100.0).collect();
        Figure {
            name: name.into(),
            title: format!("Figure 10: LLC miss ratio of mwalk by its working set{what}"),
            drawing: Drawing::Bars {
                axis: "misses per reference (%)".into(),
                groups: (0..sets.min(SHOWN)).map(|set| format!("t{set}")).collect(),
                series: vec![
                    ("0.5 MB".into(), bars(0)),
                    ("1 MB".into(), bars(1)),
                    ("2 MB".into(), bars(2)),
                ],
            },
        }
    };
    Ok(Findings {
        notes: vec![
            "Ratios are of all that mwalk did, as the paper's, and of what it did on its budget: \
             surplus time comes in long intervals, in which a reload hardly shows."
                .into(),
        ],
        tables: vec![table],
        figures: vec![
            figure("", "", miss_ratio),
            figure("foreground", ", on its budget", foreground_ratio),
        ],
        verdicts: verdicts(&runs),
    })
}

fn verdicts(runs: &[Run]) -> Vec<Verdict> {
    let all: Vec<&[Run]> = runs.chunks(3).collect();
    // The parts of cores 2 and 3 hold every size without a conflict, or nearly so.
    let large = |run: &Run| run.task("mwalk").cores.iter().all(|core| *core >= 2);
    let same: Vec<&[Run]> = all.iter().copied().filter(|it| it.iter().all(large)).collect();
    let verdict = |claim: &str, sets: &[&[Run]], of: fn(&Run) -> f64| {
        let ratios: Vec<[f64; 3]> =
            sets.iter().map(|it| [of(&it[0]), of(&it[1]), of(&it[2])]).collect();
        let mean = |size: usize| Mean::of(&ratios.iter().map(|it| it[size]).collect::<Vec<_>>());
        let means = [mean(0), mean(1), mean(2)];
        let rises = |it: &[f64; 3]| it[0] <= it[1] && it[1] <= it[2];
        let shown = means.map(|it| {
            format!("{} % (+-{})", number(it.mean * 100.0, 2), number(it.half_width * 100.0, 2))
        });
        let count = ratios.iter().filter(|it| rises(it)).count();
        let numbers = format!("{}; in {count} of {} sets each", shown.join(", "), sets.len());
        Verdict::new(claim, !sets.is_empty() && rises(&means.map(|it| it.mean)), numbers)
    };
    vec![
        verdict("a larger working set misses more, on average", &all, miss_ratio).because(
            "3 colours are found on the cores that have 4, and 0.5 MB conflicts with itself there \
             (some sets of the cache get more of its pages than they have ways); 1 MB asks for 6 \
             and goes only where it has room.",
        ),
        verdict("the same in the foreground alone", &all, foreground_ratio),
        verdict(
            "the same in the sets in which all three sizes stayed on cores 2 and 3",
            &same,
            miss_ratio,
        ),
    ]
}
