//! The words after `cargo xtask lab`.

use super::compile;
use super::scenario::{self, KERNELS, QUICK, Scenario};

/// What is asked for.
#[derive(Debug, Default)]
pub(super) struct Options {
    pub(super) is_quick: bool,
    pub(super) is_list: bool,
    pub(super) is_json: bool,
    /// The binary to try in place of the one that Cargo builds.
    pub(super) binary: Option<String>,
    /// Guests at a time.
    pub(super) jobs: usize,
    kernels: Vec<String>,
    only: Vec<String>,
    tests: Vec<String>,
    shift: Option<u32>,
    cores: Option<u32>,
}

/// A guest to boot: a scenario, a kernel's word.
pub(super) type Guest = (Scenario, String);

impl Options {
    /// Reads the words.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn read(words: &[&str]) -> Result<Self, String> {
        // A guest under -icount keeps one core of this machine busy.
        let jobs = std::thread::available_parallelism().map_or(1, usize::from).min(4);
        let mut options = Self { jobs, ..Self::default() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || {
                let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
                Ok::<_, String>((*value).to_owned())
            };
            match *word {
                "--quick" => options.is_quick = true,
                "--list" => options.is_list = true,
                "--json" => options.is_json = true,
                "--binary" => options.binary = Some(value()?),
                "--only" => options.only = value()?.split(',').map(Into::into).collect(),
                "--tests" => options.tests = value()?.split(',').map(Into::into).collect(),
                "--mode" => options.shift = Some(shift(&value()?)?),
                "--smp" => options.cores = Some(number(word, &value()?, 8)?),
                "--jobs" => options.jobs = number(word, &value()?, 64)? as usize,
                option if option.starts_with('-') => {
                    return Err(format!("unknown option `{option}`; docs/lab.md lists them"));
                }
                kernel => options.kernels.push(kernel.into()),
            }
        }
        for name in &options.only {
            let known = || scenario::ALL.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
            scenario::named(name).ok_or_else(|| format!("no scenario `{name}`; {}", known()))?;
        }
        Ok(options)
    }

    /// The guests that are asked for, in the order of the table.
    ///
    /// # Errors
    /// Where none is.
    pub(super) fn guests(&self) -> Result<Vec<Guest>, String> {
        let mut guests: Vec<Guest> = if self.is_quick {
            let quick = QUICK.iter().filter_map(|(name, kernel)| {
                // The emulator runs one core after the other, and a single run of 5 s is near the
                // bars: here a promise is kept or said to be broken, in the full lab it is kept.
                let quick = |it: &Scenario| Scenario { mean: None, ..it.clone() };
                scenario::named(name).map(|scenario| (quick(scenario), (*kernel).to_owned()))
            });
            quick.filter(|(one, kernel)| self.wants(one) && self.wants_kernel(kernel)).collect()
        } else {
            self.all()
        };
        for (scenario, _) in &mut guests {
            scenario.shift = self.shift.unwrap_or(scenario.shift);
            scenario.cores = self.cores.unwrap_or(scenario.cores);
        }
        if guests.is_empty() {
            return Err("no scenario is for these kernels; name it with --only to try it".into());
        }
        Ok(guests)
    }

    fn wants(&self, scenario: &Scenario) -> bool {
        match self.only.as_slice() {
            [] => !scenario.is_long(),
            only => only.iter().any(|name| name == scenario.name),
        }
    }
    fn wants_kernel(&self, kernel: &str) -> bool {
        self.kernels.is_empty() || self.kernels.iter().any(|word| word == kernel)
    }

    fn all(&self) -> Vec<Guest> {
        let mut guests = Vec::new();
        for scenario in scenario::ALL.iter().filter(|scenario| self.wants(scenario)) {
            let is_for_all = !self.only.is_empty() || scenario.kernels == KERNELS;
            let words = self.kernels.iter().map(String::as_str);
            let mut kernels: Vec<&str> =
                words.filter(|word| is_for_all || scenario.kernels.contains(word)).collect();
            if self.kernels.is_empty() {
                let own = scenario.kernels.iter().copied();
                kernels = own.filter(|kernel| !compile::WORDS.contains(kernel)).collect();
            }
            guests.extend(kernels.iter().map(|kernel| (scenario.clone(), (*kernel).to_owned())));
        }
        guests
    }

    /// Whether a test binary is asked for, by its own name or by `NAME::TEST`.
    pub(super) fn wants_test(&self, name: &str) -> bool {
        self.tests.is_empty() || self.tests.iter().any(|one| is_of(one, name))
    }
    /// The tests of a binary that alone are asked for; none where all are.
    pub(super) fn filters(&self, name: &str) -> Vec<&str> {
        let own = self.tests.iter().filter(|one| is_of(one, name));
        own.filter_map(|one| Some(one.split_once("::")?.1)).collect()
    }
}

