//! The swarm: a random system under a random policy with random faults, for each seed one case.

mod shrink;
mod summary;
#[cfg(test)]
mod tests;

pub use summary::Summary;

use crate::case::HARMLESS;
use crate::check::{check, check_counting};
use crate::{
    Case, Churn, Dice, Exact, Faults, Mix, churn, exact, generate, memory_for, off_the_grid,
};
use crate::{KernelCase, LiveCase};
use maracas_core::contract::Entry;
use maracas_core::params::{Params, Value};
use maracas_core::{Arrival, Duration, Instant};
use maracas_policies::ENTRIES;
use maracas_sim::Overheads;
use std::fmt;

/// Lengths of a step of time where memory matters: below a microsecond nothing is seen of it.
const MEMORY_UNITS: [u64; 3] = [100, 1_000, 10_000];

/// What kind of case a seed stands for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Every kind of program under every policy, half of them with memory, most with faults.
    Programs,
    /// Heavy tasks on up to 16 cores under the optimal policies, with MemGuard around them or
    /// not, half of them with memory, half of them with faults.
    Heavy,
    /// Tasks that come, go and change while the cores are full, under job policies and `maracas`,
    /// without faults, so that no miss is to be seen.
    Churn,
    /// Small task sets on exact grids under job policies, half of the time with U = m; most without
    /// faults, so that no miss is to be seen.
    Jobs,
    /// The live machine on a simulated host, under every policy.
    Live,
    /// The machine whose law the kernel carries out, on a simulated host with the law in C, under
    /// every policy that it can carry out.
    Kernel,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Programs, Self::Heavy, Self::Churn, Self::Jobs, Self::Live, Self::Kernel];

    /// The word on the command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Programs => "programs",
            Self::Heavy => "heavy",
            Self::Churn => "churn",
            Self::Jobs => "jobs",
            Self::Live => "live",
            Self::Kernel => "kernel",
        }
    }
    /// Of sixteen seeds two are of every program, one is of heavy tasks, four are of churn, and the
    /// others, which are cheap, of jobs.
    const fn of(seed: u64) -> Self {
        match seed % 16 {
            0 | 1 => Self::Programs,
            2 => Self::Heavy,
            3..=6 => Self::Churn,
            _ => Self::Jobs,
        }
    }
}

/// Which cases are drawn.
#[derive(Clone, Copy, Default)]
pub struct Swarm {
    /// Of this kind only.
    pub kind: Option<Kind>,
    /// Under this policy only.
    pub policy: Option<&'static Entry>,
}

/// What was wrong with the case of a seed, and all that is needed to see it again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The first rule that was broken and when, how to repeat it, and the smallest case found that
    /// breaks a rule.
    pub report: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report)
    }
}

/// Whether a policy is for jobs, misses nothing up to U = m, and migrates to that end.
#[must_use]
pub fn is_optimal(entry: &Entry) -> bool {
    entry.needs.jobs && entry.claims.no_miss_when_admitted && !entry.claims.partitioned
}

/// Whether no miss is to be seen when tasks come, go and change on exact grids, under the test that
/// the policy has for that.
#[must_use]
pub fn keeps_churn(entry: &Entry) -> bool {
    let by_its_test = ["c-edf", "g-edf", "g-rm", "sp-res", "u-edf"];
    entry.claims.no_miss_when_admitted || by_its_test.contains(&entry.name)
}

/// The policy that MemGuard is around, or the policy itself.
fn inner(entry: &Entry) -> &Entry {
    let name = entry.name.strip_prefix("memguard+");
    name.and_then(maracas_policies::find).unwrap_or(entry)
}

impl Swarm {
    /// The kind of case that `seed` stands for.
    #[must_use]
    pub fn kind(&self, seed: u64) -> Kind {
        self.kind.unwrap_or_else(|| Kind::of(seed))
    }
    /// The case of `seed` on the simulator.
    #[must_use]
    pub fn case(&self, seed: u64) -> Case {
        match self.kind(seed) {
            Kind::Programs => self.programs(seed),
            Kind::Heavy => self.heavy(seed),
            Kind::Churn => self.churn(seed),
            Kind::Jobs | Kind::Live | Kind::Kernel => self.jobs(seed),
        }
    }
    /// Runs the case of `seed`, and counts it.
    ///
    /// # Errors
    /// What was wrong.
    pub fn run(&self, seed: u64, summary: &mut Summary) -> Result<(), String> {
        if self.kind(seed) == Kind::Live {
            let case = LiveCase::draw(seed, self.policy);
            // Once in a while all of it once more, to see that it goes the same way.
            let again = seed.is_multiple_of(16);
            let played = if again { case.check_twice()? } else { case.check()? };
            summary.count_live(case.entry.name, played);
            return Ok(());
        }
        if self.kind(seed) == Kind::Kernel {
            let case = KernelCase::draw(seed, self.policy);
            let again = seed.is_multiple_of(16);
            let played = if again { case.check_twice()? } else { case.check()? };
            summary.count_kernel(case.entry.name, played);
            return Ok(());
        }
        let case = self.case(seed);
        let checked = check_counting(&case)?;
        summary.count(self.kind(seed), &case, checked.as_ref());
        Ok(())
    }
    /// What is wrong with the case of `seed`, for users; `None` where nothing is.
    #[must_use]
    pub fn failure(&self, seed: u64) -> Option<Failure> {
        if self.kind(seed) == Kind::Live {
            return self.live_failure(seed);
        }
        if self.kind(seed) == Kind::Kernel {
            return self.kernel_failure(seed);
        }
        let case = self.case(seed);
        let why = check(&case).err()?;
        let smallest = shrink::shrink(case);
        let reason = check(&smallest).err().unwrap_or_default();
        let kind = self.kind(seed).word();
        let policy = self.policy.map_or_else(String::new, |e| format!(" --policy {}", e.name));
        let mut report = format!(
            "{why}\nreproduce: cargo xtask swarm --kind {kind}{policy} --seed {seed}\n\
             smallest: {reason}\n{smallest}"
        );
        if let Some(set) = smallest.task_set() {
            report += &format!("as a task set:\n{set}");
        }
        Some(Failure { seed, report })
    }

