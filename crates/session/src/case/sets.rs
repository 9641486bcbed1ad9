//! Cases of bare task sets, and of threads that execute scripts.

use super::{Acting, Case, Machine, Overrides, add_service_vcpus, policy, set_params};
use maracas_console::failure::Failure;
use maracas_core::admission::Verdict;
use maracas_core::contract::Entry;
use maracas_core::params::Params;
use maracas_core::script::{Script, Step};
use maracas_core::{Arrival, Duration, MAX_CORES, Program, Reservation, System, Vcpu, Workload};
use maracas_scenario::formats::{self, Format, Loads, Scripted};
use maracas_scenario::taskset::TaskSet;
use std::path::Path;

/// The period of threads that have none of their own: short, as one that waited for another waits
/// for at most so long once more where its budget is spent, and a thousand times a wake.
const PERIOD: Duration = Duration::from_millis(1);
/// How often their budget is halved for a policy that does not admit them.
const HALVINGS: u32 = 6;
/// As many names as people read.
const SHOWN: usize = 3;

/// What a case is made of.
struct Parts {
    system: System,
    programs: Vec<Program>,
    names: Vec<String>,
    acting: Acting,
    notes: Vec<String>,
}

impl Case {
    /// The case of a bare task set or of threads with scripts, simulated; of this format, or of the
    /// one it looks like.
    ///
    /// # Errors
    /// Whatever is wrong in the file or on the command line.
    pub fn tasks(
        file: &Path,
        format: Option<Format>,
        overrides: &Overrides,
    ) -> Result<Self, Failure> {
        let loads = formats::read_loads(file, format).map_err(Failure::new)?;
        Self::of_loads(loads, &file.display().to_string(), overrides)
    }

    /// The case of what a file holds; `file` is its name in what is said of it.
    ///
    /// # Errors
    /// Whatever is wrong in the overrides.
    pub fn of_loads(loads: Loads, file: &str, overrides: &Overrides) -> Result<Self, Failure> {
        match loads {
            Loads::Tasks(set) => Self::of_tasks(set, file, overrides),
            Loads::Scripts(scripted) => Self::of_scripts(scripted, file, overrides),
        }
    }

    /// The case of a bare task set that has been read; `file` is its name in what is said of it.
    ///
    /// # Errors
    /// Whatever is wrong in the overrides.
    pub fn of_tasks(set: TaskSet, file: &str, overrides: &Overrides) -> Result<Self, Failure> {
        let (entry, cores, params) = asked(overrides)?;
        let (system, programs) = (set.system(cores), set.programs());
        let (names, notes, acting) = (set.names(), set.notes.clone(), Acting::default());
        let parts = Parts { system, programs, names, acting, notes };
        let mut case = Self::of_parts(parts, file, entry, params, overrides)?;
        case.take_finer_ticks(&set);
        case.notes.extend(case.of_memory());
        Ok(case)
    }

    /// The case of threads with scripts, each on a VCPU of its own.
    fn of_scripts(set: Scripted, file: &str, overrides: &Overrides) -> Result<Self, Failure> {
        let (entry, cores, params) = asked(overrides)?;
        let (vcpus, said) = vcpus(&set, entry, &params, cores);
        let program = |vcpu: &Vcpu| Program::new(vcpu.id, Workload::Script);
        let programs = vcpus.iter().map(program).collect();
        let mut notes = set.notes;
        notes.extend(said);
        let acting = Acting { scripts: Some(set.scripts), ..Acting::default() };
        let system = System::new(cores, vcpus);
        let parts = Parts { system, programs, names: set.names, acting, notes };
        let mut case = Self::of_parts(parts, file, entry, params, overrides)?;
        case.notes.extend(case.of_memory());
        Ok(case)
    }

    fn of_parts(
        parts: Parts,
        file: &str,
        entry: &'static Entry,
        params: Params,
        overrides: &Overrides,
    ) -> Result<Self, Failure> {
        let Parts { mut system, programs, mut names, acting, notes } = parts;
        let service_vcpus = add_service_vcpus(entry, &params, &mut system, &mut names);
        let mut case = Self {
            file: file.into(),
            scenario: None,
            entry,
            params,
            start: maracas_sim::at_start(&system, &programs),
            names,
            service_vcpus,
            system,
            programs,
            memory: None,
            acting,
            machine: Machine::Sim,
            seed: 1,
            verdict: Verdict::default(),
            jobs: Vec::new(),
            agents: None,
            set: overrides.set.iter().map(|(name, _)| name.clone()).collect(),
            notes,
        };
        case.refuse_unmet_needs()?;
        case.share(overrides.locks)?;
        case.refuse_unshared()?;
        case.judge()?;
        Ok(case)
    }
}

