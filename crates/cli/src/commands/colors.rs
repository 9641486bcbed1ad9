//! `maracas colors`: how the last-level cache is best split, and what that brings.

mod split;

use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output::{self, Paint, paint};
use maracas_core::contract::{Event, Observer, Plan, Usage};
use maracas_core::memory::{Cache, Partition};
use maracas_core::{CoreId, Duration, Instant};
use maracas_scenario::{PlatformMemory, Scenario};
use maracas_session::case::{Case, Machine, Overrides};
use maracas_session::simulation;
use maracas_session::source::refuse_taskset;
use maracas_session::verdict;
use serde_json::{Value, json};
use split::Needs;
use std::path::PathBuf;

/// Propose a split of the last-level cache over the cores, and show what it brings
///
/// Simulates the scenario; finds the split with which the references that each core made wait
/// least for misses, and the least number of colours that each VCPU needs; simulates that too; and
/// prints the lines to paste. What the scenario says that a VCPU needs is kept, in ways as many as
/// hold as much. The proposal looks at each program alone in its part; what VCPUs of one core do to
/// each other shows in the simulation. The sum over all VCPUs counts, so that one may lose for the
/// sake of others: it is named, and keeps its part where the scenario gives it `colors`.
///
/// Example: maracas colors examples/colors.toml
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// A scenario with memory
    file: PathBuf,
    /// Split by ways, not by page colours
    #[arg(long)]
    ways: bool,
    /// What a VCPU needs: so many that its misses per reference exceed those with the whole cache
    /// by no more than this
    #[arg(long, default_value_t = 0.02, value_parser = share)]
    tolerance: f64,
    /// How long to simulate; without it, the scenario's duration or 10s
    #[arg(long, value_name = "TIME", value_parser = maracas_console::args::positive)]
    until: Option<Duration>,
    /// The proposal as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    overrides: Overrides,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "a share lies from 0 to 1, such as 0.02".into())
}

pub(super) fn run(args: &Args) -> Outcome {
    refuse_taskset(&args.file)?;
    output::leave_nothing_at_signals()?;
    let scenario = Scenario::read(&args.file).map_err(Failure::new)?;
    let case = Case::of(scenario.clone(), Machine::Sim, &args.overrides)?;
    let (memory, cache) = with_cache(args, &scenario)?;
    let parts = split::parts(&cache, memory.partition);
    let Some(before) = simulated(&case, args.until) else {
        return verdict::refuse(&case, args.json);
    };
    let needs = split::needs(&case, &cache, memory.partition, args.tolerance);
    let said = said(&scenario, &cache, memory.partition);
    let shares = split::shares(&case, &cache, (memory.partition, &said), &before)
        .map_err(|why| Failure::about(args.file.display(), why))?;
    let wanted = wanted(&case, &shares, &needs, &said);
    // The VCPUs' needs steer where they are placed: they are asked for unless that does harm.
    let mut best: Option<(Vec<u32>, Counts)> = None;
    for minimums in [wanted, said] {
        let scenario = changed(&scenario, &memory, &shares, &minimums);
        let case = Case::of(scenario, Machine::Sim, &args.overrides)?;
        let Some(after) = simulated(&case, args.until) else { continue };
        if best.as_ref().is_none_or(|(_, best)| after.instructions() > best.instructions()) {
            best = Some((minimums, after));
        }
    }
    let Some((minimums, after)) = best else {
        let why = "the policy refuses the scenario with its cache split; take another policy";
        return Err(Failure::about(args.file.display(), why));
    };
    let found = Found { case, cache, memory, parts, needs, shares, minimums, before, after };
    if args.json {
        output::line(&format!("{:#}", found.json()))?;
    } else {
        output::print(&found.text())?;
    }
    Ok(Answer::Yes)
}

/// The scenario's memory, to be split as asked, and its cache.
fn with_cache(args: &Args, scenario: &Scenario) -> Result<(PlatformMemory, Cache), Failure> {
    let missing = |what: &str| Failure::about(args.file.display(), what);
    let memory = scenario.platform.memory.as_ref().ok_or_else(|| {
        missing("the scenario has no memory; add preset = \"i5-2500k\" to [platform]")
    })?;
    let cache =
        memory.cache.ok_or_else(|| missing("the platform has no cache; add [platform.cache]"))?;
    let partition = if args.ways { Partition::Ways } else { Partition::Colors };
    Ok((PlatformMemory { partition, shares: Vec::new(), ..memory.clone() }, cache))
}

