//! `cargo xtask deb`: the Debian package, built and looked through.
//!
//! `dpkg-deb` puts together what is laid out here. It is on every Debian machine, while `cargo deb`
//! would first have to be compiled, and both ask for the same list of files. Manual pages and
//! completions come from the built command itself. Where `dpkg-deb` is missing the step is skipped,
//! and counted as the tests' skips are.

mod service;

use crate::{apt, skips};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the package must hold, `LIB` standing for the folder of this architecture's libraries.
const FILES: &[&str] = &[
    "./etc/maracas/",
    "./usr/bin/maracas",
    "./usr/include/maracas.h",
    "LIB/libmaracas_client.a",
    "LIB/libmaracas_client.so",
    "./usr/lib/systemd/system/maracas@.service",
    "./usr/share/bash-completion/completions/maracas",
    "./usr/share/doc/maracas/changelog.gz",
    "./usr/share/doc/maracas/copyright",
    "./usr/share/doc/maracas/examples/quickstart.toml",
    "./usr/share/fish/vendor_completions.d/maracas.fish",
    "./usr/share/man/man1/maracas-reload.1.gz",
    "./usr/share/man/man1/maracas-run.1.gz",
    "./usr/share/man/man1/maracas.1.gz",
    "./usr/share/zsh/vendor-completions/_maracas",
];

/// What lintian says that is meant so, each with its reason.
const MEANT: &[&str] = &[
    // It is built where it is installed, not for an archive, and has no address.
    "bogus-mail-host",
    // The changes of the project as they are, without dates of a distribution.
    "syntax-error-in-debian-changelog",
    // Programs load the library by its file's name (`LD_PRELOAD`), and its words have a version of
    // their own (`control::VERSION`).
    "sharedobject-in-library-directory-missing-soname",
    // What is stopped are all instances of a template, which debhelper's commands do not know.
    "maintainer-script-calls-systemctl",
];

/// Builds the package below `target/` and looks through it; with `--service` its service is tried.
///
/// # Errors
/// Where a step fails that this host can do.
pub(crate) fn deb(root: &Path, options: &[&str]) -> Result<(), String> {
    let with_service = match options {
        [] => false,
        ["--service"] => true,
        _ => return Err(format!("deb knows no `{}`; there is --service", options.join(" "))),
    };
    if !apt::has("dpkg-deb") {
        let line = "skipped: needs dpkg-deb";
        println!("{line}");
        return skips::add(root, line);
    }
    let mut build = vec!["build", "--release"];
    // The Python package is not for this one: with it libraries have the features that they have in
    // its wheel, so that CI compiles the command for both once.
    build.extend(
        ["maracas", "maracas-client", "maracas-python"].map(|it| ["--package", it]).concat(),
    );
    crate::cargo(&build)?;
    let package = Package::of(root)?;
    let file = package.build()?;
    package.look_through(&file)?;
    println!("{} is the package", file.display());
    if with_service { service::try_service(&package, &file) } else { Ok(()) }
}

/// Where everything lies.
struct Package {
    root: PathBuf,
    /// Where cargo leaves what it built.
    target: PathBuf,
    /// What the package will be once it is installed.
    tree: PathBuf,
    /// Debian's name of this architecture.
    architecture: String,
    /// Where it keeps libraries of this architecture, without the leading slash.
    libraries: String,
    version: String,
}

impl Package {
    fn of(root: &Path) -> Result<Self, String> {
        let target = crate::target(root);
        let architecture = said(Command::new("dpkg").arg("--print-architecture"))?;
        // Debian's folder is the compiler's triplet without its vendor: x86_64-linux-gnu.
        let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
        Ok(Self {
            tree: target.join("deb/tree"),
            target,
            architecture: architecture.trim().into(),
            libraries: format!("usr/lib/{triplet}"),
            version: env!("CARGO_PKG_VERSION").into(),
            root: root.into(),
        })
    }

