//! Errands from their begin to their answer.

use super::memory::{cache, memory, simulate_with, walk};
use super::*;
use maracas_core::Role;
use maracas_core::contract::{Errand, Refused};

/// Sends a carrier at each given instant, and waits for the answer before the next.
struct Sender {
    script: Script,
    errands: Vec<(u64, VcpuId, Errand)>,
    sent: bool,
}

impl Sender {
    fn new(script: Script, errands: Vec<(u64, u32, Errand)>) -> Self {
        let errands = errands.into_iter().map(|(at, vcpu, errand)| (at, VcpuId(vcpu), errand));
        Self { script, errands: errands.collect(), sent: false }
    }
}

impl Policy for Sender {
    fn on_event(&mut self, at: Instant, event: &Event) {
        self.script.on_event(at, event);
        let failed =
            matches!(event, Event::Failed { what: Refused::Sample | Refused::Move(_), .. });
        if failed || matches!(event, Event::ErrandDone(_)) {
            self.errands.remove(0);
            self.sent = false;
        }
    }
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        self.script.plan(now, plan);
        let next = self.errands.first();
        self.sent |= next.is_some_and(|(due, ..)| at(*due) <= now);
        plan.errand = next.filter(|_| self.sent).map(|(_, carrier, errand)| (*carrier, *errand));
        if let Some((due, ..)) = next.filter(|_| !self.sent) {
            plan.wake = plan.wake.min(at(*due));
        }
    }
}

fn carrier(id: u32, role: Role) -> Vcpu {
    Vcpu { role, ..server(id) }
}

/// vcpu0 runs on core 0 in the background, vcpu1 monitors, vcpu2 migrates.
fn system() -> System {
    let carriers = [carrier(1, Role::Monitor), carrier(2, Role::Migration)];
    System::new(2, [server(0)].into_iter().chain(carriers).collect())
}

fn lines() -> Script {
    Script::fixed(&[always(1), always(2)], &[always(0)])
}

fn costs() -> Options {
    let overheads = Overheads {
        sample: ticks(10),
        lock: ticks(3),
        structure: ticks(4),
        page_copy: ticks(5),
        ..Overheads::FREE
    };
    Options { overheads, ..Options::new(at(5_000)) }
}

const fn moved(colors: u64) -> Errand {
    Errand::Move { vcpu: VcpuId(0), to: CoreId(1), colors }
}

#[test]
fn a_sample_is_brought_on_the_carriers_time() {
    let errands = vec![(1_000, 1, Errand::Sample), (3_000, 1, Errand::Sample)];
    let mut sender = Sender::new(lines(), errands);
    let memory = memory(vec![Some(super::memory::strides())]);
    let (outcome, told) = simulate_with(&system(), &[busy(0)], &memory, &mut sender, costs());
    let requests = |stint: usize| {
        let usage = told.stints[stint].usage;
        usage.reads + usage.writes
    };
    // The second sample holds what came after the first.
    let (first, second) = (requests(0), requests(2));
    let parts = [
        "0:wakev0 1000:wakev1 1000:v0b@0[0,1000)Preempted 1010:Sampled(Sample { ".into(),
        format!("requests: {first}, "),
        format!("by_core: [{first}, 0] }}) 1010:ErrandDone(Sample) 1010:v1@0[1000,1010)Blocked "),
        "3000:wakev1 3000:v0b@0[1010,3000)Preempted 3010:Sampled(Sample { ".into(),
        format!("requests: {second}, "),
        format!("by_core: [{second}, 0] }}) 3010:ErrandDone(Sample) 3010:v1@0[3000,3010)Blocked"),
    ];
    let mut rest = told.log.0.as_str();
    for part in parts {
        let found = rest.find(&part);
        assert!(found.is_some(), "{part} in {rest}");
        rest = &rest[found.unwrap_or(0) + part.len()..];
    }
    assert!(outcome.memory.is_some_and(|totals| totals.requests > first + second));
}

