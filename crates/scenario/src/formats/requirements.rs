//! What tasks of SchedCAT ask of resources. It says how often and for how long at most, not when in
//! a job: the sections are spread evenly over it. Readers exclude each other as writers do.

use super::decimal::MICROSECONDS;
use super::xml::Element;
use crate::error::Error;
use maracas_core::resources::{Protocol, Resources, Section};
use maracas_core::{Duration, Vcpu};
use std::collections::BTreeMap;

const REQUIREMENT: [&str; 5] =
    ["res_id", "max_reads", "max_writes", "max_read_length", "max_write_length"];
/// The most requests of a job: more is taken for a slip of the finger.
const MOST_REQUESTS: u64 = 1_000;

/// The resources of a set as they are found.
#[derive(Debug)]
pub(super) struct Found {
    resources: Resources,
    asked: usize,
}

impl Found {
    pub(super) const fn new() -> Self {
        // Which protocol it is, who simulates the set says.
        let protocol = Protocol::Mpcp;
        let resources = Resources { protocol, names: Vec::new(), sections: BTreeMap::new() };
        Self { resources, asked: 0 }
    }
    /// What was found, if something was.
    pub(super) fn resources(self) -> Option<Resources> {
        (self.asked > 0).then_some(self.resources)
    }
    /// Reads what jobs of a task ask for.
    pub(super) fn take(&mut self, task: Element<'_, '_>, vcpu: &Vcpu) -> Result<(), Error> {
        let mut lengths = Vec::new();
        for model in task.elements(&["resources"])? {
            for requirement in model.elements(&["requirement"])? {
                requirement.check_attributes(&REQUIREMENT, &[])?;
                let id = requirement.attribute("res_id").map_or("0", |id| id.text.trim());
                let resource = self.place(id);
                let asks = [
                    ("max_writes", 1, "max_write_length", Duration::from_micros(1)),
                    ("max_reads", 0, "max_read_length", Duration::ZERO),
                ];
                for (count, least, length, short) in asks {
                    let count = number(requirement, count, least)?;
                    let length = requirement.time(length, MICROSECONDS)?;
                    let length = length.map_or(short, |(given, _)| given.time);
                    if !length.is_zero() {
                        lengths.extend(std::iter::repeat_n((resource, length), count as usize));
                    }
                }
            }
        }
        if lengths.is_empty() {
            return Ok(());
        }
        self.asked += 1;
        let sections = spread(&lengths, vcpu.reservation.budget);
        self.resources.sections.insert(vcpu.id, sections);
        self.resources.check(vcpu).map_err(|(_, why)| task.error(why))
    }
    fn place(&mut self, id: &str) -> u32 {
        let names = &mut self.resources.names;
        let place = names.iter().position(|name| name == id);
        place.unwrap_or_else(|| {
            names.push(id.into());
            names.len() - 1
        }) as u32
    }
}

/// The sections in a job of `budget`, with as much of it before, between and after them.
fn spread(lengths: &[(u32, Duration)], budget: Duration) -> Vec<Section> {
    let used: Duration = lengths.iter().map(|(_, length)| *length).sum();
    let free = budget.saturating_sub(used).ticks();
    let gaps = lengths.len() as u64 + 1;
    let mut before = Duration::ZERO;
    let place = |(place, (resource, length)): (u64, &(u32, Duration))| {
        let free = (u128::from(free) * u128::from(place) / u128::from(gaps)) as u64;
        let section = Section {
            resource: *resource,
            at: before + Duration::from_ticks(free),
            length: *length,
        };
        before += *length;
        section
    };
    (1..).zip(lengths).map(place).collect()
}

fn number(element: Element<'_, '_>, label: &'static str, missing: u64) -> Result<u64, Error> {
    let Some(given) = element.attribute(label) else { return Ok(missing) };
    let number = given.text.trim().parse().ok().filter(|number| *number <= MOST_REQUESTS);
    number.ok_or_else(|| {
        element.error(format!("`{label}` is a whole number from 0 to {MOST_REQUESTS}; correct it"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_lie_apart_in_a_job() {
        let us = Duration::from_micros;
        let sections = spread(&[(0, us(2)), (1, us(4))], us(12));
        let places: Vec<_> = sections.iter().map(|it| (it.resource, it.at, it.length)).collect();
        assert_eq!(places, [(0, us(2), us(2)), (1, us(6), us(4))]);
    }
}
