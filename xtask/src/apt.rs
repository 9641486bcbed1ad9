//! What tests need of a Debian or Ubuntu machine, where it may be installed.

use std::process::{Command, Stdio};

/// Tries to install packages. Fails without a word where this is no root or no such machine: what
/// needs them then says that they are missing.
pub(crate) fn install(packages: &[&str]) {
    println!("+ apt-get install {}", packages.join(" "));
    let install = [&["install", "--yes", "--no-install-recommends"], packages].concat();
    for words in [&["update"][..], &install] {
        let apt = Command::new("apt-get")
            .arg("--quiet")
            .args(words)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !apt.is_ok_and(|status| status.success()) {
            return;
        }
    }
}

/// Whether a program of this name is on the path.
pub(crate) fn has(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}
