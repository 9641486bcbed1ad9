//! SPEC CPU2006 on C0 beside lbm on C2, with reservations of 1.0 and 0.2 GB/s: what reclaim and
//! spare sharing are judged by.

use super::{BACKGROUND, FOREGROUND, HARD, RESERVED, ipc, model, setup};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Table};
use crate::stats::{Mean, geometric_mean};
use crate::{Error, Lab};

/// The axis of the slides' charts from left to right: number, benchmark, and the model that stands
/// for it. Ten of the 29 have no model; each is stood for by the next one to its left, which uses
/// no less of the memory. The order is read from the text of the slides, where it is garbled.
const AXIS: [(&str, &str, &str); 29] = [
    ("470", "lbm", "lbm"),
    ("437", "leslie3d", "leslie3d"),
    ("462", "libquantum", "libquantum"),
    ("410", "bwaves", "bwaves"),
    ("471", "omnetpp", "omnetpp"),
    ("459", "GemsFDTD", "gemsfdtd"),
    ("482", "sphinx3", "sphinx3"),
    ("429", "mcf", "mcf"),
    ("450", "soplex", "soplex"),
    ("433", "milc", "milc"),
    ("434", "zeusmp", "zeusmp"),
    ("483", "xalancbmk", "xalancbmk"),
    ("436", "cactusADM", "xalancbmk"),
    ("403", "gcc", "gcc"),
    ("456", "hmmer", "gcc"),
    ("473", "astar", "astar"),
    ("401", "bzip2", "bzip2"),
    ("400", "perlbench", "bzip2"),
    ("447", "dealII", "bzip2"),
    ("454", "calculix", "bzip2"),
    ("464", "h264ref", "h264ref"),
    ("445", "gobmk", "gobmk"),
    ("458", "sjeng", "gobmk"),
    ("435", "gromacs", "gobmk"),
    ("481", "wrf", "gobmk"),
    ("444", "namd", "namd"),
    ("465", "tonto", "namd"),
    ("416", "gamess", "namd"),
    ("453", "povray", "povray"),
];

/// What is said of [`AXIS`] in documents.
pub(super) const STAND_INS: &str = "Ten of the 29 benchmarks have no model and are stood for by \
     the next one to the left on the slides' axis, which runs from much memory traffic to little; \
     means are geometric, as the last bar there.";

/// The models, each once, in the order of the axis.
pub(super) fn models() -> Vec<&'static str> {
    let mut models: Vec<_> = AXIS.iter().map(|(_, _, model)| *model).collect();
    models.dedup();
    models
}

/// What is done beyond the reservations: its name, and MemGuard's parameters.
pub(super) type Mode = (&'static str, &'static str);
pub(super) const RECLAIM: Mode = ("reclaim", "reclaim = true\n");
pub(super) const SPARE: Mode = ("spare", "reclaim = false\nspare = \"share\"\n");
pub(super) const BOTH: Mode = ("reclaim-spare", "reclaim = true\nspare = \"share\"\n");

/// IPC with one mode over IPC with reservations only.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Gain {
    pub(super) foreground: f64,
    pub(super) background: f64,
}

/// The gain by each of `modes` for each benchmark of the axis.
pub(super) fn gains(lab: &Lab<'_>, modes: &[Mode]) -> Result<Vec<Vec<Gain>>, Error> {
    let all: Vec<Mode> = [("reserved", HARD)].into_iter().chain(modes.iter().copied()).collect();
    let (models, lbm) = (models(), model("lbm"));
    let mut setups = Vec::new();
    for name in &models {
        let foreground = model(name);
        for (mode, params) in &all {
            let both = [(FOREGROUND, foreground.as_str()), (BACKGROUND, lbm.as_str())];
            let what = format!("SPEC results: {name} beside lbm, {mode}");
            let params = format!("{RESERVED}{params}");
            setups.push(setup(&format!("{name}-{mode}"), &what, &params, &both));
        }
    }
    let runs = lab.run(&setups)?;
    let of_model = |runs: &[crate::Run]| -> Vec<Gain> {
        let over = |run, core| ipc(run, core) / ipc(&runs[0], core);
        let gain =
            |run| Gain { foreground: over(run, FOREGROUND), background: over(run, BACKGROUND) };
        runs[1..].iter().map(gain).collect()
    };
    let by_model: Vec<_> = runs.chunks(all.len()).map(of_model).collect();
    let place = |model: &str| models.iter().position(|it| *it == model).unwrap_or(0);
    Ok(AXIS.iter().map(|(_, _, model)| by_model[place(model)].clone()).collect())
}

