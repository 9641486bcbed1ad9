//! The page of `maracas report`, opened, clicked and looked at in a headless Chromium.
//!
//! `cargo xtask browser` runs these alone and keeps a picture of each view.

#[path = "../../../tests/shared/bounds.rs"]
mod bounds;
mod browser;
mod common;

use browser::Browser;
use common::{Scratch, maracas, repository, text};
use maracas_core::contract::{Event, Mode, Segment, Usage};
use maracas_core::journal::{Note, Reader, Record, Recorder};
use maracas_core::{CoreId, Duration, Instant, VcpuId};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Where pictures of all views are kept, where this variable names a folder.
const PICTURES: &str = "MARACAS_PICTURES";

/// A browser; none, after a skip, where the host has none.
fn browser() -> Option<Browser> {
    let program = browser::installed();
    bounds::needs(program.is_some(), "Chromium");
    program.map(|program| Browser::start(&program))
}

/// Runs a command that must end well.
fn run(scratch: &Scratch, words: &[&str]) {
    let output = maracas(scratch.path(), words);
    assert!(matches!(output.status.code(), Some(0 | 4)), "{words:?}: {}", text(&output.stderr));
}

/// The page of an example, simulated for so long.
fn page_of(scratch: &Scratch, example: &str, until: &str) -> PathBuf {
    let file = repository().join(format!("examples/{example}.toml"));
    run(scratch, &["report", file.to_str().unwrap(), "--until", until, "-o", "page.html"]);
    scratch.path().join("page.html")
}

/// The page of a run in which the agent of core 0 was 5 ms late to end a budget of `control`, at
/// the first end of one after half a second.
fn planted(scratch: &Scratch) -> (PathBuf, Instant) {
    let file = repository().join("examples/quickstart.toml");
    let words = ["sim", file.to_str().unwrap(), "--until", "1s", "--quiet", "--journal", "j"];
    run(scratch, &words);
    let journal = std::fs::read(scratch.path().join("j")).unwrap();
    let (mut header, reader) = Reader::open(&journal).unwrap();
    header.names[0] = "<img src=x onerror=\"alert(1)\">".into();
    let mut recorder = Recorder::new(&header);
    let mut late = None;
    for record in reader.map(Result::unwrap) {
        recorder.record(&record);
        if let Record::Event { at, event: Event::Ran(segment) } = record
            && (segment.vcpu, segment.mode) == (VcpuId(0), Mode::Foreground)
            && at > Instant::ZERO + Duration::from_millis(500)
            && late.is_none()
        {
            let to = segment.to + Duration::from_millis(5);
            let usage = Usage { service: Duration::from_millis(5), ..Usage::default() };
            let more = Segment { from: segment.to, to, usage, ..segment };
            recorder.record(&Record::Event { at: to, event: Event::Ran(more) });
            let (core, vcpu) = (CoreId(0), Some(VcpuId(0)));
            let note = Note::Late { core, vcpu, late_ns: 5_000_000, stolen_ns: 0 };
            recorder.record(&Record::Note { at: to, note });
            late = Some(segment.from);
        }
    }
    scratch.write("late.journal", recorder.bytes());
    run(scratch, &["report", "late.journal", "-o", "late.html"]);
    (scratch.path().join("late.html"), late.unwrap())
}

/// From where to where the schedule shows, in nanoseconds.
fn seen(browser: &mut Browser) -> [f64; 2] {
    let seen = browser.ask("[maracas.schedule.from, maracas.schedule.to]");
    [0, 1].map(|end| seen[end].as_f64().unwrap())
}

