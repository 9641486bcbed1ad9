//! A C program that knows nothing of this library, recoloured while it runs.
//!
//! The test plays the runtime: it makes the page of orders and reads what the program reports.

#[path = "../../../tests/shared/bounds.rs"]
mod bounds;

use bounds::{found, skip};
use maracas_client::color::{Buffer, ColorSet, Pagemap};
use maracas_core::control::color_page as words;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

/// Fills memory with a pattern and keeps threads busy that check what they wrote: in `malloc`ed
/// pieces that are resized (mremap), in memory that is given up and must then be zero (madvise),
/// protected and unprotected, in children that are forked and must find all of it.
/// Each line of input is answered by one with the pattern's address, its hash and the rounds that
/// the threads have made.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 8 << 20, PAGE = 4096 };
static volatile int over;
static volatile long rounds[6];
static unsigned char *pattern;

static void must(int holds, const char *what) {
    if (holds) return;
    printf("wrong: %s\n", what);
    fflush(stdout);
    _exit(9);
}

static uint64_t hash(const unsigned char *at, size_t bytes) {
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ at[i]) * 1099511628211u;
    return hash;
}

static int all(const unsigned char *at, size_t bytes, unsigned char value) {
    for (size_t i = 0; i < bytes; i++) if (at[i] != value) return 0;
    return 1;
}

/* Small and middle pieces. */
static void *churn(void *unused) {
    unsigned char *piece[64] = {0};
    size_t size[64];
    for (unsigned turn = 0; !over; turn++, rounds[0]++) {
        unsigned at = turn * 7 % 64;
        if (piece[at]) must(all(piece[at], size[at], (unsigned char)at), "malloc");
        free(piece[at]);
        size[at] = 100 + turn * 977 % 60000;
        must((piece[at] = malloc(size[at])) != NULL, "no memory");
        memset(piece[at], (int)at, size[at]);
    }
    return unused;
}

/* Pieces so large that resizing moves their pages. */
static void *resize(void *unused) {
    size_t size = 1 << 20;
    unsigned char *piece = malloc(size);
    memset(piece, 5, size);
    for (unsigned turn = 0; !over; turn++, rounds[1]++) {
        size_t next = (1 << 20) + (turn * 37 % 64) * 65536;
        must((piece = realloc(piece, next)) != NULL, "no memory");
        must(all(piece, size < next ? size : next, 5), "realloc");
        memset(piece, 5, next);
        size = next;
    }
    return unused;
}

/* Memory given up and taken again. */
static void *give_up(void *unused) {
    size_t size = 64 * PAGE;
    unsigned char *at =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (; !over; rounds[2]++) {
        memset(at, 6, size);
        must(all(at, size, 6), "written");
        must(madvise(at + size / 4, size / 2, MADV_DONTNEED) == 0, "madvise");
        must(all(at + size / 4, size / 2, 0), "given up");
        must(all(at, size / 4, 6), "kept");
        must(mprotect(at, size, PROT_READ) == 0, "mprotect");
        must(all(at, size / 4, 6), "protected");
        must(mprotect(at, size, PROT_READ | PROT_WRITE) == 0, "mprotect");
    }
    return unused;
}

/* Mappings that come and go, and threads that are born. */
static void *born(void *stack) {
    unsigned char local[9000];
    memset(local, 7, sizeof local);
    usleep(200);
    must(all(local, sizeof local, 7), "stack");
    return stack;
}
static void *come_and_go(void *unused) {
    for (; !over; rounds[3]++) {
        size_t size = 16 * PAGE;
        unsigned char *at =
            mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(all(at, size, 0), "new");
        memset(at, 8, size);
        pthread_t thread;
        must(pthread_create(&thread, NULL, born, NULL) == 0, "thread");
        pthread_join(thread, NULL);
        must(all(at, size, 8), "mapped");
        munmap(at, size);
    }
    return unused;
}

/* Children find what was there. */
static void *fork_children(void *unused) {
    uint64_t expected = hash(pattern, 64 * PAGE);
    for (; !over; rounds[4]++) {
        pid_t child = fork();
        if (child == 0) _exit(hash(pattern, 64 * PAGE) == expected ? 0 : 1);
        int status = -1;
        must(waitpid(child, &status, 0) == child && status == 0, "child");
        usleep(30000);
    }
    return unused;
}

