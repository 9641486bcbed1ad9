//! Removing what a dead run left behind where its guardian died too.

use crate::guardian::Charge;
use crate::guardian::restore::{Restored, relieve, restore};
use crate::host::Identity;
use crate::host::cgroup::{Hierarchies, Remains};
use crate::host::hardware::ThisHardware;
use crate::host::resctrl;
use crate::host::run_directory;
use std::{fmt, io, thread, time};

/// For how long one that is being killed is waited for. What it left raised is taken down
/// meanwhile, so that its threads get a core to end on.
const DYING: time::Duration = time::Duration::from_secs(5);

/// What [`clean`] found and did.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Report {
    /// Dead runs, put right.
    pub restored: Vec<Restored>,
    /// Dead runs where something stayed: whose, and the obstacle.
    pub obstacles: Vec<(Identity, String)>,
    /// Runs that live, or may, and were not touched.
    pub living: Vec<Identity>,
}

impl Report {
    /// Whether nothing had to be done.
    pub const fn is_empty(&self) -> bool {
        self.restored.is_empty() && self.obstacles.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            write!(f, "nothing to clean")?;
        }
        let mut first = !self.is_empty();
        let mut line = |f: &mut fmt::Formatter<'_>| {
            if std::mem::take(&mut first) { Ok(()) } else { writeln!(f) }
        };
        for restored in &self.restored {
            line(f)?;
            write!(f, "{restored}")?;
        }
        for (run, obstacle) in &self.obstacles {
            line(f)?;
            write!(f, "run {run}: {obstacle}")?;
        }
        for run in &self.living {
            line(f)?;
            let why = if run.is_foreign() { "of another pid namespace" } else { "alive" };
            write!(f, "run {run}: {why}, not touched")?;
        }
        Ok(())
    }
}

/// Finds every run of this host whose runtime is dead, by its process number and start instant,
/// and puts right what it left: raised threads, frozen groups, programs, groups, parts of the
/// cache and of the bandwidth (resctrl), sockets, counters. A living run is not touched, nor one
/// of another pid namespace for as long as any process may be there ([`Identity::is_alive`]).
/// `maracas run` calls it before it starts.
///
/// # Errors
/// Where the control groups cannot be read at all. What stays of a single run is in the report.
pub fn clean() -> io::Result<Report> {
    let hierarchies = Hierarchies::read()?;
    let files = run_directory::files_of_runs();
    let trees = Remains::find(&hierarchies).into_iter().map(|remains| remains.runtime);
    let shares = resctrl::runs(&ThisHardware);
    let mut runs: Vec<Identity> =
        trees.chain(files.iter().map(|(run, _)| *run)).chain(shares).collect();
    runs.sort();
    runs.dedup();
    let mut report = Report::default();
    for run in runs {
        await_end(&hierarchies, run);
        if run.is_alive() {
            report.living.push(run);
            continue;
        }
        match restore(&hierarchies, &Charge { run, files: Vec::new() }) {
            Ok(restored) => report.restored.push(restored),
            Err(obstacle) => report.obstacles.push((run, obstacle.to_string())),
        }
    }
    Ok(report)
}

/// Waits for the end of a run that is being killed. Where its guardian died too, its ordinary
/// threads may get no core to end on.
fn await_end(hierarchies: &Hierarchies, run: Identity) {
    let patience = time::Instant::now() + DYING;
    while run.is_doomed() && run.is_alive() && time::Instant::now() < patience {
        relieve(hierarchies, run);
        thread::sleep(time::Duration::from_millis(2));
    }
}
