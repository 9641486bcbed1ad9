//! Figure 7: canny beside three `m_jump` of growing utilization (algorithms.md G.5, X4).

use super::{head, list, m_jump, program};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict};
use crate::{Error, Experiment, Kind, Lab, Run, Setup};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "maracas-fig7",
    title: "canny's progress under throttling",
    summary: "canny with C = 50 every 100 ms for ten minutes, beside three m_jump with T = 150, \
              100 and 50 ms of 30, 60, 80 and 100 % utilization each and alone; throttled by \
              latency with MAX_MEM_LAT = 180 cycles, and not throttled.",
    source: "MARACAS, Figure 7 (section VI.B); of the bars only their trend is printed",
    kind: Kind::Calibrates,
    free: "the delay of m_jump, which the paper does not give: the longest, in steps of 10 ns, at \
           which 180 cycles hold up to U = 60 % and no longer at 80 %, as the paper says",
    fitted: super::M_JUMP_FIT,
    run,
};

/// MAX_MEM_LAT in cycles (section VI.B).
const LIMIT: f64 = 180.0;
/// Utilizations of each m_jump, in percent (section VI.B).
const UTILIZATIONS: [u32; 4] = [30, 60, 80, 100];

/// Delays that are searched, in nanoseconds: from 150 on, nothing is throttled at all.
fn delays() -> Vec<f64> {
    (0..=15).map(|step| f64::from(step) * 10.0).collect()
}

/// canny beside three m_jump of `utilization` percent; 0 = alone.
fn setup(utilization: u32, delay: f64, throttle: &str) -> Setup {
    let what = format!("MARACAS, Figure 7: canny, m_jump at {utilization} %, delay {delay} ns.");
    let params = format!("throttle = \"{throttle}\"\nmax_latency = {LIMIT}\n");
    let mut text = head(&what, &params, 600);
    text += &program("canny", (50.0, 100.0), Some(0), "\"canny\"");
    if utilization > 0 {
        for (core, period) in [(1, 150.0), (2, 100.0), (3, 50.0)] {
            let budget = period * f64::from(utilization) / 100.0;
            let name = format!("jump{core}");
            text += &program(&name, (budget, period), Some(core), &m_jump(delay));
        }
    }
    Setup::new(format!("u{utilization}-{throttle}-delay-{delay}ns"), text)
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let search: Vec<_> = delays()
        .into_iter()
        .flat_map(|delay| UTILIZATIONS.map(|it| setup(it, delay, "latency")))
        .collect();
    let searched: Vec<Searched> = lab.run(&search)?.iter().map(Searched::of).collect();
    let rows: Vec<&[Searched]> = searched.chunks(UTILIZATIONS.len()).collect();
    let below = |it: &Searched| it.latency < LIMIT;
    let held = |row: &[Searched]| below(&row[0]) && below(&row[1]) && !below(&row[2]);
    let place = rows.iter().rposition(|row| held(row));
    let delay = delays()[place.unwrap_or(0)];
    let mut setups = vec![setup(0, delay, "latency"), setup(0, delay, "watch")];
    for utilization in UTILIZATIONS {
        setups.extend(["latency", "watch"].map(|throttle| setup(utilization, delay, throttle)));
    }
    let cases: Vec<Case> = lab.run(&setups)?.chunks(2).map(Case::of).collect();
    let bars = |place: usize| cases.iter().map(|case| case.canny[place]).collect();
    Ok(Findings {
        notes: vec![
            "The admission test at U = 100 % is the bound by Liu and Layland, as everywhere: one \
             VCPU alone on its core may take all of it."
                .into(),
            "That 180 cycles hold below 80 % is what the delay was chosen by, and so no claim here."
                .into(),
        ],
        tables: vec![cases_table(&cases, delay), search_table(&rows)],
        figures: vec![Figure {
            name: String::new(),
            title: "Figure 7: foreground performance of canny".into(),
            drawing: Drawing::Bars {
                axis: "canny's foreground instructions (1e9)".into(),
                groups: names().collect(),
                series: vec![("throttled".into(), bars(0)), ("not throttled".into(), bars(1))],
            },
        }],
        verdicts: verdicts(&cases, &rows),
    })
}

fn names() -> impl Iterator<Item = String> {
    std::iter::once("alone".into()).chain(UTILIZATIONS.map(|u| format!("{u} %")))
}

