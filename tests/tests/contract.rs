//! For every policy, on random systems, under any lateness, with hidden wakes and with extra
//! questions: the audit holds, and what its entry claims is true.

use maracas_core::contract::{Claims, Entry, Mode, Observer};
use maracas_core::{
    Arrival, Cost, Duration, Event, Instant, Plan, Program, Role, System, Vcpu, Workload,
};
use maracas_policies::ENTRIES;
use maracas_sim::{Options, run};
use maracas_tests::contract::{PARTS, holds};
use maracas_tests::{Case, Kind, Mix, RandomSystem, Swarm, build, check, generate};

/// Holds every policy to a part of the contract; fails with the case.
fn part(name: &str) {
    let part = PARTS.iter().find(|part| part.name == name).expect("there is such a part");
    for entry in ENTRIES {
        holds(entry, part, part.seeds).unwrap_or_else(|why| panic!("{why}"));
    }
}

#[test]
fn claims_hold_on_time() {
    part("on time");
}

#[test]
fn invariants_hold_under_lateness() {
    part("late");
}

#[test]
fn invariants_hold_with_hidden_wakes() {
    part("with hidden wakes");
}

#[test]
fn invariants_hold_with_everything_charged() {
    part("with everything charged");
}

#[test]
fn asking_again_changes_nothing() {
    part("asked again");
}

/// Foreground service by VCPU and own period.
struct Delivered(Vec<Vec<Duration>>, Vec<Duration>);

