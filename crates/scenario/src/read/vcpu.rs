//! VCPUs: `[[vcpu]]` tables, and `[[program]]` tables with a budget of their own.

use crate::cursor::{Field, Table};
use crate::error::{Error, did_you_mean, quoted};
use crate::keys;
use crate::scenario::{Platform, VcpuSpec, check_pin};
use maracas_core::{Arrival, CoreId, Criticality, Duration, Reservation, Role, Vcpu, VcpuId};
use std::collections::BTreeMap;
use std::num::NonZero;

/// The longest name, so that tables keep their columns and a name can be part of a file name.
const LONGEST_NAME: usize = 64;
/// Colours are one bit each of a 64-bit word in [`maracas_core::contract::ServiceRequest::Move`].
const MOST_COLORS: u64 = 64;
/// In thousandths: no program gains more from a faster core.
const MOST_SPEEDUP: u64 = Vcpu::MAX_SPEEDUP_MILLI as u64;
/// The range of `cpu.weight` of Linux control groups.
const WEIGHTS: std::ops::RangeInclusive<u64> = 1..=Vcpu::MAX_WEIGHT as u64;

/// What a name stands for.
#[derive(Clone, Debug)]
pub(super) enum Named {
    /// A VCPU, or a program with a VCPU of its own.
    Vcpu { id: VcpuId, role: Role },
    /// A program on the VCPU of another.
    Sharer(String),
}

/// All names, and the VCPU ids in the order of the file.
#[derive(Debug)]
pub(super) struct Names(BTreeMap<String, Named>);

impl Names {
    /// Reads the names only, since a VCPU may be named above its table.
    ///
    /// # Errors
    /// Where there are none, unless the run serves others; and whatever is wrong with a name.
    pub(super) fn collect(root: &Table<'_>, serves: bool) -> Result<Self, Error> {
        let mut names = BTreeMap::<String, (Named, usize)>::new();
        let mut next = 0;
        let tables = tables(root)?;
        if tables.is_empty() && !serves {
            return Err(root.error(
                "the scenario has no programs; add a [[program]] table, or `serve = true` to \
                 [run] for programs that ask while it runs",
            ));
        }
        for (table, is_program) in tables {
            let field = table.need("name", "\"camera\"")?;
            let name = checked_name(&field)?;
            let shares = if is_program { table.get("vcpu") } else { None };
            let named = match shares {
                Some(shared) => Named::Sharer(shared.text("\"camera\"")?.into()),
                None => {
                    let id = VcpuId(next);
                    next += 1;
                    Named::Vcpu { id, role: role(&table)? }
                }
            };
            if let Some((_, first)) = names.insert(name.into(), (named, field.at())) {
                return Err(taken(&field, name, first, root));
            }
        }
        let mut devices = BTreeMap::new();
        for table in root.tables("device", &keys::DEVICE)? {
            let field = table.need("name", "\"network\"")?;
            let name = checked_name(&field)?;
            let owner = names.get(name).map(|(_, first)| *first);
            if let Some(first) = owner.or_else(|| devices.insert(name, field.at())) {
                return Err(taken(&field, name, first, root));
            }
        }
        Ok(Self(names.into_iter().map(|(name, (named, _))| (name, named)).collect()))
    }
    /// The VCPU that `field` names.
    pub(super) fn vcpu(&self, field: &Field<'_>) -> Result<(VcpuId, Role), Error> {
        let name = field.text("\"camera\"")?;
        match self.0.get(name) {
            Some(Named::Vcpu { id, role }) => Ok((*id, *role)),
            Some(Named::Sharer(shared)) => Err(field.error(format!(
                "`{name}` has no VCPU of its own, it shares `{shared}`; write \"{shared}\""
            ))),
            None => {
                let vcpus = self.0.iter().filter(|(_, named)| matches!(named, Named::Vcpu { .. }));
                let hint = did_you_mean(name, vcpus.map(|(name, _)| name.as_str()), "VCPUs");
                Err(field.error(format!("no VCPU is named {}; {hint}", quoted(name))))
            }
        }
    }
    fn id(&self, name: &str) -> VcpuId {
        match &self.0[name] {
            Named::Vcpu { id, .. } => *id,
            Named::Sharer(_) => unreachable!("{name} has no VCPU of its own"),
        }
    }
}

/// A name that stands at the offset `first` already.
fn taken(field: &Field<'_>, name: &str, first: usize, root: &Table<'_>) -> Error {
    let line = root.source.location(first).line;
    field.error(format!("the name `{name}` is taken by line {line}; choose another"))
}

