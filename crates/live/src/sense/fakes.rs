//! Hosts that are not there: trees of files with counters that follow a script, for tests alone.
//!
//! A host is a file of `fakes/*.tree`; [`FakeHost::of`] reads one. Lines are
//! * `/a/path: text`: a file of a line (`\n` begins another), its directories with it;
//! * `/a/path/`: an empty directory;
//! * `count UNIT CONFIG CONFIG1: words`: what an event counts ([`Script`]), the code as the kernel
//!   is given it;
//! * `chase NS`, `scatter NS`: how long a line takes in the known loads.
//!
//! Time is the loads' own and passes in no other way. Below `/sys/fs/resctrl` the tree acts as the
//! kernel's: a new directory is a group with files of its own, and `schemata` refuses what the
//! kernel would.

mod resctrl;

use crate::host::HardwareCore;
use crate::host::hardware::{Count, Counter, EventCode, Hardware, Load, Scope};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, thread};

/// An Intel client with a memory arbiter.
pub(crate) const SKYLAKE: &str = include_str!("fakes/skylake.tree");
/// A hybrid: two cores of each kind, two arbiters.
pub(crate) const ALDER_LAKE: &str = include_str!("fakes/alder_lake.tree");
/// A server with caching agents and memory controllers.
pub(crate) const ICE_LAKE_SP: &str = include_str!("fakes/ice_lake_sp.tree");
/// A later one, with cache allocation and bandwidth control.
pub(crate) const SAPPHIRE_RAPIDS: &str = include_str!("fakes/sapphire_rapids.tree");
/// AMD, family 19h, with the L3's own unit.
pub(crate) const ZEN_3: &str = include_str!("fakes/zen_3.tree");
/// AMD, family 19h, with sampled latency, memory controllers and resctrl.
pub(crate) const ZEN_4: &str = include_str!("fakes/zen_4.tree");
/// AMD, family 1Ah, as a guest sees it: the cores' unit alone.
pub(crate) const ZEN_5_GUEST: &str = include_str!("fakes/zen_5_guest.tree");
/// An Arm server whose cores count rates alone.
pub(crate) const NEOVERSE_N1: &str = include_str!("fakes/neoverse_n1.tree");
/// One whose cores count reads under way as well.
pub(crate) const NEOVERSE_V3: &str = include_str!("fakes/neoverse_v3.tree");
/// A virtual machine that counts nothing.
pub(crate) const BARE_GUEST: &str = include_str!("fakes/bare_guest.tree");

/// What an event counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Script {
    /// For a thousand lines that a load reads (`lines`).
    pub(crate) lines: u64,
    /// In every microsecond, load or not (`clock`).
    pub(crate) clock: u64,
    /// By others, in every microsecond: between nothing and so many, another number for each load.
    pub(crate) noise: u64,
    /// For loads on all cores, not on its own alone (`everywhere`).
    pub(crate) everywhere: bool,
    /// The share of its time in which it counts, in thousandths (`counted`).
    pub(crate) counted: u64,
    /// Opening it fails with this error number (`refused`).
    pub(crate) refused: Option<i32>,
    /// Readings that succeed before the rest fail (`reads`), ...
    pub(crate) reads: Option<u64>,
    /// ... with this error number (`fails`).
    pub(crate) fails: i32,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            lines: 0,
            clock: 0,
            noise: 0,
            everywhere: false,
            counted: 1000,
            refused: None,
            reads: None,
            fails: libc::ENODEV,
        }
    }
}

impl Script {
    fn parse(words: &str) -> Self {
        let mut script = Self::default();
        for word in words.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap_or((word, "1"));
            let value = number(value);
            match name {
                "lines" => script.lines = value,
                "clock" => script.clock = value,
                "everywhere" => script.everywhere = true,
                "counted" => script.counted = value,
                "refused" => script.refused = Some(value as i32),
                "reads" => script.reads = Some(value),
                "fails" => script.fails = value as i32,
                _ => panic!("a fake's event has no \"{name}\""),
            }
        }
        script
    }
}

