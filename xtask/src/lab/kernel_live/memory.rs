//! Runs that are held to page faults in place of reads of memory, which no guest counts: how often
//! their cores closed, how far beyond its allowance one came, and what a neighbour got.

use super::super::json::Json;
use super::MEAN;

/// The period of `examples/faults.toml` in nanoseconds, and how many faults core 1 may have in one.
const PERIOD_NS: f64 = 10e6;
const ALLOWED: f64 = 100.0;
/// After how many faults an event overflows: 64 times in an allowance
/// (`crates/live/src/sense/counting.rs`).
const CHUNK: f64 = 2.0;
/// Of the periods, those in which a core that always faults beyond its allowance closes: programs
/// take some until they fault.
const CLOSED: f64 = 0.9;
/// The core of the program that floods, and that of the one beside.
const FLOOD: usize = 1;
const STEADY: usize = 0;

/// What a report says.
struct Said {
    periods: f64,
    /// How often cores closed or lost surplus time, how long that took at the median, in
    /// microseconds, and by how many faults the furthest was beyond.
    closed: [f64; 3],
    throttled: [f64; 3],
    /// Faults, and milliseconds for which it was closed, by core.
    cores: Vec<[f64; 2]>,
    /// Name, and mean over C, of each task.
    means: Vec<(String, f64)>,
    /// MARACAS's own part of a core, in percent.
    own: f64,
}

impl Said {
    fn read(report: &Json) -> Result<Self, String> {
        let number = |of: &Json, key: &str| of.get(key).and_then(Json::number);
        let list = |of: &Json, key: &str| of.get(key).map_or(&[][..], Json::list).to_vec();
        let duration = number(report, "duration_ns").ok_or("a report without a duration")?;
        let sensing = report.get("sensing").ok_or("nothing was sensed")?;
        let reaction = |name: &str| {
            let all = list(sensing, "reactions");
            let own = all.iter().find(|it| it.get("name").and_then(Json::text) == Some(name));
            let of = |key: &str| own.and_then(|own| number(own, key)).unwrap_or(0.0);
            [of("count"), of("took_p50_ns") / 1e3, of("beyond_max")]
        };
        let core = |core: &Json| {
            let of = |key: &str| number(core, key).unwrap_or(f64::NAN);
            [of("requests"), of("throttled_ns") / 1e6]
        };
        let mean = |task: &Json| {
            let name = task.get("name").and_then(Json::text)?.to_string();
            let had = number(task.get("delivered")?, "mean_ns")?;
            Some((name, had / number(task, "budget_ns")?))
        };
        Ok(Self {
            periods: duration / PERIOD_NS,
            closed: reaction("closed"),
            throttled: reaction("throttled"),
            cores: list(report, "cores").iter().map(core).collect(),
            means: list(report, "tasks").iter().filter_map(mean).collect(),
            own: 100.0 * number(report, "agents_ns").unwrap_or(f64::NAN) / duration,
        })
    }

    fn text(&self) -> String {
        let Self { periods, closed, throttled, cores, means, own } = self;
        let reaction = |name: &str, [count, p50, beyond]: &[f64; 3]| {
            format!("{name} {count} times, p50 {p50:.1} us, {beyond} beyond at most")
        };
        let cores = cores.iter().enumerate().map(|(core, [faults, closed])| {
            format!("core{core} {faults} faults, closed {closed:.0} ms")
        });
        let means = means.iter().map(|(name, mean)| format!("{name} {mean:.5} of C"));
        let all = [format!("{periods:.0} periods"), reaction("closed", closed)].into_iter();
        let all = all.chain([reaction("throttled", throttled)]).chain(cores).chain(means);
        all.chain([format!("{own:.1} % of a core")]).collect::<Vec<_>>().join("; ")
    }

    /// The figures, or with them what is not so.
    fn judged(&self, expected: &[(bool, &str)]) -> Result<String, String> {
        let wrong: Vec<_> = expected.iter().filter(|(holds, _)| !holds).map(|it| it.1).collect();
        if wrong.is_empty() {
            return Ok(self.text());
        }
        Err(format!("not so: {}: {}", wrong.join(", "), self.text()))
    }

    fn has_all_of_c(&self, name: &str) -> bool {
        self.means.iter().any(|(own, mean)| own == name && (mean - 1.0).abs() <= MEAN)
    }
}

