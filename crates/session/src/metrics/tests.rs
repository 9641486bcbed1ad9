use super::*;
use maracas_core::control::tallies::{CORE, MEMORY, RUN, Tally, Unit, VCPU};
use maracas_core::control::{CoreGauges, Histogram, MemoryGauges, VcpuGauges};
use maracas_core::{CoreId, Duration, Instant, Reservation, VcpuId};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time;

/// A socket path of its own for each test.
fn path() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("maracas-metrics-{}-{number}.sock", std::process::id()))
}

fn gauges() -> Gauges {
    let mut dispatch = Histogram::default();
    for ns in [900, 15_000, 15_001, 80_000, 1 << 30] {
        dispatch.add(Duration::from_nanos(ns));
    }
    let vcpu = |id: u32, name: &str| VcpuGauges {
        vcpu: VcpuId(id),
        name: name.into(),
        reservation: Reservation::implicit(Duration::from_millis(2), Duration::from_millis(10)),
        last: None,
        foreground: Duration::from_millis(1_500),
        background: Duration::from_millis(250),
        used: Duration::from_millis(1),
        short_periods: 1,
        over_periods: 5,
        stolen_periods: 6,
        jobs: 7,
        misses: 2,
        preemptions: 3,
        migrations: 4,
        instructions: 0,
        references: 0,
        reads: 100,
        writes: 1,
    };
    let foreground = Duration::from_secs(3);
    let core = CoreGauges { foreground, is_throttled: true, ..CoreGauges::default() };
    Gauges {
        at: Instant::from_ticks(10_500_000_000),
        policy: "maracas".into(),
        sensor: "a \"sensor\"".into(),
        cores: vec![core, CoreGauges { core: CoreId(1), sampled: 9, ..CoreGauges::default() }],
        vcpus: vec![vcpu(0, "control"), vcpu(3, "a \"b\" \\")],
        memory: Some(MemoryGauges {
            samples: 5,
            requests: 100,
            occupancy: 15_000,
            last_requests: 10,
            last_occupancy: 1_800,
            max_latency: Some(180),
            ..MemoryGauges::default()
        }),
        dispatch,
        decisions: 42,
        ..Gauges::default()
    }
}

fn board() -> Board {
    let board = Board::default();
    board.publish(gauges());
    board
}

fn open(board: Board) -> (Endpoint, PathBuf) {
    let path = path();
    (Endpoint::open(&Address::Unix(path.clone()), board).unwrap(), path)
}

