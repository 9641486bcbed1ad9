//! What a case asks for that its machine or its policy does not do: refused where it is a promise
//! that would be broken, reported where it is only left aside.

use super::Case;
use maracas_console::failure::Failure;
use maracas_core::contract::Entry;
use maracas_core::memory::{Device, LINE_BYTES, Partition};
use maracas_core::{Criticality, Vcpu};
use maracas_scenario::{CacheSplit, PlatformMemory};
use maracas_sim::memory::dram::{Law, Requestor};

/// What a VCPU asks for: its key, whether it does, and the parameter of policies that keep it. A
/// policy that keeps such a thing lets users say how.
type Demand = (&'static str, fn(&Vcpu) -> bool, &'static str);

const DEMANDS: [Demand; 4] = [
    ("colors", |vcpu| vcpu.colors != 0, "colors"),
    ("bandwidth", |vcpu| vcpu.bandwidth.is_some(), "bandwidth"),
    ("criticality", |vcpu| vcpu.criticality == Criticality::Low, "recolor"),
    ("weight", |vcpu| vcpu.weight != 1, "progress"),
];

fn takes(entry: &Entry, param: &str) -> bool {
    entry.params.iter().any(|known| known.name == param)
}

impl Case {
    /// A sentence for each demand of VCPUs that the policy does not keep.
    pub(super) fn unkept(&self) -> Vec<String> {
        let unkept = DEMANDS.iter().filter(|(.., param)| !takes(self.entry, param));
        let sentence = |(key, asks, param): &Demand| {
            let names = self.names_of(asks)?;
            let (policy, instead) = (self.entry.name, self.supervisor(param));
            Some(format!("{names}: policy {policy} does not keep `{key}`; {instead}drop it"))
        };
        unkept.filter_map(sentence).chain(self.colors_of_no_cache()).collect()
    }

    /// A sentence where VCPUs ask for parts of a cache that the platform does not split.
    fn colors_of_no_cache(&self) -> Option<String> {
        let platform = &self.scenario.as_ref()?.platform;
        let is_split = platform.memory.as_ref().is_some_and(|memory| !memory.shares.is_empty());
        if is_split || !self.keeps("colors") {
            return None;
        }
        let names = self.names_of(&|vcpu| vcpu.colors != 0)?;
        Some(format!(
            "{names}: `colors` asks for nothing, as [platform] splits no cache; add `colors` or \
             `ways` there, or drop it here"
        ))
    }

    /// Whether the policy keeps what VCPUs ask for by `key`, such as `colors`.
    pub fn keeps(&self, key: &str) -> bool {
        DEMANDS.iter().any(|(known, _, param)| *known == key && takes(self.entry, param))
    }

    /// The nearest policy that takes `param`, as the beginning of a way out.
    fn supervisor(&self, param: &str) -> String {
        let name = self.entry.name;
        let around = maracas_policies::find(&format!("memguard+{name}"));
        let alike = |entry: &&Entry| entry.name.contains('+') == name.contains('+');
        let keeps = |entry: &&Entry| takes(entry, param);
        let found = around.filter(keeps);
        let found = found.or_else(|| maracas_policies::all().filter(alike).find(keeps));
        found.map_or(String::new(), |entry| format!("take {}, or ", entry.name))
    }

