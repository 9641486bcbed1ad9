//! Jobs that are said to be in time beside others that use memory are never late in the simulator,
//! and none reads more than is said.

use maracas_core::contract::{Event, Observer};
use maracas_core::params::{Params, Value};
use maracas_core::{Cost, Duration, Instant, Job, JobId, Plan, Program, VcpuId, Workload};
use maracas_sim::jobs::{Answer, Judged, judge};
use maracas_sim::memory::SharedMemory;
use maracas_sim::{Options, run_with};
use maracas_tests::{Dice, Mix, generate_slow, memory_for};
use std::collections::BTreeMap;
use std::ops::Range;

/// Random systems that a debug build tries; release builds try 10,000.
const SYSTEMS: u64 = if cfg!(debug_assertions) { 300 } else { 10_000 };

/// The policies, with what is said to them.
const POLICIES: [(&str, &[(&str, &str)]); 19] = [
    ("maracas", &[("admission", "rta")]),
    ("maracas", &[]),
    ("p-rm", &[("admission", "rta")]),
    ("p-edf", &[]),
    ("p-edf", &[("enforcement", "precise")]),
    ("g-edf", &[("admission", "gfb")]),
    ("memguard+maracas", &[("admission", "rta"), ("reclaim", "false")]),
    ("memguard+p-edf", &[]),
    ("memguard+p-rm", &[("admission", "rta"), ("reservation", "hard")]),
    ("memguard+maracas", &[("background", "off"), ("reclaim", "false")]),
    ("maracas", &[("admission", "rta"), ("background", "off")]),
    ("g-rm", &[]),
    ("p-edf", &[("admission", "qpa")]),
    ("c-edf", &[("cores_per_cache", "1")]),
    ("c-edf", &[("cores_per_cache", "2"), ("admission", "none")]),
    ("g-edf", &[]),
    ("c-d", &[]),
    ("edf-wm", &[]),
    ("sp-res", &[]),
];

/// The one whose cores donate and reclaim.
const LENDS: usize = 7;
/// The first of those that may place VCPUs otherwise where they are asked for more, or are asked by
/// load alone.
const PLACES: usize = 13;

/// Jobs that were released and are not complete, those that were late, and how many are done.
#[derive(Default)]
struct Jobs {
    pending: Vec<Job>,
    late: Vec<(JobId, Instant)>,
    done: u64,
    /// By VCPU: jobs released, and lines read.
    reads: BTreeMap<VcpuId, (u64, u64)>,
}

impl Jobs {
    fn overdue(&mut self, now: Instant) {
        let late = self.pending.iter().filter(|job| job.deadline < now);
        self.late.extend(late.map(|job| (job.id, job.deadline)));
    }
}

