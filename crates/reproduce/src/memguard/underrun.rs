//! Underrun errors of reclaim.

use super::{BACKGROUND, FOREGROUND, RESERVED, RUNS, counted, model, setup, spec};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict, number};
use crate::{Error, Experiment, Kind, Lab, Run};
use maracas_scenario::presets;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "memguard-underrun",
    title: "underrun errors of reclaim",
    summary: "The mixes of memguard-reclaim, by predictor: periods in which a core donated too \
              much, could not take it back and used less than its reservation, over all periods; \
              and how much was missed.",
    source: "MemGuard slides, \"Reclaim Underrun Error\" and \"Hard/Soft Reservation\": less than \
             5 %",
    kind: Kind::Predicts,
    free: "the models of all but the four programs whose bandwidth the slides print, phases \
           included; the paper's predictor is the average with weight 1/2",
    fitted: super::MODELS_FIT,
    run,
};

const PREDICTORS: [&str; 3] = ["ewma", "ewma-1/4", "last"];
const SHOWN: [&str; 3] = ["average, weight 1/2", "average, weight 1/4", "last value"];
/// The slides' bound, in percent of all periods.
const BOUND: f64 = 5.0;

/// Underrun errors by benchmark: of the foreground's periods, of the background's, and by size.
struct Errors {
    foreground: f64,
    background: f64,
    sizes: [f64; 10],
}

impl Errors {
    fn of(run: &Run) -> Self {
        let rate = |core| {
            100.0 * counted(run, "underrun errors", core)
                / counted(run, "regulated periods", core).max(1.0)
        };
        let size = |bin: usize| {
            let name = format!("underrun errors to {}%", 10 * (bin + 1));
            counted(run, &name, FOREGROUND) + counted(run, &name, BACKGROUND)
        };
        Self {
            foreground: rate(FOREGROUND),
            background: rate(BACKGROUND),
            sizes: std::array::from_fn(size),
        }
    }
}

/// How long the phases of a model last, in ms; its bandwidth varies if there is more than one.
fn phases_ms(model: &str) -> Vec<f64> {
    let phases = presets::workload(model).map(|profile| profile.phases).unwrap_or_default();
    phases.iter().map(|(run, _)| run.ticks() as f64 / 1e6).collect()
}

fn varies(model: &str) -> bool {
    phases_ms(model).len() > 1
}

fn mean(rates: impl Iterator<Item = f64>) -> f64 {
    let rates: Vec<f64> = rates.collect();
    rates.iter().sum::<f64>() / rates.len().max(1) as f64
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let (models, lbm) = (spec::models(), model("lbm"));
    let mut setups = Vec::new();
    for predictor in PREDICTORS {
        for name in &models {
            let foreground = model(name);
            let both = [(FOREGROUND, foreground.as_str()), (BACKGROUND, lbm.as_str())];
            let what = format!("underrun errors: {name} beside lbm, predictor {predictor}");
            let params = format!("{RESERVED}predictor = \"{predictor}\"\n");
            let file = format!("{name}-{}", predictor.replace('/', "-"));
            setups.push(setup(&file, &what, &params, &both));
        }
    }
    let runs = lab.run(&setups)?;
    let all: Vec<Vec<Errors>> =
        runs.chunks(models.len()).map(|runs| runs.iter().map(Errors::of).collect()).collect();
    let varying = |errors: &[Errors]| {
        let varying = models.iter().zip(errors).filter(|(name, _)| varies(name));
        mean(varying.map(|(_, errors)| errors.foreground))
    };
    let overall = |errors: &[Errors]| mean(errors.iter().map(|errors| errors.foreground));
    let columns = ["foreground", SHOWN[0], SHOWN[1], SHOWN[2]];
    let mut rates =
        Table::new("", "Periods of the foreground with an underrun error (%)", &columns);
    let mut add = |name: &str, of: &dyn Fn(&[Errors]) -> f64| {
        let mut row = vec![Cell::text(name)];
        row.extend(all.iter().map(|errors| Cell::Number(of(errors), 2)));
        rates.row(row);
    };
    for (place, name) in models.iter().enumerate() {
        let mark = if varies(name) { ", varying" } else { "" };
        add(&format!("{name}{mark}"), &|errors| errors[place].foreground);
    }
    add("mean of the varying", &varying);
    add("mean of all", &overall);
    let shares: Vec<[f64; 10]> = all.iter().map(|errors| sizes(errors)).collect();
    let rate = |by: usize| (varying(&all[by]), overall(&all[by]));
    let worst = all[0].iter().map(|errors| errors.foreground).fold(0.0, f64::max);
    let background = all[0].iter().map(|errors| errors.background).fold(0.0, f64::max);
    let phases = models.iter().filter(|name| varies(name)).map(|name| {
        let lengths: Vec<String> = phases_ms(name).iter().map(|ms| number(*ms, 0)).collect();
        format!("{name} {}", lengths.join(" and "))
    });
    Ok(Findings {
        notes: vec![
            RUNS.into(),
            "lbm in the background, at 0.2 GB/s, always uses what it has.".into(),
            format!("Phases in ms: {}.", phases.collect::<Vec<_>>().join("; ")),
        ],
        tables: vec![rates, distribution(&shares)],
        figures: figures(&all, &models, &shares),
        verdicts: verdicts([0, 1, 2].map(rate), worst, background),
    })
}

