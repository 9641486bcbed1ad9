//! What a scenario says of memory is read as.

use maracas_core::memory::{CachePart, Device, MemoryUse, Partition, Pattern, Profile, Reuse};
use maracas_core::params::Value;
use maracas_core::{Criticality, Duration, System};
use maracas_scenario::mix::{Mix, pattern, pattern_word};
use maracas_scenario::{Scenario, presets};
use std::num::NonZero;

fn read(text: &str) -> Scenario {
    Scenario::parse(text, "x.toml").unwrap_or_else(|error| panic!("{error}"))
}

/// A scenario of programs on the paper's machine, the keys of `[platform]` first.
fn on_i5(platform: &str, programs: &str) -> Scenario {
    read(&format!("version = 1\n[platform]\npreset = \"i5-2500k\"\n{platform}\n{programs}"))
}

fn program(name: &str, keys: &str) -> String {
    format!(
        "[[program]]\nname = \"{name}\"\nbudget = \"2ms\"\nperiod = \"10ms\"\n\
         workload = {{ kind = \"busy\" }}\n{keys}\n"
    )
}

/// What `memory = ...` is read as.
fn memory(value: &str) -> Profile {
    let scenario = on_i5("", &program("a", &format!("memory = {value}")));
    let memory = scenario.sim_memory().expect("the platform has memory");
    memory.programs[0].clone().expect("the program uses it")
}

#[test]
fn the_papers_machine_has_its_table_of_constants() {
    let scenario = on_i5("", &program("a", ""));
    let memory = scenario.sim_memory().expect("the preset has memory");
    let dram = memory.dram;
    assert_eq!((dram.clock_ps, dram.cas, dram.activate, dram.precharge), (1500, 9, 9, 9));
    assert_eq!((dram.channels, dram.ranks, dram.banks), (1, 2, 8));
    assert_eq!(dram.conflict_latency_ps, NonZero::new(29_200));
    assert_eq!(dram.conflict_service_ps, NonZero::new(12_900));
    assert_eq!(memory.cycles_per_us, 3300);
    let cache = memory.cache.expect("the preset has a cache");
    assert_eq!((cache.bytes, cache.ways, cache.slices, cache.colors), (6 << 20, 12, 4, 32));
    assert_eq!(cache.lines_per_color() * 64, 192 << 10);
    assert_eq!((scenario.platform.cores, memory.programs), (Some(4), vec![None]));
    // Its datasheet twin has no fitted constant.
    let plain = presets::platform("ddr3-1333").and_then(|it| it.memory).expect("a preset");
    assert_eq!((plain.dram.conflict_latency_ps, plain.cache), (None, None));
    assert_eq!(plain.dram.row_cycle_ps(), dram.row_cycle_ps());
}

/// By core, one bit a colour or way of its own.
fn masks(system: &System) -> Vec<u64> {
    system.cores.iter().map(|core| core.colors.map_or(0, CachePart::get)).collect()
}

#[test]
fn colors_lie_one_beside_the_other() {
    let scenario = on_i5("colors = [4, 4, 10, 14]", &program("a", "colors = 14"));
    let own = masks(&scenario.system(4).expect("four cores"));
    assert_eq!(own, [0xf, 0xf0, 0x3ff00, 0xfffc_0000]);
    let error = scenario.system(2).map(|_| ()).unwrap_err().to_string();
    let expected =
        "x.toml:4:10: 4 cores are given colours and there are 2; list one number for each";
    assert_eq!(error, expected);

    let scenario = on_i5("ways = [1, 2, 4, 5]", &program("a", ""));
    let memory = scenario.sim_memory().expect("the preset has memory");
    let own = masks(&scenario.system(4).expect("four cores"));
    assert_eq!((memory.partition, own), (Partition::Ways, vec![1, 6, 0x78, 0xf80]));

    let shared = on_i5("", &program("a", "")).system(4).expect("four cores");
    assert!(shared.cores.iter().all(|core| core.colors.is_none()));
}

