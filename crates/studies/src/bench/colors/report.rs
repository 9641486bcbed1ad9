//! How the measurement is shown.

use super::{Cost, Measured, Spread};
use crate::bench::colors::program::{Order, Orders};
use maracas_trace::columns::Columns;
use maracas_trace::table::time;
use serde_json::{Value, json};

/// For people.
pub(super) fn text(measured: &Measured) -> String {
    let Measured { host, cache, set, buffer, conflicts, conflict_is_seen, orders, costs } =
        measured;
    let kib = cache.size >> 10;
    let (level, ways, colors) = (cache.level, cache.ways, cache.colors);
    let mut text = format!(
        "page colours of the L{level} ({kib} KiB, {ways} ways, {colors} colours, indexing \
         {}; {host})\n\nbuffer of {set}: {} pages, {} in wrong frames, {} without a frame\n\n",
        cache.indexing, buffer.pages, buffer.wrong, buffer.unseen
    );
    text += "one line of each page, read in turn, an access\n";
    let mut table = Columns::new(["pages", "one colour", "all colours", "ratio"]);
    for conflict in conflicts {
        let (one, all) = (format!("{:.1} ns", conflict.one), format!("{:.1} ns", conflict.all));
        let ratio = format!("{:.1}x", conflict.ratio());
        table.row([conflict.pages.to_string(), one, all, ratio]);
    }
    text += &table.text(2);
    text += match conflict_is_seen {
        true => {
            "  the conflict is seen: frames that are alike modulo the colours share sets here\n"
        }
        false => {
            "  no conflict is seen: this cache does not find its sets by the frame number as it is \
             (a hash, or frames of a guest), and colours do not divide it\n"
        }
    };
    text += "\na running program, preloaded and without rights, ordered to other colours\n";
    match orders {
        Ok(orders) => text += &program(orders),
        Err(why) => text += &format!("  not measured: {why}\n"),
    }
    text += "\ncost of a page\n";
    let mut table = Columns::new(["", "pages", "p50", "p99", ""]).left(&[4]);
    for Cost { what, pages, result } in costs {
        match result {
            Ok(spread) => table.row(cost(what, *pages, spread)),
            Err(why) => table.remark(*what, format!("not measured: {why}")),
        }
    }
    text + &table.text(2)
}

fn program(orders: &Orders) -> String {
    let text = format!("  {}\n", orders.library);
    let head = ["mask", "moved", "left", "time", "a page", "wrong frames", "counted", "hash"];
    let mut table = Columns::new(head).left(&[7]);
    for Order { set, done, took, report, hash, counted } in &orders.each {
        let page = time(done.nanos as f64 / done.pages.max(1) as f64);
        let same = if *hash == orders.before { "same" } else { "CHANGED" };
        let mask = format!("{:#x}", set.mask());
        let wrong = format!("{} of {}", report.wrong, report.pages);
        let took = time(took.as_nanos() as f64);
        let (moved, left) = (done.pages.to_string(), done.left.to_string());
        let hash = format!("{hash} {same}");
        table.row([mask, moved, left, took, page, wrong, counted.to_string(), hash]);
    }
    text + &table.text(2)
}

fn cost(what: &str, pages: usize, spread: &Spread) -> [String; 5] {
    let mut more = Vec::new();
    if spread.seen > 0.0 {
        more.push(format!("{:.1} pages taken for each that was kept", spread.seen));
    }
    if spread.longest > 0.0 {
        more.push(format!("away for {} at most", time(spread.longest)));
    }
    [what.into(), pages.to_string(), time(spread.p50), time(spread.p99), more.join("  ")]
}

/// For programs.
pub(super) fn to_json(measured: &Measured) -> String {
    let Measured { host, cache, set, buffer, conflicts, conflict_is_seen, orders, costs } =
        measured;
    let conflicts: Vec<_> = conflicts
        .iter()
        .map(|c| json!({ "pages": c.pages, "one_color_ns": c.one, "all_colors_ns": c.all }))
        .collect();
    let costs: Vec<_> = costs.iter().map(cost_json).collect();
    let orders = match orders {
        Ok(orders) => json!({
            "library": orders.library,
            "hash_before": orders.before,
            "each": orders.each.iter().map(order_json).collect::<Vec<_>>(),
        }),
        Err(why) => json!({ "refused": why }),
    };
    let json = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "host": host,
        "cache": {
            "level": cache.level,
            "bytes": cache.size,
            "ways": cache.ways,
            "colors": cache.colors,
            "indexing": cache.indexing.to_string(),
        },
        "buffer": {
            "mask": set.mask(),
            "colors": set.colors(),
            "pages": buffer.pages,
            "wrong": buffer.wrong,
            "unseen": buffer.unseen,
        },
        "conflicts": conflicts,
        "conflict_is_seen": conflict_is_seen,
        "program": orders,
        "costs": costs,
        "holds": measured.holds(),
    });
    format!("{json:#}")
}

fn order_json(order: &Order) -> Value {
    json!({
        "mask": order.set.mask(),
        "pages": order.done.pages,
        "left": order.done.left,
        "error": order.done.error,
        "own_ns": order.done.nanos,
        "took_ns": order.took.as_nanos() as u64,
        "pages_seen": order.report.pages,
        "pages_wrong": order.report.wrong,
        "hash": order.hash,
        "counted": order.counted,
    })
}

fn cost_json(cost: &Cost) -> Value {
    match &cost.result {
        Ok(spread) => json!({
            "what": cost.what,
            "pages": cost.pages,
            "page_p50_ns": spread.p50,
            "page_p99_ns": spread.p99,
            "taken_for_one": spread.seen,
            "away_max_ns": spread.longest,
        }),
        Err(why) => json!({ "what": cost.what, "refused": why }),
    }
}
