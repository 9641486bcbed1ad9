//! The worked examples of algorithms.md B.5, and what QPS promises on random sets.

mod random;
mod rig;

use super::ENTRY;
use super::members::Task;
use super::offline::{Blueprint, Item};
use super::tree::qps_tree;
use crate::testing::{Machine, Manners, periodic, with};
use crate::tree::{Kind, Node};
use alloc::string::String;
use alloc::vec::Vec;
use maracas_core::params::Params;
use maracas_core::{Arrival, CoreId, Duration, Instant, Job, JobId, Rate, System, Vcpu, VcpuId};
use rig::{Rig, Source};

fn tasks(list: &[(u64, u64)]) -> Vec<Vcpu> {
    let ticks = Duration::from_ticks;
    (0..).zip(list).map(|(id, &(c, t))| Vcpu::new(id, ticks(c), ticks(t)).periodic()).collect()
}

/// The sets as text: core, rate, excess where major, items (`a` = vcpu0, `M0` = the master of
/// core0's set).
fn sets(cores: usize, list: &[(u64, u64)], params: &[(&str, &str)]) -> Vec<String> {
    let system = System::new(cores, tasks(list));
    let tree = qps_tree(&system, &with(params)).unwrap();
    let mut text = Vec::new();
    for subsystem in &tree.subsystems {
        let before = text.len();
        describe(&subsystem.root, "", &mut text);
        assert_eq!(text.len() - before, subsystem.cores.len());
    }
    text.sort();
    text
}

fn describe(set: &Node, excess: &str, text: &mut Vec<String>) {
    let item = |item: &Node| match item.kind {
        Kind::Task(vcpu) => String::from(char::from(b'a' + vcpu.0 as u8)),
        Kind::Master => {
            let guest = &item.children[0];
            describe(guest, &alloc::format!(" x={}", item.rate), text);
            let Kind::Set(core) = guest.kind else { panic!("{guest:?} has no core") };
            alloc::format!("M{}", core.0)
        }
        Kind::Server | Kind::Dual | Kind::Set(_) => panic!("a set holds {item:?}"),
    };
    let items: Vec<String> = set.children.iter().map(item).collect();
    let Kind::Set(core) = set.kind else { panic!("{set:?} has no core") };
    let (rate, level) = (set.rate, set.level);
    text.push(alloc::format!("{core} U={rate}{excess} {} L{level}", items.join(" ")));
}

#[test]
fn vector_b1() {
    let set = [(2, 3); 3];
    assert_eq!(sets(2, &set, &[]), ["core0 U=4/3 x=1/3 a c L0", "core1 U=1 b M0 L1"]);
    let machine = periodic(&ENTRY, &[], 2, &set, 6);
    assert_eq!([machine.schedule(0), machine.schedule(1)], ["caccca", "abbabb"]);
}

#[test]
fn vector_b2() {
    let set = [(3, 4); 4];
    let expected = ["core0 U=3/2 x=1/2 a d L0", "core1 U=5/4 x=1/4 b M0 L1", "core2 U=1 c M1 L2"];
    assert_eq!(sets(3, &set, &[]), expected);
    let machine = periodic(&ENTRY, &[], 3, &set, 8);
    let schedule = [0, 1, 2].map(|core| machine.schedule(core));
    assert_eq!(schedule, ["daddddda", "abbaaabb", "bcccbccc"]);
}

#[test]
fn vector_b3() {
    let set = [(3, 5); 5];
    let expected = ["core0 U=6/5 x=1/5 a d L0", "core1 U=6/5 x=1/5 b e L0", "core2 U=1 c M0 M1 L1"];
    assert_eq!(sets(3, &set, &[]), expected);
    let machine = periodic(&ENTRY, &[], 3, &set, 5);
    let schedule = [0, 1, 2].map(|core| machine.schedule(core));
    assert_eq!(schedule, ["daadd", "bbbee", "aeccc"]);
}