#[test]
fn two_caches_have_colors_of_their_own() {
    let scenario = read(&format!(
        "version = 1\n[platform]\npreset = \"core2-ddr2-800\"\ncolors = [60, 4, 32, 32]\n{}",
        program("a", "")
    ));
    let system = scenario.system(4).expect("four cores");
    let own = masks(&system);
    let counts: Vec<_> = own.iter().map(|mask| mask.count_ones()).collect();
    assert_eq!(counts, [60, 4, 32, 32]);
    assert_eq!((own[0] & own[1], own[2]), (0, (1 << 32) - 1));
}

#[test]
fn a_platform_of_ones_own_and_a_preset_changed() {
    let dram = "tck = \"1.25ns\"\ncl = 11\ntrcd = 11\ntrp = 11\ntras = 28\ntrfc = 208\n\
                trefi = 6240\ntwr = 12\ntwtr = 6\ncwl = 8\n";
    let own = read(&format!(
        "version = 1\n[platform]\nmhz = 2000\n[platform.dram]\n{dram}[platform.cache]\n\
         size = \"8MiB\"\nways = 16\nslices = 4\n{}",
        program("a", "")
    ));
    let memory = own.sim_memory().expect("it has memory");
    let shape = (memory.dram.channels, memory.dram.banks, memory.dram.burst_transfers);
    assert_eq!((shape, memory.dram.conflict_latency_ps), ((1, 8, 8), None));
    assert_eq!(memory.cache.map(|cache| cache.colors), Some(32));
    assert_eq!(own.platform.cores, None);

    let changed = on_i5(
        "cores = 2\nmhz = 2500\n[platform.dram]\nchannels = 2\n[platform.cache]\ncolors = 16",
        &program("a", ""),
    );
    let memory = changed.sim_memory().expect("it has memory");
    assert_eq!((memory.dram.channels, memory.dram.cas, memory.cycles_per_us), (2, 9, 2500));
    assert_eq!(memory.cache.map(|cache| (cache.colors, cache.ways)), Some((16, 12)));
    assert_eq!(changed.platform.cores, Some(2));
}

#[test]
fn models_are_read_and_changed() {
    let jump = memory("\"m_jump\"");
    let expected = MemoryUse {
        pattern: Pattern::Jump,
        instructions_milli: 10_500,
        think_ps: 0,
        outstanding_milli: 1000,
        writebacks_milli: 1000,
        working_set: 6 << 20,
        reuse: Reuse::Stream,
    };
    assert_eq!(jump, Profile::steady(expected.clone()));
    let slow = memory("{ model = \"m_jump\", delay = \"71ns\" }");
    assert_eq!(slow, Profile::steady(MemoryUse { think_ps: 71_000, ..expected }));
    let small = memory("{ model = \"mwalk\", working_set = \"0.5MiB\", delay = \"0.25ns\" }");
    assert_eq!(small.phases[0].1.working_set, 512 << 10);
    assert_eq!(small.phases[0].1.think_ps, 12_250);
    assert_eq!(small.phases[0].1.reuse, Reuse::Random);
}

