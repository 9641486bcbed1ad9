//! By what a live run steers memory, as the scenario says.

use crate::case::Case;
use maracas_client::color::{CacheColors, Indexing, Pagemap};
use maracas_console::failure::Failure;
use maracas_live::Steering;
use maracas_live::host::launch::Command;
use maracas_live::machine::{CacheParts, Throttle};
use maracas_scenario::{CacheSplit, PlatformMemory, ThrottleBy};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// By what the machine steers memory.
pub(super) fn of(case: &Case) -> Steering {
    let live = case.live();
    let memory = case.scenario.as_ref().and_then(|scenario| scenario.platform.memory.as_ref());
    Steering {
        throttle: match live.throttle_by {
            ThrottleBy::Freezer => Throttle::Freezer,
            ThrottleBy::Mba => Throttle::Mba,
        },
        cache: match live.cache {
            CacheSplit::Whole => CacheParts::Whole,
            CacheSplit::Ways => CacheParts::Ways,
            CacheSplit::Colors => CacheParts::Colors(memory.map_or(0, PlatformMemory::parts)),
        },
        cycles_per_us: memory.map(|memory| memory.cycles_per_us),
    }
}

/// The library that programs of a run with page colours are preloaded with, if it is found; `None`
/// where pages are to have no colours.
pub(super) fn preload(case: &Case) -> Option<Option<PathBuf>> {
    (case.live().cache == CacheSplit::Colors).then(maracas_client::color::preload_path)
}

/// Where the kernel shows resource control, mounted or not.
const RESCTRL: &str = "/sys/fs/resctrl";

/// Refuses what this host plainly cannot do, and says what users should know of the rest.
///
/// # Errors
/// Where an actuator that the scenario names is not there, at its place.
pub fn notes(case: &Case) -> Result<Vec<String>, Failure> {
    let Some(scenario) = &case.scenario else { return Ok(Vec::new()) };
    let has_resctrl = Path::new(RESCTRL).exists();
    let missing = |what: &str, instead: &str| {
        format!(
            "{what} is done by resource control (resctrl), which this kernel does not show; take \
             {instead} (`maracas doctor` says what is missing)"
        )
    };
    if scenario.live.throttle_by == ThrottleBy::Mba && !has_resctrl {
        let why = missing("throttling by mba", "\"freezer\"");
        return Err(Failure::new(scenario.at_throttle_by(why)));
    }
    match scenario.live.cache {
        CacheSplit::Ways if !has_resctrl => {
            let why = missing("a split by ways", "\"whole\"");
            Err(Failure::new(scenario.at_cache(why)))
        }
        CacheSplit::Whole | CacheSplit::Ways => Ok(Vec::new()),
        CacheSplit::Colors => {
            let seen = frame_is_seen().map_err(|error| {
                let why = format!(
                    "no program's pages can have colours here: {error}; give the rights, or take \
                     \"ways\" or \"whole\""
                );
                Failure::new(scenario.at_cache(why))
            });
            seen.map(|()| of_colors(case))
        }
    }
}

/// Whether this process may know in which frame a page of its own lies.
fn frame_is_seen() -> Result<(), maracas_client::color::Error> {
    let byte = Box::new(std::hint::black_box(1_u8));
    let at = &raw const *byte as usize;
    Pagemap::own()?.frames(at..at + 1).map(|_| ())
}

fn of_colors(case: &Case) -> Vec<String> {
    let asked = case.scenario.as_ref().and_then(|it| it.platform.memory.as_ref());
    let asked = asked.map_or(0, PlatformMemory::parts);
    let caches = maracas_client::color::caches(0).unwrap_or_default();
    let here: Vec<_> = caches.iter().filter(|cache| cache.colors > 1).map(in_words).collect();
    let here = if here.is_empty() { "not known".into() } else { here.join(", ") };
    let mut notes = vec![format!(
        "[platform] splits by {asked} colours; this host's: {here} (`maracas bench colors` \
         measures them)"
    )];
    notes.extend(preload(case).is_some_and(|found| found.is_none()).then(|| {
        "libmaracas_client.so was not found beside maracas: pages are recoloured only of programs \
         that are linked with the client library"
            .into()
    }));
    notes
}

fn in_words(cache: &CacheColors) -> String {
    let CacheColors { level, colors, indexing, .. } = cache;
    match indexing {
        Indexing::Plain => format!("L{level} {colors}"),
        Indexing::Hashed | Indexing::Unknown => {
            format!("L{level} at most {colors} (indexing {indexing})")
        }
    }
}

/// The variable that names to the dynamic linker the libraries to load first (ld.so(8)).
const PRELOAD: &str = "LD_PRELOAD";

/// Has a command load `library` before whatever else is to be loaded first.
pub(super) fn load_first(command: &mut Command, library: &Path) {
    let given = command.env.get(OsStr::new(PRELOAD)).cloned();
    let others = given.or_else(|| std::env::var_os(PRELOAD)).filter(|list| !list.is_empty());
    let mut list = library.as_os_str().to_os_string();
    others.iter().for_each(|others| list.extend([OsStr::new(":"), others]));
    command.env.insert(PRELOAD.into(), list);
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_live::host::launch::Output;
    use std::collections::BTreeMap;

    #[test]
    fn what_was_to_be_loaded_first_is_still_loaded() {
        let with = |given: Option<&str>| {
            let env: BTreeMap<_, _> =
                given.iter().map(|list| (PRELOAD.into(), list.into())).collect();
            let argv = vec!["true".into()];
            let mut command = Command { argv, env, output: Output::Null, ..Command::default() };
            load_first(&mut command, Path::new("/lib/ours.so"));
            command.env[OsStr::new(PRELOAD)].clone()
        };
        assert_eq!(with(Some("")), "/lib/ours.so");
        assert_eq!(with(Some("a.so:b.so")), "/lib/ours.so:a.so:b.so");
    }
}
