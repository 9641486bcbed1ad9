//! From the text of a scenario file to a checked [`Scenario`].

mod classes;
mod live;
pub(crate) mod memory;
pub(crate) mod pace;
pub(crate) mod platform;
mod program;
mod resources;
mod vcpu;
mod workload;

use crate::account::Account;
use crate::cursor::{Field, Table};
use crate::error::{Error, Source, quoted};
use crate::keys;
use crate::scenario::{Places, PolicySpec, ProgramSpec, Run, Scenario, VcpuSpec};
use maracas_core::params::{Params, Value};
use maracas_core::{Arrival, Duration, Overheads};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The version of the format that this reader knows.
const VERSION: u64 = 1;

pub(crate) fn scenario(text: &str, file: &str) -> Result<Scenario, Error> {
    let source = Source::new(file, text);
    let document = document(&source)?;
    let entries = document.get_ref();
    check_version(&source, entries)?;
    let root = Table::new(&source, entries, 0, &keys::ROOT)?;

    let mut places = Places::default();
    let platform = platform::platform(&root, &mut places)?;
    let devices = platform::devices(&root, &platform, &mut places)?;
    let policy = policy(&root, &mut places)?;
    let run = run(&root)?;
    let overheads = overheads(&root)?;
    let live = live::live(&root, &platform, &mut places)?;
    let names = vcpu::Names::collect(&root, run.serve)?;
    let mut vcpus = vcpu::vcpus(&root, &names, &platform)?;
    let programs = program::programs(&root, &names, &mut vcpus, &run, &platform)?;
    places.locks = root.get("locks").map(|it| it.location()).unwrap_or_default();
    let resources = resources::resources(&root, &vcpus, &programs)?;
    let mut assumptions = assumptions(&vcpus, &programs);
    if platform.memory.is_some() {
        assumptions.extend(without_memory(&programs));
    }
    let file = file.into();
    Ok(Scenario {
        file,
        platform,
        devices,
        policy,
        run,
        overheads,
        live,
        vcpus,
        programs,
        resources,
        assumptions,
        places,
    })
}

/// The text as a TOML document.
pub(crate) fn document<'a>(source: &'a Source<'a>) -> Result<Spanned<DeTable<'a>>, Error> {
    DeTable::parse(source.text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        let there = source.text.get(span.clone()).unwrap_or_default();
        source.error(span.start, malformed(error.message(), there))
    })
}

fn malformed(why: &str, what: &str) -> String {
    let way_out = match why {
        "duplicate key" => format!(" {}; keep one of them", quoted(what)),
        // The parser says itself what it would have liked to see.
        _ if why.contains("expected") => String::new(),
        _ => "; correct it here".into(),
    };
    format!("not valid TOML: {why}{way_out}")
}

/// Before anything else, since a newer version may have keys that this reader does not know.
fn check_version(source: &Source<'_>, entries: &DeTable<'_>) -> Result<(), Error> {
    let Some(value) = entries.get("version") else {
        let message = "the scenario has no `version`; begin it with version = 1";
        return Err(source.error(0, message));
    };
    let at = value.span().start;
    let DeValue::Integer(version) = value.get_ref() else {
        return Err(source.error(at, "`version` must be a whole number; write version = 1"));
    };
    if u64::from_str_radix(version.as_str(), version.radix()) == Ok(VERSION) {
        return Ok(());
    }
    let message = format!(
        "version {version} is unknown here; write version = {VERSION} or take a newer maracas"
    );
    Err(source.error(at, message))
}

fn policy(root: &Table<'_>, places: &mut Places) -> Result<PolicySpec, Error> {
    let mut spec = PolicySpec { name: "maracas".into(), params: Params::new() };
    let Some(table) = root.table("policy", &keys::POLICY)? else { return Ok(spec) };
    places.policy = root.source.location(table.at());
    if let Some(field) = table.get("name") {
        spec.name = field.text("\"maracas\"")?.into();
        places.policy = root.source.location(field.at());
    }
    for field in table.fields().into_iter().filter(|field| field.key != "name") {
        spec.params.set(field.key, param(&field)?);
        places.params.insert(field.key.into(), root.source.location(field.at()));
    }
    Ok(spec)
}

