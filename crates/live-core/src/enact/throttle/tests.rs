use super::*;
use crate::Core;
use crate::fake::{Fake, Script, core};
use maracas_core::Duration;
use maracas_core::contract::{Grant, Limit};
use std::rc::Rc;

/// VCPU 0 on its budget, if it has any, and VCPU 1 on surplus time.
fn run_queue(budget: bool, background_allowed: bool) -> RunQueue {
    let until = Limit(Duration::from_nanos(u64::from(budget)));
    let foreground = vec![Grant::new(VcpuId(0), until)];
    let background = vec![Grant::new(VcpuId(1), Limit::NEVER)].into();
    RunQueue { foreground, background, background_allowed, ..RunQueue::default() }
}

/// Follows this run queue and returns what was noted.
fn follow(core: &mut Core<Fake>, run_queue: &RunQueue) -> Vec<(String, String)> {
    let decided = core.exec.now();
    core.follow(run_queue, decided);
    core.judge();
    core.stops();
    core.starts();
    core.drain();
    let noted = |note| match note {
        Record::Note { note, .. } => Some((note.key().to_string(), note.text())),
        Record::Event { .. } | Record::Planned(_) | Record::Gap(_) | Record::End(_) => None,
    };
    core.take_notes().filter_map(noted).collect()
}

fn level(core: &Core<Fake>) -> Level {
    core.vcpu_handles[1].level
}

#[test]
fn the_time_until_everything_is_frozen_is_noted_where_a_vcpu_was() {
    let core = &mut core(&Rc::default(), 2);
    {
        assert_eq!(follow(core, &run_queue(false, true)), []);
        assert_eq!(level(core), Level::Background);
        let noted = follow(core, &run_queue(false, false));
        assert_eq!(level(core), Level::Frozen);
        let [(key, text)] = &noted[..] else { panic!("{noted:?}") };
        let words: Vec<u64> = text.split(' ').map(|word| word.parse().expect("a number")).collect();
        assert!(key == "throttled" && words[0] == 0 && words[1] > 0, "{noted:?}");
        assert_eq!(words[2..], [0], "no record of a thread that there is not");
        assert_eq!(follow(core, &run_queue(false, false)), [], "noted once");
        assert_eq!(follow(core, &run_queue(false, true)), []);
        assert_eq!(level(core), Level::Background);
    }
}

#[test]
fn a_bandwidth_limiter_lowers_bandwidth_while_a_throttled_core_has_only_background_to_run() {
    let script = Rc::new(Script::default());
    script.bandwidth_limiter.replace(Some(Vec::new()));
    let core = &mut core(&script, 2);
    {
        let so_far = || script.bandwidth_limiter.borrow().clone().unwrap_or_default();
        follow(core, &run_queue(false, true));
        assert_eq!((level(core), so_far()), (Level::Background, vec![]));
        let noted = follow(core, &run_queue(false, false));
        assert_eq!((level(core), so_far()), (Level::Background, vec![true]), "it goes on");
        assert_eq!(noted.len(), 1, "{noted:?}");
        // Foreground has the bandwidth back, though the core is throttled still.
        follow(core, &run_queue(true, false));
        assert_eq!(so_far(), [true, false]);
        follow(core, &run_queue(false, false));
        assert_eq!(so_far(), [true, false, true]);
        follow(core, &run_queue(false, true));
        assert_eq!(so_far(), [true, false, true, false]);
    }
}
