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
        (1..=257).for_each(|tid| vcpu_handle.died(tid));
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

/// What the kernel says of a thread after `name`, in `/proc/PID/status`.
fn status(pid: i32, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim().to_string()
}

#[test]
fn who_was_raised_to_leave_its_core_is_at_rest_on_the_other() {
    let _turn = crate::host::tests::turn();
    let cores = crate::host::platform::Platform::detect().map(|it| it.cores).unwrap_or_default();
    let [here, there] = match cores[..] {
        [here, there, ..] => [here, there],
        _ => return crate::host::tests::skip("two cores"),
    };
    let tree = Hierarchies::read().and_then(|hierarchies| Tree::create(&hierarchies));
    let tree = match tree {
        Ok(tree) => tree,
        Err(error) => return crate::host::tests::refused(&error, "control groups"),
    };
    let group = Arc::new(tree.vcpu(VcpuId(0)).expect("a group"));
    let spin = ["-c", "while :; do :; done"];
    let mut child = std::process::Command::new("sh").args(spin).spawn().expect("sh starts");
    let pid = child.id() as i32;
    let joined = group.add_process(pid).and_then(|()| group.confine(here));
    let means = Means::FULL;
    let progress = Progress::new(Source::Own, None);
    let (name, clock, group_of) = (String::new(), Clock::start(), Arc::clone(&group));
    let made = Made {
        id: VcpuId(0),
        name,
        group: group_of,
        confined: here,
        root: None,
        means,
        progress,
        clock,
    };
    let mut vcpu_handle = made.vcpu_handle();
    let left = [there, here, there].map(|core| {
        let left = vcpu_handle.handle.leave(core, true);
        (left.map_err(|error| error.to_string()), core, sched::policy_of(pid).ok())
    });
    let allowed = status(pid, "Cpus_allowed_list:");
    let _ = child.kill();
    let _ = child.wait();
    drop(vcpu_handle);
    Arc::into_inner(group).expect("no other reference").remove().expect("removed");
    tree.remove().expect("the tree is removed");
    joined.expect("it joins");
    for (left, core, policy) in left {
        assert_eq!((left, policy), (Ok(()), Some(sched::KernelPolicy::Other)), "to {core}");
    }
    assert_eq!(allowed, there.0.to_string());
}
