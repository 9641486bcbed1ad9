//! Isolation of libquantum from memory hogs.

use super::{BACKGROUND, FOREGROUND, HARD, RESERVED, RUNS, gain, ipc, met, model, read_gb, setup};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict, number, percent};
use crate::{Error, Experiment, Kind, Lab, Run, bars};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "memguard-isolation",
    title: "isolation of libquantum",
    summary: "libquantum on C0 alone and beside a memory hog on C2: nothing reserved; 1.0 + 0.2 \
              GB/s reserved; the same with reclaim and spare sharing. The guaranteed level is \
              libquantum alone with 1.0 GB/s reserved.",
    source: "MemGuard slides, \"Evaluation Results\": -53 % unregulated, reservation restores the \
             guaranteed level",
    kind: Kind::Calibrates,
    free: "the hog, of which the slides say nothing: it writes a stream, four lines outstanding \
           as in the model of lbm, and others are shown; libquantum's own were set by hand with \
           slowdowns of up to 2 beside lbm in view",
    fitted: super::MODELS_FIT,
    run,
};

/// Change of libquantum's IPC in percent (slides).
const PUBLISHED: f64 = -53.0;

/// Lines that the hog has outstanding, ours first.
const OUTSTANDING: [u32; 4] = [4, 1, 2, 8];

fn hog(outstanding: u32) -> String {
    format!(
        "{{ pattern = \"seq\", working_set = \"64MiB\", reuse = \"stream\", outstanding = \
         {outstanding}, writebacks = 1, instructions = 16 }}"
    )
}

/// What is run first: its name, MemGuard's parameters, and whether the hog runs.
const CASES: [(&str, &str, bool); 5] = [
    ("alone", "", false),
    ("hog, nothing reserved", "", true),
    ("alone, 1.0 GB/s reserved", HARD, false),
    ("hog, 1.0 + 0.2 GB/s reserved", HARD, true),
    ("hog, reserved, reclaim, spare", "spare = \"share\"\n", true),
];

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let (foreground, hog_of) = (model("libquantum"), OUTSTANDING.map(hog));
    let mut setups = Vec::new();
    for (place, (name, params, with)) in CASES.iter().enumerate() {
        let both = [(FOREGROUND, foreground.as_str()), (BACKGROUND, hog_of[0].as_str())];
        let reserved = if place < 2 { "" } else { RESERVED };
        let programs = if *with { &both[..] } else { &both[..1] };
        let file = name.replace([',', '.', '/', '+'], "").replace(' ', "-");
        setups.push(setup(
            &file,
            &format!("isolation: {name}"),
            &format!("{reserved}{params}"),
            programs,
        ));
    }
    let lbm = model("lbm");
    for (name, memory) in
        [("hog-1", &hog_of[1]), ("hog-2", &hog_of[2]), ("hog-8", &hog_of[3]), ("lbm", &lbm)]
    {
        let both = [(FOREGROUND, foreground.as_str()), (BACKGROUND, memory.as_str())];
        setups.push(setup(name, &format!("isolation: beside {name}"), "", &both));
    }
    let runs = lab.run(&setups)?;
    let level = |run: &Run| ipc(run, FOREGROUND) / ipc(&runs[0], FOREGROUND);
    let levels: Vec<f64> = runs.iter().map(level).collect();
    let mut table = Table::comparison("", "IPC of libquantum, alone = 1", "case");
    let mut traffic =
        Table::new("traffic", "What both read (GB/s)", &["case", "libquantum", "background"]);
    let names = CASES.iter().map(|(name, _, _)| *name);
    let others = ["hog with 1 outstanding", "with 2", "with 8", "lbm, nothing reserved"];
    for (place, name) in names.clone().chain(others).enumerate() {
        let published = [Some(1.0), Some(1.0 + PUBLISHED / 100.0)];
        table.compare(name, levels[place], published.get(place).copied().flatten(), 3);
        let beside = CASES.get(place).is_none_or(|(_, _, beside)| *beside);
        let background =
            if beside { Cell::Number(read_gb(&runs[place], BACKGROUND), 2) } else { Cell::Missing };
        let reads = Cell::Number(read_gb(&runs[place], FOREGROUND), 2);
        traffic.row(vec![Cell::text(name), reads, background]);
    }
    Ok(Findings {
        notes: vec![
            RUNS.into(),
            "lbm and the hogs of other widths run with nothing reserved.".into(),
        ],
        figures: vec![Figure {
            name: String::new(),
            title: "libquantum beside a memory hog".into(),
            drawing: Drawing::Bars {
                axis: "normalized IPC".into(),
                groups: ["alone", "hog", "alone, 1.0 GB/s", "reserved", "reclaim, spare"]
                    .map(String::from)
                    .to_vec(),
                series: vec![("libquantum".into(), levels[..CASES.len()].to_vec())],
            },
        }],
        verdicts: verdicts(&levels),
        tables: vec![table, traffic],
    })
}

fn verdicts(levels: &[f64]) -> Vec<Verdict> {
    let (guaranteed, reserved, maximized) = (levels[2], levels[3], levels[4]);
    let range = &[levels[5], levels[6], levels[1], levels[7]].map(|level| number(gain(level), 0));
    vec![
        met("a hog costs libquantum 53 % of its IPC", gain(levels[1]), PUBLISHED, " %"),
        Verdict::new(
            "the harder the hog, the more it costs, and 53 % lies within what hogs cost",
            levels[5] > levels[6]
                && levels[6] > levels[1]
                && levels[1] > levels[7]
                && gain(levels[7]) <= PUBLISHED
                && gain(levels[5]) >= PUBLISHED,
            format!("{} % with 1, 2, 4 and 8 outstanding", range.join(", ")),
        ),
        Verdict::new(
            "reserving 1.0 + 0.2 GB/s restores the guaranteed level (within 3 %)",
            (reserved / guaranteed - 1.0).abs() <= 1.0 - bars::ISOLATED,
            format!("{} against {}", number(reserved, 3), number(guaranteed, 3)),
        ),
        Verdict::new(
            "reclaim and spare sharing give at least the guaranteed level",
            maximized >= guaranteed * 0.99,
            format!("{}, {}", number(maximized, 3), percent(maximized / guaranteed - 1.0)),
        ),
    ]
}