/* Reading and writing by system calls, and sleeps that nothing cuts short. */
static void *calls(void *unused) {
    static unsigned char page[16 * PAGE], back[16 * PAGE];
    int ends[2];
    must(pipe(ends) == 0, "pipe");
    for (; !over; rounds[5]++) {
        memset(page, (int)rounds[5], sizeof page);
        for (size_t at = 0; at < sizeof page; at += PAGE) {
            must(write(ends[1], page + at, PAGE) == PAGE, "write");
            must(read(ends[0], back + at, PAGE) == PAGE, "read");
        }
        must(memcmp(page, back, sizeof page) == 0, "piped");
        struct timespec nap = {0, 1000000};
        must(nanosleep(&nap, NULL) == 0, "a sleep was interrupted");
    }
    return unused;
}

int main(void) {
    void *(*work[])(void *) = {churn, resize, give_up, come_and_go, fork_children, calls};
    pthread_t threads[6];
    pattern = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (uint64_t i = 0; i < BYTES / 8; i++) ((uint64_t *)pattern)[i] = i * 0x9E3779B97F4A7C15u;
    for (int i = 0; i < 6; i++)
        must(pthread_create(&threads[i], NULL, work[i], NULL) == 0, "thread");
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        long made = rounds[0];
        for (int i = 1; i < 6; i++) if (rounds[i] < made) made = rounds[i];
        unsigned long long now = hash(pattern, BYTES);
        printf("%lx %llx %ld\n", (unsigned long)pattern, now, made);
        fflush(stdout);
    }
    over = 1;
    for (int i = 0; i < 6; i++) pthread_join(threads[i], NULL);
    puts("done");
    return 0;
}
"#;

const BYTES: usize = 8 << 20;

/// The page as the runtime has it.
struct Page {
    path: PathBuf,
    file: File,
}

impl Page {
    fn create(directory: &Path) -> Self {
        let path = directory.join("page");
        let options = File::options().read(true).write(true).create(true).truncate(true).clone();
        let file = options.open(&path).unwrap();
        file.set_len(1 << 16).unwrap();
        Self { path, file }
    }
    fn write(&self, word: usize, value: u64) {
        self.file.write_all_at(&value.to_ne_bytes(), word as u64 * 8).unwrap();
    }
    fn slot(&self, place: usize, word: usize) -> u64 {
        let mut bytes = [0; 8];
        let at = words::SLOTS + place * words::SLOT + word;
        self.file.read_exact_at(&mut bytes, at as u64 * 8).map_or(0, |()| u64::from_ne_bytes(bytes))
    }
    /// Locks a slot, if no process has it.
    fn lock(&self, place: usize) -> bool {
        // SAFETY: a plain structure of numbers, which the kernel reads.
        unsafe {
            let mut lock: libc::flock = std::mem::zeroed();
            lock.l_type = libc::F_WRLCK as libc::c_short;
            lock.l_start = ((words::SLOTS + place * words::SLOT) * 8) as libc::off_t;
            lock.l_len = (words::SLOT * 8) as libc::off_t;
            libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) == 0
        }
    }
    fn order(&self, number: u64, mask: u64, colors: u64) {
        self.write(words::MASK, mask);
        self.write(words::COLORS, colors);
        self.write(words::ORDER, number);
        // Shared memory of the same file, as the runtime wakes.
        // SAFETY: a new mapping that only the kernel looks at.
        unsafe {
            let fd = self.file.as_raw_fd();
            let null = std::ptr::null_mut();
            let at = libc::mmap(null, 4096, libc::PROT_READ, libc::MAP_SHARED, fd, 0);
            libc::syscall(libc::SYS_futex, at, libc::FUTEX_WAKE, i32::MAX);
            libc::munmap(at, 4096);
        }
    }
}

