//! Whether the cores and VCPUs are such that the policy can do with them: it is refused where it
//! cannot, and said where it overlooks what makes them differ.

use super::{Case, Machine};
use maracas_console::failure::Failure;
use maracas_core::Vcpu;
use maracas_core::contract::Entry;

/// Something that a VCPU says for policies that look at classes of cores: its key, and whether it
/// says so.
type Says = (&'static str, fn(&Vcpu) -> bool);

const OF_CLASSES: [Says; 2] =
    [("class", |vcpu| vcpu.class.is_some()), ("speedup", |vcpu| vcpu.speedup_milli.is_some())];

impl Case {
    /// Refuses cores of other classes than the policy works on, and VCPUs without a budget where it
    /// gives no time without one.
    pub(super) fn refuse_unmet_needs(&self) -> Result<(), Failure> {
        self.refuse_other_classes()?;
        let Some(scenario) = &self.scenario else { return Ok(()) };
        let idle = scenario.vcpus.iter().find(|spec| spec.vcpu.reservation.is_none());
        let Some(spec) = idle.filter(|_| self.entry.needs.budgets) else { return Ok(()) };
        let why = format!(
            "{} has no budget, and policy {} gives no time without one; add budget and \
             period{}",
            spec.name,
            self.entry.name,
            self.instead(|entry| !entry.needs.budgets)
        );
        Err(Failure::new(scenario.at_vcpu(spec.vcpu.id, why)))
    }

    fn refuse_other_classes(&self) -> Result<(), Failure> {
        let (needed, there) = (usize::from(self.entry.needs.classes), self.system.classes.len());
        if needed == 0 || needed <= there {
            return Ok(());
        }
        let name = self.entry.name;
        let there = match there {
            1 => "these are all equal".to_string(),
            more => format!("these are of {more}"),
        };
        let way_out = match (&self.scenario, self.machine) {
            (None, _) => "write a scenario whose [platform] has so many".to_string(),
            (Some(_), Machine::Sim) => format!(
                "give [platform] {needed} [[platform.class]] tables, or a preset such as \
                 \"phenom-ii-x6\""
            ),
            (Some(_), Machine::Live) => {
                format!("give [platform] {needed} [[platform.class]] tables")
            }
        };
        Err(self.bad_policy(&format!(
            "policy {name} works on cores of {needed} classes or more, and {there}; {way_out}"
        )))
    }

    /// `, or take A, B or C`: the policies of which `can` holds; nothing where there are none.
    fn instead(&self, can: fn(&Entry) -> bool) -> String {
        let wrapped = self.entry.name.contains('+');
        let alike = maracas_policies::all().filter(|entry| entry.name.contains('+') == wrapped);
        let names: Vec<_> = alike.filter(|entry| can(entry)).map(|entry| entry.name).collect();
        match names.as_slice() {
            [] => String::new(),
            [one] => format!(", or take {one}"),
            [some @ .., last] => format!(", or take {} or {last}", some.join(", ")),
        }
    }

    /// What a policy that looks at no class of cores leaves aside on uneven ones.
    pub(super) fn of_classes(&self) -> Vec<String> {
        if self.entry.needs.classes > 0 {
            return Vec::new();
        }
        let (name, instead) = (self.entry.name, self.instead(|entry| entry.needs.classes > 0));
        let uneven = (!self.system.is_even()).then(|| {
            format!(
                "policy {name} looks at no class of cores: a budget is time on whichever core, \
                 fast or slow"
            )
        });
        let unkept = OF_CLASSES.iter().filter_map(|(key, says)| {
            let names = self.names_of(says)?;
            Some(format!("{names}: policy {name} does not keep `{key}`; drop it{instead}"))
        });
        uneven.into_iter().chain(unkept).collect()
    }
}
