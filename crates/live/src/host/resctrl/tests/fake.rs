//! A kernel with resource control that is not there: as much of it as its rules and refusals need.

use super::super::mount::{Mounts, PLACE};
use crate::host::HardwareCore;
use crate::host::hardware::{Counter, EventCode, Hardware, Load, Scope};
use crate::host::platform::parse_cores;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use std::{fs, io, iter};

/// Four cores, two to a cache; clones are the same kernel.
#[derive(Clone)]
pub(super) struct Fake(Arc<Mutex<Kernel>>);

pub(super) struct Kernel {
    /// Files outside of the mount, and those of `info`.
    pub(super) files: BTreeMap<PathBuf, String>,
    /// The groups by their directory: `""` is the default class.
    pub(super) groups: BTreeMap<PathBuf, Group>,
    /// The source by which it was mounted.
    pub(super) mounted: Option<String>,
    pub(super) options: &'static str,
    /// What fails from now on: the end of a path and the error number, with the kernel's words.
    pub(super) refusals: Vec<(String, i32, &'static str)>,
    /// What schemata shows instead of what was written, by the value written.
    pub(super) rounds: BTreeMap<u64, u64>,
    /// Whether lists of cores are taken and not heeded.
    pub(super) ignores: bool,
    pub(super) writes: Vec<String>,
    /// How often it was locked.
    pub(super) locks: usize,
}

#[derive(Clone, Default)]
pub(super) struct Group {
    pub(super) cores: BTreeSet<u32>,
    /// By resource and domain.
    pub(super) schemata: BTreeMap<(String, u32), u64>,
    /// Bytes, by domain.
    pub(super) bytes: BTreeMap<u32, String>,
}

/// Which machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Maker {
    Intel,
    Amd,
}

impl Fake {
    /// Mounted by its administrator.
    pub(super) fn new(maker: Maker) -> Self {
        let mut kernel = Kernel {
            files: BTreeMap::new(),
            groups: BTreeMap::new(),
            mounted: None,
            options: "rw",
            refusals: Vec::new(),
            rounds: BTreeMap::new(),
            ignores: false,
            writes: Vec::new(),
            locks: 0,
        };
        let vendor = if maker == Maker::Amd { "AuthenticAMD" } else { "GenuineIntel" };
        let flags = "flags\t\t: fpu cat_l3 mba cqm_mbm_total";
        kernel.put("/proc/cpuinfo", &format!("vendor_id\t: {vendor}\n{flags}\n"));
        kernel.put("/proc/filesystems", "nodev\tproc\nnodev\tresctrl\n");
        for core in 0..4 {
            let cache = format!("/sys/devices/system/cpu/cpu{core}/cache");
            for (index, level, id) in [(2, "2", core), (3, "3", core / 2)] {
                kernel.put(&format!("{cache}/index{index}/level"), level);
                kernel.put(&format!("{cache}/index{index}/id"), &id.to_string());
            }
        }
        let (least, step) = if maker == Maker::Amd { ("0", "1") } else { ("10", "10") };
        for (name, text) in [
            ("L3/cbm_mask", "7ff"),
            ("L3/min_cbm_bits", "1"),
            ("L3/shareable_bits", "600"),
            ("L3/num_closids", "4"),
            ("MB/num_closids", "4"),
            ("MB/min_bandwidth", least),
            ("MB/bandwidth_gran", step),
            ("L3_MON/num_rmids", "8"),
            ("L3_MON/mon_features", "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes"),
            ("last_cmd_status", "ok"),
        ] {
            kernel.put(&format!("{PLACE}/info/{name}"), &format!("{text}\n"));
        }
        let full = if maker == Maker::Amd { 2048 } else { 100 };
        kernel.groups.insert(PathBuf::new(), Group::new(full, (0..4).collect()));
        let fake = Self(Arc::new(Mutex::new(kernel)));
        fake.mount("resctrl", Path::new(PLACE)).unwrap();
        fake
    }