/// A program that answers lines.
struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(program: &Path, library: &Path, page: &Path) -> Self {
        let mut child = Command::new(program)
            .env("LD_PRELOAD", library)
            .env("MARACAS_COLORS", page)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output) }
    }
    fn read(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_string()
    }
    /// Waits for something of the program, which must live.
    fn until(&mut self, what: &str, holds: impl Fn() -> bool) {
        let began = Instant::now();
        while !holds() {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("{what} never came: {status}; it said: {}", self.read());
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{what} never came");
            thread::sleep(Duration::from_millis(1));
        }
    }
    /// The pattern's address, its hash and the rounds.
    fn ask(&mut self) -> (usize, String, u64) {
        self.input.write_all(b"?\n").unwrap();
        let line = self.read();
        let words: Vec<_> = line.split(' ').collect();
        let [address, hash, rounds] = words[..] else { panic!("it said: {line}") };
        (usize::from_str_radix(address, 16).unwrap(), hash.to_string(), rounds.parse().unwrap())
    }
    fn end(mut self) {
        drop(self.input);
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success() && line == "done\n", "{status}: {line}");
    }
}

/// The shared library that this test was built beside, or one step above.
fn library() -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    let directories = own.ancestors().skip(1).take(2);
    directories.map(|dir| dir.join("libmaracas_client.so")).find(|path| path.exists())
}

/// Compiles the program and hands it over, with the library and a directory for the page.
fn with_program(name: &str, text: &str, test: impl Fn(&Path, &Path, &Path)) {
    let visible = ColorSet::new(1, 2).map(|set| Buffer::of_colors(1, set));
    let visible = visible.expect("there are such colours");
    if found(visible, "sight of page frames and the right to move pages").is_none() {
        return;
    }
    let Some(library) = library() else {
        return skip("the shared library (`cargo build -p maracas-client`)");
    };
    let directory = env::temp_dir().join(format!("maracas-{name}-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let (source, program) = (directory.join("program.c"), directory.join("program"));
    fs::write(&source, text).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]);
    match cc.arg(&program).arg(&source).output() {
        Err(_) => skip("a C compiler `cc`"),
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            test(&program, &library, &directory);
        }
    }
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_busy_program_is_recoloured_again_and_again_with_its_content_unchanged() {
    with_program("preload", PROGRAM, |program, library, directory| {
        let page = Page::create(directory);
        let mut program = Program::start(program, library, &page.path);
        let pid = u64::from(program.child.id());
        program.until("the program", || page.slot(0, words::PROCESS) == pid);
        let (address, hash, _) = program.ask();
        let range = address..address + BYTES;
        let pagemap = Pagemap::of(program.child.id()).unwrap();
        let (mut before, mut moved) = (0, 0);
        for order in 1..=10_u64 {
            let mask = if order % 2 == 1 { 0b0011 } else { 0b1100 };
            page.order(order, mask, 4);
            program.until("the order's end", || page.slot(0, words::FINISHED) == order);
            let pages = page.slot(0, words::PAGES);
            assert_eq!(page.slot(0, words::ERROR), 0);
            let set = ColorSet::new(mask, 4).unwrap();
            // Children share some pages with it as long as they live; it looks again.
            program.until("the colours", || {
                let report = pagemap.verify(range.clone(), set).unwrap();
                report.wrong * 10 < report.pages
            });
            moved += pages;
            let (_, now, rounds) = program.ask();
            assert_eq!(now, hash, "order {order}");
            assert!(rounds > before, "its threads go on");
            before = rounds;
        }
        assert!(moved > 4000, "{moved} pages in ten orders");
        program.end();
    });
}

/// Answers lines, and says what threads it has.
const QUIET: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    char line[64];
    enum { BYTES = 1 << 20 };
    unsigned char *pattern = malloc(BYTES);
    for (int i = 0; i < BYTES; i++) pattern[i] = (unsigned char)(i * 31 >> 3);
    while (fgets(line, sizeof line, stdin)) {
        unsigned long sum = 0;
        for (int i = 0; i < BYTES; i++) sum = sum * 131 + pattern[i];
        printf("%lx %lx 1\n", (unsigned long)pattern, sum);
        fflush(stdout);
    }
    puts("done");
    return 0;
}
"#;