fn cases_table(cases: &[Case], delay: f64) -> Table {
    let title = format!("Ten minutes, m_jump with a delay of {delay} ns");
    let columns = [
        "U of each m_jump",
        "latency throttled (cycles)",
        "not throttled",
        "canny foreground, throttled (1e9)",
        "not throttled (1e9)",
        "throttled (s of 4 cores)",
    ];
    let mut table = Table::new("", &title, &columns);
    for (name, case) in names().zip(cases) {
        table.row(vec![
            Cell::Text(name),
            Cell::Number(case.latency[0], 1),
            Cell::Number(case.latency[1], 1),
            Cell::Number(case.canny[0], 1),
            Cell::Number(case.canny[1], 1),
            Cell::Number(case.throttled_s, 0),
        ]);
    }
    table
}

fn search_table(rows: &[&[Searched]]) -> Table {
    let columns = ["delay (ns)", "U = 30 %", "60 %", "80 %", "100 %"];
    let mut table = Table::new("delays", "Throttled latency in cycles by the delay", &columns);
    for (delay, row) in delays().into_iter().zip(rows) {
        let mut cells = vec![Cell::Number(delay, 0)];
        cells.extend(row.iter().map(|it| Cell::Number(it.latency, 1)));
        table.row(cells);
    }
    table
}

/// One run of the search.
struct Searched {
    latency: f64,
    /// canny's foreground instructions in 1e9.
    canny: f64,
    throttled_s: f64,
}

impl Searched {
    fn of(run: &Run) -> Self {
        Self {
            latency: run.latency(),
            canny: run.foreground("canny").instructions as f64 / 1e9,
            throttled_s: run.throttled_s(),
        }
    }
}

/// One utilization, throttled and not.
struct Case {
    latency: [f64; 2],
    canny: [f64; 2],
    throttled_s: f64,
}

impl Case {
    fn of(pair: &[Run]) -> Self {
        let canny = |run: &Run| run.foreground("canny").instructions as f64 / 1e9;
        Self {
            latency: [pair[0].latency(), pair[1].latency()],
            canny: [canny(&pair[0]), canny(&pair[1])],
            throttled_s: pair[0].throttled_s(),
        }
    }
}

fn verdicts(cases: &[Case], rows: &[&[Searched]]) -> Vec<Verdict> {
    let beside = &cases[1..];
    let throttled: Vec<f64> = beside.iter().map(|case| case.latency[0]).collect();
    let free: Vec<f64> = beside.iter().map(|case| case.latency[1]).collect();
    let canny: Vec<f64> = cases.iter().map(|case| case.canny[0]).collect();
    let unhelped: Vec<f64> = cases.iter().map(|case| case.canny[1]).collect();
    let lower = throttled.iter().zip(&free).all(|(with, without)| with < without);
    let rises = throttled.windows(2).all(|pair| pair[0] < pair[1]);
    let falls = canny.windows(2).all(|pair| pair[0] > pair[1]);
    let helps =
        canny[1..].iter().zip(&unhelped[1..]).all(|(with, without)| *with >= without * 0.999);
    vec![
        Verdict::new(
            "throttled latency is below unthrottled at each U",
            lower,
            format!("{} against {}", list(&throttled, 1), list(&free, 1)),
        ),
        Verdict::new("throttled latency rises with U", rises, list(&throttled, 1)),
        Verdict::new(
            "canny's foreground performance falls as U grows",
            falls,
            format!("{} 1e9", list(&canny, 1)),
        ),
        falls_everywhere(rows),
        Verdict::new(
            "throttling never costs canny foreground performance (0.1 % allowed)",
            helps,
            format!("without it {} 1e9", list(&unhelped, 1)),
        ),
    ]
}

/// Whether the trend hangs on the delay.
fn falls_everywhere(rows: &[&[Searched]]) -> Verdict {
    let acts = |row: &[Searched]| row.iter().any(|it| it.throttled_s > 0.0);
    let falls = |row: &[Searched]| row.windows(2).all(|pair| pair[0].canny > pair[1].canny);
    let acting: Vec<usize> = (0..rows.len()).filter(|place| acts(rows[*place])).collect();
    let not = acting.iter().filter(|place| !falls(rows[**place]));
    let not: Vec<String> = not.map(|place| delays()[*place].to_string()).collect();
    Verdict::new(
        "it falls so at every other delay too at which throttling acts",
        !acting.is_empty() && not.is_empty(),
        if not.is_empty() {
            format!("at all {} delays from 0 on", acting.len())
        } else {
            format!("not at {} of {} delays: {} ns", not.len(), acting.len(), not.join(", "))
        },
    )
    .because(
        "Where one throttled core brings the latency below 180 cycles at a smaller utilization and \
         two are needed at a greater one, canny is better off at the greater.",
    )
}
