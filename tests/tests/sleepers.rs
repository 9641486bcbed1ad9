//! The verdict on programs that sleep: what a sporadic server gives them from each wake on is kept,
//! however their blocks split its budget, and so it is where that changes.

use maracas_core::journal::Header;
use maracas_core::params::{Params, Value};
use maracas_core::{Cost, Duration, Instant, Program, Reservation, System, Vcpu, VcpuId, Workload};
use maracas_sim::{Change, Options, run_changing};
use maracas_tests::Dice;
use maracas_trace::{Metrics, Report};

/// Two to five VCPUs on one core, each of which is always ready or sleeps now and then, for up to
/// two of its periods.
fn drawn(dice: &mut Dice) -> (System, Vec<Program>) {
    let count = dice.between(2, 5);
    let ticks = Duration::from_ticks;
    let vcpu = |id: u64| {
        let period = dice.between(1_000, 20_000);
        let budget = dice.between(period / 50, period * 9 / (10 * count));
        Vcpu::new(id as u32, ticks(budget), ticks(period))
    };
    let vcpus: Vec<Vcpu> = (0..count).map(vcpu).collect();
    let program = |vcpu: &Vcpu| {
        let (budget, period) = (vcpu.reservation.budget, vcpu.reservation.period);
        let most = if dice.one_in(2) { budget * 2 } else { period * 8 };
        let workload = Workload::RunSleep {
            run: Cost::Uniform(ticks(1), most),
            sleep: Cost::Uniform(ticks(1), period * 2),
        };
        Program::new(vcpu.id, if dice.one_in(3) { Workload::Busy } else { workload })
    };
    let programs = vcpus.iter().map(program).collect();
    (System::new(1, vcpus), programs)
}

/// What changes meanwhile.
#[derive(Clone, Copy)]
enum Changing {
    Nothing,
    Budgets,
    Periods,
}

const UNTIL: u64 = 2_000_000;

/// They ask for another budget than they have, up to four times, whether it is granted or not;
/// where `periods` for other periods too.
fn changes(dice: &mut Dice, system: &System, periods: bool) -> Vec<Change> {
    let mut changes = Vec::new();
    for vcpu in &system.vcpus {
        for _ in 0..dice.between(0, 4) {
            let most = vcpu.reservation.budget.ticks() * 5 / 4;
            let budget = Duration::from_ticks(dice.between(most / 10, most));
            let mut reservation = Reservation { budget, ..vcpu.reservation };
            if periods {
                let period = vcpu.reservation.period;
                let period = dice.between(budget.ticks().max(period.ticks() / 8), period.ticks());
                let period = Duration::from_ticks(period);
                reservation = Reservation { budget, deadline: period, period };
            }
            // Often before the one before has set in, or just after.
            let soon = vcpu.reservation.period.ticks() * 2;
            let before = changes.last().filter(|last: &&Change| last.vcpu == vcpu.id);
            let at = match before.filter(|_| dice.one_in(2)) {
                Some(last) => last.at.ticks() + dice.between(0, soon),
                None => dice.between(0, UNTIL),
            };
            let at = Instant::from_ticks(at.min(UNTIL));
            changes.push(Change { at, vcpu: vcpu.id, reservation, cost: Cost::Fixed(budget) });
        }
    }
    changes
}

/// What is found of them; `None` where they are not admitted.
fn found(seed: u64, changing: Changing) -> Option<Report> {
    let mut dice = Dice::new(seed);
    let (system, programs) = drawn(&mut dice);
    let changes = match changing {
        Changing::Nothing => Vec::new(),
        Changing::Budgets => changes(&mut dice, &system, false),
        Changing::Periods => changes(&mut dice, &system, true),
    };
    played(&system, &programs, &changes, seed, Instant::from_ticks(UNTIL))
}

