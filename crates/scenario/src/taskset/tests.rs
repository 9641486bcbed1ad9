use super::*;
use maracas_core::Rate;
use maracas_core::VcpuId;

const US: u64 = 1_000;

fn task(id: u32, budget: u64, period: u64, deadline: u64, offset: u64) -> Vcpu {
    let time = Duration::from_nanos;
    let mut vcpu = Vcpu::new(id, time(budget), time(period));
    vcpu.reservation.deadline = time(deadline);
    vcpu.arrival = Arrival::Periodic { offset: time(offset) };
    vcpu
}

fn sporadic(id: u32, budget: u64, period: u64) -> Vcpu {
    let mut vcpu = task(id, budget, period, period, 0);
    vcpu.arrival = Arrival::Sporadic;
    vcpu
}

#[test]
fn columns_stand_in_any_order_and_spaces_comments_and_line_ends_do_not_matter() {
    let mut expected = TaskSet {
        tasks: vec![
            task(0, 2000 * US, 10_000 * US, 8000 * US, 0),
            task(1, 333_333, 1000 * US, 1000 * US, 1),
        ],
        ..TaskSet::default()
    };
    let text = "cost_us,period_us,deadline_us,offset_us\n2000,10000,8000,0\n\
                333.333,1000,,0.001\n";
    assert_eq!(TaskSet::parse(text, "x"), Ok(expected.clone()));
    let text = "\u{feff}# head\r\n\r\n offset_us ,deadline_us, cost_us,\tperiod_us # x\r\n\
                ,8000, 2000, 10000\r\n   \n0.001,,333.333,1000#,7";
    expected.origin = vec!["head".into()];
    assert_eq!(TaskSet::parse(text, "x"), Ok(expected));
}

#[test]
fn what_is_written_is_read_back() {
    let tasks = (0..200u32).map(|id| {
        let n = u64::from(id) * 7919 + 1;
        if id % 3 == 0 {
            sporadic(id, n, n * 1001)
        } else {
            task(id, n, n * 1001, n * 1000, n % 17 * 50)
        }
    });
    let mut set = TaskSet { tasks: tasks.collect(), ..TaskSet::default() };
    assert_eq!(TaskSet::parse(&set.to_string(), "x"), Ok(set.clone()));
    set.names = (0..200).map(|id| format!("a b-{id}")).collect();
    set.origin = ["version 1, seed 7", "", "  # harmonic, 10ms..100ms"].map(String::from).into();
    assert_eq!(TaskSet::parse(&set.to_string(), "x"), Ok(set));
}

#[test]
fn names_that_say_nothing_are_none() {
    let set = TaskSet::parse("name,cost_us,period_us\n,1,2\nb,1,2\n", "x").unwrap();
    assert_eq!((set.names.len(), set.names()), (2, vec!["task1".to_owned(), "b".to_owned()]));
    let set = TaskSet::parse("name,cost_us,period_us\ntask1,1,2\n,1,2\n", "x").unwrap();
    assert!(set.names.is_empty());
    assert_eq!(set.names(), ["task1", "task2"]);
}

#[test]
fn a_table_has_so_many_tasks_at_most() {
    let rows = |count: usize| format!("cost_us,period_us\n{}", "1,2\n".repeat(count));
    assert_eq!(TaskSet::parse(&rows(100_000), "x").unwrap().tasks.len(), 100_000);
    let refused = TaskSet::parse(&rows(100_001), "x").unwrap_err().to_string();
    assert_eq!(refused, "x:100002:1: more than 100000 tasks; split the file");
}

#[test]
fn tasks_cost_their_budget() {
    let set = TaskSet::parse("period_us,cost_us,jobs\n10,2,\n20,5,sporadic\n", "x").unwrap();
    let system = set.system(3);
    assert_eq!((system.cores.len(), system.vcpus.len()), (3, 2));
    assert_eq!(system.vcpus[1].arrival, Arrival::Sporadic);
    let cost = Cost::Fixed(Duration::from_micros(5));
    assert_eq!(set.programs()[1], Program::new(VcpuId(1), Workload::Periodic { cost }));
    assert!(TaskSet::read("no/such.csv").is_err_and(|error| error.line == 0));
}

/// The least scale by trying all of them: every density of the set times its least window.
fn tried(tasks: &[Vcpu], window: u64) -> u64 {
    let whole = |scale: u64, task: &Vcpu| {
        let share = Rate::of(task.reservation.budget, task.reservation.deadline);
        (scale * window * share.num()).is_multiple_of(share.den())
    };
    (1..).find(|scale| tasks.iter().all(|task| whole(*scale, task))).unwrap()
}

#[test]
fn the_exact_scale_makes_every_share_of_every_window_whole() {
    const MS: u64 = 1_000_000;
    let of = |tasks: &[Vcpu]| TaskSet { tasks: tasks.into(), ..TaskSet::default() }.exact_scale();
    // Windows are multiples of 3 ms: 2/3 of them is whole.
    assert_eq!(of(&[task(0, 2 * MS, 3 * MS, 3 * MS, 0)]), Some(1));
    // With 4 ms beside it they are multiples of 1 ms, and 2/3 of that is no whole nanosecond.
    let two = [task(0, 2 * MS, 3 * MS, 3 * MS, 0), task(1, 3 * MS, 4 * MS, 4 * MS, 0)];
    assert_eq!((of(&two), tried(&two, MS)), (Some(3), 3));
    let odd = [
        task(0, 2 * MS, 3 * MS, 3 * MS, 0),
        task(1, 3 * MS, 7 * MS, 5 * MS, 0),
        task(2, MS, 11 * MS, 11 * MS, MS / 10),
    ];
    assert_eq!((of(&odd), tried(&odd, MS / 10)), (Some(33), 33));
    // Sporadic jobs come at any nanosecond.
    let any = [sporadic(0, 2 * MS, 3 * MS)];
    assert_eq!((of(&any), tried(&any, 1)), (Some(3), 3));
    let primes = [4_294_967_291u64, 4_294_967_279, 4_294_967_231];
    let huge: Vec<Vcpu> = (0..).zip(primes).map(|(id, p)| task(id, p - 1, p, p, 0)).collect();
    assert_eq!(of(&huge), None, "three primes near 2^32 make 96 bits");
}
