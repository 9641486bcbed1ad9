use super::*;
use crate::testing::Rng;
use alloc::vec::Vec;

fn ticks(n: u64) -> Duration {
    Duration::from_ticks(n)
}
fn at(n: u64) -> Instant {
    Instant::from_ticks(n)
}
fn server(c: u64, t: u64) -> Sporadic {
    Sporadic::new(ticks(c), ticks(t), Instant::ZERO)
}
fn holds(server: &Sporadic, expected: &[(u64, u64)]) {
    let chunks: Vec<_> = server.chunks().collect();
    assert_eq!(chunks, expected);
}

#[test]
fn vector_f1_blocking_splits() {
    let mut server = server(4, 10);
    server.unblock(at(0));
    server.charge(ticks(2), Duration::ZERO);
    holds(&server, &[(2, 2), (10, 2)]);
    server.unblock(at(5));
    holds(&server, &[(5, 2), (10, 2)]);
    server.charge(ticks(2), Duration::ZERO);
    holds(&server, &[(10, 2), (15, 2)]);
    server.unblock(at(11));
    holds(&server, &[(11, 2), (15, 2)]);
    server.charge(ticks(1), Duration::ZERO);
    holds(&server, &[(12, 1), (15, 2), (21, 1)]);
}

#[test]
fn vector_f2_preemption_does_not_split() {
    let mut server = server(5, 20);
    server.charge(ticks(2), Duration::ZERO);
    server.charge(ticks(3), Duration::ZERO);
    holds(&server, &[(20, 5)]);
}

#[test]
fn vector_f3_overrun_is_debt() {
    let mut server = server(3, 10);
    server.charge(ticks(4), Duration::ZERO);
    holds(&server, &[(11, 2), (20, 1)]);
    // An overrun of whole budgets is paid off period by period: 11 = 3 * 3 + 2.
    server.charge(ticks(7), Duration::ZERO);
    holds(&server, &[(32, 1), (40, 2)]);
}

#[test]
fn vector_f4_delay_keeps_the_chunk_s_own_time() {
    let mut server = server(2, 10);
    server.unblock(at(0));
    server.charge(ticks(2), Duration::ZERO); // It ran in [8, 10).
    holds(&server, &[(10, 2)]);
    assert_eq!(server.usable(at(10)), ticks(2));
}

#[test]
fn a_full_list_delays() {
    let mut server = server(100, 1_000_000);
    for i in 0..60 {
        server.unblock(at(i * 10));
        server.charge(ticks(1), Duration::ZERO);
    }
    assert_eq!(server.chunks().count(), CHUNKS_MAX);
    let (last, amount) = server.chunks().last().unwrap();
    assert_eq!(last + amount, 1_000_590 + 1);
}

#[test]
fn a_changed_reservation_cannot_be_used_twice() {
    let mut server = server(4, 10);
    server.charge(ticks(3), Duration::ZERO);
    server.change(ticks(6), ticks(20), at(5));
    holds(&server, &[(5, 3), (10, 3)]);
    server.change(ticks(2), ticks(20), at(6));
    holds(&server, &[(10, 2)]);
    server.change(ticks(5), ticks(20), at(10));
    holds(&server, &[(10, 5)]);
    server.change(ticks(7), ticks(20), at(12));
    holds(&server, &[(12, 7)]);
}

#[test]
fn what_a_shorter_period_holds_back_keeps_nothing_else_back() {
    let mut server = server(40, 100);
    server.charge(ticks(1), Duration::ZERO);
    server.change(ticks(4), ticks(10), at(72));
    holds(&server, &[(72, 3), (100, 1)]);
    server.charge(ticks(3), Duration::ZERO);
    holds(&server, &[(82, 3), (100, 1)]);
    server.charge(ticks(2), Duration::ZERO);
    server.charge(ticks(1), Duration::ZERO);
    holds(&server, &[(92, 3), (100, 1)]);
    server.charge(ticks(3), Duration::ZERO);
    holds(&server, &[(100, 1), (102, 3)]);
}

#[test]
fn a_budget_made_small_and_great_again_brings_nothing() {
    let mut server = server(4, 10);
    let mut used = 0;
    for now in 0..10 {
        let runs = !server.usable(at(now)).is_zero();
        server.charge(ticks(u64::from(runs)), Duration::ZERO);
        used += u64::from(runs);
        server.change(ticks(1), ticks(10), at(now + 1));
        server.change(ticks(4), ticks(10), at(now + 1));
    }
    assert!(used <= 4, "{used} of 4");
}