#[test]
fn a_late_agent_is_found_with_its_cause_and_its_place_in_two_clicks() {
    let Some(mut browser) = browser() else { return };
    let scratch = Scratch::new();
    let (page, late) = planted(&scratch);
    browser.window(1400, 900, "light");
    browser.open(&page);
    let verdict = browser.ask("document.querySelector('.banner').textContent");
    assert!(verdict.as_str().unwrap().starts_with("1 of 4 promises NOT kept"), "{verdict}");
    // The first click: the period, with its cause beside it, is in the schedule.
    let first = "ul[data-vcpu='0'] > li";
    let line = browser.ask(&format!("document.querySelector(\"{first}\").textContent"));
    let line = line.as_str().unwrap();
    assert!(line.contains("over by 5ms") && line.contains("core0: agent late by 5ms"), "{line}");
    browser.click(&format!("{first} > button"));
    let [from, to] = seen(&mut browser);
    let late = late.ticks() as f64;
    assert!(from <= late && late < to && to - from <= 50e6, "{from} to {to}, not {late}");
    let visible = "(() => { const box = maracas.schedule.canvas.getBoundingClientRect(); \
                   return box.top >= 0 && box.top < innerHeight / 2; })()";
    let scrolled = std::time::Instant::now();
    while browser.ask(visible) != true {
        assert!(scrolled.elapsed().as_secs() < 10, "the schedule is not in the window");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // The second: what the agent reported.
    browser.click(&format!("{first} .cause button"));
    let [from, to] = seen(&mut browser);
    assert!(from <= late + 5e6 && late + 5e6 < to && to - from <= 16e6, "{from} to {to}");
    // A name with tags in it is a name.
    assert_eq!(browser.ask("document.querySelectorAll('img').length"), 0);
    let name = browser.ask("document.querySelector('#verdicts td button').textContent");
    assert_eq!(name, "<img src=x onerror=\"alert(1)\">");
    assert_eq!((browser.wrong(), browser.requests()), (Vec::new(), 1));
}

#[test]
fn wheel_drag_keys_and_buttons_move_from_the_whole_to_a_microsecond() {
    let Some(mut browser) = browser() else { return };
    let scratch = Scratch::new();
    let page = page_of(&scratch, "periodic", "2s");
    browser.window(1400, 900, "light");
    browser.open(&page);
    browser.ask("document.getElementById('schedule').scrollIntoView()");
    browser.drawn();
    assert_eq!(seen(&mut browser), [0.0, 2e9]);
    let middle = "(() => { const box = maracas.schedule.canvas.getBoundingClientRect(); \
                  return [box.left + box.width / 2, box.top + 60]; })()";
    let middle = browser.ask(middle);
    browser.mouse("mouseWheel", &middle, json!({ "deltaX": 0, "deltaY": -600 }));
    browser.drawn();
    let [from, to] = seen(&mut browser);
    assert!(to - from < 1e9 && 0.0 < from, "the wheel: {from} to {to}");
    browser.mouse("mousePressed", &middle, json!({ "button": "left", "clickCount": 1 }));
    let left = json!([middle[0].as_f64().unwrap() - 200.0, middle[1]]);
    browser.mouse("mouseMoved", &left, json!({ "button": "left", "buttons": 1 }));
    browser.mouse("mouseReleased", &left, json!({ "button": "left", "clickCount": 1 }));
    browser.drawn();
    let moved = seen(&mut browser);
    assert!(
        moved[0] > from && (moved[1] - moved[0] - (to - from)).abs() < 1.0,
        "a drag: {moved:?}"
    );
    browser.ask("maracas.schedule.canvas.focus()");
    browser.key("ArrowLeft", "");
    assert!(seen(&mut browser)[0] < moved[0], "an arrow");
    for _ in 0..40 {
        browser.key("+", "+");
    }
    let [from, to] = seen(&mut browser);
    assert!(to - from <= 1000.0, "+ ends at {} ns", to - from);
    browser.key("0", "0");
    assert_eq!(seen(&mut browser), [0.0, 2e9]);
    browser.click("#schedule button[aria-label='Show 1us']");
    let [from, to] = seen(&mut browser);
    assert!((to - from - 1000.0).abs() < 1e-3, "a button: {} ns", to - from);
    // What stands under the pointer is said.
    browser.click("#schedule button[aria-label='Show the whole run']");
    let at = browser.ask(
        "(() => { const box = maracas.schedule.canvas.getBoundingClientRect(); \
         return [box.left + 160, box.top + 40]; })()",
    );
    browser.mouse("mouseMoved", &at, json!({}));
    browser.drawn();
    let said = browser.ask("document.getElementById('said').textContent");
    assert!(said.as_str().unwrap().contains("core0:"), "{said}");
    assert_eq!(browser.wrong(), Vec::<String>::new());
}

/// A sweep on which `p-edf` finds no packing for some sets, and `run` keeps all.
const SWEEP: &str = r#"
[sweep]
cores = 2
utilization = [0.5, 1.0]
sets = 5
duration = "200ms"
[tasks]
count = 5
loads = "uunifast"
periods = "harmonic"
[[policy]]
name = "p-edf"
[[policy]]
name = "run"
packing = "wfd"
"#;

/// The page of that sweep.
fn sweep_page(scratch: &Scratch) -> PathBuf {
    scratch.write("s.toml", SWEEP);
    run(scratch, &["sweep", "s.toml", "--out", "results", "--quiet"]);
    run(scratch, &["report", "results", "-o", "sweep.html"]);
    scratch.path().join("sweep.html")
}

#[test]
fn behind_a_point_of_a_sweep_stand_the_sets_that_failed_and_their_commands() {
    let Some(mut browser) = browser() else { return };
    let scratch = Scratch::new();
    let page = sweep_page(&scratch);
    browser.window(1400, 900, "light");
    browser.open(&page);
    let banner = browser.ask("document.querySelector('.banner').textContent");
    assert!(banner.as_str().unwrap().starts_with("run: success on every set"), "{banner}");
    // The value under the pointer, at the last point of the first figure.
    let place = "(() => { const chart = [...CHARTS][0]; chart.box.scrollIntoView(); \
                 const { plot } = chart; const box = plot.over.getBoundingClientRect(); \
                 return [box.left + plot.valToPos(1, 'x') - 3, \
                 box.top + plot.valToPos(plot.data[1][1], 'y') - 3]; })()";
    let place = browser.ask(place);
    browser.mouse("mouseMoved", &place, json!({}));
    browser.drawn();
    let said = browser.ask("document.querySelector('.u-legend').textContent");
    let succeeded = browser.ask("maracas.data.points[1].policies[0].succeeded");
    let share = format!("{} % (", succeeded.as_u64().unwrap() * 20);
    assert!(said.as_str().unwrap().contains(&share), "{said}, not {share}");
    // The click: sets that were refused, and how to run one.
    browser.mouse("mousePressed", &place, json!({ "button": "left", "clickCount": 1 }));
    browser.mouse("mouseReleased", &place, json!({ "button": "left", "clickCount": 1 }));
    browser.drawn();
    let behind = browser.ask("document.getElementById('behind').textContent");
    let behind = behind.as_str().unwrap();
    assert!(behind.contains("2 cores, 5 tasks, utilization 1") && behind.contains("refused"));
    let commands = browser.ask("document.querySelector('#behind td pre').textContent");
    for command in commands.as_str().unwrap().lines() {
        let words: Vec<_> = command.split(' ').skip(1).collect();
        let output = maracas(scratch.path(), &words);
        // Drawn, and then refused as in the sweep.
        let code = if words[0] == "generate" { 0 } else { 1 };
        assert_eq!(output.status.code(), Some(code), "{command}: {}", text(&output.stderr));
    }
    // The same by the table, for the keyboard; nothing failed there.
    browser.ask("document.querySelectorAll('#points td button')[1].focus()");
    browser.key("Enter", "\r");
    let behind = browser.ask("document.getElementById('behind').textContent");
    assert!(behind.as_str().unwrap().contains("run: success on all 5 sets"), "{behind}");
    assert_eq!((browser.wrong(), browser.requests()), (Vec::new(), 1));
}

/// A sweep whose figure has something to see: where each of three policies stops to succeed.
const PICTURED: &str = r#"
[sweep]
cores = 4
utilization = { from = 0.6, to = 1.0, step = 0.05 }
sets = 20
duration = "100ms"
[tasks]
per_core = 2
loads = "uunifast"
periods = "harmonic"
[[policy]]
name = "p-edf"
[[policy]]
name = "g-edf"
[[policy]]
name = "run"
"#;

/// `docs/figures/report.png` and `sweep.png` are the pictures of this test.
#[test]
fn what_the_documents_picture_is_seen() {
    let Some(mut browser) = browser() else { return };
    let scratch = Scratch::new();
    let file = repository().join("examples/quickstart.toml");
    let words = ["sim", file.to_str().unwrap(), "--until", "2s", "--late", "10ms", "--quiet"];
    run(&scratch, &[&words[..], &["--journal", "late.journal"]].concat());
    run(&scratch, &["report", "late.journal", "-o", "report.html"]);
    browser.window(1200, 800, "light");
    browser.open(&scratch.path().join("report.html"));
    browser.click("ul.causes > li > button");
    browser.ask("document.getElementById('schedule').scrollIntoView({ behavior: 'instant' })");
    browser.drawn();
    let [from, to] = seen(&mut browser);
    assert!(to - from <= 100e6, "{from} to {to}");
    keep(&mut browser, "report");

    scratch.write("s.toml", PICTURED);
    run(&scratch, &["sweep", "s.toml", "--out", "results", "--quiet"]);
    run(&scratch, &["report", "results", "-o", "sweep.html"]);
    browser.window(1200, 640, "light");
    browser.open(&scratch.path().join("sweep.html"));
    browser.drawn();
    let first = browser.ask("maracas.data.figures[0].lines.map((line) => line.name).join()");
    assert_eq!(first, "p-edf,g-edf,run");
    keep(&mut browser, "sweep");
    assert_eq!((browser.wrong(), browser.requests()), (Vec::new(), 1));
}

/// How many pages a PDF says that it has: objects of type `Page`.
fn pages(pdf: &[u8]) -> usize {
    let is_page = |at: &[u8]| at.starts_with(b"/Type /Page") && !at.starts_with(b"/Type /Pages");
    (0..pdf.len()).filter(|at| is_page(&pdf[*at..])).count()
}

/// Text within a PDF is glyphs of its own fonts, so what is printed is also asked of the page.
#[test]
fn printed_the_page_has_its_verdicts() {
    let Some(mut browser) = browser() else { return };
    let scratch = Scratch::new();
    let (page, _) = planted(&scratch);
    browser.window(1400, 900, "dark");
    browser.open(&page);
    let pdf = browser.call("Page.printToPDF", json!({}));
    let pdf = decoded(pdf["data"].as_str().unwrap());
    assert!(pdf.starts_with(b"%PDF-") && pages(&pdf) >= 1, "{} bytes", pdf.len());
    if let Some(folder) = std::env::var_os(PICTURES).map(PathBuf::from) {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("late.pdf"), &pdf).unwrap();
    }
    // What the printer gets: nothing that only a screen needs, and every verdict.
    browser.call("Emulation.setEmulatedMedia", json!({ "media": "print" }));
    browser.ask("dispatchEvent(new Event('beforeprint'))");
    let shown = browser.ask("document.body.innerText");
    let shown = shown.as_str().unwrap();
    assert!(shown.contains("1 of 4 promises NOT kept") && shown.contains("over by 5ms"));
    assert_eq!(browser.ask("getComputedStyle(document.querySelector('nav')).display"), "none");
    let paper = browser.ask("getComputedStyle(document.body).backgroundColor");
    assert_eq!(paper, "rgb(255, 255, 255)");
    assert_eq!(browser.wrong(), Vec::<String>::new());
}

