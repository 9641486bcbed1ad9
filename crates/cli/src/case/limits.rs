//! What a case asks for that its machine or its policy does not do: refused where it is a promise
//! that would be broken, told where it is only left aside.

use super::Case;
use crate::failure::Failure;
use maracas_core::admission::NotAdmitted;
use maracas_core::contract::Entry;
use maracas_core::memory::{Device, LINE_BYTES};
use maracas_core::params::Params;
use maracas_core::{Criticality, Role, Vcpu};
use maracas_scenario::VcpuSpec;
use maracas_sim::memory::dram::{Law, Requestor};

/// What a VCPU asks for: its key, whether it does, and the parameter of policies that keep it. A
/// policy that keeps such a thing lets users say how.
type Demand = (&'static str, fn(&Vcpu) -> bool, &'static str);

const DEMANDS: [Demand; 3] = [
    ("colors", |vcpu| vcpu.colors != 0, "colors"),
    ("bandwidth", |vcpu| vcpu.bandwidth != 0, "bandwidth"),
    ("criticality", |vcpu| vcpu.criticality == Criticality::Low, "recolor"),
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
            let (policy, instead) = (self.entry.name, self.keeper(param));
            Some(format!("{names}: policy {policy} does not keep `{key}`; {instead}drop it"))
        };
        unkept.filter_map(sentence).collect()
    }

    /// Whether the policy keeps what VCPUs ask for by `key`, such as `colors`.
    pub(crate) fn keeps(&self, key: &str) -> bool {
        DEMANDS.iter().any(|(known, _, param)| *known == key && takes(self.entry, param))
    }

    /// The nearest policy that takes `param`, as the beginning of a way out.
    fn keeper(&self, param: &str) -> String {
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
        let first = self.first_carrier();
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

    /// Refuses what the live machine cannot do yet: counters, errands, and what single VCPUs ask
    /// of the memory.
    pub(super) fn refuse_what_is_simulated_only(&self) -> Result<(), Failure> {
        let name = self.entry.name;
        if self.entry.needs.counters {
            let plain = name.rsplit('+').next().filter(|plain| *plain != name);
            let instead = plain.map_or(String::new(), |plain| format!("take {plain}, or "));
            return Err(self.bad_policy(&format!(
                "policy {name} needs memory counters, which the live machine does not read yet; \
                 {instead}simulate it with `maracas sim`"
            )));
        }
        self.refuse_errands()?;
        let Some(scenario) = &self.scenario else { return Ok(()) };
        for spec in &scenario.vcpus {
            if let Some((key, what, at)) = asks_of_memory(spec) {
                let why = format!(
                    "{} asks for {what}, which the live machine does not give yet; drop `{key}`, \
                     or simulate it with `maracas sim`",
                    spec.name
                );
                return Err(Failure::new(scenario.at(at, why)));
            }
        }
        Ok(())
    }

    /// Adds to the verdict what holds under every policy on a live machine: nobody gets more of one
    /// core than may be given away there, or the kernel's fair server takes that core from it.
    pub(super) fn refuse_too_heavy(&mut self) {
        let Self { start, verdict, .. } = self;
        let heavy = start.vcpus.iter().filter(|vcpu| {
            let told = verdict.refused.iter().any(|(refused, _)| *refused == vcpu.id);
            vcpu.reservation.utilization() > start.capacity && !told
        });
        let refusal = |vcpu: &Vcpu| {
            let (id, r) = (vcpu.id, &vcpu.reservation);
            let reason = format!(
                "{id} ({} every {}) asks for {} of a core, of which {} may be used; lower its \
                 budget or lengthen its period",
                r.budget,
                r.period,
                r.utilization(),
                start.capacity
            );
            (id, NotAdmitted { reason, closest: None })
        };
        let heavy: Vec<_> = heavy.map(refusal).collect();
        verdict.refused.extend(heavy);
    }

    /// Refuses the parameters for which the policy sends VCPUs of its own on errands.
    fn refuse_errands(&self) -> Result<(), Failure> {
        let (system, first) = (self.without_carriers(), self.first_carrier());
        let sends = |params: &Params, role| {
            (self.entry.carriers)(&system, params, first).iter().any(|vcpu| vcpu.role == role)
        };
        let without = |cause: &str| {
            let mut params = Params::new();
            let others = self.params.iter().filter(|(other, _)| *other != cause);
            others.for_each(|(other, value)| params.set(other, value.clone()));
            params
        };
        let errands = [
            (Role::Monitor, "samples memory counters"),
            (Role::Migration, "moves VCPUs while they run"),
        ];
        let asked = errands.iter().filter(|(role, _)| sends(&self.params, *role));
        let causes: Vec<_> = asked
            .map(|(role, does)| {
                let mut given = self.params.iter().map(|(name, _)| name);
                (given.find(|name| !sends(&without(name), *role)), *does)
            })
            .collect();
        let Some(((cause, does), others)) = causes.split_first() else { return Ok(()) };
        let word = |cause: &Option<&str>| cause.map_or("it".into(), |name| format!("`{name}`"));
        let others: String =
            others.iter().map(|(cause, does)| format!(" and {} {does}", word(cause))).collect();
        let why = format!(
            "{does}{others}, which the live machine does not do yet; leave it out, or simulate it \
             with `maracas sim`"
        );
        Err(match cause {
            Some(name) => self.bad_param(name, &why),
            None => self.bad_policy(&format!("policy {} {why}", self.entry.name)),
        })
    }

    /// What is wrong with the choice of the policy, at the place where it was made.
    pub(super) fn bad_policy(&self, why: &str) -> Failure {
        match &self.scenario {
            Some(scenario) if scenario.policy.name == self.entry.name => {
                Failure::new(scenario.at_policy(why))
            }
            Some(_) => Failure::about(&self.file, why),
            None => Failure::new(why),
        }
    }

    /// What of the scenario the live machine leaves aside, in a sentence; `None` where nothing.
    pub(super) fn left_aside(&self) -> Option<String> {
        let scenario = self.scenario.as_ref()?;
        let memory = scenario.platform.memory.as_ref().map(|_| "the platform's memory".to_string());
        let devices = match scenario.devices.len() {
            0 => None,
            1 => Some("1 device".to_string()),
            count => Some(format!("{count} devices")),
        };
        let low = self.names_of(&|vcpu| vcpu.criticality == Criticality::Low);
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
}

/// What a VCPU asks of the memory: its key, in words, and where.
fn asks_of_memory(
    spec: &VcpuSpec,
) -> Option<(&'static str, &'static str, maracas_scenario::Location)> {
    let colors = (spec.vcpu.colors != 0).then_some((
        "colors",
        "a part of the cache",
        spec.colors_at.unwrap_or(spec.at),
    ));
    let bandwidth = (spec.vcpu.bandwidth != 0).then_some((
        "bandwidth",
        "memory bandwidth",
        spec.bandwidth_at.unwrap_or(spec.at),
    ));
    colors.or(bandwidth)
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
