//! Findings in words, one function a row.

use super::{Findings, Row, Section, State, keeps, works};
use crate::host::costs::{Costs, WakeCost, rounded_up};
use crate::host::perf::TRIAL_STEPS;
use crate::host::probe;
use crate::host::resctrl::{Info, Unit};
use crate::sense::preference::{self, Tried};
use maracas_core::PPB;

/// What becomes of policies that throttle by latency where no sensor knows any.
pub(super) const WITHOUT_LATENCY: &str = "policies that throttle by latency are given none and \
                                          never throttle, but by `--sense replay:FILE`";
/// What becomes of allowances where meters must be asked.
pub(super) const ASKED: &str = "allowances are held by asking the counters again and again";
/// What becomes of allowances without meters.
pub(super) const UNMETERED: &str = "allowances of memory (MemGuard) cannot be held";

/// All rows.
pub(super) fn all(found: &Findings) -> Vec<Row> {
    let mut rows: Vec<Row> = found.reservations.findings.iter().map(reservation).collect();
    rows.extend([precision(found), socket(found)]);
    rows.extend(found.sensors.iter().map(|tried| sensor(tried, &found.sensors)));
    rows.extend([meter(found), vcpus(found), instructions(found)]);
    rows.extend([cache_ways(found), bandwidth(found), frames(found), library(found)]);
    rows.extend(found.client.caches.iter().map(|cache| Row {
        capability: "page colours".to_owned(),
        ..fact(Section::Steering, colors_of(cache))
    }));
    rows.extend(timing(found));
    rows.extend([sched_ext(found), classes(found), rights(found)]);
    rows
}

fn fact(section: Section, proof: String) -> Row {
    let (remedy, fallback, capability) = (String::new(), String::new(), String::new());
    Row { section, capability, state: State::Fact, proof, remedy, fallback }
}

/// A row that works with this proof, or is missing with this reason.
fn tried(
    section: Section,
    capability: &str,
    result: Result<String, String>,
    remedy: &str,
    fallback: &str,
) -> Row {
    let lost = result.is_err();
    let state = if lost { State::Missing } else { State::Works };
    let if_lost = |text: &str| if lost { text.to_owned() } else { String::new() };
    Row {
        section,
        capability: capability.to_owned(),
        state,
        proof: result.unwrap_or_else(|why| why),
        remedy: if_lost(remedy),
        fallback: if_lost(fallback),
    }
}

fn reservation(finding: &probe::Finding) -> Row {
    let (section, state) = match finding.state {
        probe::State::Works => (Section::Reservations, State::Works),
        probe::State::Missing => (Section::Reservations, State::Missing),
        probe::State::Fact => (Section::Host, State::Fact),
    };
    Row {
        section,
        capability: finding.capability.to_string(),
        state,
        proof: finding.proof.clone(),
        remedy: finding.remedy.to_owned(),
        fallback: finding.fallback.to_owned(),
    }
}

/// What budgets and periods can be kept.
fn precision(found: &Findings) -> Row {
    let row = |result| {
        let remedy = "a host whose timer interrupts cost little: not nested in another virtual \
                      machine, and without much stolen time";
        let fallback = "smaller budgets end late and owe it to their next period; their single \
                        periods are off by more than 1 %";
        tried(Section::Reservations, "precision", result, remedy, fallback)
    };
    let costs = match &found.costs {
        Ok(costs) => costs,
        Err(why) => return row(Err(format!("what a wake costs is not known: {why}"))),
    };
    let keeps = keeps(costs);
    let times = [keeps.precision, keeps.least_budget, keeps.least_period].map(rounded_up);
    let [precision, budget, period] = times;
    let said = format!(
        "1 period in 100 is off by more than {precision} (p99 of a wake); C from {budget} is \
         within 1 %; the agent takes less than a tenth of a core for T from {period}"
    );
    row(if keeps.is_full() { Ok(said) } else { Err(said) })
}

/// What the steps of a decision cost, what is stolen, and which threads do interrupts' work.
fn timing(found: &Findings) -> Vec<Row> {
    let named = |(capability, proof): (&str, String)| Row {
        capability: capability.to_owned(),
        ..fact(Section::Host, proof)
    };
    let steps = found.costs.iter().flat_map(|costs| {
        let Costs { wake, taken, interrupt, setting, switch } = costs;
        let WakeCost { p50, p99 } = wake;
        let none = || "none came in time to be measured".to_owned();
        let interrupt = interrupt.map_or_else(none, |it| format!("takes {it} of the core"));
        [
            ("wake", format!("{p50} late at the median, p99 {p99}; it takes {taken} of the core")),
            ("timer interrupt", interrupt),
            ("timer setting", format!("takes {setting}")),
            ("thread switch", format!("takes {switch}, with the wake through an eventfd")),
        ]
    });
    let stolen = found.stolen_ppb.map_or("not shown".to_owned(), |ppb| {
        let permille = ppb / (PPB / 1000);
        let (percent, tenth) = (permille / 10, permille % 10);
        format!("{percent}.{tenth} % of the core that lost the most, while all this was tried")
    });
    let rest =
        [("stolen time", stolen), ("interrupt threads", found.kernel.interrupts.to_string())];
    steps.chain(rest).map(named).collect()
}

