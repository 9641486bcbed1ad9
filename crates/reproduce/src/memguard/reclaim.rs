//! The effect of reclaim.

use super::spec::{self, RECLAIM, STAND_INS};
use super::{RUNS, gain, met};
use crate::findings::{Findings, Table, Verdict, number};
use crate::{Error, Experiment, Kind, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "memguard-reclaim",
    title: "effect of reclaim",
    summary: "SPEC programs at 1.0 GB/s on C0, lbm at 0.2 GB/s on C2: soft reservations with \
              prediction, donation and reclaim against hard ones, no spare sharing.",
    source: "MemGuard slides, \"Effect of Reclaim\": background 3.8 times, foreground -3 %",
    kind: Kind::Predicts,
    free: "the models of all but the four programs whose bandwidth the slides print, phases \
           included; the predictor is the average with weight 1/2, Q_min 1000 (the module's)",
    fitted: super::MODELS_FIT,
    run,
};

/// IPC over that with reservations only (slides).
const BACKGROUND: f64 = 3.8;
const FOREGROUND: f64 = 0.97;

/// Why the background gains less than published.
const WHY_BACKGROUND: &str = "What lbm may gain is bounded by what the foreground leaves of 1.0 \
                              GB/s: in these models eleven of 29 leave less than half of it. Which \
                              do is decided by bandwidths of which the slides print four; the \
                              others are ours.";

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let modes = [RECLAIM];
    let gains = spec::gains(lab, &modes)?;
    let mean = spec::mean(&gains, 0);
    let arithmetic = spec::arithmetic(&gains, 0);
    let mut table =
        Table::comparison("", "IPC over that with reservations only, mean of 29", "which");
    table.compare("background, lbm at 0.2 GB/s", mean.background, Some(BACKGROUND), 2);
    table.compare("foreground at 1.0 GB/s", mean.foreground, Some(FOREGROUND), 3);
    let backgrounds: Vec<f64> = gains.iter().map(|it| it[0].background).collect();
    let foregrounds: Vec<f64> = gains.iter().map(|it| it[0].foreground).collect();
    let most = backgrounds.iter().copied().fold(1.0, f64::max);
    let least = foregrounds.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(Findings {
        notes: vec![
            RUNS.into(),
            STAND_INS.into(),
            format!(
                "By arithmetic means the background would have {} and the foreground {}.",
                number(arithmetic.background, 2),
                number(arithmetic.foreground, 3)
            ),
        ],
        tables: vec![table, spec::table(&gains, &modes)],
        figures: vec![spec::figure("", "Effect of reclaim, by SPEC benchmark", &gains, 0)],
        verdicts: vec![
            met(
                "reclaim gives the background 280 % more IPC",
                gain(mean.background),
                gain(BACKGROUND),
                " %",
            )
            .because(WHY_BACKGROUND),
            met("it costs the foreground 3 %", gain(mean.foreground), gain(FOREGROUND), " %")
                .because(
                    "The foreground loses what lbm's additional requests cost its own; how much \
                     that is hangs on the models, most of which are ours.",
                ),
            Verdict::new(
                "a foreground that needs all of its reservation gives nothing away",
                (backgrounds[0] - 1.0).abs() < 0.01 && (foregrounds[0] - 1.0).abs() < 0.01,
                format!("beside lbm {}", number(backgrounds[0], 3)),
            ),
            Verdict::new(
                "no reclaim goes beyond the sum of reservations (6 times 0.2 GB/s)",
                most <= 6.01,
                format!("at most {} times", number(most, 2)),
            ),
            Verdict::new(
                "no foreground loses more than 10 %",
                least >= 0.9,
                format!("at most {} %", number(gain(least), 1)),
            ),
        ],
    })
}