/// What the scenario says that each VCPU needs, in the parts that are asked for: as many as hold
/// as much; 0 = nothing.
fn said(scenario: &Scenario, cache: &Cache, partition: Partition) -> Vec<u32> {
    let written = scenario.platform.memory.as_ref().map_or(partition, |it| it.partition);
    let (old, new) = (split::parts(cache, written), split::parts(cache, partition));
    let converted = |count: u32| u64::from(count) * u64::from(new);
    let each = scenario.vcpus.iter().map(|spec| converted(spec.vcpu.colors));
    each.map(|count| count.div_ceil(u64::from(old)) as u32).collect()
}

/// What each VCPU must ask for: what it needs, where a core that it may be on can hold that and
/// the policy heeds it, and never less than the scenario says.
fn wanted(case: &Case, shares: &[u32], needs: &[Needs], said: &[u32]) -> Vec<u32> {
    if !case.keeps("colors") {
        return said.to_vec();
    }
    let largest = shares.iter().copied().max().unwrap_or(0);
    let most = |pinned: Option<CoreId>| {
        pinned.map_or(largest, |core| shares.get(core.0 as usize).copied().unwrap_or(0))
    };
    let each = case.system.vcpus.iter().zip(needs).zip(said);
    each.map(|((vcpu, need), said)| need.fits_in(most(vcpu.pinned)).max(*said)).collect()
}

/// The scenario with its cache split so, and VCPUs that need so much of it.
fn changed(
    scenario: &Scenario,
    memory: &PlatformMemory,
    shares: &[u32],
    minimums: &[u32],
) -> Scenario {
    let mut scenario = scenario.clone();
    scenario.platform.memory = Some(PlatformMemory { shares: shares.to_vec(), ..memory.clone() });
    for (spec, least) in scenario.vcpus.iter_mut().zip(minimums) {
        spec.vcpu.colors = *least;
    }
    scenario
}

/// What every VCPU did on every core.
struct Counts {
    /// By VCPU, then by core.
    usage: Vec<Vec<Usage>>,
    end: Instant,
}

impl Counts {
    fn of(&self, vcpu: usize) -> Usage {
        let mut sum = Usage::default();
        self.usage[vcpu].iter().for_each(|usage| sum.add(usage));
        sum
    }
    fn instructions(&self) -> u64 {
        (0..self.usage.len()).map(|vcpu| self.of(vcpu).instructions).sum()
    }
}

