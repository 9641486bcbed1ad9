use super::LiveCase;
use maracas_live_core::Fault;

#[test]
fn whatever_befalls_the_live_machine_it_keeps_its_rules() {
    let broken = (0..400).find_map(|seed| {
        let wrong = LiveCase::draw(seed, None).check_twice().err()?;
        Some(format!("seed {seed}: {wrong}"))
    });
    assert_eq!(broken, None);
}

#[test]
fn every_planted_mistake_is_found() {
    for fault in Fault::ALL {
        let found = (0..2_000).find_map(|seed| {
            let case = LiveCase { fault: Some(fault), ..LiveCase::draw(seed, None) };
            Some((seed, case.check().err()?))
        });
        eprintln!("{fault:?}: {found:?}");
        assert!(found.is_some(), "{fault:?} is not found");
    }
}

/// Under policies that split, most decisions are made by a core alone, each of which
/// [`super::around::Told`] holds against the policy of all cores.
#[test]
fn cores_of_partitioned_policies_decide_alone() {
    for name in ["p-edf", "p-rm"] {
        let entry = maracas_policies::find(name).expect("a policy of ours");
        let (mut decisions, mut alone) = (0, 0);
        for seed in 0..60 {
            let case = LiveCase::draw(seed, Some(entry));
            let played = case.check_twice().unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
            let Some(played) = played.filter(|_| case.base.cores.len() > 1) else { continue };
            (decisions, alone) = (decisions + played.decisions, alone + played.alone);
        }
        eprintln!("{name}: {alone} of {decisions} decisions");
        assert!(alone > decisions / 2, "{name}: {alone} of {decisions} decisions");
    }
}
