use super::*;
use std::os::fd::AsRawFd;
use std::ptr;

/// A page in a directory of its own.
fn page(name: &str) -> (PathBuf, ColorPage) {
    let directory = std::env::temp_dir().join(format!("maracas-{name}-{}", std::process::id()));
    let page = ColorPage::create_in(&directory, VcpuId(3), None).expect("a page");
    (directory, page)
}

/// A process at a slot of a page, as the client library behaves.
struct Process {
    file: File,
    place: usize,
}

impl Process {
    fn attach(path: &Path, place: usize) -> Self {
        let file = OpenOptions::new().read(true).write(true).open(path).expect("it is ours");
        let process = Self { file, place };
        // SAFETY: a plain structure of numbers.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_WRLCK as libc::c_short;
        lock.l_start = process.at(0) as libc::off_t;
        lock.l_len = (words::SLOT * WORD) as libc::off_t;
        // SAFETY: the kernel reads the structure.
        let locked =
            unsafe { libc::fcntl(process.file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut lock) };
        assert_eq!(locked, 0);
        process.write(words::PROCESS, 77);
        process
    }
    fn at(&self, word: usize) -> u64 {
        ((words::SLOTS + self.place * words::SLOT + word) * WORD) as u64
    }
    fn write(&self, word: usize, value: u64) {
        self.file.write_all_at(&value.to_ne_bytes(), self.at(word)).expect("it is written");
    }
}

#[test]
fn an_order_is_complete_when_all_attached_processes_have_finished_it() {
    let (directory, mut page) = page("orders");
    assert_eq!((page.attached(), page.finished()), (0, None));
    page.order(0b11, 16).expect("it is written");
    assert_eq!(page.finished(), None, "no program is there");
    let remark = |page: &ColorPage| page.remark().unwrap_or_default();
    assert!(remark(&page).contains("no program of it followed"));
    let first = Process::attach(page.path(), 0);
    let second = Process::attach(page.path(), 5);
    assert_eq!((page.attached(), page.finished()), (2, None));
    std::thread::sleep(Duration::from_millis(5));
    first.write(words::PAGES, 40);
    first.write(words::NANOS, 4_000_000);
    first.write(words::FINISHED, 1);
    assert_eq!(page.finished(), None);
    second.write(words::LEFT, 2);
    second.write(words::ERROR, libc::EPERM as u64);
    second.write(words::FINISHED, 1);
    let done = Done { processes: 2, pages: 40, nanos: 4_000_000, left: 2, error: libc::EPERM };
    assert_eq!(page.finished(), Some(done));
    assert!(remark(&page).contains("2 are left"), "{}", remark(&page));
    second.write(words::ERROR, 0);
    assert_eq!(remark(&page), "2 of its pages stayed in frames of other colours");
    drop(second);
    assert_eq!(remark(&page), "");
    assert_eq!(page.attached(), 1, "one that ended is attached no more");
    assert_eq!(page.finished().map(|done| done.left), Some(0));
    page.order(0, 16).expect("it is written");
    assert_eq!(page.finished(), None);
    let mut seen = [0; 3 * WORD];
    first.file.read_exact_at(&mut seen, 0).expect("it is read");
    let words: Vec<u64> =
        seen.chunks(WORD).map(|w| u64::from_ne_bytes(w.try_into().expect("8 bytes"))).collect();
    assert_eq!(words, [2, 0, 16]);
    drop(page);
    fs::remove_dir(&directory).expect("nothing is left in it");
}

#[test]
fn what_hostile_programs_write_does_no_harm() {
    let (directory, mut page) = page("hostile");
    page.order(1, 4).expect("it is written");
    let process = Process::attach(page.path(), 62);
    for word in 0..words::SLOT {
        process.write(word, u64::MAX);
    }
    assert_eq!(page.finished(), None, "an order that never was");
    process.write(words::FINISHED, 1);
    let done = page.finished().expect("it says so");
    assert!(done.nanos < 60_000_000_000 && done.pages <= done.nanos / 100, "{done:?}");
    assert_eq!((done.left, done.error), (MOST_PAGES, libc::EPROTO));
    process.file.set_len(0).expect("it is cut short");
    assert_eq!((page.attached(), page.finished()), (0, None));
    page.order(1, 4).expect("it is written again");
    process.write(words::PROCESS, 1);
    assert_eq!((page.attached(), page.finished()), (1, None));
    drop(page);
    fs::remove_dir(&directory).expect("nothing is left in it");
}

