//! Bytes counted by the last-level caches: in all, and by core.

use super::info::cache_id;
use super::{Error, Resctrl, classes};
use crate::host::hardware::Hardware;
use crate::host::{HardwareCore, naming};
use crate::sense::Cores;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What was counted since the counters were opened.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Bytes {
    /// By cache: of all programs on the cores that share it.
    pub by_domain: BTreeMap<u32, u64>,
    /// By core of the run, in the order of `CoreId`; empty where no monitors were left for cores.
    pub by_core: Vec<u64>,
}

/// Counters of memory bandwidth (MBM): bytes between the last-level caches and memory.
///
/// The kernel reads the hardware at least once a second, so that wraps of it are not missed; what
/// is read here are the kernel's 64-bit sums. Hardware counts in steps of some KB and late by some
/// microseconds.
#[derive(Debug)]
pub struct Mbm {
    resctrl: Resctrl,
    /// `mbm_total_bytes`, or `mbm_local_bytes` where there is no other.
    file: &'static str,
    cores: Vec<Counted>,
    known: BTreeMap<PathBuf, Tally>,
    bytes: Bytes,
    skipped: u64,
    /// The latest group without a counter: AMD's, where they are assigned to groups.
    uncounted: Option<PathBuf>,
    remark: Option<String>,
}

/// A core's own monitor.
#[derive(Debug)]
struct Counted {
    core: HardwareCore,
    domain: u32,
}

/// One file's last number, if it said one yet, and what was added to it since it was opened.
#[derive(Clone, Copy, Debug)]
struct Tally {
    last: Option<u64>,
    sum: u64,
}

impl Tally {
    /// A group that was made while we watched: the kernel begins it at zero.
    const FRESH: Self = Self { last: Some(0), sum: 0 };
    /// A counter that has no number yet: its first is where counting begins.
    const SILENT: Self = Self { last: None, sum: 0 };

    fn advance(&mut self, now: u64) {
        let last = self.last.unwrap_or(now);
        let step = match now.checked_sub(last) {
            Some(step) => step,
            // A sum of 64 bits that went round; a smaller fall is a group that was made anew.
            None if last - now > u64::MAX / 2 => now.wrapping_sub(last),
            None => now,
        };
        *self = Self { last: Some(now), sum: self.sum.wrapping_add(step) };
    }
}

impl Mbm {
    /// Opens the counters, with a monitor for each core while there are any left. Mounts nothing: a
    /// program that sets the hardware past the kernel would lose its settings.
    ///
    /// # Errors
    /// Where the host has none, resctrl is not mounted, or they say no number.
    pub fn open(hardware: Arc<dyn Hardware>, cores: &Cores) -> Result<Self, Error> {
        Self::new(&Resctrl::find(hardware)?, cores)
    }

    /// The same in the resource control of a run that is open already.
    ///
    /// # Errors
    /// As [`Mbm::open`].
    pub fn new(resctrl: &Resctrl, cores: &Cores) -> Result<Self, Error> {
        let monitoring = resctrl.info().monitoring.as_ref();
        let file = match monitoring.map(|it| (it.total_bytes, it.local_bytes)) {
            Some((true, _)) => "mbm_total_bytes",
            Some((false, true)) => "mbm_local_bytes",
            Some((false, false)) | None => return Err(Error::Lacks("bandwidth monitoring (MBM)")),
        };
        let mut mbm = Self {
            resctrl: resctrl.clone(),
            file,
            cores: Vec::new(),
            known: BTreeMap::new(),
            bytes: Bytes::default(),
            skipped: 0,
            uncounted: None,
            remark: None,
        };
        mbm.watch(cores)?;
        mbm.begin()?;
        Ok(mbm)
    }