/// What comes back for these bytes; the answer must come before the client ends its side.
fn ask(path: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(time::Duration::from_secs(10))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn status(path: &Path, bytes: &[u8]) -> String {
    let answer = ask(path, bytes);
    answer.lines().next().unwrap_or_default().strip_prefix("HTTP/1.1 ").unwrap().to_string()
}

#[test]
fn addresses_of_this_host_are_taken_and_no_others() {
    for (text, file) in [("unix:/run/m.sock", true), ("127.0.0.1:9100", false), ("[::1]:0", false)]
    {
        let address: Address = text.parse().unwrap();
        assert_eq!(address.file().is_some(), file, "{text}");
    }
    let relative: Address = "unix:m.sock".parse().unwrap();
    assert!(relative.file().unwrap().is_absolute());
    for text in ["0.0.0.0:9100", "[::]:9100", "192.168.1.7:9100", "[::ffff:127.0.0.1]:9100"] {
        let why = Address::from_str(text).unwrap_err();
        assert!(why.contains("open to other hosts"), "{text}: {why}");
    }
    for text in ["unix:", "localhost:9100", "9100", ":9100", "", "127.0.0.1", "127.0.0.1:99999"] {
        let why = Address::from_str(text).unwrap_err();
        assert!(why.contains("write unix:/path"), "{text}: {why}");
    }
    let why = Address::from_str(&format!("unix:/{}", "x".repeat(107))).unwrap_err();
    assert!(why.contains("longer than 107 bytes"), "{why}");
}

/// The full name of a tally's metric.
fn full<T>(tally: &Tally<T>) -> String {
    let unit = match tally.unit {
        Unit::Flag | Unit::Count => "",
        Unit::Time => "_seconds",
        Unit::Lines => "_bytes",
        Unit::Cycles => "_cycles",
    };
    format!("maracas_{}{unit}{}", tally.metric, if tally.is_sum { "_total" } else { "" })
}

#[test]
fn every_tally_is_a_metric_and_stands_in_the_document() {
    let page = exposition::page(&gauges());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/top.md");
    let document = fs::read_to_string(path).unwrap();
    let names = RUN.iter().map(full).chain(CORE.iter().map(full));
    for name in names.chain(VCPU.iter().map(full)).chain(MEMORY.iter().map(full)) {
        let is_it =
            |line: &str| line.strip_prefix(&name).is_some_and(|it| it.starts_with(['{', ' ']));
        assert!(page.lines().any(is_it), "{name} is not in\n{page}");
        assert!(document.contains(&format!("`{name}`")), "docs/top.md does not say {name}");
    }
    let modes = CORE.iter().filter_map(|it| it.mode).chain(VCPU.iter().filter_map(|it| it.mode));
    modes.for_each(|mode| assert!(page.contains(&format!("mode=\"{mode}\"")), "{mode}"));
}

/// The names of metrics in a query.
fn asked(query: &str) -> impl Iterator<Item = &str> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("maracas_"))
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let page = exposition::page(&gauges());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/grafana.json");
    let board: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries = targets.map(|target| target["expr"].as_str().unwrap());
    let list = board["templating"]["list"].as_array().unwrap();
    let queries = queries.chain(list.iter().filter_map(|it| it["query"].as_str()));
    let names: Vec<&str> = queries.flat_map(asked).collect();
    assert!(names.len() > panels.len(), "each panel asks for something: {names:?}");
    for name in names {
        let is_it =
            |line: &str| line.strip_prefix(name).is_some_and(|it| it.starts_with(['{', ' ']));
        assert!(page.lines().any(is_it), "{name} is not in\n{page}");
    }
}

#[test]
fn a_scrape_gets_every_family_in_base_units() {
    let (_endpoint, path) = open(board());
    let answer = ask(&path, b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Type: {}", http::MEDIA_TYPE)), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    for line in [
        "maracas_run_info{policy=\"maracas\",host=\"\",sensor=\"a \\\"sensor\\\"\"} 1",
        "maracas_run_seconds 10.5",
        "maracas_decisions_total 42",
        "maracas_core_seconds_total{core=\"0\",mode=\"foreground\"} 3.0",
        "maracas_core_throttled{core=\"0\"} 1",
        "maracas_core_throttled{core=\"1\"} 0",
        "maracas_core_memory_sampled_requests_total{core=\"1\"} 9",
        "maracas_vcpu_seconds_total{vcpu=\"control\",id=\"0\",mode=\"foreground\"} 1.5",
        "maracas_vcpu_seconds_total{vcpu=\"a \\\"b\\\" \\\\\",id=\"3\",mode=\"background\"} 0.25",
        "maracas_vcpu_budget_seconds{vcpu=\"control\",id=\"0\"} 0.002",
        "maracas_vcpu_memory_read_bytes_total{vcpu=\"control\",id=\"0\"} 6400",
        "maracas_memory_occupancy_cycles_total 15000",
        "maracas_memory_latency_cycles 180.0",
        "maracas_memory_latency_threshold_cycles 180",
        "maracas_dispatch_latency_seconds_count 5",
        "# TYPE maracas_dispatch_latency_seconds histogram",
        "# UNIT maracas_core_seconds seconds",
        "# EOF",
    ] {
        assert!(body.lines().any(|own| own == line), "{line} is not in\n{body}");
    }
    // A bound counts what is not longer: 900 ns; two of 15 us below 2^14 ns; 1 s beyond all.
    let bucket = |bound: &str| {
        let start = format!("maracas_dispatch_latency_seconds_bucket{{le=\"{bound}\"}} ");
        body.lines().find_map(|line| line.strip_prefix(&start)?.parse::<u64>().ok())
    };
    assert_eq!([bucket("0.000001023"), bucket("0.000016383")], [Some(1), Some(3)], "{body}");
    assert_eq!([bucket("0.067108863"), bucket("+Inf")], [Some(4), Some(5)]);
}

