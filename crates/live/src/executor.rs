//! Carries out on a stock Linux host what the state of a core asks for ([`maracas_live_core`]), and
//! decides nothing: perf events, scheduling classes, control groups, the descriptors that an agent
//! waits for.

pub(crate) mod freeze_thread;
pub(crate) mod steal;
pub(crate) mod vcpu;

use crate::clock::Clock;
use crate::host::costs::WakeCost;
use crate::host::perf::Switches;
use crate::host::resctrl::{Level, Mba};
use crate::host::wait::{Poll, Token, Wakeup};
use crate::host::{HardwareCore, sys};
use crate::sense::{Meter, VcpuEvents};
use crate::setup::Means;
use freeze_thread::FreezeQueue;
use maracas_core::{CoreId, Duration, Instant, VcpuId};
use maracas_live_core::{Counts, Executor, ManagedCore, Record};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, io};
use vcpu::ThisVcpu;

/// One managed core of this host. Locked by the agent that acts on it; only agents do while they
/// live.
pub(crate) type Core = maracas_live_core::Core<ThisCore>;
/// Any managed core of this host, by an agent or in the kernel, as the decider asks it.
pub(crate) type AnyCore = dyn ManagedCore<ThisVcpu> + Send;
/// A VCPU on such a core.
pub(crate) type VcpuHandle = maracas_live_core::VcpuHandle<ThisVcpu>;

/// What lowers the bandwidth of throttled cores, where their background is not stopped instead.
pub(crate) trait BandwidthLimiter: fmt::Debug + Send + Sync {
    /// Lowers the bandwidth of `core` as far as it can, or gives it back.
    ///
    /// # Errors
    /// As the kernel says.
    fn set(&self, core: CoreId, lowered: bool) -> io::Result<()>;
}

impl BandwidthLimiter for Mba {
    fn set(&self, core: CoreId, lowered: bool) -> io::Result<()> {
        let level = if lowered { Level::Lowest } else { Level::Full };
        Self::set(self, core, level).map_err(io::Error::other)
    }
}

/// What a VCPU must know of a core of this host to be counted and confined there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    /// Its number in the kernel.
    pub(crate) hardware: HardwareCore,
    /// What is counted of the VCPUs that sit there.
    pub(crate) counts: VcpuEvents,
}

/// One core of this host.
pub(crate) struct ThisCore {
    id: CoreId,
    pub(crate) hardware: HardwareCore,
    pub(crate) clock: Clock,
    /// What its agent waits for.
    pub(crate) poll: Poll,
    /// Wakes its agent.
    pub(crate) wakeup: Arc<Wakeup>,
    /// Freeze and thaw, on a thread of their own.
    pub(crate) freeze_queue: Arc<FreezeQueue>,
    /// Lowers the bandwidth of this core while it is throttled, where its background goes on.
    pub(crate) bandwidth_limiter: Option<Arc<dyn BandwidthLimiter>>,
    switches: Option<Switches>,
    monitor: Option<Box<dyn Meter>>,
    counts: VcpuEvents,
    /// Becomes the instant, in ticks, at which everything was frozen; 0 until then.
    frozen: Arc<AtomicU64>,
}

/// A core without VCPU handles, which is not run yet.
///
/// # Errors
/// Where the kernel gives no descriptors or no switch records.
pub(crate) fn open(
    id: CoreId,
    hardware: HardwareCore,
    clock: Clock,
    means: Means,
    cost: WakeCost,
) -> io::Result<Core> {
    sys::open_many();
    let switches = means.events.then(|| Switches::open(hardware.0, clock.clone())).transpose()?;
    let (poll, wakeup) = (Poll::new()?, Arc::new(Wakeup::new()?));
    if let Some(switches) = &switches {
        poll.add(switches.fd(), Token::Records)?;
    }
    poll.add(wakeup.fd(), Token::Wakeup)?;
    let (freeze_queue, frozen) = (Arc::new(FreezeQueue::new(clock.clone())), Arc::default());
    let (monitor, counts, bandwidth_limiter) = (None, VcpuEvents::default(), None);
    let exec = ThisCore {
        id,
        hardware,
        clock,
        poll,
        wakeup,
        freeze_queue,
        bandwidth_limiter,
        switches,
        monitor,
        counts,
        frozen,
    };
    Ok(Core::new(id, exec, means.of_a_core(), cost))
}

