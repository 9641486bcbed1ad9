//! The law in C, compiled for user space (`bpf/twin.c`): for scripts, or step by step.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

/// Compiles `bpf/twin.c` into the folder; `None` where there is no C compiler.
///
/// # Errors
/// Where it does not compile.
pub fn compile(folder: &Path) -> Result<Option<PathBuf>, String> {
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bpf");
    let program = folder.join("twin");
    // Others may compile it into the same folder, or run it.
    let own = folder.join(format!("twin-{}", std::process::id()));
    let warnings = ["-Wall", "-Wextra", "-Werror", "-std=gnu11", "-O1", "-pthread"];
    let status =
        Command::new("cc").args(warnings).arg(bpf.join("twin.c")).arg("-o").arg(&own).status();
    match status {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cc: {error}")),
        Ok(status) if !status.success() => Err("bpf/twin.c does not compile".into()),
        Ok(_) => match fs::rename(&own, &program) {
            Ok(()) => Ok(Some(program)),
            Err(error) => Err(format!("{}: {error}", program.display())),
        },
    }
}

/// The same beside this program, once a process.
pub(super) fn compiled() -> Result<Option<&'static Path>, String> {
    static PROGRAM: OnceLock<Result<Option<PathBuf>, String>> = OnceLock::new();
    let compile_here = || {
        let own = std::env::current_exe().map_err(|error| format!("its own path: {error}"))?;
        compile(own.parent().unwrap_or(Path::new(".")))
    };
    match PROGRAM.get_or_init(compile_here) {
        Ok(program) => Ok(program.as_deref()),
        Err(why) => Err(why.clone()),
    }
}

/// One run of it.
#[derive(Debug)]
pub struct Twin {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Twin {
    /// Of so many cores and VCPUs, where so little is left of a grant that is as good as spent.
    ///
    /// # Panics
    /// Where the program cannot be started.
    #[must_use]
    pub fn start(program: &Path, cores: usize, vcpus: usize, least: u64) -> Self {
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program that was compiled starts");
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = (input, output) else {
            unreachable!("both were asked for")
        };
        let mut twin = Self { child, input, output: BufReader::new(output) };
        twin.write(&format!("c {cores} {vcpus} {least}"));
        twin
    }

    fn write(&mut self, step: &str) {
        let written = writeln!(self.input, "{step}").and_then(|()| self.input.flush());
        written.unwrap_or_else(|error| panic!("the twin at `{step}`: {error}"));
    }

    /// Carries a step out; the numbers that it says then.
    ///
    /// # Panics
    /// Where the program ends at it, or says something else.
    pub fn step(&mut self, step: &str) -> Vec<i128> {
        self.write(step);
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        assert!(
            read.is_ok_and(|length| length > 0),
            "the twin ended at `{step}`: {:?}",
            self.child.wait()
        );
        let numbers = line.split_whitespace().map(str::parse).collect::<Result<_, _>>();
        numbers.unwrap_or_else(|_| panic!("the twin said `{line}` at `{step}`"))
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
