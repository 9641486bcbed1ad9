//! Our own enforcement: the target as a VCPU of a live run under the policy `maracas`, alone on
//! the measured core.

use super::stolen::{Gap, GapFile};
use super::target::{Spin, child_of_ours};
use super::windows::{Judged, Run, judge};
use super::{Bench, Measured, SETTLE};
use maracas_console::failure::Failure;
use maracas_core::contract::{Event, Mode};
use maracas_core::journal::{Reader, Record};
use maracas_live::host::HardwareCore;
use maracas_live::{Handle, Machine};
use maracas_scenario::Scenario;
use maracas_session::case::{Case, Machine as Kind, Overrides};
use maracas_session::live;
use maracas_work::clock::monotonic_ns;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// The target's scenario.
fn scenario(budget: u64, period: u64, background: bool, gaps: &GapFile) -> String {
    let gaps = gaps.path();
    let rule = if background { "fair" } else { "off" };
    format!(
        "version = 1\n[policy]\nname = \"maracas\"\nbackground = \"{rule}\"\n[[program]]\n\
         name = \"target\"\n\
         command = [\"maracas\", \"work\", \"spin\", \"--quiet\", \"--gaps\", {gaps:?}]\n\
         output = \"null\"\nbudget = \"{budget}ns\"\nperiod = \"{period}ns\"\n"
    )
}

/// Measures the target with or without background time.
pub(super) fn measure(
    bench: &Bench,
    budget: u64,
    period: u64,
    background: bool,
) -> Result<Measured, Failure> {
    let gaps = GapFile::create()?;
    let text = scenario(budget, period, background, &gaps);
    let scenario = Scenario::parse(&text, "bench").map_err(Failure::new)?;
    let overrides = Overrides { cores: Some(1), ..Overrides::default() };
    let case = Case::of(scenario, Kind::Live, &overrides)?;
    let mut setup = live::setup(&case, None)?;
    setup.cores = vec![HardwareCore(bench.core as u32)];
    let policy = (case.entry.build)(&case.start, &case.params)
        .map_err(|_| Failure::new("the policy refuses the target"))?;
    let guardian = live::guard()?.guardian;
    let machine = Machine::new(setup, policy, case.header()).map_err(Failure::new)?;
    let machine = machine.guarded_by(guardian);
    let handle = machine.handle();
    let noise = Spin::start(bench.core)?;
    let mut journal = Vec::new();
    let (watched, ran) = thread::scope(|scope| {
        let running = scope.spawn(|| machine.run(|piece| journal.extend_from_slice(piece)));
        let watched = watch(bench, &handle, &noise, &gaps);
        handle.stop();
        (watched, running.join())
    });
    ran.map_err(|_| Failure::new("the runtime panicked"))?.map_err(Failure::new)?;
    let watched = watched.map_err(|error| Failure::about("switch records", error))?;
    let granted = foreground(&journal)?;
    // The run's clock is behind the monotonic one, by the same all the time.
    let offset = watched.window.0 as i64 - watched.run_window.0 as i64;
    let by_run: Vec<Gap> = watched.gaps.iter().map(|gap| gap.by_clock(offset)).collect();
    let by_journal = judge(&granted, &by_run, watched.run_window, budget, period);
    let none = || Failure::new("no period can be distinguished; take more --seconds");
    if background {
        let judged = by_journal.ok_or_else(none)?;
        let how = "pinned; foreground segments of the journal".to_string();
        return Ok(Measured { judged, how });
    }
    let Watched { runs, gaps, window, .. } = &watched;
    let judged = judge(runs, gaps, *window, budget, period).ok_or_else(none)?;
    let p99 = |it: Judged| maracas_trace::table::time(it.own.absolute[1] as f64);
    let own = by_journal.map_or("nothing".to_string(), p99);
    let how = format!("pinned; by its own journal the 99th percentile of the error is {own}");
    Ok(Measured { judged, how })
}

/// What was seen from outside.
struct Watched {
    runs: Vec<Run>,
    /// When the core stood still, on the monotonic clock.
    gaps: Vec<Gap>,
    /// Begin and end on the monotonic clock.
    window: (u64, u64),
    /// The same by the run's own clock.
    run_window: (u64, u64),
}

/// Records the target's switches, once it runs.
fn watch(bench: &Bench, handle: &Handle, noise: &Spin, gaps: &GapFile) -> io::Result<Watched> {
    const PATIENCE: Duration = Duration::from_secs(3);
    let began = Instant::now();
    let target = loop {
        if let Some(target) = child_of_ours("spin", noise.id()) {
            break target;
        }
        if began.elapsed() > PATIENCE {
            return Err(io::Error::other("the target did not start"));
        }
        thread::sleep(Duration::from_millis(10));
    };
    thread::sleep(SETTLE);
    let (start, run_start) = (monotonic_ns(), handle.now().ticks());
    let [runs, others] = bench.record([target, noise.id()])?;
    let (end, run_end) = (monotonic_ns(), handle.now().ticks());
    let mut gaps = gaps.stolen(&runs);
    gaps.extend(noise.gaps().stolen(&others));
    Ok(Watched { runs, gaps, window: (start, end), run_window: (run_start, run_end) })
}

/// The foreground segments of the only VCPU.
fn foreground(journal: &[u8]) -> Result<Vec<Run>, Failure> {
    let (_, reader) = Reader::open(journal).map_err(Failure::new)?;
    let mut runs = Vec::new();
    for record in reader {
        if let Record::Event { event: Event::Ran(segment), .. } = record.map_err(Failure::new)?
            && segment.mode == Mode::Foreground
        {
            let (from, to) = (segment.from.ticks(), segment.to.ticks());
            runs.push(Run { from, to, service: segment.usage.service.ticks() });
        }
    }
    Ok(runs)
}
