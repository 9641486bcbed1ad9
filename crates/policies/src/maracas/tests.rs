use super::*;
use crate::testing::{Machine, Manners, with};
use alloc::string::String;
use maracas_core::contract::{End, Grant, Limit, Mode, Segment, Usage};
use maracas_core::{Job, JobId};

/// One core with VCPUs (C, T), all of them there at 0 and busy if `awake` says so.
fn machine(params: &[(&str, &str)], vcpus: &[(u64, u64)], awake: &[u32]) -> Machine {
    let ticks = Duration::from_ticks;
    let vcpus = (0..).zip(vcpus).map(|(id, &(c, t))| Vcpu::new(id, ticks(c), ticks(t)));
    let system = System::new(1, vcpus.collect());
    let mut machine = Machine::new(&ENTRY, &with(params), &system, Manners::PERFECT);
    awake.iter().for_each(|id| machine.wake(*id));
    machine
}

fn run(machine: &mut Machine, ticks: u64) {
    (0..ticks).for_each(|_| machine.tick());
}

fn schedule(machine: &Machine) -> String {
    machine.schedule(0)
}

#[test]
fn budgets_in_rm_order_then_background_by_least_bgt() {
    let mut machine = machine(&[], &[(2, 10), (1, 5)], &[0, 1]);
    run(&mut machine, 20);
    // [3,5): equal BGT, and vcpu1 is the more urgent of the two. [6,10): BGT 0 against 2.
    // [13,15): 2 against 4. [16,20): 4 against 4, vcpu1 again.
    assert_eq!(schedule(&machine), "baaBBbAAAAbaaBBbBBBB");
    assert_eq!(machine.models[0].meters, [4, 4]);
    assert_eq!(machine.models[1].meters, [4, 8]);
}

#[test]
fn a_waker_does_not_overtake_the_chosen_one() {
    let mut machine = machine(&[("background", "fair")], &[(1, 20), (1, 20)], &[0]);
    run(&mut machine, 5); // aAAAA: vcpu0 is chosen, its BGT is 4.
    machine.wake(1); // BGT 0; runs its budget, which ends the interval.
    run(&mut machine, 3);
    assert_eq!(schedule(&machine), "aAAAAbBB");
    machine.sleep(1); // The chosen one blocks: vcpu0 is next.
    run(&mut machine, 2);
    machine.wake(1); // Spent, BGT 2 against 6: stands behind the chosen one.
    run(&mut machine, 4);
    assert_eq!(schedule(&machine), "aAAAAbBBAAAAAA");
}

#[test]
fn a_sleeping_core_s_first_waker_is_chosen() {
    let mut machine = machine(&[], &[(1, 30), (1, 30)], &[0, 1]);
    run(&mut machine, 6);
    machine.sleep(0);
    run(&mut machine, 1);
    machine.sleep(1);
    run(&mut machine, 1);
    machine.wake(0);
    run(&mut machine, 2);
    machine.wake(1); // BGT 1 against 6, but the interval is vcpu0's.
    run(&mut machine, 2);
    assert_eq!(schedule(&machine), "abAAAAB.AAAA");
}

#[test]
fn sticky_keeps_what_ran_and_then_takes_what_is_expected_first() {
    let set = [(1, 10), (2, 20), (1, 15)];
    let mut machine = machine(&[("background", "sticky")], &set, &[0, 1, 2]);
    run(&mut machine, 6);
    assert_eq!(schedule(&machine), "acbbBB");
    machine.sleep(1); // Expected: vcpu0 at 10, vcpu2 at 16.
    run(&mut machine, 2);
    machine.wake(1); // It blocked, so it is not "the one that just ran" any more.
    run(&mut machine, 1);
    machine.sleep(0); // Expected: vcpu2 at 16, vcpu1 at 22.
    run(&mut machine, 1);
    assert_eq!(schedule(&machine), "acbbBBAAAC");
}

#[test]
fn light_takes_what_uses_memory_least() {
    let mut machine = machine(&[("background", "light")], &[(1, 10), (1, 10)], &[0, 1]);
    machine.models[0].requests = 3;
    machine.models[1].requests = 2;
    run(&mut machine, 10);
    assert_eq!(schedule(&machine), "abBBBBBBBB");
}

