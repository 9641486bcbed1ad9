//! The law in C, in user space (`bpf/twin.c`), in a folder of a test's own.
#![allow(dead_code, reason = "every test binary uses its part")]

use crate::bounds;
use maracas_tests::kernel::law;
use std::fs;
use std::path::{Path, PathBuf};

/// Compiles `bpf/twin.c` into the folder. `None` after a skip, where there is no compiler.
pub(crate) fn compile(folder: &Path) -> Option<PathBuf> {
    let program = law::compile(folder).unwrap_or_else(|why| panic!("{why}"));
    if program.is_none() {
        bounds::skip("a C compiler");
    }
    program
}

/// A folder of a test's own.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}
