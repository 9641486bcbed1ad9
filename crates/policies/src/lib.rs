//! The policies: which VCPU runs where, and for how long.
//!
//! `ls` is the menu: one file a policy, named by the word that users write (`g_edf.rs` is `g-edf`),
//! registered by one word in this file; what several of them share stands in `parts`. Here is no
//! clock, no I/O, no randomness, no float and no unsafe code, and no policy looks into another's
//! file. MemGuard is a policy around a policy: every other one is registered a second time as
//! `memguard+NAME`. This crate may import `maracas-core` only.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

extern crate alloc;

pub mod interference;
mod memguard;
mod parts;
pub mod tree;
mod uneven;

use maracas_core::contract::{Claims, Entry, Needs};
use maracas_core::params::ParamSpec;

/// A policy with a folder of its own stands there, and is declared, by one word; several that share
/// a folder are written `folder::policy`, and the folder is declared above.
macro_rules! policies {
    ($($module:ident $(:: $inner:ident)?)*) => {
        $(declare!($module $($inner)?);)*
        /// Every policy by itself, in the order of its name.
        pub static ENTRIES: &[Entry] = &[$($module $(:: $inner)? ::ENTRY),*];
        /// Every policy with MemGuard around it, in the same order.
        pub static WRAPPED: &[Entry] =
            &[$(memguard::register::around!($module $(:: $inner)? ::ENTRY)),*];
    };
}
macro_rules! declare {
    ($module:ident) => {
        mod $module;
    };
    ($folder:ident $inner:ident) => {};
}

policies! {
    // new-policy: one word a line, alphabetical.
    uneven::acfs
    c_d
    c_edf
    dp_wrap
    edf_fm
    edf_wm
    g_edf
    g_rm
    maracas
    uneven::max_fair
    uneven::max_perf
    uneven::min_fair
    p_edf
    p_rm
    pd2
    qps
    round_robin
    run
    uneven::similar_min_fair
    sp_res
    u_edf
}

pub use qps::qps_tree;
pub use run::run_tree;

use qps::covers as qps_covers;
use qps::interference as qps_interference;
use qps::interference_of_parts as qps_interference_of_parts;
use run::interference as run_interference;
use run::interference_of_parts as run_interference_of_parts;

/// Every policy that users may name: by itself, then with MemGuard around it.
pub fn all() -> impl Iterator<Item = &'static Entry> + Clone {
    ENTRIES.iter().chain(WRAPPED)
}

/// The policy that users call `name`.
pub fn find(name: &str) -> Option<&'static Entry> {
    all().find(|entry| entry.name == name)
}

/// What a user may have meant by a name that [`find`] does not know, where that is no misspelling.
pub fn hint(name: &str) -> Option<&'static str> {
    (name.trim_end_matches('+') == "memguard").then_some(
        "memguard goes around another policy: write memguard+NAME, such as memguard+maracas",
    )
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found() {
        assert!(ENTRIES.windows(2).all(|pair| pair[0].name < pair[1].name));
        for entry in all() {
            assert_eq!(find(entry.name).map(|found| found.name), Some(entry.name));
        }
        assert_eq!(WRAPPED.len(), ENTRIES.len());
        for unknown in ["no-such-policy", "memguard", "memguard+no-such-policy"] {
            assert!(find(unknown).is_none());
        }
        assert!(hint("memguard").is_some_and(|hint| hint.contains("memguard+maracas")));
        assert!(hint("memgard").is_none());
    }
}
