//! The states that a search knows, each packed into one word.
//!
//! Written plainly, with shifts and one array: the search runs in tests without optimisation, where
//! the general hash table and derived comparisons took two thirds of it.

use super::{Repairer, Runtime, State, Thread, Vcpu};

/// A table of packed states with their numbers: open addressing, linear probing (Knuth, The Art of
/// Computer Programming 3, 6.4, algorithm L), at most half full.
pub(super) struct Known {
    /// The packed state and its number plus one; 0 = free.
    places: Vec<(u128, u32)>,
    used: usize,
}

impl Known {
    pub(super) fn new() -> Self {
        Self { places: vec![(0, 0); 1 << 10], used: 0 }
    }

    /// The number of `state`: its own or, where it is new, `fresh`, and whether it is new.
    pub(super) fn number(&mut self, state: &State, fresh: usize) -> (usize, bool) {
        if self.used * 2 >= self.places.len() {
            self.grow();
        }
        let key = pack(state);
        let at = self.place(key);
        let number = self.places[at].1;
        if number != 0 {
            return (number as usize - 1, false);
        }
        self.places[at] = (key, fresh as u32 + 1);
        self.used += 1;
        (fresh, true)
    }

    /// Where `key` is, or belongs.
    fn place(&self, key: u128) -> usize {
        // Fibonacci hashing (Knuth, 6.4): the upper bits of a product are the well mixed ones.
        const PHI: u64 = 0x9e37_79b9_7f4a_7c15;
        let folded = (key as u64).wrapping_mul(PHI) ^ (key >> 64) as u64;
        let mixed = (folded ^ folded >> 29).wrapping_mul(PHI);
        let mask = self.places.len() - 1;
        let mut at = (mixed >> 32) as usize & mask;
        while self.places[at].1 != 0 && self.places[at].0 != key {
            at = (at + 1) & mask;
        }
        at
    }

    fn grow(&mut self) {
        let larger = vec![(0, 0); self.places.len() * 4];
        for (key, number) in std::mem::replace(&mut self.places, larger) {
            if number != 0 {
                let at = self.place(key);
                self.places[at] = (key, number);
            }
        }
    }
}

/// All of a state but the members' names, which never change in a search.
fn pack(state: &State) -> u128 {
    let mut word = 0;
    let mut index = 0;
    while index < state.vcpus.len() {
        word = word << 15 | u128::from(vcpu(&state.vcpus[index]));
        index += 1;
    }
    let runtime = match state.runtime {
        Runtime::Alive => 0,
        Runtime::Dead => 1,
        Runtime::Closing(at) => 2 + u32::from(at),
    };
    // Two bits each for the lives left, three for the runtime: at most three stations to its end.
    let rest = (state.guardians as u32) << 6
        | (state.cleans as u32) << 4
        | runtime << 1
        | state.registered as u32;
    let repairers = repairer(state.guardian) << 14 | repairer(state.clean);
    word << 36 | u128::from(repairers) << 8 | u128::from(rest)
}

/// 15 bits: the operation and its next step, four flags, two threads.
fn vcpu(vcpu: &Vcpu) -> u32 {
    let doing = match vcpu.doing {
        None => 0,
        Some((operation, at)) => 1 + operation as u32 + ((at as u32) << 3),
    };
    let flags = vcpu.enrolled as u32
        | (vcpu.stopped as u32) << 1
        | (vcpu.group as u32) << 2
        | (vcpu.frozen as u32) << 3;
    doing << 10 | flags << 6 | thread(vcpu.threads[0]) << 3 | thread(vcpu.threads[1])
}

fn thread(thread: Thread) -> u32 {
    match thread {
        Thread::Unborn => 0,
        Thread::Gone => 1,
        Thread::Outside { raised } => 2 + raised as u32,
        Thread::Inside { raised } => 4 + raised as u32,
    }
}

/// 14 bits: what it is; station and VCPU; its list, a flag, and the VCPU that it relieves.
fn repairer(repairer: Repairer) -> u32 {
    match repairer {
        Repairer::Idle => 0,
        Repairer::Dead => 1,
        Repairer::Left => 2,
        Repairer::At { station, vcpu, list, again, relief } => {
            let list = match list {
                None => 0,
                Some([own, child]) => 4 | (own as u32) << 1 | child as u32,
            };
            let place = (station as u32) << 2 | vcpu as u32;
            let relief = relief.map_or(0, |relief| 1 + relief as u32);
            3 | place << 2 | list << 7 | (again as u32) << 10 | relief << 11
        }
    }
}