/// How long ten minutes may take to open on a machine whose browser needs `LOOP_MS` for the loop
/// below, in milliseconds, and each frame of it.
const OPEN_MS: f64 = 2000.0;
const FRAME_MS: f64 = 50.0;
const LOOP_MS: f64 = 100.0;
const LOOP: &str = "(() => { const begun = performance.now(); let sum = 0; \
                    for (let i = 0; i < 1e7; i += 1) sum = (sum * 31 + i) | 0; \
                    window.sum = sum; return performance.now() - begun; })()";

#[test]
fn ten_minutes_open_at_once_and_move_smoothly() {
    let Some(mut browser) = browser() else { return };
    let scratch = Scratch::new();
    let page = page_of(&scratch, "quickstart", "600s");
    browser.window(1400, 900, "light");
    let mut best = [f64::INFINITY; 3];
    for _ in 0..3 {
        browser.open(&page);
        let opened = "performance.getEntriesByType('navigation')[0].loadEventEnd";
        let frames = "(() => { const begun = performance.now(); const all = maracas.run.end; \
                      for (let i = 1; i <= 20; i += 1) { \
                      maracas.schedule.show(0, all / i ** 3); maracas.schedule.draw(); } \
                      return (performance.now() - begun) / 20; })()";
        for (best, asked) in best.iter_mut().zip([opened, frames, LOOP]) {
            *best = best.min(browser.ask(asked).as_f64().unwrap());
        }
    }
    let segments = browser.ask("maracas.run.cores.reduce((sum, lane) => sum + lane.length, 0)");
    assert!(segments.as_u64().unwrap() >= 400_000, "only {segments} segments");
    let [opened, frame, fixed] = best;
    let slower = (fixed / LOOP_MS).max(1.0);
    eprintln!("{segments} segments: {opened:.0} ms to open, {frame:.1} ms a frame, {fixed:.0} ms");
    assert!(opened <= OPEN_MS * slower, "{opened} ms, where the loop takes {fixed} ms");
    assert!(frame <= FRAME_MS * slower, "{frame} ms a frame, where the loop takes {fixed} ms");
    assert_eq!((browser.wrong(), browser.requests()), (Vec::new(), 1));
}