#[test]
fn an_order_wakes_the_program_that_waits_for_it() {
    let (directory, mut page) = page("wake");
    let theirs = File::open(page.path()).expect("it is ours");
    let woken = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let futex = Futex::of(&theirs, BYTES).expect("it can be mapped");
            let patience = libc::timespec { tv_sec: 10, tv_nsec: 0 };
            let (address, patience) = (futex.address(), &raw const patience);
            // SAFETY: the kernel alone follows the address.
            let waited =
                unsafe { libc::syscall(libc::SYS_futex, address, libc::FUTEX_WAIT, 0, patience) };
            (waited, io::Error::last_os_error().raw_os_error())
        });
        std::thread::sleep(Duration::from_millis(50));
        page.order(1, 4).expect("it is written");
        waiter.join().expect("it lives")
    });
    // Woken, or come so late that the order was there already.
    assert!(woken.0 == 0 || woken.1 == Some(libc::EAGAIN), "{woken:?}");
    drop(page);
    fs::remove_dir(&directory).expect("nothing is left in it");
}

/// Connects to a descriptor server and gives what it sends: nothing where one is turned away.
/// System calls alone, so that a process just forked may do it.
fn knock(path: &std::ffi::CStr) -> Option<(u8, i32)> {
    let (mut byte, mut room) = (0_u8, [0_u64; 8]);
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: plain structures, which the kernel reads and fills.
    unsafe {
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let bytes = path.to_bytes();
        ptr::copy_nonoverlapping(bytes.as_ptr().cast(), address.sun_path.as_mut_ptr(), bytes.len());
        let socket = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0);
        let size = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        if libc::connect(socket, (&raw const address).cast(), size) != 0 {
            return None;
        }
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = room.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&room) as _;
        let length = libc::recvmsg(socket, &raw mut message, 0);
        libc::close(socket);
        if length != 1 {
            return None;
        }
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let first = match header.is_null() {
            true => -1,
            false => libc::CMSG_DATA(header).cast::<i32>().read_unaligned(),
        };
        Some((byte, first))
    }
}

#[test]
fn the_door_gives_programs_on_its_vcpu_their_own_descriptors_and_others_nothing() {
    use crate::host::cgroup::{Hierarchies, Tree};
    use crate::host::launch::{Exit, fork, wait};
    use crate::host::tests::{is_root, turn};
    let _turn = turn();
    let (directory, page) = page("door");
    let mut path = page.path().to_path_buf().into_os_string();
    path.push(words::DESCRIPTORS);
    let path = crate::host::sys::c_path(Path::new(&path)).expect("plain");
    assert_eq!(knock(&path), None, "outside of the VCPU, as any user");
    let hierarchies = Hierarchies::read().expect("readable");
    if is_root() && hierarchies.v2.is_some() {
        let tree = Tree::create(&hierarchies).expect("a tree");
        let knock_on = |vcpu: u32| {
            let group = tree.vcpu(VcpuId(vcpu)).expect("a group");
            let guest = fork(group.dir_fd(), || {
                // SAFETY: system calls on values of our own; ends the process.
                unsafe {
                    for descriptors in group.join_files() {
                        libc::write(descriptors, c"0".as_ptr().cast(), 1);
                    }
                    let Some((what, first)) = knock(&path) else { libc::_exit(1) };
                    let (mut own, mut given): (libc::stat, libc::stat) = std::mem::zeroed();
                    let named = libc::stat(c"/proc/self/pagemap".as_ptr(), &raw mut own);
                    let same = named == 0
                        && libc::fstat(first, &raw mut given) == 0
                        && own.st_ino == given.st_ino;
                    let has = what & words::DESCRIPTORS_PAGEMAP != 0;
                    libc::_exit(if has && same { 2 } else { 3 })
                }
            });
            let exit = wait(guest.expect("forked").pid, 0).expect("collected");
            group.remove().expect("removed");
            exit
        };
        let (own, neighbour) = (knock_on(3), knock_on(4));
        tree.remove().expect("removed");
        assert_eq!(own, Some(Exit::Code(2)), "its own pagemap, and it alone");
        assert_eq!(neighbour, Some(Exit::Code(1)), "a program of another VCPU");
    } else {
        eprintln!("skipped: needs root and cgroup v2 to be on a VCPU");
    }
    drop(page);
    assert_eq!(knock(&path), None);
    fs::remove_dir(&directory).expect("nothing is left in it");
}