    /// The same of a case of the live machine.
    fn live_failure(&self, seed: u64) -> Option<Failure> {
        let case = LiveCase::draw(seed, self.policy);
        let why = case.check_twice().err()?;
        let smallest = crate::live::shrink(case, &why);
        let reason = smallest.check_twice().err().unwrap_or_default();
        let policy = self.policy.map_or_else(String::new, |e| format!(" --policy {}", e.name));
        let report = format!(
            "{why}\nreproduce: cargo xtask swarm --kind live{policy} --seed {seed}\n\
             smallest: {reason}\n{smallest}"
        );
        Some(Failure { seed, report })
    }

    /// The same of a case of the machine in the kernel.
    fn kernel_failure(&self, seed: u64) -> Option<Failure> {
        let case = KernelCase::draw(seed, self.policy);
        let why = case.check_twice().err()?;
        let smallest = crate::kernel::shrink(case, &why);
        let reason = smallest.check_twice().err().unwrap_or_default();
        let policy = self.policy.map_or_else(String::new, |e| format!(" --policy {}", e.name));
        let report = format!(
            "{why}\nreproduce: cargo xtask swarm --kind kernel{policy} --seed {seed}\n\
             smallest: {reason}\n{smallest}"
        );
        Some(Failure { seed, report })
    }

    /// Programs of every kind, with memory or without.
    fn programs(&self, seed: u64) -> Case {
        let mut dice = Dice::new(seed ^ 0x5eed);
        let entries: Vec<_> = maracas_policies::all().collect();
        // The policies with the most to go wrong come most often.
        let rich: Vec<_> =
            entries.iter().filter(|e| e.name.ends_with("maracas")).copied().collect();
        let entry = if dice.one_in(2) { dice.pick(&rich) } else { dice.pick(&entries) };
        let entry = self.policy.unwrap_or(entry);
        let mix = Mix {
            jobs_only: entry.needs.jobs || dice.one_in(3),
            changes: dice.one_in(3),
            unruly: dice.one_in(3),
            load: dice.pick(&[40, 60, 75, 90, 100]),
        };
        let drawn = dice.roll();
        let mut case = if dice.one_in(2) {
            Case::with_memory(entry, drawn, mix)
        } else {
            Case::new(entry, generate(drawn, mix), seed)
        };
        case.seed = seed;
        if entry.claims.partitioned && dice.one_in(4) {
            case.pin_some(&mut dice);
        }
        case.faults = faults(&case, &mut dice);
        if dice.one_in(3) {
            return case;
        }
        let roll = dice.roll();
        case.with_random_params(roll)
    }

    /// Heavy tasks, where RUN reduces and QPS overpacks.
    fn heavy(&self, seed: u64) -> Case {
        let mut dice = Dice::new(seed ^ 0x4ea7);
        let entries: Vec<_> =
            maracas_policies::all().filter(|entry| is_optimal(inner(entry))).collect();
        let entry = self.policy.unwrap_or_else(|| dice.pick(&entries));
        let memory = dice.one_in(2);
        let units: &[u64] = if memory { &MEMORY_UNITS } else { &[1, 7, 1_000] };
        let kind = Exact {
            cores: dice.pick(&[(2, 4), (4, 8), (8, 16)]),
            tasks: 40,
            heavy: !dice.one_in(4),
            full: dice.one_in(2),
            sporadic: dice.one_in(4) && !memory,
            unit: dice.pick(units),
        };
        let mut case = on_a_grid(entry, &mut dice, kind, seed);
        if memory {
            case.memory = Some(memory_for(&mut case.random, dice.roll()));
        }
        if dice.one_in(2) {
            case.faults = faults(&case, &mut dice);
        }
        if dice.one_in(3) {
            return case;
        }
        let roll = dice.roll();
        case.with_random_params(roll)
    }

