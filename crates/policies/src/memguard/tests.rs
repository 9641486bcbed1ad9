//! The vectors of docs/algorithms.md, D, its invariants on random traces, and the wrapper as such.

mod maracas;
mod rig;
mod traces;
mod wrapper;

use super::settings::Settings;
use super::*;
use crate::find;
use core::num::NonZero;
use maracas_core::Vcpu;
use maracas_core::params::Value;
use rig::Rig;

/// Parameters as a user would write them.
fn given(pairs: &[(&str, &str)]) -> Params {
    let mut params = Params::new();
    for (name, value) in pairs {
        let value = match (value.parse(), value.parse()) {
            (Ok(number), _) => Value::Whole(number),
            (_, Ok(flag)) => Value::Flag(flag),
            (Err(_), Err(_)) => Value::Text((*value).into()),
        };
        params.set(name, value);
    }
    let entry = find("memguard+round-robin").unwrap();
    assert_eq!(params.check(entry.params), Ok(()));
    params
}

/// Periods of ten ticks, in which 6.4 GB/s are one request, with the prediction of the vectors.
fn vector(pairs: &[(&str, &str)], accesses: &[&[u64]]) -> Rig {
    let mut all = alloc::vec![("period", "10ns"), ("predictor", "last")];
    all.extend_from_slice(pairs);
    let mut rig = Rig::one_a_core(accesses.len(), &given(&all));
    for (vcpu, accesses) in accesses.iter().enumerate() {
        rig.vcpus[vcpu].pending.extend(*accesses);
        rig.wake(vcpu);
    }
    rig
}

/// Each core's allotment, and the pool.
fn standing(rig: &Rig) -> (Vec<u64>, u64) {
    let regulator = &rig.policy.regulator;
    (regulator.cores.iter().flatten().map(|core| core.allotted).collect(), regulator.pool)
}

fn throttled(rig: &Rig) -> Vec<bool> {
    rig.policy.regulator.cores.iter().flatten().map(|core| core.throttled).collect()
}

fn statistic(rig: &Rig, name: &str, core: Option<u16>) -> u64 {
    let statistics = rig.policy.statistics();
    let found = statistics.iter().find(|f| f.name == name && f.core == core.map(CoreId));
    found.unwrap().value
}

#[test]
fn vector_d1_the_slides_example() {
    let mut rig =
        vector(&[("bandwidth", "19.2GB/s"), ("q_min", "1")], &[&[3, 16], &[4, 12, 13, 15, 17, 18]]);
    // (q of both cores, G) after the tick in which it changed.
    for (tick, q, pool) in [
        (0, [3, 3], 0),
        (9, [3, 3], 0),
        (10, [1, 1], 4),
        (12, [1, 3], 2),
        (15, [1, 4], 1),
        (16, [2, 4], 0),
        (19, [2, 4], 0),
        (20, [1, 3], 2),
    ] {
        rig.run_through(tick);
        assert_eq!(standing(&rig), (q.to_vec(), pool), "tick {tick}");
        assert_eq!(throttled(&rig), [false, tick == 19], "tick {tick}");
    }
    // The access of 18 is served at 20.
    let served = [(3, 0), (4, 1), (12, 1), (13, 1), (15, 1), (16, 0), (17, 1), (20, 1)];
    assert_eq!(rig.served, served);
    assert_eq!(
        (
            statistic(&rig, "donated requests", Some(0)),
            statistic(&rig, "reclaimed requests", Some(1))
        ),
        (4, 3)
    );
    assert_eq!(
        (statistic(&rig, "throttled periods", Some(1)), statistic(&rig, "underruns", Some(0))),
        (1, 0)
    );
}

