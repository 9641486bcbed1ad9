//! The kernel's resource control (resctrl): parts of the cache by ways ([`Ways`], CAT), bandwidth
//! lowered in hardware ([`Mba`]) and bytes counted by cache ([`Mbm`]).
//!
//! # Layout
//! A run has one class a core, made when one of the three first needs it:
//!
//! ```text
//! /sys/fs/resctrl/
//!   maracas-4711-88123-core3/      class of core 3 of the run 4711-88123: its ways, its bandwidth
//!   mon_groups/
//!     maracas-4711-88123-core5/    core 5 is only counted: it stays in the default class
//! ```
//!
//! Names carry the run's identity, so that whatever a dead run left is found from the tree alone
//! ([`restore`]). A removed class gives its cores back to the default one: nothing else is to be
//! put right. Where the file system is not mounted, it is mounted for the run, with the run's name
//! as its source, and unmounted by the last run that used it.
//!
//! # Which machines
//! Intel RDT, AMD QoS and, from Linux 7.1 on, Arm MPAM stand behind the same files; what differs
//! (contiguous masks, units of bandwidth) is read from `info`, so MPAM needs nothing of its own.
//!
//! Source: the kernel's Documentation/filesystems/resctrl.rst.

mod error;
mod info;
mod mba;
mod mbm;
mod mount;
mod remains;
mod schemata;
mod ways;

pub use error::Error;
pub use info::{Allocation, Bandwidth, Info, Monitoring, Unit};
pub use mba::{Level, Mba};
pub use mbm::{Bytes, Mbm};
pub use remains::{lift, restore, runs};
pub use ways::Ways;

use super::hardware::Hardware;
use super::platform::parse_cores;
use super::{HardwareCore, Identity, naming};
use mount::{Kernel, Mounts};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, io};

/// Resource control as one run uses it. Clones share the run's classes; they and the mount of the
/// run go with the last of them, and with what was made of them.
#[derive(Clone)]
pub struct Resctrl(Arc<Shared>);

struct Shared {
    hardware: Arc<dyn Hardware>,
    mounts: Arc<dyn Mounts>,
    run: Identity,
    info: Info,
    /// What we made, by core: classes and, in `mon_groups`, monitors.
    made: Mutex<BTreeMap<HardwareCore, Made>>,
}

#[derive(Clone, Default)]
struct Made {
    class: Option<PathBuf>,
    monitor: Option<PathBuf>,
}

impl fmt::Debug for Resctrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resctrl").field("run", &self.0.run).field("info", &self.0.info).finish()
    }
}

impl Resctrl {
    /// Opens it for this process; mounts it where that was not done.
    ///
    /// # Errors
    /// Where the host has none, it cannot be mounted, or this process is in a class that is not
    /// ours, which what it starts would inherit.
    pub fn open(hardware: Arc<dyn Hardware>) -> Result<Self, Error> {
        let run = Identity::own().map_err(Error::File)?;
        Self::open_as(hardware, Arc::new(Kernel), run)
    }

    /// Opens it for this process where it is mounted already: nothing of the host is changed.
    ///
    /// # Errors
    /// As [`Resctrl::open`], and where it is not mounted.
    pub fn find(hardware: Arc<dyn Hardware>) -> Result<Self, Error> {
        let run = Identity::own().map_err(Error::File)?;
        Self::find_as(hardware, Arc::new(Kernel), run)
    }

    fn open_as(
        hardware: Arc<dyn Hardware>,
        mounts: Arc<dyn Mounts>,
        run: Identity,
    ) -> Result<Self, Error> {
        if Info::read(&*hardware)?.is_none() {
            let root = Path::new(mount::PLACE);
            let mounted = mounts.mount(&format!("{PREFIX}{run}"), root);
            mounted.map_err(naming(format_args!("mount {}", root.display())))?;
        }
        Self::find_as(hardware, mounts, run)
    }

    fn find_as(
        hardware: Arc<dyn Hardware>,
        mounts: Arc<dyn Mounts>,
        run: Identity,
    ) -> Result<Self, Error> {
        let info = Info::read(&*hardware)?.ok_or(Error::Unmounted)?;
        let made = Mutex::default();
        let opened = Self(Arc::new(Shared { hardware, mounts, run, info, made }));
        // From here on whatever fails unmounts again.
        opened.0.in_default_class()?;
        Ok(opened)
    }