#[test]
fn off_leaves_surplus_time_unused() {
    let mut machine = machine(&[("background", "off")], &[(2, 5)], &[0]);
    run(&mut machine, 10);
    assert_eq!(schedule(&machine), "aa...aa...");
}

#[test]
fn a_slice_rotates_within_an_interval() {
    let params = [("background_slice", "2ns")];
    let mut machine = machine(&params, &[(1, 12), (1, 12)], &[0, 1]);
    run(&mut machine, 12);
    assert_eq!(schedule(&machine), "abAABBAABBAA");
}

#[test]
fn background_time_is_shared_evenly_in_the_long_run() {
    let mut machine = machine(&[], &[(1, 10), (3, 10), (1, 20)], &[0, 1, 2]);
    run(&mut machine, 2_000);
    let background = machine.models.iter().map(|model| model.meters[1]);
    let (least, most) = (background.clone().min().unwrap(), background.clone().max().unwrap());
    assert_eq!(background.sum::<u64>(), 2_000 - 200 - 600 - 100);
    // No interval is longer than 6 (algorithms.md G.4, invariant 7).
    assert!(most - least <= 6, "{least} to {most}");
    let foreground: Vec<u64> = machine.models.iter().map(|model| model.meters[0]).collect();
    assert_eq!(foreground, [200, 600, 100]);
}

#[test]
fn a_newcomer_starts_with_the_least_bgt() {
    let mut machine = machine(&[], &[(1, 10)], &[0]);
    run(&mut machine, 20);
    machine.arrive(Vcpu::new(1, Duration::from_ticks(1), Duration::from_ticks(10)));
    run(&mut machine, 1);
    assert_eq!(machine.plan.run_queue(CoreId(0)).foreground.len(), 2);
    machine.wake(1);
    run(&mut machine, 19);
    // From zero it would have had all surplus time up to here.
    assert_eq!(machine.models[1].meters, [2, 8]);
}

#[test]
fn a_job_wakes_its_vcpu_at_its_release() {
    let mut machine = machine(&[("background", "off")], &[(2, 10)], &[]);
    for now in 0..24 {
        if [3, 13].contains(&now) {
            machine.release(0, 2, now + 10);
        }
        machine.tick();
    }
    assert_eq!(machine.models[0].finished, [5, 15]);
    // What it saved while it slept does not come back early: used at 28, back at 38.
    while machine.now < 28 {
        machine.tick();
    }
    machine.release(0, 4, 60);
    run(&mut machine, 14);
    assert_eq!(&schedule(&machine)[24..], "....aa........aa..");
}

#[test]
fn an_io_vcpu_inherits_the_period_that_it_serves() {
    let ticks = Duration::from_ticks;
    let mut io = Vcpu::new(1, ticks(10), ticks(100));
    io.role = Role::Io;
    let system = System::new(1, alloc::vec![Vcpu::new(0, ticks(5), ticks(50)), io]);
    let mut policy = (ENTRY.build)(&system, &Params::new()).unwrap_or_else(|v| panic!("{v:?}"));
    let mut plan = Plan::new(1);
    let grants = |plan: &Plan| plan.run_queue(CoreId(0)).foreground.clone();
    let grant = |id, limit| Grant::new(VcpuId(id), Limit(ticks(limit)));
    let at = Instant::from_ticks;
    let woke = Event::Woke { vcpu: VcpuId(1), on_behalf: Some(VcpuId(0)), exact: true };
    policy.on_event(at(3), &woke);
    maracas_core::contract::decide(&mut *policy, at(3), &mut plan);
    // U T = 1/10 of the inherited 50; of two equal periods the lower id goes first.
    assert_eq!(grants(&plan), [grant(0, 5), grant(1, 5)]);
    policy.on_event(at(3), &Event::Woke { vcpu: VcpuId(1), on_behalf: None, exact: true });
    maracas_core::contract::decide(&mut *policy, at(3), &mut plan);
    assert_eq!(grants(&plan), [grant(0, 5), grant(1, 5)]);
}