    /// Arrivals, departures and changes on full cores.
    fn churn(&self, seed: u64) -> Case {
        let mut dice = Dice::new(seed ^ 0xc0_9097);
        let entries: Vec<&Entry> = ENTRIES.iter().filter(|entry| keeps_churn(entry)).collect();
        let entry = self.policy.unwrap_or_else(|| dice.pick(&entries));
        let fixed = ["p-rm", "maracas"].contains(&entry.name);
        // Fixed priorities fill a core where periods divide each other.
        let harmonic = fixed && !dice.one_in(4);
        let kind = Churn {
            partitioned: entry.claims.partitioned,
            harmonic,
            load: match entry.name {
                "g-rm" => 60,
                _ if harmonic || !fixed => 100,
                _ => 65,
            },
            light: ["c-edf", "g-edf", "g-rm"].contains(&entry.name),
            on_grid: is_optimal(entry) || entry.name == "u-edf",
        };
        let (random, changes, until) = churn(&mut dice, kind);
        let mut case = Case::new(entry, random, seed);
        (case.changes, case.until) = (changes, until);
        case.is_covered = keeps_churn(entry);
        let mut set = |name, word: &str| case.params.set(name, Value::Text(word.into()));
        match entry.name {
            "g-edf" => set("admission", "gfb"),
            "p-edf" if dice.one_in(3) => set("admission", "qpa"),
            _ if fixed => set(
                "admission",
                if harmonic { "rta" } else { dice.pick(&["rta", "hyperbolic", "ll"]) },
            ),
            _ => {}
        }
        case
    }

    /// Small sets under job policies.
    fn jobs(&self, seed: u64) -> Case {
        let mut dice = Dice::new(seed ^ 0x10b5);
        let (optimal, others): (Vec<&Entry>, Vec<&Entry>) =
            ENTRIES.iter().filter(|entry| entry.needs.jobs).partition(|entry| is_optimal(entry));
        let drawn = if dice.one_in(4) { dice.pick(&others) } else { dice.pick(&optimal) };
        let entry = self.policy.unwrap_or(drawn);
        let kind = Exact {
            cores: (2, 6),
            tasks: 20,
            heavy: dice.one_in(2) && is_optimal(entry),
            full: dice.one_in(2) && is_optimal(entry),
            sporadic: dice.one_in(3),
            unit: dice.pick(&[1, 1, 7, 1_000]),
        };
        let mut case = on_a_grid(entry, &mut dice, kind, seed);
        if dice.one_in(8) && kind.unit == 1_000 {
            off_the_grid(&mut dice, &mut case.random);
        }
        let (faulty, roll) = (dice.one_in(4), dice.roll());
        if faulty {
            case.faults = faults(&case, &mut dice);
        } else if dice.one_in(6) {
            case.faults.nag = Some(Duration::from_ticks(case.until.ticks() / 100 + 1));
        }
        if dice.one_in(2) {
            return case;
        }
        let mut case = case.with_random_params(roll);
        if !faulty {
            // No miss is to be seen.
            let mut harmless = Params::new();
            let given = case.params.iter().filter(|(name, _)| HARMLESS.contains(name));
            given.for_each(|(name, value)| harmless.set(name, value.clone()));
            case.params = harmless;
        }
        case
    }
}

/// A set on an exact grid for a few of its longest periods; its jobs are periodic where the policy
/// takes no others.
fn on_a_grid(entry: &'static Entry, dice: &mut Dice, kind: Exact, seed: u64) -> Case {
    let mut case = Case::new(entry, exact(dice, kind), seed);
    if kind.sporadic && !case.verdict().objections.is_empty() {
        let offset = Duration::ZERO;
        for vcpu in &mut case.random.system.vcpus {
            vcpu.arrival = Arrival::Periodic { offset };
        }
        case.random.system.ticks_per_ns = 1;
    }
    case.until = Instant::from_ticks(case.until.ticks() / 12 * dice.between(2, 5));
    case
}

/// What is made difficult, in the time scale of the case.
fn faults(case: &Case, dice: &mut Dice) -> Faults {
    let entry = case.entry;
    let unit = Duration::from_ticks(case.until.ticks() / 400 + 1);
    let some = |dice: &mut Dice, odds| if dice.one_in(odds) { unit } else { Duration::ZERO };
    Faults {
        late: some(dice, 3) * dice.between(1, 8),
        hidden_wakes: !entry.needs.visible_wakes && dice.one_in(4),
        overheads: Overheads {
            context_switch: some(dice, 5),
            migration: some(dice, 5),
            decision: some(dice, 8),
            release: some(dice, 8),
            sample: some(dice, 5),
            lock: some(dice, 5),
            structure: some(dice, 8),
            page_copy: if dice.one_in(8) {
                Duration::from_ticks(unit.ticks() / 100)
            } else {
                Duration::ZERO
            },
        },
        nag: dice.one_in(3).then_some(unit),
    }
}
