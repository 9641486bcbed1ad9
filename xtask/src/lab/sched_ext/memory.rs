//! What the loader says of cores that are held to allowances of reads, with page faults in their
//! place: a counter of the hardware is not in any guest.

use super::super::outcome::Step;

/// What it prints where all is well.
#[cfg(test)]
pub(super) const WELL: &str = "\
verified overflow 90
periods 300 closed 300 beyond_max 8 chunk 8
closed_after_us 900.0 ran_closed 0
core 30000 vcpu 30000 allowed 30000
neighbour share 0.930 read 20000 closed 0
own_limit ends 1 beyond 0
";
/// How many periods may end before their core closed: the first begins while programs start.
const OPEN: f64 = 2.0;
/// The least share of its core that a VCPU has whose allowance is not spent: threads of no VCPU are
/// owed one in twenty, and the emulator has its turns.
const NEIGHBOUR: f64 = 0.85;

/// The number behind a word.
fn after(out: &str, word: &str) -> Option<f64> {
    let mut words = out.split_whitespace();
    words.find(|it| *it == word)?;
    words.next()?.parse().ok()
}

/// What is not as expected: a core that is beyond its allowance by more than a chunk, does not
/// close or runs a VCPU while it is closed, meters that differ, a neighbour that has less, a VCPU
/// that its own limit does not end.
pub(super) fn problems(step: Option<&Step>) -> Vec<String> {
    let Some(step) = step.filter(|step| step.code == Some(0)) else {
        let err = step.map_or("", |step| step.err.trim());
        let last = err.lines().next_back().unwrap_or_default();
        return vec![format!("the loader that counts page faults failed: {last}")];
    };
    let line = |name: &str| step.out.lines().find(|line| line.starts_with(name)).unwrap_or("");
    let number = |name: &str, word: &str| after(line(name), word).unwrap_or(f64::NAN);
    let [periods, closed, beyond, chunk] =
        ["periods", "closed", "beyond_max", "chunk"].map(|word| number("periods", word));
    let [core, vcpu, allowed] = ["core", "vcpu", "allowed"].map(|word| number("core", word));
    let [share, neighbour] = ["share", "closed"].map(|word| number("neighbour", word));
    let [ends, over] = ["ends", "beyond"].map(|word| number("own_limit", word));
    let ran_closed = number("closed_after_us", "ran_closed");
    let expected = [
        (
            periods > 0.0 && closed + OPEN >= periods,
            "a core that faults beyond its allowance closes",
        ),
        (beyond <= chunk, "it is beyond by a chunk at most"),
        (ran_closed == 0.0, "it runs no VCPU while it is closed"),
        (core == vcpu, "its meter is that of its one VCPU"),
        (core <= allowed + chunk * periods, "it reads no more than it is allowed"),
        (share >= NEIGHBOUR && neighbour == 0.0, "the other core never closes"),
        (ends == 1.0 && (0.0..=chunk).contains(&over), "a VCPU's own limit ends it"),
    ];
    let broken = expected.into_iter().filter(|(holds, _)| !holds);
    broken.map(|(_, what)| format!("not so: {what}: `{}`", step.out.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_that_is_not_as_expected_is_a_problem() {
        let judged = |out: &str| {
            let out = out.to_string();
            problems(Some(&Step { code: Some(0), out, ..Step::default() })).len()
        };
        assert_eq!(judged(WELL), 0);
        for (well, broken) in [
            ("closed 300", "closed 290"),
            ("beyond_max 8", "beyond_max 16"),
            ("ran_closed 0", "ran_closed 1"),
            ("vcpu 30000", "vcpu 29992"),
            ("share 0.930", "share 0.500"),
            ("read 20000 closed 0", "read 20000 closed 1"),
            ("ends 1", "ends 0"),
        ] {
            assert_eq!(judged(&WELL.replace(well, broken)), 1, "{broken}");
        }
        assert_eq!(judged(""), 7);
        assert_eq!(problems(None).len(), 1);
    }
}
