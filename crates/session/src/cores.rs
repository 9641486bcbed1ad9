//! On which of the host's cores a scenario with classes of cores runs: on its own fast and slow
//! ones, or on equal ones that are slowed down in their place.

use maracas_console::failure::Failure;
use maracas_core::{Class, Rate, System};
use maracas_live::host::HardwareCore;
use maracas_live::host::classes::{Detected, HostClass};
use maracas_live::host::platform::Platform;
use maracas_live::machine::capacity;
use std::fmt;

/// Sets what the host's cores make of a system: their classes where the file says nothing of any,
/// and less room for reservations where cores would have to be slowed down.
///
/// # Errors
/// Where the host's cores cannot be read.
pub fn look_at_host(system: &mut System) -> Result<(), Failure> {
    let platform = Platform::detect().map_err(|error| Failure::about("this host", error))?;
    if system.classes.len() > 1 {
        let host = Detected::of_host(&platform.cores).classes;
        if let Some(capacity) = capacity_when_emulated(system, &host) {
            system.capacity = capacity;
        }
        return Ok(());
    }
    let usable = &platform.cores[..platform.cores.len().min(system.cores.len())];
    take_from_host(system, &Detected::of_host(usable).classes, usable);
    Ok(())
}

/// The host's cores for those of a system, by their `CoreId`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The cores of the host, in the order of the system's.
    pub cores: Vec<HardwareCore>,
    /// The share of its time in which each runs programs; empty where all run all the time.
    pub duty: Vec<Rate>,
}

impl Placement {
    /// What is emulated, in a sentence; `None` where nothing is.
    pub fn emulation(&self) -> Option<String> {
        let slowed = self.cores.iter().zip(&self.duty).filter(|(_, duty)| **duty < Rate::ONE);
        let each: Vec<_> = slowed.map(|(core, duty)| format!("{core} ({duty})")).collect();
        (!each.is_empty()).then(|| {
            let each = each.join(", ");
            format!("emulated by duty cycles, in parts of a core's time: host core {each}")
        })
    }
}

/// What a system asks of the speed of cores and a host does not have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// Classes that are not the host's.
    Classes {
        /// Cores and speed of each class that is asked for.
        asked: Vec<(usize, u32)>,
        /// The same of the host.
        there: Vec<(usize, u32)>,
    },
    /// A speed that no duty cycle gives.
    TooSlow(u32),
    /// As many equal cores, to be slowed down.
    TooFewEqual {
        /// How many are asked for.
        asked: usize,
        /// The most that the host has.
        there: usize,
    },
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Classes { asked, there } => write!(
                f,
                "[platform] asks for {}; this host has {}; slow cores down with --emulate, or \
                 drop [[platform.class]]",
                in_words(asked),
                in_words(there)
            ),
            Self::TooSlow(speed) => write!(
                f,
                "--emulate slows cores down to speeds above 0.1, and [[platform.class]] asks for \
                 {}; raise it",
                decimal(*speed)
            ),
            Self::TooFewEqual { asked, there } => write!(
                f,
                "--emulate slows down equal cores: {asked} are asked for and this host has \
                 {there}; name fewer cores in [[platform.class]]"
            ),
        }
    }
}

/// `1 core of speed 1.000 and 1 of 0.500`; `2 equal cores`.
fn in_words(classes: &[(usize, u32)]) -> String {
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    if let [(count, _)] = classes {
        return format!("{count} equal core{}", plural(*count));
    }
    let each = classes.iter().enumerate().map(|(place, (count, speed))| {
        let noun = if place == 0 { format!(" core{}", plural(*count)) } else { String::new() };
        format!("{count}{noun} of speed {}", decimal(*speed))
    });
    each.collect::<Vec<_>>().join(" and ")
}

/// Thousandths as users write them: `0.5`.
fn decimal(milli: u32) -> String {
    format!("{}", f64::from(milli) / 1e3)
}

/// In which part of its time an equal core stands for one of this speed.
const fn share(speed_milli: u32) -> Rate {
    Rate::new(speed_milli as u64, 1000)
}

/// In less than this, pauses and real-time threads leave nothing to ordinary threads
/// ([`capacity`]).
const LEAST_SHARE: Rate = Rate::new(1, 10);

/// The classes of `system` that have cores: how many, and their speed.
fn asked(system: &System) -> Vec<(usize, u32)> {
    let cores = |class| system.cores.iter().filter(|core| usize::from(core.class) == class).count();
    let all = system.classes.iter().enumerate();
    all.map(|(class, it)| (cores(class), it.speed_milli)).filter(|(cores, _)| *cores > 0).collect()
}

/// Finds cores of the host's own classes: those of its k-th for the k-th of the system.
///
/// # Errors
/// Where the host has not as many classes, or too few cores of one.
pub fn natural(system: &System, host: &[HostClass]) -> Result<Placement, Unfit> {
    let asked = asked(system);
    let enough = asked.len() == host.len()
        && asked.iter().zip(host).all(|((cores, _), class)| *cores <= class.cores.len());
    if !enough {
        let there = host.iter().map(|class| (class.cores.len(), class.speed_milli)).collect();
        return Err(Unfit::Classes { asked, there });
    }
    let mut free: Vec<_> = host.iter().map(|class| class.cores.iter().copied()).collect();
    let mut ranks: Vec<u8> = system.cores.iter().map(|core| core.class).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let rank = |class| ranks.iter().position(|known| *known == class).unwrap_or(0);
    let cores = system.cores.iter().filter_map(|core| free[rank(core.class)].next()).collect();
    Ok(Placement { cores, duty: Vec::new() })
}