#[test]
fn every_family_stands_together_and_once() {
    let text = exposition::page(&gauges());
    let types: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let mut names: Vec<_> = types.iter().map(|line| line.split(' ').next().unwrap()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "a family stands twice");
    assert!(names.iter().all(|name| name.starts_with("maracas_")));
    let mut samples: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    samples.iter_mut().for_each(|line| *line = line.rsplit_once(' ').unwrap().0);
    let count = samples.len();
    samples.sort_unstable();
    samples.dedup();
    assert_eq!(samples.len(), count, "a sample stands twice");
}

#[test]
fn what_is_no_scrape_gets_the_fitting_answer() {
    let (_endpoint, path) = open(board());
    for (asked, status_line) in [
        ("POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", "405 Method Not Allowed"),
        ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("GET /metrics/x HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", "200 OK"),
        ("GET /metrics HTTP/2.0\r\n\r\n", "505 HTTP Version Not Supported"),
        ("GET  /metrics HTTP/1.1\r\n\r\n", "400 Bad Request"),
        ("GET /metrics\r\n\r\n", "400 Bad Request"),
        ("G\u{1}T /metrics HTTP/1.1\r\n\r\n", "400 Bad Request"),
        ("\r\n\r\n", "400 Bad Request"),
    ] {
        assert_eq!(status(&path, asked.as_bytes()), status_line, "{asked:?}");
    }
    assert_eq!(status(&path, b"\xff\xfe /metrics HTTP/1.1\r\n\r\n"), "400 Bad Request");
    let answer = ask(&path, b"POST /metrics HTTP/1.1\r\n\r\n");
    assert!(answer.contains("Allow: GET, HEAD\r\n"), "{answer}");
    let answer = ask(&path, b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("\r\n\r\n"), "{answer}");
    let (_endpoint, path) = open(Board::default());
    let answer = status(&path, b"GET /metrics HTTP/1.1\r\n\r\n");
    assert_eq!(answer, "503 Service Unavailable", "nothing was published");
}

