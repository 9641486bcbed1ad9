//! Where something stood in the way of promises, and which broken periods lie there.

use crate::Report;
use crate::metrics::{Found, Period};
use crate::table::time;
use maracas_core::journal::{Note, Record};
use maracas_core::{CoreId, VcpuId};
use serde_json::{Value, json};

/// More places of one run are counted only: a page names what a person can look at.
const PLACES_MAX: usize = 20_000;
/// Of each VCPU the worst periods that are named, and of each of them the longest causes.
const PERIODS_MAX: usize = 50;
const CAUSES_MAX: usize = 3;

/// Something that the machine reported of a core; times in nanoseconds.
#[derive(Clone, Debug)]
struct Place {
    core: u16,
    from: u64,
    to: u64,
    kind: &'static str,
    text: String,
    vcpu: Option<VcpuId>,
}

/// All of them in the order in which they ended.
#[derive(Clone, Debug)]
pub(super) struct Places {
    ticks_per_ns: u64,
    list: Vec<Place>,
    left_out: u64,
}

impl Places {
    pub(super) const fn new(ticks_per_ns: u64) -> Self {
        Self { ticks_per_ns, list: Vec::new(), left_out: 0 }
    }

    /// Takes in what a record says of this.
    pub(super) fn record(&mut self, record: &Record) {
        let Record::Note { at, note } = record else { return };
        let Some((core, took, kind, text)) = reported(note) else { return };
        let to = at.ticks() / self.ticks_per_ns;
        let from = to.saturating_sub(took);
        if self.list.len() == PLACES_MAX {
            self.left_out += 1;
            return;
        }
        let vcpu = note.vcpu();
        self.list.push(Place { core: core.0, from, to, kind, text, vcpu });
    }

    /// What the page shows of the places.
    pub(super) fn value(&self) -> Value {
        let each = self.list.iter().map(|it| {
            json!({
                "core": it.core, "from": it.from, "to": it.to, "kind": it.kind, "text": it.text,
                "vcpu": it.vcpu.map(|vcpu| vcpu.0),
            })
        });
        json!({ "list": each.collect::<Vec<_>>(), "left_out": self.left_out })
    }

    /// The periods of each VCPU that were not kept, the worst first, each with the places that
    /// overlap it or the period before on a core where the VCPU ran: the rule by which stolen
    /// time explains a period.
    pub(super) fn broken(&self, report: &Report, periods: &[Vec<Period>]) -> Value {
        let of = |(vcpu, periods): (usize, &Vec<Period>)| {
            let task = report.tasks.iter().find(|task| task.id as usize == vcpu)?;
            let mut off: Vec<&Period> =
                periods.iter().filter(|it| word(it.found).is_some()).collect();
            let count = off.len();
            // Those that count first, then those that are only named.
            off.sort_by_key(|it| (it.found == Found::Stolen, u64::MAX - size(it)));
            off.truncate(PERIODS_MAX);
            let named = off.iter().map(|it| self.period(it, &task.cores));
            (count > 0).then(
                || json!({ "vcpu": vcpu, "count": count, "periods": named.collect::<Vec<_>>() }),
            )
        };
        periods.iter().enumerate().filter_map(of).collect()
    }

    fn period(&self, it: &Period, cores: &[u16]) -> Value {
        let ns = |ticks: u64| ticks / self.ticks_per_ns;
        let (start, length) = (ns(it.start.ticks()), ns(it.period.ticks()));
        let (from, to) = (start.saturating_sub(length), start + length);
        let near = self.list.iter().enumerate().filter(|(_, place)| {
            cores.contains(&place.core) && place.from < to && from <= place.to
        });
        let mut near: Vec<(usize, &Place)> = near.collect();
        near.sort_by_key(|(_, place)| u64::MAX - (place.to - place.from));
        near.truncate(CAUSES_MAX);
        json!({
            "from": start, "to": start + length, "word": word(it.found),
            "budget": ns(it.budget), "delivered": ns(it.delivered),
            "places": near.iter().map(|(index, _)| index).collect::<Vec<_>>(),
        })
    }
}

/// What a note says of the core, how long it took in nanoseconds, its kind and its sentence.
fn reported(note: &Note) -> Option<(CoreId, u64, &'static str, String)> {
    let shown = |ns: u64| time(ns as f64);
    if let &Note::Late { core, late_ns, stolen_ns, .. } = note {
        let (late, stolen) = (shown(late_ns), shown(stolen_ns));
        let stolen = if stolen_ns > 0 { format!(", {stolen} of it stolen") } else { String::new() };
        Some((core, late_ns, "late", format!("agent late by {late}{stolen}")))
    } else if let &Note::Relief { core, by, stuck_ns } = note {
        let text = format!("relieved by the {} after {}", by.word(), shown(stuck_ns));
        Some((core, stuck_ns, "relief", text))
    } else if let &Note::KeptOff { core, took_ns } = note {
        let took = shown(took_ns);
        let text = format!("agent kept off by the kernel's fair server for {took}");
        Some((core, took_ns, "kept-off", text))
    } else {
        None
    }
}

const fn word(found: Found) -> Option<&'static str> {
    match found {
        Found::Short => Some("short"),
        Found::Over => Some("over"),
        Found::Stolen => Some("stolen"),
        Found::Kept | Found::NoDemand | Found::Held => None,
    }
}

const fn size(period: &Period) -> u64 {
    period.delivered.abs_diff(period.budget)
}