/// Runs jobs of C released at the given instants, all scaled, until `until`.
fn sporadic(
    params: &[(&str, &str)],
    cores: usize,
    scale: u64,
    list: &[(u64, u64)],
    releases: &[&[u64]],
    until: u64,
) -> Machine {
    let scaled: Vec<(u64, u64)> = list.iter().map(|(c, t)| (c * scale, t * scale)).collect();
    let mut vcpus = tasks(&scaled);
    vcpus.iter_mut().for_each(|vcpu| vcpu.arrival = Arrival::Sporadic);
    let system = System::new(cores, vcpus);
    let mut machine = Machine::new(&ENTRY, &with(params), &system, Manners::PERFECT);
    while machine.now < until * scale {
        for (id, instants) in (0..).zip(releases) {
            let (c, t) = scaled[id as usize];
            if instants.iter().any(|at| at * scale == machine.now) {
                machine.release(id, c, machine.now + t);
            }
        }
        machine.tick();
    }
    machine
}

/// Three ticks are one unit of time.
#[test]
fn vector_b4() {
    let releases: [&[u64]; 3] = [&[0, 3, 6, 10], &[0, 3, 6, 9], &[1, 4, 8]];
    let machine = sporadic(&[], 2, 3, &[(2, 3); 3], &releases, 12);
    assert_eq!(machine.schedule(0), "aaaccaaacaaaccaaa.aacaaacccccc.aaaaa");
    assert_eq!(machine.schedule(1), "bbbbbbcc.cbbbbbbcccbbbbbba.bbbabbb..");
    assert_eq!(machine.models.iter().map(|model| model.misses).sum::<u64>(), 0);
    // Back to EDF at 7, 9 (and 3 times into QPS mode before) and 11: six changes by 12.
    let statistics = machine.policy.statistics();
    let statistic =
        |name| statistics.iter().find(|statistic| statistic.name == name).map(|f| f.value);
    assert_eq!(statistic("mode changes"), Some(6));
    assert_eq!(statistic("levels"), Some(1));
    assert_eq!((statistic("rounded windows"), statistic("short windows")), (Some(0), Some(0)));
}

/// algorithms.md B.4: the split of a set that enters QPS mode must not part what was pending.
#[test]
fn a_fixed_split_misses_and_the_dynamic_one_does_not() {
    // All rates are whole twentieths.
    const SCALE: u64 = 20;
    let list = [(8, 20, 27), (50, 100, 0), (27, 60, 0), (13, 20, 0)];
    let rate = |id: usize| list[id].0 * SCALE / list[id].1;
    let task = |id: usize| (Item::Task(VcpuId(id as u32)), rate(id));
    let excess = rate(0) + rate(1) + rate(2) - SCALE;
    let set = |core, items: Vec<(Item, u64)>, excess, host| {
        let rate = items.iter().map(|(_, rate)| rate).sum();
        Blueprint { core: CoreId(core), items, rate, excess, host }
    };
    let late = |split| {
        let sets = alloc::vec![
            set(0, alloc::vec![task(0), task(1), task(2)], excess, Some(1)),
            set(1, alloc::vec![task(3), (Item::Master(0), excess)], 0, None),
        ];
        let source = |(c, t, first): &(u64, u64, u64)| {
            let releases = (0..).map(|k| first + k * t).take_while(|at| *at < 300);
            let jobs = releases.map(|at| (at * SCALE, c * SCALE)).collect();
            Source { budget: c * SCALE, period: t * SCALE, jobs }
        };
        let sources = list.iter().map(source).collect();
        let system = System { ticks_per_ns: SCALE, ..System::new(2, Vec::new()) };
        let rig = Rig::packed(system, sources, &[("split", split)], Some(sets));
        rig.run(240 * SCALE).late
    };
    assert_eq!(late("halves"), []);
    assert_eq!(late("single"), []);
    // The second task misses at 100 and the first at 107.
    assert_eq!(late("fixed")[..2], [(1, 100 * SCALE), (0, 107 * SCALE)]);
}

#[test]
fn the_packings_differ() {
    let set = [(1, 2), (2, 5), (3, 10), (3, 10)];
    assert_eq!(sets(2, &set, &[])[0], "core0 U=9/10 a b L0");
    assert_eq!(sets(2, &set, &[("packing", "wfd")])[0], "core0 U=4/5 a d L0");
    let set = [(6, 10), (5, 10), (4, 10), (3, 10)];
    assert_eq!(sets(2, &set, &[("packing", "bfd")])[0], "core0 U=1 a c L0");
}

