//! What is drawn where.

use super::proto::Proto;
use crate::follow::{JobTrack, Listener, Span, Wait};
use maracas_core::contract::{End, Mode, Sample};
use maracas_core::journal::Header;
use maracas_core::{CoreId, Duration, Instant, Reservation, Vcpu, VcpuId};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Fields of `TracePacket`.
mod packet {
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
    pub(super) const TASK_STATE: u32 = 117;
    pub(super) const PROCESS_TREE: u32 = 122;
}

/// `GenericKernelTaskStateEvent.TaskStateEnum`.
#[derive(Clone, Copy)]
enum TaskState {
    Runnable = 2,
    Running = 3,
    Sleeping = 4,
    Destroyed = 8,
}

/// `TrackEvent.Type`.
#[derive(Clone, Copy)]
enum Type {
    Begin = 1,
    End = 2,
    Instant = 3,
    Counter = 4,
}

/// `CounterDescriptor.Unit`.
const UNIT_TIME_NS: u64 = 1;
const UNIT_COUNT: u64 = 2;

/// All packets are of one sequence, as `TrackEvent` demands a number.
const SEQUENCE: u64 = 1;

/// What the priority column of the core rows shows: foreground stands before background.
const fn priority(mode: Mode) -> u64 {
    match mode {
        Mode::Foreground => 1,
        Mode::Background => 2,
    }
}

/// Track ids: the number of the VCPU or core above, the kind below. Small numbers are few bytes.
const fn uuid(kind: u64, number: u32) -> u64 {
    (number as u64) << 3 | kind
}
const VCPUS: u64 = uuid(1, 0);
const MEMORY: u64 = uuid(2, 0);
const REQUESTS: u64 = uuid(2, 1);
const OCCUPANCY: u64 = uuid(2, 2);
const fn states_of(vcpu: VcpuId) -> u64 {
    uuid(3, vcpu.0)
}
const fn jobs_of(vcpu: VcpuId) -> u64 {
    uuid(4, vcpu.0)
}
const fn budget_of(vcpu: VcpuId) -> u64 {
    uuid(5, vcpu.0)
}
fn traffic_of(core: CoreId) -> u64 {
    uuid(6, u32::from(core.0))
}

/// Turns what the follower reports into packets.
#[derive(Debug)]
pub(super) struct Tracks<W> {
    out: W,
    error: Option<io::Error>,
    proto: Proto,
    text: String,
    ticks_per_ns: u64,
    vcpus: Vec<Named>,
    memory: bool,
    sampled: bool,
    traffic: Vec<bool>,
}

/// What is known of a VCPU, and which of its tracks were announced.
#[derive(Clone, Default, Debug)]
struct Named {
    name: Option<String>,
    reservation: Option<Reservation>,
    announced: bool,
    jobs: bool,
    budget: bool,
}

