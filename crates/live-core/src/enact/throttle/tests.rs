use super::*;
use crate::Core;
use crate::fake::{Fake, Script, core};
use maracas_core::Duration;
use maracas_core::contract::{Grant, Mark};
use std::rc::Rc;

/// VCPU 0 on its budget, if it has any, and VCPU 1 on surplus time.
fn line(budget: bool, background_allowed: bool) -> Line {
    let until = Mark(Duration::from_nanos(u64::from(budget)));
    let foreground = vec![Grant::new(VcpuId(0), until)];
    let background = vec![Grant::new(VcpuId(1), Mark::NEVER)];
    Line { foreground, background, background_allowed, ..Line::default() }
}

/// Follows this line and tells what was noted.
fn follow(core: &mut Core<Fake>, line: &Line) -> Vec<(String, String)> {
    let decided = core.exec.now();
    core.follow(line, decided);
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

fn post(core: &Core<Fake>) -> Post {
    core.bodies[1].post
}

#[test]
fn the_time_until_everything_is_frozen_is_noted_where_somebody_was() {
    let core = &mut core(&Rc::default(), 2);
    {
        assert_eq!(follow(core, &line(false, true)), []);
        assert_eq!(post(core), Post::Background);
        let noted = follow(core, &line(false, false));
        assert_eq!(post(core), Post::Frozen);
        let [(key, text)] = &noted[..] else { panic!("{noted:?}") };
        let words: Vec<u64> = text.split(' ').map(|word| word.parse().expect("a number")).collect();
        assert!(key == "throttled" && words[0] == 0 && words[1] > 0, "{noted:?}");
        assert_eq!(words[2..], [0], "no record of a thread that there is not");
        assert_eq!(follow(core, &line(false, false)), [], "told once");
        assert_eq!(follow(core, &line(false, true)), []);
        assert_eq!(post(core), Post::Background);
    }
}

#[test]
fn a_valve_lowers_bandwidth_while_a_throttled_core_has_only_background_to_run() {
    let script = Rc::new(Script::default());
    script.valve.replace(Some(Vec::new()));
    let core = &mut core(&script, 2);
    {
        let so_far = || script.valve.borrow().clone().unwrap_or_default();
        follow(core, &line(false, true));
        assert_eq!((post(core), so_far()), (Post::Background, vec![]));
        let noted = follow(core, &line(false, false));
        assert_eq!((post(core), so_far()), (Post::Background, vec![true]), "it goes on");
        assert_eq!(noted.len(), 1, "{noted:?}");
        // Foreground has the bandwidth back, though the core is throttled still.
        follow(core, &line(true, false));
        assert_eq!(so_far(), [true, false]);
        follow(core, &line(false, false));
        assert_eq!(so_far(), [true, false, true]);
        follow(core, &line(false, true));
        assert_eq!(so_far(), [true, false, true, false]);
    }
}
