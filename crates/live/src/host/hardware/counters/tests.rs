use super::*;

#[test]
fn what_a_counter_missed_is_extrapolated() {
    let at = |value, wanted_ns, counted_ns| Count { value, wanted_ns, counted_ns };
    let whole = at(100, 10, 10);
    assert_eq!(whole.since(&Count::default()), 100);
    assert_eq!(at(200, 40, 20).since(&whole), 300, "a third of the time");
    assert!(at(200, 40, 20).took_turns(&whole) && !whole.took_turns(&Count::default()));
    assert_eq!(at(100, 40, 10).since(&whole), 0, "it did not count at all");
    assert_eq!(at(90, 40, 40).since(&whole), 0, "counts never go back");
    assert_eq!(at(u64::MAX, u64::MAX, 1).since(&Count::default()), u64::MAX);
}

#[test]
fn errors_name_the_event_and_keep_the_code() {
    let event = EventCode { unit: 0xffff, config: 0x7f41, config1: 1, config2: 0 };
    let Err(error) = open(&event, Scope::Core(HardwareCore(0))) else { panic!("no such unit") };
    let text = error.to_string();
    assert!(text.starts_with("counting event 0x7f41, config1 0x1, of unit 65535 of core 0: "));
    assert!(crate::host::os_code(&error).is_some(), "{text}");
}
