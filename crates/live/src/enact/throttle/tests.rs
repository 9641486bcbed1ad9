use super::*;
use crate::clock::Clock;
use crate::host::HardwareCore;
use crate::host::cgroup::{Hierarchies, Tree};
use crate::host::costs::WakeCost;
use crate::machine::{Means, Progress, Source};
use maracas_core::Duration;
use maracas_core::contract::{Grant, Mark};
use std::sync::Mutex;

/// Writes down what it is told.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<bool>>);

impl Valve for Told {
    fn set(&self, core: CoreId, lowered: bool) -> io::Result<()> {
        assert_eq!(core, CoreId(0));
        self.0.lock().expect("nobody panicked").push(lowered);
        Ok(())
    }
}

/// A core with VCPUs 0 and 1 that are believed to run there, though they have no threads.
fn with_core(act: impl FnOnce(&mut Core)) {
    let _turn = crate::host::tests::turn();
    let tree = Hierarchies::read().and_then(|hierarchies| Tree::create(&hierarchies));
    let tree = match tree {
        Ok(tree) => tree,
        Err(error) => return crate::host::tests::refused(&error, "control groups"),
    };
    let means = Means { fifo: false, freezer: true, events: true, instructions: false };
    let mut core =
        match Core::open(CoreId(0), HardwareCore(0), Clock::start(), means, WakeCost::LEAST) {
            Ok(core) => core,
            Err(error) => return crate::host::tests::refused(&error, "switch records"),
        };
    let groups = [0, 1].map(|id| Arc::new(tree.vcpu(VcpuId(id)).expect("a group")));
    for (id, group) in (0..).zip(&groups) {
        let (own, progress) = (Arc::clone(group), Progress::new(Source::None, None));
        let (id, hardware) = (VcpuId(id), HardwareCore(0));
        let mut body = Live::new(id, String::new(), own, hardware, None, means, progress);
        body.born(i32::MAX - id.0 as i32);
        let sits = body.sit(core.place());
        core.seat(body, sits);
    }
    act(&mut core);
    drop(core);
    for group in groups {
        Arc::into_inner(group).expect("nobody else has it").remove().expect("removed");
    }
    tree.remove().expect("the tree is removed");
}

/// VCPU 0 on its budget, if it has any, and VCPU 1 on surplus time.
fn line(budget: bool, background_allowed: bool) -> Line {
    let until = Mark(Duration::from_nanos(u64::from(budget)));
    let foreground = vec![Grant::new(VcpuId(0), until)];
    let background = vec![Grant::new(VcpuId(1), Mark::NEVER)];
    Line { foreground, background, background_allowed, ..Line::default() }
}

/// Follows this line, has the brake thread do its part, and tells what was noted.
fn follow(core: &mut Core, line: &Line) -> Vec<(String, String)> {
    let decided = core.clock().now();
    core.follow(line, decided);
    core.judge();
    core.stops();
    core.starts();
    let brakes = Arc::clone(&core.brakes);
    brakes.act_all(&mut Vec::new());
    core.drain();
    let noted = |note| match note {
        Record::Note { note, .. } => Some((note.key().to_string(), note.text())),
        Record::Event { .. } | Record::Planned(_) | Record::Gap(_) | Record::End(_) => None,
    };
    core.take_notes().filter_map(noted).collect()
}

fn post(core: &Core) -> Post {
    core.bodies[1].post
}

#[test]
fn the_time_until_everything_is_frozen_is_noted_where_somebody_was() {
    with_core(|core| {
        assert_eq!(follow(core, &line(false, true)), []);
        assert_eq!(post(core), Post::Background);
        let noted = follow(core, &line(false, false));
        assert_eq!(post(core), Post::Frozen);
        let [(key, text)] = &noted[..] else { panic!("{noted:?}") };
        let words: Vec<u64> = text.split(' ').map(|word| word.parse().expect("a number")).collect();
        assert!(key == "throttled" && words[0] == 0 && words[1] > 0, "{noted:?}");
        assert_eq!(words[2..], [0], "no record of a thread that there is not");
        assert_eq!(follow(core, &line(false, false)), [], "told once");
        assert_eq!(follow(core, &line(false, true)), []);
        assert_eq!(post(core), Post::Background);
    });
}

#[test]
fn a_valve_lowers_bandwidth_while_a_throttled_core_has_only_background_to_run() {
    with_core(|core| {
        let told = Arc::new(Told::default());
        core.valve = Some(Arc::clone(&told) as Arc<dyn Valve>);
        let so_far = || told.0.lock().expect("nobody panicked").clone();
        follow(core, &line(false, true));
        assert_eq!((post(core), so_far()), (Post::Background, vec![]));
        let noted = follow(core, &line(false, false));
        assert_eq!((post(core), so_far()), (Post::Background, vec![true]), "it goes on");
        assert_eq!(noted.len(), 1, "{noted:?}");
        // Foreground has the bandwidth back, though the core is throttled still.
        follow(core, &line(true, false));
        assert_eq!(so_far(), [true, false]);
        follow(core, &line(false, false));
        assert_eq!(so_far(), [true, false, true]);
        follow(core, &line(false, true));
        assert_eq!(so_far(), [true, false, true, false]);
    });
}
