//! What is to come, said before its instant.

use maracas_core::params::{Kind, ParamSpec, Params};

/// Parameter of the policies that give grants ahead.
pub(crate) const AHEAD: ParamSpec = ParamSpec {
    name: "ahead",
    kind: Kind::Flag(false),
    help: "whether the budget that comes next is granted before its instant, so that the machine \
           begins it then, however late the next decision is. Of live runs those by the scheduler \
           in the kernel do so, and those by agents do not, whatever stands here",
};

/// Whether grants are given ahead.
pub(crate) fn chosen(params: &Params) -> bool {
    params.flag(&AHEAD)
}
