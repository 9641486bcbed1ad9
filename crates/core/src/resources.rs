//! Resources that jobs share under mutual exclusion, the critical sections in which they use them,
//! and the protocol that says who waits and how.

use crate::{Duration, Vcpu, VcpuId};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A locking protocol. What each does stands in its file of the simulator (`crates/sim/src/locks`),
/// how long it lets a job wait at most in its file of the policies
/// (`crates/policies/src/parts/locks`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// The multiprocessor priority ceiling protocol (Rajkumar, ICDCS 1990).
    Mpcp,
    /// The FIFO multiprocessor locking protocol (Brandenburg, ECRTS 2014), partitioned.
    FmlpPlus,
    /// The O(m) locking protocol (Brandenburg and Anderson, EMSOFT 2011), clusters of one core.
    Omlp,
    /// The multiprocessor resource sharing protocol (Burns and Wellings, ECRTS 2013).
    Mrsp,
}

impl Protocol {
    /// All of them, by the words that users write.
    pub const ALL: [(&str, Self); 4] = [
        ("mpcp", Self::Mpcp),
        ("fmlp+", Self::FmlpPlus),
        ("omlp", Self::Omlp),
        ("mrsp", Self::Mrsp),
    ];

    /// The word that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mpcp => "mpcp",
            Self::FmlpPlus => "fmlp+",
            Self::Omlp => "omlp",
            Self::Mrsp => "mrsp",
        }
    }
    /// Whether its rules speak of fixed priorities alone.
    pub const fn needs_fixed_priorities(self) -> bool {
        match self {
            Self::Mpcp | Self::Mrsp => true,
            Self::FmlpPlus | Self::Omlp => false,
        }
    }
}

/// A critical section of every job of a VCPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Section {
    /// What it uses, by its place in [`Resources::names`].
    pub resource: u32,
    /// How much of the job's budget is used when it asks for the resource.
    pub at: Duration,
    /// How much of the budget it uses with the resource.
    pub length: Duration,
}

/// What the VCPUs of a system share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resources {
    /// Who waits, and how.
    pub protocol: Protocol,
    /// The names of the resources.
    pub names: Vec<String>,
    /// The critical sections of those that have some, in the order in which a job comes to them.
    /// They are meant of a job that costs the whole budget C; in one that costs c they lie at, and
    /// last for, c / C of that.
    pub sections: BTreeMap<VcpuId, Vec<Section>>,
}

impl Resources {
    /// The critical sections of a job of `vcpu`.
    pub fn of(&self, vcpu: VcpuId) -> &[Section] {
        self.sections.get(&vcpu).map_or(&[], Vec::as_slice)
    }
    /// Whether a job of `vcpu` uses `resource`.
    pub fn uses(&self, vcpu: VcpuId, resource: u32) -> bool {
        self.of(vcpu).iter().any(|section| section.resource == resource)
    }
    /// The first critical section of `vcpu` that cannot be, by its place, and why: one without
    /// length, one that ends after C, or one that does not begin after the job, or the section
    /// before it, ran without a resource. A job asks when it runs, and sections are not nested.
    ///
    /// # Errors
    /// One sentence: the thing, the number, the way out.
    pub fn check(&self, vcpu: &Vcpu) -> Result<(), (usize, String)> {
        let budget = vcpu.reservation.budget;
        let mut before = Duration::ZERO;
        for (place, section) in self.of(vcpu.id).iter().enumerate() {
            let Section { resource, at, length } = *section;
            let end = at.checked_add(length).unwrap_or(Duration::MAX);
            let name = &self.names[resource as usize];
            if length.is_zero() {
                let why = format!("the section on {name} has no length; give it one or drop it");
                return Err((place, why));
            }
            if at.is_zero() {
                let why = format!(
                    "the section on {name} begins with the job, which asks for it once it runs; \
                     let `at` be above zero"
                );
                return Err((place, why));
            }
            if at <= before {
                let why = format!(
                    "the section on {name} begins at {at}, and the job is not without a resource \
                     before {before}; sections are in order, apart and not nested: begin it later"
                );
                return Err((place, why));
            }
            if end > budget {
                let why = format!(
                    "the section on {name} ends at {end}, after the budget {budget}; make it \
                     shorter or begin it earlier"
                );
                return Err((place, why));
            }
            before = end;
        }
        Ok(())
    }
}
