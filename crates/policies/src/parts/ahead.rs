//! What is to come, said before its instant.

use maracas_core::Instant;
use maracas_core::params::{Kind, ParamSpec, Params};

/// Parameter of the policies that give grants ahead.
pub(crate) const AHEAD: ParamSpec = ParamSpec {
    name: "ahead",
    kind: Kind::Flag(false),
    help: "whether the budget that comes next is granted before its instant, so that the machine \
           begins it then, however late the next decision is. Of live runs those by the scheduler \
           in the kernel do so unless false stands here, and those by agents do not, whatever \
           stands here",
};

/// Whether grants are given ahead.
pub(crate) fn chosen(params: &Params) -> bool {
    params.flag(&AHEAD)
}

/// The most entries of a core's run queue by mode; the scheduler in the kernel has room for as many
/// (`bpf/law.h`).
const FOREGROUND: usize = 64;
pub(crate) const BACKGROUND: usize = 256;
/// The most grants ahead of a VCPU, and turns of surplus time of a core: of budgets of 10 ms and
/// turns of 2 ms these last for more than 100 ms, so that decisions cost little beside what they
/// decide. The law looks through all that are used up.
pub(crate) const DEPTH: usize = 16;
pub(crate) const TURNS: usize = 64;
/// From when an entry counts that is one of several of its VCPU and need not wait.
pub(crate) const AT_ONCE: Instant = Instant::from_ticks(1);

/// How many grants ahead each of so many VCPUs may have on one core.
pub(crate) const fn depth(vcpus: usize) -> usize {
    let room = match vcpus {
        0 => DEPTH,
        _ => FOREGROUND.saturating_sub(vcpus) / vcpus,
    };
    if room < DEPTH { room } else { DEPTH }
}

#[cfg(test)]
mod tests {
    use super::{BACKGROUND, FOREGROUND};

    /// The law in C, which the scheduler in the kernel is made of.
    const LAW: &str = include_str!("../../../../bpf/law.h");

    #[test]
    fn a_run_queue_has_as_much_room_here_as_in_the_kernel() {
        for (name, here) in [("LAW_FOREGROUND_MAX", FOREGROUND), ("LAW_BACKGROUND_MAX", BACKGROUND)]
        {
            let number = |line: &str| {
                line.strip_prefix("#define ")?.strip_prefix(name)?.trim().parse::<usize>().ok()
            };
            assert_eq!(LAW.lines().find_map(number), Some(here), "{name}");
        }
    }
}
