//! Vectors A1 to A5 of the worked examples, and the invariants on random sets.

mod vectors;

use super::{ENTRY, run_tree};
use crate::testing::{Machine, Manners, Rng, periodic, with};
use crate::tree::{Kind, Node};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use maracas_core::contract::Statistic;
use maracas_core::{Arrival, CoreId, Duration, Event, Rate, System, Vcpu};
use vectors::{VECTORS, Vector};

fn ticks(n: u64) -> Duration {
    Duration::from_ticks(n)
}

/// Synchronous periodic tasks (C, T) on so many cores.
fn system(cores: usize, tasks: &[(u64, u64)]) -> System {
    let vcpu = |(id, &(c, t)): (u32, &(u64, u64))| Vcpu::new(id, ticks(c), ticks(t)).periodic();
    System::new(cores, (0..).zip(tasks).map(vcpu).collect())
}

/// All periods divide this.
pub(super) const HYPERPERIOD: u64 = 120;
const PERIODS: [u64; 10] = [4, 5, 6, 8, 10, 12, 15, 20, 24, 30];

/// Tasks (C, T) of all weights on 2 to `most` cores, half the time with U = m exactly.
pub(super) fn random_set(rng: &mut Rng, most: u64) -> (usize, Vec<(u64, u64)>) {
    let cores = 2 + rng.below(most - 1) as usize;
    let heavy = rng.below(3);
    let full = rng.one_in(2);
    let mut left = HYPERPERIOD * cores as u64;
    let mut tasks = Vec::new();
    while left > 0 {
        let period = PERIODS[rng.below(10) as usize];
        let budget = match heavy {
            0 => 1 + rng.below(period),
            1 => period / 2 + 1 + rng.below(period.div_ceil(2) - 1),
            _ => 1 + rng.below(period / 2),
        };
        let share = budget * HYPERPERIOD / period;
        if share <= left {
            left -= share;
            tasks.push((budget, period));
        } else if !full {
            break;
        } else if left <= HYPERPERIOD {
            tasks.push((left, HYPERPERIOD));
            left = 0;
        }
    }
    (cores, tasks)
}

fn text(node: &Node) -> String {
    let star = match node.kind {
        Kind::Task(vcpu) => return format!("t{}", vcpu.0),
        Kind::Dual => "*",
        Kind::Server | Kind::Set(_) | Kind::Master => "",
    };
    let children: Vec<String> = node.children.iter().map(text).collect();
    format!("{}{star}({})", node.rate, children.join(" "))
}

/// One uninterrupted run of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    vcpu: u32,
    job: u64,
    core: usize,
    from: u64,
    to: u64,
}

/// The pieces of a run, each job taking all of its C, in order of their beginning.
fn pieces(machine: &Machine, tasks: &[(u64, u64)]) -> Vec<Piece> {
    let mut done = alloc::vec![0; tasks.len()];
    let mut pieces: Vec<Piece> = Vec::new();
    for (now, row) in (0..).zip(&machine.trace) {
        for (core, running) in row.iter().enumerate() {
            let Some((vcpu, _)) = *running else { continue };
            let service: &mut u64 = &mut done[vcpu as usize];
            let job = *service / tasks[vcpu as usize].0;
            *service += 1;
            let grown = |piece: &&mut Piece| {
                (piece.vcpu, piece.job, piece.core, piece.to) == (vcpu, job, core, now)
            };
            match pieces.iter_mut().find(grown) {
                Some(piece) => piece.to += 1,
                None => pieces.push(Piece { vcpu, job, core, from: now, to: now + 1 }),
            }
        }
    }
    pieces
}

/// Preemptions, and those of them that are migrations.
fn interruptions(pieces: &[Piece]) -> (usize, usize) {
    let (mut preemptions, mut migrations) = (0, 0);
    for (at, piece) in pieces.iter().enumerate() {
        let same = |other: &&Piece| (other.vcpu, other.job) == (piece.vcpu, piece.job);
        if let Some(before) = pieces[..at].iter().rfind(same) {
            preemptions += 1;
            migrations += usize::from(before.core != piece.core);
        }
    }
    (preemptions, migrations)
}

