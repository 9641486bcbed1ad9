//! VCPUs: `[[vcpu]]` tables, and `[[program]]` tables with a budget of their own.

use crate::cursor::{Field, Table};
use crate::error::{Error, did_you_mean, quoted};
use crate::keys;
use crate::scenario::{Platform, VcpuSpec, check_pin};
use maracas_core::{Arrival, CoreId, Criticality, Duration, Reservation, Role, Vcpu, VcpuId};
use std::collections::BTreeMap;

/// The longest name, so that tables keep their columns and a name can be part of a file name.
const LONGEST_NAME: usize = 64;
/// Colours are one bit each of a 64-bit word in [`maracas_core::contract::Errand::Move`].
const MOST_COLORS: u64 = 64;
/// The range of `cpu.weight` of Linux control groups.
const WEIGHTS: std::ops::RangeInclusive<u64> = 1..=10_000;

/// Who a name stands for.
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
        .map(|(table, is_program)| vcpu(&table, is_program, names, platform))
        .collect()
}

fn vcpu(
    table: &Table<'_>,
    is_program: bool,
    names: &Names,
    platform: &Platform,
) -> Result<VcpuSpec, Error> {
    let name = checked_name(&table.need("name", "\"camera\"")?)?;
    let role = role(table)?;
    let (budget, period) = budget_and_period(table, name, role, is_program)?;
    let whole = |key, range, default| {
        table.get(key).map_or(Ok(default), |field: Field<'_>| field.whole(range))
    };
    let pin = table.get("core");
    let criticalities = [("high", Criticality::High), ("low", Criticality::Low)];
    let vcpu = Vcpu {
        id: names.id(name),
        reservation: reservation(table, &budget, &period)?,
        arrival: arrival(table)?,
        role,
        pinned: pin.map(|field| core(&field, platform.cores)).transpose()?,
        colors: colors(table, platform)?,
        weight: whole("weight", WEIGHTS, 1)? as u32,
        bandwidth: table.get("bandwidth").map_or(Ok(0), |field| field.bandwidth())?,
        criticality: table
            .get("criticality")
            .map_or(Ok(Criticality::High), |field| field.word(&criticalities))?,
        class: None,
        speedup_milli: 0,
    };
    let location = |offset| table.source.location(offset);
    Ok(VcpuSpec {
        name: name.into(),
        vcpu,
        at: location(table.at()),
        budget_at: location(budget.at()),
        period_at: location(period.at()),
        jobs_at: table.get("jobs").or(table.get("offset")).map(|field| location(field.key_at())),
        core_at: pin.map(|field| location(field.at())),
        colors_at: table.get("colors").map(|field| location(field.at())),
        bandwidth_at: table.get("bandwidth").map(|field| location(field.at())),
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

fn budget_and_period<'a>(
    table: &Table<'a>,
    name: &str,
    role: Role,
    is_program: bool,
) -> Result<(Field<'a>, Field<'a>), Error> {
    match (table.get("budget"), table.get("period")) {
        (Some(budget), Some(period)) => Ok((budget, period)),
        (None, None) if is_program && role == Role::Main => Err(table.error(format!(
            "program {name} has neither a budget nor a VCPU; add budget and period, or vcpu = \
             \"NAME\" to share one"
        ))),
        (None, None) | (None, Some(_)) if role == Role::Io => Err(table.error(format!(
            "I/O VCPU {name} has no budget; add budget and period, whose ratio is its bandwidth"
        ))),
        (None, _) => Err(table.error(format!("{name} has no budget; add budget = \"2ms\""))),
        (Some(_), None) => {
            Err(table.error(format!("{name} has a budget and no period; add period = \"10ms\"")))
        }
    }
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
