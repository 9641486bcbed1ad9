//! What carries out: the one seam between the state of a core and a host.

use crate::Record;
use maracas_core::journal::{Note, Recolored};
use maracas_core::memory::CachePart;
use maracas_core::{CoreId, Duration, Instant, VcpuId};
use std::io;

/// Carries out what the state of one core asks for. It decides nothing: each call is one action,
/// and what it returns is the answer.
///
/// A host refuses by the error of the call, and every refusal is reported to the policy
/// ([`maracas_core::Event::Failed`]). An action may take time; a caller that needs to know how much
/// asks for the time afterwards.
pub trait Executor {
    /// What it carries actions on one VCPU out by.
    type Handle: Handle<Site = Self::Site>;
    /// What a VCPU must know of the core to be counted and confined there.
    type Site: Copy;

    /// The time, since the run began.
    fn now(&self) -> Instant;
    /// What a VCPU must know of this core.
    fn site(&self) -> Self::Site;
    /// Takes the next record of the core, in the order of time; `None` where all are taken.
    fn next_record(&mut self) -> Option<Record>;
    /// Wakes the core's own agent, which sleeps too long.
    fn wake_agent(&self);
    /// Lets births and ends of the VCPU's threads wake the core's agent, or not any more.
    ///
    /// # Errors
    /// Where the host refuses.
    fn listen(&mut self, vcpu: VcpuId, handle: &mut Self::Handle, to: bool) -> io::Result<()>;

    /// Freezes or thaws the VCPU soon: the kernel may wait for locks meanwhile, which the caller
    /// must not. What was refused is returned by [`Handle::refusal`].
    fn freeze(&mut self, handle: &Self::Handle, frozen: bool);
    /// Forgets any [`Executor::stamp`].
    fn clear_stamp(&mut self) {}
    /// Remembers when all is frozen and thawed that was asked for so far.
    fn stamp(&mut self) {}
    /// When that was, once it is.
    fn stamped(&self) -> Option<Instant> {
        None
    }

    /// Whether throttled cores have their bandwidth lowered in place of their background frozen.
    fn has_bandwidth_limiter(&self) -> bool {
        false
    }
    /// Lowers the core's bandwidth as far as possible soon, or gives it back.
    fn lower_bandwidth(&mut self, _lowered: bool) {}
    /// Whether that was refused since this was asked last.
    fn refused_bandwidth(&mut self) -> bool {
        false
    }

    /// The time that a hypervisor took from the core since the host began; `None` = not known.
    fn stolen(&self) -> Option<Duration> {
        None
    }

    /// Whether the core's memory traffic is monitored.
    fn has_monitor(&self) -> bool {
        false
    }
    /// What the monitor has counted, as of `now`.
    ///
    /// # Errors
    /// Where it cannot be read any more.
    fn monitor_read(&mut self, _now: Instant) -> io::Result<u64> {
        Ok(0)
    }
    /// The monitor is to wake the agent at `limit`; `None` = not at all. It may do so too early.
    ///
    /// # Errors
    /// Where the host refuses.
    fn monitor_arm(&mut self, _limit: Option<u64>) -> io::Result<()> {
        Ok(())
    }
    /// It rang: what it was asked for counts no more, whatever it reads.
    fn monitor_rang(&mut self) {}
    /// When the monitor will read `limit`, where that is known beforehand.
    fn monitor_due(&self, _limit: u64) -> Option<Instant> {
        None
    }
    /// Whether the monitor can wake the agent; else it is asked again and again.
    fn monitor_rings(&self) -> bool {
        false
    }
}

/// Carries out what is done to one VCPU, and reads what is counted of it.
pub trait Handle {
    /// What it must know of a core to be counted and confined there.
    type Site: Copy;

    /// Gives a thread the real-time priority `level`; 0 = none.
    ///
    /// # Errors
    /// As the kernel refuses; see [`is_gone`] for a thread that has ended.
    fn set_level(&mut self, tid: i32, level: u8) -> io::Result<()>;
    /// Makes a thread of a real-time class an ordinary one (`SCHED_OTHER`). An ordinary one is left
    /// alone: the kernel takes a thread out of its queue even to set the class that it has.
    ///
    /// # Errors
    /// As of [`Handle::set_level`].
    fn make_ordinary(&mut self, tid: i32) -> io::Result<()> {
        self.set_level(tid, 0)
    }
    /// Puts the numbers of all its threads into `tids`. When that began and when it was done: a
    /// thread that was born before the first or has ended after the second is in it.
    ///
    /// # Errors
    /// As the kernel refuses.
    fn list(&mut self, tids: &mut Vec<i32>) -> io::Result<(Instant, Instant)>;
    /// How long it ran where it sits since this was asked last, in nanoseconds as the kernel counts
    /// them.
    ///
    /// # Errors
    /// Where the counter cannot be read; nothing is lost then.
    fn ran(&mut self) -> io::Result<u64>;
    /// Is to go to another core: counted there and confined to it, whatever it is called next.
    /// Returns whether threads may have come and gone meanwhile. Until [`Handle::arrive`] it is
    /// read where it sat.
    ///
    /// # Errors
    /// As the kernel refuses.
    fn go(&mut self, core: CoreId, site: Self::Site) -> io::Result<bool>;
    /// Sits there from now on.
    fn arrive(&mut self, core: CoreId);

    /// What the host said when it last refused to freeze or thaw it, once.
    ///
    /// # Errors
    /// That.
    fn refusal(&self) -> io::Result<()>;
    /// Another process may have frozen or thawed it: what is asked for next is to be done anew.
    fn forget_freezer(&self);
    /// Thaws it at once, whatever was asked for.
    ///
    /// # Errors
    /// As the kernel refuses.
    fn thaw_now(&self) -> io::Result<()>;

    /// Forgets what was counted of it before the machine took it over.
    fn reset(&mut self) {}
    /// Asks its programs to put their pages into frames of these colours.
    ///
    /// # Errors
    /// As the host refuses.
    fn recolor(&mut self, _colors: CachePart) -> io::Result<Recoloring> {
        Ok(Recoloring::None)
    }
    /// How the programs did what they were last asked by [`Handle::recolor`], once they did.
    fn recolored(&mut self) -> Option<Recolored> {
        None
    }
    /// What is to be said of it at its end.
    fn remarks(&self, _vcpu: VcpuId) -> Vec<Note> {
        Vec::new()
    }

    /// The progress of its programs since this was asked last.
    fn progress(&mut self) -> u64 {
        0
    }
    /// Reads of memory, and references to the last-level cache, since this was asked last.
    fn memory(&mut self) -> (u64, u64) {
        (0, 0)
    }
}

/// What became of asking programs to recolour their pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recoloring {
    /// No program would do it.
    None,
    /// They cannot be asked at this moment.
    Later,
    /// They were asked.
    Begun,
}

/// The kernel's number for a thread that does not exist (`ESRCH`, on every architecture of Linux).
const ESRCH: i32 = 3;

/// Whether an error only says that the thread has ended meanwhile.
pub fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(ESRCH)
}
