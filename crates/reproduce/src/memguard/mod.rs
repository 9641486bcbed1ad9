//! The experiments of MemGuard (Yun, Yao, Pellizzoni, Caccamo and Sha, RTAS 2013) as its slides
//! describe them, one file each, and what they share; one of MemGuard around MARACAS, and one of
//! other ways to count and to keep budgets.
//!
//! Programs are plain ones: one VCPU with C = T on each core that has any, always busy, so that
//! the inner policy decides nothing. IPC is instructions per time, and only ever compared with
//! another IPC. Bandwidths are of reads, which is what MemGuard counts; its module's GB/s are
//! 1000 MiB/s.

mod combined;
mod isolation;
mod reclaim;
mod regulation;
mod reservation;
mod rmin;
mod rmin_sweep;
mod slowdown;
mod spare;
mod spec;
mod underrun;
mod weights;

use crate::findings::{Verdict, number};
use crate::{Experiment, Run, Setup, bars};
use maracas_core::memory::LINE_BYTES;

/// All of them.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    rmin::EXPERIMENT,
    slowdown::EXPERIMENT,
    isolation::EXPERIMENT,
    reclaim::EXPERIMENT,
    spare::EXPERIMENT,
    rmin_sweep::EXPERIMENT,
    reservation::EXPERIMENT,
    weights::EXPERIMENT,
    underrun::EXPERIMENT,
    combined::EXPERIMENT,
    regulation::EXPERIMENT,
];

/// How long each run is simulated: thousands of regulation periods of 1 ms, and every phase of
/// every program several times.
const SECONDS: u32 = 5;
/// The same, said in documents.
const RUNS: &str = "Each run is 5 simulated seconds, 5000 regulation periods.";

/// The slides' machine.
const PLATFORM: &str = "core2-ddr2-800";

/// The slides' reservations: 1.0 GB/s for the foreground on C0, 0.2 GB/s for the background on C2,
/// together the guaranteed bandwidth.
const RESERVED: &str = "bandwidth = \"1000MiB/s, none, 200MiB/s, none\"\nr_min = \"1200MiB/s\"\n";
/// Hard reservations, nothing else.
const HARD: &str = "reclaim = false\n";

/// Where the slides' foreground runs, and where the background: cores of different caches.
const FOREGROUND: u32 = 0;
const BACKGROUND: u32 = 2;

/// A scenario on the slides' machine: `params` of MemGuard as lines of TOML, and by core the memory
/// use of a program that always runs there, as TOML.
fn setup(name: &str, what: &str, params: &str, programs: &[(u32, &str)]) -> Setup {
    let mut text = format!(
        "# MemGuard, {what}.\nversion = 1\n\n[platform]\npreset = \"{PLATFORM}\"\n\n[policy]\n\
         name = \"memguard+maracas\"\n{params}\n[run]\nduration = \"{SECONDS}s\"\n"
    );
    for (core, memory) in programs {
        text += &format!(
            "\n[[program]]\nname = \"{}\"\nbudget = \"1s\"\nperiod = \"1s\"\ncore = {core}\n\
             workload = {{ kind = \"busy\" }}\nmemory = {memory}\n",
            on(*core)
        );
    }
    Setup::new(name, text)
}

/// What the program on a core is called.
fn on(core: u32) -> String {
    format!("core{core}")
}

/// A workload model as TOML.
fn model(name: &str) -> String {
    format!("\"{name}\"")
}

/// What the models of SPEC programs use that was fitted or set with the slides in view.
const MODELS_FIT: &str = "`think` of lbm, leslie3d, libquantum and bwaves to the bandwidths 1.6, \
                          1.5, 1.5 and 1.4 GB/s (memguard-slowdown); `outstanding` of all 19 \
                          models was set by hand with the slowdowns of up to 2 beside lbm in view: \
                          lbm 4, gemsfdtd and zeusmp 2, leslie3d 1.6, bzip2, gcc, h264ref, mcf, \
                          milc, namd and soplex 1.5, bwaves 1.4, omnetpp and xalancbmk 1.2, the \
                          other five 1";
/// The same of lbm alone.
const LBM_FIT: &str = "`think` of lbm to 1.6 GB/s alone, its `outstanding`, 4, by hand with \
                       slowdowns of up to 2 in view (memguard-slowdown); it is in the note only";

/// IPC of the program on `core`, up to a factor that is the same in every run.
fn ipc(run: &Run, core: u32) -> f64 {
    run.all(&on(core)).instructions as f64 / run.seconds()
}

/// What the program on `core` read, in 1e9 bytes per second.
fn read_gb(run: &Run, core: u32) -> f64 {
    (run.all(&on(core)).misses * LINE_BYTES) as f64 / 1e9 / run.seconds()
}

/// What the policy counted on `core` under `name`.
fn counted(run: &Run, name: &str, core: u32) -> f64 {
    let mut figures = run.report.statistics.iter();
    let found = figures.find(|it| it.name == name && it.core.map(u32::from) == Some(core));
    found.map_or(0.0, |figure| figure.value as f64)
}

/// Whether `ours` is within [`bars::FACTOR`] of what the slides print; another sign never is.
fn met(claim: &str, ours: f64, published: f64, unit: &str) -> Verdict {
    let factor = (ours / published).max(published / ours);
    let same = ours * published > 0.0;
    let shown = if same { format!("a factor of {}", number(factor, 2)) } else { "no".into() };
    Verdict::new(
        format!("{claim}, within a factor of {}", bars::FACTOR),
        same && factor <= bars::FACTOR,
        format!("{}{unit} against {}{unit}, {shown}", number(ours, 1), number(published, 1)),
    )
}

/// `ratio` as percent above or below 1.
fn gain(ratio: f64) -> f64 {
    100.0 * (ratio - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_say_how_long_runs_are() {
        assert!(RUNS.contains(&format!("{SECONDS} simulated")));
    }

    #[test]
    fn factors_count_both_ways_and_signs_matter() {
        assert!(met("x", 47.9, 40.0, " %").holds && met("x", 40.0, 47.9, " %").holds);
        assert!(!met("x", 48.1, 40.0, " %").holds && !met("x", 39.9, 48.0, " %").holds);
        assert!(met("x", -2.6, -3.0, " %").holds && !met("x", 3.0, -3.0, " %").holds);
        assert!(!met("x", 0.0, -3.0, " %").holds);
    }
}