/// All `[[vcpu]]` and `[[program]]` tables in the order of the file.
fn tables<'a>(root: &Table<'a>) -> Result<Vec<(Table<'a>, bool)>, Error> {
    let vcpus = root.tables("vcpu", &keys::VCPU)?.into_iter().map(|table| (table, false));
    let programs = root.tables("program", &keys::PROGRAM)?.into_iter().map(|table| (table, true));
    let mut all: Vec<_> = vcpus.chain(programs).collect();
    all.sort_by_key(|(table, _)| table.at());
    Ok(all)
}

pub(super) fn checked_name<'a>(field: &Field<'a>) -> Result<&'a str, Error> {
    let name = field.text("\"camera\"")?;
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > LONGEST_NAME {
        let length = name.len();
        let message =
            format!("a name has 1 to {LONGEST_NAME} characters, not {length}; choose one");
        return Err(field.error(message));
    }
    if !name.chars().all(good) || name.starts_with(['.', '-']) {
        return Err(field.error(format!(
            "the name \"{name}\" may hold letters, digits, `-`, `_` and `.` only, and begins with \
             a letter, a digit or `_`; choose another"
        )));
    }
    Ok(name)
}

/// The VCPUs in the order of the file.
pub(super) fn vcpus(
    root: &Table<'_>,
    names: &Names,
    platform: &Platform,
) -> Result<Vec<VcpuSpec>, Error> {
    tables(root)?
        .into_iter()
        .filter(|(table, is_program)| !is_program || table.get("vcpu").is_none())
        .map(|(table, _)| vcpu(&table, names, platform))
        .collect()
}

fn vcpu(table: &Table<'_>, names: &Names, platform: &Platform) -> Result<VcpuSpec, Error> {
    let name = checked_name(&table.need("name", "\"camera\"")?)?;
    let role = role(table)?;
    let promised = budget_and_period(table, name, role)?;
    if promised.is_none() {
        refuse_orphans(table, name)?;
    }
    let id = names.id(name);
    let whole = |key, range, default| {
        table.get(key).map_or(Ok(default), |field: Field<'_>| field.whole(range))
    };
    let pin = table.get("core");
    let criticalities = [("high", Criticality::High), ("low", Criticality::Low)];
    let bandwidth = table.get("bandwidth").map(|field| field.bandwidth());
    let speedup = table.get("speedup").map(|field| speedup(&field, platform));
    let vcpu = Vcpu {
        id,
        reservation: match &promised {
            Some((budget, period)) => reservation(table, budget, period)?,
            None => Reservation::NONE,
        },
        arrival: arrival(table)?,
        role,
        pinned: pin.map(|field| core(&field, platform.cores)).transpose()?,
        colors: colors(table, platform)?,
        weight: whole("weight", WEIGHTS, 1)? as u32,
        bandwidth: bandwidth.transpose()?.and_then(NonZero::new),
        criticality: table
            .get("criticality")
            .map_or(Ok(Criticality::High), |field| field.word(&criticalities))?,
        class: table.get("class").map(|field| class(&field, platform)).transpose()?,
        speedup_milli: speedup.transpose()?.and_then(NonZero::new),
    };
    let location = |offset| table.source.location(offset);
    let place_of = |key| table.get(key).map(|field| location(field.at()));
    Ok(VcpuSpec {
        name: name.into(),
        vcpu,
        at: location(table.at()),
        budget_at: place_of("budget").unwrap_or(location(table.at())),
        period_at: place_of("period").unwrap_or(location(table.at())),
        jobs_at: table.get("jobs").or(table.get("offset")).map(|field| location(field.key_at())),
        deadline_at: place_of("deadline"),
        core_at: place_of("core"),
        colors_at: place_of("colors"),
        bandwidth_at: place_of("bandwidth"),
        class_at: place_of("class"),
    })
}

/// The colours (or ways) that it needs, of those that the cache has.
fn colors(table: &Table<'_>, platform: &Platform) -> Result<u32, Error> {
    let Some(field) = table.get("colors") else { return Ok(0) };
    let colors = field.whole(0..=MOST_COLORS)? as u32;
    let Some(memory) = &platform.memory else { return Ok(colors) };
    match memory.largest_share() {
        Some(most) if colors > most => Err(field.error(format!(
            "`colors` is {colors}, and no core has more than {most} {} of the cache; lower it",
            memory.part_word()
        ))),
        Some(_) | None => Ok(colors),
    }
}

fn role(table: &Table<'_>) -> Result<Role, Error> {
    let roles = [("main", Role::Main), ("io", Role::Io)];
    table.get("kind").map_or(Ok(Role::Main), |field| field.word(&roles))
}

/// The fields of what is promised; `None` where nothing is: a VCPU that runs on surplus time.
fn budget_and_period<'a>(
    table: &Table<'a>,
    name: &str,
    role: Role,
) -> Result<Option<(Field<'a>, Field<'a>)>, Error> {
    match (table.get("budget"), table.get("period")) {
        (Some(budget), Some(period)) => Ok(Some((budget, period))),
        (None, None) | (None, Some(_)) if role == Role::Io => Err(table.error(format!(
            "I/O VCPU {name} has no budget; add budget and period, whose ratio is its bandwidth"
        ))),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(table.error(format!(
            "{name} has a period and no budget; add budget = \"2ms\", or drop both"
        ))),
        (Some(_), None) => Err(table.error(format!(
            "{name} has a budget and no period; add period = \"10ms\", or drop both"
        ))),
    }
}

