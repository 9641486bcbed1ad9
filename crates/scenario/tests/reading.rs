//! What a good scenario is read as.

use maracas_core::params::Value;
use maracas_core::sensor::{Sense, SensorKind};
use maracas_core::{Arrival, Cost, Duration, Instant, Reservation, Role, VcpuId, Workload};
use maracas_scenario::{CacheSplit, Live, Output, Scenario, ThrottleBy};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn read(text: &str) -> Scenario {
    Scenario::parse(text, "x.toml").unwrap_or_else(|error| panic!("{error}"))
}

/// Every key that there is.
const FULL: &str = r#"
version = 1

[platform]
cores = 4

[policy]
name = "maracas"
background = "fair"
slices = 3
idle = 0.10
lazy = true

[run]
duration = "10s"
seed = 42

[overheads]
context_switch = "3us"
migration = "12us"
decision = "2us"
release = "1us"

[[program]]
name = "logger"
command = ["logger", "-v"]
dir = "/tmp"
env = { LEVEL = "3", HOME = "/" }
output = "log.txt"
vcpu = "camera"
start = "1s"
stop = "9s"

[[program]]
name = "camera"
budget = "2ms"
period = "10ms"
deadline = "8ms"
core = 3
colors = 5
weight = 7
kind = "main"
jobs = "periodic"
offset = "1ms"
workload = { kind = "periodic", cost = { uniform = ["1ms", "2ms"] } }
threads = 2

[[vcpu]]
name = "net"
budget = "1ms"
period = "20ms"
kind = "io"

[[program]]
name = "packets"
vcpu = "net"
command = ["true"]
output = "null"
[program.workload]
kind = "event-driven"
every = { exponential = "4ms" }
cost = "200us"
on_behalf = "camera"
"#;

#[test]
fn every_key_is_read() {
    let scenario = read(FULL);
    assert_eq!(scenario.platform.cores, Some(4));
    assert_eq!(scenario.policy.name, "maracas");
    let params: Vec<_> = scenario.policy.params.iter().collect();
    let text = |text: &str| Value::Text(text.into());
    // The float keeps its text: 0.10 as a double is not one tenth.
    assert_eq!(
        params,
        [
            ("background", &text("fair")),
            ("idle", &text("0.10")),
            ("lazy", &Value::Flag(true)),
            ("slices", &Value::Whole(3)),
        ]
    );
    assert_eq!((scenario.run.duration, scenario.run.seed), (Some(Duration::from_secs(10)), 42));
    assert_eq!(scenario.overheads.context_switch, Duration::from_micros(3));
    assert_eq!(scenario.overheads.migration, Duration::from_micros(12));
    assert_eq!(scenario.overheads.decision, Duration::from_micros(2));
    assert_eq!(scenario.overheads.release, Duration::from_micros(1));
}

#[test]
fn vcpus_and_programs_stand_in_the_order_of_the_file() {
    let scenario = read(FULL);
    let [camera, net] = scenario.vcpus.as_slice() else { panic!("{:?}", scenario.vcpus) };
    assert_eq!((camera.name.as_str(), camera.vcpu.id), ("camera", VcpuId(0)));
    assert_eq!((net.name.as_str(), net.vcpu.id), ("net", VcpuId(1)));
    let reservation = Reservation { budget: ms(2), period: ms(10), deadline: ms(8) };
    assert_eq!(camera.vcpu.reservation, reservation);
    assert_eq!(camera.vcpu.arrival, Arrival::Periodic { offset: ms(1) });
    assert_eq!(camera.vcpu.pinned.map(|core| core.0), Some(3));
    assert_eq!((camera.vcpu.colors, camera.vcpu.weight), (5, 7));
    assert_eq!((camera.vcpu.role, net.vcpu.role), (Role::Main, Role::Io));
    assert_eq!(net.vcpu.arrival, Arrival::None);
    assert_eq!((camera.budget_at.line, camera.budget_at.column), (36, 10));

    let [logger, model, packets] = scenario.programs.as_slice() else { panic!() };
    assert_eq!((logger.vcpu, model.vcpu, packets.vcpu), (VcpuId(0), VcpuId(0), VcpuId(1)));
    let command = logger.command.as_ref().expect("the logger has a command");
    assert_eq!(command.argv, ["logger", "-v"]);
    assert_eq!(command.dir.as_deref(), Some(std::path::Path::new("/tmp")));
    assert_eq!(
        command.env.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>(),
        ["HOME=/", "LEVEL=3"]
    );
    assert_eq!(command.output, Output::File("log.txt".into()));
    let second = |n| Instant::ZERO.saturating_add(Duration::from_secs(n));
    assert_eq!((logger.start, logger.stop), (second(1), second(9)));
    assert_eq!((packets.start, packets.stop), (Instant::ZERO, Instant::NEVER));
    assert!(model.command.is_none());
    let packet_work = Workload::EventDriven {
        every: Cost::Exponential(ms(4)),
        cost: Cost::Fixed(Duration::from_micros(200)),
        on_behalf: Some(VcpuId(0)),
    };
    assert_eq!(packets.workload, Some(packet_work));
}

