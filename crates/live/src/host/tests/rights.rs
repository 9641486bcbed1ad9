//! What the kernel says of the rights of threads (`/proc/<pid>/status`), each in a thread of its
//! own, since what is given up is gone.

use super::*;
use crate::host::tests::{can, is_root};
use std::fs;
use std::thread;

/// A field of the calling thread's status.
fn status(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").expect("readable");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
    u64::from_str_radix(line.trim_start_matches(':').trim(), 16).expect("a number")
}

fn apart<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(act).join().expect("no panic"))
}

#[test]
fn each_duty_keeps_its_capabilities_and_never_gets_others_back() {
    if !can("rights", is_root(), "root") {
        return;
    }
    // As in linux/capability.h, written down a second time.
    let (search, kill, lock, ptrace, admin, nice, perfmon) =
        (1 << 2, 1 << 5, 1 << 14, 1 << 19, 1 << 21, 1 << 23, 1_u64 << 38);
    let all = status("CapPrm");
    let counts = if counting() == PERFMON { perfmon } else { admin };
    let expected = [
        (Duty::Agent, nice | counts | kill | lock),
        (Duty::Server, nice | counts | kill | lock),
        (Duty::Usher, nice | lock),
        (Duty::Reader, lock),
        (Duty::Descriptors, admin | ptrace | search | lock),
    ];
    for (duty, wanted) in expected {
        let (effective, permitted, inheritable, shut, again, below) = apart(|| {
            keep(duty).expect("given up");
            let sets = (status("CapEff"), status("CapPrm"), status("CapInh"));
            let again = raised(|| status("CapEff"));
            let below = apart(|| status("CapPrm"));
            (sets.0, sets.1, sets.2, status("NoNewPrivs"), again, below)
        });
        // The server gives files away, one at a time.
        let reserve = if duty == Duty::Server { 1 } else { 0 };
        let (wanted, most) = (wanted & all, (wanted | reserve) & all);
        assert_eq!((effective, permitted, inheritable), (wanted, most, 0), "{duty:?}");
        assert_eq!((shut, again, below), (1, most, most), "{duty:?}");
    }
    assert_eq!(status("CapPrm"), all, "this thread has given up nothing");
}

#[test]
fn the_descriptor_server_opens_the_page_map_of_another_user() {
    if !can("page maps", is_root(), "root") {
        return;
    }
    let mut command = std::process::Command::new("sleep");
    std::os::unix::process::CommandExt::uid(&mut command, 65_534);
    let mut child = command.arg("60").spawn().expect("sleep starts");
    let opened = apart(|| {
        keep(Duty::Descriptors).expect("given up");
        fs::File::open(format!("/proc/{}/pagemap", child.id())).map(drop)
    });
    child.kill().expect("ours");
    child.wait().expect("ours");
    opened.expect("another user's page map");
}

#[test]
fn the_thread_that_starts_programs_raises_its_rights_for_single_acts() {
    if !can("lowered", is_root(), "root") {
        return;
    }
    apart(|| {
        let (before, permitted) = (status("CapEff"), status("CapPrm"));
        let lowered = lower();
        let low = status("CapEff");
        assert_eq!(low, before & Duty::Agent.kept());
        assert_eq!(status("CapPrm"), permitted);
        assert_eq!(raised(|| status("CapEff")), permitted);
        assert_eq!(status("CapEff"), low);
        let caught = std::panic::catch_unwind(|| raised(|| panic!("an act that fails")));
        assert!(caught.is_err());
        assert_eq!(status("CapEff"), low, "a panic leaves nothing raised");
        drop(lowered);
        assert_eq!(status("CapEff"), before);
    });
}

#[test]
fn a_thread_that_gave_up_its_rights_can_use_them_no_more() {
    if !can("given up", is_root(), "root") {
        return;
    }
    let path = std::env::temp_dir().join(format!("maracas-rights-{}", std::process::id()));
    let file = fs::File::create(&path).expect("made");
    let agent = apart(|| {
        keep(Duty::Agent).expect("given up");
        chown(&file, 1, 1).map_err(|error| error.raw_os_error())
    });
    let starter = apart(|| {
        let _lowered = lower();
        let plain = std::os::unix::fs::fchown(&file, Some(1), Some(1));
        (plain.map_err(|error| error.raw_os_error()), chown(&file, 1, 1).is_ok())
    });
    fs::remove_file(path).expect("ours");
    assert_eq!(agent, Err(Some(libc::EPERM)));
    assert_eq!(starter, (Err(Some(libc::EPERM)), true));
}
