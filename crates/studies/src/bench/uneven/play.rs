//! Runs of the live machine in this process, on two cores of which the second is slowed down to
//! half its speed.

use super::measure::Reported;
use super::workers::{Variant, WORKERS};
use crate::bench::play;
use maracas_console::failure::Failure;
use maracas_core::Rate;
use maracas_live::Means;
use maracas_live::host::HardwareCore;
use maracas_live::host::classes::Detected;
use maracas_live::host::platform::Platform;
use maracas_live::sense::Senses;
use maracas_scenario::Scenario;
use maracas_session::case::{Case, Machine, Overrides};
use maracas_session::live;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Two variants side by side, each alone on its core: the first on the fast one.
///
/// # Errors
/// As [`play()`].
pub(super) fn alone(
    [fast, slow]: [Variant; 2],
    length: Duration,
    stop: &AtomicBool,
) -> Result<Reported, Failure> {
    // Two VCPUs of one program are distinguished by their names.
    let slow = slow.pinned(1).replacen("name = \"", "name = \"slow-", 1);
    let text = format!(
        "version = 1\n[platform]\ncores = 2\n[policy]\nname = \"round-robin\"\n{}{slow}",
        fast.pinned(0)
    );
    play(&text, length, stop)
}

/// All workers under a policy; one changes its ways half-way.
///
/// # Errors
/// As [`play()`].
pub(super) fn together(
    policy: &str,
    length: Duration,
    stop: &AtomicBool,
) -> Result<Reported, Failure> {
    let programs: String = WORKERS.iter().map(|worker| worker.changing(length / 2)).collect();
    let text = format!(
        "version = 1\n[[platform.class]]\nname = \"fast\"\ncores = 1\nspeed = 1\n\
         [[platform.class]]\nname = \"slow\"\ncores = 1\nspeed = 0.5\n[policy]\n{policy}\n\
         {programs}"
    );
    play(&text, length, stop)
}

/// Runs a scenario.
///
/// # Errors
/// Where the host cannot run it; where `stop` was raised, when everything is taken down.
fn play(text: &str, length: Duration, stop: &AtomicBool) -> Result<Reported, Failure> {
    let scenario = Scenario::parse(text, "bench").map_err(Failure::new)?;
    let case = Case::of(scenario, Machine::Live, &Overrides::default())?;
    let length = maracas_core::Duration::from_nanos(length.as_nanos() as u64);
    let mut setup = live::setup(&case, Some(length))?;
    setup.cores = equal_cores()?.to_vec();
    setup.duty = vec![Rate::ONE, Rate::new(1, 2)];
    // The programs wait by asking the clock again and again: instructions, but no progress.
    let own = |means: &mut Means| means.instructions = false;
    let journal = play::play(&case, setup, Senses::default(), own, stop)?;
    Reported::read(&journal)
}

/// Two cores of the host that are equally fast by themselves.
fn equal_cores() -> Result<[HardwareCore; 2], Failure> {
    let platform = Platform::detect().map_err(|error| Failure::about("this host", error))?;
    let classes = Detected::of_host(&platform.cores).classes;
    let two = classes.iter().find_map(|class| class.cores.first_chunk().copied());
    two.ok_or_else(|| Failure::new("bench uneven needs two equal cores; this host has none"))
}
