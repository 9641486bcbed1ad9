use super::super::{max_fair, max_perf, min_fair, similar_min_fair};
use super::*;
use alloc::vec;
use maracas_core::params::Value;

type Rule = fn(Places, &[Option<Speedup>], &Params) -> Vec<u64>;
const RULES: [Rule; 4] = [
    max_fair::fast_shares,
    max_perf::fast_shares,
    min_fair::fast_shares,
    similar_min_fair::fast_shares,
];
const ROUND: Duration = Duration::from_millis(30);
const INTERVAL: Duration = Duration::from_secs(2);

fn known(milli: u64) -> Option<Speedup> {
    Some(Speedup::new(milli, 1000, false))
}

fn params(target: &str, similarity: &str) -> Params {
    let mut params = Params::new();
    params.set("target", Value::Text(target.into()));
    params.set("similarity", Value::Text(similarity.into()));
    params
}

/// f * s + (c - f), in parts of a whole, times 1000: exact where the slow speed divides 1000.
fn performance(places: Places, speedup: Speedup, share: u64) -> u128 {
    let milli = u128::from(speedup.fast) * u128::from(1000 / speedup.slow);
    u128::from(share) * milli + u128::from(places.each() - share) * 1000
}

/// algorithms.md E.1, in parts per billion: throughput, MinFairness, Uniformity.
fn metrics(places: Places, speedups: &[Option<Speedup>], shares: &[u64]) -> [u64; 3] {
    let p: Vec<u128> = speedups
        .iter()
        .zip(shares)
        .map(|(speedup, share)| {
            let speedup = speedup.unwrap();
            let even = performance(places, speedup, places.even());
            performance(places, speedup, *share) * 1_000_000_000 / even
        })
        .collect();
    let n = p.len() as u128;
    let mean = p.iter().sum::<u128>() / n;
    let variance = p.iter().map(|p| p.abs_diff(mean).pow(2)).sum::<u128>() / n;
    let uniformity = 1_000_000_000 - variance.isqrt() * 1_000_000_000 / mean;
    [mean, *p.iter().min().unwrap(), uniformity].map(|ppb| ppb as u64)
}

/// algorithms.md E.2, "Vector".
#[test]
fn the_vector_of_the_definitions() {
    let speedups = [2000, 1900, 1600, 1500, 1200, 1100].map(known);
    let places = Places::new(6, 2, 4);
    let whole = places.whole();
    let part = |num, den| whole / den * num;
    let target = Rate::new(17, 20);
    let required = speedups.map(|speedup| places.required(speedup, target));
    assert_eq!(required, [part(2, 15), part(7, 60), part(1, 30), 0, 0, 0]);

    let one = whole;
    let expected = [
        ([part(1, 3); 6], [10_000, 10_000, 10_000]),
        ([one, one, 0, 0, 0, 0], [10_929, 8_333, 7_454]),
        ([one, part(29, 30), part(1, 30), 0, 0, 0], [10_918, 8_500, 7_521]),
        ([part(59, 60), part(59, 60), part(1, 30), 0, 0, 0], [10_916, 8_500, 7_526]),
    ];
    for (rule, (shares, rounded)) in RULES.iter().zip(expected) {
        // The defaults are the paper's 85 % and 0.2.
        let given = rule(places, &speedups, &Params::new());
        assert_eq!(given, shares);
        let four_decimals = metrics(places, &speedups, &given).map(|ppb| (ppb + 50_000) / 100_000);
        assert_eq!(four_decimals, rounded);
    }
}

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
struct Dice(u64);
impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// Speeds whose ratio is from 1 to 8, often the same as another's; `unknown` in 8 are not known,
/// and `sampled` in 8 of the others are measured.
fn speedup(dice: &mut Dice, unknown: u64, sampled: u64) -> Option<Speedup> {
    let slow = [1, 2, 5, 8, 10, 100, 1000][dice.below(7) as usize];
    let fast = slow + dice.below(7 * slow + 1);
    (dice.below(8) >= unknown).then(|| Speedup::new(fast, slow, dice.below(8) < sampled))
}

struct Instance {
    places: Places,
    speedups: Vec<Option<Speedup>>,
    target: Rate,
    similarity: Rate,
}

