use super::*;
use crate::host::HardwareCore;
use crate::host::cgroup::{Hierarchies, Tree};
use crate::host::launch::{self, Command, Output};
use maracas_core::VcpuId;
use std::time::{Duration, Instant};

#[test]
fn service_is_what_a_group_runs() {
    let _turn = crate::host::tests::turn();
    let group = Hierarchies::read()
        .and_then(|hierarchies| Tree::create(&hierarchies))
        .and_then(|tree| Ok((tree.vcpu(VcpuId(0))?, tree)));
    let (group, tree) = match group {
        Ok(group) => group,
        Err(error) => return crate::host::tests::refused(&error, "control groups"),
    };
    let service = Service::open(group.dir_fd().unwrap(), 0);
    let service = match service {
        Ok(service) => service,
        Err(error) => return crate::host::tests::refused(&error, "counters of a group"),
    };
    let argv = ["sh", "-c", "while :; do :; done"].map(Into::into).to_vec();
    let command = Command { argv, output: Output::Null, ..Command::default() };
    let mut child = launch::spawn(&command, &group, HardwareCore(0)).unwrap();
    child.release().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let count = service.count().unwrap();
    sched::set_affinity(0, HardwareCore(0)).unwrap();
    for _ in 0..50 {
        // The spinning process has the core meanwhile.
        std::thread::sleep(Duration::from_millis(1));
        let begin = Instant::now();
        let (kept, read) = (service.count().unwrap(), service.read().unwrap());
        // What it ran between the two, if this thread was preempted there, and no more.
        let most_ns = begin.elapsed().as_nanos() as u64 + 20_000;
        assert!(read - kept <= most_ns, "{kept} ns were kept, {read} ns counted");
    }
    group.kill().unwrap();
    child.wait().unwrap();
    // Nothing runs in it any more: what was counted is kept, where the kernel renews pages.
    let counts = [service.count(), service.count(), service.read()].map(Result::unwrap);
    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    assert_eq!(service.last.get().is_some(), pages_are_renewed());
    group.remove().unwrap();
    tree.remove().unwrap();
    // Another process may take most of the core, but not all of it.
    assert!((5_000_000..400_000_000).contains(&count), "{count} ns");
}
