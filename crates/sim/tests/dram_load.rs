//! Latency does not fall when load is added.
//!
//! For one requestor this holds whenever another comes in or does more. For the mean over a mix it
//! can hold among equals only: a newcomer with little latency lowers the mean of any mix.

mod dice;

use dice::Dice;
use maracas_core::memory::Pattern;
use maracas_sim::memory::dram::{
    DDR3_1333, Law, Requestor, Solved, mean_latency_ns, mean_read_latency_ns,
};

/// What the fixed point may be short of, relative.
const TOLERANCE: f64 = 2e-4;
const MIXES: usize = 4_000;

impl Dice {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
    fn requestor(&mut self) -> Requestor {
        use Pattern::{Jump, JumpRandom, PrivateBank, Random, SameBank, Sequential};
        let think = self.pick(&[0.0, 3.0, 10.0, 20.0, 40.0, 80.0, 150.0, 300.0, 500.0, 2e3]);
        Requestor {
            pattern: self.pick(&[Jump, JumpRandom, Random, Sequential, SameBank, PrivateBank]),
            outstanding: self.pick(&[0.5, 1.0, 1.5, 2.0, 4.0, 6.0, 10.0]),
            think_ns: think * (0.5 + self.unit()),
            writebacks: self.pick(&[0.0, 0.25, 0.5, 1.0, 2.0]),
        }
    }
}
/// A way to load the memory more.
type Way = (&'static str, fn(&mut Requestor));
/// Every one.
const WAYS: [Way; 3] = [
    ("more outstanding", |requestor| requestor.outstanding *= 1.5),
    ("more writes", |requestor| requestor.writebacks += 0.5),
    ("less thinking", |requestor| requestor.think_ns *= 0.6),
];

fn solve(law: &Law, mix: &[Requestor]) -> Vec<Solved> {
    let mut out = Vec::new();
    law.solve(mix, &mut out);
    out
}

fn writes_to_one_bank(requestor: &Requestor) -> bool {
    let one_bank = matches!(requestor.pattern, Pattern::SameBank | Pattern::PrivateBank);
    one_bank && requestor.writebacks > 0.0
}

fn does_not_fall(before: f64, after: f64, of: &str, mixes: &[&[Requestor]]) {
    assert!(after >= before * (1.0 - TOLERANCE), "{of}: {before} to {after} ns, {mixes:?}");
}

#[test]
fn others_never_gain_by_a_newcomer_or_by_more_of_one() {
    let law = Law::new(&DDR3_1333);
    let mut dice = Dice(1);
    for _ in 0..MIXES {
        let mix: Vec<Requestor> = (0..1 + dice.below(5)).map(|_| dice.requestor()).collect();
        let before = solve(&law, &mix);
        let joined = [mix.clone(), vec![dice.requestor()]].concat();
        let after = solve(&law, &joined);
        for (one, then) in before.iter().zip(&after) {
            does_not_fall(one.latency_ns, then.latency_ns, "a newcomer", &[&mix, &joined]);
        }
        let who = dice.below(mix.len());
        for (way, load) in WAYS {
            let mut more = mix.clone();
            load(&mut more[who]);
            let after = solve(&law, &more);
            for i in (0..mix.len()).filter(|i| *i != who) {
                does_not_fall(before[i].latency_ns, after[i].latency_ns, way, &[&mix, &more]);
            }
        }
    }
}

#[test]
fn none_gains_among_equals() {
    let law = Law::new(&DDR3_1333);
    let mut dice = Dice(2);
    for _ in 0..MIXES {
        let mix = vec![dice.requestor(); 1 + dice.below(6)];
        let mut changes = vec![("one more", vec![mix[0]; mix.len() + 1])];
        for (way, load) in WAYS {
            let mut more = mix[0];
            load(&mut more);
            changes.push((way, vec![more; mix.len()]));
        }
        let before = solve(&law, &mix);
        for (way, more) in &changes {
            let after = solve(&law, more);
            let mixes = [mix.as_slice(), more];
            does_not_fall(before[0].latency_ns, after[0].latency_ns, way, &mixes);
            let reads = (mean_read_latency_ns(&before), mean_read_latency_ns(&after));
            does_not_fall(reads.0, reads.1, way, &mixes);
            let all = (mean_latency_ns(&mix, &before), mean_latency_ns(more, &after));
            does_not_fall(all.0, all.1, way, &mixes);
        }
    }
}

/// What the law's docs say of one that alone does more: a stream may gain by the rows that it then
/// loses less often, the others by less time spent on coming in the middle of a drain.
#[test]
fn what_does_more_gains_little() {
    let law = Law::new(&DDR3_1333);
    let mut dice = Dice(3);
    let (mut stream, mut rest, mut undrained) = (0.0_f64, 0.0_f64, 0.0_f64);
    for _ in 0..MIXES {
        let mix: Vec<Requestor> = (0..1 + dice.below(5)).map(|_| dice.requestor()).collect();
        let before = solve(&law, &mix);
        for (_, load) in WAYS {
            let mut more = mix.clone();
            load(&mut more[0]);
            let after = solve(&law, &more);
            let (one, then) = (before[0].latency_ns, after[0].latency_ns);
            let gain = 1.0 - then / one;
            if mix[0].pattern == Pattern::Sequential {
                stream = stream.max(gain);
            } else if mix.iter().any(writes_to_one_bank) {
                rest = rest.max(gain);
            } else {
                undrained = undrained.max(gain);
            }
        }
    }
    let percent = [stream, rest, undrained].map(|gain| 100.0 * gain);
    eprintln!("own latency gained: streams, others, without drains: {percent:.2?} %");
    assert!(stream < 0.15 && rest < 0.1 && undrained < 1e-3);
}