#[test]
fn a_hostile_page_does_no_harm() {
    with_program("hostile", QUIET, |program, library, directory| {
        let page = Page::create(directory);
        let mut program = Program::start(program, library, &page.path);
        let pid = u64::from(program.child.id());
        program.until("the program", || page.slot(0, words::PROCESS) == pid);
        let (_, hash, _) = program.ask();
        // Colours that do not exist, and what is left of a page of garbage.
        for (number, mask, colors) in [(1, 0b1_0000, 4), (2, 1, u64::MAX), (3, u64::MAX, 0)] {
            page.order(number, mask, colors);
            program.until("the answer", || page.slot(0, words::FINISHED) == number);
            assert_eq!(page.slot(0, words::ERROR), libc::EINVAL as u64);
        }
        for word in 3..words::WORDS {
            page.write(word, u64::MAX - word as u64);
        }
        page.order(4, 0b01, 2);
        program.until("the answer", || page.slot(0, words::FINISHED) == 4);
        assert_eq!((page.slot(0, words::ERROR), program.ask().1), (0, hash.clone()));
        // Cut short while it waits, and while it is woken.
        page.file.set_len(0).unwrap();
        page.file.set_len(100).unwrap();
        page.order(5, 0b10, 2);
        page.file.set_len(0).unwrap();
        thread::sleep(Duration::from_millis(100));
        assert_eq!(program.ask().1, hash);
        program.end();
    });
}

/// Closes all descriptors but the standard ones, as daemons do, and opens files of its own. Each
/// line of input is answered by how many of these are open, here and in a child forked just then.
const CLOSING: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES = 40 };
static int file[FILES];

static int open_ones(void) {
    int count = 0;
    for (int i = 0; i < FILES; i++) count += fcntl(file[i], F_GETFD) != -1;
    return count;
}

int main(void) {
    char line[64];
    if (!fgets(line, sizeof line, stdin)) return 1;
    for (int number = 3; number < 256; number++) close(number);
    for (int i = 0; i < FILES; i++) file[i] = open("/dev/zero", O_RDONLY);
    do {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            usleep(50000);
            _exit(open_ones());
        }
        waitpid(child, &status, 0);
        printf("%d %d\n", open_ones(), WEXITSTATUS(status));
        fflush(stdout);
    } while (fgets(line, sizeof line, stdin));
    puts("done");
    return 0;
}
"#;

#[test]
fn a_program_that_closes_all_descriptors_keeps_its_own_and_is_recoloured() {
    with_program("closing", CLOSING, |program, library, directory| {
        let page = Page::create(directory);
        let mut program = Program::start(program, library, &page.path);
        let pid = u64::from(program.child.id());
        program.until("the program", || page.slot(0, words::PROCESS) == pid);
        // What the thread opens after it has its slot, it opens by now.
        thread::sleep(Duration::from_millis(100));
        let mut open = || {
            program.input.write_all(b"?\n").unwrap();
            program.read()
        };
        assert_eq!(open(), "40 40");
        page.order(1, 0b01, 2);
        thread::sleep(Duration::from_millis(100));
        assert_eq!(open(), "40 40");
        program.until("the order's end", || page.slot(0, words::FINISHED) == 1);
        assert_eq!(page.slot(0, words::ERROR), 0);
        program.end();
    });
}

/// Forks when it is asked to, says the child's number, and waits; so does the child.
const FORKING: &str = r#"
#include <stdio.h>
#include <unistd.h>

int main(void) {
    char line[64];
    if (!fgets(line, sizeof line, stdin)) return 1;
    pid_t child = fork();
    if (child != 0) {
        printf("%d\n", (int)child);
        fflush(stdout);
    }
    /* Not for good, should the test fail. */
    alarm(60);
    for (;;) pause();
}
"#;

#[test]
fn a_child_forked_before_the_rights_are_there_does_not_keep_its_parents_slot() {
    with_program("forking", FORKING, |program, library, directory| {
        let page = Page::create(directory);
        // A runtime that answers late.
        let _socket = UnixListener::bind(directory.join("page.door")).unwrap();
        let mut program = Program::start(program, library, &page.path);
        let pid = u64::from(program.child.id());
        program.until("the program", || page.slot(0, words::PROCESS) == pid);
        program.input.write_all(b"fork\n").unwrap();
        let child: i32 = program.read().parse().unwrap();
        // Its own thread takes the next slot, as the first one is taken.
        program.until("the child", || page.slot(1, words::PROCESS) == child as u64);
        assert!(!page.lock(0), "the parent lives");
        program.child.kill().unwrap();
        program.child.wait().unwrap();
        let free = page.lock(0);
        // SAFETY: a child of our own child, which waits for this.
        unsafe { libc::kill(child, libc::SIGKILL) };
        assert!(free, "a child holds the slot of its parent, which is dead");
    });
}
