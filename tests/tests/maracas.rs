//! What MARACAS promises while memory is contended and VCPUs move: budgets, even surplus time.

use maracas_core::contract::{Mode, Observer, ServiceRequest, Statistic};
use maracas_core::params::Value;
use maracas_core::{Arrival, CoreId, Duration, Event, Instant, Plan, Role, VcpuId, Workload};
use maracas_tests::{Case, Dice, Mix};

/// Systems of VCPUs that are always runnable, on random memories; some leave, where `leave`.
fn busy(seed: u64, params: &[(&str, &str)], leave: bool) -> Case {
    let entry = maracas_policies::find("maracas").expect("maracas is registered");
    // Exact response times admit what leaves no slack at all.
    let exact = seed % 2 == 1;
    let mut case = Case::with_memory(entry, seed, Mix::programs(if exact { 90 } else { 55 }));
    let mut dice = Dice::new(seed);
    let unit = case.random.system.vcpus.iter().map(|vcpu| vcpu.reservation.period).min();
    let unit = unit.unwrap_or(Duration::from_ticks(1));
    for vcpu in &mut case.random.system.vcpus {
        (vcpu.arrival, vcpu.role, vcpu.colors) = (Arrival::None, Role::Main, 0);
    }
    for program in &mut case.random.programs {
        program.workload = Workload::Busy;
        if leave && dice.one_in(2) {
            program.depart = Instant::from_ticks(dice.between(1, case.until.ticks()));
        }
    }
    for (name, value) in params {
        case.params.set(name, Value::Text((*value).into()));
    }
    case.params.set("admission", Value::Text(if exact { "rta" } else { "ll" }.into()));
    let part = |of: u64| Value::Text(format!("{}ns", (unit.ticks() / of).max(1)));
    case.params.set("mem_period", part(1));
    case.params.set("monitor_budget", part(50));
    for name in ["lock_cost", "struct_cost", "page_cost"] {
        case.params.set(name, part(400));
    }
    case.params.set("pages_max", Value::Whole(1));
    case.params.set("migration_period", part(1));
    case.params.set("max_latency", Value::Whole(dice.pick(&[1, 100, 200])));
    case
}

/// Foreground service of each VCPU up to the end of each of its periods, and when it moved.
struct Budgets {
    periods: Vec<Duration>,
    service: Vec<Vec<Duration>>,
    moves: Vec<u64>,
    homes: Vec<Option<CoreId>>,
}

impl Observer for Budgets {
    fn event(&mut self, _: Instant, event: &Event) {
        let Event::Ran(segment) = event else { return };
        if segment.mode == Mode::Background {
            return;
        }
        let vcpu = segment.vcpu.0 as usize;
        let (period, periods) = (self.periods[vcpu].ticks(), &mut self.service[vcpu]);
        let (mut from, to) = (segment.from.ticks(), segment.to.ticks());
        while from < to {
            let number = (from / period) as usize;
            let end = to.min((number as u64 + 1) * period);
            periods.resize(periods.len().max(number + 1), Duration::ZERO);
            periods[number] += Duration::from_ticks(end - from);
            from = end;
        }
    }
    fn planned(&mut self, _: Instant, plan: &Plan) {
        for vcpu in plan.rehomed() {
            let (id, home) = (vcpu.0 as usize, plan.home(*vcpu));
            let moved = self.homes[id].is_some() && home.is_some();
            self.moves[id] += u64::from(moved);
            self.homes[id] = home;
        }
    }
}

/// algorithms.md G.4, 1 and 5: throttling takes nothing from a budget, and a migration delays it by
/// a period at most.
///
/// The invariant says "in each of its periods". A VCPU that moves with budget at hand has its
/// periods counted from then on (row 13 of G.3), so what holds by the old count is: up to the end
/// of period k it got C (k - m), where m are the moves that came while it waited with budget.
#[test]
fn budgets_are_whole_while_cores_are_throttled_and_vcpus_move() {
    let (mut accepted, mut moved, mut throttled, mut late) = (0, 0, 0, 0);
    for seed in 0..120 {
        let params = [("throttle", "latency"), ("balance", "vlb")];
        let case = busy(seed, &params, true);
        let Some(mut policy) = case.policy() else { continue };
        let system = case.system();
        let count = system.vcpus.len() + 20;
        let mut periods = vec![Duration::from_ticks(1); count];
        for vcpu in &system.vcpus {
            periods[vcpu.id.0 as usize] = vcpu.reservation.period;
        }
        let mut budgets = Budgets {
            periods,
            service: vec![Vec::new(); count],
            moves: vec![0; count],
            homes: vec![None; count],
        };
        let outcome = case.run(&mut *policy, &mut budgets);
        let statistics = policy.statistics();
        let mut late_periods = 0;
        for program in &case.random.programs {
            let id = program.vcpu.0 as usize;
            let vcpu = system.vcpus.iter().find(|vcpu| vcpu.id == program.vcpu);
            let r = vcpu.expect("every program has its VCPU").reservation;
            let end = outcome.end.min(program.depart);
            let whole = ((end - Instant::ZERO).ticks() / r.period.ticks()) as usize;
            let got = &mut budgets.service[id];
            got.resize(whole.max(got.len()), Duration::ZERO);
            let got = &budgets.service[id][..whole];
            if budgets.moves[id] == 0 {
                assert!(got.iter().all(|got| *got == r.budget), "{seed}: {id} got {got:?}\n{case}");
            }
            let mut sum = Duration::ZERO;
            let mut behind = Duration::ZERO;
            for (due, got) in (1..).zip(got) {
                sum += *got;
                behind = behind.max((r.budget * due).saturating_sub(sum));
            }
            late_periods += behind.ticks().div_ceil(r.budget.ticks());
            let moves = budgets.moves[id];
            assert!(behind <= r.budget * moves, "{seed}: {id} got {got:?}, moved {moves}\n{case}");
        }
        let counted = value(&statistics, "late periods");
        assert!(late_periods <= counted, "{seed}: {late_periods} late, {counted} reported\n{case}");
        accepted += 1;
        moved += u64::from(value(&statistics, "moves") > 0);
        throttled += u64::from(value(&statistics, "throttle steps up") > 0);
        late += u64::from(late_periods > 0);
    }
    assert!(accepted > 60 && moved > 10 && throttled > 20, "{accepted} {moved} {throttled} {late}");
}

