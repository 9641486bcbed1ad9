//! `maracas policies`: the menu.

use maracas_console::failure::{Answer, Outcome};
use maracas_console::output::{self, Paint, paint};
use maracas_core::contract::Entry;
use maracas_core::params::{Item, Kind};
use maracas_policies::ENTRIES;
use maracas_session::case;
use maracas_session::results::default_of;

/// List the policies, or explain one
///
/// Example: maracas policies maracas
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The policy to explain
    name: Option<String>,
}

pub(super) fn run(args: &Args) -> Outcome {
    let text = match &args.name {
        Some(name) => explain(case::policy(name)?),
        None => menu(),
    };
    output::print(&text)?;
    Ok(Answer::Yes)
}

fn menu() -> String {
    let width = ENTRIES.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    let line = |name: &str, summary: &str, paper: &str| {
        let name = paint(Paint::Strong, &format!("{name:width$}"));
        format!("{name}  {summary}\n{:width$}  {paper}\n", "")
    };
    let mut text: String =
        ENTRIES.iter().map(|entry| line(entry.name, entry.summary, entry.paper)).collect();
    // The wrapped ones are all alike; one line stands for them.
    let wrapped = maracas_policies::all().filter(|entry| entry.name.contains('+'));
    let names: Vec<_> = wrapped.map(|entry| entry.name).collect();
    if !names.is_empty() {
        text += &format!(
            "\n{}  one of them within memory bandwidth reservations: {}\n",
            paint(Paint::Strong, "memguard+NAME"),
            names.join(", ")
        );
    }
    text
}

fn explain(entry: &Entry) -> String {
    let mut text = format!("{}\n", paint(Paint::Strong, entry.name));
    text += &format!("  {}\n  paper: {}\n", entry.summary, entry.paper);
    let words = |pairs: &[(bool, &str)]| {
        let set: Vec<_> = pairs.iter().filter(|(set, _)| *set).map(|(_, word)| *word).collect();
        if set.is_empty() { "nothing".to_string() } else { set.join(", ") }
    };
    let needs = entry.needs;
    let classes = format!("cores of {} classes or more", needs.classes);
    text += &format!(
        "  needs: {}\n",
        words(&[
            (needs.budgets, "a budget for every VCPU"),
            (needs.jobs, "jobs whose ends are reported"),
            (needs.visible_wakes, "wakes seen when they happen"),
            (needs.counters, "memory counters"),
            (needs.classes > 0, &classes),
            (needs.progress, "progress counted in instructions or the programs' own units"),
        ])
    );
    let claims = entry.claims;
    text += &format!(
        "  claims: {}\n",
        words(&[
            (claims.partitioned, "partitioned"),
            (claims.work_conserving, "work-conserving"),
            (claims.no_miss_when_admitted, "no miss when admitted"),
        ])
    );
    if entry.params.is_empty() {
        text += "  parameters: none\n";
        return text;
    }
    text += "  parameters ([policy] in the scenario, or --set name=value):\n";
    for param in entry.params {
        text += &format!("    {} = {}\n      {}\n", param.name, values(param.kind), param.help);
    }
    text
}

/// The default and what else may be said.
fn values(kind: Kind) -> String {
    let default = default_of(kind).unwrap_or_else(|| "none".into());
    match kind {
        Kind::Choice(words) => format!("{default} (one of: {})", words.join(", ")),
        Kind::Time("") => format!("{default} (a duration such as 2ms)"),
        Kind::Time(_) => format!("{default} (a duration)"),
        Kind::Whole(_, least, most) => format!("{default} (from {least} to {most})"),
        Kind::Fraction(..) => format!("{default} (a fraction such as 1/2 or 0.5)"),
        Kind::Flag(_) => format!("{default} (true or false)"),
        Kind::List(Item::Bandwidth, 1) => format!("{default} (a bandwidth such as 200MB/s)"),
        Kind::List(item, most) => {
            let of = match item {
                Item::Bandwidth => "bandwidths such as 200MB/s".to_string(),
                Item::Whole(greatest) => format!("whole numbers up to {greatest}"),
                Item::Word(words) => format!("words of: {}", words.join(", ")),
            };
            format!("{default} (up to {most} {of}, separated by commas)")
        }
    }
}