/// A host that is not there. Its clones are the same host.
#[derive(Clone)]
pub(crate) struct FakeHost(Arc<Mutex<Host>>);

#[derive(Default)]
struct Host {
    files: BTreeMap<PathBuf, String>,
    dirs: BTreeSet<PathBuf>,
    /// Files that cannot be written, with the error number.
    unwritable: BTreeMap<PathBuf, i32>,
    /// Files that cannot be read, with the error number.
    unreadable: BTreeMap<PathBuf, i32>,
    written: Vec<(PathBuf, String)>,
    events: Vec<(EventCode, Script)>,
    opened: Vec<(EventCode, HardwareCore)>,
    loads: Vec<Done>,
    chase_ns: u64,
    scatter_ns: u64,
    /// There is no memory for loads.
    crowded: bool,
    /// By how much others' traffic slows a chase, in thousandths.
    contended: u64,
    /// Cores that others' loads keep busy just now.
    busy: usize,
    /// Counters that are open just now, by core, and how many of a core count; 0 = all.
    open: BTreeMap<HardwareCore, usize>,
    most: usize,
}

/// A load that was done.
struct Done {
    core: HardwareCore,
    lines: u64,
    took: Duration,
}

impl FakeHost {
    /// The host that a tree describes.
    pub(crate) fn of(tree: &str) -> Self {
        let mut host = Host { chase_ns: 100, scatter_ns: 10, contended: 1000, ..Host::default() };
        let lines = tree.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            host.learn(line);
        }
        Self(Arc::new(Mutex::new(host)))
    }
    /// It as the rest of the crate takes hardware.
    pub(crate) fn hardware(&self) -> Arc<dyn Hardware> {
        Arc::new(self.clone())
    }
    /// A file's content; `None` where there is none.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        self.host().files.get(path.as_ref()).cloned()
    }
    /// Makes a file of just this text, or replaces it.
    pub(crate) fn put(&self, path: impl AsRef<Path>, text: &str) {
        self.host().put(path.as_ref(), text);
    }
    /// Removes a file, or a directory with all that is in it.
    pub(crate) fn remove(&self, path: impl AsRef<Path>) {
        self.host().remove(path.as_ref());
    }
    /// From now on writing there fails with this error number.
    pub(crate) fn refuse_writes(&self, path: impl Into<PathBuf>, error: i32) {
        self.host().unwritable.insert(path.into(), error);
    }
    /// From now on reading there fails with this error number.
    pub(crate) fn refuse_reads(&self, path: impl Into<PathBuf>, error: i32) {
        self.host().unreadable.insert(path.into(), error);
    }
    /// All that was written, in order, refused or not.
    pub(crate) fn written(&self) -> Vec<(PathBuf, String)> {
        self.host().written.clone()
    }
    /// All counters that were opened, in order, by the core on which they count.
    pub(crate) fn opened(&self) -> Vec<(EventCode, HardwareCore)> {
        self.host().opened.clone()
    }
    /// Changes what the events count that `which` picks, whose codes it gets.
    pub(crate) fn script(&self, which: impl Fn(&EventCode) -> bool, change: impl Fn(&mut Script)) {
        let mut host = self.host();
        let picked = host.events.iter_mut().filter(|(code, _)| which(code));
        let picked = picked.map(|(_, script)| change(script)).count();
        assert!(picked > 0, "no event of this fake was picked");
    }
    /// From now on there is no memory for loads.
    pub(crate) fn crowd(&self) {
        self.host().crowded = true;
    }
    /// How long all loads so far took.
    pub(crate) fn loaded(&self) -> Duration {
        self.host().loads.iter().map(|load| load.took).sum()
    }
    /// Others' traffic slows a chase down to so many thousandths.
    pub(crate) fn contended(&self, milli: u64) {
        self.host().contended = milli;
    }
    /// Of more than so many counters of a core the rest stand still, and say nothing.
    pub(crate) fn counters_of_a_core(&self, most: usize) {
        self.host().most = most;
    }
    fn host(&self) -> MutexGuard<'_, Host> {
        // A test that failed has said why; the state is whole after every call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host {
    /// Takes in one line of a tree.
    fn learn(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("count ") {
            let (code, words) = rest.split_once(':').expect("count CODE: words");
            let mut code = code.split_whitespace().map(number);
            let unit = code.next().expect("a unit") as u32;
            let mut word = || code.next().unwrap_or(0);
            let code = EventCode { unit, config: word(), config1: word(), config2: word() };
            self.events.push((code, Script::parse(words)));
        } else if let Some(ns) = line.strip_prefix("chase ") {
            self.chase_ns = number(ns);
        } else if let Some(ns) = line.strip_prefix("scatter ") {
            self.scatter_ns = number(ns);
        } else if let Some(dir) = line.strip_suffix('/') {
            self.dirs.extend(Path::new(dir).ancestors().map(Path::to_path_buf));
        } else {
            let (path, text) = line.split_once(": ").expect("/a/path: text");
            self.put(Path::new(path), &format!("{}\n", text.replace("\\n", "\n")));
        }
    }
    fn put(&mut self, path: &Path, text: &str) {
        self.dirs.extend(path.ancestors().skip(1).map(Path::to_path_buf));
        self.files.insert(path.to_path_buf(), text.to_owned());
    }
    fn remove(&mut self, path: &Path) {
        self.files.retain(|file, _| !file.starts_with(path));
        self.dirs.retain(|dir| !dir.starts_with(path));
    }
    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        self.written.push((path.to_path_buf(), text.to_owned()));
        if let Some(error) = self.unwritable.get(path) {
            return Err(io::Error::from_raw_os_error(*error));
        }
        if !self.files.contains_key(path) {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        if resctrl::holds(path) {
            return self.write_resctrl(path, text);
        }
        self.files.insert(path.to_path_buf(), text.to_owned());
        Ok(())
    }
    fn script(&self, code: &EventCode) -> io::Result<Script> {
        let unit = self.files.iter().any(|(path, text)| {
            path.starts_with("/sys/bus/event_source/devices")
                && path.ends_with("type")
                && text.trim() == code.unit.to_string()
        });
        if !unit {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        // What a unit does not know it counts as nothing.
        let known = self.events.iter().find(|(known, _)| known == code);
        let script = known.map_or(Script::default(), |(_, script)| *script);
        script.refused.map_or(Ok(script), |error| Err(io::Error::from_raw_os_error(error)))
    }
    /// What was counted on `core` by the loads from the `first` on.
    fn count(&self, script: &Script, core: HardwareCore, first: usize) -> Count {
        let (mut lines, mut wanted, mut noise) = (0, 0, 0);
        for (number, load) in self.loads.iter().enumerate().skip(first) {
            wanted += load.took.as_nanos() as u64;
            // Multiples of the golden ratio lie evenly, and not in order.
            let part = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
            noise += ((load.took.as_nanos() as u64 * script.noise) >> 20) * part / 1000;
            if script.everywhere || load.core == core {
                lines += load.lines;
            }
        }
        let value = lines * script.lines / 1000 + wanted * script.clock / 1000 + noise;
        let share = |whole: u64| whole * script.counted / 1000;
        Count { value: share(value), wanted_ns: wanted, counted_ns: share(wanted) }
    }
    fn done(&mut self, core: HardwareCore, lines: u64, took: Duration) -> Duration {
        self.loads.push(Done { core, lines, took });
        self.count_traffic(core, lines);
        took
    }
}

