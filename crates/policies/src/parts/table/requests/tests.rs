use super::*;
use crate::parts::pack;
use crate::parts::table::Test;
use maracas_core::params::Params;
use maracas_core::{Duration, Rate, System};

fn at(ticks: u64) -> Instant {
    Instant::from_ticks(ticks)
}
fn task(id: u32, budget: u64, period: u64) -> Vcpu {
    Vcpu::new(id, Duration::from_ticks(budget), Duration::from_ticks(period)).periodic()
}
fn due(until: u64) -> Use {
    Use { until: at(until), at_rest: false }
}
/// One core with these tasks.
fn table(family: Family, test: Test, tasks: &[(u64, u64)]) -> Table {
    let tasks = (0..).zip(tasks).map(|(id, (budget, period))| task(id, *budget, *period));
    let mut system = System::new(1, tasks.collect());
    system.capacity = Rate::ONE;
    let mut table = Table::new(&system, family, test, pack::chosen(&Params::new()));
    assert!(table.fill(&system, true).accepted());
    table
}
fn answers(table: &mut Table) -> Vec<(u32, bool)> {
    let mut plan = maracas_core::Plan::new(1);
    table.reply(&mut plan);
    plan.verdicts().iter().map(|(vcpu, verdict)| (vcpu.0, verdict.is_ok())).collect()
}
fn change(table: &mut Table, now: u64, vcpu: &Vcpu, used: Use) -> bool {
    table.ask(vcpu, at(now));
    !table.retry(at(now), |_, _| used).is_empty()
}
fn retry(table: &mut Table, now: u64, used: Use) -> Vec<u32> {
    table.retry(at(now), |_, _| used).iter().map(|granted| granted.vcpu.id.0).collect()
}

#[test]
fn a_newcomer_waits_for_the_deadline_of_what_left() {
    let mut table = table(Family::Edf, Test::Edf, &[(5, 10), (5, 10)]);
    table.leave(VcpuId(0), at(5), due(10));
    // What never fits is refused at once.
    assert_eq!(table.arrive(&task(2, 9, 10), at(5)), None);
    assert_eq!(answers(&mut table), [(2, false)]);
    assert_eq!(table.arrive(&task(3, 2, 4), at(5)), None);
    assert_eq!(answers(&mut table), []);
    assert_eq!(table.next(), at(10));
    assert!(retry(&mut table, 9, due(0)).is_empty());
    assert_eq!(retry(&mut table, 10, due(0)), [3]);
    assert_eq!(answers(&mut table), [(3, true)]);
    assert!(table.is_settled());
}

#[test]
fn what_a_smaller_reservation_gives_up_is_free_at_the_deadline() {
    let mut table = table(Family::Edf, Test::Edf, &[(5, 10), (5, 10)]);
    assert!(change(&mut table, 5, &task(0, 2, 10), due(10)));
    assert_eq!(table.arrive(&task(2, 3, 10), at(6)), None);
    assert!(retry(&mut table, 9, due(10)).is_empty());
    // A VCPU that has just left holds what it had before the change.
    table.leave(VcpuId(0), at(9), due(10));
    assert_eq!(table.arrive(&task(3, 2, 10), at(9)), None);
    assert_eq!(retry(&mut table, 10, due(10)), [2, 3]);
}

#[test]
fn under_fixed_priorities_a_newcomer_waits_for_a_rest_or_the_longest_period() {
    let full = &[(2, 4), (2, 8), (4, 16)];
    for rests in [false, true] {
        let mut table = table(Family::FixedPriority, Test::Rta, full);
        table.leave(VcpuId(0), at(3), Use::NONE);
        assert_eq!(table.arrive(&task(3, 4, 8), at(3)), None);
        if rests {
            table.rest(CoreId(0), at(6));
            assert_eq!(retry(&mut table, 6, due(0)), [3]);
        }
        assert!(retry(&mut table, 18, due(0)).is_empty());
        assert_eq!(retry(&mut table, 19, due(0)).len(), usize::from(!rests));
    }
}

#[test]
fn a_change_of_order_waits_for_a_rest_and_is_refused_without() {
    let mut table = table(Family::FixedPriority, Test::Rta, &[(1, 4), (2, 8)]);
    assert!(change(&mut table, 1, &task(0, 2, 4), due(1)));
    assert!(!change(&mut table, 1, &task(0, 2, 10), due(1)));
    assert_eq!(answers(&mut table), [(0, true)]);
    assert!(retry(&mut table, 20, due(0)).is_empty());
    assert_eq!(retry(&mut table, 20, Use { until: at(20), at_rest: true }), [0]);
    assert!(!change(&mut table, 21, &task(0, 2, 4), due(1)));
    assert_eq!(answers(&mut table), [(0, true)]);
    assert!(retry(&mut table, 41, due(0)).is_empty());
    assert_eq!(answers(&mut table), [(0, false)]);
    assert!(table.is_settled());
}

#[test]
fn what_leaves_while_it_waits_is_forgotten() {
    let mut table = table(Family::Edf, Test::Edf, &[(9, 10)]);
    table.leave(VcpuId(0), at(1), due(10));
    assert_eq!(table.arrive(&task(1, 5, 10), at(1)), None);
    assert_eq!(table.arrive(&task(1, 5, 10), at(1)), None);
    assert_eq!(answers(&mut table), [(1, false)]);
    table.leave(VcpuId(1), at(2), Use::NONE);
    assert!(retry(&mut table, 10, due(0)).is_empty() && answers(&mut table).is_empty());
}
