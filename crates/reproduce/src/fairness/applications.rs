//! The applications of the mixes, and the mixes.

use crate::{Error, Setup};
use std::fmt::Write;

/// One application: what it does on a core by itself.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Application {
    pub(super) name: String,
    /// H, M or L: how much it gains from a fast core.
    pub(super) letter: char,
    /// Never empty; again from the first.
    pub(super) phases: Vec<Phase>,
}

/// A part of an application.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Phase {
    /// Its length on the fastest class, in milliseconds.
    work_ms: f64,
    /// Time per instruction that goes with the core's clock, in picoseconds.
    compute_ps: f64,
    /// ... and that does not.
    memory_ps: f64,
}

/// What a slow core is beside a fast one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Slow {
    /// How much longer computing takes.
    pub(super) compute: f64,
    /// How much longer waiting for memory takes: an in-order core overlaps less of it.
    pub(super) memory: f64,
}

impl Phase {
    /// Instructions per second on a fast and on a slow core.
    fn ips(&self, slow: Slow) -> [f64; 2] {
        let on_slow = self.compute_ps * slow.compute + self.memory_ps * slow.memory;
        [1e12 / (self.compute_ps + self.memory_ps), 1e12 / on_slow]
    }
}

impl Application {
    /// Speedup of the whole: time on a slow core by time on a fast one.
    pub(super) fn speedup(&self, slow: Slow) -> f64 {
        let on_slow = |phase: &Phase| {
            let [fast, slow] = phase.ips(slow);
            phase.work_ms * fast / slow
        };
        let [fast, slow]: [f64; 2] = [
            self.phases.iter().map(|phase| phase.work_ms).sum(),
            self.phases.iter().map(on_slow).sum(),
        ];
        slow / fast
    }
    /// Instructions of `seconds` on a fast core.
    pub(super) fn instructions(&self, seconds: f64) -> f64 {
        let per_ms = |phase: &Phase| phase.work_ms * phase.ips(SAME)[0] / 1e3;
        let cycle_ms: f64 = self.phases.iter().map(|phase| phase.work_ms).sum();
        self.phases.iter().map(per_ms).sum::<f64>() * seconds * 1e3 / cycle_ms
    }
    /// Its pace as TOML, on classes called `fast` and `slow`.
    fn pace(&self, slow: Slow) -> String {
        let phase = |phase: &Phase| {
            let [fast, slow] = phase.ips(slow);
            format!("{{ work = \"{}ms\", fast = {fast:.0}, slow = {slow:.0} }}", phase.work_ms)
        };
        let phases: Vec<_> = self.phases.iter().map(phase).collect();
        format!("[{}]", phases.join(", "))
    }
}

/// A slow core that is as fast as a fast one.
const SAME: Slow = Slow { compute: 1.0, memory: 1.0 };

/// The applications of the data file, in its order.
///
/// # Errors
/// The first line that is no application.
pub(super) fn applications() -> Result<Vec<Application>, Error> {
    let text = include_str!("../../data/fairness-applications.csv");
    let lines = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    let mut all: Vec<Application> = Vec::new();
    for line in lines {
        let bad = || Error(format!("fairness-applications.csv: `{line}` is no application"));
        let cells: Vec<_> = line.split(',').collect();
        let [name, letter, work, compute, memory] = cells[..] else { return Err(bad()) };
        let number = |cell: &str| cell.parse::<f64>().map_err(|_| bad());
        let phase = Phase {
            work_ms: number(work)?,
            compute_ps: number(compute)?,
            memory_ps: number(memory)?,
        };
        match all.last_mut().filter(|last| last.name == name) {
            Some(last) => last.phases.push(phase),
            None => {
                let letter = letter.chars().next().ok_or_else(bad)?;
                all.push(Application { name: name.into(), letter, phases: vec![phase] });
            }
        }
    }
    Ok(all)
}

/// The mixes of the slides: a letter stands for a third of the threads, `.a` and `.b` for two
/// choices of applications of these letters.
pub(super) const MIXES: [&str; 14] = [
    "HHH", "MMM", "LLL", "SAME", "MLL", "MML", "HMM", "HHM", "HML.a", "HML.b", "HHL.a", "HHL.b",
    "HLL.a", "HLL.b",
];

/// Which application all threads of SAME run: one of the middle.
const SAME_IS: &str = "milc";

/// Where among the applications of a letter `.b` begins.
const SECOND_CHOICE: usize = 3;

/// The applications of a mix for `threads` threads: those of each letter in turn, in the order of
/// the data file, again from the first where there are not so many.
pub(super) fn mix<'a>(all: &'a [Application], name: &str, threads: usize) -> Vec<&'a Application> {
    if name == "SAME" {
        let same = all.iter().filter(|it| it.name == SAME_IS);
        return same.cycle().take(threads).collect();
    }
    let (letters, choice) = name.split_once('.').unwrap_or((name, "a"));
    let first = if choice == "b" { SECOND_CHOICE } else { 0 };
    let count = letters.len();
    // As even as it goes, the first letters first.
    let of_letter = |place: usize| threads / count + usize::from(place < threads % count);
    let mut taken: Vec<(char, usize)> = Vec::new();
    let mut chosen = Vec::new();
    for (place, letter) in letters.chars().enumerate() {
        let before = taken.iter().filter(|it| it.0 == letter).map(|it| it.1).sum::<usize>();
        let own: Vec<_> = all.iter().filter(|it| it.letter == letter).collect();
        let each = of_letter(place);
        chosen.extend((0..each).map(|k| own[(first + before + k) % own.len()]));
        taken.push((letter, each));
    }
    chosen
}