/// What is measured, whatever it is.
pub(super) fn figures(report: &Json) -> Result<String, String> {
    Ok(Said::read(report)?.text())
}

/// Of a run of `examples/faults.toml` inside the kernel.
pub(super) fn closed(report: &Json) -> Result<String, String> {
    let said = Said::read(report)?;
    let ([closed, _, beyond], periods) = (said.closed, said.periods);
    let core = |core: usize| said.cores.get(core).copied().unwrap_or([f64::NAN; 2]);
    let ([flood, stood], [steady, never]) = (core(FLOOD), core(STEADY));
    said.judged(&[
        (
            (periods * CLOSED..=periods + 1.0).contains(&closed) && stood > 0.0,
            "a core that faults beyond its allowance closes once a period",
        ),
        (beyond < CHUNK, "it is beyond by less than a chunk"),
        (flood <= (periods + 1.0) * ALLOWED + CHUNK, "it has no more faults than it may"),
        (flood >= periods * CLOSED * ALLOWED, "it has what it may"),
        (steady > 0.0 && never == 0.0, "the other core is counted and never closes"),
        (said.has_all_of_c("steady"), "the neighbour has all of C"),
    ])
}

/// Of a run inside the kernel whose surplus time goes by the rate of faults.
pub(super) fn throttled(report: &Json) -> Result<String, String> {
    let said = Said::read(report)?;
    said.judged(&[
        (said.throttled[0] >= 2.0, "a core that floods loses its surplus time"),
        (said.closed[0] == 0.0, "none closes"),
        (said.has_all_of_c("steady") && said.has_all_of_c("flood"), "budgets are not touched"),
    ])
}

#[cfg(test)]
pub(super) const WELL: &str = r#"{"duration_ns": 4000000000, "agents_ns": 40000000,
    "sensing": {"reactions": [
        {"name": "throttled", "count": 9, "took_p50_ns": 5000, "beyond_max": null},
        {"name": "closed", "count": 390, "took_p50_ns": 2000, "beyond_max": 1}]},
    "cores": [{"requests": 9000, "throttled_ns": 0}, {"requests": 39000, "throttled_ns": 9}],
    "tasks": [{"name": "steady", "budget_ns": 1000, "delivered": {"mean_ns": 1000}},
        {"name": "flood", "budget_ns": 1000, "delivered": {"mean_ns": 1000}}]}"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn is_well(text: &str) -> [bool; 2] {
        let report = Json::read(text).expect("it is JSON");
        [closed(&report).is_ok(), throttled(&report).is_ok()]
    }

    #[test]
    fn each_thing_that_is_not_as_expected_is_a_problem() {
        let unclosed = WELL.replace("\"count\": 390", "\"count\": 0");
        assert_eq!(is_well(WELL), [true, false]);
        assert_eq!(is_well(&unclosed), [false, true]);
        for (well, broken) in [
            ("\"count\": 390", "\"count\": 350"),
            ("\"count\": 390", "\"count\": 402"),
            ("\"beyond_max\": 1", "\"beyond_max\": 2"),
            ("\"requests\": 39000", "\"requests\": 40103"),
            ("\"requests\": 39000", "\"requests\": 35999"),
            ("\"throttled_ns\": 9", "\"throttled_ns\": 0"),
            ("\"requests\": 9000, \"throttled_ns\": 0", "\"requests\": 0, \"throttled_ns\": 0"),
            ("\"requests\": 9000, \"throttled_ns\": 0", "\"requests\": 9, \"throttled_ns\": 5"),
            ("\"mean_ns\": 1000}},", "\"mean_ns\": 998}},"),
        ] {
            assert!(!is_well(&WELL.replacen(well, broken, 1))[0], "{broken}");
        }
        for (well, broken) in
            [("\"count\": 9,", "\"count\": 1,"), ("\"mean_ns\": 1000}}]", "\"mean_ns\": 998}}]")]
        {
            assert!(!is_well(&unclosed.replacen(well, broken, 1))[1], "{broken}");
        }
        assert!(closed(&Json::read("{}").expect("it is JSON")).is_err());
        let said = figures(&Json::read(WELL).expect("it is JSON")).expect("it has figures");
        assert!(said.contains("closed 390 times, p50 2.0 us, 1 beyond at most"), "{said}");
    }
}