impl Hardware for FakeHost {
    fn read(&self, path: &Path) -> io::Result<String> {
        let host = self.host();
        if let Some(error) = host.unreadable.get(path) {
            return Err(io::Error::from_raw_os_error(*error));
        }
        let text = host.files.get(path).cloned();
        text.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
    }
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        self.host().write(path, text)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let host = self.host();
        if !host.dirs.contains(dir) {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        let all = host.files.keys().chain(&host.dirs);
        let inside = all.filter(|path| path.parent() == Some(dir));
        let names = inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
        Ok(names.collect::<BTreeSet<_>>().into_iter().collect())
    }
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        let mut host = self.host();
        if host.dirs.contains(dir) {
            return Err(io::Error::from_raw_os_error(libc::EEXIST));
        }
        if !dir.parent().is_some_and(|parent| host.dirs.contains(parent)) {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        host.dirs.insert(dir.to_path_buf());
        if resctrl::holds(dir) { host.make_group(dir) } else { Ok(()) }
    }
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        let mut host = self.host();
        if !host.dirs.contains(dir) {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        if resctrl::holds(dir) {
            host.remove_group(dir);
        } else if host.files.keys().chain(&host.dirs).any(|path| path.parent() == Some(dir)) {
            return Err(io::Error::from_raw_os_error(libc::ENOTEMPTY));
        }
        host.remove(dir);
        Ok(())
    }
    fn open(&self, event: &EventCode, scope: Scope<'_>) -> io::Result<Box<dyn Counter>> {
        let mut host = self.host();
        let script = host.script(event)?;
        let core = match scope {
            Scope::Core(core) | Scope::AlarmedCore(core) | Scope::Group(_, core) => core,
            Scope::Process(_) | Scope::ThisThread => HardwareCore(0),
        };
        host.opened.push((*event, core));
        let (event, first) = (*event, host.loads.len());
        *host.open.entry(core).or_default() += 1;
        let dead = host.most > 0 && host.open[&core] > host.most;
        let host = self.clone();
        Ok(Box::new(FakeCounter { host, event, core, first, dead, reads: script.reads }))
    }
    fn load(&self, core: HardwareCore, load: Load) -> io::Result<Duration> {
        let ns = |lines: u64, each: u64| Duration::from_nanos(lines * each);
        let mut host = self.host();
        if host.crowded && !matches!(load, Load::Compute(_)) {
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, "only 200 MiB are free"));
        }
        match load {
            Load::Compute(time) => Ok(host.done(core, 0, time)),
            Load::Chase { lines } => {
                let factor = if host.busy > 0 { host.contended } else { 1000 };
                let each = host.chase_ns * factor / 1000;
                Ok(host.done(core, lines, ns(lines, each)))
            }
            Load::Scatter { lines } => {
                host.busy += 1;
                drop(host);
                // Long enough for others to feel it.
                thread::sleep(Duration::from_millis(3));
                let mut host = self.host();
                host.busy -= 1;
                let each = host.scatter_ns;
                Ok(host.done(core, lines, ns(lines, each)))
            }
        }
    }
}

