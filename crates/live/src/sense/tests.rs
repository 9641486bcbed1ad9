use super::*;

#[test]
fn a_sensor_is_chosen_by_its_word() {
    let choice = |text: &str| text.parse::<Choice>();
    assert_eq!(choice("auto"), Ok(Choice::Auto));
    assert_eq!(choice("off"), Ok(Choice::Off));
    assert_eq!(choice("replay:a:b.csv"), Ok(Choice::Replay("a:b.csv".into())));
    let sensors = [
        SensorKind::Uncore,
        SensorKind::Offcore,
        SensorKind::Amd,
        SensorKind::Arm,
        SensorKind::Mbm,
        SensorKind::Chase,
    ];
    for sensor_kind in sensors.into_iter().chain([SensorKind::Rate]) {
        assert_eq!(choice(sensor_kind.word()), Ok(Choice::SensorKind(sensor_kind)));
    }
    let reported = choice("imc").expect_err("no such word");
    let words = "uncore, offcore, amd, arm, mbm, chase, rate or replay:FILE";
    assert_eq!(reported, format!("no sensor \"imc\"; take auto, off, {words}"));
    assert!(choice("replay:").is_err() && choice("replay").is_err());
}

#[test]
fn sensors_stand_in_order_and_two_know_no_latency() {
    assert!(
        SensorKind::Uncore < SensorKind::Offcore
            && SensorKind::Mbm < SensorKind::Chase
            && SensorKind::Chase < SensorKind::Rate
    );
    let blind = [SensorKind::Mbm, SensorKind::Rate];
    for sensor_kind in [
        SensorKind::Uncore,
        SensorKind::Amd,
        SensorKind::Mbm,
        SensorKind::Chase,
        SensorKind::Rate,
        SensorKind::Replay,
    ] {
        assert_eq!(sensor_kind.has_latency(), !blind.contains(&sensor_kind), "{sensor_kind}");
    }
}
