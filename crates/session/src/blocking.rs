//! How long jobs waited for shared resources, beside what their VCPUs were given.

use crate::case::Case;
use maracas_core::resources::Protocol;
use maracas_core::{Duration, VcpuId};
use maracas_sim::locks::Blocking;
use maracas_trace::table::time;
use serde_json::{Value, json};
use std::fmt::Write;

const HEAD: [&str; 7] =
    ["vcpu", "requests", "waited", "longest wait", "blocked", "longest blocked", "bound"];

/// The VCPUs of a run whose jobs share resources, by name.
pub struct Blocked {
    protocol: Protocol,
    /// Each with its name and how long the verdict says that a job is blocked at most.
    rows: Vec<(String, Blocking, Option<Duration>)>,
    ticks_per_ns: u64,
}

impl Blocked {
    /// What the jobs of `case` came to; `None` where they share nothing.
    pub fn new(case: &Case, blocking: &[Blocking]) -> Option<Self> {
        let protocol = case.system.resources.as_ref()?.protocol;
        let row = |one: &Blocking| (case.name(one.vcpu), one.clone(), bound(case, one.vcpu));
        let rows = blocking.iter().map(row).collect();
        Some(Self { protocol, rows, ticks_per_ns: case.system.ticks_per_ns })
    }

    /// A table, a line for each VCPU.
    pub fn text(&self) -> String {
        let mut rows = vec![HEAD.map(String::from)];
        rows.extend(self.rows.iter().map(|row| self.row(row)));
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> = (0..HEAD.len()).filter_map(width).collect();
        let mut text = format!("resources under {}:\n", self.protocol.name());
        for row in &rows {
            let _ = write!(text, "{:<1$}", row[0], widths[0]);
            for (cell, width) in row.iter().zip(&widths).skip(1) {
                let _ = write!(text, "  {cell:>width$}");
            }
            text.push('\n');
        }
        text
    }

    fn ns(&self, time: Duration) -> u64 {
        time.ticks() / self.ticks_per_ns
    }

    fn row(&self, (name, blocking, bound): &(String, Blocking, Option<Duration>)) -> [String; 7] {
        let shown = |it: Duration| time(self.ns(it) as f64);
        [
            name.clone(),
            blocking.requests.to_string(),
            shown(blocking.waited),
            shown(blocking.waited_max),
            shown(blocking.blocked),
            shown(blocking.blocked_max),
            bound.map_or("-".into(), shown),
        ]
    }

    /// The same for programs; times are nanoseconds.
    pub fn to_json(&self) -> Value {
        let row = |(name, blocking, bound): &(String, Blocking, Option<Duration>)| {
            json!({
                "name": name,
                "requests": blocking.requests,
                "waited_sum_ns": self.ns(blocking.waited),
                "waited_max_ns": self.ns(blocking.waited_max),
                "blocked_sum_ns": self.ns(blocking.blocked),
                "blocked_max_ns": self.ns(blocking.blocked_max),
                "bound_ns": bound.map(|bound| self.ns(bound)),
            })
        };
        let vcpus: Vec<Value> = self.rows.iter().map(row).collect();
        json!({ "protocol": self.protocol.name(), "vcpus": vcpus })
    }
}

/// How long a job of `vcpu` is blocked at most, where the verdict says it.
fn bound(case: &Case, vcpu: VcpuId) -> Option<Duration> {
    case.verdict.blocking.iter().find(|(id, _)| *id == vcpu).map(|(_, bound)| *bound)
}

/// The bounds of a verdict, for people: a line, or nothing.
pub(crate) fn bounds_text(case: &Case, bounds: &[(VcpuId, Duration)]) -> String {
    let Some(resources) = case.system.resources.as_ref().filter(|_| !bounds.is_empty()) else {
        return String::new();
    };
    let shown = |(id, bound): &(VcpuId, Duration)| format!("{} {bound}", case.name(*id));
    let list: Vec<_> = bounds.iter().map(shown).collect();
    format!("  blocked at most under {}: {}\n", resources.protocol.name(), list.join(", "))
}

/// The same for programs.
pub(crate) fn bounds_json(case: &Case, bounds: &[(VcpuId, Duration)]) -> Value {
    let one = |(id, bound): &(VcpuId, Duration)| {
        let bound_ns = case.in_nanos(*bound).ticks();
        json!({ "vcpu": case.name(*id), "bound_ns": bound_ns })
    };
    bounds.iter().map(one).collect()
}
