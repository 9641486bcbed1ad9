//! `[[platform.class]]`: cores of uneven speed.

use crate::cursor::{Field, Table};
use crate::error::Error;
use crate::keys;
use crate::scenario::ClassSpec;
use maracas_core::MAX_CORES;

/// How many cores there are, and their classes: as the table says, or else as the preset does.
pub(super) fn classes(
    table: &Table<'_>,
    preset_cores: Option<usize>,
    preset: Vec<ClassSpec>,
) -> Result<(Option<usize>, Vec<ClassSpec>), Error> {
    let cores = table.get("cores");
    let asked = cores.map(|field| field.whole(1..=MAX_CORES as u64)).transpose()?;
    let asked = asked.map(|cores| cores as usize);
    let mut classes = Vec::new();
    for own in table.tables("class", &keys::CLASS)? {
        let next = class(&own, &classes)?;
        classes.push(next);
    }
    let classes = if classes.is_empty() { preset } else { classes };
    if classes.is_empty() {
        return Ok((asked.or(preset_cores), classes));
    }
    let sum: usize = classes.iter().map(|class| class.cores).sum();
    if sum > MAX_CORES {
        return Err(table.error(format!(
            "the classes have {sum} cores and at most {MAX_CORES} can be managed; lower their \
             `cores`"
        )));
    }
    match (cores, asked) {
        (Some(field), Some(asked)) if asked != sum => Err(field.error(format!(
            "`cores` is {asked} and the classes have {sum} cores; make these the same, or leave \
             `cores` of [platform] out"
        ))),
        (..) => Ok((Some(sum), classes)),
    }
}

/// The class after those `before`.
fn class(table: &Table<'_>, before: &[ClassSpec]) -> Result<ClassSpec, Error> {
    let name = name(&table.need("name", "\"fast\"")?, before)?;
    let cores = table.need("cores", "4")?.whole(1..=MAX_CORES as u64)? as usize;
    let field = table.need("speed", "0.5")?;
    let class = ClassSpec { name, cores, speed_milli: field.thousandths(1, 1_000)? as u32 };
    let (name, speed) = (&class.name, class.speed());
    match before.last() {
        None if class.speed_milli == 1_000 => Ok(class),
        None => Err(field.error(format!(
            "the first class, {name}, has speed {speed}; the fastest stands first with speed = 1, \
             and the others say how fast they are beside it"
        ))),
        Some(faster) if class.speed_milli < faster.speed_milli => Ok(class),
        Some(equal) if class.speed_milli == equal.speed_milli => Err(field.error(format!(
            "the classes {} and {name} both have speed {speed}; make them one class of {} cores",
            equal.name,
            equal.cores + cores
        ))),
        Some(slower) => Err(field.error(format!(
            "class {name} with speed {speed} stands after {} with {}; list the fastest first",
            slower.name,
            slower.speed()
        ))),
    }
}

fn name(field: &Field<'_>, before: &[ClassSpec]) -> Result<String, Error> {
    let name = super::vcpu::checked_name(field)?;
    if before.iter().any(|class| class.name == name) {
        return Err(field.error(format!("two classes are called `{name}`; rename one of them")));
    }
    if keys::PACE.keys.contains(&name) {
        return Err(field.error(format!(
            "a class cannot be called `{name}`, which is a key of `pace`; choose another name"
        )));
    }
    Ok(name.into())
}