fn scaled(vector: &Vector) -> Vec<(u64, u64)> {
    vector.tasks.iter().map(|(c, t)| (c * vector.scale, t * vector.scale)).collect()
}

#[test]
fn the_trees_of_vectors_a1_to_a5() {
    for vector in VECTORS {
        let system = system(vector.cores, &scaled(vector));
        let tree = run_tree(&system, &with(&[("packing", vector.packing)])).unwrap();
        let trees: Vec<String> = tree.subsystems.iter().map(|one| text(&one.root)).collect();
        assert_eq!(trees, vector.trees, "{}", vector.name);
        assert_eq!(tree.depth(), vector.depth, "{}", vector.name);
        let cores: usize = tree.subsystems.iter().map(|one| one.cores.len()).sum();
        assert_eq!(cores, vector.cores, "{}", vector.name);
    }
}

/// Idle time goes to the largest server first: so the first task gets a core for itself.
#[test]
fn idle_time_makes_unit_servers() {
    let tree = run_tree(&system(3, &[(9, 10), (6, 10), (6, 10), (6, 10)]), &with(&[])).unwrap();
    let trees: Vec<String> = tree.subsystems.iter().map(|one| text(&one.root)).collect();
    let rest = "1(2/5*(3/5(t2)) 2/5*(3/5(t3)) 1/5*(4/5(t1)))";
    assert_eq!(trees, ["1(t0)", rest]);
}

#[test]
fn the_schedules_of_vectors_a1_to_a5() {
    for vector in VECTORS {
        let (tasks, until) = (scaled(vector), vector.until * vector.scale);
        let params = [("packing", vector.packing)];
        let machine = periodic(&ENTRY, &params, vector.cores, &tasks, until);
        let pieces = pieces(&machine, &tasks);
        for (core, expected) in vector.schedule.iter().enumerate() {
            let own = pieces.iter().filter(|piece| piece.core == core);
            let words = own.map(|p| format!("t{}.{} {}-{}", p.vcpu, p.job, p.from, p.to));
            let words: Vec<String> = words.collect();
            assert_eq!(words.join(", "), *expected, "{} core{core}", vector.name);
        }
        let counted = (vector.preemptions, vector.migrations);
        assert_eq!(interruptions(&pieces), counted, "{}", vector.name);
        assert!(machine.models.iter().all(|model| model.misses == 0), "{}", vector.name);
    }
}

#[test]
fn a_set_that_packs_runs_as_under_partitioned_edf() {
    let set = [(1, 2), (1, 3), (1, 6), (2, 4), (3, 6)];
    let reduced = periodic(&ENTRY, &[], 2, &set, 48);
    let partitioned = periodic(crate::find("p-edf").unwrap(), &[], 2, &set, 48);
    assert_eq!([0, 1].map(|core| reduced.schedule(core)), [0, 1].map(|c| partitioned.schedule(c)));
}

/// Vector A5 at one tick a unit: budgets are halves of a tick.
#[test]
fn budgets_of_parts_of_a_tick_are_refused_or_tolerated() {
    let fine = system(2, &[(2, 3), (2, 4), (4, 6), (1, 6)]);
    let verdict = (ENTRY.admit)(&fine, &with(&[]));
    let text = verdict.refused[0].1.to_string();
    assert!(text.contains("vcpu3 does not fit"), "{text}");
    assert!(text.contains("scale time by 2 (") && text.contains("tolerate"), "{text}");
    let tolerant = [("rounding", "tolerate")];
    assert!((ENTRY.admit)(&fine, &with(&tolerant)).accepted());
    let tasks = [(2, 3), (2, 4), (4, 6), (1, 6)];
    let machine = periodic(&ENTRY, &tolerant, 2, &tasks, 1200);
    let statistic = |name, value| Statistic { name, core: None, vcpu: None, value };
    let statistics = machine.policy.statistics();
    assert_eq!(statistics[0], statistic("levels", 1));
    assert_eq!(statistics[2], statistic("rounding ticks", 9));
    // Every job is done in the end: no drift.
    for (model, (_, period)) in machine.models.iter().zip(tasks) {
        assert!(model.finished.len() as u64 >= 1200 / period - 2, "{:?}", model.finished.len());
    }
}

