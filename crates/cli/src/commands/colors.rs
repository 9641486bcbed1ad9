//! `maracas colors`: how the last-level cache is best split, and what that brings.

mod split;

use super::sim;
use crate::case::{Case, Machine, Overrides};
use crate::failure::{Answer, Failure, Outcome};
use crate::output::{self, Paint, paint};
use crate::source::refuse_taskset;
use crate::verdict;
use maracas_core::contract::{Event, Observer, Plan, Usage};
use maracas_core::memory::{Cache, Partition};
use maracas_core::{Duration, Instant};
use maracas_scenario::{PlatformMemory, Scenario};
use maracas_sim::memory::SharedMemory;
use serde_json::{Value, json};
use split::Needs;
use std::path::PathBuf;

/// Propose a split of the last-level cache over the cores, and show what it brings
///
/// Simulates the scenario; finds the split with which the references that each core made wait
/// least for misses, and the least number of colours that each VCPU needs; simulates that too; and
/// prints the lines to paste. What the scenario says that a VCPU needs is kept. The proposal looks
/// at each program alone in its part; what VCPUs of one core do to each other shows in the
/// simulation.
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
    #[arg(long, value_name = "TIME", value_parser = crate::args::positive)]
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
    let said = said(&scenario, memory.partition);
    let shares = split::shares(&case, &cache, (memory.partition, &said), &before)
        .map_err(|why| Failure::about(args.file.display(), why))?;
    let most = shares.iter().copied().max().unwrap_or(0);
    let wanted = needs.iter().zip(&said).map(|(need, said)| need.fits_in(most).max(*said));
    let wanted: Vec<_> = wanted.collect();
    let plain = changed(&scenario, &memory, &shares, &said);
    let asking = changed(&scenario, &memory, &shares, &wanted);
    // The VCPUs' needs steer where they are placed, which helps under some policies only.
    let mut best: Option<(bool, Counts)> = None;
    for (asks, scenario) in [(false, plain), (true, asking)] {
        let case = Case::of(scenario, Machine::Sim, &args.overrides)?;
        let Some(after) = simulated(&case, args.until) else { continue };
        if best.as_ref().is_none_or(|(_, best)| after.instructions() > best.instructions()) {
            best = Some((asks, after));
        }
    }
    let Some((asks, after)) = best else {
        let why = "the policy refuses the scenario with its cache split; take another policy";
        return Err(Failure::about(args.file.display(), why));
    };
    let minimums = if asks { wanted } else { said };
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

/// What the scenario says that each VCPU needs, in the parts that are asked for; 0 = nothing.
fn said(scenario: &Scenario, partition: Partition) -> Vec<u32> {
    let same = scenario.platform.memory.as_ref().is_some_and(|it| it.partition == partition);
    scenario.vcpus.iter().map(|spec| if same { spec.vcpu.colors } else { 0 }).collect()
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
        if let Event::Ran(stint) = event {
            self.usage[stint.vcpu.0 as usize][stint.core.0 as usize].add(&stint.usage);
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

/// Simulates; `None` where the policy refuses.
fn simulated(case: &Case, until: Option<Duration>) -> Option<Counts> {
    let mut policy = (case.entry.build)(&case.start, &case.params).ok()?;
    let memory = case.memory.as_ref()?;
    let cores = case.system.cores.len();
    let usage = vec![vec![Usage::default(); cores]; case.names.len()];
    let mut counts = Counts { usage, end: Instant::ZERO };
    let shared = SharedMemory::new(&case.system, memory);
    let options = sim::options(case, until);
    let (system, programs, policy) = (&case.system, &case.programs, policy.as_mut());
    let outcome = maracas_sim::run_with(system, programs, policy, &options, &mut counts, shared);
    counts.end = outcome.end;
    Some(counts)
}

/// Misses per reference; `None` without references.
fn miss_ratio(usage: &Usage) -> Option<f64> {
    (usage.references > 0).then(|| usage.reads as f64 / usage.references as f64)
}

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
            let line = match self.minimums[vcpu] {
                0 => "# colors = ...: drop it".into(),
                least => format!("colors = {least}"),
            };
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
            "{:width$}  {:>5}  {:>19}  {:>21}",
            "", "needs", "misses / reference", "million instructions"
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
                "{:width$}  {:>5}  {:>9} {:>9}  {:>10} {:>10}\n",
                self.case.names[vcpu],
                self.needs[vcpu].to_string(),
                ratio(&before),
                ratio(&after),
                before.instructions / 1_000_000,
                after.instructions / 1_000_000,
            );
        }
        let (before, after) = (self.before.instructions(), self.after.instructions());
        text += &format!(
            "{:width$}  {:>5}  {:>9} {:>9}  {:>10} {:>10}\n",
            "total",
            "",
            "",
            "",
            before / 1_000_000,
            after / 1_000_000
        );
        if after <= before {
            return text + "this split brings nothing here; leave the cache as it is\n";
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
