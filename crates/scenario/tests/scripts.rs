//! Threads of rt-app that a task set cannot say, event by event.

use maracas_core::script::{Barrier, MIN_STEP, Script, Step, Timer};
use maracas_core::{Duration, Instant, Reservation};
use maracas_scenario::formats::{Format, Loads, Scripted, parse, parse_loads};

const fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}
fn of(tasks: &str) -> Scripted {
    let text = format!("{{ \"tasks\": {{ {tasks} }} }}");
    let read = parse_loads(&text, "x.json", None);
    let Ok(Loads::Scripts(scripted)) = read else { panic!("{tasks}: {read:?}") };
    scripted
}
/// The steps of a thread of one phase.
fn steps(script: &Script) -> &[Step] {
    assert_eq!(script.phases.len(), 1, "{script:?}");
    &script.phases[0].steps
}
fn notes_of(scripted: &Scripted, about: &str) -> Vec<String> {
    scripted.notes.iter().filter(|note| note.contains(about)).cloned().collect()
}
fn refused(tasks: &str) -> String {
    let text = format!("{{ \"tasks\": {{ {tasks} }} }}");
    parse_loads(&text, "x.json", None).expect_err(tasks).to_string()
}

#[test]
fn every_event_is_a_step() {
    let read = of(r#"
        "a": { "delay": 50, "run": 10, "runtime": 20, "sleep": 30, "lock": "m", "unlock": "m",
            "wait": { "ref": "q", "mutex": "m" }, "signal": "q", "broad": "r",
            "sync": { "ref": "r", "mutex": "n" }, "sem_post": "s", "sem_wait": "t",
            "suspend": "a", "resume": "b", "yield": "", "mem": 1000, "iorun": 1001,
            "memrun1": { "type": "chase", "size": 64, "count": 3 },
            "memrun2": { "type": "write", "size": 64, "count": 25 } },
        "b": { "suspend": "b", "run": 1 }"#);
    let wait = |condition, lock| Step::Wait { condition, lock };
    let ns = Duration::from_nanos;
    let expected = [
        Step::Run(us(10)),
        Step::Run(us(20)),
        Step::Sleep(us(30)),
        Step::Lock(0),
        Step::Unlock(0),
        wait(0, Some(0)),
        Step::Signal(0),
        Step::Broadcast(1),
        Step::Signal(1),
        wait(1, Some(1)),
        Step::Post(0),
        Step::Take(1),
        wait(2, None),
        Step::Broadcast(3),
        Step::Run(ns(100)),
        Step::Run(ns(1001)),
        Step::Run(ns(300)),
        Step::Run(ns(3)),
    ];
    assert_eq!(steps(&read.scripts.threads[0]), expected);
    assert_eq!(read.scripts.threads[0].start, Instant::ZERO + us(50));
    assert_eq!(steps(&read.scripts.threads[1]), [wait(3, None), Step::Run(us(1))]);
    assert_eq!(read.scripts.locks, ["m", "n"]);
    assert_eq!(read.scripts.conditions, ["q", "r", "a", "b"]);
    assert_eq!(read.scripts.semaphores, ["s", "t"]);
    // What none wakes is said, what one wakes is not.
    let unwoken = ["a: it waits for `t`, and no thread ever wakes it"];
    assert_eq!(notes_of(&read, "waits for `t`"), unwoken);
    assert_eq!(notes_of(&read, "waits for `a`").len(), 1);
    assert_eq!(notes_of(&read, "waits for `q`").len() + notes_of(&read, "waits for `b`").len(), 0);
    for assumed in
        ["`mem` takes a nanosecond for 10 bytes", "`iorun` takes", "and 100ns for a step"]
    {
        assert_eq!(notes_of(&read, assumed).len(), 1, "{assumed}: {:?}", read.notes);
    }
}

#[test]
fn timers_are_shared_by_their_names_but_those_called_unique() {
    let timer = |name: &str, mode: &str| {
        format!("\"timer\": {{ \"ref\": \"{name}\", \"period\": 100{mode} }}")
    };
    let (own, ours) = (timer("unique1", ""), timer("tick", ""));
    let grid = timer("tick", ", \"mode\": \"absolute\"");
    let read = of(&format!(
        "\"a\": {{ \"instance\": 2, \"resume\": \"c\", {own} }}, \"b\": {{ \"run\": 1, {ours} }},
         \"c\": {{ \"run\": 1, {grid} }}"
    ));
    let of_thread = |place: usize| {
        let step = &steps(&read.scripts.threads[place])[1];
        let Step::Timer { timer, .. } = step else { panic!("{step:?}") };
        *timer
    };
    assert_eq!([0, 1, 2, 3].map(of_thread), [0, 1, 2, 2]);
    let timer = |absolute, own| Timer { absolute, own };
    let timers = [timer(false, Some(0)), timer(false, Some(1)), timer(true, None)];
    assert_eq!(read.scripts.timers, timers);
    assert_eq!(read.names, ["a-0", "a-1", "b", "c"]);
    // A timer that two threads share is no period of either.
    assert_eq!(read.reservations[2..], [None, None]);
}

#[test]
fn a_barrier_counts_its_threads_and_a_fork_has_threads_to_start() {
    let read = of(r#"
        "a": { "instance": 2, "run": 1, "barrier": "x" },
        "b": { "instance": 0, "run": 1, "barrier": "x" },
        "c": { "loop": 1, "phases": { "p": { "loop": 3, "barrier": "x", "fork": "b" } } }"#);
    let barrier = Barrier { name: "x".into(), threads: 3 };
    assert_eq!(read.scripts.barriers, [barrier]);
    let names = ["a-0", "a-1", "c", "b-fork0", "b-fork1", "b-fork2"];
    assert_eq!(read.names, names);
    assert_eq!(steps(&read.scripts.threads[2])[1], Step::Fork(vec![3, 4, 5]));
    let forked: Vec<bool> = read.scripts.threads.iter().map(|script| script.forked).collect();
    assert_eq!(forked, [false, false, false, true, true, true]);
    // For ever is often: as many as run at one time.
    let read = of(r#""a": { "run": 1, "sleep": 9, "fork": "a" }"#);
    assert_eq!(read.names.len(), 1 + 8);
}

#[test]
fn loops_are_those_of_rt_app() {
    let of_loops = |task: &str| {
        let read = of(&format!("\"a\": {{ {task} }}, \"b\": {{ \"suspend\": \"\" }}"));
        let script = &read.scripts.threads[0];
        (script.phases.iter().map(|phase| phase.loops).collect::<Vec<_>>(), script.loops)
    };
    assert_eq!(of_loops("\"run\": 1"), (vec![Some(1)], None));
    assert_eq!(of_loops("\"run\": 1, \"loop\": 7"), (vec![Some(7)], Some(1)));
    assert_eq!(of_loops("\"run\": 1, \"loop\": -1"), (vec![None], Some(1)));
    let phases = "\"phases\": { \"p\": { \"run\": 1, \"loop\": 3 }, \"q\": { \"run\": 1 } }";
    assert_eq!(of_loops(phases), (vec![Some(3), Some(1)], None));
    let twice = format!("\"loop\": 2, {phases}");
    assert_eq!(of_loops(&twice), (vec![Some(3), Some(1)], Some(2)));
    let never = format!("\"loop\": 0, {phases}");
    assert_eq!(of_loops(&never), (vec![Some(3), Some(1)], Some(0)));
}

#[test]
fn a_thread_with_one_period_has_it_and_what_it_does_within() {
    let of_task = |task: &str| {
        let other = "\"other\": { \"suspend\": \"other\", \"run\": 1 }";
        let read = of(&format!("\"a\": {{ {task} }}, {other}"));
        assert_eq!(read.reservations[1], None);
        read.reservations[0]
    };
    let is = |c, t| Some(Reservation::implicit(c, us(t)));
    let timer = "\"timer\": { \"ref\": \"unique\", \"period\": 1000 }";
    assert_eq!(of_task(&format!("\"run\": 300, {timer}")), is(us(300), 1000));
    // Work before the loop ends and after it begins is one job.
    let wraps = "\"phases\": { \"p\": { TIMER, \"run\": 200 }, \"q\": { \"run\": 300 } }";
    assert_eq!(of_task(&wraps.replace("TIMER", timer)), is(us(500), 1000));
    // Acting takes a moment where it does not come after work.
    assert_eq!(of_task(&format!("\"resume\": \"other\", {timer}")), is(MIN_STEP, 1000));
    let locks = format!("\"lock\": \"m\", \"run\": 300, \"unlock\": \"m\", {timer}");
    assert_eq!(of_task(&locks), is(us(300) + MIN_STEP * 2, 1000));
    // What only works is passed through as often as its loop says, and what does nothing as well.
    let loops = |times: &str, step: &str| {
        format!("\"phases\": {{ \"p\": {{ \"loop\": {times}, {step} }}, \"q\": {{ {timer} }} }}")
    };
    assert_eq!(of_task(&loops("5", "\"run\": 100")), is(us(500), 1000));
    assert_eq!(of_task(&loops("5", "\"resume\": \"other\"")), is(MIN_STEP * 5, 1000));
    let both = "\"run\": 100, \"lock\": \"m\", \"unlock\": \"m\"";
    assert_eq!(of_task(&loops("3", both)), is(us(300) + MIN_STEP * 3, 1000));
    let days = "\"run\": 8640000000000";
    assert_eq!(of_task(&loops("4294967295", days)), None);
    assert_eq!(
        of_task(&format!("\"run0\": 0, \"run1\": 300, {timer}")),
        is(us(300) + MIN_STEP, 1000)
    );
    // A sleep after the same work each time.
    let slept = "\"phases\": { \"p\": { \"run\": 20 }, \"q\": { \"sleep\": 30 } }";
    assert_eq!(of_task(slept), is(us(20), 50));
    // None: two periods, sleeps of two lengths, another's wake, too much work, none at all.
    let other = "\"timer2\": { \"ref\": \"unique2\", \"period\": 999 }";
    for none in [
        &format!("\"run\": 1, {timer}, \"run2\": 1, {other}"),
        "\"run\": 1, \"sleep\": 5, \"run2\": 1, \"sleep2\": 6",
        "\"run\": 1, \"suspend\": \"a\"",
        &format!("\"run\": 2000, \"resume\": \"a\", {timer}"),
        "\"run\": 1",
    ] {
        assert_eq!(of_task(none), None, "{none}");
    }
    let reserved =
        "\"policy\": \"SCHED_DEADLINE\", \"dl-runtime\": 2, \"dl-period\": 9, \"run\": 1";
    assert_eq!(of_task(reserved), is(us(2), 9));
}

#[test]
fn a_suspend_without_a_value_and_one_of_another_name_are_read_as_they_once_were() {
    let text = "{ \"tasks\": {
        \"a\": { \"suspend\", \"run\": 1, \"suspend\" },
        \"b\": { \"suspend\": \"group\", \"run\": 1 },
        \"c\": { \"resume\": \"group\", \"resume\": \"a\", \"run\": 5, \"sleep\": 9,
                 \"suspend\": \"unknown\" } } }";
    let Ok(Loads::Scripts(read)) = parse_loads(text, "x.json", None) else { panic!("{text}") };
    let first = |thread: usize| {
        let step = &steps(&read.scripts.threads[thread])[0];
        let Step::Wait { condition, lock: None } = step else { panic!("{step:?}") };
        &read.scripts.conditions[*condition as usize]
    };
    assert_eq!((first(0).as_str(), first(1).as_str()), ("a", "group"));
    assert_eq!(steps(&read.scripts.threads[0]).len(), 3);
    assert_eq!(notes_of(&read, "no JSON").len(), 1);
    let other = notes_of(&read, "the name that stands there");
    assert!(other.len() == 1 && other[0].starts_with("b: "), "{other:?}");
    // As a value the word stays a name.
    let named = of("\"suspend\": { \"suspend\": \"suspend\", \"run\": 1 }");
    assert_eq!(named.scripts.conditions, ["suspend"]);
}

#[test]
fn a_suspend_without_a_value_may_stand_after_a_comment_and_moves_no_column() {
    let text = "{ \"tasks\": { \"a\": { // \"suspend\",
        /* {, */ \"suspend\", \"run\": 1, \"suspend\" /* } */ } } }";
    let Ok(Loads::Scripts(read)) = parse_loads(text, "x.json", None) else { panic!("{text}") };
    assert_eq!(steps(&read.scripts.threads[0]).len(), 3);
    for text in [
        "{ \"tasks\": {\n\"a\": { \"suspend\", \"run\": 1, \"suspend\", \"exec\": 1 } } }",
        "{ \"tasks\": {\n\"a\": { \"exec\": 1, \"suspend\", \"run\": 1, \"suspend\" } } }",
    ] {
        let said = parse_loads(text, "x.json", None).expect_err(text).to_string();
        let column = 1 + text.lines().nth(1).unwrap().find("\"exec\"").unwrap();
        assert!(said.starts_with(&format!("x.json:2:{column}: unknown key `exec`")), "{said}");
    }
    // In an array it is no key.
    assert!(refused("\"a\": { \"run\": [1, \"suspend\", 2] }").contains("not an array"));
}

#[test]
fn as_many_threads_as_may_be_are_read() {
    let read = of(r#""a": { "instance": 99990, "lock": "m", "resume": "b", "unlock": "m",
            "barrier": "x", "timer": { "ref": "unique", "period": 1000 } },
        "b": { "suspend": "b", "sem_wait": "s", "fork": "c" }, "c": { "instance": 0, "run": 1 }"#);
    assert_eq!((read.names.len(), read.scripts.timers.len()), (99_999, 99_990));
}

#[test]
fn what_is_forked_forks_as_often_as_it_runs_and_what_is_not_forks_nothing() {
    let read = of(r#"
        "a": { "loop": 1, "run": 1, "fork": "b" }, "b": { "instance": 0, "run": 1, "fork": "c" },
        "c": { "loop": 1, "run": 1, "fork": "d" }, "d": { "instance": 0, "run": 1 },
        "e": { "instance": 0, "run": 1, "fork": "f" }, "f": { "instance": 0, "run": 1 }"#);
    let count = |task: &str| read.names.iter().filter(|name| name.starts_with(task)).count();
    assert_eq!(["a", "b", "c", "d", "e", "f"].map(count), [1, 1, 9, 8, 0, 0]);
}

#[test]
fn what_linux_leaves_open_is_noted() {
    let read = of(r#""a": { "unlock": "m", "lock": "m", "unlock": "m", "run": 1 },
        "b": { "wait": { "ref": "q", "mutex": "m" }, "unlock": "m", "signal": "q" }"#);
    assert_eq!(notes_of(&read, "a: `unlock` without `lock`").len(), 1, "{:?}", read.notes);
    assert_eq!(notes_of(&read, "b: `wait` without `lock`").len(), 1, "{:?}", read.notes);
    assert_eq!(notes_of(&read, "without `lock`").len(), 2, "{:?}", read.notes);
    assert_eq!(notes_of(&read, "go to who came first").len(), 1);
    assert!(notes_of(&of(r#""a": { "suspend": "a" }"#), "who came first").is_empty());
}

#[test]
fn what_a_task_set_can_say_stays_one() {
    let text = "{ \"tasks\": { \"a\": { \"run\": 1, \"sleep\": 9, \"loop\": 3 } } }";
    let loads = parse_loads(text, "x.json", None).unwrap();
    assert_eq!(loads, Loads::Tasks(parse(text, "x.json", Format::RtApp).unwrap()));
}

#[test]
fn what_is_wrong_is_refused_at_its_place() {
    for (tasks, why) in [
        ("\"a\": { \"run\": 1, \"fork\": \"b\" }", "there is no task \"b\" to fork"),
        ("\"a\": { \"lock\": 1 }", "`lock` must be a string, not 1"),
        ("\"a\": { \"wait\": { \"ref\": \"q\", \"lock\": \"m\" } }", "unknown key `lock`"),
        ("\"a\": { \"mem\": -1 }", "mem -1 must be from 0 to 2147483647"),
        ("\"a\": { \"timer\": { \"ref\": \"t\" }, \"run\": 1 }", "this timer has no `period`"),
        ("\"a\": { \"memrun\": { \"type\": \"chase\" } }", "this has no `count`"),
        ("\"a\": { \"memrun\": { \"type\": \"chess\", \"count\": 1 } }", "unknown type \"chess\""),
        ("\"a\": { \"suspend\": \"a\", \"instance\": 0 }", "every task has `instance` 0"),
        ("\"a\": { \"phases\": { \"p\": { \"loop\": 1 } } }", "it does nothing"),
        ("\"a\": { \"suspend\": \"a\", \"exec\": 1 }", "unknown key `exec`"),
        ("\"a\": { \"semaphore\": \"s\" }", "unknown key `semaphore`"),
        ("\"a\": { \"phases\": { \"p\": { \"sem\": \"s\" } } }", "unknown key `sem`"),
    ] {
        let said = refused(tasks);
        assert!(said.contains(why), "{tasks}: {said}");
        assert!(said.starts_with("x.json:1:"), "{said}");
    }
}

#[test]
fn files_gone_bad_never_panic() {
    let text = r#"{ "tasks": { "a": { "instance": 2, "loop": 3, "run": 1, "lock": "m",
        "unlock": "m", "suspend", "resume": "b", "barrier": "x", "fork": "b",
        "mem": 9, "wait": { "ref": "q" },
        "timer": { "ref": "tick", "period": 10 } }, "b": { "delay": 5, "sem_post": "s" } } }"#;
    assert!(matches!(parse_loads(text, "x.json", None), Ok(Loads::Scripts(_))));
    for at in 0..text.len() {
        for replacement in ["", "9", "-", "\"", "{", "}", ","] {
            let bad = format!("{}{replacement}{}", &text[..at], &text[at + 1..]);
            if let Err(error) = parse_loads(&bad, "x.json", None) {
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }
}
