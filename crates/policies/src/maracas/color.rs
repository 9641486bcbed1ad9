//! Cache-aware scheduling: page colours of cores and VCPUs (MARACAS, section V.B).
//!
//! A core owns some colours of the last-level cache ([`maracas_core::Core::colors`]); a VCPU may
//! require a number of them (the third argument of the paper's `vcpu_create`). Placement and
//! migration take only cores that offer as many. A platform none of whose cores names colours is
//! not partitioned: every core offers all.
//!
//! Recolouring at run time is for VCPUs of low criticality alone, as the paper advises: a core that
//! has no VCPUs lends its colours, all of them to one borrower, the one with the most memory
//! requests per service first, of those in need: by the estimate from misses they hold at least
//! half an even share of their core's colours; what holds less has room there. The core gets them
//! back when a VCPU comes there, whatever `min_interval` says; until that recolouring is done the
//! two share them. A borrower that migrates leaves behind what it borrowed. VCPUs of high
//! criticality get other colours by migrating only.

use super::balance::Scene;
use super::vcpu::State;
use crate::parts::occupancy::Estimate;
use crate::parts::priority;
use crate::parts::table::{Demand, Table};
use alloc::string::String;
use alloc::vec::Vec;
use maracas_core::contract::Segment;
use maracas_core::memory::CachePart;
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{Core, CoreId, Criticality, System, Vcpu, VcpuId};

pub(super) const COLORS: ParamSpec = ParamSpec {
    name: "colors",
    kind: Kind::Choice(&["shared", "sum"]),
    help: "what a core's page colours are to its VCPUs: shared = each may require up to all of \
           them (the paper's sets per core), sum = the requirements must sum up within them",
};

pub(super) const RECOLOR: ParamSpec = ParamSpec {
    name: "recolor",
    kind: Kind::Choice(&["off", "low"]),
    help: "whether pages are recoloured at run time without a migration (MARACAS, section V.B): \
           off = the paper's static colours, low = VCPUs of low criticality borrow the colours of \
           cores that have no VCPUs; needs balance = vlb",
};

pub(super) const COLOR_LINES: ParamSpec = ParamSpec {
    name: "color_lines",
    kind: Kind::Whole(3072, 1, 4_294_967_295),
    help: "cache lines of one page colour, for recolor = low; 3072 is the paper's platform: 6 MiB \
           in 32 colours (section VI.D)",
};

/// The demand that placement and migration make on a core.
pub(super) fn demand(params: &Params) -> Demand {
    let met = if params.choice(&COLORS) == "sum" { left_over } else { offered_to_each };
    Demand { met, refusal }
}

/// Whether any core owns colours of its own.
pub(super) fn partitioned(system: &System) -> bool {
    system.cores.iter().any(|core| core.colors.is_some())
}

/// How many colours `core` offers; a core without colours of its own offers all there are.
fn offered(table: &Table, core: CoreId) -> u32 {
    table.core(core).colors.map_or(u32::MAX, |part| part.get().count_ones())
}

fn offered_to_each(table: &Table, core: CoreId, vcpu: &Vcpu) -> bool {
    offered(table, core) >= vcpu.colors
}

fn left_over(table: &Table, core: CoreId, vcpu: &Vcpu) -> bool {
    offered(table, core) >= required(table, core).saturating_add(vcpu.colors)
}

/// What the VCPUs on `core` require together.
fn required(table: &Table, core: CoreId) -> u32 {
    table.on(core).iter().fold(0, |sum, vcpu| sum.saturating_add(vcpu.colors))
}

fn refusal(table: &Table, vcpu: &Vcpu) -> String {
    let cores = table.cores().filter(|core| vcpu.pinned.is_none_or(|pin| pin == *core));
    let best = cores.max_by_key(|core| (offered(table, *core), core.0)).unwrap_or_default();
    let (id, colors, most) = (vcpu.id, vcpu.colors, offered(table, best));
    let among = if vcpu.pinned.is_some() { "which it demands" } else { "the most of all cores" };
    let taken = if most >= colors {
        alloc::format!(", and its VCPUs require {} of them", required(table, best))
    } else {
        String::new()
    };
    alloc::format!(
        "{id} requires {colors} page colours, but {best} has {most}, {among}{taken}; require fewer \
         or give a core more"
    )
}

/// The VCPU that holds other colours than its core's.
#[derive(Clone, Debug)]
pub(super) struct Palette {
    /// By core, its colours' lines and what holds them; empty where no VCPU borrows.
    parts: Vec<(u64, Estimate)>,
    /// Cores that lend, and to which VCPU.
    loans: Vec<(CoreId, VcpuId)>,
    /// Which VCPU holds what, as the machine last did it, where that is not what its core owns.
    held: Vec<(VcpuId, CachePart)>,
}

/// A recolouring of a VCPU that stays on its core.
pub(super) type Recoloring = (VcpuId, CoreId, CachePart);

