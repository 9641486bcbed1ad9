//! `cargo xtask lab`: the live machine on kernels and hosts that this machine is not.
//!
//! Debian kernels boot under an emulator that counts instructions in place of time, so that a run
//! gives nearly the same figures on a loaded machine, and a slower host is one word. In each guest
//! run `maracas doctor`, the quickstart and the live test binaries. See docs/lab.md.

mod compile;
mod fetch;
mod hour;
mod image;
mod json;
mod kernel_live;
mod machine;
mod made;
mod mirror;
mod options;
mod outcome;
mod row;
mod scenario;
mod sched_ext;

use fetch::{Kernel, Store};
use image::Image;
use made::{Made, TestBinary};
use options::{Guest, Options};
use outcome::Progress;
use row::Row;
use scenario::{Scenario, Work};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

/// The first process of a guest.
const INIT: &str = include_str!("lab/init.sh");
/// What a guest with one core runs in place of the quickstart.
const ONE_CORE: &str = include_str!("lab/one-core.toml");
/// Limits of a guest's steps, in its own seconds where an instruction takes 2 ns: a doctor takes 2
/// to 5, a test binary up to 100.
const DOCTOR_S: u32 = 60;
const RUN_S: u32 = 60;
const TESTS_S: u32 = 300;

/// Boots the guests that are asked for and prints one table.
///
/// # Errors
/// Where words are wrong, something is missing, or a guest does not do what is expected of it.
pub(crate) fn lab(root: &Path, words: &[&str]) -> Result<(), String> {
    let options = Options::read(words)?;
    if options.is_list {
        list();
        return Ok(());
    }
    let guests = options.guests()?;
    match Lab::prepare(root, &options, &guests) {
        Ok(lab) => report(&options, &lab.run(guests)),
        Err(Unready::Failed(why)) => Err(why),
        Err(Unready::Missing(what)) => {
            let line = format!("skipped: needs {what}");
            let is_required = std::env::var("MARACAS_LIVE").is_ok_and(|word| word == "required");
            if is_required || !options.is_quick {
                return Err(line);
            }
            eprintln!("{line}");
            crate::skips::add(root, &line)
        }
    }
}

/// Fetches what the quick lab needs, where it can be had; the lab says what is missing.
pub(crate) fn fetch(root: &Path) {
    let guests = Options::read(&["--quick"]).and_then(|options| options.guests());
    let _ = guests.map(|guests| Fetched::of(root, &guests));
}

fn list() {
    for scenario in scenario::ALL {
        let kernels = scenario.kernels.join(" ");
        println!("{:<11} {:<8} {:<20} {}", scenario.name, scenario.mode(), kernels, scenario.about);
    }
}

fn report(options: &Options, rows: &[Row]) -> Result<(), String> {
    if options.is_json {
        println!("{}", row::json(rows));
    } else {
        print!("{}", row::table(rows));
    }
    let failed = rows.iter().filter(|row| !row.problems.is_empty()).count();
    if failed == 0 { Ok(()) } else { Err(format!("{failed} of {} guests failed", rows.len())) }
}

/// Why there are no guests.
enum Unready {
    /// Something that this machine does not have.
    Missing(String),
    Failed(String),
}

/// All that guests are made of.
struct Lab<'a> {
    root: &'a Path,
    options: &'a Options,
    /// Where logs and images lie.
    folder: PathBuf,
    emulator: PathBuf,
    shell: PathBuf,
    kernels: Vec<Kernel>,
    made: Made,
    begin: Instant,
    /// Held by one lab at a time: they would take each other's files.
    _lock: File,
}

/// What comes from the archive.
struct Fetched {
    folder: PathBuf,
    emulator: PathBuf,
    shell: PathBuf,
    kernels: Vec<Kernel>,
    lock: File,
}

impl Fetched {
    fn of(root: &Path, guests: &[Guest]) -> Result<Self, Unready> {
        if std::env::consts::ARCH != "x86_64" {
            return Err(Unready::Missing("an x86-64 machine".into()));
        }
        let folder = root.join("target/lab");
        let lock = locked(&folder).map_err(Unready::Failed)?;
        let mut store = Store::at(folder.clone());
        let emulator = store.emulator().map_err(Unready::Missing)?;
        let shell = store.shell().map_err(Unready::Missing)?;
        let mut kernels: Vec<Kernel> = Vec::new();
        for (_, word) in guests {
            if !kernels.iter().any(|kernel| kernel.word == *word) {
                kernels.push(store.kernel(word).map_err(Unready::Missing)?);
            }
        }
        Ok(Self { folder, emulator, shell, kernels, lock })
    }
}