impl<W: Write> Tracks<W> {
    pub(super) fn new(header: &Header, out: W) -> Self {
        let mut tracks = Self {
            out,
            error: None,
            proto: Proto::default(),
            text: String::new(),
            ticks_per_ns: header.system.ticks_per_ns.max(1),
            vcpus: Vec::new(),
            memory: false,
            sampled: false,
            traffic: Vec::new(),
        };
        tracks.packet(None, |packet| {
            packet.number(packet::SEQUENCE_FLAGS, 1); // SEQ_INCREMENTAL_STATE_CLEARED
        });
        tracks.describe(VCPUS, None, "VCPUs", None);
        tracks
    }
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.flush();
        match self.error {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.out),
        }
    }
    pub(super) const fn failure(&mut self) -> Option<io::Error> {
        self.error.take()
    }
    fn flush(&mut self) {
        if self.error.is_none() {
            self.error = self.out.write_all(&self.proto.bytes).err();
        }
        self.proto.bytes.clear();
    }
    fn packet(&mut self, at: Option<Instant>, fill: impl FnOnce(&mut Proto)) {
        let ticks_per_ns = self.ticks_per_ns;
        self.proto.message(1, |packet| {
            packet.number(packet::SEQUENCE, SEQUENCE);
            if let Some(at) = at {
                packet.number(packet::TIMESTAMP, at.ticks() / ticks_per_ns);
            }
            fill(packet);
        });
        if self.proto.bytes.len() >= 1 << 16 {
            self.flush();
        }
    }

    fn describe(&mut self, uuid: u64, parent: Option<u64>, name: &str, unit: Option<u64>) {
        self.packet(None, |packet| {
            packet.message(packet::TRACK_DESCRIPTOR, |track| {
                track.number(1, uuid).text(2, name);
                if let Some(parent) = parent {
                    track.number(5, parent);
                }
                if let Some(unit) = unit {
                    track.message(8, |counter| {
                        counter.number(3, unit);
                    });
                }
            });
        });
    }
    fn event(&mut self, at: Instant, track: u64, kind: Type, name: &str) {
        self.packet(Some(at), |packet| {
            packet.message(packet::TRACK_EVENT, |event| {
                event.number(9, kind as u64).number(11, track);
                if !name.is_empty() {
                    event.text(23, name);
                }
            });
        });
    }
    fn slice(&mut self, track: u64, from: Instant, to: Instant, name: &str) {
        self.event(from, track, Type::Begin, name);
        self.event(to, track, Type::End, "");
    }
    fn instant(&mut self, at: Instant, track: u64, what: &str, index: u32, note: &str) {
        let mut name = std::mem::take(&mut self.text);
        name.clear();
        let _ = write!(name, "{what} {index}{note}");
        self.event(at, track, Type::Instant, &name);
        self.text = name;
    }
    fn count(&mut self, at: Instant, track: u64, value: u64) {
        self.packet(Some(at), |packet| {
            packet.message(packet::TRACK_EVENT, |event| {
                event.number(9, Type::Counter as u64).number(11, track).number(30, value);
            });
        });
    }
    fn state(&mut self, vcpu: VcpuId, at: Instant, on: Option<(CoreId, Mode)>, state: TaskState) {
        let name = std::mem::take(&mut self.named_mut(vcpu).name);
        self.packet(Some(at), |packet| {
            packet.message(packet::TASK_STATE, |event| {
                if let Some((core, _)) = on {
                    event.number(1, u64::from(core.0));
                }
                event
                    .text(2, name.as_deref().unwrap_or_default())
                    .number(3, thread(vcpu))
                    .number(4, state as u64);
                if let Some((_, mode)) = on {
                    event.number(5, priority(mode));
                }
            });
        });
        self.named_mut(vcpu).name = name;
    }

    fn named_mut(&mut self, vcpu: VcpuId) -> &mut Named {
        let index = vcpu.0 as usize;
        if self.vcpus.len() <= index {
            self.vcpus.resize_with(index + 1, Named::default);
        }
        &mut self.vcpus[index]
    }
    /// Announces the VCPU where that was not done: its first event is soon enough, and by then its
    /// name is known.
    fn announce(&mut self, vcpu: VcpuId) {
        let named = self.named_mut(vcpu);
        if std::mem::replace(&mut named.announced, true) {
            return;
        }
        let name = named.name.get_or_insert_with(|| vcpu.to_string()).clone();
        let reservation = named.reservation;
        let ns = |time: Duration| Duration::from_ticks(time.ticks() / self.ticks_per_ns);
        let title = match reservation {
            Some(promised) => {
                format!("{name} ({}/{})", ns(promised.budget), ns(promised.period))
            }
            None => name.clone(),
        };
        self.packet(Some(Instant::ZERO), |packet| {
            packet.message(packet::PROCESS_TREE, |tree| {
                tree.message(1, |process| {
                    process.number(1, thread(vcpu)).text(3, &name);
                });
                tree.message(2, |main| {
                    main.number(1, thread(vcpu)).number(2, thread(vcpu)).text(3, &name);
                    main.number(4, 1);
                });
            });
        });
        self.describe(states_of(vcpu), Some(VCPUS), &title, None);
    }
    fn memory(&mut self) {
        if !std::mem::replace(&mut self.memory, true) {
            self.describe(MEMORY, None, "memory", None);
        }
    }
    fn traffic(&mut self, span: &Span) {
        let (index, requests) = (span.core.0 as usize, span.usage.reads + span.usage.writes);
        if self.traffic.len() <= index {
            self.traffic.resize(index + 1, false);
        }
        if requests == 0 && !self.traffic[index] {
            return;
        }
        let track = traffic_of(span.core);
        if !std::mem::replace(&mut self.traffic[index], true) {
            self.memory();
            let name = format!("{} requests/ms", span.core);
            self.describe(track, Some(MEMORY), &name, Some(UNIT_COUNT));
        }
        let ns = ((span.to - span.from).ticks() / self.ticks_per_ns).max(1);
        let per_ms = u128::from(requests) * 1_000_000 / u128::from(ns);
        self.count(span.from, track, per_ms as u64);
        self.count(span.to, track, 0);
    }
    fn job_tracks(&mut self, vcpu: VcpuId) -> u64 {
        self.announce(vcpu);
        if !std::mem::replace(&mut self.named_mut(vcpu).jobs, true) {
            self.describe(jobs_of(vcpu), Some(states_of(vcpu)), "jobs", None);
        }
        jobs_of(vcpu)
    }
}

