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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::table::{Family, Test};
    use alloc::string::String;
    use maracas_core::{Duration, System, VcpuId};

    /// The core of each VCPU, in order of ids, as digits; `-` where refused.
    fn packed(cores: usize, percents: &[u64], find_host: FindHost) -> String {
        let vcpus = (0..).zip(percents).map(|(id, percent)| {
            Vcpu::new(id, Duration::from_ticks(*percent), Duration::from_ticks(100)).periodic()
        });
        let system = System::new(cores, vcpus.collect());
        let mut table = Table::new(&system, Family::Edf, Test::Edf, find_host);
        table.fill(&system, true);
        let host = |id| {
            let on = |core: &CoreId| table.on(*core).iter().any(|vcpu| vcpu.id == VcpuId(id));
            table.cores().find(on).map_or('-', |core| char::from(b'0' + core.0 as u8))
        };
        (0..percents.len() as u32).map(host).collect()
    }

    #[test]
    fn the_three_packings_differ() {
        // By weight: 60, 55, 30, 10, 5.
        let set = [55, 60, 30, 10, 5];
        assert_eq!(packed(3, &set, first_fit), "10001");
        assert_eq!(packed(3, &set, worst_fit), "10222");
        // The last finds core0 at 90 and core1 at 97: both take it.
        let set = [70, 65, 32, 20, 3];
        assert_eq!(packed(2, &set, first_fit), "01100");
        assert_eq!(packed(2, &set, best_fit), "01101");
        assert_eq!(packed(2, &[70, 70, 31], best_fit), "01-");
    }

    #[test]
    fn a_core_may_be_filled_to_the_last_part() {
        assert_eq!(packed(2, &[34, 33, 33, 50, 50], first_fit), "11100");
    }
}
