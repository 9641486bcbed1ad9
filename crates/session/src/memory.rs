//! What a static mix of requestors gets from one memory.

mod input;
mod strict;

use maracas_console::output::{Paint, paint};
use maracas_core::memory::Dram;
use maracas_scenario::mix::{Mix, pattern_word};
use maracas_sim::memory::dram::{self, Law, Requestor, Solved};
use serde_json::{Value, json};

pub use input::answer;

fn requestors(mix: &Mix) -> Vec<Requestor> {
    let milli = |n: u64| n as f64 / 1e3;
    let each = mix.requestors.iter().map(|one| Requestor {
        pattern: one.pattern,
        outstanding: milli(one.outstanding_milli),
        think_ns: milli(one.think_ps),
        writebacks: milli(one.writebacks_milli),
    });
    each.collect()
}

/// What a mix comes to.
pub struct Answered {
    each: Vec<Solved>,
    /// GB/s, reads and writes.
    total: f64,
    /// Mean over reads, ns.
    latency: f64,
}

impl Answered {
    /// The answer to a mix that was read from TOML.
    pub fn of(mix: &Mix) -> Self {
        Self::to(&mix.memory.dram, &requestors(mix))
    }

    fn to(memory: &Dram, requestors: &[Requestor]) -> Self {
        let mut each = Vec::new();
        Law::new(memory).solve(requestors, &mut each);
        // A sum of nothing is -0.
        let total = dram::bytes_per_ns(requestors, &each) + 0.0;
        let latency = dram::mean_read_latency_ns(&each);
        Self { each, total, latency }
    }

    /// As JSON: `requestors`, each with its reads, latency and occupancy, and the whole.
    pub fn json(&self) -> Value {
        let each = |one: &Solved| {
            json!({
                "read_Mps": one.reads_per_ns * 1e3,
                "read_lat_ns": one.latency_ns,
                "occupancy": one.occupancy,
            })
        };
        json!({
            "requestors": self.each.iter().map(each).collect::<Vec<_>>(),
            "total_GBps": self.total,
            "read_lat_ns": self.latency,
        })
    }

    /// As a table for people; `mix` is the one that it answers.
    pub fn text(&self, mix: &Mix) -> String {
        let head = format!(
            "{:>3}  {:<7}  {:>6}  {:>9}  {:>5}  {:>9}  {:>9}  {:>9}",
            "", "pattern", "W", "Z ns", "wb", "Mreads/s", "latency", "occupancy"
        );
        let mut text = paint(Paint::Strong, &head) + "\n";
        let requestors = requestors(mix);
        for (number, (one, solved)) in requestors.iter().zip(&self.each).enumerate() {
            text += &format!(
                "{:>3}  {:<7}  {:>6}  {:>9}  {:>5}  {:>9.2}  {:>6.1} ns  {:>9.2}\n",
                number + 1,
                pattern_word(one.pattern),
                one.outstanding,
                one.think_ns,
                one.writebacks,
                solved.reads_per_ns * 1e3,
                solved.latency_ns,
                solved.occupancy,
            );
        }
        let cycles = self.latency * mix.memory.cycles_per_us as f64 / 1e3;
        text += &format!(
            "total {:.2} GB/s, reads and writes; mean read latency {:.1} ns ({cycles:.0} cycles)\n",
            self.total, self.latency
        );
        let r_min = mix.memory.dram.guaranteed_bandwidth() / 1_000_000;
        text + &format!("r_min {r_min}MB/s from the timings: all requests new rows of one bank\n")
    }
}
