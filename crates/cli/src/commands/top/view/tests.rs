use super::super::rates::tests::gauges;
use super::*;
use maracas_core::control::{CoreGauges, Gauges, VcpuGauges};
use maracas_core::{CoreId, VcpuId};

/// What is drawn after two looks.
fn drawn(
    now: impl Fn(u64) -> Gauges,
    size: (usize, usize),
    change: impl FnOnce(&mut App),
) -> Canvas {
    let mut app = App::new("run 4711".into(), true);
    [1_000, 2_000].into_iter().for_each(|ms| app.update(now(ms)));
    change(&mut app);
    let mut canvas = Canvas::new(size);
    draw(&mut canvas, &app);
    canvas
}

fn lines(canvas: &Canvas) -> Vec<String> {
    let text = |row: &[(char, Style)]| row.iter().map(|(glyph, _)| *glyph).collect::<String>();
    canvas.rows().map(|row| text(row).trim_end().to_string()).collect()
}

/// The line that begins so.
fn line<'a>(lines: &'a [String], start: &str) -> &'a str {
    let found = lines.iter().find(|line| line.trim_start().starts_with(start));
    found.unwrap_or_else(|| panic!("no line begins with {start}: {lines:#?}"))
}

/// How a text looks.
fn looks(canvas: &Canvas, text: &str) -> Vec<Style> {
    let lines = lines(canvas);
    let row = lines.iter().position(|line| line.contains(text)).unwrap();
    let start = lines[row][..lines[row].find(text).unwrap()].chars().count();
    let cells = canvas.rows().nth(row).unwrap().iter().map(|(_, style)| *style);
    cells.skip(start).take(text.chars().count()).collect()
}

/// Its colours.
fn colours(canvas: &Canvas, text: &str) -> Vec<Colour> {
    looks(canvas, text).into_iter().map(|style| style.colour).collect()
}

#[test]
fn everything_has_its_place_in_80_by_24() {
    let canvas = drawn(gauges, (80, 24), |_| {});
    let lines = lines(&canvas);
    assert_eq!(lines[0], "run 4711, policy maracas, 2.0 s");
    assert_eq!(lines[1], "a board with two cores");
    assert_eq!(lines[2], "1000 decisions/s, 20 migrations, 0 misses, 1 of 2 cores throttled");
    assert!(lines[3].contains("120 of 180 cycles"), "{}", lines[3]);
    assert!(lines[3].contains("500k requests/s"), "{}", lines[3]);
    let bar = format!(
        "{}{}{}",
        FOREGROUND.to_string().repeat(10),
        THROTTLED.to_string().repeat(2),
        IDLE.to_string().repeat(8)
    );
    assert_eq!(lines[5], format!("   0 {bar}   50.0    0.0   10.0   40.0       - throttled ▅▅"));
    let bar = BACKGROUND.to_string().repeat(20);
    assert_eq!(lines[6], format!("   1 {bar}    0.0  100.0    0.0    0.0   1.00M open      ██"));
    let control = line(&lines, "control");
    let words: Vec<_> = control.split_whitespace().collect();
    let shown = ["control", "0", "2ms/10ms", "50.0", "0.0", "1.5ms", "0", "-", "1", "-"];
    assert_eq!(words, shown);
    assert!(lines[19].starts_with("latency 120 cycles"), "{}", lines[19]);
    assert!(
        lines[19].contains("throttled 1 of 2 cores") && lines[19].contains("migrations 10.0/s")
    );
    assert!(lines[23].starts_with("q quit  s sort: core, period"));
    assert!(lines.iter().all(|line| line.chars().count() <= 80));
}

