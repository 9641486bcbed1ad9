//! Task sets with what another implementation's schedulability tests say of them, and runs of them
//! released periodically, with offsets or sporadically.

use crate::Dice;
use maracas_core::admission::{CoreVerdict, Measure};
use maracas_core::contract::{Entry, Observer, Segment};
use maracas_core::params::{Params, Value};
use maracas_core::{
    Arrival, CoreId, Cost, Duration, Event, Instant, JobId, Plan, Program, System, Vcpu, VcpuId,
    Workload,
};
use maracas_policies::find;
use maracas_sim::{Options, run};
use std::collections::BTreeMap;

/// How many of its longest periods every set is simulated for.
const PERIODS: u64 = 20;

/// Segments of other cores that may be reported between two of one run.
const MAX_BETWEEN: usize = 64;

/// A line of the file: cores, further columns, the tasks as C:D:T and what else stands there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Set {
    /// So many cores.
    pub cores: usize,
    /// What stands between these and the tasks.
    pub columns: Vec<String>,
    /// C, D and T of each in ticks, and what follows them.
    pub tasks: Vec<Vec<u64>>,
}

impl Set {
    /// What the tests in that column say, a character each.
    #[must_use]
    pub fn accepted(&self, column: usize) -> Vec<bool> {
        self.columns[column].chars().map(|c| c == '1').collect()
    }
    /// The tasks on the cores, which arrive as `arrival` says by T.
    #[must_use]
    pub fn system(&self, arrival: impl Fn(u64) -> Arrival) -> System {
        let vcpu = |(id, task): (usize, &Vec<u64>)| {
            let (c, d, t) = (task[0], task[1], task[2]);
            let mut vcpu = Vcpu::new(id as u32, Duration::from_ticks(c), Duration::from_ticks(t));
            vcpu.reservation.deadline = Duration::from_ticks(d);
            vcpu.arrival = arrival(t);
            vcpu
        };
        System::new(self.cores, self.tasks.iter().enumerate().map(vcpu).collect())
    }
    /// All release at once and periodically; periodically, but not at once; sporadically.
    #[must_use]
    pub fn patterns(&self, seed: u64) -> [System; 3] {
        let mut dice = Dice::new(seed);
        let zero = Arrival::Periodic { offset: Duration::ZERO };
        let mut shifted = self.system(|_| zero);
        for vcpu in &mut shifted.vcpus {
            let offset = dice.between(0, vcpu.reservation.period.ticks());
            vcpu.arrival = Arrival::Periodic { offset: Duration::from_ticks(offset) };
        }
        [self.system(|_| zero), shifted, self.system(|_| Arrival::Sporadic)]
    }
}

/// The sets of a file, without the lines that explain it.
///
/// # Panics
/// Where a line is none.
#[must_use]
pub fn sets(text: &str) -> Vec<Set> {
    let number = |text: &str| text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
    let task = |text: &str| text.split(':').map(number).collect();
    let set = |line: &str| {
        let mut columns: Vec<String> = line.split(',').map(String::from).collect();
        let tasks = columns.pop().unwrap_or_else(|| panic!("{line}"));
        let cores = number(&columns.remove(0)) as usize;
        Set { cores, columns, tasks: tasks.split_whitespace().map(task).collect() }
    };
    text.lines().filter(|line| !line.starts_with('#')).map(set).collect()
}

/// The policy of that name.
///
/// # Panics
/// Where there is none.
#[must_use]
pub fn policy(name: &str) -> &'static Entry {
    find(name).unwrap_or_else(|| panic!("no {name}"))
}

/// These parameters.
#[must_use]
pub fn with(params: &[(&str, &str)]) -> Params {
    let mut given = Params::new();
    params.iter().for_each(|(name, value)| given.set(name, Value::Text((*value).into())));
    given
}

/// What ran where, from when to when; a run that is only reported in parts is one.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Schedule(Vec<(VcpuId, CoreId, Instant, Instant)>);

