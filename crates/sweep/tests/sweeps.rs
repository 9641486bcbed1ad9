//! Sweeps from a file to tables: the same whatever is interrupted and however many threads run.

use maracas_core::Duration;
use maracas_scenario::sweep::Sweep;
use maracas_sweep::figure::{Drawing, Figure};
use maracas_sweep::schedulable::{self, RUN};
use maracas_sweep::{
    Error, Finished, Ledger, Results, Study, admission, drawings, run, summary, table, trial,
};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

const SWEEP: &str = r#"
[sweep]
cores = [1, 2]
utilization = [0.6, 1.0]
sets = 6
duration = "300ms"
[tasks]
per_core = 4
loads = "uunifast"
periods = "harmonic"
[overheads]
context_switch = "1us"
[[policy]]
name = "p-edf"
[[policy]]
name = "g-edf"
[[policy]]
name = "g-edf"
label = "G-EDF, shorter period first"
ties = "shorter-period"
[[policy]]
name = "run"
"#;

fn study(text: &str) -> Result<Study, Error> {
    Study::of(&Sweep::parse(text, "s.toml", Path::new(""))?)
}

fn scratch(name: &str) -> PathBuf {
    let name = format!("maracas-sweeps-{name}-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    path
}

fn empty(study: &Study) -> Results {
    Results::of(study, &std::env::temp_dir()).unwrap()
}

fn open(path: &Path, study: &Study) -> Result<(Ledger, Results), Error> {
    let mut results = empty(study);
    Ok((Ledger::open(path, &study.meaning(), &mut results)?, results))
}

fn all(path: &Path, study: &Study, jobs: usize) -> Result<Results, Error> {
    let (ledger, results) = open(path, study)?;
    run::all(study, ledger, results, jobs, &|_| {})
}

/// All items, by their numbers.
fn items(results: &Results) -> Vec<Finished> {
    (0..results.items()).map(|item| results.get(item).unwrap().unwrap()).collect()
}

/// All tables, as the bytes of their files.
fn tables(study: &Study, finished: &Results) -> Vec<Vec<u8>> {
    let standings = summary::standings(study, finished).unwrap();
    let rivalries = summary::rivalries(study, finished).unwrap();
    let tested = schedulable::by_test(study, finished).unwrap();
    let mut files = vec![Vec::new(); 6];
    let columns = summary::run_columns();
    table::csv(&columns, summary::run_rows(study, finished), &mut files[0]).unwrap();
    table::parquet(&columns, summary::run_rows(study, finished), &mut files[1]).unwrap();
    let rows = summary::standing_rows(study, &standings);
    table::csv(&summary::standing_columns(), rows, &mut files[2]).unwrap();
    let rows = summary::rivalry_rows(study, &rivalries);
    table::csv(&summary::rivalry_columns(), rows, &mut files[3]).unwrap();
    let rows = schedulable::test_rows(study, &tested);
    table::csv(&schedulable::test_columns(), rows, &mut files[4]).unwrap();
    let weighted = schedulable::weighted(&tested);
    let rows = schedulable::weighted_rows(study, &weighted);
    table::csv(&schedulable::weighted_columns(), rows, &mut files[5]).unwrap();
    for figure in drawings::figures(study, &standings, &tested) {
        files.push((figure.file("sweep") + &figure.svg()).into_bytes());
    }
    files
}

#[test]
fn results_hang_on_the_study_alone() {
    let study = study(SWEEP).unwrap();
    assert_eq!((study.points.len(), study.items()), (4, 24));
    let path = scratch("alone");
    let whole = all(&path, &study, 1).unwrap();
    let wanted = tables(&study, &whole);
    let text = std::fs::read_to_string(&path).unwrap();
    for (cut, jobs) in [(0, 3), (text.len() / 3, 2), (text.len() / 2, 1), (text.len() - 1, 8)] {
        std::fs::write(&path, &text[..cut]).unwrap();
        let finished = all(&path, &study, jobs).unwrap();
        assert_eq!(items(&finished), items(&whole), "cut at {cut}");
        assert!(tables(&study, &finished) == wanted, "cut at {cut}, {jobs} jobs");
    }
    // Once more with nothing to do.
    assert_eq!(items(&all(&path, &study, 2).unwrap()), items(&whole));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn progress_counts_what_is_there_and_what_comes() {
    let study = study(SWEEP).unwrap();
    let path = scratch("progress");
    let (ledger, results) = open(&path, &study).unwrap();
    let seen = Mutex::new(Vec::new());
    let progress = |done| seen.lock().unwrap().push(done);
    run::all(&study, ledger, results, 2, &progress).unwrap();
    assert!(seen.lock().unwrap().iter().copied().eq(0..=24));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn tallies_are_those_of_single_trials() {
    let study = study(&SWEEP.replace("[tasks]", "margin = \"5us\"\n[tasks]")).unwrap();
    for item in [0, 7, 23] {
        let finished = run::item(&study, item).unwrap();
        let recipe = study.recipe(study.point(item)).unwrap();
        let set = recipe.draw(study.seed(item)).unwrap();
        assert_eq!(finished.tasks, set.tasks.len() as u64);
        for (contender, tally) in study.contenders.iter().zip(&finished.tallies) {
            let cores = study.point(item).cores;
            let charge = study.charge(item);
            assert_eq!(charge.overheads.context_switch, Duration::from_micros(1));
            assert_eq!(charge.bound, Duration::from_micros(5));
            assert_eq!(trial::run(&set, cores, &contender.subject, &charge), *tally);
        }
    }
}

#[test]
fn sets_hang_on_their_point_and_not_on_the_others() {
    let (study, fewer) = (study(SWEEP).unwrap(), study(&SWEEP.replace("[1, 2]", "2")).unwrap());
    // The second of two points of the sweep with one number of cores is the last of the four.
    assert_eq!(study.point(3), fewer.point(1));
    assert_eq!(study.seed(3), fewer.seed(1));
    let mut seeds: Vec<_> = (0..study.items()).map(|item| study.seed(item)).collect();
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), study.items());
    assert!(seeds.iter().all(|seed| *seed < 1 << 53));
}

#[test]
fn standings_and_rivalries_add_up() {
    let study = study(&SWEEP.replace("[overheads]\ncontext_switch = \"1us\"\n", "")).unwrap();
    let path = scratch("sums");
    let finished = all(&path, &study, 2).unwrap();
    std::fs::remove_file(&path).unwrap();
    let standings = summary::standings(&study, &finished).unwrap();
    let rivalries = summary::rivalries(&study, &finished).unwrap();
    assert_eq!(standings.len(), 16);
    let finished = items(&finished);
    let preemptions = summary::MEASURES.iter().position(|it| it.name == "preemptions_per_job");
    for (place, it) in standings.iter().enumerate() {
        assert_eq!((it.sets, it.contender), (6, place % 4));
        assert!(it.succeeded <= it.accepted && it.accepted <= it.sets);
        let point = place / 4;
        let own = (0..6).map(|set| &finished[set * 4 + point].tallies[place % 4]);
        let accepted: Vec<_> = own.filter(|tally| tally.accepted).collect();
        assert_eq!(accepted.len() as u64, it.accepted);
        let Some(means) = &it.means else { continue };
        let sum: f64 = accepted.iter().map(|tally| tally.per_job(tally.preemptions)).sum();
        let mean = means[preemptions.unwrap()].mean;
        assert!((mean - sum / accepted.len() as f64).abs() < 1e-12);
    }
    // RUN is optimal, on sets whose budgets are whole.
    assert!(standings.iter().filter(|it| it.contender == 3).all(|it| it.succeeded == 6));
    assert_eq!(rivalries.len(), 4 * 6 * (1 + summary::MEASURES.len()));
    for it in &rivalries {
        let paired = &it.paired;
        let counted = paired.lower + paired.equal + paired.higher;
        assert_eq!(counted, paired.count as u64);
        assert!((0.0..=1.0).contains(&paired.p));
        if it.measure == "success" {
            assert_eq!(paired.count, 6);
        }
    }
}

#[test]
fn the_tables_have_a_value_for_each_column() {
    let study = study(SWEEP).unwrap();
    let path = scratch("columns");
    let finished = all(&path, &study, 2).unwrap();
    std::fs::remove_file(&path).unwrap();
    let standings = summary::standings(&study, &finished).unwrap();
    let rivalries = summary::rivalries(&study, &finished).unwrap();
    assert_eq!(summary::run_rows(&study, &finished).count(), 24 * 4);
    let tested = schedulable::by_test(&study, &finished).unwrap();
    let weighted = schedulable::weighted(&tested);
    let all = || {
        [
            (schedulable::test_columns(), schedulable::test_rows(&study, &tested)),
            (schedulable::weighted_columns(), schedulable::weighted_rows(&study, &weighted)),
            (summary::run_columns(), summary::run_rows(&study, &finished)),
            (summary::standing_columns(), summary::standing_rows(&study, &standings)),
            (summary::rivalry_columns(), summary::rivalry_rows(&study, &rivalries)),
        ]
    };
    for (columns, mut rows) in all() {
        assert!(rows.all(|row| row.unwrap().len() == columns.len()));
    }
    // Every table can be Parquet: no value is missing where its column says that none is.
    for (columns, rows) in all() {
        let mut bytes = Vec::new();
        table::parquet(&columns, rows, &mut bytes).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    }
    let figures = drawings::figures(&study, &standings, &tested);
    let names: Vec<_> = figures.iter().map(|figure| figure.file("sweep")).collect();
    assert!(names.contains(&"sweep-success-1-cores-4-tasks-per-core.svg".to_owned()), "{names:?}");
    assert!(names.contains(&"sweep-tests-2-cores-4-tasks-per-core.svg".to_owned()), "{names:?}");
    assert!(names.contains(&"sweep-weighted.svg".to_owned()), "{names:?}");
    assert!(
        names.contains(&"sweep-preemptions-per-job-2-cores-4-tasks-per-core.svg".to_owned()),
        "{names:?}"
    );
}

/// The figures of a study in which each set came to something, by name with what they run along.
fn drawn(text: &str) -> Vec<(String, String)> {
    let study = study(text).unwrap();
    let mut finished = empty(&study);
    for item in 0..study.items() {
        finished.put(&run::item(&study, item).unwrap()).unwrap();
    }
    let tested = schedulable::by_test(&study, &finished).unwrap();
    let standings = summary::standings(&study, &finished).unwrap();
    let figures = drawings::figures(&study, &standings, &tested);
    let along = |figure: &Figure| match &figure.drawing {
        Drawing::Lines { along, lines, .. } => {
            assert!(lines.iter().any(|line| line.points.len() > 1), "{}", figure.name);
            along.clone()
        }
        Drawing::Bars { .. } => panic!("{} has no lines", figure.name),
    };
    figures.iter().map(|figure| (figure.name.clone(), along(figure))).collect()
}

#[test]
fn lines_run_along_cores_with_as_many_tasks_on_each() {
    let few = SWEEP.replace("sets = 6", "sets = 1").replace("[0.6, 1.0]", "0.6");
    let scaling = drawn(&few);
    let success: Vec<_> = scaling.iter().filter(|it| it.0.starts_with("success")).collect();
    let name = "success-0.6-utilization-4-tasks-per-core".to_owned();
    assert_eq!(success, [&(name, "cores".to_owned())], "{scaling:?}");
}

#[test]
fn weights_of_several_cores_and_tasks_are_a_figure_for_each_of_one() {
    let few = SWEEP.replace("sets = 6", "sets = 1");
    let weights = |text: &str| {
        let figures = drawn(text);
        figures.into_iter().filter(|it| it.0.starts_with("weighted")).collect::<Vec<_>>()
    };
    let named = |name: &str, along: &str| (name.to_owned(), along.to_owned());
    assert_eq!(weights(&few), [named("weighted", "cores")]);
    let by_core = few.replace("per_core = 4", "per_core = [2, 3]");
    let each = ["2", "3"].map(|n| named(&format!("weighted-{n}-tasks-per-core"), "cores"));
    assert_eq!(weights(&by_core), each);
    let one = by_core.replace("cores = [1, 2]", "cores = 2");
    assert_eq!(weights(&one), [named("weighted-2-cores", "tasks per core")]);
    let tasks = few.replace("per_core = 4", "count = [4, 5]");
    let each = ["4", "5"].map(|n| named(&format!("weighted-{n}-tasks"), "cores"));
    assert_eq!(weights(&tasks), each);
}

#[test]
fn another_program_is_noticed_by_what_it_makes_of_a_known_set() {
    let study = study(SWEEP).unwrap();
    let path = scratch("program");
    all(&path, &study, 2).unwrap();
    let (ledger, mut results) = open(&path, &study).unwrap();
    let last = results.get(23).unwrap().unwrap();
    results.put(&Finished { load_ppb: 1, ..last }).unwrap();
    let error = run::all(&study, ledger, results, 1, &|_| {}).unwrap_err();
    assert!(
        error.0.contains("set 5 at 2 cores, 8 tasks, utilization 1 comes out otherwise"),
        "{error}"
    );
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn what_cannot_be_run_is_named_with_its_place() {
    for (from, to, line) in [
        (
            "\"p-edf\"",
            "\"p-edff\"",
            "s.toml:14:8: unknown policy \"p-edff\"; did you mean `p-edf`?",
        ),
        (
            "\"p-edf\"",
            "\"memguard\"",
            "s.toml:14:8: unknown policy \"memguard\"; memguard goes around",
        ),
        (
            "\"p-edf\"",
            "\"min-fair\"",
            "s.toml:14:8: policy min-fair works on cores of 2 classes, and those of a sweep are",
        ),
        ("\"shorter-period\"", "\"shortest\"", "s.toml:20:8: `ties` must be one of: index, "),
        ("ties =", "tie =", "s.toml:20:7: `tie` unknown parameter; this policy takes: ties"),
        ("per_core = 4", "count = 1", "s.toml:7:1: at 2 cores, 1 task, utilization 0.6: "),
        ("sets = 6", "sets = 1000000", "16000000 runs are more than 10000000; lower `sets`"),
    ] {
        let error = study(&SWEEP.replacen(from, to, 1)).err().expect(to);
        assert!(error.0.contains(line), "{to}: {error}");
    }
}

#[test]
fn labels_do_not_change_the_meaning_and_everything_else_does() {
    let meaning = |text: &str| study(text).unwrap().meaning();
    assert_eq!(meaning(SWEEP), meaning(&SWEEP.replace("G-EDF, shorter", "shorter")));
    for (from, to) in [
        ("cores = [1, 2]", "cores = [2]"),
        ("[0.6, 1.0]", "[0.6, 0.9]"),
        ("sets = 6", "sets = 7"),
        ("300ms", "301ms"),
        ("per_core = 4", "per_core = 5"),
        ("\"1us\"", "\"2us\""),
        ("shorter-period", "longer-period"),
        ("name = \"run\"", "name = \"qps\""),
        ("[tasks]", "seed = 2\n[tasks]"),
        ("[tasks]", "margin = \"1us\"\n[tasks]"),
        ("[tasks]", "tests = false\n[tasks]"),
        ("[tasks]", "[tasks]\nsporadic = true"),
    ] {
        assert_ne!(meaning(SWEEP), meaning(&SWEEP.replacen(from, to, 1)), "{to}");
    }
}

#[test]
fn sets_may_come_from_files() {
    let folder = std::env::temp_dir().join(format!("maracas-sweeps-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, rows) in [("a.csv", "2000,3000\n2000,3000\n2000,3000\n"), ("b.csv", "1000,4000\n")] {
        std::fs::write(folder.join(name), format!("cost_us,period_us\n{rows}")).unwrap();
    }
    let text = "[sweep]\ncores = [2, 3]\nduration = \"30ms\"\n[tasks]\nfiles = \"*.csv\"\n\
                [[policy]]\nname = \"p-edf\"\n[[policy]]\nname = \"run\"\n";
    let study = Study::of(&Sweep::parse(text, "s.toml", &folder).unwrap()).unwrap();
    assert_eq!((study.items(), study.points.len()), (4, 2));
    assert!(study.file(2).unwrap().ends_with("b.csv") && study.file(0).unwrap().ends_with("a.csv"));
    let finished: Vec<_> = (0..4).map(|item| run::item(&study, item).unwrap()).collect();
    let success = |item: usize, place: usize| finished[item].tallies[place].success();
    // Three tasks of 2/3 on two cores: RUN's own example; on three, any policy can.
    assert_eq!(
        [success(0, 0), success(0, 1), success(1, 0), success(1, 1)],
        [false, true, true, true]
    );
    assert_eq!((finished[0].load_ppb, finished[2].load_ppb), (1_999_999_998, 250_000_000));
    let before = study.meaning();
    std::fs::write(folder.join("b.csv"), "cost_us,period_us\n1001,4000\n").unwrap();
    let after = Study::of(&Sweep::parse(text, "s.toml", &folder).unwrap()).unwrap().meaning();
    assert_ne!(before, after);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// One set says nothing of how others would spread: no interval is written, rather than one of
/// width 0.
#[test]
fn one_set_has_no_interval() {
    let study = study(&SWEEP.replace("sets = 6", "sets = 1")).unwrap();
    let mut finished = empty(&study);
    for item in 0..study.items() {
        finished.put(&run::item(&study, item).unwrap()).unwrap();
    }
    let standings = summary::standings(&study, &finished).unwrap();
    let rivalries = summary::rivalries(&study, &finished).unwrap();
    let points = (summary::standing_columns(), summary::standing_rows(&study, &standings));
    let pairs = (summary::rivalry_columns(), summary::rivalry_rows(&study, &rivalries));
    let ends = |columns: &[table::Column], rows: table::Rows<'_>, mean: &str, end: &str| {
        let place = |name: &str| columns.iter().position(|it| it.name == name).unwrap();
        let cells = rows.map(Result::unwrap);
        let cells = cells.map(|row| (row[place(mean)].clone(), row[place(end)].clone()));
        cells.filter(|(mean, _)| *mean != table::Value::Missing).collect::<Vec<_>>()
    };
    let points = ends(&points.0, points.1, "preemptions_per_job", "preemptions_per_job_low");
    let pairs = ends(&pairs.0, pairs.1, "difference", "difference_high");
    for ends in [points, pairs] {
        assert!(!ends.is_empty() && ends.iter().all(|(_, end)| *end == table::Value::Missing));
    }
}

/// Nothing is charged, and jobs ask their whole budgets: no set that a test admits may miss.
#[test]
fn every_test_is_asked_and_what_it_admits_misses_nothing() {
    let text = SWEEP.replace("[overheads]\ncontext_switch = \"1us\"\n", "");
    let study = study(&text.replace("[0.6, 1.0]", "[0.3, 0.5]")).unwrap();
    let path = scratch("tests");
    let finished = all(&path, &study, 2).unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut admitted = 0;
    for it in items(&finished) {
        let (set, cores) = (study.set(it.item).unwrap(), study.point(it.item).cores);
        for (place, contender) in study.contenders.iter().enumerate() {
            for (bit, test) in admission::tests(&contender.subject).enumerate() {
                let by = admission::tested_by(&contender.subject, test);
                let admits = it.admitted[place] >> bit & 1 == 1;
                assert_eq!(admits, admission::admits(&set, cores, &by), "{test}");
                assert!(!admits || it.tallies[place].success(), "{} by {test}", contender.label);
                admitted += u64::from(admits);
            }
        }
    }
    let tested = schedulable::by_test(&study, &finished).unwrap();
    let by_tests = tested.iter().filter(|it| it.by != RUN);
    assert_eq!(by_tests.map(|it| it.schedulable).sum::<u64>(), admitted);
    assert!(admitted > 0);
    // P-EDF by two tests, G-EDF by five, twice, and RUN by its run alone.
    let here: Vec<_> = tested.iter().filter(|it| it.point == study.points[0]).collect();
    assert_eq!(here.len(), 3 + 6 + 6 + 1);
    assert!(here.iter().all(|it| it.sets == 6));
}

/// Without tests every criterion is a run, and no column says more.
#[test]
fn tests_can_be_left_out() {
    let study = study(&SWEEP.replace("[tasks]", "tests = false\n[tasks]")).unwrap();
    let mut finished = empty(&study);
    for item in 0..study.items() {
        let it = run::item(&study, item).unwrap();
        assert_eq!(it.admitted, [0; 4]);
        finished.put(&it).unwrap();
    }
    let tested = schedulable::by_test(&study, &finished).unwrap();
    assert!(tested.len() == 4 * 4 && tested.iter().all(|it| it.by == RUN));
    let standings = summary::standings(&study, &finished).unwrap();
    let figures = drawings::figures(&study, &standings, &tested);
    assert!(figures.iter().all(|figure| !figure.name.starts_with("tests")));
}

#[test]
fn fuller_sets_weigh_more() {
    let study = study(SWEEP).unwrap();
    let mut finished = empty(&study);
    for item in 0..study.items() {
        let mut it = run::item(&study, item).unwrap();
        // GFB admits the emptier sets of two cores and no other.
        let point = study.point(item);
        it.load_ppb = 1_000 * u64::from(point.utilization.unwrap());
        it.admitted[1] = u64::from(point.utilization == Some(600_000) && point.cores == 2);
        finished.put(&it).unwrap();
    }
    let weighted = schedulable::weighted(&schedulable::by_test(&study, &finished).unwrap());
    let of = |cores| weighted.iter().find(|it| it.cores == cores && it.by == "gfb").unwrap();
    assert_eq!((of(1).weighted, of(1).sets), (0.0, 12));
    assert!((of(2).weighted - 0.6 / 1.6).abs() < 1e-12);
}