/// Whether what is asked for is this binary, or a test of it.
fn is_of(asked: &str, binary: &str) -> bool {
    asked.split("::").next() == Some(binary)
}

fn shift(word: &str) -> Result<u32, String> {
    let shift = word.strip_prefix("icount").and_then(|digits| digits.parse().ok());
    // QEMU takes up to 10; above 6 (64 ns an instruction) kernels do not boot in reasonable time.
    shift
        .filter(|shift| *shift <= 6)
        .ok_or_else(|| format!("--mode {word}: give icount0 to icount6"))
}

fn number(option: &str, word: &str, most: u32) -> Result<u32, String> {
    let number = word.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("{option} {word}: give a number from 1 to {most}"))
}

#[cfg(test)]
mod tests {
    use super::Options;

    fn guests(words: &[&str]) -> Vec<String> {
        let guests = Options::read(words).unwrap().guests().unwrap();
        let named = guests
            .iter()
            .map(|(one, kernel)| format!("{} {kernel} {} {}", one.name, one.mode(), one.cores));
        named.collect()
    }

    #[test]
    fn all_kernels_have_the_tests_and_one_has_all_hosts() {
        let all = guests(&[]);
        for guest in ["tests 6.1-rt icount1 2", "plain 7.3 icount1 2", "slow 6.1-cloud icount3 2"] {
            assert!(all.iter().any(|one| one == guest), "no {guest} in {all:?}");
        }
        assert!(!all.iter().any(|one| one.starts_with("v1 7.3")));
        for named in ["6.12", "sched-ext-hour"] {
            assert!(!all.iter().any(|one| one.contains(named)), "{named} is to be named");
        }
        let hour = guests(&["--only", "sched-ext-hour"]);
        assert_eq!(hour, ["sched-ext-hour 7.3 icount4 2"]);
    }

    #[test]
    fn kernels_scenarios_modes_and_cores_are_chosen() {
        assert_eq!(
            guests(&["--only", "v1,slow", "7.3"]),
            ["slow 7.3 icount3 2", "v1 7.3 icount1 2"]
        );
        let compiled = ["plain", "tests", "sched-ext", "sched-ext-live"];
        let compiled = compiled.map(|name| format!("{name} 6.12 icount1 2"));
        assert_eq!(guests(&["6.12"]), compiled);
        assert_eq!(guests(&["6.13"]), ["plain 6.13 icount1 2", "tests 6.13 icount1 2"]);
        let one = guests(&["--quick", "6.1-rt", "--mode", "icount2", "--smp", "4"]);
        assert_eq!(one, ["plain 6.1-rt icount2 4"]);
        assert_eq!(guests(&["--quick"]), ["plain 6.1-rt icount1 2", "slow 6.1-cloud icount3 2"]);
    }

    #[test]
    fn test_binaries_and_single_tests_are_chosen() {
        let read = |words: &str| Options::read(&["--tests", words]).unwrap();
        let some = read("live::budget::a,live_kill");
        let wanted = ["live", "live_kill", "live_storm"].map(|name| some.wants_test(name));
        assert_eq!(wanted, [true, true, false]);
        assert_eq!(some.filters("live"), ["budget::a"]);
        assert!(some.filters("live_kill").is_empty());
        assert!(Options::read(&[]).unwrap().wants_test("live"));
    }

    #[test]
    fn bad_words_are_refused_with_the_way_out() {
        let bad: [&[&str]; 6] = [
            &["--mode", "kvm"],
            &["--smp", "0"],
            &["--jobs"],
            &["--fast"],
            &["--only", "nothing"],
            &["--mode", "icount9"],
        ];
        for words in bad {
            assert!(Options::read(words).is_err(), "{words:?}");
        }
        assert!(Options::read(&["--quick", "9.9"]).unwrap().guests().is_err());
    }
}
