//! What an optimal scheduler made of a task set before it started: RUN's reduction tree, QPS's
//! processor hierarchy, as text, as a picture and as JSON.

mod fraction;
mod svg;
mod text;

use crate::case::Case;
use fraction::Fraction;
use maracas_console::failure::Failure;
use maracas_core::admission::Verdict;
use maracas_core::{CoreId, CoreSet, Vcpu, VcpuId};
use maracas_policies::tree::{self, Kind, Node, Subsystem, Tree};
use serde_json::{Value, json};

/// A tree and the names in it.
pub struct Drawing<'a> {
    case: &'a Case,
    tree: Tree,
}

/// The tree that the policy of `case` makes of its system, or the verdict by which it refuses.
///
/// # Errors
/// Where the policy has no tree; names those that have one.
pub fn of(case: &Case) -> Result<Result<Drawing<'_>, Verdict>, Failure> {
    let policy = case.entry.name;
    let tree = tree::of(policy, &case.start, &case.params).ok_or_else(|| {
        let all: Vec<_> = tree::BUILDERS.iter().map(|(name, _)| *name).collect();
        Failure::new(format!("{policy} has no tree; these have: {}", all.join(", ")))
    })?;
    Ok(tree.map(|tree| Drawing { case, tree }))
}

impl Drawing<'_> {
    /// As text, a page for a terminal.
    pub fn text(&self) -> String {
        text::page(self)
    }
    /// As an SVG picture that needs no other file.
    pub fn svg(&self) -> String {
        svg::picture(self)
    }
    /// The parts that hold tasks. QPS gives every core a set, RUN leaves those out that no task
    /// needs.
    fn used(&self) -> impl Iterator<Item = &Subsystem> {
        self.tree.subsystems.iter().filter(|subsystem| !subsystem.root.tasks().is_empty())
    }

    fn empty_cores(&self) -> Vec<CoreId> {
        let used: CoreSet = self.used().flat_map(|subsystem| &subsystem.cores).copied().collect();
        let all = (0..self.case.system.cores.len() as u16).map(CoreId);
        all.filter(|core| !used.contains(*core)).collect()
    }

    fn heading(&self) -> String {
        let (tasks, cores) = (self.case.start.vcpus.len(), self.case.system.cores.len());
        format!(
            "{}: {tasks} task{} on {cores} core{} under {}{}",
            self.case.file,
            if tasks == 1 { "" } else { "s" },
            if cores == 1 { "" } else { "s" },
            self.case.entry.name,
            self.packing(),
        )
    }

    fn packing(&self) -> String {
        let packing = self.case.entry.params.iter().find(|param| param.name == "packing");
        packing.map_or_else(String::new, |param| {
            format!(", packing = {}", self.case.params.choice(param))
        })
    }

    /// The whole tree in a line of numbers.
    fn summary(&self) -> String {
        let used: usize = self.used().map(|subsystem| subsystem.cores.len()).sum();
        let alone = self.used().filter(|subsystem| subsystem.root.level == 0).count();
        let all = self.used().count();
        format!(
            "levels {}, subsystems {all}, partitioned cores {alone}, cores used {used} of {}, \
             idle {}",
            self.tree.depth(),
            self.case.system.cores.len(),
            self.idle().map_or_else(|| "unknown".into(), Fraction::short),
        )
    }

    /// What the tasks leave of the cores in use.
    fn idle(&self) -> Option<Fraction> {
        let mut idle = Some(Fraction::ZERO);
        for subsystem in self.used() {
            idle = idle.and_then(|idle| idle.plus(Fraction::whole(subsystem.cores.len() as u64)));
            subsystem.root.walk(&mut |node| {
                if let Kind::Task(_) = node.kind {
                    idle = idle.and_then(|idle| idle.minus(node.rate.into()));
                }
            });
        }
        idle
    }

    fn name(&self, vcpu: VcpuId) -> String {
        self.case.name(vcpu)
    }

    fn spec(&self, vcpu: VcpuId) -> Option<&Vcpu> {
        self.case.start.vcpu(vcpu)
    }

    /// C, T and, where it is another, D.
    fn reservation(&self, vcpu: VcpuId) -> String {
        self.spec(vcpu).map_or_else(String::new, |spec| {
            let r = spec.reservation;
            let deadline = format!(" in {}", r.deadline);
            let deadline = if r.deadline == r.period { "" } else { &deadline };
            format!("{}{deadline} every {}", r.budget, r.period)
        })
    }

    /// As JSON: its subsystems, each a root with its children.
    pub fn to_json(&self) -> Value {
        let subsystem = |subsystem: &Subsystem| {
            json!({
                "cores": subsystem.cores.iter().map(|core| core.0).collect::<Vec<_>>(),
                "levels": subsystem.root.level,
                "root": self.node_json(&subsystem.root),
            })
        };
        json!({
            "file": self.case.file,
            "policy": self.case.entry.name,
            "version": env!("CARGO_PKG_VERSION"),
            "cores": self.case.system.cores.len(),
            "levels": self.tree.depth(),
            "idle": self.idle().map(|idle| idle.to_string()),
            "empty_cores": self.empty_cores().iter().map(|core| core.0).collect::<Vec<_>>(),
            "subsystems": self.used().map(subsystem).collect::<Vec<_>>(),
        })
    }

    fn node_json(&self, node: &Node) -> Value {
        let mut json = json!({
            "kind": kind(node),
            "level": node.level,
            "rate": node.rate.to_string(),
        });
        match node.kind {
            Kind::Task(vcpu) => {
                json["task"] = self.name(vcpu).into();
                if let Some(r) = self.spec(vcpu).map(|spec| spec.reservation) {
                    json["budget_ns"] = r.budget.ticks().into();
                    json["period_ns"] = r.period.ticks().into();
                }
                return json;
            }
            Kind::Server => {
                json["idle"] = idle_of(node).map(|idle| idle.to_string()).into();
            }
            Kind::Set(core) => json["core"] = core.0.into(),
            Kind::Dual | Kind::Master => {}
        }
        json["children"] = node.children.iter().map(|child| self.node_json(child)).collect();
        json
    }
}

