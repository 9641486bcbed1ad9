//! `cargo xtask deb --service`: the package under systemd, in a Debian 12 of its own.
//!
//! The system is made by debootstrap once and kept below `target/`. It runs as a container
//! (`service/container.sh`), so at this machine's speed and with its scheduler; an administrator's
//! steps are `service/check.sh`. Where this machine cannot have such a container the step is
//! skipped, and counted.

use super::{Package, at, read};
use crate::{apt, skips};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What starts the container, the steps, and the service that takes them.
const FILES: [(&str, &str); 3] = [
    ("container.sh", include_str!("service/container.sh")),
    ("check.sh", include_str!("service/check.sh")),
    ("check.service", include_str!("service/check.service")),
];
/// Debian 12.
const RELEASE: &str = "bookworm";
/// In the system's folder, once it is complete.
const WHOLE: &str = "whole";

/// Tries the package's service.
///
/// # Errors
/// Where a step fails; what the service and systemd said is printed.
pub(super) fn try_service(package: &Package, file: &Path) -> Result<(), String> {
    if let Some(missing) = missing() {
        return skip(&package.root, missing);
    }
    let Some(debian) = debian(&package.target.join("deb/debian"))? else {
        return skip(&package.root, "a network, for Debian 12 by debootstrap");
    };
    let shared = package.target.join("deb/shared");
    let _ = fs::remove_dir_all(&shared);
    fs::create_dir_all(&shared).map_err(|error| at(&shared, &error))?;
    let put = |name: &str, bytes: &[u8]| {
        let to = shared.join(name);
        fs::write(&to, bytes).map_err(|error| at(&to, &error)).map(|()| to)
    };
    put("maracas.deb", &read(file)?)?;
    for (name, text) in FILES {
        put(name, text.as_bytes())?;
    }
    println!("+ container.sh {} {}", debian.display(), shared.display());
    let done = Command::new("sh")
        .arg(shared.join("container.sh"))
        .args([&debian, &shared])
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("sh does not start: {error}"))?;
    let out = fs::read_to_string(shared.join("out")).unwrap_or_default();
    print!("{out}");
    if done.success() && out.lines().any(|line| line == "all steps went well") {
        return Ok(());
    }
    Err(format!("the service does not do all that is wanted under systemd ({done})"))
}

/// What this machine lacks for a container with systemd.
fn missing() -> Option<&'static str> {
    let id = Command::new("id").arg("-u").output();
    if !id.is_ok_and(|output| output.stdout == b"0\n") {
        return Some("root, for a container with systemd");
    }
    if !apt::has("debootstrap") {
        apt::install(&["debootstrap"]);
    }
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let unified = mounts.lines().any(|line| line.split(' ').nth(2) == Some("cgroup2"));
    [
        (apt::has("debootstrap"), "debootstrap, for a container with systemd"),
        (apt::has("unshare"), "unshare, for a container with systemd"),
        (unified, "cgroup v2, for a container with systemd"),
    ]
    .into_iter()
    .find_map(|(there, what)| (!there).then_some(what))
}

fn skip(root: &Path, missing: &str) -> Result<(), String> {
    let line = format!("skipped: needs {missing}");
    println!("{line}");
    skips::add(root, &line)
}

/// Debian 12 with systemd and nothing else, made once; none where it cannot be fetched.
fn debian(folder: &Path) -> Result<Option<PathBuf>, String> {
    if folder.join(WHOLE).exists() {
        return Ok(Some(folder.into()));
    }
    let _ = fs::remove_dir_all(folder);
    println!("+ debootstrap {RELEASE} {}", folder.display());
    let made = Command::new("debootstrap")
        .args(["--variant=minbase", "--include=systemd-sysv", RELEASE])
        .arg(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("debootstrap does not start: {error}"))?;
    if !made.status.success() {
        print!("{}", String::from_utf8_lossy(&made.stdout));
        return Ok(None);
    }
    let whole = folder.join(WHOLE);
    fs::write(&whole, "").map_err(|error| at(&whole, &error))?;
    Ok(Some(folder.into()))
}
