//! The header, the static library and a C program, put together by the host's C compiler.

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
    puts(maracas_last_error());
    return 0;
}
"#;

/// The static library that this test was built beside, or one step above.
fn library() -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    let directories = own.ancestors().skip(1).take(2);
    directories.map(|dir| dir.join("libmaracas_client.a")).find(|path| path.exists())
}

fn compile(directory: &Path, library: &Path) -> Option<PathBuf> {
    let (source, program) = (directory.join("program.c"), directory.join("program"));
    fs::write(&source, PROGRAM).unwrap();
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

#[test]
fn a_c_program_compiles_links_and_reads_its_errors() {
    let Some(library) = library() else {
        eprintln!("skipped: needs the static library, which `cargo build -p maracas-client` makes");
        return;
    };
    let directory = env::temp_dir().join(format!("maracas-c-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    match compile(&directory, &library) {
        None => eprintln!("skipped: needs a C compiler `cc`"),
        Some(program) => {
            let output = Command::new(program)
                .env("MARACAS_SOCKET", directory.join("none.sock"))
                .env_remove("MARACAS_VCPU")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(0), "it said: {said}");
            assert!(said.contains("none.sock: No such file or directory"), "it said: {said}");
        }
    }
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn the_header_declares_what_the_library_exports() {
    let header = include_str!("../include/maracas.h");
    let source = include_str!("../src/c.rs");
    let exported: Vec<&str> = source
        .lines()
        .filter_map(|line| line.split_once("extern \"C\" fn ")?.1.split('(').next())
        .collect();
    assert!(exported.len() >= 7, "{exported:?}");
    for name in &exported {
        assert!(header.contains(&format!("{name}(")), "{name} is missing in the header");
    }
    let declared = header
        .lines()
        .filter(|line| line.starts_with("bool ") || line.starts_with("const char"))
        .count();
    assert_eq!(declared, exported.len(), "the header declares what is not there");
}
