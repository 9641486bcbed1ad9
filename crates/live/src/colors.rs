//! The runtime's side of page colours: one page of orders for each VCPU, carried out by the
//! programs themselves ([`maracas_core::control::color_page`], `maracas-client`).
//!
//! A program moves its own memory, in its own time and on its own budget. What it lacks are the
//! rights: to see the numbers of its page frames, and to take a page away while system calls use
//! it. It is given both as descriptors of its own process at the `descriptors`, and nothing more.
//!
//! What programs write is believed within bounds only. The page is never mapped to be read: a
//! program that truncates it would kill the runtime. The one mapping is an address for the futex,
//! which the kernel alone looks at.

mod descriptors;

use crate::host::Identity;
use crate::host::futex::Futex;
use crate::host::launch::User;
use crate::host::{rights, run_directory, sys};
use descriptors::DescriptorServer;
use maracas_core::VcpuId;
use maracas_core::control::{COLORS_VARIABLE, color_page as words};
use rustix::process::geteuid;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The orders of page colours to the programs of one VCPU, shared by the supervisor and the agents,
/// which only ever try the lock.
pub(crate) type Colors = Arc<Mutex<ColorPage>>;

/// How the name of a page's file ends, after the run and the VCPU: `<pid>-<start>.vcpu3.colors`.
const SUFFIX: &str = "colors";
/// The length of the file: whatever pages the host has, one can be mapped.
const BYTES: usize = 1 << 16;
const WORD: usize = size_of::<u64>();
const _: () = assert!(words::WORDS * WORD <= BYTES);

/// The orders of colours to the programs of one VCPU; its files are removed with it.
#[derive(Debug)]
pub struct ColorPage {
    path: PathBuf,
    file: File,
    futex: Futex,
    descriptors: DescriptorServer,
    order: u64,
    ordered: Instant,
    /// How many colours the last order told apart.
    count: u32,
}

/// How an order was carried out, by all processes that are attached.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Done {
    /// How many processes did it.
    pub processes: usize,
    /// Pages that were put into other frames.
    pub pages: u64,
    /// Processor time that this took, as the processes report it and as a sum over them: never more
    /// than there was time since the order for each.
    pub nanos: u64,
    /// Pages that stayed in frames of other colours.
    pub left: u64,
    /// The system's error number of a process that could not do it; 0 = none.
    pub error: i32,
}

impl ColorPage {
    /// A page without orders for programs of `user` (ours if `None`) on `vcpu`.
    ///
    /// # Errors
    /// Where the files cannot be made.
    pub fn create(vcpu: VcpuId, user: Option<User>) -> io::Result<Self> {
        Self::create_in(&run_directory::directory(), vcpu, user)
    }

    fn create_in(directory: &Path, vcpu: VcpuId, user: Option<User>) -> io::Result<Self> {
        run_directory::make_directory(directory)?;
        let path = directory.join(format!("{}.{vcpu}.{SUFFIX}", Identity::own()?));
        // The name carries our own number and start: what is there is not shared.
        let _ = fs::remove_file(&path);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(&path)?;
        let made = || {
            file.set_len(BYTES as u64)?;
            let futex = Futex::of(&file, BYTES)?;
            let mut descriptors = path.clone().into_os_string();
            descriptors.push(words::DESCRIPTORS);
            Ok((futex, DescriptorServer::open(descriptors.into(), vcpu)?))
        };
        let (futex, descriptors) =
            made().inspect_err(|_: &io::Error| _ = fs::remove_file(&path))?;
        let ordered = Instant::now();
        let page = Self { path, file, futex, descriptors, order: 0, ordered, count: 1 };
        if let Some(user) = user {
            rights::chown(&page.file, user.uid, user.gid)?;
            page.descriptors.admit(user.uid);
        }
        Ok(page)
    }

