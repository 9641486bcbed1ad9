//! Applies a runtime's orders of colours to all memory of this process.
//!
//! Where `MARACAS_COLORS` names a page of orders, one thread attaches to it before `main` and
//! waits. On an order it walks over the process' memory and puts what is in wrong frames into right
//! ones ([`super::swap`] says how the other threads go on meanwhile); while the order stands it
//! scans again now and then, for memory that was added later. Everything it does is on the time of
//! the VCPU that the program runs on.
//!
//! The thread has a table of descriptors of its own: programs close descriptors that they do not
//! know (`closefrom`) and open files by the same numbers, which must be no concern of this thread,
//! nor its files theirs. So a forked child has none of its files either, and no lock on its
//! parent's slot.

mod descriptors;
mod slot;

use super::pagemap::Pagemap;
use super::swap::know_forks;
use super::sweep::{Recolored, Sweep, quietly};
use super::userfault::Right;
use super::{ColorSet, Error};
use maracas_core::control::{COLORS_VARIABLE, color_page as words};
use slot::Slot;
use std::fs::File;
use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;
use std::{env, thread};

/// After an order, memory is looked over again so soon where something was moved, and twice as
/// late each time where nothing was.
const SOON: Duration = Duration::from_secs(1);
/// As late as that at last: new memory of a program that seldom asks for some.
const LATE: Duration = Duration::from_secs(64);

/// So often an order goes over all memory while pages stay that had to: shared with a child that is
/// about to end, or in use by a device.
const PASSES: u32 = 4;
/// The pause between: about what a short-lived child lives.
const BETWEEN: Duration = Duration::from_millis(5);

/// Run by the loader before `main`, where this library is linked and where it is preloaded.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    if page_path().is_some() {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(|| {
            // Before there are threads that could fork.
            know_forks();
            // A child has its own memory and, of the threads, only the one that forked.
            // SAFETY: a handler without arguments that lives as long as the process.
            unsafe { libc::pthread_atfork(None, None, Some(start)) };
        });
        start();
    }
}

/// Starts the thread. If it cannot be started nothing is moved, and the runtime does not wait for
/// it, since it is not attached.
extern "C" fn start() {
    let Some(path) = page_path() else { return };
    let builder = thread::Builder::new().name("maracas-colors".into());
    let _ = quietly(|| builder.spawn(move || own_descriptors().and_then(|()| follow(&path))));
}

/// Gives the calling thread an empty table of descriptors; the other threads' stays as it is.
/// `None` where the kernel does not (before Linux 5.9, which cannot move pages in use either).
fn own_descriptors() -> Option<()> {
    let (first, last, flags) = (0, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE);
    // SAFETY: it concerns this thread alone, which has nothing open yet.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } != 0 {
        return None;
    }
    // The standard ones are to be no file of ours: what a panic says is written to one of them.
    (0..=libc::STDERR_FILENO).try_for_each(|_| {
        let null = File::options().read(true).write(true).open("/dev/null").ok()?;
        let _ = null.into_raw_fd();
        Some(())
    })
}

/// The page of orders, in a program that has no more rights than its caller: one that has writes
/// to no file of its caller's choice.
fn page_path() -> Option<PathBuf> {
    // SAFETY: a plain question.
    let raised = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    env::var_os(COLORS_VARIABLE).filter(|path| !path.is_empty() && !raised).map(PathBuf::from)
}

/// Carries out orders as long as the page is there. `None` where it is none, or at its end.
fn follow(path: &Path) -> Option<()> {
    let slot = Slot::claim(path)?;
    let rights = descriptors::knock(path);
    let (mut done, mut pause) = (0, None);
    loop {
        let order = slot.order()?;
        if order.number == done {
            slot.wait(order.number, pause)?;
            if slot.order()?.number == done {
                // No new order: the time to scan again has come.
                let again = pause.is_some().then(|| rights.carry_out(order.mask, order.colors));
                let moved = again.is_some_and(|(result, _)| result.pages > 0);
                pause = pause.map(|pause| if moved { SOON } else { (pause * 2).min(LATE) });
            }
            continue;
        }
        let (result, error) = rights.carry_out(order.mask, order.colors);
        slot.report(order.number, result, error)?;
        done = order.number;
        pause = (order.mask != 0 && error == 0).then_some(SOON);
    }
}

/// With what memory is moved.
struct Rights {
    pagemap: Result<Pagemap, Error>,
    right: Right,
}

impl Rights {
    /// Puts all memory of this process into frames of the colours; the error number, or 0.
    fn carry_out(&self, mask: u64, colors: u64) -> (Recolored, i32) {
        if mask == 0 {
            return (Recolored::default(), 0);
        }
        let colors = u32::try_from(colors).unwrap_or(u32::MAX);
        let mut done = Recolored::default();
        let result = ColorSet::new(mask, colors).and_then(|set| {
            let pagemap = self.pagemap.as_ref().map_err(|_| Error::Hidden)?;
            without_huge_pages();
            let mut sweep = Sweep::new(pagemap, &self.right, set)?;
            let began = crate::clock::processor_ns();
            let mut result = Ok(());
            for pass in 0..PASSES {
                if pass > 0 {
                    thread::sleep(BETWEEN);
                }
                sweep.done.left = 0;
                result = sweep.over(&(0..usize::MAX));
                if sweep.done.left == 0 || result.is_err() {
                    break;
                }
            }
            done = sweep.done;
            done.nanos = crate::clock::processor_ns() - began;
            result
        });
        (done, result.map_or_else(|error| error.number(), |()| 0))
    }
}

/// No huge pages for this process from here on: they have all colours at once.
fn without_huge_pages() {
    // SAFETY: plain arguments; refused only by kernels without huge pages.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
}