/// What is found of a run under `maracas`; `None` where it does not admit the system.
fn played(
    system: &System,
    programs: &[Program],
    changes: &[Change],
    seed: u64,
    until: Instant,
) -> Option<Report> {
    let entry = maracas_policies::find("maracas").expect("maracas is registered");
    let mut params = Params::new();
    params.set("admission", Value::Text("rta".into()));
    let mut policy = (entry.build)(system, &params).ok()?;
    let mut metrics = Metrics::new(&Header {
        policy: "maracas".into(),
        params,
        system: system.clone(),
        names: Vec::new(),
        machine: "sim".into(),
        version: String::new(),
        seed,
    });
    let options = Options { audit: true, seed, ..Options::new(until) };
    run_changing(system, programs, changes, &mut *policy, &options, &mut metrics);
    Some(metrics.report(until))
}

/// How many of all VCPUs of a thousand sets have a period that is off by a tick or more.
fn off(changing: Changing) -> u64 {
    let (mut judged, mut left_out, mut off) = (0, 0, 0);
    for seed in 0..1_000 {
        let Some(report) = found(seed, changing) else { continue };
        for task in &report.tasks {
            let verdict = &task.verdict;
            let found = (verdict.short, verdict.over, task.delivered.error_max_ns.unwrap_or(0));
            off += u64::from(found != (0, 0, 0));
            judged += verdict.judged;
            left_out += task.delivered.periods_without_demand;
        }
    }
    assert!(judged > 100_000 && left_out > 100_000, "{judged} judged, {left_out} left out");
    off
}

#[test]
fn what_sleeps_has_its_budget_from_each_wake_on() {
    assert_eq!(off(Changing::Nothing), 0);
}

#[test]
fn what_changes_has_its_new_budget_from_then_on() {
    assert_eq!(off(Changing::Budgets), 0);
}

#[test]
fn what_has_another_period_has_its_budget_in_that() {
    assert_eq!(off(Changing::Periods), 0);
}

/// A period half as long sets in while all of the budget is used: it comes back when it would have,
/// and what is used by then of what the VCPU kept does so every new period.
#[test]
fn what_a_shorter_period_holds_back_is_in_none_of_its_periods() {
    let ticks = Duration::from_ticks;
    let vcpu = |id, budget, period| Vcpu::new(id, ticks(budget), ticks(period));
    let system = System::new(1, vec![vcpu(0, 2_000, 4_000), vcpu(1, 2_000, 10_000)]);
    let programs = [0, 1].map(|id| Program::new(VcpuId(id), Workload::Busy));
    let reservation = vcpu(1, 2_000, 5_000).reservation;
    let at = Instant::from_ticks(2_000);
    let change = Change { at, vcpu: VcpuId(1), reservation, cost: Cost::Fixed(ticks(2_000)) };
    judged_well(&system, &programs, change);
}

/// What comes back before what it may use is over is one with that, as where C = T.
#[test]
fn what_has_all_of_a_core_has_its_smaller_budget_at_once() {
    let ticks = Duration::from_ticks;
    let system = System::new(1, vec![Vcpu::new(0, ticks(10_000), ticks(10_000))]);
    let reservation = Vcpu::new(0, ticks(4_000), ticks(10_000)).reservation;
    let at = Instant::from_ticks(5_000);
    let change = Change { at, vcpu: VcpuId(0), reservation, cost: Cost::Fixed(ticks(4_000)) };
    judged_well(&system, &[Program::new(VcpuId(0), Workload::Busy)], change);
}

/// No period is off, of whatever VCPU, beside this change.
fn judged_well(system: &System, programs: &[Program], change: Change) {
    let report = played(system, programs, &[change], 1, Instant::from_ticks(300_000));
    let report = report.expect("all fit");
    for task in &report.tasks {
        let verdict = &task.verdict;
        let found = (verdict.short, verdict.over, task.delivered.error_max_ns);
        assert_eq!(found, (0, 0, Some(0)), "{}", task.name);
        assert!(verdict.judged > 20, "{}: {} judged", task.name, verdict.judged);
    }
}
