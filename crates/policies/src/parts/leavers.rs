//! VCPUs that left a core and still count there.

use super::priority;
use super::table::Table;
use alloc::vec::Vec;
use maracas_core::{CoreId, Instant, Vcpu};

/// The VCPU that left a core: its reservation stands beside those of newcomers as long as what it
/// used would not have come back. Else coming and going would bring budgets at will. So with the
/// old reservation of what changed to a smaller one.
///
/// It stands longer where a VCPU stays that may have waited for it: such a busy window of at most
/// a period may hold what the leaver used and all that a newcomer uses after it. All of those end
/// when the core has no VCPU on a budget.
#[derive(Clone, Debug)]
pub(crate) struct Leaver {
    pub(crate) until: Instant,
    /// When what it used would have come back.
    pub(crate) back: Instant,
    pub(crate) core: CoreId,
    pub(crate) vcpu: Vcpu,
}

/// The leavers of all cores.
#[derive(Clone, Default, Debug)]
pub(crate) struct Leavers(Vec<Leaver>);

impl Leavers {
    /// Every one of them.
    pub(crate) fn all(&self) -> &[Leaver] {
        &self.0
    }
    /// Keeps those of which `stays` is true.
    pub(crate) fn retain(&mut self, stays: impl FnMut(&Leaver) -> bool) {
        self.0.retain(stays);
    }
    /// The time from which those on `core` may use all their budgets: at once where they fit beside
    /// its leavers too.
    pub(crate) fn free(&mut self, table: &Table, core: CoreId, at: Instant) -> Instant {
        self.0.retain(|leaver| leaver.until > at);
        let here = self.0.iter().filter(|leaver| leaver.core == core);
        let beside: Vec<Vcpu> = here.clone().map(|leaver| leaver.vcpu.clone()).collect();
        let free = here.map(|leaver| leaver.until).max().unwrap_or(at);
        if table.fits_all(core, &beside) { at } else { free }
    }
    /// `vcpu`, which left `core` at `at` and is not in the table there, counts on.
    pub(crate) fn remember(
        &mut self,
        table: &Table,
        vcpu: Vcpu,
        core: CoreId,
        back: Instant,
        at: Instant,
    ) {
        self.0.retain(|leaver| leaver.until > at);
        let here = table.on(core).iter().filter(|vcpu| !priority::carries_errands(vcpu.role));
        let longest = here.map(|vcpu| vcpu.reservation.period).max().unwrap_or_default();
        self.0.push(Leaver { until: back.max(at + longest), back, core, vcpu });
    }
    /// No VCPU on `core` is on a budget: whatever waited for those that left has what it waited
    /// for.
    pub(crate) fn rest(&mut self, core: CoreId) {
        let here = self.0.iter_mut().filter(|leaver| leaver.core == core);
        here.for_each(|leaver| leaver.until = leaver.until.min(leaver.back));
    }
}
