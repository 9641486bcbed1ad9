//! `workload`: the model of what a thread does.

use super::vcpu::Names;
use crate::cursor::Field;
use crate::error::Error;
use crate::keys;
use maracas_core::{Cost, Duration, Role, VcpuId, Workload};

/// Reads the workload of a program on the VCPU `own`.
pub(super) fn workload(
    field: &Field<'_>,
    names: &Names,
    own: (VcpuId, Role),
) -> Result<Workload, Error> {
    if let Some(text) = field.value().as_str() {
        let message =
            format!("`workload` must be a table; write workload = {{ kind = \"{text}\" }}");
        return Err(field.error(message));
    }
    let any = field.table(&keys::WORKLOAD)?;
    let kinds = keys::WORKLOAD_KINDS.each_ref().map(|(kind, keys)| (*kind, (*kind, keys)));
    let (kind, keys) = any.need("kind", "\"busy\"")?.word(&kinds)?;
    for entry in any.fields() {
        if !keys.keys.contains(&entry.key) {
            let (key, mine) = (entry.key, keys.keys.join(", "));
            let message = format!("`{key}` does not belong to {}, which takes: {mine}", keys.table);
            return Err(entry.key_error(message));
        }
    }
    let table = field.table(keys)?;
    let need = |key| cost(&table.need(key, "\"2ms\"")?);
    match kind {
        "busy" => Ok(Workload::Busy),
        "periodic" => Ok(Workload::Periodic { cost: need("cost")? }),
        "run-sleep" => Ok(Workload::RunSleep { run: need("run")?, sleep: need("sleep")? }),
        "event-driven" => Ok(Workload::EventDriven {
            every: need("every")?,
            cost: need("cost")?,
            on_behalf: table.get("on_behalf").map(|it| on_behalf(&it, names, own)).transpose()?,
        }),
        "anytime" => Ok(Workload::Anytime {
            mandatory: need("mandatory")?,
            optional: table.need("optional", "\"5ms\"")?.positive()?,
        }),
        unread => unreachable!("workload kind {unread} is listed but not read"),
    }
}

fn cost(field: &Field<'_>) -> Result<Cost, Error> {
    if !field.value().is_table() {
        if !field.value().is_str() {
            return Err(field.mismatch(
                "a duration, such as \"2ms\", or { uniform = [\"1ms\", \"3ms\"] } or \
                 { exponential = \"2ms\" }",
            ));
        }
        return Ok(Cost::Fixed(field.positive()?));
    }
    let table = field.table(&keys::COST)?;
    match (table.get("uniform"), table.get("exponential")) {
        (Some(bounds), None) => uniform(&bounds),
        (None, Some(mean)) => Ok(Cost::Exponential(mean.positive()?)),
        (None, None) | (Some(_), Some(_)) => Err(field.error(format!(
            "`{}` needs exactly one of `uniform` and `exponential`, such as {{ uniform = \
             [\"1ms\", \"3ms\"] }}",
            field.key
        ))),
    }
}

fn uniform(field: &Field<'_>) -> Result<Cost, Error> {
    let what = "two durations, such as [\"1ms\", \"3ms\"]";
    let bounds = field.elements(what)?;
    let [least, most] = bounds.as_slice() else {
        let message = format!("`uniform` must be {what}; it holds {}", bounds.len());
        return Err(field.error(message));
    };
    let (least, most): (Duration, Duration) = (least.duration()?, most.positive()?);
    if least > most {
        return Err(field.error(format!("uniform from {least} to {most} is empty; swap the two")));
    }
    Ok(Cost::Uniform(least, most))
}

fn on_behalf(field: &Field<'_>, names: &Names, own: (VcpuId, Role)) -> Result<VcpuId, Error> {
    let (served, role) = names.vcpu(field)?;
    let name = field.text("\"camera\"")?;
    if own.1 != Role::Io {
        return Err(field.key_error(
            "`on_behalf` is for I/O VCPUs, which inherit a period; add kind = \"io\" or drop it",
        ));
    }
    if served == own.0 {
        return Err(field.error(format!(
            "`{name}` would serve itself; name the main VCPU on whose behalf it works"
        )));
    }
    // I/O VCPUs serve main ones only, so that no chain of them can close to a circle.
    match role {
        Role::Main => Ok(served),
        Role::Io | Role::Monitor | Role::Migration => Err(field.error(format!(
            "`{name}` is itself an I/O VCPU; name the main VCPU on whose behalf it works"
        ))),
    }
}