#[test]
fn vectors_d2_and_d3_spare_bandwidth() {
    let pairs =
        |spare| [("bandwidth", "12.8GB/s, 6.4GB/s"), ("reclaim", "false"), ("spare", spare)];
    let accesses: [&[u64]; 2] = [&[1, 3, 5, 12], &[2, 4]];
    let mut shared = vector(&pairs("share"), &accesses);
    shared.run_through(2);
    assert_eq!(throttled(&shared), [false, true]);
    assert!(!shared.policy.regulator.sharing);
    shared.run_through(3);
    assert!(shared.policy.regulator.sharing);
    assert_eq!(shared.plan.run_queue(CoreId(0)).allowance, MemoryLimit::NEVER);
    shared.run_through(15);
    assert_eq!(shared.served, [(1, 0), (2, 1), (3, 0), (4, 1), (5, 0), (12, 0)]);
    assert_eq!(statistic(&shared, "spare phases", None), 1);
    assert!(!shared.policy.regulator.sharing);

    let mut off = vector(&pairs("off"), &accesses);
    off.run_through(15);
    assert_eq!(off.served, [(1, 0), (2, 1), (3, 0), (10, 0), (10, 1), (12, 0)]);
}

#[test]
fn a_core_with_nothing_to_run_does_not_hold_up_spare_bandwidth() {
    let pairs = |spare| [("bandwidth", "12.8GB/s, 64GB/s"), ("spare", spare)];
    let accesses: [&[u64]; 2] = [&[1, 2, 3, 4, 13, 14, 15], &[]];
    let mut shared = vector(&pairs("share"), &accesses);
    shared.run_through(2);
    assert!(!shared.policy.regulator.sharing, "core1 runs, and has its budget before it");
    shared.sleep(1);
    shared.run_through(3);
    assert!(shared.policy.regulator.sharing);

    let mut early = vector(&pairs("proportional"), &accesses);
    early.run_through(0);
    early.sleep(1);
    early.run_through(2);
    // The period that began at 2 ends at 12, and once more budgets are used up at 4.
    assert_eq!(early.policy.cores_next, Instant::from_ticks(12));
    early.run_through(4);
    assert_eq!(early.policy.cores_next, Instant::from_ticks(14));
    let recorded = |rig: &Rig, core| statistic(rig, "regulated periods", Some(core));
    assert_eq!((recorded(&early, 0), recorded(&early, 1)), (2, 0));
    assert_eq!(standing(&early), ([2, 10].to_vec(), 0), "core1 has no history yet");
}

#[test]
fn an_active_core_without_a_budget_holds_up_spare_bandwidth() {
    for spare in ["share", "proportional"] {
        let pairs = [("bandwidth", "none, 12.8GB/s"), ("spare", spare)];
        let mut rig = vector(&pairs, &[&[], &[1, 2, 3, 4, 13, 14, 15]]);
        rig.run_through(9);
        assert_eq!(statistic(&rig, "spare phases", None), 0, "core0 may read as much as it likes");
        assert_eq!(rig.served, [(1, 1), (2, 1)]);
        rig.run_through(11);
        rig.sleep(0);
        rig.run_through(19);
        assert!(statistic(&rig, "spare phases", None) > 0);
        assert!(rig.served.len() > 4);
    }
}

#[test]
fn an_error_is_recorded_where_its_period_is_cut_short() {
    let pairs = [("bandwidth", "19.2GB/s"), ("q_min", "2"), ("spare", "proportional")];
    let mut rig = vector(&pairs, &[&[3, 15, 16], &[4, 5, 11, 12, 13, 14, 15]]);
    rig.run_through(15);
    assert!(throttled(&rig)[1] && !throttled(&rig)[0]);
    // core0 took back what it had donated, and sleeps: one of three is missed.
    rig.run_through(16);
    rig.sleep(0);
    rig.run_through(17);
    assert_eq!(statistic(&rig, "spare phases", None), 1);
    assert_eq!(statistic(&rig, "underruns", Some(0)), 1);
    assert_eq!(statistic(&rig, "underrun errors", Some(0)), 1);
}

