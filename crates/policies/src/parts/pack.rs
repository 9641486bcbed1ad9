//! Bin packing: which core takes the next VCPU. VCPUs are taken heaviest first.

use super::table::{FindHost, Table};
use core::cmp::Reverse;
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{CoreId, Vcpu};

/// Parameter of the partitioned job policies.
pub(crate) const PACKING: ParamSpec = ParamSpec {
    name: "packing",
    kind: Kind::Choice(&["ffd", "bfd", "wfd"]),
    help: "which core takes the next task, by decreasing utilization: ffd = the first that fits, \
           bfd = the fullest, wfd = the emptiest (Johnson 1973)",
};

/// The packing that the user chose.
pub(crate) fn chosen(params: &Params) -> FindHost {
    match params.choice(&PACKING) {
        "bfd" => best_fit,
        "wfd" => worst_fit,
        _ => first_fit,
    }
}

fn fitting(table: &Table, vcpu: &Vcpu) -> impl Iterator<Item = CoreId> {
    table.cores().filter(move |core| table.fits(*core, vcpu))
}

fn first_fit(table: &Table, vcpu: &Vcpu) -> Option<CoreId> {
    fitting(table, vcpu).next()
}

fn best_fit(table: &Table, vcpu: &Vcpu) -> Option<CoreId> {
    fitting(table, vcpu).min_by_key(|core| Reverse(table.load(*core)))
}

fn worst_fit(table: &Table, vcpu: &Vcpu) -> Option<CoreId> {
    fitting(table, vcpu).min_by_key(|core| table.load(*core))
}