#[test]
fn a_refused_newcomer_gets_the_closest_core_s_numbers() {
    let mut machine = machine(&[], &[(6, 10)], &[0]);
    let newcomer = Vcpu::new(1, Duration::from_ticks(3), Duration::from_ticks(10));
    machine.arrive(newcomer);
    machine.tick();
    let (vcpu, verdict) = &machine.answers[0];
    assert_eq!(*vcpu, VcpuId(1));
    let text = alloc::format!("{}", verdict.as_ref().unwrap_err());
    assert!(text.contains("ll: 0.900000 of 0.828427 (refused)"), "{text}");
    assert!(text.contains("capacity: 0.900000 of 1.000000 (ok)"), "{text}");
}

/// One core whose policy is given events by hand; the plan after each.
struct Reported {
    policy: Box<dyn Policy>,
    plan: Plan,
}

impl Reported {
    fn new(vcpus: &[(u64, u64)]) -> Self {
        let ticks = Duration::from_ticks;
        let vcpus = (0..).zip(vcpus).map(|(id, &(c, t))| Vcpu::new(id, ticks(c), ticks(t)));
        let system = System::new(1, vcpus.collect());
        let policy = (ENTRY.build)(&system, &Params::new()).unwrap_or_else(|v| panic!("{v:?}"));
        Self { policy, plan: Plan::new(1) }
    }
    fn woke(&mut self, at: u64, vcpu: u32) {
        let event = Event::Woke { vcpu: VcpuId(vcpu), on_behalf: None, exact: true };
        self.policy.on_event(Instant::from_ticks(at), &event);
    }
    fn ran(&mut self, vcpu: u32, mode: Mode, from: u64, to: u64, end: End) {
        let at = Instant::from_ticks;
        let (from, to) = (at(from), at(to));
        let usage = maracas_core::contract::Usage { service: to - from, ..Default::default() };
        let segment = Segment { vcpu: VcpuId(vcpu), core: CoreId(0), mode, from, to, usage, end };
        self.policy.on_event(to, &Event::Ran(segment));
    }
    /// Decides at `now`: foreground (id, limit), background order, and when to ask again.
    fn plan(&mut self, now: u64) -> (Vec<(u32, u64)>, Vec<u32>, u64) {
        maracas_core::contract::decide(&mut *self.policy, Instant::from_ticks(now), &mut self.plan);
        let run_queue = self.plan.run_queue(CoreId(0));
        let foreground =
            run_queue.foreground.iter().map(|g| (g.vcpu.0, g.until.0.ticks())).collect();
        let background = run_queue.background.iter().map(|g| g.vcpu.0).collect();
        (foreground, background, self.plan.wake.ticks())
    }
}

#[test]
fn sleepers_with_budget_ask_for_no_wake_and_spent_ones_do() {
    let never = Instant::NEVER.ticks();
    let mut reported = Reported::new(&[(2, 10)]);
    assert_eq!(reported.plan(0).2, never);
    reported.woke(3, 0);
    assert_eq!(reported.plan(3).2, never);
    reported.ran(0, Mode::Foreground, 3, 4, End::Blocked);
    assert_eq!(reported.plan(4), (alloc::vec![(0, 2)], alloc::vec![0], never));
    reported.woke(6, 0);
    assert_eq!(reported.plan(6).2, 13); // A second chunk comes while it may still run.
    reported.ran(0, Mode::Foreground, 6, 7, End::Blocked);
    assert_eq!(reported.plan(7).2, 13); // Spent, asleep: its wake may be hidden.
    assert_eq!(reported.plan(13), (alloc::vec![(0, 3)], alloc::vec![0], never));
}

#[test]
fn a_block_reported_after_the_wake_that_followed_it_changes_nothing() {
    let mut reported = Reported::new(&[(2, 10), (2, 10)]);
    reported.woke(0, 0);
    reported.woke(0, 1);
    reported.plan(0);
    reported.ran(0, Mode::Foreground, 0, 2, End::LimitReached);
    reported.ran(1, Mode::Foreground, 2, 4, End::LimitReached);
    reported.ran(1, Mode::Background, 4, 7, End::Preempted);
    reported.woke(9, 0);
    reported.ran(0, Mode::Background, 7, 8, End::Blocked);
    // Both are runnable, and vcpu0 has less background time.
    assert_eq!(reported.plan(9).1, [0, 1]);
    reported.ran(0, Mode::Background, 9, 10, End::Blocked);
    assert_eq!(reported.plan(10).1, [1, 0]);
}