#[test]
fn every_view_fits_its_window_in_light_and_dark() {
    let Some(mut browser) = browser() else { return };
    let scratch = Scratch::new();
    let (late, _) = planted(&scratch);
    let pages = [
        ("late", late),
        ("jobs", renamed(&scratch, "periodic", "2s", "jobs.html")),
        ("memory", renamed(&scratch, "throttle", "12s", "memory.html")),
        ("uneven", renamed(&scratch, "uneven", "2s", "uneven.html")),
        ("sweep", sweep_page(&scratch)),
    ];
    let mut papers = Vec::new();
    for (name, page) in &pages {
        for (width, theme) in [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")] {
            browser.window(width, 900, theme);
            browser.open(page);
            let over = browser.ask("document.documentElement.scrollWidth - innerWidth");
            assert!(over.as_f64().unwrap() <= 0.0, "{name} at {width}: {over} pixels too wide");
            papers.push(browser.ask("getComputedStyle(document.body).backgroundColor"));
            let height = browser.ask("document.documentElement.scrollHeight").as_u64().unwrap();
            browser.window(width, height.min(6000) as u32, theme);
            browser.drawn();
            keep(&mut browser, &format!("{name}-{width}-{theme}"));
            if *name == "uneven" {
                let rows = browser.ask("document.querySelectorAll('#uneven tbody tr').length");
                assert_eq!(rows, 4, "a row of each program");
            }
            if *name == "late" {
                browser.click("ul[data-vcpu='0'] > li > button");
                browser.drawn();
                keep(&mut browser, &format!("{name}-period-{width}-{theme}"));
            }
            assert_eq!(browser.wrong(), Vec::<String>::new(), "{name} at {width}, {theme}");
        }
    }
    assert!(papers.chunks(2).all(|pair| pair[0] == papers[0] && pair[1] == papers[1]));
    assert_ne!(papers[0], papers[1], "dark is as light");
    // The switch, whatever the system says.
    browser.click("#theme");
    assert_eq!(browser.ask("getComputedStyle(document.body).backgroundColor"), papers[0]);
}

