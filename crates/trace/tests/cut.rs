//! Journals of simulated runs, cut where a killed run may leave them.

mod common;
// It has more than is used here.
#[allow(dead_code)]
#[path = "../../../tests/shared/records.rs"]
mod records;

use common::{Run, run, run_until, servers, tasks, us};
use maracas_core::journal::{Cut, Record, Recorder, mend};
use maracas_core::{CoreId, Cost, Program, System, Vcpu, VcpuId, Workload};
use maracas_trace::Report;
use maracas_trace::report::TaskReport;
use records::{FIRST, record_end};

/// Where the header and each record of a journal end.
fn bounds(journal: &[u8]) -> Vec<usize> {
    let (mut at, mut bounds) = (FIRST, Vec::new());
    while at < journal.len() {
        at = record_end(journal, at);
        bounds.push(at);
    }
    bounds
}

/// Some 50 journals, cut behind different records but the last.
fn cuts(journal: &[u8]) -> impl Iterator<Item = (Cut, Vec<u8>)> {
    let mut bounds = bounds(journal);
    assert_eq!(bounds.pop(), Some(journal.len()));
    assert!(bounds.len() > 50, "{}", bounds.len());
    let step = bounds.len() / 50;
    bounds.into_iter().step_by(step).map(|bound| {
        let mut bytes = journal[..bound].to_vec();
        let cut = mend(&mut bytes).expect("it has no end");
        assert_eq!((cut.offset, cut.left_out), (bound, 0));
        (cut, bytes)
    })
}

/// A VCPU that is promised `budget_ms` in each 10 ms and whose jobs need `cost_ms`, alone on its
/// core, and one on another core whose records stand between.
fn alone(budget_ms: u64, cost_ms: u64) -> (System, Vec<Program>) {
    let on = |core, vcpu: Vcpu| Vcpu { pinned: Some(CoreId(core)), ..vcpu.periodic() };
    let vcpus = vec![
        on(0, Vcpu::new(0, us(budget_ms * 1_000), us(10_000))),
        on(1, Vcpu::new(1, us(10), us(1_000))),
    ];
    let jobs = |id, cost| Program::new(VcpuId(id), Workload::Periodic { cost: Cost::Fixed(cost) });
    (System::new(2, vcpus), vec![jobs(0, us(cost_ms * 1_000)), jobs(1, us(5))])
}

/// No record says that a VCPU runs, and one that is never preempted has none for a long time.
#[test]
fn a_vcpu_that_runs_since_long_ago_is_not_short() {
    for (name, budget_ms, cost_ms, least) in [("full", 10, 10, 1), ("overrun", 2, 18, 10)] {
        let whole = run("p-edf", alone(budget_ms, cost_ms), 0);
        assert_eq!(whole.report.tasks[0].verdict.short, 0, "{name}");
        let mut would_be_short = 0;
        for (cut, journal) in cuts(&whole.journal) {
            let report = Report::from_journal(&journal).unwrap();
            assert_eq!(report.tasks[0].verdict.short, 0, "{name}: cut at byte {}", cut.offset);
            // The same without the note of the cut.
            let mut recorder = Recorder::of_pieces(None);
            recorder.record(&Record::End(cut.at));
            let plain = [&whole.journal[..cut.offset], recorder.bytes()].concat();
            let verdict = Report::from_journal(&plain).unwrap().tasks[0].verdict;
            would_be_short += u64::from(verdict.short > 0);
        }
        assert!(would_be_short >= least, "{name}: the trap is not there: {would_be_short}");
    }
}

#[test]
fn promises_that_are_kept_are_not_broken_by_a_cut() {
    let runs = [
        ("maracas", run("maracas", servers(), 0)),
        ("p-edf", run("p-edf", tasks(80, false), 0)),
        ("p-rm", run("p-rm", tasks(60, false), 0)),
    ];
    for (policy, Run { report: whole, journal, .. }) in runs {
        assert!(whole.promise.kept, "{policy}");
        let mut judged = 0;
        for (cut, journal) in cuts(&journal) {
            let report = Report::from_journal(&journal).unwrap();
            let broken: Vec<_> =
                report.tasks.iter().filter(|task| task.verdict.is_broken()).collect();
            assert!(broken.is_empty(), "{policy}: cut at byte {}: {broken:#?}", cut.offset);
            assert!(!report.promise.kept && report.promise.cut.is_some());
            judged = judged.max(report.tasks[0].delivered.periods);
        }
        let all = whole.tasks[0].delivered.periods;
        assert!(judged * 10 >= all * 8, "{policy}: {judged} of {all} are judged");
    }
}

/// What is said against a run that was cut is said of one that ended there, too.
#[test]
fn nothing_is_found_that_a_run_with_an_end_has_not() {
    let mut found = [0; 3];
    for (policy, load, overrun, late) in
        [("p-edf", 80, true, 0), ("g-edf", 85, true, 0), ("p-edf", 80, true, 300)]
    {
        let whole = run(policy, tasks(load, overrun), late);
        for (cut, journal) in cuts(&whole.journal) {
            let report = Report::from_journal(&journal).unwrap();
            let ended = run_until(policy, tasks(load, overrun), late, cut.at).report;
            for (cut_off, task) in report.tasks.iter().zip(&ended.tasks) {
                let of = |task: &TaskReport| [task.misses, task.verdict.short, task.verdict.over];
                let (cut_off, ended) = (of(cut_off), of(task));
                for place in 0..3 {
                    let at = cut.at;
                    assert!(cut_off[place] <= ended[place], "{policy} {at}: {cut_off:?} {ended:?}");
                    found[place] += cut_off[place];
                }
            }
        }
    }
    let [misses, _, over] = found;
    assert!(misses > 100 && over > 100, "{found:?}");
}
