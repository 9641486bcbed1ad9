//! The header, the static library and a C program, put together by the host's C compiler.

#[path = "../../../tests/shared/bounds.rs"]
mod bounds;

use bounds::{found, skip};
use maracas_client::color::{Buffer, ColorSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const PROGRAM: &str = r#"
#include "maracas.h"
#include <stdio.h>
#include <string.h>

int main(void) {
    struct maracas_job job = {0, 0, 0};
    if (strlen(maracas_last_error()) != 0) return 1;
    if (maracas_in_foreground()) return 2;
    if (maracas_job_done()) return 3;
    if (strstr(maracas_last_error(), "no job was begun") == NULL) return 4;
    if (maracas_job_wait(&job)) return 5;
    if (maracas_vcpu_destroy()) return 6;
    if (maracas_task_create(2000000, 10000000, 0)) return 7;
    if (maracas_vcpu_create(2000000, 10000000, 0)) return 8;
    struct maracas_vcpu mine = MARACAS_VCPU(2000000, 10000000);
    mine.name = "mine";
    mine.jobs = 7;
    if (maracas_create_vcpu(&mine)) return 10;
    if (strstr(maracas_last_error(), "jobs is 7") == NULL) return 11;
    mine.jobs = MARACAS_SPORADIC_JOBS;
    mine.core_class = 256;
    if (maracas_create_vcpu(&mine)) return 12;
    if (strstr(maracas_last_error(), "core_class cannot be 256") == NULL) return 13;
    mine.core_class = 1;
    if (maracas_create_vcpu(&mine)) return 14;
    if (maracas_create_vcpu(NULL)) return 15;
    if (maracas_vcpu_create(2000000, 10000000, 0)) return 8;
    if (maracas_counts_progress()) return 9;
    maracas_progress(1);
    puts(maracas_last_error());
    return 0;
}
"#;

const COLOURS: &str = r#"
#include "maracas.h"
#include <stdio.h>
#include <string.h>

int main(void) {
    struct maracas_buffer buffer;
    if (maracas_buffer_create(&buffer, 4096, 0, 4)) return 1;
    if (strstr(maracas_last_error(), "no set") == NULL) return 2;
    if (!maracas_buffer_create(&buffer, 1 << 20, 1, 4)) {
        puts(maracas_last_error());
        return 77;
    }
    if (maracas_wrong_pages(buffer.memory, 1 << 20, 1, 4) != 0) return 3;
    memset(buffer.memory, 5, 1 << 20);
    if (maracas_wrong_pages(buffer.memory, 1 << 20, 6, 4) != 256) return 4;
    if (!maracas_recolor(buffer.memory, 1 << 20, 6, 4)) return 5;
    if (maracas_wrong_pages(buffer.memory, 1 << 20, 6, 4) != 0) return 6;
    for (int i = 0; i < 1 << 20; i++) if (((char *)buffer.memory)[i] != 5) return 7;
    maracas_buffer_destroy(&buffer);
    maracas_buffer_destroy(&buffer);
    return 0;
}
"#;

/// Counts in a thread and in a forked child, and then executes itself, to count once more.
const COUNTING: &str = r#"
#define _POSIX_C_SOURCE 200809L
#include "maracas.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void *count(void *unused) {
    for (int i = 0; i < 1000; i++) maracas_progress(2);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (!maracas_counts_progress()) return 1;
    maracas_progress(1000000);
    if (argc > 1) return 0;
    if (pthread_create(&thread, NULL, count, NULL)) return 2;
    if (fork() == 0) {
        count(NULL);
        _exit(0);
    }
    wait(NULL);
    pthread_join(thread, NULL);
    execl(argv[0], argv[0], "again", (char *)NULL);
    return 3;
}
"#;

/// Calls from a destructor of thread-specific data: by then the library's own data of the thread is
/// gone.
const AT_THREAD_END: &str = r#"
#define _POSIX_C_SOURCE 200809L
#include "maracas.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_key_t key;
static int called;

static void at_end(void *unused) {
    struct maracas_job job;
    (void)unused;
    if (maracas_vcpu_destroy() || maracas_job_done() || maracas_job_wait(&job)) exit(1);
    if (maracas_task_create(2000000, 10000000, 0)) exit(2);
    if (strlen(maracas_last_error()) != 0) exit(3);
    called++;
}

