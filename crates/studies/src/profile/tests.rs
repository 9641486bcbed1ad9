//! From counts to what `check --machine live` says: the counts are those that a program of a known
//! model would leave.

use super::model::{Hits, Machine};
use super::{Profiled, model, phases, text};
use maracas_live::profile::Slice;
use maracas_session::case::{Case, Machine as On, Overrides};
use maracas_sim::jobs::{Answer, Judged};
use std::path::Path;
use std::time::Duration;

/// The program: time between references while all hit, misses per reference, misses under way at
/// once, instructions per reference.
const THINK_NS: f64 = 5.0;
const MISSES: f64 = 0.5;
const OUTSTANDING: f64 = 4.0;
const INSTRUCTIONS: f64 = 20.0;
/// The host on which it was counted: how long a read took, and what it counts cycles by.
const LATENCY_NS: f64 = 90.0;
const CYCLES_PER_NS: f64 = 3.0;
/// Of which its set is four times as large as the last-level cache of the platform below.
const CACHE: u64 = 6 << 20;
const WORKING_SET: u64 = 12 << 20;

/// What 100 ms of it leave in the counters; `turn` says whether occupancy or cycles were counted,
/// which take turns.
fn counted(turn: usize) -> Slice {
    let service_ns = 1e8;
    let waits = MISSES * LATENCY_NS / OUTSTANDING;
    let references = service_ns / (THINK_NS + waits);
    let waiting = references * waits * CYCLES_PER_NS;
    let odd = turn % 2 == 1;
    Slice {
        service: Duration::from_nanos(service_ns as u64),
        instructions: Some((references * INSTRUCTIONS) as u64),
        references: Some(references as u64),
        reads: Some((references * MISSES) as u64),
        waiting: Some(waiting as u64),
        occupancy: odd.then_some((waiting * OUTSTANDING) as u64),
        cycles: (!odd).then_some((service_ns * CYCLES_PER_NS) as u64),
        nearer: None,
    }
}

fn profiled() -> Profiled {
    let slices: Vec<Slice> = (0..40).map(counted).collect();
    let divided = phases::divide(&slices);
    let hits = Hits::default();
    let machine = Machine { latency_ns: Some(LATENCY_NS), cache_bytes: Some(CACHE), hits };
    let model = |phase| model::model(phase, &machine, Some(WORKING_SET), &[]);
    Profiled {
        program: "./mine".into(),
        host: "a host of counts made up".into(),
        service: slices.iter().map(|slice| slice.service).sum(),
        own_latency_ns: None,
        phases: divided.cycle.iter().filter_map(model).collect(),
        working_set: Some(WORKING_SET),
        loads: Vec::new(),
        remarks: Vec::new(),
    }
}

/// The program of `model` beside one that floods the memory.
fn scenario(model: &str) -> String {
    let program = |name: &str, core: u32, memory: &str| {
        format!(
            "[[program]]\nname = \"{name}\"\ncommand = [\"true\"]\nbudget = \"3ms\"\n\
             period = \"20ms\"\ncore = {core}\nmemory = \"{memory}\"\n\
             workload = {{ kind = \"periodic\", cost = \"2900us\" }}\n"
        )
    };
    format!(
        "version = 1\n[platform]\npreset = \"i5-2500k\"\ncores = 2\n[policy]\nname = \
         \"maracas\"\n{}{}",
        program("a", 0, model),
        program("b", 1, "lbm")
    )
}

/// What is said of the jobs of `a`; `None` where this host cannot be asked.
fn judged(folder: &Path, model: &str, on: On) -> Option<(Judged, Vec<String>)> {
    let file = folder.join(format!("{model}.scenario.toml"));
    std::fs::write(&file, scenario(model)).expect("the scenario is written");
    let case = Case::read(&file, on, &Overrides::default());
    let case = match case {
        Ok(case) => case,
        Err(why) if on == On::Live => {
            eprintln!("skipped: needs a host that can run it: {why:?}");
            return None;
        }
        Err(why) => panic!("{why:?}"),
    };
    let one = case.jobs.iter().find(|one| case.name(one.vcpu) == "a").cloned();
    Some((one?, case.assumptions().to_vec()))
}

#[test]
fn counters_become_a_model_by_which_a_live_check_judges() {
    let folder = std::env::temp_dir().join(format!("maracas-counted-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    let written = text::toml(&profiled());
    std::fs::write(folder.join("counted.toml"), &written).expect("the model is written");
    // The same program as someone who knows it would write it.
    let known = format!(
        "pattern = \"rand\"\nwritebacks = 0\nworking_set = \"12MiB\"\n\
         instructions = {INSTRUCTIONS}\nthink = \"{THINK_NS}ns\"\noutstanding = {OUTSTANDING}\n\
         reuse = \"random\"\n"
    );
    std::fs::write(folder.join("known.toml"), known).expect("the model is written");
    let sim = |model| judged(&folder, model, On::Sim).expect("the simulator judges it").0;
    let (counted, known) = (sim("counted.toml"), sim("known.toml"));
    let live = judged(&folder, "counted.toml", On::Live);
    std::fs::remove_dir_all(&folder).expect("it is there");
    assert!(written.contains("reuse = \"random\""), "{written}");
    let ratio = counted.needs.ticks() as f64 / known.needs.ticks() as f64;
    assert!((ratio - 1.0).abs() < 0.01, "{counted:?} {known:?} of {written}");
    assert!(counted.needs.ticks() > counted.alone.ticks() * 5 / 4, "nothing slows it: {counted:?}");
    assert_ne!(counted.answer, Answer::InTime);
    let Some((live, notes)) = live else { return };
    assert_eq!((live.needs, live.answer), (counted.needs, Answer::MayBeLate));
    let missing = "a: not measured in its model: pattern, writebacks";
    assert!(notes.iter().any(|note| note.contains(missing)), "{notes:?}");
}
