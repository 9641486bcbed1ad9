//! One scenario, simulated.

use crate::{Error, Setup};
use maracas_core::admission::Verdict;
use maracas_core::contract::{Entry, Observer};
use maracas_core::journal::Header;
use maracas_core::memory::LINE_BYTES;
use maracas_core::{Instant, Policy, Program, System, VcpuId};
use maracas_scenario::Scenario;
use maracas_sim::jobs::{Judged, judge};
use maracas_sim::{Options, Outcome, Subject};
use maracas_trace::report::{Counts, TaskReport};
use maracas_trace::{Metrics, Report};

/// What a scenario came to.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was observed: the report that `maracas sim` prints, but for `memory`, of which
    /// `outcome` holds the counts.
    pub report: Report,
    /// What the simulator counted.
    pub outcome: Outcome,
}

/// A scenario that is ready to run, once or several times.
pub(crate) struct Prepared {
    name: String,
    scenario: Scenario,
    entry: &'static Entry,
    /// The platform with all VCPUs, the policy's service VCPUs too.
    pub(crate) system: System,
    /// The same with those VCPUs alone that are there at the start.
    pub(crate) start: System,
    programs: Vec<Program>,
    options: Options,
}

impl Prepared {
    /// Reads `setup`.
    ///
    /// # Errors
    /// Where it cannot be read, names no policy, no cores or no duration.
    pub(crate) fn of(setup: &Setup) -> Result<Self, Error> {
        let fail = |why: &dyn std::fmt::Display| Error(format!("{}: {why}", setup.name));
        let scenario = Scenario::parse(&setup.text, &setup.name).map_err(|why| fail(&why))?;
        let name = &scenario.policy.name;
        let entry = maracas_policies::find(name)
            .ok_or_else(|| fail(&format_args!("there is no policy \"{name}\"")))?;
        let params = &scenario.policy.params;
        params.check(entry.params).map_err(|(name, why)| fail(&format_args!("{name}: {why}")))?;
        let cores = scenario.platform.cores.ok_or_else(|| fail(&"it names no cores"))?;
        let mut system = scenario.system(cores).map_err(|why| fail(&why))?;
        entry.add_service_vcpus(&mut system, params);
        let programs = scenario.sim_programs();
        let start = maracas_sim::at_start(&system, &programs);
        let options = options(&scenario).ok_or_else(|| fail(&"it names no duration"))?;
        let name = setup.name.clone();
        Ok(Self { name, scenario, entry, system, start, programs, options })
    }

    /// The policy, new.
    ///
    /// # Errors
    /// Where it refuses.
    pub(crate) fn policy(&self) -> Result<Box<dyn Policy>, Error> {
        let refused = |verdict: Verdict| self.error(&format!("refused: {}", verdict.why()));
        (self.entry.build)(&self.start, &self.scenario.policy.params).map_err(refused)
    }

    /// What is certain of its jobs beside others that use memory; nothing where it has no memory.
    pub(crate) fn judged(&self) -> Vec<Judged> {
        let Self { scenario, entry, start, programs, .. } = self;
        let params = &scenario.policy.params;
        let verdict = entry.verdict(start, params);
        let judged = |memory| judge(start, &memory, programs, entry, params, &verdict);
        scenario.sim_memory().map(judged).unwrap_or_default()
    }

    /// An observer that makes the report.
    pub(crate) fn metrics(&self) -> Metrics {
        let names = self.start.vcpus.iter().map(|vcpu| name_of(&self.scenario, vcpu.id)).collect();
        let header = Header {
            policy: self.entry.name.to_string(),
            params: self.scenario.policy.params.clone(),
            system: self.start.clone(),
            names,
            machine: "sim".into(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            seed: self.scenario.run.seed,
        };
        let mut metrics = Metrics::new(&header);
        for vcpu in self.system.vcpus.iter().filter(|vcpu| !self.start.vcpus.contains(vcpu)) {
            metrics.name(vcpu.id, &name_of(&self.scenario, vcpu.id));
        }
        metrics
    }

    /// Simulates under `policy`, watched by `observer`.
    ///
    /// # Errors
    /// Where a VCPU is refused when it arrives.
    pub(crate) fn run(
        &self,
        policy: &mut dyn Policy,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        let Self { scenario, system, programs, options, .. } = self;
        let paces = scenario.sim_paces();
        let memory = scenario.sim_memory();
        let (memory, paces) = (memory.as_ref(), &paces[..]);
        let subject = Subject { system, programs, memory, paces, scripts: None };
        let outcome = maracas_sim::simulate(&subject, policy, options, observer);
        if let Some((vcpu, Err(why))) =
            outcome.admissions.iter().find(|(_, answer)| answer.is_err())
        {
            let vcpu = name_of(scenario, *vcpu);
            return Err(self.error(&format!("{vcpu} was refused when it arrived: {why}")));
        }
        Ok(outcome)
    }

    fn error(&self, why: &str) -> Error {
        Error(format!("{}: {why}", self.name))
    }
}

impl Run {
    /// Simulates `setup` as `maracas sim` does.
    ///
    /// # Errors
    /// Where it cannot be read, names no policy, or is refused.
    pub fn of(setup: &Setup) -> Result<Self, Error> {
        let prepared = Prepared::of(setup)?;
        let (mut policy, mut metrics) = (prepared.policy()?, prepared.metrics());
        let outcome = prepared.run(policy.as_mut(), &mut metrics)?;
        metrics.statistics(&policy.statistics());
        Ok(Self { report: metrics.report(outcome.end), outcome })
    }