impl Observer for Delivered {
    fn event(&mut self, _: Instant, event: &Event) {
        let Event::Ran(segment) = event else { return };
        if segment.mode == Mode::Background {
            return;
        }
        let (periods, t) = (&mut self.0[segment.vcpu.0 as usize], self.1[segment.vcpu.0 as usize]);
        let (mut from, to) = (segment.from.ticks(), segment.to.ticks());
        while from < to {
            let period = from / t.ticks();
            let end = to.min((period + 1) * t.ticks());
            periods.resize(periods.len().max(period as usize + 1), Duration::ZERO);
            periods[period as usize] += Duration::from_ticks(end - from);
            from = end;
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

/// algorithms.md F.5: an admitted VCPU that never blocks receives its budget in each of its own
/// periods; by F.4 not more than that either.
#[test]
fn maracas_delivers_every_budget_in_every_period() {
    let entry = maracas_policies::find("maracas").expect("maracas is registered");
    let mut accepted = 0;
    for seed in 0..200 {
        let mut random = generate(seed, Mix::programs(65));
        for vcpu in &mut random.system.vcpus {
            (vcpu.arrival, vcpu.role) = (Arrival::None, Role::Main);
        }
        for program in &mut random.programs {
            program.workload = Workload::Busy;
        }
        let Some(mut policy) = build(entry, &random) else { continue };
        let RandomSystem { system, programs } = &random;
        let count = system.vcpus.iter().map(|vcpu| vcpu.id.0 as usize + 1).max().unwrap_or(0);
        let mut periods = vec![Duration::from_ticks(1); count];
        for vcpu in &system.vcpus {
            periods[vcpu.id.0 as usize] = vcpu.reservation.period;
        }
        let longest = periods.iter().copied().max().unwrap_or(Duration::ZERO);
        let options = Options::new(Instant::ZERO + longest * 20);
        let mut delivered = Delivered(vec![Vec::new(); count], periods);
        let outcome = run(system, programs, &mut *policy, &options, &mut delivered);
        for vcpu in &system.vcpus {
            let (budget, period) = (vcpu.reservation.budget, vcpu.reservation.period);
            let whole = ((outcome.end - Instant::ZERO).ticks() / period.ticks()) as usize;
            let got = &delivered.0[vcpu.id.0 as usize][..whole];
            assert!(got.iter().all(|got| *got == budget), "{seed}: {vcpu:?} got {got:?}");
        }
        accepted += 1;
    }
    assert!(accepted >= 50, "maracas accepted only {accepted} of 200 systems");
}

/// Every three tasks with periods of 2, 3 and 4 ticks, on two cores, for two hyperperiods.
#[test]
fn small_systems_all_of_them() {
    let kinds: Vec<(u64, u64)> =
        (2..=4).flat_map(|period| (1..=period).map(move |budget| (budget, period))).collect();
    for entry in ENTRIES {
        let (mut accepted, mut systems) = (0, 0);
        for a in &kinds {
            for b in &kinds {
                for c in &kinds {
                    let mut case = Case::new(entry, three(&[*a, *b, *c]), 0);
                    case.until = Instant::from_ticks(24);
                    systems += 1;
                    match check(&case) {
                        Ok(outcome) => accepted += u64::from(outcome.is_some()),
                        Err(why) => panic!("{why}\n{case}"),
                    }
                }
            }
        }
        assert!(accepted > systems / 10, "{} accepted {accepted} of {systems}", entry.name);
    }
}

fn three(tasks: &[(u64, u64)]) -> RandomSystem {
    let ticks = Duration::from_ticks;
    let vcpus: Vec<_> = (0..)
        .zip(tasks)
        .map(|(id, (budget, period))| Vcpu::new(id, ticks(*budget), ticks(*period)).periodic())
        .collect();
    let programs = vcpus.iter().map(|vcpu| {
        let cost = Cost::Fixed(vcpu.reservation.budget);
        Program::new(vcpu.id, Workload::Periodic { cost })
    });
    RandomSystem { programs: programs.collect(), system: System::new(2, vcpus) }
}

/// The tests above would be worth nothing if they could not fail.
#[test]
fn false_claims_are_found() {
    let lying = |claims| -> &'static Entry {
        let honest = maracas_policies::find("g-edf").expect("g-edf is registered");
        Box::leak(Box::new(Entry { claims, ..*honest }))
    };
    let found = |claims, word: &str| {
        let entry = lying(claims);
        let cases = (0..200).map(|seed| Case::new(entry, generate(seed, Mix::tasks(95)), seed));
        let wrongs = cases.filter_map(|case| check(&case).err());
        let mut wrongs = wrongs.filter(|why| why.contains(word));
        assert!(wrongs.next().is_some(), "not noticed: {claims:?}");
    };
    found(Claims { partitioned: true, ..Claims::default() }, "changed core");
    found(Claims { no_miss_when_admitted: true, ..Claims::default() }, "deadlines missed");
    // As if every core had to be busy whenever anything waits anywhere.
    let partitioned = maracas_policies::find("p-edf").expect("p-edf is registered");
    let claims = Claims { work_conserving: true, ..Claims::default() };
    let entry: &'static Entry = Box::leak(Box::new(Entry { claims, ..*partitioned }));
    let cases = (0..200).map(|seed| Case::new(entry, generate(seed, Mix::tasks(90)), seed));
    let mut wrongs = cases.filter_map(|case| check(&case).err());
    assert!(wrongs.any(|why| why.contains("waits at")), "idle cores went unnoticed");
}

#[test]
fn the_swarm_finds_nothing() {
    for (kind, seeds) in
        [(Kind::Programs, 400), (Kind::Heavy, 150), (Kind::Churn, 300), (Kind::Jobs, 600)]
    {
        let swarm = Swarm { kind: Some(kind), policy: None };
        let failure = (0..seeds).find_map(|seed| swarm.failure(seed));
        assert!(failure.is_none(), "{}", failure.map_or_else(String::new, |f| f.to_string()));
    }
}

/// Where one step says whether all of a system fits, it says what `admit` says.
#[test]
fn a_system_fits_where_none_of_it_is_refused() {
    for entry in maracas_policies::all() {
        let Some(fits) = entry.fits else { continue };
        let (mut accepted, mut refused) = (0, 0);
        for seed in 0..400 {
            let load = 20 + 2 * (seed % 45);
            let random = generate(seed, Mix { jobs_only: true, ..Mix::tasks(load) });
            let case = Case::new(entry, random, seed).with_random_params(seed);
            let verdict = (entry.admit)(&case.system(), &case.params);
            let says = fits(&case.system(), &case.params);
            assert_eq!(says, verdict.accepted(), "{}, seed {seed}: {verdict:?}", entry.name);
            (accepted, refused) = (accepted + u64::from(says), refused + u64::from(!says));
        }
        assert!(accepted > 50 && refused > 50, "{}: {accepted}, {refused}", entry.name);
    }
}