/// Meters the memory traffic of `core` by `monitor`, and counts of the VCPUs that sit there what
/// `counts` names.
pub(crate) fn sense(core: &mut Core, monitor: Option<Box<dyn Meter>>, counts: VcpuEvents) {
    let fd = monitor.as_ref().and_then(|monitor| monitor.fd());
    // By edges: an event that lost its counter counts as ready without end (Linux 6.15).
    let listened = fd.map_or(Ok(()), |fd| core.exec.poll.add_edges(fd, Token::Meter));
    core.trouble = core.trouble.take().or(listened.err());
    (core.exec.monitor, core.exec.counts) = (monitor, counts);
    let (reads, references) = (counts.reads.is_some(), counts.references.is_some());
    core.sense(Counts { reads, references });
}

impl Executor for ThisCore {
    type Handle = ThisVcpu;
    type Site = Site;

    fn now(&self) -> Instant {
        self.clock.now()
    }
    fn site(&self) -> Site {
        Site { hardware: self.hardware, counts: self.counts }
    }
    fn next_record(&mut self) -> Option<Record> {
        self.switches.as_mut()?.next()
    }
    fn wake_agent(&self) {
        self.wakeup.ring();
    }
    fn listen(&mut self, vcpu: VcpuId, handle: &mut ThisVcpu, to: bool) -> io::Result<()> {
        handle.listen(&self.poll, Token::Vcpu(vcpu), to)
    }

    fn freeze(&mut self, handle: &ThisVcpu, frozen: bool) {
        self.freeze_queue.post(&handle.freezable_group, frozen);
    }
    fn clear_stamp(&mut self) {
        self.frozen.store(0, Ordering::Release);
    }
    fn stamp(&mut self) {
        self.freeze_queue.stamp(&self.frozen);
    }
    fn stamped(&self) -> Option<Instant> {
        let frozen = self.frozen.load(Ordering::Acquire);
        (frozen != 0).then(|| Instant::from_ticks(frozen))
    }

    fn has_bandwidth_limiter(&self) -> bool {
        self.bandwidth_limiter.is_some()
    }
    fn lower_bandwidth(&mut self, lowered: bool) {
        if let Some(bandwidth_limiter) = &self.bandwidth_limiter {
            self.freeze_queue.bandwidth(bandwidth_limiter, self.id, lowered);
        }
    }
    fn refused_bandwidth(&mut self) -> bool {
        self.freeze_queue.refused_bandwidth()
    }

    fn stolen(&self) -> Option<Duration> {
        steal::stolen(self.hardware)
    }

    fn has_monitor(&self) -> bool {
        self.monitor.is_some()
    }
    fn monitor_read(&mut self, now: Instant) -> io::Result<u64> {
        self.monitor.as_mut().map_or(Ok(0), |monitor| monitor.read(now))
    }
    fn monitor_arm(&mut self, limit: Option<u64>) -> io::Result<()> {
        self.monitor.as_mut().map_or(Ok(()), |monitor| monitor.arm(limit))
    }
    fn monitor_rang(&mut self) {
        self.monitor.iter_mut().for_each(|monitor| monitor.rang());
    }
    fn monitor_due(&self, limit: u64) -> Option<Instant> {
        self.monitor.as_ref()?.due(limit)
    }
    fn monitor_rings(&self) -> bool {
        self.monitor.as_ref().is_some_and(|monitor| monitor.fd().is_some())
    }
}

/// The state of a core stays usable when an agent panicked: it is needed to release the threads.
pub(crate) fn lock<T: ?Sized>(core: &Mutex<T>) -> MutexGuard<'_, T> {
    core.lock().unwrap_or_else(PoisonError::into_inner)
}