impl Palette {
    pub(super) fn chosen(system: &System, params: &Params) -> Self {
        let lends = params.choice(&RECOLOR) == "low";
        let colors = |core: &Core| core.colors.map_or(0, |part| part.get().count_ones());
        let lines = |core| u64::from(colors(core)) * params.whole(&COLOR_LINES);
        let parts = system.cores.iter().filter(|_| lends).map(lines);
        let parts = parts.map(|lines| (lines, Estimate::new(lines))).collect();
        Self { parts, loans: Vec::new(), held: Vec::new() }
    }
    /// Whether idle cores lend their colours.
    pub(super) const fn lends(&self) -> bool {
        !self.parts.is_empty()
    }
    /// Takes in what a segment missed.
    pub(super) fn ran(&mut self, segment: &Segment) {
        if let Some((_, part)) = self.parts.get_mut(segment.core.0 as usize) {
            part.ran(segment.vcpu, segment.usage.reads);
        }
    }

    /// The machine gave `vcpu`, on a core that owns `own`, the colours `part`.
    pub(super) fn gave(&mut self, vcpu: VcpuId, own: Option<CachePart>, part: CachePart) {
        self.held.retain(|(holder, _)| *holder != vcpu);
        if Some(part) != own {
            self.held.push((vcpu, part));
        }
    }
    /// `vcpu` came to another core or is gone: it borrows nothing any more.
    pub(super) fn forget(&mut self, vcpu: VcpuId) {
        self.loans.retain(|(_, borrower)| *borrower != vcpu);
        self.held.retain(|(holder, _)| *holder != vcpu);
        self.parts.iter_mut().for_each(|(_, part)| part.leave(vcpu));
    }

    /// The next one that must give colours back.
    pub(super) fn give_back(&mut self, scene: &Scene<'_>) -> Option<Recoloring> {
        self.loans.retain(|(lender, _)| is_idle(scene.table, *lender));
        self.held.iter().find_map(|(vcpu, mask)| {
            let (core, due) = self.due(scene, *vcpu)?;
            (*mask != due).then_some((*vcpu, core, due))
        })
    }

    /// A core without VCPUs whose colours no VCPU borrowed.
    pub(super) fn lender(&self, scene: &Scene<'_>) -> Option<CoreId> {
        scene.table.cores().find(|core| {
            scene.table.core(*core).colors.is_some()
                && is_idle(scene.table, *core)
                && self.loans.iter().all(|(lender, _)| lender != core)
        })
    }

    /// The next one that borrows colours.
    pub(super) fn lend(&mut self, scene: &Scene<'_>) -> Option<Recoloring> {
        while let Some(lender) = self.lender(scene)
            && let Some(borrower) = self.hungriest(scene)
        {
            self.loans.push((lender, borrower));
        }
        self.loans.iter().find_map(|(_, vcpu)| {
            let (core, due) = self.due(scene, *vcpu)?;
            let held = self.held.iter().find(|(holder, _)| holder == vcpu).map(|(_, mask)| *mask);
            (held != Some(due)).then_some((*vcpu, core, due))
        })
    }

    /// The core of `vcpu`, and what it must hold: the colours of that, and what it borrowed.
    fn due(&self, scene: &Scene<'_>, vcpu: VcpuId) -> Option<(CoreId, CachePart)> {
        let core = scene.states.get(vcpu)?.core;
        let own = scene.table.core(core).colors?;
        let borrowed = self.loans.iter().filter(|(_, borrower)| *borrower == vcpu);
        let borrowed = borrowed.filter_map(|(lender, _)| scene.table.core(*lender).colors);
        Some((core, borrowed.fold(own, |part, more| part | more)))
    }

    /// Of low criticality, runnable, on a core with colours, without a loan, and with the most
    /// memory requests per service; no VCPU before all of these have run, and only what is in need.
    fn hungriest(&self, scene: &Scene<'_>) -> Option<VcpuId> {
        let cores = scene.table.cores().filter(|core| scene.table.core(*core).colors.is_some());
        let vcpus = cores.flat_map(|core| scene.counted(core));
        let states = vcpus
            .filter(|vcpu| vcpu.criticality == Criticality::Low)
            .filter(|vcpu| self.loans.iter().all(|(_, borrower)| *borrower != vcpu.id))
            .filter_map(|vcpu| scene.states.get(vcpu.id));
        let most = states.max_by(|a, b| {
            let (one, other) = (a.intensity(), b.intensity());
            let unknown = a.service().is_zero().cmp(&b.service().is_zero());
            unknown.then_with(|| one.compare(other)).then_with(|| b.id.cmp(&a.id))
        });
        most.filter(|state| self.is_in_need(scene, state)).map(|state| state.id)
    }

    /// Whether it holds at least half an even share of its core's colours.
    fn is_in_need(&self, scene: &Scene<'_>, state: &State) -> bool {
        let sharers = scene.counted(state.core).count() as u64;
        let part = self.parts.get(state.core.0 as usize);
        part.is_some_and(|(lines, part)| 2 * part.lines(state.id) * sharers >= *lines)
    }
}

/// Whether no VCPU that runs programs is bound to `core`.
fn is_idle(table: &Table, core: CoreId) -> bool {
    table.on(core).iter().all(|vcpu| priority::serves_requests(vcpu.role))
}