/// The policy, the cores and the parameters that the command line names.
fn asked(overrides: &Overrides) -> Result<(&'static Entry, usize, Params), Failure> {
    let entry = match (overrides.entry, &overrides.policy) {
        (Some(entry), _) => entry,
        (None, Some(name)) => policy(name)?,
        (None, None) => {
            let line = "a task set needs --policy NAME (`maracas policies` lists them)";
            return Err(Failure::new(line));
        }
    };
    let cores = overrides.cores.ok_or_else(|| Failure::new("a task set needs --cores M"))?;
    if !(1..=MAX_CORES).contains(&cores) {
        return Err(Failure::new(format!("--cores {cores}: from 1 to {MAX_CORES} may be")));
    }
    let mut params = Params::new();
    set_params(&mut params, entry, &overrides.set)?;
    Ok((entry, cores, params))
}

/// What each thread is to have of its own. Under a policy of jobs a job ends where its thread waits
/// for a lock, and the next comes T later: what takes locks has a T of its own only where the file
/// asks for it.
fn owns(set: &Scripted, entry: &Entry) -> Vec<Option<Reservation>> {
    let locks = |script: &Script| script.steps().any(|step| matches!(step, Step::Lock(_)));
    let threads = set.scripts.threads.iter().zip(&set.asked).zip(&set.reservations);
    let own = |((script, asked), own): ((&Script, &bool), &Option<Reservation>)| {
        own.filter(|_| *asked || !entry.needs.jobs || !locks(script))
    };
    threads.map(own).collect()
}

