//! In place of the scheduler, where it was built without libbpf.

use crate::{Core, Event, Queue, Reads, Vcpu};
use std::convert::Infallible;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// Whether schedulers can be loaded.
pub const IS_BUILT: bool = false;

/// No scheduler: there is no value of it.
#[derive(Debug)]
pub struct Scheduler(Infallible);

/// See the scheduler that is built with libbpf.
#[allow(missing_docs, clippy::missing_errors_doc)]
impl Scheduler {
    pub fn attach(_object: Option<&[u8]>, _vcpus: u32) -> io::Result<Self> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this maracas was built without libbpf; build it with --features sched-ext",
        ))
    }
    pub fn attach_counting(
        object: Option<&[u8]>,
        vcpus: u32,
        _reads: &Reads,
        _cores: &[u32],
    ) -> io::Result<Self> {
        Self::attach(object, vcpus)
    }
    pub fn try_load() -> io::Result<()> {
        Self::attach(None, 0).map(drop)
    }
    pub const fn took(&self) -> [Duration; 2] {
        match self.0 {}
    }
    pub fn verified(&self) -> Vec<(String, u32)> {
        match self.0 {}
    }
    pub fn send(&mut self, _core: u32, _queue: &Queue) -> io::Result<()> {
        match self.0 {}
    }
    pub fn settle(&mut self, _vcpu: u32, _core: u32) -> io::Result<()> {
        match self.0 {}
    }
    pub fn clear(&mut self, _vcpu: u32) {
        match self.0 {}
    }
    pub fn join(&mut self, _thread: i32, _vcpu: u32) -> io::Result<()> {
        match self.0 {}
    }
    pub fn put_first(&mut self, _thread: i32) -> io::Result<()> {
        match self.0 {}
    }
    pub fn tend(&mut self, _vcpu: u32, _leaves: bool, _waited: Duration) -> io::Result<u32> {
        match self.0 {}
    }
    pub fn fd(&self) -> RawFd {
        match self.0 {}
    }
    pub fn next_event(&mut self) -> io::Result<Option<Event>> {
        match self.0 {}
    }
    pub fn vcpu(&self, _vcpu: u32) -> Vcpu {
        match self.0 {}
    }
    pub fn core(&self, _core: u32) -> io::Result<Core> {
        match self.0 {}
    }
    pub fn check(&self) -> io::Result<()> {
        match self.0 {}
    }
}
