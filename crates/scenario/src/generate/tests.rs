use super::words::{LOADS, PERIODS, rate};
use super::*;
use maracas_core::Reservation;

fn recipe(words: &str) -> Recipe {
    words.parse().unwrap()
}

fn error(words: &str) -> String {
    words.parse::<Recipe>().and_then(|recipe| recipe.draw(1)).unwrap_err()
}

/// The sum of all utilisations in units of 1 / G; each must be one to G of them.
fn steps(set: &TaskSet, grain: Duration) -> u64 {
    let step = |task: &Vcpu| {
        let Reservation { budget, period, deadline } = task.reservation;
        assert_eq!(deadline, period);
        assert!(period.ticks().is_multiple_of(grain.ticks()), "{period}");
        let grains = period.ticks() / grain.ticks();
        assert!(budget.ticks().is_multiple_of(grains), "{budget} / {period}");
        let step = budget.ticks() / grains;
        assert!((1..=grain.ticks()).contains(&step), "{budget} / {period}");
        step
    };
    set.tasks.iter().map(step).sum()
}

#[test]
fn sums_are_exact_on_the_grid() {
    for (words, steps_wanted) in [
        ("total=4 tasks=20 loads=randfixedsum periods=harmonic", 4_000_000),
        ("total=64 tasks=400 loads=randfixedsum periods=log-uniform:10ms..1s", 64_000_000),
        ("total=3.6 tasks=20 loads=uunifast periods=automotive", 3_600_000),
        ("total=16 tasks=16 loads=randfixedsum periods=short", 16_000_000),
        ("total=0.00002 tasks=20 loads=randfixedsum periods=long", 20),
        (
            "total=2.5 tasks=9 loads=randfixedsum:0.2..0.3 periods=list:7ms,11ms grain=100us",
            250_000,
        ),
        ("total=8 loads=medium exact periods=moderate", 8_000_000),
        ("total=1 tasks=1 loads=uunifast periods=short", 1_000_000),
    ] {
        let recipe = recipe(words);
        for seed in 0..20 {
            let set = recipe.draw(seed).unwrap();
            assert_eq!(steps(&set, recipe.grain), steps_wanted, "{words} {seed}");
            assert!(recipe.tasks.is_none_or(|tasks| set.tasks.len() == tasks));
            let ids: Vec<u32> = set.tasks.iter().map(|task| task.id.0).collect();
            assert_eq!(ids, (0..ids.len() as u32).collect::<Vec<_>>());
        }
    }
}

#[test]
fn tasks_drawn_one_by_one_end_below_the_total() {
    let dropped = recipe("total=4 loads=heavy periods=harmonic");
    let trimmed = Recipe { exact: true, ..dropped.clone() };
    let few = Recipe { tasks: Some(3), ..dropped.clone() };
    for seed in 0..100 {
        let [set, exact, few] = [&dropped, &trimmed, &few].map(|kind| kind.draw(seed).unwrap());
        let sum = steps(&set, dropped.grain);
        assert!((3_100_000..=4_000_000).contains(&sum), "{sum}");
        // The trimmed set is the other and what fills it up.
        assert_eq!(exact.tasks[..set.tasks.len()], set.tasks);
        assert!(exact.tasks.len() <= set.tasks.len() + 1);
        assert_eq!(steps(&exact, dropped.grain), 4_000_000);
        assert_eq!(few.tasks, set.tasks[..3]);
    }
}

#[test]
fn laws_have_their_means_and_shares() {
    // Means: of the uniform ranges by hand; of the exponential, cut at 1, a - 1 / (e^(1/a) - 1).
    for (loads, mean) in [
        ("light", 0.0505),
        ("medium", 0.25),
        ("heavy", 0.7),
        ("mixed", 0.2005),
        ("exponential-light", 0.099_954_6),
        ("exponential-heavy", 0.5 - 1.0 / (2f64.exp() - 1.0)),
        ("bimodal-light", (8.0 * 0.2505 + 0.7) / 9.0),
        ("bimodal-heavy", (4.0 * 0.2505 + 5.0 * 0.7) / 9.0),
    ] {
        let words = format!("total=128 tasks=100 loads={loads} periods=harmonic");
        let recipe = recipe(&words);
        let sum: u64 = (0..200).map(|seed| steps(&recipe.draw(seed).unwrap(), recipe.grain)).sum();
        let found = sum as f64 / 200.0 / 100.0 / 1e6;
        // 20,000 draws with a deviation of at most 0.3.
        assert!((found - mean).abs() < 0.009, "{loads}: {found} for {mean}");
    }
}

