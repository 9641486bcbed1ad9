//! Workers that pass by in simulated time.

use super::*;
use crate::figure::{Drawing, Figure, Line};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// How long things take, in nanoseconds.
#[derive(Clone, Copy)]
struct Costs {
    /// Drawing a set; running it under each contender, of which every fourth set takes twice that.
    draw: u64,
    run: [u64; 4],
    /// For how long the lock is held to take a piece, and to note a set.
    take: u64,
    note: u64,
}

/// Of the order of runs of 64 tasks for 10 s (`docs/results.md`, "Many task sets"). Policies that
/// cost so unequally are the hard case at the end.
const COSTS: Costs = Costs {
    draw: 100_000,
    run: [8_000_000, 9_000_000, 12_000_000, 20_000_000],
    take: 300,
    note: 20_000,
};

/// What became of a sweep.
struct Ran {
    /// When the last worker stopped, and the work of all without any waiting.
    end: u64,
    work: u64,
    draws: usize,
    pieces: BTreeSet<(usize, usize)>,
}

impl Ran {
    /// The share of all workers' time that went into the work.
    fn efficiency(&self, workers: usize) -> f64 {
        self.work as f64 / (self.end as f64 * workers as f64)
    }
}

/// What a worker has done when its time comes.
enum Done {
    Nothing,
    Drew(usize),
    Ran(usize, usize),
}

/// Lets `workers` go through so many items of four contenders.
fn pass_by(workers: usize, items: usize, costs: Costs) -> Ran {
    let mut queue: Queue<(), ()> = Queue::new(4);
    let mut next = 0;
    // By the instant at which it comes by, and the number of the worker.
    let mut due: BTreeMap<(u64, usize), Done> = BTreeMap::new();
    due.extend((0..workers).map(|worker| ((0, worker), Done::Nothing)));
    let mut own = vec![None; workers];
    let mut waiting: Vec<usize> = Vec::new();
    let mut free = 0;
    let mut ran = Ran { end: 0, work: 0, draws: 0, pieces: BTreeSet::new() };
    while let Some(((at, worker), done)) = due.pop_first() {
        // One after the other holds the lock.
        let mut now = free.max(at) + costs.take;
        match done {
            Done::Nothing => {}
            Done::Drew(item) => {
                queue.drawn(item, Some(()));
                own[worker] = Some(item);
                due.extend(waiting.drain(..).map(|one| ((now, one), Done::Nothing)));
            }
            Done::Ran(item, contender) => {
                let noted = queue.came(item, contender, ()).is_some();
                now += if noted { costs.note } else { 0 };
            }
        }
        let begin = || {
            next += 1;
            (next <= items).then_some(next - 1)
        };
        let work = queue.take(own[worker], begin);
        free = now;
        ran.end = ran.end.max(now);
        let (takes, done) = match work {
            Work::Draw(item) => {
                ran.draws += 1;
                (costs.draw, Done::Drew(item))
            }
            Work::Run(item, _, contender) => {
                assert!(ran.pieces.insert((item, contender)), "a piece is run once");
                let slow = 1 + u64::from(item.is_multiple_of(4));
                (costs.run[contender] * slow, Done::Ran(item, contender))
            }
            Work::Wait => {
                waiting.push(worker);
                continue;
            }
            Work::None => continue,
        };
        ran.work += takes;
        due.insert((now + takes, worker), done);
    }
    assert!(waiting.is_empty() && queue.open.is_empty());
    ran
}

/// The share of all workers' time that goes into the work where each keeps a set to its end, and no
/// lock costs anything.
fn whole_sets(workers: usize, items: usize, costs: Costs) -> f64 {
    let mut free = vec![0; workers];
    let mut work = 0;
    for item in 0..items {
        let slow = 1 + u64::from(item.is_multiple_of(4));
        let takes = costs.draw + slow * costs.run.iter().sum::<u64>();
        work += takes;
        *free.iter_mut().min().expect("there are workers") += takes;
    }
    work as f64 / (free.into_iter().max().unwrap_or(0) as f64 * workers as f64)
}

#[test]
fn every_set_is_drawn_once_and_every_piece_run_once() {
    for workers in [1, 2, 3, 7, 64, 300] {
        for items in [0, 1, 2, 5, 65] {
            let ran = pass_by(workers, items, COSTS);
            assert_eq!((ran.draws, ran.pieces.len()), (items, 4 * items), "{workers}, {items}");
        }
    }
}

/// One piece: the longest there is, with what it takes to have its set drawn.
#[test]
fn no_worker_is_idle_for_longer_than_a_piece_takes() {
    let longest = 2 * 20_000_000 + 100_000;
    for workers in [2, 3, 8, 64] {
        for items in [64, 100, 1_000] {
            let ran = pass_by(workers, items, COSTS);
            let all = ran.work / workers as u64;
            let locked = items as u64 * (COSTS.note + 5 * COSTS.take);
            assert!(ran.end <= all + longest + locked, "{workers}, {items}");
        }
    }
}

/// Numbers of workers in the figure.
const WORKERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Workers on as many real cores, and how many times as fast as one they were: medians of five
/// pairs, 2026-11-28 (docs/results.md, "Many task sets").
const MEASURED: [(f64, f64); 2] = [(1.0, 1.0), (2.0, 1.94)];

/// The share of the workers' time that goes into drawing and running 1000 sets, by number of
/// workers: with shared pieces, and with whole sets.
fn shares() -> Vec<(usize, [f64; 2])> {
    let of = |workers| {
        let shared = pass_by(workers, 1_000, COSTS).efficiency(workers);
        (workers, [shared, whole_sets(workers, 1_000, COSTS)])
    };
    WORKERS.into_iter().map(of).collect()
}

#[test]
fn a_thousand_sets_keep_64_workers_busy() {
    for (workers, [shared, whole]) in shares() {
        assert!(shared >= 0.95 && shared >= whole - 0.002, "{workers} workers: {shared}, {whole}");
    }
}

/// `docs/figures/sweep-queue.svg`; written anew where `MARACAS_FIGURE` is set.
#[test]
fn the_figure_in_the_documents_is_that_of_the_queue() {
    let line = |name: &str, which: usize| {
        let point = |(workers, shares): &(usize, [f64; 2])| {
            (*workers as f64, *workers as f64 * shares[which])
        };
        Line::new(name, shares().iter().map(point).collect())
    };
    let figure = Figure {
        name: "queue".into(),
        title: "A sweep under four policies, simulated and measured".into(),
        drawing: Drawing::Lines {
            along: "workers".into(),
            logarithmic: true,
            share: false,
            left: "times as fast as one".into(),
            right: None,
            lines: vec![
                line("a run at a time", 0),
                line("a set at a time", 1),
                Line::new("measured", MEASURED.into()),
            ],
        },
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures");
    let path = folder.join(figure.file("sweep"));
    if std::env::var_os("MARACAS_FIGURE").is_some() {
        std::fs::write(&path, figure.svg()).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap();
    assert!(there == figure.svg(), "run this test with MARACAS_FIGURE=1 and look at the figure");
}

#[test]
fn a_set_that_cannot_be_drawn_leaves_nothing_to_wait_for() {
    let mut queue: Queue<(), ()> = Queue::new(2);
    assert!(matches!(queue.take(None, || Some(0)), Work::Draw(0)));
    assert!(matches!(queue.take(None, || None), Work::Wait));
    queue.drawn(0, None);
    assert!(matches!(queue.take(None, || None), Work::None));
}