    /// Lays the tree out and packs it; says where the package is.
    fn build(&self) -> Result<PathBuf, String> {
        if self.tree.exists() {
            fs::remove_dir_all(&self.tree).map_err(|error| at(&self.tree, &error))?;
        }
        fs::create_dir_all(self.tree.join("etc/maracas")).map_err(|e| at(&self.tree, &e))?;
        self.put_binaries()?;
        self.put_texts()?;
        self.put_generated()?;
        self.put_control()?;
        let name = format!("deb/maracas_{}_{}.deb", self.version, self.architecture);
        let file = self.target.join(name);
        let pack = ["--root-owner-group", "-Zxz", "-z1", "--build"];
        said(Command::new("dpkg-deb").args(pack).arg(&self.tree).arg(&file))?;
        Ok(file)
    }

    fn put_binaries(&self) -> Result<(), String> {
        let release = self.target.join("release");
        let libraries = &self.libraries;
        for (name, to, mode, strip) in [
            ("maracas", "usr/bin/maracas".to_string(), 0o755, "--strip-unneeded"),
            ("libmaracas_client.so", format!("{libraries}/"), 0o644, "--strip-unneeded"),
            ("libmaracas_client.a", format!("{libraries}/"), 0o644, "--strip-debug"),
        ] {
            let to = if to.ends_with('/') { to + name } else { to };
            let to = self.put(&to, &read(&release.join(name))?, mode)?;
            said(Command::new("strip").arg(strip).arg(to))?;
        }
        Ok(())
    }

