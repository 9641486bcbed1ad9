//! The background rules against each other (section III).

use super::{fig4, head, list, m_jump, program};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict, number, percent};
use crate::stats::relative;
use crate::{Error, Experiment, Kind, Lab, Run, Setup, bars};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "maracas-rules",
    title: "background rules against each other",
    summary: "On each of four cores an m_jump (20 % of T = 150, 100, 50 and 200 ms) and a compress \
              (20 of 100 ms) share what is left for five minutes, by each rule: fair (least \
              background time first), sticky (what just ran goes on), light (least \
              memory-intensive first), off. Fair and sticky also on the one core of Figure 4, \
              C = 10 ms.",
    source: "MARACAS, section III; no numbers: sticky has \"negligible performance benefit\", \
             light reduces contention",
    kind: Kind::Predicts,
    free: "all parameters: the paper names the rules and prints no experiment",
    fitted: super::M_JUMP_FIT,
    run,
};

const RULES: [&str; 4] = ["fair", "sticky", "light", "off"];
/// What switching costs, in microseconds: context switches are what sticky saves (our choice).
const SWITCH_US: u32 = 5;

fn setup(rule: &str) -> Setup {
    let what = format!("MARACAS, section III: background {rule}.");
    let params = format!("background = \"{rule}\"\nthrottle = \"watch\"\n");
    let mut text = head(&what, &params, 300);
    text += &format!("\n[overheads]\ncontext_switch = \"{SWITCH_US}us\"\n");
    // Different periods, as in the paper's Figure 7: equal ones bring the Sync Effect.
    for (core, period) in [(0, 150.0), (1, 100.0), (2, 50.0), (3, 200.0)] {
        let name = format!("jump{core}");
        text += &program(&name, (period / 5.0, period), Some(core), &m_jump(0.0));
        text += &program(&format!("compress{core}"), (20.0, 100.0), Some(core), "\"compress\"");
    }
    Setup::new(rule, text)
}

/// The one core of Figure 4, where the rule changes nothing but the switches.
fn one_core(rule: &str) -> Setup {
    let Setup { name, text } = fig4::setup(10.0, rule);
    let text = text + &format!("\n[overheads]\ncontext_switch = \"{SWITCH_US}us\"\n");
    Setup::new(format!("one-core-{name}"), text)
}

/// What a rule came to.
struct Outcome {
    compress: f64,
    jump: f64,
    latency: f64,
    switches: f64,
    /// Largest difference of background time between the two of one core, in ms.
    unfair_ms: f64,
}

impl Outcome {
    fn of(run: &Run) -> Self {
        let sum = |kind: &str| {
            (0..4).map(|core| run.all(&format!("{kind}{core}")).instructions as f64 / 1e9).sum()
        };
        let background = |name: String| run.task(&name).background_ns as f64 / 1e6;
        let apart = |core: u32| {
            (background(format!("jump{core}")) - background(format!("compress{core}"))).abs()
        };
        Self {
            compress: sum("compress"),
            jump: sum("jump"),
            latency: run.latency(),
            switches: run.outcome.context_switches as f64,
            unfair_ms: (0..4).map(apart).fold(0.0, f64::max),
        }
    }
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let outcomes: Vec<Outcome> = lab.run(&RULES.map(setup))?.iter().map(Outcome::of).collect();
    let one_core = lab.run(&["fair", "sticky"].map(one_core))?;
    let switches: Vec<f64> =
        one_core.iter().map(|run| run.outcome.context_switches as f64).collect();
    let mut table = Table::new(
        "",
        "Five minutes, sums over four cores",
        &[
            "rule",
            "compress (1e9 instructions)",
            "m_jump (1e9 instructions)",
            "latency (cycles)",
            "context switches",
            "background time apart (ms)",
        ],
    );
    for (rule, outcome) in RULES.iter().zip(&outcomes) {
        table.row(vec![
            Cell::text(*rule),
            Cell::Number(outcome.compress, 1),
            Cell::Number(outcome.jump, 2),
            Cell::Number(outcome.latency, 1),
            Cell::Number(outcome.switches, 0),
            Cell::Number(outcome.unfair_ms, 0),
        ]);
    }
    // In percent of fair's: the two differ by orders of magnitude.
    let bars = |value: fn(&Outcome) -> f64| {
        outcomes.iter().map(|it| 100.0 * value(it) / value(&outcomes[0])).collect()
    };
    Ok(Findings {
        notes: vec![format!("A context switch costs {SWITCH_US} us here.")],
        figures: vec![Figure {
            name: String::new(),
            title: "Background rules, relative to fair".into(),
            drawing: Drawing::Bars {
                axis: "% of fair".into(),
                groups: RULES.map(String::from).to_vec(),
                series: vec![
                    ("compress".into(), bars(|it| it.compress)),
                    ("m_jump".into(), bars(|it| it.jump)),
                    ("latency".into(), bars(|it| it.latency)),
                ],
            },
        }],
        tables: vec![table],
        verdicts: verdicts(&outcomes, &switches),
    })
}

fn verdicts(outcomes: &[Outcome], one_core: &[f64]) -> Vec<Verdict> {
    let [fair, sticky, light, off] = outcomes else { return Vec::new() };
    let saved = one_core[0] - one_core[1];
    let worth = saved * f64::from(SWITCH_US) / 1e6 / 300.0;
    vec![
        Verdict::new(
            "fair shares background time evenly (apart by at most the longest period)",
            fair.unfair_ms <= 200.0,
            format!("{} ms of 300 s", number(fair.unfair_ms, 0)),
        ),
        Verdict::new(
            "sticky saves context switches on the one core, worth next to nothing (below 1 %)",
            saved > 0.0 && worth < 0.01,
            format!(
                "{} switches, which costs {} % of the time less; on the four cores {}",
                list(one_core, 0),
                number(worth * 100.0, 3),
                list(&[fair.switches, sticky.switches], 0)
            ),
        ),
        Verdict::new(
            "on the four cores too sticky changes no program's progress (2 %)",
            [sticky.compress / fair.compress, sticky.jump / fair.jump]
                .iter()
                .all(|ratio| (ratio - 1.0).abs() <= bars::UNCHANGED),
            format!(
                "compress {}, m_jump {}, background time of two on one core up to {} s of 300 \
                 apart",
                percent(relative(sticky.compress, fair.compress)),
                percent(relative(sticky.jump, fair.jump)),
                number(sticky.unfair_ms / 1e3, 0)
            ),
        )
        .because(
            "The VCPU that uses up its budget last keeps all surplus time, which by the order of \
             budgets is always the same one: the other has none at all. The paper does not say on \
             which programs it found the benefit negligible; it is neither that nor fair where \
             these differ in their use of memory.",
        ),
        Verdict::new(
            "light lowers the latency and gives the light task more than fair",
            light.latency < fair.latency && light.compress > fair.compress,
            format!(
                "{} cycles, compress {}, m_jump {}",
                list(&[fair.latency, light.latency], 1),
                percent(relative(light.compress, fair.compress)),
                percent(relative(light.jump, fair.jump))
            ),
        ),
        Verdict::new(
            "off gives compress least by far, at the lowest latency (with light, within 0.1 %)",
            outcomes[..3]
                .iter()
                .all(|it| off.compress < it.compress && off.latency <= it.latency * 1.001),
            format!(
                "{} cycles, compress {}, m_jump {} against fair",
                number(off.latency, 1),
                percent(relative(off.compress, fair.compress)),
                percent(relative(off.jump, fair.jump))
            ),
        ),
    ]
}
