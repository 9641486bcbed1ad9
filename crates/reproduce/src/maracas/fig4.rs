//! Figure 4: background scheduling on one core (algorithms.md G.5, X1).

use super::{head, program};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict, number, percent};
use crate::stats::relative;
use crate::{Error, Experiment, Kind, Lab, Setup};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "maracas-fig4",
    title: "background scheduling",
    summary: "compress, adpcm, fir and matmult share one core for five minutes, each with the \
              same C every 100 ms, with background scheduling (vcpu + bg) and without (vcpu). For \
              comparison, with the rule sticky in place of fair.",
    source: "MARACAS, Figure 4 (section VI.A); the figure's values are not printed",
    kind: Kind::Predicts,
    free: "C = 5, 10, 15 and 20 ms, which the paper does not give",
    fitted: super::PLATFORM_FIT,
    run,
};

const BENCHMARKS: [&str; 4] = ["compress", "adpcm", "fir", "matmult"];
const BUDGETS_MS: [f64; 4] = [5.0, 10.0, 15.0, 20.0];

/// Background rules: without, the paper's, and one under which a total need not be the same.
const RULES: [&str; 3] = ["off", "fair", "sticky"];

/// The four on one core with C = `budget` ms under a background rule.
pub(super) fn setup(budget: f64, rule: &str) -> Setup {
    let what = format!("MARACAS, Figure 4: four benchmarks on one core, background {rule}.");
    // Four VCPUs of 20 % are more than Liu and Layland's bound for four, 75.7 %.
    let params = format!("background = \"{rule}\"\nadmission = \"rta\"\n");
    let each = |name: &&str| program(name, (budget, 100.0), Some(0), &format!("\"{name}\""));
    let programs: String = BENCHMARKS.iter().map(each).collect();
    Setup::new(format!("c{budget}ms-{rule}"), head(&what, &params, 300) + &programs)
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let setups: Vec<_> =
        BUDGETS_MS.iter().flat_map(|c| RULES.map(|rule| setup(*c, rule))).collect();
    let runs = lab.run(&setups)?;
    let columns = [
        "benchmark",
        "C (ms)",
        "vcpu",
        "vcpu + bg",
        "of it in the foreground",
        "gain",
        "vcpu + bg, sticky",
    ];
    let mut table = Table::new("", "Instructions retired, in 1e9", &columns);
    let (mut groups, mut without, mut with) = (Vec::new(), Vec::new(), Vec::new());
    let (mut better, mut least_gain, mut grows) = (true, f64::INFINITY, true);
    let mut spreads = [0.0_f64; 2];
    for name in BENCHMARKS {
        let (mut totals, mut base) = ([Vec::new(), Vec::new()], 0.0);
        for (place, budget) in BUDGETS_MS.iter().enumerate() {
            let billions = |count: u64| count as f64 / 1e9;
            let off = billions(runs[3 * place].all(name).instructions);
            let fair = billions(runs[3 * place + 1].all(name).instructions);
            let foreground = billions(runs[3 * place + 1].foreground(name).instructions);
            let sticky = billions(runs[3 * place + 2].all(name).instructions);
            better &= fair > off;
            grows &= foreground > base;
            base = foreground;
            least_gain = least_gain.min(relative(fair, off));
            totals[0].push(fair);
            totals[1].push(sticky);
            table.row(vec![
                Cell::text(name),
                Cell::Number(*budget, 0),
                Cell::Number(off, 1),
                Cell::Number(fair, 1),
                Cell::Number(foreground, 1),
                Cell::Text(percent(relative(fair, off))),
                Cell::Number(sticky, 1),
            ]);
            groups.push(if place == 0 { format!("{name} 5") } else { number(*budget, 0) });
            without.push(off);
            with.push(fair);
        }
        for (spread, totals) in spreads.iter_mut().zip(&totals) {
            let low = totals.iter().copied().fold(f64::INFINITY, f64::min);
            *spread = spread.max(max(totals) / low - 1.0);
        }
    }
    Ok(Findings {
        notes: vec![
            "Admission is by response times: the bound by Liu and Layland stops at 18.9 ms each."
                .into(),
        ],
        tables: vec![table],
        figures: vec![Figure {
            name: String::new(),
            title: "Figure 4: background scheduling, by benchmark and C (ms)".into(),
            drawing: Drawing::Bars {
                axis: "instructions retired (1e9)".into(),
                groups,
                series: vec![("vcpu".into(), without), ("vcpu + bg".into(), with)],
            },
        }],
        verdicts: verdicts(better, least_gain, spreads, grows),
    })
}

fn verdicts(better: bool, least_gain: f64, spreads: [f64; 2], grows: bool) -> Vec<Verdict> {
    vec![
        Verdict::new(
            "with background scheduling every benchmark gets further at every C",
            better,
            format!("least gain {}", percent(least_gain)),
        ),
        Verdict::new(
            "the total is about the same for every C (within 5 %) by the rule, not by itself: \
             under sticky it is not",
            spreads[0] <= 0.05 && spreads[1] > 0.05,
            format!("largest spread {}, under sticky {}", percent(spreads[0]), percent(spreads[1])),
        )
        .because(
            "One core without idle time does the same work whichever program has it; sticky \
             starves the same ones at every C.",
        ),
        Verdict::new(
            "a larger C raises the part done in the foreground",
            grows,
            "for each benchmark, C by C",
        ),
    ]
}

fn max(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}
