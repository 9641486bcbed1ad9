//! Weights 1:2:4:8.

use super::{RUNS, ipc, model, read_gb, setup};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict, number, percent};
use crate::stats::relative;
use crate::{Error, Experiment, Kind, Lab, Run};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "memguard-weights",
    title: "weights 1:2:4:8",
    summary: "lbm on each of four cores, which share r_min = 1.2 GB/s by weights of 1, 2, 4 and 8 \
              as soft reservations; spare bandwidth is off, shared, or shared in proportion. Then \
              four different programs in two orders, spare bandwidth shared, against each alone.",
    source: "MemGuard slides, \"Effect of MemGuard\": weights 1:2:4:8, spare sharing enabled; no \
             numbers",
    kind: Kind::Predicts,
    free: "the programs, which the slides' text does not give",
    fitted: super::MODELS_FIT,
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
    let mut ratios = Table::new(
        "",
        "Reads over those of the first core",
        &["spare and core", "weight", "reads over core 0's"],
    );
    let mut reads = Table::new(
        "reads",
        "What the cores read (GB/s)",
        &["spare", "core 0", "core 1", "core 2", "core 3", "all"],
    );
    for (spare, shares) in SPARE.iter().zip(&shares) {
        for (core, weight) in WEIGHTS.iter().enumerate() {
            let (name, ratio) = (format!("{spare}, core {core}"), shares.ratio(core));
            ratios.row(vec![Cell::Text(name), Cell::Number(*weight, 0), Cell::Number(ratio, 3)]);
        }
        let mut row = vec![Cell::text(*spare)];
        row.extend(shares.read.iter().chain([&shares.all()]).map(|it| Cell::Number(*it, 3)));
        reads.row(row);
    }
    let (different, levels) = different(lab)?;
    let series =
        SPARE.iter().zip(&shares).map(|(spare, it)| (format!("spare {spare}"), it.read.to_vec()));
    Ok(Findings {
        notes: vec![
            RUNS.into(),
            "The slides' figure prints no numbers, so there are none beside ours. That always busy \
             equal programs read by their weights where each is held to its own share is how the \
             regulator works, and no claim."
                .into(),
        ],
        figures: vec![Figure {
            name: String::new(),
            title: "lbm on four cores with weights 1:2:4:8".into(),
            drawing: Drawing::Bars {
                axis: "reads (GB/s)".into(),
                groups: WEIGHTS.iter().map(|weight| format!("weight {weight}")).collect(),
                series: series.collect(),
            },
        }],
        tables: vec![ratios, reads, different],
        verdicts: verdicts(&shares, &levels),
    })
}

/// Programs of the second part, in both orders.
const PROGRAMS: [&str; 4] = ["bwaves", "libquantum", "leslie3d", "lbm"];

/// What part of its IPC alone each of four different programs keeps by the weight of its core,
/// in both orders.
fn different(lab: &Lab<'_>) -> Result<(Table, Vec<[f64; 4]>), Error> {
    let models = PROGRAMS.map(model);
    let alone = PROGRAMS.iter().zip(&models).map(|(name, memory)| {
        setup(&format!("{name}-alone"), &format!("weights: {name} alone"), "", &[(0, memory)])
    });
    let orders = [[0, 1, 2, 3], [3, 2, 1, 0]];
    let together = orders.iter().enumerate().map(|(which, order)| {
        let params = "r_min = \"1200MiB/s\"\nweights = [1, 2, 4, 8]\nspare = \"share\"\n";
        let on = |core: usize| (core as u32, models[order[core]].as_str());
        let programs = [0, 1, 2, 3].map(on);
        let what = format!("weights 1:2:4:8, four programs, order {which}");
        setup(&format!("different-{which}"), &what, params, &programs)
    });
    let setups: Vec<_> = alone.chain(together).collect();
    let runs = lab.run(&setups)?;
    let columns = ["order", "weight 1", "weight 2", "weight 4", "weight 8"];
    let title = "Four programs: IPC over that alone, spare bandwidth shared";
    let mut table = Table::new("different", title, &columns);
    let mut levels = Vec::new();
    for (order, run) in orders.iter().zip(&runs[PROGRAMS.len()..]) {
        let level = |core: usize| ipc(run, core as u32) / ipc(&runs[order[core]], 0);
        let level = [0, 1, 2, 3].map(level);
        let name = order.map(|place| PROGRAMS[place]).join(", ");
        let cells = level.map(|level| Cell::Number(level, 3));
        table.row([Cell::Text(name)].into_iter().chain(cells).collect());
        levels.push(level);
    }
    Ok((table, levels))
}

fn verdicts(shares: &[Shares], levels: &[[f64; 4]]) -> Vec<Verdict> {
    let [off, share, proportional] = shares else { return Vec::new() };
    let ordered = share.read.windows(2).all(|pair| pair[0] < pair[1]);
    let gains = |it: &Shares| relative(it.all(), off.all());
    let rises = |it: &[f64; 4]| it.windows(2).all(|pair| pair[0] < pair[1]);
    let shown = levels.iter().map(|it| it.map(|level| number(level, 2)).join(", "));
    vec![
        Verdict::new(
            "of four different programs the one with more weight keeps more of its IPC, in both \
             orders",
            levels.iter().all(rises),
            shown.collect::<Vec<_>>().join("; "),
        )
        .because(
            "Weights are of bandwidth. A program that keeps more lines outstanding takes more of \
             what is spare.",
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
