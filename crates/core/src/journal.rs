//! The journal: the events that a machine gave its policy and what the policy answered, in call
//! order.
//!
//! One append-only file, the truth from which every table, trace and replay is derived:
//!
//! * magic `MARACASJ`, then records: length (varint), payload, checksum (FNV-1a, 32 bits).
//! * The first record is the [`Header`]; then [`Record`]s; the last is [`Record::End`].
//! * A plan record holds what changed and a hash of the whole plan, so that a replay into a fresh
//!   policy can be compared decision by decision.
//! * Where groups of cores decide alone ([`crate::contract::Apart`]), a plan record names the group
//!   that was asked, by its first core: between it and the plan record before stand events of that
//!   group alone, its run queues and its wake are that group's, its hash is of all. Instants of
//!   different groups may go back by as long as a decision took.
//!
//! [`Replay`] is the one way to do that. The journal of a run that was killed has no end: [`mend`]
//! gives it one in memory.
//!
//! Integers are LEB128 varints. The format carries [`FORMAT`]; a reader refuses any other.

use crate::contract::{Event, Observer, Plan, RunQueue, ServiceRequest};
use crate::params::Params;
use crate::wire::{self, Wire, take};
use crate::{CoreId, Instant, System, VcpuId, fnv1a};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

mod encoding;
mod joined;
mod mend;
mod note;
mod replay;

pub use joined::Joined;
pub use mend::{Cut, mend};
pub use note::{Note, Recolored, Reliever};
pub use replay::{Differs, Replay};

/// Version of the format that this code writes and the only one that it reads.
pub const FORMAT: u64 = 3;

const MAGIC: &[u8; 8] = b"MARACASJ";

/// What a run was: enough to build the same policy again.
#[derive(Clone, Debug)]
pub struct Header {
    /// The policy's word.
    pub policy: String,
    /// Its parameters as the user gave them.
    pub params: Params,
    /// Platform and first VCPUs.
    pub system: System,
    /// Names of the first VCPUs, by their place in `system.vcpus`.
    pub names: Vec<String>,
    /// `"sim"` or `"live"`.
    pub machine: String,
    /// Version of the program that wrote it.
    pub version: String,
    /// Seed of the run; 0 live.
    pub seed: u64,
}

/// One entry of a journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// An event was given to the policy.
    Event {
        /// When it happened.
        at: Instant,
        /// What.
        event: Event,
    },
    /// The policy was asked.
    Planned(Decision),
    /// So many records were lost here (a full ring); replay must stop.
    Gap(u64),
    /// Something for readers that no policy sees, such as the name of a VCPU that arrived.
    Note {
        /// When.
        at: Instant,
        /// What.
        note: Note,
    },
    /// The orderly end, at this instant.
    End(Instant),
}

/// What one call of `plan` changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The first core of the group that was asked alone; `None` = the policy was, for all cores.
    pub group: Option<CoreId>,
    /// When the policy was asked.
    pub now: Instant,
    /// The run queues of the dirty cores.
    pub run_queues: Vec<(CoreId, RunQueue)>,
    /// New homes.
    pub homes: Vec<(VcpuId, Option<CoreId>)>,
    /// The service request, if any.
    pub service_request: Option<(VcpuId, ServiceRequest)>,
    /// Admission answers: the core, or the reason's text.
    pub verdicts: Vec<(VcpuId, Result<CoreId, String>)>,
    /// The next wake, of the group if one was asked, and whether it is metered.
    pub wake: (Instant, bool),
    /// Hash of all run queues and homes.
    pub hash: u64,
}

/// Follows a plan and hashes it: each decision costs only what changed.
#[derive(Clone, Default, Debug)]
pub struct PlanHash {
    run_queues: Vec<u64>,
    homes: Vec<u64>,
    sum: u64,
}

impl PlanHash {
    /// Takes in the changes of the last decision and returns the hash of the whole plan.
    pub fn update(&mut self, plan: &Plan) -> u64 {
        let mut bytes = Vec::new();
        for core in plan.dirty().iter() {
            bytes.clear();
            plan.run_queue(core).put(&mut bytes);
            self.take_line(core, &bytes);
        }
        for &vcpu in plan.rehomed() {
            bytes.clear();
            plan.home(vcpu).put(&mut bytes);
            self.take_home(vcpu, &bytes);
        }
        self.sum
    }

