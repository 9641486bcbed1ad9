//! REBALANCE and FIND_HOST_CPU as it uses it (MARACAS, Algorithm 2): which VCPU to move from a
//! core, and where to, decided on what the cores hold.

use crate::maracas::place::{Load, Spv};
use crate::maracas::vcpu::States;
use crate::parts::bounds;
use crate::parts::exact::Exact;
use crate::parts::priority;
use crate::parts::table::Table;
use alloc::vec::Vec;
use core::cell::Cell;
use core::cmp::Reverse;
use maracas_core::{CoreId, Instant, Vcpu, VcpuId};

/// The cores as REBALANCE finds them.
pub(in crate::maracas) struct Scene<'a> {
    pub(in crate::maracas) table: &'a Table,
    pub(in crate::maracas) states: &'a States,
    /// By core, what those that count in its SPV ask for.
    pub(in crate::maracas) loads: &'a [Load],
    pub(in crate::maracas) imbalance: Exact,
    pub(in crate::maracas) now: Instant,
    /// When the first of the reasons ends that kept a VCPU from moving and that time alone ends.
    pub(in crate::maracas) later: Cell<Instant>,
}

/// The VCPUs on `core` that count in its SPV: they run programs, and have something to run, in
/// budget or not.
pub(in crate::maracas) fn counted<'a>(
    table: &'a Table,
    states: &'a States,
    core: CoreId,
) -> impl Iterator<Item = &'a Vcpu> {
    table.on(core).iter().filter(|vcpu| {
        !priority::serves_requests(vcpu.role)
            && states.get(vcpu.id).is_some_and(|state| state.runnable())
    })
}

/// What the schedulability test with the demand for colours says, beside those that left at `now`
/// too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::maracas) enum Fit {
    Yes,
    No,
    /// Only those that left are in the way, the first of them until then.
    Later(Instant),
}

pub(in crate::maracas) fn test(table: &Table, core: CoreId, vcpu: &Vcpu) -> Fit {
    if table.fits(core, vcpu) {
        return Fit::Yes;
    }
    let first = table.holds().on(core).map(|hold| hold.until).min();
    match first.filter(|_| table.fits_when_free(core, vcpu)) {
        Some(first) => Fit::Later(first),
        None => Fit::No,
    }
}

/// Whether `more` is above `less` by more than the threshold.
fn beyond(imbalance: Exact, more: Spv, less: Spv) -> bool {
    match (more, less) {
        (Spv::Finite(more), Spv::Finite(less)) => more > less.plus(imbalance),
        (Spv::Infinite, Spv::Finite(_)) => true,
        (Spv::Finite(_) | Spv::Infinite, Spv::Infinite) => false,
    }
}

/// Whether moving `vcpu`, which counts in `src`, to `dst` still evens out: what was decided before
/// the migration VCPU ran is asked again when it has.
pub(in crate::maracas) fn evens_out(imbalance: Exact, src: Load, dst: Load, vcpu: &Vcpu) -> bool {
    let (src_spv, dst_spv) = (src.spv(), dst.spv());
    src.vcpus() > 1
        && beyond(imbalance, dst_spv, src_spv)
        && !overshoots(src_spv, dst_spv, src.without(vcpu).spv(), dst.with(vcpu).spv())
}