#[test]
fn periods_have_their_shares() {
    // How often a period lies within [from, to).
    for (periods, from, to, share) in [
        ("harmonic", 50, 51, 0.25),
        ("automotive", 10, 11, 25.0 / 85.0),
        ("automotive", 1000, 1001, 4.0 / 85.0),
        ("short", 3, 4, 1.0 / 31.0),
        ("short", 33, 34, 1.0 / 31.0),
        ("log-uniform:10ms..1000ms", 10, 100, 10f64.ln() / 100.1f64.ln()),
        ("log-uniform:10ms..1000ms", 10, 11, 1.1f64.ln() / 100.1f64.ln()),
        ("list:3*8ms,0*9ms,1*10ms", 10, 11, 0.25),
        // 4, 5, 10, 20 and 25 ms divide it.
        ("short hyperperiod=100ms", 25, 26, 0.2),
        ("automotive hyperperiod=50ms", 50, 51, 3.0 / 35.0),
        ("log-uniform:2ms..8ms hyperperiod=8ms", 4, 5, 1.25f64.ln() / (1.5f64 * 1.25 * 1.125).ln()),
    ] {
        let recipe = recipe(&format!("total=8 tasks=100 loads=randfixedsum periods={periods}"));
        let mut hits = 0;
        for seed in 0..200 {
            let ms = |task: &Vcpu| task.reservation.period.ticks() / 1_000_000;
            let set = recipe.draw(seed).unwrap();
            hits += set.tasks.iter().filter(|task| (from..to).contains(&ms(task))).count();
            if let Some(whole) = recipe.hyperperiod {
                let divides =
                    |task: &Vcpu| whole.ticks().is_multiple_of(task.reservation.period.ticks());
                assert!(set.tasks.iter().all(divides), "{periods}");
            }
        }
        let found = hits as f64 / 20_000.0;
        let deviation = (share * (1.0 - share) / 20_000.0).sqrt();
        assert!((found - share).abs() < 4.0 * deviation, "{periods}: {found} for {share}");
    }
}

#[test]
fn arrivals_are_as_asked() {
    let words = "total=2 tasks=50 loads=uunifast periods=long";
    let set = |more: &str| recipe(&format!("{words} {more}")).draw(3).unwrap();
    let together = set("");
    let at_once = Arrival::Periodic { offset: Duration::ZERO };
    assert!(together.tasks.iter().all(|task| task.arrival == at_once));
    assert!(set("sporadic").tasks.iter().all(|task| task.arrival == Arrival::Sporadic));
    let spread = set("offsets");
    let mut offsets = Vec::new();
    for (task, other) in spread.tasks.iter().zip(&together.tasks) {
        assert_eq!(task.reservation, other.reservation);
        let Arrival::Periodic { offset } = task.arrival else { unreachable!("periodic") };
        assert!(offset < task.reservation.period && offset.ticks().is_multiple_of(1_000_000));
        offsets.push(offset);
    }
    offsets.sort_unstable();
    offsets.dedup();
    assert!(offsets.len() > 30);
}

#[test]
fn what_one_thing_draws_shifts_no_other() {
    let periods = ["harmonic", "automotive", "log-uniform:1ms..1s"];
    let sets = periods.map(|periods| {
        let words = format!("total=3 tasks=12 loads=uunifast offsets periods={periods}");
        recipe(&words).draw(9).unwrap()
    });
    let loads = |set: &TaskSet| -> Vec<maracas_core::Rate> {
        set.tasks.iter().map(|t| Rate::of(t.reservation.budget, t.reservation.period)).collect()
    };
    assert_eq!(loads(&sets[0]), loads(&sets[1]));
    assert_eq!(loads(&sets[0]), loads(&sets[2]));
    assert_ne!(sets[0].tasks, sets[1].tasks);
}