/// A budget ends some microseconds late on any host: that much is a debt, two periods on.
#[test]
fn a_debt_keeps_no_new_budget_back() {
    let mut server = server(3_000, 20_000);
    server.charge(ticks(3_020), Duration::ZERO);
    holds(&server, &[(20_020, 2_980), (40_000, 20)]);
    let mut smaller = server.clone();
    server.change(ticks(5_000), ticks(20_000), at(10_000));
    holds(&server, &[(20_020, 4_980), (40_000, 20)]);
    smaller.change(ticks(1_000), ticks(20_000), at(10_000));
    holds(&smaller, &[(20_020, 980), (40_000, 20)]);
    // What it may use lasts until the next comes.
    smaller.change(ticks(30_000), ticks(40_000), at(20_020));
    holds(&smaller, &[(20_020, 30_000)]);
    smaller.change(ticks(30_000), ticks(40_000), at(40_500));
    holds(&smaller, &[(40_500, 30_000)]);
    // What waits for others has all of it but the debt.
    let mut waiting = self::server(9_000, 20_000);
    waiting.charge(ticks(9_020), Duration::ZERO);
    waiting.change(ticks(11_000), ticks(20_000), at(24_000));
    holds(&waiting, &[(24_000, 10_980), (40_000, 20)]);
}

#[test]
fn chunks_that_a_shorter_period_holds_back_stay_in_order() {
    let mut server = server(10, 100);
    server.charge(ticks(2), Duration::ZERO);
    server.unblock(at(50));
    server.charge(ticks(3), Duration::ZERO);
    holds(&server, &[(53, 5), (100, 2), (150, 3)]);
    server.change(ticks(10), ticks(20), at(60));
    holds(&server, &[(60, 5), (100, 2), (150, 3)]);
    server.charge(ticks(5), Duration::ZERO);
    holds(&server, &[(80, 5), (100, 2), (150, 3)]);
    // With an overrun.
    server.charge(ticks(6), Duration::ZERO);
    holds(&server, &[(101, 6), (120, 1), (150, 3)]);
}

/// What is in use goes on, however short, where only what was held back comes later.
#[test]
fn the_rest_of_the_only_chunk_is_not_put_off_by_what_is_held_back() {
    let mut server = server(40, 100);
    server.charge(ticks(20), ticks(5));
    server.change(ticks(40), ticks(50), at(25));
    holds(&server, &[(25, 20), (100, 20)]);
    server.charge(ticks(17), ticks(5));
    holds(&server, &[(42, 3), (75, 17), (100, 20)]);
}

/// Budgets of any size by turns, with one period: from an instant at which nothing is usable or it
/// is blocked it uses at most the greatest of them in each period begun (algorithms.md F.4). With
/// other periods the same holds of the shortest, as chunks stay in order.
#[test]
fn changes_bring_no_more_than_the_greatest_budget() {
    for seed in 1..600 {
        let mut rng = Rng(seed);
        let longest = 5 + rng.below(20);
        let t = if seed % 2 == 0 { longest } else { 1 + rng.below(longest) };
        let most = 1 + rng.below(t);
        let mut server = server(most, t + rng.below(longest - t + 1));
        let (mut ran, mut idle, mut blocked) = (alloc::vec![0], Vec::new(), false);
        for now in 0..400 {
            if blocked && rng.below(3) == 0 {
                server.unblock(at(now));
                blocked = false;
            }
            for _ in 0..rng.below(3) {
                let period = t + rng.below(longest - t + 1);
                server.change(ticks(1 + rng.below(most)), ticks(period), at(now));
            }
            let usable = !server.usable(at(now)).is_zero();
            if blocked || !usable {
                idle.push(now as usize);
            }
            let runs = u64::from(!blocked && usable && rng.below(4) > 0);
            server.charge(ticks(runs), Duration::ZERO);
            ran.push(ran[now as usize] + runs);
            blocked |= rng.below(12) == 0;
        }
        for from in idle {
            for to in from..ran.len() {
                let periods = ((to - from) as u64).div_ceil(t);
                let used = ran[to] - ran[from];
                assert!(used <= periods * most, "seed {seed}: {used} in [{from}, {to})");
            }
        }
    }
}