pub(crate) fn param(field: &Field<'_>) -> Result<Value, Error> {
    match field.value() {
        DeValue::String(text) => Ok(Value::Text(text.to_string())),
        DeValue::Boolean(flag) => Ok(Value::Flag(*flag)),
        // As written: the policy reads fractions exactly, and a float would round them.
        DeValue::Float(x) => Ok(Value::Text(x.as_str().into())),
        DeValue::Integer(n) => {
            i64::from_str_radix(n.as_str(), n.radix()).map(Value::Whole).map_err(|_| {
                field.error(format!("`{}` is {n}, too large for 64 bits; lower it", field.key))
            })
        }
        DeValue::Array(_) => joined(field),
        DeValue::Datetime(_) | DeValue::Table(_) => {
            Err(field.mismatch("a string, a number, true or false, or a list of such"))
        }
    }
}

/// A list, one value for each core, as the text that a policy reads.
fn joined(field: &Field<'_>) -> Result<Value, Error> {
    let elements = field.elements("a list")?;
    if elements.is_empty() {
        let line = format!("`{}` is an empty list; give it a value or drop it", field.key);
        return Err(field.error(line));
    }
    let words = elements.iter().map(|element| match element.value() {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Float(x) => Ok(x.as_str().to_owned()),
        DeValue::Integer(n) => Ok(n.as_str().to_owned()),
        DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
            let (key, found) = (element.key, element.found());
            let line = format!("`{key}` must hold strings or numbers, not {found}; correct it");
            Err(element.error(line))
        }
    });
    Ok(Value::Text(words.collect::<Result<Vec<_>, _>>()?.join(", ")))
}

fn run(root: &Table<'_>) -> Result<Run, Error> {
    let mut run = Run { duration: None, seed: 1, serve: false, user: None };
    if let Some(table) = root.table("run", &keys::RUN)? {
        run.duration = table.get("duration").map(|field| field.positive()).transpose()?;
        if let Some(field) = table.get("seed") {
            // TOML's integers end there.
            run.seed = field.whole(0..=i64::MAX as u64)?;
        }
        if let Some(field) = table.get("serve") {
            run.serve = field.flag()?;
        }
        run.user = table.get("user").map(|field| Account::read(&field)).transpose()?;
    }
    Ok(run)
}

pub(crate) fn overheads(root: &Table<'_>) -> Result<Overheads, Error> {
    let Some(table) = root.table("overheads", &keys::OVERHEADS)? else {
        return Ok(Overheads::default());
    };
    let duration = |key| table.get(key).map_or(Ok(Duration::ZERO), |field| field.duration());
    Ok(Overheads {
        context_switch: duration("context_switch")?,
        migration: duration("migration")?,
        decision: duration("decision")?,
        release: duration("release")?,
        sample: duration("sample")?,
        lock: duration("lock")?,
        structure: duration("structure")?,
        page_copy: duration("page_copy")?,
    })
}

/// Beside programs that use memory, what the others do to it is part of the result.
fn without_memory(programs: &[ProgramSpec]) -> Option<String> {
    let silent = programs.iter().filter(|program| program.memory.is_none());
    let names: Vec<_> = silent.map(|program| program.name.as_str()).collect();
    let verb = if names.len() == 1 { "has" } else { "have" };
    let names = (!names.is_empty() && names.len() < programs.len()).then(|| names.join(", "))?;
    Some(format!("{names} {verb} no `memory`: simulated as touching none"))
}

fn assumptions(vcpus: &[VcpuSpec], programs: &[ProgramSpec]) -> Vec<String> {
    let silent = programs.iter().filter(|program| program.workload.is_none());
    let sentence = |program: &ProgramSpec| {
        let vcpu = &vcpus[program.vcpu.0 as usize];
        let name = &program.name;
        match vcpu.vcpu.arrival {
            Arrival::None => {
                format!("{name} has a command and no workload: it is simulated as always busy")
            }
            Arrival::Periodic { .. } | Arrival::Sporadic => format!(
                "{name} has a command and no workload: each of its jobs is simulated as costing \
                 the whole budget of {}, {}",
                vcpu.name, vcpu.vcpu.reservation.budget
            ),
        }
    };
    silent.map(sentence).collect()
}
