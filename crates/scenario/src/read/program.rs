//! Programs: `[[program]]` tables.

use super::memory::{profile, unmeasured};
use super::pace::pace;
use super::vcpu::Names;
use super::workload::workload;
use crate::account::Account;
use crate::cursor::{Field, Table};
use crate::error::Error;
use crate::keys;
use crate::scenario::{Command, Output, Platform, ProgramSpec, Run, VcpuSpec};
use maracas_core::memory::Profile;
use maracas_core::{Arrival, Duration, Instant, Pace, VcpuId, Workload};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The most threads of one program, as many as `maracas work` starts; more is taken for a slip of
/// the finger.
const MOST_THREADS: u64 = 1024;

/// The programs in the order of the file. Gives jobs to the VCPUs whose programs work on jobs.
pub(super) fn programs(
    root: &Table<'_>,
    names: &Names,
    vcpus: &mut [VcpuSpec],
    run: &Run,
    platform: &Platform,
) -> Result<Vec<ProgramSpec>, Error> {
    let tables = root.tables("program", &keys::PROGRAM)?;
    let programs = tables
        .iter()
        .map(|table| program(table, names, vcpus, (run, platform)))
        .collect::<Result<Vec<_>, _>>()?;
    let mut on: Vec<Workloads> = vec![Workloads::default(); vcpus.len()];
    for program in &programs {
        on[program.vcpu.0 as usize].add(program.workload);
    }
    for (spec, on) in vcpus.iter_mut().zip(on) {
        let has_jobs = spec.vcpu.arrival != Arrival::None;
        if on.have_jobs {
            if !has_jobs {
                spec.vcpu.arrival = Arrival::Periodic { offset: Duration::ZERO };
            }
        } else if has_jobs && on.given && !on.unknown {
            return Err(no_job_ends(root, spec));
        }
    }
    Ok(programs)
}

/// What is known of the workloads on a VCPU.
#[derive(Clone, Copy, Default)]
struct Workloads {
    /// Whether one is given.
    given: bool,
    /// Whether a program says nothing of its own.
    unknown: bool,
    /// Whether one has jobs.
    have_jobs: bool,
}

impl Workloads {
    fn add(&mut self, workload: Option<Workload>) {
        match workload {
            Some(workload) => {
                self.given = true;
                self.have_jobs |= workload.has_jobs();
            }
            None => self.unknown = true,
        }
    }
}

fn no_job_ends(root: &Table<'_>, spec: &VcpuSpec) -> Error {
    let message = format!(
        "{} has jobs, but no workload on it ends one; use kind = \"periodic\" or \"anytime\", or \
         drop `jobs` and `offset`",
        spec.name
    );
    Error::new(root.source.file, spec.jobs_at.unwrap_or(spec.at), message)
}

fn program(
    table: &Table<'_>,
    names: &Names,
    vcpus: &[VcpuSpec],
    (run, platform): (&Run, &Platform),
) -> Result<ProgramSpec, Error> {
    let name = table.need("name", "\"camera\"")?;
    let vcpu = own_vcpu(table, names, &name)?;
    let payer = &vcpus[vcpu.0 as usize];
    let command = command(table, run)?;
    let workload = match table.get("workload") {
        Some(field) => {
            let workload = workload(&field, names, (vcpu, payer.vcpu.role))?;
            if workload.has_jobs() && payer.vcpu.reservation.is_none() {
                return Err(no_period(&field, payer));
            }
            Some(workload)
        }
        None => None,
    };
    let name = name.text("\"camera\"")?;
    if command.is_none() && workload.is_none() {
        return Err(table.error(format!(
            "program {name} has neither a command nor a workload; add command = [\"...\"] to run \
             it, or workload = {{ kind = \"busy\" }} to simulate it"
        )));
    }
    let threads = table.get("threads").map_or(Ok(1), |field| field.whole(1..=MOST_THREADS))?;
    let (start, stop) = presence(table, run.duration)?;
    let at = table.source.location(table.at());
    let threads = threads as u32;
    let pace = own_pace(table, platform)?;
    let unmeasured = table.get("memory").map(|field| unmeasured(&field)).unwrap_or_default();
    let memory = memory(table, platform)?;
    let name = name.into();
    Ok(ProgramSpec {
        name,
        vcpu,
        command,
        workload,
        memory,
        unmeasured,
        pace,
        threads,
        start,
        stop,
        at,
    })
}

/// Jobs come once a period, of which the VCPU has none.
fn no_period(workload: &Field<'_>, payer: &VcpuSpec) -> Error {
    workload.error(format!(
        "such a workload works on jobs, one in every period, and {} has no period; add budget and \
         period, or take kind = \"run-sleep\"",
        payer.name
    ))
}

fn own_pace(table: &Table<'_>, platform: &Platform) -> Result<Option<Pace>, Error> {
    let Some(field) = table.get("pace") else { return Ok(None) };
    if table.get("memory").is_some() {
        return Err(field.key_error(
            "a program has `memory` or a `pace`: with `memory`, that decides how much slower it \
             is on a slower class; drop one of them",
        ));
    }
    if platform.memory.is_some() {
        return Err(field.key_error(
            "[platform] has memory, and there `memory` decides how fast a program is on each \
             class; write it in place of `pace`, or take a platform without memory",
        ));
    }
    pace(&field, platform).map(Some)
}

