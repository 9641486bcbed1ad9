//! How periods are drawn.

use super::random::Random;
use crate::cursor::LONGEST;
use maracas_core::Duration;

/// How periods are drawn. Written as `harmonic`, `log-uniform:10ms..100ms`, `automotive`, ...
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Periods {
    /// One of these, each as often as its weight says.
    List(Vec<(u32, Duration)>),
    /// The multiples of the grain between two periods, bounds included, all alike.
    Uniform {
        /// The shortest.
        least: Duration,
        /// The longest.
        most: Duration,
    },
    /// The multiples of the grain between two periods, bounds included, each with the chance that
    /// a uniformly drawn logarithm falls between it and the next.
    ///
    /// P. Emberson, R. Stafford, R. I. Davis. "Techniques for the Synthesis of Multiprocessor
    /// Tasksets." WATERS 2010, section 4: ln T uniform up to ln (longest + grain), rounded down.
    LogUniform {
        /// The shortest.
        least: Duration,
        /// The longest.
        most: Duration,
    },
}

impl Periods {
    /// What draws them, in grains.
    ///
    /// # Errors
    /// Where a period does not lie on the grid, or none divides the hyperperiod.
    pub(super) fn sampler(
        &self,
        grain: Duration,
        hyperperiod: Option<Duration>,
    ) -> Result<Sampler, String> {
        let sampler = match self {
            Self::List(list) => {
                let weighted = |(weight, period): &(u32, Duration)| {
                    Ok((f64::from(*weight), grains("period", *period, grain)?))
                };
                Sampler::Menu(list.iter().map(weighted).collect::<Result<_, String>>()?)
            }
            Self::Uniform { least, most } | Self::LogUniform { least, most } => {
                let bounds = (grains("period", *least, grain)?, grains("period", *most, grain)?);
                if bounds.0 > bounds.1 {
                    return Err(format!("the periods {least}..{most} are none; swap the bounds"));
                }
                match self {
                    Self::LogUniform { .. } => Sampler::LogUniform(bounds.0, bounds.1),
                    Self::List(_) | Self::Uniform { .. } => Sampler::Uniform(bounds.0, bounds.1),
                }
            }
        };
        let Some(hyperperiod) = hyperperiod else { return sampler.not_empty(self, None) };
        let whole = grains("hyperperiod", hyperperiod, grain)?;
        sampler.dividing(whole).not_empty(self, Some(hyperperiod))
    }
}

/// A time as a number of grains.
fn grains(what: &str, time: Duration, grain: Duration) -> Result<u64, String> {
    if time.is_zero() || time > LONGEST {
        return Err(format!("the {what} {time} is not within 1ns..100 days; change it"));
    }
    if !time.ticks().is_multiple_of(grain.ticks()) {
        return Err(format!(
            "the {what} {time} is no multiple of the grain {grain}; change one of the two"
        ));
    }
    Ok(time.ticks() / grain.ticks())
}

/// What draws periods in grains.
pub(super) enum Sampler {
    /// Weights and periods.
    Menu(Vec<(f64, u64)>),
    Uniform(u64, u64),
    LogUniform(u64, u64),
}

impl Sampler {
    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        match self {
            Self::Menu(menu) => {
                let mut place = random.unit() * menu.iter().map(|(weight, _)| weight).sum::<f64>();
                let mut drawn = 0;
                for (weight, period) in menu.iter().filter(|(weight, _)| *weight > 0.0) {
                    drawn = *period;
                    if place < *weight {
                        break;
                    }
                    place -= weight;
                }
                drawn
            }
            Self::Uniform(least, most) => random.between(*least, *most),
            Self::LogUniform(least, most) => {
                let (low, high) = (libm::log(*least as f64), libm::log((*most + 1) as f64));
                let period = libm::exp(low + random.unit() * (high - low));
                (period as u64).clamp(*least, *most)
            }
        }
    }

    /// The same, of those periods only that divide `whole`.
    fn dividing(self, whole: u64) -> Self {
        let divisors = |least: u64, most: u64, weight: fn(u64) -> f64| {
            let range = least..=most.min(whole);
            let both = |d: u64| [d, whole / d];
            let small = (1..=whole.isqrt()).filter(|d| whole.is_multiple_of(*d));
            let mut found: Vec<u64> = small.flat_map(both).filter(|d| range.contains(d)).collect();
            found.sort_unstable();
            found.dedup();
            Self::Menu(found.into_iter().map(|period| (weight(period), period)).collect())
        };
        match self {
            Self::Menu(mut menu) => {
                menu.retain(|(_, period)| whole.is_multiple_of(*period));
                Self::Menu(menu)
            }
            Self::Uniform(least, most) => divisors(least, most, |_| 1.0),
            Self::LogUniform(least, most) => {
                divisors(least, most, |period| libm::log1p(1.0 / period as f64))
            }
        }
    }

    fn not_empty(self, of: &Periods, hyperperiod: Option<Duration>) -> Result<Self, String> {
        if let Self::Menu(menu) = &self
            && menu.iter().all(|(weight, _)| *weight <= 0.0)
        {
            return Err(match hyperperiod {
                Some(whole) => format!(
                    "no period of {of} divides the hyperperiod {whole}; lengthen it, such as by a \
                     factor of 10"
                ),
                None => "no period has a weight above 0; list one".into(),
            });
        }
        Ok(self)
    }
}
