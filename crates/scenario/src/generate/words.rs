//! Recipes in words: read, and written so that they are read back.

use super::{Law, Loads, Periods, Range, Recipe};
use crate::error::did_you_mean;
use maracas_core::{Duration, Rate};
use std::fmt;
use std::str::FromStr;

/// Loads known by name, and the words that they stand for. Of several names the first is written.
///
/// The distributions of the UNC studies, as in SchedCAT (`schedcat/generator/tasksets.py`), whose
/// names for them are read too; `mixed` is that of LITMUS^RT's experiment scripts. The ECRTS 2015
/// study of RUN and QPS took its sets from these.
pub(super) const LOADS: [(&str, &str); 20] = [
    ("light", "uniform:0.001..0.1"),
    ("medium", "uniform:0.1..0.4"),
    ("heavy", "uniform:0.5..0.9"),
    ("mixed", "uniform:0.001..0.4"),
    ("exponential-light", "exponential:0.1"),
    ("exponential-medium", "exponential:0.25"),
    ("exponential-heavy", "exponential:0.5"),
    ("bimodal-light", "bimodal:8*0.001..0.5,1*0.5..0.9"),
    ("bimodal-medium", "bimodal:6*0.001..0.5,3*0.5..0.9"),
    ("bimodal-heavy", "bimodal:4*0.001..0.5,5*0.5..0.9"),
    ("uni-light", "uniform:0.001..0.1"),
    ("uni-medium", "uniform:0.1..0.4"),
    ("uni-heavy", "uniform:0.5..0.9"),
    ("uni-mixed", "uniform:0.001..0.4"),
    ("exp-light", "exponential:0.1"),
    ("exp-medium", "exponential:0.25"),
    ("exp-heavy", "exponential:0.5"),
    ("bimo-light", "bimodal:8*0.001..0.5,1*0.5..0.9"),
    ("bimo-medium", "bimodal:6*0.001..0.5,3*0.5..0.9"),
    ("bimo-heavy", "bimodal:4*0.001..0.5,5*0.5..0.9"),
];

/// Periods known by name, likewise.
///
/// `short`, `moderate`, `long` and `harmonic` are those of the UNC studies and of LITMUS^RT's
/// experiment scripts. `automotive`: S. Kramer, D. Ziegenbein, A. Hamann. "Real World Automotive
/// Benchmarks For Free." WATERS 2015, table III: the per cents of runnables by period, without the
/// 15 % that are synchronous to the engine's angle.
pub(super) const PERIODS: [(&str, &str); 8] = [
    ("harmonic", "list:25ms,50ms,100ms,200ms"),
    ("short", "uniform:3ms..33ms"),
    ("moderate", "uniform:10ms..100ms"),
    ("long", "uniform:50ms..250ms"),
    ("automotive", "list:3*1ms,2*2ms,2*5ms,25*10ms,25*20ms,3*50ms,20*100ms,1*200ms,4*1s"),
    ("uni-short", "uniform:3ms..33ms"),
    ("uni-moderate", "uniform:10ms..100ms"),
    ("uni-long", "uniform:50ms..250ms"),
];

/// The words in place of a name, or the words themselves.
fn meaning<'a>(names: &'a [(&str, &str)], words: &'a str) -> &'a str {
    names.iter().find(|(name, _)| *name == words).map_or(words, |(_, meaning)| meaning)
}

/// Writes the first name of these words, or the words themselves.
fn write_short(f: &mut fmt::Formatter<'_>, names: &[(&str, &str)], words: &str) -> fmt::Result {
    f.write_str(names.iter().find(|(_, meaning)| *meaning == words).map_or(words, |(name, _)| name))
}

/// A word, and what stands behind its colon.
fn cut(words: &str) -> (&str, Option<&str>) {
    words.split_once(':').map_or((words, None), |(head, rest)| (head, Some(rest)))
}

/// What to do about words that mean nothing. `kinds` are examples of those that take numbers.
fn unknown(what: &str, names: &[(&str, &str)], kinds: &[&str], words: &str) -> String {
    let head = cut(words).0;
    if let Some(example) = kinds.iter().find(|kind| cut(kind).0 == head) {
        return format!("the {what} `{words}` are written like `{example}`");
    }
    let known = names.iter().map(|(name, _)| *name).chain(kinds.iter().map(|kind| cut(kind).0));
    format!("unknown {what} `{words}`; {}", did_you_mean(head, known, what))
}

