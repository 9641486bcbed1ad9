use super::*;

#[test]
fn a_sensor_is_chosen_by_its_word() {
    let choice = |text: &str| text.parse::<Choice>();
    assert_eq!(choice("auto"), Ok(Choice::Auto));
    assert_eq!(choice("off"), Ok(Choice::Off));
    assert_eq!(choice("replay:a:b.csv"), Ok(Choice::Replay("a:b.csv".into())));
    let rungs = [Rung::Uncore, Rung::Offcore, Rung::Amd, Rung::Arm, Rung::Mbm, Rung::Chase];
    for rung in rungs.into_iter().chain([Rung::Rate]) {
        assert_eq!(choice(rung.word()), Ok(Choice::Rung(rung)));
    }
    let told = choice("imc").expect_err("no such word");
    let words = "uncore, offcore, amd, arm, mbm, chase, rate or replay:FILE";
    assert_eq!(told, format!("no sensor \"imc\"; take auto, off, {words}"));
    assert!(choice("replay:").is_err() && choice("replay").is_err());
}

#[test]
fn rungs_stand_in_order_and_two_know_no_latency() {
    assert!(Rung::Uncore < Rung::Offcore && Rung::Mbm < Rung::Chase && Rung::Chase < Rung::Rate);
    let blind = [Rung::Mbm, Rung::Rate];
    for rung in [Rung::Uncore, Rung::Amd, Rung::Mbm, Rung::Chase, Rung::Rate, Rung::Replay] {
        assert_eq!(rung.has_latency(), !blind.contains(&rung), "{rung}");
    }
}