    /// Makes a monitor for each core; with too few, or cores that others monitor, none: what
    /// the caches count is known all the same.
    fn watch(&mut self, cores: &Cores) -> Result<(), Error> {
        let mut ordered = cores.to_vec();
        ordered.sort_unstable();
        for (_, core) in ordered {
            let domain = cache_id(&*self.resctrl.0.hardware, core, 3);
            let domain = domain.ok_or(Error::NoDomain { core, resource: "L3_MON" })?;
            if self.resctrl.known_class(core).is_none() {
                match self.resctrl.monitor(core) {
                    Ok(_) => {}
                    Err(error @ (Error::Monitors { .. } | Error::Taken { .. })) => {
                        self.remark = Some(format!("bytes are not known by core: {error}"));
                        self.cores.clear();
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                }
            }
            self.cores.push(Counted { core, domain });
        }
        self.bytes.by_core = vec![0; self.cores.len()];
        Ok(())
    }

    /// Reads everything once, so that counting begins here.
    fn begin(&mut self) -> Result<(), Error> {
        self.read()?;
        if self.known.values().all(|tally| tally.last.is_none()) {
            let file = self.resctrl.info().root.join("mon_data");
            return Err(Error::Uncounted { file, says: "Unavailable everywhere".to_owned() });
        }
        for tally in self.known.values_mut() {
            tally.sum = 0;
        }
        self.sum_up();
        self.skipped = 0;
        Ok(())
    }

    /// Whether bytes to the memory of other nodes are counted too.
    pub fn counts_all(&self) -> bool {
        self.file == "mbm_total_bytes"
    }

    /// What is to be said of the counting so far.
    pub fn remark(&self) -> Option<String> {
        let file = self.file;
        let skipped = (self.skipped > 0)
            .then(|| format!("{} readings of {file} were not available", self.skipped));
        let uncounted = self.uncounted.as_ref().map(|path| {
            let way = "write default into info/L3_MON/mbm_assign_mode";
            format!("{} has no counter, and its bytes are missing; {way}", path.display())
        });
        let said = [self.remark.clone(), skipped, uncounted];
        let said: Vec<String> = said.into_iter().flatten().collect();
        (!said.is_empty()).then(|| said.join("; "))
    }

    /// Reads every counter. Each is a file read by way of an interrupt on its cache's cores: tens
    /// of microseconds in all.
    ///
    /// # Errors
    /// Where the files are gone, or say what is no number and not `Unavailable`.
    pub fn read(&mut self) -> Result<&Bytes, Error> {
        let resctrl = self.resctrl.clone();
        let (hardware, root) = (&*resctrl.0.hardware, &resctrl.0.info.root);
        // A class holds its monitors' bytes too, so classes alone make the whole.
        let names = classes(hardware, root).map_err(Error::File)?;
        let dirs = std::iter::once(root.clone()).chain(names.iter().map(|name| root.join(name)));
        for dir in dirs {
            let data = dir.join("mon_data");
            let domains = match hardware.list(&data) {
                Ok(domains) => domains,
                // A class of another program that is just being removed.
                Err(error) if error.kind() == io::ErrorKind::NotFound && dir != *root => continue,
                Err(error) => return Err(naming(data.display())(error).into()),
            };
            for domain in domains.iter().filter(|name| domain_of(name).is_some()) {
                self.count(hardware, data.join(domain).join(self.file))?;
            }
        }
        for place in 0..self.cores.len() {
            let file = self.monitor_of(place);
            if !self.is_class(&file) {
                self.count(hardware, file)?;
            }
        }
        self.sum_up();
        Ok(&self.bytes)
    }

    /// The file that counts a core: its class', else its monitor's. A class may come later: the
    /// kernel then takes the core out of the monitor, and begins at zero in the class.
    fn monitor_of(&self, place: usize) -> PathBuf {
        let (shared, Counted { core, domain }) = (&*self.resctrl.0, &self.cores[place]);
        let name = super::name(shared.run, *core);
        let class = self.resctrl.known_class(*core);
        let dir = class.unwrap_or_else(|| shared.info.root.join("mon_groups").join(name));
        dir.join("mon_data").join(format!("mon_L3_{domain:02}")).join(self.file)
    }

    fn is_class(&self, file: &Path) -> bool {
        !file.starts_with(self.resctrl.info().root.join("mon_groups"))
    }

    fn count(&mut self, hardware: &dyn Hardware, file: PathBuf) -> Result<(), Error> {
        let text = match hardware.read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(naming(file.display())(error).into()),
        };
        match text.trim() {
            // The hardware has no number ready, or a group has just got its counter.
            "Unavailable" => {
                self.skipped += 1;
                self.known.entry(file).or_insert(Tally::SILENT);
            }
            "Unassigned" => self.uncounted = Some(file),
            text => match text.parse() {
                Ok(now) => self.known.entry(file).or_insert(Tally::FRESH).advance(now),
                Err(_) => return Err(Error::Uncounted { file, says: text.to_owned() }),
            },
        }
        Ok(())
    }

    fn sum_up(&mut self) {
        let root = self.resctrl.info().root.clone();
        self.bytes.by_domain.clear();
        for (file, tally) in &self.known {
            let name = file.parent().and_then(Path::file_name).and_then(|name| name.to_str());
            let domain = name.and_then(domain_of);
            if let Some(domain) = domain.filter(|_| !file.starts_with(root.join("mon_groups"))) {
                let sum = self.bytes.by_domain.entry(domain).or_default();
                *sum = sum.wrapping_add(tally.sum);
            }
        }
        for place in 0..self.cores.len() {
            // Both that counted the core at some time.
            let Counted { core, domain } = &self.cores[place];
            let file = format!(
                "{}/mon_data/mon_L3_{domain:02}/{}",
                super::name(self.resctrl.0.run, *core),
                self.file
            );
            let files = [root.join("mon_groups").join(&file), root.join(&file)];
            let sums = files.iter().filter_map(|file| self.known.get(file));
            self.bytes.by_core[place] = sums.map(|tally| tally.sum).fold(0, u64::wrapping_add);
        }
    }
}

/// The cache's number in the name of its directory: `mon_L3_00`.
fn domain_of(name: &str) -> Option<u32> {
    name.strip_prefix("mon_L3_")?.parse().ok()
}
