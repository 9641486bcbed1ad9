use super::*;
use crate::host::cgroup::{Hierarchies, Tree};
use crate::machine::Source;

#[test]
fn a_listing_keeps_what_is_known_and_forgets_who_is_gone() {
    let thread = |tid, priority| Thread { tid, priority, runnable: false };
    let known = [thread(3, Some(45)), thread(7, Some(0)), thread(9, Some(45))];
    let mut merged = vec![thread(1, None)];
    merge(&known, &[2, 3, 9, 12], &mut merged);
    let told: Vec<_> = merged.iter().map(|t| (t.tid, t.priority, t.runnable)).collect();
    let all = [(2, None, true), (3, Some(45), false), (9, Some(45), false), (12, None, true)];
    assert_eq!(told, all);
}

#[test]
fn only_who_is_metered_and_no_crowd_is_raised() {
    let _turn = crate::host::tests::turn();
    let tree = Hierarchies::read().and_then(|hierarchies| Tree::create(&hierarchies));
    let tree = match tree {
        Ok(tree) => tree,
        Err(error) => return crate::host::tests::refused(&error, "control groups"),
    };
    let (core, hardware) = (CoreId(0), HardwareCore(0));
    let progress = Progress::new(Source::Own, None);
    let group = Arc::new(tree.vcpu(VcpuId(0)).expect("a group"));
    let mut body = Live::new(
        VcpuId(0),
        String::new(),
        Arc::clone(&group),
        hardware,
        None,
        Means::FULL,
        progress,
    );
    let place = Place { core, hardware, share: Rate::ONE, counts: VcpuEvents::default() };
    let unmetered = body.may_be_raised(core);
    let seated = body.sit(place);
    let mut with = |threads: i32| {
        body.threads.clear();
        (1..=threads).for_each(|tid| body.born(tid));
        (body.may_be_raised(core), body.may_be_raised(CoreId(1)))
    };
    let crowd = [256, 257, 200, 128].map(&mut with);
    drop(body);
    Arc::into_inner(group).expect("nobody else has it").remove().expect("removed");
    tree.remove().expect("the tree is removed");
    assert!(!unmetered, "it sits nowhere yet");
    match seated {
        Ok(moved) => assert!(!moved),
        Err(error) => return crate::host::tests::refused(&error, "counters of a group's time"),
    }
    assert_eq!(crowd, [(true, false), (false, false), (false, false), (true, false)]);
}