#[test]
fn recipes_are_read_back_from_their_words() {
    let named = LOADS.iter().flat_map(|(name, words)| [*name, *words]);
    for loads in named.chain(["uunifast", "randfixedsum", "randfixedsum:1/3..0.9"]) {
        let loads: Loads = loads.parse().unwrap();
        assert_eq!(loads.to_string().parse(), Ok(loads));
    }
    let named = PERIODS.iter().flat_map(|(name, words)| [*name, *words]);
    for periods in named.chain(["harmonic:1ms,10ms,5us", "list:2*1ms", "log-uniform:1ms..1.5s"]) {
        let periods: Periods = periods.parse().unwrap();
        assert_eq!(periods.to_string().parse(), Ok(periods));
    }
    let words = "total=10/3 tasks=7 loads=bimodal-light exact periods=automotive hyperperiod=1s \
                 grain=30us sporadic offsets";
    assert_eq!(recipe(words).to_string(), words);
    assert_eq!("uni-light".parse::<Loads>().unwrap().to_string(), "light");
    assert_eq!("uni-short".parse::<Periods>().unwrap().to_string(), "short");
    let set = recipe("total=2.50 loads=light periods=short").draw(42).unwrap();
    let lines = [
        "maracas generator version 1",
        "recipe total=2.5 loads=light periods=short grain=1ms",
        "seed 42",
    ];
    assert_eq!(set.origin, lines);
    for (text, shown) in [("0.250", "0.25"), ("2/4", "0.5"), ("1/3", "1/3"), ("12", "12")] {
        assert_eq!(rate(text).map(decimal), Ok(shown.into()));
    }
}

#[test]
fn totals_are_read_as_parts_of_the_cores() {
    for (text, total) in [("90%", "3.6"), ("12.5%", "0.5"), ("3.5", "3.5"), ("100/3%", "4/3")] {
        assert_eq!(utilization(text, 4).map(decimal), Ok(total.into()));
    }
    assert!(utilization("4.001", 4).is_err_and(|why| why.contains("4.001 cores of 4; lower it")));
    assert!(utilization("%", 4).is_err());
}

#[test]
fn errors_name_the_thing_and_the_way_out() {
    for (words, says) in [
        ("tasks=3 loads=light periods=short", "the recipe lacks total=...; add it"),
        ("total=1 loads=light loads=light periods=short", "`loads` stands twice"),
        ("total=1 loads=light periods=short grian=1ms", "did you mean `grain`?"),
        ("total=1 tasks=many loads=light periods=short", "not a whole number"),
        ("total=one loads=light periods=short", "`one` is no number"),
        ("total=1/0 loads=light periods=short", "`1/0` is no number"),
        ("total=0 loads=light periods=short", "is 0; raise it"),
        ("total=1025 loads=light periods=short", "exceeds 1024 cores; lower it"),
        ("total=1/3 loads=light periods=short", "take 0.333333"),
        ("total=1 loads=lihgt periods=short", "did you mean `light`?"),
        ("total=1 loads=uniform periods=short", "written like `uniform:0.1..0.4`"),
        ("total=1 loads=uniform:3 periods=short", "`3` is no range"),
        ("total=1 loads=uniform:0.5..0.1 periods=short", "lies within 0.5..0.1; widen"),
        ("total=4 loads=uniform:0.5..1.5 periods=short", "up to 1 lies within 0.5..1.5"),
        ("total=1 loads=bimodal:0.1..0.2 periods=short", "write it like 3*0.1..0.2"),
        ("total=1 loads=bimodal:0*0.1..0.2 periods=short", "weight above 0; raise one"),
        ("total=1 loads=exponential:0 periods=short", "mean 0 is not above 0"),
        ("total=1 loads=uunifast periods=short", "uunifast needs the number of tasks"),
        ("total=1 tasks=0 loads=uunifast periods=short", "0 tasks are not within 1..4096"),
        ("total=1 tasks=0 loads=light periods=short", "0 tasks make no set"),
        ("total=1 tasks=9999 loads=uunifast periods=short", "9999 tasks are not within"),
        ("total=1 tasks=9999 loads=light periods=short", "9999 tasks are not within 1..4096"),
        ("total=3.5 tasks=3 loads=uunifast periods=short", "reach a total of 3, below 3.5"),
        ("total=1 tasks=5 loads=randfixedsum:0.3..1 periods=short", "need a total of 1.5, above 1"),
        ("total=15.2 tasks=20 loads=uunifast periods=short", "keep 2.4e-10 of its draws"),
        ("total=20 tasks=20 loads=uunifast periods=short", "take randfixedsum"),
        ("total=0.5 loads=heavy periods=short", "up to 0.9, more than the total of 0.5"),
        ("total=4 tasks=9 loads=heavy exact periods=short", "drop `tasks` or `exact`"),
        ("total=128 loads=uniform:0.001..0.002 periods=short", "takes about 85333 such tasks"),
        ("total=1 loads=light periods=shrot", "did you mean `short`?"),
        ("total=1 loads=light periods=harmonic:4ms,6ms", "4ms does not divide 6ms"),
        ("total=1 loads=light periods=uniform:9ms..3ms", "swap the bounds"),
        ("total=1 loads=light periods=list:1ms,x", "the time `x` must begin with a number"),
        ("total=1 loads=light periods=list:0*1ms", "no period has a weight above 0"),
        ("total=1 loads=light periods=list:0ms", "the period 0ns is not within"),
        ("total=1 loads=light periods=short grain=2ms", "3ms is no multiple of the grain 2ms"),
        ("total=1 loads=light periods=short grain=0s", "grain 0ns is not within"),
        ("total=1 loads=light periods=short hyperperiod=37ms", "divides the hyperperiod 37ms"),
        ("total=1 loads=light periods=short sporadic offsets", "drop `sporadic` or `offsets`"),
    ] {
        let reported = error(words);
        assert!(reported.contains(says), "{words}\n{reported}");
        assert_eq!(reported.lines().count(), 1);
        assert!(!reported.contains("  "), "{reported}");
    }
}