/// A machine of two classes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Platform {
    /// Its name in files.
    pub(super) name: &'static str,
    /// What it is, in a sentence's part.
    pub(super) what: &'static str,
    pub(super) fast: usize,
    pub(super) slow: usize,
    /// What a slow core is.
    pub(super) pace: Slow,
}

impl Platform {
    /// The slow class' speed in thousandths: the least of any program.
    fn speed_milli(&self) -> u32 {
        (1000.0 / self.pace.compute.max(self.pace.memory)).floor() as u32
    }
}

/// Which policy, and its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rule {
    pub(super) name: &'static str,
    /// Lines of TOML.
    pub(super) params: &'static str,
    /// Whether speedups are given beforehand.
    pub(super) off_line: bool,
    /// What a migration costs, as TOML; empty = nothing.
    pub(super) migration: &'static str,
}

impl Rule {
    /// With its own parameters, estimating, migrations free.
    pub(super) const fn new(name: &'static str) -> Self {
        Self { name, params: "", off_line: false, migration: "" }
    }
}

/// The scenario of one mix under one rule.
pub(super) fn setup(
    platform: &Platform,
    name: &str,
    mix: &[&Application],
    rule: &Rule,
    seconds: u32,
) -> Setup {
    let Platform { fast, slow, what, .. } = platform;
    let speed = f64::from(platform.speed_milli()) / 1000.0;
    let Rule { name: policy, params, .. } = rule;
    let mut text = format!(
        "# Kim and Huh, ICS 2016: mix {name} on {what}, under {policy}.\nversion = 1\n\n\
         [[platform.class]]\nname = \"fast\"\ncores = {fast}\nspeed = 1\n\n\
         [[platform.class]]\nname = \"slow\"\ncores = {slow}\nspeed = {speed}\n\n\
         [policy]\nname = \"{policy}\"\n{params}\n[run]\nduration = \"{seconds}s\"\n"
    );
    if !rule.migration.is_empty() {
        let _ = write!(text, "\n[overheads]\nmigration = \"{}\"\n", rule.migration);
    }
    for (place, application) in mix.iter().enumerate() {
        let known = application.speedup(platform.pace);
        let speedup = if rule.off_line { format!("speedup = {known:.3}\n") } else { String::new() };
        let _ = write!(
            text,
            "\n[[program]]\nname = \"{}-{place}\"\n{speedup}workload = {{ kind = \"busy\" }}\n\
             pace = {}\n",
            application.name,
            application.pace(platform.pace)
        );
    }
    let file = format!("{}-{}-{policy}", platform.name, name.to_lowercase());
    Setup::new(file, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_what_the_data_file_says() {
        let half = Slow { compute: 2.0, memory: 1.0 };
        let all = applications().unwrap();
        assert_eq!(all.len(), 19);
        for application in &all {
            let speedup = application.speedup(half);
            let letter = match speedup {
                it if it >= 1.8 => 'H',
                it if it >= 1.4 => 'M',
                _ => 'L',
            };
            assert_eq!(application.letter, letter, "{} {speedup}", application.name);
        }
    }

    #[test]
    fn the_presets_of_the_scenarios_say_the_same() {
        let platforms =
            [("phenom-ii-x6", Slow { compute: 4.0, memory: 1.0 }), ("odroid-xu3-lite", ODROID)];
        for application in applications().unwrap() {
            for (platform, slow) in platforms {
                let pace = maracas_scenario::presets::pace(&application.name, platform);
                let pace = pace.unwrap_or_else(|| panic!("{} on {platform}", application.name));
                assert_eq!(pace.phases.len(), application.phases.len(), "{}", application.name);
                for (theirs, ours) in pace.phases.iter().zip(&application.phases) {
                    for (theirs, ours) in theirs.ips.iter().zip(ours.ips(slow)) {
                        let off = *theirs as f64 / ours - 1.0;
                        // The files have a tenth of a million, and 1 / 0.38 for 2.63.
                        assert!(off.abs() < 2e-3, "{} on {platform}: {off}", application.name);
                    }
                }
            }
        }
    }

    /// The platform of the other experiment.
    const ODROID: Slow = Slow { compute: 2.63, memory: 1.5 };

    #[test]
    fn mixes_take_a_third_of_each_letter() {
        let all = applications().unwrap();
        for name in MIXES.iter().filter(|name| **name != "SAME") {
            for threads in [6, 8] {
                let letters: String = mix(&all, name, threads).iter().map(|it| it.letter).collect();
                let wanted = |c| name.matches(c).count() * threads / 3;
                for c in ['H', 'M', 'L'] {
                    assert!(
                        letters.matches(c).count().abs_diff(wanted(c)) <= 1,
                        "{name} {letters}"
                    );
                }
            }
        }
        let names = |mix: Vec<&Application>| -> Vec<String> {
            mix.iter().map(|it| it.name.clone()).collect()
        };
        assert_eq!(names(mix(&all, "HML.b", 6))[..2], ["gobmk", "bzip2"]);
        assert!(names(mix(&all, "SAME", 6)).iter().all(|it| it == SAME_IS));
        assert_eq!(names(mix(&all, "HHH", 6)).len(), 6);
    }
}