/// What reservations may take of each core where the host's own classes are not the system's, so
/// that it can run on equal cores alone, slowed down; `None` where that is not so.
pub fn capacity_when_emulated(system: &System, host: &[HostClass]) -> Option<Rate> {
    let needed = asked(system).len() > 1 && natural(system, host).is_err();
    let of = |(_, speed): (usize, u32)| capacity(share(speed));
    if needed { asked(system).into_iter().map(of).min() } else { None }
}

/// Gives a system that says nothing of classes those of the host's first cores, on which it will
/// run.
pub fn take_from_host(system: &mut System, host: &[HostClass], usable: &[HardwareCore]) {
    if host.len() < 2 {
        return;
    }
    let speed = |class: &HostClass| Class { speed_milli: class.speed_milli };
    system.classes = host.iter().map(speed).collect();
    for (core, hardware) in system.cores.iter_mut().zip(usable) {
        let class = host.iter().position(|class| class.cores.contains(hardware));
        core.class = class.map_or(0, |class| class as u8);
    }
}

/// Takes equal cores, the fastest that there are enough of, and slows them down to the speeds of
/// the system's classes.
///
/// # Errors
/// Where the host has fewer equal cores, or one would run hardly ever.
pub fn emulated(system: &System, host: &[HostClass]) -> Result<Placement, Unfit> {
    let asked = system.cores.len();
    let Some(equal) = host.iter().find(|class| class.cores.len() >= asked) else {
        let there = host.iter().map(|class| class.cores.len()).max().unwrap_or(0);
        return Err(Unfit::TooFewEqual { asked, there });
    };
    let slowed = self::asked(system).into_iter().map(|(_, speed)| speed);
    if let Some(slow) = slowed.into_iter().find(|speed| share(*speed) <= LEAST_SHARE) {
        return Err(Unfit::TooSlow(slow));
    }
    let speed = |class: u8| system.classes[usize::from(class)].speed_milli;
    let duty = |class| share(speed(class));
    Ok(Placement {
        cores: equal.cores[..asked].to_vec(),
        duty: system.cores.iter().map(|core| duty(core.class)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(classes: &[(u32, &[u32])]) -> Vec<HostClass> {
        let class = |(speed_milli, cores): &(u32, &[u32])| HostClass {
            speed_milli: *speed_milli,
            cores: cores.iter().copied().map(HardwareCore).collect(),
        };
        classes.iter().map(class).collect()
    }

    fn system(classes: &[(usize, u32)]) -> System {
        let cores = classes.iter().map(|(cores, _)| cores).sum();
        System::new(cores, Vec::new()).uneven(classes)
    }

    fn numbers(placement: &Placement) -> Vec<u32> {
        placement.cores.iter().map(|core| core.0).collect()
    }

    #[test]
    fn big_cores_of_the_host_stand_for_big_cores_of_the_file() {
        let odroid = host(&[(1000, &[4, 5, 6, 7]), (440, &[0, 1, 2, 3])]);
        let placed = natural(&system(&[(1, 1000), (2, 500)]), &odroid).unwrap();
        assert_eq!(numbers(&placed), [4, 0, 1]);
        assert_eq!(placed.emulation(), None);
    }

    #[test]
    fn what_the_host_has_not_is_said_with_the_way_out() {
        let even = host(&[(1000, &[0, 1])]);
        let refused = natural(&system(&[(1, 1000), (1, 500)]), &even).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "[platform] asks for 1 core of speed 1 and 1 of speed 0.5; this host has 2 equal \
             cores; slow cores down with --emulate, or drop [[platform.class]]"
        );
        let odroid = host(&[(1000, &[4, 5]), (440, &[0, 1])]);
        assert!(natural(&system(&[(3, 1000), (1, 500)]), &odroid).is_err(), "too few big ones");
        let too_few = emulated(&system(&[(2, 1000), (4, 500)]), &odroid).unwrap_err();
        assert!(too_few.to_string().contains("6 are asked for and this host has 2"));
    }

    #[test]
    fn reservations_leave_room_for_what_slows_cores_down() {
        let (even, uneven) = (host(&[(1000, &[0, 1])]), host(&[(1000, &[0]), (600, &[1])]));
        let asked = system(&[(1, 1000), (1, 500)]);
        assert_eq!(capacity_when_emulated(&asked, &even), Some(Rate::new(4, 5)));
        assert_eq!(capacity_when_emulated(&asked, &uneven), None);
        assert_eq!(capacity_when_emulated(&System::new(2, Vec::new()), &even), None);
    }

    #[test]
    fn a_system_without_classes_has_those_of_its_cores() {
        let mut bare = System::new(3, Vec::new());
        let usable = [0, 1, 4].map(HardwareCore);
        take_from_host(&mut bare, &host(&[(1000, &[4]), (440, &[0, 1])]), &usable);
        let classes: Vec<_> = bare.cores.iter().map(|core| core.class).collect();
        assert_eq!((classes, bare.classes[1].speed_milli), (vec![1, 1, 0], 440));
        let mut even = System::new(2, Vec::new());
        take_from_host(&mut even, &host(&[(1000, &[0, 1])]), &usable);
        assert!(even.is_even() && even.classes.len() == 1);
    }

    #[test]
    fn equal_cores_are_slowed_down_to_the_speed_of_their_class() {
        let even = host(&[(1000, &[2, 3, 5])]);
        let placed = emulated(&system(&[(1, 1000), (1, 500)]), &even).unwrap();
        assert_eq!(numbers(&placed), [2, 3]);
        assert_eq!(placed.duty, [Rate::ONE, Rate::new(1, 2)]);
        let said = placed.emulation().unwrap();
        assert!(said.ends_with("host core 3 (1/2)"), "{said}");
        let slow = emulated(&system(&[(1, 1000), (1, 100)]), &even).unwrap_err();
        assert!(slow.to_string().contains("asks for 0.1; raise it"), "{slow}");
    }
}
