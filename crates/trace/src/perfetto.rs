//! A trace for <https://ui.perfetto.dev>: one row per core, one track per VCPU, its jobs, its
//! budget, and memory traffic.
//!
//! The rows of the cores are drawn from `GenericKernelTaskStateEvent`, made for kernels other than
//! Linux; a VCPU is a process with one thread there. Everything else are `TrackEvent`s:
//! * a track per VCPU: `foreground`, `background`, `ready` (it waits its turn), `throttled` (it
//!   waits at a closed memory gate) and `idle` (it has nothing to run);
//! * below it, `jobs`: a job from the instant at which it could first run to its end, with instants
//!   for releases and deadlines, missed ones by that name;
//! * below it, the budget that is left, where the policy grants a bounded one;
//! * memory traffic per core, and what the memory monitor sampled.
//!
//! Field numbers are those of the `.proto` files in the Perfetto repository (`trace_packet.proto`,
//! `generic_task.proto`, `track_event.proto`, `track_descriptor.proto`), checked against the
//! Python package `perfetto` 0.59.1. Packets are not in order of time; the viewer sorts them.

mod proto;
#[cfg(test)]
mod tests;
mod tracks;

use self::tracks::Tracks;
use crate::TraceError;
use crate::follow::Follower;
use maracas_core::contract::{Event, Observer, Plan};
use maracas_core::journal::{Header, Reader, Record};
use maracas_core::{Instant, VcpuId};
use std::io::{self, Write};

/// Writes a trace while a machine runs (as its [`Observer`]) or while a journal is read
/// ([`Writer::record`]). Buffer the output: packets are small.
#[derive(Debug)]
pub struct Writer<W> {
    follower: Follower<Tracks<W>>,
}

impl<W: Write> Writer<W> {
    /// Begins a trace of what `header` describes. An error of `out` shows at [`Writer::finish`].
    pub fn new(header: &Header, out: W) -> Self {
        Self { follower: Follower::new(header, Tracks::new(header, out)) }
    }
    /// Names a VCPU that arrived while the machine runs.
    pub fn name(&mut self, vcpu: VcpuId, name: &str) {
        crate::follow::Listener::named(&mut self.follower.listener, vcpu, name);
    }
    /// Takes in one journal record. Returns the instant of the end, where this was the last.
    pub fn record(&mut self, record: &Record) -> Option<Instant> {
        self.follower.record(record)
    }
    /// The error of the output, where it took no more; then the writer is of no use any more.
    pub const fn failure(&mut self) -> Option<io::Error> {
        self.follower.listener.failure()
    }
    /// Writes what is still under way at `end` and gives the output back.
    ///
    /// # Errors
    /// The first error of the output; nothing was written after it.
    pub fn finish(self, end: Instant) -> io::Result<W> {
        self.follower.finish(end).finish()
    }
}

impl<W: Write> Observer for Writer<W> {
    fn event(&mut self, at: Instant, event: &Event) {
        self.follower.event(at, event);
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        self.follower.planned(now, plan);
    }
}

/// Writes the trace of a whole journal.
///
/// # Errors
/// Where the journal cannot be read or `out` cannot be written.
pub fn from_journal(bytes: &[u8], out: impl Write) -> Result<(), TraceError> {
    let (header, reader) = Reader::open(bytes)?;
    let mut writer = Writer::new(&header, out);
    let mut end = Instant::ZERO;
    for record in reader {
        end = writer.record(&record?).unwrap_or(end);
    }
    writer.finish(end)?;
    Ok(())
}
