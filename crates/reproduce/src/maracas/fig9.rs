//! Figure 9: cache-aware scheduling (algorithms.md G.5, X6).

use super::draw::tasks;
use super::{MIGRATIONS, on, program};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict, number};
use crate::stats::Mean;
use crate::{Error, Experiment, Kind, Lab, Run, Setup};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "maracas-fig9",
    title: "cache-aware scheduling",
    summary: "Fifteen hog (2 MB, sequential) start a second apart with C and durations drawn as \
              in Figure 8, then mwalk (1 MB, pseudo-random, C = 6 every 100 ms) runs for ten \
              minutes: with a shared cache (share), with 32 page colours split 4:4:10:14 and no \
              demand (c0), and with a demand of 6 colours (c6).",
    source: "MARACAS, Figure 9 (section VI.D); of the bars only their order is printed",
    kind: Kind::Predicts,
    free: "the sets t0 to t9, which the paper does not give, are our first ten draws",
    fitted: super::PLATFORM_FIT,
    run,
};

/// hogs of a set.
const HOGS: usize = 15;
/// Sets of the figure.
const SHOWN: usize = 10;
/// Sets over which ratios are averaged.
pub(super) const SEEDS: usize = 20;
/// Ten minutes from when mwalk starts.
const SECONDS: u32 = 615;

/// The split of the 32 colours (section VI.D).
const SPLIT: [u32; 4] = [4, 4, 10, 14];

/// What mwalk asks for, and how the cache is split for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    /// A shared cache, VLB.
    Share,
    /// A split cache, CAS, this many colours asked for.
    Colors(u32),
}

/// Set `set` with an mwalk of `kib` KiB.
pub(super) fn setup(set: usize, case: Case, kib: u32) -> Setup {
    let (word, split, colors) = match case {
        Case::Share => ("share".to_string(), String::new(), 0),
        Case::Colors(colors) => (format!("c{colors}"), format!("colors = {SPLIT:?}\n"), colors),
    };
    let what = format!("MARACAS, Figures 9 and 10: set t{set}, mwalk of {kib} KiB, {word}.");
    let platform = format!("preset = \"i5-2500k\"\n{split}");
    let mut text = on(&platform, &what, "balance = \"vlb\"\n", SECONDS);
    text += MIGRATIONS;
    for (place, hog) in tasks(set, HOGS).iter().enumerate() {
        let stop = ((place as f64 + hog.seconds) * 1000.0).round() as u64;
        text += &program(&format!("hog{}", place + 1), (hog.budget, 100.0), None, "\"hog\"");
        text += &format!("start = \"{place}s\"\nstop = \"{stop}ms\"\n");
    }
    let memory = format!("{{ model = \"mwalk\", working_set = \"{kib}KiB\" }}");
    text += &program("mwalk", (6.0, 100.0), None, &memory);
    text += &format!("start = \"{HOGS}s\"\n");
    if colors > 0 {
        text += &format!("colors = {colors}\n");
    }
    Setup::new(format!("t{set}-{kib}k-{word}"), text)
}

/// mwalk's misses per reference.
pub(super) fn miss_ratio(run: &Run) -> f64 {
    run.all("mwalk").miss_ratio().unwrap_or(0.0)
}

/// The same of what it did on its budget alone.
pub(super) fn foreground_ratio(run: &Run) -> f64 {
    run.foreground("mwalk").miss_ratio().unwrap_or(0.0)
}

/// The cores that mwalk ran on, in words.
pub(super) fn landed(run: &Run) -> String {
    let cores: Vec<String> = run.task("mwalk").cores.iter().map(u16::to_string).collect();
    cores.join(" and ")
}

