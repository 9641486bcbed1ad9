//! The guaranteed bandwidth r_min.

use super::{PLATFORM, RUNS, model, read_gb, setup};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict, number, percent};
use crate::stats::relative;
use crate::{Error, Experiment, Kind, Lab, Run, Setup, bars};
use maracas_core::memory::LINE_BYTES;
use maracas_scenario::presets;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "memguard-rmin",
    title: "guaranteed bandwidth",
    summary: "r_min from DDR2 timings as the slides calculate it, precharge + activate + read + \
              transfer for each 64 bytes; and what the model of this memory serves one to four \
              cores that all read from one bank, a new row each time.",
    source: "MemGuard slides, \"Guaranteed Bandwidth\": 1.3 GB/s computed, 1.2 GB/s measured",
    kind: Kind::Predicts,
    free: "four reads outstanding for each core in the worst case",
    fitted: super::LBM_FIT,
    run,
};

/// GB/s (slides).
const COMPUTED: f64 = 1.3;
const MEASURED: f64 = 1.2;

/// Always the same bank, always another row.
fn worst_case(writebacks: u32) -> String {
    format!(
        "{{ pattern = \"bank1\", working_set = \"64MiB\", reuse = \"stream\", outstanding = 4, \
         writebacks = {writebacks}, instructions = 10 }}"
    )
}

fn one_bank(cores: u32, writebacks: u32) -> Setup {
    let what =
        format!("guaranteed bandwidth: {cores} cores on one bank, {writebacks} writes a read");
    let memory = worst_case(writebacks);
    let programs: Vec<_> = (0..cores).map(|core| (core, memory.as_str())).collect();
    setup(&format!("one-bank-{cores}-cores-wb{writebacks}"), &what, "", &programs)
}

/// Reads of all cores in GB/s.
fn served(run: &Run, cores: u32) -> f64 {
    (0..cores).map(|core| read_gb(run, core)).sum()
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let platform = presets::platform(PLATFORM).and_then(|platform| platform.memory);
    let dram = platform.ok_or_else(|| Error(format!("{PLATFORM} has no memory")))?.dram;
    let computed = dram.guaranteed_bandwidth() as f64 / 1e9;
    let row_cycle = LINE_BYTES as f64 * 1e3 / dram.row_cycle_ps() as f64;
    let mut setups: Vec<_> = (1..=4).flat_map(|n| [0, 1].map(|wb| one_bank(n, wb))).collect();
    let stream = setup("stream", "guaranteed bandwidth: lbm alone", "", &[(0, &model("lbm"))]);
    setups.push(stream);
    let runs = lab.run(&setups)?;
    let reads = |wb: usize| -> Vec<f64> {
        (1..=4).map(|n: u32| served(&runs[2 * (n as usize - 1) + wb], n)).collect()
    };
    let (reading, writing) = (reads(0), reads(1));
    let mut table = Table::comparison("", "Guaranteed bandwidth in GB/s (1e9 bytes)", "what");
    table.compare("precharge + activate + read + transfer", computed, Some(COMPUTED), 3);
    let binary = computed * 1e9 / f64::from(1 << 30);
    table.compare("the same in GiB/s", binary, Some(COMPUTED), 3);
    table.compare("one line each tRC, which counts tRAS", row_cycle, Some(MEASURED), 3);
    table.compare("the model: four cores read one bank", reading[3], Some(MEASURED), 3);
    table.compare("the same, and write a line back per read (reads)", writing[3], None, 3);
    let mut cores = Table::new(
        "cores",
        "Reads served from one bank (GB/s)",
        &["cores", "reading", "reading and writing back"],
    );
    for (n, (reading, writing)) in (1..).zip(reading.iter().zip(&writing)) {
        let shown = [Cell::Number(*reading, 3), Cell::Number(*writing, 3)];
        cores.row([Cell::Number(f64::from(n), 0)].into_iter().chain(shown).collect());
    }
    let lbm = read_gb(&runs[8], 0);
    Ok(Findings {
        notes: vec![
            RUNS.into(),
            format!(
                "The slides' sum leaves out tRAS and refresh; with tRAS a bank gives a new row \
                 every 57.5 ns. A program that spreads over banks gets more: lbm alone reads {} \
                 GB/s.",
                number(lbm, 2)
            ),
        ],
        figures: vec![Figure {
            name: String::new(),
            title: "Worst-case bandwidth of DDR2-800 5-5-5".into(),
            drawing: Drawing::Bars {
                axis: "GB/s".into(),
                groups: ["computed", "one bank, new rows: ours served, theirs measured"]
                    .map(String::from)
                    .to_vec(),
                series: vec![
                    ("ours".into(), vec![computed, reading[3]]),
                    ("slides".into(), vec![COMPUTED, MEASURED]),
                ],
            },
        }],
        tables: vec![table, cores],
        verdicts: verdicts(computed, &reading, &writing),
    })
}

fn verdicts(computed: f64, reading: &[f64], writing: &[f64]) -> Vec<Verdict> {
    let off = relative(reading[3], MEASURED);
    vec![
        Verdict::new(
            "r_min from timings is the slides' 1.3 GB/s to their one decimal",
            number(computed, 1) == number(COMPUTED, 1),
            format!("{} GB/s", number(computed, 3)),
        ),
        Verdict::new(
            "the model serves single-bank row misses at the measured 1.2 GB/s, within 10 %",
            off.abs() <= bars::NEAR,
            format!("{} GB/s, {}", number(reading[3], 3), percent(off)),
        ),
        Verdict::new(
            "it serves them at the 1.2 GB/s that is reserved below",
            reading[3] >= MEASURED,
            format!("{} GB/s", number(reading[3], 3)),
        )
        .because(
            "tRAS holds a row open for 45 ns, which the slides' sum leaves out: reservations of \
             1.2 GB/s are safe for programs that spread over banks, not for ones that share one.",
        ),
        Verdict::new(
            "writes, which MemGuard does not count, lower what reads get of one bank",
            writing.iter().zip(reading).all(|(with, without)| with < without),
            format!("{} against {} GB/s", number(writing[3], 3), number(reading[3], 3)),
        ),
    ]
}

/// The worst case that [`super::rmin_sweep`] runs against too.
pub(super) fn worst() -> String {
    worst_case(0)
}