fn socket(found: &Findings) -> Row {
    let proof = found.socket.clone().map(|path| format!("a socket was made in {path}"));
    let remedy = "a directory of this user's alone: set XDG_RUNTIME_DIR";
    let fallback = "`vcpu` and `top` cannot reach a run, nor programs ask for VCPUs";
    tried(Section::Reservations, "control socket", proof, remedy, fallback)
}

fn sensor(sensor_kind: &Tried, all: &[Tried]) -> Row {
    let events = match sensor_kind.events.as_slice() {
        [] => String::new(),
        events => format!(" ({})", events.join(", ")),
    };
    let (result, remedy) = outcome(&sensor_kind.state);
    let next = all.iter().find(|other| works(other));
    let fallback = match next {
        Some(other)
            if other.sensor_kind.has_latency() || !sensor_kind.sensor_kind.has_latency() =>
        {
            format!("{} ({})", other.sensor_kind, other.sensor_kind.word())
        }
        Some(_) | None => "none: no sensor that knows latency works".to_owned(),
    };
    let capability = format!("sensor {}", sensor_kind.sensor_kind.word());
    let mut row = tried(Section::Sensing, &capability, result, remedy, &fallback);
    row.proof = format!("{}: {}{events}", sensor_kind.sensor_kind, row.proof);
    row
}

/// What came of trying a counter, and what would enable it.
fn outcome(state: &preference::State) -> (Result<String, String>, &str) {
    match state {
        preference::State::Works { proof } => (Ok(proof.clone()), ""),
        preference::State::Missing { why, way } => (Err(why.clone()), way),
        preference::State::Refused { why } => (Err(format!("not usable: {why}")), ""),
    }
}

fn meter(found: &Findings) -> Row {
    let row = |result, remedy, fallback| {
        tried(Section::Sensing, "core memory meters", result, remedy, fallback)
    };
    let meter = match &found.meter {
        Ok(meter) => meter,
        Err(state) => {
            let (result, remedy) = outcome(state);
            return row(result, remedy, UNMETERED);
        }
    };
    let reaction = match &meter.reaction {
        Ok(reaction) => format!("a mark was noticed {reaction}"),
        Err(why) => format!("how soon a mark is noticed is not known: {why}"),
    };
    let proof = format!("{} cores count their reads of memory; {reaction}", meter.cores);
    let remedy = "a counter of the cores' own that can overflow; in a virtual machine, one that \
                  is passed on with its interrupt";
    row(if meter.alarms { Ok(proof) } else { Err(proof) }, remedy, ASKED)
}

fn vcpus(found: &Findings) -> Row {
    let remedy = "cgroup v2, a processor with a performance monitor, and CAP_PERFMON";
    let fallback = "reads are counted by core alone: no bandwidth of VCPUs, no memory in reports";
    let proof = found.vcpus.clone();
    tried(Section::Sensing, "VCPU memory counters", proof, remedy, fallback)
}

fn instructions(found: &Findings) -> Row {
    let count = found.instructions.clone();
    let proof =
        count.map(|count| format!("a loop of {TRIAL_STEPS} steps took {count} instructions"));
    let remedy = "a processor with a performance monitor; in a virtual machine, a virtual one";
    let fallback = "programs count their own progress: maracas_progress of crates/client";
    tried(Section::Sensing, "instruction counters", proof, remedy, fallback)
}

/// What would bring resource control where the kernel offers none.
const RESCTRL: &str = "a processor with Intel RDT, AMD QoS or Arm MPAM (Linux 7.1) outside of a \
                       virtual machine, and a kernel with CONFIG_X86_CPU_RESCTRL or \
                       CONFIG_ARM64_MPAM";
/// What to do where it is offered and not there.
const MOUNT: &str =
    "a run that asks for it mounts it; or: mount -t resctrl resctrl /sys/fs/resctrl";
/// Others may be in the way, and most of it is root's.
const OTHERS: &str = "root; and classes that no other program uses";

/// A row of resource control: `part` is what the hardware has of it, `trial` what came of trying.
fn share<T>(
    found: &Findings,
    capability: &str,
    part: impl Fn(&Info) -> Option<String>,
    trial: &Result<Option<T>, String>,
    shown: impl Fn(&T) -> String,
    fallback: &str,
) -> Row {
    let row = |result, remedy| tried(Section::Steering, capability, result, remedy, fallback);
    let info = match &found.shares.info {
        Err(why) => return row(Err(why.clone()), RESCTRL),
        Ok(None) => {
            let mut row = row(Err("the kernel offers resctrl; it is not mounted".into()), MOUNT);
            row.state = State::Untried;
            return row;
        }
        Ok(Some(info)) => info,
    };
    match (part(info), trial) {
        (None, _) => row(Err("resctrl is mounted, and this processor lacks it".into()), ""),
        (Some(part), Ok(Some(value))) => row(Ok(format!("{part}; {}", shown(value))), ""),
        (Some(part), Ok(None)) => row(Err(format!("{part}; not tried")), OTHERS),
        (Some(part), Err(why)) => row(Err(format!("{part}; {why}")), OTHERS),
    }
}

