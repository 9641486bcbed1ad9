//! By what a live run senses memory: what the user chose, what this host has, and what is to be
//! said of what is missing.

use super::Require;
use crate::case::{Case, MemoryNeeds};
use maracas_console::failure::Failure;
use maracas_core::CoreId;
use maracas_core::contract::{Metered, Meters};
use maracas_live::Setup;
use maracas_live::host::hardware::{Hardware, ThisHardware};
use maracas_live::sense::preference::Preference;
use maracas_live::sense::replay::{self, Recording};
use maracas_live::sense::{Sense, Senses, SensorKind, VcpuEvents, faults};
use std::path::Path;
use std::sync::Arc;

/// What the command line says of it, in place of the scenario's `[live]`.
#[derive(clap::Args, Clone, Default, Debug)]
pub struct Asked {
    #[arg(long, value_name = "SENSOR", help = help())]
    sense: Option<Sense>,
}

/// What `--sense` takes.
fn help() -> String {
    format!(
        "By what memory is sensed: {}, what was recorded (a CSV list or a journal); without it, \
         the scenario's `sense`, else auto",
        Sense::choices()
    )
}

impl Asked {
    /// Whether the command line says anything.
    pub const fn is_given(&self) -> bool {
        self.sense.is_some()
    }
    /// By what the case must be sensed.
    fn choice(&self, case: &Case) -> Sense {
        self.sense.clone().unwrap_or_else(|| case.live().sense)
    }
    /// What is wrong with the choice, at the place where it was made.
    fn wrong(&self, case: &Case, why: &str) -> Failure {
        match (&self.sense, &case.scenario) {
            (None, Some(scenario)) => Failure::new(scenario.at_sense(why)),
            (Some(_), _) | (None, None) => Failure::about("--sense", why),
        }
    }

    /// Opens what the case needs, as far as it is there.
    ///
    /// # Errors
    /// Where a sensor that was named does not work, or a recording cannot be played.
    pub fn find(&self, case: &Case, setup: &Setup) -> Result<Found, Failure> {
        let (needs, choice) = (case.senses(), self.choice(case));
        let found = match &choice {
            Sense::Replay(file) => Found::recorded(Path::new(file), setup),
            Sense::Auto | Sense::Sensor(_) if needs.any() => Found::of_host(&needs, &choice, setup),
            Sense::Auto | Sense::Sensor(_) | Sense::Off => Ok(Found::nothing()),
        };
        let mut found = found.map_err(|why| self.wrong(case, &why))?;
        keep_what_is_needed(&needs, &mut found.senses);
        Ok(found)
    }

    /// Opens what the case needs; its notes say what is missing and what that means.
    ///
    /// # Errors
    /// Where a sensor that was named does not work or a recording cannot be played, where a promise
    /// of bandwidth would be broken, and with [`Require::Full`] wherever something is missing.
    pub fn open(&self, case: &Case, setup: &Setup, require: Require) -> Result<Senses, Failure> {
        let (needs, choice) = (case.senses(), self.choice(case));
        let Found { mut senses, uncounted } = self.find(case, setup)?;
        refuse_broken_promises(case, &needs, &senses, &uncounted)?;
        let missing = missing(&needs, &choice, &senses);
        if let Some(first) = missing.first().filter(|_| require == Require::Full) {
            return Err(Failure::about("--require full", first));
        }
        senses.notes.extend(missing);
        if self.sense.is_some() && !needs.any() {
            let name = case.entry.name;
            senses
                .notes
                .push(format!("--sense changes nothing: {name} asks nothing of memory here"));
        }
        Ok(senses)
    }
}

/// A recording as senses.
///
/// # Errors
/// Where it cannot be read, or is of other cores.
pub fn played(file: &Path, setup: &Setup) -> Result<Senses, replay::Error> {
    let recording = Recording::read(file, setup.cores.len(), setup.steering.cycles_per_us)?;
    let (sensor, meters) = (Some(recording.sensor()), recording.meters());
    Ok(Senses { sensor, meters, ..Senses::default() })
}

/// What was chosen, opened.
pub struct Found {
    /// What is opened.
    pub senses: Senses,
    /// Why reads are not counted core by core or VCPU by VCPU, where they are not.
    pub uncounted: String,
}

impl Found {
    fn nothing() -> Self {
        Self { senses: Senses::default(), uncounted: "sense = off".into() }
    }