    /// The report of a VCPU.
    ///
    /// # Panics
    /// Where the scenario has none of this name: the experiment is wrong.
    pub fn task(&self, name: &str) -> &TaskReport {
        let found = self.report.tasks.iter().find(|task| task.name == name);
        found.unwrap_or_else(|| panic!("no VCPU is called {name}"))
    }
    /// What a VCPU did on budget.
    ///
    /// # Panics
    /// As [`Run::task`].
    pub fn foreground(&self, name: &str) -> Counts {
        self.task(name).foreground
    }
    /// What a VCPU did on surplus time.
    ///
    /// # Panics
    /// As [`Run::task`].
    pub fn background(&self, name: &str) -> Counts {
        self.task(name).background
    }
    /// What a VCPU did in both modes.
    ///
    /// # Panics
    /// As [`Run::task`].
    pub fn all(&self, name: &str) -> Counts {
        self.foreground(name).plus(&self.background(name))
    }
    /// Mean latency of all requests in cycles, as the memory controller's counters say.
    pub fn latency(&self) -> f64 {
        let memory = self.outcome.memory.as_ref().filter(|counted| counted.requests > 0);
        memory.map_or(0.0, |counted| counted.occupancy as f64 / counted.requests as f64)
    }
    /// All requests that the controller took, from cores and devices.
    pub fn requests(&self) -> f64 {
        self.outcome.memory.as_ref().map_or(0.0, |counted| counted.requests as f64)
    }
    /// Requests that the cores' own counters saw.
    pub fn requests_by_cores(&self) -> f64 {
        let by_core = self.outcome.memory.iter().flat_map(|counted| &counted.by_core);
        by_core.map(|requests| *requests as f64).sum()
    }
    /// Bytes of all requests, in 1e9.
    pub fn traffic_gb(&self) -> f64 {
        self.requests() * LINE_BYTES as f64 / 1e9
    }
    /// How long the run lasted, in seconds.
    pub fn seconds(&self) -> f64 {
        self.report.duration_ns as f64 / 1e9
    }
    /// The sum of what the policy counted under `name`.
    pub fn statistic(&self, name: &str) -> u64 {
        let statistics = self.report.statistics.iter().filter(|statistic| statistic.name == name);
        statistics.map(|statistic| statistic.value).sum()
    }
    /// How long all cores together were throttled, in seconds.
    pub fn throttled_s(&self) -> f64 {
        self.report.cores.iter().map(|core| core.throttled_ns as f64 / 1e9).sum()
    }
}

/// A VCPU's name; a service VCPU's is its number.
fn name_of(scenario: &Scenario, vcpu: VcpuId) -> String {
    let named = scenario.vcpus.get(vcpu.0 as usize);
    named.map_or_else(|| vcpu.to_string(), |spec| spec.name.clone())
}

/// How the scenario says that it is to be simulated.
fn options(scenario: &Scenario) -> Option<Options> {
    let until = Instant::ZERO.saturating_add(scenario.run.duration?);
    Some(Options { seed: scenario.run.seed, overheads: scenario.overheads, ..Options::new(until) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "version = 1\n[platform]\ncores = 1\n[run]\nduration = \"1s\"\n\
                        [[program]]\nname = \"a\"\nbudget = \"2ms\"\nperiod = \"10ms\"\n\
                        workload = { kind = \"busy\" }\n";

    #[test]
    fn a_scenario_runs_with_or_without_memory() {
        let plain = Run::of(&Setup::new("plain", GOOD)).unwrap();
        assert_eq!((plain.seconds(), plain.latency(), plain.requests()), (1.0, 0.0, 0.0));
        let task = plain.task("a");
        assert_eq!((task.foreground_ns, task.background_ns), (200_000_000, 800_000_000));
        let memory = GOOD.replace("cores = 1", "preset = \"i5-2500k\"") + "memory = \"m_jump\"\n";
        let run = Run::of(&Setup::new("memory", memory)).unwrap();
        assert!(run.latency() > 100.0 && run.traffic_gb() > 0.1, "{}", run.latency());
        assert_eq!(run.requests(), run.requests_by_cores());
        let all = run.all("a").misses + run.all("a").writes;
        assert_eq!(run.requests(), all as f64);
    }

    #[test]
    fn what_cannot_run_is_reported_with_the_scenario_s_name() {
        let reported = |from: &str, to: &str| {
            let text = GOOD.replace(from, to);
            Run::of(&Setup::new("it", text)).expect_err("it cannot run").0
        };
        assert_eq!(reported("duration = \"1s\"\n", ""), "it: it names no duration");
        assert_eq!(reported("cores = 1\n", ""), "it: it names no cores");
        let policy = reported("[run]", "[policy]\nname = \"nothing\"\n[run]");
        assert_eq!(policy, "it: there is no policy \"nothing\"");
        assert!(reported("version = 1", "version = 99").starts_with("it: it:1:"));
        let refused = reported(
            "[[program]]",
            "[[vcpu]]\nname = \"b\"\nbudget = \"9ms\"\n\
                                          period = \"10ms\"\n[[program]]",
        );
        assert!(refused.starts_with("it: refused: "), "{refused}");
    }
}
