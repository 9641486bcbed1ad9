//! What moving a VCPU costs on this host, where the policy moves some and counts that in its
//! admission test (C_m of MARACAS, section V): measured where the user does not say.

use maracas_core::contract::Entry;
use maracas_core::params::{Params, Value};
use maracas_core::{Duration, Role, System};
use maracas_live::host::costs::rounded_up;
use maracas_live::host::platform::Platform;
use maracas_live::migration::{self, Spread};

/// The parameters in which policies take the parts of a move's cost.
const LOCK: &str = "lock_cost";
const STRUCT: &str = "struct_cost";
const PAGE: &str = "page_cost";

/// What admission counts on is so many times the 95th percentile of the tries: they are few, and
/// moves of busy groups took up to 1.5 times as long as it (measured on a virtual machine).
const MARGIN: u64 = 2;

/// A part of a move's cost as it was measured.
struct Part {
    /// The parameter that takes it.
    param: &'static str,
    measured: Spread,
}

/// Sets what the user left open of the cost of moves to what is measured on the cores of `system`,
/// where the policy moves VCPUs between them. What was measured, and where the user counts on
/// less, a sentence each.
pub(super) fn measure(entry: &Entry, params: &mut Params, system: &System) -> Vec<String> {
    let service_vcpus = (entry.service_vcpus)(system, params, system.next_vcpu());
    let moves = service_vcpus.iter().any(|service_vcpu| service_vcpu.role == Role::Migration);
    let takes = [LOCK, STRUCT].iter().all(|name| entry.params.iter().any(|p| p.name == *name));
    if !moves || !takes || system.cores.len() < 2 {
        return Vec::new();
    }
    let mut notes = Vec::from_iter(no_copies(entry, params, system));
    let measured = Platform::detect().and_then(|host| {
        let count = host.cores.len().min(system.cores.len());
        migration::measure(&host.cores[..count])
    });
    match measured {
        Ok(costs) => {
            let lock = Part { param: LOCK, measured: costs.lock };
            let put = Part { param: STRUCT, measured: costs.put };
            notes.splice(0..0, settle(entry, params, &[lock, put]));
        }
        Err(error) => {
            let taken = [LOCK, STRUCT].map(|name| format!("{name} {}", time(entry, params, name)));
            let taken = taken.join(", ");
            let note = format!("what a move costs was not measured here ({error}); taken: {taken}");
            notes.insert(0, note);
        }
    }
    notes
}

/// On a real machine migration VCPUs copy no pages: a program that moves to other colours
/// recolours itself, on its own budget, and ways go with the core.
fn no_copies(entry: &Entry, params: &mut Params, system: &System) -> Option<String> {
    let partitioned = system.cores.iter().any(|core| core.colors.is_some());
    let takes = entry.params.iter().any(|param| param.name == PAGE);
    let given = params.iter().any(|(name, _)| name == PAGE);
    (partitioned && takes && !given).then(|| {
        params.set(PAGE, Value::Text("0ns".into()));
        format!("{PAGE} 0: here programs recolour their pages themselves, on their own budgets")
    })
}

/// Takes what was measured where the user gave nothing.
fn settle(entry: &Entry, params: &mut Params, parts: &[Part]) -> Vec<String> {
    let (mut taken, mut notes) = (Vec::new(), Vec::new());
    for Part { param, measured } in parts {
        let worst = rounded_up(measured.p95 * MARGIN);
        let without = match measured.left_out {
            0 => String::new(),
            count => format!(" without {count} beyond four medians"),
        };
        let of = format!("of {} tries{without}, median {}", measured.tries, measured.p50);
        if params.iter().all(|(name, _)| name != *param) {
            params.set(param, Value::Text(worst.to_string()));
            taken.push(format!("{param} {worst} (twice the p95 {of})"));
        } else if time(entry, params, param) < measured.p95 {
            let (given, seen) = (time(entry, params, param), rounded_up(measured.p95));
            notes.push(format!(
                "{param} is {given}, but {seen} (p95 {of}) was measured here: moves may take \
                 longer than admission counts; raise it, or leave it out"
            ));
        }
    }
    if !taken.is_empty() {
        notes.insert(0, format!("measured here: {}", taken.join(", ")));
    }
    notes
}

