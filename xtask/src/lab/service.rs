//! A guest with systemd: Debian 12 with our package beside it, and a service that does what an
//! administrator does with the package (`service/check.sh`).

use super::image::Image;
use super::mirror;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the guest does, and the service that does it.
const CHECK: &str = include_str!("service/check.sh");
const UNIT: &str = include_str!("service/lab.service");
const RELEASE: &str = "bookworm";
/// Where the guest's system lies; a file in it says that it is whole.
const FOLDER: &str = "debian";
const WHOLE: &str = "whole";

/// Folders of Debian that nothing in the guest reads: they would be most of its memory.
const UNREAD: [&str; 12] = [
    "boot",
    "dev",
    "usr/lib/udev/hwdb.d",
    "usr/lib/x86_64-linux-gnu/gconv",
    "usr/lib/x86_64-linux-gnu/perl-base",
    "usr/share/doc",
    "usr/share/i18n",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/zoneinfo",
    "var/cache",
    "var/lib/apt",
];

/// Units that a guest without devices, network and users does not need, and an emulator is slow at.
const MASKED: [&str; 20] = [
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "getty.target",
    "kmod-static-nodes.service",
    "ldconfig.service",
    "modprobe@.service",
    "serial-getty@ttyS0.service",
    "systemd-binfmt.service",
    "systemd-firstboot.service",
    "systemd-hwdb-update.service",
    "systemd-journal-catalog-update.service",
    "systemd-journal-flush.service",
    "systemd-modules-load.service",
    "systemd-random-seed.service",
    "systemd-sysusers.service",
    "systemd-udev-trigger.service",
    "systemd-udevd.service",
    "systemd-update-done.service",
    "systemd-update-utmp.service",
    "proc-sys-fs-binfmt_misc.automount",
];

/// What this machine lacks for such a guest.
pub(super) fn missing() -> Option<&'static str> {
    // Files of the guest belong to root, and debootstrap changes its root directory.
    let id = Command::new("id").arg("-u").output();
    if !id.is_ok_and(|output| output.stdout == b"0\n") {
        return Some("root, for a guest with systemd");
    }
    ["debootstrap", "dpkg-deb"].into_iter().find(|tool| !crate::apt::has(tool)).map(|tool| {
        match tool {
            "debootstrap" => "debootstrap, for a guest with systemd",
            _ => "dpkg-deb, for a guest with systemd",
        }
    })
}

/// Debian 12 with systemd and nothing else, made once and kept.
///
/// # Errors
/// Where debootstrap does not come to its end, for want of a network for instance.
pub(super) fn debian(lab: &Path) -> Result<PathBuf, String> {
    let folder = lab.join(FOLDER);
    if folder.join(WHOLE).exists() {
        return Ok(folder);
    }
    let _ = fs::remove_dir_all(&folder);
    let mirror = mirror::of_this_machine()?.main;
    eprintln!("lab: debootstrap {RELEASE} {mirror}");
    let made = Command::new("debootstrap")
        .args(["--variant=minbase", "--include=systemd-sysv", RELEASE])
        .arg(&folder)
        .arg(mirror)
        .output()
        .map_err(|error| format!("debootstrap does not start: {error}"))?;
    if !made.status.success() {
        let said = String::from_utf8_lossy(&made.stdout);
        return Err(format!("debootstrap: {}", said.lines().last().unwrap_or_default()));
    }
    fs::write(folder.join(WHOLE), "").map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(folder)
}

/// The guest's file system.
///
/// # Errors
/// Where a file cannot be read.
pub(super) fn image(debian: &Path, package: &Path) -> Result<Image, String> {
    let mut image = Image::default();
    image.tree(debian, &UNREAD).map_err(|error| format!("{}: {error}", debian.display()))?;
    for folder in ["/dev", "/var/cache", "/var/lib/apt"] {
        image.directory(Path::new(folder));
    }
    image.symlink(Path::new("/init"), "/usr/lib/systemd/systemd");
    image.text("/etc/hostname", "lab\n", 0o644);
    // What systemd itself has to say belongs in the guest's log.
    image.text("/etc/systemd/system.conf", "[Manager]\nLogTarget=console\n", 0o644);
    image.text("/etc/machine-id", "00000000000000000000000000000001\n", 0o444);
    image.text("/lab/check.sh", CHECK, 0o755);
    image.file(Path::new("/lab/maracas.deb"), package);
    let units = Path::new("/etc/systemd/system");
    image.text("/etc/systemd/system/lab.service", UNIT, 0o644);
    image.symlink(&units.join("default.target"), "/usr/lib/systemd/system/multi-user.target");
    image.symlink(&units.join("multi-user.target.wants/lab.service"), "../lab.service");
    for unit in MASKED {
        image.symlink(&units.join(unit), "/dev/null");
    }
    Ok(image)
}
