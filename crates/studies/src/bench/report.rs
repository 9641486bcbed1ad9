//! How the measurement is shown.

use super::windows::Distribution;
use super::{Case, Line, Measured, Mechanism};
use maracas_trace::columns::Columns;
use maracas_trace::table::{signed_time, time};
use serde_json::{Value, json};

/// Kernel release and the tick rate where it is known: what the kernel's mechanisms depend on.
fn host() -> String {
    let uname = rustix::system::uname();
    format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy())
}

/// How many times larger the mechanism's 99th percentile of the error is than ours.
fn ratio(case: &Case, line: &Line) -> Option<f64> {
    let ours = case.lines.iter().find(|line| line.mechanism == Mechanism::OursAlone)?;
    let p99 = |line: &Line| line.result.as_ref().ok().map(|m| m.judged.own.absolute[1]);
    Some(p99(line)? as f64 / p99(ours)?.max(1) as f64)
}

/// For people.
pub(super) fn text(core: usize, seconds: u64, cases: &[Case]) -> String {
    let mut text = format!(
        "enforcement of C every T on core {core} ({}), {seconds} s each, beside a spinning fair \
         program on that core\nerror = delivered - C in each of the mechanism's own periods, \
         which begin where its bursts begin; without the periods that stolen time explains, and \
         in the last two columns with them\n",
        host()
    );
    for case in cases {
        let (budget, period) = (time(case.budget as f64), time(case.period as f64));
        text += &format!("\nC = {budget}, T = {period}\n");
        let errors = ["", "periods", "p1", "p50", "p99", "|p99|", "|max|", "mean/C", "to ours"];
        let mut table = Columns::new(errors.into_iter().chain(["periods", "|p99|"]));
        case.lines.iter().for_each(|line| row(case, line, &mut table));
        text += &table.text(2);
        for line in &case.lines {
            if let Ok(Measured { how, .. }) = &line.result {
                text += &format!("  {}: {how}\n", line.mechanism.name());
            }
        }
    }
    text
}

fn row(case: &Case, line: &Line, table: &mut Columns) {
    let name = line.mechanism.name();
    let judged = match &line.result {
        Ok(measured) => &measured.judged,
        Err(why) => return table.remark(name, format!("not measured: {why}")),
    };
    let (own, whole) = (&judged.own, &judged.whole);
    let [low, middle, high] = own.signed.map(signed_time);
    let [_, p99, max] = own.absolute.map(|error| time(error as f64));
    let ratio = ratio(case, line).map_or("-".to_string(), |ratio| format!("{ratio:.1}x"));
    let with = time(whole.absolute[1] as f64);
    let (periods, mean) = (own.periods.to_string(), format!("{:.5}", own.mean_ratio));
    let errors = [name.to_string(), periods, low, middle, high, p99, max, mean, ratio];
    table.row(errors.into_iter().chain([whole.periods.to_string(), with]));
}

/// For programs.
pub(super) fn to_json(core: usize, seconds: u64, cases: &[Case]) -> String {
    let cases: Vec<_> = cases.iter().map(case_json).collect();
    let json = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "host": host(),
        "core": core,
        "seconds": seconds,
        "cases": cases,
    });
    format!("{json:#}")
}

fn case_json(case: &Case) -> Value {
    let lines: Vec<_> = case
        .lines
        .iter()
        .map(|line| match &line.result {
            Ok(Measured { judged, how }) => {
                let mut json = distribution(&judged.own);
                json["mechanism"] = line.mechanism.name().into();
                json["how"] = how.clone().into();
                json["p99_times_ours"] = ratio(case, line).into();
                json["stolen_ns"] = judged.stolen_ns.into();
                json["with_stolen"] = distribution(&judged.whole);
                json
            }
            Err(why) => json!({ "mechanism": line.mechanism.name(), "refused": why }),
        })
        .collect();
    json!({ "budget_ns": case.budget, "period_ns": case.period, "mechanisms": lines })
}

/// The figures of one distribution.
fn distribution(of: &Distribution) -> Value {
    json!({
        "periods": of.periods,
        "mean_ratio": of.mean_ratio,
        "error_p1_ns": of.signed[0],
        "error_p50_ns": of.signed[1],
        "error_p99_ns": of.signed[2],
        "absolute_p50_ns": of.absolute[0],
        "absolute_p99_ns": of.absolute[1],
        "absolute_max_ns": of.absolute[2],
        "phase_ns": of.phase_ns,
    })
}
