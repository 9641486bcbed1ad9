//! Bin packing: which core takes the next VCPU. VCPUs are taken heaviest first.

use super::table::{FindHost, Table};
use alloc::vec::Vec;
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

/// Which bin takes the next item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fit {
    /// The first that it fits into.
    First,
    /// The fullest.
    Best,
    /// The emptiest.
    Worst,
}

/// The fit that the user chose by `spec`, whose words are those of [`PACKING`].
pub(crate) fn fit(params: &Params, spec: &ParamSpec) -> Fit {
    match params.choice(spec) {
        "bfd" => Fit::Best,
        "wfd" => Fit::Worst,
        _ => Fit::First,
    }
}

/// Packs items of these `sizes`, each at most `capacity`, by decreasing size, equal ones in order;
/// the items of each bin, bins in the order in which they were opened. First and best fit open a
/// bin when none takes an item. Worst fit begins with `least` bins and starts anew with one more
/// when an item fits nowhere.
pub(crate) fn bins(sizes: &[u128], capacity: u128, fit: Fit, least: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|item| Reverse(sizes[*item]));
    let mut count = if fit == Fit::Worst { least } else { 0 };
    loop {
        if let Some(mut bins) = packed(sizes, &order, capacity, fit, count) {
            bins.retain(|bin| !bin.is_empty());
            return bins;
        }
        count += 1;
    }
}

/// `None` where worst fit needs more than `count` bins.
fn packed(
    sizes: &[u128],
    order: &[usize],
    capacity: u128,
    fit: Fit,
    count: usize,
) -> Option<Vec<Vec<usize>>> {
    let mut bins: Vec<Vec<usize>> = alloc::vec![Vec::new(); count];
    let mut loads = alloc::vec![0; count];
    for &item in order {
        let size = sizes[item];
        assert!(size <= capacity, "an item of {size} does not fit a bin of {capacity}");
        let mut fitting = (0..bins.len()).filter(|bin| loads[*bin] + size <= capacity);
        let found = match fit {
            Fit::First => fitting.next(),
            Fit::Best => fitting.min_by_key(|bin| Reverse(loads[*bin])),
            Fit::Worst => fitting.min_by_key(|bin| loads[*bin]),
        };
        let bin = match found {
            Some(bin) => bin,
            None if fit == Fit::Worst => return None,
            None => {
                bins.push(Vec::new());
                loads.push(0);
                bins.len() - 1
            }
        };
        bins[bin].push(item);
        loads[bin] += size;
    }
    Some(bins)
}

fn fitting(table: &Table, vcpu: &Vcpu) -> impl Iterator<Item = CoreId> {
    table.cores().filter(move |core| table.fits(*core, vcpu))
}

fn first_fit(table: &Table, vcpu: &Vcpu) -> Option<CoreId> {
    fitting(table, vcpu).next()
}

fn best_fit(table: &Table, vcpu: &Vcpu) -> Option<CoreId> {
    fitting(table, vcpu).reduce(|best, core| if table.is_lighter(best, core) { core } else { best })
}

fn worst_fit(table: &Table, vcpu: &Vcpu) -> Option<CoreId> {
    fitting(table, vcpu).reduce(|best, core| if table.is_lighter(core, best) { core } else { best })
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
    fn bins_open_as_the_fit_says() {
        let text = |fit, least| {
            let bins = bins(&[30, 70, 65, 32, 3], 100, fit, least);
            let letter = |item: &usize| char::from(b'a' + *item as u8);
            let words = bins.iter().map(|bin| bin.iter().map(letter).collect());
            let words: Vec<String> = words.collect();
            words.join(" ")
        };
        // By size: b 70, c 65, d 32, a 30, e 3. After d the bins hold 70 and 97.
        assert_eq!(text(Fit::First, 9), "ba cde");
        assert_eq!(text(Fit::Best, 9), "ba cde");
        assert_eq!(text(Fit::Worst, 1), "ba cde");
        assert_eq!(text(Fit::Worst, 3), "b c dae");
        // Three of two thirds do not fit two bins; empty bins are left away.
        for fit in [Fit::First, Fit::Best, Fit::Worst] {
            assert_eq!(super::bins(&[2, 2, 2], 3, fit, 2).len(), 3);
        }
        assert_eq!(super::bins(&[2], 3, Fit::Worst, 4), [[0]]);
    }

    #[test]
    fn a_core_may_be_filled_to_the_last_part() {
        assert_eq!(packed(2, &[34, 33, 33, 50, 50], first_fit), "11100");
    }
}