/// The geometric means of one mode's gains over all benchmarks.
pub(super) fn mean(gains: &[Vec<Gain>], mode: usize) -> Gain {
    mean_by(gains, mode, geometric_mean)
}

/// The same by arithmetic means, for notes.
pub(super) fn arithmetic(gains: &[Vec<Gain>], mode: usize) -> Gain {
    mean_by(gains, mode, |values| Mean::of(values).mean)
}

fn mean_by(gains: &[Vec<Gain>], mode: usize, mean: fn(&[f64]) -> f64) -> Gain {
    let over = |part: fn(&Gain) -> f64| {
        mean(&gains.iter().map(|modes| part(&modes[mode])).collect::<Vec<_>>())
    };
    Gain { foreground: over(|it| it.foreground), background: over(|it| it.background) }
}

/// Every benchmark's gains.
pub(super) fn table(gains: &[Vec<Gain>], modes: &[Mode]) -> Table {
    let mut columns = vec!["benchmark".to_string(), "model".to_string()];
    for (mode, _) in modes {
        columns.extend([format!("foreground, {mode}"), format!("background, {mode}")]);
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let title = "IPC over that with reservations only, by foreground benchmark";
    let mut table = Table::new("benchmarks", title, &columns);
    for ((number, name, model), gains) in AXIS.iter().zip(gains) {
        let mut row = vec![Cell::Text(format!("{number}.{name}")), Cell::text(*model)];
        for gain in gains {
            row.extend([Cell::Number(gain.foreground, 3), Cell::Number(gain.background, 2)]);
        }
        table.row(row);
    }
    table
}

/// The slides' chart of one mode, the mean last.
pub(super) fn figure(name: &str, title: &str, gains: &[Vec<Gain>], mode: usize) -> Figure {
    let all = || gains.iter().map(move |modes| modes[mode]).chain([mean(gains, mode)]);
    let groups = AXIS.iter().map(|(number, _, _)| *number).chain(["all"]);
    Figure {
        name: name.into(),
        title: title.into(),
        drawing: Drawing::Bars {
            axis: "IPC over that with reservations only".into(),
            groups: groups.map(String::from).collect(),
            series: vec![
                ("foreground at 1.0 GB/s".into(), all().map(|it| it.foreground).collect()),
                ("lbm at 0.2 GB/s".into(), all().map(|it| it.background).collect()),
            ],
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_is_spec_cpu2006_and_stand_ins_come_from_the_left() {
        let mut names: Vec<_> = AXIS.iter().map(|(number, _, _)| *number).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), models().len()), (29, 19));
        let of_its_own = |it: &&(&str, &str, &str)| it.1.to_lowercase() == it.2;
        assert_eq!(AXIS.iter().filter(of_its_own).count(), 19);
        for pair in AXIS.windows(2).filter(|pair| !of_its_own(&&pair[1])) {
            assert_eq!(pair[0].2, pair[1].2, "{}", pair[1].1);
        }
    }

    #[test]
    fn means_are_geometric_over_benchmarks() {
        let of = |foreground, background| vec![Gain { foreground, background }];
        let mean = mean(&[of(1.0, 2.0), of(0.25, 8.0)], 0);
        assert!((mean.foreground - 0.5).abs() < 1e-12 && (mean.background - 4.0).abs() < 1e-12);
        let arithmetic = arithmetic(&[of(1.0, 2.0), of(0.25, 8.0)], 0);
        assert_eq!((arithmetic.foreground, arithmetic.background), (0.625, 5.0));
    }
}
