//! How the records of a journal are written ([`crate::wire`]).

use super::{Decision, Header, Record};
use crate::wire::{fields, variants};

fields! {
    Header { policy, params, system, names, machine, version, seed }
    Decision { now, run_queues, homes, service_request, verdicts, wake, hash }
}
variants! {
    Record {
        0 = Event { at, event }, 1 = Planned(decision), 2 = Gap(lost),
        3 = Note { at, note }, 4 = End(at),
    }
}