/// A set in ticks, as budget/period@offset.
fn in_ticks(words: &str, seed: u64) -> String {
    let task = |task: &Vcpu| {
        let Reservation { budget, period, .. } = task.reservation;
        let start = match task.arrival {
            Arrival::Periodic { offset } => format!("@{}", offset.ticks()),
            Arrival::Sporadic | Arrival::None => String::new(),
        };
        format!("{}/{}{start}", budget.ticks(), period.ticks())
    };
    let set = recipe(words).draw(seed).unwrap();
    set.tasks.iter().map(task).collect::<Vec<_>>().join(" ")
}

/// Studies name a recipe, a seed and [`VERSION`]. Where one of these sets changes, the version
/// must too.
#[test]
fn version_1_draws_these_sets() {
    assert_eq!(VERSION, 1);
    for (words, seed, set) in [
        (
            "total=2 tasks=4 loads=randfixedsum periods=harmonic offsets",
            1,
            "57834400/200000000@161000000 4630600/100000000@5000000 \
             182502200/200000000@120000000 150402200/200000000@119000000",
        ),
        (
            "total=3.4 tasks=4 loads=randfixedsum periods=harmonic",
            6,
            "174459600/200000000@0 36329250/50000000@0 164299800/200000000@0 97961800/100000000@0",
        ),
        (
            "total=1.5 tasks=4 loads=uunifast periods=automotive",
            2,
            "1279940/10000000@0 366444000/1000000000@0 7012960/20000000@0 65491400/100000000@0",
        ),
        (
            "total=2 tasks=3 loads=randfixedsum:0.5..0.9 periods=log-uniform:1ms..1s",
            3,
            "13955457/23000000@0 334103244/391000000@0 46871859/87000000@0",
        ),
        (
            "total=2 loads=exponential-heavy exact periods=short sporadic",
            4,
            "3983350/7000000 11648125/25000000 1736316/12000000 1939716/3000000 1789452/21000000 \
             2390796/27000000",
        ),
        (
            "total=2 loads=bimodal-heavy periods=long hyperperiod=1s grain=10ms",
            5,
            "76527075/250000000@0 7561725/250000000@0 78128230/100000000@0 26359815/50000000@0",
        ),
        (
            "total=0.2 loads=light periods=list:3*5ms,7ms",
            u64::MAX,
            "450735/5000000@0 196651/7000000@0 204055/5000000@0",
        ),
    ] {
        assert_eq!(in_ticks(words, seed), set, "{words} {seed}");
    }
}

/// All bytes of large sets, for which software powers and logarithms are called often.
#[test]
fn version_1_draws_these_large_sets() {
    for (words, sum) in [
        (
            "total=64 tasks=400 loads=randfixedsum periods=log-uniform:1ms..10s grain=10us",
            0xab6e_cc59_ad05_bbbc,
        ),
        (
            "total=16 tasks=100 loads=uunifast periods=log-uniform:1ms..10s grain=10us",
            0x890c_b949_d250_ff9f,
        ),
        ("total=60 loads=exponential-light periods=uniform:1ms..1s", 0xed78_1e0b_dfa7_95fb),
    ] {
        let text: String = (0..10).map(|seed| in_ticks(words, seed) + "\n").collect();
        let found = maracas_core::fnv1a(0, text.as_bytes());
        assert_eq!(found, sum, "{words}: {found:#x}");
    }
}
