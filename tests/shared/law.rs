//! The law in C, in user space (`bpf/twin.c`): for scripts, or step by step.
#![allow(dead_code, reason = "every test binary uses its part")]

use crate::bounds;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Compiles `bpf/twin.c` into the folder. `None` after a skip, where there is no compiler.
pub(crate) fn compile(folder: &Path) -> Option<PathBuf> {
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bpf");
    let program = folder.join("twin");
    let warnings = ["-Wall", "-Wextra", "-Werror", "-std=gnu11", "-O1", "-pthread"];
    let status =
        Command::new("cc").args(warnings).arg(bpf.join("twin.c")).arg("-o").arg(&program).status();
    match status {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bounds::skip("a C compiler");
            None
        }
        Err(error) => panic!("cc: {error}"),
        Ok(status) => {
            assert!(status.success(), "twin.c does not compile");
            Some(program)
        }
    }
}

/// A folder of a test's own.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// One run of it.
pub(crate) struct Twin {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Twin {
    /// Of so many cores and VCPUs, where so little is left of a grant that is as good as spent.
    pub(crate) fn start(program: &Path, cores: usize, vcpus: usize, least: u64) -> Self {
        let (input, output) = (Stdio::piped(), Stdio::piped());
        let mut child = Command::new(program).stdin(input).stdout(output).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "c {cores} {vcpus} {least}").unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    /// Carries a step out; the numbers that it says then.
    pub(crate) fn step(&mut self, step: &str) -> Vec<i128> {
        writeln!(self.input, "{step}").unwrap();
        self.input.flush().unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the twin ended at `{step}`: {:?}", self.child.wait());
        line.split_whitespace().map(|word| word.parse().unwrap()).collect()
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
