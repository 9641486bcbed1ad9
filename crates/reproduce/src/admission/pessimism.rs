//! How far the bound on what jobs need beside each other is above what they take.

use crate::figure::{Drawing, Figure, Line};
use crate::findings::{Cell, Findings, Table, Verdict, number};
use crate::run::Prepared;
use crate::{Error, Experiment, Kind, Lab, Run, Setup};
use maracas_core::Duration;
use maracas_scenario::presets;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "admission-pessimism",
    title: "what jobs need at most, over what they take",
    summary: "Random systems: four cores, on each one program that is drawn from all known ones, \
              with a job of 5 to 15 ms of its work in every 200 ms, and beside it on surplus time \
              another program that never ends. What `check` says that a job needs at most on its \
              core is held against the time that jobs took there on average.",
    source: "no paper; `crates/sim/src/memory/bound.rs` says what the bound takes for granted",
    kind: Kind::Predicts,
    free: "nothing is fitted; 60 systems a kind",
    fitted: crate::maracas::M_JUMP_FIT,
    run,
};

/// Systems of each kind.
const SYSTEMS: usize = 60;
const CORES: usize = 4;

/// A kind of system: its word, and what it adds to the platform and the policy.
type Sort = (&'static str, &'static str, &'static str);

const SORTS: [Sort; 7] = [
    ("alone", "", ""),
    ("shared cache", "", ""),
    ("colours", "colors = [8, 8, 8, 8]\n", ""),
    ("MemGuard", "", "bandwidth = \"1500MB/s\"\nreclaim = false\n"),
    ("MemGuard, others 50 MB/s", "", OTHERS_LIMITED),
    ("budgets alone", "", "background = \"off\"\n"),
    ("throttled", "", "throttle = \"latency\"\nmax_latency = 120\nmem_period = \"20ms\"\n"),
];

/// The first core has no limit, and its jobs alone are looked at.
const OTHERS_LIMITED: &str =
    "bandwidth = [\"none\", \"50MB/s\", \"50MB/s\", \"50MB/s\"]\nreclaim = false\n";

fn setup((sort, platform, params): Sort, seed: usize) -> Setup {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed as u64);
    let models: Vec<&str> = presets::workloads().collect();
    let mut draw = |below: usize| (random.next_u64() % below as u64) as usize;
    let policy = if sort.starts_with("MemGuard") { "memguard+maracas" } else { "maracas" };
    let mut text = format!(
        "version = 1\n[platform]\npreset = \"i5-2500k\"\ncores = {CORES}\n{platform}[policy]\n\
         name = \"{policy}\"\nadmission = \"rta\"\n{params}[run]\n\
         duration = \"4s\"\nseed = {seed}\n"
    );
    for core in 0..CORES {
        let (model, cost_us) = (models[draw(models.len())], 5_000 + draw(10_000));
        let other = models[draw(models.len())];
        if sort == "alone" && core > 0 {
            continue;
        }
        text += &format!(
            "[[program]]\nname = \"job{core}\"\nbudget = \"190ms\"\nperiod = \"200ms\"\n\
             core = {core}\nworkload = {{ kind = \"periodic\", cost = \"{cost_us}us\" }}\n\
             memory = \"{model}\"\n"
        );
        if sort != "alone" {
            text += &format!(
                "[[program]]\nname = \"other{core}\"\nbudget = \"1ms\"\nperiod = \"200ms\"\n\
                 core = {core}\nworkload = {{ kind = \"busy\" }}\nmemory = \"{other}\"\n"
            );
        }
    }
    Setup::new(format!("{}-{seed}", sort.replace([' ', ','], "-").to_lowercase()), text)
}

/// By VCPU with jobs that are all done: what they need at most over what they took on average, with
/// limits on others and without.
fn ratios(setup: &Setup) -> Result<Vec<[f64; 2]>, Error> {
    let judged = Prepared::of(setup)?.judged();
    let run = Run::of(setup)?;
    let first = setup.text.contains(OTHERS_LIMITED);
    let counts = if first { "job0" } else { "job" };
    let jobs = run.report.tasks.iter().filter(|task| task.name.starts_with(counts));
    let ratio = |task: &maracas_trace::report::TaskReport| {
        let one = judged.iter().find(|one| one.vcpu.0 == task.id)?;
        let took = (task.foreground_ns + task.background_ns) as f64 / task.jobs.max(1) as f64;
        let ratio = |needs: Duration| needs.ticks() as f64 / took;
        (task.misses == 0 && task.jobs > 0).then(|| [ratio(one.needs), ratio(one.without_limits)])
    };
    Ok(jobs.filter_map(ratio).collect())
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let seeds = lab.seeds(SYSTEMS);
    let mut table = Table::new(
        "",
        "Bound over what was observed",
        &[
            "kind of system",
            "VCPUs",
            "least",
            "median",
            "90th percentile",
            "most",
            "median without limits",
        ],
    );
    let (mut lines, mut least) = (Vec::new(), f64::INFINITY);
    for sort in SORTS {
        let setups: Vec<_> = (1..=seeds).map(|seed| setup(sort, seed)).collect();
        let all = lab.run_each(&setups, |_, setup| ratios(setup))?;
        let both: Vec<[f64; 2]> = all.into_iter().flatten().collect();
        let [all, without] = [0, 1].map(|which| {
            let mut all: Vec<f64> = both.iter().map(|both| both[which]).collect();
            all.sort_by(f64::total_cmp);
            all
        });
        let at = |percent: usize| all[(all.len() - 1) * percent / 100];
        let mut row = vec![Cell::text(sort.0), Cell::Number(all.len() as f64, 0)];
        row.extend([0, 50, 90, 100].map(|percent| Cell::Number(at(percent), 3)));
        row.push(Cell::Number(without[(without.len() - 1) / 2], 3));
        table.row(row);
        least = least.min(at(0));
        let points = (0..=20).map(|step| (5.0 * step as f64, at(5 * step)));
        lines.push(Line::new(sort.0, points.collect()));
    }
    let drawing = Drawing::Lines {
        along: "share of VCPUs (%)".into(),
        logarithmic: false,
        share: false,
        left: "bound / observed".into(),
        right: None,
        lines,
    };
    let title = "What jobs need at most, over what they took".to_string();
    let claim = "no VCPU's jobs take longer than their bound";
    Ok(Findings {
        notes: vec![
            "What is left between the two is that the worst mix runs only part of the time, and \
             that a job is charged for a cold cache which it finds warm. Limits on others count \
                 where they let through less than others do while a job lasts: 1500 MB/s a core \
             hardly do, 50 MB/s do, and so do budgets without surplus time. What Algorithm 1 \
             takes from others comes after the fact, and is in no bound."
                .into(),
        ],
        tables: vec![table],
        figures: vec![Figure { name: String::new(), title, drawing }],
        verdicts: vec![Verdict::new(claim, least >= 1.0, format!("least {}", number(least, 4)))],
    })
}
