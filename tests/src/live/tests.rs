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