impl FromStr for Loads {
    type Err = String;
    fn from_str(words: &str) -> Result<Self, String> {
        match cut(meaning(&LOADS, words)) {
            ("uunifast", None) => Ok(Self::UUniFast),
            ("randfixedsum", None) => Ok(Self::RandFixedSum(Range::WHOLE)),
            ("randfixedsum", Some(range)) => Ok(Self::RandFixedSum(range.parse()?)),
            ("uniform", Some(range)) => Ok(Self::OneByOne(Law::Mix(vec![(1, range.parse()?)]))),
            ("bimodal", Some(parts)) => {
                let parts = parts.split(',').map(weighted).collect::<Result<_, _>>()?;
                Ok(Self::OneByOne(Law::Mix(parts)))
            }
            ("exponential", Some(mean)) => Ok(Self::OneByOne(Law::Exponential(rate(mean)?))),
            _ => {
                let kinds = [
                    "uunifast",
                    "randfixedsum:0.01..0.9",
                    "uniform:0.1..0.4",
                    "exponential:0.25",
                    "bimodal:8*0.001..0.5,1*0.5..0.9",
                ];
                Err(unknown("loads", &LOADS, &kinds, words))
            }
        }
    }
}

impl fmt::Display for Loads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::UUniFast => "uunifast".into(),
            Self::RandFixedSum(range) if *range == Range::WHOLE => "randfixedsum".into(),
            Self::RandFixedSum(range) => format!("randfixedsum:{range}"),
            Self::OneByOne(Law::Exponential(mean)) => format!("exponential:{}", decimal(*mean)),
            Self::OneByOne(Law::Mix(parts)) => match parts.as_slice() {
                [(1, range)] => format!("uniform:{range}"),
                parts => format!("bimodal:{}", join(parts)),
            },
        };
        write_short(f, &LOADS, &words)
    }
}

impl FromStr for Periods {
    type Err = String;
    fn from_str(words: &str) -> Result<Self, String> {
        let list = |list: &str| list.split(',').map(maybe_weighted).collect::<Result<Vec<_>, _>>();
        match cut(meaning(&PERIODS, words)) {
            ("list", Some(periods)) => Ok(Self::List(list(periods)?)),
            ("harmonic", Some(periods)) => {
                let mut chain = list(periods)?;
                chain.sort_by_key(|(_, period)| *period);
                for pair in chain.windows(2) {
                    let (short, long) = (pair[0].1, pair[1].1);
                    if !long.ticks().is_multiple_of(short.ticks().max(1)) {
                        return Err(format!(
                            "{short} does not divide {long}, so they are not harmonic; change one \
                             or write `list:...`"
                        ));
                    }
                }
                Ok(Self::List(chain))
            }
            ("uniform", Some(range)) => {
                let (least, most) = bounds(range)?;
                Ok(Self::Uniform { least: time(least)?, most: time(most)? })
            }
            ("log-uniform", Some(range)) => {
                let (least, most) = bounds(range)?;
                Ok(Self::LogUniform { least: time(least)?, most: time(most)? })
            }
            _ => {
                let kinds = [
                    "harmonic:25ms,50ms",
                    "log-uniform:10ms..1s",
                    "uniform:3ms..33ms",
                    "list:8ms,3*10ms",
                ];
                Err(unknown("periods", &PERIODS, &kinds, words))
            }
        }
    }
}

impl fmt::Display for Periods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::List(list) if list.iter().all(|(weight, _)| *weight == 1) => {
                let periods: Vec<_> = list.iter().map(|(_, period)| period.to_string()).collect();
                format!("list:{}", periods.join(","))
            }
            Self::List(list) => format!("list:{}", join(list)),
            Self::Uniform { least, most } => format!("uniform:{least}..{most}"),
            Self::LogUniform { least, most } => format!("log-uniform:{least}..{most}"),
        };
        write_short(f, &PERIODS, &words)
    }
}

impl FromStr for Range {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (least, most) = bounds(text)?;
        Ok(Self { least: rate(least)?, most: rate(most)? })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", decimal(self.least), decimal(self.most))
    }
}

impl FromStr for Recipe {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut seen = Vec::new();
        let (mut total, mut loads, mut periods) = (None, None, None);
        let mut recipe = Self::new(Rate::ONE, None, Loads::UUniFast, Periods::List(Vec::new()));
        for word in text.split_whitespace() {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            if seen.contains(&key) {
                return Err(format!("`{key}` stands twice; drop one"));
            }
            seen.push(key);
            match (key, value) {
                ("total", value) => total = Some(rate(value)?),
                ("tasks", value) => {
                    let way_out = |_| format!("tasks={value} is not a whole number, such as 20");
                    recipe.tasks = Some(value.parse().map_err(way_out)?);
                }
                ("loads", value) => loads = Some(value.parse()?),
                ("exact", "") => recipe.exact = true,
                ("periods", value) => periods = Some(value.parse()?),
                ("hyperperiod", value) => recipe.hyperperiod = Some(time(value)?),
                ("grain", value) => recipe.grain = time(value)?,
                ("sporadic", "") => recipe.sporadic = true,
                ("offsets", "") => recipe.offsets = true,
                _ => {
                    let known = did_you_mean(key, KEYS, "words");
                    return Err(format!("unknown word `{word}` in a recipe; {known}"));
                }
            }
        }
        let missing = |key: &str| format!("the recipe lacks {key}=...; add it");
        recipe.total = total.ok_or_else(|| missing("total"))?;
        recipe.loads = loads.ok_or_else(|| missing("loads"))?;
        recipe.periods = periods.ok_or_else(|| missing("periods"))?;
        Ok(recipe)
    }
}