fn value(statistics: &[Statistic], name: &str) -> u64 {
    statistics
        .iter()
        .filter(|statistic| statistic.name == name)
        .map(|statistic| statistic.value)
        .sum()
}

/// Background service of each VCPU, and the longest background interval of each core.
struct Surplus {
    homes: Vec<Option<CoreId>>,
    service_vcpus: Vec<bool>,
    bgt: Vec<Duration>,
    /// By core: the interval so far, and the longest.
    intervals: Vec<(Duration, Duration)>,
    wrong: Option<String>,
}

impl Surplus {
    fn check(&mut self, core: CoreId, now: Instant) {
        let here = (0..self.bgt.len())
            .filter(|id| self.homes[*id] == Some(core) && !self.service_vcpus[*id])
            .map(|id| self.bgt[id]);
        let (most, least) = (here.clone().max(), here.min());
        let spread = most.unwrap_or_default().saturating_sub(least.unwrap_or_default());
        let longest = self.intervals[usize::from(core.0)].1;
        if spread > longest && self.wrong.is_none() {
            self.wrong = Some(format!("{core} at {now}: {spread} apart, {longest} at once"));
        }
    }
}

impl Observer for Surplus {
    fn event(&mut self, at: Instant, event: &Event) {
        let Event::Ran(segment) = event else { return };
        let interval = &mut self.intervals[usize::from(segment.core.0)];
        if segment.mode == Mode::Foreground {
            // A service request does not end an interval.
            if !self.service_vcpus[segment.vcpu.0 as usize] {
                interval.0 = Duration::ZERO;
            }
            return;
        }
        interval.0 += segment.usage.service;
        interval.1 = interval.1.max(interval.0);
        self.bgt[segment.vcpu.0 as usize] += segment.usage.service;
        self.check(segment.core, at);
    }
    fn planned(&mut self, _: Instant, plan: &Plan) {
        for vcpu in plan.rehomed() {
            self.homes[vcpu.0 as usize] = plan.home(*vcpu);
        }
    }
}

/// algorithms.md G.4, 7.
#[test]
fn surplus_time_of_a_core_differs_by_one_interval_at_most() {
    let (mut accepted, mut throttled) = (0, 0);
    for seed in 0..120 {
        let throttle = if seed % 4 < 2 { "latency" } else { "off" };
        let case = busy(seed, &[("throttle", throttle), ("background", "fair")], false);
        let Some(mut policy) = case.policy() else { continue };
        let system = case.system();
        let count = system.vcpus.iter().map(|vcpu| vcpu.id.0 as usize + 1).max().unwrap_or(0);
        let mut service_vcpus = vec![false; count];
        for vcpu in system.vcpus.iter().filter(|vcpu| vcpu.role != Role::Main) {
            service_vcpus[vcpu.id.0 as usize] = true;
        }
        let mut surplus = Surplus {
            homes: vec![None; count],
            service_vcpus,
            bgt: vec![Duration::ZERO; count],
            intervals: vec![(Duration::ZERO, Duration::ZERO); system.cores.len()],
            wrong: None,
        };
        case.run(&mut *policy, &mut surplus);
        assert_eq!(surplus.wrong, None, "{seed}:\n{case}");
        accepted += 1;
        throttled += u64::from(value(&policy.statistics(), "throttle steps up") > 0);
    }
    assert!(accepted > 60 && throttled > 10, "{accepted} {throttled}");
}

/// Moves in order of time.
#[derive(Default)]
struct Moves(Vec<(Instant, VcpuId)>);

impl Observer for Moves {
    fn event(&mut self, at: Instant, event: &Event) {
        if let Event::ServiceDone(ServiceRequest::Move { vcpu, .. }) = event {
            self.0.push((at, *vcpu));
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

/// algorithms.md G.4, 3: where no VCPU comes, goes, wakes or blocks, balancing comes to rest: after
/// at most as many moves as there are VCPUs, within the first periods.
#[test]
fn balancing_comes_to_rest() {
    let (mut accepted, mut moved) = (0, 0);
    for seed in 0..120 {
        let mut case = busy(seed, &[("balance", "vlb")], false);
        case.params.set("moves", Value::Whole((seed % 2) as i64));
        let Some(mut policy) = case.policy() else { continue };
        let mut moves = Moves::default();
        case.run(&mut *policy, &mut moves);
        let most = case.random.system.vcpus.len();
        assert!(moves.0.len() <= most, "{seed}: {:?}\n{case}", moves.0);
        let half = Instant::from_ticks(case.until.ticks() / 2);
        assert!(moves.0.iter().all(|(at, _)| *at < half), "{seed}: {:?}\n{case}", moves.0);
        accepted += 1;
        moved += usize::from(!moves.0.is_empty());
    }
    assert!(accepted > 60 && moved > 5, "{accepted} {moved}");
}