impl Observer for Counts {
    fn event(&mut self, _: Instant, event: &Event) {
        if let Event::Ran(segment) = event {
            self.usage[segment.vcpu.0 as usize][segment.core.0 as usize].add(&segment.usage);
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

/// Simulates; `None` where the policy refuses.
fn simulated(case: &Case, until: Option<Duration>) -> Option<Counts> {
    let mut policy = (case.entry.build)(&case.start, &case.params).ok()?;
    let cores = case.system.cores.len();
    let usage = vec![vec![Usage::default(); cores]; case.names.len()];
    let mut counts = Counts { usage, end: Instant::ZERO };
    let options = simulation::options(case, until);
    let subject = case.subject();
    let outcome = maracas_sim::simulate(&subject, policy.as_mut(), &options, &mut counts);
    counts.end = outcome.end;
    Some(counts)
}

/// Misses per reference; `None` without references.
fn miss_ratio(usage: &Usage) -> Option<f64> {
    (usage.references > 0).then(|| usage.reads as f64 / usage.references as f64)
}

/// By which share `after` is more than `before`; `None` where that was nothing.
fn change(before: u64, after: u64) -> Option<f64> {
    (before > 0).then(|| after as f64 / before as f64 - 1.0)
}

fn percent(change: Option<f64>) -> String {
    change.map_or("-".into(), |change| format!("{:+.1} %", change * 100.0))
}

/// A VCPU that loses more gets a warning; less comes from where the simulation ends.
const LOSS: f64 = -0.01;

/// The proposal with what it brings.
struct Found {
    case: Case,
    cache: Cache,
    memory: PlatformMemory,
    parts: u32,
    /// By VCPU.
    needs: Vec<Needs>,
    /// By core.
    shares: Vec<u32>,
    /// By VCPU, as written into the scenario; 0 = none.
    minimums: Vec<u32>,
    before: Counts,
    after: Counts,
}

impl Found {
    const fn key(&self) -> &'static str {
        match self.memory.partition {
            Partition::Colors => "colors",
            Partition::Ways => "ways",
        }
    }
    /// By which share of its instructions a VCPU does more; `None` where it did none before.
    fn change(&self, vcpu: usize) -> Option<f64> {
        change(self.before.of(vcpu).instructions, self.after.of(vcpu).instructions)
    }
    /// The VCPUs that use memory, by their place.
    fn users(&self) -> impl Iterator<Item = usize> {
        (0..self.needs.len()).filter(|vcpu| self.needs[*vcpu] != Needs::NoMemory)
    }
    /// What to paste, with where it belongs.
    fn lines(&self) -> Vec<(String, String)> {
        let list = self.shares.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let platform = "[platform], the only split there".to_string();
        let mut lines = vec![(platform, format!("{} = [{list}]", self.key()))];
        let written = |vcpu: usize| self.case.system.vcpus[vcpu].colors;
        for vcpu in self.users().filter(|vcpu| self.minimums[*vcpu] != written(*vcpu)) {
            let line = format!("colors = {}", self.minimums[vcpu]);
            lines.push((self.case.names[vcpu].clone(), line));
        }
        lines
    }

    fn text(&self) -> String {
        let word = self.memory.part_word();
        let kib = self.cache.bytes / u64::from(self.parts) / 1024;
        let mut text = format!(
            "{}: {} {word} of {kib} KiB, {} cores, {} simulated\n",
            self.case.file,
            self.parts,
            self.shares.len(),
            self.before.end.saturating_since(Instant::ZERO)
        );
        let longest = self.users().map(|vcpu| self.case.names[vcpu].len()).max().unwrap_or(0);
        let width = longest.max("total".len());
        let head = format!(
            "{:width$}  {:>5}  {:>19}  {:>21}  {:>8}",
            "", "needs", "misses / reference", "million instructions", "change"
        );
        text += &(paint(Paint::Strong, &head) + "\n");
        text += &format!(
            "{:width$}  {:>5}  {:>9} {:>9}  {:>10} {:>10}\n",
            "", "", "before", "after", "before", "after"
        );
        for vcpu in self.users() {
            let (before, after) = (self.before.of(vcpu), self.after.of(vcpu));
            let ratio = |usage| miss_ratio(usage).map_or("-".into(), |ratio| format!("{ratio:.4}"));
            text += &format!(
                "{:width$}  {:>5}  {:>9} {:>9}  {:>10} {:>10}  {:>8}\n",
                self.case.names[vcpu],
                self.needs[vcpu].to_string(),
                ratio(&before),
                ratio(&after),
                before.instructions / 1_000_000,
                after.instructions / 1_000_000,
                percent(self.change(vcpu)),
            );
        }
        let (before, after) = (self.before.instructions(), self.after.instructions());
        text += &format!(
            "{:width$}  {:>5}  {:>9} {:>9}  {:>10} {:>10}  {:>8}\n",
            "total",
            "",
            "",
            "",
            before / 1_000_000,
            after / 1_000_000,
            percent(change(before, after)),
        );
        if after <= before {
            return text + "this split brings nothing here; leave the cache as it is\n";
        }
        for vcpu in self.users().filter(|vcpu| self.change(*vcpu).is_some_and(|it| it < LOSS)) {
            let (name, lost) = (&self.case.names[vcpu], percent(self.change(vcpu)));
            text += &paint(Paint::Bad, &format!("{name} loses by it: {lost}; "));
            text += "`colors = N` in its table keeps a part for it\n";
        }
        text += "add to the scenario:\n";
        for (place, line) in self.lines() {
            text += &format!("  {line}    # {place}\n");
        }
        text
    }

    fn json(&self) -> Value {
        let counts = |usage: &Usage| {
            json!({
                "references": usage.references,
                "misses": usage.reads,
                "miss_ratio": miss_ratio(usage),
                "instructions": usage.instructions,
            })
        };
        let each = |vcpu: usize| {
            json!({
                "name": self.case.names[vcpu],
                "needs": self.needs[vcpu].count(),
                "minimum": self.minimums[vcpu],
                "change": self.change(vcpu),
                "before": counts(&self.before.of(vcpu)),
                "after": counts(&self.after.of(vcpu)),
            })
        };
        let lines = self.lines();
        json!({
            "file": self.case.file,
            "by": self.key(),
            "parts": self.parts,
            "bytes_of_part": self.cache.bytes / u64::from(self.parts),
            "simulated_ns": self.before.end.ticks(),
            "split": self.shares,
            "vcpus": self.users().map(each).collect::<Vec<_>>(),
            "instructions": {
                "before": self.before.instructions(),
                "after": self.after.instructions(),
            },
            "toml": lines.iter().map(|(place, line)| json!({ "at": place, "line": line }))
                .collect::<Vec<_>>(),
        })
    }
}