/// The VCPUs of threads with scripts, and what was assumed of them. A thread without a period of
/// its own has no reservation where the policy wants none. Else all such threads have the same
/// share of a core: what the others leave on an average core, by so many as are there then, halved
/// as long as the policy refuses it.
fn vcpus(set: &Scripted, entry: &Entry, params: &Params, cores: usize) -> (Vec<Vcpu>, Vec<String>) {
    let arrival = if entry.needs.jobs { Arrival::Sporadic } else { Arrival::None };
    let owns = owns(set, entry);
    let with = |own: Option<Reservation>| {
        let vcpu = |(id, known): (u32, &Option<Reservation>)| {
            let reservation = known.or(own).unwrap_or(Reservation::NONE);
            Vcpu { reservation, arrival, ..Vcpu::best_effort(id) }
        };
        (0..).zip(&owns).map(vcpu).collect::<Vec<_>>()
    };
    let mut notes = Vec::new();
    if entry.needs.jobs {
        notes.push(format!(
            "policy {} orders jobs: a thread brings one for each C of its work, T apart or more; \
             it ends where the thread waits or comes late to a timer",
            entry.name
        ));
    }
    let without: Vec<&str> = (owns.iter().zip(&set.names))
        .filter(|(known, _)| known.is_none())
        .map(|(_, name)| name.as_str())
        .collect();
    if without.is_empty() || !entry.needs.budgets {
        return (with(None), notes);
    }
    let ns = |it: &Reservation| {
        let [whole, c, t] = [PERIOD, it.budget, it.period].map(|it| u128::from(it.ticks()));
        // Not above `whole`.
        (whole * c / t) as u64
    };
    let taken: u64 = owns.iter().flatten().map(ns).sum();
    let each_core = (PERIOD.ticks() * cores as u64).saturating_sub(taken) / cores as u64;
    let share = each_core / without.len().div_ceil(cores) as u64;
    // Whole microseconds, one at least.
    let budgets = (0..=HALVINGS).map(|times| ((share >> times) / 1_000).max(1));
    let fits = |budget: &u64| {
        let own = Reservation::implicit(Duration::from_micros(*budget), PERIOD);
        let mut system = System::new(cores, with(Some(own)));
        entry.add_service_vcpus(&mut system, params);
        entry.verdict(&system, params).accepted()
    };
    // Where none fits the others do not, and the first says so as well as the last.
    let budget = budgets.clone().find(fits).unwrap_or(share / 1_000).max(1);
    let own = Reservation::implicit(Duration::from_micros(budget), PERIOD);
    let more = without.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let shown = without.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    let own_budget = own.budget;
    notes.push(format!(
        "{shown}{more}: without a period of their own; each is given {own_budget} of every {PERIOD}"
    ));
    (with(Some(own)), notes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::script::{Phase, Scripts};
    use maracas_core::{Instant, VcpuId};

    fn set(reservations: &[Option<(u64, u64)>]) -> Scripted {
        let script = Script {
            phases: vec![Phase { steps: vec![Step::Run(PERIOD)], loops: None }],
            loops: None,
            start: Instant::ZERO,
            forked: false,
        };
        let us = |(c, t): (u64, u64)| {
            Reservation::implicit(Duration::from_micros(c), Duration::from_micros(t))
        };
        Scripted {
            scripts: Scripts { threads: vec![script; reservations.len()], ..Scripts::default() },
            names: (0..reservations.len()).map(|id| format!("t{id}")).collect(),
            reservations: reservations.iter().map(|it| it.map(us)).collect(),
            asked: vec![false; reservations.len()],
            notes: Vec::new(),
        }
    }
    fn given(policy: &str, cores: usize, reservations: &[Option<(u64, u64)>]) -> Vec<Vcpu> {
        let entry = super::policy(policy).unwrap_or_else(|_| panic!("{policy}"));
        vcpus(&set(reservations), entry, &Params::new(), cores).0
    }

    #[test]
    fn budgets_of_hours_leave_their_share_too() {
        let vcpus = given("g-edf", 1, &[Some((21_600_000_000, 43_200_000_000)), None]);
        assert_eq!(vcpus[1].reservation.budget, Duration::from_micros(500));
    }

    #[test]
    fn threads_without_a_period_share_what_the_others_leave() {
        // Half a core is taken of two; three threads, two to a core: (2 - 0.5) / 2 / 2 of one.
        let vcpus = given("g-edf", 2, &[Some((5_000, 10_000)), None, None, None]);
        let budgets: Vec<u64> = vcpus.iter().map(|it| it.reservation.budget.ticks()).collect();
        assert_eq!(budgets, [5_000_000, 375_000, 375_000, 375_000]);
        assert!(vcpus.iter().all(|vcpu| vcpu.arrival == Arrival::Sporadic));
        assert!(vcpus.iter().enumerate().all(|(place, vcpu)| vcpu.id == VcpuId(place as u32)));
    }

    #[test]
    fn their_share_is_halved_where_the_policy_refuses_it() {
        // 0.6 of each core is taken; what is left of an average core is left of each.
        let vcpus = given("p-edf", 2, &[Some((6_000, 10_000)), Some((6_000, 10_000)), None]);
        assert_eq!(vcpus[2].reservation.budget, Duration::from_micros(400));
        // 0.7 of a core is taken, and 0.65 on average are free: on the other core is room for one.
        let vcpus = given("p-edf", 2, &[Some((7_000, 10_000)), None, None]);
        assert_eq!(vcpus[1].reservation.budget, Duration::from_micros(650 / 2));
    }

    #[test]
    fn where_no_budget_is_wanted_they_have_none() {
        let vcpus = given("round-robin", 2, &[Some((5_000, 10_000)), None]);
        assert!(vcpus[1].reservation.is_none() && vcpus[1].arrival == Arrival::None);
        assert_eq!(vcpus[0].reservation.budget, Duration::from_millis(5));
    }

    #[test]
    fn what_takes_locks_has_a_period_of_its_own_only_where_none_orders_jobs_or_it_is_asked_for() {
        let own = (5_000, 10_000);
        let mut set = set(&[Some(own), Some(own), Some(own)]);
        for thread in [0, 1] {
            set.scripts.threads[thread].phases[0].steps.push(Step::Lock(0));
        }
        set.asked[1] = true;
        let periods = |policy: &str| {
            let entry = super::policy(policy).unwrap_or_else(|_| panic!("{policy}"));
            let vcpus = vcpus(&set, entry, &Params::new(), 2).0;
            vcpus.iter().map(|it| it.reservation.period.ticks() / 1_000).collect::<Vec<_>>()
        };
        assert_eq!(periods("g-edf"), [1_000, 10_000, 10_000]);
        assert_eq!(periods("maracas"), [10_000; 3]);
    }
}
