use super::*;
use crate::host::HardwareCore;
use crate::host::cgroup::{Hierarchies, Tree};
use crate::host::launch::{self, Command, Output};
use maracas_core::VcpuId;
use std::time::Duration;

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
    group.kill().unwrap();
    child.wait().unwrap();
    group.remove().unwrap();
    tree.remove().unwrap();
    // Another process may take most of the core, but not all of it.
    assert!((5_000_000..400_000_000).contains(&count), "{count} ns");
}