#[test]
fn threads_are_simulated_one_by_one_and_assumptions_are_said() {
    let scenario = read(FULL);
    let programs = scenario.sim_programs();
    let vcpus: Vec<_> = programs.iter().map(|program| program.vcpu.0).collect();
    assert_eq!(vcpus, [0, 0, 0, 1]);
    // The logger has no model of its own, and its VCPU has jobs.
    assert_eq!(programs[0].workload, Workload::Periodic { cost: Cost::Fixed(ms(2)) });
    assert_eq!(programs[0].arrive, Instant::ZERO.saturating_add(Duration::from_secs(1)));
    assert_eq!(programs[1].workload, Workload::Periodic { cost: Cost::Uniform(ms(1), ms(2)) });
    assert_eq!(programs[1], programs[2]);
    assert_eq!(
        scenario.assumptions,
        ["logger has a command and no workload: each of its jobs is simulated as costing the \
          whole budget of camera, 2ms"]
    );
}

#[test]
fn what_is_left_out_has_its_default() {
    let scenario = read(
        "version = 1\n[[program]]\nname = \"a\"\ncommand = [\"true\"]\nbudget = \"2ms\"\n\
         period = \"10ms\"",
    );
    assert_eq!((scenario.platform.cores, scenario.policy.name.as_str()), (None, "maracas"));
    assert_eq!(scenario.policy.params.iter().count(), 0);
    assert_eq!((scenario.run.duration, scenario.run.seed), (None, 1));
    assert_eq!(scenario.overheads, Default::default());
    let expected = maracas_core::Vcpu::new(0, ms(2), ms(10));
    assert_eq!(scenario.vcpus[0].vcpu, expected);
    let program = &scenario.programs[0];
    assert_eq!(program.command.as_ref().map(|it| it.output.clone()), Some(Output::Inherit));
    assert_eq!((program.threads, program.workload), (1, None));
    assert_eq!(scenario.sim_programs()[0].workload, Workload::Busy);
    assert_eq!(
        scenario.assumptions,
        ["a has a command and no workload: it is simulated as always busy"]
    );
    // Without a [policy] table there is no place to point at.
    assert_eq!(scenario.at_policy("why").to_string(), "x.toml: why");
    assert!(scenario.system(2).is_ok_and(|system| system.vcpus == [expected]));
}

#[test]
fn a_workload_with_jobs_gives_its_vcpu_periodic_jobs() {
    for (workload, jobs) in [
        ("{ kind = \"periodic\", cost = \"1ms\" }", true),
        ("{ kind = \"anytime\", mandatory = \"1ms\", optional = \"5ms\" }", true),
        (
            "{ kind = \"run-sleep\", run = \"1ms\", sleep = { uniform = [\"0ms\", \"1ms\"] } }",
            false,
        ),
        ("{ kind = \"busy\" }", false),
    ] {
        let scenario = read(&format!(
            "version = 1\n[[vcpu]]\nname = \"v\"\nbudget = \"2ms\"\nperiod = \"10ms\"\n\
             [[program]]\nname = \"a\"\nvcpu = \"v\"\nworkload = {workload}"
        ));
        let expected =
            if jobs { Arrival::Periodic { offset: Duration::ZERO } } else { Arrival::None };
        assert_eq!(scenario.vcpus[0].vcpu.arrival, expected, "{workload}");
    }
    let sporadic = FULL.replace("\"periodic\"\noffset = \"1ms\"", "\"sporadic\"");
    assert_eq!(read(&sporadic).vcpus[0].vcpu.arrival, Arrival::Sporadic);
}