/// A thousand ticks for a unit of A5 and a little idle time: time is reserved, and nothing is late.
#[test]
fn idle_time_makes_up_for_rounding() {
    let set = [(2000, 3001), (2000, 4003), (4000, 6007), (920, 6011)];
    let tree = run_tree(&system(2, &set), &with(&[])).unwrap();
    assert_eq!(tree.depth(), 1);
    for leaf in &tree.subsystems[0].root.children {
        let rate = leaf.children[0].rate;
        assert!(!3001u64.is_multiple_of(rate.den()), "{rate} is exact");
    }
    let machine = periodic(&ENTRY, &[], 2, &set, 60_000);
    assert!(machine.models.iter().all(|model| model.misses == 0 && !model.finished.is_empty()));
    let late = Statistic { name: "rounding ticks", core: None, vcpu: None, value: 0 };
    assert_eq!(machine.policy.statistics()[2], late);
}

#[test]
fn what_run_cannot_do_is_refused_with_numbers_and_the_way_out() {
    let thousands = [(2_000_001, 3_000_000), (2_000_000, 3_000_000), (1_999_999, 3_000_000)];
    let mut sporadic = system(2, &thousands);
    sporadic.vcpus[1].arrival = Arrival::Sporadic;
    let verdict = (ENTRY.admit)(&sporadic, &with(&[("rounding", "tolerate")]));
    let text = verdict.refused[0].1.to_string();
    assert!(text.contains("such as vcpu1") && text.contains("dp-wrap"), "{text}");
    assert!(run_tree(&sporadic, &with(&[])).is_err());

    let mut constrained = system(2, &[(1, 4)]);
    constrained.vcpus[0].reservation.deadline = ticks(3);
    let verdict = (ENTRY.admit)(&constrained, &with(&[]));
    let text = verdict.refused[0].1.to_string();
    assert!(text.contains("D = 3ns") && text.contains("T = 4ns"), "{text}");

    let full = system(2, &[(3, 4), (3, 4), (3, 4)]);
    let text = (ENTRY.admit)(&full, &with(&[])).refused[0].1.to_string();
    assert!(text.contains("capacity: 2.250000 of 2.000000 (refused)"), "{text}");
    assert!(!text.contains("gfb"), "{text}");
}

/// Three sporadic tasks of nearly two thirds on two cores: the longest windows that are short
/// enough are taken, and on full cores those of a tick.
#[test]
fn sporadic_tasks_have_windows() {
    let of = |budget: u64, period: u64| {
        let mut system = system(2, &[(budget, period); 3]);
        system.vcpus.iter_mut().for_each(|vcpu| vcpu.arrival = Arrival::Sporadic);
        let reduction = super::reduce::best(&system, crate::parts::pack::Fit::First).unwrap();
        (reduction.tasks[0].window.unwrap(), reduction.tolerance)
    };
    // C in the period less one window less a tick is to be within two thirds.
    assert_eq!(of(510_000, 1_000_000), (125_000, ticks(0)));
    assert_eq!(of(600_000, 1_000_000), (62_500, ticks(0)));
    assert_eq!(of(666_000, 1_000_000), (976, ticks(0)));
    let (window, tolerance) = of(2, 3);
    assert!(window == 1 && !tolerance.is_zero());
}

/// A sporadic task with a core to itself, or beside others of one core, waits for no window.
#[test]
fn on_a_core_of_its_own_a_sporadic_task_runs_at_once() {
    let mut system = system(2, &[(3, 6), (3, 6), (4, 6)]);
    system.vcpus[1].arrival = Arrival::Sporadic;
    let mut machine = Machine::new(&ENTRY, &with(&[]), &system, Manners::PERFECT);
    machine.release(0, 3, 6);
    for now in 0..6 {
        if now == 1 {
            machine.release(1, 3, 7);
        }
        machine.tick();
    }
    let both: Vec<_> = (0..2).map(|core| machine.schedule(core)).collect();
    assert!(both.contains(&"aaabbb".to_string()), "{both:?}");
}