#[test]
fn vector_d4_an_underrun_and_an_error() {
    let pairs = [("bandwidth", "19.2GB/s"), ("q_min", "2")];
    let mut flagged = vector(&pairs, &[&[3, 15, 16, 17], &[4, 5, 6, 11, 12, 13, 14]]);
    for (tick, q, pool) in [(10, [1, 3], 2), (13, [1, 5], 0), (15, [3, 5], 0)] {
        flagged.run_through(tick);
        assert_eq!(standing(&flagged), (q.to_vec(), pool), "tick {tick}");
    }
    assert!(flagged.policy.regulator.cores[0].as_ref().unwrap().underrun);
    flagged.run_through(17);
    assert!(throttled(&flagged)[0]);
    flagged.run_through(20);
    assert_eq!(statistic(&flagged, "underruns", Some(0)), 1);
    assert_eq!(statistic(&flagged, "underrun errors", Some(0)), 0);

    let mut wrong = vector(&pairs, &[&[3, 15, 16], &[4, 5, 6, 11, 12, 13, 14]]);
    wrong.run_through(20);
    assert_eq!(statistic(&wrong, "underrun errors", Some(0)), 1);
    // One of three requests was missed.
    assert_eq!(statistic(&wrong, "underrun errors to 40%", Some(0)), 1);
    assert_eq!(statistic(&wrong, "regulated periods", Some(0)), 2);
    // After an error nothing is donated.
    assert_eq!(standing(&wrong).0[0], 3);
}

#[test]
fn budgets_in_requests_are_the_module_s() {
    let read = |text: &str, cores| {
        let system = System::new(cores, Vec::new());
        let (settings, wrong) = Settings::read(&system, &given(&[("bandwidth", text)]));
        assert!(wrong.is_empty(), "{wrong:?}");
        let quotas = settings.cores.iter().map(|core| core.map_or(0, |core| core.quota));
        quotas.collect::<Vec<_>>()
    };
    let list = "1200MiB/s, 1000MiB/s, 900MiB/s, 200MiB/s, 100MiB/s, none";
    assert_eq!(read(list, 6), [19660, 16384, 14745, 3276, 1638, 0]);
    assert_eq!(read("1.2GB/s", 2), [18750, 18750]);
}

#[test]
fn averages_weigh_the_newest_sample() {
    // The core reads 8, 0, 0 and 4 times in its first periods and may do so 10 times.
    let accesses: Vec<u64> = (0..8).chain(32..36).collect();
    for (predictor, allotted) in
        [("last", [10, 8, 1, 1, 4]), ("ewma", [10, 8, 4, 2, 3]), ("ewma-1/4", [10, 8, 6, 5, 5])]
    {
        let pairs = [("bandwidth", "64GB/s"), ("predictor", predictor)];
        let mut rig = vector(&pairs, &[&accesses]);
        let mut seen = Vec::new();
        for period in 0..5 {
            rig.run_through(period * 10);
            seen.push(standing(&rig).0[0]);
        }
        assert_eq!(seen, allotted, "{predictor}");
    }
}

#[test]
fn weights_share_r_min_and_spare_bandwidth_in_proportion() {
    for (spare, per_period) in [("off", 150), ("proportional", 0)] {
        let weights = [("weights", "1, 2, 4, 8"), ("r_min", "9.6GB/s"), ("period", "1us")];
        let mut rig = Rig::one_a_core(4, &given(&[&weights[..], &[("spare", spare)]].concat()));
        for vcpu in 0..4 {
            rig.vcpus[vcpu].pending.extend(core::iter::repeat_n(0, 40_000));
            rig.wake(vcpu);
        }
        rig.run_through(7_999);
        let reads: Vec<u64> = rig.cores.iter().map(|core| core.meter).collect();
        if per_period > 0 {
            assert_eq!(reads, [10 * 8, 20 * 8, 40 * 8, 80 * 8]);
        } else {
            // The heaviest core reads at each tick, and the others in proportion.
            assert_eq!(reads, [1000, 2000, 4000, 8000]);
            assert_eq!(statistic(&rig, "spare phases", None), 100);
        }
    }
}