#[test]
fn a_huge_head_is_refused_and_the_answer_arrives() {
    let (_endpoint, path) = open(board());
    let mut bytes = b"GET /metrics HTTP/1.1\r\nX: ".to_vec();
    bytes.resize(100 << 10, b'x');
    assert_eq!(status(&path, &bytes), "431 Request Header Fields Too Large");
    // One that fits, in small pieces.
    let mut stream = UnixStream::connect(&path).unwrap();
    for piece in b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".chunks(5) {
        stream.write_all(piece).unwrap();
        thread::sleep(time::Duration::from_millis(5));
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

#[test]
fn a_slow_client_is_sent_away_and_one_that_leaves_is_forgotten() {
    let (_endpoint, path) = open(board());
    drop(UnixStream::connect(&path).unwrap());
    let mut half = UnixStream::connect(&path).unwrap();
    half.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    let begin = time::Instant::now();
    assert_eq!(status(&path, b"GET /metrics HTTP/1.1\r\n\r\n"), "200 OK", "the next is served");
    assert!(begin.elapsed() < time::Duration::from_secs(8), "{:?}", begin.elapsed());
    let mut answer = String::new();
    half.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 Request Timeout"), "{answer}");
    // It asks, ends its side and still gets its answer.
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

#[test]
fn the_socket_is_its_owners_and_goes_with_the_endpoint() {
    let (endpoint, path) = open(board());
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let why = |address: &Address| match address.clear() {
        Err(Failure::Bad(line)) => line,
        other => panic!("{other:?}"),
    };
    let address = Address::Unix(path.clone());
    assert!(why(&address).contains("served by another process"));
    // A client that asks for ever delays no run's end.
    let mut half = UnixStream::connect(&path).unwrap();
    half.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    let begin = time::Instant::now();
    drop(endpoint);
    assert!(!path.exists() && begin.elapsed() < time::Duration::from_secs(1));
    // One that is not served any more is removed, anything else stays.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists() && address.clear().is_ok() && !path.exists());
    fs::write(&path, "mine").unwrap();
    assert!(why(&address).contains("no socket"));
    fs::remove_file(&path).unwrap();
    assert!(why(&Address::Unix(path.join("m.sock"))).contains("its directory is not there"));
}

#[test]
fn loopback_is_served_too() {
    let asked: Address = "127.0.0.1:0".parse().unwrap();
    let endpoint = Endpoint::open(&asked, board()).unwrap();
    let Address::Loopback(address) = endpoint.address else { panic!("{:?}", endpoint.address) };
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("maracas_decisions_total 42"), "{answer}");
    let taken = Endpoint::open(&Address::Loopback(address), board()).err();
    assert!(matches!(taken, Some(Failure::Bad(line)) if line.contains(&address.to_string())));
}

#[test]
fn published_sums_never_fall() {
    use maracas_core::contract::{End, Event, Grant, Limit, Mode, RunQueue, Segment, Usage};
    use maracas_core::journal::{Decision, Record};
    let ms = |ms: u64| Instant::from_ticks(ms * 1_000_000);
    let vcpu =
        |id| maracas_core::Vcpu::new(id, Duration::from_millis(5), Duration::from_millis(50));
    let header = Header {
        policy: "maracas".into(),
        params: maracas_core::params::Params::new(),
        system: maracas_core::System::new(1, vec![vcpu(0), vcpu(1)]),
        names: vec!["a".into(), "b".into()],
        machine: "live".into(),
        version: "test".into(),
        seed: 0,
    };
    let grant = |id| Grant::new(VcpuId(id), Limit::NEVER);
    let (foreground, background) = (vec![grant(0)], vec![grant(1)].into());
    let line =
        RunQueue { foreground, background, background_allowed: false, ..RunQueue::default() };
    let planned = Record::Planned(Decision {
        group: None,
        now: ms(0),
        run_queues: vec![(CoreId(0), line)],
        homes: Vec::new(),
        service_request: None,
        verdicts: Vec::new(),
        wake: (Instant::NEVER, false),
        hash: 0,
    });
    let reported = |at: u64, event| Record::Event { at: ms(at), event };
    let woke =
        |at, id| reported(at, Event::Woke { vcpu: VcpuId(id), on_behalf: None, exact: true });
    let ran = reported(
        5,
        Event::Ran(Segment {
            vcpu: VcpuId(0),
            core: CoreId(0),
            mode: Mode::Foreground,
            from: ms(0),
            to: ms(5),
            usage: Usage { service: Duration::from_millis(5), ..Usage::default() },
            end: End::Metered,
        }),
    );
    let (board, mut counted) = (Board::default(), Metrics::new(&header));
    let mut after = |records: &[Record]| {
        records.iter().for_each(|record| _ = counted.record(record));
        publish(&board, &counted, None);
        board.latest().unwrap().cores[0].throttled
    };
    // Until the segment is reported, the core looks as if nothing ran while the memory gate was
    // closed.
    assert_eq!(after(&[woke(0, 1), planned, woke(5, 0)]), Duration::from_millis(5));
    assert_eq!(after(&[ran]), Duration::from_millis(5), "it was none of it, and nothing falls");
    assert_eq!(after(&[woke(20, 0)]), Duration::from_millis(15));
}
