//! The wrapped entries, made from the inner ones when the crate is compiled.

use super::settings::PARAMS;
use crate::parts::ahead::AHEAD;
use maracas_core::params::ParamSpec;

/// Length of `parts` together.
pub(crate) const fn length(parts: &[&str]) -> usize {
    let (mut sum, mut part) = (0, 0);
    while part < parts.len() {
        sum += parts[part].len();
        part += 1;
    }
    sum
}

/// The bytes of `parts` in a row.
pub(crate) const fn bytes<const N: usize>(parts: &[&str]) -> [u8; N] {
    let mut bytes = [0; N];
    let (mut at, mut part) = (0, 0);
    while part < parts.len() {
        let mut byte = 0;
        while byte < parts[part].len() {
            bytes[at] = parts[part].as_bytes()[byte];
            (at, byte) = (at + 1, byte + 1);
        }
        part += 1;
    }
    bytes
}

/// How many parameters of an inner policy come before [`AHEAD`], which is its last where it has it:
/// what begins between decisions is not seen, and MemGuard must see which cores are active.
const fn inner_count(inner: &[ParamSpec]) -> usize {
    let all = inner.len();
    if all > 0 && same(inner[all - 1].name, AHEAD.name) { all - 1 } else { all }
}

/// How many parameters a wrapped policy takes.
pub(crate) const fn count(inner: &[ParamSpec]) -> usize {
    PARAMS.len() + inner_count(inner)
}

/// MemGuard's parameters, then the inner policy's. Two of one name do not compile.
pub(crate) const fn params<const N: usize>(inner: &[ParamSpec]) -> [ParamSpec; N] {
    let mut joined = [PARAMS[0]; N];
    let mut place = 0;
    while place < N {
        joined[place] =
            if place < PARAMS.len() { PARAMS[place] } else { inner[place - PARAMS.len()] };
        assert!(!same(joined[place].name, AHEAD.name), "`ahead` is a policy's last parameter");
        let mut other = 0;
        while other < place {
            let taken = same(joined[other].name, joined[place].name);
            assert!(
                !taken,
                "MemGuard and a policy have parameters of one name; rename the policy's"
            );
            other += 1;
        }
        place += 1;
    }
    joined
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Texts joined to one constant.
macro_rules! joined {
    ($($part:expr),+) => {{
        const PARTS: &[&str] = &[$($part),+];
        const BYTES: [u8; $crate::memguard::register::length(PARTS)] =
            $crate::memguard::register::bytes(PARTS);
        match core::str::from_utf8(&BYTES) {
            Ok(text) => text,
            Err(_) => panic!("whole texts in a row are a text"),
        }
    }};
}
pub(crate) use joined;

/// The entry of MemGuard around the policy of the entry `$inner`.
macro_rules! around {
    ($inner:expr) => {{
        const INNER: Entry = $inner;
        const PARAMS: [ParamSpec; $crate::memguard::register::count(INNER.params)] =
            $crate::memguard::register::params(INNER.params);
        Entry {
            name: $crate::memguard::register::joined!("memguard+", INNER.name),
            paper: $crate::memguard::register::joined!(
                $crate::memguard::PAPER,
                "; around: ",
                INNER.paper
            ),
            summary: $crate::memguard::register::joined!(
                "memory bandwidth reserved core by core, around: ",
                INNER.summary
            ),
            params: &PARAMS,
            needs: Needs { counters: true, ..INNER.needs },
            // A throttled core idles, and what runs there falls behind.
            claims: Claims { work_conserving: false, no_miss_when_admitted: false, ..INNER.claims },
            service_vcpus: INNER.service_vcpus,
            admit: |system, params| $crate::memguard::admit(&INNER, system, params),
            fits: None,
            build: |system, params| $crate::memguard::build(&INNER, system, params),
        }
    }};
}
pub(crate) use around;
