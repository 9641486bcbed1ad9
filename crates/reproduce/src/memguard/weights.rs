//! Weights 1:2:4:8.

use super::{RUNS, model, read_gb, setup};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict, number, percent};
use crate::stats::relative;
use crate::{Error, Experiment, Kind, Lab, Run};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "memguard-weights",
    title: "weights 1:2:4:8",
    summary: "lbm on each of four cores, which share r_min = 1.2 GB/s by weights of 1, 2, 4 and 8 \
              as soft reservations; spare bandwidth is off, shared, or shared in proportion.",
    source: "MemGuard slides, \"Effect of MemGuard\": weights 1:2:4:8, spare sharing enabled; no \
             numbers",
    kind: Kind::Predicts,
    free: "the program, which the slides' text does not give",
    run,
};

const WEIGHTS: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
const SPARE: [&str; 3] = ["off", "share", "proportional"];

/// What each core read over what core 0 read, and what all read in GB/s.
struct Shares {
    read: [f64; 4],
}

impl Shares {
    fn of(run: &Run) -> Self {
        Self { read: [0, 1, 2, 3].map(|core| read_gb(run, core)) }
    }
    fn ratio(&self, core: usize) -> f64 {
        self.read[core] / self.read[0]
    }
    fn all(&self) -> f64 {
        self.read.iter().sum()
    }
    /// The greatest difference from the weights.
    fn off(&self) -> f64 {
        let off = |core: usize| relative(self.ratio(core), WEIGHTS[core]).abs();
        (0..4).map(off).fold(0.0, f64::max)
    }
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let lbm = model("lbm");
    let programs = [0, 1, 2, 3].map(|core| (core, lbm.as_str()));
    let setups = SPARE.map(|spare| {
        let params =
            format!("r_min = \"1200MiB/s\"\nweights = [1, 2, 4, 8]\nspare = \"{spare}\"\n");
        setup(spare, &format!("weights 1:2:4:8, spare {spare}"), &params, &programs)
    });
    let shares: Vec<Shares> = lab.run(&setups)?.iter().map(Shares::of).collect();
    let mut ratios = Table::comparison("", "Reads over those of the first core", "spare and core");
    let mut reads = Table::new(
        "reads",
        "What the cores read (GB/s)",
        &["spare", "core 0", "core 1", "core 2", "core 3", "all"],
    );
    for (spare, shares) in SPARE.iter().zip(&shares) {
        for (core, weight) in WEIGHTS.iter().enumerate() {
            let published = (*spare != "share").then_some(*weight);
            ratios.compare(format!("{spare}, core {core}"), shares.ratio(core), published, 3);
        }
        let mut row = vec![Cell::text(*spare)];
        row.extend(shares.read.iter().chain([&shares.all()]).map(|it| Cell::Number(*it, 3)));
        reads.row(row);
    }
    let series =
        SPARE.iter().zip(&shares).map(|(spare, it)| (format!("spare {spare}"), it.read.to_vec()));
    Ok(Findings {
        notes: vec![RUNS.into(), "What counts as published are the weights.".into()],
        figures: vec![Figure {
            name: String::new(),
            title: "lbm on four cores with weights 1:2:4:8".into(),
            drawing: Drawing::Bars {
                axis: "reads (GB/s)".into(),
                groups: WEIGHTS.iter().map(|weight| format!("weight {weight}")).collect(),
                series: series.collect(),
            },
        }],
        tables: vec![ratios, reads],
        verdicts: verdicts(&shares),
    })
}

fn verdicts(shares: &[Shares]) -> Vec<Verdict> {
    let [off, share, proportional] = shares else { return Vec::new() };
    let ordered = share.read.windows(2).all(|pair| pair[0] < pair[1]);
    let gains = |it: &Shares| relative(it.all(), off.all());
    vec![
        Verdict::new(
            "guaranteed bandwidth is as the weights, within 5 %",
            off.off() <= 0.05,
            format!("largest difference {}", percent(off.off())),
        ),
        Verdict::new(
            "with proportional spare sharing all bandwidth is, within 5 %",
            proportional.off() <= 0.05,
            format!("largest difference {}", percent(proportional.off())),
        ),
        Verdict::new(
            "with plain spare sharing the heavier still gets more",
            ordered,
            format!(
                "1 : {} : {} : {}",
                number(share.ratio(1), 2),
                number(share.ratio(2), 2),
                number(share.ratio(3), 2)
            ),
        ),
        Verdict::new(
            "both use more of the memory than reservations alone",
            gains(share) > 0.0 && gains(proportional) > 0.0,
            format!("{} and {}", percent(gains(share)), percent(gains(proportional))),
        ),
    ]
}