/// What a node is, in a word.
fn kind(node: &Node) -> &'static str {
    match node.kind {
        Kind::Task(_) => "task",
        Kind::Server => "server",
        Kind::Dual => "dual",
        Kind::Set(_) => "set",
        Kind::Master => "master",
    }
}

/// The idle time that a server was given.
fn idle_of(node: &Node) -> Option<Fraction> {
    let whole = Fraction::from(node.rate);
    node.children.iter().try_fold(whole, |left, child| left.minus(child.rate.into()))
}

/// `core0 to core2, core5`.
fn listed(cores: &[CoreId]) -> String {
    let mut text = String::new();
    let mut rest = cores.iter().peekable();
    while let Some(first) = rest.next() {
        let mut last = first;
        while let Some(next) = rest.next_if(|next| next.0 == last.0 + 1) {
            last = next;
        }
        let comma = if text.is_empty() { "" } else { ", " };
        text += &match last.0 - first.0 {
            0 => format!("{comma}{first}"),
            1 => format!("{comma}{first}, {last}"),
            _ => format!("{comma}{first} to {last}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Overrides;
    use std::fmt::Write as _;

    /// The case of a task set of such (C, T) in milliseconds.
    pub(super) fn case(policy: &str, cores: usize, tasks: &[(u64, u64)]) -> Case {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("maracas-tree-{}-{number}.csv", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut csv = String::from("cost_us,period_us\n");
        for (cost, period) in tasks {
            let _ = writeln!(csv, "{},{}", cost * 1_000, period * 1_000);
        }
        std::fs::write(&path, csv).unwrap();
        let policy = Some(policy.to_string());
        let overrides = Overrides { policy, cores: Some(cores), ..Overrides::default() };
        let case = Case::tasks(&path, None, &overrides);
        std::fs::remove_file(&path).unwrap();
        case.unwrap_or_else(|why| panic!("{why:?}"))
    }

    #[test]
    fn cores_are_listed_in_runs() {
        let cores: Vec<_> = [0, 1, 2, 5, 7, 8].map(CoreId).into();
        assert_eq!(listed(&cores), "core0 to core2, core5, core7, core8");
        assert_eq!(listed(&[]), "");
    }
}