impl Observer for Schedule {
    fn event(&mut self, _: Instant, event: &Event) {
        let Event::Ran(segment) = event else { return };
        let Segment { vcpu, core, from, to, .. } = *segment;
        let goes_on =
            |it: &&mut (VcpuId, CoreId, Instant, Instant)| (it.0, it.1, it.3) == (vcpu, core, from);
        match self.0.iter_mut().rev().take(MAX_BETWEEN).find(goes_on) {
            Some(it) => it.3 = to,
            None => self.0.push((vcpu, core, from, to)),
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

/// How many jobs of the set miss, of how many; none run where the policy refuses it.
#[must_use]
pub fn missed(name: &str, params: &Params, system: &System, seed: u64) -> Option<(u64, u64)> {
    watched(name, params, system, seed, &mut ())
}

/// What runs of the set; nothing where the policy refuses it.
#[must_use]
pub fn schedule(name: &str, params: &Params, system: &System, seed: u64) -> Option<Schedule> {
    let mut schedule = Schedule::default();
    watched(name, params, system, seed, &mut schedule)?;
    schedule.0.sort_by_key(|(_, core, from, _)| (*core, *from));
    Some(schedule)
}

/// Runs the set under an observer; the same answer.
pub fn watched(
    name: &str,
    params: &Params,
    system: &System,
    seed: u64,
    observer: &mut impl Observer,
) -> Option<(u64, u64)> {
    let program = |vcpu: &Vcpu| {
        let cost = Cost::Fixed(vcpu.reservation.budget);
        Program::new(vcpu.id, Workload::Periodic { cost })
    };
    let programs: Vec<_> = system.vcpus.iter().map(program).collect();
    let mut policy = (policy(name).build)(system, params).ok()?;
    let longest = system.vcpus.iter().map(|vcpu| vcpu.reservation.period).max();
    let until = Instant::ZERO + longest.unwrap_or_default() * PERIODS;
    let options = Options { seed, ..Options::new(until) };
    let outcome = run(system, &programs, &mut *policy, &options, observer);
    Some((outcome.missed, outcome.released))
}

/// Runs every pattern of every set without an admission test; none of those `accepted` may miss.
///
/// # Panics
/// Where one does, or where too few are accepted, or too few of all miss, to see anything.
pub fn none_accepted_misses(
    sets: &[Set],
    name: &str,
    params: impl Fn(&Set, u64) -> Params,
    accepted: impl Fn(&Set) -> bool,
) {
    let (mut jobs, mut late) = (0, 0);
    for (seed, set) in (0..).zip(sets) {
        let accepted = accepted(set);
        for tried in &set.patterns(seed) {
            let Some((missed, released)) = missed(name, &params(set, seed), tried, seed) else {
                assert!(!accepted, "set {seed} asks for too much");
                continue;
            };
            assert!(!accepted || missed == 0, "set {seed}: {missed} of {released} missed");
            jobs += u64::from(accepted) * released;
            late += u64::from(missed > 0);
        }
    }
    assert!(jobs > 100_000, "{jobs} jobs");
    assert!(late > 20, "no comparison: of all sets only {late} miss anything");
}

/// How late each task's jobs were.
#[derive(Clone, Default, Debug)]
pub struct Late {
    due: BTreeMap<JobId, Instant>,
    most: BTreeMap<VcpuId, Duration>,
}

impl Late {
    /// How late the latest job of that task was.
    #[must_use]
    pub fn most(&self, vcpu: VcpuId) -> Duration {
        self.most.get(&vcpu).copied().unwrap_or_default()
    }
    /// Whether any job was late.
    #[must_use]
    pub fn any(&self) -> bool {
        self.most.values().any(|most| !most.is_zero())
    }
    fn note(&mut self, vcpu: VcpuId, late: Duration) {
        let most = self.most.entry(vcpu).or_default();
        *most = late.max(*most);
    }
}

impl Observer for Late {
    fn event(&mut self, at: Instant, event: &Event) {
        if let Event::Released(job) = event {
            self.due.insert(job.id, job.deadline);
        }
        if let Event::Completed(id) = event {
            let due = self.due.remove(id).expect("it was released");
            self.note(id.vcpu, at.saturating_since(due));
        }
    }
    fn planned(&mut self, now: Instant, _: &Plan) {
        let late: Vec<_> = self.due.iter().map(|(id, due)| (id.vcpu, *due)).collect();
        late.into_iter().for_each(|(vcpu, due)| self.note(vcpu, now.saturating_since(due)));
    }
}

/// What the tests of a core say of how late jobs are, if anything.
#[must_use]
pub fn tardiness(core: &CoreVerdict) -> Option<&[(VcpuId, Duration)]> {
    core.tests.iter().find_map(|result| match &result.measure {
        Measure::Tardiness(list) => Some(&list[..]),
        Measure::Ratio { .. } | Measure::Responses(_) => None,
    })
}
