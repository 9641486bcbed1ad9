//! Cores of uneven speed, paces and VCPUs without a budget, as scenarios are read.

use maracas_core::{Arrival, CoreId, Duration, PacePhase, Reservation, Workload};
use maracas_scenario::{Scenario, presets};
use std::num::NonZero;

fn read(text: &str) -> Scenario {
    Scenario::parse(text, "x.toml").unwrap_or_else(|error| panic!("{error}"))
}

const FULL: &str = r#"
version = 1

[[platform.class]]
name = "fast"
cores = 1
speed = 1
[[platform.class]]
name = "medium"
cores = 2
speed = 0.75
[[platform.class]]
name = "slow"
cores = 3
speed = 0.125

[[program]]
name = "control"
budget = "2ms"
period = "10ms"
class = "slow"
speedup = 2.125
workload = { kind = "busy" }
pace = { slow = "0.5k", fast = 2000, medium = "1.5 k" }

[[vcpu]]
name = "guests"
weight = 3
core = 5

[[program]]
name = "guest"
vcpu = "guests"
threads = 2
workload = { kind = "run-sleep", run = "1ms", sleep = "1ms" }
pace = [
    { work = "3s", fast = "2G", medium = "2G", slow = "2G" },
    { work = "1500ms", fast = "8M", medium = "6M", slow = "1M" },
]

[[program]]
name = "plain"
command = ["./plain"]
"#;

#[test]
fn classes_and_paces_are_read() {
    let scenario = read(FULL);
    assert_eq!(scenario.platform.cores, Some(6));
    let classes = &scenario.platform.classes;
    let seen: Vec<_> = classes.iter().map(|it| (it.name.as_str(), it.cores, it.speed())).collect();
    assert_eq!(seen, [("fast", 1, 1.0), ("medium", 2, 0.75), ("slow", 3, 0.125)]);

    let system = scenario.system(6).expect("six cores");
    let of_core: Vec<_> = system.cores.iter().map(|core| core.class).collect();
    assert_eq!(of_core, [0, 1, 1, 2, 2, 2]);
    let speeds: Vec<_> = system.classes.iter().map(|class| class.speed_milli).collect();
    assert_eq!(speeds, [1000, 750, 125]);
    let error = scenario.system(4).expect_err("the classes have six cores").to_string();
    assert_eq!(
        error,
        "x.toml:4:3: the classes of [platform] have 6 cores and 4 are to be managed; make these \
         the same"
    );

    let paces = scenario.sim_paces();
    assert_eq!(paces.len(), 4, "one for each thread");
    let steady = PacePhase { work: Duration::MAX, ips: vec![2000, 1500, 500] };
    assert_eq!(paces[0].as_ref().map(|pace| pace.phases.clone()), Some(vec![steady]));
    let second =
        PacePhase { work: Duration::from_millis(1500), ips: vec![8_000_000, 6_000_000, 1_000_000] };
    assert_eq!(paces[1].as_ref().map(|pace| &pace.phases[1]), Some(&second));
    assert_eq!(paces[2], paces[1]);
    assert_eq!(paces[3], None);
}

#[test]
fn a_vcpu_without_a_budget_is_promised_nothing() {
    let scenario = read(FULL);
    let [control, guests, plain] = scenario.vcpus.as_slice() else { panic!("three VCPUs") };
    assert_eq!((control.vcpu.class, control.vcpu.speedup_milli), (Some(2), NonZero::new(2125)));
    assert_eq!(control.class_at.map(|at| (at.line, at.column)), Some((21, 9)));
    assert!(!control.vcpu.reservation.is_none());

    for spec in [guests, plain] {
        assert!(spec.vcpu.reservation.is_none(), "{}", spec.name);
        let nothing = Reservation::NONE;
        assert_eq!((spec.vcpu.reservation, spec.vcpu.arrival), (nothing, Arrival::None));
        assert_eq!((spec.vcpu.class, spec.vcpu.speedup_milli), (None, None));
        assert_eq!((spec.budget_at, spec.period_at), (spec.at, spec.at));
    }
    assert_eq!((guests.vcpu.weight, guests.vcpu.pinned), (3, Some(CoreId(5))));
    assert_eq!(scenario.sim_programs()[3].workload, Workload::Busy);
    assert_eq!(
        scenario.assumptions,
        ["plain has a command and no workload: it is simulated as always busy"]
    );
}