/// Where packing finds room for all, nothing but partitioned EDF is left.
#[test]
fn without_major_sets_it_is_partitioned_edf() {
    let set = [(1, 2), (1, 3), (1, 6), (2, 4), (3, 6)];
    let qps = periodic(&ENTRY, &[], 2, &set, 24);
    let edf = periodic(crate::find("p-edf").unwrap(), &[], 2, &set, 24);
    assert_eq!([qps.schedule(0), qps.schedule(1)], [edf.schedule(0), edf.schedule(1)]);
}

/// Two tasks share a core that both need; one always wants more than it may have.
#[test]
fn an_overrun_harms_no_other() {
    let system = System::new(1, tasks(&[(2, 4), (2, 4)]));
    for (enforcement, harmless) in [("surplus", true), ("precise", true), ("none", false)] {
        let params = with(&[("enforcement", enforcement)]);
        let mut machine = Machine::new(&ENTRY, &params, &system, Manners::PERFECT);
        while machine.now < 60 {
            if machine.now.is_multiple_of(4) {
                machine.release(0, 3, machine.now + 4);
                machine.release(1, 2, machine.now + 4);
            }
            machine.tick();
        }
        assert_eq!(machine.models[1].misses == 0, harmless, "{enforcement}");
        assert!(machine.models[0].misses > 0 || !harmless);
    }
}

/// Runs tasks whose jobs need the given work, all released every six ticks.
fn overrun(enforcement: &str, cores: usize, list: &[(u64, u64)], work: &[u64]) -> Machine {
    let system = System::new(cores, tasks(list));
    let params = with(&[("enforcement", enforcement)]);
    let mut machine = Machine::new(&ENTRY, &params, &system, Manners::PERFECT);
    while machine.now < 60 {
        if machine.now.is_multiple_of(6) {
            for (id, work) in (0..).zip(work) {
                machine.release(id, *work, machine.now + 6);
            }
        }
        machine.tick();
    }
    machine
}

fn misses(machine: &Machine) -> Vec<u64> {
    machine.models.iter().map(|model| model.misses).collect()
}

/// What overruns goes on where its set's core is idle, in EDF mode and in QPS mode, and on no other
/// core: no job within its budget is late for that.
#[test]
fn an_overrun_takes_what_its_core_leaves_idle() {
    let minor = |enforcement| overrun(enforcement, 1, &[(2, 6), (2, 6)], &[4, 2]);
    assert!(misses(&minor("precise"))[0] > 0);
    assert_eq!(misses(&minor("surplus")), [0, 0]);
    assert_eq!(minor("surplus").schedule(0)[..6], *"aabbAA");
    // Three tasks on two cores that they fill; one needs less, and leaves time idle.
    let major = |enforcement, work: &[u64]| overrun(enforcement, 2, &[(4, 6); 3], work);
    assert_eq!(sets(2, &[(4, 6); 3], &[])[0], "core0 U=4/3 x=1/3 a c L0");
    for enforcement in ["surplus", "precise"] {
        let machine = major(enforcement, &[5, 4, 4]);
        let late = misses(&machine);
        assert!(late[0] > 0 && late[1..] == [0, 0], "{enforcement}: {late:?}");
    }
    let late = misses(&major("precise", &[5, 4, 3]));
    assert!(late[0] > 0 && late[1..] == [0, 0], "{late:?}");
    let machine = major("surplus", &[5, 4, 3]);
    assert_eq!(misses(&machine), [0, 0, 0], "{} {}", machine.schedule(0), machine.schedule(1));
}