/// A parameter's value, or its default.
fn time(entry: &Entry, params: &Params, name: &str) -> Duration {
    let spec = entry.params.iter().find(|param| param.name == name);
    spec.and_then(|spec| params.time(spec)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::Vcpu;
    use maracas_core::memory::CachePart;

    fn ns(nanos: u64) -> Duration {
        Duration::from_nanos(nanos)
    }
    fn spread(p95: u64) -> Spread {
        Spread { tries: 20, p50: ns(p95 / 4), p95: ns(p95), left_out: 0, max: ns(p95 * 9) }
    }
    fn parts(lock: u64, put: u64) -> [Part; 2] {
        let part = |param, p95| Part { param, measured: spread(p95) };
        [part(LOCK, lock), part(STRUCT, put)]
    }
    fn maracas(given: &[(&str, &str)]) -> (&'static Entry, Params) {
        let mut params = Params::new();
        given.iter().for_each(|(name, value)| params.set(name, Value::Text((*value).into())));
        (maracas_policies::find("maracas").unwrap(), params)
    }

    #[test]
    fn what_was_left_open_is_measured() {
        let (entry, mut params) = maracas(&[]);
        let notes = settle(entry, &mut params, &parts(3_101, 136_200));
        assert_eq!(
            notes,
            ["measured here: lock_cost 6.3us (twice the p95 of 20 tries, median 775ns), \
                 struct_cost 280us (twice the p95 of 20 tries, median 34.05us)"]
        );
        assert_eq!(params.check(entry.params), Ok(()));
        let costs = [LOCK, STRUCT].map(|name| time(entry, &params, name));
        assert_eq!(costs, [ns(6_300), ns(280_000)]);
    }

    #[test]
    fn what_was_left_out_is_said() {
        let (entry, mut params) = maracas(&[]);
        let mut parts = parts(3_101, 136_200);
        parts[1].measured.left_out = 2;
        let notes = settle(entry, &mut params, &parts);
        let words = "struct_cost 280us (twice the p95 of 20 tries without 2 beyond four medians, \
                     median 34.05us)";
        assert!(notes[0].ends_with(words), "{notes:?}");
    }

    #[test]
    fn what_was_given_stands_and_is_warned_of_where_it_is_less() {
        let (entry, mut params) = maracas(&[(LOCK, "1us"), (STRUCT, "1ms")]);
        let before = params.clone();
        let notes = settle(entry, &mut params, &parts(3_101, 136_200));
        assert_eq!(
            notes,
            ["lock_cost is 1us, but 3.2us (p95 of 20 tries, median 775ns) was measured here: \
              moves may take longer than admission counts; raise it, or leave it out"]
        );
        assert_eq!(params, before);
    }

    #[test]
    fn nothing_is_measured_where_nothing_moves() {
        let vcpus = || vec![Vcpu::new(0, ns(1_000_000), ns(10_000_000))];
        let (entry, mut params) = maracas(&[]);
        assert!(measure(entry, &mut params, &System::new(2, vcpus())).is_empty());
        let (entry, mut params) = maracas(&[("balance", "vlb")]);
        assert!(measure(entry, &mut params, &System::new(1, vcpus())).is_empty());
        assert!(params.iter().all(|(name, _)| name == "balance"));
    }

    #[test]
    fn migration_vcpus_copy_no_pages() {
        let (entry, mut params) = maracas(&[("balance", "vlb")]);
        let mut system = System::new(2, Vec::new());
        assert_eq!(no_copies(entry, &mut params, &system), None);
        system.cores[1].colors = CachePart::new(0b11);
        let note = no_copies(entry, &mut params, &system).unwrap();
        assert!(note.starts_with("page_cost 0: "), "{note}");
        assert_eq!((time(entry, &params, PAGE), params.check(entry.params)), (ns(0), Ok(())));
        let (entry, mut params) = maracas(&[(PAGE, "1us")]);
        assert_eq!(no_copies(entry, &mut params, &system), None);
        assert_eq!(time(entry, &params, PAGE), ns(1000));
    }
}
