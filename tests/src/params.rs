//! Random parameters that a policy accepts, in the time scale of the system.

use crate::{Dice, RandomSystem};
use maracas_core::Duration;
use maracas_core::contract::Entry;
use maracas_core::memory::LINE_BYTES;
use maracas_core::params::{Kind, ParamSpec, Params, Value};
use std::num::NonZero;

/// The time scale of a system.
#[derive(Clone, Copy)]
struct Scale {
    shortest: Duration,
    longest: Duration,
    cores: usize,
}

impl Scale {
    fn of(random: &RandomSystem) -> Self {
        let periods = random.system.vcpus.iter().map(|vcpu| vcpu.reservation.period);
        let tick = Duration::from_ticks(1);
        Self {
            shortest: periods.clone().min().unwrap_or(tick),
            longest: periods.max().unwrap_or(tick),
            cores: random.system.cores.len(),
        }
    }
    /// So many parts of the shortest period, one tick at least.
    fn part(self, of: u64) -> Duration {
        Duration::from_ticks((self.shortest.ticks() / of).max(1))
    }
}

fn time(duration: Duration) -> Value {
    Value::Text(format!("{}ns", duration.ticks()))
}
fn text(text: &str) -> Value {
    Value::Text(text.into())
}
fn whole(number: u64) -> Value {
    Value::Whole(number as i64)
}

/// A value for each parameter of `entry`. With MemGuard, VCPUs may get a bandwidth of their own.
pub(crate) fn random_params(entry: &Entry, random: &mut RandomSystem, dice: &mut Dice) -> Params {
    let scale = Scale::of(random);
    let mut params = Params::new();
    for spec in entry.params {
        let value = match spec.kind {
            Kind::Choice(words) => Some(text(dice.pick(words))),
            Kind::Flag(_) => Some(Value::Flag(dice.one_in(2))),
            Kind::Time(_) | Kind::Whole(..) | Kind::Fraction(..) | Kind::List(..) => None,
        };
        let value = named(spec, scale, dice).or(value);
        value.into_iter().for_each(|value| params.set(spec.name, value));
    }
    let is = |name, word| params.iter().any(|given| given == (name, &text(word)));
    if is("balance", "static") {
        params.set("recolor", text("off"));
    } else if is("balance", "vlb") && dice.one_in(2) {
        params.set("recolor", text("low"));
    }
    if entry.name.starts_with("memguard+") {
        if params.iter().any(|given| given == ("regulate", &text("utilization"))) {
            params.set("spare", text("off"));
        }
        reservations(&mut params, random, scale, dice);
    }
    params
}

/// What a parameter needs more than one of its words or a flag.
fn named(spec: &ParamSpec, scale: Scale, dice: &mut Dice) -> Option<Value> {
    Some(match spec.name {
        "background_slice" if dice.one_in(2) => time(scale.part(4)),
        "chunk_min" if dice.one_in(2) => time(scale.part(dice.pick(&[8, 100]))),
        "max_latency" => whole(dice.pick(&[1, 30, 60, 90, 180, 400])),
        "max_requests" => whole(dice.pick(&[1, 100, 5_000, 1_000_000])),
        "mem_period" => {
            time(Duration::from_ticks(scale.longest.ticks() * dice.between(1, 3) / 2 + 2))
        }
        "idle_mem" => text(dice.pick(&["0", "1/4", "1/2", "9/10", "1"])),
        "min_requests" => whole(dice.pick(&[0, 0, 50])),
        "hold" => whole(dice.pick(&[0, 0, 1, 3])),
        "monitor_budget" => time(scale.part(dice.pick(&[20, 100]))),
        "published" => Value::Flag(dice.one_in(5)),
        "moves" => whole(dice.between(0, 2)),
        "min_interval" if dice.one_in(3) => time(scale.part(2)),
        "imbalance" => text(dice.pick(&["0", "0", "1/20", "1/3"])),
        "lock_cost" | "struct_cost" => time(scale.part(300)),
        "page_cost" => time(Duration::from_ticks(scale.shortest.ticks() / 20_000)),
        "pages_max" => whole(dice.pick(&[1, 64, 300])),
        "migration_budget" if dice.one_in(4) => time(scale.part(25)),
        "migration_period" => time(scale.longest * dice.between(1, 2)),
        "color_lines" => whole(dice.pick(&[16, 200, 3_072])),
        "utilization" => text(dice.pick(&["0.1", "0.5", "0.8", "1"])),
        "q_min" => whole(dice.pick(&[1, 10, 1_000])),
        // An update takes two rounds at least.
        "round" => time(scale.part(dice.pick(&[1, 4, 20]))),
        "update" => time(scale.longest * dice.between(2, 6)),
        "target" => text(dice.pick(&["0", "1/2", "0.85", "1"])),
        "cores_per_cache" => whole(dice.between(0, 3)),
        "similarity" => text(dice.pick(&["0", "0.2", "3"])),
        _ => return None,
    })
}

/// Reservations of a few requests up to what memory hardly serves.
fn reservations(params: &mut Params, random: &mut RandomSystem, scale: Scale, dice: &mut Dice) {
    let period = scale.part(4) * dice.between(1, 6);
    params.set("period", time(period));
    // About 20 ns a request are more than most memories serve to one core.
    let most = (period.ticks() / 20 / dice.pick(&[1, 8, 64])).max(2);
    // Rounded up, so that it comes to so many requests at least.
    let bandwidth = |requests: u64| {
        let bytes = u128::from(requests) * u128::from(LINE_BYTES) * 1_000_000_000;
        bytes.div_ceil(u128::from(period.ticks())) as u64
    };
    let list = |items: Vec<String>| Value::Text(items.join(", "));
    let count = if dice.one_in(3) { 1 } else { scale.cores };
    if dice.one_in(3) {
        let weights = (0..count).map(|_| dice.between(1, 8).to_string()).collect();
        params.set("weights", list(weights));
        let all = bandwidth(dice.between(1, most) * 8 * scale.cores as u64);
        params.set("r_min", text(&format!("{all}B/s")));
    } else if !dice.one_in(6) {
        let one = |dice: &mut Dice| match dice.one_in(5) {
            true => "none".to_owned(),
            false => format!("{}B/s", bandwidth(dice.between(1, most))),
        };
        params.set("bandwidth", list((0..count).map(|_| one(dice)).collect()));
    }
    if dice.one_in(2) {
        let kinds = (0..count).map(|_| dice.pick(&["soft", "hard"]).to_owned()).collect();
        params.set("reservation", list(kinds));
    }
    for vcpu in &mut random.system.vcpus {
        if dice.one_in(6) {
            vcpu.bandwidth = NonZero::new(bandwidth(dice.between(1, most)));
        }
    }
}
