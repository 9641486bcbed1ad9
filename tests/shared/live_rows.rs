//! Runs of the live machine whose decisions are counted and timed. Included by path, as it belongs
//! to no room.

use maracas_core::Duration;
use maracas_tests::LiveCase;

/// Simulated time in nanoseconds: enough for 500 decisions and more.
const UNTIL: u64 = 1_000_000_000;

/// What is run.
pub(crate) struct Row {
    pub(crate) policy: &'static str,
    pub(crate) tasks: usize,
    pub(crate) cores: usize,
    /// Of the cores, in percent.
    load: u64,
}

/// The first has the budgets of the quickstart; five tasks fit on four cores under no packing.
pub(crate) const ROWS: [Row; 6] = [
    row("maracas", (4, 2), 45),
    row("maracas", (20, 4), 60),
    row("p-edf", (20, 4), 80),
    row("g-edf", (20, 4), 80),
    row("run", (5, 4), 87),
    row("qps", (5, 4), 87),
];

const fn row(policy: &'static str, (tasks, cores): (usize, usize), load: u64) -> Row {
    Row { policy, tasks, cores, load }
}

impl Row {
    pub(crate) fn name(&self) -> String {
        format!("{}, {} on {}", self.policy, self.tasks, self.cores)
    }

    pub(crate) fn case(&self) -> LiveCase {
        let entry = maracas_policies::find(self.policy).expect("the rows name policies that exist");
        LiveCase::steady(entry, self.cores, &self.reservations(), UNTIL)
    }

    /// Budgets and periods: those of the quickstart, or equal utilizations and periods from 5 to
    /// 40 ms.
    fn reservations(&self) -> Vec<(Duration, Duration)> {
        let (tasks, cores) = (self.tasks as u64, self.cores as u64);
        let micros =
            |(budget, period)| (Duration::from_micros(budget), Duration::from_micros(period));
        if tasks == 4 {
            let all = [(2_000, 10_000), (3_000, 10_000), (4_000, 20_000), (3_000, 15_000)];
            return all.map(micros).to_vec();
        }
        let periods = [5_000, 10_000, 20_000, 25_000, 40_000];
        let task = |task: u64| {
            let period = periods[task as usize % periods.len()];
            micros((period * self.load * cores / (100 * tasks), period))
        };
        (0..tasks).map(task).collect()
    }
}
