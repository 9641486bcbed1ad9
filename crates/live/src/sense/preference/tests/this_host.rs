//! The host on which the tests run: whatever it has, the preference says what came of it.

use super::*;
use crate::host::hardware::{Load, ThisHardware};
use crate::host::platform::Platform;
use std::time::Instant as Time;

#[test]
fn every_sensor_kind_says_what_came_of_it_and_the_best_sees_a_load() {
    let platform = Platform::detect().expect("a platform");
    let numbers: Vec<_> = platform.cores.iter().map(|core| core.0).collect();
    let hardware: Arc<dyn Hardware> = Arc::new(ThisHardware);
    let start = Time::now();
    let preference = Preference::probe(&hardware, &cores(&numbers));
    eprintln!("{} in {:.1?}", preference.processor(), start.elapsed());
    eprintln!("reads: {}", preference.reads().state);
    eprintln!("references: {}", preference.references().state);
    for tried in preference.sensors() {
        eprintln!("{tried}");
    }
    let sensors: Vec<_> = preference.sensors().iter().map(|tried| tried.sensor_kind).collect();
    assert!(sensors.iter().copied().eq(SensorKind::tried()), "{sensors:?}");
    let mut senses = preference.choose(&Sense::Auto).expect("a run starts on every host");
    let Some(best) = preference.best() else {
        assert!(senses.sensor.is_none() && !senses.notes.is_empty(), "what is missing is said");
        return crate::host::tests::skip("a counter of memory reads that works");
    };
    let (sensor_kind, core) = (best.sensor_kind, preference.cores[0].1);
    let sensor = senses.sensor.as_mut().expect("the best");
    // The first load prepares its memory.
    ThisHardware.load(core, Load::Scatter { lines: 1 }).expect("a load");
    let (mut before, mut after) = (Reading::default(), Reading::default());
    sensor.read(Instant::ZERO, &mut before).expect("a reading");
    ThisHardware.load(core, Load::Scatter { lines: 200_000 }).expect("a load");
    // A chase rests between its samples.
    sensor.read(Instant::from_ticks(1_000_000_000), &mut after).expect("a reading");
    let moved = after.requests - before.requests;
    eprintln!("{}: {moved} requests for 200000 lines", sensor.describe());
    assert!(moved > 0);
    assert!(sensor_kind == SensorKind::Chase || moved >= 200_000 / 3, "{moved}");
}