/// The true statements of algorithms.md F.4 on random use: delays by others, blocking, waking,
/// reports in pieces. `highest` is never delayed by others.
/// Where it `joins`, C is so large that some chunks are joined.
fn random_use(seed: u64, highest: bool, joins: bool) {
    let mut rng = Rng(seed);
    let t = if joins { 30 + rng.below(60) } else { 5 + rng.below(20) };
    let c = if joins { 16 + rng.below(t - 16) } else { 1 + rng.below(t) };
    let chunk_min = ticks(if joins { 1 + rng.below(c / 4) } else { 0 });
    let mut server = server(c, t);
    let mut ran = alloc::vec![0]; // Ticks that it ran before each instant.
    let mut idle = Vec::new(); // Ticks at whose beginning it is blocked or has nothing usable.
    let mut blocked = true;
    let mut unreported = 0;
    for now in 0..600 {
        if blocked && rng.below(4) == 0 {
            server.unblock(at(now));
            blocked = false;
        }
        let usable = server.usable(at(now)).ticks() - unreported;
        if blocked || usable == 0 {
            idle.push(now as usize);
        }
        let runs = !blocked && usable > 0 && (highest || rng.below(3) > 0);
        ran.push(ran[now as usize] + u64::from(runs));
        unreported += u64::from(runs);
        let blocks = runs && rng.below(6) == 0;
        // A segment must be reported when it ends with the budget or by blocking; else any time.
        if blocks || usable == u64::from(runs) || rng.below(3) == 0 {
            server.charge(ticks(unreported), chunk_min);
            unreported = 0;
        }
        blocked |= blocks;
    }
    let used = |from: usize, to: usize| ran[to] - ran[from];
    for &from in &idle {
        for to in from..ran.len() {
            let most = c * ((to - from) as u64).div_ceil(t);
            assert!(used(from, to) <= most, "seed {seed}: ({c}, {t}) in [{from}, {to})");
        }
    }
    if highest {
        for from in 0..ran.len() - t as usize {
            assert!(used(from, from + t as usize) <= c, "seed {seed}: window at {from}");
        }
    }
}

#[test]
fn consumption_bounds_of_f4() {
    for seed in 0..400 {
        random_use(seed, seed % 2 == 0, false);
    }
    for seed in 0..200 {
        random_use(seed, seed % 2 == 0, true);
    }
}

#[test]
fn short_chunks_come_back_with_the_next() {
    let mut server = server(80, 100);
    let chunk_min = ticks(8);
    for (wakes, used) in [(0, 5), (10, 2), (20, 4), (30, 3)] {
        server.unblock(at(wakes));
        server.charge(ticks(used), chunk_min);
    }
    // 5 and 2 are short and wait until 113 and 120; 11 are not.
    holds(&server, &[(33, 66), (113, 11), (130, 3)]);
    // What is asked for is an eighth of C at most.
    server.unblock(at(40));
    server.charge(ticks(7), ticks(80));
    holds(&server, &[(47, 59), (113, 11), (137, 10)]);
}

#[test]
fn the_rest_of_the_only_chunk_is_not_put_off() {
    let mut server = server(80, 100);
    server.charge(ticks(75), ticks(10));
    holds(&server, &[(75, 5), (100, 75)]);
    server.charge(ticks(5), ticks(10));
    holds(&server, &[(100, 80)]);
}

/// When each tick of the budget may be used.
fn times(server: &Sporadic) -> Vec<u64> {
    server.chunks().flat_map(|(at, amount)| at..at + amount).collect()
}

/// It runs for a moment, blocks for a moment, and so on.
#[test]
fn less_than_the_shortest_chunk_is_late_at_any_time() {
    let mut joined = 0;
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let t = 200 + rng.below(200);
        let c = 64 + rng.below(t - 64);
        let (asked, mut server) = (ticks(c / 16 + rng.below(c / 8)), server(c, t));
        let chunk_min = asked.ticks().min(c / 8);
        // When each tick would come back if this time nothing were joined.
        let mut due = times(&server);
        let mut now = 0;
        while now < 5_000 {
            let before = times(&server);
            server.unblock(at(now));
            for ((due, before), after) in due.iter_mut().zip(before).zip(times(&server)) {
                *due = if before == after { *due } else { after };
            }
            let used = server.usable(at(now)).ticks().min(1 + rng.below(12));
            due = due.split_off(used as usize);
            due.extend(times(&server)[..used as usize].iter().map(|at| at + t));
            server.charge(ticks(used), asked);
            let chunks = server.chunks().count();
            assert!(chunks <= 18, "seed {seed}: {chunks} chunks of a sixteenth of C or more");
            let times = times(&server);
            for now in now..now + t {
                let of = |times: &[u64]| times.iter().filter(|time| **time <= now).count() as u64;
                let late = of(&due) - of(&times);
                assert!(late < chunk_min, "seed {seed}: {late} ticks at {now}");
                joined += late;
            }
            now += used + 1 + rng.below(20);
        }
    }
    assert!(joined > 0, "nothing was joined");
}