/// The page of an example under a name of its own.
fn renamed(scratch: &Scratch, example: &str, until: &str, name: &str) -> PathBuf {
    let page = page_of(scratch, example, until);
    let to = scratch.path().join(name);
    std::fs::rename(page, &to).unwrap();
    to
}

/// Keeps a picture of the window, where that is asked for.
fn keep(browser: &mut Browser, name: &str) {
    let Some(folder) = std::env::var_os(PICTURES).map(PathBuf::from) else { return };
    let picture = browser.picture();
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{name}.png")), decoded(&picture)).unwrap();
}

/// The bytes of base64.
fn decoded(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let letters: Vec<u8> = text.bytes().filter(|it| *it != b'=').map(value).collect();
    let mut bytes = Vec::new();
    for four in letters.chunks(4) {
        let bits = four.iter().fold(0u32, |bits, six| bits << 6 | u32::from(*six));
        let bits = bits << (6 * (4 - four.len()));
        bytes.extend(bits.to_be_bytes()[1..four.len()].iter());
    }
    bytes
}

/// A number of the page's report is that of `--json`: nothing is counted twice.
#[test]
fn the_page_has_the_report_that_the_command_prints() {
    let scratch = Scratch::new();
    let file = repository().join("examples/quickstart.toml");
    let file = file.to_str().unwrap();
    let words = ["sim", file, "--until", "2s", "--late", "20ms", "--json", "--journal", "j"];
    let output = maracas(scratch.path(), &words);
    let mut printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    run(&scratch, &["report", "j", "--output", "page.html"]);
    let page = std::fs::read_to_string(scratch.path().join("page.html")).unwrap();
    let data = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
    let data: Value = serde_json::from_str(data).unwrap();
    // The command adds the defaults of parameters that were not given.
    printed["params"] = data["report"]["params"].clone();
    assert_eq!(data["report"], printed);
}