#[test]
fn coming_and_going_takes_no_budget_from_what_stays() {
    let mut machine = machine(&[("admission", "rta")], &[(6, 14)], &[0]);
    for id in 1..=20 {
        machine.arrive(Vcpu::new(id, Duration::from_ticks(4), Duration::from_ticks(10)));
        run(&mut machine, 1);
        machine.wake(id);
        run(&mut machine, 3);
        machine.remove(id);
    }
    assert!(machine.answers.iter().all(|(_, verdict)| verdict.is_ok()));
    let schedule = schedule(&machine);
    for period in schedule.as_bytes().chunks_exact(14) {
        let got = period.iter().filter(|ran| **ran == b'a').count();
        assert_eq!(got, 6, "{schedule}");
    }
}

#[test]
fn handing_a_reservation_round_takes_no_budget_from_what_stays() {
    let ticks = Duration::from_ticks;
    let mut vcpus = alloc::vec![(12, 28)];
    vcpus.resize(8, (1, 200));
    let awake: Vec<u32> = (0..8).collect();
    let mut machine = machine(&[("admission", "rta")], &vcpus, &awake);
    // Each in turn asks for (7, 20) for seven ticks and gives it back.
    for turn in 0..40 {
        let id = 1 + turn % 7;
        machine.tell(CoreId(0), Event::Changed(Vcpu::new(id, ticks(7), ticks(20))));
        run(&mut machine, 7);
        machine.tell(CoreId(0), Event::Changed(Vcpu::new(id, ticks(1), ticks(200))));
    }
    run(&mut machine, 1);
    let granted = machine.answers.iter().filter(|(_, verdict)| verdict.is_ok()).count();
    assert!(granted > 20, "{granted} of 80");
    let schedule = schedule(&machine);
    for period in schedule.as_bytes().chunks_exact(28) {
        let got = period.iter().filter(|ran| **ran == b'a').count();
        assert!(got >= 12, "{schedule}");
    }
}

#[test]
fn what_ran_of_the_old_budget_is_no_debt_of_a_smaller_new_one() {
    let ticks = Duration::from_ticks;
    let mut machine = machine(&[("background", "off")], &[(8, 10)], &[0]);
    run(&mut machine, 6);
    // It sets in at 7, while the VCPU runs: seven of the old eight are used and come back at 10.
    machine.tell(CoreId(0), Event::Changed(Vcpu::new(0, ticks(4), ticks(10))));
    run(&mut machine, 44);
    assert_eq!(schedule(&machine), "aaaaaaa...aaaa......aaaa......aaaa......aaaa......");
}

#[test]
fn a_wake_reported_before_the_block_brings_no_chunk_early() {
    let mut reported = Reported::new(&[(4, 10)]);
    reported.woke(0, 0);
    reported.plan(0);
    reported.ran(0, Mode::Foreground, 0, 3, End::Blocked);
    reported.woke(5, 0);
    reported.plan(5);
    // It ran in [5, 6) and blocked, but that is reported after the next wake.
    reported.woke(9, 0);
    assert_eq!(reported.plan(9), (alloc::vec![(0, 4)], alloc::vec![0], 10));
    reported.ran(0, Mode::Foreground, 5, 6, End::Blocked);
    assert_eq!(reported.plan(9), (alloc::vec![(0, 4)], alloc::vec![0], 10));
    assert_eq!(reported.plan(10).0, [(0, 7)]);
    // A wake of what is awake changes nothing: the chunk of 10 comes back at 20, not at 21.
    reported.woke(11, 0);
    reported.ran(0, Mode::Foreground, 10, 13, End::LimitReached);
    assert_eq!(reported.plan(20).0, [(0, 11)]);
}