/// The share of each size among all errors, in percent.
fn sizes(errors: &[Errors]) -> [f64; 10] {
    let sum = |bin: usize| errors.iter().map(|errors| errors.sizes[bin]).sum::<f64>();
    let all: f64 = (0..10).map(sum).sum();
    std::array::from_fn(|bin| 100.0 * sum(bin) / all.max(1.0))
}

fn bins() -> impl Iterator<Item = String> {
    (0..10).map(|bin| format!("{} to {} %", 10 * bin, 10 * (bin + 1)))
}

fn distribution(shares: &[[f64; 10]]) -> Table {
    let columns = ["missed of the reservation", SHOWN[0], SHOWN[1], SHOWN[2]];
    let mut table = Table::new("sizes", "Underrun errors by size (% of all errors)", &columns);
    for (bin, name) in bins().enumerate() {
        let mut row = vec![Cell::Text(name)];
        row.extend(shares.iter().map(|shares| Cell::Number(shares[bin], 1)));
        table.row(row);
    }
    table
}

fn figures(all: &[Vec<Errors>], models: &[&str], shares: &[[f64; 10]]) -> Vec<Figure> {
    let of = |errors: &Vec<Errors>| -> Vec<f64> {
        let varying = models.iter().zip(errors).filter(|(name, _)| varies(name));
        varying.map(|(_, errors)| errors.foreground).collect()
    };
    let named = |values: &dyn Fn(usize) -> Vec<f64>| -> Vec<(String, Vec<f64>)> {
        SHOWN.iter().enumerate().map(|(by, name)| ((*name).into(), values(by))).collect()
    };
    vec![
        Figure {
            name: String::new(),
            title: "Underrun errors of programs whose bandwidth varies".into(),
            drawing: Drawing::Bars {
                axis: "% of periods".into(),
                groups: models
                    .iter()
                    .filter(|name| varies(name))
                    .map(|name| (*name).into())
                    .collect(),
                series: named(&|by| of(&all[by])),
            },
        },
        Figure {
            name: "sizes".into(),
            title: "Underrun errors by size".into(),
            drawing: Drawing::Bars {
                axis: "% of all errors".into(),
                groups: (0..10).map(|bin| format!("to {} %", 10 * (bin + 1))).collect(),
                series: named(&|by| shares[by].to_vec()),
            },
        },
    ]
}

fn verdicts(rates: [(f64, f64); 3], worst: f64, background: f64) -> Vec<Verdict> {
    let [(varying, overall), (slow, _), (last, _)] = rates;
    vec![
        Verdict::new(
            "underrun errors are below 5 % over programs whose bandwidth varies",
            varying < BOUND,
            format!("{} % of periods", number(varying, 2)),
        ),
        Verdict::new("and over all programs", overall < BOUND, format!("{} %", number(overall, 2))),
        Verdict::new(
            "and for each of them",
            worst < BOUND,
            format!("at most {} %", number(worst, 2)),
        )
        .because(
            "A light and steady program's average falls to what it uses within 14 periods \
             (16384 requests halved); the next period with one request more is an error, after \
             which it donates nothing for two periods. These models do not vary from period to \
             period.",
        ),
        Verdict::new(
            "the background, which always uses all it has, has none",
            background == 0.0,
            format!("{} %", number(background, 2)),
        ),
        Verdict::new(
            "predicting by the last value errs more than the average, weight 1/4 less",
            slow < varying && varying < last,
            format!(
                "{}, {} and {} % over the varying",
                number(last, 2),
                number(varying, 2),
                number(slow, 2)
            ),
        ),
    ]
}