    /// The user's VCPUs of which `asks` holds, in a row; `None` where there are none.
    pub(super) fn names_of(&self, asks: &dyn Fn(&Vcpu) -> bool) -> Option<String> {
        let first = self.first_service_vcpu();
        let own = self.system.vcpus.iter().filter(|vcpu| vcpu.id < first && asks(vcpu));
        let names: Vec<_> = own.map(|vcpu| self.name(vcpu.id)).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Says of the first device that asks for more than it could read with the memory to itself.
    pub(super) fn refuse_impossible_devices(&self) -> Result<(), Failure> {
        let (Some(scenario), Some(memory)) = (&self.scenario, &self.memory) else { return Ok(()) };
        let law = Law::new(&memory.dram);
        for (place, device) in memory.devices.iter().enumerate() {
            let (asked, most) = (device.reads_per_s * LINE_BYTES / 1_000_000, most(&law, device));
            if asked > most {
                let (name, outstanding) = (&device.name, device.outstanding_milli as f64 / 1e3);
                return Err(Failure::new(scenario.at_device(
                    place,
                    format!(
                        "device {name} asks for {asked}MB/s and would read {most}MB/s at most, \
                         alone with {outstanding} outstanding; lower `bandwidth` or raise \
                         `outstanding`"
                    ),
                )));
            }
        }
        Ok(())
    }

    /// Refuses a VCPU that needs a part of the cache which the policy keeps, on a platform that is
    /// split, where the live machine must leave the cache whole.
    pub(super) fn refuse_unsplit_cache(&self) -> Result<(), Failure> {
        let Some(scenario) = &self.scenario else { return Ok(()) };
        let Some(memory) = scenario.platform.memory.as_ref().filter(|it| !it.shares.is_empty())
        else {
            // All of the cache is every core's, here and in simulation.
            return Ok(());
        };
        let asking = scenario.vcpus.iter().find(|spec| spec.vcpu.colors != 0);
        let left_whole = scenario.live.cache == CacheSplit::Whole && self.keeps("colors");
        let Some(spec) = asking.filter(|_| left_whole) else { return Ok(()) };
        let (name, count, word) = (&spec.name, spec.vcpu.colors, memory.part_word());
        let why = format!(
            "{name} needs {count} {word} of the cache, which a live run leaves whole; split it by \
             [live] cache = \"{}\", or drop `colors`",
            split_word(memory.partition)
        );
        Err(Failure::new(scenario.at(spec.colors_at.unwrap_or(spec.at), why)))
    }

    /// What is wrong with the choice of the policy, at the place where it was made.
    pub fn bad_policy(&self, why: &str) -> Failure {
        match &self.scenario {
            Some(scenario) if scenario.policy.name == self.entry.name => {
                Failure::new(scenario.at_policy(why))
            }
            Some(_) => Failure::about(&self.file, why),
            None => Failure::new(why),
        }
    }

    /// What is wrong with the bandwidth that a VCPU is promised, where the first one is.
    pub fn bad_bandwidth(&self, why: &str) -> Failure {
        let Some(scenario) = &self.scenario else { return Failure::new(why) };
        let first = scenario.vcpus.iter().find(|spec| spec.vcpu.bandwidth.is_some());
        let at = first.map(|spec| spec.bandwidth_at.unwrap_or(spec.at)).unwrap_or_default();
        Failure::new(scenario.at(at, why))
    }

    /// What of the scenario the live machine leaves aside, in a sentence; `None` where nothing.
    pub(super) fn left_aside(&self) -> Option<String> {
        let scenario = self.scenario.as_ref()?;
        let memory = scenario.platform.memory.as_ref().map(|memory| self.memory_aside(memory));
        let devices = match scenario.devices.len() {
            0 => None,
            1 => Some("1 device".to_string()),
            count => Some(format!("{count} devices")),
        };
        let recolours = scenario.live.cache == CacheSplit::Colors;
        let low = self.names_of(&|vcpu| vcpu.criticality == Criticality::Low);
        let low = low.filter(|_| !recolours && self.keeps("criticality"));
        let low = low.map(|names| format!("the criticality of {names}"));
        let paced = scenario.programs.iter().filter(|program| program.pace.is_some());
        let paced: Vec<_> = paced.map(|program| program.name.as_str()).collect();
        let paces = (!paced.is_empty()).then(|| format!("the pace of {}", paced.join(", ")));
        let aside: Vec<_> = [memory, devices, low, paces].into_iter().flatten().collect();
        (!aside.is_empty()).then(|| {
            let aside = aside.join(", ");
            format!("the live machine leaves aside what is for the simulator: {aside}")
        })
    }

    /// Of the platform's memory, all but what policies and the live machine get.
    fn memory_aside(&self, memory: &PlatformMemory) -> String {
        let whole = self.live().cache == CacheSplit::Whole;
        let mut kept = Vec::new();
        if self.senses().samples {
            kept.push(format!("its clock of {} MHz", memory.cycles_per_us));
        }
        if !whole {
            kept.push(format!("its {}", memory.part_word()));
        }
        let split = (whole && !memory.shares.is_empty()).then(|| {
            let (word, split) = (memory.part_word(), split_word(memory.partition));
            format!(", its split by {word} too ([live] cache = \"{split}\" makes it)")
        });
        let but = if kept.is_empty() { String::new() } else { " but ".to_string() };
        format!("the platform's memory{but}{}{}", kept.join(" and "), split.unwrap_or_default())
    }
}

/// The word in `[live]` that makes a platform's split.
const fn split_word(partition: Partition) -> &'static str {
    match partition {
        Partition::Colors => "colors",
        Partition::Ways => "ways",
    }
}

/// What a device reads alone at most, in MB/s, rounded down.
fn most(law: &Law, device: &Device) -> u64 {
    let alone = Requestor {
        pattern: device.pattern,
        outstanding: device.outstanding_milli as f64 / 1e3,
        think_ns: 0.0,
        writebacks: device.writes_milli as f64 / 1e3,
    };
    let mut solved = Vec::new();
    law.solve(&[alone], &mut solved);
    let reads_per_ns = solved.first().map_or(0.0, |one| one.reads_per_ns);
    (reads_per_ns * LINE_BYTES as f64 * 1e3) as u64
}