const NAMED: &str = r#"
version = 1
[platform]
preset = "odroid-xu3-lite"
[[program]]
name = "a"
workload = { kind = "busy" }
pace = "stream"
"#;

#[test]
fn a_pace_by_name_is_that_of_the_platform() {
    let scenario = read(NAMED);
    assert_eq!(scenario.platform.preset, Some("odroid-xu3-lite"));
    assert_eq!(scenario.programs[0].pace, presets::pace("stream", "odroid-xu3-lite"));
    let other = read(&NAMED.replace("odroid-xu3-lite", "phenom-ii-x6"));
    assert_ne!(other.programs[0].pace, scenario.programs[0].pace);
    // More cores of the same classes, slower ones perhaps: the paces hold there too.
    let more = "preset = \"odroid-xu3-lite\"\n[[platform.class]]\nname = \"big\"\ncores = 2\n\
                speed = 1\n[[platform.class]]\nname = \"LITTLE\"\ncores = 6\nspeed = 0.2\n";
    let more = read(&NAMED.replace("preset = \"odroid-xu3-lite\"\n", more));
    assert_eq!(more.programs[0].pace, scenario.programs[0].pace);
    assert_eq!(more.platform.cores, Some(8));
}

#[test]
fn a_platform_with_memory_may_have_classes() {
    let text = "version = 1\n[platform]\npreset = \"i5-2500k\"\ncores = 5\n\
                [[platform.class]]\nname = \"a\"\ncores = 1\nspeed = 1\n\
                [[platform.class]]\nname = \"b\"\ncores = 4\nspeed = 0.5\n\
                [[program]]\nname = \"p\"\nworkload = { kind = \"busy\" }\nmemory = \"m_jump\"\n";
    let scenario = read(text);
    let system = scenario.system(5).expect("five cores");
    assert!(!system.is_even());
    assert!(scenario.sim_memory().is_some_and(|memory| memory.programs[0].is_some()));
    // One class alone is a name for equal cores.
    let one = "version = 1\n[[platform.class]]\nname = \"core\"\ncores = 2\nspeed = 1\n\
               [[program]]\nname = \"p\"\nworkload = { kind = \"busy\" }\npace = { core = 7 }\n";
    let one = read(one);
    assert!(one.system(2).expect("two cores").is_even());
    assert_eq!(one.programs[0].pace.as_ref().map(|pace| pace.phases[0].ips.clone()), Some(vec![7]));
}

/// What [`maracas_core::Class`] and [`maracas_core::PacePhase`] say of speeds and paces.
fn hold_to_the_model(scenario: &Scenario) {
    let cores = scenario.platform.cores.unwrap_or(1);
    let Ok(system) = scenario.system(cores) else { return };
    let speeds: Vec<_> = system.classes.iter().map(|class| u64::from(class.speed_milli)).collect();
    assert_eq!(speeds[0], 1000);
    assert!(speeds.windows(2).all(|pair| pair[0] > pair[1] && pair[1] > 0), "{speeds:?}");
    for pace in scenario.sim_paces().into_iter().flatten() {
        assert!(!pace.phases.is_empty());
        for phase in pace.phases {
            assert!(!phase.work.is_zero() && phase.ips.len() == speeds.len());
            for (ips, speeds) in phase.ips.windows(2).zip(speeds.windows(2)) {
                assert!(0 < ips[1] && ips[1] <= ips[0], "{ips:?}");
                assert!(ips[1] * speeds[0] >= ips[0] * speeds[1], "{ips:?} {speeds:?}");
            }
        }
    }
}

#[test]
fn whatever_is_read_is_as_the_model_says() {
    let chars: Vec<char> = FULL.chars().collect();
    let (mut read_well, mut refused) = (0, 0);
    let damage = ["", "0", "9", ".", "-", "s"];
    for at in 0..chars.len() {
        let (before, after) = (&chars[..at], &chars[at + 1..]);
        let with = damage[at % damage.len()];
        let damaged: String =
            before.iter().copied().chain(with.chars()).chain(after.iter().copied()).collect();
        match Scenario::parse(&damaged, "x") {
            Ok(scenario) => {
                hold_to_the_model(&scenario);
                read_well += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(read_well > 50 && refused > 300, "{read_well} read, {refused} refused");
    for platform in presets::platforms() {
        for name in presets::paces() {
            let text = NAMED.replace("odroid-xu3-lite", platform).replace("stream", name);
            if let Ok(scenario) = Scenario::parse(&text, "x") {
                hold_to_the_model(&scenario);
            }
        }
    }
}
