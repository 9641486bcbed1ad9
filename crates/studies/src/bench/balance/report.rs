//! How the measurement is shown.

use super::{Late, Measured, Move, Moved, Pair, Round, Verdict, verdict};
use maracas_trace::columns::Columns;
use maracas_trace::table::time;
use serde_json::{Value, json};

/// For people.
pub(super) fn text(measured: &Measured, verdicts: &[Verdict]) -> String {
    let Measured { host, colors, notes, rounds } = measured;
    let split = if *colors { " and cache = colors" } else { "" };
    let mut text = format!(
        "{host}\nsixteen spinning VCPUs on two cores under maracas, balance = vlb{split};\np0 is \
         asked to end half-way (examples/balance.toml)\n"
    );
    for note in notes {
        text += &format!("{note}\n");
    }
    let head = ["round", "VCPU", "U", "moved", "after end", "cost", "C_m", "late", "by"];
    let mut table = Columns::new(head).left(&[1, 3]);
    for (place, round) in rounds.iter().enumerate() {
        round.moves.iter().for_each(|moved| table.row(cells(place + 1, round, moved)));
    }
    text += "\n";
    text += &table.text(0);
    for (place, round) in rounds.iter().enumerate() {
        text += &slack(place + 1, round);
    }
    if rounds.iter().any(Round::was_disturbed) {
        text += "others ran beside and took surplus time; measure on a quiet host\n";
    }
    let undone: usize = rounds.iter().map(|round| round.undone).sum();
    if undone > 0 {
        text += &format!("{undone} moves were undone: not worth it any more once recoloured\n");
    }
    let judged: u64 = rounds.iter().map(|round| round.periods).sum();
    let elsewhere: usize = rounds.iter().map(|round| round.late_elsewhere.len()).sum();
    text +=
        &format!("\nof {judged} periods {elsewhere} were late by more than 1ms without a move\n");
    text += &verdict::text(verdicts);
    text
}

fn cells(number: usize, round: &Round, moved: &Moved) -> [String; 9] {
    let Moved { what, percent, late, .. } = moved;
    let name = format!("p{}", what.vcpu.0);
    let way = format!("{} to {}", what.from.0, what.to.0);
    let after = if what.ordered >= round.reported {
        time(what.ordered.saturating_since(round.reported).ticks() as f64)
    } else {
        "before".into()
    };
    let by = late.iter().map(|late| late.by).max();
    let by = by.map_or("-".into(), |by| time(by.ticks() as f64));
    let (cost, most) = (time(what.cost.ticks() as f64), time(round.most.ticks() as f64));
    let (number, late, percent) =
        (number.to_string(), late.len().to_string(), format!("{percent:.0} %"));
    [number, name, percent, way, after, cost, most, late, by]
}

/// What each VCPU has beside its budget: by the reservations, and measured.
fn slack(number: usize, round: &Round) -> String {
    let head = format!("round {number}: of a core, for each VCPU");
    let mut table = Columns::new([head.as_str(), "core 0", "core 1", "difference"]);
    let [before, stayed, after] = round.slack.map(|pair| pair.map(Some));
    let rows = [
        ("slack before the end", before),
        ("  surplus time measured", round.surplus[0]),
        ("slack after it, without a move", stayed),
        ("slack after the moves", after),
        ("  surplus time measured", round.surplus[1]),
    ];
    for (name, pair) in rows {
        table.row(shares(name, pair));
    }
    format!("\n{}", table.text(0))
}

fn shares(name: &str, pair: Pair<Option<f64>>) -> [String; 4] {
    let percent = |share: Option<f64>| {
        share.map_or("-".to_string(), |share| format!("{:.2} %", share * 100.0))
    };
    let difference = pair[0].zip(pair[1]).map(|(one, other)| (one - other).abs());
    let [first, second] = pair.map(percent);
    [name.to_string(), first, second, percent(difference)]
}

/// For programs.
pub(super) fn to_json(measured: &Measured, verdicts: &[Verdict]) -> String {
    let json = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "host": measured.host,
        "colors": measured.colors,
        "notes": measured.notes,
        "rounds": measured.rounds.iter().map(of_round).collect::<Vec<_>>(),
        "verdicts": verdict::to_json(verdicts),
        "holds": verdict::hold(verdicts),
    });
    format!("{json:#}")
}

fn of_round(round: &Round) -> Value {
    let [before, stayed, after] = &round.slack;
    json!({
        "asked_to_end_ns": round.reported.ticks(),
        "c_m_ns": round.most.ticks(),
        "moves": round.moves.iter().map(|moved| of_move(round, moved)).collect::<Vec<_>>(),
        "undone": round.undone,
        "given_up": round.given_up.iter().map(of_given_up).collect::<Vec<_>>(),
        "is_due": round.is_due,
        "periods": round.periods,
        "late_without_a_move": round.late_elsewhere.iter().map(of_late).collect::<Vec<_>>(),
        "slack": { "before": before, "without_a_move": stayed, "after": after },
        "surplus": { "before": round.surplus[0], "after": round.surplus[1] },
        "decisions": round.decisions,
        "replay_exact": round.exact,
    })
}

fn of_move(round: &Round, moved: &Moved) -> Value {
    let Moved { what, percent, late, .. } = moved;
    json!({
        "program": format!("p{}", what.vcpu.0),
        "percent": percent,
        "from": what.from.0,
        "to": what.to.0,
        "after_the_end": what.ordered >= round.reported,
        "ordered_ns": what.ordered.ticks(),
        "done_ns": what.done.map(maracas_core::Instant::ticks),
        "cost_ns": what.cost.ticks(),
        "late": late.iter().map(of_late).collect::<Vec<_>>(),
        "recolored": what.recolored.map(|it| {
            json!({ "pages": it.pages, "took_ns": it.took_ns, "left": it.left })
        }),
        "hash": moved.content.as_ref().map(|it| [&it.before, &it.after]),
    })
}

fn of_given_up(what: &Move) -> Value {
    json!({
        "program": format!("p{}", what.vcpu.0),
        "from": what.from.0,
        "to": what.to.0,
        "ordered_ns": what.ordered.ticks(),
        "done_ns": what.done.map(maracas_core::Instant::ticks),
        "cost_ns": what.cost.ticks(),
    })
}

fn of_late(late: &Late) -> Value {
    json!({
        "program": format!("p{}", late.vcpu.0),
        "begin_ns": late.begin.ticks(),
        "due_ns": late.due.ticks(),
        "by_ns": late.by.ticks(),
    })
}