#[test]
fn a_model_s_file_is_read_from_beside_the_scenario() {
    let folder = std::env::temp_dir().join(format!("maracas-models-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    let file = folder.join("scenario.toml").display().to_string();
    let read = |model: &str| {
        std::fs::write(folder.join("mine.toml"), model).expect("the model is written");
        let program = program("a", "memory = { model = \"mine.toml\", outstanding = 3 }");
        Scenario::parse(
            &format!("version = 1\n[platform]\npreset = \"i5-2500k\"\n{program}"),
            &file,
        )
    };
    let good = read("model = \"mwalk\"\nworking_set = \"2MiB\"\n").expect("it is read");
    let memory = good.sim_memory().expect("the platform has memory");
    let own = memory.programs[0].clone().expect("it uses memory").phases[0].1.clone();
    assert_eq!((own.working_set, own.outstanding_milli, own.reuse), (2 << 20, 3000, Reuse::Random));
    // What is wrong in it is reported at its place, and no file names a second one.
    let error = read("pattern = \"rand\"\nthink = 3\n").expect_err("a think time has a unit");
    assert!(error.to_string().contains("mine.toml:2:9: "), "{error}");
    let error =
        read("phases = [{ run = \"1ms\", model = \"mine.toml\" }]\n").expect_err("a circle");
    assert!(error.to_string().contains("mine.toml:1:34: a model in a file"), "{error}");
    std::fs::remove_dir_all(&folder).expect("nothing else is in it");
}

#[test]
fn a_use_of_ones_own_has_phases_over_what_stands_around_them() {
    let profile = memory(
        "{ pattern = \"rand\", instructions = 25, think = \"9.5ns\", outstanding = 2.5, \
         curve = [[\"64KiB\", 0.9], [\"1MiB\", 0.05]], phases = [{ run = \"30ms\" }, \
         { run = \"10ms\", delay = \"1ns\", pattern = \"seq\" }, \
         { run = \"1ms\", model = \"hog\" }] }",
    );
    let runs: Vec<_> = profile.phases.iter().map(|(run, _)| *run).collect();
    assert_eq!(runs, [30, 10, 1].map(Duration::from_millis));
    let [first, second, third] = [0, 1, 2].map(|phase: usize| &profile.phases[phase].1);
    assert_eq!(first.reuse, Reuse::Curve(vec![(64 << 10, 900_000), (1 << 20, 50_000)]));
    assert_eq!((first.working_set, first.outstanding_milli), (1 << 20, 2500));
    assert_eq!((first.think_ps, second.think_ps), (9_500, 10_500));
    assert_eq!((first.pattern, second.pattern), (Pattern::Random, Pattern::Sequential));
    assert_eq!((third.working_set, &third.reuse), (2 << 20, &Reuse::Cyclic));
    assert_eq!(profile.pages(), (2 << 20) / 4096);
}

#[test]
fn threads_stand_side_by_side_in_programs_and_memory() {
    let text = program("a", "memory = \"hog\"\nthreads = 3") + &program("b", "");
    let scenario = on_i5("", &text);
    let memory = scenario.sim_memory().expect("the preset has memory");
    assert_eq!(memory.programs.len(), scenario.sim_programs().len());
    let uses: Vec<_> = memory.programs.iter().map(Option::is_some).collect();
    assert_eq!(uses, [true, true, true, false]);
    assert_eq!(scenario.assumptions, ["b has no `memory`: simulated as touching none"]);
    assert_eq!(read(&format!("version = 1\n{}", program("a", ""))).sim_memory(), None);
}

#[test]
fn devices_bandwidths_costs_and_lists_are_read() {
    let scenario = on_i5(
        "",
        &format!(
            "[policy]\nbandwidth = [\"1GB/s\", \"200MB/s\"]\nweights = [1, 2, 4.5]\n[overheads]\n\
             sample = \"2us\"\nlock = \"1us\"\nstructure = \"5us\"\npage_copy = \"700ns\"\n\
             [[device]]\nname = \"net\"\npattern = \"seq\"\nbandwidth = \"1.28GB/s\"\n\
             writes = 0.5\non = \"1ms\"\noff = \"3ms\"\n{}",
            program("a", "bandwidth = \"1MiB/s\"\ncriticality = \"low\"")
        ),
    );
    let params: Vec<_> = scenario.policy.params.iter().collect();
    let text = |text: &str| Value::Text(text.into());
    let expected = [("bandwidth", &text("1GB/s, 200MB/s")), ("weights", &text("1, 2, 4.5"))];
    assert_eq!(params, expected);
    let device = Device {
        name: "net".into(),
        pattern: Pattern::Sequential,
        reads_per_s: 20_000_000,
        writes_milli: 500,
        outstanding_milli: 1000,
        on: Duration::from_millis(1),
        off: Duration::from_millis(3),
    };
    assert_eq!(scenario.sim_memory().map(|memory| memory.devices), Some(vec![device]));
    let overheads = scenario.overheads;
    let costs = [overheads.sample, overheads.lock, overheads.structure, overheads.page_copy];
    assert_eq!(costs, [2000, 1000, 5000, 700].map(Duration::from_nanos));
    let vcpu = &scenario.vcpus[0].vcpu;
    assert_eq!((vcpu.bandwidth, vcpu.criticality), (NonZero::new(1 << 20), Criticality::Low));
}

#[test]
fn mixes_are_read_in_the_same_words() {
    let mix = Mix::parse(
        "[platform]\npreset = \"ddr3-1333\"\n[[requestor]]\npattern = \"jump\"\n\
         outstanding = 2\nthink = \"3.1ns\"\n[[requestor]]\n\
         pattern = \"bank1\"\nwritebacks = 0.5\n",
        "x",
    );
    let mix = mix.unwrap_or_else(|error| panic!("{error}"));
    let [first, second] = mix.requestors.as_slice() else { panic!("{mix:?}") };
    assert_eq!((first.think_ps, first.outstanding_milli), (3_100, 2_000));
    assert_eq!((second.think_ps, second.writebacks_milli), (0, 500));
    assert_eq!((first.pattern, second.pattern), (Pattern::Jump, Pattern::SameBank));
    for (word, known) in [("jumpr", Pattern::JumpRandom), ("bankp", Pattern::PrivateBank)] {
        assert_eq!((pattern(word), pattern_word(known)), (Ok(known), word));
    }
    assert_eq!(pattern("jmp"), Err("did you mean `jump`?".into()));
}

/// Whatever is done to a file, it is read or refused at a place that exists, and what was read can
/// be simulated.
#[test]
fn damaged_files_never_panic() {
    const WHOLE: &str = r#"version = 1
[platform]
cores = 2
mhz = 2000
ways = [2, 14]
[platform.dram]
tck = "1.25ns"
cl = 11
trcd = 11
trp = 11
tras = 28
trfc = 208
trefi = 6240
twr = 12
twtr = 6
cwl = 8
[platform.cache]
size = "8MiB"
ways = 16
slices = 4
[policy]
weights = [1, "2", 4.5]
[[device]]
name = "net"
pattern = "seq"
bandwidth = "1.5GB/s"
on = "1ms"
off = "2ms"
[[program]]
name = "a"
budget = "2ms"
period = "10ms"
colors = 14
bandwidth = "1MB/s"
workload = { kind = "busy" }
[program.memory]
model = "mwalk"
delay = "0.5ns"
outstanding = 2.5
curve = [["64KiB", 0.9], ["1MiB", 0.05]]
phases = [{ run = "30ms" }, { run = "1ms", model = "hog" }]
"#;
    let chars: Vec<char> = WHOLE.chars().collect();
    let lines = WHOLE.lines().count();
    let (mut good, mut refused) = (0, 0);
    for at in 0..chars.len() {
        for with in ["", "\"", "-", "0", "[", "9", "."] {
            let (before, after) = (chars[..at].iter(), chars[at + 1..].iter());
            let text: String = before.copied().chain(with.chars()).chain(after.copied()).collect();
            match Scenario::parse(&text, "x") {
                Ok(scenario) => {
                    good += 1;
                    let cores = scenario.platform.cores.unwrap_or(1);
                    let masks = scenario.system(cores).map(|system| system.cores);
                    assert!(masks.is_ok() && scenario.sim_memory().is_some(), "{masks:?}\n{text}");
                }
                Err(error) => {
                    refused += 1;
                    assert!((1..=lines + 1).contains(&error.line), "{error:?}");
                }
            }
        }
    }
    assert!(good > 300 && refused > 3000, "{good} read, {refused} refused");
}