/// Thread and process of a VCPU on the core rows; 0 is the idle thread.
const fn thread(vcpu: VcpuId) -> u64 {
    vcpu.0 as u64 + 1
}

impl<W: Write> Listener for Tracks<W> {
    fn named(&mut self, vcpu: VcpuId, name: &str) {
        self.named_mut(vcpu).name = Some(name.into());
    }
    fn introduced(&mut self, vcpu: &Vcpu) {
        self.named_mut(vcpu.id).reservation = Some(vcpu.reservation);
    }
    fn woke(&mut self, vcpu: VcpuId, at: Instant) {
        self.announce(vcpu);
        self.state(vcpu, at, None, TaskState::Runnable);
    }
    fn span(&mut self, span: &Span) {
        let on = Some((span.core, span.mode));
        self.announce(span.vcpu);
        self.state(span.vcpu, span.from, on, TaskState::Running);
        let after = match span.end {
            End::Blocked => TaskState::Sleeping,
            End::Preempted | End::LimitReached | End::MemorySpent | End::Moved | End::Metered => {
                TaskState::Runnable
            }
            End::Exited => TaskState::Destroyed,
        };
        self.state(span.vcpu, span.to, on, after);
        let name = match span.mode {
            Mode::Foreground => "foreground",
            Mode::Background => "background",
        };
        self.slice(states_of(span.vcpu), span.from, span.to, name);
        self.traffic(span);
    }
    fn wait(&mut self, wait: &Wait) {
        self.announce(wait.vcpu);
        let name = if wait.throttled.is_some() { "throttled" } else { "ready" };
        self.slice(states_of(wait.vcpu), wait.from, wait.to, name);
    }
    fn idle(&mut self, vcpu: VcpuId, from: Instant, to: Instant) {
        self.slice(states_of(vcpu), from, to, "idle");
    }
    fn job(&mut self, job: &JobTrack, end: Option<Instant>) {
        let track = self.job_tracks(job.job.id.vcpu);
        let known_until = end.or(job.completed).unwrap_or(job.begin);
        let missed = job.missed(known_until);
        let over = job.completed.unwrap_or(known_until);
        let index = job.job.id.index;
        self.instant(job.job.release, track, "release", index, "");
        if job.begin < over {
            let mut name = std::mem::take(&mut self.text);
            name.clear();
            let _ = write!(name, "job {index}{}", if missed { " (missed)" } else { "" });
            self.slice(track, job.begin, over, &name);
            self.text = name;
        }
        if job.completed.is_some() || job.job.deadline <= known_until {
            let note = if missed { " missed" } else { "" };
            self.instant(job.job.deadline, track, "deadline", index, note);
        }
    }
    fn budget(&mut self, vcpu: VcpuId, at: Instant, left: Duration) {
        self.announce(vcpu);
        if !std::mem::replace(&mut self.named_mut(vcpu).budget, true) {
            let parent = Some(states_of(vcpu));
            self.describe(budget_of(vcpu), parent, "budget left", Some(UNIT_TIME_NS));
        }
        let ns = left.ticks() / self.ticks_per_ns;
        self.count(at, budget_of(vcpu), ns);
    }
    fn sampled(&mut self, at: Instant, sample: &Sample) {
        self.memory();
        if !std::mem::replace(&mut self.sampled, true) {
            self.describe(REQUESTS, Some(MEMORY), "requests per sample", Some(UNIT_COUNT));
            self.describe(OCCUPANCY, Some(MEMORY), "queue occupancy per sample", Some(UNIT_COUNT));
        }
        self.count(at, REQUESTS, sample.requests);
        self.count(at, OCCUPANCY, sample.occupancy);
    }
}
