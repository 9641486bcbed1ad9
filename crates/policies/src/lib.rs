//! The policies: who runs where, and for how long.
//!
//! `ls` is the menu: one file a policy, named by the word that users write (`g_edf.rs` is
//! `g-edf`), registered by one word in this file; what several of them share stands in `parts`.
//! Here stands no clock, no I/O, no randomness, no float and no unsafe code, and no policy looks
//! into another's file. This crate may import `maracas-core` only.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

extern crate alloc;

mod parts;

use maracas_core::contract::Entry;

macro_rules! policies {
    ($($module:ident)*) => {
        $(mod $module;)*
        /// Every policy, in the order of its name.
        pub static ENTRIES: &[Entry] = &[$($module::ENTRY),*];
    };
}

policies! {
    // new-policy: one word a line, alphabetical.
    g_edf
    maracas
    p_edf
    p_rm
    round_robin
}

/// The policy that users call `name`.
pub fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
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
        for entry in ENTRIES {
            assert_eq!(find(entry.name).map(|found| found.name), Some(entry.name));
        }
        assert!(find("no-such-policy").is_none());
    }
}