impl Instance {
    fn new(dice: &mut Dice, unknown: u64, sampled: u64) -> Self {
        let n = 1 + dice.below(64) as usize;
        let cores = |dice: &mut Dice| 1 + dice.below(16) as usize;
        let (fast, slow) = (cores(dice), cores(dice));
        let round = ROUND * (1 + dice.below(4));
        let places = Places::new(n, fast, slow).sampling(round, INTERVAL);
        let den = 1 + dice.below(1000);
        let target = match dice.below(4) {
            0 => Rate::new(dice.below(2), 1),
            _ => Rate::new(dice.below(den + 1), den),
        };
        let similarity = Rate::new(dice.below(2 * den), den);
        let speedups = (0..n).map(|_| speedup(dice, unknown, sampled)).collect();
        Self { places, speedups, target, similarity }
    }
    fn shares(&self) -> [Vec<u64>; 4] {
        let text = |rate: Rate| alloc::format!("{rate}");
        let params = params(&text(self.target), &text(self.similarity));
        RULES.map(|rule| rule(self.places, &self.speedups, &params))
    }
    /// The sum of all performances, times 1000 parts.
    fn raw(&self, shares: &[u64]) -> u128 {
        let threads = self.speedups.iter().zip(shares);
        threads
            .filter_map(|(speedup, share)| Some(performance(self.places, (*speedup)?, *share)))
            .sum()
    }
    /// algorithms.md E.5 (1): everything is handed out and no thread gets more than there is for
    /// each.
    fn check_sums(&self, shares: &[u64]) {
        let Places { fast, slow, .. } = self.places;
        let sum = shares.iter().sum::<u64>();
        assert_eq!(sum, fast * self.places.whole());
        let all: u64 = shares.iter().map(|share| self.places.each() - share).sum();
        assert_eq!(all, slow * self.places.whole());
    }
    /// algorithms.md E.5 (2): p_i >= target, by cross-multiplication.
    fn check_target(&self, shares: &[u64]) {
        let (a, b) = (u128::from(self.target.num()), u128::from(self.target.den()));
        for (speedup, share) in self.speedups.iter().zip(shares) {
            let Some(speedup) = *speedup else { continue };
            let equal = performance(self.places, speedup, self.places.even());
            assert!(performance(self.places, speedup, *share) * b >= equal * a);
        }
    }
    /// What is measured is known, and a thread that is not known has the equal share.
    fn check_floors(&self, shares: &[u64]) {
        let Places { floor, .. } = self.places;
        let (even, each) = (self.places.even(), self.places.each());
        for (speedup, share) in self.speedups.iter().zip(shares) {
            match speedup {
                None => assert_eq!(*share, even),
                Some(Speedup { sampled: true, .. }) => {
                    assert!(*share >= floor.min(even) && each - share >= floor.min(each - even));
                }
                Some(_) => {}
            }
        }
    }
    /// Similar threads have the same share but for the part that does not divide, unless a bound
    /// holds one of them.
    fn check_similar(&self, shares: &[u64]) {
        let order = by_speedup(&self.speedups);
        let mut leader = 0;
        for (place, &(thread, speedup)) in order.iter().enumerate() {
            if !order[leader].1.is_near(speedup, self.similarity) {
                leader = place;
            }
            for &(other, speedup_of_other) in &order[leader..place] {
                let least = |thread: usize, speedup| {
                    let required = self.places.required(Some(speedup), self.target);
                    shares[thread] == self.places.bounds(Some(speedup), required).least
                };
                let most = |thread: usize, speedup| {
                    shares[thread] == self.places.bounds(Some(speedup), 0).most
                };
                let (low, high, low_speedup, high_speedup) = if shares[thread] < shares[other] {
                    (thread, other, speedup, speedup_of_other)
                } else {
                    (other, thread, speedup_of_other, speedup)
                };
                assert!(
                    shares[high] - shares[low] <= 1
                        || least(high, high_speedup)
                        || most(low, low_speedup)
                );
            }
        }
    }
}

/// algorithms.md E.5, 1 to 4, with exact speedups. No rounding shows in any of them: the greedy
/// hand-out is the best in whole parts, and required shares are rounded up.
#[test]
fn the_invariants_hold_on_random_instances() {
    let mut dice = Dice(5);
    let (mut few, mut bound) = (0, 0);
    for _ in 0..10_000 {
        let instance = Instance::new(&mut dice, 0, 0);
        let [max_fair, max_perf, min_fair, similar] = instance.shares();
        for shares in [&max_fair, &max_perf, &min_fair, &similar] {
            instance.check_sums(shares);
        }
        instance.check_target(&min_fair);
        instance.check_target(&similar);
        instance.check_similar(&similar);
        let [fair, perf, min, sim] =
            [&max_fair, &max_perf, &min_fair, &similar].map(|shares| instance.raw(shares));
        assert!(perf >= min && min >= fair && min >= sim);
        if instance.target == Rate::ZERO {
            assert_eq!(min_fair, max_perf);
        }
        if instance.target == Rate::ONE {
            let gains = |(place, _): &(usize, &u64)| {
                instance.speedups[*place].is_some_and(|speedup| speedup.fast > speedup.slow)
            };
            let pairs = min_fair.iter().enumerate().filter(gains);
            pairs.for_each(|(_, share)| assert!(*share >= instance.places.even()));
        }
        few += u32::from(instance.places.each() == instance.places.whole());
        bound += u32::from(min_fair != max_perf);
    }
    assert!(
        few > 2_000 && bound > 4_000,
        "{few} with a core for each, {bound} where fairness costs"
    );
}