    pub(super) fn kernel(&self) -> MutexGuard<'_, Kernel> {
        self.0.lock().unwrap()
    }

    /// From now on every use of a path that ends so is refused.
    pub(super) fn refuse(&self, end: &str, error: i32, words: &'static str) {
        self.kernel().refusals.push((end.to_owned(), error, words));
    }

    /// The cores of a group: `""` is the default class.
    pub(super) fn cores(&self, group: &str) -> Vec<u32> {
        self.kernel().groups[Path::new(group)].cores.iter().copied().collect()
    }

    /// A value of a class.
    pub(super) fn value(&self, group: &str, resource: &str, domain: u32) -> u64 {
        self.kernel().groups[Path::new(group)].schemata[&(resource.to_owned(), domain)]
    }

    /// The names of all groups but the default class.
    pub(super) fn groups(&self) -> Vec<String> {
        let kernel = self.kernel();
        let names = kernel.groups.keys().filter_map(|path| path.to_str());
        names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    /// Lets a group's counter say this.
    pub(super) fn count(&self, group: &str, domain: u32, says: &str) {
        let mut kernel = self.kernel();
        let group = kernel.groups.get_mut(Path::new(group)).unwrap();
        group.bytes.insert(domain, says.to_owned());
    }
}

impl Group {
    fn new(full: u64, cores: BTreeSet<u32>) -> Self {
        let mut schemata = BTreeMap::new();
        for domain in 0..2 {
            schemata.insert(("L3".to_owned(), domain), 0x7ff);
            schemata.insert(("MB".to_owned(), domain), full);
        }
        let bytes = (0..2).map(|domain| (domain, "0".to_owned())).collect();
        Self { cores, schemata, bytes }
    }

    fn schemata(&self) -> String {
        let line = |resource: &str| {
            let mut of = self.schemata.iter().filter(|((name, _), _)| name == resource).peekable();
            of.peek()?;
            let pair = |((_, domain), value): (&(String, u32), &u64)| match resource {
                "MB" => format!("{domain}={value}"),
                _ => format!("{domain}={value:03x}"),
            };
            Some(format!("{resource:>6}:{}\n", of.map(pair).collect::<Vec<_>>().join(";")))
        };
        ["MB", "L3", "L3CODE", "L3DATA", "L2"].into_iter().filter_map(line).collect()
    }
}

impl Kernel {
    pub(super) fn put(&mut self, path: &str, text: &str) {
        self.files.insert(PathBuf::from(path), text.to_owned());
    }

    fn refuse(&mut self, path: &Path) -> io::Result<()> {
        let path = path.to_str().unwrap();
        let found = self.refusals.iter().find(|(end, ..)| path.ends_with(end.as_str()));
        let Some((_, error, words)) = found.cloned() else { return Ok(()) };
        self.say(words);
        Err(io::Error::from_raw_os_error(error))
    }

    fn say(&mut self, words: &str) {
        self.put(&format!("{PLACE}/info/last_cmd_status"), &format!("{words}\n"));
    }

    /// A path below the mount as a group and a file of it.
    fn split(&self, path: &Path) -> Option<(PathBuf, PathBuf)> {
        let below = path.strip_prefix(PLACE).ok().filter(|_| self.mounted.is_some())?;
        let group = below.ancestors().find(|group| self.groups.contains_key(*group))?;
        Some((group.to_owned(), below.strip_prefix(group).unwrap().to_owned()))
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        if path == Path::new("/proc/self/mountinfo") {
            let line =
                |by: &String| format!("40 24 0:36 / {PLACE} rw - resctrl {by} {}\n", self.options);
            return Ok(self.mounted.iter().map(line).collect());
        }
        let hidden = path.starts_with(PLACE) && self.mounted.is_none();
        let known = self.files.get(path).filter(|_| !hidden).cloned();
        let of_group = || {
            let (group, file) = self.split(path)?;
            let it = &self.groups[&group];
            let list: Vec<_> = it.cores.iter().map(u32::to_string).collect();
            match file.to_str()? {
                "cpus_list" => Some(format!("{}\n", list.join(","))),
                "schemata" if !group.starts_with("mon_groups") => Some(it.schemata()),
                file => {
                    let (id, counter) = file.strip_prefix("mon_data/mon_L3_")?.split_once('/')?;
                    let says = it.bytes.get(&id.parse().ok()?)?;
                    (counter == "mbm_total_bytes").then(|| format!("{says}\n"))
                }
            }
        };
        known.or_else(of_group).ok_or(io::ErrorKind::NotFound.into())
    }

