//! A policy of clusters is told how many cores share a cache.

use maracas_core::CoreId;
use maracas_core::params::Value;
use maracas_scenario::Scenario;
use maracas_session::case::{Case, Machine, Overrides};

/// So many programs with jobs of 6 ms every 10 ms, on a platform where two cores share a cache.
fn case(policy: &str, count: usize, set: &[(&str, i64)]) -> Case {
    let mut text = format!(
        "version = 1\n[platform]\npreset = \"core2-ddr2-800\"\n[policy]\nname = \"{policy}\"\n"
    );
    for id in 0..count {
        text += &format!(
            "[[program]]\nname = \"p{id}\"\nbudget = \"6ms\"\nperiod = \"10ms\"\n\
             workload = {{ kind = \"periodic\", cost = \"6ms\" }}\n"
        );
    }
    let scenario = Scenario::parse(&text, "it.toml").unwrap_or_else(|why| panic!("{why}"));
    let set = set.iter().map(|(name, value)| (name.to_string(), Value::Whole(*value)));
    let overrides = Overrides { set: set.collect(), ..Overrides::default() };
    let case = Case::of(scenario, Machine::Sim, &overrides);
    case.unwrap_or_else(|why| panic!("{why:?}"))
}

#[test]
fn clusters_are_those_of_the_platform_unless_the_user_says_otherwise() {
    let first_cores = |set: &[(&str, i64)]| -> Vec<Option<u16>> {
        let case = case("c-edf", 3, set);
        case.verdict.cores.iter().map(|it| it.core.map(|CoreId(id)| id)).collect()
    };
    assert_eq!(first_cores(&[]), [Some(0), Some(2)]);
    assert_eq!(first_cores(&[("cores_per_cache", 3)]), [Some(0), Some(3)]);
    assert_eq!(first_cores(&[("cores_per_cache", 0)]), [None]);
}