fn cache_ways(found: &Findings) -> Row {
    let part = |info: &Info| {
        let cache = info.cache.as_ref()?;
        let (level, ways, least) = (cache.level, cache.mask.count_ones(), cache.min_bits);
        let gaps = if cache.sparse { "" } else { " side by side" };
        let classes = cache.classes;
        Some(format!("L{level}: {ways} ways, at least {least}{gaps}, {classes} classes"))
    };
    let shown = |ways: &u64| format!("a core was given ways {ways:#x} and gave them back");
    let fallback = "page colours, where frames and colours are known; else the cache is shared";
    share(found, "cache ways (CAT)", part, &found.shares.ways, shown, fallback)
}

fn bandwidth(found: &Findings) -> Row {
    let part = |info: &Info| {
        let bandwidth = info.bandwidth.as_ref()?;
        let unit = match bandwidth.unit {
            Unit::Percent => "percent",
            Unit::EighthOfGigabyte => "eighths of a GB/s",
            Unit::Megabyte => "MB/s, held once a second by the kernel",
        };
        let (least, step, classes) = (bandwidth.min, bandwidth.step, bandwidth.classes);
        Some(format!("from {least} in steps of {step} {unit}, {classes} classes"))
    };
    let shown = |write: &std::time::Duration| {
        let write_us = write.as_secs_f64() * 1e6;
        format!("a core was given the least and all again, in {write_us:.1} us a write")
    };
    let fallback = "cores are throttled by freezing their background (the default)";
    share(found, "bandwidth (MBA)", part, &found.shares.bandwidth, shown, fallback)
}

fn frames(found: &Findings) -> Row {
    let proof = found.frames.clone().map(|frame| format!("a page of ours lies in frame {frame}"));
    let remedy = "root or CAP_SYS_ADMIN";
    let fallback = "memory cannot be coloured; split the cache by ways (CAT), or share it";
    tried(Section::Steering, "page frames", proof, remedy, fallback)
}

fn library(found: &Findings) -> Row {
    let library = found.client.library.as_ref().map(|path| path.display().to_string());
    let proof = library.ok_or_else(|| "the client library was not found".to_owned());
    let remedy =
        "build it (cargo build --release -p maracas-client) and keep it beside the program";
    let fallback = "only programs that are linked with the library are recoloured";
    tried(Section::Steering, "client library", proof, remedy, fallback)
}

fn colors_of(cache: &super::CacheColors) -> String {
    let remark =
        if cache.remark.is_empty() { String::new() } else { format!(": {}", cache.remark) };
    match cache.colors {
        Some(colors) => format!("{}: {colors} colours{remark}", cache.cache),
        None => format!("{}: colours not known{remark}", cache.cache),
    }
}

/// A fact, since agents do without it.
fn sched_ext(found: &Findings) -> Row {
    let remedy = found.kernel.sched_ext.remedy(maracas_kernel::IS_BUILT);
    let capability = "sched_ext".to_owned();
    // By the event of the cores' meters, where each core interrupts by it (`Senses::overflows`).
    let is_counted = found.meter.as_ref().is_ok_and(|meter| meter.alarms && meter.is_common);
    let reads = if is_counted {
        "reads of memory are counted there by overflows of the cores' meters"
    } else {
        "no counter of reads interrupts all cores here: policies that need them take agents"
    };
    let text = format!("{}; {reads}", found.kernel.sched_ext);
    Row { capability, remedy, ..fact(Section::Host, text) }
}

fn classes(found: &Findings) -> Row {
    // Averages are no ground for a guarantee (host/classes.rs says why).
    let (remedy, fallback) = if found.classes.is_even() {
        ("", "uneven speed can be emulated: maracas run --emulate")
    } else {
        ("for hard guarantees, state measured speeds in [[platform.class]]", "")
    };
    let (remedy, fallback) = (remedy.to_owned(), fallback.to_owned());
    let capability = "core classes".to_owned();
    Row { capability, remedy, fallback, ..fact(Section::Host, found.classes.to_string()) }
}

fn rights(found: &Findings) -> Row {
    let remedy = if found.rights.may_count() {
        ""
    } else {
        "to count all that happens on a core: CAP_PERFMON, or kernel.perf_event_paranoid 0"
    };
    let (capability, remedy) = ("rights".to_owned(), remedy.to_owned());
    Row { capability, remedy, ..fact(Section::Host, found.rights.to_string()) }
}