    /// Lets programs of `user` in too: where it is neither ours nor the page's, every user may
    /// write to the page, while the descriptor server stays shut to others.
    ///
    /// # Errors
    /// Where the file's rights cannot be changed.
    pub fn open_to(&self, user: Option<User>) -> io::Result<()> {
        use std::os::unix::fs::MetadataExt;
        let uid = user.map_or_else(|| geteuid().as_raw(), |user| user.uid);
        self.descriptors.admit(uid);
        if self.file.metadata()?.uid() == uid {
            return Ok(());
        }
        // It is not ours any more where it was given to a user.
        rights::raised(|| self.file.set_permissions(Permissions::from_mode(0o666)))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The variable by which a program learns of it.
    pub fn variable(&self) -> (OsString, OsString) {
        (COLORS_VARIABLE.into(), self.path.clone().into())
    }

    /// Orders all memory of the programs into frames whose number modulo `colors` is a bit of
    /// `mask`; 0 = where it is. One page written and one wake-up: 5 us.
    ///
    /// # Errors
    /// Where the page cannot be written: the disk that holds it is full.
    pub fn order(&mut self, mask: u64, colors: u32) -> io::Result<()> {
        let mut bytes = [0; 2 * WORD];
        bytes[..WORD].copy_from_slice(&mask.to_ne_bytes());
        bytes[WORD..].copy_from_slice(&u64::from(colors).to_ne_bytes());
        self.file.write_all_at(&bytes, (words::MASK * WORD) as u64)?;
        self.order += 1;
        self.ordered = Instant::now();
        self.count = colors;
        self.file.write_all_at(&self.order.to_ne_bytes(), (words::ORDER * WORD) as u64)?;
        self.futex.wake();
        Ok(())
    }

    /// Orders other frames, of as many colours as before.
    ///
    /// # Errors
    /// As [`ColorPage::order`].
    pub(crate) fn order_again(&mut self, mask: u64) -> io::Result<()> {
        self.order(mask, self.count)
    }

    /// How many processes are attached now.
    pub fn attached(&self) -> usize {
        self.slots().count()
    }

    /// How the last order was carried out, once every attached process has finished it; a program
    /// that never does is never waited for by anything here. `None` before the first order and
    /// while no process is attached.
    pub fn finished(&self) -> Option<Done> {
        let limit = self.ordered.elapsed();
        let mut done = Done::default();
        for slot in self.slots() {
            if slot[words::FINISHED] != self.order {
                return None;
            }
            done.take(&slot, limit);
        }
        (self.order > 0 && done.processes > 0).then_some(done)
    }

    /// What is to be said where the programs did not follow, or not wholly.
    pub(crate) fn remark(&self) -> Option<String> {
        if self.read().all(|(_, slot)| slot[words::PROCESS] == 0) {
            let why =
                "static ones, and those with more rights than their caller, are not preloaded";
            return Some(format!("its pages have no colours, as no program of it followed: {why}"));
        }
        let Done { left, error, .. } = self.finished()?;
        match (error, left) {
            (0, 0) => None,
            (0, left) => Some(format!("{left} of its pages stayed in frames of other colours")),
            (error, left) => {
                let error = io::Error::from_raw_os_error(error);
                Some(format!("its pages were not recoloured ({left} are left): {error}"))
            }
        }
    }

    /// The slots of the attached processes.
    fn slots(&self) -> impl Iterator<Item = [u64; words::SLOT]> {
        self.read()
            .filter(|(place, slot)| slot[words::PROCESS] != 0 && self.is_held(*place))
            .map(|(_, slot)| slot)
    }

    /// All slots with their places, as they read; zeros where the file was cut short.
    fn read(&self) -> impl Iterator<Item = (usize, [u64; words::SLOT])> + use<> {
        let mut bytes = [0; words::WORDS * WORD];
        // What cannot be read stays 0, which is no process.
        let _ = self.file.read_at(&mut bytes, 0);
        let word = move |at: usize| {
            let (word, _) = bytes[at * WORD..].split_first_chunk().expect("within the page");
            u64::from_ne_bytes(*word)
        };
        let slot = move |place: usize| -> [u64; words::SLOT] {
            std::array::from_fn(|at| word(words::SLOTS + place * words::SLOT + at))
        };
        (0..words::PROCESSES).map(move |place| (place, slot(place)))
    }

    /// Whether a process holds the slot.
    fn is_held(&self, place: usize) -> bool {
        let start = (words::SLOTS + place * words::SLOT) * WORD;
        sys::is_locked(&self.file, start..start + words::SLOT * WORD)
    }
}

impl Drop for ColorPage {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Done {
    /// Adds what a process says, within bounds: no process worked for longer than there was time,
    /// and none moves a page in less than the 100 ns that a copy alone takes.
    fn take(&mut self, slot: &[u64; words::SLOT], limit: Duration) {
        let nanos = slot[words::NANOS].min(limit.as_nanos() as u64);
        self.processes += 1;
        self.nanos = self.nanos.saturating_add(nanos);
        self.pages = self.pages.saturating_add(slot[words::PAGES].min(nanos / 100));
        self.left = self.left.saturating_add(slot[words::LEFT].min(MOST_PAGES));
        let error = i32::try_from(slot[words::ERROR]).unwrap_or(libc::EPROTO);
        self.error = if self.error == 0 { error } else { self.error };
    }
}

/// A process has no more pages: 47 bits of addresses.
const MOST_PAGES: u64 = 1 << 35;

#[cfg(test)]
#[allow(unsafe_code, reason = "processes of its own, which make system calls alone")]
mod tests;