struct FakeCounter {
    host: FakeHost,
    event: EventCode,
    core: HardwareCore,
    first: usize,
    /// One more than the core has.
    dead: bool,
    /// Readings that are left.
    reads: Option<u64>,
}

impl Counter for FakeCounter {
    fn read(&mut self) -> io::Result<Count> {
        let host = self.host.host();
        let known = host.events.iter().find(|(code, _)| *code == self.event);
        let script = known.map_or(Script::default(), |(_, script)| *script);
        if self.reads == Some(0) {
            return Err(io::Error::from_raw_os_error(script.fails));
        }
        self.reads = self.reads.map(|reads| reads - 1);
        let script = if self.dead { Script::default() } else { script };
        Ok(host.count(&script, self.core, self.first))
    }
    fn arm(&mut self, _rest: u64) -> io::Result<()> {
        Ok(())
    }
    fn disarm(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn fd(&self) -> Option<RawFd> {
        None
    }
}

impl Drop for FakeCounter {
    fn drop(&mut self) {
        if let Some(open) = self.host.host().open.get_mut(&self.core) {
            *open -= 1;
        }
    }
}

fn number(text: &str) -> u64 {
    let text = text.trim();
    let hex = text.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
    hex.unwrap_or_else(|| text.parse()).unwrap_or_else(|_| panic!("\"{text}\" is no number"))
}

#[cfg(test)]
mod tests;