/// The same with sampling floors and threads that are not known. Only the raw performance of
/// max-perf is then the greatest within these bounds, no longer of all.
#[test]
fn floors_take_nothing_from_the_guarantee() {
    let mut dice = Dice(6);
    let mut shrunk = 0;
    for _ in 0..10_000 {
        let instance = Instance::new(&mut dice, 2, 6);
        let [max_fair, max_perf, min_fair, similar] = instance.shares();
        for shares in [&max_fair, &max_perf, &min_fair, &similar] {
            instance.check_sums(shares);
            instance.check_floors(shares);
        }
        instance.check_target(&min_fair);
        instance.check_target(&similar);
        instance.check_similar(&similar);
        let [fair, perf, min, sim] =
            [&max_fair, &max_perf, &min_fair, &similar].map(|shares| instance.raw(shares));
        assert!(perf >= min && min >= fair && min >= sim);
        if instance.target == Rate::ZERO {
            assert_eq!(min_fair, max_perf);
        }
        shrunk += u32::from(instance.places.floor > instance.places.even());
    }
    assert!(shrunk > 100, "{shrunk} where floors shrink");
}

#[test]
fn floors_are_one_round_in_an_interval() {
    let places = Places::new(6, 2, 4).sampling(ROUND, INTERVAL);
    assert_eq!(places.floor, (places.whole() * 3).div_ceil(200));
    let sampled = |fast| Some(Speedup::new(fast, 10, true));
    let speedups = [sampled(20), sampled(19), sampled(16), sampled(15), sampled(12), known(1100)];
    let shares = max_perf::fast_shares(places, &speedups, &Params::new());
    let (whole, floor) = (places.whole(), places.floor);
    assert_eq!(shares, [whole - floor, whole - 2 * floor, floor, floor, floor, 0]);
    // 200 threads on one fast core: each has less than a round of it in an interval.
    let places = Places::new(200, 1, 3).sampling(ROUND, INTERVAL);
    let shares = max_perf::fast_shares(places, &vec![sampled(20); 200], &Params::new());
    assert_eq!(shares, vec![places.even(); 200]);
}

#[test]
fn threads_are_similar_below_the_similarity_not_at_it() {
    let (places, params) = (Places::new(2, 1, 1), params("0", "0.2"));
    let shares =
        |other| similar_min_fair::fast_shares(places, &[known(2000), known(other)], &params);
    assert_eq!(shares(1800), [places.whole(), 0]);
    assert_eq!(shares(1801), [places.whole() / 2; 2]);
}

#[test]
fn what_has_a_fast_core_of_its_own_needs_no_slow_one() {
    let places = Places::new(2, 4, 4).sampling(ROUND, INTERVAL);
    let speedups = [Some(Speedup::new(3, 1, true)), None];
    for rule in RULES {
        assert_eq!(rule(places, &speedups, &Params::new()), [places.whole(); 2]);
    }
}

#[test]
fn nothing_overflows_at_the_bounds() {
    let cores = maracas_core::MAX_CORES - 1;
    let n = 2_000;
    let places = Places::new(n, cores, 1).sampling(Duration::MAX, Duration::from_ticks(1));
    let extremes = [(u64::MAX, 1), (u64::MAX, u64::MAX - 1), (u64::MAX, 1 << 40), (0, 0), (1, 9)];
    let speedups: Vec<_> =
        (0..n).map(|i| extremes[i % 5]).map(|(f, s)| Some(Speedup::new(f, s, false))).collect();
    let text = alloc::format!("{}/{}", u64::MAX - 1, u64::MAX);
    for similarity in [&text, "18446744073709551615", "1/18446744073709551615"] {
        for rule in RULES {
            let shares = rule(places, &speedups, &params(&text, similarity));
            assert_eq!(shares.iter().sum::<u64>(), places.fast * places.whole());
        }
    }
    assert_eq!(Speedup::new(1, 9, false), Speedup::new(9, 9, false));
    assert_eq!(Speedup::new(u64::MAX, u64::MAX / 2, true).milli(), 2000);
    assert_eq!(Speedup::new(1_234_567, 1_000_000, true).milli(), 1235);
}

#[test]
fn long_fractions_are_never_cut_to_less() {
    assert_eq!(terms(Rate::new(17, 20)), (17, 20));
    for (num, den) in [(u64::MAX - 1, u64::MAX), (1, u64::MAX), (1 << 40, (1 << 41) + 1)] {
        let (a, b) = terms(Rate::new(num, den));
        assert!(a < 1 << 31 && b < 1 << 31);
        assert!(u128::from(a) * u128::from(den) >= u128::from(num) * u128::from(b));
    }
}

#[test]
fn no_rule_can_promise_more_than_equal_shares_give() {
    let objects = |target| target_objection(&params(target, "0"));
    assert_eq!((objects("0"), objects("1"), objects("0.85")), (None, None, None));
    let why = alloc::format!("{}", objects("1.01").unwrap());
    assert_eq!(why, "target is 101/100; give a fraction from 0 to 1, such as \"0.85\"");
}