impl<'a> Lab<'a> {
    fn prepare(root: &'a Path, options: &'a Options, guests: &[Guest]) -> Result<Self, Unready> {
        let begin = Instant::now();
        let Fetched { folder, emulator, shell, kernels, lock } = Fetched::of(root, guests)?;
        let tests = guests.iter().any(|(one, _)| one.work == Work::Tests);
        let is_wanted: &dyn Fn(&str) -> bool = &|name| options.wants_test(name);
        let loads = guests.iter().any(|(one, _)| one.loads());
        let made = made::build(root, options.binary.as_deref(), tests.then_some(is_wanted), loads);
        let made = made.map_err(Unready::Failed)?;
        let lab =
            Self { root, options, folder, emulator, shell, kernels, made, begin, _lock: lock };
        lab.stripped().map_err(Unready::Failed)
    }

    /// With binaries that have no debugging symbols: those would be most of a guest's memory.
    fn stripped(mut self) -> Result<Self, String> {
        let folder = self.folder.join("stripped");
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let tests = self.made.tests.iter().map(|test| (test.path.clone(), &test.name));
        let name = "maracas".to_string();
        let mut files: Vec<_> = tests.collect();
        files.push((self.made.binary.clone(), &name));
        for (path, name) in files {
            let to = folder.join(name);
            let status = Command::new("strip").arg("-o").args([&to, &path]).status();
            if !status.map_err(|error| format!("strip does not start: {error}"))?.success() {
                return Err(format!("strip failed on {}", path.display()));
            }
        }
        self.made.binary = folder.join(&name);
        Ok(self)
    }

    /// Boots all guests, some at a time, and judges them.
    fn run(&self, guests: Vec<Guest>) -> Vec<Row> {
        let queue = Mutex::new(guests.into_iter().enumerate());
        let rows = Mutex::new(Vec::new());
        let next = || queue.lock().ok().and_then(|mut queue| queue.next());
        std::thread::scope(|scope| {
            for _ in 0..self.options.jobs {
                scope.spawn(|| {
                    while let Some((number, (scenario, word))) = next() {
                        let row = self.boot(&scenario, &word);
                        let row = row.unwrap_or_else(|why| Row::failed(&scenario, &word, why));
                        if let Ok(mut rows) = rows.lock() {
                            rows.push((number, row));
                        }
                    }
                });
            }
        });
        let mut rows = rows.into_inner().unwrap_or_default();
        rows.sort_by_key(|(number, _)| *number);
        rows.into_iter().map(|(_, row)| row).collect()
    }

    fn boot(&self, scenario: &Scenario, word: &str) -> Result<Row, String> {
        let name = format!("{} on {word}", scenario.name);
        let say = |what: &str| {
            eprintln!("lab: {:>4.0} s  {name}: {what}", self.begin.elapsed().as_secs_f64());
        };
        let kernel = self.kernels.iter().find(|kernel| kernel.word == word);
        let kernel = kernel.ok_or_else(|| format!("no kernel {word}"))?;
        let stem = self.folder.join(format!("{}-{word}", scenario.name));
        let at = |extension: &str| PathBuf::from(format!("{}.{extension}", stem.display()));
        let (archive, log) = (at("cpio"), at("log"));
        say("boots");
        self.image(scenario)?.write(&archive)?;
        let failed = |error| format!("{}: {error}", log.display());
        let mut writer = File::create(&log).map_err(failed)?;
        let mut progress = Progress::default();
        let observed = |line: &str| {
            // As it comes, to see what a guest does.
            let _ = writeln!(writer, "{line}");
            if let Some(reported) = progress.take(line) {
                say(&reported);
            }
        };
        let said = machine::boot(&self.emulator, kernel, &archive, scenario, observed)?;
        let _ = fs::remove_file(&archive);
        let row = Row::of(scenario, word, &said);
        say(if row.problems.is_empty() { "as expected" } else { "FAILED" });
        Ok(row)
    }