#[test]
fn what_only_others_can_judge_is_said_at_its_place() {
    let scenario = read(FULL);
    let error = scenario.system(2).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "x.toml:39:8: core 3 does not exist on 2 cores; use 0 to 1");
    for cores in [0, 1025] {
        let error = scenario.system(cores).map(|_| ()).unwrap_err().to_string();
        let expected =
            format!("x.toml:5:9: {cores} cores cannot be managed; from 1 to 1024 may be");
        assert_eq!(error, expected);
    }
    let error = scenario.at_param("background", "must be one of: fair, light");
    let expected = "x.toml:9:14: policy maracas: `background` must be one of: fair, light";
    assert_eq!(error.to_string(), expected);
    assert_eq!(scenario.at_policy("unknown").to_string(), "x.toml:8:8: unknown");
    assert_eq!(scenario.at_vcpu(VcpuId(1), "why").to_string(), "x.toml:48:1: why");
    let program = &scenario.programs[2];
    assert_eq!(scenario.at_program(program, "why").to_string(), "x.toml:54:1: why");
}

/// Whatever is done to a file, it is read or refused at a place that exists.
#[test]
fn damaged_files_never_panic() {
    let chars: Vec<char> = FULL.chars().collect();
    let whole: String = chars.iter().collect();
    let lines = whole.lines().count();
    let (mut read, mut refused) = (0, 0);
    for at in 0..chars.len() {
        let (before, after) = (&chars[..at], &chars[at + 1..]);
        let damage = ["", "\"", "\u{0}", "µ", "[", "=", "\n", "9"];
        let with = damage[at % damage.len()];
        let text: String =
            before.iter().copied().chain(with.chars()).chain(after.iter().copied()).collect();
        match Scenario::parse(&text, "x") {
            Ok(_) => read += 1,
            Err(error) => {
                refused += 1;
                assert!((1..=lines + 1).contains(&error.line) && error.column > 0, "{error:?}");
            }
        }
        let cut: String = before.iter().collect();
        if let Err(error) = Scenario::parse(&cut, "x") {
            assert!((1..=lines + 1).contains(&error.line), "{error:?}");
        }
    }
    assert!(read > 20 && refused > 400, "{read} read, {refused} refused");
}

#[test]
fn how_memory_is_sensed_and_steered_live() {
    let with = |live: &str| {
        let program = "[[vcpu]]\nname = \"a\"\nbudget = \"1ms\"\nperiod = \"9ms\"\n";
        let platform = "[platform]\npreset = \"i5-2500k\"\nways = [3, 3, 3, 3]\n";
        let text = format!("version = 1\n{platform}{live}{program}");
        let read = Scenario::parse(&text, "some/where/x.toml");
        read.unwrap_or_else(|error| panic!("{error}"))
    };
    let silent = with("").live;
    assert_eq!(silent, Live::default());
    assert_eq!((silent.sense, silent.cache), (Sense::Auto, CacheSplit::Whole));
    let sense = |word: &str| with(&format!("[live]\nsense = \"{word}\"\n")).live.sense;
    assert_eq!((sense("auto"), sense("off")), (Sense::Auto, Sense::Off));
    for sensor in SensorKind::tried().chain([SensorKind::Faults]) {
        assert_eq!(sense(sensor.word()), Sense::Sensor(sensor));
    }
    let replayed = |path: &str| Sense::Replay(path.into());
    assert_eq!(sense("replay:e.csv"), replayed("some/where/e.csv"), "beside the scenario");
    assert_eq!(sense("replay:../e.csv"), replayed("some/where/../e.csv"));
    assert_eq!(sense("replay:/e.csv"), replayed("/e.csv"));
    let scenario = with("[live]\nthrottle_by = \"mba\"\ncache = \"ways\"\n");
    assert_eq!(scenario.live.throttle_by, ThrottleBy::Mba);
    assert_eq!(scenario.live.cache, CacheSplit::Ways);
    let places = [scenario.at_sense("x"), scenario.at_throttle_by("x"), scenario.at_cache("x")];
    let places = places.map(|error| error.to_string());
    let there = |line: &str| format!("some/where/x.toml:{line}: x");
    assert_eq!(places, ["5:1", "6:15", "7:9"].map(there));
}
