//! `cargo xtask bpf`: the scheduler that is a BPF program, compiled, and compared with what is
//! checked in, so that no build needs the compiler for it.

use crate::apt;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The compiler, as packages clang-19 and llvm-19 of Debian 12 have it. Another one may write other
/// bytes.
const CLANG: &str = "clang-19";
const STRIP: &str = "llvm-strip-19";
const VERSION: &str = "Debian clang version 19.1.7 (3~deb12u1)";
/// The source, the object, and what `sha256sum` says of it, below `bpf`.
const SOURCE: &str = "maracas.bpf.c";
const OBJECT: &str = "maracas.bpf.o";
const SUM: &str = "maracas.bpf.o.sha256";
/// Debugging information is made, since the types in it are what the loader finds the kernel's
/// fields by, and no path of this machine is in it.
const FLAGS: [&str; 13] = [
    "-g",
    "-O2",
    "-target",
    "bpf",
    "-mcpu=v3",
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
    "-Wno-sign-compare",
    "-fdebug-compilation-dir=.",
    "-c",
];

/// Compiles the object. `--check`: into `target`, and compares; without the compiler that is
/// skipped, and counted.
///
/// # Errors
/// Where it does not compile, or what is checked in is not what the source makes.
pub(crate) fn bpf(root: &Path, words: &[&str]) -> Result<(), String> {
    let is_check = match words {
        [] => false,
        ["--check"] => true,
        other => return Err(format!("unknown option `{}`; there is --check", other.join(" "))),
    };
    let folder = root.join("bpf");
    if is_check {
        sha256sum(&folder, &["--check", "--status", SUM])
            .map_err(|why| format!("bpf/{OBJECT} is not what bpf/{SUM} says: {why}"))?;
    }
    if !has_compiler() {
        let line = format!("skipped: needs {CLANG} and {STRIP}, {VERSION}");
        if !is_check {
            return Err(line);
        }
        eprintln!("{line}");
        return crate::skips::add(root, &line);
    }
    if is_check {
        let built = root.join("target/bpf");
        fs::create_dir_all(&built).map_err(|e| format!("{}: {e}", built.display()))?;
        let built = built.join(OBJECT);
        compile(&folder, &built)?;
        let [one, other] = [built, folder.join(OBJECT)].map(|path| read(&path));
        if one? != other? {
            return Err(format!("bpf/{OBJECT} is not what its source makes: cargo xtask bpf"));
        }
        println!("bpf/{OBJECT} is what its source makes");
        return Ok(());
    }
    compile(&folder, &folder.join(OBJECT))?;
    let sum = sha256sum(&folder, &[OBJECT])?;
    fs::write(folder.join(SUM), &sum).map_err(|e| format!("bpf/{SUM}: {e}"))?;
    print!("{sum}");
    Ok(())
}

/// Whether the very compiler is here.
fn has_compiler() -> bool {
    let output = Command::new(CLANG).arg("--version").output();
    let is_it = output.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).starts_with(VERSION));
    is_it && apt::has(STRIP)
}

fn compile(folder: &Path, to: &Path) -> Result<(), String> {
    run(Command::new(CLANG).args(FLAGS).arg(SOURCE).arg("-o").arg(to).current_dir(folder))?;
    run(Command::new(STRIP).arg("--strip-debug").arg(to)).map(drop)
}

fn sha256sum(folder: &Path, words: &[&str]) -> Result<String, String> {
    run(Command::new("sha256sum").args(words).current_dir(folder))
}

fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name} does not start: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::{OBJECT, SUM, bpf, read, sha256sum};

    #[test]
    fn the_object_is_what_its_sum_says_and_is_for_bpf() {
        let folder = crate::root().join("bpf");
        sha256sum(&folder, &["--check", "--status", SUM]).unwrap();
        let object = read(&folder.join(OBJECT)).unwrap();
        // An ELF file of 64 bits, little-endian, machine 247: EM_BPF.
        assert_eq!(object[..6], [0x7f, b'E', b'L', b'F', 2, 1]);
        assert_eq!(object[18..20], [247, 0]);
        let has = |text: &str| object.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(has(".struct_ops.link") && has("GPL"));
        let path = crate::root().display().to_string();
        assert!(!has(&path), "it names a path of this machine");
    }

    #[test]
    fn unknown_options_are_refused() {
        assert!(bpf(&crate::root(), &["--fast"]).unwrap_err().contains("--check"));
    }
}