#[test]
fn a_segment_of_a_sleeper_is_a_wake_at_its_beginning() {
    let mut reported = Reported::new(&[(2, 10)]);
    reported.plan(0);
    reported.ran(0, Mode::Foreground, 9, 11, End::LimitReached);
    // Charged to a chunk of instant 0 it would come back at 10: 4 ticks in [9, 13).
    assert_eq!(reported.plan(11), (alloc::vec![(0, 2)], alloc::vec![0], 19));
}

#[test]
fn the_next_one_stands_first_before_the_core_returns_to_the_background() {
    let mut reported = Reported::new(&[(2, 10), (2, 10)]);
    reported.woke(0, 0);
    reported.woke(0, 1);
    reported.plan(0);
    reported.ran(0, Mode::Foreground, 0, 2, End::LimitReached);
    reported.ran(1, Mode::Foreground, 2, 4, End::LimitReached);
    assert_eq!(reported.plan(4).1, [0, 1]);
    reported.ran(0, Mode::Background, 4, 10, End::Preempted);
    // The foreground begins; should the decision at its end come late, vcpu1 runs meanwhile.
    assert_eq!(reported.plan(10).1, [1, 0]);
}

#[test]
fn an_io_vcpu_keeps_the_period_with_which_response_times_count_it() {
    let ticks = Duration::from_ticks;
    let mut io = Vcpu::new(2, ticks(50), ticks(1000));
    io.role = Role::Io;
    let others = [Vcpu::new(0, ticks(40), ticks(100)), Vcpu::new(1, ticks(60), ticks(140))];
    let system = System::new(1, others.into_iter().chain([io]).collect());
    let policy = (ENTRY.build)(&system, &with(&[("admission", "rta")]));
    let mut policy = policy.unwrap_or_else(|v| panic!("{v:?}"));
    let mut plan = Plan::new(1);
    let woke = Event::Woke { vcpu: VcpuId(2), on_behalf: Some(VcpuId(0)), exact: true };
    policy.on_event(Instant::ZERO, &woke);
    maracas_core::contract::decide(&mut *policy, Instant::ZERO, &mut plan);
    // Between the two at period 100 it would cost vcpu1 5 of its 60.
    let order = plan.run_queue(CoreId(0)).foreground.iter().map(|grant| grant.vcpu.0);
    assert!(order.eq([0, 1, 2]));
}

#[test]
fn a_late_segment_is_charged_to_its_own_chunk() {
    let mut reported = Reported::new(&[(4, 10)]);
    reported.woke(0, 0);
    reported.plan(0);
    // It ran in [0, 4); the report comes at 12, after two decisions.
    assert_eq!(reported.plan(10).0, [(0, 4)]);
    reported.ran(0, Mode::Foreground, 0, 4, End::LimitReached);
    assert_eq!(reported.plan(12), (alloc::vec![(0, 8)], alloc::vec![0], Instant::NEVER.ticks()));
    // An overrun by 3 is debt: the next limit lies at 12, of which 11 are used.
    reported.ran(0, Mode::Foreground, 12, 19, End::LimitReached);
    assert_eq!(reported.plan(19), (alloc::vec![(0, 11)], alloc::vec![0], 23));
    assert_eq!(reported.plan(23).0, [(0, 12)]);
}

/// VCPU 0, (10, 20), comes first; 1, (50, 101), waits for it; 2, (50, 100), comes at 51, when 0 has
/// left at 50. All are always busy.
fn a_newcomer_after_a_leaver(stays: &[(u64, u64)]) -> Machine {
    let params = [("admission", "rta"), ("background", "off")];
    let vcpus: Vec<_> = [(10, 20)].iter().chain(stays).copied().collect();
    let awake: Vec<u32> = (0..vcpus.len() as u32).collect();
    let mut machine = machine(&params, &vcpus, &awake);
    run(&mut machine, 50);
    machine.remove(0);
    run(&mut machine, 1);
    let newcomer = vcpus.len() as u32;
    machine.arrive(Vcpu::new(newcomer, Duration::from_ticks(50), Duration::from_ticks(100)));
    run(&mut machine, 1);
    machine.wake(newcomer);
    run(&mut machine, 400);
    assert!(machine.answers[0].1.is_ok());
    machine
}

