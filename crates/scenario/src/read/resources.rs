//! `locks`, `[[resource]]` and the critical sections of programs.

use super::vcpu::checked_name;
use crate::cursor::{Field, Table};
use crate::error::{Error, did_you_mean, quoted};
use crate::keys;
use crate::scenario::{ProgramSpec, VcpuSpec};
use maracas_core::Workload;
use maracas_core::resources::{Protocol, Resources, Section};
use std::collections::BTreeMap;

/// What the jobs of the programs share; `None` where the file has neither a protocol nor resources.
pub(super) fn resources(
    root: &Table<'_>,
    vcpus: &[VcpuSpec],
    programs: &[ProgramSpec],
) -> Result<Option<Resources>, Error> {
    let names = names(root)?;
    let tables = root.tables("program", &keys::PROGRAM)?;
    let Some(locks) = root.get("locks") else {
        let orphan = root.get("resource");
        let orphan = orphan.or_else(|| tables.iter().find_map(|table| table.get("sections")));
        return match orphan {
            Some(field) => Err(field.key_error(format!(
                "`{}` needs a protocol; add locks = \"mpcp\" (or \"fmlp+\", \"omlp\", \"mrsp\") to \
                 the top of the file",
                field.key
            ))),
            None => Ok(None),
        };
    };
    let protocol = locks.word(&Protocol::ALL)?;
    let mut resources = Resources { protocol, names, sections: BTreeMap::new() };
    for (table, program) in tables.iter().zip(programs) {
        check_presence(table)?;
        let Some(field) = table.get("sections") else { continue };
        let vcpu = &vcpus[program.vcpu.0 as usize];
        check_program(&field, program, programs)?;
        let elements = field.elements("a list of sections")?;
        let sections = elements.iter().map(|element| section(element, &resources.names));
        let sections = sections.collect::<Result<Vec<_>, _>>()?;
        resources.sections.insert(program.vcpu, sections);
        if let Err((place, why)) = resources.check(&vcpu.vcpu) {
            return Err(elements[place].error(why));
        }
    }
    if resources.sections.is_empty() {
        return Err(locks.key_error(
            "`locks` has nothing to protect; give programs `sections`, such as sections = [{ \
             resource = \"bus\", at = \"1ms\", length = \"200us\" }]",
        ));
    }
    Ok(Some(resources))
}

/// The names of the resources, unique among them.
fn names(root: &Table<'_>) -> Result<Vec<String>, Error> {
    let mut names: Vec<String> = Vec::new();
    for table in root.tables("resource", &keys::RESOURCE)? {
        let field = table.need("name", "\"bus\"")?;
        let name = checked_name(&field)?;
        if names.iter().any(|other| other == name) {
            let message = format!("another resource is named `{name}`; choose another name");
            return Err(field.error(message));
        }
        names.push(name.into());
    }
    Ok(names)
}

/// Critical sections are those of a VCPU's jobs: of one periodic program that is there throughout.
fn check_program(
    sections: &Field<'_>,
    program: &ProgramSpec,
    programs: &[ProgramSpec],
) -> Result<(), Error> {
    if !matches!(program.workload, Some(Workload::Periodic { .. })) {
        return Err(sections.key_error(
            "critical sections are parts of jobs; give the program workload = { kind = \
             \"periodic\", cost = ... } or drop them",
        ));
    }
    let shares = programs.iter().filter(|other| other.vcpu == program.vcpu).count() > 1;
    if shares || program.threads > 1 {
        return Err(sections.key_error(
            "a program with critical sections has a VCPU of its own and one thread; give others \
             their own VCPUs",
        ));
    }
    Ok(())
}

/// How long jobs wait is judged once, of all tasks.
fn check_presence(program: &Table<'_>) -> Result<(), Error> {
    match program.get("start").or(program.get("stop")) {
        Some(field) => Err(field.key_error(format!(
            "where resources are shared, all programs are there from the start to the end; drop \
             `{}`",
            field.key
        ))),
        None => Ok(()),
    }
}

fn section(field: &Field<'_>, names: &[String]) -> Result<Section, Error> {
    let table = field.table(&keys::SECTION)?;
    let resource = table.need("resource", "\"bus\"")?;
    let name = resource.text("\"bus\"")?;
    let Some(place) = names.iter().position(|known| known == name) else {
        let hint = if names.is_empty() {
            format!("add [[resource]] with name = {}", quoted(name))
        } else {
            did_you_mean(name, names.iter().map(String::as_str), "resources")
        };
        return Err(resource.error(format!("no resource is named {}; {hint}", quoted(name))));
    };
    Ok(Section {
        resource: place as u32,
        at: table.need("at", "\"1ms\"")?.duration()?,
        length: table.need("length", "\"200us\"")?.positive()?,
    })
}