#[test]
fn a_vcpu_s_own_budget_is_hard_and_comes_back() {
    let mut vcpus: Vec<Vcpu> = (0..2).map(rig::busy_vcpu).collect();
    for vcpu in &mut vcpus {
        vcpu.pinned = Some(CoreId(0));
    }
    vcpus[0].bandwidth = NonZero::new(12_800_000_000);
    let system = System::new(1, vcpus);
    let mut rig = Rig::new(&system, &given(&[("period", "10ns"), ("quantum", "4ns")]));
    for vcpu in 0..2 {
        rig.vcpus[vcpu].pending.extend(core::iter::repeat_n(0, 100));
        rig.wake(vcpu);
    }
    rig.run_through(39);
    let reads: Vec<u64> = rig.vcpus.iter().map(|vcpu| vcpu.memory).collect();
    assert_eq!(reads, [8, 32], "two in each of four periods, the rest for the other");
    assert!(rig.policy.statistics().is_empty());

    // Alone it is stopped at its limit and goes on with the next period.
    while rig.vcpus[1].awake {
        rig.tick();
        rig.sleep(1);
    }
    rig.run_through(59);
    assert_eq!(rig.vcpus[0].memory, 12);

    // A smaller budget counts at once, none lifts the limit.
    let mut changed = rig::busy_vcpu(0);
    changed.bandwidth = NonZero::new(6_400_000_000);
    changed.pinned = Some(CoreId(0));
    rig.tell(Event::Changed(changed.clone()));
    rig.run_through(69);
    assert_eq!(rig.vcpus[0].memory, 13);
    changed.bandwidth = None;
    rig.tell(Event::Changed(changed));
    rig.run_through(79);
    assert_eq!(rig.vcpus[0].memory, 23);
    assert_eq!(rig.plan.wake, Instant::NEVER, "nothing is regulated any more");
}

#[test]
fn what_is_wrong_is_said_in_one_line_with_numbers() {
    let refused = |pairs: &[(&str, &str)]| {
        let mut vcpu = Vcpu::new(0, Duration::from_nanos(1), Duration::from_nanos(2));
        vcpu.bandwidth = NonZero::new(64_000);
        let system = System::new(2, alloc::vec![vcpu]);
        let entry = find("memguard+round-robin").unwrap();
        let verdict = (entry.admit)(&system, &given(pairs));
        assert_eq!(verdict.accepted(), (entry.build)(&system, &given(pairs)).is_ok());
        verdict.why()
    };
    assert_eq!(refused(&[("bandwidth", "600MB/s"), ("r_min", "1.2GB/s")]), "");
    assert_eq!(
        refused(&[("bandwidth", "1GB/s, 400MB/s"), ("r_min", "1.2GB/s")]),
        "reserved bandwidths are 1400MB/s together and exceed r_min = 1200MB/s by 200MB/s; lower \
         one"
    );
    assert_eq!(refused(&[("bandwidth", "272MB/s"), ("q_min", "43")]), "");
    assert_eq!(refused(&[("bandwidth", "272MB/s"), ("q_min", "1"), ("reclaim", "false")]), "");
    for (pairs, part) in [
        (&[("bandwidth", "1GB/s, 2GB/s, 3GB/s")][..], "bandwidth has 3 values and the system 2"),
        (&[("reservation", "soft, hard, soft")], "reservation has 3 values"),
        (&[("weights", "1, 2")], "add r_min"),
        (&[("weights", "1, 0"), ("r_min", "1GB/s")], "vcpu0 may run on core1, which has no limit"),
        (
            &[("bandwidth", "none, 1GB/s"), ("r_min", "1GB/s")],
            "give core0 a bandwidth, pin the VCPU elsewhere, or leave out r_min",
        ),
        (
            &[("bandwidth", "1GB/s, 2GB/s"), ("foreground", "1.5GB/s")],
            "foreground of core0 is 1500MB/s and its bandwidth 1GB/s",
        ),
        (&[("foreground", "1GB/s")], "foreground of core0 is 1GB/s and its bandwidth 0GB/s"),
        (&[("weights", "1"), ("bandwidth", "1MB/s")], "leave out one"),
        (&[("bandwidth", "63kB/s")], "bandwidth of core0 is 63kB/s, less than one request"),
        (&[("period", "999us")], "bandwidth of vcpu0 is 64kB/s, less than one request"),
        (&[("period", "0ms")], "period is 0"),
        // Two cores donate 8500 requests a period of 1 ms, 42 times the 200 that are bearable.
        (
            &[("bandwidth", "272MB/s"), ("q_min", "1")],
            "lets cores reclaim 8500 times in a period, each time by an interrupt, and 200 times \
             are bearable; set q_min to 43 at least",
        ),
    ] {
        let why = refused(pairs);
        assert!(why.contains(part) && !why.contains('|'), "{pairs:?}: {why}");
    }
}