#[test]
fn nothing_comes_or_changes_at_run_time() {
    let mut machine = periodic(&ENTRY, &[], 2, &[(1, 4), (1, 5)], 0);
    machine.arrive(Vcpu::new(2, ticks(1), ticks(10)).periodic());
    machine.tell(CoreId(0), Event::Changed(Vcpu::new(1, ticks(2), ticks(5)).periodic()));
    machine.tick();
    let answers: Vec<_> = machine.answers.iter().map(|(vcpu, answer)| (vcpu.0, answer)).collect();
    for (vcpu, answer) in answers {
        let reason = &answer.as_ref().unwrap_err().reason;
        assert!(reason.contains(&format!("vcpu{vcpu}")) && reason.contains("g-edf"), "{reason}");
    }
    assert_eq!(machine.answers.len(), 2);
}

/// Where a core may be used to nine tenths, each task is served as if it asked for a ninth more.
#[test]
fn the_capacity_of_a_core_scales_every_rate() {
    let mut live = system(2, &[(6_000, 10_000), (6_000, 10_000), (6_000, 10_000)]);
    live.capacity = Rate::new(9, 10);
    let tree = run_tree(&live, &with(&[])).unwrap();
    assert_eq!(text(&tree.subsystems[0].root), "1(1/3*(2/3(t0)) 1/3*(2/3(t1)) 1/3*(2/3(t2)))");
    live.vcpus[0].reservation.budget = ticks(6_001);
    let refused = (ENTRY.admit)(&live, &with(&[])).refused;
    assert!(refused[0].1.to_string().contains("of 1.800000 (refused)"), "{refused:?}");
    let mut heavy = system(1, &[(19, 20)]);
    heavy.capacity = Rate::new(9, 10);
    let text = (ENTRY.admit)(&heavy, &with(&[])).refused[0].1.to_string();
    assert!(text.contains("19/20") && text.contains("9/10"), "{text}");
}

/// A job of 3 where C = 1 shares a server with one that needs all the rest, and then with one that
/// leaves time idle.
#[test]
fn an_overrun_harms_no_other_task() {
    let misses = |enforcement: &str, rest: u64| {
        let system = system(1, &[(1, 4), (3, 4)]);
        let params = with(&[("enforcement", enforcement)]);
        let mut machine = Machine::new(&ENTRY, &params, &system, Manners::PERFECT);
        for now in 0..40 {
            if now % 4 == 0 {
                machine.release(0, if now == 8 { 3 } else { 1 }, now + 4);
                machine.release(1, rest, now + 4);
            }
            machine.tick();
        }
        [0, 1].map(|vcpu| machine.models[vcpu].misses)
    };
    let [own, other] = misses("surplus", 3);
    assert!(own > 0 && other == 0, "{own}, {other}");
    assert_eq!(misses("surplus", 3), misses("precise", 3));
    assert!(misses("none", 3)[1] > 0);
    // Idle time takes up the overrun at once.
    assert_eq!(misses("surplus", 1), [0, 0]);
    assert!(misses("precise", 1)[0] > 0 && misses("precise", 1)[1] == 0);
}

/// A job that was cut goes on by the deadline of the job whose budget it uses. What is left of
/// that after its own budget is seen only when its segment ends: so much it may harm others once.
#[test]
fn a_single_overrun_harms_others_once_at_most() {
    let set = [(10, 20), (4, 8)];
    let system = system(1, &set);
    let mut machine =
        Machine::new(&ENTRY, &with(&[("enforcement", "precise")]), &system, Manners::PERFECT);
    for now in 0..400 {
        if now % 20 == 0 {
            machine.release(0, if now == 0 { 20 } else { 10 }, now + 20);
        }
        if now % 8 == 0 {
            machine.release(1, 4, now + 8);
        }
        machine.tick();
    }
    let [own, other] = [0, 1].map(|vcpu| machine.models[vcpu].misses);
    assert!(own > 0 && other <= 1, "{own}, {other}");
}