/// The words of a recipe, in the order in which they are written.
const KEYS: [&str; 9] =
    ["total", "tasks", "loads", "exact", "periods", "hyperperiod", "grain", "sporadic", "offsets"];

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "total={}", decimal(self.total))?;
        if let Some(tasks) = self.tasks {
            write!(f, " tasks={tasks}")?;
        }
        write!(f, " loads={}", self.loads)?;
        let flag = |on: bool, word: &'static str| if on { word } else { "" };
        write!(f, "{} periods={}", flag(self.exact, " exact"), self.periods)?;
        if let Some(hyperperiod) = self.hyperperiod {
            write!(f, " hyperperiod={hyperperiod}")?;
        }
        let (sporadic, offsets) =
            (flag(self.sporadic, " sporadic"), flag(self.offsets, " offsets"));
        write!(f, " grain={}{sporadic}{offsets}", self.grain)
    }
}

/// `3*x`.
fn weighted<T: Word>(text: &str) -> Result<(u32, T), String> {
    let way_out = || format!("`{text}` lacks its weight; write it like 3*{text}");
    let (weight, rest) = text.split_once('*').ok_or_else(way_out)?;
    let weight = weight.parse().map_err(|_| {
        format!("the weight `{weight}` is not a whole number up to {}; change it", u32::MAX)
    })?;
    Ok((weight, T::read(rest)?))
}

/// `3*x`, or `x` for `1*x`.
fn maybe_weighted<T: Word>(text: &str) -> Result<(u32, T), String> {
    if text.contains('*') { weighted(text) } else { Ok((1, T::read(text)?)) }
}

/// What may carry a weight.
trait Word: Sized {
    fn read(text: &str) -> Result<Self, String>;
}

impl Word for Range {
    fn read(text: &str) -> Result<Self, String> {
        text.parse()
    }
}

impl Word for Duration {
    fn read(text: &str) -> Result<Self, String> {
        time(text)
    }
}

/// Weighted things in words.
fn join<T: fmt::Display>(parts: &[(u32, T)]) -> String {
    let words = parts.iter().map(|(weight, part)| format!("{weight}*{part}"));
    words.collect::<Vec<_>>().join(",")
}

fn bounds(text: &str) -> Result<(&str, &str), String> {
    text.split_once("..").ok_or_else(|| format!("`{text}` is no range; write it like a..b"))
}

fn time(text: &str) -> Result<Duration, String> {
    Duration::parse(text).map_err(|why| format!("the time `{text}` {why}"))
}

/// Reads a total utilization: a percentage of the cores (`90%`), or in cores (`3.6`, `7/2`).
///
/// # Errors
/// Where it is no number, or exceeds the cores.
pub fn utilization(text: &str, cores: usize) -> Result<Rate, String> {
    let cores = cores as u64;
    let total = match text.strip_suffix('%') {
        Some(percent) => {
            let percent = rate(percent)?;
            Rate::new(percent.num() * cores, percent.den() * 100)
        }
        None => rate(text)?,
    };
    if total > Rate::new(cores, 1) {
        let total = decimal(total);
        return Err(format!("`{text}` asks for {total} cores of {cores}; lower it or add cores"));
    }
    Ok(total)
}

/// Reads `0.25`, `3` or `1/3`, exactly.
pub(super) fn rate(text: &str) -> Result<Rate, String> {
    let wrong = || format!("`{text}` is no number such as 0.25 (up to nine decimals) or 1/3");
    let whole = |digits: &str| -> Result<u64, String> {
        // Twelve digits: their products stay within 128 bits wherever rates are compared.
        let digit = |byte: u8| byte.is_ascii_digit();
        if digits.is_empty() || digits.len() > 12 || !digits.bytes().all(digit) {
            return Err(wrong());
        }
        digits.parse().map_err(|_| wrong())
    };
    if let Some((num, den)) = text.split_once('/') {
        let den = whole(den)?;
        return if den == 0 { Err(wrong()) } else { Ok(Rate::new(whole(num)?, den)) };
    }
    let (units, decimals) = text.split_once('.').unwrap_or((text, "0"));
    if decimals.len() > 9 || units.len() > 6 {
        return Err(wrong());
    }
    let one = 10u64.pow(decimals.len() as u32);
    Ok(Rate::new(whole(units)? * one + whole(decimals)?, one))
}

/// A rate as a decimal number where nine decimals hold it, else as a fraction.
pub(super) fn decimal(rate: Rate) -> String {
    const NINE: u64 = 1_000_000_000;
    if !NINE.is_multiple_of(rate.den()) {
        return rate.to_string();
    }
    let (whole, rest) = (rate.num() / rate.den(), rate.num() % rate.den());
    if rest == 0 {
        return whole.to_string();
    }
    let decimals = format!("{:09}", rest * (NINE / rate.den()));
    format!("{whole}.{}", decimals.trim_end_matches('0'))
}