static void *work(void *unused) {
    pthread_setspecific(key, &key);
    if (maracas_vcpu_destroy()) exit(4);
    if (strstr(maracas_last_error(), "created no VCPU") == NULL) exit(5);
    return unused;
}

int main(void) {
    pthread_t thread;
    if (pthread_key_create(&key, at_end)) return 6;
    if (pthread_create(&thread, NULL, work, NULL)) return 7;
    pthread_join(thread, NULL);
    return called == 1 ? 0 : 8;
}
"#;

/// The static library that this test was built beside, or one step above.
fn library() -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    let directories = own.ancestors().skip(1).take(2);
    directories.map(|dir| dir.join("libmaracas_client.a")).find(|path| path.exists())
}

fn compile(text: &str, directory: &Path, library: &Path) -> Option<PathBuf> {
    let (source, program) = (directory.join("program.c"), directory.join("program"));
    fs::write(&source, text).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let output = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-std=c99", "-pedantic", "-I"])
        .args([include.as_os_str(), source.as_os_str(), library.as_os_str()])
        .args(["-o".as_ref(), program.as_os_str()])
        .args(["-lpthread", "-ldl", "-lm"].map(OsStr::new))
        .output()
        .ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// Builds the program in a directory of its own and hands both to `test`.
fn with_program(name: &str, text: &str, test: impl Fn(&Path, &mut Command)) {
    let Some(library) = library() else {
        return skip("the static library (`cargo build -p maracas-client`)");
    };
    let directory = env::temp_dir().join(format!("maracas-c-{name}-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    match compile(text, &directory, &library) {
        None => skip("a C compiler `cc`"),
        Some(program) => test(&directory, Command::new(program).env_remove("MARACAS_VCPU")),
    }
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_c_program_compiles_links_and_reads_its_errors() {
    with_program("errors", PROGRAM, |directory, program| {
        let program = program.env("MARACAS_SOCKET", directory.join("none.sock"));
        let output = program.env_remove("MARACAS_PROGRESS").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "it said: {said}");
        assert!(said.contains("none.sock: No such file or directory"), "it said: {said}");
    });
}

#[test]
fn a_thread_that_calls_as_it_ends_gets_errors() {
    with_program("end", AT_THREAD_END, |directory, program| {
        let status = program.env("MARACAS_SOCKET", directory.join("none.sock")).status().unwrap();
        assert_eq!(status.code(), Some(0), "{status}");
    });
}

#[test]
fn progress_counts_in_threads_children_and_executed_programs() {
    with_program("progress", COUNTING, |directory, program| {
        let counter = directory.join("counter");
        fs::write(&counter, 5_u64.to_ne_bytes()).unwrap();
        let status = program.env("MARACAS_PROGRESS", &counter).status().unwrap();
        assert_eq!(status.code(), Some(0));
        let bytes = fs::read(&counter).unwrap().try_into().unwrap();
        assert_eq!(u64::from_ne_bytes(bytes), 5 + 2_000_000 + 2 * 2000);
    });
}

#[test]
fn a_c_program_has_memory_of_its_colours() {
    let visible = ColorSet::new(1, 2).map(|set| Buffer::of_colors(1, set));
    let visible = visible.expect("there are such colours");
    if found(visible, "sight of page frames and the right to move pages").is_none() {
        return;
    }
    with_program("colours", COLOURS, |_, program| {
        let output = program.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "it said: {said}");
    });
}

#[test]
fn the_header_declares_what_the_library_exports() {
    let header = include_str!("../include/maracas.h");
    let source = include_str!("../src/c.rs");
    let exported: Vec<&str> = source
        .lines()
        .filter_map(|line| line.split_once("extern \"C\" fn ")?.1.split('(').next())
        .collect();
    assert!(exported.len() >= 9, "{exported:?}");
    for name in &exported {
        assert!(header.contains(&format!("{name}(")), "{name} is missing in the header");
    }
    let declared = header
        .lines()
        .filter(|line| {
            ["bool ", "void ", "int64_t ", "const char"].iter().any(|word| line.starts_with(word))
        })
        .count();
    assert_eq!(declared, exported.len(), "the header declares what is not there");
}