impl Scene<'_> {
    pub(in crate::maracas) fn counted(&self, core: CoreId) -> impl Iterator<Item = &Vcpu> {
        counted(self.table, self.states, core)
    }
    fn load(&self, core: CoreId) -> Load {
        self.loads[core.0 as usize]
    }
    fn spv(&self, core: CoreId) -> Spv {
        self.load(core).spv()
    }
    /// The core with the least SPV, the lowest of several.
    pub(in crate::maracas) fn fullest(&self) -> CoreId {
        self.table.cores().min_by_key(|core| self.spv(*core)).unwrap_or_default()
    }
    fn beyond(&self, more: Spv, less: Spv) -> bool {
        beyond(self.imbalance, more, less)
    }
    fn test(&self, core: CoreId, vcpu: &Vcpu) -> bool {
        match test(self.table, core, vcpu) {
            Fit::Yes => true,
            Fit::No => false,
            Fit::Later(at) => {
                self.ask_again(at);
                false
            }
        }
    }
    fn ask_again(&self, at: Instant) {
        self.later.set(self.later.get().min(at));
    }

    /// FIND_HOST_CPU as REBALANCE uses it: never `src`, and only where `src` has less slack.
    fn find_host(&self, vcpu: &Vcpu, src: CoreId) -> Option<CoreId> {
        let slack = self.spv(src);
        let mut cores: Vec<(Spv, CoreId)> = self
            .table
            .cores()
            .filter(|core| *core != src)
            .map(|core| (self.spv(core), core))
            .filter(|(spv, _)| *spv > Spv::Finite(Exact::ZERO) && self.beyond(*spv, slack))
            .collect();
        cores.sort_by_key(|(spv, core)| (Reverse(*spv), *core));
        cores.into_iter().map(|(_, core)| core).find(|core| self.test(*core, vcpu))
    }

    /// Which VCPU REBALANCE may move from `src`, in its order: what holds no budget that it waited
    /// with first (row 12), then by decreasing U (row 7), then by id. No VCPU that a move delays
    /// already.
    fn candidates(&self, src: CoreId) -> Vec<&Vcpu> {
        let stays = |id| self.states.get(id).and_then(|state| state.stays_until(self.now));
        let free = self.counted(src).filter(|vcpu| vcpu.pinned.is_none());
        let mut candidates: Vec<&Vcpu> = free
            .filter(|vcpu| match stays(vcpu.id) {
                Some(until) => {
                    self.ask_again(until);
                    false
                }
                None => true,
            })
            .collect();
        let late = |id| self.states.get(id).is_some_and(|state| state.waits_with_budget(self.now));
        candidates
            .sort_by_cached_key(|vcpu| (late(vcpu.id), Reverse(bounds::demand(vcpu)), vcpu.id));
        candidates
    }
}

/// REBALANCE on its way: lines 29 to 51 are gone on with after each move, so that each is decided
/// on what the cores hold then.
#[derive(Clone, Debug)]
pub(in crate::maracas) struct Rebalance {
    pub(super) src: CoreId,
    pub(super) dst: CoreId,
    /// Whose turn in the loop is over.
    tried: Vec<VcpuId>,
    /// Moves that it may still make.
    left: u64,
    /// Whether it decided on any.
    pub(super) found: bool,
}

impl Rebalance {
    /// Lines 14 to 28 on the core `src`, for at most `moves` moves.
    pub(in crate::maracas) fn begin(scene: &Scene<'_>, src: CoreId, moves: u64) -> Option<Self> {
        if scene.load(src).vcpus() <= 1 {
            return None;
        }
        // Algorithm 2, lines 17 and 18: the smallest U on src.
        let candidates = scene.candidates(src);
        let least = candidates.iter().min_by_key(|vcpu| (bounds::demand(vcpu), vcpu.id))?;
        let dst = scene.find_host(least, src)?;
        Some(Self { src, dst, tried: Vec::new(), left: moves, found: false })
    }

    /// Which VCPU to move from src to dst now.
    pub(in crate::maracas) fn next(&mut self, scene: &Scene<'_>) -> Option<VcpuId> {
        let (src_spv, dst_spv) = (scene.spv(self.src), scene.spv(self.dst));
        // Algorithm 2, lines 22 to 28, and line 48 after a move.
        if self.left == 0 || !scene.beyond(dst_spv, src_spv) {
            return None;
        }
        // Algorithm 2, line 30.
        if scene.load(self.src).vcpus() <= 1 {
            return None;
        }
        // Algorithm 2, line 29.
        for vcpu in scene.candidates(self.src) {
            if self.tried.contains(&vcpu.id) {
                continue;
            }
            self.tried.push(vcpu.id);
            // Algorithm 2, lines 35 and 38.
            let dst_with = scene.load(self.dst).with(vcpu).spv();
            let src_without = scene.load(self.src).without(vcpu).spv();
            // Algorithm 2, lines 39 to 42 and 43 to 45.
            if overshoots(src_spv, dst_spv, src_without, dst_with) || !scene.test(self.dst, vcpu) {
                continue;
            }
            self.left -= 1;
            self.found = true;
            return Some(vcpu.id);
        }
        None
    }
}

/// Whether a move leaves src with as much more slack than dst as dst had more before: src' - dst'
/// >= dst - src, without subtracting.
fn overshoots(src: Spv, dst: Spv, src_without: Spv, dst_with: Spv) -> bool {
    match (src, dst, src_without, dst_with) {
        (Spv::Finite(src), Spv::Finite(dst), Spv::Finite(more), Spv::Finite(less)) => {
            less < more && more.plus(src) >= dst.plus(less)
        }
        // Nothing overshoots an infinite imbalance; src is never emptied, dst is not empty then.
        (Spv::Finite(_) | Spv::Infinite, ..) => false,
    }
}

#[cfg(test)]
mod tests;
