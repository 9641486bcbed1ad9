//! The kind of a core as Intel's hybrids give it: by an instruction that must run on that core.

use crate::host::HardwareCore;

/// The number of the core's kind (0x20 Atom, 0x40 Core), where this is a hybrid that says so.
#[cfg(target_arch = "x86_64")]
pub(super) fn kind(core: HardwareCore) -> Option<u8> {
    use crate::host::sched;
    // A thread of its own, so that ours stays where it is.
    let asking = std::thread::spawn(move || {
        sched::set_affinity(0, core).ok()?;
        reported_here()
    });
    asking.join().ok().flatten()
}

/// What the core below us says. Intel's Software Developer's Manual, vol. 2A, CPUID: leaf 7, EDX
/// bit 15 = hybrid; leaf 1AH, EAX bits 31 to 24 = kind.
#[cfg(target_arch = "x86_64")]
fn reported_here() -> Option<u8> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const KIND: u32 = 0x1A;
    let first = __cpuid(0);
    let vendor = [first.ebx, first.edx, first.ecx].map(u32::to_le_bytes).concat();
    // Beyond its last leaf a processor answers with that of another.
    if vendor != b"GenuineIntel" || first.eax < KIND || __cpuid_count(7, 0).edx & 1 << 15 == 0 {
        return None;
    }
    Some((__cpuid_count(KIND, 0).eax >> 24) as u8).filter(|kind| *kind != 0)
}

/// Other processors have no such instruction.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn kind(_: HardwareCore) -> Option<u8> {
    None
}