    /// Takes in the new run queue of a core, as it is written.
    fn take_line(&mut self, core: CoreId, run_queue: &[u8]) {
        let hash = mix(1, core.0, run_queue);
        self.sum = replace(&mut self.run_queues, core.0 as usize, hash, self.sum);
    }

    /// Takes in the new home of a VCPU, as it is written.
    fn take_home(&mut self, vcpu: VcpuId, home: &[u8]) {
        let hash = mix(2, vcpu.0, home);
        self.sum = replace(&mut self.homes, vcpu.0 as usize, hash, self.sum);
    }
}

fn mix(kind: u64, id: impl Into<u64>, bytes: &[u8]) -> u64 {
    let seed = (kind << 32 | id.into()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    fnv1a(seed, bytes)
}

fn replace(hashes: &mut Vec<u64>, index: usize, hash: u64, sum: u64) -> u64 {
    if hashes.len() <= index {
        hashes.resize(index + 1, 0);
    }
    let old = core::mem::replace(&mut hashes[index], hash);
    sum.wrapping_sub(old).wrapping_add(hash)
}

impl Decision {
    /// What the last decision in `plan` changed; `hash` must have followed every decision.
    pub fn of(now: Instant, plan: &Plan, hash: &mut PlanHash) -> Self {
        use alloc::string::ToString;
        Self {
            group: None,
            now,
            run_queues: plan
                .dirty()
                .iter()
                .map(|core| (core, plan.run_queue(core).clone()))
                .collect(),
            homes: plan.rehomed().iter().map(|&vcpu| (vcpu, plan.home(vcpu))).collect(),
            service_request: plan.service_request,
            verdicts: plan
                .verdicts()
                .iter()
                .map(|(vcpu, v)| (*vcpu, v.as_ref().map(|c| *c).map_err(ToString::to_string)))
                .collect(),
            wake: (plan.wake, plan.wake_metered),
            hash: hash.update(plan),
        }
    }
}

/// Writes a journal into memory; the owner moves [`Recorder::bytes`] to a file.
#[derive(Debug)]
pub struct Recorder {
    bytes: Vec<u8>,
    payload: Vec<u8>,
    /// `None` = plans are written without it.
    hash: Option<PlanHash>,
    /// The first core of the group whose plans it writes; `None` = they are of all cores.
    group: Option<CoreId>,
}

impl Recorder {
    /// Begins a journal.
    pub fn new(header: &Header) -> Self {
        let (hash, group) = (Some(PlanHash::default()), None);
        let mut recorder = Self { bytes: MAGIC.to_vec(), payload: Vec::new(), hash, group };
        FORMAT.put(&mut recorder.payload);
        header.put(&mut recorder.payload);
        recorder.seal();
        recorder
    }
    /// Writes records for a [`Joined`], which gives each plan its hash: of what decides for all
    /// cores, or for the group with this first core.
    pub const fn of_pieces(group: Option<CoreId>) -> Self {
        Self { bytes: Vec::new(), payload: Vec::new(), hash: None, group }
    }
    /// What was written and not yet taken.
    pub const fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
    /// Writes one record.
    pub fn record(&mut self, record: &Record) {
        record.put(&mut self.payload);
        self.seal();
    }
    /// Writes the end record.
    pub fn end(&mut self, at: Instant) {
        self.record(&Record::End(at));
    }

    fn seal(&mut self) {
        (self.payload.len() as u64).put(&mut self.bytes);
        self.bytes.extend_from_slice(&self.payload);
        let sum = fnv1a(0, &self.payload) as u32;
        self.bytes.extend_from_slice(&sum.to_le_bytes());
        self.payload.clear();
    }
}

impl Observer for Recorder {
    fn event(&mut self, at: Instant, event: &Event) {
        self.payload.push(wire::EVENT);
        at.put(&mut self.payload);
        event.put(&mut self.payload);
        self.seal();
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        // Written field by field as `Decision` is, without building one, and hashed as it is
        // written: this is the hot path.
        let (out, hash) = (&mut self.payload, &mut self.hash);
        encoding::put_asked(self.group, out);
        now.put(out);
        (plan.dirty().len() as u64).put(out);
        for core in plan.dirty().iter() {
            core.put(out);
            let begin = out.len();
            plan.run_queue(core).put(out);
            hash.iter_mut().for_each(|hash| hash.take_line(core, &out[begin..]));
        }
        (plan.rehomed().len() as u64).put(out);
        for &vcpu in plan.rehomed() {
            vcpu.put(out);
            let begin = out.len();
            plan.home(vcpu).put(out);
            hash.iter_mut().for_each(|hash| hash.take_home(vcpu, &out[begin..]));
        }
        plan.service_request.put(out);
        (plan.verdicts().len() as u64).put(out);
        for (vcpu, verdict) in plan.verdicts() {
            vcpu.put(out);
            match verdict {
                Ok(core) => Ok::<_, String>(*core).put(out),
                Err(why) => Err::<CoreId, _>(alloc::string::ToString::to_string(why)).put(out),
            }
        }
        (plan.wake, plan.wake_metered).put(out);
        hash.as_ref().map_or(0, |hash| hash.sum).put(out);
        self.seal();
    }
}

/// What is wrong with a journal, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalError {
    /// Byte offset of the record that cannot be read.
    pub offset: usize,
    /// What is wrong.
    pub what: &'static str,
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.offset, self.what)?;
        // Without its header, which stands behind the magic, it cannot be shown.
        if self.what == TRUNCATED && self.offset > MAGIC.len() {
            f.write_str("; `maracas top --journal FILE` shows what is there")?;
        }
        Ok(())
    }
}