    fn put_texts(&self) -> Result<(), String> {
        let texts = [
            ("crates/client/include/maracas.h", "usr/include/maracas.h"),
            ("xtask/src/deb/maracas@.service", "usr/lib/systemd/system/maracas@.service"),
        ];
        for (from, to) in texts {
            self.put(to, &read(&self.root.join(from))?, 0o644)?;
        }
        let documents = "usr/share/doc/maracas";
        let license = String::from_utf8_lossy(&read(&self.root.join("LICENSE-MIT"))?).into_owned();
        self.put(&format!("{documents}/copyright"), copyright(&license).as_bytes(), 0o644)?;
        let changes = read(&self.root.join("CHANGELOG.md"))?;
        self.put_packed(&format!("{documents}/changelog"), &changes)?;
        let examples = self.root.join("examples");
        for entry in fs::read_dir(&examples).map_err(|error| at(&examples, &error))?.flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "toml") {
                let name = entry.file_name().to_string_lossy().into_owned();
                self.put(&format!("{documents}/examples/{name}"), &read(&entry.path())?, 0o644)?;
            }
        }
        Ok(())
    }

    /// Manual pages and completions, as the command writes them.
    fn put_generated(&self) -> Result<(), String> {
        let command = self.target.join("release/maracas");
        for (shell, to) in [
            ("bash", "usr/share/bash-completion/completions/maracas"),
            ("zsh", "usr/share/zsh/vendor-completions/_maracas"),
            ("fish", "usr/share/fish/vendor_completions.d/maracas.fish"),
        ] {
            let script = said(Command::new(&command).args(["completions", shell]))?;
            self.put(to, script.as_bytes(), 0o644)?;
        }
        let pages = self.target.join("deb/man");
        let _ = fs::remove_dir_all(&pages);
        fs::create_dir_all(&pages).map_err(|error| at(&pages, &error))?;
        said(Command::new(&command).arg("man").arg(&pages))?;
        for entry in fs::read_dir(&pages).map_err(|error| at(&pages, &error))?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            self.put_packed(&format!("usr/share/man/man1/{name}"), &read(&entry.path())?)?;
        }
        Ok(())
    }

    fn put_control(&self) -> Result<(), String> {
        let binary = self.tree.join("usr/bin/maracas");
        let mut libc = newest_libc(&read(&binary)?);
        for library in ["a", "so"] {
            let file = format!("{}/libmaracas_client.{library}", self.libraries);
            libc = libc.max(newest_libc(&read(&self.tree.join(file))?));
        }
        let (Self { version, architecture, .. }, (major, minor)) = (self, libc);
        let control = format!(
            "Package: maracas\n\
             Version: {version}\n\
             Architecture: {architecture}\n\
             Maintainer: The MARACAS developers <maracas@localhost>\n\
             Section: admin\n\
             Priority: optional\n\
             Depends: libc6 (>= {major}.{minor}), libgcc-s1\n\
             Description: real-time scheduling on multicore machines with shared memory\n \
             Every program gets a guaranteed share of a multicore machine, and the others\n \
             cannot spoil it. A scenario is simulated, or run with real programs on stock\n \
             Linux. With the client library for C, its header, and the service\n \
             maracas@NAME, which runs /etc/maracas/NAME.toml.\n"
        );
        self.put("DEBIAN/control", control.as_bytes(), 0o644)?;
        for script in ["postinst", "prerm", "postrm"] {
            let from = self.root.join("xtask/src/deb").join(script);
            self.put(&format!("DEBIAN/{script}"), &read(&from)?, 0o755)?;
        }
        Ok(())
    }

    /// Writes one file of the tree, with the folders above it; says where it is.
    fn put(&self, to: &str, bytes: &[u8], mode: u32) -> Result<PathBuf, String> {
        let file = self.tree.join(to);
        let done = || {
            for folder in file.ancestors().skip(1).take_while(|it| it.starts_with(&self.tree)) {
                fs::create_dir_all(folder)?;
                fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
            }
            fs::write(&file, bytes)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(mode))
        };
        done().map_err(|error| at(&file, &error))?;
        Ok(file)
    }

    /// The same, packed and without its time of day.
    fn put_packed(&self, to: &str, bytes: &[u8]) -> Result<(), String> {
        let file = self.put(to, bytes, 0o644)?;
        said(Command::new("gzip").args(["-9", "--no-name"]).arg(file)).map(drop)
    }

    /// Looks whether all is there, and asks systemd and lintian where they are installed.
    fn look_through(&self, file: &Path) -> Result<(), String> {
        let list = said(Command::new("dpkg-deb").arg("--contents").arg(file))?;
        let there: Vec<_> =
            list.lines().filter_map(|line| line.split_whitespace().nth(5)).collect();
        for wanted in FILES {
            let wanted = wanted.replace("LIB", &format!("./{}", self.libraries));
            if !there.contains(&wanted.as_str()) {
                return Err(format!("{} lacks {wanted}", file.display()));
            }
        }
        let foreign = |line: &&str| !line.contains(" root/root ");
        if let Some(line) = list.lines().find(foreign) {
            return Err(format!("{} has a file that is not root's: {line}", file.display()));
        }
        let folder = FILES[0];
        if let Some(name) = there.iter().find(|it| it.starts_with(folder) && **it != folder) {
            return Err(format!("{} brings a scenario: {name}", file.display()));
        }
        self.verify_unit()?;
        self.ask_lintian(file)
    }

    /// `systemd-analyze verify`, which says what it does not know and still ends well.
    fn verify_unit(&self) -> Result<(), String> {
        if !apt::has("systemd-analyze") {
            let line = "skipped: needs systemd-analyze";
            println!("{line}");
            return skips::add(&self.root, line);
        }
        // It looks whether the command is there, and here it is not installed.
        let unit = read(&self.tree.join("usr/lib/systemd/system/maracas@.service"))?;
        let command = self.tree.join("usr/bin/maracas");
        let unit = String::from_utf8_lossy(&unit)
            .replace("/usr/bin/maracas", &command.to_string_lossy())
            .lines()
            .filter(|line| !line.starts_with("Documentation="))
            .collect::<Vec<_>>()
            .join("\n");
        let copy = self.target.join("deb/maracas@.service");
        fs::write(&copy, unit).map_err(|error| at(&copy, &error))?;
        let one = self.target.join("deb/maracas@camera.service");
        let _ = fs::remove_file(&one);
        fs::copy(&copy, &one).map_err(|error| at(&one, &error))?;
        println!("+ systemd-analyze verify maracas@camera.service");
        let done = Command::new("systemd-analyze")
            .args(["verify", "--man=no", "--generators=no"])
            .arg(&one)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("systemd-analyze does not start: {error}"))?;
        let text = String::from_utf8_lossy(&done.stderr);
        let ours = text.lines().filter(|line| line.contains("maracas@")).collect::<Vec<_>>();
        if !ours.is_empty() {
            return Err(ours.join("\n"));
        }
        if !done.status.success() {
            // It names no line of the unit: it cannot work here.
            let line = "skipped: needs a systemd-analyze that works here";
            println!("{line}:\n{text}");
            return skips::add(&self.root, line);
        }
        Ok(())
    }

    /// Fails on what lintian calls an error or a warning and is not meant so.
    fn ask_lintian(&self, file: &Path) -> Result<(), String> {
        if !apt::has("lintian") {
            let line = "skipped: needs lintian";
            println!("{line}");
            return skips::add(&self.root, line);
        }
        println!("+ lintian {}", file.display());
        let done = Command::new("lintian")
            .args(["--no-cfg", "--allow-root", "--tag-display-limit", "0"])
            .args(["--suppress-tags", &MEANT.join(",")])
            .args(["--fail-on", "error,warning"])
            .arg(file)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("lintian does not start: {error}"))?;
        if done.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&done.stdout).into_owned())
    }
}