#[test]
fn what_waited_for_a_leaver_does_not_wait_for_a_newcomer_too() {
    let machine = a_newcomer_after_a_leaver(&[(50, 101)]);
    let schedule = schedule(&machine);
    // 30 of the leaver, and 50 of the newcomer, would leave it 21 of its 50 before 101.
    let got = schedule[..101].bytes().filter(|ran| *ran == b'b').count();
    assert_eq!(got, 50, "{schedule}");
    // It has them at 80, where the core idles: then the newcomer is let in.
    assert_eq!(schedule.find('c'), Some(80), "{schedule}");
    assert_eq!(&schedule[80..130], "c".repeat(50));
}

#[test]
fn a_newcomer_that_fits_beside_a_leaver_begins_at_once() {
    let machine = a_newcomer_after_a_leaver(&[]);
    assert_eq!(schedule(&machine).find('b'), Some(52));
}

/// What comes stands on the run queue before its instant, and no decision is asked for then.
#[test]
fn the_next_chunk_is_granted_ahead() {
    let mut machine = machine(&[("ahead", "true")], &[(2, 10), (1, 5)], &[0, 1]);
    run(&mut machine, 4);
    let ticks = Duration::from_ticks;
    let grant = |vcpu, until, from| {
        Grant::new(VcpuId(vcpu), Limit(ticks(until))).ahead(Instant::from_ticks(from))
    };
    let foreground = |machine: &Machine| machine.plan.run_queue(CoreId(0)).foreground.clone();
    let expected = [grant(1, 1, 0), grant(1, 2, 5), grant(0, 2, 0), grant(0, 4, 10)];
    assert_eq!((foreground(&machine), machine.plan.wake), (expected.to_vec(), Instant::NEVER));
    run(&mut machine, 16);
    assert_eq!(schedule(&machine), "baaBBbAAAAbaaBBbBBBB");
}

/// Where surplus time is shared by when budgets come, that is decided then.
#[test]
fn what_depends_on_a_chunk_is_decided_when_it_comes() {
    let params = [("ahead", "true"), ("background", "sticky")];
    let mut machine = machine(&params, &[(2, 10), (1, 5)], &[0, 1]);
    run(&mut machine, 4);
    let foreground = &machine.plan.run_queue(CoreId(0)).foreground;
    assert_eq!((foreground.len(), machine.plan.wake), (4, Instant::from_ticks(5)));
}

/// What goes on running needs no decision for long: all chunks to come stand there, and the turns
/// of surplus time.
#[test]
fn what_goes_on_is_granted_far_ahead() {
    let params = [("ahead", "true"), ("background_slice", "2ns")];
    let mut machine = machine(&params, &[(2, 10), (1, 5)], &[0, 1]);
    run(&mut machine, 4);
    let ticks = Duration::from_ticks;
    let chunk = |vcpu: u32, c: u64, t: u64, number: u64| {
        let at = Instant::from_ticks(number * t);
        let grant = Grant::new(VcpuId(vcpu), Limit(ticks(c + number * c))).ahead(at);
        // The next one comes of what was used; the ones after it of what is to be used.
        let grant = if number > 1 { grant.until_wake() } else { grant };
        if number < 16 { grant.silently() } else { grant }
    };
    let chunks = |vcpu, c, t| (0..=16).map(move |number| chunk(vcpu, c, t, number));
    let expected: Vec<_> = chunks(1, 1, 5).chain(chunks(0, 2, 10)).collect();
    let run_queue = machine.plan.run_queue(CoreId(0));
    assert_eq!(run_queue.foreground, expected);
    let turns: Vec<_> = run_queue.background.iter().take(4).collect();
    let turn = |grant: &Grant| (grant.vcpu.0, grant.until.0.ticks());
    let turns: Vec<_> = turns.into_iter().map(turn).collect();
    assert_eq!(turns, [(1, 2), (0, 2), (1, 4), (0, 4)]);
    let told = run_queue.background.iter().filter(|grant| !grant.silent).count();
    assert_eq!((run_queue.background.len(), told), (66, 3), "the last turn, and what is left");
    // Half of the chunks of one of them have come, and three quarters of a period since.
    assert_eq!(machine.plan.wake, Instant::from_ticks(43));
    // Without surplus time there are no turns that a chunk would end.
    let params = [("ahead", "true"), ("background", "off")];
    let mut machine = self::machine(&params, &[(2, 10), (1, 5)], &[0, 1]);
    run(&mut machine, 4);
    let run_queue = machine.plan.run_queue(CoreId(0));
    assert_eq!(run_queue.foreground, expected);
    assert!(run_queue.background.is_empty());
    assert_eq!(machine.plan.wake, Instant::from_ticks(43));
}