#[test]
fn a_large_terminal_shows_more_history_and_more_vcpus() {
    let many = |ms| {
        let mut now = gauges(ms);
        let vcpu = now.vcpus[0].clone();
        now.vcpus = (0..80)
            .map(|id| VcpuGauges { vcpu: VcpuId(id), name: format!("v{id:02}"), ..vcpu.clone() })
            .collect();
        now
    };
    let looked = |app: &mut App| (3..300).for_each(|ms| app.update(gauges(ms * 1_000)));
    let lines_of = |size, change: fn(&mut App)| lines(&drawn(many, size, change));
    let small = lines_of((80, 24), |_| {});
    let large = lines_of((200, 60), |_| {});
    let shown = |lines: &[String]| lines.iter().filter(|line| line.starts_with('v')).count() - 1;
    assert_eq!((shown(&small), shown(&large)), (11, 47));
    // Scrolled to the end: the last ones, and no empty lines.
    let end = lines_of((80, 24), |app| app.vcpus_above = 79);
    assert!(line(&end, "v79").starts_with("v79") && shown(&end) == 11, "{end:#?}");
    let long = lines(&drawn(gauges, (200, 60), looked));
    let history = |line: &str| line.chars().filter(|glyph| *glyph == '█').count();
    let core = long.iter().find(|line| line.starts_with("   1 ")).unwrap();
    assert!(history(core) > 100, "{core}");
}

#[test]
fn latency_above_its_threshold_and_closed_cores_are_red() {
    let canvas = drawn(gauges, (120, 30), |_| {});
    assert!(colours(&canvas, "memory latency").iter().all(|colour| *colour == Colour::Green));
    assert!(colours(&canvas, "throttled ▅").contains(&Colour::Red));
    let high = |ms| {
        let mut now = gauges(ms);
        now.memory.iter_mut().for_each(|memory| memory.last_occupancy = 2_500_000);
        now.cores[0].is_closed = true;
        now
    };
    let canvas = drawn(high, (120, 30), |_| {});
    let above = "above its threshold";
    assert!(colours(&canvas, above).iter().all(|colour| *colour == Colour::Red));
    assert!(lines(&canvas)[5].contains("closed"));
    // Without colours nothing has one, and what warns stands out all the same.
    let plain = drawn(high, (120, 30), |app| app.colours = false);
    let mut cells = plain.rows().flatten();
    assert!(cells.all(|(_, style)| style.colour == Colour::Plain));
    assert!(looks(&plain, above).iter().all(|style| style.reversed));
}

#[test]
fn without_a_sensor_it_says_so_and_help_explains() {
    let blind = |ms| Gauges { memory: None, sensor: String::new(), ..gauges(ms) };
    let shown = lines(&drawn(blind, (80, 24), |_| {}));
    assert_eq!(line(&shown, "memory"), "memory not sampled");
    assert!(line(&shown, "latency").starts_with("latency -"));
    let help = lines(&drawn(gauges, (80, 24), |app| app.help = true));
    assert!(help.iter().any(|line| line.contains("quit; the run goes on")), "{help:#?}");
    let ended = lines(&drawn(gauges, (80, 24), |app| app.ended = Some("it ends here".into())));
    assert_eq!(ended[0], "run 4711, policy maracas, 2.0 s  it ends here");
}

#[test]
fn no_size_is_too_small_and_no_machine_too_large() {
    for size in [(1, 1), (3, 2), (20, 5), (40, 12), (500, 100)] {
        drawn(gauges, size, |_| {});
        drawn(gauges, size, |app| app.help = true);
    }
    let wide = |ms| {
        let core = gauges(ms).cores[1];
        let cores = (0..128).map(|id| CoreGauges { core: CoreId(id), ..core }).collect();
        Gauges { cores, ..gauges(ms) }
    };
    let shown = lines(&drawn(wide, (80, 24), |app| app.cores_above = 127));
    assert!(shown.iter().any(|line| line.starts_with(" 127 ")), "{shown:#?}");
    assert!(line(&shown, "control").len() > 10, "VCPUs keep their part");
    let empty = lines(&drawn(|_| Gauges::default(), (80, 24), |_| {}));
    assert!(empty[0].starts_with("run 4711"));
}
