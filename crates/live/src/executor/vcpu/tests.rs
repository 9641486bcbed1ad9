use super::*;
use crate::host::cgroup::{Hierarchies, Tree};
use crate::progress::Source;
use crate::sense::VcpuEvents;
use maracas_core::Rate;
use maracas_live_core::Place;

#[test]
fn only_what_is_metered_and_no_crowd_is_raised() {
    let _turn = crate::host::tests::turn();
    let tree = Hierarchies::read().and_then(|hierarchies| Tree::create(&hierarchies));
    let tree = match tree {
        Ok(tree) => tree,
        Err(error) => return crate::host::tests::refused(&error, "control groups"),
    };
    let (core, hardware) = (CoreId(0), HardwareCore(0));
    let progress = Progress::new(Source::Own, None);
    let group = Arc::new(tree.vcpu(VcpuId(0)).expect("a group"));
    let mut vcpu_handle = Made {
        id: VcpuId(0),
        name: String::new(),
        group: Arc::clone(&group),
        confined: hardware,
        root: None,
        means: Means::FULL,
        progress,
        clock: Clock::start(),
    }
    .vcpu_handle();
    let site = Site { hardware, counts: VcpuEvents::default() };
    let place = Place { core, share: Rate::ONE, site };
    let unmetered = vcpu_handle.may_be_raised(core, 256);
    let placed = vcpu_handle.sit(place);
    let mut with = |threads: i32| {
        vcpu_handle.threads.clear();
        (1..=threads).for_each(|tid| vcpu_handle.born(tid));
        (vcpu_handle.may_be_raised(core, 256), vcpu_handle.may_be_raised(CoreId(1), 256))
    };
    let crowd = [256, 257, 200, 128].map(&mut with);
    drop(vcpu_handle);
    Arc::into_inner(group).expect("no other reference").remove().expect("removed");
    tree.remove().expect("the tree is removed");
    assert!(!unmetered, "it sits nowhere yet");
    match placed {
        Ok(moved) => assert!(!moved),
        Err(error) => return crate::host::tests::refused(&error, "counters of a group's time"),
    }
    assert_eq!(crowd, [(true, false), (false, false), (false, false), (true, false)]);
}
