use super::{By, Fixed};
use crate::parts::global::tests::set;
use alloc::vec::Vec;
use maracas_core::Duration;
use maracas_core::admission::Measure;

const ALL: [Fixed; 3] = [Fixed::Bcl, Fixed::Rta, Fixed::RtaLc];

fn verdicts(list: &[(u64, u64, u64)], cores: usize) -> [bool; 3] {
    ALL.map(|test| test.run(&set(list), cores, By::Deadline).accepted)
}

#[test]
fn tasks_with_a_core_each_are_accepted() {
    assert_eq!(verdicts(&[], 2), [true; 3]);
    assert_eq!(verdicts(&[(10, 10, 10), (11, 11, 12)], 2), [true; 3]);
    assert_eq!(verdicts(&[(2, 10, 10), (2, 10, 10), (100, 101, 101)], 2), [false; 3]);
}

#[test]
fn response_times_by_hand() {
    let list = [(2, 8, 8), (2, 8, 8), (4, 7, 9)];
    let responses = |test: Fixed| {
        let result = test.run(&set(&list), 2, By::Period);
        let Measure::Responses(list) = result.measure else { panic!("no response times") };
        let ticks = |response: Option<Duration>| response.map(Duration::ticks);
        list.into_iter().map(|(_, response, _)| ticks(response)).collect::<Vec<_>>()
    };
    // 4 + (2 + 2) / 2: in a window of 6 each does 2, whether its job began before or not.
    assert_eq!(responses(Fixed::RtaLc), [Some(2), Some(2), Some(6)]);
    assert_eq!(responses(Fixed::Rta), [Some(2), Some(2), Some(6)]);
}

/// By its period it goes last and has no time to wait, by its deadline first.
#[test]
fn the_order_is_that_of_the_policy() {
    let list = [(5, 10, 10), (5, 10, 10), (5, 5, 20)];
    for test in ALL {
        assert!(test.run(&set(&list), 2, By::Deadline).accepted, "{test:?}");
        assert!(!test.run(&set(&list), 2, By::Period).accepted, "{test:?}");
    }
}
