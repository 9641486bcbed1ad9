//! How the records of a journal are written ([`crate::wire`]).

use super::{Decision, Header, Record};
use crate::CoreId;
use crate::wire::{self, Wire, fields, take};
use alloc::vec::Vec;

fields! {
    Header { policy, params, system, names, machine, version, seed }
}

/// Begins a plan record: whether one group of cores was asked, and which. Where all were, it has
/// the same bytes as before there were groups.
pub(super) fn put_asked(group: Option<CoreId>, out: &mut Vec<u8>) {
    match group {
        None => out.push(wire::PLANNED),
        Some(core) => {
            out.push(wire::PLANNED_ALONE);
            core.put(out);
        }
    }
}

impl Decision {
    /// What stands behind its begin.
    fn put(&self, out: &mut Vec<u8>) {
        let Self { group: _, now, run_queues, homes, service_request, verdicts, wake, hash } = self;
        now.put(out);
        run_queues.put(out);
        homes.put(out);
        service_request.put(out);
        verdicts.put(out);
        wake.put(out);
        hash.put(out);
    }
    fn take(group: Option<CoreId>, from: &mut &[u8]) -> Option<Self> {
        Some(Self {
            group,
            now: take(from)?,
            run_queues: take(from)?,
            homes: take(from)?,
            service_request: take(from)?,
            verdicts: take(from)?,
            wake: take(from)?,
            hash: take(from)?,
        })
    }
}

/// First byte of [`Record::Gap`].
const GAP: u8 = 2;
/// First byte of [`Record::Note`].
const NOTE: u8 = 3;
/// First byte of [`Record::End`].
pub(super) const END: u8 = 4;

impl Wire for Record {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Event { at, event } => {
                out.push(wire::EVENT);
                at.put(out);
                event.put(out);
            }
            Self::Planned(decision) => {
                put_asked(decision.group, out);
                decision.put(out);
            }
            Self::Gap(lost) => {
                out.push(GAP);
                lost.put(out);
            }
            Self::Note { at, note } => {
                out.push(NOTE);
                at.put(out);
                note.put(out);
            }
            Self::End(at) => {
                out.push(END);
                at.put(out);
            }
        }
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(match take::<u8>(from)? {
            wire::EVENT => Self::Event { at: take(from)?, event: take(from)? },
            wire::PLANNED => Self::Planned(Decision::take(None, from)?),
            wire::PLANNED_ALONE => {
                let core = take(from)?;
                Self::Planned(Decision::take(Some(core), from)?)
            }
            GAP => Self::Gap(take(from)?),
            NOTE => Self::Note { at: take(from)?, note: take(from)? },
            END => Self::End(take(from)?),
            _ => return None,
        })
    }
}