impl Observer for Jobs {
    fn event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Released(job) => {
                self.pending.push(*job);
                self.reads.entry(job.id.vcpu).or_default().0 += 1;
            }
            Event::Ran(segment) => {
                self.reads.entry(segment.vcpu).or_default().1 += segment.usage.reads;
            }
            Event::Completed(id) => {
                let place = self.pending.iter().position(|job| job.id == *id);
                let job = self.pending.remove(place.expect("it was released"));
                self.done += 1;
                if at > job.deadline {
                    self.late.push((*id, job.deadline));
                }
            }
            Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::Arrived(_)
            | Event::Left(_)
            | Event::Changed(_)
            | Event::ServiceDone(_)
            | Event::Failed { .. } => {}
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

/// Each core has `bandwidth` MB/s, or all but the first where `but_one`.
fn params(given: &[(&str, &str)], cores: usize, bandwidth: u64, but_one: bool) -> Params {
    let mut params = Params::new();
    for (name, value) in given {
        let number = value.parse().map(Value::Whole);
        params.set(name, number.unwrap_or_else(|_| Value::Text((*value).into())));
    }
    if bandwidth > 0 {
        let mut each = vec![format!("{bandwidth}MB/s"); cores];
        if but_one {
            each[0] = "none".into();
        }
        params.set("bandwidth", Value::Text(each.join(", ")));
    }
    params
}

/// What came of one system.
#[derive(Default)]
struct Tally {
    admitted: u64,
    slowed: u64,
    /// By policy, in time by what limits others.
    limited: [u64; POLICIES.len()],
    in_time: u64,
    /// VCPUs whose reads were held against what their jobs read at most.
    read: u64,
    jobs: u64,
}

fn try_one(seed: u64, among: Range<usize>, tally: &mut Tally) {
    let mut dice = Dice::new(seed ^ 0x1f7e);
    let mut random = generate_slow(seed, Mix::tasks(dice.pick(&[20, 40, 60, 80])));
    let memory = memory_for(&mut random, seed);
    // Else nothing would fit: work is less than the budget by what memory may take.
    let part = dice.pick(&[2, 5, 10, 25, 50, 100]);
    for program in &mut random.programs {
        if let Workload::Periodic { cost: Cost::Fixed(most) | Cost::Uniform(_, most) } =
            program.workload
        {
            let cost = Duration::from_ticks((most.ticks() * part / 100).max(1));
            program.workload = Workload::Periodic { cost: Cost::Fixed(cost) };
        }
    }
    let policy = dice.between(among.start as u64, among.end as u64 - 1) as usize;
    let (name, given) = POLICIES[policy];
    let entry = maracas_policies::find(name).expect("a policy of this name");
    let guards = name.starts_with("memguard");
    let bandwidth = if guards { dice.pick(&[2, 10, 100, 400, 2_000]) } else { 0 };
    let params = params(given, random.system.cores.len(), bandwidth, dice.pick(&[false, true]));
    let verdict = (entry.admit)(&random.system, &params);
    if !verdict.accepted() {
        return;
    }
    tally.admitted += 1;
    let judged = judge(&random.system, &memory, &random.programs, entry, &params, &verdict);
    let said: Vec<VcpuId> =
        judged.iter().filter(|one| one.answer == Answer::InTime).map(|one| one.vcpu).collect();
    let slowed = |one: &&Judged| one.answer == Answer::InTime && one.needs > one.alone;
    tally.slowed += judged.iter().filter(slowed).count() as u64;
    let limited = |one: &&Judged| one.answer == Answer::InTime && one.is_limited();
    tally.limited[policy] += judged.iter().filter(limited).count() as u64;
    tally.in_time += said.len() as u64;
    if said.is_empty() {
        return;
    }
    let longest = random.system.vcpus.iter().map(|vcpu| vcpu.reservation.period).max();
    let until = Instant::ZERO + longest.expect("a VCPU") * 30;
    let mut policy = (entry.build)(&random.system, &params).unwrap_or_else(|_| panic!("{seed}"));
    let mut jobs = Jobs::default();
    let model = SharedMemory::new(&random.system, &memory);
    let options = Options { seed, ..Options::new(until) };
    run_with(&random.system, &random.programs, policy.as_mut(), &options, &mut jobs, model);
    jobs.overdue(until);
    tally.jobs += jobs.done;
    let late = jobs.late.iter().find(|(id, _)| said.contains(&id.vcpu));
    if let Some((id, deadline)) = late {
        let one = judged.iter().find(|one| one.vcpu == id.vcpu);
        panic!("seed {seed}, {name} {given:?}: {id:?} missed {deadline}, judged {one:?}");
    }
    for one in judged.iter().filter(|one| works_on_jobs_alone(one.vcpu, &random.programs)) {
        let (released, reads) = jobs.reads.get(&one.vcpu).copied().unwrap_or_default();
        tally.read += u64::from(reads > 0);
        let most = one.reads * released;
        assert!(reads <= most, "seed {seed}, {name} {given:?}: {reads} reads, judged {one:?}");
    }
}

/// All that it reads is read by its jobs.
fn works_on_jobs_alone(vcpu: VcpuId, programs: &[Program]) -> bool {
    let mut own = programs.iter().filter(|program| program.vcpu == vcpu);
    own.all(|program| program.workload.most().is_some())
}

#[test]
fn jobs_said_to_be_in_time_beside_memory_users_are() {
    let mut tally = Tally::default();
    (0..SYSTEMS).for_each(|seed| try_one(seed, 0..PLACES, &mut tally));
    let Tally { admitted, slowed, limited, in_time, read, jobs } = tally;
    eprintln!(
        "{admitted} admitted, {in_time} VCPUs in time, {slowed} of them slowed, {limited:?} by \
         limits on others less so, {read} read, {jobs} jobs"
    );
    assert!(admitted > SYSTEMS / 3, "{admitted} of {SYSTEMS} systems were admitted");
    let gain = limited.iter().sum::<u64>();
    assert!(gain > SYSTEMS / 50, "{gain} VCPUs gain by limits on others");
    let lent = limited[LENDS];
    assert!(cfg!(debug_assertions) || lent > 0, "none gains where reservations are lent");
    assert!(slowed > SYSTEMS / 4, "{slowed} VCPUs were slowed down and in time nevertheless");
    assert!(read > SYSTEMS / 4, "{read} VCPUs read");
}

#[test]
fn nor_is_one_late_that_is_judged_by_another_placement() {
    let mut tally = Tally::default();
    (0..SYSTEMS / 2).for_each(|seed| try_one(seed, PLACES..POLICIES.len(), &mut tally));
    let Tally { admitted, in_time, slowed, .. } = tally;
    eprintln!("{admitted} admitted, {in_time} VCPUs in time, {slowed} of them slowed");
    assert!(in_time > SYSTEMS / 8, "{in_time} VCPUs in time");
}
