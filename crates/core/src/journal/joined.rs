//! One journal from the pieces of several deciders.
//!
//! Each decider writes its events and the plan that answers them as one piece. What a plan record
//! says of the plans of all, its hash, is known where the pieces are put together.

use super::{Header, JournalError, PlanHash, Reader, Record, Recorder};
use crate::contract::RunQueue;
use crate::wire::{self, Wire, take};
use crate::{CoreId, Instant, VcpuId};
use alloc::vec::Vec;

/// Puts pieces together that were written by [`Recorder::of_pieces`].
#[derive(Debug)]
pub struct Joined {
    journal: Recorder,
    hash: PlanHash,
}

impl Joined {
    /// Begins a journal.
    pub fn new(header: &Header) -> Self {
        Self { journal: Recorder::new(header), hash: PlanHash::default() }
    }
    /// What was put together and not yet taken.
    pub const fn bytes(&mut self) -> &mut Vec<u8> {
        self.journal.bytes()
    }
    /// Writes one record.
    pub fn record(&mut self, record: &Record) {
        self.journal.record(record);
    }

    /// Appends a piece. `cores` and homes whose plan it has are hashed with those of all others.
    ///
    /// # Errors
    /// Where the piece is none; what is right of it before that is appended.
    pub fn append(&mut self, piece: &[u8]) -> Result<(), JournalError> {
        let mut reader = Reader::piece(piece);
        while !reader.rest.is_empty() {
            let whole = reader.rest;
            let payload = reader.payload()?;
            match payload.split_first() {
                Some((&first @ (wire::PLANNED | wire::PLANNED_ALONE), planned)) => {
                    let offset = piece.len() - whole.len();
                    let what = "a plan cannot be understood";
                    let hash = follow(&mut self.hash, first == wire::PLANNED_ALONE, planned);
                    let hash = hash.ok_or(JournalError { offset, what })?;
                    // In the place of the hash stands 0, which takes one byte.
                    self.journal.payload.extend_from_slice(&payload[..payload.len() - 1]);
                    hash.put(&mut self.journal.payload);
                    self.journal.seal();
                }
                _ => {
                    let record = &whole[..whole.len() - reader.rest.len()];
                    self.journal.bytes.extend_from_slice(record);
                }
            }
        }
        Ok(())
    }
}

/// Takes in what a plan changed, as it is written, of a group or of all; the hash of all plans
/// then.
fn follow(hash: &mut PlanHash, is_of_group: bool, mut planned: &[u8]) -> Option<u64> {
    let rest = &mut planned;
    if is_of_group {
        take::<CoreId>(rest)?;
    }
    take::<Instant>(rest)?;
    for _ in 0..take::<u64>(rest)? {
        let core = take::<CoreId>(rest)?;
        hash.take_line(core, passed::<RunQueue>(rest)?);
    }
    for _ in 0..take::<u64>(rest)? {
        let vcpu = take::<VcpuId>(rest)?;
        hash.take_home(vcpu, passed::<Option<CoreId>>(rest)?);
    }
    Some(hash.sum)
}

/// The bytes of the next value.
fn passed<'a, T: Wire>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let begin = *rest;
    take::<T>(rest)?;
    Some(&begin[..begin.len() - rest.len()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Grant, Limit, Observer, Plan};
    use crate::params::Params;
    use crate::{CoreSet, Event, JobId, System};
    use alloc::string::String;

    fn header() -> Header {
        let (policy, machine, version) = (String::new(), String::new(), String::new());
        let system = System::new(3, Vec::new());
        let (params, names) = (Params::new(), Vec::new());
        Header { policy, params, system, names, machine, version, seed: 0 }
    }

    /// Of each core of a group, which is the first and the last of three, and of the other.
    #[test]
    fn pieces_of_groups_are_a_journal_of_all() {
        let at = Instant::from_ticks;
        let (mut whole, mut joined) = (Recorder::new(&header()), Joined::new(&header()));
        let mut all = Plan::new(3);
        let [zero, one, two] = [CoreId(0), CoreId(1), CoreId(2)];
        let outer: CoreSet = [zero, two].into_iter().collect();
        let mut own = [(zero, Plan::of_cores(&outer)), (one, Plan::of_core(one))];
        for round in 0..12_u32 {
            let now = at(u64::from(round) + 1);
            let done = Event::Completed(JobId { vcpu: VcpuId(round), index: round });
            let core = [zero, one, two, one][round as usize % 4];
            let (group, plan) = &mut own[usize::from(core == one)];
            let grant = Grant::new(VcpuId(round), Limit::NEVER);
            for plan in [&mut *plan, &mut all] {
                // What the decision before changed is forgotten.
                plan.begin();
                plan.run_queue_mut(core).foreground.push(grant);
                plan.wake = now + crate::Duration::from_ticks(1);
            }
            let mut piece = Recorder::of_pieces(Some(*group));
            for recorder in [&mut whole, &mut piece] {
                recorder.group = Some(*group);
                recorder.event(now, &done);
            }
            whole.planned(now, &all);
            piece.planned(now, plan);
            joined.append(piece.bytes()).expect("a piece");
        }
        assert_eq!(whole.bytes(), joined.bytes());
        assert!(joined.append(&[9, 9]).is_err());
    }
}
