//! The comparison of policies and tests, from what was recorded: every part is there, and no test
//! admits what is then late. That one set of each point comes to the same again is seen on the way,
//! that tables and figures do where `docs/results.md` is held against them.

use maracas_reproduce::findings::{Cell, Table};
use maracas_reproduce::{Findings, Lab, find};

const CORES: [usize; 4] = [2, 4, 8, 16];

fn compared(jobs: usize) -> Findings {
    let experiment = find("comparison").expect("it is there");
    let lab = Lab::new(jobs, None, &|_, _| {});
    let findings = (experiment.run)(&lab).unwrap_or_else(|why| panic!("{why}"));
    assert!(lab.take_records().is_empty(), "nothing was recorded anew");
    findings
}

/// How many sets of each point a table is of.
fn sets(table: &Table) -> f64 {
    let number = table.title.strip_prefix("Sets of ").and_then(|text| text.split_once(' '));
    number.and_then(|(number, _)| number.parse().ok()).unwrap_or_else(|| panic!("{}", table.title))
}

fn table<'a>(findings: &'a Findings, name: &str) -> &'a Table {
    findings.tables.iter().find(|table| table.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// The row of a policy by one criterion, from the first utilization on.
fn row<'a>(table: &'a Table, policy: &str, by: &str) -> &'a [Cell] {
    let is = |row: &&Vec<Cell>| row[0] == Cell::text(policy) && row[1] == Cell::text(by);
    &table.rows.iter().find(is).unwrap_or_else(|| panic!("no {policy} by {by}"))[2..]
}

fn values(cells: &[Cell]) -> Vec<f64> {
    let value = |cell: &Cell| match cell {
        Cell::Number(value, _) => *value,
        Cell::Text(_) | Cell::Missing => panic!("{cell:?} is no number"),
    };
    cells.iter().map(value).collect()
}

#[test]
fn tests_are_sound_and_every_part_is_there() {
    let findings = compared(2);
    let sound: Vec<_> =
        findings.verdicts.iter().filter(|it| it.claim.starts_with("no set with ")).collect();
    assert_eq!(sound.len(), 3);
    for verdict in sound {
        // Of so many criteria and points some admit sets, and those run.
        assert!(verdict.holds && !verdict.numbers.contains(" of 0 admitted"), "{verdict:?}");
    }
    for cores in CORES {
        for (word, ways) in [("implicit", 40), ("constrained", 37), ("charged", 40)] {
            let table = table(&findings, &format!("{word}-{cores}"));
            assert_eq!((table.rows.len(), table.columns.len()), (ways, 11), "{}", table.name);
            for row in &table.rows {
                let values = values(&row[2..]);
                let (weighted, counts) = values.split_last().expect("eight utilizations");
                assert!(counts.iter().all(|count| *count <= sets(table)), "{row:?}");
                assert!((0.0..=1.0).contains(weighted), "{row:?}");
            }
            // What a test of global EDF admits, its run keeps.
            let run = values(row(table, "g-edf", "run"));
            for test in ["gfb", "bak", "bcl", "ff-dbf", "rta"] {
                let test = values(row(table, "g-edf", test));
                assert!(test.iter().zip(&run).all(|(test, run)| test <= run), "{cores} cores");
            }
        }
        let implicit = table(&findings, &format!("implicit-{cores}"));
        assert_eq!(values(row(implicit, "run", "run"))[..8], [sets(implicit); 8]);
        for word in ["implicit", "charged"] {
            assert_eq!(table(&findings, &format!("moves-{word}-{cores}")).rows.len(), 14);
        }
        let costs = table(&findings, &format!("costs-{cores}"));
        assert_eq!((costs.rows.len(), costs.columns.len()), (14, 8));
        assert!(costs.rows.iter().all(|row| !row[..7].contains(&Cell::Missing)), "{costs:?}");
    }
    assert_eq!(table(&findings, "weighted").rows.len(), 40);
    assert_eq!(findings.figures.len(), 7);
}