#[test]
fn a_move_costs_locks_structures_and_pages_and_recolors() {
    let mut memory = memory(vec![Some(walk(40))]);
    memory.cache = Some(cache());
    // The first changes no colours; the second gives others to ten pages; the third gives them
    // again.
    let errands = vec![(1_000, 2, moved(0)), (2_000, 2, moved(0xf0)), (3_000, 2, moved(0xf0))];
    let mut sender = Sender::new(lines(), errands);
    let (_, told) = simulate_with(&system(), &[busy(0)], &memory, &mut sender, costs());
    let carried = told.stints.iter().filter(|stint| stint.vcpu == VcpuId(2));
    let took: Vec<_> = carried.map(|stint| stint.usage.service.ticks()).collect();
    assert_eq!(took, [10, 60, 10]);
    // 40 kB are 640 lines at 68 ns: at 2000 they are being loaded, and are all lost.
    let after = told.stints.iter().find(|stint| stint.from == at(2_060));
    assert!(after.is_some_and(|stint| stint.usage.reads > 10), "{}", told.log.0);
    assert!(told.log.0.contains("2060:ErrandDone(Move { vcpu: vcpu0, to: core1, colors: 240 })"));
}

#[test]
fn what_cannot_be_done_fails_by_name() {
    let mut gone = busy(0);
    gone.depart = at(1_005);
    let errands = vec![
        // By one that is no carrier, by none, of none, of a carrier.
        (100, 0, Errand::Sample),
        (200, 7, Errand::Sample),
        (300, 2, Errand::Move { vcpu: VcpuId(9), to: CoreId(1), colors: 0 }),
        (400, 2, Errand::Move { vcpu: VcpuId(1), to: CoreId(1), colors: 0 }),
        // Without a memory model.
        (500, 1, Errand::Sample),
        // It leaves while the errand is under way.
        (1_000, 2, moved(0)),
        (2_000, 2, moved(0)),
    ];
    let mut sender = Sender::new(lines(), errands);
    let mut log = Log::default();
    run(&system(), &[gone], &mut sender, &costs(), &mut log);
    let fails = |at: u64, what: &str| format!("{at}:Failed {{ core: core0, what: {what} }} ");
    let expected = [
        "0:wakev0 ".into(),
        fails(100, "Sample"),
        fails(200, "Sample"),
        fails(300, "Move(vcpu9)"),
        fails(400, "Move(vcpu1)"),
        fails(500, "Sample"),
        "1000:wakev2 1000:v0b@0[0,1000)Preempted 1005:left v0 ".into(),
        fails(1_010, "Move(vcpu0)"),
        "1010:v2@0[1000,1010)Blocked ".into(),
        fails(2_000, "Move(vcpu0)"),
    ];
    assert_eq!(log.0, expected.concat());
}

#[test]
fn a_free_errand_still_goes_through_its_carrier() {
    // Whose wake is seen even where others' are not: the machine woke it itself.
    for hidden_wakes in [false, true] {
        let mut sender = Sender::new(lines(), vec![(10, 2, moved(0)), (11, 2, moved(0))]);
        let mut log = Log::default();
        let options = Options { hidden_wakes, ..Options::new(at(50)) };
        run(&system(), &[], &mut sender, &options, &mut log);
        let done = "ErrandDone(Move { vcpu: vcpu0, to: core1, colors: 0 })";
        assert_eq!(
            log.0.trim_end(),
            format!(
                "10:wakev2 11:{done} 11:v2@0[10,11)Blocked \
                 11:wakev2 12:{done} 12:v2@0[11,12)Blocked"
            )
        );
    }
}

#[test]
fn a_policy_that_insists_on_what_fails_is_stopped() {
    struct Insists;
    impl Policy for Insists {
        fn on_event(&mut self, _: Instant, _: &Event) {}
        fn plan(&mut self, _: Instant, plan: &mut Plan) {
            plan.errand = Some((VcpuId(0), Errand::Sample));
        }
    }
    let stopped = std::panic::catch_unwind(|| {
        run(&system(), &[busy(0)], &mut Insists, &Options::new(at(5)), &mut ())
    });
    let why = stopped.expect_err("it never rests");
    let why = why.downcast_ref::<String>().map_or("", String::as_str);
    assert!(why.contains("found no rest"), "{why}");
}