    fn give(&mut self, group: &Path, text: &str) {
        let wanted: BTreeSet<u32> =
            parse_cores(text).unwrap().iter().map(|HardwareCore(core)| *core).collect();
        let monitor = group.starts_with("mon_groups");
        for (name, other) in &mut self.groups {
            // A class takes a core from classes and their monitors; a monitor from no class.
            if name != group && (!monitor || name.starts_with("mon_groups")) {
                other.cores.retain(|core| !wanted.contains(core));
            }
        }
        self.groups.get_mut(group).unwrap().cores = wanted;
    }

    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        self.writes.push(format!("{} <- {}", path.display(), text.trim_end()));
        self.refuse(path)?;
        let (group, file) = self.split(path).ok_or(io::Error::from(io::ErrorKind::NotFound))?;
        match file.to_str().unwrap() {
            "cpus_list" if self.ignores => {}
            "cpus_list" => self.give(&group, text),
            "schemata" if !group.starts_with("mon_groups") => {
                for entry in super::super::schemata::parse(text) {
                    let key = (entry.resource, entry.domain);
                    let value = self.rounds.get(&entry.value).copied().unwrap_or(entry.value);
                    let all = &mut self.groups.get_mut(&group).unwrap().schemata;
                    let Some(known) = all.get_mut(&key) else {
                        self.say("Unknown or unsupported resource name");
                        return Err(io::Error::from_raw_os_error(libc::EINVAL));
                    };
                    *known = value;
                }
            }
            _ => return Err(io::ErrorKind::PermissionDenied.into()),
        }
        self.say("ok");
        Ok(())
    }
}

impl Hardware for Fake {
    fn read(&self, path: &Path) -> io::Result<String> {
        self.kernel().read(path)
    }
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        self.kernel().write(path, text)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let kernel = self.kernel();
        let mut names = BTreeSet::new();
        let groups = kernel.groups.keys().map(|group| Path::new(PLACE).join(group));
        let groups = groups.filter(|_| kernel.mounted.is_some());
        let files = kernel.files.keys().cloned();
        let own = ["tasks", "cpus_list", "schemata", "mon_data/mon_L3_00", "mon_data/mon_L3_01"];
        let own = kernel
            .split(dir)
            .into_iter()
            .flat_map(|(group, _)| own.map(|file| Path::new(PLACE).join(&group).join(file)));
        for path in groups.chain(files).chain(own) {
            let below = path.strip_prefix(dir).ok().and_then(|below| below.iter().next());
            names.extend(below.and_then(|name| name.to_str()).map(str::to_owned));
        }
        if names.is_empty() {
            Err(io::ErrorKind::NotFound.into())
        } else {
            Ok(names.into_iter().collect())
        }
    }
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        let mut kernel = self.kernel();
        kernel.refuse(dir)?;
        let group = dir.strip_prefix(PLACE).unwrap().to_owned();
        if kernel.groups.contains_key(&group) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let monitor = group.starts_with("mon_groups");
        let classes = kernel.groups.keys().filter(|name| !name.starts_with("mon_groups")).count();
        if !monitor && classes == 4 {
            kernel.say("Out of CLOSIDs");
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        let mut fresh = kernel.groups[Path::new("")].clone();
        fresh.cores.clear();
        fresh.bytes.values_mut().for_each(|bytes| *bytes = "0".to_owned());
        kernel.groups.insert(group, fresh);
        Ok(())
    }
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        let mut kernel = self.kernel();
        kernel.refuse(dir)?;
        let group = dir.strip_prefix(PLACE).unwrap();
        let gone = kernel.groups.remove(group).ok_or(io::Error::from(io::ErrorKind::NotFound))?;
        if !group.starts_with("mon_groups") {
            kernel.groups.get_mut(Path::new("")).unwrap().cores.extend(gone.cores);
        }
        Ok(())
    }
    fn lock(&self, dir: &Path) -> io::Result<Option<fs::File>> {
        let mut kernel = self.kernel();
        kernel.refuse(dir)?;
        kernel.locks += 1;
        Ok(None)
    }
    fn open(&self, _: &EventCode, _: Scope<'_>) -> io::Result<Box<dyn Counter>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn load(&self, _: HardwareCore, _: Load) -> io::Result<Duration> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Mounts for Fake {
    fn mount(&self, source: &str, place: &Path) -> io::Result<()> {
        let mut kernel = self.kernel();
        kernel.refuse(place)?;
        kernel.mounted = Some(source.to_owned());
        Ok(())
    }
    fn unmount(&self, _: &Path) -> io::Result<()> {
        let mut kernel = self.kernel();
        kernel.mounted = None;
        // As the kernel does: everything below goes with it.
        let all = kernel.groups.remove(Path::new("")).unwrap();
        kernel.groups = iter::once((PathBuf::new(), all)).collect();
        Ok(())
    }
}
