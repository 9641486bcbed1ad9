//! The file that `cargo xtask new-policy` writes compiles and plans as it stands.

extern crate alloc;

#[path = "../../xtask/src/template.rs.txt"]
#[allow(dead_code, clippy::redundant_pub_crate)]
mod template;

use maracas_core::contract::{Plan, decide};
use maracas_core::params::Params;
use maracas_core::{CoreId, Duration, Instant, System, Vcpu, VcpuId};

#[test]
fn the_template_is_a_policy() {
    let vcpu = |id| Vcpu::new(id, Duration::from_millis(1), Duration::from_millis(10));
    let system = System::new(2, vec![vcpu(0), vcpu(1), vcpu(2)]);
    assert!((template::ENTRY.admit)(&system, &Params::new()).accepted());
    let mut policy = (template::ENTRY.build)(&system, &Params::new()).expect("it admits all");
    let mut plan = Plan::new(2);
    decide(&mut *policy, Instant::ZERO, &mut plan);
    let on = |core| -> Vec<_> {
        plan.run_queue(CoreId(core)).background.iter().map(|grant| grant.vcpu).collect()
    };
    assert_eq!((on(0), on(1)), (vec![VcpuId(0), VcpuId(2)], vec![VcpuId(1)]));
    assert_eq!(plan.audit(), Ok(()));
}