/// What it is of, and that it says no more of it than is known.
#[test]
fn the_page_of_a_journal_without_its_end_says_so() {
    let scratch = Scratch::new();
    let file = repository().join("examples/quickstart.toml");
    let words = ["sim", file.to_str().unwrap(), "--until", "2s", "--quiet", "--journal", "j"];
    run(&scratch, &words);
    let journal = std::fs::read(scratch.path().join("j")).unwrap();
    scratch.write("cut", &journal[..journal.len() / 2]);
    run(&scratch, &["report", "cut", "-o", "page.html"]);
    let path = scratch.path().join("page.html");
    let page = std::fs::read_to_string(&path).unwrap();
    let data = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
    let data: Value = serde_json::from_str(data).unwrap();
    let promise = &data["report"]["promise"];
    assert_eq!(promise["kept"], false);
    let read = promise["cut"]["byte"].as_u64().unwrap();
    let left_out = promise["cut"]["left_out_bytes"].as_u64().unwrap();
    assert_eq!(read + left_out, journal.len() as u64 / 2);
    let line = data["words"]["run"][0].as_str().unwrap();
    assert!(line.starts_with("cut: the journal has no end; what was under way at "), "{line}");
    assert!(data["words"]["table"].as_str().unwrap().contains(line));
    // All of it is kept, up to there.
    let tasks = data["report"]["tasks"].as_array().unwrap();
    assert!(tasks.iter().any(|task| task["verdict"]["word"] == "kept"), "{tasks:#?}");
    let broken = ["short", "over", "both"];
    assert!(tasks.iter().all(|task| broken.iter().all(|it| task["verdict"]["word"] != *it)));
    let Some(mut browser) = browser() else { return };
    browser.window(1400, 900, "light");
    browser.open(&path);
    let banner = browser.ask("document.querySelector('.banner').textContent");
    let banner = banner.as_str().unwrap();
    assert!(banner.starts_with("The run was cut short"), "{banner}");
    assert!(banner.contains(line), "{banner}");
}