/// Two VCPUs that run from 0 on, the first by a job or without, and nothing is reported of them.
fn untold(vcpus: &[(u64, u64)], has_job: bool) -> (Box<dyn Policy>, Plan) {
    let ticks = Duration::from_ticks;
    let vcpus = (0..).zip(vcpus).map(|(id, &(c, t))| Vcpu::new(id, ticks(c), ticks(t)));
    let system = System::new(1, vcpus.collect());
    let params = with(&[("ahead", "true"), ("background_slice", "2ns")]);
    let mut policy = (ENTRY.build)(&system, &params).unwrap_or_else(|v| panic!("{v:?}"));
    for vcpu in system.vcpus.iter().map(|vcpu| vcpu.id) {
        let woke = Event::Woke { vcpu, on_behalf: None, exact: true };
        policy.on_event(Instant::ZERO, &woke);
    }
    if has_job {
        let id = JobId { vcpu: VcpuId(0), index: 0 };
        let job = Job { id, release: Instant::ZERO, deadline: Instant::from_ticks(10) };
        policy.on_event(Instant::ZERO, &Event::Released(job));
    }
    let mut plan = Plan::new(1);
    maracas_core::contract::decide(&mut *policy, Instant::ZERO, &mut plan);
    (policy, plan)
}

/// What began by what was foreseen may be in use, which is reported when it ends: it is not taken
/// back while a VCPU waits for its answer, when nothing else is given far ahead.
#[test]
fn what_has_begun_far_ahead_stays() {
    let ticks = Duration::from_ticks;
    let foreseen = |until, from| {
        let grant = Grant::new(VcpuId(0), Limit(ticks(until)));
        grant.ahead(Instant::from_ticks(from)).until_wake()
    };
    for has_job in [false, true] {
        let (mut policy, mut plan) = untold(&[(2, 10), (5, 10)], has_job);
        let foreground = &plan.run_queue(CoreId(0)).foreground;
        assert!(foreground.contains(&foreseen(4, 10).silently()), "{foreground:?}");
        let now = Instant::from_ticks(31);
        policy.on_event(now, &Event::Left(VcpuId(1)));
        policy.on_event(now, &Event::Arrived(Vcpu::new(2, ticks(5), ticks(10))));
        maracas_core::contract::decide(&mut *policy, now, &mut plan);
        assert!(plan.verdicts().is_empty(), "it waits for what left");
        let expected = [Grant::new(VcpuId(0), Limit(ticks(2))), foreseen(8, 30)];
        assert_eq!(plan.run_queue(CoreId(0)).foreground, expected);
    }
}

/// Also where the chunk that comes next is made longer by one that is to be used.
#[test]
fn there_is_room_for_all_that_is_given_far_ahead() {
    let (mut policy, mut plan) = untold(&[(36, 200); 4], false);
    for vcpu in (0..4).map(VcpuId) {
        let [from, to] = [0, 1].map(|part| Instant::from_ticks(u64::from(vcpu.0) * 10 + part * 10));
        let usage = Usage { service: to - from, ..Usage::default() };
        let (core, mode, end) = (CoreId(0), Mode::Foreground, End::Preempted);
        policy.on_event(to, &Event::Ran(Segment { vcpu, core, mode, from, to, usage, end }));
    }
    maracas_core::contract::decide(&mut *policy, Instant::from_ticks(40), &mut plan);
    assert_eq!(plan.run_queue(CoreId(0)).foreground.len(), 64);
}
