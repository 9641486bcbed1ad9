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
fn cores_of_partitioned_policies_decide_alone_as_all_would() {
    for name in ["p-edf", "p-rm"] {
        let entry = maracas_policies::find(name);
        let (mut decisions, mut alone) = (0, 0);
        for seed in 0..60 {
            let played = LiveCase::draw(seed, entry).check_twice();
            let played = played.unwrap_or_else(|wrong| panic!("{name}, seed {seed}: {wrong}"));
            let played = played.unwrap_or_default();
            (decisions, alone) = (decisions + played.decisions, alone + played.alone);
        }
        assert!(alone > decisions / 2, "{name}: {alone} of {decisions} decisions");
    }
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
