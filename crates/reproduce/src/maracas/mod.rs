//! The experiments of the MARACAS paper (Ye, West, Zhang and Cheng, RTSS 2016), one file each, and
//! the programs and platform that they share.
//!
//! Nothing but Table II is calibrated: its constants ([`DELAYS`] and those of the platform and of
//! `m_jump`, which are data files of the scenario room) then stay the same in every other one.

mod cputime;
mod dma;
mod draw;
mod fig10;
mod fig2;
mod fig4;
mod fig5;
mod fig6;
mod fig7;
mod fig8;
mod fig9;
mod io;
mod period;
mod printed;
mod recolor;
mod requests;
mod rules;
mod separation;
mod table2;

use crate::Experiment;

/// All of them.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    fig2::EXPERIMENT,
    fig4::EXPERIMENT,
    table2::EXPERIMENT,
    fig5::EXPERIMENT,
    fig6::EXPERIMENT,
    fig7::EXPERIMENT,
    fig8::EXPERIMENT,
    fig9::EXPERIMENT,
    fig10::EXPERIMENT,
    rules::EXPERIMENT,
    period::EXPERIMENT,
    dma::EXPERIMENT,
    printed::EXPERIMENT,
    requests::EXPERIMENT,
    recolor::EXPERIMENT,
    io::EXPERIMENT,
    separation::EXPERIMENT,
    cputime::EXPERIMENT,
];

/// Table II: traffic in GB of five minutes, mean latency in cycles, instructions of task3 in the
/// foreground in 1e8.
struct Row {
    name: &'static str,
    traffic_gb: f64,
    latency: f64,
    instructions: f64,
}

/// The paper's three rows.
const TABLE_II: [Row; 3] = [
    Row { name: "E1", traffic_gb: 1128.0, latency: 228.0, instructions: 249.0 },
    Row { name: "E2", traffic_gb: 1049.0, latency: 183.0, instructions: 304.0 },
    Row { name: "E3", traffic_gb: 976.0, latency: 157.0, instructions: 357.0 },
];

/// Delay of task1 and task2 before each store in E1, E2 and E3, in nanoseconds: fitted to Table II,
/// which does not give them (algorithms.md H.2, three of six fitted constants).
const DELAYS: [f64; 3] = [71.0, 193.0, 568.0];

/// What everything on the paper's platform uses that was fitted.
const PLATFORM_FIT: &str = "to the nine numbers of Table II (maracas-table2): idle latency 29.2 ns \
                            and service time 12.9 ns of the platform i5-2500k";
/// The same and what `m_jump` uses.
pub(crate) const M_JUMP_FIT: &str = "to the nine numbers of Table II (maracas-table2), six \
                                     constants: idle latency 29.2 ns and service time 12.9 ns of \
                                     the platform i5-2500k, 10.5 instructions per store of m_jump, \
                                     and where said the delays 71, 193 and 568 ns; set by hand \
                                     with them: one store outstanding, no time of its own between \
                                     stores";

/// How a file begins: what it is, the paper's platform (Table I), the policy with `params` (lines
/// of TOML), and how long.
fn head(what: &str, params: &str, seconds: u32) -> String {
    on("preset = \"i5-2500k\"\n", what, params, seconds)
}

/// The same on a platform of its own.
fn on(platform: &str, what: &str, params: &str, seconds: u32) -> String {
    format!(
        "# {what}\nversion = 1\n\n[platform]\n{platform}\n[policy]\nname = \"maracas\"\n{params}\n\
         [run]\nduration = \"{seconds}s\"\n"
    )
}

/// What migrations cost, as the policy's defaults take for the worst case (MARACAS names E_lock,
/// E_struct and E_page and gives no values).
const MIGRATIONS: &str =
    "\n[overheads]\nlock = \"5us\"\nstructure = \"10us\"\npage_copy = \"2us\"\n";

/// A program that is always busy: `name`, budget C and period T in milliseconds, its core, and its
/// memory use as TOML.
fn program(name: &str, (budget, period): (f64, f64), core: Option<u32>, memory: &str) -> String {
    let core = core.map(|core| format!("core = {core}\n")).unwrap_or_default();
    format!(
        "\n[[program]]\nname = \"{name}\"\nbudget = \"{}\"\nperiod = \"{}\"\n{core}\
         workload = {{ kind = \"busy\" }}\nmemory = {memory}\n",
        ms(budget),
        ms(period)
    )
}

/// A duration to the microsecond, in the unit that fits.
fn ms(milliseconds: f64) -> String {
    in_units(milliseconds, ["ms", "us"])
}

/// `value` in the first unit where it is whole, else to the thousandth in the second.
fn in_units(value: f64, [unit, thousandth]: [&str; 2]) -> String {
    match (value * 1000.0).round() as u64 {
        whole if whole.is_multiple_of(1000) => format!("{}{unit}", whole / 1000),
        parts => format!("{parts}{thousandth}"),
    }
}

/// `m_jump` with a delay before each store, in nanoseconds.
fn m_jump(delay_ns: f64) -> String {
    if delay_ns == 0.0 {
        return "\"m_jump\"".into();
    }
    format!("{{ model = \"m_jump\", delay = \"{}\" }}", in_units(delay_ns, ["ns", "ps"]))
}

/// The three tasks of Table II and Figures 5 and 6 on cores 0 to 2, task1 and task2 with `delay_ns`
/// before each store.
fn three_m_jumps(delay_ns: f64) -> String {
    let (slowed, full) = (m_jump(delay_ns), m_jump(0.0));
    program("task1", (20.0, 40.0), Some(0), &slowed)
        + &program("task2", (25.0, 50.0), Some(1), &slowed)
        + &program("task3", (30.0, 60.0), Some(2), &full)
}

/// Whole numbers with a comma between them, for verdicts.
fn list(values: &[f64], decimals: usize) -> String {
    let shown = values.iter().map(|value| crate::findings::number(*value, decimals));
    shown.collect::<Vec<_>>().join(", ")
}