    /// What this host gives.
    pub fn info(&self) -> &Info {
        &self.0.info
    }

    /// Removes what was made for the run, in order, where nothing else shares it any more. Dropping
    /// the last share does the same, in silence.
    ///
    /// # Errors
    /// What could not be removed, the first of it named.
    pub fn close(self) -> io::Result<()> {
        Arc::into_inner(self.0).map_or(Ok(()), |shared| shared.close())
    }

    /// The class of a core, made where it is not there yet.
    fn class(&self, core: HardwareCore) -> Result<PathBuf, Error> {
        let shared = &*self.0;
        if let Some(class) = self.known_class(core) {
            return Ok(class);
        }
        let _lock = shared.lock()?;
        shared.free_of_others(core)?;
        let class = shared.info.root.join(name(shared.run, core));
        shared.hardware.make_dir(&class).map_err(|error| shared.no_class(&class, error))?;
        shared.made().entry(core).or_default().class = Some(class.clone());
        if let Err(error) = shared.give(&class, core) {
            // An empty class helps no program, and classes are few.
            let _ = self.drop_class(core);
            return Err(error);
        }
        Ok(class)
    }

    /// The class of a core, where it has one: made here, or by this run through another value of
    /// this type, which then also removes it.
    fn known_class(&self, core: HardwareCore) -> Option<PathBuf> {
        let shared = &*self.0;
        let made = shared.made().get(&core).and_then(|made| made.class.clone());
        made.or_else(|| {
            let class = shared.info.root.join(name(shared.run, core));
            shared.hardware.read(&class.join("cpus_list")).ok().map(|_| class)
        })
    }

    /// Removes the class of a core, which so is in the default one again.
    fn drop_class(&self, core: HardwareCore) -> Result<(), Error> {
        let class = self.0.made().get(&core).and_then(|made| made.class.clone());
        let Some(class) = class else { return Ok(()) };
        // What could not be removed now is tried again at the end.
        self.0.hardware.remove_dir(&class).map_err(naming(class.display()))?;
        self.0.made().entry(core).or_default().class = None;
        Ok(())
    }

    /// A monitor of a core that has no class of its own, made where it is not there yet.
    fn monitor(&self, core: HardwareCore) -> Result<PathBuf, Error> {
        let shared = &*self.0;
        let known = shared.made().get(&core).and_then(|made| made.monitor.clone());
        if let Some(monitor) = known {
            return Ok(monitor);
        }
        let _lock = shared.lock()?;
        shared.free_of_others(core)?;
        let monitor = shared.info.root.join("mon_groups").join(name(shared.run, core));
        match shared.hardware.make_dir(&monitor) {
            Ok(()) => {}
            // Made by this run through another value of this type, which also removes it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(monitor),
            Err(error) => return Err(shared.no_monitor(&monitor, error)),
        }
        shared.made().entry(core).or_default().monitor = Some(monitor.clone());
        shared.give(&monitor, core)?;
        Ok(monitor)
    }
}

impl Shared {
    fn made(&self) -> MutexGuard<'_, BTreeMap<HardwareCore, Made>> {
        // Paths that were made were made, whatever happened to the thread that made them.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread's own class outranks that of its core, and what we start inherits ours.
    fn in_default_class(&self) -> Result<(), Error> {
        let Ok(text) = self.hardware.read(Path::new("/proc/self/cpu_resctrl_groups")) else {
            // A kernel that does not say.
            return Ok(());
        };
        let class = text.lines().find_map(|line| line.strip_prefix("res:")).unwrap_or_default();
        match class.trim().trim_matches('/') {
            "" => Ok(()),
            class => {
                Err(Error::Elsewhere { class: class.to_owned(), root: self.info.root.clone() })
            }
        }
    }

    /// Keeps out other programs that look for what is free and take it: programs that share
    /// resource control lock its directory (resctrl.rst: "Locking is based on flock").
    fn lock(&self) -> Result<Option<std::fs::File>, Error> {
        let root = &self.info.root;
        self.hardware.lock(root).map_err(|error| naming(root.display())(error).into())
    }

