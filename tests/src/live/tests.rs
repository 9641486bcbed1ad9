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
    for name in ["p-edf", "p-rm", "round-robin", "maracas"] {
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
fn hierarchies_of_qps_decide_alone_as_all_would() {
    let (mut decisions, mut alone, mut wide) = (0, 0, 0);
    for seed in 0..150 {
        let played = LiveCase::draw(seed, maracas_policies::find("qps")).check_twice();
        let played = played.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        let played = played.unwrap_or_default();
        (decisions, alone) = (decisions + played.decisions, alone + played.alone);
        wide += played.wide;
    }
    eprintln!("{wide} of {alone} of {decisions}");
    assert!(alone > decisions / 2, "{alone} of {decisions} decisions");
    assert!(wide > alone / 20, "{wide} of {alone} change several cores");
}

#[test]
fn every_planted_mistake_is_found() {
    for fault in Fault::ALL {
        // Only a policy of which a part has several cores can make this one.
        let policy = (fault == Fault::UntoldCore).then(|| maracas_policies::find("qps")).flatten();
        let found = (0..2_000).find_map(|seed| {
            let case = LiveCase { fault: Some(fault), ..LiveCase::draw(seed, policy) };
            Some((seed, case.check().err()?))
        });
        eprintln!("{fault:?}: {found:?}");
        assert!(found.is_some(), "{fault:?} is not found");
    }
}