/// The file of Debian's that says whose this is.
fn copyright(mit: &str) -> String {
    let holder = mit.lines().find(|line| line.starts_with("Copyright")).unwrap_or_default();
    let holder = holder.trim_start_matches("Copyright (c) ");
    let paragraph = |line: &str| match line.trim() {
        "" => " .\n".to_string(),
        line => format!(" {line}\n"),
    };
    let mit: String =
        mit.lines().skip_while(|line| !line.starts_with("Permission")).map(paragraph).collect();
    format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: maracas\n\n\
         Files: *\n\
         Copyright: {holder}\n\
         License: Apache-2.0 or Expat\n\n\
         License: Apache-2.0\n \
         The text stands in /usr/share/common-licenses/Apache-2.0.\n\n\
         License: Expat\n{mit}"
    )
}

/// The newest version of the C library that a binary asks for, read off its version names.
fn newest_libc(binary: &[u8]) -> (u32, u32) {
    const NAME: &[u8] = b"GLIBC_2.";
    let minor = |rest: &[u8]| {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |minor, digit| minor * 10 + u32::from(digit - b'0'))
    };
    let found = binary.windows(NAME.len()).enumerate().filter(|(_, window)| *window == NAME);
    (2, found.map(|(at, _)| minor(&binary[at + NAME.len()..])).max().unwrap_or(0))
}

fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| at(path, &error))
}

/// What a command says; its errors are shown where it fails.
fn said(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{name} does not start: {error}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    Err(format!("{name} failed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_libc_is_read_off_a_binary() {
        assert_eq!(newest_libc(b"x GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.3.4\0"), (2, 34));
        assert_eq!(newest_libc(b"nothing"), (2, 0));
    }

    #[test]
    fn the_licence_of_the_package_is_that_of_the_tree() {
        let mit = fs::read_to_string(crate::root().join("LICENSE-MIT")).unwrap();
        let text = copyright(&mit);
        assert!(text.contains("Copyright: 2026 The MARACAS developers\n"), "{text}");
        assert!(text.contains("\n Permission is hereby granted"), "{text}");
        assert!(text.lines().all(|line| !line.is_empty() || !line.starts_with(' ')), "{text}");
    }

    #[test]
    fn no_verdict_of_a_run_is_restarted() {
        let unit = include_str!("deb/maracas@.service");
        assert!(unit.contains("RestartPreventExitStatus=1 4\n"), "{unit}");
        for command in ["ExecStart=/usr/bin/maracas run ", "ExecReload=/usr/bin/maracas reload "] {
            assert!(unit.contains(&format!("{command}/etc/maracas/%i.toml")), "{unit}");
        }
    }
}