const CASES: [Case; 3] = [Case::Share, Case::Colors(0), Case::Colors(6)];

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let sets = lab.seeds(SEEDS);
    let setups: Vec<_> =
        (0..sets).flat_map(|set| CASES.map(|case| setup(set, case, 1024))).collect();
    let runs = lab.run(&setups)?;
    let ratios: Vec<Vec<f64>> =
        runs.chunks(3).map(|three| three.iter().map(miss_ratio).collect()).collect();
    let columns = ["set", "share (%)", "c0 (%)", "c6 (%)", "core, share", "core, c0", "core, c6"];
    let mut table =
        Table::new("", "LLC misses per reference of mwalk, and the cores that it ran on", &columns);
    for (set, (three, ratio)) in runs.chunks(3).zip(&ratios).enumerate() {
        let mut row = vec![Cell::Text(format!("t{set}"))];
        row.extend(ratio.iter().map(|value| Cell::Number(value * 100.0, 1)));
        row.extend(three.iter().map(|run| Cell::Text(landed(run))));
        table.row(row);
    }
    let bars = |case: usize| ratios.iter().take(SHOWN).map(|it| it[case] * 100.0).collect();
    Ok(Findings {
        notes: vec![format!(
            "Cores 0 to 3 have {} colours of 192 KiB.",
            SPLIT.map(|colors| colors.to_string()).join(", ")
        )],
        tables: vec![table],
        figures: vec![Figure {
            name: String::new(),
            title: "Figure 9: LLC miss ratio of mwalk".into(),
            drawing: Drawing::Bars {
                axis: "misses per reference (%)".into(),
                groups: (0..sets.min(SHOWN)).map(|set| format!("t{set}")).collect(),
                series: vec![
                    ("share".into(), bars(0)),
                    ("c0".into(), bars(1)),
                    ("c6".into(), bars(2)),
                ],
            },
        }],
        verdicts: verdicts(&runs, &ratios),
    })
}

fn verdicts(runs: &[Run], ratios: &[Vec<f64>]) -> Vec<Verdict> {
    let sets = ratios.len();
    let mean = |case: usize| Mean::of(&ratios.iter().map(|it| it[case]).collect::<Vec<_>>());
    let means = [mean(0), mean(1), mean(2)];
    let count = |holds: fn(&[f64]) -> bool| ratios.iter().filter(|it| holds(it)).count();
    // Ties allowed: a tenth of a percentage point.
    let worst = count(|it| it[0] >= it[1] - 0.001 && it[0] >= it[2] - 0.001);
    let best = count(|it| it[2] <= it[0] + 0.001 && it[2] <= it[1] + 0.001);
    let shown = means.map(|it| {
        format!("{} % (+-{})", number(it.mean * 100.0, 1), number(it.half_width * 100.0, 1))
    });
    let shown = format!("share {}, c0 {}, c6 {}", shown[0], shown[1], shown[2]);
    let small = |run: &&Run| run.task("mwalk").cores.iter().any(|core| *core < 2);
    let c0: Vec<&Run> = runs.iter().skip(1).step_by(3).collect();
    let on_small: Vec<f64> = c0.iter().copied().filter(small).map(miss_ratio).collect();
    let on_large: Vec<f64> = c0.iter().copied().filter(|run| !small(run)).map(miss_ratio).collect();
    let (bad, good) = (Mean::of(&on_small).mean, Mean::of(&on_large).mean);
    vec![
        Verdict::new(
            "the shared cache is worst, on average and ties allowed",
            means[0].mean >= means[1].mean && means[0].mean >= means[2].mean,
            format!("{shown}; worst in {worst} of {sets} sets"),
        ),
        Verdict::new(
            "c6 is best, on average and ties allowed",
            means[2].mean <= means[0].mean && means[2].mean <= means[1].mean,
            format!("best in {best} of {sets} sets"),
        ),
        Verdict::new(
            "c0 is bad where mwalk was on a core with a part smaller than its array",
            !on_small.is_empty() && (on_large.is_empty() || bad > good),
            format!(
                "{} % in {} sets with time on core 0 or 1, {} % in the other {}",
                number(bad * 100.0, 1),
                on_small.len(),
                number(good * 100.0, 1),
                on_large.len()
            ),
        ),
    ]
}