/// Refuses what says something of a budget or a period where there is none.
fn refuse_orphans(table: &Table<'_>, name: &str) -> Result<(), Error> {
    let orphan = ["deadline", "jobs", "offset", "class"].iter().find_map(|key| table.get(key));
    orphan.map_or(Ok(()), |field| {
        Err(field.key_error(format!(
            "{name} has no budget and period for `{}` to be about; add them or drop it",
            field.key
        )))
    })
}

/// The class of cores on which the budget is meant.
fn class(field: &Field<'_>, platform: &Platform) -> Result<u8, Error> {
    if platform.classes.is_empty() {
        return Err(field.key_error(
            "`class` names a class of cores, and [platform] has none; add [[platform.class]] \
             tables or drop it",
        ));
    }
    let name = field.text("\"fast\"")?;
    let names = || platform.classes.iter().map(|class| class.name.as_str());
    names().position(|known| known == name).map(|place| place as u8).ok_or_else(|| {
        let hint = did_you_mean(name, names(), "classes");
        field.error(format!("no class of cores is named {}; {hint}", quoted(name)))
    })
}

/// How many times as fast its programs are on the first class as on the last: no more than `speed`
/// says that any program can be.
fn speedup(field: &Field<'_>, platform: &Platform) -> Result<u32, Error> {
    let milli = field.thousandths(1_000, MOST_SPEEDUP)?;
    if let [first, .., last] = platform.classes.as_slice() {
        let most = 1_000_000_u64.div_ceil(u64::from(last.speed_milli));
        if milli > most {
            return Err(field.error(format!(
                "`speedup` is {}, and by `speed` no program is more than {} times as fast on {} as \
                 on {}; lower it, or lower the `speed` of {}",
                shown(milli),
                shown(most),
                first.name,
                last.name,
                last.name
            )));
        }
    }
    Ok(milli as u32)
}

/// Thousandths as users write them.
fn shown(milli: u64) -> String {
    (milli as f64 / 1e3).to_string()
}

fn reservation(
    table: &Table<'_>,
    budget_field: &Field<'_>,
    period_field: &Field<'_>,
) -> Result<Reservation, Error> {
    let (budget, period) = (budget_field.positive()?, period_field.positive()?);
    if budget > period {
        return Err(budget_field.error(format!(
            "budget {budget} exceeds period {period}; lower the budget or raise the period"
        )));
    }
    let Some(field) = table.get("deadline") else {
        return Ok(Reservation::implicit(budget, period));
    };
    let deadline = field.positive()?;
    if deadline > period {
        return Err(field.error(format!(
            "deadline {deadline} exceeds period {period}; lower the deadline or raise the period"
        )));
    }
    if deadline < budget {
        return Err(field.error(format!(
            "deadline {deadline} is shorter than budget {budget}; raise the deadline or lower the \
             budget"
        )));
    }
    Ok(Reservation { budget, period, deadline })
}

fn arrival(table: &Table<'_>) -> Result<Arrival, Error> {
    let offset = table.get("offset");
    let periodic = |field: Option<Field<'_>>| -> Result<Arrival, Error> {
        let offset = field.map_or(Ok(Duration::ZERO), |field| field.duration())?;
        Ok(Arrival::Periodic { offset })
    };
    let Some(jobs) = table.get("jobs") else {
        // An offset only makes sense for the first of periodic jobs.
        return if offset.is_some() { periodic(offset) } else { Ok(Arrival::None) };
    };
    if jobs.word(&[("periodic", true), ("sporadic", false)])? {
        return periodic(offset);
    }
    match offset {
        Some(offset) => Err(offset.key_error(
            "`offset` is for periodic jobs, and these are sporadic; drop it or write jobs = \
             \"periodic\"",
        )),
        None => Ok(Arrival::Sporadic),
    }
}

fn core(field: &Field<'_>, cores: Option<usize>) -> Result<CoreId, Error> {
    let most = maracas_core::MAX_CORES as u64 - 1;
    let core = CoreId(field.whole(0..=most)? as u16);
    if let Some(cores) = cores {
        check_pin(core, cores).map_err(|message| field.error(message))?;
    }
    Ok(core)
}
