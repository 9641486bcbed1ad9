//! A host for tests of single parts: its clock moves by a microsecond each time that it is asked,
//! nothing is refused, and what is asked for is remembered.

use crate::{Core, Executor, Handle, Means, Record, VcpuHandle, WakeCost};
use maracas_core::{CoreId, Duration, Instant, VcpuId};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

/// What the test and the executor share.
#[derive(Default)]
pub(crate) struct Script {
    now_us: Cell<u64>,
    /// What the monitor has counted; `None` = there is none.
    pub(crate) counted: Cell<Option<u64>>,
    /// Where it is to wake the agent.
    pub(crate) armed: Cell<Option<u64>>,
    /// What a bandwidth limiter was set to; `None` = there is none.
    pub(crate) bandwidth_limiter: RefCell<Option<Vec<bool>>>,
    stamped: Cell<Option<Instant>>,
}

impl Script {
    pub(crate) fn now(&self) -> Instant {
        self.now_us.set(self.now_us.get() + 1);
        Instant::ZERO + Duration::from_micros(self.now_us.get())
    }
    /// So much time passes.
    pub(crate) fn pass(&self, time: Duration) {
        self.now_us.set(self.now_us.get() + time.ticks() / 1000);
    }
}

/// The host.
pub(crate) struct Fake(pub(crate) Rc<Script>);

/// What is known of a VCPU.
#[derive(Default)]
pub(crate) struct Known {
    /// Its thread, if it has one.
    pub(crate) tid: Option<i32>,
    /// How long it ran since this was read last.
    pub(crate) ran: Duration,
}

impl Executor for Fake {
    type Handle = Known;
    type Site = ();

    fn now(&self) -> Instant {
        self.0.now()
    }
    fn site(&self) {}
    fn next_record(&mut self) -> Option<Record> {
        None
    }
    fn wake_agent(&self) {}
    fn listen(&mut self, _: VcpuId, _: &mut Known, _: bool) -> io::Result<()> {
        Ok(())
    }
    fn freeze(&mut self, _: &Known, _: bool) {}
    fn clear_stamp(&mut self) {
        self.0.stamped.set(None);
    }
    fn stamp(&mut self) {
        self.0.stamped.set(Some(self.0.now()));
    }
    fn stamped(&self) -> Option<Instant> {
        self.0.stamped.get()
    }
    fn has_bandwidth_limiter(&self) -> bool {
        self.0.bandwidth_limiter.borrow().is_some()
    }
    fn lower_bandwidth(&mut self, lowered: bool) {
        self.0
            .bandwidth_limiter
            .borrow_mut()
            .iter_mut()
            .for_each(|reported| reported.push(lowered));
    }
    fn has_monitor(&self) -> bool {
        self.0.counted.get().is_some()
    }
    fn monitor_read(&mut self, _: Instant) -> io::Result<u64> {
        Ok(self.0.counted.get().unwrap_or(0))
    }
    fn monitor_arm(&mut self, limit: Option<u64>) -> io::Result<()> {
        self.0.armed.set(limit);
        Ok(())
    }
}

impl Handle for Known {
    type Site = ();

    fn set_level(&mut self, _: i32, _: u8) -> io::Result<()> {
        Ok(())
    }
    fn list(&mut self, tids: &mut Vec<i32>) -> io::Result<(Instant, Instant)> {
        tids.clear();
        tids.extend(self.tid);
        Ok((Instant::ZERO, Instant::ZERO))
    }
    fn ran(&mut self) -> io::Result<u64> {
        Ok(std::mem::take(&mut self.ran).ticks())
    }
    fn go(&mut self, _: CoreId, (): ()) -> io::Result<bool> {
        Ok(false)
    }
    fn arrive(&mut self, _: CoreId) {}
    fn refusal(&self) -> io::Result<()> {
        Ok(())
    }
    fn forget_freezer(&self) {}
    fn thaw_now(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A core of this host with so many VCPUs, each with one thread that is believed to run, on which
/// all but one is stopped.
pub(crate) fn core(script: &Rc<Script>, vcpus: u32) -> Core<Fake> {
    core_with(script, vcpus, Means { fifo: false, freezer: true, events: true })
}

/// The same of a host that can do so much.
pub(crate) fn core_with(script: &Rc<Script>, vcpus: u32, means: Means) -> Core<Fake> {
    let mut core = Core::new(CoreId(0), Fake(Rc::clone(script)), means, WakeCost::LEAST);
    core.sense(crate::Counts::default());
    for id in 0..vcpus {
        let tid = id as i32 + 1;
        let known = Known { tid: Some(tid), ran: Duration::ZERO };
        let mut vcpu_handle = VcpuHandle::new(VcpuId(id), known, means.fifo);
        vcpu_handle.born(tid);
        let sits = vcpu_handle.sit(core.place());
        core.attach(vcpu_handle, sits);
    }
    core
}