    fn recorded(file: &Path, setup: &Setup) -> Result<Self, String> {
        let senses = played(file, setup).map_err(|error| error.to_string())?;
        Ok(Self { senses, uncounted: "a recording does not have them".into() })
    }

    fn of_host(needs: &MemoryNeeds, choice: &Sense, setup: &Setup) -> Result<Self, String> {
        let hardware: Arc<dyn Hardware> = Arc::new(ThisHardware);
        let cores: Vec<_> = (0..).map(CoreId).zip(setup.cores.iter().copied()).collect();
        if *choice == Sense::Sensor(SensorKind::Faults) {
            // Nothing has to be tried, and the cores are not loaded for it.
            let opened = faults::open(&*hardware, &cores);
            let senses = opened.map_err(|error| format!("page faults: {error}"))?;
            return Ok(Self { senses, uncounted: String::new() });
        }
        let preference = Preference::probe(&hardware, &cores);
        let mut senses = preference.choose_at(choice, setup.steering.cycles_per_us)?;
        // The many sensors that do not work are reported by the doctor at length.
        senses
            .notes
            .retain(|note| preference.sensors().iter().all(|tried| tried.to_string() != *note));
        senses.notes.extend(better(&preference, needs, choice, &senses));
        senses.notes.extend(counted(&preference, needs, &senses));
        Ok(Self { senses, uncounted: preference.reads().state.to_string() })
    }
}

/// Which sensors would be better than the one in use, where the user did not ask for that one.
fn better(
    preference: &Preference,
    needs: &MemoryNeeds,
    choice: &Sense,
    senses: &Senses,
) -> Option<String> {
    let used =
        senses.sensor.as_ref().filter(|_| needs.samples && *choice == Sense::Auto)?.sensor_kind();
    let better = preference.sensors().iter().take_while(|tried| tried.sensor_kind != used);
    let better: Vec<_> = better.map(|tried| tried.sensor_kind.word()).collect();
    let (used, words) = (used.word(), better.join(", "));
    (!better.is_empty()).then(|| {
        format!(
            "memory is sampled by {used}; what is better does not work here ({words}; `maracas \
             doctor` says why)"
        )
    })
}

/// By what cores and VCPUs are held to their bandwidth.
fn counted(preference: &Preference, needs: &MemoryNeeds, senses: &Senses) -> Option<String> {
    let wanted = needs.meters || needs.weighs || needs.limited.is_some();
    let events = preference.reads().events.join(", ");
    let rings = senses.meters.iter().any(|meter| meter.fd().is_some());
    let reported =
        if needs.meters && rings { "signalled by its overflow" } else { "asked for by polling" };
    (wanted && preference.reads().state.works())
        .then(|| format!("reads of memory are counted by {events}, {reported}"))
}

/// Leaves out what nothing asks for: counting costs at every dispatch.
fn keep_what_is_needed(needs: &MemoryNeeds, senses: &mut Senses) {
    if !needs.samples {
        senses.sensor = None;
    }
    if !needs.meters {
        senses.meters.clear();
    }
    // A core's own count sees the host's other programs too; that of its VCPUs does not.
    if !needs.meters && !needs.weighs && needs.limited.is_none() {
        senses.vcpus = VcpuEvents::default();
        senses.overflows = None;
    }
}

/// Refuses bandwidth to which no core or VCPU could be held; `uncounted` says why.
fn refuse_broken_promises(
    case: &Case,
    needs: &MemoryNeeds,
    senses: &Senses,
    uncounted: &str,
) -> Result<(), Failure> {
    let name = case.entry.name;
    if needs.meters && senses.meters.is_empty() {
        let plain = name.rsplit('+').next().filter(|plain| *plain != name);
        let instead = plain.map_or(String::new(), |plain| format!("take {plain}, "));
        return Err(case.bad_policy(&format!(
            "policy {name} holds cores to a bandwidth, and reads of memory are not counted core by \
             core here ({uncounted}); {instead}play a recording with --sense replay:FILE, or \
             simulate it with `maracas sim`"
        )));
    }
    if needs.meters || needs.limited.is_some() {
        let verdict = (case.entry.admit)(&case.system, &case.params);
        let meters = verdict.regulation.map(|limits| limits.meters).unwrap_or_default();
        if let Some(why) = uncountable(meters) {
            return Err(
                case.bad_policy(&format!("policy {name} {why}; simulate it with `maracas sim`"))
            );
        }
    }
    let unlimited = needs.limited.as_ref().filter(|_| senses.vcpus.reads.is_none());
    let Some(names) = unlimited else { return Ok(()) };
    Err(case.bad_bandwidth(&format!(
        "{names}: reads of memory are not counted VCPU by VCPU here ({uncounted}), so that none \
         can be held to a `bandwidth`; drop it, or simulate it with `maracas sim`"
    )))
}

