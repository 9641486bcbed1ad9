//! The four programs: units of computing and waiting by turns (`maracas work mixed`).
//!
//! On a core that runs only in half of its time, computing takes twice as long and waiting as long
//! as ever, so the parts of the two decide the speedup. The policy is not given that.

use std::time::Duration;

/// One program.
pub(super) struct Worker {
    pub(super) name: &'static str,
    /// What its computing part does.
    kernel: &'static str,
    steps: &'static str,
    wait: &'static str,
    /// The wait from the middle of the run on, where it changes.
    then: Option<&'static str>,
}

/// By falling speedup at half speed: about 2.0, 1.7, 1.45 (then 1.9) and 1.2. What computes a good
/// part of a millisecond and waits about as long as the pauses of the slow core, half a
/// millisecond, falls in step with them, and then a little more or less of either decides; these
/// do not.
pub(super) const WORKERS: [Worker; 4] = [
    Worker { name: "compute", kernel: "spin", steps: "280000", wait: "0ms", then: None },
    Worker { name: "memory", kernel: "m_jump", steps: "221184", wait: "800us", then: None },
    Worker { name: "waiting", kernel: "spin", steps: "520000", wait: "1ms", then: Some("200us") },
    Worker { name: "idling", kernel: "spin", steps: "160000", wait: "1ms", then: None },
];

/// A program in one of its phases, the first being 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Variant {
    /// Its place in [`WORKERS`].
    pub(super) worker: usize,
    pub(super) phase: usize,
}

impl Variant {
    /// All that differ: a program that never changes has one.
    pub(super) fn all() -> Vec<Self> {
        let phases = |worker: usize| 0..=usize::from(WORKERS[worker].then.is_some());
        let each = (0..WORKERS.len()).flat_map(|worker| phases(worker).map(move |p| (worker, p)));
        each.map(|(worker, phase)| Self { worker, phase }).collect()
    }
    /// The variant that `worker` is in during `phase`.
    pub(super) const fn of(worker: usize, phase: usize) -> Self {
        Self { worker, phase: if WORKERS[worker].then.is_some() { phase } else { 0 } }
    }
    /// As a program of a scenario that stays in this phase, on a core of its own.
    pub(super) fn pinned(self, core: usize) -> String {
        let worker = &WORKERS[self.worker];
        let wait = if self.phase == 0 { worker.wait } else { worker.then.unwrap_or(worker.wait) };
        format!("{}core = {core}\n", worker.program(wait, ""))
    }
}

impl Worker {
    /// As a program of a scenario that changes its ways at `change`.
    pub(super) fn changing(&self, change: Duration) -> String {
        let then = self.then.map_or(String::new(), |then| {
            format!(", \"--after\", \"{}ms\", \"--then-wait\", \"{then}\"", change.as_millis())
        });
        self.program(self.wait, &then)
    }
    fn program(&self, wait: &str, more: &str) -> String {
        let Self { name, kernel, steps, .. } = self;
        format!(
            "[[program]]\nname = \"{name}\"\noutput = \"null\"\ncommand = [\"maracas\", \"work\", \
             \"mixed\", \"--quiet\", \"--kernel\", \"{kernel}\", \"--steps\", \"{steps}\", \
             \"--wait\", \"{wait}\"{more}]\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_scenario::Scenario;

    #[test]
    fn programs_are_good_scenarios_and_one_changes() {
        let all = Variant::all();
        assert_eq!(all.len(), WORKERS.len() + 1);
        let pinned: String = all.iter().take(2).map(|variant| variant.pinned(1)).collect();
        let changing: String =
            WORKERS.iter().map(|worker| worker.changing(Duration::from_secs(12))).collect();
        for programs in [pinned, changing] {
            let text = format!("version = 1\n[policy]\nname = \"round-robin\"\n{programs}");
            let scenario = Scenario::parse(&text, "test").unwrap();
            assert!(scenario.vcpus.iter().all(|spec| spec.vcpu.reservation.is_none()));
        }
        assert_eq!(Variant::of(2, 1), Variant { worker: 2, phase: 1 });
        assert_eq!(Variant::of(0, 1), Variant { worker: 0, phase: 0 });
    }
}