/// The last segment of a job may be reported after its completion and the next release: the next
/// job does not pay for it.
#[test]
fn a_segment_reported_late_costs_the_next_job_nothing() {
    let ticks = Duration::from_ticks;
    let system = System::new(1, tasks(&[(2, 4)]));
    let mut task = Task::new(&system.vcpus[0], 0);
    let job = |index| {
        let (release, deadline) = (u64::from(index) * 4, u64::from(index) * 4 + 4);
        let (release, deadline) = (Instant::from_ticks(release), Instant::from_ticks(deadline));
        Job { id: JobId { vcpu: VcpuId(0), index }, release, deadline }
    };
    task.release(&job(0), true);
    task.complete(0);
    task.release(&job(1), true);
    task.charge(Instant::from_ticks(4), ticks(2));
    assert!(!task.is_spent());
    assert_eq!(task.until, ticks(4));
    task.charge(Instant::from_ticks(6), ticks(2));
    assert!(task.is_spent());
}

/// A task that leaves while it waits for idle time gets none.
#[test]
fn what_left_gets_no_surplus_time() {
    let system = System::new(1, tasks(&[(2, 12), (6, 12)]));
    let mut machine = Machine::new(&ENTRY, &with(&[]), &system, Manners::PERFECT);
    machine.release(0, 9, 12);
    machine.release(1, 6, 12);
    for _ in 0..8 {
        machine.tick();
    }
    assert_eq!(machine.plan.run_queue(CoreId(0)).background[0].vcpu, VcpuId(0));
    machine.remove(0);
    machine.tick();
    machine.tick();
    assert!(machine.plan.run_queue(CoreId(0)).background.is_empty());
}

#[test]
fn refusals_say_why() {
    let refused = |list: &[(u64, u64)]| {
        (ENTRY.admit)(&System::new(2, tasks(list)), &Params::new()).refused.len()
    };
    assert_eq!(refused(&[(2, 3), (2, 3), (2, 3)]), 0);
    assert_eq!(refused(&[(2, 3), (2, 3), (2, 3), (1, 1_000_000_007)]), 1);
    let mut system = System::new(2, tasks(&[(2, 3), (2, 3), (2, 3)]));
    system.vcpus[1].arrival = Arrival::None;
    let verdict = (ENTRY.admit)(&system, &Params::new());
    assert!(verdict.why().contains("vcpu1 has no jobs"), "{verdict:?}");
    // Live, a tenth of each core is not ours.
    let mut system = System::new(2, tasks(&[(19, 20), (1, 20)]));
    system.capacity = Rate::new(9, 10);
    let verdict = (ENTRY.admit)(&system, &Params::new());
    assert!(verdict.refused[0].1.reason.contains("vcpu0 asks for 19/20 of a core"), "{verdict:?}");
    // An early deadline counts as a short period: 2/2 + 2/2 + 1/3.
    let mut system = System::new(2, tasks(&[(2, 3), (2, 3), (1, 3)]));
    for vcpu in &mut system.vcpus[..2] {
        vcpu.reservation.deadline = Duration::from_ticks(2);
    }
    assert_eq!((ENTRY.admit)(&system, &Params::new()).refused.len(), 1);
}

#[test]
fn newcomers_enter_minor_sets_only() {
    let set = [(2, 3); 4];
    let expected = ["core0 U=4/3 x=1/3 a d L0", "core1 U=1 b M0 L1", "core2 U=2/3 c L0"];
    assert_eq!(sets(3, &set, &[]), expected);
    let system = System::new(3, tasks(&set));
    let mut machine = Machine::new(&ENTRY, &with(&[]), &system, Manners::PERFECT);
    let ticks = Duration::from_ticks;
    // 2/3 + 1/2 is too much for core2, 2/3 + 1/4 is not, and then 1/4 more is.
    for (id, c, admitted) in [(4, 2, false), (5, 1, true), (6, 1, false)] {
        machine.arrive(Vcpu::new(id, ticks(c), ticks(4)).periodic());
        machine.tick();
        let (vcpu, verdict) = machine.answers.pop().unwrap();
        assert_eq!((vcpu.0, verdict.is_ok()), (id, admitted), "{verdict:?}");
    }
    while machine.now < 60 {
        for (id, c, t) in [(0, 2, 3), (1, 2, 3), (2, 2, 3), (3, 2, 3), (5, 1, 4)] {
            if machine.now.is_multiple_of(t * 3) {
                machine.release(id, c * 3, machine.now + t * 3);
            }
        }
        machine.tick();
    }
}
