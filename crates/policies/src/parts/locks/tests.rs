use super::*;

/// A task by core, C, T and (resource, count, longest).
type Row<'a> = (u16, u64, u64, &'a [(u32, u64, u64)]);

/// The first is the most urgent.
fn setting(order: Order, rows: &[Row<'_>]) -> Setting {
    let task = |(id, &(core, budget, period, requests)): (u32, &Row<'_>)| Task {
        id: VcpuId(id),
        core: CoreId(core),
        budget,
        period,
        deadline: period,
        requests: requests
            .iter()
            .map(|&(resource, count, longest)| Request { resource, count, longest })
            .collect(),
    };
    Setting { order, tasks: (0..).zip(rows).map(task).collect() }
}

/// Two cores; 0 is shared by both, 1 is of core 0 alone.
const ROWS: [Row<'_>; 4] = [
    (0, 10, 100, &[(0, 1, 2)]),
    (1, 20, 200, &[(0, 2, 3)]),
    (0, 30, 300, &[(1, 1, 7)]),
    (0, 40, 400, &[(0, 1, 4), (1, 1, 6)]),
];

#[test]
fn mpcp() {
    let terms = mpcp::terms(&setting(Order::Fixed, &ROWS));
    assert_eq!(terms.kind, Kind::Aware);
    // Resource 0 has the first task's ceiling, and on core 0 each of its holders is delayed by one
    // section of the other user there. The first waits for the longest holder, 4 + 2. The second
    // waits twice for that and for ceil((18 + 100) / 100) = 2 jobs of the first, 2 + 4 each. The
    // last waits for 2 jobs of the first and two requests, of 3, of each of 2 jobs of the second.
    assert_eq!(terms.waits, [Some(6), Some(2 * 18), Some(0), Some(24)]);
    // The first begins and comes back once: 4 each time by the last task. The third: 4 globally,
    // 6 locally, as the ceiling of resource 1 is its own; it is never suspended.
    assert_eq!(terms.delays, [8, 0, 10, 0]);
}

#[test]
fn fmlp_plus() {
    let terms = fmlp_plus::terms(&setting(Order::Fixed, &ROWS));
    // The first waits for the second's section, and for the longest of each task of its core, 7 and
    // 6; the second, alone on its core, twice for these, 2, 7 and 6. Core 1 has no user of resource
    // 1, so that the third does not wait for the second. The last has two requests, which wait for
    // 2 + 3 + 7 and 2 + 7.
    assert_eq!(terms.waits, [Some(16), Some(30), Some(8), Some(21)]);
    assert_eq!(terms.delays, [26, 0, 12, 0]);
    let terms = fmlp_plus::terms(&setting(Order::Deadline, &ROWS));
    assert_eq!((terms.kind, terms.waits[0]), (Kind::Oblivious, Some(16 + 26)));
    // The last has the latest deadline: it is delayed where it comes back, twice by 2 and 7.
    assert_eq!(terms.waits[3], Some(21 + 18));
}

#[test]
fn omlp() {
    let terms = omlp::terms(&setting(Order::Fixed, &ROWS));
    assert_eq!(terms.kind, Kind::Oblivious);
    // One section of the other core for each request for resource 0.
    assert_eq!(terms.waits, [Some(3), Some(8), Some(0), Some(3)]);
    // One request of a less urgent task of the core: 7 of the third, 4 + 3 of the last.
    assert_eq!(terms.delays, [7, 0, 7, 0]);
    let by_deadline = omlp::terms(&setting(Order::Deadline, &ROWS));
    assert_eq!(by_deadline.delays, [7, 0, 7, 0], "deadlines are in the same order");
}

#[test]
fn mrsp() {
    let terms = mrsp::terms(&setting(Order::Fixed, &ROWS));
    assert_eq!(terms.waits, [Some(3), Some(8), Some(0), Some(3)]);
    // Resource 1 has the third task's ceiling; only resource 0 blocks the first.
    assert_eq!(terms.delays, [7, 0, 7, 0]);
    let no_more: [Row<'_>; 2] = [(0, 10, 100, &[]), (0, 20, 200, &[(0, 1, 5)])];
    assert_eq!(mrsp::terms(&setting(Order::Fixed, &no_more)).delays, [0, 0]);
    assert_eq!(mpcp::terms(&setting(Order::Fixed, &no_more)).delays, [0, 0]);
    assert_eq!(fmlp_plus::terms(&setting(Order::Fixed, &no_more)).delays, [5, 0]);
}

#[test]
fn responses_take_the_terms_in() {
    let setting = setting(Order::Fixed, &[(0, 2, 10, &[]), (0, 3, 20, &[])]);
    let terms = |kind, waits| Terms {
        kind,
        waits: alloc::vec![Some(waits), Some(0)],
        delays: alloc::vec![0, 1],
    };
    let responses = |terms: &Terms| {
        let results = response::fixed(&setting, terms, [CoreId(0)].into_iter());
        let Measure::Responses(list) = &results[0].measure else { panic!("{results:?}") };
        list.iter().map(|(_, it, _)| it.map(Duration::ticks)).collect::<Vec<_>>()
    };
    // Counted as execution: 2 + 4, then 3 + 1 + 6 = 10 within one period.
    assert_eq!(responses(&terms(Kind::Oblivious, 4)), [Some(6), Some(10)]);
    // With a jitter of 6 - 2: 4 + 2 = 6 is within ceil((6 + 4) / 10) = 1 release.
    assert_eq!(responses(&terms(Kind::Aware, 4)), [Some(6), Some(6)]);
    // With one of 7, two releases.
    assert_eq!(responses(&terms(Kind::Aware, 7)), [Some(9), Some(8)]);
    assert_eq!(responses(&terms(Kind::Aware, 9)), [None, None], "11 is beyond 10");
}

#[test]
fn densities_take_the_terms_in() {
    let setting = setting(Order::Deadline, &[(0, 2, 10, &[]), (0, 10, 20, &[])]);
    let value = |delay| {
        let terms = Terms {
            kind: Kind::Oblivious,
            waits: alloc::vec![Some(1), Some(0)],
            delays: alloc::vec![delay, 0],
        };
        let results = response::deadlines(&setting, &terms, [CoreId(0)].into_iter());
        let Measure::Ratio { value, .. } = results[0].measure else { panic!("{results:?}") };
        (value, results[0].accepted)
    };
    // 3/10 + 10/20, and 3/10 + delay/10.
    assert_eq!(value(0), (800_000_000, true));
    assert_eq!(value(7), (1_000_000_000, true));
    assert_eq!(value(8), (1_100_000_000, false));
}
