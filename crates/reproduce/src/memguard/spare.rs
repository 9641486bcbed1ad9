//! The effect of spare sharing, alone and with reclaim.

use super::spec::{self, BOTH, Gain, RECLAIM, SPARE, STAND_INS};
use super::{RUNS, gain, met};
use crate::findings::{Findings, Table, Verdict, number, percent};
use crate::{Error, Experiment, Kind, Lab};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "memguard-spare",
    title: "effect of spare sharing",
    summary: "SPEC programs at 1.0 GB/s on C0, lbm at 0.2 GB/s on C2: once both used their \
              budgets nothing is regulated until the next period; without reclaim and with it, \
              against reservations only.",
    source: "MemGuard slides, \"Effect of Spare Sharing\": background +40 %, foreground +9 %; \
             \"SPEC2006 Results\": both together +368 % and +6 %",
    kind: Kind::Predicts,
    free: "the models of all but the four programs whose bandwidth the slides print, phases \
           included",
    fitted: super::MODELS_FIT,
    run,
};

/// Changes of IPC in percent (slides): background and foreground, by spare sharing and by both.
const SPARE_ALONE: [f64; 2] = [40.0, 9.0];
const TOGETHER: [f64; 2] = [368.0, 6.0];

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let modes = [SPARE, RECLAIM, BOTH];
    let gains = spec::gains(lab, &modes)?;
    let [spare, reclaim, both] = [0, 1, 2].map(|mode| spec::mean(&gains, mode));
    let upon = Gain {
        foreground: both.foreground / reclaim.foreground,
        background: both.background / reclaim.background,
    };
    let arithmetic = [0, 2].map(|mode| spec::arithmetic(&gains, mode));
    let change = |ratio: f64| percent(ratio - 1.0);
    let mut table = Table::comparison("", "Change of IPC in percent, mean of 29", "which and how");
    for (how, gains, published) in [
        ("spare sharing over reservations", spare, Some(SPARE_ALONE)),
        ("spare sharing over reclaim", upon, Some(SPARE_ALONE)),
        ("both over reservations", both, Some(TOGETHER)),
    ] {
        let of = |who: usize| published.map(|it| it[who]);
        table.compare(format!("background, {how}"), gain(gains.background), of(0), 1);
        table.compare(format!("foreground, {how}"), gain(gains.foreground), of(1), 1);
    }
    Ok(Findings {
        notes: vec![
            RUNS.into(),
            STAND_INS.into(),
            "The slides do not say what spare sharing is compared with: reservations only, or \
             reclaim; both are shown."
                .into(),
            format!(
                "By arithmetic means spare sharing over reservations would be {} for the \
                 background and {} for the foreground, both {} and {}.",
                change(arithmetic[0].background),
                change(arithmetic[0].foreground),
                change(arithmetic[1].background),
                change(arithmetic[1].foreground)
            ),
        ],
        tables: vec![table, spec::table(&gains, &modes)],
        figures: vec![
            spec::figure("", "Effect of spare sharing, by SPEC benchmark", &gains, 0),
            spec::figure("both", "Reclaim and spare sharing, by SPEC benchmark", &gains, 2),
        ],
        verdicts: verdicts(&gains, spare, both),
    })
}

fn verdicts(gains: &[Vec<Gain>], spare: Gain, both: Gain) -> Vec<Verdict> {
    let foregrounds = gains.iter().map(|modes| modes[0].foreground);
    let foregrounds: Vec<f64> = foregrounds.filter(|it| *it > 1.005).map(gain).collect();
    let gained = foregrounds.iter().sum::<f64>() / foregrounds.len().max(1) as f64;
    let few = "Spare bandwidth begins only where the foreground uses up 1.0 GB/s, and what it \
               gains is at most its own bandwidth over that, 1.6 times for lbm. In our models few \
               use it up, and the mean is taken over all 29; the slides' axis for foregrounds goes \
               up to 3.0, which the bandwidths that they print do not explain.";
    let gives = "The foreground gains little by spare sharing, as above, and pays for reclaim.";
    let least = gains.iter().map(|it| it[0].foreground.min(it[0].background));
    let least = least.fold(f64::INFINITY, f64::min);
    vec![
        met(
            "spare sharing gives the background 40 %",
            gain(spare.background),
            SPARE_ALONE[0],
            " %",
        )
        .because(few),
        met("it gives the foreground 9 %", gain(spare.foreground), SPARE_ALONE[1], " %")
            .because(few),
        met("both give the background 368 %", gain(both.background), TOGETHER[0], " %").because(
            "Ours is bounded by the sum of reservations wherever the foreground never uses up its \
             own, since the spare phase then never begins.",
        ),
        met("both give the foreground 6 %", gain(both.foreground), TOGETHER[1], " %")
            .because(gives),
        Verdict::new(
            "spare sharing alone takes nothing from anyone (within 1 %)",
            least >= 0.99,
            format!("least {}", number(least, 3)),
        ),
        Verdict::new(
            "foregrounds that use up their reservation gain by it",
            !foregrounds.is_empty() && gained > 0.0,
            format!("{} of 29, {} % on average", foregrounds.len(), number(gained, 1)),
        ),
    ]
}
