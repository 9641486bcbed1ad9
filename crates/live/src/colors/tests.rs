use super::*;

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
    assert_eq!(page.finished(), None, "nobody is there");
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
    assert_eq!(page.attached(), 1, "who ended is attached no more");
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
fn an_order_wakes_who_waits_for_it() {
    let (directory, mut page) = page("wake");
    let theirs = File::open(page.path()).expect("it is ours");
    let woken = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let futex = Futex::of(&theirs).expect("it can be mapped");
            let patience = libc::timespec { tv_sec: 10, tv_nsec: 0 };
            let (address, patience) = (futex.0.as_ptr(), &raw const patience);
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

#[test]
fn the_door_gives_a_process_its_own_descriptors() {
    use std::os::fd::{FromRawFd, OwnedFd};
    use std::os::unix::net::UnixStream;
    let (directory, page) = page("door");
    let mut path = page.path().to_path_buf().into_os_string();
    path.push(words::DOOR);
    let stream = UnixStream::connect(&path).expect("it stands");
    let (mut byte, mut room) = (0_u8, [0_u64; 8]);
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: a plain structure; then the kernel fills what we point to.
    let given: Vec<OwnedFd> = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = room.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&room) as _;
        assert_eq!(libc::recvmsg(stream.as_raw_fd(), &raw mut message, 0), 1);
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let count = if header.is_null() {
            0
        } else {
            ((*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize) / 4
        };
        let data = libc::CMSG_DATA(header).cast::<i32>();
        (0..count).map(|at| OwnedFd::from_raw_fd(data.add(at).read_unaligned())).collect()
    };
    assert_ne!(byte & words::DOOR_PAGEMAP, 0, "its own pagemap is anyone's to open");
    assert_eq!(given.len() as u32, byte.count_ones());
    let link = fs::read_link(format!("/proc/self/fd/{}", given[0].as_raw_fd())).expect("a link");
    let pid = std::process::id();
    assert!(link.ends_with(format!("{pid}/pagemap")), "{}", link.display());
    drop(page);
    assert!(UnixStream::connect(&path).is_err());
    fs::remove_dir(&directory).expect("nothing is left in it");
}
