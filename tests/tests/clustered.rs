//! Clustered EDF: it is partitioned EDF where each core is a cluster and global EDF where all are
//! one, and what it admits misses nothing under the simulator, released periodically, with offsets
//! or sporadically, in clusters of any size and by any of its tests.

use maracas_core::params::{Params, Value};
use maracas_tests::rated::{Set, missed, schedule, sets, with};

/// A thousand sets on two to eight cores; what their first lines say of tests is not asked here.
const SETS: &str = include_str!("../data/global-edf.csv");

fn clusters(each: usize, admission: &str) -> Params {
    let mut params = with(&[("admission", admission)]);
    params.set("cores_per_cache", Value::Whole(each as i64));
    params
}

/// That `c-edf` in clusters of `each` cores admits and does what `name` does; on how many sets.
fn same_as(name: &str, params: &Params, each: impl Fn(&Set) -> usize) -> (u32, u32) {
    let (mut ran, mut refused) = (0, 0);
    for (seed, set) in (0..).zip(sets(SETS)).step_by(2) {
        let params_of_clusters = clusters(each(&set), "gfb");
        let system = &set.patterns(seed)[seed as usize / 2 % 3];
        let expected = schedule(name, params, system, seed);
        let found = schedule("c-edf", &params_of_clusters, system, seed);
        assert!(found == expected, "{name}, set {seed}: {:?}", set.tasks);
        *if expected.is_some() { &mut ran } else { &mut refused } += 1;
    }
    (ran, refused)
}

#[test]
fn clusters_of_one_core_are_partitioned_edf() {
    let (ran, refused) = same_as("p-edf", &with(&[]), |_| 1);
    assert!(ran > 100 && refused > 20, "{ran} ran, {refused} refused");
}

#[test]
fn one_cluster_is_global_edf() {
    let gfb = with(&[("admission", "gfb")]);
    let (ran, refused) = same_as("g-edf", &gfb, |set| set.cores);
    assert!(ran > 100 && refused > 20, "{ran} ran, {refused} refused");
}

#[test]
fn what_is_admitted_misses_nothing() {
    let tests = ["gfb", "bak", "bcl", "ff-dbf", "rta"];
    let (mut accepted, mut jobs) = ([0; 5], 0);
    for (seed, set) in (0..).zip(sets(SETS)) {
        let place = seed as usize % tests.len();
        let each = 1 + seed as usize / tests.len() % set.cores;
        let params = clusters(each, tests[place]);
        for system in &set.patterns(seed) {
            let Some((missed, released)) = missed("c-edf", &params, system, seed) else { continue };
            assert_eq!(missed, 0, "set {seed}, {}, clusters of {each}", tests[place]);
            accepted[place] += 1;
            jobs += released;
        }
    }
    assert!(accepted.iter().all(|count| *count > 50), "{accepted:?}");
    assert!(jobs > 100_000, "{jobs} jobs");
}