    /// A guest's file system.
    fn image(&self, scenario: &Scenario) -> Result<Image, String> {
        let mut image = Image::default();
        for folder in ["/proc", "/sys", "/dev", "/tmp", "/run", "/etc", "/root", "/sys/fs/cgroup"] {
            image.directory(Path::new(folder));
        }
        image.text("/init", INIT, 0o755);
        image.text("/lab/plan", &self.plan(scenario), 0o644);
        image.text(
            "/etc/passwd",
            "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
            0o644,
        );
        image.text("/etc/group", "root:x:0:\nnogroup:x:65534:\n", 0o644);
        self.tools(&mut image)?;
        if !scenario.without.is_empty() {
            // That of the shell knows no bounding set.
            let setpriv = Path::new("/usr/bin/setpriv");
            image.program(setpriv, setpriv)?;
        }
        image.program(&self.made.at, &self.made.binary)?;
        if self.made.at != Path::new("/bin/maracas") {
            let at = self.made.at.display().to_string();
            image.symlink(Path::new("/bin/maracas"), &at);
        }
        // Some tests carry out what a page says.
        for folder in ["examples", "docs"] {
            let folder = self.root.join(folder);
            image.below(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        for test in self.tests(scenario) {
            image.directory(&test.package);
            image.program(&test.path, &self.folder.join("stripped").join(&test.name))?;
        }
        if scenario.work == Work::SchedExt {
            sched_ext::add(&mut image, self.root)?;
        }
        if scenario.work == Work::KernelLive {
            kernel_live::add(&mut image)?;
        }
        if scenario.work == Work::Hour {
            hour::add(&mut image);
        }
        // Cargo's CARGO_TARGET_TMPDIR, which tests have built in.
        let target = self.made.at.ancestors().nth(2).unwrap_or(self.root);
        image.directory(&target.join("tmp"));
        Ok(image)
    }

    /// The shell, and its tools by their names.
    fn tools(&self, image: &mut Image) -> Result<(), String> {
        image.file(Path::new("/bin/busybox"), &self.shell);
        let output = Command::new(&self.shell).arg("--list").output();
        let output = output.map_err(|error| format!("{}: {error}", self.shell.display()))?;
        for tool in String::from_utf8_lossy(&output.stdout).lines() {
            if tool != "busybox" {
                image.symlink(&Path::new("/bin").join(tool), "busybox");
            }
        }
        Ok(())
    }

    /// What the guest does, in the words of `init.sh`.
    fn plan(&self, scenario: &Scenario) -> String {
        let mut plan = format!("groups {}\n", scenario.groups);
        if !scenario.without.is_empty() {
            let _ = writeln!(plan, "DROP='/usr/bin/setpriv --bounding-set={}'", scenario.without);
        }
        if let Work::Quickstart(runs) = scenario.work {
            let mut file = self.root.join("examples/quickstart.toml").display().to_string();
            if scenario.cores == 1 {
                let _ = writeln!(plan, "cat > /tmp/one-core.toml <<'END'\n{ONE_CORE}END");
                file = "/tmp/one-core.toml".into();
            }
            let _ = writeln!(plan, "step doctor {DOCTOR_S} maracas doctor");
            if scenario.hotplug {
                // Two seconds into the run, for one second.
                plan.push_str("hotplug 1 2 1\n");
            }
            for _ in 0..runs {
                let seconds = row::SECONDS;
                let words = format!("maracas run '{file}' --duration {seconds}s --json");
                let _ = writeln!(plan, "step run {RUN_S} {words}");
            }
            if scenario.hotplug {
                plan.push_str("wait\n");
            }
        }
        if scenario.work == Work::SchedExt {
            plan.push_str(&sched_ext::plan(&self.root.join("examples/quickstart.toml")));
        }
        if scenario.work == Work::KernelLive {
            let examples = self.root.join("examples");
            plan.push_str(&kernel_live::plan(&examples, |name| self.options.wants_test(name)));
        }
        if scenario.work == Work::Hour {
            plan.push_str(&hour::plan(|name| self.options.wants_test(name)));
        }
        for test in self.tests(scenario) {
            let (name, path, package) = (&test.name, test.path.display(), test.package.display());
            let filters = self.options.filters(name).join(" ");
            let limit = scenario.as_slow(TESTS_S);
            let _ = writeln!(plan, "tests {name} {limit} '{path}' '{package}' {filters}");
        }
        plan
    }

    /// The test binaries that a guest runs.
    fn tests(&self, scenario: &Scenario) -> &[TestBinary] {
        if scenario.work == Work::Tests { &self.made.tests } else { &[] }
    }
}

/// Waits until no other lab works in the folder, and keeps others out until the file is closed.
fn locked(folder: &Path) -> Result<File, String> {
    let lock = fs::create_dir_all(folder).and_then(|()| File::create(folder.join("lock")));
    let lock = lock.and_then(|lock| {
        if lock.try_lock().is_err() {
            eprintln!("lab: waits for another lab in {}", folder.display());
            lock.lock()?;
        }
        Ok(lock)
    });
    lock.map_err(|error| format!("{}: {error}", folder.display()))
}