/// Decisions that come late shift the schedule and lose no time.
#[test]
fn late_decisions_lose_no_budget() {
    let set = [(20, 30), (20, 30), (20, 30)];
    let system = system(2, &set);
    let manners = Manners { silent: 3, late: 3, ..Manners::PERFECT };
    let mut machine = Machine::new(&ENTRY, &with(&[]), &system, manners);
    for now in 0..3_000 {
        if now % 30 == 0 {
            (0..3).for_each(|id| machine.release(id, 20, now + 30));
        }
        machine.tick();
    }
    // A hundred jobs each were released; the last few may be under way.
    for model in &machine.models {
        assert!(model.finished.len() >= 97, "{} jobs finished", model.finished.len());
    }
}

#[test]
fn a_task_that_leaves_leaves_its_time_idle() {
    let set = [(2, 3), (2, 3), (2, 3)];
    let mut machine = periodic(&ENTRY, &[], 2, &set, 3);
    machine.remove(1);
    for now in 3..30 {
        if now % 3 == 0 {
            machine.release(0, 2, now + 3);
            machine.release(2, 2, now + 3);
        }
        machine.tick();
    }
    assert!([0, 2].iter().all(|vcpu| machine.models[*vcpu].misses == 0));
    assert_eq!(machine.models[2].finished.len(), 10);
}

/// Whatever comes late, is reported twice or overruns: the assertions beside the policy's state
/// hold.
#[test]
fn reduced_sets_on_a_hostile_machine() {
    let mut reduced = 0;
    for seed in 0..150 {
        let mut rng = Rng(seed);
        let (cores, set) = random_set(&mut rng, 5);
        let packing = ["ffd", "bfd", "wfd"][seed as usize % 3];
        let enforcement = ["surplus", "precise", "none"][rng.below(3) as usize];
        let given = [("packing", packing), ("rounding", "tolerate"), ("enforcement", enforcement)];
        let system = system(cores, &set);
        reduced += u64::from(run_tree(&system, &with(&given)).unwrap().depth() > 0);
        let mut machine = Machine::new(&ENTRY, &with(&given), &system, Manners::HOSTILE);
        machine.rng = Rng(seed ^ 0x5eed);
        let mut gone = alloc::vec![false; set.len()];
        for now in 0..HYPERPERIOD {
            for (id, (c, t)) in set.iter().enumerate().filter(|(id, _)| !gone[*id]) {
                if now.is_multiple_of(*t) {
                    machine.release(id as u32, 1 + rng.below(c + 1), now + t);
                }
            }
            let leaver = rng.below(40 * set.len() as u64) as usize;
            if let Some(gone) = gone.get_mut(leaver).filter(|gone| !**gone) {
                *gone = true;
                machine.remove(leaver as u32);
            }
            machine.tick();
        }
    }
    assert!(reduced > 50, "only {reduced} sets were reduced");
}

/// Rules for cores: what stays selected stays; what comes back gets the core that it had, unless
/// one that stayed, or another that had it, is there. Each of these tasks has a server of its own.
#[test]
fn servers_keep_their_cores_and_come_back_to_them() {
    let set = [(5, 8), (10, 16), (15, 24), (20, 32), (5, 8), (10, 16), (15, 24), (20, 32)];
    let machine = periodic(&ENTRY, &[], 5, &set, 960);
    let mut last = [None; 8];
    let mut came_back = 0;
    for rows in machine.trace.windows(2) {
        let runs = |row: usize, core: usize| rows[row][core].map(|(vcpu, _)| vcpu as usize);
        for core in 0..5 {
            last[runs(0, core).unwrap()] = Some(core);
        }
        for core in 0..5 {
            let vcpu = runs(1, core).unwrap();
            match last[vcpu] {
                Some(had) if had == core => came_back += usize::from(runs(0, core) != Some(vcpu)),
                Some(had) => {
                    let there = runs(1, had).unwrap();
                    assert!(last[there] == Some(had), "vcpu{vcpu} is on {core}, not {had}");
                }
                None => {}
            }
        }
    }
    assert!(came_back > 0);
}