fn memory(table: &Table<'_>, platform: &Platform) -> Result<Option<Profile>, Error> {
    let Some(field) = table.get("memory") else { return Ok(None) };
    if platform.memory.is_none() {
        return Err(field.key_error(
            "the program uses memory, and [platform] has none; add preset = \"i5-2500k\" or \
             [platform.dram]",
        ));
    }
    profile(&field).map(Some)
}

/// The VCPU that the program shares, or its own.
fn own_vcpu(table: &Table<'_>, names: &Names, name: &Field<'_>) -> Result<VcpuId, Error> {
    let Some(shared) = table.get("vcpu") else { return Ok(names.vcpu(name)?.0) };
    if shared.text("\"camera\"")? == name.text("\"camera\"")? {
        return Err(shared.error(
            "a program cannot share a VCPU with itself; give it budget and period, or name another",
        ));
    }
    let (vcpu, _) = names.vcpu(&shared)?;
    // What describes a VCPU cannot stand beside `vcpu`; but for the name, which is the program's.
    let of_vcpu = keys::VCPU.keys.iter().filter(|key| **key != "name");
    if let Some(own) = of_vcpu.copied().find_map(|key| table.get(key)) {
        let shared = shared.text("\"camera\"")?;
        return Err(own.key_error(format!(
            "program {} shares VCPU {shared} and cannot have its own `{}`; drop one of the two",
            name.text("\"camera\"")?,
            own.key
        )));
    }
    Ok(vcpu)
}

/// When the program starts and when it is stopped.
fn presence(table: &Table<'_>, duration: Option<Duration>) -> Result<(Instant, Instant), Error> {
    let start = table.get("start").map_or(Ok(Duration::ZERO), |field| field.duration())?;
    if let (Some(field), Some(duration)) = (table.get("start"), duration)
        && start >= duration
    {
        return Err(field.error(format!(
            "start {start} is not before the end of the run, {duration}; start earlier or run \
             longer"
        )));
    }
    let start_at = Instant::ZERO.saturating_add(start);
    let Some(field) = table.get("stop") else { return Ok((start_at, Instant::NEVER)) };
    let stop = field.duration()?;
    if stop <= start {
        let message =
            format!("stop {stop} is not after start {start}; stop later or start earlier");
        return Err(field.error(message));
    }
    Ok((start_at, Instant::ZERO.saturating_add(stop)))
}

fn command(table: &Table<'_>, run: &Run) -> Result<Option<Command>, Error> {
    let Some(field) = table.get("command") else {
        let orphan = ["dir", "env", "output", "user"].iter().find_map(|key| table.get(key));
        return match orphan {
            Some(field) => Err(field.key_error(format!(
                "`{}` needs a command to apply to; add command = [\"...\"] or drop it",
                field.key
            ))),
            None => Ok(None),
        };
    };
    let what = "a list of words, such as [\"sleep\", \"1\"]";
    let argv = field
        .elements(what)?
        .iter()
        .map(|word| {
            if word.value().is_str() {
                return system_text(word, what);
            }
            let found = word.found();
            Err(word
                .error(format!("every word of `command` must be a string, not {found}; quote it")))
        })
        .collect::<Result<Vec<_>, _>>()?;
    if argv.first().is_none_or(String::is_empty) {
        return Err(field.error("the command is empty; name a program, such as [\"sleep\", \"1\"]"));
    }
    let dir = table.get("dir").map(|field| path(&field, "\"/tmp\"")).transpose()?;
    let user = table.get("user").map(|field| Account::read(&field)).transpose()?;
    let user = user.or_else(|| run.user.clone());
    Ok(Some(Command { argv, dir, env: env(table)?, output: output(table)?, user }))
}

fn env(table: &Table<'_>) -> Result<BTreeMap<String, String>, Error> {
    let Some(variables) = table.table("env", &keys::ENV)? else { return Ok(BTreeMap::new()) };
    variables
        .fields()
        .iter()
        .map(|field| {
            if field.key.is_empty() || field.key.contains(['=', '\0']) {
                let message = format!(
                    "`{}` cannot name a variable: a name is not empty and has no `=`; rename it",
                    field.key
                );
                return Err(field.key_error(message));
            }
            Ok((field.key.to_owned(), system_text(field, "\"1\"")?))
        })
        .collect()
}

fn output(table: &Table<'_>) -> Result<Output, Error> {
    let Some(field) = table.get("output") else { return Ok(Output::Inherit) };
    match field.value().as_str() {
        Some("inherit") => Ok(Output::Inherit),
        Some("null") => Ok(Output::Null),
        Some(_) | None => path(&field, "\"inherit\", \"null\" or a file's path").map(Output::File),
    }
}

fn path(field: &Field<'_>, example: &str) -> Result<PathBuf, Error> {
    let text = system_text(field, example)?;
    if text.is_empty() {
        return Err(field.error(format!("`{}` is empty; name a path or drop it", field.key)));
    }
    Ok(text.into())
}

/// A string that can be handed to the operating system.
fn system_text(field: &Field<'_>, example: &str) -> Result<String, Error> {
    let text = field.text(example)?;
    if text.contains('\0') {
        let message = format!(
            "`{}` holds a NUL character, which no program can be given; drop it",
            field.key
        );
        return Err(field.error(message));
    }
    Ok(text.into())
}
