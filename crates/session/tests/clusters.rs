//! A policy of clusters is told how many cores share a cache, and what global EDF may be late is
//! shown.

use maracas_core::CoreId;
use maracas_core::params::Value;
use maracas_scenario::Scenario;
use maracas_session::case::{Case, Machine, Overrides};
use maracas_session::verdict;

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

#[test]
fn how_late_jobs_may_be_is_said_where_no_test_excludes_it() {
    let shown = |count| {
        let case = case("g-edf", count, &[]);
        verdict::text(&case, &case.verdict)
    };
    // Four cores take 4 - 3 x 0.6 by the densities: three tasks of 0.6.
    let (proven, open) = (shown(3), shown(6));
    assert!(!proven.contains("tardiness"), "{proven}");
    // s = 18 ms + 3 x 0.6 (s - 6) / 4, so 27.818 ms; and a fourth of what is above 6, with C.
    assert!(open.contains("tardiness  at most p0 11.454"), "{open}");
}