/// What no live run counts, and the parameter without which it is not needed.
fn uncountable(meters: Meters) -> Option<&'static str> {
    if meters.controller {
        return Some(
            "follows how long the memory controller is busy (`regulate = \"utilization\"`), which \
             live runs do not read; leave out `regulate`",
        );
    }
    match meters.counts {
        Metered::Reads => None,
        Metered::Requests => Some(
            "counts write-backs (`count = \"requests\"`), which live runs do not count core by \
             core; leave out `count`",
        ),
        Metered::BankReads | Metered::BankRequests => Some(
            "counts requests by bank of the memory (`regulate = \"banks\"`), for which processors \
             have no counter; leave out `regulate`",
        ),
    }
}

/// What the policy would use and has not, and what follows from that.
fn missing(needs: &MemoryNeeds, choice: &Sense, senses: &Senses) -> Vec<String> {
    let blind = (needs.weighs && senses.vcpus.reads.is_none()).then(|| {
        "reads are not counted VCPU by VCPU: which uses memory least is not known, and all count \
         as alike"
            .to_string()
    });
    let samples = needs.samples.then(|| not_sampled(needs, choice, senses)).flatten();
    blind.into_iter().chain(samples).collect()
}

/// What there is of samples to miss.
fn not_sampled(needs: &MemoryNeeds, choice: &Sense, senses: &Senses) -> Option<String> {
    let never = if needs.latency { ": no core is ever throttled" } else { "" };
    let Some(sensor) = &senses.sensor else {
        let why = match choice {
            Sense::Off => "sense = off".to_string(),
            Sense::Auto | Sense::Sensor(_) | Sense::Replay(_) => {
                "no sensor works here, `maracas doctor` says why".to_string()
            }
        };
        return Some(format!("memory is not sampled ({why}){never}"));
    };
    let sensor_kind = sensor.sensor_kind();
    (needs.latency && !sensor_kind.has_latency()).then(|| without_latency(sensor_kind))
}

fn without_latency(sensor_kind: SensorKind) -> String {
    format!(
        "{sensor_kind} ({}) knows no latency: under throttle = latency no core \
 is ever throttled; take \
         throttle = rate, --sense chase, or --sense replay:FILE",
        sensor_kind.word()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_live_run_counts_is_said_with_the_parameter() {
        let said = |counts, controller| uncountable(Meters { counts, controller });
        assert_eq!(said(Metered::Reads, false), None);
        assert!(said(Metered::Reads, true).is_some_and(|why| why.contains("busy")));
        assert!(said(Metered::Requests, false).is_some_and(|why| why.contains("write-backs")));
        assert!(said(Metered::BankReads, false).is_some_and(|why| why.contains("by bank")));
        assert!(said(Metered::BankRequests, false).is_some_and(|why| why.contains("by bank")));
    }

    #[test]
    fn what_is_missing_is_said_with_what_follows() {
        let watch = MemoryNeeds { samples: true, ..MemoryNeeds::default() };
        let latency = MemoryNeeds { latency: true, ..watch.clone() };
        let nothing = Senses::default();
        assert!(missing(&MemoryNeeds::default(), &Sense::Auto, &nothing).is_empty());
        let said = missing(&watch, &Sense::Off, &nothing);
        assert_eq!(said, ["memory is not sampled (sense = off)"]);
        let said = missing(&latency, &Sense::Auto, &nothing).join("\n");
        assert!(said.contains("doctor") && said.ends_with("no core is ever throttled"), "{said}");
        let weighs = MemoryNeeds { weighs: true, ..MemoryNeeds::default() };
        assert!(missing(&weighs, &Sense::Auto, &nothing)[0].contains("all count as alike"));
        let said = without_latency(SensorKind::Rate);
        assert!(said.starts_with("misses of the cores (rate) knows no latency: under "), "{said}");
    }
}