    /// Refuses a core that another program put into a class of its own, or monitors: the kernel
    /// would take it from that class, and it could not be given back.
    fn free_of_others(&self, core: HardwareCore) -> Result<(), Error> {
        let monitors = self.hardware.list(&self.info.root.join("mon_groups")).unwrap_or_default();
        let monitors = monitors.into_iter().filter(|name| owner(name) != Some(self.run));
        let monitors = monitors.map(|name| format!("mon_groups/{name}"));
        for other in self.classes()?.into_iter().chain(monitors) {
            let list = self.info.root.join(&other).join("cpus_list");
            let cores = self.hardware.read(&list).ok().as_deref().and_then(parse_cores);
            if cores.is_some_and(|cores| cores.contains(&core)) {
                return Err(Error::Taken { core, group: other });
            }
        }
        Ok(())
    }

    /// Every class but the default one, by name.
    fn classes(&self) -> Result<Vec<String>, Error> {
        classes(&*self.hardware, &self.info.root).map_err(Error::File)
    }

    /// Puts a core into a group, and looks whether it is there.
    fn give(&self, group: &Path, core: HardwareCore) -> Result<(), Error> {
        let (list, text) = (group.join("cpus_list"), format!("{core}\n"));
        let written = self.hardware.write(&list, &text);
        written.map_err(|error| self.refused(&list, &text, error))?;
        let reads = self.hardware.read(&list).map_err(naming(list.display()))?;
        if parse_cores(&reads) == Some(vec![core]) {
            return Ok(());
        }
        let (wrote, reads) = (core.to_string(), reads.trim().to_owned());
        Err(Error::Differs { file: list, wrote, reads })
    }

    /// The kernel's refusal of `text`, with its own words where it has some.
    fn refused(&self, file: &Path, text: &str, error: io::Error) -> Error {
        schemata::refused(&*self.hardware, &self.info.root, file, text, error)
    }

    fn no_class(&self, path: &Path, error: io::Error) -> Error {
        if error.raw_os_error() != Some(libc::ENOSPC) {
            return self.refused(path, "mkdir", error);
        }
        let info = &self.info;
        let of_cache = info.cache.iter().map(|cache| cache.classes);
        let of_bandwidth = info.bandwidth.iter().map(|bandwidth| bandwidth.classes);
        let num_closids = of_cache.chain(of_bandwidth).min().unwrap_or(0);
        let ours = self.made().values().filter(|made| made.class.is_some()).count();
        let others = self.classes().map_or(0, |all| all.len().saturating_sub(ours));
        Error::Classes { num_closids, ours, others }
    }

    fn no_monitor(&self, path: &Path, error: io::Error) -> Error {
        if error.raw_os_error() != Some(libc::ENOSPC) {
            return self.refused(path, "mkdir", error);
        }
        let num_rmids = self.info.monitoring.as_ref().map_or(0, |monitoring| monitoring.groups);
        Error::Monitors { num_rmids }
    }

    fn close(&self) -> io::Result<()> {
        let made = std::mem::take(&mut *self.made());
        let mut first = Ok(());
        for dir in made.into_values().flat_map(|made| [made.monitor, made.class]).flatten() {
            let removed = self.hardware.remove_dir(&dir).or_else(remains::gone);
            first = first.and(removed.map_err(naming(dir.display())));
        }
        let unmounted = remains::unmount_if_last(&*self.hardware, &*self.mounts, self.run);
        first.and(unmounted)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A caller that wants to know calls `close`; what stays is found by the run's name.
        let _ = self.close();
    }
}

/// What the names of our groups begin with.
const PREFIX: &str = "maracas-";

fn name(run: Identity, core: HardwareCore) -> String {
    format!("{PREFIX}{run}-core{core}")
}

/// Whose group this is, by its name.
fn owner(name: &str) -> Option<Identity> {
    let (run, _) = name.strip_prefix(PREFIX)?.rsplit_once("-core")?;
    Identity::parse(run)
}

/// The classes beside the default one, by name: what has a list of cores of its own.
fn classes(hardware: &dyn Hardware, root: &Path) -> io::Result<Vec<String>> {
    let mut names = hardware.list(root).map_err(naming(root.display()))?;
    names.retain(|name| !["info", "mon_data", "mon_groups"].contains(&name.as_str()));
    names.retain(|name| hardware.read(&root.join(name).join("cpus_list")).is_ok());
    Ok(names)
}

#[cfg(test)]
mod tests;