/// What is said of a journal that ends within a record or without its end.
const TRUNCATED: &str = "the journal is truncated here";

/// Reads a journal record by record.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    whole: usize,
    rest: &'a [u8],
    ended: bool,
    piece: bool,
}

impl<'a> Reader<'a> {
    /// Reads whole records without a header, as the live machine hands them out in pieces.
    pub const fn piece(bytes: &'a [u8]) -> Self {
        Self { whole: bytes.len(), rest: bytes, ended: false, piece: true }
    }
    /// Opens a journal.
    ///
    /// # Errors
    /// Where the bytes are no journal, of another format version, or broken in the header.
    pub fn open(bytes: &'a [u8]) -> Result<(Header, Self), JournalError> {
        let error = |what| JournalError { offset: 0, what };
        let rest =
            bytes.strip_prefix(MAGIC).ok_or_else(|| error("this is not a maracas journal"))?;
        let mut reader = Self { whole: bytes.len(), rest, ended: false, piece: false };
        let mut payload = reader.payload()?;
        if take::<u64>(&mut payload) != Some(FORMAT) {
            return Err(error("written by another format version; use the maracas that wrote it"));
        }
        let header = take(&mut payload).ok_or_else(|| error("the header cannot be understood"))?;
        Ok((header, reader))
    }

    fn payload(&mut self) -> Result<&'a [u8], JournalError> {
        let offset = self.whole - self.rest.len();
        let error = |what| JournalError { offset, what };
        let mut rest = self.rest;
        let length: u64 = take(&mut rest).ok_or_else(|| error(TRUNCATED))?;
        let length = usize::try_from(length).map_err(|_| error("a record has no sane length"))?;
        if rest.len() < length || rest.len() - length < 4 {
            return Err(error(TRUNCATED));
        }
        let (payload, after) = rest.split_at(length);
        let (sum, after) = after.split_at(4);
        if sum != (fnv1a(0, payload) as u32).to_le_bytes() {
            return Err(error("the record's checksum does not match: the file is damaged"));
        }
        self.rest = after;
        Ok(payload)
    }
}

impl Iterator for Reader<'_> {
    type Item = Result<Record, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() && (self.ended || self.piece) {
            return None;
        }
        let offset = self.whole - self.rest.len();
        if self.ended {
            self.rest = &[];
            let what = "bytes follow the journal's end; cut the file here, or write it anew";
            return Some(Err(JournalError { offset, what }));
        }
        let record = self.payload().and_then(|mut payload| {
            let what = "a record cannot be understood";
            let record = take::<Record>(&mut payload).filter(|_| payload.is_empty());
            record.ok_or(JournalError { offset, what })
        });
        self.ended = matches!(record, Err(_) | Ok(Record::End(_)));
        if record.is_err() {
            self.rest = &[];
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests;
