//! `pace` of a program: how fast it progresses on each class of cores.

use crate::cursor::{Field, Table};
use crate::error::{Error, Source, did_you_mean, quoted};
use crate::keys;
use crate::presets::{File, PACES, PLATFORMS};
use crate::scenario::{ClassSpec, Platform};
use maracas_core::{Pace, PacePhase};

/// The pace that `field` says: a name, a table, or a list of phases.
pub(super) fn pace(field: &Field<'_>, platform: &Platform) -> Result<Pace, Error> {
    if platform.classes.is_empty() {
        return Err(field.key_error(
            "`pace` says how fast the program is on each class of cores, and [platform] has none; \
             add preset = \"phenom-ii-x6\" or [[platform.class]] tables",
        ));
    }
    let pace = match field.value().as_str() {
        Some(_) => named(field, platform)?,
        None => read(field, &platform.classes)?,
    };
    check(&pace, &platform.classes).map_err(|why| field.error(why))?;
    Ok(pace)
}

/// The paces in a data file, each beside the platform for which it is.
pub(crate) fn paces((name, text): &File) -> Result<Vec<(Platform, Pace)>, Error> {
    let file = format!("paces/{name}.toml");
    let source = Source::new(&file, text);
    let document = super::document(&source)?;
    let table = Table::new(&source, document.get_ref(), 0, &keys::PACES)?;
    let one = |field: &Field<'_>| {
        let preset = PLATFORMS.iter().find(|(known, _)| *known == field.key);
        let preset = preset.ok_or_else(|| field.key_error("no platform is known by this name"))?;
        let platform = super::platform::preset(preset)?;
        let pace = pace(field, &platform)?;
        Ok((platform, pace))
    };
    table.fields().iter().map(one).collect()
}

/// The pace of a program known by name, on the platform that the scenario named.
fn named(field: &Field<'_>, platform: &Platform) -> Result<Pace, Error> {
    let files: Vec<_> = PACES.iter().map(|file| (file.0, file)).collect();
    let file = field.word(&files)?;
    let known = paces(file)?;
    let mine = known.iter().find(|(other, _)| other.preset == platform.preset);
    let Some((preset, pace)) = mine else {
        let names: Vec<_> = known.iter().filter_map(|(platform, _)| platform.preset).collect();
        return Err(field.error(format!(
            "the pace of {} is known on {} only; give [platform] that preset, or write the pace as \
             a table",
            file.0,
            names.join(" and ")
        )));
    };
    let names = |classes: &[ClassSpec]| -> Vec<_> {
        classes.iter().map(|class| class.name.clone()).collect()
    };
    let (theirs, own) = (names(&preset.classes), names(&platform.classes));
    if theirs != own {
        return Err(field.error(format!(
            "the pace of {} is for the classes {} of the preset, not for {}; name them so, or \
             write the pace as a table",
            file.0,
            theirs.join(", "),
            own.join(", ")
        )));
    }
    Ok(pace.clone())
}

fn read(field: &Field<'_>, classes: &[ClassSpec]) -> Result<Pace, Error> {
    let example = format!("{} = \"2.4G\"", classes[0].name);
    let what = format!(
        "a table with instructions a second by class, such as {{ {example} }}, a list of such, or \
         a program's name"
    );
    if field.value().is_table() {
        let table = field.table(&keys::PACE)?;
        if let Some(work) = table.get("work") {
            return Err(work.key_error(
                "`work` is the length of a phase, and this pace has none; write a list, \
                 pace = [{ work = \"3s\", ... }, ...], or drop it",
            ));
        }
        return Ok(Pace::steady(by_class(&table, classes)?));
    }
    if !field.value().is_array() {
        return Err(field.mismatch(what));
    }
    let tables = field.elements(&what)?;
    if tables.is_empty() {
        return Err(field.error(format!("`pace` is empty; it must be {what}")));
    }
    let phase = |field: &Field<'_>| {
        let table = field.table(&keys::PACE)?;
        let work = table.need("work", "\"3s\"")?.noticeable()?;
        Ok(PacePhase { work, ips: by_class(&table, classes)? })
    };
    Ok(Pace { phases: tables.iter().map(phase).collect::<Result<_, Error>>()? })
}

/// Instructions a second on each of `classes`.
fn by_class(table: &Table<'_>, classes: &[ClassSpec]) -> Result<Vec<u64>, Error> {
    let names = || classes.iter().map(|class| class.name.as_str());
    let fields = table.fields();
    let given: Vec<_> = fields.iter().filter(|it| !keys::PACE.keys.contains(&it.key)).collect();
    if let Some(stranger) = given.iter().find(|field| names().all(|name| name != field.key)) {
        let hint = did_you_mean(stranger.key, names(), "classes");
        let name = quoted(stranger.key);
        return Err(stranger.key_error(format!("no class of cores is named {name}; {hint}")));
    }
    let of_class = |name: &str| match given.iter().find(|field| field.key == name) {
        Some(field) => field.per_second(),
        None => Err(table.error(format!(
            "the pace says nothing of class {name}; add {name} = \"1.2G\", instructions a second"
        ))),
    };
    names().map(of_class).collect()
}

/// Whether the pace agrees with the speeds of the classes, on which budgets are converted from
/// class to class: no program is faster on a slower one, and none loses more than their ratio.
fn check(pace: &Pace, classes: &[ClassSpec]) -> Result<(), String> {
    for PacePhase { ips, .. } in &pace.phases {
        for (classes, ips) in classes.windows(2).zip(ips.windows(2)) {
            check_pair([&classes[0], &classes[1]], [ips[0], ips[1]])?;
        }
    }
    Ok(())
}

fn check_pair([fast, slow]: [&ClassSpec; 2], [more, less]: [u64; 2]) -> Result<(), String> {
    let names = [slow.name.as_str(), fast.name.as_str()];
    if less > more {
        return Err(format!(
            "the pace on {} is {less} a second, more than {more} on the faster {}; lower it",
            names[0], names[1]
        ));
    }
    let [kept, bound] = [(less, fast), (more, slow)]
        .map(|(ips, class)| u128::from(ips) * u128::from(class.speed_milli));
    if kept < bound {
        return Err(format!(
            "the pace on {} is {:.3} of that on {}, and by `speed` no program has less than {:.3}; \
             raise it, or lower the `speed` of {}",
            names[0],
            less as f64 / more as f64,
            names[1],
            slow.speed() / fast.speed(),
            names[0]
        ));
    }
    Ok(())
}
