//! A core is taken off line and back while programs run there: the run survives or ends with the
//! reason, and the host is as it was.
//!
//! Needs a host where budgets are enforced in full (`maracas doctor`) and a core that can be taken
//! off line.

mod common;
mod live;

use live::bounds::{Rite, needs, rite};
use live::measure::Above;
use live::witness::repeated;
use live::{BROKEN, Stage, until};
use maracas_live::host::platform::Platform;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

/// A core's switch. Whatever becomes of the test, the core is on line in the end.
struct Switch {
    path: PathBuf,
    _limit: Rite,
}

impl Switch {
    /// Of the second core.
    fn of_second_core() -> Self {
        let core = Platform::detect().unwrap().cores[1];
        let path = Path::new("/sys/devices/system/cpu").join(format!("cpu{core}/online"));
        let at_limit = path.clone();
        Self { path, _limit: rite(move |_| drop(fs::write(&at_limit, "1"))) }
    }
    fn set(&self, on: bool) -> io::Result<()> {
        fs::write(&self.path, if on { "1" } else { "0" })
    }
    fn is_on(&self) -> bool {
        fs::read_to_string(&self.path).is_ok_and(|text| text.trim() == "1")
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.set(true);
    }
}

/// Cpusets of cgroup v1 lose a core that goes off line for good, those of others too (`cpuset(7)`,
/// "Warnings").
fn has_old_cpusets() -> bool {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    fields.any(|words| words[2] == "cgroup" && words[3].split(',').any(|word| word == "cpuset"))
}

#[test]
fn a_core_that_goes_off_line_leaves_nothing_raised() {
    repeated(|| {
        let Some(stage) = Stage::enter(2, 6) else { return };
        if !needs(!has_old_cpusets(), "a host without cpusets of cgroup v1") {
            return;
        }
        let switch = Switch::of_second_core();
        // Tried while nothing of ours runs: the file is there on hosts that refuse it, too.
        let tried = switch.set(false).and_then(|()| switch.set(true));
        if !needs(tried.is_ok() && switch.is_on(), "a core that can be taken off line") {
            return;
        }
        let program = |name: &str, core: usize| {
            format!(
                "[[program]]\nname = \"{name}\"\ncommand = [\"maracas\", \"work\", \"spin\"]\n\
             output = \"null\"\nbudget = \"3ms\"\nperiod = \"10ms\"\ncore = {core}\n"
            )
        };
        let head = "version = 1\n[platform]\ncores = 2\n[policy]\nname = \"maracas\"\n";
        let programs = [program("a", 0), program("b", 0), program("c", 1), program("d", 1)];
        stage.scratch.write("hotplug.toml", format!("{head}{}", programs.concat()));
        let mut run = stage.start(&["hotplug.toml", "--json", "--duration", "5s"], &[]);
        run.at(Duration::from_millis(1500));
        // What ran there comes to the core that is left, at whatever priority it has.
        let above = Above::all().expect("the right to SCHED_FIFO, as a run has");
        switch.set(false).expect("it was taken off line before");
        run.at(Duration::from_millis(2500));
        switch.set(true).expect("it was brought back before");
        drop(above);
        let back = Instant::now();
        let over = until(Duration::from_secs(15), || run.is_over());
        assert!(over.is_some(), "the run goes on {:?} later: {}", back.elapsed(), run.said());
        let code = run.code();
        let said = run.said();
        eprintln!("over {:?} after the core was back, exit code {code:?}: {said}", back.elapsed());
        let gone = until(Duration::from_secs(5), || run.host.leftovers().none());
        assert!(gone.is_some(), "{:#?}", run.host.leftovers());
        assert!(switch.is_on(), "the core is off line");
        if code == Some(0) || code == Some(BROKEN) {
            // It survived; then it says what the cores gave.
            let report = run.report();
            assert_eq!(report.tasks().len(), 4, "{}", report.0);
            // 100 of 500 periods at least are missing on a core that was away for a second.
            assert!(report.0["promise"]["kept"] != true, "{}", report.0["promise"]);
        } else {
            assert!(said.lines().any(|line| line.contains("core")), "no reason: {said}");
        }
    });
}
