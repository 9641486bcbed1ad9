use super::super::rates::tests::gauges;
use super::*;
use maracas_core::Reservation;

fn press(app: &mut App, key: Key) -> Next {
    app.key(key)
}

fn names(app: &App) -> Vec<&str> {
    app.order().iter().map(|place| app.gauges.vcpus[*place].name.as_str()).collect()
}

#[test]
fn keys_do_what_the_help_says() {
    let mut app = App::new("run 1".into(), true);
    app.update(gauges(1_000));
    assert_eq!(press(&mut app, Key::Char('?')), Next::Go);
    assert!(app.help);
    assert_eq!(press(&mut app, Key::Char('s')), Next::Go);
    assert_eq!((app.help, app.sort), (false, Sort::Core), "the first key only closes the help");
    assert_eq!(press(&mut app, Key::Char('p')), Next::Pause(true));
    assert_eq!(press(&mut app, Key::Char(' ')), Next::Pause(false));
    (0..5).for_each(|_| _ = press(&mut app, Key::Down));
    (0..5).for_each(|_| _ = press(&mut app, Key::Right));
    assert_eq!((app.vcpus_above, app.cores_above), (1, 1), "never past the last");
    press(&mut app, Key::Home);
    assert_eq!((app.vcpus_above, app.cores_above), (0, 0));
    press(&mut app, Key::PageUp);
    assert_eq!(app.vcpus_above, 0);
    assert_eq!(press(&mut app, Key::Char('q')), Next::Quit);
    assert_eq!(press(&mut app, Key::Escape), Next::Quit);
    assert_eq!(press(&mut app, Key::Interrupt), Next::Quit);
    assert_eq!(press(&mut app, Key::Char('x')), Next::Go);
    assert_eq!(app.sort, Sort::Core);
}

#[test]
fn vcpus_are_sorted_as_asked() {
    let mut app = App::new("run 1".into(), true);
    let mut now = gauges(1_000);
    let mut third = now.vcpus[0].clone();
    third.name = "alarm".into();
    third.vcpu = VcpuId(9);
    let period = maracas_core::Duration::from_millis(1);
    third.reservation = Reservation::implicit(period, period);
    third.foreground = maracas_core::Duration::ZERO;
    third.short_periods = 1;
    now.vcpus.push(third);
    app.update(now);
    for expected in [
        ["alarm", "control", "logger"],
        ["logger", "control", "alarm"],
        ["alarm", "control", "logger"],
        ["alarm", "control", "logger"],
        ["alarm", "control", "logger"],
    ] {
        assert_eq!(names(&app), expected, "{:?}", app.sort);
        press(&mut app, Key::Char('s'));
    }
    assert_eq!(app.sort, Sort::Load, "after the last the first comes again");
}

#[test]
fn looks_are_remembered() {
    let mut app = App::new("run 1".into(), true);
    (1..=600).for_each(|tenth| app.update(gauges(tenth * 100)));
    assert_eq!(app.history.throttled.last(3), [1, 1, 1]);
    assert_eq!(app.history.migrations.last(2), [1, 1]);
    assert_eq!((app.history.latency.last(1), app.history.latency.highest()), (vec![120], 120));
    assert_eq!(app.history.cores[1].last(1), [1000]);
    assert_eq!(app.history.throttled.last(10_000).len(), 512, "the oldest are forgotten");
}
